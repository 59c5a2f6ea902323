//! Transactions: staged changes, rows and deletions, and what a commit compares them with.
//!
//! Two transactions are in conflict when they change the same row or touch the same key of a
//! constraint (`conflict`), not when they write to the same table.
//!
//! Few rows wait in memory and go into the log at commit. Many go straight past the committed
//! lengths of the column files, if no other transaction is doing that with the same table, so that
//! a bulk append is written once; nobody looks there before the commit says how far they reach.

mod append;
mod conflict;
mod constraint;
mod definition;
mod delete;
mod files;
mod keys;
mod new_keys;
mod rewrite;
mod staged;

pub use definition::NewColumn;

use crate::column::{ColumnWriter, GenerationFiles};
use crate::database::{Begun, Database, Synchronous};
use crate::known_keys::{KeyOf, KnownKeys};
use crate::rows::Uncommitted;
use crate::sequence::OwnSequences;
use crate::snapshot::{Snapshot, State};
use append::LOG_ROWS_BYTES_MAX;
use conflict::{check_kept, check_unchanged};
use constraint::{Effort, OwnKeys};
use hashbrown::HashMap;
use hypostyle_format::Catalog;
use hypostyle_io::Lock;
use hypostyle_types::{ColumnId, Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use staged::{Staged, fate};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times that keys are compared before the commit lock is taken, if others commit many meanwhile.
const COMPARISONS_MAX: usize = 4;

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
    /// A mark that is given to those who read rows that it has written to column files.
    uncommitted: Uncommitted,
    /// Files of columns that were written anew, which no version has yet.
    made: Vec<Arc<GenerationFiles>>,
    /// A commit may have made them the table's.
    is_committed: bool,
    changed: BTreeMap<TableId, Changed>,
    /// Tables that were read as a whole, and must stay as they are.
    guarded: BTreeSet<TableId>,
    /// Rows that must stay as they are, by their positions in [`Self::snapshot`].
    kept: BTreeMap<TableId, RoaringTreemap>,
    known_keys: HashMap<KeyOf, KnownKeys>,
    /// Keeps the database's own thread from changing tables meanwhile.
    _begun: Option<Begun>,
}

/// What was done to a table since [`Transaction::take_changed`] was asked last.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The position of the first new row, be it one that was updated.
    pub first_new: Option<u64>,
    /// The positions of deleted rows, and of updated ones before that.
    pub removed: RoaringTreemap,
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

impl Database {
    /// Begins a transaction that reads what is committed now.
    ///
    /// # Errors
    /// As [`Self::snapshot`]; `Closed` after [`Self::close`].
    pub fn begin(self: &Arc<Self>, threads: usize) -> Result<Transaction> {
        self.begin_at(self.snapshot()?, threads)
    }

    /// Begins a transaction that reads a snapshot of this database.
    ///
    /// # Errors
    /// `Closed` after [`Self::close`].
    pub fn begin_at(self: &Arc<Self>, snapshot: Arc<Snapshot>, threads: usize) -> Result<Transaction> {
        self.check_open()?;
        self.check_process()?;
        let begun = self.begun();
        if let Err(error) = self.remove_left_behind() {
            tracing::warn!(%error, "rows that were rolled back stay behind in the files of a table");
        }
        Ok(Transaction::new(self.clone(), snapshot, threads, Some(begun)))
    }

    /// Begins a transaction of the database's own, which others need not look out for.
    pub(crate) fn begin_upkeep(self: &Arc<Self>) -> Result<Transaction> {
        Ok(Transaction::new(self.clone(), self.snapshot()?, 1, None))
    }
}

impl Transaction {
    fn new(database: Arc<Database>, base: Arc<Snapshot>, threads: usize, begun: Option<Begun>) -> Self {
        let staged = Staged {
            catalog: base.shared_catalog().clone(),
            changes: Vec::new(),
            tables: BTreeMap::new(),
            sequences: OwnSequences::default(),
            definitions: None,
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
            kept: BTreeMap::new(),
            known_keys: HashMap::new(),
            _begun: begun,
        }
    }

    /// Makes this a transaction of several statements, which see what those before them have
    /// changed.
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

    /// Notes that rows of a table which are stored elsewhere are deleted, or get other values in some
    /// columns.
    pub fn note_taken(&mut self, id: TableId, deletes: bool, assigned: &BTreeSet<ColumnId>) {
        let changed = self.changed.entry(id).or_default();
        changed.deleted |= deletes;
        changed.assigned.extend(assigned);
    }

    /// Has the commit compare a table with the base: another transaction that has changed it is a
    /// conflict.
    pub fn guard(&mut self, id: TableId) {
        self.guarded.insert(id);
    }

    /// Has the commit look at rows of a table, which are told by their positions in [`Self::snapshot`]:
    /// another transaction that has deleted or updated one of them is a conflict.
    pub fn keep_rows(&mut self, id: TableId, positions: &RoaringTreemap) {
        *self.kept.entry(id).or_default() |= positions;
    }

    /// Whether there is anything to commit.
    pub fn is_empty(&self) -> bool {
        self.staged.changes.is_empty() && self.staged.tables.is_empty() && self.staged.sequences.is_empty()
    }

    /// The tables that it has appended rows to, or deleted rows of.
    pub fn written(&self) -> Vec<TableId> {
        self.staged.tables.keys().copied().collect()
    }

    /// Says whether it has changed nothing but rows.
    pub fn defines_nothing(&self) -> bool {
        self.staged.changes.is_empty() && self.staged.sequences.is_empty()
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
            rows.tail.append(&staged.rows);
            if !staged.deleted.is_empty() {
                *Arc::make_mut(&mut rows.deleted) |= &staged.deleted;
            }
        }
        // Who asks twice is told that nothing has changed between, and who asks after a rollback is not
        // told so.
        if let Some(definitions) = &self.staged.definitions {
            state.definitions.clone_from(definitions);
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
        self.forget_keys();
        self.database.roll_back(&std::mem::take(&mut self.uncommitted));
    }

    /// Makes the changes durable and visible. Returns the version that they make; without changes,
    /// the newest.
    ///
    /// # Errors
    /// `Conflict` when another transaction has changed the same first; `DiskFull`, `Io`. Nothing of
    /// the transaction is then visible, now or after reopening.
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
        // What others stand in for goes with the commit, or is not read any more, and must not be
        // lost with them.
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
                for (id, table) in self.guarded.iter().filter_map(|id| Some((id, base.table_by_id(*id)?))) {
                    check_unchanged(&table.entry().name, fate(*id, base, latest))?;
                }
                for (id, rows) in &self.kept {
                    check_kept(base.table_by_id(*id), latest.table_by_id(*id), base.version(), rows)?;
                }
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
        self.database.note_work();
        Ok(snapshot)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.writers.clear();
        self.database.roll_back(&self.uncommitted);
        if self.database.check_process().is_err() {
            return;
        }
        // After a panic nobody knows whether the commit is there.
        if self.is_committed && std::thread::panicking() {
            return;
        }
        for id in &self.created {
            self.database.abandon_table(*id);
        }
        if self.is_committed {
            self.leave_keys();
            return;
        }
        // With the append locks: nobody else writes there. The lock of a table that is abandoned is on a
        // directory that is gone, and another transaction may have taken the id, and have committed.
        let written = self.locks.keys().filter(|id| !self.created.contains(id));
        self.made.retain(|files| !self.created.contains(&files.table));
        if let Err(error) = self.database.remove_rolled_back(written, &self.made) {
            tracing::warn!(%error, "rows that were rolled back stay behind in the files of a table");
        }
        if self.database.has_left_behind() {
            self.database.note_work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, RecordBatch, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};
    use hypostyle_format::TableEntry;
    use hypostyle_types::LogicalType;
    use proptest::prelude::*;
    use proptest::sample::Index;

    const A: ColumnId = ColumnId(0);
    const B: ColumnId = ColumnId(1);

    fn batch(values: &[i32]) -> RecordBatch {
        let field = Field::new("a", DataType::Int32, true);
        let values = Arc::new(Int32Array::from(values.to_vec()));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).unwrap()
    }

    fn positions(rows: &[u64]) -> RoaringTreemap {
        rows.iter().copied().collect()
    }

    /// A database in memory with a table of one column and some committed rows.
    fn with_table(values: &[i32]) -> (Arc<Database>, TableId) {
        let database = Database::in_memory().unwrap();
        let mut transaction = database.begin(1).unwrap();
        let column = NewColumn::new("a", LogicalType::Integer, true);
        let id = transaction.create_table("main", "t", vec![column]).unwrap();
        transaction.append(id, &batch(values)).unwrap();
        transaction.commit().unwrap();
        (database, id)
    }

    /// The values of the rows that are not deleted, in order.
    fn values(snapshot: &Snapshot, id: TableId) -> Vec<i32> {
        let table = snapshot.table_by_id(id).unwrap();
        let live = (0..table.positions()).filter(|row| !table.deleted().contains(*row));
        let columns = table.rows_at(&[0], &UInt64Array::from_iter_values(live), 1).unwrap();
        columns[0].as_primitive::<Int32Type>().values().to_vec()
    }

    #[test]
    fn it_sees_its_own_changes_and_nobody_else_does() {
        let (database, id) = with_table(&[1, 2, 3]);
        let mut transaction = database.begin(1).unwrap().of_statements();
        assert!(transaction.is_empty());
        assert!(Arc::ptr_eq(&transaction.snapshot().unwrap(), transaction.base()));
        transaction.append(id, &batch(&[4, 5])).unwrap();
        assert_eq!(transaction.delete(id, &positions(&[1, 4])).unwrap(), 2);
        // Once is enough.
        assert_eq!(transaction.delete(id, &positions(&[1])).unwrap(), 0);
        assert_eq!(values(&transaction.snapshot().unwrap(), id), [1, 3, 4]);
        assert_eq!(values(&database.snapshot().unwrap(), id), [1, 2, 3]);
        assert_eq!(transaction.delete(id, &positions(&[5])).unwrap_err().kind(), ErrorKind::Internal);
        let committed = transaction.commit().unwrap();
        assert_eq!(values(&committed, id), [1, 3, 4]);
    }

    #[test]
    fn a_savepoint_takes_back_definitions_rows_and_deletions() {
        let (database, id) = with_table(&[1, 2]);
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.append(id, &batch(&[3])).unwrap();
        let savepoint = transaction.savepoint().unwrap();
        transaction.append(id, &batch(&[4])).unwrap();
        transaction.delete(id, &positions(&[0])).unwrap();
        transaction.create_schema("s").unwrap();
        transaction.take_changed();
        transaction.delete(id, &positions(&[1])).unwrap();
        assert_eq!(values(&transaction.snapshot().unwrap(), id), [3, 4]);
        transaction.roll_back_to(&savepoint);
        assert!(transaction.take_changed().is_empty());
        assert!(!transaction.catalog().schemas.iter().any(|schema| schema.name == "s"));
        assert_eq!(values(&transaction.snapshot().unwrap(), id), [1, 2, 3]);
        drop(transaction);
        assert_eq!(values(&database.snapshot().unwrap(), id), [1, 2]);
    }

    #[test]
    fn each_change_of_definitions_has_an_address_of_its_own() {
        let (database, id) = with_table(&[1]);
        let before = database.snapshot().unwrap().definitions().clone();
        let mut transaction = database.begin(1).unwrap().of_statements();
        let address = |transaction: &mut Transaction| transaction.snapshot().unwrap().definitions().clone();
        transaction.append(id, &batch(&[2])).unwrap();
        assert!(Arc::ptr_eq(&address(&mut transaction), &before), "rows are no definitions");
        let rename = |table: &mut TableEntry| -> Result<()> {
            table.columns[0].name = "b".into();
            Ok(())
        };
        transaction.alter_table(id, rename).unwrap();
        let altered = address(&mut transaction);
        assert!(!Arc::ptr_eq(&altered, &before));
        assert!(Arc::ptr_eq(&address(&mut transaction), &altered), "nothing has changed between");
        let savepoint = transaction.savepoint().unwrap();
        let column = NewColumn::new("c", LogicalType::Integer, true);
        let nulls = |rows: &RecordBatch| Ok(arrow_array::new_null_array(&DataType::Int32, rows.num_rows()));
        transaction.add_column(id, column, false, nulls).unwrap();
        let added = address(&mut transaction);
        assert!(!Arc::ptr_eq(&added, &altered) && !Arc::ptr_eq(&added, &before));
        transaction.create_schema("s").unwrap();
        assert!(!Arc::ptr_eq(&address(&mut transaction), &added));
        transaction.roll_back_to(&savepoint);
        assert!(Arc::ptr_eq(&address(&mut transaction), &altered));
        drop(transaction);
        assert!(Arc::ptr_eq(database.snapshot().unwrap().definitions(), &before));
        let mut transaction = database.begin(1).unwrap();
        transaction.alter_table(id, rename).unwrap();
        let committed = transaction.commit().unwrap().definitions().clone();
        assert!(!Arc::ptr_eq(&committed, &before) && !Arc::ptr_eq(&committed, &altered));
    }

    #[test]
    fn what_was_changed_is_told_once() {
        let (database, id) = with_table(&[1, 2]);
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.delete_updated(id, &positions(&[0]), &BTreeSet::from([A])).unwrap();
        transaction.append_updated(id, &batch(&[7])).unwrap();
        let changed = transaction.take_changed();
        let updated = &changed[&id];
        assert_eq!(updated.first_new, Some(2));
        assert!(updated.gives(&[A]) && updated.takes(&[A, B]));
        assert!(!updated.gives(&[B]) && !updated.takes(&[B]));
        assert!(transaction.take_changed().is_empty());
        transaction.append(id, &batch(&[8])).unwrap();
        let inserted = &transaction.take_changed()[&id];
        assert_eq!(inserted.first_new, Some(3));
        assert!(inserted.gives(&[B]) && !inserted.takes(&[A]));
        transaction.delete(id, &positions(&[1])).unwrap();
        let deleted = &transaction.take_changed()[&id];
        assert!(deleted.takes(&[B]) && !deleted.gives(&[A]) && deleted.first_new.is_none());
        transaction.note_taken(id, false, &BTreeSet::from([B]));
        let taken = &transaction.take_changed()[&id];
        assert!(taken.takes(&[A, B]) && !taken.takes(&[A]) && taken.first_new.is_none());
    }

    #[test]
    fn rows_of_another_shape_are_refused() {
        let (database, id) = with_table(&[1]);
        let mut transaction = database.begin(1).unwrap();
        let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let error = transaction.append(id, &none).unwrap_err();
        assert!(error.message().contains("has 1 columns, but the data has 0"), "{error}");
        let error = transaction.append(TableId(99), &batch(&[1])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }

    #[test]
    fn a_guarded_table_must_stay_as_it_was() {
        let (database, id) = with_table(&[1]);
        for guards in [false, true] {
            let mut transaction = database.begin(1).unwrap();
            if guards {
                transaction.guard(id);
            }
            transaction.create_schema(&format!("s{guards}")).unwrap();
            let mut other = database.begin(1).unwrap();
            other.append(id, &batch(&[2])).unwrap();
            other.commit().unwrap();
            let committed = transaction.commit();
            assert_eq!(committed.err().map(|error| error.kind()), guards.then_some(ErrorKind::Conflict));
        }
    }

    #[test]
    fn kept_rows_must_stay_as_they_were() {
        let (database, id) = with_table(&[1, 2, 3]);
        for (gone, is_conflict) in [(1, false), (0, true)] {
            let mut transaction = database.begin(1).unwrap();
            let live = transaction.base().table_by_id(id).unwrap().deleted().clone();
            let live: Vec<u64> = (0..3).filter(|position| !live.contains(*position)).collect();
            transaction.keep_rows(id, &positions(&live[..1]));
            transaction.create_schema(&format!("s{gone}")).unwrap();
            let mut other = database.begin(1).unwrap();
            other.append(id, &batch(&[4])).unwrap();
            other.delete(id, &positions(&[live[gone]])).unwrap();
            other.commit().unwrap();
            let committed = transaction.commit();
            assert_eq!(committed.err().map(|error| error.kind()), is_conflict.then_some(ErrorKind::Conflict));
        }
        // Who has changed nothing has read one state, whatever came later.
        let mut transaction = database.begin(1).unwrap();
        transaction.keep_rows(id, &positions(&[2]));
        let mut other = database.begin(1).unwrap();
        other.delete(id, &positions(&[2])).unwrap();
        other.commit().unwrap();
        transaction.commit().unwrap();
    }

    #[test]
    fn many_rows_go_to_the_files_of_one_transaction_and_wait_in_memory_of_another() {
        let (database, id) = with_table(&[1]);
        let many: Vec<i32> = (0..100_000).collect();
        let (mut first, mut second) = (database.begin(1).unwrap(), database.begin(1).unwrap());
        first.append(id, &batch(&many)).unwrap();
        second.append(id, &batch(&many)).unwrap();
        let rows = |transaction: &Transaction| {
            let staged = &transaction.staged.tables[&id];
            (staged.in_files.as_ref().map(|in_files| in_files.rows), staged.rows.rows())
        };
        assert_eq!(rows(&first), (Some(100_000), 0));
        assert_eq!(rows(&second), (None, 100_000));
        first.commit().unwrap();
        let committed = second.commit().unwrap();
        assert_eq!(committed.table_by_id(id).unwrap().rows(), 200_001);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(Vec<i32>),
        Delete(Index),
        Save,
        RollBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => proptest::collection::vec(any::<i32>(), 0..4).prop_map(Step::Append),
            3 => any::<Index>().prop_map(Step::Delete),
            1 => Just(Step::Save),
            1 => Just(Step::RollBack),
        ]
    }

    proptest! {
        #[test]
        fn it_does_what_a_list_of_rows_would(
            first in proptest::collection::vec(any::<i32>(), 0..4),
            steps in proptest::collection::vec(step(), 0..12),
        ) {
            let (database, id) = with_table(&first);
            let mut transaction = database.begin(1).unwrap().of_statements();
            let mut model: Vec<Option<i32>> = first.into_iter().map(Some).collect();
            let mut saved = (transaction.savepoint().unwrap(), model.clone());
            for step in steps {
                match step {
                    Step::Append(values) => {
                        transaction.append(id, &batch(&values)).unwrap();
                        model.extend(values.into_iter().map(Some));
                    }
                    Step::Delete(row) if !model.is_empty() => {
                        let row = row.index(model.len());
                        let count = transaction.delete(id, &positions(&[row as u64])).unwrap();
                        prop_assert_eq!(count == 1, model[row].take().is_some());
                    }
                    Step::Delete(_) => {}
                    Step::Save => saved = (transaction.savepoint().unwrap(), model.clone()),
                    Step::RollBack => {
                        transaction.roll_back_to(&saved.0);
                        model = saved.1.clone();
                    }
                }
                let live: Vec<i32> = model.iter().flatten().copied().collect();
                prop_assert_eq!(values(&transaction.snapshot().unwrap(), id), live);
            }
            let live: Vec<i32> = model.into_iter().flatten().collect();
            prop_assert_eq!(values(&transaction.commit().unwrap(), id), live);
        }
    }
}
