//! Indexes and their files: what they find for each snapshot, who shares them, and that whatever
//! happens to a file costs time and never an answer (format.md §10).

use crate::common::{
    self, Random, append, append_to_log, assert_undamaged, batch, copy_directory, create, open, rows_of,
    seeds,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{
    Database, DeclaredIndex, IMPRINT_ROWS, IndexEntry, IndexInfo, IndexKind, IndexSpec, NO_ROW, OpenMode,
    ReferredKey, Snapshot, StorageOptions, TableData, TableEntry,
};
use hypostyle_types::{BLOCK_ROWS, ColumnId, Error, ErrorKind, TableId};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Bound;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// More than a block, of which the last is not full.
const ROWS: i64 = BLOCK_ROWS as i64 + 1234;

/// Keys of orders, which ascend with gaps, in any order where they are shuffled.
fn order_key(row: i64) -> i64 {
    row / 8 * 32 + row % 8
}

fn orders(rows: std::ops::Range<i64>) -> RecordBatch {
    let texts = LargeStringArray::from_iter_values(rows.clone().map(|row| format!("order {row:06}")));
    let prices = Int64Array::from_iter_values(rows.clone().map(|row| row * 7919 % 10_007));
    let keys = Int64Array::from_iter_values(rows.map(order_key));
    batch(vec![("key", Arc::new(keys) as ArrayRef), ("text", Arc::new(texts)), ("price", Arc::new(prices))])
}

/// Four items of each order.
fn items(rows: std::ops::Range<i64>) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(rows.clone());
    let keys = Int64Array::from_iter_values(rows.map(|row| order_key(row / 4)));
    let amounts = numbers.clone();
    batch(vec![
        ("number", Arc::new(numbers) as ArrayRef),
        ("order", Arc::new(keys)),
        ("amount", Arc::new(amounts)),
    ])
}

const KEY: ColumnId = ColumnId(0);
const TEXT: ColumnId = ColumnId(1);
const PRICE: ColumnId = ColumnId(2);
const ORDER: ColumnId = ColumnId(1);

fn spec(table: TableId, column: ColumnId, kind: IndexKind) -> IndexSpec {
    IndexSpec { table, columns: vec![column], kind }
}

fn referred(table: TableId) -> ReferredKey {
    ReferredKey { table, columns: vec![KEY] }
}

/// Every index that the two tables may have.
fn specs(orders: TableId, items: TableId) -> Vec<IndexSpec> {
    vec![
        IndexSpec::key(orders, &[KEY]),
        IndexSpec::key(orders, &[TEXT]),
        IndexSpec::key(orders, &[KEY, TEXT]),
        spec(orders, PRICE, IndexKind::Imprint),
        spec(orders, PRICE, IndexKind::Order),
        spec(items, ORDER, IndexKind::Join(referred(orders))),
        spec(items, ORDER, IndexKind::Reverse(referred(orders))),
    ]
}

fn build_all(snapshot: &Snapshot, specs: &[IndexSpec]) {
    for spec in specs {
        snapshot.declare_index(spec);
        assert!(snapshot.build_index(spec, || Ok(())).unwrap(), "{spec:?}");
    }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// The live rows of a column of numbers, by their positions.
fn by_position(table: &TableData, column: usize) -> BTreeMap<u32, i64> {
    let values = rows_of(table, column);
    let positions = (0..table.positions()).filter(|row| !table.deleted().contains(*row));
    positions
        .zip(values.as_primitive::<Int64Type>().values())
        .map(|(row, value)| (row as u32, *value))
        .collect()
}

/// Returns a table of a snapshot.
fn seen(snapshot: &Snapshot, table: TableId) -> &Arc<TableData> {
    snapshot.table_by_id(table).unwrap()
}

/// Compares all that the indexes find with the rows; how many there were.
fn check(snapshot: &Snapshot, orders: TableId, items: TableId) -> usize {
    check_of(snapshot, seen(snapshot, orders), seen(snapshot, items))
}

/// The same for a reader of the tables.
fn check_of(snapshot: &Snapshot, orders: &TableData, items: &TableData) -> usize {
    let keys = by_position(orders, 0);
    let prices = by_position(orders, 2);
    let references = by_position(items, 1);
    let rows: BTreeMap<i64, u32> = keys.iter().map(|(row, key)| (*key, *row)).collect();
    let probes: Vec<i64> = (-5..600).chain(keys.values().copied().step_by(97)).collect();
    let expected: Vec<u32> = probes.iter().map(|key| rows.get(key).copied().unwrap_or(NO_ROW)).collect();
    let mut found = 0;
    if let Some(index) = snapshot.key_index(orders, &[KEY]).unwrap() {
        assert_eq!(index.find(&[numbers(probes.clone())]).unwrap(), expected);
        found += 1;
    }
    let texts =
        LargeStringArray::from_iter_values((0..ROWS + 5000).step_by(89).map(|row| format!("order {row:06}")));
    let text_column = rows_of(orders, 1);
    let text_rows: BTreeMap<String, u32> = keys
        .keys()
        .zip(text_column.as_string::<i64>())
        .filter_map(|(row, text)| Some((text?.to_string(), *row)))
        .collect();
    if let Some(index) = snapshot.key_index(orders, &[TEXT]).unwrap() {
        let expected: Vec<u32> =
            texts.iter().map(|text| text_rows.get(text.unwrap()).copied().unwrap_or(NO_ROW)).collect();
        assert_eq!(index.find(&[Arc::new(texts.clone()) as ArrayRef]).unwrap(), expected);
        found += 1;
    }
    if let Some(index) = snapshot.key_index(orders, &[KEY, TEXT]).unwrap() {
        let row = |row: &u32| {
            text_column.as_string::<i64>().value(keys.keys().position(|key| key == row).unwrap()).to_string()
        };
        let some: Vec<u32> = keys.keys().copied().step_by(4999).collect();
        let columns = [
            numbers(some.iter().map(|row| keys[row])),
            Arc::new(LargeStringArray::from_iter_values(some.iter().map(row))) as ArrayRef,
        ];
        assert_eq!(index.find(&columns).unwrap(), some);
        found += 1;
    }
    for (low, high) in [(0, 10), (500, 700), (9999, 20_000), (7, 3)] {
        let in_range: Vec<u32> =
            prices.iter().filter(|(_, price)| (low..=high).contains(*price)).map(|(row, _)| *row).collect();
        let (low, high) = (numbers([low]), numbers([high]));
        if let Some(imprint) = snapshot.imprint(orders, PRICE) {
            let runs = imprint.may_have_between(Some(&low), Some(&high)).unwrap();
            assert!(in_range.iter().all(|row| runs.value((row / IMPRINT_ROWS) as usize)));
            found += 1;
        }
        if let Some(order) = snapshot.order_index(orders, PRICE).unwrap() {
            let mut rows = order.range(Bound::Included(&low), Bound::Included(&high)).unwrap();
            rows.sort();
            assert_eq!(rows, in_range);
            found += 1;
        }
    }
    let all: Vec<u32> = references.keys().copied().collect();
    let expected: Vec<u32> =
        references.values().map(|key| rows.get(key).copied().unwrap_or(NO_ROW)).collect();
    if let Some(join) = snapshot.join_index(items, &[ORDER], orders, &[KEY]).unwrap() {
        assert_eq!(join.follow(&all).unwrap(), expected);
        if let Some(every) = join.all() {
            assert!(all.iter().zip(&expected).all(|(row, order)| every[*row as usize] == *order));
        }
        found += 1;
    }
    if let Some(reverse) = snapshot.reverse_index(items, &[ORDER], orders, &[KEY]).unwrap() {
        let some: Vec<u32> = keys.keys().copied().step_by(61).collect();
        let (places, rows) = reverse.expand(&some).unwrap();
        let mut pairs: Vec<(u32, u32)> = places.iter().map(|place| some[*place as usize]).zip(rows).collect();
        pairs.sort();
        let mut expected: Vec<(u32, u32)> = all
            .iter()
            .zip(expected)
            .filter(|(_, order)| some.binary_search(order).is_ok())
            .map(|(row, order)| (order, *row))
            .collect();
        expected.sort();
        assert_eq!(pairs, expected);
        found += 1;
    }
    found
}

/// What [`check`] compares when every index is there.
const CHECKS: usize = 3 + 2 * 4 + 2;

struct Tables {
    _directory: tempfile::TempDir,
    path: PathBuf,
    database: Arc<Database>,
    orders: TableId,
    items: TableId,
}

fn tables() -> Tables {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let database = open(&path);
    let orders = create(&database, "orders", &[orders(0..ROWS)]).unwrap();
    let items = create(&database, "items", &[items(0..4 * ROWS)]).unwrap();
    Tables { _directory: directory, path, database, orders, items }
}

impl Tables {
    fn build(&self) {
        build_all(&self.database.snapshot().unwrap(), &specs(self.orders, self.items));
    }

    fn check(&self, database: &Arc<Database>) -> usize {
        check(&database.snapshot().unwrap(), self.orders, self.items)
    }

    /// The files of indexes, relative to the database.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for table in fs::read_dir(self.path.join("indexes")).into_iter().flatten() {
            let files = fs::read_dir(table.unwrap().path()).unwrap();
            found.extend(files.map(|file| file.unwrap().path()));
        }
        found.sort();
        found
    }

    fn delete(&self, table: TableId, rows: impl IntoIterator<Item = u64>) {
        let mut transaction = self.database.begin(1).unwrap();
        transaction.delete(table, &rows.into_iter().collect()).unwrap();
        transaction.commit().unwrap();
    }
}

fn stored(indexes: &[IndexInfo]) -> usize {
    indexes.iter().filter(|index| index.is_stored).count()
}

#[test]
fn every_snapshot_gets_its_own_rows_whatever_has_come_since() {
    let tables = tables();
    let database = &tables.database;
    assert_eq!(tables.check(database), 0);
    let first = database.snapshot().unwrap();
    tables.build();
    assert_eq!(tables.check(database), CHECKS);
    assert_eq!(tables.files().len(), 7);
    let indexes = first.indexes().unwrap();
    assert_eq!((indexes.len(), stored(&indexes)), (7, 7));
    assert!(indexes.iter().all(|index| index.is_declared && index.rows.is_some() && index.uses > 0));

    // Rows in the log, rows in the files, deleted rows, and a row that was updated twice.
    append_to_log(database, tables.orders, &orders(ROWS..ROWS + 10)).unwrap();
    append_to_log(database, tables.items, &items(4 * ROWS..4 * ROWS + 30)).unwrap();
    assert_eq!(tables.check(database), CHECKS);
    tables.delete(tables.orders, [5, 70, ROWS as u64 + 2]);
    tables.delete(tables.items, [0, 9, 4 * ROWS as u64 + 1]);
    assert_eq!(tables.check(database), CHECKS);
    assert!(database.checkpoint().unwrap());
    assert_eq!(tables.check(database), CHECKS);
    for _ in 0..2 {
        append_to_log(database, tables.orders, &orders(70..71)).unwrap();
        // A key has several rows: what refers to them is not turned round.
        assert_eq!(tables.check(database), CHECKS - 1);
        let last = database.snapshot().unwrap().table_by_id(tables.orders).unwrap().positions() - 1;
        tables.delete(tables.orders, [last]);
        assert_eq!(tables.check(database), CHECKS - 1);
        assert!(database.checkpoint().unwrap());
    }
    // Many rows go in front of those that only the log has.
    append_to_log(database, tables.orders, &orders(ROWS + 10..ROWS + 13)).unwrap();
    append_to_log(database, tables.orders, &orders(ROWS + 13..ROWS + 4000)).unwrap();
    append_to_log(database, tables.items, &items(4 * ROWS + 30..5 * ROWS)).unwrap();
    let grown = database.snapshot().unwrap();
    assert_eq!(check(&grown, tables.orders, tables.items), CHECKS - 1);
    assert_eq!(check(&first, tables.orders, tables.items), CHECKS);

    // The indexes are built anew, over more rows than the first snapshot has.
    build_all(&grown, &specs(tables.orders, tables.items));
    assert_eq!(check(&grown, tables.orders, tables.items), CHECKS - 1);
    assert!(check(&first, tables.orders, tables.items) < CHECKS);
    assert_undamaged(&grown);

    // Compaction moves rows: other generations have no index yet.
    let mut compaction = database.begin(2).unwrap();
    compaction.compact(tables.orders, |_, _| Ok(())).unwrap();
    compaction.commit().unwrap();
    assert_eq!(tables.check(database), 0);
    drop((first, grown));
    assert!(database.checkpoint().unwrap());
    assert!(tables.files().is_empty(), "{:?}", tables.files());
    tables.build();
    assert_eq!(tables.check(database), CHECKS);
}

#[test]
fn a_second_process_opens_what_the_first_has_built() {
    let tables = tables();
    tables.build();
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let other = Database::open(&tables.path, mode).unwrap();
        assert_eq!(tables.check(&other), CHECKS);
        let indexes = other.snapshot().unwrap().indexes().unwrap();
        assert_eq!((indexes.len(), stored(&indexes)), (7, 7));
        // Rows that the first one adds are there for the other at once.
        append(&tables.database, tables.orders, &orders(0..0)).unwrap();
        assert_eq!(tables.check(&other), CHECKS);
    }
    // And what the second has built serves the first.
    tables.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    let other = open(&tables.path);
    build_all(&other.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(tables.files().len(), 7);
    drop(other);
    let third = open(&tables.path);
    assert_eq!(tables.check(&third), CHECKS);
}

#[test]
fn a_reverse_index_does_without_the_join_index() {
    let tables = tables();
    tables.build();
    append_to_log(&tables.database, tables.orders, &orders(ROWS..ROWS + 10)).unwrap();
    assert!(tables.database.checkpoint().unwrap());
    let all = specs(tables.orders, tables.items);
    let [join, reverse] = &all[5..] else { panic!("the last two are over items") };
    // Another process builds the join index over the orders that are there now.
    assert_eq!(reverse.columns, join.columns);
    let other = open(&tables.path);
    let snapshot = other.snapshot().unwrap();
    snapshot.drop_index(join).unwrap();
    assert_eq!(tables.check(&other), CHECKS - 1);
    build_all(&snapshot, std::slice::from_ref(join));
    assert_eq!(tables.check(&other), CHECKS);
    drop((snapshot, other));
    // Whoever has opened nothing yet finds both.
    let fourth = open(&tables.path);
    assert_eq!(tables.check(&fourth), CHECKS);
    assert_undamaged(&fourth.snapshot().unwrap());
}

#[test]
fn readers_and_databases_in_memory_have_indexes_of_their_own() {
    let tables = tables();
    let reader = Database::open(&tables.path, OpenMode::ReadOnly).unwrap();
    build_all(&reader.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(tables.check(&reader), CHECKS);
    assert!(tables.files().is_empty());
    assert_eq!(stored(&reader.snapshot().unwrap().indexes().unwrap()), 0);
    assert_eq!(tables.check(&tables.database), 0);

    let memory = Database::in_memory().unwrap();
    let (one, other) = (
        create(&memory, "orders", &[orders(0..ROWS)]).unwrap(),
        create(&memory, "items", &[items(0..ROWS)]).unwrap(),
    );
    build_all(&memory.snapshot().unwrap(), &specs(one, other));
    append_to_log(&memory, one, &orders(ROWS..ROWS + 4)).unwrap();
    assert_eq!(check(&memory.snapshot().unwrap(), one, other), CHECKS);
    assert_eq!(stored(&memory.snapshot().unwrap().indexes().unwrap()), 0);
}

/// Puts something else in the place of a file. Who has it mapped has the old one still: to change a
/// file that is mapped is undefined (format.md §1).
fn spoil(file: &Path, how: usize, random: &mut Random) {
    let bytes = fs::read(file).unwrap();
    let place = random.below(bytes.len() as u64) as usize;
    fs::remove_file(file).unwrap();
    match how {
        0 => {}
        1 => fs::write(file, b"").unwrap(),
        2 => fs::write(file, &bytes[..place]).unwrap(),
        3 => fs::write(file, vec![0; bytes.len()]).unwrap(),
        4 => {
            let mut changed = bytes;
            changed[place] ^= 1 << random.below(8);
            fs::write(file, changed).unwrap();
        }
        5 => fs::write(file, [bytes, vec![0; 9]].concat()).unwrap(),
        6 => symlink("/etc/passwd", file).unwrap(),
        7 => fs::create_dir(file).unwrap(),
        8 => {
            fs::write(file, &bytes).unwrap();
            let sparse = fs::OpenOptions::new().write(true).open(file).unwrap();
            sparse.set_len(1 << 42).unwrap();
        }
        _ => assert!(Command::new("mkfifo").arg(file).status().unwrap().success()),
    }
}

#[test]
fn a_file_that_is_gone_or_damaged_costs_time_and_no_answer() {
    let tables = tables();
    for seed in seeds() {
        let mut random = Random::new(seed, 0);
        for how in 0..10 {
            tables.build();
            let files = tables.files();
            assert_eq!(files.len(), 7);
            let file = &files[random.below(7) as usize];
            spoil(file, how, &mut random);
            // Who has it open has it still; others do without, and build it anew.
            assert!(tables.check(&tables.database) <= CHECKS);
            for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
                let other = Database::open(&tables.path, mode).unwrap();
                assert!(tables.check(&other) < CHECKS, "{how}: {}", file.display());
                if how > 0 && mode == OpenMode::ReadOnly {
                    let damages = other.snapshot().unwrap().check(|_| true);
                    let is_listed = how >= 6 || damages.iter().any(|damage| file.ends_with(&damage.column));
                    assert!(is_listed, "{how}: {damages:?}");
                }
                build_all(&other.snapshot().unwrap(), &specs(tables.orders, tables.items));
                assert_eq!(tables.check(&other), CHECKS);
            }
            if file.is_dir() {
                fs::remove_dir(file).unwrap();
            }
            for spec in specs(tables.orders, tables.items) {
                tables.database.snapshot().unwrap().drop_index(&spec).unwrap();
            }
            assert!(tables.files().is_empty());
        }
    }
}

/// Fails what is done to indexes, from some operation on or once, writing the half of what is written.
#[derive(Debug)]
struct FailAt {
    operation: usize,
    for_ever: bool,
    done: AtomicUsize,
}

impl Observer for FailAt {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let name = match operation {
            Operation::Create { file } | Operation::Write { file, .. } | Operation::Remove { file } => file,
            Operation::Rename { from, .. } => from,
            Operation::CreateDirectory { directory } => directory,
            _ => return Ok(()),
        };
        if !name.contains("/indexes") {
            return Ok(());
        }
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        if number < self.operation || (number > self.operation && !self.for_ever) {
            return Ok(());
        }
        if let Operation::Write { file, offset, bytes } = operation {
            let file = fs::OpenOptions::new().write(true).open(file)?;
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
        }
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_disk_that_fails_or_is_full_leaves_indexes_in_memory() {
    let Tables { database, path, orders, items, _directory } = tables();
    drop(database);
    for for_ever in [false, true] {
        for operation in (0..40).step_by(3) {
            let observer = Arc::new(FailAt { operation, for_ever, done: AtomicUsize::new(0) });
            let options = StorageOptions { observer: Some(observer.clone()), ..OpenMode::ReadWrite.into() };
            let database = Database::open(&path, options).unwrap();
            build_all(&database.snapshot().unwrap(), &specs(orders, items));
            assert_eq!(check(&database.snapshot().unwrap(), orders, items), CHECKS);
            let has_failed = observer.done.load(Ordering::Relaxed) > operation;
            let in_files = stored(&database.snapshot().unwrap().indexes().unwrap());
            assert!(!has_failed || in_files < 7 || !for_ever, "{operation}");
            drop(database);
            let database = open(&path);
            assert!(check(&database.snapshot().unwrap(), orders, items) <= CHECKS);
            assert_undamaged(&database.snapshot().unwrap());
            for spec in specs(orders, items) {
                database.snapshot().unwrap().drop_index(&spec).unwrap();
            }
        }
    }
}

#[test]
fn a_directory_of_indexes_that_is_none_keeps_nobody_out() {
    let tables = tables();
    tables.build();
    let outside = tables.path.with_file_name("outside");
    fs::create_dir_all(outside.join("1")).unwrap();
    fs::write(outside.join("key-0-0"), "outside").unwrap();
    fs::write(outside.join("1/key-0-9"), "outside").unwrap();
    let Tables { database, path, orders, items, _directory } = tables;
    drop(database);
    for (place, is_link) in [("indexes/1", true), ("indexes", true), ("indexes/1", false), ("indexes", false)]
    {
        let place = path.join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        if fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&place).unwrap();
        }
        match is_link {
            true => symlink(&outside, &place).unwrap(),
            false => fs::write(&place, "no directory").unwrap(),
        }
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
            let database = Database::open(&path, mode).unwrap();
            build_all(&database.snapshot().unwrap(), &specs(orders, items));
            assert_eq!(check(&database.snapshot().unwrap(), orders, items), CHECKS);
            if mode == OpenMode::ReadWrite {
                assert!(database.checkpoint().unwrap());
            }
        }
        fs::remove_file(&place).unwrap();
    }
    assert_eq!(fs::read(outside.join("key-0-0")).unwrap(), b"outside");
    assert_eq!(fs::read(outside.join("1/key-0-9")).unwrap(), b"outside");
}

#[test]
fn what_a_killed_builder_leaves_is_never_read_and_goes() {
    let tables = tables();
    tables.build();
    for file in tables.files() {
        let bytes = fs::read(&file).unwrap();
        let unfinished = PathBuf::from(format!("{}.new", file.display()));
        fs::write(&unfinished, &bytes[..bytes.len() / 2]).unwrap();
        fs::remove_file(&file).unwrap();
    }
    let other = open(&tables.path);
    assert_eq!(tables.check(&other), 0);
    build_all(&other.snapshot().unwrap(), &specs(tables.orders, tables.items)[..1]);
    assert!(other.checkpoint().unwrap());
    assert_eq!(tables.files().len(), 1);
    drop(other);
    let table = tables.files()[0].parent().unwrap().to_path_buf();
    fs::write(table.join("order-2-0.new"), "left").unwrap();
    fs::write(table.join("notes"), "mine").unwrap();
    fs::create_dir(tables.path.join("indexes/99")).unwrap();
    fs::write(tables.path.join("indexes/99/key-0-0"), "left").unwrap();
    let Tables { database, path, _directory, .. } = tables;
    drop(database);
    drop(open(&path));
    assert!(!table.join("order-2-0.new").exists() && table.join("notes").exists());
    assert!(!path.join("indexes/99").exists());
}

/// Tells the child where its database is.
const DIRECTORY: &str = "HYPOSTYLE_TEST_INDEX_DIRECTORY";
/// Tells the child its number.
const CHILD: &str = "HYPOSTYLE_TEST_INDEX_CHILD";

/// Times that a builder is killed.
const KILLS: usize = 12;

/// The process that dies: builds the indexes for ever, over more and more rows.
#[test]
#[ignore = "run by another test as the process that dies"]
fn child_that_builds() {
    let Some(path) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let child: i64 = std::env::var(CHILD).unwrap().parse().unwrap();
    let database = open(&path);
    let table = |name: &str| database.snapshot().unwrap().table("main", name).unwrap().clone();
    let (orders_id, items_id) = (table("orders").entry().id, table("items").entry().id);
    // No other process has these keys. The rows that are there do not tell: a commit of one that was
    // killed may come to light only with the next commit.
    let mut rows = (i64::from(std::process::id()) * 2 + child) * 1_000_000;
    loop {
        append_to_log(&database, orders_id, &orders(rows..rows + 40)).unwrap();
        rows += 40;
        // Of others who build the same, one is enough.
        for spec in specs(orders_id, items_id) {
            let snapshot = database.snapshot().unwrap();
            snapshot.declare_index(&spec);
            let _busy = snapshot.build_index(&spec, || Ok(())).unwrap();
        }
        println!("built");
        std::io::stdout().flush().unwrap();
        database.checkpoint().unwrap();
    }
}

#[test]
fn killed_builders_leave_nothing_wrong_for_those_who_go_on() {
    let tables = tables();
    let program = std::env::current_exe().unwrap();
    let mut random = Random::new(common::seed(), 1);
    let mut files = 0;
    for _ in 0..KILLS {
        let child = |number: &str| {
            Command::new(&program)
                .args(["--exact", "indexes::child_that_builds", "--ignored", "--nocapture"])
                .env(DIRECTORY, &tables.path)
                .env(CHILD, number)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut children = [child("1"), child("2")];
        // Once something was built, until any moment of what comes next.
        let lines = BufReader::new(children[0].stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("built")));
        std::thread::sleep(Duration::from_millis(random.below(400)));
        files += tables.files().len();
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(tables.check(&tables.database) <= CHECKS);
        let other = open(&tables.path);
        assert!(tables.check(&other) <= CHECKS);
        // A file that was not finished has another name: what has its name is whole.
        assert_undamaged(&other.snapshot().unwrap());
    }
    assert!(files > KILLS, "{files} files were seen");
    let Tables { database, path, orders, items, _directory } = tables;
    drop(database);
    let last = open(&path);
    let unfinished = |table: TableId| {
        let files = fs::read_dir(path.join(format!("indexes/{table}"))).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some()).count()
    };
    assert_eq!(unfinished(orders) + unfinished(items), 0);
    build_all(&last.snapshot().unwrap(), &specs(orders, items));
    assert_eq!(check(&last.snapshot().unwrap(), orders, items), CHECKS);
}

#[test]
fn rows_that_were_lost_and_written_anew_are_not_found_by_the_old_index() {
    // The directory goes back to an older state, as after a power failure, and on with other rows of
    // the same generations.
    for more in [0, 7, BLOCK_ROWS as i64] {
        let tables = tables();
        append(&tables.database, tables.orders, &orders(ROWS..ROWS + 100 + more)).unwrap();
        tables.build();
        let indexes = tables.path.with_file_name("indexes");
        copy_directory(&tables.path.join("indexes"), &indexes);
        let Tables { database, path, orders: id, items: other, _directory } = tables;
        drop(database);
        let again = self::tables();
        let changed = orders(ROWS + 5..ROWS + 105 + more);
        append(&again.database, again.orders, &changed).unwrap();
        assert_eq!((again.orders, again.items), (id, other));
        copy_directory(&indexes, &again.path.join("indexes"));
        assert_eq!(again.files().len(), 7);
        // What covers the same rows of the other table only may be used.
        let found = again.check(&again.database);
        assert!(found == 0, "{found} with {more}");
        assert!(again.files().is_empty(), "{:?}", again.files());
        drop(path);
    }
}

#[test]
fn directories_that_came_from_elsewhere_have_no_indexes() {
    let tables = tables();
    tables.build();
    let copy = tables.path.with_file_name("copy");
    copy_directory(&tables.path, &copy);
    let database = open(&copy);
    assert!(!database.is_own());
    assert_eq!(tables.check(&database), 0);
    build_all(&database.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(stored(&database.snapshot().unwrap().indexes().unwrap()), 0);
    assert_eq!(tables.check(&database), CHECKS);
    assert_undamaged(&database.snapshot().unwrap());
    database.adopt().unwrap();
    assert!(!copy.join("indexes/1").exists());
    drop(database);
    let database = Database::open(&copy, OpenMode::ReadWrite).unwrap();
    assert_eq!(tables.check(&database), 0);
    build_all(&database.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(stored(&database.snapshot().unwrap().indexes().unwrap()), 7);
}

#[test]
fn backups_have_no_indexes_and_go_on_with_their_own() {
    let tables = tables();
    tables.build();
    let target = tables.path.with_file_name("backup");
    tables.database.backup(&target, |_| true).unwrap();
    assert!(!target.join("indexes").exists());
    let restored = open(&target);
    assert_eq!(tables.check(&restored), 0);
    restored.adopt().unwrap();
    build_all(&restored.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(tables.check(&restored), CHECKS);
    drop(restored);
    // Another backup on top of it.
    append(&tables.database, tables.orders, &orders(ROWS..ROWS + 5000)).unwrap();
    tables.database.backup(&target, |_| true).unwrap();
    let restored = open(&target);
    tables.check(&restored);
    restored.adopt().unwrap();
    build_all(&restored.snapshot().unwrap(), &specs(tables.orders, tables.items));
    assert_eq!(tables.check(&restored), CHECKS);
}

#[test]
fn dropped_tables_columns_and_generations_lose_their_indexes() {
    let tables = tables();
    tables.build();
    let key = spec(tables.items, ORDER, IndexKind::Join(referred(tables.orders)));
    let mut transaction = tables.database.begin(1).unwrap();
    let drop_price = |entry: &mut TableEntry| {
        entry.columns.retain(|column| column.name != "price");
        Ok(())
    };
    transaction.alter_table(tables.orders, drop_price).unwrap();
    transaction.commit().unwrap();
    let snapshot = tables.database.snapshot().unwrap();
    let indexes = snapshot.indexes().unwrap();
    assert!(indexes.iter().all(|index| index.spec.columns != [PRICE]), "{indexes:?}");
    assert!(!snapshot.build_index(&spec(tables.orders, PRICE, IndexKind::Order), || Ok(())).unwrap());
    drop(snapshot);
    assert!(tables.database.checkpoint().unwrap());
    assert_eq!(tables.files().len(), 5);

    let mut transaction = tables.database.begin(1).unwrap();
    transaction.drop_table(tables.orders).unwrap();
    transaction.commit().unwrap();
    assert!(!tables.database.snapshot().unwrap().build_index(&key, || Ok(())).unwrap());
    assert!(tables.database.checkpoint().unwrap());
    assert!(tables.files().is_empty(), "{:?}", tables.files());
    assert!(tables.database.snapshot().unwrap().indexes().unwrap().is_empty());
    // Nobody keeps the space of what is gone.
    let (maps, path) =
        (fs::read_to_string("/proc/self/maps").unwrap(), tables.path.to_string_lossy().into_owned());
    let kept: Vec<&str> =
        maps.lines().filter(|line| line.contains(&path) && line.ends_with("(deleted)")).collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn what_a_transaction_has_not_committed_has_no_index() {
    let tables = tables();
    tables.build();
    let mut transaction = tables.database.begin(1).unwrap();
    // Few rows wait for the log, and are looked up there.
    transaction.append(tables.orders, &orders(ROWS..ROWS + 3)).unwrap();
    transaction.delete(tables.orders, &[1_u64].into_iter().collect()).unwrap();
    let own = transaction.snapshot().unwrap();
    assert_eq!(check(&own, tables.orders, tables.items), CHECKS);
    // Many are in the files, from where they may go again.
    transaction.append(tables.orders, &orders(ROWS + 3..ROWS + 60_000)).unwrap();
    let own = transaction.snapshot().unwrap();
    assert!(own.table_by_id(tables.orders).unwrap().is_uncommitted());
    assert_eq!(check(&own, tables.orders, tables.items), 0);
    let key = IndexSpec::key(tables.orders, &[KEY]);
    assert!(!own.build_index(&key, || Ok(())).unwrap());
    assert!(!(0..3).any(|_| own.wish_index(&key)));
    drop((own, transaction));
    assert_eq!(tables.check(&tables.database), CHECKS);
}

#[test]
fn rows_that_a_reader_does_not_see_are_not_found() {
    let tables = tables();
    tables.build();
    // Some that were deleted for later readers only, in a table with rows that the log has.
    append_to_log(&tables.database, tables.orders, &orders(ROWS..ROWS + 9)).unwrap();
    append_to_log(&tables.database, tables.items, &items(ROWS * 4..ROWS * 4 + 36)).unwrap();
    let snapshot = tables.database.snapshot().unwrap();
    let (orders, items) = (seen(&snapshot, tables.orders), seen(&snapshot, tables.items));
    let some = |table: &TableData, step| (0..table.positions()).step_by(step).collect();
    let fewer = (orders.without(&some(orders, 61)), items.without(&some(items, 7)));
    let first = (orders.first_positions(40_000), items.first_positions(100_001));
    for (orders, items) in [(orders, items), (&fewer.0, items), (orders, &fewer.1), (&first.0, &first.1)] {
        assert_eq!(check_of(&snapshot, orders, items), CHECKS);
    }
}

#[test]
fn the_second_wish_builds_and_what_is_worth_least_goes_first() {
    let tables = tables();
    let snapshot = tables.database.snapshot().unwrap();
    let key = IndexSpec::key(tables.orders, &[KEY]);
    assert!(!snapshot.wish_index(&key));
    assert!(snapshot.wish_index(&key));
    assert!(snapshot.build_index(&key, || Ok(())).unwrap());
    assert!(!snapshot.wish_index(&key));
    let (orders, items) = (seen(&snapshot, tables.orders), seen(&snapshot, tables.items));
    let index = snapshot.key_index(orders, &[KEY]).unwrap().unwrap();
    assert!(
        index.describe().starts_with("rank, ") && index.describe().ends_with("kB, stored"),
        "{}",
        index.describe()
    );
    assert!(index.is_unique());

    // A hash index of the items' numbers and orders takes more than a fifth of their bytes.
    let large = IndexSpec::key(tables.items, &[ColumnId(0), ORDER]);
    assert!(!snapshot.wish_index(&large) && snapshot.wish_index(&large));
    assert!(!snapshot.build_index(&large, || Ok(())).unwrap());
    assert!(!snapshot.wish_index(&large), "it is too large, and remains so");
    assert!(snapshot.key_index(items, &large.columns).unwrap().is_none());
    snapshot.declare_index(&large);
    assert!(snapshot.build_index(&large, || Ok(())).unwrap());
    snapshot.drop_index(&large).unwrap();
    assert!(snapshot.key_index(items, &large.columns).unwrap().is_none());

    // Two orders do not fit beside each other: the one that is used less goes.
    let order = |column| spec(tables.items, ColumnId(column), IndexKind::Order);
    let wish = |spec: &IndexSpec, times| (0..times).filter(|_| snapshot.wish_index(spec)).count();
    wish(&order(0), 2);
    assert!(snapshot.build_index(&order(0), || Ok(())).unwrap());
    for _ in 0..9 {
        assert!(snapshot.order_index(items, ColumnId(0)).unwrap().is_some());
    }
    wish(&order(2), 3);
    assert!(!snapshot.build_index(&order(2), || Ok(())).unwrap());
    assert!(snapshot.order_index(items, ColumnId(0)).unwrap().is_some());
    wish(&order(2), 30);
    assert!(snapshot.build_index(&order(2), || Ok(())).unwrap());
    assert!(snapshot.order_index(items, ColumnId(0)).unwrap().is_none());
    assert!(snapshot.order_index(items, ColumnId(2)).unwrap().is_some());
}

/// Declares indexes in the definition of a table.
fn define(tables: &Tables, indexes: &[IndexEntry]) {
    let mut transaction = tables.database.begin(1).unwrap();
    let declare = |entry: &mut TableEntry| {
        entry.indexes = indexes.to_vec();
        Ok(())
    };
    transaction.alter_table(tables.orders, declare).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn what_a_definition_asks_for_is_built_at_the_first_wish_and_stays() {
    let tables = tables();
    let entry = |name: &str, kind, column| IndexEntry { name: name.into(), kind, columns: vec![column] };
    let both = [entry("texts", DeclaredIndex::Key, TEXT), entry("prices", DeclaredIndex::Order, PRICE)];
    define(&tables, &both);
    let specs = both.each_ref().map(|index| IndexSpec::declared(tables.orders, index));
    let undeclared = IndexSpec::key(tables.orders, &[KEY]);
    tables.database.set_automatic_indexes(false);
    let snapshot = tables.database.snapshot().unwrap();
    assert!((0..3).all(|_| !snapshot.wish_index(&undeclared)));
    for spec in &specs {
        assert!(snapshot.wish_index(spec));
        // That of the texts takes more than a fifth of what the columns take.
        assert!(snapshot.build_index(spec, || Ok(())).unwrap());
        assert!(!snapshot.wish_index(spec));
    }
    assert!(snapshot.indexes().unwrap().iter().all(|index| index.is_declared));
    tables.database.set_automatic_indexes(true);
    assert!(!snapshot.wish_index(&undeclared) && snapshot.wish_index(&undeclared));
    drop(snapshot);

    // Another process, and this one after a checkpoint and when it opens the database again.
    assert!(tables.database.checkpoint().unwrap());
    let other = Database::open(&tables.path, OpenMode::ReadOnly).unwrap();
    let found = other.snapshot().unwrap();
    assert_eq!(found.table_by_id(tables.orders).unwrap().entry().indexes, both);
    let indexes = found.indexes().unwrap();
    assert_eq!((indexes.len(), indexes.iter().filter(|index| index.is_declared).count()), (2, 2));
    assert!(found.key_index(seen(&found, tables.orders), &[TEXT]).unwrap().is_some());
    define(&tables, &both[..1]);
    let indexes = tables.database.snapshot().unwrap().indexes().unwrap();
    let declared: Vec<bool> = indexes.iter().map(|index| index.is_declared).collect();
    assert_eq!(declared, [true, false]);
}

#[test]
fn an_index_of_columns_that_are_not_there_is_no_definition() {
    let tables = tables();
    let refused = |kind, columns: &[u32]| {
        let columns = columns.iter().map(|column| ColumnId(*column)).collect();
        let mut transaction = tables.database.begin(1).unwrap();
        let altered = transaction.alter_table(tables.orders, |entry| {
            entry.indexes = vec![IndexEntry { name: "i".into(), kind, columns }];
            Ok(())
        });
        altered.is_err()
    };
    assert!(refused(DeclaredIndex::Key, &[]) && refused(DeclaredIndex::Key, &[0, 9]));
    assert!(refused(DeclaredIndex::Order, &[0, 1]) && !refused(DeclaredIndex::Order, &[1]));
}

#[test]
fn rows_with_one_of_some_keys_are_looked_for_in_files_and_log() {
    let tables = tables();
    append_to_log(&tables.database, tables.items, &items(4 * ROWS..4 * ROWS + 8)).unwrap();
    tables.delete(tables.items, [0, 1, 2, 4 * ROWS as u64 + 1, 4 * ROWS as u64 + 2]);
    let snapshot = tables.database.snapshot().unwrap();
    let table = snapshot.table_by_id(tables.items).unwrap();
    let has = |orders: &[Option<i64>]| {
        let keys: Int64Array = orders.iter().map(|order| order.map(order_key)).collect();
        snapshot.has_row_of(table, &[ORDER], &[Arc::new(keys)], || Ok(())).unwrap()
    };
    assert_eq!(
        (has(&[Some(0)]), has(&[Some(ROWS)]), has(&[Some(ROWS + 1)])),
        (Some(true), Some(true), Some(true))
    );
    assert_eq!((has(&[Some(ROWS + 2)]), has(&[Some(-1), None])), (Some(false), Some(false)));
    assert_eq!(has(&[Some(ROWS + 2), Some(ROWS + 1)]), Some(true));
    tables.delete(tables.items, [3, 4 * ROWS as u64, 4 * ROWS as u64 + 3]);
    let snapshot = tables.database.snapshot().unwrap();
    let table = snapshot.table_by_id(tables.items).unwrap();
    let has =
        |order: i64| snapshot.has_row_of(table, &[ORDER], &[numbers([order_key(order)])], || Ok(())).unwrap();
    assert_eq!(
        (has(0), has(1), has(ROWS), has(ROWS + 1)),
        (Some(false), Some(true), Some(false), Some(true))
    );
    // Texts are hashed.
    let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["order 000001"]));
    let orders = snapshot.table_by_id(tables.orders).unwrap();
    assert_eq!(snapshot.has_row_of(orders, &[TEXT], &[text], || Ok(())).unwrap(), None);
    let enough = || Err(Error::new(ErrorKind::Interrupted, "enough"));
    let stopped = snapshot.has_row_of(table, &[ORDER], &[numbers([7])], enough).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Interrupted);
}

#[test]
fn rows_of_many_small_commits_are_found_by_old_and_new_snapshots() {
    let tables = tables();
    let key = IndexSpec::key(tables.orders, &[KEY]);
    let first = tables.database.snapshot().unwrap();
    first.declare_index(&key);
    assert!(first.build_index(&key, || Ok(())).unwrap());
    let mut snapshots = vec![(first, ROWS)];
    let mut random = Random::new(common::seed(), 0);
    let mut rows = ROWS;
    for _ in 0..200 {
        let more = 1 + random.below(3) as i64;
        append_to_log(&tables.database, tables.orders, &orders(rows..rows + more)).unwrap();
        rows += more;
        if random.one_in(4) {
            snapshots.push((tables.database.snapshot().unwrap(), rows));
        }
        // Now one and now another asks for the rows of the log that it has.
        let (snapshot, end) = &snapshots[random.below(snapshots.len() as u64) as usize];
        let index = snapshot.key_index(seen(snapshot, tables.orders), &[KEY]).unwrap().unwrap();
        let asked: Vec<i64> = (end - 300..end + 3).collect();
        let expected: Vec<u32> =
            asked.iter().map(|row| if row < end { *row as u32 } else { NO_ROW }).collect();
        assert_eq!(index.find(&[numbers(asked.iter().map(|row| order_key(*row)))]).unwrap(), expected);
        assert_eq!(index.find_all(&[numbers([order_key(end - 1)])]).unwrap(), [(end - 1) as u32]);
        let before = index.before(*end as u64 - 1);
        assert_eq!(before.find(&[numbers([order_key(end - 1)])]).unwrap(), [NO_ROW]);
        assert_eq!(before.find(&[numbers([order_key(end - 2)])]).unwrap(), [(end - 2) as u32]);
    }
}

#[test]
fn a_build_that_is_interrupted_leaves_nothing() {
    let tables = tables();
    let snapshot = tables.database.snapshot().unwrap();
    for spec in specs(tables.orders, tables.items) {
        snapshot.declare_index(&spec);
        let mut questions = 0;
        // As many questions as a build asks, from the first on.
        let is_built = loop {
            let mut left = questions;
            let built = snapshot.build_index(&spec, || {
                left -= 1;
                if left < 0 { Err(Error::new(ErrorKind::Interrupted, "enough")) } else { Ok(()) }
            });
            match built {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
                Ok(is_built) => break is_built,
            }
            questions += 1;
        };
        assert!(is_built && questions > 0, "{spec:?} after {questions}");
    }
    assert_eq!(tables.check(&tables.database), CHECKS);
}

#[test]
fn columns_of_no_order_or_key_have_no_index() {
    let database = Database::in_memory().unwrap();
    let id = create(&database, "t", &[common::every_type(0, 100, true)]).unwrap();
    let snapshot = database.snapshot().unwrap();
    let mut built = 0;
    for column in snapshot.table_by_id(id).unwrap().columns() {
        let column = column.entry().id;
        let key = ReferredKey { table: id, columns: vec![column] };
        let kinds = [
            IndexKind::Key,
            IndexKind::Imprint,
            IndexKind::Order,
            IndexKind::Join(key.clone()),
            IndexKind::Reverse(key),
        ];
        for kind in kinds {
            let spec = spec(id, column, kind);
            snapshot.declare_index(&spec);
            built += usize::from(snapshot.build_index(&spec, || Ok(())).unwrap());
        }
    }
    assert!(built > 40, "{built}");
    let twice = IndexSpec::key(id, &[ColumnId(1), ColumnId(1)]);
    assert!(!snapshot.build_index(&twice, || Ok(())).unwrap() && !snapshot.wish_index(&twice));
}

#[test]
fn many_threads_build_and_read_the_same_indexes() {
    let tables = tables();
    let all = specs(tables.orders, tables.items);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (tables, all) = (&tables, &all);
            scope.spawn(move || {
                let database = if thread % 2 == 0 { tables.database.clone() } else { open(&tables.path) };
                for round in 0..3 {
                    let snapshot = database.snapshot().unwrap();
                    for spec in all.iter().cycle().skip(thread + round).take(all.len()) {
                        snapshot.declare_index(spec);
                        let _busy = snapshot.build_index(spec, || Ok(())).unwrap();
                    }
                    assert!(check(&snapshot, tables.orders, tables.items) <= CHECKS);
                    if thread == 0 {
                        let from = ROWS + 100 * round as i64;
                        append_to_log(&database, tables.orders, &orders(from..from + 100)).unwrap();
                        snapshot.drop_index(&all[round]).unwrap();
                    }
                }
            });
        }
    });
    let fresh = open(&tables.path);
    assert!(tables.check(&fresh) <= CHECKS);
    assert_undamaged(&fresh.snapshot().unwrap());
}
