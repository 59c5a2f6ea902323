//! The storage from outside: what is appended comes back, survives reopening, and damage is found.

use crate::common::{
    self, append, append_to_log, assert_same, assert_undamaged, batch, column, create, create_in_log,
    every_type, open,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::*;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use hypostyle_storage::{Bound, Database, NewColumn, OpenMode};
use hypostyle_types::{BLOCK_ROWS, ErrorKind, LogicalType};
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[test]
fn every_type_comes_back_across_appends_blocks_and_reopening() {
    // Pieces that end inside a byte of a bitmap, inside a block, and beyond one.
    let pieces = [(1, false), (12, true), (1000, false), (BLOCK_ROWS as usize, true), (77, false)];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.hypo");
    let mut first = 0;
    let mut written: Vec<RecordBatch> = Vec::new();
    for (rows, nulls) in pieces {
        let piece = every_type(first, rows, nulls);
        first += rows;
        let database = open(&path);
        match database.snapshot().unwrap().table("main", "t").map(|table| table.entry().id) {
            None => drop(create(&database, "t", std::slice::from_ref(&piece)).unwrap()),
            Some(id) => append(&database, id, &piece).unwrap(),
        }
        written.push(piece);
    }
    let database = open(&path);
    let snapshot = database.snapshot().unwrap();
    assert_eq!(snapshot.table("main", "t").unwrap().rows(), first as u64);
    for (index, field) in written[0].schema().fields().iter().enumerate() {
        let parts: Vec<&dyn Array> = written.iter().map(|piece| piece.column(index).as_ref()).collect();
        let expected = concat(&parts).unwrap();
        assert_same(&column(&snapshot, "t", index), &expected, field.name());
    }
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
}

#[test]
fn rows_of_the_log_come_behind_the_columns_without_a_copy() {
    let sizes = [(1, 1), (13, 70), (1000, 24), (70_000, 333)];
    let nulls = [(false, false), (true, false), (false, true), (true, true)];
    for ((rows, more), (before, behind)) in
        sizes.into_iter().flat_map(|size| nulls.map(|nulls| (size, nulls)))
    {
        let directory = tempfile::tempdir().unwrap();
        for database in [Database::in_memory().unwrap(), open(&directory.path().join("t.hypo"))] {
            let id = create(&database, "t", &[every_type(0, rows, before)]).unwrap();
            append_to_log(&database, id, &every_type(rows, more, behind)).unwrap();
            let again = database.snapshot().unwrap();
            append_to_log(&database, id, &every_type(rows + more, 5, behind)).unwrap();
            for snapshot in [again, database.snapshot().unwrap()] {
                let table = snapshot.table("main", "t").unwrap();
                assert!(table.beyond_files().tail.rows() >= more as u64);
                for (index, stored) in table.columns().iter().enumerate() {
                    let field = stored.field();
                    let expected = column(&snapshot, "t", index);
                    let whole = table.whole_column(index).unwrap().unwrap();
                    for whole in [whole, table.live_private(index, &(0..table.rows())).unwrap()] {
                        whole.to_data().validate_full().unwrap();
                        assert_eq!(whole.data_type(), field.data_type());
                        assert_eq!(whole.null_count(), expected.null_count(), "{}", field.name());
                        assert_same(&whole, &expected, field.name());
                    }
                }
            }
        }
    }
}

#[test]
fn the_value_under_a_null_is_the_missing_value_of_numpy() {
    let database = Database::in_memory().unwrap();
    create(&database, "t", &[every_type(0, 200, true)]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let values = |name: &str| snapshot.table("main", "t").unwrap().column(name).unwrap().array().unwrap();
    assert_eq!(values("i64").as_primitive::<Int64Type>().values()[1], i64::MIN);
    assert_eq!(values("i8").as_primitive::<Int8Type>().values()[1], i8::MIN);
    assert!(values("f64").as_primitive::<arrow_array::types::Float64Type>().values()[1].is_nan());
    assert_eq!(values("date").as_primitive::<arrow_array::types::Date32Type>().values()[1], i32::MIN);
    let few = values("few");
    assert_eq!(few.as_dictionary::<Int8Type>().keys().values()[1], -1);
    assert!(few.is_null(1));
    // Under those of the log lies the same.
    let id = snapshot.table("main", "t").unwrap().entry().id;
    append_to_log(&database, id, &every_type(200, 20, true)).unwrap();
    let snapshot = database.snapshot().unwrap();
    let table = snapshot.table("main", "t").unwrap();
    let place = |name: &str| table.columns().iter().position(|column| column.entry().name == name).unwrap();
    let values = |name: &str| table.whole_column(place(name)).unwrap().unwrap();
    assert_eq!(values("i64").as_primitive::<Int64Type>().values()[202], i64::MIN);
    assert!(values("f64").as_primitive::<arrow_array::types::Float64Type>().values()[202].is_nan());
    assert_eq!(values("few").as_dictionary::<Int8Type>().keys().values()[202], -1);
    assert!(values("few").is_null(202));
}

#[test]
fn a_dictionary_widens_and_then_gives_way_to_plain_strings() {
    let strings = |distinct: usize, rows: usize| -> RecordBatch {
        let values: LargeStringArray = (0..rows).map(|row| Some(format!("v{}", row % distinct))).collect();
        batch(vec![("s", Arc::new(values))])
    };
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("d"));
    let stored = || database.snapshot().unwrap().table("main", "t").unwrap().columns()[0].clone();
    let key_type = || match stored().array().unwrap().data_type() {
        DataType::Dictionary(key, _) => Some(key.as_ref().clone()),
        _ => None,
    };
    let id = create(&database, "t", &[strings(100, 4000)]).unwrap();
    assert_eq!(key_type(), Some(DataType::Int8));
    append(&database, id, &strings(1000, 20_000)).unwrap();
    assert_eq!(key_type(), Some(DataType::Int16));
    append(&database, id, &strings(60_000, 60_000)).unwrap();
    assert_eq!(key_type(), None);
    let all = column(&database.snapshot().unwrap(), "t", 0);
    let all = all.as_string::<i64>();
    assert_eq!(all.len(), 84_000);
    assert_eq!((all.value(0), all.value(4999), all.value(83_999)), ("v0", "v999", "v59999"));
    assert_undamaged(&database.snapshot().unwrap());
    // Only the last generation's files are left.
    let names = fs::read_dir(directory.path().join("d/columns/1")).unwrap().count();
    assert_eq!(names, 3, "offsets, heap and blocks");
}

#[test]
fn a_transaction_that_fails_or_is_dropped_leaves_the_old_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let numbers = |values: Vec<i64>| batch(vec![("n", Arc::new(Int64Array::from(values)))]);
    let database = open(&path);
    let id = create(&database, "t", &[numbers(vec![1, 2, 3])]).unwrap();
    let mut writer = database.begin(1).unwrap();
    writer.append(id, &numbers(vec![8; 100_000])).unwrap();
    drop(writer);
    append(&database, id, &numbers(vec![4])).unwrap();
    drop(database);
    let snapshot = open(&path).snapshot().unwrap();
    assert_eq!(column(&snapshot, "t", 0).as_primitive::<Int64Type>().values().to_vec(), [1, 2, 3, 4]);
}

#[test]
fn a_log_cut_anywhere_opens_with_the_commits_that_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let numbers = |value: i64| batch(vec![("n", Arc::new(Int64Array::from(vec![value])))]);
    let database = open(&path);
    let id = create_in_log(&database, "t", &[numbers(0)]).unwrap();
    for value in 1..4 {
        append_to_log(&database, id, &numbers(value)).unwrap();
    }
    drop(database);
    // As after a restart of the machine.
    fs::remove_file(path.join("shared")).unwrap();
    let log = path.join(format!("log-{:020}", 0));
    let mut whole = fs::read(&log).unwrap();
    // A frame may end with zeros, too.
    whole.truncate(whole.iter().rposition(|byte| *byte != 0).unwrap() + 64);
    let mut seen = std::collections::BTreeSet::new();
    for length in (0..=whole.len()).rev() {
        fs::write(&log, &whole[..length]).unwrap();
        let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
        let snapshot = database.snapshot().unwrap();
        let rows = snapshot.table("main", "t").map_or(0, |table| table.rows());
        if rows > 0 {
            let values: Vec<i64> = (0..rows as i64).collect();
            assert_eq!(column(&snapshot, "t", 0).as_primitive::<Int64Type>().values().to_vec(), values);
        }
        seen.insert(rows);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn damage_is_found_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    create(&database, "t", &[every_type(0, 70_000, true)]).unwrap();
    drop(database);
    let columns = path.join("columns/1");
    for entry in fs::read_dir(&columns).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let sound = fs::read(&file).unwrap();
        if name.ends_with("blocks") {
            continue;
        }
        let mut damaged = sound.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 4;
        fs::write(&file, &damaged).unwrap();
        let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
        let damages = database.snapshot().unwrap().check(|_| true);
        assert_eq!(damages.len(), 1, "a flipped bit in {name}: {damages:?}");
        assert_eq!(damages[0].error.kind(), ErrorKind::Corrupt);
        drop(database);
        fs::write(&file, &sound[..sound.len() / 2]).unwrap();
        let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
        let snapshot = database.snapshot().unwrap();
        assert!(!snapshot.check(|_| true).is_empty(), "{name} truncated");
        let failures: Vec<_> = snapshot
            .table("main", "t")
            .unwrap()
            .columns()
            .iter()
            .filter_map(|column| column.array().err())
            .collect();
        assert_eq!(failures.len(), 1, "{name} truncated");
        assert!(failures[0].message().contains("truncated"), "{}", failures[0]);
        fs::write(&file, &sound).unwrap();
    }
}

#[test]
fn a_new_database_makes_its_own_directory_and_none_above_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mispelt").join("d");
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        assert_eq!(Database::open(&path, mode).unwrap_err().kind(), ErrorKind::NotFound);
    }
    let error = Database::open(&path, OpenMode::ReadWrite).unwrap_err();
    assert!(error.message().contains("mispelt\", in which"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    std::fs::create_dir(directory.path().join("mispelt")).unwrap();
    Database::open(&path, OpenMode::ReadWrite).unwrap();
}

#[test]
fn opening_what_is_not_a_sound_database_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let kind = |path: &Path, mode| Database::open(path, mode).unwrap_err().kind();
    assert_eq!(kind(&path, OpenMode::ReadOnly), ErrorKind::NotFound);
    drop(open(&path));
    let superblock = fs::read(path.join("HYPOSTYLE")).unwrap();
    for (byte, value, expected) in
        [(0, b'X', ErrorKind::InvalidInput), (8, 9, ErrorKind::Version), (99, 1, ErrorKind::Corrupt)]
    {
        let mut changed = superblock.clone();
        changed[byte] = value;
        fs::write(path.join("HYPOSTYLE"), changed).unwrap();
        assert_eq!(kind(&path, OpenMode::ReadWrite), expected, "byte {byte}");
    }
    let strange = directory.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("notes.txt"), "hello").unwrap();
    assert_eq!(kind(&strange, OpenMode::ReadWrite), ErrorKind::InvalidInput);
    assert_eq!(kind(&strange.join("notes.txt"), OpenMode::ReadOnly), ErrorKind::InvalidInput);
}

#[test]
fn values_that_do_not_fit_are_named_and_nothing_is_appended() {
    let database = Database::in_memory().unwrap();
    let mut writer = database.begin(1).unwrap();
    let columns = vec![
        NewColumn::new("t", LogicalType::TinyInt, true),
        NewColumn::new("n", LogicalType::Varchar, false),
    ];
    let id = writer.create_table("main", "t", columns).unwrap();
    writer.commit().unwrap();
    let name: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
    let try_append = |number: ArrayRef, name: &ArrayRef| {
        append(&database, id, &batch(vec![("t", number), ("n", name.clone())])).unwrap_err()
    };
    let error = try_append(Arc::new(Int64Array::from(vec![1, 300, 2])), &name);
    assert_eq!(error.message(), "column \"t\", row 1: 300 does not fit TINYINT");
    let error = try_append(Arc::new(Float64Array::from(vec![1.0, 2.0, 2.5])), &name);
    assert_eq!(error.message(), "column \"t\", row 2: 2.5 does not fit TINYINT");
    let error = try_append(Arc::new(StringArray::from(vec!["1", "2", "3"])), &name);
    assert_eq!(error.sqlstate(), "42804");
    let error = try_append(Arc::new(Int64Array::from(vec![1, 2, 3])), &name);
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23502"));
    assert!(error.message().contains("row 3"), "{error}");
    assert_eq!(database.snapshot().unwrap().table("main", "t").unwrap().rows(), 0);
}

#[test]
fn a_private_array_is_the_callers_and_outlives_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("d"));
    let values: Vec<i64> = (0..100_000).collect();
    let id = create(&database, "t", &[batch(vec![("n", Arc::new(Int64Array::from(values)))])]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let data = snapshot.table("main", "t").unwrap().columns()[0].clone();
    let (one, other) = (data.private_array().unwrap(), data.array().unwrap());
    assert_ne!(one.to_data().buffers()[0].as_ptr(), other.to_data().buffers()[0].as_ptr());
    let mut writer = database.begin(1).unwrap();
    writer.drop_table(id).unwrap();
    writer.commit().unwrap();
    let columns = directory.path().join("d/columns/1");
    assert!(columns.exists(), "a snapshot still has the table");
    drop((snapshot, data));
    assert!(!columns.exists(), "the space of a dropped table is given back");
    drop(database);
    assert_eq!(one.as_primitive::<Int64Type>().value(99_999), 99_999);
}

#[test]
fn synopses_bound_their_blocks() {
    let database = Database::in_memory().unwrap();
    create(&database, "t", &[every_type(0, BLOCK_ROWS as usize + 10, true)]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let table = snapshot.table("main", "t").unwrap();
    let synopses = table.column("i64").unwrap().synopses().unwrap();
    let end = BLOCK_ROWS as i128 - 7;
    assert_eq!(synopses.len(), 2);
    assert_eq!(synopses[0].bounds, Some((Bound::Integer(-7), Bound::Integer(end - 1))));
    assert_eq!(synopses[1].rows, 10);
    let few = table.column("few").unwrap().synopses().unwrap();
    let text = |text: &str| Bound::Bytes { prefix: text.as_bytes().to_vec(), exact: true };
    assert_eq!(few[0].bounds, Some((text("kind 0"), text("kind 4"))));
}

/// Names and lengths of the files of the first table's columns.
fn column_files(path: &Path) -> Vec<(String, u64)> {
    let file = |file: std::io::Result<fs::DirEntry>| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), file.metadata().unwrap().len())
    };
    let mut files: Vec<_> = fs::read_dir(path.join("columns/1")).unwrap().map(file).collect();
    files.sort();
    files
}

#[test]
fn what_an_abandoned_append_took_is_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.hypo");
    let id = create(&open(&path), "t", &[every_type(0, 100, false)]).unwrap();
    let committed = column_files(&path);
    {
        let database = open(&path);
        let mut writer = database.begin(2).unwrap();
        // With NULLs, so that there are new files, too; and more than a block, for its record.
        writer.append(id, &every_type(100, 70_000, true)).unwrap();
    }
    assert_eq!(column_files(&path), committed);
    let database = open(&path);
    assert_eq!(column_files(&path), committed);
    assert_undamaged(&database.snapshot().unwrap());
    append(&database, id, &every_type(100, 50, true)).unwrap();
    drop(database);
    let grown = column_files(&path);
    let snapshot = open(&path).snapshot().unwrap();
    assert_eq!(column_files(&path), grown, "opening cut what was committed");
    let both = [every_type(0, 100, false), every_type(100, 50, true)];
    for (index, field) in both[0].schema().fields().iter().enumerate() {
        let expected = concat(&[both[0].column(index), both[1].column(index)]).unwrap();
        assert_same(&column(&snapshot, "t", index), &expected, field.name());
    }
}

#[test]
fn a_first_null_comes_after_sealed_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let values = |range: std::ops::Range<i64>| {
        let numbers: ArrayRef = Arc::new(range.clone().map(Some).collect::<Int64Array>());
        let texts: ArrayRef = Arc::new(LargeStringArray::from_iter_values(range.map(|n| n.to_string())));
        common::batch(vec![("n", numbers), ("s", texts)])
    };
    let nulls = || {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-1)]));
        let texts: ArrayRef = Arc::new(LargeStringArray::from(vec![None, Some("x")]));
        common::batch(vec![("n", numbers), ("s", texts)])
    };
    let database = common::open(&path);
    // In one piece, in a later one, and just behind a block.
    common::create(&database, "a", &[values(0..70_000), nulls(), values(0..70_000)]).unwrap();
    let later = common::create(&database, "b", &[values(0..140_000)]).unwrap();
    common::append(&database, later, &nulls()).unwrap();
    let behind = common::create(&database, "c", &[values(0..65_536)]).unwrap();
    common::append(&database, behind, &nulls()).unwrap();
    drop(database);
    let snapshot = common::open(&path).snapshot().unwrap();
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:?}");
    // A bit that is lost is found.
    let file = fs::read_dir(path.join(format!("columns/{later}"))).unwrap();
    let file = file.map(|file| file.unwrap().path()).find(|path| path.to_string_lossy().contains("validity"));
    let file = file.unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 4;
    fs::write(&file, bytes).unwrap();
    let damages = common::open(&path).snapshot().unwrap().check(|_| true);
    assert_eq!(damages.len(), 1, "{damages:?}");
}

#[test]
fn a_check_tells_of_each_block_and_stops_at_any() {
    let database = Database::in_memory().unwrap();
    let rows = BLOCK_ROWS + 10;
    create(&database, "few", &[every_type(0, 50, true)]).unwrap();
    let numbers: ArrayRef = Arc::new((0..rows as i64).map(Some).collect::<Int64Array>());
    create(&database, "many", &[common::batch(vec![("n", numbers)])]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let columns = snapshot.table("main", "few").unwrap().columns().len() as u64;
    let mut told = Vec::new();
    let damages = snapshot.check(|progress| {
        assert_eq!(progress.rows_total, 50 * columns + rows);
        told.push(progress.rows_done);
        true
    });
    assert!(damages.is_empty());
    assert!(told.is_sorted());
    assert_eq!(told[0], 50);
    assert_eq!(told[told.len() - 3..], [50 * columns, 50 * columns + BLOCK_ROWS, 50 * columns + rows]);
    for stop in 1..=told.len() {
        let mut looks = 0;
        snapshot.check(|_| {
            looks += 1;
            looks < stop
        });
        assert_eq!(looks, stop);
    }
}
