//! Plans that a session keeps are not those of definitions that somebody else has changed: another
//! process, or whoever attaches another database under the same name.

use crate::backup::rows;
use hypostyle::{Connection, Database, OpenOptions};
use std::path::Path;

fn open(path: &Path) -> Connection {
    Database::open(path, OpenOptions::default()).unwrap().connect().unwrap()
}

/// Runs a query often enough for its plan to be kept and used.
fn repeated(connection: &Connection, sql: &str) -> String {
    let first = rows(connection, sql);
    for _ in 0..3 {
        assert_eq!(rows(connection, sql), first, "{sql}");
    }
    first
}

const JOINED: &str = "SELECT * FROM t JOIN u ON t.a = u.a ORDER BY 1, 2";

#[test]
fn what_another_process_defines_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d");
    // Two handles see each other's changes through the log alone, as two processes do.
    let (own, other) = (open(&path), open(&path));
    own.execute("CREATE TABLE t AS SELECT 1 AS a, 10 AS b; CREATE TABLE u AS SELECT 1 AS a, 100 AS c")
        .unwrap();
    for (change, shows) in [
        ("INSERT INTO t VALUES (1, 11)", "11"),
        ("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 77", "77"),
        ("CHECKPOINT", "77"),
        ("ALTER TABLE t RENAME COLUMN d TO later", "later"),
        ("DROP TABLE u; CREATE TABLE u AS SELECT 'text' AS c, 1 AS a", "text"),
        ("DELETE FROM t WHERE b = 10; VACUUM; CHECKPOINT", "11"),
        ("ALTER TABLE t DROP COLUMN later; UPDATE t SET b = 12", "12"),
        ("DROP TABLE t; CREATE VIEW t AS SELECT 1 AS a, 13 AS b", "13"),
    ] {
        repeated(&own, JOINED);
        other.execute(change).unwrap();
        let seen = repeated(&own, JOINED);
        assert!(seen.contains(&format!(" {shows} ")), "{change}: {seen}");
        assert_eq!(seen, rows(&other, JOINED), "{change}");
    }
    other.execute("DROP VIEW t").unwrap();
    assert_eq!(own.execute(JOINED).err().unwrap().sqlstate(), "42P01");
}

#[test]
fn another_database_of_the_same_name_is_another() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| directory.path().join(name));
    for (path, value) in paths.iter().zip([5, 6]) {
        let sql = format!("CREATE TABLE t AS SELECT 1 AS a, {value} AS b; CREATE TABLE u AS SELECT 1 AS a");
        open(path).execute(&sql).unwrap();
    }
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let sql = "SELECT b FROM x.t JOIN x.u ON t.a = u.a";
    for (path, value) in paths.iter().chain(&paths).zip(["5", "6", "5", "6"]) {
        connection.execute(&format!("ATTACH '{}' AS x", path.display())).unwrap();
        assert!(repeated(&connection, sql).contains(&format!(" {value} ")));
        connection.execute("DETACH x").unwrap();
        assert_eq!(connection.execute(sql).err().unwrap().sqlstate(), "42P01");
    }
}
