//! Databases that earlier releases wrote stay readable: `tests/golden` has some for each format version.
//!
//! What must be in them is told here by the rules that made them, and not by what the reader finds. To
//! make the files of a new format version (never those of an old one again):
//! `cargo test -p hypostyle-storage --test all write_golden_files -- --ignored`

use crate::common::{
    append, append_to_log, assert_same, assert_undamaged, batch, column, columns_of, create, every_type, open,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, UInt64Array,
};
use arrow_select::concat::concat;
use arrow_select::take::take;
use hypostyle_storage::{
    ConstraintEntry, ConstraintRule, Database, Identity, NewColumn, OpenMode, ReferentialAction,
    SequenceEntry, SequenceOwner, SequenceState, ViewEntry,
};
use hypostyle_types::{BLOCK_ROWS, ColumnId, LogicalType, TableId};
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

const VERSION_1: &str = "format-v1";

/// A database of the same version with everything that transactions leave in a log.
const TRANSACTIONS: &str = "format-v1-transactions";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

#[test]
#[ignore = "writes the files that the other test reads; only for a new format version"]
fn write_golden_files() {
    let path = golden(VERSION_1);
    assert!(!path.exists(), "golden files are never written again: {}", path.display());
    let database = open(&path);
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
            comment: None,
        })
        .unwrap();
    writer.commit().unwrap();
}

/// Rows with NULL in a column of type DOUBLE, whose NaNs are those that R reads as NA.
const NULLS: &str = "format-v1-nulls";

fn doubles() -> RecordBatch {
    let values = (0..40).map(|row| (row % 3 != 0).then_some(f64::from(row) / 4.0));
    batch(vec![("d", Arc::new(Float64Array::from_iter(values)) as ArrayRef)])
}

#[test]
#[ignore = "writes the files that the other test reads; only for a new format version"]
fn write_golden_nulls() {
    let path = golden(NULLS);
    assert!(!path.exists(), "golden files are never written again: {}", path.display());
    create(&open(&path), "doubles", &[doubles()]).unwrap();
}

/// Says whether a column of a database has a word of eight bytes in one of its files.
fn has_word(database: &Path, word: u64) -> bool {
    let files = fs::read_dir(database.join("columns/1")).unwrap().map(|file| file.unwrap().path());
    let mut values = files.filter(|path| path.extension().is_some_and(|extension| extension == "values"));
    values.any(|path| fs::read(path).unwrap().chunks_exact(8).any(|bytes| bytes == word.to_le_bytes()))
}

#[test]
fn either_nan_lies_under_a_null() {
    let (plain, missing) = (0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_07A2);
    assert!(has_word(&golden(VERSION_1), plain) && !has_word(&golden(VERSION_1), missing));
    assert!(has_word(&golden(NULLS), missing) && !has_word(&golden(NULLS), plain));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden");
    copy(&golden(NULLS), &path);
    let snapshot = open(&path).snapshot().unwrap();
    assert_same(&column(&snapshot, "doubles", 0), doubles().column(0), "d");
    assert_undamaged(&snapshot);
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
    copy(&golden(VERSION_1), &path);

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
    assert_undamaged(&snapshot);
}

/// Rows of `every_type`: deleted before the checkpoint; deleted after it, in the files and in the log.
const DELETED: [u64; 2] = [1, 5];
const DELETED_LATER: [u64; 4] = [2, 12, 13, 40];

fn numbers(values: std::ops::Range<i64>) -> RecordBatch {
    batch(vec![("n", Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)])
}

fn delete(database: &Arc<Database>, id: TableId, positions: &[u64]) {
    let mut writer = database.begin(1).unwrap();
    writer.delete(id, &positions.iter().copied().collect()).unwrap();
    writer.commit().unwrap();
}

#[test]
#[ignore = "writes the files that the other test reads; only for a new format version"]
fn write_golden_transactions() {
    let path = golden(TRANSACTIONS);
    assert!(!path.exists(), "golden files are never written again: {}", path.display());
    let database = open(&path);
    let id = create(&database, "every_type", &[every_type(0, FIRST.0, FIRST.1)]).unwrap();
    let altered = create(&database, "altered", &[numbers(0..10)]).unwrap();
    let compacted = create(&database, "compacted", &[numbers(0..100)]).unwrap();
    let dropped = create(&database, "dropped", &[numbers(0..10)]).unwrap();
    delete(&database, id, &DELETED);
    assert!(database.checkpoint().unwrap());

    append_to_log(&database, id, &every_type(FIRST.0, SECOND.0, SECOND.1)).unwrap();
    delete(&database, id, &DELETED_LATER);

    append_to_log(&database, altered, &numbers(10..15)).unwrap();
    delete(&database, altered, &[3, 12]);
    let text =
        |rows: &RecordBatch| Ok(Arc::new(LargeStringArray::from(vec!["new"; rows.num_rows()])) as ArrayRef);
    let column =
        NewColumn { default: Some("'new'".into()), ..NewColumn::new("text", LogicalType::Varchar, false) };
    let mut writer = database.begin(1).unwrap();
    writer.add_column(altered, column, false, text).unwrap();
    writer
        .alter_table(altered, |table| {
            table.comment = Some("all rules".into());
            table.columns[0].comment = Some("a number".into());
            let columns = vec![ColumnId(0)];
            table.constraints = [
                ("key", ConstraintRule::PrimaryKey { columns: columns.clone() }),
                ("once", ConstraintRule::Unique { columns: columns.clone() }),
                ("small", ConstraintRule::Check { sql: "n < 1000".into() }),
                (
                    "known",
                    ConstraintRule::ForeignKey {
                        columns: columns.clone(),
                        table: compacted,
                        referred: columns,
                        on_delete: ReferentialAction::NoAction,
                        on_update: ReferentialAction::NoAction,
                    },
                ),
            ]
            .map(|(name, rule)| ConstraintEntry::new(name, rule))
            .to_vec();
            Ok(())
        })
        .unwrap();
    writer.commit().unwrap();

    append_to_log(&database, compacted, &numbers(100..130)).unwrap();
    delete(&database, compacted, &(0..120).step_by(2).collect::<Vec<_>>());
    let mut writer = database.begin(1).unwrap();
    assert_eq!(writer.compact(compacted, |_, _| Ok(())).unwrap(), 60);
    writer.commit().unwrap();
    append_to_log(&database, compacted, &numbers(130..133)).unwrap();

    // Rows past the end of the column files, as of a statement that was undone.
    let mut writer = database.begin(1).unwrap();
    let savepoint = writer.savepoint().unwrap();
    writer.append(compacted, &numbers(0..40_000)).unwrap();
    writer.savepoint().unwrap();
    writer.roll_back_to(&savepoint);
    writer.append(compacted, &numbers(133..134)).unwrap();
    writer.drop_table(dropped).unwrap();
    writer.commit().unwrap();
    drop(database);
    remove_what_is_of_this_machine(&path);
}

/// What has no meaning elsewhere, and the room at the end of the log.
fn remove_what_is_of_this_machine(path: &Path) {
    fs::remove_file(path.join("shared")).unwrap();
    fs::remove_dir_all(path.join("readers")).unwrap();
    for entry in fs::read_dir(path).unwrap() {
        let file = entry.unwrap().path();
        if file.file_name().unwrap().to_string_lossy().starts_with("log-") {
            let bytes = fs::read(&file).unwrap();
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            // The last frame may end with zeros.
            fs::write(&file, &bytes[..end.next_multiple_of(4096)]).unwrap();
        }
    }
}

fn check_transactions(database: &Database, more: std::ops::Range<i64>) {
    let snapshot = database.snapshot().unwrap();
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    let pieces = [every_type(0, FIRST.0, FIRST.1), every_type(FIRST.0, SECOND.0, SECOND.1)];
    let gone = |row: &u64| DELETED.contains(row) || DELETED_LATER.contains(row);
    let kept: UInt64Array = (0..(FIRST.0 + SECOND.0) as u64).filter(|row| !gone(row)).map(Some).collect();
    for (index, field) in pieces[0].schema().fields().iter().enumerate() {
        let parts: Vec<&dyn Array> = pieces.iter().map(|piece| piece.column(index).as_ref()).collect();
        let expected = take(&concat(&parts).unwrap(), &kept, None).unwrap();
        assert_same(&column(&snapshot, "every_type", index), &expected, field.name());
    }
    let numbers_of =
        |table| column(&snapshot, table, 0).as_primitive::<Int64Type>().values().iter().copied().collect();
    let found: Vec<i64> = numbers_of("altered");
    assert_eq!(found, (0..15).filter(|n| ![3, 12].contains(n)).collect::<Vec<_>>());
    let texts = column(&snapshot, "altered", 1);
    assert!(texts.as_string::<i64>().iter().all(|text| text == Some("new")));
    let entry = snapshot.table("main", "altered").unwrap().entry();
    assert_eq!(entry.comment.as_deref(), Some("all rules"));
    assert_eq!(entry.columns[0].comment.as_deref(), Some("a number"));
    assert_eq!(entry.columns[1].default.as_deref(), Some("'new'"));
    let names: Vec<&str> = entry.constraints.iter().map(|constraint| constraint.name.as_str()).collect();
    assert_eq!(names, ["key", "once", "small", "known"]);
    assert!(matches!(&entry.constraints[2].rule, ConstraintRule::Check { sql } if sql == "n < 1000"));
    assert!(
        matches!(&entry.constraints[3].rule, ConstraintRule::ForeignKey { referred, .. } if referred.len() == 1)
    );
    let found: Vec<i64> = numbers_of("compacted");
    let expected = (0..120).filter(|n| n % 2 == 1).chain(120..134).chain(more);
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert!(snapshot.table("main", "dropped").is_none());
}

#[test]
fn the_log_of_transactions_of_version_1_is_read_checked_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden");
    copy(&golden(TRANSACTIONS), &path);
    check_transactions(&Database::open(&path, OpenMode::ReadOnly).unwrap(), 0..0);
    let database = open(&path);
    check_transactions(&database, 0..0);
    let id = database.snapshot().unwrap().table("main", "compacted").unwrap().entry().id;
    append_to_log(&database, id, &numbers(200..300)).unwrap();
    check_transactions(&database, 200..300);
    assert!(database.checkpoint().unwrap());
    check_transactions(&database, 200..300);
    drop(database);
    check_transactions(&open(&path), 200..300);
}

/// A database of the same version with sequences and what columns take from them, and comments; and
/// a backup of that.
const SEQUENCES: &str = "format-v1-sequences";
const BACKUP: &str = "format-v1-backup";

fn sequence(name: &str, owner: Option<SequenceOwner>) -> SequenceEntry {
    let state = SequenceState { last: 3, is_called: false };
    let (schema, name, comment) = ("main".into(), name.into(), None);
    SequenceEntry {
        schema,
        name,
        increment: 2,
        min: -10,
        max: 100,
        start: 3,
        cycle: true,
        owner,
        comment,
        state,
    }
}

#[test]
#[ignore = "writes the files that the other test reads; only for a new format version"]
fn write_golden_sequences() {
    let path = golden(SEQUENCES);
    assert!(!path.exists(), "golden files are never written again: {}", path.display());
    let database = open(&path);
    let mut writer = database.begin(1).unwrap();
    let columns = vec![
        NewColumn { identity: Some(Identity::Always), ..NewColumn::new("id", LogicalType::BigInt, false) },
        NewColumn {
            identity: Some(Identity::ByDefault),
            ..NewColumn::new("other", LogicalType::BigInt, false)
        },
        NewColumn { generated: Some("id * 2".into()), ..NewColumn::new("twice", LogicalType::BigInt, true) },
    ];
    let table = writer.create_table("main", "t", columns).unwrap();
    let owner = |column| Some(SequenceOwner { table, column: ColumnId(column) });
    writer.create_sequence(sequence("of_id", owner(0))).unwrap();
    writer.create_sequence(sequence("of_other", owner(1))).unwrap();
    writer.create_sequence(sequence("free", None)).unwrap();
    writer.create_sequence(sequence("gone", None)).unwrap();
    let query = "SELECT id FROM t".into();
    let view = ViewEntry { schema: "main".into(), name: "v".into(), sql: query, comment: Some("ids".into()) };
    writer.create_view(view).unwrap();
    writer.commit().unwrap();
    let take =
        |name, count| database.next_values(&database.snapshot().unwrap(), "main", name, count).unwrap();
    assert_eq!(take("of_id", 3), [3, 5, 7]);
    let rows = |ids: &[i64]| {
        let columns = [("id", 1), ("other", 1), ("twice", 2)];
        let array =
            |times| Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| id * times))) as ArrayRef;
        batch(columns.map(|(name, times)| (name, array(times))).to_vec())
    };
    append(&database, table, &rows(&[3, 5])).unwrap();
    assert!(database.checkpoint().unwrap());

    // In the log.
    let mut writer = database.begin(1).unwrap();
    writer.alter_sequence(SequenceEntry { increment: 10, ..sequence("free", None) }, None).unwrap();
    writer.drop_sequence("main", "gone").unwrap();
    writer.create_sequence(sequence("late", None)).unwrap();
    writer.create_schema("other").unwrap();
    writer.comment("other", None, Some("a schema".into())).unwrap();
    writer.comment("main", Some("free"), Some("a sequence".into())).unwrap();
    writer.commit().unwrap();
    assert_eq!(take("free", 2), [3, 13]);
    append_to_log(&database, table, &rows(&[7])).unwrap();
    drop(database);
    remove_what_is_of_this_machine(&path);
    // A backup begins with a checkpoint: of a copy, since the log is to stay as it is.
    let directory = tempfile::tempdir().unwrap();
    let same = directory.path().join("d");
    copy(&path, &same);
    open(&same).backup(&golden(BACKUP), |_| true).unwrap();
}

fn check_sequences(database: &Database) {
    let snapshot = database.snapshot().unwrap();
    assert_undamaged(&snapshot);
    let catalog = snapshot.catalog();
    let columns = &catalog.table("main", "t").unwrap().columns;
    let identity: Vec<_> = columns.iter().map(|column| column.identity).collect();
    assert_eq!(identity, [Some(Identity::Always), Some(Identity::ByDefault), None]);
    assert_eq!(columns[2].generated.as_deref(), Some("id * 2"));
    let owner = |name| catalog.sequence("main", name).unwrap().owner.map(|owner| owner.column);
    assert_eq!((owner("of_id"), owner("of_other")), (Some(ColumnId(0)), Some(ColumnId(1))));
    let free = catalog.sequence("main", "free").unwrap();
    assert_eq!((free.increment, free.min, free.max, free.start, free.cycle), (10, -10, 100, 3, true));
    assert_eq!(free.comment.as_deref(), Some("a sequence"));
    assert!(catalog.sequence("main", "gone").is_none());
    assert_eq!(catalog.view("main", "v").unwrap().comment.as_deref(), Some("ids"));
    let schema = catalog.schemas.iter().find(|schema| schema.name == "other").unwrap();
    assert_eq!(schema.comment.as_deref(), Some("a schema"));
    assert_eq!(column(&snapshot, "t", 2).as_primitive::<Int64Type>().values(), &[6, 10, 14]);
}

#[test]
fn sequences_and_comments_of_version_1_are_read_checked_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let [path, backup] = [SEQUENCES, BACKUP].map(|name| {
        let path = directory.path().join(name);
        copy(&golden(name), &path);
        check_sequences(&Database::open(&path, OpenMode::ReadOnly).unwrap());
        path
    });
    let database = open(&path);
    check_sequences(&database);
    // The backup is known as one of this database.
    database.backup(&backup, |_| true).unwrap();
    check_sequences(&open(&backup));
    let take =
        |name, count| database.next_values(&database.snapshot().unwrap(), "main", name, count).unwrap();
    assert_eq!(take("of_id", 2), [9, 11]);
    assert_eq!(take("of_other", 1), [3]);
    assert_eq!(take("free", 9), [23, 33, 43, 53, 63, 73, 83, 93, -10]);
    assert_eq!(take("late", 1), [3]);
    assert!(database.checkpoint().unwrap());
    check_sequences(&database);
    drop(database);
    check_sequences(&open(&path));
}
