//! What one transaction, handle or process does between two steps of another: no lock, directory or
//! version is taken for what it was before.

use crate::common::{assert_undamaged, batch, column, columns_of, create, create_in_log, open};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, NewColumn, OpenMode, Snapshot, StorageOptions};
use hypostyle_types::{LogicalType, TableId};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

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
