//! Measures the kernels beside floors: what a prototype outside of the project took for the same
//! work.
//!
//! `cargo run --release -p hypostyle-position --example floors` prints CPU milliseconds of one
//! thread, the least mean of several batches. Columns are like TPC-H's at scale factor 1: 6 million
//! rows of lineitem, 1.5 million orders.

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, Date32Array, Decimal64Array, DictionaryArray, Int8Array, Int64Array, StringArray,
};
use arrow_schema::DataType;
use hypostyle_position::condition::{Comparison, Condition, Filter};
use hypostyle_position::fold::{Fold, Ids, count, sum};
use hypostyle_position::gather::gather;
use hypostyle_position::group::{Domain, DomainGroups, Groups, HashGroups};
use hypostyle_position::join::{JoinBuilder, Pairs};
use hypostyle_position::order::{Firsts, SortKey, Top, sort};
use hypostyle_position::partition::partition;
use hypostyle_position::window::{Bound, Frames, Runs, lag, rank, row_number, scattered};
use hypostyle_position::{Bits, Column, Result, Rows, Work};
use std::hint::black_box;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Instant;

const LINES: u32 = 6_000_000;
const ORDERS: u32 = 1_500_000;
const MORSEL: u32 = 65_536;
/// Rows whose computed values stay in the second level of the cache, and in memory that is not
/// given back to the system between chunks.
const CHUNK: u32 = 8_192;
const BATCHES: usize = 5;
const BATCH_MILLISECONDS: f64 = 200.0;

/// The columns that are measured.
struct Tables {
    ship_date: ArrayRef,
    discount: ArrayRef,
    quantity: ArrayRef,
    price: ArrayRef,
    tax: ArrayRef,
    flag: ArrayRef,
    status: ArrayRef,
    /// Each line has one of 1.5 million numbers, in no order.
    key: ArrayRef,
    total_price: ArrayRef,
    /// Each order has one of 100,000 customers.
    customer: ArrayRef,
}

/// A linear congruential generator: the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u64
    }

    fn decimals(&mut self, rows: u32, low: i64, limit: u64) -> ArrayRef {
        let values = (0..rows).map(|_| low + self.below(limit) as i64);
        let array = Decimal64Array::from_iter_values(values);
        Arc::new(array.with_precision_and_scale(15, 2).unwrap())
    }

    fn codes(&mut self, rows: u32, values: &[&str]) -> ArrayRef {
        let codes = Int8Array::from_iter_values((0..rows).map(|_| self.below(values.len() as u64) as i8));
        Arc::new(DictionaryArray::<Int8Type>::new(codes, Arc::new(StringArray::from(values.to_vec()))))
    }

    fn integers(&mut self, rows: u32, limit: u64) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| self.below(limit) as i64)))
    }
}

impl Tables {
    fn new() -> Self {
        let mut random = Random(7);
        Self {
            ship_date: Arc::new(Date32Array::from_iter_values(
                (0..LINES).map(|_| 8_036 + random.below(2_526) as i32),
            )),
            discount: random.decimals(LINES, 0, 11),
            quantity: random.decimals(LINES, 100, 4_901),
            price: random.decimals(LINES, 90_000, 10_400_000),
            tax: random.decimals(LINES, 0, 9),
            flag: random.codes(LINES, &["A", "N", "R"]),
            status: random.codes(LINES, &["F", "O"]),
            key: random.integers(LINES, ORDERS.into()),
            total_price: random.decimals(ORDERS, 85_000, 55_000_000),
            customer: random.integers(ORDERS, 100_000),
        }
    }
}

fn morsels(rows: u32) -> impl Iterator<Item = Rows<'static>> {
    pieces(rows, MORSEL)
}

fn pieces(rows: u32, size: u32) -> impl Iterator<Item = Rows<'static>> {
    (0..rows).step_by(size as usize).map(move |start| Rows::Range(start, rows.min(start + size)))
}

/// Returns the milliseconds that this thread has had a processor; elapsed ones where that is not
/// told.
fn processor_time(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|told| told.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64() * 1e3, |nanoseconds| nanoseconds / 1e6)
}

/// Prints the least mean time of several batches of runs, and the floor and DuckDB's CPU time where
/// they were measured.
fn measure(what: &str, floor: Option<f64>, duckdb: Option<f64>, mut run: impl FnMut() -> Result<u64>) {
    let start = Instant::now();
    let mut least = f64::INFINITY;
    let mut outcome = 0;
    for _ in 0..BATCHES {
        // The processor's time is told by ticks, of which a batch has many.
        let before = processor_time(start);
        let mut runs = 0;
        while processor_time(start) - before < BATCH_MILLISECONDS {
            outcome = black_box(run().unwrap());
            runs += 1;
        }
        least = least.min((processor_time(start) - before) / f64::from(runs));
    }
    let shown = |number: Option<f64>| number.map_or("–".into(), |number| format!("{number:.1}"));
    println!("| {what} | {least:.1} | {} | {} | {outcome} |", shown(floor), shown(duckdb));
}

fn constant(array: impl arrow_array::Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn decimal(value: i64) -> ArrayRef {
    constant(Decimal64Array::from(vec![value]).with_precision_and_scale(15, 2).unwrap())
}

/// Returns the values of a decimal column at some rows.
fn decimals(array: &ArrayRef, rows: Rows<'_>) -> Vec<i64> {
    let values =
        arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Decimal64Type>(array).values();
    match rows {
        Rows::Range(start, end) => values[start as usize..end as usize].to_vec(),
        Rows::List(positions) => positions.iter().map(|position| values[*position as usize]).collect(),
    }
}

fn filter(tables: &Tables) -> Result<u64> {
    let compare = |column, comparison, constant| Condition::Compare { column, comparison, constant };
    let condition = Condition::All(vec![
        compare(0, Comparison::GreaterOrEqual, constant(Date32Array::from(vec![8_766]))),
        compare(0, Comparison::Less, constant(Date32Array::from(vec![9_131]))),
        compare(1, Comparison::GreaterOrEqual, decimal(5)),
        compare(1, Comparison::LessOrEqual, decimal(7)),
        compare(2, Comparison::Less, decimal(2_400)),
    ]);
    let columns = [tables.ship_date.clone(), tables.discount.clone(), tables.quantity.clone()];
    let filter = Filter::new(&condition, &columns)?;
    let mut revenue = 0;
    for rows in morsels(LINES) {
        let selection = filter.select(rows)?;
        let prices = decimals(&tables.price, selection.rows());
        let discounts = decimals(&tables.discount, selection.rows());
        revenue += prices.iter().zip(&discounts).map(|(price, discount)| price * discount).sum::<i64>();
    }
    Ok(revenue as u64)
}

/// Q1: eight aggregates of almost all rows over six groups.
fn few_groups(tables: &Tables) -> Result<u64> {
    let domain = |array: &ArrayRef| {
        Domain::of_dictionary(arrow_array::cast::AsArray::as_any_dictionary(array).values(), false)
    };
    let mut groups = DomainGroups::new(vec![domain(&tables.flag)?, domain(&tables.status)?])?;
    let stored = DataType::Decimal64(15, 2);
    let result = |scale| DataType::Decimal128(38, scale);
    let wide = |scale| DataType::Decimal64(18, scale);
    let mut folds: Vec<Box<dyn Fold>> = vec![
        count(),
        sum(&stored, &result(2), false)?,
        sum(&stored, &result(2), false)?,
        sum(&wide(4), &result(4), false)?,
        sum(&wide(6), &result(6), false)?,
        sum(&stored, &result(2), false)?,
    ];
    // Rows that the filter refuses go to a group behind the others.
    folds.iter_mut().for_each(|fold| fold.grow(groups.len() + 1));
    let trash = groups.len() as u32;
    let condition = Condition::Compare {
        column: 0,
        comparison: Comparison::LessOrEqual,
        constant: constant(Date32Array::from(vec![10_471])),
    };
    let columns = [tables.ship_date.clone()];
    let filter = Filter::new(&condition, &columns)?;
    let mut ids = Vec::new();
    for rows in pieces(LINES, CHUNK) {
        let mut mask = vec![1; rows.len()];
        filter.mask(rows, &mut mask)?;
        groups.ids(&[Column::new(&tables.flag, rows)?, Column::new(&tables.status, rows)?], &mut ids)?;
        ids.iter_mut().zip(&mask).for_each(|(id, passes)| *id = if *passes == 1 { *id } else { trash });
        let (prices, discounts) = (decimals(&tables.price, rows), decimals(&tables.discount, rows));
        let discounted: Vec<i64> =
            prices.iter().zip(&discounts).map(|(price, discount)| price * (100 - discount)).collect();
        let taxes = decimals(&tables.tax, rows);
        let charged: Vec<i64> =
            discounted.iter().zip(&taxes).map(|(price, tax)| price * (100 + tax)).collect();
        let computed = |values: Vec<i64>, scale| -> Result<ArrayRef> {
            Ok(Arc::new(Decimal64Array::from(values).with_precision_and_scale(18, scale)?))
        };
        let (discounted, charged) = (computed(discounted, 4)?, computed(charged, 6)?);
        let ids = Ids::Each(&ids);
        folds[0].fold(ids, None)?;
        folds[1].fold(ids, Some(Column::new(&tables.quantity, rows)?))?;
        folds[2].fold(ids, Some(Column::new(&tables.price, rows)?))?;
        folds[3].fold(ids, Some(Column::all(&discounted)?))?;
        folds[4].fold(ids, Some(Column::all(&charged)?))?;
        folds[5].fold(ids, Some(Column::new(&tables.discount, rows)?))?;
    }
    Ok(folds.iter().map(|fold| fold.finish().map_or(0, |array| array.len() as u64)).sum())
}

/// Counts and sums of 1.5 million groups by one table.
fn many_groups(tables: &Tables) -> Result<u64> {
    let mut groups = HashGroups::new(&[(DataType::Int64, false)])?;
    let (mut counts, mut sums) =
        (count(), sum(&DataType::Decimal64(15, 2), &DataType::Decimal128(38, 2), false)?);
    let mut ids = Vec::new();
    for rows in morsels(LINES) {
        groups.ids(&[Column::new(&tables.key, rows)?], &mut ids)?;
        counts.grow(groups.len());
        sums.grow(groups.len());
        counts.fold(Ids::Each(&ids), None)?;
        sums.fold(Ids::Each(&ids), Some(Column::new(&tables.quantity, rows)?))?;
    }
    Ok(groups.len() as u64)
}

/// The same by a table for each of several parts.
fn partitioned_groups(tables: &Tables, bits: u32) -> Result<u64> {
    let mut parts: Vec<Vec<[ArrayRef; 2]>> = vec![Vec::new(); 1 << bits];
    for rows in morsels(LINES) {
        let keys = tables.key.slice(rows.iter().next().unwrap_or(0) as usize, rows.len());
        let values = gather(&tables.quantity, rows)?;
        let shared = partition(&[Column::all(&keys)?], bits)?;
        let order = Rows::List(&shared.order);
        let (keys, values) = (gather(&keys, order)?, gather(&values, order)?);
        for (part, pieces) in parts.iter_mut().enumerate() {
            let places = shared.part(part);
            let slice = |array: &ArrayRef| array.slice(places.start, places.len());
            pieces.push([slice(&keys), slice(&values)]);
        }
    }
    let mut found = 0;
    for pieces in parts {
        let mut groups = HashGroups::new(&[(DataType::Int64, false)])?;
        let (mut counts, mut sums) =
            (count(), sum(&DataType::Decimal64(15, 2), &DataType::Decimal128(38, 2), false)?);
        let mut ids = Vec::new();
        for [keys, values] in pieces {
            groups.ids(&[Column::all(&keys)?], &mut ids)?;
            counts.grow(groups.len());
            sums.grow(groups.len());
            counts.fold(Ids::Each(&ids), None)?;
            sums.fold(Ids::Each(&ids), Some(Column::all(&values)?))?;
        }
        found += groups.len() as u64;
    }
    Ok(found)
}

fn measure_scans(tables: &Tables) {
    measure("Q6: filter of three columns, sum", Some(10.7), Some(17.5), || filter(tables));
    measure("Q1: six aggregates over six groups", Some(31.0), Some(63.0), || few_groups(tables));
    let price: Vec<i64> = decimals(&tables.price, Rows::Range(0, LINES));
    let small: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let large: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4_000_000));
    for (what, floor, column) in [("0.8 MB", 3.1, &small), ("32 MB", 24.0, &large)] {
        let mut random = Random(1);
        let positions: Vec<u32> = (0..LINES).map(|_| random.below(column.len() as u64) as u32).collect();
        measure(&format!("gather: 6 M values of {what}"), Some(floor), None, || {
            let mut rows = 0;
            for part in positions.chunks(MORSEL as usize) {
                rows += black_box(gather(column, Rows::List(part))?).len() as u64;
            }
            Ok(rows)
        });
    }
    let mut bits = Bits::new(ORDERS as usize);
    bits.set(Rows::List(&(0..ORDERS).filter(|order| order % 3 == 0).collect::<Vec<_>>())).unwrap();
    let orders: Vec<u32> = price.iter().map(|price| (price % i64::from(ORDERS)) as u32).collect();
    measure("test: 6 M bits of 1.5 M", None, None, || {
        let mut passed = 0;
        for part in orders.chunks(MORSEL as usize) {
            passed += bits.select(Rows::List(part)).len() as u64;
        }
        Ok(passed)
    });
}

fn measure_groups(tables: &Tables) {
    measure("1.5 M groups of 6 M rows, one table", None, Some(184.0), || many_groups(tables));
    for bits in [6, 8] {
        measure(&format!("1.5 M groups of 6 M rows, {} parts", 1 << bits), Some(67.0), Some(184.0), || {
            partitioned_groups(tables, bits)
        });
    }
    let join = |what: &str, rows: u32| {
        let keys: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..i64::from(rows)).map(|key| key * 7 % 1_500_007)));
        let mut table = None;
        measure(&format!("join: build of {what}"), None, None, || {
            let mut builder = JoinBuilder::new(&[DataType::Int64], false)?;
            builder.reserve(rows as usize);
            for part in morsels(rows) {
                builder.push(&[Column::new(&keys, part)?], part)?;
            }
            let built = table.insert(builder.finish());
            Ok(built.keys() as u64)
        });
        let table = table.unwrap();
        measure(&format!("join: 6 M rows with {what}"), None, None, || {
            let (mut found, mut pairs) = (0, Pairs::default());
            for part in morsels(LINES) {
                let mut probe = table.probe(&[Column::new(&tables.key, part)?])?;
                while probe.next_pairs(false, MORSEL as usize, &mut pairs) {
                    found += pairs.places.len() as u64;
                }
                found += pairs.places.len() as u64;
            }
            Ok(found)
        });
    };
    join("10,000 rows", 10_000);
    join("1.5 M rows", ORDERS);
}

fn measure_orders(tables: &Tables) {
    let key = |array: &ArrayRef| SortKey { array: array.clone(), descending: true, nulls_first: true };
    let keys = [key(&tables.total_price)];
    let prices_of_orders = keys.clone();
    measure("sort: 1.5 M decimals", Some(9.8), Some(111.0), || {
        Ok(sort(&keys, Rows::Range(0, ORDERS))?[0].into())
    });
    let both = [key(&tables.customer), key(&tables.total_price)];
    measure("sort: 1.5 M rows by two columns", None, None, || {
        Ok(sort(&both, Rows::Range(0, ORDERS))?[0].into())
    });
    let mut random = Random(3);
    let texts = (0..ORDERS).map(|_| format!("Customer#{:09}", random.below(1_000_000_000)));
    let texts = [key(&(Arc::new(StringArray::from_iter_values(texts)) as ArrayRef))];
    measure("sort: 1.5 M strings", None, None, || Ok(sort(&texts, Rows::Range(0, ORDERS))?[0].into()));
    let prices = [key(&tables.price)];
    measure("top 10 of 6 M", Some(1.3), Some(17.0), || {
        let mut top = Top::new(&prices, 10)?;
        morsels(LINES).try_for_each(|rows| top.push(rows))?;
        Ok(top.finish()?[0].into())
    });
    let sorted = sort(&both, Rows::Range(0, ORDERS)).unwrap();
    measure("row_number over 100,000 partitions, with the sort", Some(15.7), Some(19.0), || {
        let sorted = sort(&both, Rows::Range(0, ORDERS))?;
        let partitions = Runs::new(from_ref(&tables.customer), &sorted, None, &Work::ALONE)?;
        Ok(row_number(&partitions).into_iter().filter(|number| *number == 1).count() as u64)
    });
    let partitions = Runs::new(from_ref(&tables.customer), &sorted, None, &Work::ALONE).unwrap();
    let ids = scattered(&partitions.ids(&Work::ALONE).unwrap(), &sorted, &Work::ALONE).unwrap();
    measure("first row of 100,000 partitions", Some(15.7), Some(19.0), || {
        let mut firsts = Firsts::default();
        firsts.grow(partitions.len());
        let starts = (0..ORDERS).step_by(8192);
        for rows in starts.map(|start| start..ORDERS.min(start + 8192)) {
            let ids = Ids::Each(&ids[rows.start as usize..rows.end as usize]);
            firsts.push(&prices_of_orders, Rows::Range(rows.start, rows.end), ids)?;
        }
        Ok(firsts.rows()[0].into())
    });
    measure("sums of frames of four rows", None, None, || {
        let frames = Frames::new(&partitions, &partitions, Bound::Row(-3), Bound::Row(0), &Work::ALONE)?;
        let result = DataType::Decimal128(38, 2);
        Ok(frames.sum(&tables.total_price, &sorted, &partitions, &result, &Work::ALONE)?.len() as u64)
    });
    measure("partitions of sorted rows", None, None, || {
        Ok(Runs::new(from_ref(&tables.customer), &sorted, None, &Work::ALONE)?.len() as u64)
    });
    measure("rank of sorted rows", None, None, || {
        let peers = Runs::new(from_ref(&tables.total_price), &sorted, Some(&partitions), &Work::ALONE)?;
        Ok(rank(&partitions, &peers, &Work::ALONE)?.into_iter().sum())
    });
    measure("running sum of sorted rows", None, None, || {
        let result = DataType::Decimal128(38, 2);
        let frames = Frames::new(&partitions, &partitions, Bound::Partition, Bound::Row(0), &Work::ALONE)?;
        let sums = frames.sum(&tables.total_price, &sorted, &partitions, &result, &Work::ALONE)?;
        Ok(sums.len() as u64)
    });
    measure("lag of sorted rows", None, None, || {
        let lagged = lag(&sorted, &partitions, 1)?;
        Ok(hypostyle_position::gather::gather_or_null(&tables.total_price, &lagged)?.len() as u64)
    });
}

fn main() {
    let tables = Tables::new();
    println!("| kernel | CPU ms | floor | DuckDB, all threads | outcome |\n|---|---|---|---|---|");
    measure_scans(&tables);
    measure_groups(&tables);
    measure_orders(&tables);
}
