//! Databases that earlier releases wrote stay readable: `tests/golden` has one for each format version.
//!
//! What must be in them is told here by the rules that made them, and not by what the reader finds. To
//! make the files of a new format version (never those of an old one again):
//! `cargo test -p hypostyle-storage --test golden write_golden_files -- --ignored`

mod common;

use arrow_array::{Array, ArrayRef, BooleanArray, LargeStringArray, RecordBatch};
use arrow_select::concat::concat;
use common::{append, assert_same, batch, column, columns_of, create, every_type, open};
use hypostyle_storage::{Database, OpenMode, ViewEntry};
use hypostyle_types::BLOCK_ROWS;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of the two appends: the second starts inside a byte of a bitmap, and has NULLs.
const FIRST: (usize, bool) = (13, false);
const SECOND: (usize, bool) = (60, true);

/// More than a block, few distinct strings: block records and a dictionary.
fn long() -> RecordBatch {
    let rows = || 0..BLOCK_ROWS + 30;
    let kinds: LargeStringArray =
        rows().map(|row| (row % 1000 != 999).then(|| format!("kind {}", row / 30_000))).collect();
    let flags: BooleanArray = rows().map(|row| Some(row % 3 == 0)).collect();
    batch(vec![("kind", Arc::new(kinds) as ArrayRef), ("flag", Arc::new(flags))])
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/format-v1")
}

#[test]
#[ignore = "writes the files that the other test reads; only for a new format version"]
fn write_golden_files() {
    assert!(!golden().exists(), "golden files are never written again: {}", golden().display());
    let database = open(&golden());
    let (first, second) = (every_type(0, FIRST.0, FIRST.1), every_type(FIRST.0, SECOND.0, SECOND.1));
    let id = create(&database, "every_type", &[first]).unwrap();
    append(&database, id, &second).unwrap();
    create(&database, "long", &[long()]).unwrap();
    let mut writer = database.begin(1).unwrap();
    let mut columns = columns_of(&second);
    columns.truncate(3);
    columns[0].nullable = false;
    columns[1].default = Some("6 * 7".into());
    writer.create_schema("other").unwrap();
    writer.create_table("other", "empty", columns).unwrap();
    writer
        .create_view(ViewEntry {
            schema: "main".into(),
            name: "some".into(),
            sql: "SELECT i64, text FROM every_type WHERE bool".into(),
        })
        .unwrap();
    writer.commit().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), &target).unwrap()),
        }
    }
}

#[test]
fn format_version_1_is_read_checked_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden");
    copy(&golden(), &path);

    let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let snapshot = database.snapshot().unwrap();
    let pieces = [every_type(0, FIRST.0, FIRST.1), every_type(FIRST.0, SECOND.0, SECOND.1)];
    let table = snapshot.table("main", "every_type").unwrap();
    assert_eq!(table.rows(), (FIRST.0 + SECOND.0) as u64);
    assert_eq!(table.columns().len(), pieces[0].num_columns());
    for (index, field) in pieces[0].schema().fields().iter().enumerate() {
        let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece.column(index).as_ref()).collect();
        assert_same(&column(&snapshot, "every_type", index), &concat(&parts).unwrap(), field.name());
    }
    let long = long();
    for (index, field) in long.schema().fields().iter().enumerate() {
        assert_same(&column(&snapshot, "long", index), long.column(index), field.name());
    }
    let kinds = snapshot.table("main", "long").unwrap().column("kind").unwrap();
    assert!(kinds.entry().generation.encoding.is_dictionary());
    assert_eq!(kinds.synopses().unwrap().len(), 2);
    let empty = snapshot.table("other", "empty").unwrap();
    let columns = &empty.entry().columns;
    assert_eq!((empty.rows(), columns.len()), (0, 3));
    assert!(!columns[0].nullable);
    assert_eq!(columns[1].default.as_deref(), Some("6 * 7"));
    let view = snapshot.catalog().view("main", "some").unwrap();
    assert_eq!(view.sql, "SELECT i64, text FROM every_type WHERE bool");
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    let id = table.entry().id;
    drop(snapshot);
    drop(database);

    let database = open(&path);
    let more = every_type(FIRST.0 + SECOND.0, 200, true);
    append(&database, id, &more).unwrap();
    drop(database);
    let snapshot = open(&path).snapshot().unwrap();
    for (index, field) in more.schema().fields().iter().enumerate() {
        let whole = column(&snapshot, "every_type", index);
        let tail = whole.slice(FIRST.0 + SECOND.0, 200);
        assert_same(&tail, more.column(index), field.name());
    }
    assert!(snapshot.check(|_| true).is_empty());
}
