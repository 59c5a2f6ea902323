//! What a node stores about its cluster in its own database.

use crate::history;
use arrow::array::{ArrayRef, AsArray, LargeBinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use hypostyle_placement::{FragmentId, Life};
use hypostyle_storage::{
    Database, IndexEntry, IndexSpec, NewColumn, Snapshot, TableData, TableEntry, Transaction,
};
use hypostyle_sync::Mutex;
use hypostyle_types::{ColumnId, Error, LogicalType, Result, TableId, Version};
use roaring::RoaringTreemap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The schema of what a node has of its cluster. Statements cannot change it.
pub const SCHEMA: &str = "hypostyle_cluster";

/// The beginning of the names of tables, in this schema, that stand for the sequences of the cluster; behind
/// it are the schema and the name of the sequence. Such a table has no rows, and one column, which counts.
pub const SEQUENCE: &str = "sequence ";

/// The table with one row for each thing that is known: its name, and its value as JSON.
const STATE: &str = "state";

/// The table is made anew when it has so many rows more of what is forgotten than of what is there.
const FORGOTTEN_MIN: u64 = 4096;

/// Rows that are read at a time.
const READ_ROWS: usize = 64 * 1024;

/// Returns the name of the table that has a node's rows of a fragment.
pub fn fragment_table(fragment: FragmentId) -> String {
    format!("t{}_f{}", fragment.table, fragment.number)
}

/// Returns the name of the table that says which of these rows are deleted: for readers of how many
/// positions, and which. Earlier readers still see them.
pub fn deletions_table(fragment: FragmentId) -> String {
    format!("{}_deleted", fragment_table(fragment))
}

/// Returns the fragment whose rows a table has.
fn fragment_of(table: &str) -> Option<FragmentId> {
    let (table, number) = table.strip_prefix('t')?.split_once("_f")?;
    Some(FragmentId { table: TableId(table.parse().ok()?), number: number.parse().ok()? })
}

/// Returns the fragments that a database has rows of.
pub fn fragments(snapshot: &Snapshot) -> impl Iterator<Item = FragmentId> + '_ {
    let tables = snapshot.catalog().tables.iter().filter(|table| table.schema == SCHEMA);
    tables.filter_map(|table| fragment_of(&table.name))
}

/// Returns the names of what is in the schema and is not the node's: it was made before this was refused.
pub fn strangers(snapshot: &Snapshot) -> Result<Vec<String>> {
    let stored: BTreeSet<String> = match snapshot.table(SCHEMA, STATE) {
        Some(table) => find(table, |_| true)?.into_iter().map(|(_, name)| name).collect(),
        None => BTreeSet::new(),
    };
    let is_replica = |name: &str| {
        let fragment = fragment_of(name.strip_suffix("_deleted").unwrap_or(name));
        fragment.is_some_and(|fragment| stored.contains(&replica(fragment)))
    };
    let catalog = snapshot.catalog();
    let tables = catalog.tables.iter().filter(|table| table.schema == SCHEMA).map(|table| &table.name);
    let is_of_catalogs = |name: &str| {
        let table = snapshot.table(SCHEMA, name).filter(|_| name == history::TABLE);
        table.is_some_and(|table| history::is_of_catalogs(table))
    };
    let is_of_node = |name: &str| name == STATE || name.starts_with(SEQUENCE);
    let tables = tables.filter(|name| !is_of_node(name) && !is_replica(name) && !is_of_catalogs(name));
    let views = catalog.views.iter().filter(|view| view.schema == SCHEMA).map(|view| &view.name);
    let sequences = catalog.sequences.iter().filter(|of| of.schema == SCHEMA).map(|of| &of.name);
    Ok(tables.chain(views).chain(sequences).cloned().collect())
}

/// Returns the name of what is stored about a node's replica of a fragment.
pub fn replica(fragment: FragmentId) -> String {
    format!("replica {}", fragment_table(fragment))
}

/// Returns a value that is stored.
///
/// # Errors
/// `Corrupt` for what is no such value.
pub fn load<T: DeserializeOwned>(snapshot: &Snapshot, name: &str) -> Result<Option<T>> {
    Ok(load_all(snapshot, &BTreeSet::from([name.to_string()]))?.remove(name))
}

/// Returns those of some values that are stored, by their names. No others are read.
///
/// # Errors
/// `Corrupt` for what is no such value.
pub fn load_all<T: DeserializeOwned>(
    snapshot: &Snapshot,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, T>> {
    let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(BTreeMap::new()) };
    let (positions, found): (Vec<u64>, Vec<String>) =
        find(table, |name| names.contains(name))?.into_iter().unzip();
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let columns = table.rows_at(&[1], &UInt64Array::from(positions), 1)?;
    let [values] = columns.as_slice() else { return Err(Error::internal("rows of one column")) };
    let values = text(values)?;
    let named = found.into_iter().zip(values.iter());
    named.map(|(name, value)| decode(&name, value.unwrap_or_default()).map(|value| (name, value))).collect()
}

fn decode<T: DeserializeOwned>(name: &str, value: &str) -> Result<T> {
    serde_json::from_str(value).map_err(|error| {
        Error::corrupt(format!("what is stored about the cluster as '{name}' cannot be read: {error}"))
    })
}

/// What was read of the values that a database has stored: of those that were stored since, the next reader
/// reads no others. A row keeps its name and its value for as long as there is its table.
#[derive(Debug, Default)]
pub struct Known(Mutex<Read>);

#[derive(Debug, Default)]
struct Read {
    /// The table of the rows.
    table: Option<TableId>,
    /// The latest snapshot by which they were read, and how many positions the table had then.
    version: Version,
    positions: u64,
    /// The last row of each name: its position and its value.
    rows: BTreeMap<String, (u64, String)>,
}

impl Read {
    /// Reads the rows of a snapshot that are behind those which were read.
    fn go_on(&mut self, snapshot: &Snapshot, table: &TableData) -> Result<()> {
        if self.table != Some(table.entry().id) {
            *self = Self { table: Some(table.entry().id), ..Self::default() };
        }
        if table.positions() > self.positions {
            self.read(table, &positions_of(table, self.positions..table.positions()))?;
            self.positions = table.positions();
            // Those of fragments that are gone are forgotten some time.
            if self.rows.len() as u64 > table.rows().saturating_mul(2).saturating_add(FORGOTTEN_MIN) {
                self.rows.retain(|_, (position, _)| !table.deleted().contains(*position));
            }
        }
        self.version = self.version.max(snapshot.version());
        Ok(())
    }

    fn read(&mut self, table: &TableData, positions: &UInt64Array) -> Result<()> {
        if positions.values().is_empty() {
            return Ok(());
        }
        let columns = table.rows_at(&[0, 1], positions, 1)?;
        let [names, values] = columns.as_slice() else { return Err(Error::internal("rows of two columns")) };
        let (names, values) = (text(names)?, text(values)?);
        for ((position, name), value) in positions.values().iter().zip(names.iter()).zip(values.iter()) {
            let row = (*position, value.unwrap_or_default().to_string());
            self.rows.insert(name.unwrap_or_default().to_string(), row);
        }
        Ok(())
    }

    /// Returns the row that a snapshot has of a name; the outer `None` if that is not known, because the
    /// snapshot is of before.
    fn row(&self, snapshot: &Snapshot, table: &TableData, name: &str) -> Option<Option<&(u64, String)>> {
        let is_there = |row: &&(u64, String)| row.0 < table.positions() && !table.deleted().contains(row.0);
        match self.rows.get(name).filter(is_there) {
            Some(row) => Some(Some(row)),
            None => (snapshot.version() >= self.version).then_some(None),
        }
    }
}

impl Known {
    /// Does what [`load_all`] does.
    ///
    /// # Errors
    /// Those of [`load_all`].
    pub fn load_all<T: DeserializeOwned>(
        &self,
        snapshot: &Snapshot,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, T>> {
        match self.rows(snapshot, names)? {
            Some(found) => {
                let found = found.into_iter();
                found.map(|(name, (_, value))| decode(&name, &value).map(|value| (name, value))).collect()
            }
            None => load_all(snapshot, names),
        }
    }

    /// Does what [`store_all`] does, as the first in its transaction that stores values.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn store_all<T: Serialize>(
        &self,
        transaction: &mut Transaction,
        values: &BTreeMap<String, T>,
    ) -> Result<()> {
        let base = transaction.base().clone();
        let names = values.keys().cloned().collect();
        let (Some(table), Some(found)) = (base.table(SCHEMA, STATE), self.rows(&base, &names)?) else {
            return store_all(transaction, values);
        };
        if values.is_empty() {
            return Ok(());
        }
        delete(transaction, table, &found.into_values().map(|(position, _)| position).collect())?;
        append_values(transaction, table.entry().id, values)
    }

    /// Returns the table and the position of the row that a snapshot has of a name; `None` if there is none,
    /// or if that is not known.
    ///
    /// # Errors
    /// Those of reading what was stored.
    pub fn place(&self, snapshot: &Snapshot, name: &str) -> Result<Option<(TableId, u64)>> {
        let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(None) };
        let mut read = self.0.lock();
        read.go_on(snapshot, table)?;
        Ok(read.row(snapshot, table, name).flatten().map(|row| (table.entry().id, row.0)))
    }

    /// Returns the rows that a snapshot has of some names; `None` if that is not known of all.
    fn rows(
        &self,
        snapshot: &Snapshot,
        names: &BTreeSet<String>,
    ) -> Result<Option<BTreeMap<String, (u64, String)>>> {
        let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(Some(BTreeMap::new())) };
        let mut read = self.0.lock();
        read.go_on(snapshot, table)?;
        let mut found = BTreeMap::new();
        for name in names {
            match read.row(snapshot, table, name) {
                Some(Some(row)) => drop(found.insert(name.clone(), row.clone())),
                Some(None) => {}
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }
}

/// Stores a value in a transaction, in the place of the one before.
pub fn store(transaction: &mut Transaction, name: &str, value: &impl Serialize) -> Result<()> {
    store_all(transaction, &BTreeMap::from([(name.to_string(), value)]))
}

/// Stores values in a transaction, by their names, in the places of those before.
pub fn store_all<T: Serialize>(transaction: &mut Transaction, values: &BTreeMap<String, T>) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let id = ensure(transaction)?;
    forget_all(transaction, |name| values.contains_key(name))?;
    append_values(transaction, id, values)
}

/// Appends values to the table of what is stored, by their names.
fn append_values<T: Serialize>(
    transaction: &mut Transaction,
    id: TableId,
    values: &BTreeMap<String, T>,
) -> Result<()> {
    let written = values.iter().map(|(name, value)| {
        serde_json::to_string(value)
            .map_err(|error| Error::internal(format!("cannot write what is stored as '{name}': {error}")))
    });
    let texts = written.collect::<Result<Vec<String>>>()?;
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(values.keys())),
        Arc::new(StringArray::from_iter_values(texts)),
    ];
    let rows = RecordBatch::try_new(Arc::new(schema), columns)
        .map_err(|error| Error::internal(format!("cannot store what is known of the cluster: {error}")))?;
    transaction.append(id, &rows)
}

/// Forgets the values of some names in a transaction.
fn forget_all(transaction: &mut Transaction, is_gone: impl Fn(&str) -> bool) -> Result<()> {
    let snapshot = transaction.snapshot()?;
    let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(()) };
    let found = find(table, is_gone)?.into_iter().map(|(position, _)| position);
    delete(transaction, table, &found.collect())
}

/// Deletes rows of a table in a transaction, if there are any.
fn delete(transaction: &mut Transaction, table: &TableData, positions: &RoaringTreemap) -> Result<()> {
    match positions.is_empty() {
        true => Ok(()),
        false => transaction.delete(table.entry().id, positions).map(drop),
    }
}

/// Makes the table of what is stored anew if most of its rows are of values that were stored again or
/// forgotten since: nothing else gives their space back, because tables in this schema keep their positions.
/// Returns whether it was.
///
/// # Errors
/// Those of the database. The table is then as it was.
pub fn tidy(database: &Arc<Database>, threads: usize) -> Result<bool> {
    let mut transaction = database.begin(threads)?.of_statements();
    let snapshot = transaction.base().clone();
    let Some(table) = snapshot.table(SCHEMA, STATE) else { return Ok(false) };
    if table.positions() <= table.rows().saturating_mul(2).saturating_add(FORGOTTEN_MIN) {
        return Ok(false);
    }
    let rows = batch_at(table, &positions_of(table, 0..table.positions()), threads)?;
    transaction.drop_table(table.entry().id)?;
    let id = ensure(&mut transaction)?;
    transaction.append(id, &rows)?;
    transaction.commit().map(|_| true)
}

/// Makes the schema and the table, if they are missing.
fn ensure(transaction: &mut Transaction) -> Result<TableId> {
    ensure_schema(transaction)?;
    if let Some(table) = transaction.catalog().table(SCHEMA, STATE) {
        return Ok(table.id);
    }
    let columns = ["name", "value"].map(|name| NewColumn::new(name, LogicalType::Varchar, false));
    transaction.create_table(SCHEMA, STATE, columns.into())
}

/// Returns position and name of each row that is there and is wanted.
fn find(table: &TableData, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(u64, String)>> {
    let positions = positions_of(table, 0..table.positions());
    let columns = table.rows_at(&[0], &positions, 1)?;
    let [names] = columns.as_slice() else { return Err(Error::internal("rows of one column")) };
    let names = text(names)?;
    let rows = positions.values().iter().zip(names.iter());
    let wanted = rows.filter_map(|(position, name)| {
        let name = name.filter(|name| is_wanted(name))?;
        Some((*position, name.to_string()))
    });
    Ok(wanted.collect())
}

/// Returns those positions of a range whose rows are not deleted.
pub fn positions_of(table: &TableData, range: Range<u64>) -> UInt64Array {
    let deleted = table.deleted();
    range.filter(|position| !deleted.contains(*position)).collect()
}

fn text(values: &ArrayRef) -> Result<StringArray> {
    let text = arrow::compute::cast(values, &DataType::Utf8)
        .map_err(|error| Error::internal(format!("what is stored about the cluster is no text: {error}")))?;
    Ok(text.as_string::<i32>().clone())
}

/// Makes the table of a fragment like another one, for a life of the replica.
pub fn make_fragment(
    transaction: &mut Transaction,
    fragment: FragmentId,
    like: &TableData,
    life: Life,
) -> Result<()> {
    let columns = like.entry().columns.iter();
    let columns =
        columns.map(|column| NewColumn::new(&column.name, column.logical_type.clone(), column.nullable));
    let (name, comment) = (fragment_table(fragment), format!("{LIFE}{life}"));
    let indexes = indexes_like(like.entry(), |place| u32::try_from(place).ok().map(ColumnId));
    transaction.create_described_table(SCHEMA, &name, columns.collect(), (comment, indexes)).map(drop)
}

/// Returns the indexes that were declared for a table of the cluster, over the columns of a fragment:
/// `column` says which is in a place of the table's.
pub fn indexes_like(table: &TableEntry, column: impl Fn(usize) -> Option<ColumnId>) -> Vec<IndexEntry> {
    let own = |id: &ColumnId| column(table.columns.iter().position(|column| column.id == *id)?);
    let like = |index: &IndexEntry| {
        let columns = index.columns.iter().map(own).collect::<Option<_>>()?;
        Some(IndexEntry { name: index.name.clone(), kind: index.kind, columns })
    };
    table.indexes.iter().filter_map(like).collect()
}

/// Returns the indexes of fragments that were declared.
pub fn declared_indexes(snapshot: &Snapshot) -> impl Iterator<Item = IndexSpec> + '_ {
    let tables = snapshot.catalog().tables.iter().filter(|table| table.schema == SCHEMA);
    tables.flat_map(|table| table.indexes.iter().map(move |index| IndexSpec::declared(table.id, index)))
}

/// Makes the table that says which rows of a fragment are deleted.
pub fn make_deletions(transaction: &mut Transaction, fragment: FragmentId) -> Result<()> {
    let columns = vec![
        NewColumn::new("positions", LogicalType::UBigInt, false),
        NewColumn::new("deleted", LogicalType::Blob, false),
    ];
    transaction.create_table(SCHEMA, &deletions_table(fragment), columns).map(drop)
}

/// Makes the schema of what a node has of its cluster, if it is missing.
pub fn ensure_schema(transaction: &mut Transaction) -> Result<()> {
    match transaction.catalog().has_schema(SCHEMA) {
        true => Ok(()),
        false => transaction.create_schema(SCHEMA),
    }
}

/// What stands before the life of the replica in which its table was made, as a comment of the table.
const LIFE: &str = "life ";

/// Returns the life of the replica in which the table of a fragment was made; those of before had other
/// rows. A table that an earlier release has made does not tell: it may have the rows of any.
pub fn made_in_life(table: &TableData) -> Life {
    let comment = table.entry().comment.as_deref().and_then(|comment| comment.strip_prefix(LIFE));
    comment.and_then(|life| life.parse().ok()).map_or(Life(0), Life)
}

/// Returns the rows of a fragment that a node has, if it has any.
pub fn fragment(snapshot: &Snapshot, fragment: FragmentId) -> Option<Arc<TableData>> {
    snapshot.table(SCHEMA, &fragment_table(fragment)).cloned()
}

/// Returns the positions of a fragment's rows that are deleted for readers of so many positions.
///
/// # Errors
/// `Corrupt` for what is no list of positions.
fn deletions(snapshot: &Snapshot, fragment: FragmentId, positions: u64) -> Result<RoaringTreemap> {
    let mut deleted = RoaringTreemap::new();
    let Some(table) = snapshot.table(SCHEMA, &deletions_table(fragment)) else { return Ok(deleted) };
    let rows = positions_of(table, 0..table.positions());
    if rows.values().is_empty() {
        return Ok(deleted);
    }
    let columns = table.rows_at(&[0, 1], &rows, 1)?;
    let [since, lists] = columns.as_slice() else { return Err(Error::internal("rows of two columns")) };
    let lists = arrow::compute::cast(lists, &DataType::LargeBinary)
        .map_err(|error| Error::internal(format!("deleted rows of fragment {fragment}: {error}")))?;
    let entries = since.as_primitive::<UInt64Type>().values().iter().zip(lists.as_binary::<i64>());
    for (_, list) in entries.filter(|(since, _)| **since <= positions) {
        let list = RoaringTreemap::deserialize_from(list.unwrap_or_default())
            .map_err(|error| Error::corrupt(format!("deleted rows of fragment {fragment}: {error}")))?;
        deleted |= list;
    }
    Ok(deleted)
}

/// Returns the rows of a fragment that readers of so many positions see.
///
/// # Errors
/// Those of [`deletions`].
pub fn seen(
    snapshot: &Snapshot,
    table: &Arc<TableData>,
    fragment: FragmentId,
    positions: u64,
) -> Result<Arc<TableData>> {
    Ok(table.first_positions(positions).without(&deletions(snapshot, fragment, positions)?))
}

/// Notes in a transaction that rows of a fragment are deleted for readers of so many positions.
///
/// # Errors
/// `Internal` if the fragment has no table for that ([`make_deletions`]).
pub fn note_deletions(
    transaction: &mut Transaction,
    fragment: FragmentId,
    positions: u64,
    deleted: &RoaringTreemap,
) -> Result<()> {
    let table = transaction.catalog().table(SCHEMA, &deletions_table(fragment)).map(|table| table.id);
    let id = table.ok_or_else(|| Error::internal("nothing says which rows of a fragment are deleted"))?;
    let mut bytes = Vec::with_capacity(deleted.serialized_size());
    deleted
        .serialize_into(&mut bytes)
        .map_err(|error| Error::internal(format!("cannot write down deleted rows: {error}")))?;
    let row = RecordBatch::try_from_iter([
        ("positions", Arc::new(UInt64Array::from(vec![positions])) as ArrayRef),
        ("deleted", Arc::new(LargeBinaryArray::from(vec![bytes.as_slice()])) as ArrayRef),
    ]);
    let row = row.map_err(|error| Error::internal(format!("cannot write down deleted rows: {error}")))?;
    transaction.append(id, &row)
}

/// Forgets in a transaction which rows of a fragment are deleted for readers of more positions, as far as
/// others have noted that.
pub fn forget_deletions(transaction: &mut Transaction, fragment: FragmentId, positions: u64) -> Result<()> {
    let snapshot = transaction.base().clone();
    let Some(table) = snapshot.table(SCHEMA, &deletions_table(fragment)) else { return Ok(()) };
    let rows = positions_of(table, 0..table.positions());
    if rows.values().is_empty() {
        return Ok(());
    }
    let columns = table.rows_at(&[0], &rows, 1)?;
    let [since] = columns.as_slice() else { return Err(Error::internal("rows of one column")) };
    let entries = since.as_primitive::<UInt64Type>().values().iter().zip(rows.values());
    let later = entries.filter(|(since, _)| **since > positions).map(|(_, row)| *row);
    delete(transaction, table, &later.collect())
}

/// Drops in a transaction what a node has of some fragments.
pub fn drop_fragments(transaction: &mut Transaction, fragments: &BTreeSet<FragmentId>) -> Result<()> {
    if fragments.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<String> =
        fragments.iter().flat_map(|id| [fragment_table(*id), deletions_table(*id)]).collect();
    let tables = transaction.catalog().tables.iter();
    let tables = tables.filter(|table| table.schema == SCHEMA && names.contains(&table.name));
    for id in tables.map(|table| table.id).collect::<Vec<_>>() {
        transaction.drop_table(id)?;
    }
    let replicas: BTreeSet<String> = fragments.iter().map(|id| replica(*id)).collect();
    forget_all(transaction, |name| replicas.contains(name))
}

/// Returns rows of a table as batches, made as they are asked for.
pub fn batches(
    table: Arc<TableData>,
    range: Range<u64>,
    threads: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + Send {
    let starts = (range.start..range.end).step_by(READ_ROWS);
    starts.map(move |start| {
        let end = range.end.min(start + READ_ROWS as u64);
        batch_at(&table, &positions_of(&table, start..end), threads)
    })
}

/// Returns the rows of a table at some positions.
pub fn batch_at(table: &TableData, positions: &UInt64Array, threads: usize) -> Result<RecordBatch> {
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let values = table.rows_at(&columns, positions, threads)?;
    let named = table.columns().iter().zip(values);
    let named = named.map(|(column, values)| (column.entry().name.clone(), values, true));
    RecordBatch::try_from_iter_with_nullable(named)
        .map_err(|error| Error::internal(format!("cannot read rows: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(database: &Arc<Database>) -> BTreeMap<String, u64> {
        let names = (0..3000).map(|number| format!("value {number}")).collect();
        load_all(&database.snapshot().unwrap(), &names).unwrap()
    }

    #[test]
    fn values_are_stored_in_the_place_of_those_before_and_their_space_is_given_back() {
        let database = Database::in_memory().unwrap();
        assert!(!tidy(&database, 1).unwrap(), "there is nothing yet");
        for round in 0..4 {
            let stored: BTreeMap<String, u64> =
                (0..3000).map(|number| (format!("value {number}"), number + round)).collect();
            let mut transaction = database.begin(1).unwrap().of_statements();
            store_all(&mut transaction, &stored).unwrap();
            transaction.commit().unwrap();
            assert_eq!(values(&database), stored);
        }
        let positions = || database.snapshot().unwrap().table(SCHEMA, STATE).unwrap().positions();
        let before = values(&database);
        assert_eq!(positions(), 12_000);
        assert!(tidy(&database, 1).unwrap());
        assert_eq!((positions(), values(&database)), (3000, before));
        assert!(!tidy(&database, 1).unwrap(), "it was done just now");
        assert_eq!(load::<u64>(&database.snapshot().unwrap(), "value 7").unwrap(), Some(10));
        assert_eq!(load::<u64>(&database.snapshot().unwrap(), "other").unwrap(), None);
    }

    #[test]
    fn what_was_read_is_as_a_snapshot_has_it() {
        let database = Database::in_memory().unwrap();
        let (known, names) = (Known::default(), BTreeSet::from(["a", "b"].map(String::from)));
        let empty = database.snapshot().unwrap();
        assert_eq!(known.place(&empty, "a").unwrap(), None);
        let store = |values: &[(&str, u32)]| {
            let mut transaction = database.begin(1).unwrap().of_statements();
            let values = values.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            known.store_all(&mut transaction, &values).unwrap();
            transaction.commit().unwrap()
        };
        let forget = |name: &str| {
            let mut transaction = database.begin(1).unwrap().of_statements();
            forget_all(&mut transaction, |other| other == name).unwrap();
            transaction.commit().unwrap()
        };
        let mut snapshots = vec![empty, store(&[("a", 1)]), store(&[("a", 2), ("b", 1)])];
        snapshots.extend([store(&[("b", 2)]), forget("a"), store(&[("a", 3)]), forget("b")]);
        // In any order: some are of before what was read.
        for turn in 0..snapshots.len() {
            let other = Known::default();
            for at in (turn..snapshots.len()).chain(0..turn).chain((0..snapshots.len()).rev()) {
                let snapshot = &snapshots[at];
                let expected: BTreeMap<String, u32> = load_all(snapshot, &names).unwrap();
                for known in [&known, &other] {
                    assert_eq!(known.load_all::<u32>(snapshot, &names).unwrap(), expected, "{turn}, {at}");
                }
            }
        }
        assert!(known.place(&snapshots[6], "a").unwrap().is_some());
        assert_eq!(known.place(&snapshots[1], "a").unwrap(), None, "another row has the name by now");
        assert_eq!(snapshots[6].table(SCHEMA, STATE).unwrap().rows(), 1);
    }

    #[test]
    fn fragments_are_dropped_together() {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap().of_statements();
        let column = NewColumn::new("a", LogicalType::BigInt, true);
        let shell = transaction.create_table("main", "t", vec![column]).unwrap();
        let like = transaction.snapshot().unwrap().table_by_id(shell).unwrap().clone();
        ensure_schema(&mut transaction).unwrap();
        let fragment = |number| FragmentId { table: TableId(7), number };
        for number in 0..5 {
            make_fragment(&mut transaction, fragment(number), &like, Life(9)).unwrap();
            make_deletions(&mut transaction, fragment(number)).unwrap();
            note_deletions(&mut transaction, fragment(number), 3, &RoaringTreemap::from_iter([1])).unwrap();
        }
        let replicas = (0..5).map(|number| (replica(fragment(number)), number)).collect();
        store_all(&mut transaction, &replicas).unwrap();
        let snapshot = transaction.commit().unwrap();
        assert_eq!(fragments(&snapshot).count(), 5);
        assert_eq!(made_in_life(&super::fragment(&snapshot, fragment(2)).unwrap()), Life(9));
        let mut transaction = database.begin(1).unwrap().of_statements();
        drop_fragments(&mut transaction, &BTreeSet::from([0, 1, 3].map(fragment))).unwrap();
        let snapshot = transaction.commit().unwrap();
        assert_eq!(fragments(&snapshot).collect::<Vec<_>>(), [fragment(2), fragment(4)]);
        let names = replicas.into_keys().collect();
        let left: BTreeMap<String, u32> = load_all(&snapshot, &names).unwrap();
        assert_eq!(left.into_values().collect::<Vec<_>>(), [2, 4]);
        assert!(deletions(&snapshot, fragment(1), 9).unwrap().is_empty());
        assert_eq!(deletions(&snapshot, fragment(2), 9).unwrap().len(), 1);
    }
}
