//! Transactions over tables of a cluster: what is changed between BEGIN and COMMIT is published at once.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};

const DISTRIBUTIONS: [&str; 3] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
    "REPLICATED",
];

const ALL: &str = "SELECT k, n, s FROM t";

fn prepare(connection: &Connection, distribution: &str) {
    connection
        .execute(&format!(
            "CREATE TABLE t (k BIGINT, n INTEGER DEFAULT 3, s VARCHAR DEFAULT 'x') {distribution}"
        ))
        .unwrap();
    connection
        .execute("INSERT INTO t SELECT v, v % 5, 'v' || v FROM generate_series(1, 60) AS r (v)")
        .unwrap();
}

/// Statements of a session, after each of which its rows are compared with those of one database.
const STATEMENTS: [&str; 32] = [
    "BEGIN",
    "INSERT INTO t (k) VALUES (100), (101)",
    "INSERT INTO t SELECT k + 1000, n, s FROM t WHERE k > 95",
    "SAVEPOINT a",
    "INSERT INTO t (k, s) VALUES (102, DEFAULT), (103, 'y')",
    "ROLLBACK TO a",
    "INSERT INTO t (k) VALUES (104)",
    "RELEASE a",
    "COMMIT",
    "BEGIN",
    "INSERT INTO t (k) VALUES (-1)",
    "ROLLBACK",
    "BEGIN",
    "DELETE FROM t WHERE false",
    "INSERT INTO t SELECT max(k) + 1, count(*), 'max' FROM t",
    "INSERT INTO t SELECT max(k) + 1, count(*), 'max' FROM t",
    "COMMIT",
    "BEGIN READ ONLY",
    "COMMIT",
    "CREATE TEMPORARY TABLE own (a BIGINT)",
    "BEGIN",
    "INSERT INTO own VALUES (1), (2)",
    "INSERT INTO t (k) SELECT a FROM own",
    "COMMIT",
    "BEGIN",
    "SAVEPOINT b",
    "INSERT INTO t (k) VALUES (7)",
    "ROLLBACK TO b",
    "COMMIT AND CHAIN",
    "INSERT INTO t (k, n) VALUES (8, NULL)",
    "SAVEPOINT c",
    "COMMIT",
];

#[test]
fn transactions_see_and_publish_what_they_append() {
    // On the coordinator and on another node alike.
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        prepare(&one, "");
        prepare(&connection, distribution);
        let (mut outside, mut open) = (sorted_rows(&one, ALL).unwrap(), false);
        for sql in STATEMENTS {
            one.execute(sql).unwrap();
            connection.execute(sql).unwrap_or_else(|error| panic!("{distribution}: {sql}: {error}"));
            let expected = sorted_rows(&one, ALL).unwrap();
            assert_eq!(sorted_rows(&connection, ALL).unwrap(), expected, "{distribution}: {sql}");
            for query in [
                "SELECT count(*), sum(k), max(s) FROM t",
                "SELECT n, count(*) FROM t WHERE k > 50 GROUP BY n",
                "SELECT k, s FROM t ORDER BY k DESC LIMIT 7",
                "SELECT a.k, b.n FROM t AS a JOIN t AS b ON a.k = b.k + 1000",
            ] {
                let expected = sorted_rows(&one, query).unwrap();
                assert_eq!(
                    sorted_rows(&connection, query).unwrap(),
                    expected,
                    "{distribution}: {sql}: {query}"
                );
            }
            open = match sql.split(' ').next() {
                Some("BEGIN") => true,
                Some("COMMIT" | "ROLLBACK") => sql.ends_with("CHAIN") || sql.contains(" TO "),
                _ => open,
            };
            if !open || sql.ends_with("CHAIN") {
                outside = expected;
            }
            assert_eq!(on_each(&cluster, ALL), vec![outside.clone(); 3], "{distribution}: {sql}");
        }
    }
}

#[test]
fn a_transaction_may_update_first() {
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        prepare(&connection, distribution);
        for (change, then, expected) in [
            ("UPDATE t SET n = 100 WHERE k <= 10", "INSERT INTO t (k, n) VALUES (200, 100)", "11|100"),
            ("DELETE FROM t WHERE n = 100", "INSERT INTO t (k, n) VALUES (201, 7)", "0|"),
            ("TRUNCATE t", "INSERT INTO t (k, n) VALUES (1, 100), (2, 100)", "2|100"),
        ] {
            let query = "SELECT count(*), max(n) FROM t WHERE n = 100";
            let before = sorted_rows(&connection, query).unwrap();
            connection.execute("BEGIN").unwrap();
            connection.execute(change).unwrap();
            // Nodes would still give what is deleted.
            assert_eq!(failure(&connection, query).sqlstate(), "0A000");
            connection.execute("ROLLBACK").unwrap();
            assert_eq!(sorted_rows(&connection, query).unwrap(), before);
            connection.execute("BEGIN").unwrap();
            connection.execute("SAVEPOINT a").unwrap();
            connection.execute(change).unwrap();
            connection.execute("ROLLBACK TO a").unwrap();
            assert_eq!(sorted_rows(&connection, query).unwrap(), before);
            connection.execute(change).unwrap();
            connection.execute(then).unwrap();
            assert_eq!(on_each(&cluster, query), vec![before; 3]);
            connection.execute("COMMIT").unwrap();
            assert_eq!(on_each(&cluster, query), vec![vec![expected]; 3], "{distribution}: {change}");
        }
    }
}

#[test]
fn what_cannot_be_published_at_once_is_refused() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0]);
    connection.execute("CREATE TABLE u (k BIGINT) REPLICATED; CREATE TABLE own (a BIGINT)").unwrap();
    for (first, then) in [
        ("INSERT INTO t (k) VALUES (1)", "INSERT INTO u VALUES (1)"),
        ("INSERT INTO t (k) VALUES (1)", "INSERT INTO own VALUES (1)"),
        ("INSERT INTO own VALUES (1)", "INSERT INTO t (k) VALUES (1)"),
        ("INSERT INTO t (k) VALUES (1)", "UPDATE t SET n = 1"),
        ("INSERT INTO t (k) VALUES (1)", "DELETE FROM t"),
        ("INSERT INTO t (k) VALUES (1)", "TRUNCATE t"),
        ("UPDATE t SET n = 1", "UPDATE t SET n = 2"),
        ("UPDATE t SET n = 1", "INSERT INTO t SELECT * FROM t"),
        ("UPDATE t SET n = 1", "TRUNCATE t"),
        ("INSERT INTO t (k) VALUES (1)", "ALTER TABLE t ADD COLUMN a INTEGER"),
        ("INSERT INTO t (k) VALUES (1)", "DROP TABLE t"),
        ("INSERT INTO t (k) VALUES (1)", "CREATE TABLE w (a BIGINT) REPLICATED"),
    ] {
        connection.execute("BEGIN").unwrap();
        connection.execute(first).unwrap();
        let error = failure(&connection, then);
        assert_eq!(error.sqlstate(), "0A000", "{first}; {then}: {error}");
        connection.execute("ROLLBACK").unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(n) FROM t"), vec![vec!["60|120"]; 2]);
}

#[test]
fn transactions_that_update_the_same_rows_are_in_conflict() {
    let cluster = Cluster::new(2);
    let (one, other, reader) = (cluster.on(0), cluster.on(1), cluster.on(1));
    prepare(&one, DISTRIBUTIONS[0]);
    for connection in [&one, &other, &reader] {
        connection.execute("BEGIN").unwrap();
    }
    let count = "SELECT count(*), sum(n) FROM t";
    let before = sorted_rows(&reader, count).unwrap();
    one.execute("UPDATE t SET n = n + 1").unwrap();
    other.execute("UPDATE t SET n = n + 10").unwrap();
    one.execute("COMMIT").unwrap();
    assert_eq!(failure(&other, "COMMIT").sqlstate(), "40001");
    // A transaction reads one state.
    assert_eq!(sorted_rows(&reader, count).unwrap(), before);
    reader.execute("COMMIT").unwrap();
    assert_eq!(sorted_rows(&reader, count).unwrap(), ["60|180"]);
    // Appends are in conflict with nothing.
    for connection in [&one, &other] {
        connection.execute("BEGIN").unwrap();
        connection.execute("INSERT INTO t (k) VALUES (1)").unwrap();
    }
    one.execute("COMMIT").unwrap();
    other.execute("COMMIT").unwrap();
    assert_eq!(on_each(&cluster, count), vec![vec!["62|186"]; 2]);
}
