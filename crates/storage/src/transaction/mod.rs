//! Transactions: staged changes, rows and deletions, and what a commit compares them with.
//!
//! Two transactions are in conflict when they change the same row or touch the same key of a
//! constraint (`conflict`), not when they write to the same table.
//!
//! Few rows wait in memory and go into the log at commit. Many go straight past the committed
//! lengths of the column files, if no other transaction is doing that with the same table, so that
//! a bulk append is written once; nobody looks there before the commit says how far they reach.

mod conflict;
mod keys;

use crate::column::{
    ColumnData, ColumnWriter, GenerationFiles, committed_files, node_count, table_directory,
};
use crate::database::{Database, Synchronous};
use crate::rows::{
    Rows, Tail, Uncommitted, decode_rows, encode_positions, encode_rows, positions_before, row_schema,
};
use crate::sequence::OwnSequences;
use crate::snapshot::{Snapshot, State};
use crate::table::{TableData, accept};
use crate::text::check_text;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, Field, Schema};
use arrow_select::filter::{filter, filter_record_batch};
use arrow_select::take::take;
use conflict::{CHANGED, Effort, OwnKeys};
use hypostyle_format::{
    Catalog, Change, ColumnEntry, ColumnGeneration, Commit, ConstraintEntry, ConstraintRule, Encoding,
    GenerationEntry, Identity, NodeEntry, SchemaEntry, SequenceEntry, TableEntry, ViewEntry,
};
use hypostyle_io::{Lock, Store};
use hypostyle_types::{ColumnId, Error, ErrorKind, Generation, LogicalType, Result, TableId, did_you_mean};
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Rows converted and encoded at a time: bounds the memory of an append.
const APPEND_ROWS: usize = 256 * 1024;

/// Cells below which more threads cost more than they bring.
pub(crate) const PARALLEL_CELLS_MIN: usize = 64 * 1024;

/// More bytes of rows than this go to the column files instead of the log.
const LOG_ROWS_BYTES_MAX: usize = 256 << 10;

/// More rows than this do not wait in memory for column files that another transaction is writing.
const WAITING_ROWS_BYTES_MAX: usize = 256 << 20;

/// Times that keys are compared before the commit lock is taken, if others commit many meanwhile.
const COMPARISONS_MAX: usize = 4;

/// Files synced at a time.
const SYNCS_AT_ONCE: usize = 4;

/// A column of a table to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewColumn {
    pub name: String,
    pub logical_type: LogicalType,
    pub nullable: bool,
    /// SQL text.
    pub default: Option<String>,
    pub identity: Option<Identity>,
    /// SQL text.
    pub generated: Option<String>,
}

impl NewColumn {
    /// A column that is no more than its type.
    pub fn new(name: impl Into<String>, logical_type: LogicalType, nullable: bool) -> Self {
        Self { name: name.into(), logical_type, nullable, default: None, identity: None, generated: None }
    }
}

/// Changes that become visible together, or not at all.
pub struct Transaction {
    database: Arc<Database>,
    base: Arc<Snapshot>,
    staged: Staged,
    /// Append locks, until the end.
    locks: BTreeMap<TableId, Lock>,
    /// Column files that the running statement writes.
    writers: BTreeMap<TableId, Vec<ColumnWriter>>,
    /// Tables whose directories this transaction has made.
    created: Vec<TableId>,
    threads: usize,
    /// Statements after this one may read what is staged.
    reads_own: bool,
    /// Something was written to column files while `synchronous` was off.
    unsynced: bool,
    /// For who reads rows that it has written to column files.
    uncommitted: Uncommitted,
    /// Files of columns that were written anew, which no version has yet.
    made: Vec<Arc<GenerationFiles>>,
    /// A commit may have made them the table's.
    is_committed: bool,
    changed: BTreeMap<TableId, Changed>,
    /// Tables that were read as a whole, and must stay as they are.
    guarded: BTreeSet<TableId>,
}

/// What was done to a table since [`Transaction::take_changed`] was asked last.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The position of the first new row, be it one that was updated.
    pub first_new: Option<u64>,
    inserted: bool,
    deleted: bool,
    /// The columns of updated rows that were given values.
    assigned: BTreeSet<ColumnId>,
}

impl Changed {
    /// Whether there may be new values in some columns.
    pub fn gives(&self, columns: &[ColumnId]) -> bool {
        self.inserted || columns.iter().any(|column| self.assigned.contains(column))
    }

    /// Whether values may be gone from some columns.
    pub fn takes(&self, columns: &[ColumnId]) -> bool {
        self.deleted || columns.iter().any(|column| self.assigned.contains(column))
    }
}

/// What a transaction has changed up to some moment.
#[derive(Clone, Debug)]
pub struct Savepoint(Staged);

#[derive(Clone, Debug)]
struct Staged {
    /// The base's, with the changes of definitions.
    catalog: Arc<Catalog>,
    /// Changes of definitions, in order.
    changes: Vec<Change>,
    tables: BTreeMap<TableId, StagedTable>,
    sequences: OwnSequences,
}

/// Rows and deletions of one table. Positions are those that the transaction sees: the base's rows,
/// then its own, first those in the column files.
#[derive(Clone, Debug, Default)]
struct StagedTable {
    in_files: Option<InFiles>,
    rows: Tail,
    bytes: usize,
    deleted: RoaringTreemap,
}

/// Own rows in the column files.
#[derive(Clone, Debug)]
struct InFiles {
    /// The table with them.
    entry: Arc<TableEntry>,
    /// Rows in the files before.
    before: u64,
    /// Rows of the log that come first.
    absorbed: u64,
    /// Own rows behind them.
    rows: u64,
    /// The definition or all files have changed, too.
    replaced: Option<Replaced>,
    /// A change among those of definitions tells of `absorbed` already.
    renamed: bool,
}

impl InFiles {
    /// The rows that the next change is to tell of.
    fn untold(&self) -> u64 {
        if self.renamed { 0 } else { self.absorbed }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    Altered,
    /// Only rows that are not deleted are in the files.
    Compacted,
}

impl Transaction {
    pub(crate) fn new(database: Arc<Database>, base: Arc<Snapshot>, threads: usize) -> Self {
        let staged = Staged {
            catalog: base.shared_catalog().clone(),
            changes: Vec::new(),
            tables: BTreeMap::new(),
            sequences: OwnSequences::default(),
        };
        Self {
            database,
            base,
            staged,
            locks: BTreeMap::new(),
            writers: BTreeMap::new(),
            created: Vec::new(),
            threads: threads.max(1),
            reads_own: false,
            unsynced: false,
            uncommitted: Uncommitted::default(),
            made: Vec::new(),
            is_committed: false,
            changed: BTreeMap::new(),
            guarded: BTreeSet::new(),
        }
    }

    /// Makes this a transaction of several statements, which see what those before them have changed.
    pub fn of_statements(mut self) -> Self {
        self.reads_own = true;
        self
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// What the transaction found when it began.
    pub fn base(&self) -> &Arc<Snapshot> {
        &self.base
    }

    /// The definitions with this transaction's changes; row counts may be behind.
    pub fn catalog(&self) -> &Catalog {
        &self.staged.catalog
    }

    /// The tables with new or deleted rows, since this was asked last.
    pub fn take_changed(&mut self) -> BTreeMap<TableId, Changed> {
        std::mem::take(&mut self.changed)
    }

    /// Has the commit compare a table with the base: another transaction that has changed it is a conflict.
    pub fn guard(&mut self, id: TableId) {
        self.guarded.insert(id);
    }

    /// Whether there is anything to commit.
    pub fn is_empty(&self) -> bool {
        self.staged.changes.is_empty() && self.staged.tables.is_empty() && self.staged.sequences.is_empty()
    }

    /// What the transaction sees: the base with its own changes.
    ///
    /// # Errors
    /// Those of ending the running statement's writing; `Closed` in a child of `fork()`.
    pub fn snapshot(&mut self) -> Result<Arc<Snapshot>> {
        self.database.check_process()?;
        if self.is_empty() {
            return Ok(self.base.clone());
        }
        self.end_statement()?;
        let version = self.base.version();
        let mut state: State = self.base.state();
        for (id, staged) in &self.staged.tables {
            if let (Some(in_files), Some(rows)) = (&staged.in_files, state.rows.get_mut(id)) {
                // A checkpoint since the base may have put rows of the log into the files.
                rows.tail = rows.tail.skip(rows.tail.rows().saturating_sub(in_files.absorbed));
            }
        }
        for change in &self.staged.changes {
            state.apply_change(change, &[], version)?;
        }
        for (id, staged) in &self.staged.tables {
            let Some(rows) = state.rows.get_mut(id) else { continue };
            if let Some(in_files) = &staged.in_files {
                rows.tail = Default::default();
                rows.uncommitted = Some(self.uncommitted.clone());
                let tables = Arc::make_mut(&mut state.catalog).tables.iter_mut();
                tables.filter(|table| table.id == *id).for_each(|table| *table = in_files.entry.clone());
            }
            for batch in staged.rows.batches() {
                rows.tail.push(batch.clone())?;
            }
            if !staged.deleted.is_empty() {
                *Arc::make_mut(&mut rows.deleted) |= &staged.deleted;
            }
        }
        // Those of dropped columns are gone.
        let sequences = &self.staged.catalog.sequences;
        if state.catalog.sequences != *sequences {
            Arc::make_mut(&mut state.catalog).sequences.clone_from(sequences);
        }
        let snapshot = Snapshot::new(self.database.store(), &state, Some(&self.base));
        let snapshot = snapshot.with_sequences(self.staged.sequences.clone());
        Ok(Arc::new(snapshot.pinned(self.base.pin().cloned())))
    }

    pub fn savepoint(&mut self) -> Result<Savepoint> {
        self.end_statement()?;
        Ok(Savepoint(self.staged.clone()))
    }

    /// Forgets what came after a savepoint. A failed statement is undone by this, too.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) {
        self.writers.clear();
        self.changed.clear();
        self.staged = savepoint.0.clone();
        self.database.roll_back(&std::mem::take(&mut self.uncommitted));
    }

    pub(crate) fn own_sequences(&mut self) -> &mut OwnSequences {
        &mut self.staged.sequences
    }

    pub(crate) fn change(&mut self, change: Change) -> Result<()> {
        self.database.check_writable()?;
        Arc::make_mut(&mut self.staged.catalog).apply_change(&change)?;
        self.staged.changes.push(change);
        Ok(())
    }

    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::CreateSchema(SchemaEntry::new(name)))
    }

    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::DropSchema(SchemaEntry::new(name)))
    }

    pub fn create_table(&mut self, schema: &str, name: &str, columns: Vec<NewColumn>) -> Result<TableId> {
        self.database.check_writable()?;
        let (id, lock) = self.database.allocate_table(self.staged.catalog.next_table_id)?;
        self.created.push(id);
        self.locks.insert(id, lock);
        let columns = columns.into_iter().zip(0..);
        let columns: Vec<ColumnEntry> =
            columns.map(|(column, number)| new_column_entry(column, ColumnId(number))).collect();
        let next_column_id = ColumnId(columns.len() as u32);
        let (schema, name) = (schema.into(), name.into());
        let table = TableEntry {
            id,
            schema,
            name,
            rows: 0,
            next_column_id,
            columns,
            constraints: Vec::new(),
            comment: None,
            deleted: None,
        };
        self.change(Change::CreateTable { table })?;
        Ok(id)
    }

    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.writers.remove(&id);
        self.staged.tables.remove(&id);
        self.change(Change::DropTable { id })
    }

    /// Comments on a schema, or on a view or sequence of it; without a text, no more.
    pub fn comment(&mut self, schema: &str, name: Option<&str>, comment: Option<String>) -> Result<()> {
        self.change(Change::Comment { schema: schema.into(), name: name.map(Into::into), comment })
    }

    pub fn create_view(&mut self, view: ViewEntry) -> Result<()> {
        self.change(Change::CreateView { view })
    }

    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<()> {
        self.change(Change::DropView { schema: schema.into(), name: name.into() })
    }

    /// Appends rows; the batch's columns are the table's, in order.
    ///
    /// # Errors
    /// `InvalidInput` or `Constraint` naming column, row and value; `DiskFull`, `Io`. The statement
    /// must then be undone, by [`Self::roll_back_to`] or by dropping the transaction.
    pub fn append(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.changed.entry(table).or_default().inserted = true;
        self.append_updated(table, batch)
    }

    /// [`Self::append`] of rows that [`Self::delete_updated`] has deleted, with other values.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub fn append_updated(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.database.check_writable()?;
        let entry = self.entry(table)?;
        if batch.num_columns() != entry.columns.len() {
            return Err(Error::invalid_input(format!(
                "table \"{}\" has {} columns, but the data has {}",
                entry.name,
                entry.columns.len(),
                batch.num_columns()
            )));
        }
        for (column, array) in entry.columns.iter().zip(batch.columns()) {
            check_text(array).map_err(|error| error.context(format!("column \"{}\"", column.name)))?;
        }
        let first = self.base.table_by_id(table).map_or(0, |base| base.positions()) + self.own_rows(table);
        self.changed.entry(table).or_default().first_new.get_or_insert(first);
        for start in (0..batch.num_rows()).step_by(APPEND_ROWS) {
            self.append_piece(&entry, &batch.slice(start, APPEND_ROWS.min(batch.num_rows() - start)))?;
        }
        Ok(())
    }

    fn entry(&self, id: TableId) -> Result<Arc<TableEntry>> {
        let entry = self.staged.catalog.table_by_id(id).cloned();
        entry.ok_or_else(|| {
            Error::new(
                ErrorKind::Conflict,
                "a table was dropped by another transaction meanwhile; run it again",
            )
        })
    }

    fn append_piece(&mut self, entry: &Arc<TableEntry>, batch: &RecordBatch) -> Result<()> {
        self.database.take_memory(|| slice_bytes(batch.columns()) as u64)?;
        let first_row = self.own_rows(entry.id);
        let work: Vec<(&ColumnEntry, &ArrayRef)> = entry.columns.iter().zip(batch.columns()).collect();
        let threads = if batch.num_rows() * work.len() < PARALLEL_CELLS_MIN { 1 } else { self.threads };
        if let Some(writers) = self.writers.get_mut(&entry.id) {
            let work = writers.iter_mut().zip(work).collect();
            in_parallel(work, threads, |(writer, (column, array)): (&mut ColumnWriter, (_, _))| {
                writer.append(&accept(array, column, &entry.name, first_row)?)
            })?;
            let staged = self.staged.tables.get_mut(&entry.id);
            if let Some(in_files) = staged.and_then(|staged| staged.in_files.as_mut()) {
                in_files.rows += batch.num_rows() as u64;
            }
            return Ok(());
        }
        let accepted = Mutex::new(vec![None; work.len()]);
        in_parallel(work.into_iter().enumerate().collect(), threads, |(index, (column, array))| {
            let array = accept(array, column, &entry.name, first_row)?;
            let plain = cast(&array, &column.logical_type.arrow_type())
                .map_err(|error| Error::internal(format!("cannot stage rows: {error}")))?;
            accepted.lock()[index] = Some(plain);
            Ok(())
        })?;
        let arrays: Vec<ArrayRef> = accepted.into_inner().into_iter().flatten().collect();
        let bytes = slice_bytes(&arrays);
        // A definition that has changed in this transaction has its own rows in the files.
        let base = self.base.table_by_id(entry.id).filter(|base| Arc::ptr_eq(base.shared_entry(), entry));
        let schema = row_schema(entry, base.map(|base| &base.beyond_files().tail));
        let rows = RecordBatch::try_new(schema, arrays)
            .map_err(|error| Error::internal(format!("cannot stage rows: {error}")))?;
        let staged = self.staged.tables.entry(entry.id).or_default();
        staged.rows.push(rows)?;
        staged.bytes += bytes;
        if staged.bytes <= LOG_ROWS_BYTES_MAX {
            return Ok(());
        }
        self.open_files(entry.id)?;
        let waiting = self.staged.tables.get(&entry.id).map_or(0, |staged| staged.bytes);
        if waiting > WAITING_ROWS_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "table \"{}\" is being loaded by another transaction, and {} MiB of rows wait for its end; \
                     roll back and try again",
                    entry.name,
                    waiting >> 20
                ),
            ));
        }
        Ok(())
    }

    /// Own rows of a table, the deleted ones included.
    fn own_rows(&self, id: TableId) -> u64 {
        self.staged.tables.get(&id).map_or(0, StagedTable::own_rows)
    }

    /// Moves staged rows to the column files, if nobody else is writing them and their rows are those
    /// that the transaction sees.
    fn open_files(&mut self, id: TableId) -> Result<()> {
        if !self.locks.contains_key(&id) {
            match self.database.try_append_lock(id)? {
                Some(lock) => drop(self.locks.insert(id, lock)),
                None => return Ok(()),
            }
        }
        let (entry, absorbed) = match self.files_to_append_to(id)? {
            Some(found) => found,
            None => return Ok(()),
        };
        let threads = self.threads;
        let Some(staged) = self.staged.tables.get_mut(&id) else { return Ok(()) };
        let absorbed_rows = absorbed.iter().map(|batch| batch.num_rows() as u64).sum();
        let mut columns = open_columns(self.database.store(), &entry)?;
        for batch in absorbed.iter().chain(staged.rows.batches()) {
            let work = columns.iter_mut().zip(batch.columns()).collect();
            in_parallel(work, threads, |(writer, array): (&mut ColumnWriter, &ArrayRef)| {
                writer.append(array)
            })?;
        }
        let rows = std::mem::take(&mut staged.rows).rows();
        staged.bytes = 0;
        match &mut staged.in_files {
            Some(in_files) => in_files.rows += rows,
            none => {
                let (before, absorbed) = (entry.rows, absorbed_rows);
                *none = Some(InFiles { before, absorbed, rows, replaced: None, renamed: false, entry });
            }
        }
        self.writers.insert(id, columns);
        Ok(())
    }

    /// The table as its files are now, and the rows of the log that come first in them.
    fn files_to_append_to(&self, id: TableId) -> Result<Option<(Arc<TableEntry>, Vec<RecordBatch>)>> {
        let staged = self.staged.tables.get(&id);
        if let Some(in_files) = staged.and_then(|staged| staged.in_files.as_ref()) {
            return Ok(Some((in_files.entry.clone(), Vec::new())));
        }
        let Some(base) = self.base.table_by_id(id) else {
            return Ok(self.staged.catalog.table_by_id(id).map(|new| (new.clone(), Vec::new())));
        };
        let latest = self.database.latest()?;
        let Some(now) = latest.table_by_id(id) else { return Ok(None) };
        if now.beyond_files().moved > self.base.version() {
            return Ok(None);
        }
        // What others have committed since the base must not come between what this transaction sees.
        let own = self.reads_own || !base.entry().constraints.is_empty();
        let changed = !now.is_unchanged_since(base, self.base.version());
        let seen = if own && changed { base } else { now };
        let same = seen.rows_in_files() == now.rows_in_files();
        let batches = seen.beyond_files().tail.batches().to_vec();
        Ok(same.then(|| (now.shared_entry().clone(), batches)))
    }

    /// Ends writing to column files, so that what was written can be read.
    fn end_statement(&mut self) -> Result<()> {
        for (id, mut columns) in std::mem::take(&mut self.writers) {
            let Some(in_files) = self.staged.tables.get_mut(&id).and_then(|staged| staged.in_files.as_mut())
            else {
                continue;
            };
            let generations = finish_columns(&mut columns, &in_files.entry)?;
            let entry = Arc::make_mut(&mut in_files.entry);
            for (column, generation) in entry.columns.iter_mut().zip(generations) {
                column.generation = generation.generation;
            }
            entry.rows = entry.columns[0].generation.nodes[0].length;
            self.sync(id, &columns)?;
        }
        Ok(())
    }

    /// Deletes rows, by their positions in [`Self::snapshot`]; those that are deleted already are left out.
    ///
    /// # Errors
    /// `ReadOnly`; `Internal` for a position past the end.
    pub fn delete(&mut self, id: TableId, positions: &RoaringTreemap) -> Result<u64> {
        let count = self.delete_staged(id, positions)?;
        if count > 0 {
            self.changed.entry(id).or_default().deleted = true;
        }
        Ok(count)
    }

    /// [`Self::delete`] of rows that [`Self::append_updated`] appends again, with other values in the
    /// assigned columns.
    ///
    /// # Errors
    /// Those of [`Self::delete`].
    pub fn delete_updated(
        &mut self,
        id: TableId,
        positions: &RoaringTreemap,
        assigned: &BTreeSet<ColumnId>,
    ) -> Result<u64> {
        let count = self.delete_staged(id, positions)?;
        if count > 0 {
            self.changed.entry(id).or_default().assigned.extend(assigned);
        }
        Ok(count)
    }

    fn delete_staged(&mut self, id: TableId, positions: &RoaringTreemap) -> Result<u64> {
        self.database.check_writable()?;
        self.end_statement()?;
        let base = self.base.table_by_id(id);
        let end = base.map_or(0, |table| table.positions()) + self.own_rows(id);
        if positions.max().is_some_and(|last| last >= end) {
            return Err(Error::internal("a row past the end of its table is to be deleted"));
        }
        let staged = self.staged.tables.entry(id).or_default();
        let mut new = positions - &staged.deleted;
        if let Some(base) = base {
            new -= base.deleted();
        }
        staged.deleted |= &new;
        Ok(new.len())
    }

    /// All that this transaction sees of a table, in its column files.
    ///
    /// # Errors
    /// `Conflict` when another transaction is writing them, or has done so since the base.
    fn move_to_files(&mut self, id: TableId) -> Result<Arc<TableEntry>> {
        self.database.check_writable()?;
        let name = self.entry(id)?.name.clone();
        self.end_statement()?;
        self.staged.tables.entry(id).or_default();
        let reads_own = std::mem::replace(&mut self.reads_own, true);
        let opened = self.open_files(id).and_then(|()| self.end_statement());
        self.reads_own = reads_own;
        opened?;
        let in_files = self.staged.tables.get(&id).and_then(|staged| staged.in_files.as_ref());
        let in_files = in_files.ok_or_else(|| conflict(&name, "is being changed by another transaction"))?;
        Ok(in_files.entry.clone())
    }

    fn replace(&mut self, id: TableId, entry: TableEntry, how: Replaced) -> Result<()> {
        let old = self.entry(id)?;
        let renamed = (&old.schema, &old.name) != (&entry.schema, &entry.name);
        let change = Change::ReplaceTable { table: entry.clone(), absorbed: 0, compacted: false };
        Arc::make_mut(&mut self.staged.catalog).apply_change(&change)?;
        if let Some(in_files) = self.staged.tables.get_mut(&id).and_then(|staged| staged.in_files.as_mut()) {
            if renamed {
                // In its turn: what is created later may have the old name, and what was dropped earlier had the new.
                let (table, absorbed) = (entry.clone(), in_files.untold());
                self.staged.changes.push(Change::ReplaceTable { table, absorbed, compacted: false });
                in_files.renamed = true;
            }
            in_files.entry = Arc::new(entry);
            in_files.replaced = Some(how);
        }
        Ok(())
    }

    /// Changes the definition of a table, but not the values of its columns.
    ///
    /// # Errors
    /// Those of `change`; `AlreadyExists`; `Conflict` when another transaction is writing the table.
    pub fn alter_table(
        &mut self,
        id: TableId,
        change: impl FnOnce(&mut TableEntry) -> Result<()>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        change(&mut entry)?;
        self.replace(id, entry, Replaced::Altered)
    }

    /// Adds a column with the values that `compute` makes of pieces of the rows, which have their columns at rest if
    /// `reads_rows`. Deleted rows get no value.
    pub fn add_column(
        &mut self,
        id: TableId,
        column: NewColumn,
        reads_rows: bool,
        mut compute: impl FnMut(&RecordBatch) -> Result<ArrayRef>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        let new = new_column_entry(column, entry.next_column_id);
        entry.next_column_id = entry.next_column_id.next();
        let data = TableData::new(self.database.store(), &Arc::new(entry.clone()), &Rows::default(), None);
        let deleted = self.deleted(id);
        let pieces = pieces(entry.rows).map(|rows| {
            let columns = if reads_rows { data.columns() } else { &[] };
            let arrays =
                columns.iter().map(|column| column_piece(column, &rows)).collect::<Result<Vec<_>>>()?;
            let count = (rows.end - rows.start) as usize;
            let live = live(&rows, &deleted);
            let failed = |error| Error::internal(format!("cannot compute a column: {error}"));
            let fields: Vec<Field> =
                columns.iter().map(|column| column.field().with_nullable(true)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let mut piece =
                RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
                    .map_err(failed)?;
            let all = live.false_count() == 0;
            if !all {
                piece = filter_record_batch(&piece, &live).map_err(failed)?;
            }
            let values = accept(&compute(&piece)?, &new, &entry.name, rows.start)?;
            if all { Ok(values) } else { at_places(&values, &live).map_err(failed) }
        });
        let written = self.write_column(id, new.clone(), pieces)?;
        entry.columns.push(written);
        self.replace(id, entry, Replaced::Altered)
    }

    /// Deleted rows of a table, by others and by this transaction.
    fn deleted(&self, id: TableId) -> RoaringTreemap {
        let mut deleted = self.base.table_by_id(id).map(|table| table.deleted().clone()).unwrap_or_default();
        if let Some(staged) = self.staged.tables.get(&id) {
            deleted |= &staged.deleted;
        }
        deleted
    }

    /// Gives a column another type, and the values that `convert` makes of pieces of its array at rest.
    pub fn convert_column(
        &mut self,
        id: TableId,
        column: &str,
        logical_type: LogicalType,
        mut convert: impl FnMut(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        let data = TableData::new(self.database.store(), &Arc::new(entry.clone()), &Rows::default(), None);
        let old = data.column(column)?;
        let generation = empty_generation(old.entry().generation.number.next(), &logical_type);
        let new = ColumnEntry { logical_type, generation, ..old.entry().clone() };
        let deleted = self.deleted(id);
        let pieces = pieces(entry.rows).map(|rows| {
            let piece = column_piece(old, &rows)?;
            let live = live(&rows, &deleted);
            if live.false_count() == 0 {
                return accept(&convert(&piece)?, &new, &entry.name, rows.start);
            }
            // What a deleted row had need not be a value of the type.
            let failed = |error| Error::internal(format!("cannot convert a column: {error}"));
            let values = convert(&filter(&piece, &live).map_err(failed)?)?;
            at_places(&accept(&values, &new, &entry.name, rows.start)?, &live).map_err(failed)
        });
        let written = self.write_column(id, new.clone(), pieces)?;
        for column in entry.columns.iter_mut().filter(|column| column.id == written.id) {
            *column = written.clone();
        }
        self.replace(id, entry, Replaced::Altered)
    }

    /// Makes finished columns durable, unless nothing is to be.
    fn sync(&mut self, id: TableId, columns: &[ColumnWriter]) -> Result<()> {
        match self.database.synchronous() {
            Synchronous::Off => {
                self.unsynced = true;
                Ok(())
            }
            Synchronous::Full | Synchronous::Normal => sync_columns(self.database.store(), id, columns),
        }
    }

    /// Whether more than rows loaded in bulk would be lost with what was written to column files: a table that was there is altered or
    /// compacted, its columns have got files of another generation, or rows have moved there that only the log had.
    fn stands_in_for_others(&self) -> bool {
        self.staged.tables.iter().any(|(id, staged)| {
            let (Some(before), Some(now)) = (self.base.table_by_id(*id), &staged.in_files) else {
                return false;
            };
            let generation = |column: &ColumnEntry| column.generation.number;
            now.replaced.is_some()
                || now.rows == 0
                || before.entry().columns.iter().any(|column| {
                    let now = now.entry.column_by_id(column.id);
                    now.is_none_or(|now| generation(now) != generation(column))
                })
        })
    }

    /// Makes durable what was written while nothing was to be.
    fn sync_late(&self) -> Result<()> {
        let store = self.database.store();
        for (id, staged) in &self.staged.tables {
            let Some(in_files) = &staged.in_files else { continue };
            for (name, bytes) in committed_files(&in_files.entry) {
                if bytes == 0 {
                    continue;
                }
                store.open(&format!("{}/{name}", table_directory(*id)))?.sync()?;
            }
            sync_columns(store, *id, &[])?;
        }
        Ok(())
    }

    /// Writes the files of a new generation of a column.
    fn write_column(
        &mut self,
        id: TableId,
        mut column: ColumnEntry,
        pieces: impl Iterator<Item = Result<ArrayRef>>,
    ) -> Result<ColumnEntry> {
        let files = files_of(self.database.store(), id, &column);
        self.made.push(files.clone());
        let mut writer = ColumnWriter::open(&column, files)?;
        for piece in pieces {
            writer.append(&piece?)?;
        }
        column.generation = writer.finish()?;
        self.sync(id, &[writer])?;
        Ok(column)
    }

    /// Writes the files of a table anew without its deleted rows. Returns how many those were. `proceed` is told now and then how
    /// many rows of how many are done, and may end the work with its error.
    ///
    /// # Errors
    /// `Conflict` when another transaction is writing the table; `DiskFull`, `Io`; those of `proceed`.
    pub fn compact(&mut self, id: TableId, mut proceed: impl FnMut(u64, u64) -> Result<()>) -> Result<u64> {
        let before = self.base.table_by_id(id).cloned();
        let Some(before) = before.filter(|before| !before.is_in_files()) else { return Ok(0) };
        let entry = self.move_to_files(id)?;
        if before.deleted().is_empty() {
            return Ok(0);
        }
        let data = TableData::new(self.database.store(), &entry, &Rows::default(), Some(&before));
        let mut compacted = entry.as_ref().clone();
        for column in &mut compacted.columns {
            column.generation = empty_generation(column.generation.number.next(), &column.logical_type);
        }
        let files = compacted.columns.iter().map(|column| files_of(self.database.store(), id, column));
        self.made.extend(files);
        let mut writers = open_columns(self.database.store(), &compacted)?;
        for rows in pieces(entry.rows) {
            proceed(rows.start, entry.rows)?;
            let kept: BooleanArray = rows.clone().map(|row| Some(!before.deleted().contains(row))).collect();
            let work = writers.iter_mut().zip(data.columns()).collect();
            in_parallel(work, self.threads, |(writer, column): (&mut ColumnWriter, &Arc<ColumnData>)| {
                let piece = filter(&column_piece(column, &rows)?, &kept)
                    .map_err(|error| Error::internal(format!("cannot compact rows: {error}")))?;
                writer.append(&piece)
            })?;
        }
        let generations = finish_columns(&mut writers, &compacted)?;
        for (column, generation) in compacted.columns.iter_mut().zip(generations) {
            column.generation = generation.generation;
        }
        compacted.rows = before.rows();
        self.sync(id, &writers)?;
        self.replace(id, compacted, Replaced::Compacted)?;
        Ok(before.deleted().len())
    }

    /// Makes the changes durable and visible. Returns the version that they make; without changes, the newest.
    ///
    /// # Errors
    /// `Conflict` when another transaction has changed the same first; `DiskFull`, `Io`. Nothing of the
    /// transaction is then visible, now or after reopening.
    pub fn commit(mut self) -> Result<Arc<Snapshot>> {
        self.end_statement()?;
        if self.is_empty() {
            return self.database.snapshot();
        }
        let tables = self.staged.tables.iter();
        let many = tables.filter(|(_, staged)| staged.bytes > LOG_ROWS_BYTES_MAX).map(|(id, _)| *id);
        for id in many.collect::<Vec<_>>() {
            self.open_files(id)?;
        }
        self.end_statement()?;
        // What others stand in for goes with the commit, or is not read any more, and must not be lost with them.
        if self.unsynced && (self.database.synchronous() != Synchronous::Off || self.stands_in_for_others()) {
            self.sync_late()?;
        }
        let (staged, base) = (&self.staged, &self.base);
        // While nobody waits for it.
        let mut inserts = Some(staged.encode_rows(base)?);
        let keys = OwnKeys::new(staged, base, self.database.store());
        let mut compared = base.clone();
        let mut comparisons = 0;
        let committed = loop {
            let effort = if comparisons < COMPARISONS_MAX { Effort::Short } else { Effort::Long };
            let mut is_long = false;
            self.is_committed = true;
            let committed = self.database.commit_with(|latest| {
                check_unchanged(&self.guarded, base, latest)?;
                match (keys.compare(&compared, latest, effort)?, inserts.take()) {
                    (true, Some(inserts)) => staged.against(base, latest, inserts),
                    (_, taken) => {
                        (inserts, is_long) = (taken, true);
                        Err(Error::internal("a commit was put off"))
                    }
                }
            });
            if !is_long {
                break committed;
            }
            self.is_committed = false;
            let latest = self.database.snapshot()?;
            keys.compare(&compared, &latest, Effort::Long)?;
            (compared, comparisons) = (latest, comparisons + 1);
        };
        // Who was in conflict has written nothing to the log.
        let snapshot =
            committed.inspect_err(|error| self.is_committed = error.kind() != ErrorKind::Conflict)?;
        self.created.retain(|id| staged.catalog.table_by_id(*id).is_none());
        // Those stay as they are.
        self.uncommitted = Uncommitted::default();
        Ok(snapshot)
    }
}

/// Whether nobody has changed tables that were read as a whole.
fn check_unchanged(tables: &BTreeSet<TableId>, base: &Snapshot, latest: &Snapshot) -> Result<()> {
    for id in tables {
        let (before, now) = (base.table_by_id(*id), latest.table_by_id(*id));
        if let Some(before) = before
            && !now.is_some_and(|now| now.is_unchanged_since(before, base.version()))
        {
            return Err(conflict(&before.entry().name, CHANGED));
        }
    }
    Ok(())
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.writers.clear();
        self.database.roll_back(&self.uncommitted);
        if self.database.check_process().is_err() {
            return;
        }
        for id in &self.created {
            self.database.abandon_table(*id);
        }
        if self.is_committed {
            return;
        }
        // With the append locks: nobody else writes there.
        let written = self.locks.keys().filter(|id| !self.created.contains(id));
        if let Err(error) = self.database.remove_rolled_back(written, &self.made) {
            tracing::warn!(%error, "rows that were rolled back stay behind in the files of a table");
        }
    }
}

fn conflict(table: &str, why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("table \"{table}\" {why}; roll back and try again"))
}

/// What a transaction has found must be what there is now; of its own it has found nothing.
fn unchanged<T: PartialEq>(what: &str, name: &str, before: Option<T>, now: Option<T>) -> Result<()> {
    if before.is_none() || before == now {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "{what} \"{name}\" was changed by a transaction that committed first; roll back and try again"
        ),
    ))
}

/// The foreign keys that refer to no key, as tables and constraints.
fn broken_references(catalog: &Catalog) -> BTreeSet<(&str, &str)> {
    let all = catalog
        .tables
        .iter()
        .flat_map(|table| table.constraints.iter().map(|constraint| (table.name.as_str(), constraint)));
    let is_broken = |rule: &ConstraintRule| {
        let ConstraintRule::ForeignKey { table, referred, .. } = rule else { return false };
        let other = catalog.table_by_id(*table);
        let has_key = |other: &Arc<TableEntry>| {
            other.constraints.iter().any(|key| key.rule.key() == Some(referred.as_slice()))
        };
        !other.is_some_and(has_key)
    };
    let broken = all.filter(|(_, constraint)| is_broken(&constraint.rule));
    broken.map(|(table, constraint)| (table, constraint.name.as_str())).collect()
}

/// Rows as the log will have them, and as it is read: they are nobody else's then, and no longer than needed.
struct Inserted {
    bytes: Vec<u8>,
    rows: RecordBatch,
}

impl Staged {
    fn encode_rows(&self, base: &Snapshot) -> Result<BTreeMap<TableId, Vec<Inserted>>> {
        let tables = self.tables.iter();
        let encoded = tables.map(|(id, staged)| {
            let own_start = base.table_by_id(*id).map_or(0, |before| before.positions());
            Ok((*id, staged.encode_rows(own_start)?))
        });
        encoded.collect()
    }

    /// The commit of these changes on top of the latest state, and the rows of its inserts.
    ///
    /// # Errors
    /// `Conflict` when they do not fit it.
    fn against(
        &self,
        base: &Snapshot,
        latest: &Snapshot,
        mut inserts: BTreeMap<TableId, Vec<Inserted>>,
    ) -> Result<(Commit, Vec<RecordBatch>)> {
        let mut inserted = Vec::new();
        let mut commit = Commit { changes: self.changes.clone(), ..Commit::default() };
        let mut catalog = latest.shared_catalog().clone();
        for change in &self.changes {
            self.check_definition(change, base, latest)?;
            Arc::make_mut(&mut catalog).apply_change(change).map_err(|error| {
                match latest.version() > base.version() {
                    true => Error::new(
                        ErrorKind::Conflict,
                        format!(
                            "{}, since a transaction that committed first; roll back and try again",
                            error.message()
                        ),
                    ),
                    false => error,
                }
            })?;
        }
        commit.changes.extend(self.sequences.changes(&self.catalog));
        for (id, staged) in &self.tables {
            staged.against(*id, base.table_by_id(*id), latest.table_by_id(*id), base, &mut commit)?;
            if staged.removes_rows()
                && let Some(name) = base.table_by_id(*id).map(|table| &table.entry().name)
                && let Some(constraint) = new_reference(*id, base.catalog(), latest.catalog())
            {
                return Err(conflict(name, &format!("was referred to in a new constraint \"{constraint}\"")));
            }
            for Inserted { bytes, rows } in inserts.remove(id).unwrap_or_default() {
                let (id, count) = (*id, rows.num_rows() as u64);
                commit.changes.push(Change::Insert { id, rows: count, bytes: bytes.len() as u64 });
                commit.attachments.push(bytes);
                inserted.push(rows);
            }
        }
        // Another transaction may have dropped a key, or declared a foreign key that refers to one which is dropped here.
        let later = commit.changes.iter().skip(self.changes.len());
        for change in later.filter(|change| matches!(change, Change::ReplaceTable { .. })) {
            Arc::make_mut(&mut catalog).apply_change(change)?;
        }
        if !Arc::ptr_eq(&catalog, latest.shared_catalog())
            && let Some((table, constraint)) =
                broken_references(&catalog).difference(&broken_references(latest.catalog())).next()
        {
            return Err(conflict(table, &format!("lost the key that constraint \"{constraint}\" refers to")));
        }
        Ok((commit, inserted))
    }

    /// What is dropped, altered or replaced must be as it was.
    fn check_definition(&self, change: &Change, base: &Snapshot, latest: &Snapshot) -> Result<()> {
        let id = match change {
            Change::DropTable { id } => *id,
            Change::ReplaceTable { table, .. } => table.id,
            Change::DropView { schema, name } => {
                let view = |snapshot: &Snapshot| snapshot.catalog().view(schema, name).cloned();
                return unchanged("view", name, view(base), view(latest));
            }
            Change::AlterSequence { sequence: SequenceEntry { schema, name, .. } }
            | Change::DropSequence { schema, name } => {
                let now = latest.catalog().sequence(schema, name).cloned();
                let before = base.catalog().sequence(schema, name).cloned();
                // How far it is changes with every value that is taken.
                let before = before.map(|before| match &now {
                    Some(now) => SequenceEntry { state: now.state, ..before },
                    None => before,
                });
                return unchanged("sequence", name, before, now);
            }
            _ => return Ok(()),
        };
        let Some(before) = base.table_by_id(id) else { return Ok(()) };
        let name = &before.entry().name;
        match (change, latest.table_by_id(id)) {
            (_, None) => Err(conflict(name, "was dropped")),
            (Change::ReplaceTable { .. }, Some(now)) if !now.is_unchanged_since(before, base.version()) => {
                Err(conflict(name, "was changed"))
            }
            (_, Some(now)) if now.beyond_files().moved > base.version() => {
                Err(conflict(name, "was altered or compacted"))
            }
            _ => Ok(()),
        }
    }
}

impl StagedTable {
    /// Own rows, the deleted ones included.
    fn own_rows(&self) -> u64 {
        self.in_files.as_ref().map_or(0, |in_files| in_files.rows) + self.rows.rows()
    }

    /// Rows that others may refer to are deleted, updated, or replaced by others.
    fn removes_rows(&self) -> bool {
        let replaced = self.in_files.as_ref().and_then(|in_files| in_files.replaced);
        !self.deleted.is_empty() || replaced == Some(Replaced::Altered)
    }

    fn against(
        &self,
        id: TableId,
        before: Option<&Arc<TableData>>,
        now: Option<&Arc<TableData>>,
        base: &Snapshot,
        commit: &mut Commit,
    ) -> Result<()> {
        let own_start = before.map_or(0, |before| before.positions());
        if let Some(before) = before {
            let name = &before.entry().name;
            let Some(now) = now else { return Err(conflict(name, "was dropped")) };
            let beyond = now.beyond_files();
            let mut deleted = positions_before(&self.deleted, own_start);
            // Rows may be put behind any others, as long as they still fit.
            let moved = beyond.moved > base.version();
            if moved && !(deleted.is_empty() && takes_the_same_rows(before.entry(), now.entry())) {
                return Err(conflict(name, "was altered or compacted"));
            }
            if deleted.max().is_some_and(|last| last >= before.rows_in_files()) {
                let Some(shifts) = beyond.shifts.since(base.version()) else {
                    return Err(conflict(name, "had the row to be deleted or updated moved"));
                };
                deleted = shifts.iter().fold(deleted, |deleted, shift| shift.moved(&deleted));
            }
            if !deleted.is_disjoint(now.deleted()) {
                return Err(conflict(name, "had the same row deleted or updated"));
            }
            push_delete(commit, id, &deleted)?;
        }
        if let Some(in_files) = &self.in_files {
            let in_files_before = now.map_or(0, |now| now.rows_in_files());
            if in_files_before != in_files.before {
                return Err(Error::internal("a table's files have grown under the append lock"));
            }
            let entry = &in_files.entry;
            let generations = entry
                .columns
                .iter()
                .map(|column| ColumnGeneration { column: column.id, generation: column.generation.clone() });
            commit.changes.push(match in_files.replaced {
                None => Change::Append {
                    id,
                    rows: entry.rows,
                    absorbed: in_files.absorbed,
                    generations: generations.collect(),
                },
                Some(how) => {
                    if let (Some(before), Some(now)) = (before, now)
                        && !now.is_unchanged_since(before, base.version())
                    {
                        return Err(conflict(&before.entry().name, CHANGED));
                    }
                    let (table, absorbed) = (entry.as_ref().clone(), in_files.untold());
                    Change::ReplaceTable { table, absorbed, compacted: how == Replaced::Compacted }
                }
            });
            let (first, count) = (in_files.before + in_files.absorbed, in_files.rows);
            let deleted = self.own_deleted(own_start, count).map(|index| index + first).collect();
            push_delete(commit, id, &deleted)?;
        }
        Ok(())
    }

    /// Deleted rows of `count` own ones, the first of which has the position `start`.
    fn own_deleted(&self, start: u64, count: u64) -> impl Iterator<Item = u64> {
        let deleted = self.deleted.iter().skip_while(move |position| *position < start);
        deleted.map(move |position| position - start).take_while(move |index| *index < count)
    }

    /// Own rows that wait in memory, without those that are deleted.
    fn encode_rows(&self, own_start: u64) -> Result<Vec<Inserted>> {
        let mut first = own_start + self.in_files.as_ref().map_or(0, |in_files| in_files.rows);
        let mut encoded = Vec::new();
        for batch in self.rows.batches() {
            let rows = batch.num_rows() as u64;
            let kept = if self.deleted.range_cardinality(first..first + rows) == 0 {
                batch.clone()
            } else {
                let keep: BooleanArray =
                    (first..first + rows).map(|row| Some(!self.deleted.contains(row))).collect();
                filter_record_batch(batch, &keep)
                    .map_err(|error| Error::internal(format!("cannot filter staged rows: {error}")))?
            };
            first += rows;
            if kept.num_rows() > 0 {
                let bytes = encode_rows(&kept)?;
                let rows = decode_rows(&bytes, &kept.schema(), kept.num_rows() as u64)?;
                encoded.push(Inserted { bytes, rows });
            }
        }
        Ok(encoded)
    }
}

/// Ranges of at most [`APPEND_ROWS`] rows.
fn pieces(rows: u64) -> impl Iterator<Item = Range<u64>> {
    (0..rows).step_by(APPEND_ROWS).map(move |start| start..rows.min(start + APPEND_ROWS as u64))
}

/// Some rows of a column at rest.
fn column_piece(column: &ColumnData, rows: &Range<u64>) -> Result<ArrayRef> {
    column.verify_rows(rows.clone())?;
    Ok(column.array()?.slice(rows.start as usize, (rows.end - rows.start) as usize))
}

/// Which of the rows are not deleted.
fn live(rows: &Range<u64>, deleted: &RoaringTreemap) -> BooleanArray {
    rows.clone().map(|row| Some(!deleted.contains(row))).collect()
}

/// The values of the live rows at their places among all; NULL at the others'.
fn at_places(values: &ArrayRef, live: &BooleanArray) -> std::result::Result<ArrayRef, ArrowError> {
    let mut next = 0;
    let place = |live: bool| {
        next += u32::from(live);
        live.then(|| next - 1)
    };
    let places: UInt32Array = live.values().iter().map(place).collect();
    take(values, &places, None)
}

/// A column without rows.
fn new_column_entry(column: NewColumn, id: ColumnId) -> ColumnEntry {
    ColumnEntry {
        id,
        name: column.name,
        generation: empty_generation(Generation(0), &column.logical_type),
        logical_type: column.logical_type,
        nullable: column.nullable,
        default: column.default,
        identity: column.identity,
        generated: column.generated,
        comment: None,
    }
}

fn empty_generation(number: Generation, logical_type: &LogicalType) -> GenerationEntry {
    let nodes = vec![NodeEntry::default(); node_count(logical_type)];
    GenerationEntry { number, encoding: Encoding::Plain, nodes }
}

/// Whether rows that were checked for a table are what it may have now, too: no constraint has come.
fn takes_the_same_rows(before: &TableEntry, now: &TableEntry) -> bool {
    let definition = |column: &ColumnEntry| {
        (column.id, column.logical_type.clone(), column.nullable, column.generated.clone())
    };
    before.columns.iter().map(definition).eq(now.columns.iter().map(definition))
        && now.constraints.iter().all(|constraint| before.constraints.contains(constraint))
}

/// A foreign key that refers to a table, and that was not there in an earlier catalog.
fn new_reference<'a>(id: TableId, before: &Catalog, now: &'a Catalog) -> Option<&'a str> {
    let refers = |constraint: &&ConstraintEntry| matches!(&constraint.rule, ConstraintRule::ForeignKey { table, .. } if *table == id);
    let is_new = |table: &TableEntry, constraint: &ConstraintEntry| {
        let earlier = before.table_by_id(table.id);
        !earlier.is_some_and(|earlier| earlier.constraints.contains(constraint))
    };
    let all = now
        .tables
        .iter()
        .flat_map(|table| table.constraints.iter().filter(refers).map(move |constraint| (table, constraint)));
    let mut found = all.filter(|(table, constraint)| is_new(table, constraint));
    found.next().map(|(_, constraint)| constraint.name.as_str())
}

fn push_delete(commit: &mut Commit, id: TableId, positions: &RoaringTreemap) -> Result<()> {
    if !positions.is_empty() {
        let bytes = encode_positions(positions)?;
        commit.changes.push(Change::Delete { id, rows: positions.len(), bytes: bytes.len() as u64 });
        commit.attachments.push(bytes);
    }
    Ok(())
}

/// Bytes of some arrays' rows.
fn slice_bytes(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// Writers behind the rows of a table's column files.
pub(crate) fn open_columns(store: &Arc<Store>, table: &TableEntry) -> Result<Vec<ColumnWriter>> {
    let open = |column: &ColumnEntry| ColumnWriter::open(column, files_of(store, table.id, column));
    table.columns.iter().map(open).collect()
}

fn files_of(store: &Arc<Store>, table: TableId, column: &ColumnEntry) -> Arc<GenerationFiles> {
    GenerationFiles::new(store.clone(), table, column.id, column.generation.number)
}

/// Writes what is pending; not yet durable.
pub(crate) fn finish_columns(
    columns: &mut [ColumnWriter],
    table: &TableEntry,
) -> Result<Vec<ColumnGeneration>> {
    let finished = columns.iter_mut().zip(&table.columns);
    finished
        .map(|(writer, column)| Ok(ColumnGeneration { column: column.id, generation: writer.finish()? }))
        .collect()
}

/// Makes finished columns durable.
pub(crate) fn sync_columns(store: &Store, id: TableId, columns: &[ColumnWriter]) -> Result<()> {
    // A device takes several syncs at once better than one after the other.
    in_parallel(columns.iter().collect(), SYNCS_AT_ONCE, ColumnWriter::sync)?;
    store.sync_directory("columns")?;
    store.sync_directory(&table_directory(id))
}

/// Runs `task` over the items on up to `threads` threads; the first error in item order wins.
pub(crate) fn in_parallel<T: Send>(
    items: Vec<T>,
    threads: usize,
    task: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().try_for_each(task);
    }
    let workers = threads.min(items.len());
    let queue = Mutex::new(items.into_iter().enumerate());
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().next();
                    let Some((index, item)) = next else { return };
                    if let Err(error) = task(item) {
                        let mut failure = failure.lock();
                        if failure.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                            *failure = Some((index, error));
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), |(_, error)| Err(error))
}

/// The error for a table that does not exist.
pub fn unknown_table(catalog: &Catalog, name: &str) -> Error {
    let tables = catalog.tables.iter().map(|table| (table.schema.as_str(), table.name.as_str()));
    let all = tables.chain(catalog.views.iter().map(|view| (view.schema.as_str(), view.name.as_str())));
    let elsewhere = all.clone().find(|(_, known)| *known == name);
    let suggestion = match elsewhere {
        Some((schema, known)) => format!("; did you mean \"{schema}\".\"{known}\"?"),
        None => did_you_mean(name, all.map(|(_, known)| known)),
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    Error::new(ErrorKind::UnknownName, format!("no table or view \"{name}\"{suggestion}")).about(last)
}
