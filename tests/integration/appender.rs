//! Appending rows that a program pushes.

use hypostyle::{AppendValue, Appender, Database, DriverSession, OpenOptions, ScalarValue};
use std::sync::Arc;

fn session() -> Arc<DriverSession> {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    Arc::new(DriverSession::new(database.connect().unwrap()))
}

#[test]
fn a_refused_row_leaves_nothing_of_any_type() {
    let session = session();
    let create = "CREATE TABLE t (a BOOLEAN, b INTEGER, c DOUBLE, d VARCHAR, e BLOB, f DATE, g TINYINT)";
    session.connection().execute(create).unwrap();
    let mut appender = Appender::open(session.clone(), "t").unwrap();
    let row = |last: i64| {
        [
            AppendValue::Boolean(true),
            AppendValue::Integer(1),
            AppendValue::Float(0.5),
            AppendValue::Text("text"),
            AppendValue::Bytes(b"bytes"),
            AppendValue::Scalar(ScalarValue::Date32(Some(1))),
            AppendValue::Integer(last),
        ]
    };
    for last in [1, 1000, 2, -129] {
        assert_eq!(appender.row(row(last)).is_ok(), last.abs() < 128, "{last}");
    }
    assert_eq!(appender.row([AppendValue::Null]).unwrap_err().sqlstate(), "HY024");
    assert_eq!(appender.finish().unwrap(), 2);
    let result = session.connection().execute("SELECT min(g), max(g), count(f) FROM t").unwrap();
    let batches = result.record_batches().unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    assert!(shown.contains("| 1 ") && shown.contains("| 2 "), "{shown}");
}
