//! Data that a session keeps beside its plans counts towards its memory limit.

use crate::served::Served;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use hypostyle::{Connection, Database, Error, ErrorKind, ExternalTable, OpenOptions, TableResolver};
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
