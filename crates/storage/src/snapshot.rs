//! A state of the database: what a log leads to, and what readers hold.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::column::{ColumnData, check_shape};
use crate::index::registry::Indexes;
use crate::names::deleted_file_name;
use crate::readers::Pin;
use crate::rows::{Rows, decode_deleted_file, decode_positions, decode_rows, row_schema};
use crate::sequence::OwnSequences;
use crate::table::TableData;
use crate::verify::{Verifier, verify_now};
use arrow_array::RecordBatch;
use hypostyle_format::{Catalog, Change, Commit, DeletedEntry, TableEntry};
use hypostyle_io::Store;
use hypostyle_types::{Error, ErrorKind, Result, TableId, Version};
use roaring::RoaringTreemap;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The definitions of a database: its schemas, tables, views and sequences, without their rows. Two
/// snapshots that have the same one, by its address, mean the same by each name. Those that do not
/// may mean the same, too.
#[derive(Debug, Default)]
pub struct Definitions {
    /// Two values of a type without size may have one address.
    _sized: u8,
}

/// The state that commits are applied to, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Shared with the snapshot that it comes from, until it changes.
    pub catalog: Arc<Catalog>,
    pub rows: HashMap<TableId, Rows>,
    pub definitions: Arc<Definitions>,
    /// The last version that has not all files of the one before, as far as is known: it is no earlier.
    pub discarded: Version,
}

/// The deleted rows of a table as of a checkpoint.
pub(crate) fn read_deleted_file(
    store: &Store,
    table: &TableEntry,
    deleted: DeletedEntry,
) -> Result<RoaringTreemap> {
    let file = store.open(&deleted_file_name(table.id, deleted.version))?;
    let positions = decode_deleted_file(&file.read_all()?, deleted.rows)?;
    match positions.max() {
        Some(last) if last >= table.rows => Err(Error::corrupt(format!(
            "the file of deleted rows has row {last}, but the table has only {} in its files",
            table.rows
        ))),
        _ => Ok(positions),
    }
}

impl State {
    /// The state of a checkpoint, and the tables whose deleted rows are in no file any more: the
    /// log must drop them.
    pub fn of_checkpoint(store: &Store, catalog: Catalog) -> Result<(Self, Vec<(TableId, Error)>)> {
        let mut rows = HashMap::new();
        let mut incomplete = Vec::new();
        for table in &catalog.tables {
            check_shape(table)?;
            // Nothing is known of what came before the checkpoint.
            let mut of_table = Rows { moved: catalog.version, ..Rows::default() };
            if let Some(deleted) = table.deleted {
                match read_deleted_file(store, table, deleted) {
                    Ok(positions) => {
                        of_table.delete(&positions, table.rows)?;
                        of_table.deleted_file = Some(deleted);
                    }
                    Err(error) => {
                        let error = error.context(format!("table \"{}\"", table.name));
                        match error.kind() {
                            ErrorKind::NotFound => incomplete.push((table.id, error)),
                            _ => return Err(error),
                        }
                    }
                }
            }
            rows.insert(table.id, of_table);
        }
        let discarded = catalog.version;
        let definitions = Arc::default();
        Ok((Self { catalog: Arc::new(catalog), rows, definitions, discarded }, incomplete))
    }

    /// What an earlier state knows of the position of rows, in place of what was unknown at a
    /// checkpoint: compacting a table, and changing a column, begins new generations.
    pub fn remember(&mut self, before: &Snapshot, checkpoint: Version) {
        for table in &self.catalog.tables {
            if let Some(rows) = self.rows.get_mut(&table.id).filter(|rows| rows.moved == checkpoint)
                && let Some(before) = before.table_by_id(table.id)
                && has_same_files(before.entry(), table)
            {
                let before = before.beyond_files();
                rows.moved = before.moved;
                let later = std::mem::replace(&mut rows.shifts, before.shifts.clone());
                if before.tail.rows() > 0 {
                    // Where rows went that the log had in the earlier state is not known.
                    rows.shifts.forget(checkpoint);
                }
                rows.shifts.extend(&later);
            }
        }
    }

    /// The same state, whose deleted rows are where the checkpoint that was made of it says.
    pub fn at_checkpoint(mut self, catalog: Catalog) -> Self {
        for table in &catalog.tables {
            if let Some(rows) = self.rows.get_mut(&table.id) {
                rows.deleted_file = table.deleted;
            }
        }
        self.catalog = Arc::new(catalog);
        self
    }

    /// Applies a commit; `inserted` has the rows of its inserts, in order, if they are decoded already.
    ///
    /// # Errors
    /// When a change does not fit; the state is then partly changed and must be thrown away.
    pub fn apply(&mut self, commit: &Commit, inserted: Vec<RecordBatch>) -> Result<()> {
        let version = self.catalog.version.next();
        let mut inserted = inserted.into_iter();
        for (change, attachment) in commit.with_attachments() {
            if let Change::Insert { id, .. } = change
                && let Some(rows) = inserted.next()
            {
                self.rows_mut(*id)?.tail.push(rows)?;
            } else {
                self.apply_change(change, attachment, version)?;
            }
        }
        Arc::make_mut(&mut self.catalog).version = version;
        Ok(())
    }

    pub fn apply_change(&mut self, change: &Change, attachment: &[u8], version: Version) -> Result<()> {
        let files_before =
            change_of_rows(change).and_then(|id| self.catalog.table_by_id(id)).map_or(0, |table| table.rows);
        if discards_files(change, &self.catalog) {
            self.discarded = version;
        }
        if changes_definitions(change) {
            self.definitions = Arc::default();
        }
        Arc::make_mut(&mut self.catalog).apply_change(change)?;
        match change {
            Change::CreateTable { table } => {
                check_shape(table)?;
                self.rows.insert(table.id, Rows { moved: version, ..Rows::default() });
            }
            Change::DropTable { id } => drop(self.rows.remove(id)),
            Change::Append { id, rows, absorbed, .. } => {
                check_shape(self.table(*id)?)?;
                self.rows_mut(*id)?.grow(files_before, *rows, *absorbed, version)?;
            }
            Change::Insert { id, rows, .. } => {
                let tail = self.rows.get(id).map(|rows| &rows.tail);
                let batch = decode_rows(attachment, &row_schema(self.table(*id)?, tail), *rows)?;
                self.rows_mut(*id)?.tail.push(batch)?;
            }
            Change::Delete { id, rows, .. } => {
                let positions = decode_positions(attachment, *rows)?;
                let end = files_before + self.rows_mut(*id)?.tail.rows();
                self.rows_mut(*id)?.delete(&positions, end)?;
            }
            Change::ReplaceTable { table, absorbed, compacted } => {
                check_shape(table)?;
                let rows = self.rows_mut(table.id)?;
                if rows.tail.rows() != *absorbed {
                    return Err(Error::corrupt("a table is replaced without its rows of the log"));
                }
                rows.tail = Default::default();
                rows.moved = version;
                if *compacted {
                    rows.deleted = Arc::default();
                    rows.deleted_file = None;
                }
                if rows.deleted.max().is_some_and(|last| last >= table.rows) {
                    return Err(Error::corrupt("a table is replaced by one without its deleted rows"));
                }
            }
            Change::CreateSchema(_)
            | Change::DropSchema(_)
            | Change::CreateView { .. }
            | Change::DropView { .. }
            | Change::CreateSequence { .. }
            | Change::AlterSequence { .. }
            | Change::AdvanceSequence { .. }
            | Change::DropSequence { .. }
            | Change::CreateMacro { .. }
            | Change::DropMacro { .. }
            | Change::Comment { .. } => {}
        }
        Ok(())
    }

    pub fn table(&self, id: TableId) -> Result<&Arc<TableEntry>> {
        let table = self.catalog.table_by_id(id);
        table.ok_or_else(|| Error::corrupt(format!("a change of the unknown table {id}")))
    }

    fn rows_mut(&mut self, id: TableId) -> Result<&mut Rows> {
        let rows = self.rows.get_mut(&id);
        rows.ok_or_else(|| Error::corrupt(format!("a change of the unknown table {id}")))
    }
}

/// Whether two states of a table are the same but for rows that were appended or deleted.
fn has_same_files(one: &TableEntry, other: &TableEntry) -> bool {
    let without_rows = |table: &TableEntry| {
        let mut table = TableEntry { rows: 0, deleted: None, ..table.clone() };
        table.columns.iter_mut().for_each(|column| column.generation.nodes.clear());
        table
    };
    without_rows(one) == without_rows(other)
}

fn discards_files(change: &Change, catalog: &Catalog) -> bool {
    match change {
        Change::DropTable { .. } | Change::ReplaceTable { .. } => true,
        Change::Append { id, generations, .. } => catalog.table_by_id(*id).is_some_and(|table| {
            generations.iter().any(|new| {
                let column = table.column_by_id(new.column);
                column.is_some_and(|column| column.generation.number != new.generation.number)
            })
        }),
        _ => false,
    }
}

/// Says whether a change may be of more than rows and the values of sequences.
fn changes_definitions(change: &Change) -> bool {
    change_of_rows(change).is_none() && !matches!(change, Change::AdvanceSequence { .. })
}

fn change_of_rows(change: &Change) -> Option<TableId> {
    match change {
        Change::Append { id, .. } | Change::Delete { id, .. } | Change::Insert { id, .. } => Some(*id),
        _ => None,
    }
}

/// A state of the database as readers see it; it never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    tables: Arc<HashMap<TableId, Arc<TableData>>>,
    definitions: Arc<Definitions>,
    discarded: Version,
    /// Keeps the files; the database's own snapshot has none.
    pin: Option<Arc<Pin>>,
    /// The sequences of the transaction whose snapshot this is.
    own_sequences: OwnSequences,
    /// The verifier of the database; its own snapshot has none.
    verifier: Option<Arc<Verifier>>,
    indexes: Option<Arc<Indexes>>,
}

impl Snapshot {
    /// `previous` shares what has not changed.
    pub(crate) fn new(store: &Arc<Store>, state: &State, previous: Option<&Self>) -> Self {
        let none = Rows::default();
        let tables = state
            .catalog
            .tables
            .iter()
            .map(|entry| {
                let before = previous.and_then(|snapshot| snapshot.tables.get(&entry.id));
                let rows = state.rows.get(&entry.id).unwrap_or(&none);
                let data = match before {
                    Some(before)
                        if before.same(entry, rows)
                            && before.beyond_files().deleted_file == rows.deleted_file =>
                    {
                        before.clone()
                    }
                    _ => Arc::new(TableData::new(store, entry, rows, before.map(Arc::as_ref))),
                };
                (entry.id, data)
            })
            .collect();
        Self {
            store: store.clone(),
            catalog: state.catalog.clone(),
            tables: Arc::new(tables),
            definitions: state.definitions.clone(),
            discarded: state.discarded,
            pin: None,
            own_sequences: OwnSequences::default(),
            verifier: previous.and_then(|snapshot| snapshot.verifier.clone()),
            indexes: previous.and_then(|snapshot| snapshot.indexes.clone()),
        }
    }

    pub(crate) fn with_sequences(self, own_sequences: OwnSequences) -> Self {
        Self { own_sequences, ..self }
    }

    pub(crate) fn own_sequences(&self) -> &OwnSequences {
        &self.own_sequences
    }

    pub(crate) fn pinned(&self, pin: Option<Arc<Pin>>) -> Self {
        Self { pin, ..self.clone() }
    }

    pub(crate) fn verified_by(self, verifier: Arc<Verifier>) -> Self {
        Self { verifier: Some(verifier), ..self }
    }

    pub(crate) fn indexed_by(self, indexes: Arc<Indexes>) -> Self {
        Self { indexes: Some(indexes), ..self }
    }

    /// The indexes of the database; `None` where the state is not one that is read.
    pub(crate) fn registry(&self) -> Option<&Arc<Indexes>> {
        self.indexes.as_ref()
    }

    /// Called before rows of a column of this snapshot are handed out as they lie, for others to
    /// read: verifies them now, asking `proceed` before each block, or has a thread verify them, as
    /// the database was opened (docs/decisions/0011).
    ///
    /// # Errors
    /// `Corrupt` naming the column and the block; those of `proceed`.
    pub fn hand_out(
        &self,
        column: &Arc<ColumnData>,
        rows: Range<u64>,
        mut proceed: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        match &self.verifier {
            Some(verifier) => verifier.hand_out(column, rows, &mut proceed),
            None => verify_now(column, rows, &mut proceed),
        }
    }

    /// The same state, for its definitions: its files may be removed.
    pub fn unpinned(&self) -> Self {
        self.pinned(None)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn pin(&self) -> Option<&Arc<Pin>> {
        self.pin.as_ref()
    }

    pub(crate) fn state(&self) -> State {
        let rows = self.tables.iter().map(|(id, table)| (*id, table.beyond_files().clone())).collect();
        State {
            catalog: self.catalog.clone(),
            rows,
            definitions: self.definitions.clone(),
            discarded: self.discarded,
        }
    }

    /// No version from this one on has files that this snapshot has not.
    pub(crate) fn discarded(&self) -> Version {
        self.discarded
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn shared_catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns what is the same in two snapshots only if all definitions are.
    pub fn definitions(&self) -> &Arc<Definitions> {
        &self.definitions
    }

    pub fn version(&self) -> Version {
        self.catalog.version
    }

    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableData>> {
        self.catalog.table(schema, name).and_then(|entry| self.tables.get(&entry.id))
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableData>> {
        self.tables.get(&id)
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableData>> {
        self.catalog.tables.iter().filter_map(|entry| self.tables.get(&entry.id))
    }
}
