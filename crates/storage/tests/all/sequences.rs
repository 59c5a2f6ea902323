//! Values of sequences are given out once: to threads, to processes, and over crashes.

use crate::common::history::sequence;
use crate::common::{append_to_log, batch, column, create_in_log, open};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use hypostyle_storage::{Database, SequenceState};
use hypostyle_types::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Tells a child where its database is.
const DIRECTORY: &str = "HYPOSTYLE_TEST_SEQUENCE_DIRECTORY";

fn create(path: &Path) -> Arc<Database> {
    let database = open(path);
    let mut transaction = database.begin(1).unwrap();
    transaction.create_sequence(sequence("s")).unwrap();
    transaction.commit().unwrap();
    create_in_log(&database, "t", &[rows(&[])]).unwrap();
    database
}

fn next(database: &Database, count: u64) -> Vec<i64> {
    database.next_values(&database.snapshot().unwrap(), "main", "s", count).unwrap()
}

fn rows(values: &[i64]) -> RecordBatch {
    batch(vec![("n", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)])
}

fn stored(database: &Database) -> Vec<i64> {
    column(&database.snapshot().unwrap(), "t", 0).as_primitive::<Int64Type>().values().to_vec()
}

/// A process that takes values and stores some of them, until it is killed.
#[test]
#[ignore = "run by the other tests as one of several processes"]
fn child_that_takes_values() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let database = open(&path);
    let id = database.snapshot().unwrap().table("main", "t").unwrap().entry().id;
    for count in (1..=7).cycle() {
        let values = next(&database, count);
        println!("took {}", values.iter().map(i64::to_string).collect::<Vec<_>>().join(" "));
        if count % 3 == 0 {
            append_to_log(&database, id, &rows(&values)).unwrap();
        }
    }
}

#[test]
fn processes_and_threads_never_get_the_same_value() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = create(&path);
    let child = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sequences::child_that_takes_values", "--ignored", "--nocapture"])
            .env(DIRECTORY, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut children = [child(), child()];
    let threads: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| (0..200).flat_map(|_| next(&database, 3)).collect::<Vec<i64>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let mut all = threads;
    for child in &mut children {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some while the other processes are at work, and the rest of what it says before it dies.
        let some: Vec<String> = lines.by_ref().take(60).map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        for line in some.into_iter().chain(lines.map_while(Result::ok)) {
            if let Some(values) = line.strip_prefix("took ") {
                all.extend(values.split(' ').filter_map(|value| value.parse::<i64>().ok()));
            }
        }
    }
    let distinct: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "a value was given out twice");
    let in_table = stored(&database);
    assert_eq!(in_table.iter().collect::<BTreeSet<_>>().len(), in_table.len());
    drop(database);
    // Nobody has synced what came behind the last commit, but nobody has lost it either.
    let last = distinct.last().unwrap().max(in_table.iter().max().unwrap());
    assert!(next(&open(&path), 1)[0] > *last);
}

#[test]
fn stored_values_are_not_given_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    create(&path);
    let mut before = 0;
    for round in 0..6 {
        let database = open(&path);
        let id = database.snapshot().unwrap().table("main", "t").unwrap().entry().id;
        let values = next(&database, 5);
        assert!(values[0] > before, "round {round}: {values:?}");
        append_to_log(&database, id, &rows(&values)).unwrap();
        before = values[4];
        if round % 2 == 1 {
            assert!(database.checkpoint().unwrap());
        }
        next(&database, 5);
        drop(database);
        if round % 3 == 2 {
            // As after a restart of the machine.
            fs::remove_file(path.join("shared")).unwrap();
        }
    }
    assert_eq!(stored(&open(&path)).len(), 30);
}

#[test]
fn a_transaction_that_is_rolled_back_keeps_its_values_but_not_its_sequences() {
    let database = Database::in_memory().unwrap();
    let mut transaction = database.begin(1).unwrap().of_statements();
    transaction.create_sequence(sequence("s")).unwrap();
    let snapshot = transaction.snapshot().unwrap();
    assert_eq!(database.next_values(&snapshot, "main", "s", 3).unwrap(), [1, 2, 3]);
    assert_eq!(
        database.next_values(&database.snapshot().unwrap(), "main", "s", 1).unwrap_err().kind(),
        ErrorKind::UnknownName
    );
    transaction.commit().unwrap();
    assert_eq!(next(&database, 2), [4, 5]);

    // What is begun anew is so for others at the commit.
    let mut transaction = database.begin(1).unwrap().of_statements();
    let entry = database.snapshot().unwrap().catalog().sequence("main", "s").unwrap().clone();
    transaction.alter_sequence(entry.clone(), Some(100)).unwrap();
    let snapshot = transaction.snapshot().unwrap();
    assert_eq!(database.next_values(&snapshot, "main", "s", 2).unwrap(), [100, 101]);
    assert_eq!(next(&database, 1), [6]);
    drop(transaction);
    assert_eq!(next(&database, 1), [7]);
    let mut transaction = database.begin(1).unwrap().of_statements();
    transaction.alter_sequence(entry, Some(100)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(next(&database, 1), [100]);

    // An alteration leaves the state to those who advance it meanwhile.
    let mut transaction = database.begin(1).unwrap();
    let entry = database.snapshot().unwrap().catalog().sequence("main", "s").unwrap().clone();
    transaction.alter_sequence(hypostyle_storage::SequenceEntry { increment: 10, ..entry }, None).unwrap();
    assert_eq!(next(&database, 3), [101, 102, 103]);
    transaction.commit().unwrap();
    assert_eq!(next(&database, 2), [113, 123]);

    let snapshot = database.snapshot().unwrap();
    let set = |last| database.set_sequence(&snapshot, "main", "s", SequenceState { last, is_called: false });
    set(7).unwrap();
    assert_eq!(next(&database, 1), [7]);
    assert_eq!(set(0).unwrap_err().sqlstate(), "22003");
}

/// The log does not grow for ever with values that nobody stores.
#[test]
fn many_values_make_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = create(&path);
    let checkpoints = || {
        let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("catalog-")).collect::<Vec<_>>()
    };
    let before = checkpoints();
    for _ in 0..15_000 {
        next(&database, 1);
    }
    assert_ne!(checkpoints(), before);
    assert_eq!(next(&database, 1), [15_001]);
    drop(database);
    assert_eq!(next(&open(&path), 1), [15_002]);
}
