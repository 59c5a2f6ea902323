//! Data that a session keeps beside its plans counts towards its memory limit.

use crate::served::Served;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use hypostyle::{
    Connection, Database, Error, ErrorKind, ExternalTable, Identity, OpenOptions, Privileges, TableResolver,
};
use std::sync::Arc;

const LIMIT: u64 = 32_000_000;

/// Returns the error of a statement that needs more memory than there is.
fn refused(connection: &Connection, sql: &str) -> Error {
    let error = connection.execute(sql).and_then(|result| result.row_count()).err();
    let error = error.unwrap_or_else(|| panic!("there was memory for {sql}"));
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::OutOfMemory, "53200"), "{sql}: {error}");
    error
}

fn number(connection: &Connection, sql: &str) -> i64 {
    let result = connection.execute(sql).unwrap();
    result.column(0).unwrap().as_primitive::<Int64Type>().value(0)
}

#[test]
fn temporary_tables_take_no_more_memory_than_there_is() {
    let options = OpenOptions { memory_limit: Some(LIMIT), ..OpenOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let connection = database.connect().unwrap();
    // The database's own tables do not count.
    connection.execute("CREATE TABLE own AS SELECT i FROM generate_series(1, 8000000) AS s(i)").unwrap();
    let large = "CREATE TEMPORARY TABLE large AS SELECT i FROM generate_series(1, 8000000) AS s(i)";
    let error = refused(&connection, large);
    assert!(error.message().contains("temporary tables"), "{error}");
    // A refused statement leaves nothing, and dropping a table frees its memory.
    for round in 0..20 {
        connection.execute("CREATE TEMPORARY TABLE small AS SELECT i FROM own LIMIT 2000000").unwrap();
        assert_eq!(number(&connection, "SELECT count(*) FROM small"), 2_000_000, "round {round}");
        connection.execute(["DROP TABLE small", "TRUNCATE small; DROP TABLE small"][round % 2]).unwrap();
    }
    connection.execute("BEGIN; CREATE TEMPORARY TABLE small AS SELECT i FROM own LIMIT 2000000").unwrap();
    refused(&connection, "INSERT INTO small SELECT i FROM own");
    connection.execute("ROLLBACK").unwrap();
    connection.execute("CREATE TEMPORARY TABLE small AS SELECT i FROM own LIMIT 2000000").unwrap();
    // One limit is for all sessions together.
    refused(&database.connect().unwrap(), "CREATE TEMPORARY TABLE other AS SELECT i FROM own LIMIT 3000000");
    drop(connection);
    database
        .connect()
        .unwrap()
        .execute("CREATE TEMPORARY TABLE other AS SELECT i FROM own LIMIT 3000000")
        .unwrap();
}

#[test]
fn rows_that_a_client_sends_for_a_query_take_no_more_memory_than_there_is() {
    let served = Served::in_memory();
    let tcp = served.connect(&format!("hypostyle://{}/?variables=on", served.tcp), true).unwrap();
    for connection in [tcp, served.connect_unix().unwrap()] {
        // Only a few bytes of each batch cross the wire.
        let resolver: TableResolver = Arc::new(|name, _| {
            let batches = match name {
                "large" => 64,
                "small" => 4,
                _ => return None,
            };
            let zeros = Arc::new(Int64Array::from(vec![0; 128 << 10]));
            let batch = RecordBatch::try_from_iter([("a", zeros as _)]).unwrap();
            Some(Ok(ExternalTable { schema: batch.schema(), batches: vec![batch; batches] }))
        });
        connection.set_table_resolver(Some(resolver));
        connection.execute("SET query_memory_limit = '32MB'").unwrap();
        for _ in 0..3 {
            assert!(
                refused(&connection, "SELECT count(*) FROM large").message().contains("rows of \"large\"")
            );
            assert_eq!(number(&connection, "SELECT count(*) FROM small"), 4 * (128 << 10));
            assert_eq!(number(&connection, "SELECT count(*) FROM generate_series(1, 5)"), 5);
        }
    }
}

#[test]
fn users_have_a_part_of_the_memory_for_temporary_tables() {
    let options = OpenOptions { memory_limit: Some(4 * LIMIT), ..OpenOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let owner = database.connect().unwrap();
    owner.execute("CREATE TABLE own AS SELECT i FROM generate_series(1, 3000000) AS s(i)").unwrap();
    let of = |user: &str, privileges| {
        let identity = Identity { user: user.into(), privileges, ..Identity::default() };
        database.connect_as(identity).unwrap()
    };
    // Each table takes 24 MB, of 32 MB that a user has.
    let make = |connection: &Connection, name: &str| {
        connection.execute(&format!("CREATE TEMPORARY TABLE {name} AS SELECT i FROM own"))
    };
    let refused = |connection: &Connection, whose: &str| {
        let error = make(connection, "more").err().unwrap_or_else(|| panic!("there was memory {whose}"));
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::OutOfMemory, "53400"), "{error}");
        assert!(error.message().contains(whose), "{error}");
    };
    let ada = [of("ada", Privileges::READ), of("ada", Privileges::READ)];
    make(&ada[0], "t").unwrap();
    refused(&ada[0], "of the user \"ada\"");
    refused(&ada[1], "of the user \"ada\"");
    let bob = of("bob", Privileges::WRITE);
    make(&bob, "t").unwrap();
    // All users together have 64 MB.
    let eve = of("eve", Privileges::READ);
    refused(&eve, "of all users");
    make(&owner, "t").unwrap();
    make(&owner, "u").unwrap();
    ada[0].execute("DROP TABLE t").unwrap();
    make(&ada[1], "t").unwrap();
    drop(ada);
    make(&eve, "t").unwrap();
}

#[test]
fn long_texts_are_computed_for_few_rows_at_once() {
    const ROWS: i64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(directory.path().join("long"), options).unwrap();
    let connection = database.connect().unwrap();
    connection
        .execute(&format!(
            "CREATE TABLE t AS SELECT i, repeat('x', 1000000) || i AS s FROM generate_series(1, {ROWS}) AS g (i)"
        ))
        .unwrap();
    let bytes: i64 = (1..=ROWS).map(|row| 1_000_001 + row.to_string().len() as i64).sum();
    connection.execute("CREATE TABLE u AS SELECT s || 'y' AS s FROM t").unwrap();
    for pipelines in ["on", "off"] {
        connection.execute(&format!("SET position_pipelines = {pipelines}")).unwrap();
        let result = connection.execute("SELECT i, s || 'y' AS s FROM t").unwrap();
        let (mut rows, mut found) = (0, 0);
        while let Some(batch) = result.next_batch().unwrap() {
            let texts =
                arrow::compute::cast(batch.column(1), &arrow::datatypes::DataType::LargeUtf8).unwrap();
            let texts = texts.as_string::<i64>();
            for (number, text) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(texts) {
                rows += 1;
                assert_eq!(*number, rows);
                assert!(text.unwrap().ends_with(&format!("x{number}y")));
                found += text.unwrap().len() as i64;
            }
            assert!(batch.num_rows() < 20, "{} rows at once", batch.num_rows());
        }
        assert_eq!((rows, found), (ROWS, bytes));
        for (sql, expected) in [
            ("SELECT sum(length(s)) FROM u", bytes),
            ("SELECT sum(l) FROM (SELECT length(repeat(s, 10)) AS l FROM u)", 10 * bytes),
            ("SELECT sum(l) FROM (SELECT length(concat(s, s, i)) AS l FROM t)", 2 * bytes + 92),
            ("SELECT count(*) FROM t WHERE s || 'y' LIKE '%5y'", 20),
            ("SELECT count(*) FROM t WHERE length(upper(s)) + random() > 1000002", 191),
        ] {
            assert_eq!(number(&connection, &format!("SELECT CAST(({sql}) AS BIGINT)")), expected, "{sql}");
        }
    }
}
