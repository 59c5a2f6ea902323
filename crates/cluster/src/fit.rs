//! Makes a node's database fit a catalog: the tables of the cluster with their columns, and what it has
//! of their rows.
//!
//! A table of the cluster is in the database twice: without rows under its own name, which says its
//! columns and defaults, and as the node's fragments ([`crate::state`]). A transaction alters both, and
//! notes in which epoch the columns became these, so that whoever reads a snapshot can tell.

use crate::coordinate::start_thread;
use crate::node::{Node, References};
use crate::peers::not_here;
use crate::state;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypostyle_error::from_datafusion;
use hypostyle_expr::time_zone::cast_within;
use hypostyle_placement::catalog::{Catalog, Column, Conversion, Layout, Table};
use hypostyle_placement::{Epoch, FragmentId};
use hypostyle_sql::identifier::quoted;
use hypostyle_storage::{
    ColumnEntry, IndexEntry, IndexSpec, NewColumn, SequenceEntry, SequenceOwner, Snapshot, TableData,
    TableEntry, Transaction,
};
use hypostyle_sync::RwLockReadGuard;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, TableId, Version};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The name of what a node has noted of the tables that it has made.
const MADE: &str = "tables";

/// How often the database is made to fit while others write to it.
const ATTEMPTS: usize = 100;

/// A table of the cluster that a node has made in its database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    schema: String,
    name: String,
    /// The epoch in which it was altered the last time.
    altered: Epoch,
    /// The numbers of its columns, in their order.
    columns: Vec<u32>,
}

/// The tables that a node has made.
pub type AllMade = BTreeMap<TableId, Made>;

/// The tables that a node has made as of a version, and the row that says so: its table, and its position.
#[derive(Debug)]
pub(crate) struct MadeAt {
    version: Version,
    place: Option<(TableId, u64)>,
    made: Arc<AllMade>,
}

impl Made {
    fn of(table: &Table, columns: usize) -> Result<Self> {
        Ok(Self {
            schema: table.schema.clone(),
            name: table.name.clone(),
            altered: table.layout.altered,
            columns: numbers(&table.layout, columns)?,
        })
    }

    /// Returns the table without rows.
    pub fn shell<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Arc<TableData>> {
        snapshot.table(&self.schema, &self.name)
    }
}

/// Returns the numbers of a table's columns.
///
/// # Errors
/// `Corrupt` if the definition has others.
fn numbers(layout: &Layout, count: usize) -> Result<Vec<u32>> {
    if layout.columns.is_empty() {
        return Ok((0..).take(count).collect());
    }
    match layout.columns.len() == count {
        true => Ok(layout.columns.iter().map(|column| column.number).collect()),
        false => Err(Error::corrupt("the cluster's catalog numbers other columns than a table has")),
    }
}

impl Node {
    /// Keeps a catalog and the tables that fit it together, until this is dropped: whoever takes a
    /// snapshot and the catalog meanwhile has two that belong together.
    pub fn together(&self) -> RwLockReadGuard<'_, ()> {
        self.showing.read()
    }

    /// Takes a published catalog over: makes the tables that are new, alters and drops others, and
    /// shows queries the rest.
    pub(crate) fn take(&self, catalog: Arc<Catalog>) -> Result<()> {
        let _one = self.fitting.lock();
        let known = self.catalog();
        if known.as_ref().is_some_and(|known| known.epoch >= catalog.epoch) {
            return Ok(());
        }
        // The tables fit already. To look takes longer than a small statement does for all else here.
        if known.is_some_and(|known| differ_in_rows(&known, &catalog)) {
            let _alone = self.showing.write();
            self.show(catalog);
            return Ok(());
        }
        for attempt in 1.. {
            match self.fit_and_show(&catalog) {
                // Somebody has written rows meanwhile.
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => {
                    tracing::debug!(%error, "the tables of the cluster are tried again");
                }
                done => return done,
            }
        }
        Ok(())
    }

    fn fit_and_show(&self, catalog: &Arc<Catalog>) -> Result<()> {
        let _one = self.writing.lock();
        let fitting = self.fit(catalog)?;
        let _alone = self.showing.write();
        if let Some(transaction) = fitting {
            let declared = state::declared_indexes(transaction.base()).collect();
            transaction.commit()?;
            if let Err(error) = self.keep_indexes(&declared) {
                tracing::warn!(%error, "the indexes of fragments are not as they were declared");
            }
        }
        self.show(catalog.clone());
        Ok(())
    }

    /// Returns the transaction that makes the database fit a catalog, if it does not.
    fn fit(&self, catalog: &Catalog) -> Result<Option<Transaction>> {
        let before = self.made(&*self.database().snapshot()?)?;
        let to_make = to_make(&before, catalog);
        let all_exist = before.keys().all(|id| catalog.table(*id).is_some());
        if all_exist && to_make.is_empty() {
            return Ok(None);
        }
        let mut transaction = self.database().begin(self.threads())?.of_statements();
        let base = transaction.base().clone();
        let (mut made, mut owned) = (AllMade::clone(&before), BTreeMap::new());
        let mut gone = BTreeSet::new();
        // All that go, before there are others of their names.
        for (id, known) in before.iter() {
            let table = catalog.table(*id);
            if table.is_some_and(|table| !to_make.contains(&table.id)) {
                continue;
            }
            if let Some(shell) = known.shell(&base) {
                if table.is_some() {
                    owned.insert(*id, disown(&mut transaction, known, shell.entry())?);
                }
                transaction.drop_table(shell.entry().id)?;
            }
            if table.is_none() {
                gone.extend(fragments(&base, *id));
                made.remove(id);
            }
        }
        state::drop_fragments(&mut transaction, &gone)?;
        let mut references = Vec::new();
        let to_make: Vec<&Table> =
            catalog.tables.iter().filter(|table| to_make.contains(&table.id)).collect();
        for table in &to_make {
            let (shell, of_table) = self.make_shell(&mut transaction, table)?;
            references.push(of_table);
            let new = Made::of(table, shell.columns.len())?;
            let sequences = owned.remove(&table.id).unwrap_or_default();
            own(&mut transaction, (&new, &table.layout), sequences)?;
            made.insert(table.id, new);
        }
        references.into_iter().try_for_each(|of_table| of_table(&mut transaction))?;
        for table in to_make {
            let (Some(known), Some(new)) = (before.get(&table.id), made.get(&table.id)) else { continue };
            let shell = shell_of(&transaction, table)?;
            for fragment in fragments(&base, table.id) {
                if table.layout.columns.iter().any(|column| becomes(column, &known.columns).is_some()) {
                    let own = catalog.replica(fragment, self.id());
                    let positions = own.map_or(0, |replica| replica.positions);
                    delete_unseen(&mut transaction, &base, fragment, positions)?;
                }
                let numbers = (known.columns.as_slice(), new.columns.as_slice());
                alter_fragment(&mut transaction, fragment, numbers, &shell, &table.layout)?;
            }
        }
        state::store(&mut transaction, MADE, &made)?;
        Ok(Some(transaction))
    }

    /// Builds the indexes of fragments that were declared since, and removes those that are declared no more,
    /// beside whatever else the node does: rows are found without them, too.
    fn keep_indexes(&self, before: &HashSet<IndexSpec>) -> Result<()> {
        let snapshot = self.database().snapshot()?;
        let declared: HashSet<IndexSpec> = state::declared_indexes(&snapshot).collect();
        let gone: Vec<IndexSpec> = before.difference(&declared).cloned().collect();
        let new: Vec<IndexSpec> = declared.difference(before).cloned().collect();
        if gone.is_empty() && new.is_empty() {
            return Ok(());
        }
        start_thread("hypostyle-index", move || {
            let is_there = |spec: &&IndexSpec| snapshot.table_by_id(spec.table).is_some();
            let dropped = gone.iter().filter(is_there).try_for_each(|spec| snapshot.drop_index(spec));
            let built = new.iter().try_for_each(|spec| snapshot.build_index(spec, || Ok(())).map(drop));
            if let Err(error) = dropped.and(built) {
                tracing::warn!(%error, "the indexes of fragments are not as they were declared");
            }
        })
    }

    /// Makes a table without rows, and returns it, and what gives it its foreign keys, indexes and comments.
    fn make_shell(
        &self,
        transaction: &mut Transaction,
        table: &Table,
    ) -> Result<(Arc<TableEntry>, References)> {
        let (schema, name) = (table.schema.as_str(), table.name.as_str());
        let catalog = transaction.catalog();
        // A table of the same name that is not of the cluster is nobody's to replace.
        if catalog.table(schema, name).is_some() || catalog.view(schema, name).is_some() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "node \"{}\" has a table or view {}.{} of its own, which the cluster has, too: rename or drop it",
                    self.name(),
                    quoted(schema),
                    quoted(name)
                ),
            ));
        }
        if !catalog.has_schema(schema) {
            transaction.create_schema(schema)?;
        }
        let (definition, additions) = (&table.definition, &table.additions);
        let references = self.host()?.make_table(transaction, (schema, name), definition, additions)?;
        Ok((shell_of(transaction, table)?, references))
    }

    /// Returns the tables that the node has made, as a snapshot has them.
    ///
    /// # Errors
    /// `Corrupt` if they cannot be read.
    pub(crate) fn made(&self, snapshot: &Snapshot) -> Result<Arc<AllMade>> {
        let mut known = self.made_at.lock();
        let version = snapshot.version();
        if let Some(known) = known.as_ref().filter(|known| known.version == version) {
            return Ok(known.made.clone());
        }
        // Each append makes a version, and hardly any of them makes a table.
        let place = self.stored.place(snapshot, MADE)?;
        let same = known.take().filter(|known| place.is_some() && known.place == place);
        let made = match same {
            Some(known) => known.made,
            None => Arc::new(state::load::<AllMade>(snapshot, MADE)?.unwrap_or_default()),
        };
        *known = Some(MadeAt { version, place, made: made.clone() });
        Ok(made)
    }

    /// Returns a table as a snapshot has it, if its columns are those of an epoch.
    ///
    /// # Errors
    /// `Conflict` (55000) if they are not: the node is behind, or the table was altered since.
    pub(crate) fn made_in(&self, snapshot: &Snapshot, id: TableId, altered: Epoch) -> Result<Made> {
        match self.made(snapshot)?.get(&id) {
            Some(made) if made.altered == altered => Ok(made.clone()),
            Some(made) => Err(not_here(format!(
                "node \"{}\" has table {}.{} as it was altered in epoch {}, not in {altered}",
                self.name(),
                quoted(&made.schema),
                quoted(&made.name),
                made.altered
            ))),
            None => Err(not_here(format!("node \"{}\" does not know table {id}", self.name()))),
        }
    }

    /// Checks that a catalog has a table as a snapshot has it.
    ///
    /// # Errors
    /// As [`Self::made_in`].
    pub fn check_columns(&self, snapshot: &Snapshot, catalog: &Catalog, id: TableId) -> Result<()> {
        let altered = catalog.table(id).map_or(Epoch(0), |table| table.layout.altered);
        self.made_in(snapshot, id, altered).map(drop)
    }
}

/// Returns a table without rows that a transaction has made.
fn shell_of(transaction: &Transaction, table: &Table) -> Result<Arc<TableEntry>> {
    let made = transaction.catalog().table(&table.schema, &table.name).cloned();
    made.ok_or_else(|| Error::internal("a table of the cluster that was not made"))
}

fn fits(made: &Made, table: &Table) -> bool {
    made.altered >= table.layout.altered
}

/// Returns the tables that are to be made, or made anew. Foreign keys lead to tables by numbers of the node's
/// own, so that those of tables which are made anew are, too.
fn to_make(made: &AllMade, catalog: &Catalog) -> BTreeSet<TableId> {
    let is_other = |table: &&Table| !made.get(&table.id).is_some_and(|made| fits(made, table));
    let mut found: BTreeSet<TableId> = catalog.tables.iter().filter(is_other).map(|table| table.id).collect();
    let mut next: Vec<TableId> = found.iter().copied().collect();
    while let Some(id) = next.pop() {
        next.extend(catalog.referring(id).map(|table| table.id).filter(|id| found.insert(*id)));
    }
    found
}

/// Says whether two catalogs have the same nodes, and the same tables with the same columns.
pub(crate) fn differ_in_rows(one: &Catalog, other: &Catalog) -> bool {
    let is_same = |(one, other): (&Table, &Table)| {
        (one.id, one.layout.altered, one.fragments.len())
            == (other.id, other.layout.altered, other.fragments.len())
    };
    (one.term, one.coordinator) == (other.term, other.coordinator)
        && one.nodes == other.nodes
        && one.tables.len() == other.tables.len()
        && one.tables.iter().zip(&other.tables).all(is_same)
}

/// Returns the fragments of a table that a database has rows of.
fn fragments(snapshot: &Snapshot, table: TableId) -> Vec<FragmentId> {
    state::fragments(snapshot).filter(|id| id.table == table).collect()
}

/// Takes from a table without rows the sequences of the node that belong to its columns, so that they
/// outlive it, and returns them with the numbers of the columns. Those of identity columns are made with the
/// table.
fn disown(
    transaction: &mut Transaction,
    made: &Made,
    shell: &TableEntry,
) -> Result<Vec<(SequenceEntry, Option<u32>)>> {
    let is_of_identity = |sequence: &&SequenceEntry| {
        let column = sequence.owner.and_then(|owner| shell.column_by_id(owner.column));
        column.is_some_and(|column| column.identity.is_some())
    };
    let owned = transaction.catalog().owned_sequences(shell.id).filter(|sequence| !is_of_identity(sequence));
    let owned: Vec<SequenceEntry> = owned.cloned().collect();
    let mut disowned = Vec::new();
    for sequence in owned {
        let of_column = |column: &ColumnEntry| sequence.owner.is_some_and(|owner| owner.column == column.id);
        let place = shell.columns.iter().position(of_column);
        let number = place.and_then(|place| made.columns.get(place)).copied();
        let sequence = SequenceEntry { owner: None, ..sequence };
        transaction.alter_sequence(sequence.clone(), None)?;
        disowned.push((sequence, number));
    }
    Ok(disowned)
}

/// Gives a table without rows the sequences of its columns back. Those of columns that are gone go, too.
fn own(
    transaction: &mut Transaction,
    (made, layout): (&Made, &Layout),
    sequences: Vec<(SequenceEntry, Option<u32>)>,
) -> Result<()> {
    for (sequence, number) in sequences {
        let converted = |column: &Column| number.is_some_and(|own| becomes(column, &[own]).is_some());
        let place = made.columns.iter().position(|own| Some(*own) == number);
        let place = place.or_else(|| layout.columns.iter().position(converted));
        let shell = transaction.catalog().table(&made.schema, &made.name);
        let owner = shell.zip(place).and_then(|(shell, place)| {
            Some(SequenceOwner { table: shell.id, column: shell.columns.get(place)?.id })
        });
        match owner {
            Some(_) => transaction.alter_sequence(SequenceEntry { owner, ..sequence }, None)?,
            None => transaction.drop_sequence(&sequence.schema, &sequence.name)?,
        }
    }
    Ok(())
}

/// Gives the rows of a fragment the columns that their table has now, of those that it had, and its indexes.
fn alter_fragment(
    transaction: &mut Transaction,
    fragment: FragmentId,
    (had, has): (&[u32], &[u32]),
    shell: &TableEntry,
    layout: &Layout,
) -> Result<()> {
    let columns = &shell.columns;
    let Some(entry) = transaction.catalog().table(state::SCHEMA, &state::fragment_table(fragment)).cloned()
    else {
        return Ok(());
    };
    let is_same =
        |(old, new): (&ColumnEntry, &ColumnEntry)| (&old.name, old.nullable) == (&new.name, new.nullable);
    if had == has
        && entry.columns.iter().zip(columns).all(is_same)
        && entry.indexes == indexes_of(shell, &entry.columns)
    {
        return Ok(());
    }
    let mut numbers = had.to_vec();
    for ((number, column), new) in has.iter().zip(&layout.columns).zip(columns) {
        if had.contains(number) {
            continue;
        }
        if let Some(conversions) = becomes(column, had) {
            let gone = || Error::corrupt(format!("fragment {fragment} lacks column \"{}\"", new.name));
            let from = conversions.first().map(|first| first.from);
            let place = had.iter().position(|old| Some(*old) == from).ok_or_else(gone)?;
            let old = entry.columns.get(place).ok_or_else(gone)?;
            for Conversion { to, .. } in conversions {
                transaction.convert_column(entry.id, &old.name, to.clone(), |values| cast(values, to))?;
            }
            if let Some(own) = numbers.get_mut(place) {
                *own = *number;
            }
            continue;
        }
        let filling = column.filling.as_deref().map(filling_of).transpose()?;
        let filling =
            filling.ok_or_else(|| Error::corrupt("the cluster's catalog has no value of a new column"))?;
        // Another one of its name may go in this alteration.
        let is_free = |name: &String| entry.columns.iter().all(|column| column.name != *name);
        let name = (0_u64..).map(|count| format!("__new_{number}_{count}")).find(is_free).unwrap_or_default();
        let added = NewColumn::new(name, new.logical_type.clone(), new.nullable);
        transaction.add_column(entry.id, added, false, |rows| repeated(&filling, rows.num_rows()))?;
        numbers.push(*number);
    }
    transaction.alter_table(entry.id, |table| {
        let mut old: BTreeMap<u32, ColumnEntry> =
            numbers.into_iter().zip(std::mem::take(&mut table.columns)).collect();
        for (number, new) in has.iter().zip(columns) {
            let gone = || Error::corrupt(format!("fragment {fragment} lacks column \"{}\"", new.name));
            let column = old.remove(number).ok_or_else(gone)?;
            table.columns.push(ColumnEntry { name: new.name.clone(), nullable: new.nullable, ..column });
        }
        table.indexes = indexes_of(shell, &table.columns);
        Ok(())
    })
}

/// Returns the indexes of a fragment with some columns, which are in the places of those of its table.
fn indexes_of(shell: &TableEntry, columns: &[ColumnEntry]) -> Vec<IndexEntry> {
    state::indexes_like(shell, |place| columns.get(place).map(|column| column.id))
}

/// Returns by which steps a column that has another number becomes a column, if it is one that this was
/// before.
fn becomes<'a>(column: &'a Column, had: &[u32]) -> Option<&'a [Conversion]> {
    if had.contains(&column.number) {
        return None;
    }
    let first = column.conversions.iter().rposition(|conversion| had.contains(&conversion.from))?;
    column.conversions.get(first..)
}

/// Deletes in a transaction the rows of a fragment that nobody sees who knows so many positions: those that
/// were deleted by a statement, or never published. Their values need not be some of another type; and
/// whoever reads an earlier state is refused once the table has it.
fn delete_unseen(
    transaction: &mut Transaction,
    base: &Snapshot,
    fragment: FragmentId,
    positions: u64,
) -> Result<()> {
    let Some(table) = state::fragment(base, fragment) else { return Ok(()) };
    let seen = state::seen(base, &table, fragment, positions)?;
    let unseen = seen.deleted() - table.deleted();
    match unseen.is_empty() {
        true => Ok(()),
        false => transaction.delete(table.entry().id, &unseen).map(drop),
    }
}

/// Casts values to a type, as queries do. No cast that depends on a time zone is published.
fn cast(values: &ArrayRef, to: &LogicalType) -> Result<ArrayRef> {
    let zone: Arc<str> = "UTC".into();
    cast_within(values, &to.arrow_field("", true), &zone).map_err(|error| from_datafusion(error.into()))
}

/// Returns the column that another one becomes by another type, with another number.
///
/// # Errors
/// Those of casting its value in the rows that were there before it; `Corrupt` if this is none.
pub fn converted_column(before: Column, number: u32, to: &LogicalType) -> Result<Column> {
    let filling = before.filling.as_deref().map(filling_of).transpose()?;
    let filling = filling.map(|value| new_column(number, &cast(&value, to)?)).transpose()?;
    let mut conversions = before.conversions;
    conversions.push(Conversion { from: before.number, to: to.clone() });
    Ok(Column { number, filling: filling.and_then(|column| column.filling), conversions })
}

fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    take(value, &UInt32Array::from(vec![0; rows]), None)
        .map_err(|error| Error::internal(format!("cannot fill a new column: {error}")))
}

/// Returns the column of a catalog whose value in the rows that are there is the first of an array.
///
/// # Errors
/// `Internal`, which no array leads to.
pub fn new_column(number: u32, value: &ArrayRef) -> Result<Column> {
    let failed = |error| Error::internal(format!("cannot send the value of a new column: {error}"));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("value", value.slice(0, 1), true)]).map_err(failed)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(failed)?;
    writer.write(&batch).map_err(failed)?;
    let bytes = writer.into_inner().map_err(failed)?;
    Ok(Column { filling: Some(STANDARD.encode(bytes)), ..Column::new(number) })
}

/// Returns the value of a new column, as an array of one row.
///
/// # Errors
/// `Corrupt` for what is none.
fn filling_of(text: &str) -> Result<ArrayRef> {
    let corrupt = |error: &dyn std::fmt::Display| {
        Error::corrupt(format!("the value of a new column in the cluster's catalog: {error}"))
    };
    let bytes = STANDARD.decode(text).map_err(|error| corrupt(&error))?;
    let mut reader = StreamReader::try_new(bytes.as_slice(), None).map_err(|error| corrupt(&error))?;
    let batch = reader.next().ok_or_else(|| corrupt(&"there is none"))?.map_err(|error| corrupt(&error))?;
    match batch.columns() {
        [value] if value.len() == 1 => Ok(value.clone()),
        _ => Err(corrupt(&"it is not one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, StringArray};

    #[test]
    fn a_node_that_was_away_takes_the_steps_that_it_lacks() {
        let value: ArrayRef = Arc::new(StringArray::from(vec![Some("7")]));
        let first = new_column(3, &value).unwrap();
        let second = converted_column(first, 4, &LogicalType::Integer).unwrap();
        let third = converted_column(second, 6, &LogicalType::Varchar).unwrap();
        assert_eq!(third.number, 6);
        let steps = |had: &[u32]| -> Option<Vec<u32>> {
            becomes(&third, had).map(|steps| steps.iter().map(|step| step.from).collect())
        };
        assert_eq!(steps(&[0, 3]), Some(vec![3, 4]));
        assert_eq!(steps(&[0, 4]), Some(vec![4]));
        assert_eq!(steps(&[0, 6]), None, "it has it");
        assert_eq!(steps(&[0, 1]), None, "it has none of them");
        let filling = cast(&filling_of(third.filling.as_deref().unwrap()).unwrap(), &LogicalType::Integer);
        assert_eq!(filling.unwrap().as_primitive::<arrow::datatypes::Int32Type>().value(0), 7);
        let bad = new_column(3, &(Arc::new(StringArray::from(vec!["x"])) as ArrayRef)).unwrap();
        assert!(converted_column(bad, 4, &LogicalType::Integer).is_err());
    }

    #[test]
    fn the_value_of_a_new_column_travels_as_text() {
        let value: ArrayRef = Arc::new(StringArray::from(vec![Some("ä\"")]));
        let column = new_column(3, &value).unwrap();
        let filling = filling_of(column.filling.as_deref().unwrap()).unwrap();
        assert_eq!((column.number, filling.as_string::<i32>().value(0)), (3, "ä\""));
        assert_eq!(repeated(&filling, 3).unwrap().len(), 3);
        for bad in ["", "?", "AAAA", "ÿ"] {
            assert_eq!(filling_of(bad).unwrap_err().kind(), ErrorKind::Corrupt, "{bad}");
        }
    }
}
