//! What the tests of the storage share: opening, appending, and rows of every type.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub mod history;
pub mod hostile;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use hypostyle_storage::{Database, NewColumn, OpenMode, Snapshot, TableData};
use hypostyle_types::{LogicalType, Result, TableId};
use std::path::Path;
use std::sync::Arc;

/// Repeats a run of a test that makes random decisions.
pub const SEED: &str = "HYPOSTYLE_TEST_SEED";

/// How many times such a test runs, each time with the next seed.
const ROUNDS: &str = "HYPOSTYLE_TEST_ROUNDS";

/// Checks what the next one to open a database will read, and names what is damaged.
#[track_caller]
pub fn assert_undamaged(snapshot: &Snapshot) {
    let damages = snapshot.check(|_| true);
    assert!(damages.is_empty(), "{damages:#?}");
}

/// The seed that was asked for, or a new one.
pub fn seed() -> u64 {
    number_of(SEED).unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64)
}

/// A seed for each round; the one that fails is the last that was printed.
pub fn seeds() -> impl Iterator<Item = u64> {
    let first = seed();
    let seeds = (0..number_of(ROUNDS).unwrap_or(1)).map(move |round| first.wrapping_add(round));
    seeds.inspect(|seed| println!("{SEED}={seed}"))
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// A small generator of pseudo-random numbers (splitmix64), so that a seed repeats a run.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

pub fn open(path: &Path) -> Arc<Database> {
    Database::open(path, OpenMode::ReadWrite).unwrap()
}

pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub fn columns_of(batch: &RecordBatch) -> Vec<NewColumn> {
    let column = |field: &Arc<Field>| {
        let logical_type = match field.name().as_str() {
            "json" => LogicalType::Json,
            "uuid" => LogicalType::Uuid,
            _ => LogicalType::from_arrow(field).unwrap(),
        };
        NewColumn::new(field.name(), logical_type, field.is_nullable())
    };
    batch.schema().fields().iter().map(column).collect()
}

/// Makes a table with rows in its column files.
pub fn create(database: &Arc<Database>, name: &str, batches: &[RecordBatch]) -> Result<TableId> {
    let id = create_in_log(database, name, batches)?;
    assert!(database.checkpoint()?);
    Ok(id)
}

/// Makes a table; few rows stay in the log.
pub fn create_in_log(database: &Arc<Database>, name: &str, batches: &[RecordBatch]) -> Result<TableId> {
    let mut transaction = database.begin(2)?;
    let id = transaction.create_table("main", name, columns_of(&batches[0]))?;
    batches.iter().try_for_each(|batch| transaction.append(id, batch))?;
    transaction.commit()?;
    Ok(id)
}

/// Appends rows to the column files of a table.
pub fn append(database: &Arc<Database>, id: TableId, batch: &RecordBatch) -> Result<()> {
    append_to_log(database, id, batch)?;
    assert!(database.checkpoint()?);
    Ok(())
}

/// Appends rows; few of them stay in the log.
pub fn append_to_log(database: &Arc<Database>, id: TableId, batch: &RecordBatch) -> Result<()> {
    let mut transaction = database.begin(2)?;
    transaction.append(id, batch)?;
    transaction.commit().map(|_| ())
}

/// The rows of a column, in plain encoding: those of the files, those of the log, without the deleted ones.
pub fn column(snapshot: &Snapshot, table: &str, index: usize) -> ArrayRef {
    rows_of(snapshot.table("main", table).unwrap(), index)
}

pub fn rows_of(table: &TableData, index: usize) -> ArrayRef {
    let column = &table.columns()[index];
    let plain = column.entry().logical_type.arrow_type();
    let mut parts = vec![cast(&column.array().unwrap(), &plain).unwrap()];
    parts.extend(table.beyond_files().tail.batches().iter().map(|batch| batch.column(index).clone()));
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
    let all = concat(&parts).unwrap();
    let kept: BooleanArray = (0..all.len() as u64).map(|row| Some(!table.deleted().contains(row))).collect();
    filter(&all, &kept).unwrap()
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// `rows` rows from `first` of every kind of column; `nulls` puts a NULL in every third row.
pub fn every_type(first: usize, rows: usize, nulls: bool) -> RecordBatch {
    let numbers = || (first..first + rows).map(move |row| (!nulls || row % 3 != 1).then_some(row));
    let integers: Int64Array = numbers().map(|row| row.map(|row| row as i64 - 7)).collect();
    let as_type = |data_type: &DataType| cast(&integers, data_type).unwrap();
    let small: Int64Array = numbers().map(|row| row.map(|row| (row % 100) as i64)).collect();
    let strings: LargeStringArray = numbers().map(|row| row.map(|row| format!("value {row}"))).collect();
    let few: LargeStringArray = numbers().map(|row| row.map(|row| format!("kind {}", row % 5))).collect();
    let mut lists = ListBuilder::new(Int32Builder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in numbers() {
        for item in 0..row.unwrap_or(0) % 4 {
            lists.values().append_option((item != 2).then_some(item as i32));
            maps.keys().append_value(format!("k{item}"));
            maps.values().append_value(item as i32);
        }
        lists.append(row.is_some());
        maps.append(row.is_some()).unwrap();
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let large_lists =
        cast(&lists, &DataType::LargeList(Arc::new(Field::new("item", DataType::Int32, true)))).unwrap();
    let members = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::LargeUtf8, true),
    ]);
    let validity = integers.nulls().cloned();
    let structs = StructArray::new(
        members,
        vec![Arc::new(integers.clone()), Arc::new(strings.clone())],
        validity.clone(),
    );
    let floats = Float64Array::from_iter(numbers().map(|row| row.map(|row| row as f64 / 3.0)));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let triples: Int64Array = (0..rows * 3).map(|element| Some((first * 3 + element) as i64)).collect();
    let arrays = FixedSizeListArray::new(item, 3, Arc::new(triples), validity);
    let wide = Decimal256Array::from_iter(numbers().map(|row| row.map(|row| i256::from_i128(row as i128))))
        .with_precision_and_scale(76, 3)
        .unwrap();
    let binary: LargeBinaryArray = numbers().map(|row| row.map(|row| vec![row as u8; row % 7])).collect();
    let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        numbers().map(|row| row.map(|row| (row as u128).to_be_bytes())),
        16,
    )
    .unwrap();
    let intervals: IntervalMonthDayNanoArray = numbers()
        .map(|row| row.map(|row| IntervalMonthDayNano::new(row as i32, -3, row as i64 * 1_000_000)))
        .collect();
    let documents: LargeStringArray =
        numbers().map(|row| row.map(|row| format!("{{\"row\": [{row}, null]}}"))).collect();
    let booleans: BooleanArray = numbers().map(|row| row.map(|row| row % 2 == 0)).collect();
    batch(vec![
        ("i8", cast(&small, &DataType::Int8).unwrap()),
        ("u16", cast(&small, &DataType::UInt16).unwrap()),
        ("i32", as_type(&DataType::Int32)),
        ("i64", Arc::new(integers.clone())),
        ("f32", as_type(&DataType::Float32)),
        ("f64", Arc::new(floats)),
        (
            "date",
            as_type(&DataType::Int32)
                .as_primitive::<arrow_array::types::Int32Type>()
                .reinterpret_cast::<arrow_array::types::Date32Type>()
                .into_array(),
        ),
        ("decimal", cast(&small, &DataType::Decimal64(15, 2)).unwrap()),
        ("decimal128", cast(&small, &DataType::Decimal128(30, 4)).unwrap()),
        ("decimal256", Arc::new(wide)),
        ("bool", Arc::new(booleans)),
        ("text", Arc::new(strings)),
        ("few", Arc::new(few)),
        ("blob", Arc::new(binary)),
        ("uuid", Arc::new(uuids)),
        ("list", large_lists),
        ("map", Arc::new(maps.finish())),
        ("struct", Arc::new(structs)),
        ("array", Arc::new(arrays)),
        ("i16", as_type(&DataType::Int16)),
        ("u8", cast(&small, &DataType::UInt8).unwrap()),
        ("u32", cast(&small, &DataType::UInt32).unwrap()),
        ("u64", cast(&small, &DataType::UInt64).unwrap()),
        ("decimal32", cast(&small, &DataType::Decimal32(6, 1)).unwrap()),
        ("time", cast(&small, &DataType::Time64(TimeUnit::Microsecond)).unwrap()),
        ("timestamp", as_type(&DataType::Timestamp(TimeUnit::Microsecond, None))),
        ("instant", as_type(&DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Amsterdam".into())))),
        ("interval", Arc::new(intervals)),
        ("duration", as_type(&DataType::Duration(TimeUnit::Microsecond))),
        ("json", Arc::new(documents)),
    ])
}

trait IntoArray {
    fn into_array(self) -> ArrayRef;
}

impl<T: Array + 'static> IntoArray for T {
    fn into_array(self) -> ArrayRef {
        Arc::new(self)
    }
}

pub fn assert_same(found: &ArrayRef, expected: &ArrayRef, name: &str) {
    let found = match found.data_type() {
        DataType::Dictionary(_, _) => cast(found, expected.data_type()).unwrap(),
        _ => cast(found, expected.data_type()).unwrap(),
    };
    assert_eq!(found.len(), expected.len(), "{name}");
    if found.as_ref() == expected.as_ref() {
        return;
    }
    for row in 0..found.len() {
        let (left, right) = (found.slice(row, 1), expected.slice(row, 1));
        assert_eq!(&left, &right, "column {name}, row {row}");
    }
}
