//! Statements that wait for the locks of other processes: how long they wait, and what ends the
//! wait earlier.

use crate::backup::rows;
use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions, Patience, Poll};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Takes a lock as another process would.
fn lock(database: &Path, name: &str) -> File {
    let file = File::open(database.join(name)).unwrap();
    file.lock().unwrap();
    file
}

/// Returns the only value of a result.
fn number(connection: &Connection, sql: &str) -> String {
    let shown = rows(connection, sql);
    shown.lines().nth(3).unwrap().trim_matches(['|', ' ']).to_string()
}

fn refused(connection: &Connection, sql: &str, kind: ErrorKind) -> Error {
    let error = connection.execute(sql).err().unwrap_or_else(|| panic!("{sql} was not refused"));
    assert_eq!(error.kind(), kind, "{sql}: {error}");
    error
}

/// The statements that wait for the commit lock.
const WRITING: [&str; 4] =
    ["INSERT INTO t VALUES (2)", "SELECT nextval('s')", "CREATE TABLE u (a INT)", "CHECKPOINT"];

#[test]
fn statements_wait_as_long_as_lock_timeout_says_or_until_they_are_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    let connection = Database::open(&path, OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CREATE SEQUENCE s; CREATE TABLE t AS SELECT 1 AS a").unwrap();
    assert!(rows(&connection, "SHOW lock_timeout").contains("| 0 "));
    let held = lock(&path, "shared");
    connection.execute("SET lock_timeout = '100ms'").unwrap();
    for sql in WRITING {
        let error = refused(&connection, sql, ErrorKind::Busy);
        assert_eq!(error.sqlstate(), "55P03");
        assert!(error.message().contains("this process"), "{error}");
    }
    connection.execute("RESET lock_timeout").unwrap();
    connection.set_poll(Some(Arc::new(|_| Poll::Interrupt)));
    for sql in WRITING {
        refused(&connection, sql, ErrorKind::Interrupted);
    }
    connection.set_poll(None);
    let other = connection.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        other.interrupt();
    });
    refused(&connection, "INSERT INTO t VALUES (3)", ErrorKind::Interrupted);
    thread.join().unwrap();
    // Reading waits for nobody.
    assert_eq!(number(&connection, "SELECT count(*) FROM t"), "1");
    drop(held);
    connection.execute("INSERT INTO t VALUES (4)").unwrap();
    assert_eq!(number(&connection, "SELECT sum(a) FROM t"), "5");
    assert_eq!(number(&connection, "SELECT nextval('s')"), "1");
    for wrong in ["SET lock_timeout = 'soon'", "SET lock_timeout = -1"] {
        refused(&connection, wrong, ErrorKind::InvalidInput);
    }
}

#[test]
fn opening_and_attaching_wait_as_long_as_they_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("d"), directory.path().join("e"));
    drop(Database::open(&path, OpenOptions::default()).unwrap());
    let connection = Database::open(&other, OpenOptions::default()).unwrap().connect().unwrap();
    let held = lock(&path, "shared");
    let short = Patience::of(Some(Duration::from_millis(50)));
    let ended = Patience::default().unless(|| Err(Error::new(ErrorKind::Interrupted, "enough")));
    for (patience, kind) in [(short, ErrorKind::Busy), (ended, ErrorKind::Interrupted)] {
        let options = OpenOptions { patience: Some(patience), ..OpenOptions::default() };
        assert_eq!(Database::open(&path, options).err().unwrap().kind(), kind);
    }
    let attach = format!("ATTACH '{}' AS d", path.display());
    connection.execute("SET lock_timeout = 50").unwrap();
    refused(&connection, &attach, ErrorKind::Busy);
    drop(held);
    connection.execute(&attach).unwrap();
}
