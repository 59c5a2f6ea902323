//! The TPC-H benchmark: its eight tables, generated, and its 22 queries; and in [`ssb`] the Star
//! Schema Benchmark.
//!
//! Rows come from `tpchgen` in parts that several threads generate at once and that are returned in
//! key order, as the official generator writes them. Types are those of this database:
//! DECIMAL(15,2) in 64 bits, contiguous strings, and nation and region keys as INTEGER. No column
//! has NULLs.

#![forbid(unsafe_code)]

pub mod ssb;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal64Type, Decimal128Type, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use hypostyle_files::ordered::{Emit, Ordered};
use hypostyle_types::{Error, Result};
use std::sync::Arc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// The tables, each after those it refers to.
pub const TABLES: [&str; 8] =
    ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// The 22 queries with the validation parameters, in SQL that DuckDB and PostgreSQL also take.
pub const QUERIES: [&str; 22] = [
    include_str!("queries/q01.sql"),
    include_str!("queries/q02.sql"),
    include_str!("queries/q03.sql"),
    include_str!("queries/q04.sql"),
    include_str!("queries/q05.sql"),
    include_str!("queries/q06.sql"),
    include_str!("queries/q07.sql"),
    include_str!("queries/q08.sql"),
    include_str!("queries/q09.sql"),
    include_str!("queries/q10.sql"),
    include_str!("queries/q11.sql"),
    include_str!("queries/q12.sql"),
    include_str!("queries/q13.sql"),
    include_str!("queries/q14.sql"),
    include_str!("queries/q15.sql"),
    include_str!("queries/q16.sql"),
    include_str!("queries/q17.sql"),
    include_str!("queries/q18.sql"),
    include_str!("queries/q19.sql"),
    include_str!("queries/q20.sql"),
    include_str!("queries/q21.sql"),
    include_str!("queries/q22.sql"),
];

/// Returns query 1 to 22.
pub fn query(number: usize) -> Option<&'static str> {
    QUERIES.get(number.checked_sub(1)?).copied()
}

/// Largest scale factor, about ten terabytes of text; the generator's keys are valid beyond it.
pub const SCALE_FACTOR_MAX: f64 = 10_000.0;

const BATCH_ROWS: usize = 65_536;

/// Batches of one part, and so of one job: enough that threads do not wait for one another.
const PART_BATCHES: u64 = 8;

/// One table at one scale factor.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: &'static str,
    pub schema: SchemaRef,
    /// Exact, except for `lineitem` and `lineorder`, whose orders have one to seven lines.
    pub row_count_estimate: u64,
    /// Pieces that are generated independently of one another.
    pub parts: i32,
    scale_factor: f64,
    benchmark: Benchmark,
}

/// What a table is of.
#[derive(Clone, Copy, Debug)]
enum Benchmark {
    Tpch,
    Ssb,
}

/// Returns all eight tables.
///
/// # Errors
/// `InvalidInput` when the scale factor is not above 0 and at most [`SCALE_FACTOR_MAX`].
pub fn tables(scale_factor: f64) -> Result<Vec<Table>> {
    if !(scale_factor > 0.0 && scale_factor <= SCALE_FACTOR_MAX) {
        return Err(Error::invalid_input(format!(
            "the TPC-H scale factor is above 0 and at most {SCALE_FACTOR_MAX}, not {scale_factor}"
        )));
    }
    Ok(TABLES.iter().map(|name| Table::of_tpch(name, scale_factor)).collect())
}

impl Table {
    fn of_tpch(name: &'static str, scale_factor: f64) -> Self {
        let (schema, rows_at_scale_1) = match name {
            "region" => (RegionArrow::schema_ref(), None),
            "nation" => (NationArrow::schema_ref(), None),
            "supplier" => (SupplierArrow::schema_ref(), Some(10_000.0)),
            "customer" => (CustomerArrow::schema_ref(), Some(150_000.0)),
            "part" => (PartArrow::schema_ref(), Some(200_000.0)),
            "partsupp" => (PartSuppArrow::schema_ref(), Some(800_000.0)),
            "orders" => (OrderArrow::schema_ref(), Some(1_500_000.0)),
            _ => (LineItemArrow::schema_ref(), Some(6_001_215.0)),
        };
        let row_count_estimate = match rows_at_scale_1 {
            Some(rows) => (rows * scale_factor) as u64,
            None if name == "region" => 5,
            None => 25,
        };
        Self::new(Benchmark::Tpch, name, stored_schema(&schema), row_count_estimate, scale_factor)
    }

    fn new(
        benchmark: Benchmark,
        name: &'static str,
        schema: SchemaRef,
        row_count_estimate: u64,
        scale_factor: f64,
    ) -> Self {
        // Regions and nations are fixed lists: a second part would repeat them.
        let parts = row_count_estimate.div_ceil(PART_BATCHES * BATCH_ROWS as u64).max(1) as i32;
        Self { name, schema, row_count_estimate, parts, scale_factor, benchmark }
    }

    /// Returns the column by whose values a cluster partitions the rows; `None` for a table that is
    /// small beside those that are joined with it. Tables of one key are joined by it.
    pub fn partition_key(&self) -> Option<&'static str> {
        match (self.benchmark, self.name) {
            (Benchmark::Ssb, "lineorder") => Some("lo_orderkey"),
            (Benchmark::Tpch, "lineitem") => Some("l_orderkey"),
            (Benchmark::Tpch, "orders") => Some("o_orderkey"),
            (Benchmark::Tpch, "part") => Some("p_partkey"),
            (Benchmark::Tpch, "partsupp") => Some("ps_partkey"),
            _ => None,
        }
    }

    /// Returns the rows in key order, in batches of up to 65,536, made by `threads` threads.
    ///
    /// # Errors
    /// `OutOfMemory` when no thread can be started.
    pub fn read(&self, threads: usize) -> Result<Box<dyn RecordBatchReader + Send>> {
        let Self { name, scale_factor, parts, benchmark, .. } = *self;
        let schema = Arc::clone(&self.schema);
        let generate = move |part: i32, emit: &mut Emit<'_>| {
            let batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>> = match benchmark {
                Benchmark::Tpch => Box::new(
                    generate_part(name, scale_factor, part, parts)
                        .map(|batch| batch.and_then(|batch| stored_batch(&batch, &schema))),
                ),
                Benchmark::Ssb => {
                    Box::new(ssb::generate_part(name, &schema, scale_factor, part as u64, parts as u64))
                }
            };
            for batch in batches {
                let batch =
                    batch.map_err(|error| Error::internal(format!("{benchmark:?} table {name}: {error}")))?;
                if !emit(batch) {
                    break;
                }
            }
            Ok(())
        };
        let threads = threads.min(parts as usize);
        let jobs = (1..=parts).map(Ok);
        let rows = Ordered::start(Arc::clone(&self.schema), threads, PART_BATCHES as usize, jobs, generate)?;
        Ok(Box::new(rows.into_reader()))
    }
}

fn generate_part(
    table: &str,
    scale: f64,
    part: i32,
    parts: i32,
) -> Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>> {
    match table {
        "region" => Box::new(RegionArrow::new(RegionGenerator::new(scale, part, parts))),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(scale, part, parts))),
        "supplier" => Box::new(
            SupplierArrow::new(SupplierGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS),
        ),
        "customer" => Box::new(
            CustomerArrow::new(CustomerGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS),
        ),
        "part" => {
            Box::new(PartArrow::new(PartGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS))
        }
        "partsupp" => Box::new(
            PartSuppArrow::new(PartSuppGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS),
        ),
        "orders" => {
            Box::new(OrderArrow::new(OrderGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS))
        }
        _ => Box::new(
            LineItemArrow::new(LineItemGenerator::new(scale, part, parts)).with_batch_size(BATCH_ROWS),
        ),
    }
}

fn stored_schema(generated: &Schema) -> SchemaRef {
    let fields = generated.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
            DataType::Utf8View => DataType::LargeUtf8,
            _ if field.name().ends_with("nationkey") || field.name().ends_with("regionkey") => {
                DataType::Int32
            }
            other => other.clone(),
        };
        Field::new(field.name(), data_type, false)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn stored_batch(generated: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = generated.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match field.data_type() {
            // Fifteen digits fit 64 bits, so the checks of a cast would only cost time.
            DataType::Decimal64(precision, scale) => {
                let narrow = column
                    .as_primitive::<Decimal128Type>()
                    .unary::<_, Decimal64Type>(|value| value as i64)
                    .with_precision_and_scale(*precision, *scale)?;
                Ok(Arc::new(narrow) as ArrayRef)
            }
            data_type => cast(column, data_type),
        }
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, ArrowError>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Int64Type;

    #[test]
    fn parts_join_to_the_table_of_one_part() {
        let mut orders = Table::of_tpch("orders", 0.01);
        let read = |table: &Table, threads: usize| {
            let batches: Vec<RecordBatch> = table.read(threads).unwrap().collect::<Result<_, _>>().unwrap();
            arrow::compute::concat_batches(&table.schema, &batches).unwrap()
        };
        let whole = read(&orders, 1);
        orders.parts = 7;
        assert_eq!(read(&orders, 3), whole);
        assert_eq!(whole.num_rows() as u64, orders.row_count_estimate);
        let keys = whole.column(0).as_primitive::<Int64Type>();
        assert!(keys.values().is_sorted());
    }

    #[test]
    fn row_counts_and_types_are_the_benchmarks() {
        for table in tables(0.01).unwrap() {
            let rows: usize = table.read(2).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
            if table.name == "lineitem" {
                assert_eq!(rows, 60_175);
                assert_eq!(*table.schema.field(4).data_type(), DataType::Decimal64(15, 2));
                assert_eq!(*table.schema.field(15).data_type(), DataType::LargeUtf8);
            } else {
                assert_eq!(rows as u64, table.row_count_estimate, "{}", table.name);
            }
            assert!(table.schema.fields().iter().all(|field| !field.is_nullable()));
        }
    }

    #[test]
    fn scale_factors_out_of_range_are_refused() {
        for scale_factor in [0.0, -1.0, f64::NAN, 10_001.0] {
            let error = tables(scale_factor).unwrap_err();
            assert!(error.message().contains("scale factor"), "{error}");
        }
    }

    #[test]
    fn queries_are_numbered_from_one() {
        assert!(query(1).unwrap().contains("l_returnflag"));
        assert!(query(22).unwrap().contains("cntrycode"));
        assert_eq!((query(0), query(23)), (None, None));
    }
}
