//! Backups: what is in them, what a second one copies, and what they refuse.

mod common;

use common::{append, append_to_log, assert_same, column, create, create_in_log, every_type, open};
use hypostyle_storage::{Database, OpenMode, Snapshot};
use hypostyle_types::ErrorKind;
use std::fs;
use std::path::Path;

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
    assert!(other.check(|_| true).is_empty());
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
    compaction.compact(id).unwrap();
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
    assert_eq!(fs::read_to_string(strange.join("notes.txt")).unwrap(), "hello");
}
