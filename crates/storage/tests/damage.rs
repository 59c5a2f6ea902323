//! Damage that no single checksum at the root shows: files of nested elements and dictionaries, and
//! catalogs whose checksums are right but which describe files that cannot be.

mod common;

use common::{append_to_log, create, every_type, open};
use hypostyle_format::{Catalog, ColumnEntry, TableEntry};
use hypostyle_storage::{Damage, Database, OpenMode};
use hypostyle_types::{ErrorKind, LogicalType};
use std::fs;
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

/// What a database that stays open finds damaged when one bit of a file is flipped, and what one finds that is opened.
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
    assert!(database.snapshot().unwrap().check(|_| true).is_empty());
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
