//! Nodes that stay away, and what they had.

use super::{Cluster, Wires, failure, on_each};
use crate::served::until;
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::cluster::repair::{Care, look_after};
use hypostyle::{ErrorKind, Result};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const REPLICAS: &str = "SELECT \"table\", count(*), count(DISTINCT node), bool_and(in_sync) FROM \
                        hypostyle_cluster.replica GROUP BY \"table\"";

const STATE: &str = "SELECT state FROM hypostyle_cluster.node WHERE node = 'n4'";

const READ: &str = "SELECT count(*), sum(t.k), count(d.k) FROM t JOIN d ON t.k % 50 = d.k";

#[test]
fn fragments_of_a_node_that_stays_away_are_copied_elsewhere() {
    let cluster = Cluster::new(4);
    let coordinator = cluster.on(0);
    let partitioned = "PARTITION BY HASH (k) INTO 12 FRAGMENTS REPLICAS 2";
    coordinator.execute(&format!("CREATE TABLE t (k BIGINT) {partitioned}")).unwrap();
    coordinator.execute("CREATE TABLE d (k BIGINT) REPLICATED").unwrap();
    coordinator.execute("INSERT INTO t SELECT x FROM generate_series(1, 5000) AS r (x)").unwrap();
    coordinator.execute("INSERT INTO d SELECT x FROM generate_series(0, 49) AS r (x)").unwrap();
    let expected = sorted_rows(&coordinator, READ).unwrap();
    cluster.cut(3);
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::from_secs(3600)).unwrap();
    assert_eq!(sorted_rows(&coordinator, STATE).unwrap(), ["active"], "it may still come back");
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    assert_eq!(sorted_rows(&coordinator, STATE).unwrap(), ["lost"]);
    assert_eq!(sorted_rows(&coordinator, REPLICAS).unwrap(), ["d|3|3|true", "t|24|3|true"]);
    // Another one may go, and nothing is missing.
    cluster.cut(2);
    assert_eq!(sorted_rows(&coordinator, READ).unwrap(), expected);
    cluster.mend(2);
    coordinator.execute("UPDATE t SET k = k + 50 WHERE k <= 10").unwrap();
    coordinator.execute("CREATE TABLE u (k BIGINT) REPLICATED").unwrap();
    coordinator.execute("INSERT INTO u VALUES (1)").unwrap();
    let expected = sorted_rows(&coordinator, READ).unwrap();
    // It is back: it gets what each node has, and the fragments that are short of replicas.
    cluster.mend(3);
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    assert_eq!(sorted_rows(&coordinator, STATE).unwrap(), ["active"]);
    assert_eq!(on_each(&cluster, READ), vec![expected.clone(); 4]);
    let replicas = sorted_rows(&coordinator, REPLICAS).unwrap();
    assert!(
        replicas.contains(&"d|4|4|true".into()) && replicas.contains(&"u|4|4|true".into()),
        "{replicas:?}"
    );
    coordinator.execute("ALTER CLUSTER REBALANCE").unwrap();
    let replicas = sorted_rows(&coordinator, REPLICAS).unwrap();
    assert!(replicas.contains(&"t|24|4|true".into()), "{replicas:?}");
    assert_eq!(on_each(&cluster, READ), vec![expected; 4]);
}

#[test]
fn nobody_is_lost_to_a_coordinator_that_is_cut_off() {
    let cluster = Cluster::new(3);
    let before = cluster.nodes[0].catalog().unwrap();
    cluster.cut(1);
    cluster.cut(2);
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    assert_eq!(cluster.nodes[0].catalog().unwrap(), before);
    // Two of three are enough for tables of three replicas, too.
    cluster.mend(1);
    let made = "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 3";
    cluster.on(0).execute(made).unwrap();
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    assert_eq!(sorted_rows(&cluster.on(0), REPLICAS).unwrap(), ["t|6|2|true"]);
}

#[test]
fn a_lost_node_is_not_waited_for_and_has_a_vote() {
    let cluster = Cluster::new(5);
    let made = "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 3";
    cluster.on(0).execute(made).unwrap();
    cluster.cut(4);
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    // It is still one of the five.
    cluster.cut(0);
    cluster.on(1).execute("ALTER CLUSTER PROMOTE n2").unwrap();
    cluster.on(1).execute("INSERT INTO t SELECT x FROM generate_series(1, 100) AS r (x)").unwrap();
    let states = "SELECT node, state FROM hypostyle_cluster.node WHERE state <> 'active'";
    assert_eq!(sorted_rows(&cluster.on(1), states).unwrap(), ["n5|lost"]);
    cluster.cut(1);
    let error = failure(&cluster.on(2), "ALTER CLUSTER PROMOTE n3");
    assert_eq!(error.sqlstate(), "57P03", "{error}");
    let said = error.message();
    assert!(said.contains("3 of 5 have to") && said.contains("lost ones (n5)"), "{said}");
    // Two of three that are left, and the lost one, are a majority.
    cluster.mend(4);
    cluster.on(2).execute("ALTER CLUSTER PROMOTE n3").unwrap();
    assert_eq!(sorted_rows(&cluster.on(3), "SELECT count(*), sum(k) FROM t").unwrap(), ["100|5050"]);
    // One that has left counts no more.
    cluster.cut(4);
    cluster.mend(0);
    cluster.nodes[2].look_after();
    cluster.on(2).execute("ALTER CLUSTER DROP NODE n5").unwrap();
    cluster.cut(3);
    let error = failure(&cluster.on(2), "ALTER CLUSTER PROMOTE n3");
    assert!(error.message().ends_with("3 of 4 have to: start more of them"), "{error}");
    cluster.mend(1);
    cluster.on(2).execute("ALTER CLUSTER PROMOTE n3").unwrap();
}

/// Nodes of which one takes rows only when it may.
struct Slow {
    wires: Arc<Wires>,
    waits: AtomicBool,
    waiting: AtomicUsize,
}

impl Peers for Slow {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        let takes_rows = matches!(request.request, Request::Append { .. } | Request::AppendAll { .. });
        if node.name == "n3" && takes_rows {
            let since = Instant::now();
            while self.waits.load(Ordering::SeqCst) && since.elapsed() < Duration::from_secs(60) {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(10));
            }
        }
        self.wires.call(node, request, rows)
    }
}

#[test]
fn nodes_are_watched_while_rows_are_copied_to_one() {
    let made = OnceCell::new();
    let cluster = Cluster::reached_by(4, |wires| {
        let (waits, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
        let peers = Arc::new(Slow { wires: wires.clone(), waits, waiting });
        made.get_or_init(|| peers).clone()
    });
    let slow: Arc<Slow> = made.into_inner().unwrap();
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2")
        .unwrap();
    cluster.cut(2);
    coordinator.execute("INSERT INTO t SELECT x FROM generate_series(1, 400) AS r (x)").unwrap();
    slow.waits.store(true, Ordering::SeqCst);
    cluster.mend(2);
    look_after(&cluster.nodes[0], Care { failover: false, lost_after: None }).unwrap();
    until("nothing is copied", || slow.waiting.load(Ordering::SeqCst) > 0);
    // Another one goes and comes back meanwhile.
    let is_there = || cluster.nodes[0].health()[&cluster.nodes[1].id()].is_reachable;
    cluster.cut(1);
    until("a node that is gone is not missed", || !is_there());
    cluster.mend(1);
    until("a node that is back is missed", is_there);
    slow.waits.store(false, Ordering::SeqCst);
    let in_sync = "SELECT bool_and(in_sync) FROM hypostyle_cluster.replica";
    until("a node does not catch up", || sorted_rows(&coordinator, in_sync).unwrap() == ["true"]);
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["400"]; 4]);
}

/// Counts how many nodes read rows of others to copy them, at the same time.
struct Counted {
    wires: Arc<Wires>,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Peers for Counted {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        if !matches!(request.request, Request::Read { .. }) {
            return self.wires.call(node, request, rows);
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep(Duration::from_millis(50));
        let answer = self.wires.call(node, request, rows);
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

#[test]
fn a_few_fragments_are_copied_at_the_same_time() {
    let made = OnceCell::new();
    let cluster = Cluster::reached_by(4, |wires| {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        made.get_or_init(|| Arc::new(Counted { wires: wires.clone(), now, most })).clone()
    });
    let counted: Arc<Counted> = made.into_inner().unwrap();
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 24 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT x FROM generate_series(1, 2400) AS r (x)").unwrap();
    coordinator.execute("ALTER CLUSTER DRAIN NODE n4").unwrap();
    let most = counted.most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most} at the same time");
    let read = "SELECT count(*), sum(k) FROM t";
    assert_eq!(on_each(&cluster, read), vec![vec!["2400|2881200"]; 4]);
    // Whoever adds a drained node again wants it to have rows.
    let state = "SELECT state, replicas > 0 FROM hypostyle_cluster.node WHERE node = 'n4'";
    assert_eq!(sorted_rows(&coordinator, state).unwrap(), ["draining|false"]);
    coordinator.execute("ALTER CLUSTER ADD NODE n4 ADDRESS 'h4:1'").unwrap();
    coordinator.execute("ALTER CLUSTER REBALANCE").unwrap();
    assert_eq!(sorted_rows(&coordinator, state).unwrap(), ["active|true"]);
    assert_eq!(on_each(&cluster, read), vec![vec!["2400|2881200"]; 4]);
}

#[test]
fn a_query_that_is_cancelled_ends_on_all_nodes() {
    let (served, _nodes) = super::metrics::nodes(3);
    let connection = served[0].database.connect().unwrap();
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS").unwrap();
    connection.execute("CREATE TABLE d (k BIGINT) REPLICATED").unwrap();
    for table in ["t", "d"] {
        let rows = format!("INSERT INTO {table} SELECT x FROM generate_series(1, 3000) AS r (x)");
        connection.execute(&rows).unwrap();
    }
    connection.execute("SET stages = off").unwrap();
    let endless = "SELECT count(*) FROM t JOIN d AS one ON t.k % 2 = one.k % 2 JOIN d AS other \
                   ON one.k % 2 = other.k % 2 WHERE (t.k + one.k + other.k) % 7919 = -1";
    let interrupting = connection.clone();
    let query = spawn(move || sorted_rows(&connection, endless).unwrap_err());
    for other in &served[1..] {
        other.await_statement("call of ");
    }
    interrupting.interrupt();
    let error = query.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    for other in &served[1..] {
        until("a node goes on with a query that nobody waits for", || other.running("call of ") == 0);
    }
}
