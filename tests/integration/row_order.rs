//! Rows that a query only selects come in the order in which their table or the ORDER BY of a
//! subquery has them, whatever is computed of them and however many threads do it (docs/sql.md).

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use hypostyle::{Connection, Database, OpenOptions};

const ROWS: i64 = 500_000;

/// A source of a column `v`, and the value of each of its rows.
type Source = (&'static str, fn(i64) -> i64);

/// What is selected of a source, and whether a value passes.
type Select = (&'static str, fn(i64) -> bool);

const SOURCES: [Source; 8] = [
    ("t", |row| row),
    ("generate_series(0, 499999) AS g (v)", |row| row),
    ("(SELECT v FROM t ORDER BY v DESC) AS s", |row| ROWS - 1 - row),
    ("(SELECT v FROM t ORDER BY v % 250000, v) AS s", |row| row / 2 + row % 2 * 250_000),
    ("(SELECT v FROM t ORDER BY v LIMIT 300000) AS s", |row| row),
    ("(SELECT v FROM t LIMIT 400000) AS s", |row| row),
    ("(SELECT v + 1 - 1 AS v FROM (SELECT v FROM t ORDER BY v DESC) AS r LIMIT 400000) AS s", |row| {
        ROWS - 1 - row
    }),
    ("(SELECT v + 1 - 1 AS v FROM generate_series(0, 499999) AS g (v) LIMIT 300000) AS s", |row| row),
];

const SELECTS: [Select; 7] = [
    ("SELECT v, v + 1 FROM {}", |_| true),
    ("SELECT v, 'text ' || v FROM {}", |_| true),
    ("SELECT v, v + 1 FROM {} WHERE v % 7 <> 3", |v| v % 7 != 3),
    ("SELECT v, v * 2 FROM {} WHERE v % 10007 = 5", |v| v % 10_007 == 5),
    ("SELECT v, v + 1 FROM {} LIMIT 100000 OFFSET 5000", |_| true),
    ("SELECT v, v + 1 FROM {} WHERE v % 7 <> 3 LIMIT 100000 OFFSET 5000", |v| v % 7 != 3),
    ("SELECT v, unnest([v]) FROM {}", |_| true),
];

fn first_column(batches: &[RecordBatch]) -> Vec<i64> {
    let mut values = Vec::new();
    for batch in batches {
        let column = cast(batch.column(0), &DataType::Int64).unwrap();
        values.extend_from_slice(column.as_primitive::<Int64Type>().values());
    }
    values
}

fn query(connection: &Connection, sql: &str) -> Vec<i64> {
    first_column(&connection.execute(sql).and_then(|result| result.record_batches()).unwrap())
}

/// Panics unless values are those that are expected, and tells where they differ.
fn assert_same(found: &[i64], expected: &[i64], sql: &str) {
    // Slices are compared as fast in a test, which is not optimised, as elsewhere.
    if found != expected {
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        panic!("{} rows, not {}, the first other one is {differs:?}: {sql}", found.len(), expected.len());
    }
}

#[test]
fn rows_come_in_the_order_of_what_they_are_selected_from() {
    let options = OpenOptions { threads: Some(3), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE t AS SELECT v FROM generate_series(0, 499999) AS g (v)").unwrap();
    for (source, value) in SOURCES {
        let all = match source {
            source if source.contains("LIMIT 3") => 300_000,
            source if source.contains("LIMIT 4") => 400_000,
            _ => ROWS,
        };
        for (select, passes) in SELECTS {
            let mut expected: Vec<i64> = (0..all).map(value).filter(|v| passes(*v)).collect();
            if select.contains("OFFSET") {
                expected = expected[5_000..105_000].to_vec();
            }
            let sql = select.replace("{}", source);
            connection.execute("SET position_pipelines = off").unwrap();
            assert_same(&query(&connection, &sql), &expected, &sql);
            connection.execute("SET position_pipelines = on").unwrap();
            assert_same(&query(&connection, &sql), &expected, &sql);
            connection.execute("CREATE OR REPLACE TABLE copy (v BIGINT, w VARCHAR)").unwrap();
            connection.execute(&format!("INSERT INTO copy {sql}")).unwrap();
            let inserted = query(&connection, "SELECT v FROM copy");
            assert_same(&inserted, &expected, &format!("INSERT … {sql}"));
        }
    }
    connection.execute("SET position_pipelines = off").unwrap();
    let ordered = "INSERT INTO copy SELECT v, v FROM t ORDER BY v DESC";
    connection.execute("TRUNCATE copy").unwrap();
    connection.execute(ordered).unwrap();
    assert_same(&query(&connection, "SELECT v FROM copy"), &(0..ROWS).rev().collect::<Vec<_>>(), ordered);
    let both = "SELECT v, v + 1 FROM (SELECT v FROM t ORDER BY v DESC) AS s UNION ALL SELECT v, v - 1 FROM t";
    let expected: Vec<i64> = (0..ROWS).rev().chain(0..ROWS).collect();
    assert_same(&query(&connection, both), &expected, both);
}

/// The rows of each source, of which `v` counts from 0.
const COUNTED: i64 = 300_000;

/// Ways to give a query the rows of a table, of files or of both; `{}` is a directory.
const COUNTED_SOURCES: [&str; 22] = [
    "t",
    "tail",
    "seen",
    "again",
    "loaded",
    "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS s (v)",
    "generate_series(0, 299999) AS g (v)",
    "'{}/t.parquet'",
    "'{}/t.csv'",
    "'{}/t.json'",
    "'{}/t.arrow'",
    "'{}/parts/*.parquet'",
    "'{}/parts/*.csv'",
    "'{}/parts/*.arrow'",
    "read_parquet(['{}/parts/1.parquet', '{}/parts/2.parquet', '{}/parts/3.parquet'])",
    "(SELECT v FROM low UNION ALL SELECT v FROM high) AS s",
    "(SELECT v FROM '{}/parts/1.parquet' UNION ALL SELECT v FROM high) AS s",
    "(SELECT v + 1 - 1 AS v FROM low WHERE m <> '' UNION ALL SELECT v FROM '{}/parts/[23].parquet') AS s",
    "(SELECT v FROM '{}/parts/1.csv' UNION ALL SELECT v FROM '{}/parts/2.arrow' UNION ALL SELECT v FROM t WHERE v >= 200000) AS s",
    "(WITH c AS (SELECT v FROM '{}/t.parquet') SELECT v FROM c) AS s",
    "(WITH c AS MATERIALIZED (SELECT v FROM t) SELECT v FROM c) AS s",
    "(WITH c AS MATERIALIZED (SELECT v FROM '{}/t.parquet' WHERE m <> '') SELECT v FROM c) AS s",
];

fn counted(directory: &str) -> Connection {
    let options = OpenOptions { threads: Some(3), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    let run = |sql: &str| {
        drop(connection.execute(&sql.replace("{}", directory)).unwrap_or_else(|e| panic!("{sql}: {e}")))
    };
    run("CREATE TABLE t AS SELECT v, md5(v::VARCHAR) AS m FROM generate_series(0, 299999) AS g (v)");
    run("COPY t TO '{}/t.parquet' (row_group_size 20000, compression 'none')");
    for format in ["csv", "json", "arrow"] {
        run(&format!("COPY t TO '{{}}/t.{format}'"));
    }
    for (part, format) in (1..=3).flat_map(|part| ["parquet", "csv", "arrow"].map(|format| (part, format))) {
        let rows = format!("SELECT * FROM t WHERE v >= {}00000 AND v < {part}00000", part - 1);
        run(&format!("COPY ({rows}) TO '{{}}/parts/{part}.{format}'"));
    }
    run("CREATE TABLE low AS SELECT * FROM t WHERE v < 100000");
    run("CREATE TABLE high AS SELECT * FROM t WHERE v >= 100000");
    run("CREATE VIEW seen AS SELECT v FROM t");
    run("CREATE TABLE again AS SELECT v FROM '{}/t.parquet'");
    run("CREATE TABLE loaded (v BIGINT, m VARCHAR)");
    run("COPY loaded FROM '{}/t.parquet'");
    run("CREATE TABLE tail AS SELECT v FROM t WHERE v < 299995");
    (299_995..COUNTED).for_each(|v| run(&format!("INSERT INTO tail VALUES ({v})")));
    connection
}

#[test]
fn limit_and_offset_give_the_same_rows_of_every_source_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    std::fs::create_dir(directory.path().join("parts")).unwrap();
    let connection = counted(path);
    let mut random: u64 = 20_260;
    for source in COUNTED_SOURCES {
        let all = if source.contains("VALUES (0)") { 10 } else { COUNTED };
        let source = source.replace("{}", path);
        for run in 0..20 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (random >> 33) as i64 % all;
            let sql = format!("SELECT v FROM {source} LIMIT 3 OFFSET {offset}");
            let expected: Vec<i64> = (offset..all.min(offset + 3)).collect();
            assert_same(&query(&connection, &sql), &expected, &format!("run {run} of {sql}"));
        }
        let even = format!("SELECT v FROM {source} WHERE v % 2 = 0");
        let expected: Vec<i64> = (0..all).step_by(2).collect();
        assert_same(&query(&connection, &even), &expected, &even);
    }
    let both = "SELECT v FROM low UNION ALL SELECT v FROM high LIMIT 1 OFFSET 100000";
    (0..100).for_each(|_| assert_same(&query(&connection, both), &[100_000], both));
}

#[test]
fn files_are_written_in_the_order_of_what_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    std::fs::create_dir(directory.path().join("parts")).unwrap();
    let connection = counted(path);
    let all: Vec<i64> = (0..COUNTED).collect();
    for source in ["t", "tail", "(SELECT v FROM '{}/t.parquet')", "(SELECT v FROM t WHERE m <> '')"] {
        for format in ["parquet", "csv", "json", "arrow"] {
            let copy = format!("COPY {source} TO '{{}}/copy.{format}'").replace("{}", path);
            connection.execute(&copy).unwrap();
            let read = format!("SELECT v FROM '{path}/copy.{format}'");
            assert_same(&query(&connection, &read), &all, &copy);
        }
    }
}
