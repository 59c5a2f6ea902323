//! Statements that write to many fragments at once.

use super::{Cluster, metrics};
use crate::tpch::sorted_rows;
use hypostyle::Result;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::{Answer, Peers, RowReader, not_here};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

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
    let sum = "SELECT count(*), sum(v) FROM t";
    for node in 0..3 {
        assert_eq!(sorted_rows(&cluster.on(node), sum).unwrap(), ["40000|400020000"], "node {node}");
    }
    run("TRUNCATE t", 16);
    assert_eq!(sorted_rows(&coordinator, "SELECT count(*) FROM t").unwrap(), ["0"]);
    run(insert, 8);
    assert_eq!(sorted_rows(&coordinator, sum).unwrap(), ["20000|200010000"]);
    run("DROP TABLE t", 4);
    run("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 60 FRAGMENTS REPLICAS 2", 4);
    run(insert, 8);
    run("ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 7", 4);
    assert_eq!(sorted_rows(&cluster.on(1), "SELECT count(*), sum(w) FROM t").unwrap(), ["20000|140000"]);
    run("DROP TABLE t", 4);
    for node in &cluster.nodes {
        let snapshot = node.database().snapshot().unwrap();
        let left = snapshot.catalog().tables.iter().filter(|table| table.name.starts_with('t'));
        assert_eq!(left.count(), 0, "tables of {} are left", node.name());
    }
}

/// Nodes of a release that knows neither requests for several fragments nor differences of catalogs.
struct Earlier(Arc<dyn Peers>);

impl Peers for Earlier {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        match request.request {
            Request::AppendAll { .. } | Request::Update { .. } | Request::Store(_) => {
                Err(not_here("it is no message").with_sqlstate("08P01"))
            }
            _ => self.0.call(node, request, rows),
        }
    }
}

#[test]
fn nodes_of_an_earlier_release_get_whole_catalogs_and_a_request_for_each_fragment() {
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

#[test]
fn a_row_costs_what_it_changes_of_a_large_catalog() {
    let (served, nodes) = metrics::nodes(3);
    let coordinator = served[0].database.connect().unwrap();
    coordinator
        .execute("CREATE TABLE many (k BIGINT) PARTITION BY HASH (k) INTO 4096 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 3")
        .unwrap();
    let insert = |value: u64| {
        let inserted = coordinator.execute(&format!("INSERT INTO t VALUES ({value}, {value})")).unwrap();
        assert_eq!(inserted.rows_affected(), Some(1));
    };
    insert(0);
    let sent = |peer: &str| metrics::metric(&served[0], &format!("peer_bytes_sent_total{{peer=\"{peer}\"}}"));
    let before = sent("n2") + sent("n3");
    (1..=20).for_each(insert);
    let bytes = (sent("n2") + sent("n3") - before) / 20.0;
    assert!(bytes < 20_000.0, "{bytes} bytes for a row");
    for (served, node) in served.iter().zip(&nodes) {
        let connection = served.database.connect().unwrap();
        let sum = sorted_rows(&connection, "SELECT count(*), sum(v) FROM t").unwrap();
        assert_eq!(sum, ["21|210"], "{}", node.name());
        assert!(node.catalog().unwrap().encode().unwrap().len() > 500_000);
    }
}

#[test]
fn writers_of_several_tables_wait_for_each_other_together() {
    let cluster = Cluster::new(3);
    let tables: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    for table in &tables {
        let create =
            format!("CREATE TABLE {table} (k BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2");
        cluster.on(0).execute(&create).unwrap();
    }
    std::thread::scope(|scope| {
        for table in &tables {
            let connection = cluster.on(0);
            scope.spawn(move || {
                for value in 0..20 {
                    connection.execute(&format!("INSERT INTO {table} VALUES ({value})")).unwrap();
                }
            });
        }
    });
    for node in 0..3 {
        for table in &tables {
            let count = format!("SELECT count(*), sum(k) FROM {table}");
            assert_eq!(sorted_rows(&cluster.on(node), &count).unwrap(), ["20|190"], "{table}, node {node}");
        }
    }
}

#[test]
fn a_node_that_was_away_gets_what_it_has_missed() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2")
        .unwrap();
    cluster.cut(2);
    coordinator.execute("INSERT INTO t SELECT v FROM generate_series(1, 100) AS r (v)").unwrap();
    coordinator.execute("CREATE TABLE other (k BIGINT) REPLICATED").unwrap();
    coordinator.execute("DROP TABLE other").unwrap();
    cluster.mend(2);
    coordinator.execute("INSERT INTO t SELECT v FROM generate_series(101, 200) AS r (v)").unwrap();
    let epochs: Vec<_> = cluster.nodes.iter().map(|node| node.catalog().unwrap().epoch).collect();
    assert_eq!(epochs, [epochs[0]; 3]);
    let catalogs: Vec<_> = cluster.nodes.iter().map(|node| node.catalog().unwrap()).collect();
    assert!(catalogs.iter().all(|catalog| *catalog == catalogs[0]));
    let sum = "SELECT count(*), sum(k) FROM t";
    assert_eq!(sorted_rows(&cluster.on(2), sum).unwrap(), ["200|20100"]);
}

/// Counts the requests to each node, by their kinds.
struct Counted {
    wires: Arc<dyn Peers>,
    requests: Mutex<BTreeMap<(String, &'static str), usize>>,
}

impl Counted {
    /// Returns how often each node was asked since the last time.
    fn take(&self) -> BTreeMap<(String, &'static str), usize> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

impl Peers for Counted {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let kind = match &request.request {
            Request::Run(_) | Request::Stage(_) | Request::Rows(_) => "part",
            Request::Append { .. } | Request::AppendAll { .. } | Request::Update { .. } => "append",
            Request::Ask(_) | Request::Store(_) => "catalog",
            _ => "other",
        };
        *self.requests.lock().unwrap().entry((node.name.clone(), kind)).or_default() += 1;
        self.wires.call(node, request, rows)
    }
}

/// Many fragments of a table, with a replica of each on all nodes: what a statement asks of a node does not
/// grow with them. There may be 4,096, which have too many files in memory for one process; those of nodes
/// with disks are in `crates/cli/tests/cluster/many.rs`.
#[test]
fn fragments_with_replicas_on_all_nodes_are_loaded_and_queried() {
    let made = OnceCell::new();
    let cluster = Cluster::reached_by(3, |wires| {
        made.get_or_init(|| Arc::new(Counted { wires: wires.clone(), requests: Mutex::default() })).clone()
    });
    let counted: Arc<Counted> = made.into_inner().unwrap();
    let coordinator = cluster.on(0);
    let run = |sql: &str, kinds: &[(&str, usize)]| {
        counted.take();
        let result = coordinator.execute(sql).unwrap();
        if result.is_query() {
            result.record_batches().unwrap();
        }
        let asked = counted.take();
        for ((node, kind), count) in &asked {
            let most = kinds.iter().find(|(of, _)| of == kind).map_or(0, |(_, most)| *most);
            assert!(*kind == "other" || *count <= most, "{sql}: {count} requests of \"{kind}\" to {node}");
        }
        let is_there = |kind: &str| asked.keys().any(|(_, of)| *of == kind);
        assert!(kinds.iter().all(|(kind, _)| *kind == "part" || is_there(kind)), "{sql}: {asked:?}");
    };
    // Two changes are stored and published. A node that is slow is asked again.
    let catalog = ("catalog", 16);
    run(
        "CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 512 FRAGMENTS REPLICAS 3",
        &[catalog],
    );
    for first in [1, 8193] {
        let rows = format!("SELECT x, 1 FROM generate_series({first}, {}) AS r (x)", first + 8191);
        run(&format!("INSERT INTO t {rows}"), &[catalog, ("append", 2)]);
    }
    run("SELECT count(*), sum(k) FROM t", &[("part", 1)]);
    run("SELECT k % 7, count(*) FROM t GROUP BY 1", &[("part", 1)]);
    run("UPDATE t SET n = 2 WHERE k % 64 = 0", &[catalog, ("append", 2), ("part", 2)]);
    run("DELETE FROM t WHERE k % 64 = 1", &[catalog, ("append", 2), ("part", 2)]);
    let sum = "SELECT count(*), sum(k), sum(n) FROM t";
    let expected = ["16128|132136704|16384"];
    for node in 0..3 {
        assert_eq!(sorted_rows(&cluster.on(node), sum).unwrap(), expected, "node {node}");
        let bytes = cluster.nodes[node].catalog().unwrap().encode().unwrap().len();
        assert!(bytes < 4 << 20, "{bytes} bytes of a catalog");
    }
    let replicas = "SELECT count(*), count(DISTINCT node) FROM hypostyle_cluster.replica WHERE in_sync";
    assert_eq!(sorted_rows(&coordinator, replicas).unwrap(), ["1536|3"]);
    cluster.cut(1);
    assert_eq!(sorted_rows(&coordinator, sum).unwrap(), expected);
    assert_eq!(sorted_rows(&coordinator, "SELECT n FROM t WHERE k = 4096").unwrap(), ["2"]);
    cluster.mend(1);
    run("DROP TABLE t", &[catalog]);
}
