//! Statements that write to many fragments at once.

use super::{Cluster, metrics};
use crate::tpch::sorted_rows;
use hypostyle::Result;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::{Answer, Peers, RowReader, not_here};
use std::sync::Arc;

#[test]
fn an_insert_into_many_fragments_takes_few_places() {
    let (served, _nodes) = metrics::nodes(3);
    let coordinator = served[0].database.connect().unwrap();
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 600 FRAGMENTS REPLICAS 2")
        .unwrap();
    let inserted =
        coordinator.execute("INSERT INTO t SELECT v, v FROM generate_series(1, 6000) AS r (v)").unwrap();
    assert_eq!(inserted.rows_affected(), Some(6000));
    let sum = "SELECT count(*), sum(v), count(DISTINCT k) FROM t";
    for served in &served {
        let connection = served.database.connect().unwrap();
        assert_eq!(sorted_rows(&connection, sum).unwrap(), ["6000|18003000|6000"]);
        // Those of the coordinator, and some that begin while others end.
        assert!(served.sessions() < 60, "{} sessions", served.sessions());
    }
    let in_sync = "SELECT count(*) FROM hypostyle_cluster.replica WHERE in_sync";
    assert_eq!(sorted_rows(&coordinator, in_sync).unwrap(), ["1200"]);
    coordinator.execute("UPDATE t SET v = 1").unwrap();
    assert_eq!(sorted_rows(&coordinator, sum).unwrap(), ["6000|6000|6000"]);
}

#[test]
fn a_statement_over_many_fragments_takes_few_commits_of_each_node() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    let versions = || -> Vec<u64> {
        let of = |node: &Arc<Node>| node.database().snapshot().unwrap().version().0;
        cluster.nodes.iter().map(of).collect()
    };
    // Those of the catalog, and one for 128 tables that are made.
    let run = |statement: &str, most: u64| {
        let before = versions();
        coordinator.execute(statement).unwrap();
        for (node, (before, after)) in before.into_iter().zip(versions()).enumerate() {
            assert!(after - before <= most, "{statement}: {} commits of node {node}", after - before);
        }
    };
    run("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 1200 FRAGMENTS REPLICAS 2", 4);
    let insert = "INSERT INTO t SELECT v, v FROM generate_series(1, 20000) AS r (v)";
    run(insert, 16);
    run(insert, 8);
    run("ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 7", 4);
    let sum = "SELECT count(*), sum(v), sum(w) FROM t";
    for node in 0..3 {
        assert_eq!(sorted_rows(&cluster.on(node), sum).unwrap(), ["40000|400020000|280000"], "node {node}");
    }
    run("TRUNCATE t", 16);
    assert_eq!(sorted_rows(&coordinator, "SELECT count(*) FROM t").unwrap(), ["0"]);
    run("INSERT INTO t SELECT v, v, 1 FROM generate_series(1, 20000) AS r (v)", 8);
    assert_eq!(sorted_rows(&coordinator, sum).unwrap(), ["20000|200010000|20000"]);
    run("DROP TABLE t", 4);
    for node in &cluster.nodes {
        let snapshot = node.database().snapshot().unwrap();
        let left = snapshot.catalog().tables.iter().filter(|table| table.name.starts_with('t'));
        assert_eq!(left.count(), 0, "tables of {} are left", node.name());
    }
}

/// Nodes of a release that does not know requests for several fragments.
struct Earlier(Arc<dyn Peers>);

impl Peers for Earlier {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        match request.request {
            Request::AppendAll { .. } => Err(not_here("it is no message").with_sqlstate("08P01")),
            _ => self.0.call(node, request, rows),
        }
    }
}

#[test]
fn nodes_of_an_earlier_release_get_one_request_for_each_fragment() {
    let cluster = Cluster::reached_by(2, |wires| Arc::new(Earlier(wires.clone())));
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 40 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT v, v FROM generate_series(1, 1000) AS r (v)").unwrap();
    coordinator.execute("UPDATE t SET v = 1 WHERE k <= 500").unwrap();
    let sum = "SELECT count(*), sum(v) FROM t";
    for node in 0..2 {
        assert_eq!(sorted_rows(&cluster.on(node), sum).unwrap(), ["1000|375750"], "node {node}");
    }
    let in_sync = "SELECT count(*) FROM hypostyle_cluster.replica WHERE in_sync";
    assert_eq!(sorted_rows(&coordinator, in_sync).unwrap(), ["80"]);
}
