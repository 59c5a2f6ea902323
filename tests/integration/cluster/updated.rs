//! UPDATE of rows that stay where they are: only new values travel, and all replicas have the rows of one
//! node.

use super::{Cluster, Wires, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions, Result};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the requests with whole rows, and those with new values, which nodes of an earlier release refuse.
struct Counting {
    wires: Arc<Wires>,
    whole: AtomicUsize,
    values: AtomicUsize,
    is_earlier: AtomicBool,
}

impl Counting {
    fn cluster() -> (Cluster, Arc<Self>) {
        let made = OnceCell::new();
        let cluster = Cluster::reached_by(3, |wires| {
            let peers = Arc::new(Self {
                wires: wires.clone(),
                whole: AtomicUsize::new(0),
                values: AtomicUsize::new(0),
                is_earlier: AtomicBool::new(false),
            });
            made.get_or_init(|| peers).clone()
        });
        (cluster, made.into_inner().unwrap())
    }

    /// Returns how many requests with whole rows and with values there were since the last time.
    fn counted(&self) -> (usize, usize) {
        (self.whole.swap(0, Ordering::SeqCst), self.values.swap(0, Ordering::SeqCst))
    }
}

impl Peers for Counting {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        match &request.request {
            Request::Update { .. } | Request::WriteValues { .. } => {
                self.values.fetch_add(1, Ordering::SeqCst);
                if self.is_earlier.load(Ordering::SeqCst) {
                    let refused = Error::new(ErrorKind::Connection, "an unknown request");
                    return Err(refused.with_sqlstate("08P01"));
                }
            }
            Request::Append { .. } | Request::AppendAll { .. } | Request::Write { .. } => {
                self.whole.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        self.wires.call(node, request, rows)
    }
}

const DISTRIBUTIONS: [&str; 3] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY RANGE (k) (VALUES LESS THAN (120), VALUES LESS THAN (MAXVALUE)) REPLICAS 2",
    "REPLICATED",
];

const MADE: &str =
    "CREATE TABLE t (k BIGINT PRIMARY KEY, n INTEGER NOT NULL, s VARCHAR, d DECIMAL(10,2), u UUID)";

/// Updates that send values alone.
const IN_PLACE: [&str; 8] = [
    "UPDATE t SET n = n + 1",
    "UPDATE t SET s = s || n, d = k / 4 WHERE k % 3 = 0",
    "UPDATE t SET n = DEFAULT WHERE false",
    "UPDATE t SET s = NULL, u = '00112233-4455-6677-8899-aabbccddeeff' WHERE k BETWEEN 100 AND 130",
    "UPDATE t SET d = o.x FROM (VALUES (5, 1.5), (5, 1.5), (250, 2.25)) AS o (k, x) WHERE o.k = t.k",
    "UPDATE t SET n = (SELECT count(*) FROM t AS other WHERE other.s IS NULL) WHERE k > 290",
    "UPDATE t SET u = NULL WHERE s IS NULL",
    "UPDATE t SET n = n * 2 WHERE k = 7",
];

/// Updates that need whole rows.
const WHOLE: [&str; 2] =
    ["UPDATE t SET k = k + 1000 WHERE k < 20", "UPDATE t SET n = 0 WHERE k > 280 RETURNING s"];

const ALL: &str = "SELECT * FROM t";

fn prepare(one: &Connection, other: &Connection, distribution: &str) {
    one.execute(MADE).unwrap();
    other.execute(&format!("{MADE} {distribution}")).unwrap();
    for connection in [one, other] {
        let rows = "INSERT INTO t SELECT v, v % 7, 's' || v, v, NULL FROM generate_series(1, 300) AS r (v)";
        connection.execute(rows).unwrap();
        connection.execute("DELETE FROM t WHERE k % 10 = 4").unwrap();
    }
}

fn alone() -> Connection {
    Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap()
}

#[test]
fn updates_in_place_have_the_rows_of_one_database() {
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let (one, (cluster, counting)) = (alone(), Counting::cluster());
        let other = cluster.on(node);
        prepare(&one, &other, distribution);
        for (number, sql) in IN_PLACE.into_iter().chain(WHOLE).enumerate() {
            // A node misses one, and catches up.
            if number == 1 {
                cluster.cut(2);
            }
            counting.counted();
            let expected = one.execute(sql).unwrap().rows_affected();
            let found = other.execute(sql).unwrap_or_else(|error| panic!("{distribution}: {sql}: {error}"));
            assert_eq!(found.rows_affected(), expected, "{distribution}: {sql}");
            let (whole, values) = counting.counted();
            let is_in_place = number < IN_PLACE.len();
            assert!(if is_in_place { whole == 0 } else { values == 0 }, "{sql}: {whole} and {values}");
            assert!(expected == Some(0) || whole + values > 0, "{sql}");
            if number == 1 {
                cluster.mend(2);
                cluster.nodes[0].look_after();
            }
            let rows = sorted_rows(&one, ALL).unwrap();
            assert_eq!(on_each(&cluster, ALL), vec![rows; 3], "{distribution}: {sql}");
        }
        // Whichever replica is read.
        let rows = sorted_rows(&one, ALL).unwrap();
        for away in 1..3 {
            cluster.cut(away);
            assert_eq!(sorted_rows(&cluster.on(0), ALL).unwrap(), rows, "{distribution}: without {away}");
            cluster.mend(away);
        }
        let null = "UPDATE t SET n = NULL WHERE k > 200";
        let (expected, found) = (failure(&one, null), failure(&other, null));
        assert_eq!(found.sqlstate(), expected.sqlstate(), "{distribution}: {found}");
        assert_eq!(on_each(&cluster, ALL), vec![rows; 3], "{distribution}: what has failed changes nothing");
    }
}

#[test]
fn nodes_of_an_earlier_release_get_whole_rows() {
    for node in [0, 1] {
        let (one, (cluster, counting)) = (alone(), Counting::cluster());
        let other = cluster.on(node);
        prepare(&one, &other, DISTRIBUTIONS[0]);
        counting.is_earlier.store(true, Ordering::SeqCst);
        for sql in IN_PLACE {
            one.execute(sql).unwrap();
            other.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(on_each(&cluster, ALL), vec![sorted_rows(&one, ALL).unwrap(); 3], "{sql}");
        }
        let replicas = sorted_rows(&other, "SHOW FRAGMENTS").unwrap();
        assert!(replicas.iter().all(|row| row.split('|').nth(5) == Some("true")), "{replicas:?}");
    }
}

#[test]
fn one_of_two_updates_of_a_row_at_a_time_waits_for_the_other() {
    let (cluster, _) = Counting::cluster();
    let first = cluster.on(0);
    first
        .execute("CREATE TABLE c (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    first.execute("INSERT INTO c SELECT v, 0 FROM generate_series(1, 30) AS r (v)").unwrap();
    std::thread::scope(|scope| {
        for node in 0..3 {
            let connection = cluster.on(node);
            scope.spawn(move || {
                for _ in 0..5 {
                    while let Err(error) = connection.execute("UPDATE c SET n = n + 1") {
                        assert_eq!(error.sqlstate(), "40001", "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(on_each(&cluster, "SELECT count(*), min(n), max(n) FROM c"), vec![vec!["30|15|15"]; 3]);
}
