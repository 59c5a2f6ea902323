//! Damage that no single checksum at the root shows: files of nested elements and dictionaries, and
//! catalogs whose checksums are right but which describe files that cannot be.

use crate::common::{
    append, append_to_log, assert_same, assert_undamaged, batch, column as column_of, create, every_type,
    open,
};
use arrow_array::{ArrayRef, LargeStringArray};
use arrow_select::concat::concat;
use hypostyle_format::{Catalog, ColumnEntry, TableEntry};
use hypostyle_storage::{Damage, Database, OpenMode};
use hypostyle_types::{ErrorKind, LogicalType};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const ROWS: u64 = 3000;

#[test]
fn reading_rows_verifies_every_file_they_come_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    create(&open(&path), "t", &[every_type(0, ROWS as usize, true)]).unwrap();
    let mut damaged = 0;
    for entry in fs::read_dir(path.join("columns/1")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let sound = fs::read(&file).unwrap();
        let mut changed = sound.clone();
        changed[sound.len() / 2] ^= 16;
        fs::write(&file, &changed).unwrap();
        let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
        let snapshot = database.snapshot().unwrap();
        let index: usize = name.split('-').next().unwrap().parse().unwrap();
        for (position, column) in snapshot.table("main", "t").unwrap().columns().iter().enumerate() {
            let found = column.verify_rows(0..ROWS).map_err(|error| error.kind());
            let expected = if position == index { Err(ErrorKind::Corrupt) } else { Ok(()) };
            assert_eq!(found, expected, "a flipped bit in {name}, column {}", column.entry().name);
        }
        fs::write(&file, &sound).unwrap();
        damaged += 1;
    }
    assert!(damaged > 30, "only {damaged} files");
}

#[test]
fn rows_are_verified_without_the_elements_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    // Elements of the arrays fill three blocks for each of rows; the first block of them is damaged.
    let rows = 2 * hypostyle_types::BLOCK_ROWS;
    create(&open(&path), "t", &[every_type(0, rows as usize, false)]).unwrap();
    let database = Database::open(&path, OpenMode::ReadOnly).unwrap();
    let snapshot = database.snapshot().unwrap();
    let column = snapshot.table("main", "t").unwrap().column("array").unwrap();
    let file = path.join("columns/1/18-0-1.values");
    let mut bytes = fs::read(&file).unwrap();
    bytes[0] ^= 1;
    fs::write(&file, bytes).unwrap();
    column.verify_rows(rows - 10..rows).unwrap();
    assert_eq!(column.verify_rows(0..10).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Flips a bit in a file of the only table, while `check` runs.
fn while_damaged(file: &Path, offset: usize, check: impl FnOnce(&str)) {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let sound = fs::read(file).unwrap();
    let mut changed = sound.clone();
    changed[offset] ^= 16;
    fs::write(file, &changed).unwrap();
    check(&name);
    // What was written behind it stays.
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&sound[offset..=offset], offset as u64).unwrap();
}

#[test]
fn nothing_is_put_behind_damaged_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let first = every_type(0, ROWS as usize, true);
    let id = create(&database, "t", std::slice::from_ref(&first)).unwrap();
    let few = every_type(ROWS as usize, 5, true);
    append_to_log(&database, id, &few).unwrap();
    let many = every_type(0, 30_000, true);
    let files: Vec<_> = fs::read_dir(path.join("columns/1")).unwrap().map(|file| file.unwrap()).collect();
    let mut roles = BTreeSet::new();
    for file in files {
        roles.insert(file.path().extension().unwrap().to_string_lossy().into_owned());
        let length = file.metadata().unwrap().len() as usize;
        while_damaged(&file.path(), length / 2, |name| {
            let index: usize = name.split('-').next().unwrap().parse().unwrap();
            let column = format!("column \"{}\"", first.schema().field(index).name());
            let bulk = append_to_log(&database, id, &many);
            let errors = [database.checkpoint().unwrap_err(), bulk.unwrap_err()];
            for error in &errors {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
                assert!(error.message().contains(&column), "{name}: {error}");
            }
            assert!(errors[0].message().contains("table \"t\""), "{}", errors[0]);
        });
    }
    let all = ["dictionary_heap", "dictionary_offsets", "heap", "offsets", "validity", "values"];
    assert_eq!(Vec::from_iter(roles), all);
    // Nothing is lost, neither by the damage nor by what was tried.
    assert!(database.checkpoint().unwrap());
    let snapshot = database.snapshot().unwrap();
    assert_undamaged(&snapshot);
    for (index, field) in first.schema().fields().iter().enumerate() {
        let expected = concat(&[first.column(index), few.column(index)]).unwrap();
        assert_same(&column_of(&snapshot, "t", index), &expected, field.name());
    }
}

#[test]
fn a_dictionary_does_not_change_its_encoding_over_damaged_codes() {
    // More distinct strings than fit the codes; and so many that they are no dictionary any more.
    for distinct in [1000, 60_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let strings = |values: &mut dyn Iterator<Item = usize>| {
            let array: ArrayRef =
                Arc::new(LargeStringArray::from_iter_values(values.map(|n| format!("kind {n}"))));
            batch(vec![("s", array)])
        };
        let database = open(&path);
        let rows = 70_000;
        let id = create(&database, "t", &[strings(&mut (0..rows).map(|row| row % 100))]).unwrap();
        let many = 60_000;
        let more = strings(&mut (0..many).map(|row| row % distinct));
        // In the first block, which no append resumes.
        while_damaged(&path.join("columns/1/0-0-0.values"), 1000, |_| {
            let error = append_to_log(&database, id, &more).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{distinct}: {error}");
            assert!(error.message().contains("column \"s\""), "{error}");
            let damages = database.snapshot().unwrap().check(|_| true);
            assert_eq!(damages.len(), 1, "{damages:?}");
        });
        append_to_log(&database, id, &more).unwrap();
        assert!(database.checkpoint().unwrap());
        let snapshot = database.snapshot().unwrap();
        assert_undamaged(&snapshot);
        assert_eq!(snapshot.table_by_id(id).unwrap().rows(), (rows + many) as u64);
        assert_ne!(snapshot.table_by_id(id).unwrap().columns()[0].entry().generation.number.0, 0);
    }
}

#[test]
fn the_first_offset_of_a_block_is_not_taken_from_damaged_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let rows = hypostyle_types::BLOCK_ROWS as usize;
    let strings = |range: std::ops::Range<usize>| {
        let array: ArrayRef =
            Arc::new(LargeStringArray::from_iter_values(range.map(|n| format!("value {n}"))));
        batch(vec![("s", array)])
    };
    let id = create(&database, "t", &[strings(0..rows)]).unwrap();
    // The offset that the first block ends with and the second begins with.
    while_damaged(&path.join("columns/1/0-0-0.offsets"), rows * 8, |_| {
        append(&database, id, &strings(0..10)).unwrap();
        let damages = database.snapshot().unwrap().check(|_| true);
        assert_eq!(damages.iter().map(|damage| damage.block).collect::<Vec<_>>(), [0, 1]);
    });
    assert_undamaged(&database.snapshot().unwrap());
}

#[test]
fn a_file_that_is_lost_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let (database, behind) = (open(&path), open(&path));
    let id = create(&database, "t", &[every_type(0, 50, true)]).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.delete(id, &[3].into_iter().collect()).unwrap();
    transaction.commit().unwrap();
    assert!(database.checkpoint().unwrap());
    append_to_log(&database, id, &every_type(50, 5, true)).unwrap();
    let version = database.snapshot().unwrap().version().0 - 1;
    for file in [
        format!("log-{version:020}"),
        format!("catalog-{version:020}"),
        format!("columns/{id}/deleted-{version:020}"),
    ] {
        let away = directory.path().join("away");
        fs::rename(path.join(&file), &away).unwrap();
        let damages = database.snapshot().unwrap().check(|_| true);
        assert_eq!(damages.len(), 1, "{file}: {damages:?}");
        let opened = [OpenMode::ReadOnly, OpenMode::ReadWrite].map(|mode| Database::open(&path, mode));
        let errors = opened.map(|opened| opened.unwrap_err()).into_iter().chain([
            damages[0].error.clone(),
            // A handle that has missed the checkpoint.
            behind.snapshot().unwrap_err(),
        ]);
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{file}: {error}");
            assert!(error.message().contains(&file), "{file}: {error}");
        }
        fs::rename(&away, path.join(&file)).unwrap();
    }
    assert_eq!(behind.snapshot().unwrap().table("main", "t").unwrap().rows(), 54);
}

#[test]
fn a_log_or_superblock_that_is_lost_is_damage_after_a_restart_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    // With a checkpoint, and with none.
    for checkpoint in [false, true] {
        create(&database, &format!("t{checkpoint}"), &[every_type(0, 50, true)]).unwrap();
        assert!(!checkpoint || database.checkpoint().unwrap());
    }
    drop(database);
    fs::remove_file(path.join("shared")).unwrap();
    let log = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
    let log = log.map(|name| name.into_string().unwrap()).find(|name| name.starts_with("log-")).unwrap();
    for file in [log.as_str(), "HYPOSTYLE"] {
        let away = directory.path().join("away");
        fs::rename(path.join(file), &away).unwrap();
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
            let error = Database::open(&path, mode).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{file}: {error}");
            assert!(error.message().contains(file) && error.message().contains("backup"), "{file}: {error}");
        }
        fs::rename(&away, path.join(file)).unwrap();
    }
    assert_eq!(open(&path).snapshot().unwrap().tables().count(), 2);
}

#[test]
fn empty_directories_that_were_not_copied_are_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    drop(open(&path));
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        for empty in ["columns", "readers"] {
            fs::remove_dir_all(path.join(empty)).unwrap();
        }
        assert_eq!(Database::open(&path, mode).unwrap().snapshot().unwrap().tables().count(), 0);
        open(&path);
    }
    create(&open(&path), "t", &[every_type(0, 5, false)]).unwrap();
}

type Change<'a> = &'a dyn Fn(&mut Catalog);

/// Opens a database whose catalog was changed and sealed again with a right checksum.
fn open_with(change: impl Fn(&mut Catalog)) -> hypostyle_types::Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    create(&database, "t", &[every_type(0, 50, true)]).unwrap();
    let mut catalog = database.snapshot().unwrap().catalog().clone();
    drop(database);
    change(&mut catalog);
    let name = format!("catalog-{:020}", catalog.version.0);
    fs::write(path.join(name), catalog.encode_checkpoint().unwrap()).unwrap();
    Database::open(&path, OpenMode::ReadOnly).map(drop)
}

fn table(catalog: &mut Catalog) -> &mut TableEntry {
    Arc::make_mut(&mut catalog.tables[0])
}

fn column<'a>(catalog: &'a mut Catalog, name: &str) -> &'a mut ColumnEntry {
    table(catalog).columns.iter_mut().find(|column| column.name == name).unwrap()
}

#[test]
fn a_sealed_catalog_that_describes_impossible_files_is_refused() {
    open_with(|_| {}).unwrap();
    let changes: [(&str, Change); 9] = [
        ("a node too many", &|catalog| {
            let nodes = &mut column(catalog, "i32").generation.nodes;
            nodes.push(nodes[0].clone());
        }),
        ("a node too few", &|catalog| column(catalog, "struct").generation.nodes.truncate(2)),
        ("rows without end", &|catalog| {
            table(catalog).rows = u64::MAX;
            table(catalog).columns.iter_mut().for_each(|column| column.generation.nodes[0].length = u64::MAX);
        }),
        ("a heap without end", &|catalog| column(catalog, "text").generation.nodes[0].heap_bytes = u64::MAX),
        ("a dictionary without end", &|catalog| {
            column(catalog, "few").generation.nodes[0].dictionary_length = u64::MAX;
        }),
        ("a short member", &|catalog| column(catalog, "struct").generation.nodes[1].length = 5),
        ("a short array", &|catalog| column(catalog, "array").generation.nodes[1].length = 5),
        ("no record of the tail", &|catalog| column(catalog, "i64").generation.nodes[0].tail = None),
        ("an array of negative length", &|catalog| {
            column(catalog, "array").logical_type =
                LogicalType::Array { element: Box::new(LogicalType::BigInt), length: -3 };
        }),
    ];
    for (what, change) in changes {
        let error = open_with(change).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
    }
}

/// What a database that stays open finds damaged when one bit of a file is flipped, and what one
/// finds that is opened.
fn damage_of(path: &std::path::Path, file: &str, offset: usize) -> (Vec<Damage>, Result<(), ErrorKind>) {
    let database = open(path);
    let file = path.join(file);
    let sound = fs::read(&file).unwrap();
    let mut changed = sound.clone();
    changed[offset] ^= 4;
    fs::write(&file, &changed).unwrap();
    let damages = database.snapshot().unwrap().check(|_| true);
    let opened = Database::open(path, OpenMode::ReadOnly).map(drop).map_err(|error| error.kind());
    fs::write(&file, &sound).unwrap();
    assert_undamaged(&database.snapshot().unwrap());
    (damages, opened)
}

#[test]
fn a_check_reports_the_log_the_catalog_and_files_of_deleted_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[every_type(0, 50, true)]).unwrap();
    let mut transaction = database.begin(1).unwrap();
    transaction.delete(id, &[3, 7, 20].into_iter().collect()).unwrap();
    transaction.commit().unwrap();
    assert!(database.checkpoint().unwrap());
    append_to_log(&database, id, &every_type(50, 5, true)).unwrap();
    let version = database.snapshot().unwrap().version().0 - 1;
    append_to_log(&database, id, &every_type(55, 5, true)).unwrap();
    drop(database);

    let files = [
        (format!("log-{version:020}"), 100, ""),
        (format!("catalog-{version:020}"), 100, ""),
        (format!("columns/{id}/deleted-{version:020}"), 10, "t"),
    ];
    for (file, offset, table) in files {
        let (damages, opened) = damage_of(&path, &file, offset);
        assert_eq!(damages.len(), 1, "{file}: {damages:?}");
        assert_eq!((damages[0].table.as_str(), damages[0].column.as_str()), (table, ""), "{file}");
        assert_eq!(damages[0].error.kind(), ErrorKind::Corrupt, "{file}");
        assert_eq!(opened, Err(ErrorKind::Corrupt), "{file}");
    }
}
