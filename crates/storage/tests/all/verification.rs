//! Columns that are handed out as they lie: what came from elsewhere is verified before, what was
//! written here meanwhile, and neither kills who reads it (docs/decisions/0011).

use crate::common::{
    self, Random, append, assert_undamaged, batch, copy_directory, create, every_type, hostile, open, seeds,
};
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use hypostyle_storage::{ColumnData, Database, OpenMode, Snapshot, StorageOptions, Verify};
use hypostyle_types::{BLOCK_ROWS, Error, ErrorKind, LogicalType, Result};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More than one block, so that nothing is verified for being little.
const ROWS: usize = 3 * BLOCK_ROWS as usize + 100;

/// The file of numbers of [`two_columns`], and a place in its second block.
const NUMBERS: &str = "columns/1/0-0-0.values";
const IN_SECOND_BLOCK: u64 = 8 * (BLOCK_ROWS + 5);

fn two_columns(first: usize, rows: usize) -> arrow_array::RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((first..first + rows).map(|n| n as i64)));
    let texts: ArrayRef =
        Arc::new(LargeStringArray::from_iter_values((first..first + rows).map(|n| format!("text {n}"))));
    batch(vec![("n", numbers), ("s", texts)])
}

fn open_to(path: &Path, verify: Verify) -> Arc<Database> {
    Database::open(path, StorageOptions { verify, ..OpenMode::ReadOnly.into() }).unwrap()
}

fn column(snapshot: &Snapshot, name: &str) -> Arc<ColumnData> {
    snapshot.tables().next().unwrap().column(name).unwrap().clone()
}

/// All of a column, as it is handed out.
fn hand_out(database: &Database, name: &str) -> Result<ArrayRef> {
    let snapshot = database.snapshot().unwrap();
    let column = column(&snapshot, name);
    snapshot.hand_out(&column, 0..column.rows(), || Ok(()))?;
    column.private_array()
}

fn flip(file: &Path, offset: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 16], offset).unwrap();
}

fn assert_corrupt(error: &Error, parts: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(parts.iter().all(|part| error.message().contains(part)), "{error}");
}

#[test]
fn what_was_written_here_comes_at_once_and_damage_fails_the_next_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    create(&database, "t", &[two_columns(0, ROWS)]).unwrap();
    assert!(database.is_own());
    for name in ["n", "s"] {
        hand_out(&database, name).unwrap();
    }
    database.wait_for_verification();
    drop(database);
    // Damage that comes later is found by the next process.
    flip(&path.join(NUMBERS), IN_SECOND_BLOCK);
    let database = open_to(&path, Verify::Auto);
    assert!(database.is_own());
    hand_out(&database, "n").unwrap();
    database.wait_for_verification();
    assert_corrupt(&hand_out(&database, "n").unwrap_err(), &["column \"n\"", "block 1 "]);
    hand_out(&database, "s").unwrap();
    // Sound rows of it still come, and all of them when it is sound again.
    let snapshot = database.snapshot().unwrap();
    snapshot.hand_out(&column(&snapshot, "n"), 2 * BLOCK_ROWS..ROWS as u64, || Ok(())).unwrap();
    flip(&path.join(NUMBERS), IN_SECOND_BLOCK);
    hand_out(&database, "n").unwrap();
}

#[test]
fn what_came_from_elsewhere_is_verified_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    create(&open(&path), "t", &[two_columns(0, ROWS)]).unwrap();
    let copy = directory.path().join("copy");
    copy_directory(&path, &copy);
    let database = open_to(&copy, Verify::Auto);
    assert!(!database.is_own());
    hand_out(&database, "n").unwrap();
    drop(database);
    flip(&copy.join(NUMBERS), IN_SECOND_BLOCK);
    let database = open_to(&copy, Verify::Auto);
    assert_corrupt(&hand_out(&database, "n").unwrap_err(), &["column \"n\"", "block 1 "]);
    hand_out(&database, "s").unwrap();
    // Whoever says so gets it unread.
    hand_out(&open_to(&copy, Verify::Never), "n").unwrap();
    // And whoever wants can have what is this machine's own verified before, too.
    flip(&path.join(NUMBERS), IN_SECOND_BLOCK);
    assert_corrupt(&hand_out(&open_to(&path, Verify::Always), "n").unwrap_err(), &["block 1 "]);
    // Rows of one block always are.
    let database = open_to(&path, Verify::Auto);
    let snapshot = database.snapshot().unwrap();
    let one_block = BLOCK_ROWS + 1000..BLOCK_ROWS + 1010;
    let error = snapshot.hand_out(&column(&snapshot, "n"), one_block, || Ok(())).unwrap_err();
    assert_corrupt(&error, &["block 1 "]);
}

#[test]
fn a_directory_is_own_where_it_was_made_until_it_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let is_own = |name: &str| open_to(&place(name), Verify::Auto).is_own();
    create(&open(&place("d")), "t", &[two_columns(0, 100)]).unwrap();
    // It may be renamed.
    fs::rename(place("d"), place("e")).unwrap();
    assert!(is_own("e"));
    copy_directory(&place("e"), &place("copy"));
    assert!(!is_own("copy"));
    assert!(!is_own("copy"), "opening it does not change that");
    // Other files in the place of its own ones, as a restore or an archive puts them there.
    fs::rename(place("copy/HYPOSTYLE"), place("e/HYPOSTYLE")).unwrap();
    assert!(!is_own("e"));
    fs::copy(place("e/HYPOSTYLE"), place("copy/HYPOSTYLE")).unwrap();
    // It says nothing, or something else.
    fs::write(place("copy/origin"), [0; 40]).unwrap();
    assert!(!is_own("copy"));
    fs::remove_file(place("copy/origin")).unwrap();
    assert!(!is_own("copy"));
    let backup = place("backup");
    open(&place("copy")).backup(&backup, |_| true).unwrap();
    assert!(!is_own("backup"));
    // Neither is one that was, once it is added to.
    let opened = open(&backup);
    opened.adopt().unwrap();
    drop(opened);
    assert!(is_own("backup"));
    open(&place("copy")).backup(&backup, |_| true).unwrap();
    assert!(!is_own("backup"));
    assert!(Database::in_memory().unwrap().is_own());

    let database = open(&place("copy"));
    assert_undamaged(&database.snapshot().unwrap());
    database.adopt().unwrap();
    assert!(database.is_own());
    drop(database);
    assert!(is_own("copy"));
    let error = open_to(&place("e"), Verify::Auto).adopt().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

#[test]
fn what_is_verified_stays_so_when_rows_are_appended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let id = create(&database, "t", &[two_columns(0, ROWS)]).unwrap();
    let before = database.snapshot().unwrap();
    column(&before, "n").verify_rows(0..ROWS as u64).unwrap();
    append(&database, id, &two_columns(ROWS, 10)).unwrap();
    let after = database.snapshot().unwrap();
    let now = column(&after, "n");
    assert_eq!(now.rows(), ROWS as u64 + 10);
    // Bytes that were verified are not read again; those of the block that has grown are.
    flip(&path.join(NUMBERS), IN_SECOND_BLOCK);
    now.verify_rows(0..3 * BLOCK_ROWS).unwrap();
    flip(&path.join(NUMBERS), 8 * 3 * BLOCK_ROWS);
    assert_corrupt(&now.verify_rows(3 * BLOCK_ROWS..now.rows()).unwrap_err(), &["block 3 "]);
}

#[test]
fn a_file_that_was_cut_is_found_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    create(&database, "t", &[two_columns(0, ROWS)]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let columns = ["n", "s"].map(|name| column(&snapshot, name));
    columns.iter().for_each(|column| drop(column.array().unwrap()));
    for (index, role) in [(0, "values"), (1, "offsets"), (1, "heap")] {
        let file = path.join(format!("columns/1/{index}-0-0.{role}"));
        let sound = fs::read(&file).unwrap();
        let cut = fs::OpenOptions::new().write(true).open(&file).unwrap();
        cut.set_len(1000).unwrap();
        let column = &columns[index];
        let errors = [
            column.array().unwrap_err(),
            column.private_array().unwrap_err(),
            column.files().unwrap_err(),
            column.verify_rows(0..10).unwrap_err(),
        ];
        errors.iter().for_each(|error| assert_corrupt(error, &["truncated"]));
        fs::write(&file, &sound).unwrap();
        column.array().unwrap();
    }
    // What was removed since lives on in its mappings.
    let database = open(&path);
    let mut transaction = database.begin(1).unwrap();
    transaction.drop_table(snapshot.tables().next().unwrap().entry().id).unwrap();
    transaction.commit().unwrap();
    fs::remove_dir_all(path.join("columns/1")).unwrap();
    columns[0].array().unwrap();
}

/// Reads every value, as those do to whom columns are handed out. Whatever kills a process would do
/// it here.
fn read_all(array: &ArrayRef) {
    array.to_data().validate_full().unwrap();
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
    for row in 0..array.len() {
        let _ = formatter.value(row).try_to_string();
    }
}

/// Whether all that there is in a directory which came from elsewhere is handed out, in each way:
/// `None` when it is not opened.
fn handed_out(path: &Path) -> Option<BTreeMap<String, bool>> {
    let database = Database::open(path, OpenMode::ReadOnly).ok()?;
    assert!(!database.is_own());
    let snapshot = database.snapshot().ok()?;
    let mut found = BTreeMap::new();
    for table in snapshot.tables() {
        for column in table.columns() {
            let all = 0..column.rows();
            let verified = snapshot.hand_out(column, all.clone(), || Ok(()));
            let is_sound = verified.is_ok();
            match verified {
                Ok(()) => {
                    column.verify_rows(all).unwrap();
                    for array in [column.array().unwrap(), column.private_array().unwrap()] {
                        read_all(&array);
                    }
                    column.files().unwrap();
                }
                Err(error) => assert_corrupt(&error, &["column \""]),
            }
            found.insert(column.entry().name.clone(), is_sound);
        }
    }
    Some(found)
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A database with every type, and a copy of it.
fn every_type_and_a_copy(rows: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("d"), directory.path().join("copy"));
    create(&open(&path), "t", &[every_type(0, rows, true)]).unwrap();
    copy_directory(&path, &copy);
    fs::remove_file(copy.join("shared")).unwrap();
    (directory, copy)
}

#[test]
fn rot_in_any_file_of_what_came_from_elsewhere_is_found_before_anything_is_handed_out() {
    let (_directory, copy) = every_type_and_a_copy(2000);
    assert!(handed_out(&copy).unwrap().values().all(|is_sound| *is_sound));
    for file in files_of(&copy.join("columns/1")) {
        let sound = fs::read(&file).unwrap();
        for place in [0, sound.len() / 3, sound.len() - 1] {
            let mut changed = sound.clone();
            changed[place] ^= 1;
            fs::write(&file, &changed).unwrap();
            let name = file.file_name().unwrap().to_string_lossy();
            let index: usize = name.split('-').next().unwrap().parse().unwrap();
            let found = handed_out(&copy).unwrap();
            let broken = found.iter().filter(|(_, is_sound)| !**is_sound).count();
            let is_padding = place == sound.len() - 1 && name.ends_with(".validity");
            assert!(
                broken == 1 || is_padding && broken == 0,
                "{name}, byte {place}, column {index}: {found:?}"
            );
        }
        fs::write(&file, &sound).unwrap();
    }
}

#[test]
fn no_bytes_with_right_checksums_kill_who_reads_them() {
    let (_directory, copy) = every_type_and_a_copy(300);
    hostile::seal(&copy, false);
    assert!(handed_out(&copy).unwrap().values().all(|is_sound| *is_sound), "sealing changes nothing");
    let (catalog_file, _) = hostile::catalog(&copy);
    let catalog = fs::read(&catalog_file).unwrap();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for seed in seeds() {
        let mut random = Random::new(seed, 1);
        for file in files_of(&copy.join("columns/1")) {
            let sound = fs::read(&file).unwrap();
            let role = file.extension().unwrap().to_string_lossy().into_owned();
            for round in 0..12 {
                let mut changed = sound.clone();
                for _ in 0..1 + random.below(3) {
                    let place = random.below(sound.len() as u64) as usize;
                    let byte = [0, 0x7F, 0x80, 0xFF, random.below(256) as u8][random.below(5) as usize];
                    let end = sound.len().min(place + [1, 1, 2, 8][random.below(4) as usize]);
                    changed[place..end].fill(byte);
                }
                fs::write(&file, &changed).unwrap();
                hostile::seal(&copy, round % 2 == 0);
                let found = handed_out(&copy);
                if found.is_none_or(|found| found.values().any(|is_sound| !is_sound)) {
                    *refused.entry(role.clone()).or_default() += 1;
                }
                fs::write(&catalog_file, &catalog).unwrap();
            }
            fs::write(&file, &sound).unwrap();
        }
    }
    println!("refused: {refused:?}");
    // Values of most types may be any; all else is looked at. How often is a matter of the seed.
    for role in ["offsets", "heap", "validity", "dictionary_offsets", "values"] {
        assert!(refused.contains_key(role), "{role}: {refused:?}");
    }
}

/// A change of one file of a column with right checksums, and what is said of it.
type Forged<'a> = (&'a str, &'a str, &'a dyn Fn(&mut Vec<u8>), &'a str);

#[test]
fn forged_structure_is_named() {
    let word = |bytes: &mut Vec<u8>, index: usize, value: i64| {
        bytes[8 * index..8 * index + 8].copy_from_slice(&value.to_le_bytes());
    };
    let cases: [Forged; 14] = [
        ("text", "offsets", &|bytes| word(bytes, 5, 1 << 40), "do not ascend"),
        ("text", "offsets", &|bytes| word(bytes, 5, -1), "do not ascend"),
        ("text", "heap", &|bytes| bytes[20] = 0xFF, "not UTF-8"),
        ("json", "heap", &|bytes| bytes[20] = 0xC3, "not UTF-8"),
        ("blob", "offsets", &|bytes| word(bytes, 9, 1 << 40), "do not ascend"),
        ("list", "offsets", &|bytes| word(bytes, 5, 1 << 40), "do not ascend"),
        ("map", "offsets", &|bytes| bytes[20..24].fill(0x7F), "do not ascend"),
        ("few", "values", &|bytes| bytes[0] = 100, "no value for"),
        ("few", "values", &|bytes| bytes[0] = 0xFF, "no value for"),
        ("few", "values", &|bytes| bytes[1] = 2, "where it has NULL"),
        ("few", "dictionary_offsets", &|bytes| word(bytes, 1, 1 << 40), "do not ascend"),
        ("few", "dictionary_heap", &|bytes| bytes[0] = 0xFF, "not UTF-8"),
        ("few", "dictionary_heap", &|bytes| bytes[5] = bytes[11], "same value twice"),
        ("i64", "values", &|bytes| word(bytes, 1, 5), "where it has NULL"),
    ];
    for (name, role, change, expected) in cases {
        let (_directory, copy) = every_type_and_a_copy(300);
        let (_, catalog) = hostile::catalog(&copy);
        let entry = catalog.tables[0].columns.iter().find(|column| column.name == name).unwrap();
        let file = copy.join(format!("columns/1/{}-{}-0.{role}", entry.id, entry.generation.number));
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::write(&file, bytes).unwrap();
        hostile::seal(&copy, false);
        let database = Database::open(&copy, OpenMode::ReadOnly).unwrap();
        let error = hand_out(&database, name).unwrap_err();
        assert_corrupt(&error, &[&format!("column \"{name}\""), expected]);
        // Statements that read it find the same, and so does a check, which does not adopt it.
        let snapshot = database.snapshot().unwrap();
        assert_corrupt(&column(&snapshot, name).verify_rows(0..300).unwrap_err(), &[expected]);
        let damages = snapshot.check(|_| true);
        assert!(damages.iter().any(|damage| damage.column == name), "{name}.{role}: {damages:?}");
    }
}

#[test]
fn forged_numbers_of_nulls_and_elements_are_found() {
    let (_directory, copy) = every_type_and_a_copy(300);
    hostile::with_table(&copy, |table| {
        for column in &mut table.columns {
            column.generation.nodes[0].nulls = 7;
        }
    });
    let found = handed_out(&copy).unwrap();
    assert!(found.values().all(|is_sound| !is_sound), "{found:?}");
    let snapshot = Database::open(&copy, OpenMode::ReadOnly).unwrap().snapshot().unwrap();
    assert_eq!(snapshot.check(|_| true).len(), found.len());
    // Keys of maps and their entries are never NULL.
    for node in [1, 2] {
        let (_directory, copy) = every_type_and_a_copy(300);
        hostile::with_table(&copy, |table| {
            let map = table.columns.iter_mut().find(|column| column.name == "map").unwrap();
            assert!(matches!(map.logical_type, LogicalType::Map { .. }));
            map.generation.nodes[node].nulls = 1;
        });
        assert!(handed_out(&copy).is_none());
    }
}

#[test]
fn what_cannot_be_gone_on_with_is_not() {
    // Whose dictionary has a value twice would get other codes for its rows.
    let (_directory, copy) = every_type_and_a_copy(300);
    let (_, catalog) = hostile::catalog(&copy);
    let entry = catalog.tables[0].columns.iter().find(|column| column.name == "few").unwrap();
    let file = copy.join(format!("columns/1/{}-0-0.dictionary_heap", entry.id));
    let mut bytes = fs::read(&file).unwrap();
    bytes[5] = bytes[11];
    fs::write(&file, bytes).unwrap();
    hostile::seal(&copy, false);
    let database = open(&copy);
    let id = database.snapshot().unwrap().tables().next().unwrap().entry().id;
    common::append_to_log(&database, id, &every_type(300, 10, true)).unwrap();
    assert_corrupt(&database.checkpoint().unwrap_err(), &["column \"few\"", "same value twice"]);
}

#[test]
fn a_long_verification_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    create(&open(&path), "t", &[two_columns(0, ROWS)]).unwrap();
    let database = open_to(&path, Verify::Always);
    let snapshot = database.snapshot().unwrap();
    let mut blocks = 0;
    let error = snapshot
        .hand_out(&column(&snapshot, "n"), 0..ROWS as u64, || {
            blocks += 1;
            if blocks < 3 { Ok(()) } else { Err(Error::new(ErrorKind::Interrupted, "enough")) }
        })
        .unwrap_err();
    assert_eq!((error.kind(), blocks), (ErrorKind::Interrupted, 3));
    hand_out(&database, "n").unwrap();
}
