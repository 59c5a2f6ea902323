//! Statements that change tables of the cluster, on nodes that do not coordinate it.

use super::{Cluster, Wires, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions, Result};
use std::sync::{Arc, Mutex};

const MADE: &str = "CREATE TABLE t (k BIGINT, v BIGINT DEFAULT 7, s VARCHAR CHECK (s <> 'bad')) PARTITION BY HASH (k) INTO 6 \
                    FRAGMENTS REPLICAS 2";

const ALL: &str = "SELECT k, v, s FROM t";

/// Statements of one session.
const STATEMENTS: [&str; 12] = [
    "INSERT INTO t (k, s) VALUES (1, 'a'), (2, 'b'), (NULL, NULL)",
    "INSERT INTO t SELECT x, x % 3, 'x' || x FROM generate_series(10, 3000) AS r (x)",
    "UPDATE t SET v = v + 100 WHERE k % 2 = 0",
    "DELETE FROM t WHERE k BETWEEN 20 AND 40",
    "CREATE TEMPORARY TABLE own (k BIGINT, v BIGINT)",
    "INSERT INTO own VALUES (1, -1), (5000, -2)",
    "MERGE INTO t USING own ON t.k = own.k WHEN MATCHED THEN UPDATE SET v = own.v \
     WHEN NOT MATCHED THEN INSERT (k, v) VALUES (own.k, own.v)",
    "BEGIN; UPDATE t SET s = 'in one' WHERE k = 2; INSERT INTO t (k) VALUES (3); COMMIT",
    "BEGIN; INSERT INTO t (k) VALUES (4); ROLLBACK",
    "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 9",
    "INSERT INTO t (k, w) VALUES (6, 1)",
    "ALTER TABLE t DROP COLUMN w",
];

#[test]
fn any_node_writes_what_one_database_does() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let cluster = Cluster::new(3);
    let connection = cluster.on(2);
    one.execute(&MADE[..MADE.find(" PARTITION").unwrap()]).unwrap();
    connection.execute(MADE).unwrap();
    for sql in STATEMENTS {
        let (expected, found) = (one.execute(sql).unwrap(), connection.execute(sql).unwrap());
        assert_eq!(found.rows_affected(), expected.rows_affected(), "{sql}");
        let rows = sorted_rows(&one, ALL).unwrap();
        assert_eq!(on_each(&cluster, ALL), vec![rows; 3], "{sql}");
    }
    // The errors are those of the node that coordinates, and nothing is changed.
    let rows = sorted_rows(&one, ALL).unwrap();
    for sql in [
        "INSERT INTO t VALUES (1, 2, 'bad')",
        "UPDATE t SET v = 1 / (k - 2)",
        "INSERT INTO t VALUES ('x')",
        "INSERT INTO absent VALUES (1)",
        "CREATE TABLE t (k BIGINT) REPLICATED",
    ] {
        assert_eq!(failure(&connection, sql).sqlstate(), failure(&cluster.on(0), sql).sqlstate(), "{sql}");
        assert_eq!(on_each(&cluster, ALL), vec![rows.clone(); 3], "{sql}");
    }
    connection.execute("TRUNCATE t").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["0"]; 3]);
    connection.execute("DROP TABLE t").unwrap();
    for node in 0..3 {
        assert_eq!(failure(&cluster.on(node), ALL).sqlstate(), "42P01");
    }
    // What moves rows is said to the coordinator.
    assert_eq!(failure(&connection, "ALTER CLUSTER REBALANCE").sqlstate(), "25006");
}

#[test]
fn a_statement_that_is_named_is_published_once_wherever_it_is_sent() {
    let cluster = Cluster::new(3);
    cluster.on(0).execute(MADE).unwrap();
    for node in [1, 0, 2, 1] {
        let connection = cluster.on(node);
        connection.execute("SET statement_id = '00112233-4455-6677-8899-aabbccddeeff'").unwrap();
        let inserted = connection.execute("INSERT INTO t (k) VALUES (1), (2)").unwrap();
        assert_eq!(inserted.rows_affected(), Some(2), "node {node}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["2"]; 3]);
}

#[test]
fn a_node_that_is_behind_finds_the_rows_to_change() {
    let cluster = Cluster::new(3);
    let (coordinator, other) = (cluster.on(0), cluster.on(2));
    coordinator.execute(MADE).unwrap();
    for (number, sql) in
        ["UPDATE t SET v = 0 WHERE v = 7", "DELETE FROM t WHERE v = 7", "TRUNCATE t"].into_iter().enumerate()
    {
        cluster.cut(2);
        coordinator.execute(&format!("INSERT INTO t (k) VALUES ({number})")).unwrap();
        cluster.mend(2);
        let changed = other.execute(sql).unwrap().rows_affected();
        assert_eq!(changed, Some(if number < 2 { 1 } else { 2 }), "{sql}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["0"]; 3]);
    cluster.nodes[0].look_after();
    // Without the coordinator, nobody knows what there is.
    cluster.cut(0);
    for sql in ["UPDATE t SET v = 0", "TRUNCATE t", "INSERT INTO t (k) VALUES (1)", "DROP TABLE t"] {
        assert_eq!(failure(&other, sql).sqlstate(), "57P03", "{sql}");
    }
}

/// Connections that lose one request to write, or its answer.
struct Losing {
    wires: Arc<Wires>,
    /// What is lost next: an answer if true.
    next: Mutex<Option<bool>>,
}

impl Peers for Losing {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let is_write = matches!(
            request.request,
            Request::Write { .. } | Request::WriteValues { .. } | Request::Define(_)
        );
        let lost = if is_write { self.next.lock().unwrap().take() } else { None };
        assert!(!is_write || rows.is_some(), "a request without rows may be sent twice");
        if lost != Some(false) {
            let answer = self.wires.call(node, request, rows);
            if lost.is_none() {
                return answer;
            }
        }
        Err(Error::new(ErrorKind::Connection, "the connection is broken")
            .with_sqlstate("08006")
            .unreachable())
    }
}

#[test]
fn a_statement_without_an_answer_is_not_sent_again() {
    let losing = Arc::new(Mutex::new(None::<Arc<Losing>>));
    let cluster = Cluster::reached_by(3, |wires| {
        let made = Arc::new(Losing { wires: wires.clone(), next: Mutex::new(None) });
        *losing.lock().unwrap() = Some(made.clone());
        made
    });
    let losing = losing.lock().unwrap().take().unwrap();
    let connection: Connection = cluster.on(1);
    connection.execute(MADE).unwrap();
    let mut rows = 0;
    for answer in [true, false, true, true] {
        for (sql, more) in [("INSERT INTO t (k) VALUES (1)", 1), ("UPDATE t SET v = v + 1", 0)] {
            *losing.next.lock().unwrap() = Some(answer);
            assert_eq!(failure(&connection, sql).sqlstate(), "08007", "{sql}");
            rows += if answer { more } else { 0 };
            let count = format!("{rows}");
            assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec![count]; 3], "{sql}");
        }
    }
    assert_eq!(sorted_rows(&cluster.on(0), "SELECT sum(v) FROM t").unwrap(), ["27"]);
    *losing.next.lock().unwrap() = Some(true);
    assert_eq!(failure(&connection, "DROP TABLE t").sqlstate(), "08007");
    assert_eq!(failure(&cluster.on(0), ALL).sqlstate(), "42P01");
}

#[test]
fn nodes_write_at_the_same_time() {
    let cluster = Cluster::new(3);
    cluster.on(0).execute(MADE).unwrap();
    std::thread::scope(|scope| {
        for node in 0..3 {
            let connection = cluster.on(node);
            scope.spawn(move || {
                for number in 0..10 {
                    let key = node * 100 + number;
                    connection.execute(&format!("INSERT INTO t (k, v) VALUES ({key}, 0)")).unwrap();
                    while let Err(error) = connection.execute("UPDATE t SET v = v + 1 WHERE k >= 0") {
                        assert_eq!(error.sqlstate(), "40001", "{error}");
                    }
                }
            });
        }
    });
    let counts = "SELECT count(*), count(DISTINCT k), max(v) <= 30 FROM t";
    assert_eq!(on_each(&cluster, counts), vec![vec!["30|30|true"]; 3]);
}
