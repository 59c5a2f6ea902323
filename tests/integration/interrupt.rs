//! Tests interrupts and the poll hook.

use crate::backup::rows;
use crate::served::{DEADLINE, until};
use hypostyle::{Connection, Database, ErrorKind, OpenOptions, Poll};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a + b = 3";

/// Interrupts the next statement a moment after it has begun: what does not run yet is not interrupted.
/// The thread returns when that was.
fn interrupting(connection: &Connection) -> JoinHandle<Instant> {
    let other = connection.clone();
    std::thread::spawn(move || {
        until("nothing runs", || other.progress().is_some_and(|progress| progress.is_running));
        std::thread::sleep(Duration::from_millis(300));
        other.interrupt();
        Instant::now()
    })
}

#[test]
fn an_interrupt_stops_the_query_and_the_connection_goes_on() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let thread = interrupting(&connection);
    let result = connection.execute(LONG).and_then(|result| result.row_count());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
    thread.join().unwrap();
    assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}

#[test]
fn the_poll_hook_runs_while_waiting_and_may_interrupt() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let polls = Arc::new(AtomicU64::new(0));
    let counted = polls.clone();
    connection.set_poll(Some(Arc::new(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) < 3 { Poll::Continue } else { Poll::Interrupt }
    })));
    let result = connection.execute(LONG).and_then(|result| result.row_count());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(polls.load(Ordering::Relaxed) >= 4);
}

/// Checks that each statement can be stopped while it runs, changes nothing then, and can be run
/// again.
#[test]
fn maintenance_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("maintained"), OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    connection
        .execute(
            "CREATE TABLE t AS SELECT value AS a, CAST(value AS VARCHAR) AS b FROM generate_series(1, 2000000) AS g (value);
             DELETE FROM t WHERE a % 10 = 3",
        )
        .unwrap();
    let size = || -> u64 {
        let all = walk(&directory.path().join("maintained/columns"));
        all.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
    };
    let found = || rows(&connection, "SELECT count(*), sum(a), max(b) FROM t");
    let (all, before) = (found(), size());
    // The statements that write have written some rows by the third call.
    for (sql, polls) in [
        ("CHECK DATABASE", 1),
        ("CREATE INDEX i ON t (b)", 1),
        ("CREATE ORDER INDEX o ON t (b)", 1),
        ("VACUUM t", 3),
        ("VACUUM", 3),
        ("ALTER TABLE t ALTER COLUMN a TYPE DECIMAL(20, 0)", 3),
    ] {
        let polled = AtomicU64::new(0);
        connection.set_poll(Some(Arc::new(move |_| match polled.fetch_add(1, Ordering::Relaxed) < polls {
            true => Poll::Continue,
            false => Poll::Interrupt,
        })));
        let error = connection.execute(sql).and_then(|result| result.row_count()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{sql}: {error}");
        connection.set_poll(None);
        assert_eq!(found(), all, "{sql}");
        assert_eq!(size(), before, "{sql} leaves files behind");
    }
    let declared = "SELECT count(*) FROM pg_indexes WHERE indexname IN ('i', 'o')";
    assert_eq!(rows(&connection, declared), rows(&connection, "SELECT 0 AS \"count(*)\""));
    assert_eq!(connection.execute("CHECK DATABASE").unwrap().row_count().unwrap(), 0);
    connection.execute("VACUUM t").unwrap();
    assert_eq!(found(), all);
    assert!(size() < before, "{} bytes were {before}", size());
}

/// Texts that are told apart late, so that sorting them takes long.
#[test]
fn sorts_and_window_functions_end_soon_after_an_interrupt() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection
        .execute(
            "CREATE TABLE t AS SELECT value AS a, CASE value % 2 WHEN 0 THEN 'a' ELSE 'b' END || ' and much that all texts have, then '
                || ((value * 7919) % 1000003) AS s FROM generate_series(1, 1000000) AS g (value)",
        )
        .unwrap();
    for sql in [
        "SELECT a FROM t ORDER BY s",
        "SELECT a, s FROM t ORDER BY s DESC, a LIMIT 400000",
        "SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY s ORDER BY a) AS n FROM t)",
    ] {
        let thread = interrupting(&connection);
        let result = connection.execute(sql).and_then(|result| result.row_count());
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted, "{sql}");
        // Without optimisation a piece of the work takes many times as long.
        let late = thread.join().unwrap().elapsed();
        assert!(late < DEADLINE, "{sql} goes on for {late:?}");
    }
    assert_eq!(
        rows(&connection, "SELECT count(*) FROM t"),
        rows(&connection, "SELECT 1000000 AS \"count(*)\"")
    );
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
