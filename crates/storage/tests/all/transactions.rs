//! Transactions from outside: what is seen, what conflicts, and what is left behind.

use crate::common::{
    self, append, append_to_log, assert_undamaged, batch, column, create, create_in_log, open,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch, UInt64Array};
use arrow_cast::cast;
use arrow_select::take::take;
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, NewColumn, OpenMode, Snapshot, StorageOptions};
use hypostyle_types::{BLOCK_ROWS, ErrorKind, LogicalType, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    batch(vec![("n", array)])
}

fn values(snapshot: &Snapshot) -> Vec<i64> {
    column(snapshot, "t", 0).as_primitive::<Int64Type>().values().to_vec()
}

fn rows(positions: impl IntoIterator<Item = u64>) -> RoaringTreemap {
    positions.into_iter().collect()
}

fn delete(database: &Arc<Database>, id: TableId, positions: &[u64]) -> hypostyle_types::Result<()> {
    let mut transaction = database.begin(1)?;
    transaction.delete(id, &rows(positions.iter().copied()))?;
    transaction.commit().map(drop)
}

/// Returns a database in memory, and one on disk.
fn databases() -> (tempfile::TempDir, [Arc<Database>; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let on_disk = open(&directory.path().join("d"));
    (directory, [Database::in_memory().unwrap(), on_disk])
}

#[test]
fn nothing_is_committed_to_files_that_were_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[numbers(0..100_000)]).unwrap();
    append_to_log(&database, id, &numbers([7])).unwrap();
    fs::remove_dir_all(&path).unwrap();
    // A new database of the same name is another one.
    for new in [false, true] {
        let other = new.then(|| open(&path));
        let error = append_to_log(&database, id, &numbers([8])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("files of the database were removed while it is open"), "{error}");
        assert_eq!(database.checkpoint().unwrap_err().kind(), ErrorKind::NotFound);
        if let Some(other) = other {
            assert!(other.snapshot().unwrap().table("main", "t").is_none());
        }
    }
}

#[test]
fn a_transaction_sees_its_own_changes_and_nobody_else_does() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create_in_log(&database, "t", &[numbers(0..5)]).unwrap();
        let mut transaction = database.begin(2).unwrap().of_statements();
        transaction.append(id, &numbers([10, 11])).unwrap();
        transaction.delete(id, &rows([1, 6])).unwrap();
        assert_eq!(values(&transaction.snapshot().unwrap()), [0, 2, 3, 4, 10]);
        let savepoint = transaction.savepoint().unwrap();
        // Many rows go to the files, behind the few.
        transaction.append(id, &numbers(100..100_100)).unwrap();
        let snapshot = transaction.snapshot().unwrap();
        assert!(snapshot.table("main", "t").unwrap().rows_in_files() > 100_000);
        assert_eq!(values(&snapshot)[..7], [0, 2, 3, 4, 10, 100, 101]);
        transaction.delete(id, &rows([7, 100_006])).unwrap();
        transaction.append(id, &numbers([7])).unwrap();
        let found = values(&transaction.snapshot().unwrap());
        assert_eq!(
            (found.len(), found[4..6].to_vec(), found[found.len() - 2..].to_vec()),
            (100_004, vec![10, 101], vec![100_098, 7])
        );
        assert_eq!(values(&database.snapshot().unwrap()), [0, 1, 2, 3, 4]);
        transaction.roll_back_to(&savepoint);
        assert_eq!(values(&transaction.snapshot().unwrap()), [0, 2, 3, 4, 10]);
        transaction.append(id, &numbers(200..90_200)).unwrap();
        transaction.append(id, &numbers([1])).unwrap();
        let mine = values(&transaction.snapshot().unwrap());
        transaction.commit().unwrap();
        let committed = database.snapshot().unwrap();
        assert_eq!(values(&committed), mine);
        assert_undamaged(&committed);
        database.checkpoint().unwrap();
        assert_eq!(values(&database.snapshot().unwrap()), mine);
    }
}

#[test]
fn what_is_committed_survives_with_and_without_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let id = create_in_log(&open(&path), "t", &[numbers(0..5)]).unwrap();
    for round in 0..6 {
        let database = open(&path);
        let before = values(&database.snapshot().unwrap());
        append_to_log(&database, id, &numbers([100 + round])).unwrap();
        let first = database.snapshot().unwrap().table("main", "t").unwrap().deleted().len();
        delete(&database, id, &[first]).unwrap();
        if round % 2 == 1 {
            assert!(database.checkpoint().unwrap());
        }
        let expected: Vec<i64> = before[1..].iter().copied().chain([100 + round]).collect();
        assert_eq!(values(&database.snapshot().unwrap()), expected);
        drop(database);
        if round % 3 == 2 {
            // As after a restart of the machine.
            fs::remove_file(path.join("shared")).unwrap();
        }
        let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
        assert_eq!(values(&reader.snapshot().unwrap()), expected, "round {round}");
    }
}

#[test]
fn the_first_committer_wins() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[numbers(0..10)]).unwrap();
        append_to_log(&database, id, &numbers(10..20)).unwrap();
        let begin = || database.begin(1).unwrap();
        // The same row: conflict. Other rows, and appends: none.
        let (mut one, mut other, mut third) = (begin(), begin(), begin());
        one.delete(id, &rows([3, 12])).unwrap();
        other.delete(id, &rows([4, 12])).unwrap();
        third.delete(id, &rows([5, 13])).unwrap();
        third.append(id, &numbers([99])).unwrap();
        one.commit().unwrap();
        let error = other.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("\"t\""), "{error}");
        third.commit().unwrap();
        let expected: Vec<i64> = (0..20).filter(|n| ![3, 5, 12, 13].contains(n)).chain([99]).collect();
        assert_eq!(values(&database.snapshot().unwrap()), expected);

        // A bulk append moves what only the log has; who deletes that deletes the same rows.
        let (mut bulk, mut few, mut old, mut log) = (begin(), begin(), begin(), begin());
        bulk.append(id, &numbers(1000..101_000)).unwrap();
        few.append(id, &numbers([7])).unwrap();
        few.commit().unwrap();
        let mut late = begin();
        late.delete(id, &rows([21])).unwrap();
        old.delete(id, &rows([0])).unwrap();
        log.delete(id, &rows([11])).unwrap();
        bulk.commit().unwrap();
        old.commit().unwrap();
        let mut again = late.database().begin_at(late.base().clone(), 1).unwrap();
        again.delete(id, &rows([21])).unwrap();
        late.commit().unwrap();
        assert_eq!(again.commit().unwrap_err().kind(), ErrorKind::Conflict);
        log.commit().unwrap();
        let kept = expected[1..].iter().copied().filter(|value| *value != 11);
        let expected: Vec<i64> = kept.chain(1000..101_000).collect();
        assert_eq!(values(&database.snapshot().unwrap()), expected);

        // Definitions.
        let (mut one, mut other, mut append) = (begin(), begin(), begin());
        let columns = common::columns_of(&numbers([1]));
        one.create_table("main", "u", columns.clone()).unwrap();
        other.create_table("main", "u", columns).unwrap();
        append.append(id, &numbers([1])).unwrap();
        one.drop_table(id).unwrap();
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(append.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn bulk_appends_at_the_same_time_all_arrive() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create_in_log(&database, "t", &[numbers([-1])]).unwrap();
        let (mut one, mut other) = (database.begin(1).unwrap(), database.begin(1).unwrap());
        one.append(id, &numbers(0..50_000)).unwrap();
        other.append(id, &numbers(50_000..100_000)).unwrap();
        one.append(id, &numbers(100_000..150_000)).unwrap();
        other.commit().unwrap();
        assert!(!database.checkpoint().unwrap(), "the files of the table are being written");
        one.commit().unwrap();
        let mut found = values(&database.snapshot().unwrap());
        found.sort();
        assert_eq!(found, (-1..150_000).collect::<Vec<_>>());
        assert!(database.checkpoint().unwrap());
        found = values(&database.snapshot().unwrap());
        found.sort();
        assert_eq!(found, (-1..150_000).collect::<Vec<_>>());
    }
}

#[test]
fn handles_of_one_database_see_each_others_commits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (one, other) = (open(&path), open(&path));
    let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let id = create_in_log(&one, "t", &[numbers([0])]).unwrap();
    for round in 1..50 {
        let writer = if round % 2 == 0 { &one } else { &other };
        append_to_log(writer, id, &numbers([round])).unwrap();
        if round % 7 == 0 {
            assert!(writer.checkpoint().unwrap());
        }
        let expected: Vec<i64> = (0..=round).collect();
        for database in [&one, &other, &reader] {
            assert_eq!(values(&database.snapshot().unwrap()), expected);
        }
    }
    // Many checkpoints while a handle was not looking.
    for round in 50..60 {
        append(&one, id, &numbers([round])).unwrap();
    }
    assert_eq!(values(&reader.snapshot().unwrap()).len(), 60);
    assert_eq!(reader.begin(1).unwrap().append(id, &numbers([1])).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn checkpoints_of_two_handles_agree_on_the_files_of_deleted_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (one, other) = (open(&path), open(&path));
    let id = create(&one, "t", &[numbers(0..10)]).unwrap();
    let unrelated = create(&one, "u", &[numbers([0])]).unwrap();
    delete(&one, id, &[3]).unwrap();
    for round in 0..3 {
        // Each has learned of the deletion in its own way, and of the other's checkpoints not at all.
        for database in [&one, &other] {
            append(database, unrelated, &numbers([round])).unwrap();
            assert_eq!(values(&open(&path).snapshot().unwrap()), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        }
    }
}

#[test]
fn a_checkpoint_after_an_unfinished_one_keeps_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[numbers(0..10)]).unwrap();
    delete(&database, id, &[3]).unwrap();
    let version = database.snapshot().unwrap().version();
    let unfinished = path.join(format!("columns/{id}/deleted-{:020}", version.0));
    fs::write(&unfinished, "as far as it came").unwrap();
    assert!(database.checkpoint().unwrap());
    assert_eq!(values(&open(&path).snapshot().unwrap()), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_table_with_deleted_rows_is_dropped_or_altered_after_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[numbers(0..10)]).unwrap();
    let dropped = create(&database, "u", &[numbers(0..10)]).unwrap();
    delete(&database, id, &[3]).unwrap();
    delete(&database, dropped, &[3]).unwrap();
    assert!(database.checkpoint().unwrap());
    delete(&database, dropped, &[4]).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.drop_table(dropped).unwrap();
    let rename = |table: &mut hypostyle_storage::TableEntry| {
        table.name = "renamed".into();
        Ok(())
    };
    transaction.alter_table(id, rename).unwrap();
    transaction.commit().unwrap();
    assert!(!path.join(format!("columns/{dropped}")).exists());
    drop(database);
    // The first to open the database removes what no version has; the second needs the rest.
    for _ in 0..2 {
        let snapshot = open(&path).snapshot().unwrap();
        assert_eq!(snapshot.tables().count(), 1);
        assert_eq!(snapshot.table("main", "renamed").unwrap().rows(), 9);
    }
    let mut files =
        fs::read_dir(path.join(format!("columns/{id}"))).unwrap().map(|file| file.unwrap().path());
    let deleted = files.find(|file| file.to_string_lossy().contains("deleted-")).unwrap();
    fs::remove_file(deleted).unwrap();
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let error = Database::open(&path, mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("/deleted-"), "{error}");
    }
}

#[test]
fn a_handle_that_only_read_a_table_may_alter_and_compact_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (one, other) = (open(&path), open(&path));
    let id = create(&one, "t", &[numbers(0..10)]).unwrap();
    for position in 0..3 {
        delete(&one, id, &[0]).unwrap();
        append_to_log(&one, id, &numbers([10 + position])).unwrap();
        assert_eq!(other.snapshot().unwrap().table("main", "t").unwrap().rows(), 10);
        let mut transaction = other.begin(1).unwrap();
        assert_eq!(transaction.compact(id, |_, _| Ok(())).unwrap(), 1);
        transaction.commit().unwrap();
        let expected: Vec<i64> = (position + 1..position + 11).collect();
        assert_eq!(values(&one.snapshot().unwrap()), expected);
    }
}

#[test]
fn what_an_abandoned_append_left_is_in_no_checksum() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("d"));
    let id = create(&database, "t", &[common::every_type(0, 27, true)]).unwrap();
    let mut abandoned = database.begin(1).unwrap();
    abandoned.append(id, &common::every_type(27, 20_000, true)).unwrap();
    drop(abandoned);
    let mut transaction = database.begin(1).unwrap();
    let rename = |table: &mut hypostyle_storage::TableEntry| {
        table.name = "renamed".into();
        Ok(())
    };
    transaction.alter_table(id, rename).unwrap();
    let damages = transaction.commit().unwrap().check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
}

#[test]
fn handles_opened_at_the_same_time_do_not_get_in_each_others_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    create_in_log(&open(&path), "t", &[numbers([7])]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(values(&open(&path).snapshot().unwrap()), [7]);
                }
            });
        }
    });
}

#[test]
fn files_stay_as_long_as_another_handle_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (writer, reader) = (open(&path), Database::open(&path, OpenMode::ReadOnly).unwrap());
    let id = create(&writer, "t", &[numbers(0..100_000)]).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut transaction = writer.begin(1).unwrap();
    transaction.drop_table(id).unwrap();
    transaction.commit().unwrap();
    assert_eq!(values(&snapshot).len(), 100_000, "a file is opened after its table was dropped");
    drop(snapshot);
    // The next commit finds that nobody reads them any more.
    create_in_log(&writer, "u", &[numbers([1])]).unwrap();
    let id = writer.snapshot().unwrap().table("main", "u").unwrap().entry().id;
    let mut transaction = writer.begin(1).unwrap();
    transaction.drop_table(id).unwrap();
    transaction.commit().unwrap();
    assert_eq!(fs::read_dir(path.join("columns")).unwrap().count(), 0);
    drop((writer, reader));
    assert_eq!(fs::read_dir(path.join("readers")).unwrap().count(), 0);
}

/// Columns and generations that a table has files of.
fn generations(path: &Path, id: TableId) -> BTreeSet<String> {
    let files = fs::read_dir(path.join(format!("columns/{id}"))).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.rsplit_once('-')?.0.to_string())).collect()
}

fn compact(database: &Arc<Database>, id: TableId) {
    let mut transaction = database.begin(1).unwrap();
    assert!(transaction.compact(id, |_, _| Ok(())).unwrap() > 0);
    transaction.commit().unwrap();
}

#[test]
fn files_go_although_who_made_them_superfluous_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let only = |generation: &str| BTreeSet::from([generation.to_string()]);
    let server = open(&path);
    let id = create(&server, "t", &[numbers(0..100_000)]).unwrap();
    delete(&server, id, &[1]).unwrap();
    let old = server.snapshot().unwrap();
    let program = open(&path);
    compact(&program, id);
    drop(program);
    assert_eq!(generations(&path, id).len(), 2);
    // A handle that sees the commit knows what it has made superfluous.
    assert_eq!(values(&server.snapshot().unwrap()).len(), 99_999);
    assert_eq!(values(&old).len(), 99_999);
    drop(old);
    assert_eq!(generations(&path, id), only("0-1"));
    drop(server);

    // One that comes later finds them.
    let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let old = reader.snapshot().unwrap();
    let program = open(&path);
    delete(&program, id, &[1]).unwrap();
    compact(&program, id);
    let mut transaction = program.begin(1).unwrap();
    let dropped = transaction.create_table("main", "u", common::columns_of(&numbers([1]))).unwrap();
    transaction.append(dropped, &numbers([1])).unwrap();
    transaction.commit().unwrap();
    let older = reader.snapshot().unwrap();
    let mut transaction = program.begin(1).unwrap();
    transaction.drop_table(dropped).unwrap();
    transaction.commit().unwrap();
    drop(program);
    let later = open(&path);
    assert!(later.checkpoint().unwrap());
    assert_eq!(generations(&path, id).len(), 2);
    assert_eq!(values(&old).len(), 99_999);
    drop(old);
    assert!(later.checkpoint().unwrap());
    // What is read now are the files of the newest version, but for the table.
    assert!(path.join(format!("columns/{dropped}")).exists());
    assert_eq!(column(&older, "u", 0).len(), 1);
    drop(older);
    assert!(later.checkpoint().unwrap());
    assert!(!path.join(format!("columns/{dropped}")).exists());
    assert_eq!(generations(&path, id), only("0-2"));
    assert_eq!(values(&reader.snapshot().unwrap()).len(), 99_998);
}

#[test]
fn a_checkpoint_removes_what_killed_processes_left_and_nothing_that_is_being_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (database, other) = (open(&path), open(&path));
    let [t, u, v] = ["t", "u", "v"].map(|name| create(&database, name, &[numbers(0..10)]).unwrap());
    for id in [t, u, v] {
        delete(&database, id, &[1]).unwrap();
    }
    // Of a killed VACUUM, of a killed CREATE TABLE; and what is nobody's.
    let leftovers = [format!("columns/{t}/0-9-0.values"), "columns/77/0-0-0.values".into()];
    fs::create_dir(path.join("columns/77")).unwrap();
    let foreign = [format!("columns/{t}/notes.txt"), "columns/notes".into()];
    for file in leftovers.iter().chain(&foreign) {
        fs::write(path.join(file), "12345678").unwrap();
    }
    // Transactions of another handle, of each kind that writes files.
    let mut compaction = other.begin(1).unwrap();
    assert_eq!(compaction.compact(u, |_, _| Ok(())).unwrap(), 1);
    let mut creation = other.begin(1).unwrap().of_statements();
    let new = creation.create_table("main", "new", common::columns_of(&numbers([1]))).unwrap();
    let empty = creation.create_table("main", "empty", common::columns_of(&numbers([1]))).unwrap();
    creation.append(new, &numbers(0..100_000)).unwrap();
    let mut alteration = other.begin(1).unwrap();
    let column = NewColumn::new("s", LogicalType::BigInt, true);
    let same = |rows: &RecordBatch| Ok(rows.column(0).clone());
    alteration.add_column(v, column, true, same).unwrap();

    let old = database.snapshot().unwrap();
    assert!(database.checkpoint().unwrap());
    for (file, stays) in
        leftovers.iter().map(|file| (file, false)).chain(foreign.iter().map(|file| (file, true)))
    {
        assert_eq!(path.join(file).exists(), stays, "{file}");
    }
    assert!(!path.join("columns/77").exists());
    for transaction in [compaction, creation, alteration] {
        assert!(database.checkpoint().unwrap());
        transaction.commit().unwrap();
    }
    assert!(database.checkpoint().unwrap());
    let snapshot = other.snapshot().unwrap();
    assert_undamaged(&snapshot);
    assert_eq!(snapshot.table_by_id(new).unwrap().rows(), 100_000);
    assert!(path.join(format!("columns/{empty}")).exists());
    for (table, columns) in [("t", 1), ("u", 1), ("v", 2)] {
        let table = snapshot.table("main", table).unwrap();
        assert_eq!((table.rows(), table.columns().len()), (9, columns));
    }
    assert_undamaged(&old);
    drop((old, snapshot));
    assert!(database.checkpoint().unwrap());
    assert_eq!(generations(&path, u), BTreeSet::from(["0-1".to_string()]));
}

#[test]
fn tables_are_made_while_leftovers_are_looked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let makers = [0, 1].map(|maker| {
            let handle = open(&path);
            scope.spawn(move || {
                for round in 0..60 {
                    let name = format!("t{maker}_{round}");
                    let rows = if round % 2 == 0 { 10 } else { 40_000 };
                    let id = create_in_log(&handle, &name, &[numbers(0..rows)]).unwrap();
                    if round % 3 == 0 {
                        let mut transaction = handle.begin(1).unwrap();
                        transaction.drop_table(id).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                database.checkpoint().unwrap();
            }
        });
        let made = makers.map(|maker| maker.join());
        done.store(true, Ordering::Relaxed);
        assert!(made.iter().all(|made| made.is_ok()));
    });
    assert!(database.checkpoint().unwrap());
    let snapshot = database.snapshot().unwrap();
    assert_undamaged(&snapshot);
    assert_eq!(snapshot.tables().count(), 80);
    assert_eq!(fs::read_dir(path.join("columns")).unwrap().count(), 80);
}

#[test]
fn checkpoints_of_several_handles_agree_on_the_files_of_deleted_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (one, other) = (open(&path), open(&path));
    let id = create_in_log(&one, "t", &[numbers(0..5)]).unwrap();
    let still = create_in_log(&one, "u", &[numbers([0])]).unwrap();
    delete(&one, id, &[1]).unwrap();
    for (round, writer) in (0..).zip([&one, &other, &one, &one, &other, &other]) {
        append_to_log(writer, still, &numbers([round])).unwrap();
        assert!(writer.checkpoint().unwrap());
        let names = fs::read_dir(path.join(format!("columns/{id}"))).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with("deleted-")).count(), 1);
        let reader = Database::open(&path, OpenMode::ReadOnly).unwrap();
        assert_eq!(values(&reader.snapshot().unwrap()), [0, 2, 3, 4], "round {round}");
    }
}

#[test]
fn a_process_that_died_while_it_registered_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    drop(open(&path));
    let id = "00112233445566778899aabbccddeeff";
    for name in [&format!("1-{id}.new"), &format!("2-{id}"), "somebody's"] {
        fs::write(path.join("readers").join(name), b"half").unwrap();
    }
    drop(open(&path));
    let left = fs::read_dir(path.join("readers")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["somebody's"]);
}

#[test]
fn a_frame_that_a_killed_process_wrote_is_gone_before_column_files_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[numbers([1])]).unwrap();
    // A commit whose process died before it said so in `shared`.
    let before = fs::read(path.join("shared")).unwrap();
    append_to_log(&database, id, &numbers([2])).unwrap();
    fs::write(path.join("shared"), &before).unwrap();
    let other = open(&path);
    let mut bulk = other.begin(1).unwrap();
    bulk.append(id, &numbers(0..100_000)).unwrap();
    let mut files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let log = files.find(|path| path.to_string_lossy().contains("/log-")).unwrap();
    assert!(fs::read(log).unwrap().iter().all(|byte| *byte == 0));
    bulk.commit().unwrap();
    assert_eq!(values(&other.snapshot().unwrap()).len(), 100_001);
}

#[test]
fn many_handles_open_and_close_at_the_same_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let opened = std::thread::scope(|scope| {
        let open_many = || (0..30).map(|_| Database::open(&path, OpenMode::ReadWrite).map(drop)).collect();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open_many)).collect();
        let results = threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() });
        results.collect::<hypostyle_types::Result<Vec<()>>>()
    });
    assert_eq!(opened.unwrap().len(), 120);
}

#[test]
fn a_dropped_table_with_deleted_rows_does_not_keep_the_database_from_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create_in_log(&database, "t", &[numbers(0..5)]).unwrap();
    delete(&database, id, &[1]).unwrap();
    assert!(database.checkpoint().unwrap());
    let mut transaction = database.begin(1).unwrap();
    transaction.drop_table(id).unwrap();
    transaction.commit().unwrap();
    drop(database);
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let database = Database::open(&path, mode).unwrap();
        assert_eq!(database.snapshot().unwrap().tables().count(), 0);
    }
}

#[test]
fn an_abandoned_transaction_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let mut transaction = database.begin(1).unwrap();
    let id = transaction.create_table("main", "t", common::columns_of(&numbers([1]))).unwrap();
    transaction.append(id, &numbers(0..100_000)).unwrap();
    drop(transaction);
    assert_eq!(fs::read_dir(path.join("columns")).unwrap().count(), 0);
    assert_eq!(database.snapshot().unwrap().tables().count(), 0);
    create(&database, "t", &[numbers([1])]).unwrap();
    assert_eq!(values(&database.snapshot().unwrap()), [1]);
}

#[test]
fn rows_that_were_rolled_back_give_their_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[numbers(0..100_000)]).unwrap();
    let file = path.join(format!("columns/{id}/0-0-0.values"));
    let length = || fs::metadata(&file).unwrap().len();
    let committed = length();
    let rolled_back = |database: &Arc<Database>| {
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.append(id, &numbers(0..200_000)).unwrap();
        let seen = transaction.snapshot().unwrap();
        assert!(length() > committed);
        drop(transaction);
        seen
    };
    drop(rolled_back(&database).table("main", "t").unwrap().clone());
    // While somebody may look at them, they stay, even for a checkpoint.
    let seen = rolled_back(&database);
    assert!(length() > committed);
    assert!(database.checkpoint().unwrap());
    assert!(length() > committed);
    drop(seen);
    let seen = rolled_back(&database);
    drop(seen);
    // Of another process nobody knows what it looks at.
    let other = open(&path);
    append_to_log(&database, id, &numbers([1])).unwrap();
    assert!(database.checkpoint().unwrap());
    assert!(length() > committed + 8);
    drop(other);
    assert!(database.checkpoint().unwrap());
    assert_eq!(length(), committed + 8);
    // Who is in conflict has written there, too; and nobody looks.
    let mut late = database.begin(1).unwrap();
    append_to_log(&database, id, &numbers([2])).unwrap();
    late.guard(id);
    late.append(id, &numbers(0..200_000)).unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(length(), committed + 8);
    drop(database);
    assert_eq!(values(&open(&path).snapshot().unwrap()).len(), 100_002);
}

/// The bytes that files below a directory take on disk.
fn bytes_on_disk(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => bytes_on_disk(&entry.path()),
            false => entry.metadata().unwrap().blocks() * 512,
        })
        .sum()
}

#[test]
fn every_failed_load_gives_its_disk_back_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    // Many values that are different, few that are not, and NULLs, which are in a file of their own.
    let load = |rows: usize| {
        let texts = (0..rows).map(|row| (row % 7 != 3).then(|| format!("a text of row number {row}")));
        let words = (0..rows).map(|row| ["one", "two", "three"][row % 3]);
        let texts: ArrayRef = Arc::new(texts.collect::<LargeStringArray>());
        let words: ArrayRef = Arc::new(words.map(Some).collect::<LargeStringArray>());
        let numbers: ArrayRef = Arc::new((0..rows as i64).map(Some).collect::<Int64Array>());
        batch(vec![("texts", texts), ("words", words), ("numbers", numbers)])
    };
    let few = load(3);
    let empty = create(&database, "empty", &[few.slice(0, 0)]).unwrap();
    let in_log = create_in_log(&database, "in_log", std::slice::from_ref(&few)).unwrap();
    let in_files = create(&database, "in_files", &[load(100_000)]).unwrap();
    // Its words have more different values than the codes of its files are wide.
    let narrow = create(&database, "narrow", &[load(2_000)]).unwrap();
    let wide = {
        let words = (0..100_000).map(|row| Some(format!("word {}", row % 20_000)));
        let words: ArrayRef = Arc::new(words.collect::<LargeStringArray>());
        let rows = load(100_000);
        batch(vec![("texts", rows.column(0).clone()), ("words", words), ("numbers", rows.column(2).clone())])
    };
    let columns = path.join("columns");
    let loads = [(empty, load(100_000)), (in_log, load(100_000)), (in_files, load(100_000)), (narrow, wide)];
    for (id, rows) in loads {
        let before = bytes_on_disk(&columns);
        let fail = || {
            let mut transaction = database.begin(2).unwrap().of_statements();
            transaction.append(id, &rows).unwrap();
            let seen = transaction.snapshot().unwrap();
            assert!(bytes_on_disk(&columns) > before + 500_000, "table {id}");
            (transaction, seen)
        };
        let (transaction, seen) = fail();
        drop(seen);
        drop(transaction);
        assert_eq!(bytes_on_disk(&columns), before, "table {id}");
        // What is looked at for long goes with the next transaction.
        let (transaction, seen) = fail();
        drop(transaction);
        assert!(bytes_on_disk(&columns) > before, "table {id}");
        drop(seen);
        drop(database.begin(1).unwrap());
        assert_eq!(bytes_on_disk(&columns), before, "table {id}");
        // The table takes rows as ever.
        let rows = database.snapshot().unwrap().table_by_id(id).unwrap().positions();
        append(&database, id, &few).unwrap();
        let snapshot = database.snapshot().unwrap();
        assert_eq!(snapshot.table_by_id(id).unwrap().positions(), rows + 3);
        assert_undamaged(&snapshot);
    }
}

#[test]
fn concurrent_committers_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let first = open(&path);
    let id = create_in_log(&first, "t", &[numbers([-1])]).unwrap();
    const THREADS: i64 = 6;
    const COMMITS: i64 = 100;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // Some share a handle, some have their own.
            let database = if thread % 2 == 0 { first.clone() } else { open(&path) };
            scope.spawn(move || {
                for commit in 0..COMMITS {
                    append_to_log(&database, id, &numbers([thread * COMMITS + commit])).unwrap();
                    if commit % 40 == thread {
                        database.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    let mut found = values(&first.snapshot().unwrap());
    found.sort();
    assert_eq!(found, (-1..THREADS * COMMITS).collect::<Vec<_>>());
    assert_eq!(values(&open(&path).snapshot().unwrap()).len(), found.len());
}

#[test]
fn compaction_gives_the_space_of_deleted_rows_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[common::every_type(0, 70_000, true)]).unwrap();
    append_to_log(&database, id, &common::every_type(70_000, 100, true)).unwrap();
    let all = rows(0..70_100);
    let gone: RoaringTreemap = all.iter().filter(|row| row % 3 != 1 || *row > 70_050).collect();
    let mut transaction = database.begin(2).unwrap();
    transaction.delete(id, &gone).unwrap();
    transaction.commit().unwrap();
    let old = database.snapshot().unwrap();
    let bytes = || -> u64 {
        let files = fs::read_dir(path.join(format!("columns/{id}"))).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let (before, expected) = (bytes(), (0..30).map(|index| column(&old, "t", index)).collect::<Vec<_>>());

    let mut compaction = database.begin(2).unwrap();
    assert_eq!(compaction.compact(id, |_, _| Ok(())).unwrap(), gone.len());
    let mut late = database.begin(1).unwrap();
    late.delete(id, &rows([1])).unwrap();
    compaction.commit().unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);

    let new = database.snapshot().unwrap();
    assert!(new.table("main", "t").unwrap().is_in_files());
    for (index, expected) in expected.iter().enumerate() {
        common::assert_same(&column(&new, "t", index), expected, "compacted");
        common::assert_same(&column(&old, "t", index), expected, "as an old snapshot sees it");
    }
    drop(old);
    assert!(bytes() * 2 < before, "{} of {before} bytes are left", bytes());
    assert_undamaged(&new);
    drop((new, database));
    let database = open(&path);
    for (index, expected) in expected.iter().enumerate() {
        common::assert_same(&column(&database.snapshot().unwrap(), "t", index), expected, "reopened");
    }
    let mut again = database.begin(1).unwrap();
    assert_eq!(again.compact(id, |_, _| Ok(())).unwrap(), 0);

    // A compaction that others overtake.
    let mut compaction = database.begin(2).unwrap();
    delete(&database, id, &[2]).unwrap();
    let mut second = database.begin(2).unwrap();
    assert_eq!(compaction.compact(id, |_, _| Ok(())).unwrap(), 0);
    assert_eq!(second.compact(id, |_, _| Ok(())).unwrap(), 1);
    append_to_log(&database, id, &common::every_type(0, 1, false)).unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_undamaged(&database.snapshot().unwrap());
}

#[test]
fn rows_are_gathered_as_if_they_were_in_files() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create_in_log(&database, "t", &[common::every_type(0, 10, false)]).unwrap();
        append(&database, id, &common::every_type(10, 150_000, true)).unwrap();
        append_to_log(&database, id, &common::every_type(150_010, 90, true)).unwrap();
        delete(&database, id, &[0, 7, 100, 140_000, 150_020]).unwrap();
        let snapshot = database.snapshot().unwrap();
        let table = snapshot.table("main", "t").unwrap();
        let columns: Vec<usize> = (0..table.columns().len()).collect();
        for range in [0..table.rows(), 0..0, 5..6, 90..110, 139_900..140_100, 150_000..150_095] {
            for (index, gathered) in table.gather(&columns, range.clone(), 2).unwrap().iter().enumerate() {
                let (offset, length) = (range.start as usize, (range.end - range.start) as usize);
                let expected = column(&snapshot, "t", index).slice(offset, length);
                assert_eq!(gathered.field().name(), table.columns()[index].field().name());
                common::assert_same(&gathered.private_array().unwrap(), &expected, gathered.field().name());
                if gathered.field().name() == "few" {
                    assert!(matches!(gathered.field().data_type(), arrow_schema::DataType::Dictionary(_, _)));
                }
            }
        }
        // In any order, from the files and from the log.
        for positions in [vec![], vec![5], vec![150_099, 8, 9, 150_021, 139_999, 1], vec![150_030, 150_031]] {
            let rank = |position: &u64| position - table.deleted().rank(*position);
            let rows: UInt64Array = positions.iter().map(rank).collect();
            let found = table.rows_at(&columns, &positions.clone().into(), 2).unwrap();
            for (index, found) in found.iter().enumerate() {
                let column_data = &table.columns()[index];
                let plain =
                    cast(&column(&snapshot, "t", index), &column_data.entry().logical_type.arrow_type());
                let expected = take(&plain.unwrap(), &rows, None).unwrap();
                common::assert_same(found, &expected, column_data.field().name());
            }
        }
        let error = table.rows_at(&columns, &vec![150_100].into(), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}

#[test]
fn columns_come_go_and_change() {
    let (_directory, databases) = databases();
    for database in databases {
        let id = create(&database, "t", &[numbers(0..70_000)]).unwrap();
        append_to_log(&database, id, &numbers([70_000])).unwrap();
        delete(&database, id, &[5, 70_000]).unwrap();
        let old = database.snapshot().unwrap();
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.append(id, &numbers([-7])).unwrap();
        let text = NewColumn::new("s", LogicalType::Varchar, false);
        let texts = |rows: &RecordBatch| -> hypostyle_types::Result<ArrayRef> {
            let numbers = rows.column(0).as_primitive::<Int64Type>().values();
            Ok(Arc::new(numbers.iter().map(|n| Some(format!("new {n}"))).collect::<LargeStringArray>()))
        };
        transaction.add_column(id, text, true, texts).unwrap();
        transaction
            .convert_column(id, "n", LogicalType::Double, |piece| {
                Ok(arrow_cast::cast(piece, &arrow_schema::DataType::Float64).unwrap())
            })
            .unwrap();
        transaction
            .alter_table(id, |table| {
                table.name = "renamed".into();
                table.columns[0].name = "x".into();
                Ok(())
            })
            .unwrap();
        let own = transaction.snapshot().unwrap();
        let check = |snapshot: &Snapshot| {
            assert!(snapshot.table("main", "t").is_none());
            let floats = column(snapshot, "renamed", 0);
            let floats = floats.as_primitive::<arrow_array::types::Float64Type>();
            assert_eq!((floats.len(), floats.value(5), floats.value(69_999)), (70_000, 6.0, -7.0));
            let texts = column(snapshot, "renamed", 1);
            let texts = texts.as_string::<i64>();
            assert!((0..70_000).all(|row| texts.value(row) == format!("new {}", floats.value(row))));
            let names: Vec<_> = snapshot
                .table("main", "renamed")
                .unwrap()
                .columns()
                .iter()
                .map(|c| c.entry().name.clone())
                .collect();
            assert_eq!(names, ["x", "s"]);
            assert_undamaged(snapshot);
        };
        check(&own);
        let mut late = database.begin(1).unwrap();
        late.append(id, &numbers([1])).unwrap();
        transaction.commit().unwrap();
        check(&database.snapshot().unwrap());
        assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(values(&old).len(), 69_999);

        let mut transaction = database.begin(1).unwrap();
        transaction
            .alter_table(id, |table| {
                table.columns.remove(0);
                Ok(())
            })
            .unwrap();
        transaction.commit().unwrap();
        drop(own);
        assert_eq!(database.snapshot().unwrap().table("main", "renamed").unwrap().columns().len(), 1);
        assert_eq!(values(&old).len(), 69_999, "an old snapshot keeps the old files");
        database.checkpoint().unwrap();
        assert_undamaged(&database.snapshot().unwrap());
    }
}

#[test]
fn a_handle_that_missed_two_checkpoints_takes_no_row_for_moved() {
    for rows_in_log in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let (idle, busy) = (open(&path), open(&path));
        let id = create(&busy, "t", &[numbers(0..10)]).unwrap();
        let other = create(&busy, "other", &[numbers(0..10)]).unwrap();
        let compacted = create(&busy, "compacted", &[numbers(0..10)]).unwrap();
        delete(&busy, compacted, &[1]).unwrap();
        if rows_in_log {
            append_to_log(&busy, id, &numbers(10..12)).unwrap();
        }
        let mut in_files = idle.begin(1).unwrap();
        in_files.delete(id, &rows([3])).unwrap();
        let mut in_log = idle.begin(1).unwrap();
        in_log.delete(id, &rows([if rows_in_log { 11 } else { 4 }])).unwrap();
        let mut moved = idle.begin(1).unwrap();
        moved.delete(compacted, &rows([3])).unwrap();

        append(&busy, other, &numbers(0..10)).unwrap();
        let mut transaction = busy.begin(1).unwrap();
        assert_eq!(transaction.compact(compacted, |_, _| Ok(())).unwrap(), 1);
        transaction.commit().unwrap();
        append(&busy, other, &numbers(0..10)).unwrap();
        append_to_log(&busy, other, &numbers(0..10)).unwrap();

        in_files.commit().unwrap();
        // Where rows of the log went is not known.
        assert_eq!(in_log.commit().is_err(), rows_in_log);
        assert_eq!(moved.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert!(!values(&busy.snapshot().unwrap()).contains(&3));
    }
}

#[test]
fn a_handle_that_saw_a_row_move_knows_it_after_missed_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (idle, busy) = (open(&path), open(&path));
    let id = create(&busy, "t", &[numbers(0..10)]).unwrap();
    let other = create(&busy, "other", &[numbers(0..10)]).unwrap();
    let mut bulk = busy.begin(1).unwrap();
    bulk.append(id, &numbers(1000..101_000)).unwrap();
    append_to_log(&busy, id, &numbers(10..12)).unwrap();
    let mut late = idle.begin(1).unwrap();
    late.delete(id, &rows([11])).unwrap();
    bulk.commit().unwrap();
    append(&busy, other, &numbers(0..10)).unwrap();
    assert_eq!(values(&idle.snapshot().unwrap()).len(), 100_012);
    for _ in 0..2 {
        append(&busy, other, &numbers(0..10)).unwrap();
    }
    late.commit().unwrap();
    let found = values(&busy.snapshot().unwrap());
    assert!(found.len() == 100_011 && found.contains(&10) && !found.contains(&11));
}

#[test]
fn a_checkpoint_is_no_change_of_a_guarded_table() {
    for handles in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let one = open(&path);
        let other = if handles == 1 { one.clone() } else { open(&path) };
        let id = create(&one, "t", &[numbers(0..10)]).unwrap();
        let unrelated = create(&one, "u", &[numbers([0])]).unwrap();
        append_to_log(&one, id, &numbers(10..12)).unwrap();
        let begin = || {
            let mut transaction = one.begin(1).unwrap().of_statements();
            transaction.guard(id);
            transaction
        };
        let mut value = 100;
        for checkpoints in 1..4 {
            // Few rows, many, another definition and back, a deleted row.
            for what in 0..4 {
                let mut transaction = begin();
                let before = values(transaction.base());
                for _ in 0..checkpoints {
                    append(&other, unrelated, &numbers([0])).unwrap();
                }
                let mut expected = before.clone();
                match what {
                    0 | 1 => {
                        let new: Vec<i64> = (value..value + [1, 50_000][what]).collect();
                        transaction.append(id, &numbers(new.iter().copied())).unwrap();
                        expected.extend(new);
                    }
                    2 => ["renamed", "t"].into_iter().for_each(|name| {
                        let rename = |table: &mut hypostyle_storage::TableEntry| {
                            table.name = name.into();
                            Ok(())
                        };
                        transaction.alter_table(id, rename).unwrap();
                    }),
                    _ => {
                        let first = transaction.base().table_by_id(id).unwrap().deleted().len();
                        transaction.delete(id, &rows([first])).unwrap();
                        expected.remove(0);
                    }
                }
                assert_eq!(values(&transaction.snapshot().unwrap()), expected);
                transaction.commit().unwrap();
                assert_eq!(values(&other.snapshot().unwrap()), expected);
                value += 50_000;
                append_to_log(&other, id, &numbers([value - 1])).unwrap();
            }
            // Other rows are a change, whatever a checkpoint has made of them.
            let (mut after_insert, mut after_delete) = (begin(), begin());
            append_to_log(&other, id, &numbers([value])).unwrap();
            after_insert.append(id, &numbers([value + 1])).unwrap();
            append(&other, unrelated, &numbers([0])).unwrap();
            assert_eq!(after_insert.commit().unwrap_err().kind(), ErrorKind::Conflict);
            after_delete.append(id, &numbers([value + 2])).unwrap();
            let first = other.snapshot().unwrap().table_by_id(id).unwrap().deleted().len();
            delete(&other, id, &[first]).unwrap();
            append(&other, unrelated, &numbers([0])).unwrap();
            assert_eq!(after_delete.commit().unwrap_err().kind(), ErrorKind::Conflict);
        }
    }
}

#[test]
fn rows_that_wait_for_the_files_of_a_table_are_bounded() {
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[numbers(0..10)]).unwrap();
    let many = numbers(0..200_000);
    let mut loading = database.begin(1).unwrap();
    loading.append(id, &many).unwrap();
    let mut waiting = database.begin(1).unwrap();
    let appended = (0..).find_map(|count| waiting.append(id, &many).err().map(|error| (count, error)));
    let (count, error) = appended.unwrap();
    assert_eq!((count, error.kind()), ((256 << 20) / (8 * 200_000), ErrorKind::Conflict), "{error}");
    drop(waiting);
    loading.commit().unwrap();
    let mut again = database.begin(1).unwrap();
    again.append(id, &many).unwrap();
    again.commit().unwrap();
    assert_eq!(database.snapshot().unwrap().table_by_id(id).unwrap().rows(), 400_010);
}

#[test]
fn a_name_that_is_given_away_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create_in_log(&database, "t", &[numbers(0..3)]).unwrap();
    delete(&database, id, &[1]).unwrap();
    let name = |to: &'static str| {
        move |table: &mut hypostyle_storage::TableEntry| {
            table.name = to.into();
            Ok(())
        }
    };
    let renamed = || {
        let mut transaction = database.begin(1).unwrap().of_statements();
        transaction.append(id, &numbers([3])).unwrap();
        transaction.alter_table(id, name("u")).unwrap();
        let columns = common::columns_of(&numbers([7]));
        let new = transaction.create_table("main", "t", columns).unwrap();
        transaction.append(new, &numbers([7])).unwrap();
        transaction.append(id, &numbers([4])).unwrap();
        (transaction, new)
    };
    // What others have done meanwhile is not lost.
    let (overtaken, _) = renamed();
    append_to_log(&database, id, &numbers([9])).unwrap();
    assert_eq!(overtaken.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let (mut transaction, new) = renamed();
    assert_eq!(values(&transaction.snapshot().unwrap()), [7]);
    transaction.commit().unwrap();
    // And the names are swapped.
    let mut transaction = database.begin(1).unwrap().of_statements();
    transaction.alter_table(id, name("between")).unwrap();
    transaction.alter_table(new, name("u")).unwrap();
    transaction.alter_table(id, name("t")).unwrap();
    assert_eq!(values(&transaction.snapshot().unwrap()), [0, 2, 9, 3, 4]);
    let snapshot = transaction.commit().unwrap();
    assert_eq!(values(&snapshot), [0, 2, 9, 3, 4]);
    drop((snapshot, database));
    for _ in 0..2 {
        let reopened = open(&path);
        let snapshot = reopened.snapshot().unwrap();
        assert_eq!(values(&snapshot), [0, 2, 9, 3, 4]);
        assert_eq!(column(&snapshot, "u", 0).as_primitive::<Int64Type>().values(), &[7]);
        assert_undamaged(&snapshot);
        reopened.checkpoint().unwrap();
    }
}

/// What reaches the disk.
#[derive(Debug, Default)]
struct Counts {
    syncs: AtomicU64,
    bytes_in_log: AtomicU64,
    bytes_in_columns: AtomicU64,
    /// The time of a sync by a disk that is slow enough for others to come meanwhile.
    sync_takes: Duration,
}

impl Counts {
    fn take(&self) -> [u64; 3] {
        [&self.syncs, &self.bytes_in_log, &self.bytes_in_columns]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl Observer for Counts {
    fn before(&self, operation: Operation<'_>) -> std::io::Result<()> {
        match operation {
            Operation::Sync { .. } | Operation::SyncDirectory { .. } => {
                self.syncs.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(self.sync_takes);
            }
            Operation::Write { file, bytes, .. } if file.contains("/log-") => {
                self.bytes_in_log.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            Operation::Write { file, bytes, .. } if file.contains("/columns/") => {
                self.bytes_in_columns.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }
}

fn open_counted(path: &Path, sync_takes: Duration) -> (Arc<Database>, Arc<Counts>) {
    let counts = Arc::new(Counts { sync_takes, ..Counts::default() });
    let options = StorageOptions { observer: Some(counts.clone()), ..OpenMode::ReadWrite.into() };
    (Database::open(path, options).unwrap(), counts)
}

#[test]
fn a_small_commit_is_one_sync_and_concurrent_ones_share_it() {
    let directory = tempfile::tempdir().unwrap();
    let (database, counts) = open_counted(&directory.path().join("d"), Duration::from_millis(2));
    let id = create_in_log(&database, "t", &[numbers([0])]).unwrap();
    counts.take();
    for commit in 1..20 {
        append_to_log(&database, id, &numbers([commit])).unwrap();
        let [syncs, bytes_in_log, bytes_in_columns] = counts.take();
        assert_eq!((syncs, bytes_in_columns), (1, 0));
        assert!(bytes_in_log < 1000, "{bytes_in_log}");
    }
    const COMMITS: u64 = 25;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..COMMITS).for_each(|_| append_to_log(&database, id, &numbers([0])).unwrap()));
        }
    });
    let [syncs, ..] = counts.take();
    assert!(syncs <= 8 * COMMITS / 2, "{syncs} syncs of {} commits", 8 * COMMITS);
}

#[test]
fn a_bulk_append_writes_its_bytes_once() {
    const ROWS: u64 = 3 * BLOCK_ROWS + 5;
    let directory = tempfile::tempdir().unwrap();
    let (database, counts) = open_counted(&directory.path().join("d"), Duration::ZERO);
    let id = create_in_log(&database, "t", &[numbers([0])]).unwrap();
    counts.take();
    append_to_log(&database, id, &numbers(1..ROWS as i64)).unwrap();
    let [_, bytes_in_log, bytes_in_columns] = counts.take();
    assert!(bytes_in_log < 1000, "{bytes_in_log}");
    // Each value, and a record of 64 bytes for each full block.
    assert_eq!(bytes_in_columns, ROWS * 8 + 3 * 64);
    assert!(database.checkpoint().unwrap());
    assert_eq!(counts.take()[2], 0);
}
