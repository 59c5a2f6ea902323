//! What one transaction, handle or process does between two steps of another: no lock, directory or
//! version is taken for what it was before.

use crate::common::{
    append, append_to_log, assert_undamaged, batch, column, columns_of, create, create_in_log, open,
};
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, NewColumn, OpenMode, Patience, Snapshot, StorageOptions, Synchronous};
use hypostyle_types::{ErrorKind, LogicalType, TableId};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Question = Box<dyn Fn(Operation<'_>) -> bool + Send>;
type Work = Box<dyn FnOnce() + Send>;

/// Does something once, just before an operation on disk.
#[derive(Default)]
struct Meanwhile(Mutex<Option<(Question, Work)>>);

impl Meanwhile {
    fn set(
        &self,
        is_time: impl Fn(Operation<'_>) -> bool + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) {
        *self.0.lock().unwrap() = Some((Box::new(is_time), Box::new(work)));
    }

    fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Meanwhile")
    }
}

impl Observer for Meanwhile {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let due = self.0.lock().unwrap().take_if(|(is_time, _)| is_time(operation));
        if let Some((_, work)) = due {
            work();
        }
        Ok(())
    }
}

fn open_observed(path: &Path) -> (Arc<Database>, Arc<Meanwhile>) {
    let meanwhile = Arc::new(Meanwhile::default());
    let options = StorageOptions { observer: Some(meanwhile.clone()), ..OpenMode::ReadWrite.into() };
    (Database::open(path, options).unwrap(), meanwhile)
}

fn numbers(values: std::ops::Range<i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    batch(vec![("n", array)])
}

fn rows(snapshot: &Snapshot, table: &str) -> usize {
    column(snapshot, table, 0).len()
}

#[test]
fn an_abandoned_table_takes_no_files_of_the_next_one_of_its_id_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (database, meanwhile) = open_observed(&path);
    let other = open(&path);
    let mut transaction = database.begin(1).unwrap().of_statements();
    let first = transaction.create_table("main", "a", columns_of(&numbers(0..1))).unwrap();
    transaction.append(first, &numbers(0..10)).unwrap();
    let added = NewColumn::new("m", LogicalType::BigInt, true);
    transaction.add_column(first, added, true, |rows| Ok(rows.column(0).clone())).unwrap();
    let last = transaction.create_table("main", "b", columns_of(&numbers(0..1))).unwrap();
    // The directory of the first one is gone by then, and its id is free.
    let is_time = move |operation: Operation<'_>| match operation {
        Operation::RemoveDirectory { directory } => directory.ends_with(&format!("columns/{last}")),
        _ => false,
    };
    let handle = other.clone();
    meanwhile.set(is_time, move || {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let both = batch(vec![("n", values.clone()), ("m", values)]);
        assert_eq!(create_in_log(&handle, "t", &[both]).unwrap(), first);
    });
    drop(transaction);
    assert!(meanwhile.is_done());
    let snapshot = other.snapshot().unwrap();
    assert_undamaged(&snapshot);
    assert_eq!(column(&snapshot, "t", 1).len(), 100_000);
}

#[test]
fn a_commit_that_ends_with_a_panic_keeps_the_files_of_its_tables() {
    let directory = tempfile::tempdir().unwrap();
    let (database, meanwhile) = open_observed(&directory.path().join("d"));
    let is_time = |operation: Operation<'_>| match operation {
        Operation::Sync { file } => file.contains("/log-"),
        _ => false,
    };
    meanwhile.set(is_time, || panic!("the commit is written"));
    let created =
        catch_unwind(AssertUnwindSafe(|| create_in_log(&database, "t", &[numbers(0..100_000)]).is_ok()));
    assert!(created.is_err() && meanwhile.is_done());
    // The next one publishes it.
    create_in_log(&database, "u", &[numbers(0..1)]).unwrap();
    let snapshot = database.snapshot().unwrap();
    assert_undamaged(&snapshot);
    assert_eq!(rows(&snapshot, "t"), 100_000);
}

/// Writes rows to the files of those tables that nobody else is writing, and rolls them back. The snapshot
/// looks at them.
fn roll_back(database: &Arc<Database>, tables: &[TableId]) -> Arc<Snapshot> {
    let mut transaction = database.begin(1).unwrap();
    tables.iter().for_each(|id| transaction.append(*id, &numbers(10..100_000)).unwrap());
    transaction.snapshot().unwrap()
}

/// The lengths of the files of the only columns of tables.
fn lengths(database: &Database, tables: [TableId; 2]) -> [u64; 2] {
    let path = database.path().unwrap();
    tables.map(|id| fs::metadata(path.join(format!("columns/{id}/0-0-0.values"))).unwrap().len())
}

#[test]
fn rows_that_are_rolled_back_while_others_are_removed_stay_for_those_who_look_at_them() {
    let directory = tempfile::tempdir().unwrap();
    let (database, meanwhile) = open_observed(&directory.path().join("d"));
    let tables = ["t", "u"].map(|name| create(&database, name, &[numbers(0..10)]).unwrap());
    let held = Arc::new(Mutex::new(None));
    let meet = || {
        let (database, held) = (database.clone(), held.clone());
        let is_time = |operation: Operation<'_>| matches!(operation, Operation::SetLength { .. });
        meanwhile.set(is_time, move || *held.lock().unwrap() = Some(roll_back(&database, &tables)));
    };
    let let_go = || drop(held.lock().unwrap().take());

    // What a killed process has left in both is removed by a checkpoint, one after the other.
    for id in tables {
        let file = database.path().unwrap().join(format!("columns/{id}/0-0-0.values"));
        fs::File::options().append(true).open(file).unwrap().write_all(&[7; 8]).unwrap();
    }
    meet();
    assert!(database.checkpoint().unwrap());
    assert!(meanwhile.is_done());
    let mut found = lengths(&database, tables);
    found.sort_unstable();
    assert_eq!(found, [80, 800_000]);
    let_go();
    assert!(database.checkpoint().unwrap());
    assert_eq!(lengths(&database, tables), [80, 80]);

    // What transactions have left behind is removed when the next one begins.
    drop(roll_back(&database, &tables));
    assert_eq!(lengths(&database, tables), [800_000, 800_000]);
    meet();
    drop(database.begin(1).unwrap());
    assert!(meanwhile.is_done());
    assert_eq!(lengths(&database, tables), [80, 800_000]);
    let_go();
    drop(database.begin(1).unwrap());
    assert_eq!(lengths(&database, tables), [80, 80]);
}

/// Fails a sync of the log while somebody else has the lock to commit, and notes whether `shared` is written
/// before he has let go of it.
#[derive(Debug, Default)]
struct FailsLocked {
    is_due: AtomicBool,
    is_locked: Arc<AtomicBool>,
    wrote_unlocked: AtomicBool,
}

impl Observer for FailsLocked {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        match operation {
            Operation::Sync { file }
                if file.contains("/log-") && self.is_due.swap(false, Ordering::Relaxed) =>
            {
                let holder = fs::File::open(Path::new(file).with_file_name("shared"))?;
                holder.lock()?;
                self.is_locked.store(true, Ordering::Relaxed);
                let is_locked = self.is_locked.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(400));
                    is_locked.store(false, Ordering::Relaxed);
                    drop(holder);
                });
                Err(io::Error::from_raw_os_error(5))
            }
            Operation::Write { file, .. } if file.ends_with("/shared") => {
                self.wrote_unlocked.fetch_or(self.is_locked.load(Ordering::Relaxed), Ordering::Relaxed);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[test]
fn a_failed_sync_is_told_with_the_lock_to_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let fails = Arc::new(FailsLocked::default());
    let options = StorageOptions { observer: Some(fails.clone()), ..OpenMode::ReadWrite.into() };
    let (database, other) = (Database::open(&path, options).unwrap(), open(&path));
    let id = create_in_log(&database, "t", &[numbers(0..3)]).unwrap();
    fails.is_due.store(true, Ordering::Relaxed);
    let patient = Patience::of(Some(Duration::from_millis(50))).hold();
    let error = append_to_log(&database, id, &numbers(3..4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    drop(patient);
    assert!(!fails.is_due.load(Ordering::Relaxed) && !fails.wrote_unlocked.load(Ordering::Relaxed));
    let error = append_to_log(&other, id, &numbers(3..4)).unwrap_err();
    assert!(error.message().contains("earlier commit"), "{error}");
}

/// Rows of a text column with so many different values.
fn texts(rows: usize, distinct: usize) -> RecordBatch {
    let texts: LargeStringArray = (0..rows).map(|row| Some(format!("value {}", row % distinct))).collect();
    batch(vec![("s", Arc::new(texts) as ArrayRef)])
}

#[test]
fn a_commit_behind_an_unfinished_checkpoint_is_not_visible_before_files_are_made_superfluous_durably() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let ((database, checkpoint), (other, commit)) = (open_observed(&path), open_observed(&path));
    let id = create(&database, "t", &[texts(10_000, 120)]).unwrap();
    // The codes of the dictionary do not suffice for these: the column gets files of another generation.
    append_to_log(&database, id, &texts(300, 200)).unwrap();
    let is_sync = |operation: Operation<'_>| match operation {
        Operation::Sync { file } => file.contains("/log-"),
        _ => false,
    };
    checkpoint.set(is_sync, || panic!("the process dies"));
    assert!(catch_unwind(AssertUnwindSafe(|| database.checkpoint().is_ok())).is_err());
    assert!(checkpoint.is_done());
    commit.set(is_sync, || {});
    other.set_synchronous(Synchronous::Off);
    append_to_log(&other, id, &texts(1, 1)).unwrap();
    assert!(commit.is_done(), "a file is superfluous by a commit that may be lost");
    let snapshot = other.snapshot().unwrap();
    assert_eq!(snapshot.table_by_id(id).unwrap().columns()[0].entry().generation.number.0, 1);
    assert_eq!(rows(&snapshot, "t"), 10_301);
    assert_undamaged(&snapshot);
}

#[test]
fn a_backup_keeps_what_somebody_reads_who_has_come_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("d"), directory.path().join("backup"));
    let database = open(&path);
    let [t, u] = ["t", "u"].map(|name| create(&database, name, &[numbers(0..100)]).unwrap());
    database.backup(&target, |_| true).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.drop_table(u).unwrap();
    transaction.commit().unwrap();
    append(&database, t, &numbers(100..200)).unwrap();
    let mut seen = None;
    let look = |_| {
        if seen.is_none() {
            seen = Some(Database::open(&target, OpenMode::ReadOnly).unwrap().snapshot().unwrap());
        }
        true
    };
    database.backup(&target, look).unwrap();
    let seen = seen.unwrap();
    assert_eq!((rows(&seen, "t"), rows(&seen, "u")), (100, 100));
    drop(seen);
    // A reader that cannot register keeps all versions by a lock.
    let keeper = fs::File::open(target.join("columns")).unwrap();
    keeper.lock_shared().unwrap();
    let error = database.backup(&target, |_| true).unwrap_err();
    assert!(error.message().contains("it is open"), "{error}");
    drop(keeper);
    database.backup(&target, |_| true).unwrap();
    assert!(!target.join(format!("columns/{u}")).exists());
    let later = Database::open(&target, OpenMode::ReadOnly).unwrap();
    assert_eq!(rows(&later.snapshot().unwrap(), "t"), 200);
}

#[test]
fn a_reader_of_a_backup_does_not_take_the_next_one_for_what_its_log_led_to() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("d"), directory.path().join("backup"));
    let database = open(&path);
    let id = create_in_log(&database, "t", &[numbers(0..5)]).unwrap();
    // It makes no checkpoint: the rows are in the log of the backup.
    let source = Database::open(&path, OpenMode::ReadOnly).unwrap();
    source.backup(&target, |_| true).unwrap();
    append_to_log(&database, id, &numbers(5..100_005)).unwrap();
    let mut reader = None;
    let look = |_| {
        if reader.is_none() {
            reader = Some(Database::open(&target, OpenMode::ReadOnly).unwrap());
        }
        true
    };
    source.backup(&target, look).unwrap();
    let reader = reader.unwrap();
    assert_eq!(rows(&reader.snapshot().unwrap(), "t"), 5);
    let writer = open(&target);
    for database in [&writer, &reader] {
        assert_eq!(rows(&database.snapshot().unwrap(), "t"), 100_005);
    }
}
