//! Backups: what is in them, what a second one copies, and what they refuse.

use crate::common::{
    append, append_to_log, assert_same, assert_undamaged, batch, column, copy_directory, create,
    create_in_log, every_type, open,
};
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_storage::{Database, OpenMode, Snapshot};
use hypostyle_types::ErrorKind;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn same(one: &Snapshot, other: &Snapshot) {
    let names = |snapshot: &Snapshot| -> Vec<String> {
        snapshot.tables().map(|table| table.entry().name.clone()).collect()
    };
    assert_eq!(names(one), names(other));
    for table in one.tables() {
        for index in 0..table.columns().len() {
            let name = &table.entry().name;
            assert_same(&column(other, name, index), &column(one, name, index), name);
        }
    }
    assert_undamaged(other);
}

fn read(path: &Path) -> Snapshot {
    let database = Database::open(path, OpenMode::ReadOnly).unwrap();
    database.snapshot().unwrap().as_ref().clone()
}

#[test]
fn a_backup_is_the_database_as_it_was_and_a_second_one_adds_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("d"), directory.path().join("backup"));
    let database = open(&path);
    let id = create(&database, "t", &[every_type(0, 70_000, true)]).unwrap();
    create_in_log(&database, "u", &[every_type(0, 5, false)]).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.delete(id, &[3, 69_999].into_iter().collect()).unwrap();
    transaction.commit().unwrap();
    let first = database.backup(&target, |_| true).unwrap();
    let old = database.snapshot().unwrap();
    same(&old, &read(&target));

    // Rows that come while the files are being written stay in the log, and are in the backup, too.
    let mut bulk = database.begin(1).unwrap();
    bulk.append(id, &every_type(0, 20_000, false)).unwrap();
    append_to_log(&database, id, &every_type(70_000, 13, true)).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.delete(id, &[70_001].into_iter().collect()).unwrap();
    transaction.commit().unwrap();
    let second = database.backup(&target, |_| true).unwrap();
    assert!(second * 10 < first, "{second} of {first} bytes were copied again");
    same(&database.snapshot().unwrap(), &read(&target));
    drop(bulk);

    // A compaction and a drop between two backups.
    let mut compaction = database.begin(2).unwrap();
    compaction.compact(id, |_, _| Ok(())).unwrap();
    compaction.commit().unwrap();
    let mut transaction = database.begin(1).unwrap();
    let dropped = database.snapshot().unwrap().table("main", "u").unwrap().entry().id;
    transaction.drop_table(dropped).unwrap();
    transaction.commit().unwrap();
    append(&database, id, &every_type(0, 7, true)).unwrap();
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
    assert_eq!(fs::read_dir(target.join("columns")).unwrap().count(), 1);

    // The original goes on without the backup knowing, and the other way round.
    append(&open(&target), id, &every_type(0, 3, true)).unwrap();
    assert_eq!(
        read(&target).table("main", "t").unwrap().rows(),
        database.snapshot().unwrap().table("main", "t").unwrap().rows() + 3
    );
    let error = database.backup(&target, |_| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("written to"), "{error}");
}

#[test]
fn an_interrupted_backup_leaves_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("backup");
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[every_type(0, 100, true)]).unwrap();
    let stop = database.backup(&target, |progress| progress.done < 1000).unwrap_err();
    assert_eq!(stop.kind(), ErrorKind::Interrupted);
    database.backup(&target, |_| true).unwrap();
    let before = database.snapshot().unwrap();
    append(&database, id, &every_type(100, 5000, true)).unwrap();
    let mut looks = 0;
    database
        .backup(&target, |_| {
            looks += 1;
            looks < 10
        })
        .unwrap_err();
    same(&before, &read(&target));
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let (strange, other) = (directory.path().join("strange"), directory.path().join("other"));
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("notes.txt"), "hello").unwrap();
    drop(open(&other));
    for target in [&strange, &other] {
        assert_eq!(database.backup(target, |_| true).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(fs::read_dir(&strange).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(strange.join("notes.txt")).unwrap(), "hello");
    fs::create_dir_all(directory.path().join("newspaper/columns/gossip")).unwrap();
    let error = database.backup(&directory.path().join("newspaper"), |_| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(directory.path().join("newspaper/columns/gossip").exists());
}

/// Rows that tell which history they are of, as often the same number of bytes as not.
fn rows_of_history(history: i64, rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 10 + history)));
    let text = |row: i64| (row % 3 != history % 3).then(|| format!("text {history} {row:>7}"));
    let texts: LargeStringArray = (0..rows).map(text).collect();
    let kinds: LargeStringArray = (0..rows).map(|row| Some(format!("kind {history}.{}", row % 5))).collect();
    batch(vec![("n", numbers), ("text", Arc::new(texts)), ("kind", Arc::new(kinds))])
}

/// Rotates backups: Monday's is restored and written to, then goes to Tuesday's place.
fn rotate(before: i64, tuesday: &[i64], after_restore: &[i64]) {
    let what = format!("{before} rows, {tuesday:?}, {after_restore:?}");
    let directory = tempfile::tempdir().unwrap();
    let [path, mon, tue] = ["d", "mon", "tue"].map(|name| directory.path().join(name));
    let database = open(&path);
    create(&database, "unchanged", &[rows_of_history(0, 100_000)]).unwrap();
    let id = create(&database, "t", &[rows_of_history(1, before)]).unwrap();
    let types = create(&database, "types", &[every_type(0, 100, true)]).unwrap();
    database.backup(&mon, |_| true).unwrap();
    tuesday.iter().for_each(|rows| append(&database, id, &rows_of_history(2, *rows)).unwrap());
    append(&database, types, &every_type(100, 50, true)).unwrap();
    // A table that the other history knows under the same id as another one.
    create(&database, "of Tuesday", &[rows_of_history(2, 10)]).unwrap();
    let all = database.backup(&tue, |_| true).unwrap();
    drop(database);

    fs::remove_dir_all(&path).unwrap();
    copy_directory(&mon, &path);
    let database = open(&path);
    create(&database, "of Wednesday", &[every_type(3, 10, true)]).unwrap();
    after_restore.iter().for_each(|rows| append(&database, id, &rows_of_history(3, *rows)).unwrap());
    append(&database, types, &every_type(7, 50, true)).unwrap();
    let old = read(&tue);
    // Whenever it is stopped, Tuesday's backup is as it was.
    let stopped = directory.path().join("stopped");
    copy_directory(&tue, &stopped);
    for stop_at in [1, 5, 20, 60] {
        let mut looks = 0;
        let result = database.backup(&stopped, |_| {
            looks += 1;
            looks < stop_at
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
        same(&old, &read(&stopped));
    }
    drop(old);
    let copied = database.backup(&tue, |_| true).unwrap();
    assert!(copied * 2 < all, "{what}: {copied} of {all} bytes were copied again");
    same(&database.snapshot().unwrap(), &read(&tue));
    same(&database.snapshot().unwrap(), &read(&open_copy(&tue)));

    // From then on it is added to as any other.
    append(&database, id, &rows_of_history(3, 70_000)).unwrap();
    append(&database, types, &every_type(150, 5, false)).unwrap();
    database.backup(&tue, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&tue));
    append(&database, id, &rows_of_history(3, 11)).unwrap();
    let copied = database.backup(&tue, |_| true).unwrap();
    assert!(copied * 20 < all, "{what}: {copied} of {all} bytes were copied again");
    same(&database.snapshot().unwrap(), &read(&tue));
}

/// A copy that was opened for writing, which cuts files to their committed length.
fn open_copy(backup: &Path) -> std::path::PathBuf {
    let copy = backup.with_extension("copy");
    copy_directory(backup, &copy);
    drop(open(&copy));
    copy
}

#[test]
fn a_backup_after_a_restore_keeps_nothing_of_the_other_history() {
    // In the last block; a block that is full in one; in both; less than there was, at the same
    // version, later.
    rotate(1000, &[500], &[700]);
    rotate(1000, &[70_000], &[700]);
    rotate(1000, &[70_000], &[70_000]);
    rotate(66_000, &[10, 10, 10, 10], &[5]);
    rotate(66_000, &[10], &[10]);
    rotate(1000, &[10], &[10, 10, 10]);
}

#[test]
fn a_backup_of_commits_that_were_lost_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let [path, before, target] = ["d", "before", "backup"].map(|name| directory.path().join(name));
    let database = open(&path);
    let id = create(&database, "t", &[rows_of_history(0, 5000)]).unwrap();
    drop(database);
    copy_directory(&path, &before);
    let database = open(&path);
    append_to_log(&database, id, &rows_of_history(1, 800)).unwrap();
    database.backup(&target, |_| true).unwrap();
    drop(database);
    // A power failure with synchronous = normal.
    fs::remove_dir_all(&path).unwrap();
    copy_directory(&before, &path);
    let database = open(&path);
    append_to_log(&database, id, &rows_of_history(2, 800)).unwrap();
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
}

#[test]
fn two_backups_to_one_directory_do_not_meet() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("d"), directory.path().join("backup"));
    let database = open(&path);
    let id = create(&database, "t", &[every_type(0, 100, true)]).unwrap();
    for round in 0..2 {
        let mut refused = 0;
        database
            .backup(&target, |_| {
                let error = open(&path).backup(&target, |_| true).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Busy);
                assert!(error.message().contains("another backup to"), "{error}");
                refused += 1;
                true
            })
            .unwrap();
        assert!(refused > 0, "round {round}");
        same(&database.snapshot().unwrap(), &read(&target));
        append(&database, id, &every_type(100, 100, true)).unwrap();
    }
}

#[test]
fn who_opens_a_backup_for_writing_waits_until_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("d"), directory.path().join("backup"));
    let database = open(&path);
    let id = create(&database, "t", &[every_type(0, 100, true)]).unwrap();
    for _ in 0..2 {
        let mut opening = None;
        database
            .backup(&target, |_| {
                let opening = opening.get_or_insert_with(|| {
                    let target = target.clone();
                    let thread = std::thread::spawn(move || Database::open(&target, OpenMode::ReadWrite));
                    std::thread::sleep(Duration::from_millis(50));
                    thread
                });
                // There is no database before the first backup is complete.
                assert!(!opening.is_finished() || !target.join("HYPOSTYLE").exists());
                true
            })
            .unwrap();
        match opening.unwrap().join().unwrap() {
            Ok(opened) => same(&database.snapshot().unwrap(), &opened.snapshot().unwrap()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}"),
        }
        append(&database, id, &every_type(100, 5000, true)).unwrap();
    }
    // It was open, and a process that had it open has died; it was not written to.
    fs::write(target.join("readers/dead"), [0; 8]).unwrap();
    database.backup(&target, |_| true).unwrap();
    let held = open(&target);
    let error = database.backup(&target, |_| true).unwrap_err();
    assert!(error.message().contains("it is open"), "{error}");
    drop(held);
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
}

#[test]
fn a_backup_is_not_within_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("database"));
    for within in ["database/backup", "database/columns/backup", "database/readers"] {
        let error = database.backup(&directory.path().join(within), |_| true).unwrap_err();
        assert!(error.message().contains("it is within a database"), "{error}");
    }
    assert!(!directory.path().join("database/backup").exists());
    // Nor is it made below directories that are not there.
    database.backup(&directory.path().join("above/backup"), |_| true).unwrap();
    let error = database.backup(&directory.path().join("nosuch/above/backup"), |_| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!directory.path().join("nosuch").exists());
}

#[test]
fn a_first_backup_that_was_interrupted_is_not_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("backup");
    let database = Database::in_memory().unwrap();
    create(&database, "t", &[every_type(0, 100, true)]).unwrap();
    database.backup(&target, |_| false).unwrap_err();
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        assert_eq!(Database::open(&target, mode).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
}

#[test]
fn a_file_of_a_backup_that_is_gone_is_copied_again() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("backup");
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[every_type(0, 100, true)]).unwrap();
    database.backup(&target, |_| true).unwrap();
    fs::remove_file(target.join(format!("columns/{id}/3-0-0.values"))).unwrap();
    fs::File::options()
        .write(true)
        .open(target.join(format!("columns/{id}/4-0-0.values")))
        .unwrap()
        .set_len(10)
        .unwrap();
    append(&database, id, &every_type(100, 10, true)).unwrap();
    database.backup(&target, |_| true).unwrap();
    same(&database.snapshot().unwrap(), &read(&target));
}
