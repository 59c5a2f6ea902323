//! A coordinator that is away is replaced by another node, without anybody saying so.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time within which a coordinator is replaced.
const REPLACED: Duration = Duration::from_secs(30);

/// How often nodes look whether the coordinator is there.
const TICK: Duration = Duration::from_millis(500);

fn prepare(cluster: &Cluster) {
    let made = "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2";
    cluster.on(0).execute(made).unwrap();
    cluster.on(0).execute("INSERT INTO t SELECT x FROM generate_series(1, 100) AS r (x)").unwrap();
}

#[test]
fn a_coordinator_that_a_majority_misses_is_replaced_once() {
    let cluster = Cluster::new(3);
    prepare(&cluster);
    let watch = || {
        cluster.nodes[1].watch_coordinator(true);
        // Failover is off on the third, which tells what it misses all the same.
        cluster.nodes[2].watch_coordinator(false);
    };
    watch();
    let term = cluster.nodes[1].catalog().unwrap().term;
    // Nobody reads on the others, so that they do not ask for what they have missed.
    cluster.nodes.iter().for_each(|node| node.doubt());
    cluster.cut(0);
    let since = Instant::now();
    while !cluster.nodes[1].coordinates() {
        assert!(since.elapsed() < REPLACED, "the coordinator is not replaced");
        sleep(TICK);
        watch();
    }
    assert!(!cluster.nodes[2].coordinates());
    let known = cluster.nodes[2].catalog().unwrap();
    assert_eq!((known.coordinator, known.term > term), (cluster.nodes[1].id(), true));
    for (number, node) in [1, 2].into_iter().enumerate() {
        cluster.on(node).execute("INSERT INTO t VALUES (0)").unwrap();
        let count = sorted_rows(&cluster.on(node), "SELECT count(*) FROM t").unwrap();
        assert_eq!(count, [(101 + number).to_string()]);
    }
    // The one before cannot write any more, and has the new one do it.
    cluster.mend(0);
    cluster.on(0).execute("INSERT INTO t VALUES (0)").unwrap();
    assert!(!cluster.nodes[0].coordinates());
    cluster.nodes[1].look_after();
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(k) FROM t"), vec![vec!["103|5050"]; 3]);
    // Nobody misses the new one.
    let term = cluster.nodes[1].catalog().unwrap().term;
    for _ in 0..3 {
        cluster.nodes.iter().for_each(|node| node.watch_coordinator(true));
    }
    assert_eq!(cluster.nodes[2].catalog().unwrap().term, term);
}

#[test]
fn a_node_that_is_cut_off_begins_no_term() {
    let cluster = Cluster::new(3);
    prepare(&cluster);
    let term = cluster.nodes[0].catalog().unwrap().term;
    // The third node reaches nobody. It waits longer than it does before it asks the others.
    cluster.nodes[2].watch_coordinator(true);
    cluster.cut(0);
    cluster.cut(1);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(20) {
        cluster.nodes[2].watch_coordinator(true);
        sleep(TICK);
    }
    assert_eq!(failure(&cluster.on(2), "INSERT INTO t VALUES (0)").sqlstate(), "57P03");
    cluster.mend(0);
    cluster.mend(1);
    // The second has heard the coordinator all the time, and says so.
    cluster.nodes[1].watch_coordinator(true);
    cluster.nodes[2].watch_coordinator(true);
    cluster.on(0).execute("INSERT INTO t VALUES (0)").unwrap();
    cluster.on(2).execute("INSERT INTO t VALUES (0)").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["102"]; 3]);
    assert_eq!(cluster.nodes[2].catalog().unwrap().term, term);
}

#[test]
fn nodes_that_miss_the_coordinator_at_once_agree_on_one() {
    let cluster = Cluster::new(3);
    prepare(&cluster);
    let others = &cluster.nodes[1..];
    others.iter().for_each(|node| node.watch_coordinator(true));
    cluster.cut(0);
    let since = Instant::now();
    std::thread::scope(|scope| {
        for node in others {
            scope.spawn(move || {
                while !others.iter().any(|node| node.coordinates()) {
                    assert!(since.elapsed() < REPLACED, "the coordinator is not replaced");
                    sleep(TICK);
                    node.watch_coordinator(true);
                }
            });
        }
    });
    for node in [1, 2] {
        // The other one may have begun a term, and given it up.
        while let Err(error) = cluster.on(node).execute("INSERT INTO t VALUES (0)") {
            assert!(["57P03", "40001", "25006"].contains(&error.sqlstate()), "{error}");
            assert!(since.elapsed() < REPLACED, "{error}");
            sleep(TICK);
        }
    }
    let coordinators: Vec<_> = others.iter().map(|node| node.catalog().unwrap().coordinator).collect();
    assert_eq!(coordinators[0], coordinators[1]);
    assert_eq!(others.iter().filter(|node| node.coordinates()).count(), 1);
    for node in [1, 2] {
        assert_eq!(sorted_rows(&cluster.on(node), "SELECT count(*) FROM t").unwrap(), ["102"]);
    }
}

#[test]
fn a_coordinator_that_was_replaced_says_nothing_of_before() {
    let cluster = Cluster::new(3);
    prepare(&cluster);
    // Nobody reaches it, so that it does not hear of the next one.
    cluster.cut(0);
    cluster.nodes[1].promote().unwrap();
    cluster.on(1).execute("INSERT INTO t VALUES (1000), (1001)").unwrap();
    assert!(cluster.nodes[0].coordinates());
    let old = cluster.on(0);
    assert_eq!(old.execute("DELETE FROM t WHERE k = 1000").unwrap().rows_affected(), Some(1));
    assert!(!cluster.nodes[0].coordinates());
    cluster.mend(0);
    cluster.nodes[1].look_after();
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["101"]; 3]);
    // A transaction that has found nothing in the state of its beginning is told so.
    cluster.cut(1);
    let old = cluster.on(1);
    old.execute("BEGIN").unwrap();
    assert_eq!(old.execute("DELETE FROM t WHERE k = 2000").unwrap().rows_affected(), Some(0));
    cluster.nodes[2].promote().unwrap();
    cluster.on(2).execute("INSERT INTO t VALUES (2000)").unwrap();
    assert_eq!(failure(&old, "COMMIT").sqlstate(), "40001");
    assert_eq!(old.execute("DELETE FROM t WHERE k = 2000").unwrap().rows_affected(), Some(1));
    cluster.mend(1);
    cluster.nodes[2].look_after();
    // Who asks for it reads what was published, of whomever it was.
    cluster.cut(2);
    cluster.nodes[0].promote().unwrap();
    cluster.on(0).execute("INSERT INTO t VALUES (3000)").unwrap();
    let old = cluster.on(2);
    old.execute("SET cluster_epoch = latest").unwrap();
    assert_eq!(sorted_rows(&old, "SELECT count(*) FROM t").unwrap(), ["102"]);
    cluster.mend(2);
    cluster.nodes[0].look_after();
    // Without a majority, nobody knows that there are no rows.
    cluster.cut(1);
    cluster.cut(2);
    for sql in ["UPDATE t SET k = 1 WHERE false", "DELETE FROM t WHERE false", "SET cluster_epoch = latest"] {
        assert_eq!(failure(&cluster.on(0), sql).sqlstate(), "57P03", "{sql}");
    }
    assert_eq!(sorted_rows(&cluster.on(0), "SELECT 1").unwrap(), ["1"]);
}
