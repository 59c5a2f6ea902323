//! Appends rows in bulk, from arrays and from files: missing values are computed for each row.

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::{RecordBatch, RecordBatchIterator};
use arrow::util::pretty::pretty_format_batches;
use hypostyle::{AppendOptions, Connection, Database, ErrorKind, OpenOptions, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

fn connection() -> Connection {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute(
            "CREATE TABLE t (twice BIGINT AS (a * 2), id BIGINT GENERATED ALWAYS AS IDENTITY, a BIGINT, s SERIAL,
                u VARCHAR DEFAULT uuid(), text VARCHAR)",
        )
        .unwrap();
    connection
}

fn append(connection: &Connection, columns: Vec<(&str, ArrayRef)>, by_name: bool) -> Result<u64> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let pieces: Vec<_> = (0..batch.num_rows())
        .step_by(700)
        .map(|at| Ok(batch.slice(at, 700.min(batch.num_rows() - at))))
        .collect();
    let reader = RecordBatchIterator::new(pieces, batch.schema());
    connection.append("t", Box::new(reader), AppendOptions { create: false, by_name })
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn shown(connection: &Connection, sql: &str) -> String {
    let batches = connection.execute(sql).unwrap().record_batches().unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

const RIGHT: &str = "SELECT count(*), count(DISTINCT id), count(DISTINCT s), count(DISTINCT u), min(id), max(id), \
                     sum(CASE WHEN twice = a * 2 THEN 1 ELSE 0 END) FROM t";

fn assert_right(connection: &Connection, rows: u64) {
    let shown = shown(connection, RIGHT);
    let numbers: Vec<&str> = shown.lines().nth(3).unwrap().split('|').map(str::trim).collect();
    let rows = rows.to_string();
    assert_eq!(numbers[1..8], [rows.as_str(), &rows, &rows, &rows, "1", &rows, &rows], "{shown}");
}

#[test]
fn appended_arrays_by_name_and_by_position() {
    let connection = connection();
    append(&connection, vec![("a", numbers(0..2000))], true).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"; 3]));
    // These are all columns but the generated one and the identity.
    let columns = vec![
        ("1", numbers(0..3)),
        ("2", numbers(5000..5003)),
        ("3", Arc::new(StringArray::from(vec!["p", "q", "r"])) as ArrayRef),
        ("4", texts),
    ];
    append(&connection, columns, false).unwrap();
    assert_right(&connection, 2003);
    for refused in ["twice", "id"] {
        let error =
            append(&connection, vec![("a", numbers([1])), (refused, numbers([2]))], true).unwrap_err();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "428C9"), "{error}");
    }
    let error = append(&connection, vec![("1", numbers([1]))], false).unwrap_err();
    assert!(error.message().contains("4 columns to be given, but the data has 1"), "{error}");
    assert_right(&connection, 2003);
}

#[test]
fn files_are_completed() {
    let connection = connection();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let text: String = (0..3000).map(|row| format!("{row},text {row}\n")).collect();
    std::fs::write(path("rows.csv"), text).unwrap();
    let copy = |columns: &str, file: &str| {
        connection.execute(&format!("COPY t{columns} FROM '{}'", path(file))).map(|done| done.rows_affected())
    };
    assert_eq!(copy("(a, text)", "rows.csv").unwrap(), Some(3000));
    connection.execute(&format!("COPY (SELECT a, text FROM t) TO '{}'", path("rows.parquet"))).unwrap();
    assert_eq!(copy("(a, text)", "rows.parquet").unwrap(), Some(3000));
    assert_right(&connection, 6000);
    for columns in ["", "(a, id)", "(a, twice)"] {
        let error = copy(columns, "rows.csv").unwrap_err();
        assert_eq!(error.sqlstate(), "428C9", "{columns}: {error}");
    }
    // Without a list these are all columns but the generated ones.
    connection.execute("CREATE TABLE g (a BIGINT, twice BIGINT AS (a * 2), text VARCHAR)").unwrap();
    connection.execute(&format!("COPY g FROM '{}'", path("rows.csv"))).unwrap();
    assert!(shown(&connection, "SELECT sum(twice) FROM g").contains("8997000"));
}

#[test]
fn sessions_share_the_values_of_an_identity() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let rows = |database: &Database| {
        let connection = database.connect().unwrap();
        let mut ids = BTreeSet::new();
        for batch in connection.execute("SELECT id FROM t").unwrap().record_batches().unwrap() {
            let batch = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().clone();
            ids.extend(batch.values().iter().copied());
        }
        ids
    };
    {
        let database = Database::open(&path, OpenOptions::default()).unwrap();
        let create = "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a BIGINT)";
        database.connect().unwrap().execute(create).unwrap();
        // A primary key makes each commit compare itself with the others: those that conflict are
        // tried again.
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let connection = database.connect().unwrap();
                scope.spawn(move || {
                    for _ in 0..10 {
                        connection
                            .execute(&format!("INSERT INTO t (a) VALUES ({thread}), ({thread})"))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(rows(&database).len(), 60);
    }
    let database = Database::open(&path, OpenOptions::default()).unwrap();
    let last = *rows(&database).last().unwrap();
    database.connect().unwrap().execute("INSERT INTO t (a) VALUES (7)").unwrap();
    assert!(*rows(&database).last().unwrap() > last);
}
