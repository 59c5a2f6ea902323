//! Tests Parquet and Arrow files of other writers, and damaged ones.

use crate::float_bounds::FloatFilters;
use crate::parquet_footer::Footer;
use crate::test_arguments::register;
use crate::test_directory::TestDirectory;
use arrow::array::{
    Array, ArrayRef, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    StringArray, Time32SecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::FileWriter;
use arrow::util::display::array_value_to_string;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::parquet::file::statistics::Statistics;
use datafusion::prelude::SessionConfig;
use hypostyle_error::from_datafusion;
use hypostyle_types::{LogicalType, Privileges};
use std::sync::Arc;

/// Returns the bytes of a Parquet file with row groups of two rows.
fn parquet(rows: &RecordBatch) -> Vec<u8> {
    parquet_with(rows, EnabledStatistics::Page)
}

fn parquet_with(rows: &RecordBatch, statistics: EnabledStatistics) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2));
    let properties = properties.set_statistics_enabled(statistics).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    file
}

fn arrow(rows: &RecordBatch) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &rows.schema()).unwrap();
    writer.write(rows).unwrap();
    writer.finish().unwrap();
    drop(writer);
    file
}

/// Returns a Parquet file with another footer.
fn with_footer(file: &[u8], change: impl Fn(&ParquetMetaData) -> ParquetMetaData) -> Vec<u8> {
    let bytes = bytes::Bytes::copy_from_slice(file);
    let metadata = change(&ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap());
    let length = file[file.len() - 8..file.len() - 4].try_into().map(u32::from_le_bytes).unwrap();
    let mut changed = file[..file.len() - 8 - length as usize].to_vec();
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish().unwrap();
    changed.extend(footer);
    changed
}

fn with_rows(metadata: &ParquetMetaData, rows: i64) -> FileMetaData {
    let own = metadata.file_metadata();
    FileMetaData::new(own.version(), rows, None, None, own.schema_descr_ptr(), None)
}

fn session(memory: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).build_arc().unwrap();
    let context = SessionContext::new_with_config_rt(
        SessionConfig::new().with_target_partitions(1).with_extension(Arc::new(Privileges::ALL)),
        runtime,
    );
    register(&context);
    context
}

async fn query_with(memory: usize, sql: &str) -> Result<String, String> {
    let rows = session(memory).sql(sql).await.map_err(|error| from_datafusion(error).to_string())?;
    let batches = rows.collect().await.map_err(|error| from_datafusion(error).to_string())?;
    let value = |column: &ArrayRef, row| match column.is_null(row) {
        true => "NULL".to_string(),
        false => array_value_to_string(column, row).unwrap(),
    };
    let row = |batch: &RecordBatch, row| {
        let values: Vec<String> = batch.columns().iter().map(|column| value(column, row)).collect();
        values.join("|")
    };
    let rows =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>());
    Ok(rows.collect::<Vec<_>>().join(" "))
}

async fn query(sql: &str) -> Result<String, String> {
    query_with(1 << 30, sql).await
}

async fn select(sql: &str) -> String {
    query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, of)| Field::new(*name, of.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, of)| of).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn numbers(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

#[tokio::test]
async fn columns_of_one_name_are_all_there() {
    let directory = TestDirectory::new("twice");
    let rows = batch(vec![
        ("a", numbers(vec![Some(1)])),
        ("b", numbers(vec![Some(2)])),
        ("a", Arc::new(StringArray::from(vec!["x"]))),
    ]);
    for (name, file) in [("a.parquet", parquet(&rows)), ("a.arrow", arrow(&rows))] {
        let path = directory.write(name, file);
        let function = if name.ends_with('t') { "read_parquet" } else { "read_arrow" };
        assert_eq!(select(&format!("SELECT * FROM {function}('{path}')")).await, "1|2|x", "{name}");
        assert_eq!(select(&format!("SELECT a_1, a FROM {function}('{path}')")).await, "x|1", "{name}");
        let sql = format!("SELECT max(a_1), min(a) FROM {function}('{path}') WHERE a_1 = 'x' AND b = 2");
        assert_eq!(select(&sql).await, "x|1", "{name}");
    }
}

#[tokio::test]
async fn footers_that_count_wrongly_do_not_hide_rows() {
    let directory = TestDirectory::new("counts");
    let file = parquet(&batch(vec![("a", numbers(vec![Some(1), None, Some(3)]))]));
    // The footer's third field, of three rows, comes before the list that is its fourth one.
    let counted = [0x16, 0x06, 0x19];
    let places: Vec<usize> = (0..file.len() - 3).filter(|at| file[*at..at + 3] == counted).collect();
    assert_eq!(places.len(), 1);
    for rows in [0, 1, 2, 40] {
        let mut changed = file.clone();
        changed[places[0] + 1] = rows * 2;
        let path = directory.write("a.parquet", changed);
        let sql =
            format!("SELECT a, (SELECT count(*) FROM read_parquet('{path}')) FROM read_parquet('{path}')");
        assert_eq!(select(&sql).await, "1|3 NULL|3 3|3", "{rows}");
    }
    let changed = with_footer(&file, |metadata| {
        let group = |of: &RowGroupMetaData| of.clone().into_builder().set_num_rows(-1).build().unwrap();
        ParquetMetaData::new(with_rows(metadata, 3), metadata.row_groups().iter().map(group).collect())
    });
    let path = directory.write("a.parquet", changed);
    let error = query(&format!("SELECT count(*) FROM read_parquet('{path}')")).await.unwrap_err();
    assert!(error.contains("is not a readable Parquet file: its row group 0 has -1 rows"), "{error}");
}

#[tokio::test]
async fn row_groups_have_the_rows_of_their_columns() {
    let directory = TestDirectory::new("groups");
    let file = parquet(&batch(vec![("a", numbers(vec![Some(1), None, Some(3), None]))]));
    for rows in [1, 3, i64::MAX / 4] {
        let damaged = with_footer(&file, |metadata| {
            let counted = |group: &RowGroupMetaData| group.clone().into_builder().set_num_rows(rows).build();
            let groups = metadata.row_groups().iter().map(counted);
            ParquetMetaData::new(metadata.file_metadata().clone(), groups.collect::<Result<_, _>>().unwrap())
        });
        let path = directory.write("a.parquet", damaged);
        let error = query(&format!("SELECT count(*) FROM read_parquet('{path}')")).await.unwrap_err();
        assert!(error.contains(&format!("has 2 values for {rows} rows")), "{error}");
    }
}

#[tokio::test]
async fn nulls_that_statistics_do_not_count_are_found() {
    let directory = TestDirectory::new("nulls");
    let file = parquet(&batch(vec![("a", numbers(vec![Some(1), None, Some(3)]))]));
    let changed = with_footer(&file, |metadata| {
        let uncounted = |group: &RowGroupMetaData| {
            let columns = group.columns().iter().map(|column| {
                let statistics = Statistics::int64(Some(1), Some(3), None, None, false);
                column.clone().into_builder().set_statistics(statistics).build().unwrap()
            });
            group.clone().into_builder().set_column_metadata(columns.collect()).build().unwrap()
        };
        let groups = metadata.row_groups().iter().map(uncounted).collect();
        ParquetMetaData::new(with_rows(metadata, 3), groups)
    });
    let path = directory.write("a.parquet", changed);
    assert_eq!(select(&format!("SELECT count(*) FROM read_parquet('{path}') WHERE a IS NULL")).await, "1");
    assert_eq!(select(&format!("SELECT count(a) FROM read_parquet('{path}')")).await, "2");
}

#[tokio::test]
async fn nan_is_found_whatever_statistics_say_and_whatever_its_sign() {
    let directory = TestDirectory::new("nan");
    let values = [f64::NAN, 1.0, 2.0, 3.0, -f64::NAN, -f64::NAN, 5.5];
    let rows = batch(vec![
        ("d", Arc::new(Float64Array::from(values.to_vec()))),
        ("f", Arc::new(Float32Array::from(values.map(|value| value as f32).to_vec()))),
    ]);
    for (name, file) in [("a.parquet", parquet(&rows)), ("a.arrow", arrow(&rows))] {
        let path = directory.write(name, file);
        let function = if name.ends_with('t') { "read_parquet" } else { "read_arrow" };
        for column in ["d", "f"] {
            for (condition, count) in [
                ("= 'NaN'", 3),
                (">= 'NaN'", 3),
                ("> 5", 4),
                ("> 5.5", 3),
                ("<> 1", 6),
                ("IS DISTINCT FROM 1", 6),
                ("NOT IN (1, 5.5)", 5),
                ("< 0", 0),
                ("<= 5.5", 4),
                ("BETWEEN 3 AND 'NaN'", 5),
            ] {
                let sql = format!("SELECT count(*) FROM {function}('{path}') WHERE {column} {condition}");
                assert_eq!(select(&sql).await, count.to_string(), "{sql}");
            }
            let sql = format!("SELECT max({column}), min({column}) FROM {function}('{path}')");
            assert_eq!(select(&sql).await, "NaN|1.0", "{sql}");
            let sql = format!("SELECT count(DISTINCT {column}) FROM {function}('{path}')");
            assert_eq!(select(&sql).await, "5", "{sql}");
        }
    }
}

/// Compares as SQL does: NaN is equal to itself and above all numbers.
fn passes(value: f64, operator: &str, constant: f64) -> bool {
    let order = match (value.is_nan(), constant.is_nan()) {
        (false, false) => value.total_cmp(&constant),
        (of, with) => of.cmp(&with),
    };
    match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        "=" => order.is_eq(),
        ">=" => order.is_ge(),
        ">" => order.is_gt(),
        _ => order.is_ne(),
    }
}

#[tokio::test]
async fn filters_of_floats_find_their_rows_with_and_without_statistics() {
    let directory = TestDirectory::new("floats");
    let nan = f64::NAN;
    let values = [nan, 1.0, 2.0, 3.0, -nan, nan, 5.5, -4.0, 7.0, nan, -nan, -9.0];
    let rows = batch(vec![
        ("d", Arc::new(Float64Array::from(values.to_vec()))),
        ("f", Arc::new(Float32Array::from(values.map(|value| value as f32).to_vec()))),
    ]);
    let constants = [-9.0, 1.0, 3.0, 6.0, nan];
    let beside: [(&str, &[(&str, f64)]); 3] =
        [("", &[]), (" AND {} <= 3", &[("<=", 3.0)]), (" AND 1 <= {}", &[(">=", 1.0)])];
    for statistics in [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page] {
        let path = directory.write("a.parquet", parquet_with(&rows, statistics));
        for (column, operator) in
            ["d", "f"].iter().flat_map(|column| ["<", "<=", "=", ">=", ">", "<>"].map(|of| (*column, of)))
        {
            for (constant, (text, others)) in
                constants.iter().flat_map(|of| beside.map(|others| (*of, others)))
            {
                let of = |value: &f64| {
                    passes(*value, operator, constant)
                        && others.iter().all(|(operator, constant)| passes(*value, operator, *constant))
                };
                let count = values.iter().filter(|value| of(value)).count();
                let condition = format!("{column} {operator} '{constant}'{}", text.replace("{}", column));
                let sql = format!("SELECT count(*) FROM read_parquet('{path}') WHERE {condition}");
                assert_eq!(select(&sql).await, count.to_string(), "{statistics:?}: {sql}");
            }
        }
    }
}

#[test]
fn row_groups_are_skipped_where_no_nan_can_pass() {
    let directory = TestDirectory::new("skipped");
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, f64::NAN, f64::NAN, f64::NAN]));
    let rows = batch(vec![("d", values)]);
    let read = |condition: Expr, statistics| {
        let path = directory.write("a.parquet", parquet_with(&rows, statistics));
        let footer = Footer::read(path.as_ref()).unwrap();
        let access = FloatFilters::of(&[condition], &rows.schema()).access(&footer);
        access.map(|access| access.row_group_indexes())
    };
    let (d, page) = (|| col("d"), EnabledStatistics::Page);
    assert_eq!(read(d().lt(lit(3.0)), page), Some(vec![0, 2]));
    assert_eq!(read(lit(2.5).lt(d()).and(d().lt_eq(lit(3.0))), page), Some(vec![1, 2]));
    assert_eq!(read(d().eq(lit(2.0)), page), Some(vec![0, 2]));
    assert_eq!(read(d().in_list(vec![lit(5.0), lit(3.0)], false), page), Some(vec![1, 2]));
    assert_eq!(read(d().lt(lit(3.0)), EnabledStatistics::None), None);
    for with_nan in [d().gt(lit(2.5)), d().gt_eq(lit(9.0)), d().not_eq(lit(3.0)), d().eq(lit(f64::NAN))] {
        assert_eq!(read(with_nan, page), None);
    }
}

#[tokio::test]
async fn types_that_sql_lacks_become_those_that_it_has() {
    let directory = TestDirectory::new("types");
    let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let bytes = hypostyle_types::parse_uuid(uuid).unwrap().into_bytes().to_vec();
    let half = Float32Array::from(vec![Some(1.5), None]);
    let half = arrow::compute::cast(&half, &DataType::Float16).unwrap();
    assert!(half.as_any().is::<Float16Array>());
    let uuids =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(bytes), None].into_iter(), 16).unwrap();
    let fields = vec![
        Field::new("h", DataType::Float16, true),
        Field::new("t", DataType::Time32(arrow::datatypes::TimeUnit::Second), true),
        LogicalType::Uuid.arrow_field("u", true),
    ];
    let columns: Vec<ArrayRef> =
        vec![half, Arc::new(Time32SecondArray::from(vec![Some(3_661), None])), Arc::new(uuids)];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    for (name, file) in [("a.parquet", parquet(&rows)), ("a.arrow", arrow(&rows))] {
        let path = directory.write(name, file);
        let function = if name.ends_with('t') { "read_parquet" } else { "read_arrow" };
        let sql = format!(
            "SELECT h, t, u, arrow_typeof(h), arrow_typeof(t) FROM {function}('{path}') WHERE u = '{uuid}'"
        );
        let expected = format!("1.5|01:01:01|{uuid}|Float32|Time64(µs)");
        assert_eq!(select(&sql).await, expected, "{name}");
        assert_eq!(select(&format!("SELECT count(*) FROM {function}('{path}') WHERE u IS NULL")).await, "1");
    }
}

#[tokio::test]
async fn a_page_that_memory_cannot_hold_is_refused_before_it_is_decompressed() {
    let directory = TestDirectory::new("page");
    let rows = batch(vec![("a", Arc::new(StringArray::from(vec!["x".repeat(3_000_000)])) as ArrayRef)]);
    let path = directory.write("a.parquet", parquet(&rows));
    let sql = format!("SELECT length(a) FROM read_parquet('{path}')");
    assert_eq!(query_with(64 << 20, &sql).await.unwrap(), "3000000");
    let error = query_with(8 << 20, &sql).await.unwrap_err();
    assert!(error.contains("has a page that becomes 3000"), "{error}");
}

#[tokio::test]
async fn pages_of_all_columns_have_to_fit_together() {
    let directory = TestDirectory::new("pages");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(3_000_000)]));
    let rows = batch(names.iter().map(|name| (*name, Arc::clone(&long))).collect());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let path = directory.write("a.parquet", file);
        let sum = |names: &[&str]| {
            let lengths: Vec<String> = names.iter().map(|name| format!("length({name})")).collect();
            format!("SELECT {} FROM read_parquet('{path}')", lengths.join(" + "))
        };
        assert_eq!(query_with(20 << 20, &sum(&names[..2])).await.unwrap(), "6000000");
        let error = query_with(20 << 20, &sum(&names[..])).await.unwrap_err();
        assert!(error.contains("has a row group that becomes 24"), "{error}");
        assert_eq!(query_with(64 << 20, &sum(&names[..])).await.unwrap(), "24000000");
    }
}

#[tokio::test]
async fn batches_of_many_columns_have_few_rows() {
    let directory = TestDirectory::new("width");
    let names: Vec<String> = (0..300).map(|column| format!("c{column}")).collect();
    let ones = numbers(vec![Some(1); 8_192]);
    let rows = batch(names.iter().map(|name| (name.as_str(), Arc::clone(&ones))).collect());
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let path = directory.write("a.parquet", file);
    for (columns, most) in [("*", (1 << 20) / 300), ("c0, c1", 8_192)] {
        let sql = format!("SELECT {columns} FROM read_parquet('{path}')");
        let batches = session(1 << 30).sql(&sql).await.unwrap().collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).max(), Some(most), "{columns}");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 8_192, "{columns}");
    }
}

#[tokio::test]
async fn files_keep_their_place_however_often_they_are_named() {
    let directory = TestDirectory::new("again");
    let mut paths = Vec::new();
    for number in 0..3 {
        let rows = batch(vec![("a", numbers(vec![Some(number)]))]);
        directory.write(&format!("{number}.arrow"), arrow(&rows));
        paths.push(directory.write(&format!("{number}.parquet"), parquet(&rows)));
    }
    let list = format!("['{}', '{}', '{}', '{}']", paths[1], paths[0], paths[1], directory.path("*.parquet"));
    assert_eq!(select(&format!("SELECT a FROM read_parquet({list})")).await, "1 0 1 0 1 2");
    assert_eq!(select(&format!("SELECT count(*), sum(a) FROM read_parquet({list})")).await, "6|5");
    let list = list.replace(".parquet", ".arrow");
    assert_eq!(select(&format!("SELECT a FROM read_arrow({list})")).await, "1 0 1 0 1 2");
}

#[tokio::test]
async fn directories_are_columns_unless_they_are_not_wanted() {
    let directory = TestDirectory::new("hive");
    for (day, at, number) in
        [("2024-01-01", "2024-01-01 10%3A00%3A00", 1), ("2024-01-02", "2024-01-02 11%3A30%3A00", 2)]
    {
        let rows =
            batch(vec![("v", numbers(vec![Some(number), None])), ("day", numbers(vec![Some(7), Some(8)]))]);
        let path = format!("day={day}/moment={at}/k={number}/name=x{number}/a");
        directory.write(&format!("{path}.parquet"), parquet(&rows));
        directory.write(&format!("{path}.arrow"), arrow(&rows));
    }
    for (function, extension) in [("read_parquet", "parquet"), ("read_arrow", "arrow")] {
        let glob = directory.path(&format!("**/*.{extension}"));
        let all = format!("{function}('{glob}')");
        let sql = format!("SELECT v, day, moment, k + 1, name FROM {all} WHERE day > DATE '2024-01-01'");
        let row = "2024-01-02|2024-01-02T11:30:00|3|x2";
        assert_eq!(select(&sql).await, format!("2|{row} NULL|{row}"));
        assert_eq!(select(&format!("SELECT sum(v), count(*), max(name) FROM {all}")).await, "3|4|x2");
        let sql = format!("SELECT v FROM {all} WHERE k = 1 AND name = 'x1' AND v IS NOT NULL");
        assert_eq!(select(&sql).await, "1");
        let sql = format!("SELECT * FROM {function}('{glob}', hive_partitioning => false) WHERE v = 2");
        assert_eq!(select(&sql).await, "2|7");
    }
}

#[tokio::test]
async fn damaged_files_give_rows_or_errors() {
    let directory = TestDirectory::new("damaged");
    let texts: Vec<String> = (0..40).map(|number| format!("text {}", number % 7)).collect();
    let numbers = numbers((0..40).map(|number| (number % 5 != 0).then_some(number)).collect());
    let rows = batch(vec![("n", numbers), ("s", Arc::new(StringArray::from(texts)))]);
    let mut random: u64 = 5;
    for (name, file) in [("a.parquet", parquet(&rows.slice(0, 6))), ("a.arrow", arrow(&rows))] {
        let function = if name.ends_with('t') { "read_parquet" } else { "read_arrow" };
        for _ in 0..300 {
            let mut damaged = file.clone();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % damaged.len();
            damaged[at] ^= 1 << ((random >> 20) % 8);
            let path = directory.write(name, damaged);
            for sql in ["SELECT * FROM", "SELECT count(*), max(s) FROM"] {
                if let Err(error) = query(&format!("{sql} {function}('{path}')")).await {
                    assert!(!error.contains("panicked"), "byte {at}: {error}");
                }
            }
        }
    }
}
