//! What a node tells of itself and of the others: its metrics, and `hypostyle_cluster.peer`.

use super::failure;
use crate::served::{Served, Setup, until};
use crate::server::{http_get, users};
use crate::tpch::sorted_rows;
use hypostyle::cluster::node::Node;
use hypostyle_node::RemotePeers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Serves nodes, which call each other over TCP.
pub(super) fn nodes(count: usize) -> (Vec<Served>, Vec<Arc<Node>>) {
    let serve = |number: usize| {
        let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
        let peers = RemotePeers::new("node", Some("n".into()), None);
        let name = format!("n{number}");
        let node = served.database.join_cluster(&name, &served.tcp.to_string(), Arc::new(peers)).unwrap();
        (served, node)
    };
    let (served, nodes): (Vec<Served>, Vec<Arc<Node>>) = (1..=count).map(serve).unzip();
    served.iter().for_each(Served::give_door);
    nodes[0].found_cluster().unwrap();
    let coordinator = served[0].database.connect().unwrap();
    for node in &nodes[1..] {
        let (name, address) = (node.name(), node.address());
        coordinator.execute(&format!("ALTER CLUSTER ADD NODE {name} ADDRESS '{address}'")).unwrap();
    }
    (served, nodes)
}

/// Returns the value of a metric of the cluster; labels are part of its name.
pub(super) fn metric(served: &Served, name: &str) -> f64 {
    let metrics = http_get(served.http, "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("hypostyle_cluster_{name} ")));
    value.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).parse().unwrap()
}

#[test]
fn a_node_measures_itself_and_the_others() {
    let (mut served, nodes) = nodes(3);
    let coordinator = served[0].database.connect().unwrap();
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v VARCHAR) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    let requests = |served: &[Served]| metric(&served[0], "peer_requests_total{peer=\"n3\"}");
    let [sent, received] = ["peer_bytes_sent_total{peer=\"n3\"}", "peer_bytes_received_total{peer=\"n3\"}"];
    let before = (requests(&served), metric(&served[0], sent), metric(&served[0], received));
    coordinator
        .execute("INSERT INTO t SELECT v, repeat('x', 100) || v FROM generate_series(1, 6000) AS r (v)")
        .unwrap();
    assert!(requests(&served) > before.0);
    // Each node has four of the twelve replicas, a third of all rows twice. The texts are encoded.
    let bytes = metric(&served[0], sent) - before.1;
    assert!(bytes > 15_000.0, "{bytes} bytes for 4000 rows");
    let rows = sorted_rows(&coordinator, "SELECT k, v FROM t ORDER BY k").unwrap();
    assert_eq!(rows.len(), 6000);
    let bytes = metric(&served[0], received) - before.2;
    assert!(bytes > 10_000.0, "{bytes} bytes for 2000 rows");
    let from_others = ["n2", "n3"].map(|node| {
        assert_eq!(metric(&served[0], &format!("peer_reachable{{peer=\"{node}\"}}")), 1.0);
        assert!(metric(&served[0], &format!("peer_wait_seconds_total{{peer=\"{node}\"}}")) > 0.0);
        assert!(metric(&served[0], &format!("peer_idle_connections{{peer=\"{node}\"}}")) >= 1.0);
        metric(&served[0], &format!("peer_rows_received_total{{peer=\"{node}\"}}"))
    });
    let own = "SELECT sum(rows) FROM hypostyle_cluster.replica WHERE preferred AND node = 'n1'";
    let own: f64 = sorted_rows(&coordinator, own).unwrap()[0].parse().unwrap();
    assert_eq!(from_others.iter().sum::<f64>() + own, 6000.0);
    for (number, of_node) in served.iter().enumerate() {
        let catalog = nodes[number].catalog().unwrap();
        assert_eq!(metric(of_node, "epoch"), catalog.epoch.0 as f64);
        assert_eq!(metric(of_node, "term"), catalog.term.0 as f64);
        assert_eq!(metric(of_node, "coordinates"), f64::from(u8::from(number == 0)));
        assert_eq!((metric(of_node, "replicas"), metric(of_node, "replicas_behind")), (4.0, 0.0));
        let of_others = f64::from(u8::from(number > 0));
        assert_eq!(metric(of_node, "served_total{request=\"task\"}"), of_others);
        // The rows of four replicas travel together.
        assert_eq!(metric(of_node, "served_total{request=\"append\"}"), of_others);
    }
    // Nodes are told from clients, of which there are none.
    let sessions = http_get(served[1].http, "/metrics");
    assert!(sessions.contains("hypostyle_sessions{of=\"client\"} 0\n"), "{sessions}");
    assert!(!sessions.contains("hypostyle_sessions{of=\"node\"} 0\n"), "{sessions}");
    served[2].stop();
    assert_eq!(sorted_rows(&coordinator, "SELECT count(*) FROM t").unwrap(), ["6000"]);
    assert!(metric(&served[0], "peer_failures_total{peer=\"n3\",reason=\"unreachable\"}") >= 1.0);
    assert_eq!(metric(&served[0], "peer_failures_total{peer=\"n2\",reason=\"unreachable\"}"), 0.0);
    assert_eq!(metric(&served[0], "peer_reachable{peer=\"n3\"}"), 0.0);
    coordinator.execute("INSERT INTO t SELECT v, 'y' FROM generate_series(1, 100) AS r (v)").unwrap();
    let behind = "SELECT count(*) FROM hypostyle_cluster.replica WHERE NOT in_sync AND node = 'n3'";
    assert_ne!(sorted_rows(&coordinator, behind).unwrap(), ["0"]);
    let shown =
        "SELECT peer, reachable, requests > 0, unreachable > 0, bytes_sent > 15000, bytes_received > 10000,
        rows_received > 0, seconds_waited > 0 FROM hypostyle_cluster.peer";
    assert_eq!(
        sorted_rows(&coordinator, shown).unwrap(),
        ["n2|true|true|false|true|true|true|true", "n3|false|true|true|true|true|true|true"]
    );
}

#[test]
fn a_server_that_is_no_node_tells_of_no_cluster() {
    let served = Served::in_memory();
    let metrics = http_get(served.http, "/metrics");
    assert!(
        metrics.contains("hypostyle_sessions{of=\"client\"} 0") && !metrics.contains("cluster"),
        "{metrics}"
    );
}

/// Returns the status line of an answer, and its text.
fn answer(served: &Served, path: &str) -> (String, String) {
    let text = http_get(served.http, path);
    let (status, body) = (text.lines().next(), text.lines().next_back());
    (status.unwrap_or_default().to_string(), body.unwrap_or_default().to_string())
}

#[test]
fn a_node_is_ready_when_clients_may_come_and_in_sync_when_the_next_may_go() {
    let alone = Served::new(Setup { users: Some(users()), ..Setup::default() });
    let peers = RemotePeers::new("node", Some("n".into()), None);
    let _node = alone.database.join_cluster("n", &alone.tcp.to_string(), Arc::new(peers)).unwrap();
    for path in ["/ready", "/in-sync"] {
        let (status, why) = answer(&alone, path);
        assert!(status.contains("503") && why.contains("not part of a cluster yet"), "{status} {why}");
    }
    let (mut served, nodes) = nodes(3);
    let coordinator = served[0].database.connect().unwrap();
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 3")
        .unwrap();
    for of_node in &served {
        assert!(answer(of_node, "/ready").0.contains("200"));
        assert!(answer(of_node, "/in-sync").0.contains("200"));
    }
    // A replica that has missed rows is behind until it has them. The node is ready all the same.
    let behind = {
        served[2].stop();
        coordinator.execute("INSERT INTO t SELECT v FROM generate_series(1, 600) AS r (v)").unwrap();
        nodes[2].check_in_sync()
    };
    assert!(behind.is_ok(), "it has not heard of the rows: {behind:?}");
    nodes[2].doubt();
    let error = nodes[2].check_in_sync().unwrap_err();
    assert!(error.message().contains("6 of its 6 replicas are not in sync"), "{error}");
    nodes[2].check_ready().unwrap();
    let state = "ALTER CLUSTER DRAIN NODE n2";
    let _may_fail = coordinator.execute(state);
    let error = nodes[1].check_ready().unwrap_err();
    assert!(error.message().contains("moved away"), "{error}");
}

#[test]
fn a_coordinator_that_drains_hands_over() {
    let (served, nodes) = nodes(3);
    let coordinator = served[0].database.connect().unwrap();
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    // Who does not coordinate has nothing to hand over.
    nodes[1].hand_over().unwrap();
    assert!(nodes[0].coordinates());
    served[0].drain();
    nodes[0].hand_over().unwrap();
    assert!(!nodes[0].coordinates() && nodes[1].coordinates());
    // It answers the others as before: all replicas get the rows.
    let next = served[1].database.connect().unwrap();
    next.execute("INSERT INTO t SELECT v FROM generate_series(1, 600) AS r (v)").unwrap();
    let in_sync = "SELECT count(*) FROM hypostyle_cluster.replica WHERE in_sync";
    assert_eq!(sorted_rows(&next, in_sync).unwrap(), ["12"]);
    // One that is gone is left out, and without another one there is an error.
    drop(served);
    assert!(nodes[1].hand_over().is_err());
}

#[test]
fn a_node_is_drained_by_a_statement() {
    let (served, nodes) = nodes(3);
    let [first, other] = [0, 1].map(|node| served[node].database.connect().unwrap());
    let drain = "ALTER CLUSTER DRAIN CLIENTS OF NODE n1";
    // It waits for who runs it as well.
    let error = failure(&first, drain);
    assert!(error.message().contains("connect to another node"), "{error}");
    assert_eq!(failure(&other, "ALTER CLUSTER DRAIN CLIENTS OF NODE n9").sqlstate(), "42704");
    let client = || served[0].connect(&format!("hypostyle://rita:r@{}/", served[0].tcp), true);
    let (idle, busy) = (client().unwrap(), client().unwrap());
    busy.execute("BEGIN").unwrap();
    let is_drained = &AtomicBool::new(false);
    let waits = served[1].database.connect().unwrap();
    thread::scope(|scope| {
        let drained = scope.spawn(move || {
            let drained = waits.execute(drain).map(drop);
            is_drained.store(true, Ordering::SeqCst);
            drained
        });
        until("another node coordinates", || nodes[1].coordinates() || nodes[2].coordinates());
        assert_eq!(client().err().unwrap().sqlstate(), "57P03");
        until("who is idle is let go", || idle.execute("SELECT 1").is_err());
        // Who has a transaction is waited for, and the node that coordinates tells how many there are.
        let coordinator = [1, 2].into_iter().find(|node| nodes[*node].coordinates()).unwrap();
        nodes[coordinator].look_after();
        let clients = "SELECT clients FROM hypostyle_cluster.node WHERE node = 'n1'";
        let told = served[coordinator].database.connect().unwrap();
        until("the number of clients is told", || {
            nodes[coordinator].look_after();
            sorted_rows(&told, clients).unwrap() == ["1"]
        });
        assert_eq!(sorted_rows(&busy, "SELECT 1").unwrap(), ["1"]);
        assert!(!is_drained.load(Ordering::SeqCst));
        busy.execute("COMMIT").unwrap();
        drained.join().unwrap().unwrap();
    });
    // Again, it ends at once. Other nodes are answered as before.
    other.execute(drain).unwrap();
    assert!(!nodes[0].coordinates());
    other.execute("CREATE TABLE t (k BIGINT) REPLICATED").unwrap();
    assert_eq!(sorted_rows(&other, "SELECT count(*) FROM hypostyle_cluster.replica").unwrap(), ["3"]);
}
