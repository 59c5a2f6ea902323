//! Readers that ask for what was written elsewhere.

use super::{Cluster, Wires, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Error, ErrorKind, Result};
use hypostyle_placement::term::Ask;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

fn epoch(connection: &Connection) -> String {
    sorted_rows(connection, "SHOW cluster_epoch").unwrap()[0].rsplit('|').next().unwrap().to_string()
}

#[test]
fn a_reader_that_asks_for_it_sees_what_was_written_elsewhere() {
    let cluster = Cluster::new(3);
    let (one, other, reader) = (cluster.on(0), cluster.on(1), cluster.on(2));
    one.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 3").unwrap();
    let count = "SELECT count(*) FROM t";
    for (number, writer) in [&one, &other, &one, &other].into_iter().enumerate() {
        // The reader is not told of it.
        cluster.cut(2);
        writer.execute(&format!("INSERT INTO t VALUES ({number})")).unwrap();
        cluster.mend(2);
        assert_eq!(sorted_rows(&reader, count).unwrap(), [number.to_string()], "before it has asked");
        assert_eq!(sorted_rows(writer, count).unwrap(), [(number + 1).to_string()]);
        reader.execute(&format!("SET cluster_epoch = {}", epoch(writer))).unwrap();
        assert_eq!(sorted_rows(&reader, count).unwrap(), [(number + 1).to_string()]);
        assert_eq!(epoch(&reader), epoch(writer));
        cluster.nodes[0].look_after();
    }
    reader.execute("SET cluster_epoch = 1").unwrap();
    assert_eq!(sorted_rows(&reader, count).unwrap(), ["4"], "what it knows is later");
    assert_eq!(failure(&reader, "SET cluster_epoch = 'x'").sqlstate(), "22023");
    assert_eq!(failure(&reader, "SET cluster_epoch = 1000000").sqlstate(), "57P03");
    reader.execute("BEGIN").unwrap();
    assert_eq!(failure(&reader, "SET cluster_epoch = 2").sqlstate(), "0A000");
}

#[test]
fn a_statement_may_want_replicas_in_sync() {
    for node in [0, 1] {
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        connection
            .execute(
                "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 3; \
                 CREATE TABLE u (k BIGINT) PARTITION BY HASH (k) INTO 1 FRAGMENTS; CREATE TABLE r (k BIGINT) REPLICATED",
            )
            .unwrap();
        let count = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM r)";
        connection.execute("SET synced_replicas = 3; INSERT INTO t VALUES (1), (2)").unwrap();
        // More than there should be are not wanted.
        connection.execute("INSERT INTO u VALUES (1)").unwrap();
        cluster.cut(2);
        for sql in [
            "INSERT INTO t VALUES (3)",
            "DELETE FROM t",
            "UPDATE t SET k = k + 1",
            "INSERT INTO r VALUES (1)",
            "BEGIN; INSERT INTO t VALUES (3); INSERT INTO r VALUES (1); COMMIT",
        ] {
            assert_eq!(failure(&connection, sql).sqlstate(), "57P03", "node {node}: {sql}");
            assert_eq!(sorted_rows(&connection, count).unwrap(), ["2"], "node {node}: {sql}");
        }
        connection.execute("SET synced_replicas = 2; INSERT INTO t VALUES (3)").unwrap();
        cluster.mend(2);
        cluster.nodes[0].look_after();
        connection
            .execute("SET synced_replicas = 3; INSERT INTO t VALUES (4); INSERT INTO r VALUES (1)")
            .unwrap();
        assert_eq!(sorted_rows(&connection, count).unwrap(), ["5"], "node {node}");
    }
}

/// Connections that count the catalogs which nodes are told to store.
struct Counting {
    wires: Arc<Wires>,
    stored: Arc<AtomicUsize>,
}

impl Peers for Counting {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let is_catalog = match &request.request {
            Request::Store(_) => true,
            Request::Ask(ask) => matches!(**ask, Ask::Store { .. }),
            _ => false,
        };
        self.stored.fetch_add(usize::from(is_catalog), Ordering::SeqCst);
        self.wires.call(node, request, rows)
    }
}

#[test]
fn statements_that_follow_each_other_are_one_catalog_each() {
    let stored = Arc::new(AtomicUsize::new(0));
    let counting = stored.clone();
    let cluster = Cluster::reached_by(3, move |wires| {
        Arc::new(Counting { wires: wires.clone(), stored: counting.clone() })
    });
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2")
        .unwrap();
    connection.execute("INSERT INTO t VALUES (0)").unwrap();
    let before = stored.load(Ordering::SeqCst);
    for key in 1..=20 {
        connection.execute(&format!("INSERT INTO t VALUES ({key})")).unwrap();
    }
    // Two other nodes store each. A machine with much to do may take so long that some statements begin anew.
    let catalogs = stored.load(Ordering::SeqCst) - before;
    assert!((40..60).contains(&catalogs), "{catalogs} catalogs for 20 statements");
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM t"), vec![vec!["21|210"]; 3]);
}

/// Connections that bring no rows for a while, and count the catalogs that nodes are told to store.
struct Deaf {
    counting: Counting,
    is_deaf: AtomicBool,
}

impl Peers for Deaf {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let takes_rows = matches!(request.request, Request::Append { .. } | Request::AppendAll { .. });
        if takes_rows && self.is_deaf.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Connection, "nobody takes rows").unreachable());
        }
        self.counting.call(node, request, rows)
    }
}

#[test]
fn a_statement_that_reaches_no_replica_does_not_try_twice() {
    let made = OnceCell::new();
    let cluster = Cluster::reached_by(3, |wires| {
        let counting = Counting { wires: wires.clone(), stored: Arc::default() };
        made.get_or_init(|| Arc::new(Deaf { counting, is_deaf: AtomicBool::new(false) })).clone()
    });
    let deaf: Arc<Deaf> = made.into_inner().unwrap();
    let connection = cluster.on(0);
    connection.execute("ALTER CLUSTER DRAIN NODE n1").unwrap();
    connection
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2")
        .unwrap();
    let catalogs_of_a_failure = |key: u64| {
        connection.execute(&format!("INSERT INTO t VALUES ({key})")).unwrap();
        let before = deaf.counting.stored.load(Ordering::SeqCst);
        deaf.is_deaf.store(true, Ordering::SeqCst);
        let error = failure(&connection, "INSERT INTO t VALUES (0)");
        deaf.is_deaf.store(false, Ordering::SeqCst);
        assert!(error.message().contains("no node has written the rows"), "{error}");
        deaf.counting.stored.load(Ordering::SeqCst) - before
    };
    // Who comes later than a second after the one before begins by a catalog.
    let least = (1..=5).map(catalogs_of_a_failure).min();
    assert_eq!(least, Some(0), "a writer that had begun before has begun anew");
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM t"), vec![vec!["5|15"]; 3]);
}

/// Connections that count what other nodes hear to be published, and how much of that the first node's
/// readers do not have yet.
struct Early {
    wires: Arc<Wires>,
    heard: AtomicUsize,
    early: AtomicUsize,
}

impl Peers for Early {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        if let Request::Ask(ask) = &request.request
            && let Ask::Publish { epoch, .. } = **ask
        {
            let coordinator = self.wires.nodes.lock().unwrap().get("h1:1").and_then(Weak::upgrade);
            let read = coordinator.and_then(|node| node.catalog()).map(|catalog| catalog.epoch);
            self.heard.fetch_add(1, Ordering::SeqCst);
            self.early.fetch_add(usize::from(read < Some(epoch)), Ordering::SeqCst);
        }
        self.wires.call(node, request, rows)
    }
}

#[test]
fn the_coordinators_readers_have_a_row_before_others_hear_of_it() {
    let made = OnceCell::new();
    let cluster = Cluster::reached_by(3, |wires| {
        let (heard, early) = (AtomicUsize::new(0), AtomicUsize::new(0));
        made.get_or_init(|| Arc::new(Early { wires: wires.clone(), heard, early })).clone()
    });
    let counted: Arc<Early> = made.into_inner().unwrap();
    let writer = cluster.on(0);
    writer.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2").unwrap();
    let before = counted.heard.load(Ordering::SeqCst);
    let readers = [1, 2].map(|node| cluster.on(node));
    for key in 1..=20 {
        writer.execute(&format!("INSERT INTO t VALUES ({key})")).unwrap();
        for reader in &readers {
            reader.execute("SET cluster_epoch = latest").unwrap();
            assert_eq!(sorted_rows(reader, "SELECT count(*) FROM t").unwrap(), [key.to_string()]);
        }
    }
    assert!(counted.heard.load(Ordering::SeqCst) > before, "nobody hears of rows");
    assert_eq!(counted.early.load(Ordering::SeqCst), 0, "others read what the coordinator does not");
}

#[test]
fn a_writer_that_has_begun_before_somebody_else_coordinates_begins_anew() {
    let cluster = Cluster::new(3);
    let old = cluster.on(0);
    old.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 3").unwrap();
    old.execute("INSERT INTO t VALUES (1), (2)").unwrap();
    // Nobody reaches it, so that it does not hear of the next one.
    cluster.cut(0);
    cluster.nodes[1].promote().unwrap();
    old.execute("INSERT INTO t VALUES (3)").unwrap();
    assert!(!cluster.nodes[0].coordinates());
    cluster.mend(0);
    cluster.nodes[1].look_after();
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM t"), vec![vec!["3|6"]; 3]);
    // Without a majority, a writer that has begun before knows that nothing is changed.
    let new = cluster.on(1);
    new.execute("INSERT INTO t VALUES (4)").unwrap();
    cluster.cut(0);
    cluster.cut(2);
    assert_eq!(failure(&new, "INSERT INTO t VALUES (5)").sqlstate(), "57P03");
    cluster.mend(0);
    cluster.mend(2);
    new.execute("INSERT INTO t VALUES (6)").unwrap();
    cluster.nodes[1].look_after();
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM t"), vec![vec!["5|16"]; 3]);
}
