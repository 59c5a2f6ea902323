//! Results that are mappings: which results qualify, and that a write to one is private.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use hypostyle::{Database, OpenOptions};

fn database() -> Database {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let sql = "CREATE TABLE t AS SELECT value AS a, value * 2 AS b, 'x' || (value % 3) AS s FROM generate_series(0, 99999) AS g(value) ORDER BY value";
    database.connect().unwrap().execute(sql).unwrap();
    database
}

#[test]
fn picking_renaming_and_cutting_columns_computes_nothing() {
    let connection = database().connect().unwrap();
    connection.execute("CREATE VIEW v AS SELECT b AS renamed, a FROM t").unwrap();
    for (sql, stored) in [
        ("SELECT * FROM t", true),
        ("SELECT b AS x, a FROM t", true),
        ("SELECT a, a AS again FROM (SELECT a FROM t) AS q", true),
        ("SELECT * FROM t LIMIT 10 OFFSET 5", true),
        ("SELECT renamed FROM v", true),
        ("SELECT a + 1 FROM t", false),
        ("SELECT * FROM t WHERE a > 5", false),
        ("SELECT * FROM t ORDER BY a DESC", false),
    ] {
        assert_eq!(connection.execute(sql).unwrap().is_stored(), stored, "{sql}");
    }
    let result = connection.execute("SELECT b AS x, s FROM t LIMIT 10 OFFSET 5").unwrap();
    assert_eq!(result.row_count().unwrap(), 10);
    assert_eq!(result.columns()[0].name, "x");
    assert_eq!(
        result.column(0).unwrap().as_primitive::<Int64Type>().values().to_vec(),
        (5..15).map(|a| 2 * a).collect::<Vec<i64>>()
    );
    assert_eq!(connection.execute("SELECT * FROM t LIMIT 10 OFFSET 99995").unwrap().row_count().unwrap(), 5);
}

#[test]
fn a_private_column_has_buffers_of_its_own() {
    let connection = database().connect().unwrap();
    for sql in ["SELECT a FROM t", "SELECT a + 0 AS a FROM t"] {
        let result = connection.execute(sql).unwrap();
        let address = |array: &dyn Array| array.to_data().buffers()[0].as_ptr();
        let (one, other) = (result.column_private(0).unwrap(), result.column_private(0).unwrap());
        assert_ne!(address(&one), address(&other), "{sql}");
        assert_eq!(one.len(), 100_000);
        assert_eq!(&one, &result.column(0).unwrap());
    }
}

#[test]
fn columns_that_are_joined_ahead_are_those_of_one_by_one() {
    let connection = database().connect().unwrap();
    connection.execute("DELETE FROM t WHERE a = 50000").unwrap();
    connection.execute("INSERT INTO t VALUES (-1, -2, 'new')").unwrap();
    for sql in [
        "SELECT * FROM t",
        "SELECT a, b, s, a + 0.5 AS d FROM t",
        "SELECT * FROM t LIMIT 10",
        "SELECT 1 LIMIT 0",
    ] {
        let (one, ahead) = (connection.execute(sql).unwrap(), connection.execute(sql).unwrap());
        ahead.join_columns(2).unwrap();
        for index in 0..one.columns().len() {
            let (joined, again) =
                (ahead.column_private(index).unwrap(), ahead.column_private(index).unwrap());
            assert_eq!(&joined, &one.column(index).unwrap(), "{sql}");
            assert_eq!(&joined, &again, "{sql}");
            let start = |array: &dyn Array| array.to_data().buffers()[0].as_ptr();
            assert!(joined.is_empty() || start(&joined) != start(&again), "{sql}: each is the caller's own");
        }
        ahead.join_columns(2).unwrap();
        assert_eq!(&ahead.column(0).unwrap(), &one.column(0).unwrap(), "{sql}");
    }
    let streamed = connection.execute("SELECT a + 1 AS a FROM t").unwrap();
    streamed.next_batch().unwrap();
    assert!(streamed.join_columns(2).is_err());
}

#[test]
fn results_outlive_their_database() {
    let database = database();
    let connection = database.connect().unwrap();
    let result = connection.execute("SELECT * FROM t").unwrap();
    let column = result.column_private(1).unwrap();
    connection.execute("DROP TABLE t").unwrap();
    database.close().unwrap();
    assert_eq!(connection.execute("SELECT 1").err().unwrap().kind(), hypostyle::ErrorKind::Closed);
    drop((result, connection, database));
    assert_eq!(column.as_primitive::<Int64Type>().value(7), 14);
}

#[test]
fn streaming_and_materializing_give_the_same_rows() {
    let connection = database().connect().unwrap();
    let sql = "SELECT a, s FROM t WHERE a % 2 = 0";
    let streamed = connection.execute(sql).unwrap();
    let mut rows = 0;
    while let Some(batch) = streamed.next_batch().unwrap() {
        rows += batch.num_rows();
    }
    let kept = connection.execute(sql).unwrap();
    assert_eq!((rows, kept.row_count().unwrap()), (50_000, 50_000));
    assert_eq!(kept.column(1).unwrap().len(), 50_000);
    assert!(streamed.materialize().is_err(), "rows that were streamed away are not short-changed");
}
