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
    let column = |batch: &RecordBatch| cast(batch.column(0), &DataType::Int64).unwrap();
    batches.iter().flat_map(|batch| column(batch).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn query(connection: &Connection, sql: &str) -> Vec<i64> {
    first_column(&connection.execute(sql).and_then(|result| result.record_batches()).unwrap())
}

/// Panics unless values are those that are expected, and tells where they differ.
fn assert_same(found: &[i64], expected: &[i64], sql: &str) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert_eq!((found.len(), differs), (expected.len(), None), "{sql}");
}

#[test]
fn rows_come_in_the_order_of_what_they_are_selected_from() {
    let options = OpenOptions { threads: Some(3), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE t AS SELECT v FROM generate_series(0, 499999) AS g (v)").unwrap();
    for pipelines in ["on", "off"] {
        connection.execute(&format!("SET position_pipelines = {pipelines}")).unwrap();
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
                assert_same(&query(&connection, &sql), &expected, &sql);
                if pipelines == "on" {
                    connection.execute("CREATE OR REPLACE TABLE copy (v BIGINT, w VARCHAR)").unwrap();
                    connection.execute(&format!("INSERT INTO copy {sql}")).unwrap();
                    let inserted = query(&connection, "SELECT v FROM copy");
                    assert_same(&inserted, &expected, &format!("INSERT … {sql}"));
                }
            }
        }
    }
    let ordered = "INSERT INTO copy SELECT v, v FROM t ORDER BY v DESC";
    connection.execute("TRUNCATE copy").unwrap();
    connection.execute(ordered).unwrap();
    assert_same(&query(&connection, "SELECT v FROM copy"), &(0..ROWS).rev().collect::<Vec<_>>(), ordered);
    let both = "SELECT v, v + 1 FROM (SELECT v FROM t ORDER BY v DESC) AS s UNION ALL SELECT v, v - 1 FROM t";
    let expected: Vec<i64> = (0..ROWS).rev().chain(0..ROWS).collect();
    assert_same(&query(&connection, both), &expected, both);
}
