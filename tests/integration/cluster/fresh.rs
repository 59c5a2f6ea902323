//! What a node that was away answers first.

use super::{Cluster, backup};
use crate::tpch::sorted_rows;
use hypostyle::cluster::repair::{Care, look_after};
use hypostyle::{Database, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

const READ: &str = "SELECT count(*), sum(v) FROM t";

/// Starts a node again, in its directory.
fn restart(cluster: &mut Cluster, node: usize, directory: &Path) {
    let name = cluster.nodes[node].name().to_string();
    let address = cluster.nodes[node].address().to_string();
    cluster.nodes.remove(node);
    cluster.databases.remove(node).close().unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(directory.join(&name), options).unwrap();
    let started = database.join_cluster(&name, &address, cluster.wires.clone()).unwrap();
    cluster.wires.nodes.lock().unwrap().insert(address, Arc::downgrade(&started));
    cluster.databases.insert(node, database);
    cluster.nodes.insert(node, started);
}

#[test]
fn a_node_that_was_away_learns_what_it_has_missed_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = backup::new_on_disk(directory.path());
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT x, 0 FROM generate_series(1, 60) AS r (x)").unwrap();
    let changes = [
        ("INSERT INTO t SELECT x, 1 FROM generate_series(61, 90) AS r (x)", "90|30"),
        ("UPDATE t SET v = 2", "90|180"),
        ("DELETE FROM t WHERE k > 60", "60|120"),
        ("ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 5", "60|120"),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        cluster.cut(2);
        coordinator.execute(change).unwrap();
        cluster.mend(2);
        if number % 2 == 0 {
            restart(&mut cluster, 2, directory.path());
        } else {
            // As one that was stopped and goes on.
            cluster.nodes[2].doubt();
        }
        assert_eq!(sorted_rows(&cluster.on(2), READ).unwrap(), [expected], "{change}");
        cluster.nodes[0].look_after();
    }
    assert_eq!(sorted_rows(&cluster.on(2), "SELECT sum(w) FROM t").unwrap(), ["300"]);
    // Without a majority, it reads what it knows: at once, since it knows that nobody is there.
    cluster.cut(2);
    coordinator.execute("UPDATE t SET v = 3").unwrap();
    cluster.cut(0);
    cluster.cut(1);
    cluster.nodes[2].doubt();
    let lone = cluster.on(2);
    assert_eq!(sorted_rows(&lone, "SELECT count(*) FROM hypostyle_cluster.node").unwrap(), ["3"]);
    for node in 0..3 {
        cluster.mend(node);
    }
    cluster.nodes[2].doubt();
    assert_eq!(sorted_rows(&lone, READ).unwrap(), ["60|180"]);
}

#[test]
fn what_a_majority_has_stored_is_read_after_all_who_knew_it_to_be_published_have_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = backup::new_on_disk(directory.path());
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 3")
        .unwrap();
    for key in 1..=3 {
        coordinator.execute(&format!("INSERT INTO t VALUES ({key}, 1)")).unwrap();
        // The coordinator alone has stored that the row is published.
        cluster.cut(0);
        for node in [1, 2] {
            restart(&mut cluster, node, directory.path());
        }
        for node in [1, 2] {
            let expected = format!("{key}|{key}");
            assert_eq!(sorted_rows(&cluster.on(node), READ).unwrap(), [expected], "{key} on node {node}");
        }
        cluster.mend(0);
    }
    assert_eq!(sorted_rows(&coordinator, READ).unwrap(), ["3|3"]);
}

/// Makes a cluster of which the coordinator alone has stored that the second row is published.
fn with_two_rows(directory: &Path) -> Cluster {
    let cluster = backup::new_on_disk(directory);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 3")
        .unwrap();
    coordinator.execute("INSERT INTO t VALUES (1, 1)").unwrap();
    coordinator.execute("INSERT INTO t VALUES (2, 1)").unwrap();
    assert_eq!(sorted_rows(&cluster.on(1), READ).unwrap(), ["2|2"]);
    cluster
}

#[test]
fn a_node_that_begins_alone_learns_what_it_had_shown_when_another_one_comes() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = with_two_rows(directory.path());
    // All nodes end at once.
    cluster.cut(0);
    cluster.cut(2);
    restart(&mut cluster, 1, directory.path());
    let lone = cluster.on(1);
    assert_eq!(sorted_rows(&lone, READ).unwrap(), ["1|1"], "nobody is there to ask");
    restart(&mut cluster, 2, directory.path());
    cluster.mend(2);
    let since = Instant::now();
    while sorted_rows(&lone, READ).unwrap() != ["2|2"] {
        assert!(since.elapsed() < Duration::from_secs(20), "the node does not ask again");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_node_on_which_nobody_reads_learns_what_it_had_shown() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = with_two_rows(directory.path());
    let shown = cluster.nodes[1].catalog().unwrap().epoch;
    cluster.cut(0);
    cluster.cut(2);
    restart(&mut cluster, 1, directory.path());
    let node = cluster.nodes[1].clone();
    let epoch = || node.catalog().unwrap().epoch;
    assert!(epoch() < shown, "it has stored that the row is published");
    look_after(&node, Care { failover: false, lost_after: None }).unwrap();
    restart(&mut cluster, 2, directory.path());
    cluster.mend(2);
    let since = Instant::now();
    while epoch() < shown {
        assert!(since.elapsed() < Duration::from_secs(20), "the node does not ask");
        sleep(Duration::from_millis(100));
    }
}
