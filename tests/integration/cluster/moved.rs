//! Replicas that were moved away and have come back, and readers of before.

use super::{Cluster, backup, failure, on_each};
use crate::served::until;
use crate::tpch::sorted_rows;
use hypostyle::cluster::node::Node;
use hypostyle::{Database, OpenOptions};
use hypostyle_placement::NodeId;
use hypostyle_placement::catalog::Change;
use hypostyle_placement::layout::Step;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const READ: &str = "SELECT count(*), sum(n) FROM t";

impl Cluster {
    fn at(&self, id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.id() == id).unwrap()
    }

    /// Moves a replica of each fragment from a node that is not the first one to one that has none, which
    /// forgets what it had, and back.
    fn move_away_and_back(&self) -> usize {
        let coordinator = &self.nodes[0];
        let catalog = coordinator.catalog().unwrap();
        let mut moved = 0;
        for (fragment, entry) in catalog.tables[0].numbered() {
            let others = entry.replicas.iter().filter(|replica| replica.node != coordinator.id());
            let free = self.nodes.iter().find(|node| entry.replica(node.id()).is_none());
            let (Some(home), Some(away)) = (others.map(|replica| replica.node).next(), free) else {
                continue;
            };
            for (from, to) in [(home, away.id()), (away.id(), home)] {
                let copy = Step::Copy { fragment, from, to };
                let drop = Step::Drop { fragment, node: from };
                coordinator.take_steps(vec![copy, drop]).unwrap();
                let left = &self.nodes[self.at(from)];
                left.drop_leftovers(&mut BTreeMap::new(), Duration::ZERO).unwrap();
            }
            moved += 1;
        }
        moved
    }
}

#[test]
fn a_snapshot_never_has_the_rows_of_a_replica_that_came_back() {
    for (replicas, change) in [
        (1, "UPDATE t SET n = 1"),
        (2, "UPDATE t SET n = 1"),
        (2, "DELETE FROM t WHERE k <= 30; INSERT INTO t SELECT k - 30, 7 FROM t"),
    ] {
        let cluster = Cluster::new(3);
        let writer = cluster.on(0);
        writer
            .execute(&format!(
                "CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS {replicas}"
            ))
            .unwrap();
        writer.execute("INSERT INTO t SELECT v, 0 FROM generate_series(1, 60) AS r (v)").unwrap();
        let readers = [0, 1, 2].map(|node| cluster.on(node));
        for reader in &readers {
            reader.execute("BEGIN").unwrap();
            assert_eq!(sorted_rows(reader, READ).unwrap(), ["60|0"]);
        }
        for change in change.split(';') {
            writer.execute(change).unwrap();
        }
        assert!(cluster.move_away_and_back() > 0);
        for (node, reader) in readers.iter().enumerate() {
            match sorted_rows(reader, READ) {
                Ok(rows) => assert_eq!((rows, replicas), (vec!["60|0".to_string()], 2), "node {node}"),
                Err(error) => {
                    assert_eq!((error.sqlstate(), replicas), ("40001", 1), "node {node}: {error}");
                    assert!(error.message().contains("too old"), "{error}");
                }
            }
            reader.execute("ROLLBACK").unwrap();
        }
        let now = if change.starts_with("UPDATE") { "60|60" } else { "60|210" };
        assert_eq!(on_each(&cluster, READ), vec![vec![now]; 3], "{change}");
    }
}

#[test]
fn a_replica_that_is_behind_catches_up_in_its_place() {
    let cluster = Cluster::new(3);
    let writer = cluster.on(0);
    writer
        .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    writer.execute("INSERT INTO t SELECT v, 0 FROM generate_series(1, 60) AS r (v)").unwrap();
    let reader = cluster.on(0);
    reader.execute("BEGIN").unwrap();
    assert_eq!(sorted_rows(&reader, READ).unwrap(), ["60|0"]);
    cluster.cut(1);
    writer.execute("INSERT INTO t SELECT v, 1 FROM generate_series(61, 90) AS r (v)").unwrap();
    cluster.mend(1);
    cluster.nodes[0].look_after();
    // It has the rows of before still, although its life is another one now.
    cluster.cut(2);
    assert_eq!(sorted_rows(&reader, READ).unwrap(), ["60|0"]);
    assert_eq!(sorted_rows(&writer, READ).unwrap(), ["90|30"]);
}

#[test]
fn a_node_that_has_moved_is_found_where_it_is() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(1, 60) AS r (v)").unwrap();
    let at = |address: &str| {
        let node = Arc::downgrade(&cluster.nodes[1]);
        cluster.wires.nodes.lock().unwrap().insert(address.to_string(), node);
    };
    let add = "ALTER CLUSTER ADD NODE n2 ADDRESS 'elsewhere:1'";
    at("elsewhere:1");
    let error = failure(&coordinator, add);
    assert_eq!(error.sqlstate(), "55000", "{error}");
    assert!(error.message().contains("\"n2\" answers at h2:1 as well"), "{error}");
    cluster.wires.nodes.lock().unwrap().remove("h2:1");
    coordinator.execute(add).unwrap();
    let found = "SELECT address FROM hypostyle_cluster.node WHERE node = 'n2'";
    assert_eq!(on_each(&cluster, found), vec![vec!["elsewhere:1"]; 3]);
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(61, 120) AS r (v)").unwrap();
    assert_eq!(on_each(&cluster, READ), vec![vec!["120|120"]; 3]);
    assert_eq!(failure(&coordinator, add).sqlstate(), "42710");
}

#[test]
fn nodes_that_have_exchanged_their_addresses_are_found() {
    let cluster = Cluster::new(5);
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 10 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(1, 60) AS r (v)").unwrap();
    for (address, node) in [("h2:1", 2), ("h3:1", 1)] {
        let node = Arc::downgrade(&cluster.nodes[node]);
        cluster.wires.nodes.lock().unwrap().insert(address.to_string(), node);
    }
    // Each is asked in the place of the other, and neither is taken for a copy.
    cluster.nodes.iter().for_each(|node| node.check_alone().unwrap());
    // When one of them is told of, the other one is where that was.
    coordinator.execute("ALTER CLUSTER ADD NODE n2 ADDRESS 'h3:1'").unwrap();
    cluster.nodes[0].look_after();
    let addresses = "SELECT node, address FROM hypostyle_cluster.node WHERE node IN ('n2', 'n3')";
    assert_eq!(on_each(&cluster, addresses), vec![vec!["n2|h3:1", "n3|h2:1"]; 5]);
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(61, 120) AS r (v)").unwrap();
    assert_eq!(on_each(&cluster, READ), vec![vec!["120|120"]; 5]);
    cluster.nodes.iter().for_each(|node| node.check_alone().unwrap());
}

/// Opens a copy of the second node's database, made at this moment, as that node at another address.
fn copied(cluster: &Cluster, directory: &Path, name: &str) -> (Database, Arc<Node>) {
    let path = directory.join(name);
    cluster.on(1).execute(&format!("BACKUP DATABASE TO '{}'", path.display())).unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(path, options).unwrap();
    let address = format!("{name}:1");
    let node = database.join_cluster("n2", &address, cluster.wires.clone()).unwrap();
    cluster.wires.nodes.lock().unwrap().insert(address, Arc::downgrade(&node));
    (database, node)
}

#[test]
fn a_node_that_begins_waits_for_the_process_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = backup::new_on_disk(directory.path());
    let next = copied(&cluster, directory.path(), "next");
    assert_eq!(next.1.begin_alone(Duration::ZERO).unwrap_err().sqlstate(), "55000");
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| next.1.begin_alone(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!begins.is_finished());
        cluster.cut(1);
        begins.join().unwrap().unwrap();
    });
}

#[test]
fn an_old_copy_of_a_node_is_not_taken_for_one_that_has_moved() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = backup::new_on_disk(directory.path());
    let early = copied(&cluster, directory.path(), "early");
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(1, 60) AS r (v)").unwrap();
    let old = copied(&cluster, directory.path(), "old");
    // While the node runs, no copy of it begins.
    let error = old.1.check_alone().unwrap_err();
    assert_eq!(error.sqlstate(), "55000", "{error}");
    assert!(error.message().contains("\"n2\" runs at h2:1 already"), "{error}");
    cluster.nodes[1].check_alone().unwrap();
    // One that has begun while it did not coordinates nothing.
    let add = Change::AddNode(cluster.nodes[0].catalog().unwrap().nodes[0].clone());
    for error in [old.1.promote().unwrap_err(), old.1.change(add).unwrap_err()] {
        assert_eq!(error.sqlstate(), "55000", "{error}");
    }
    coordinator.execute("INSERT INTO t SELECT v, 1 FROM generate_series(61, 600) AS r (v)").unwrap();
    coordinator.execute("DELETE FROM t WHERE k > 590").unwrap();
    let latest = copied(&cluster, directory.path(), "latest");
    cluster.cut(1);
    assert!(old.1.check_alone().is_err(), "it may still run");
    let refused = |on: usize, name: &str| {
        let error = failure(&cluster.on(on), &format!("ALTER CLUSTER ADD NODE n2 ADDRESS '{name}:1'"));
        assert_eq!(error.sqlstate(), "55000", "{name}: {error}");
        assert!(error.message().contains("is an old copy of node \"n2\""), "{name}: {error}");
        error.message().to_string()
    };
    // The node that coordinates has heard more of it.
    for name in ["early", "old"] {
        assert!(refused(0, name).contains("later states"), "{name}");
    }
    // One that has heard nothing of it knows which rows it has.
    cluster.on(2).execute("ALTER CLUSTER PROMOTE n3").unwrap();
    for name in ["early", "old"] {
        assert!(refused(2, name).contains("lacks rows of table \"t\""), "{name}");
    }
    let rows = sorted_rows(&cluster.on(2), READ).unwrap();
    assert_eq!(rows, ["590|590"]);
    cluster.on(2).execute("ALTER CLUSTER ADD NODE n2 ADDRESS 'latest:1'").unwrap();
    // It was asked for all fragments at once, and not for their rows.
    let served = latest.1.served.counts();
    assert!(served.contains(&("read", 0)), "{served:?}");
    cluster.nodes[2].look_after();
    assert_eq!(sorted_rows(&latest.0.connect().unwrap(), READ).unwrap(), rows);
    cluster.on(2).execute("INSERT INTO t VALUES (1000, 1)").unwrap();
    assert_eq!(sorted_rows(&latest.0.connect().unwrap(), READ).unwrap(), ["591|591"]);
    drop((early, old));
}

#[test]
fn a_node_that_has_seen_a_copy_coordinates_again_once_the_other_one_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = backup::new_on_disk(directory.path());
    let (early, again) =
        (copied(&cluster, directory.path(), "early"), copied(&cluster, directory.path(), "again"));
    let promote = |on: &(Database, Arc<Node>)| on.0.connect().unwrap().execute("ALTER CLUSTER PROMOTE n2");
    let refused = |on: &(Database, Arc<Node>), why: &str| {
        let error = promote(on).map(drop).unwrap_err();
        assert_eq!(error.sqlstate(), "55000", "{error}");
        assert!(error.message().contains(why), "{error}");
    };
    for copy in [&early, &again] {
        assert!(copy.1.check_alone().is_err());
        refused(copy, "\"n2\" runs at h2:1 already");
    }
    cluster.cut(1);
    // Nobody has said yet that it has ended.
    assert!(again.1.check_alone().is_err());
    // One that does not answer may know what the other one and it have stored.
    cluster.cut(2);
    refused(&again, "does not answer");
    cluster.mend(2);
    promote(&again).unwrap();
    let database = again.0.connect().unwrap();
    database.execute("ALTER CLUSTER ADD NODE n2 ADDRESS 'again:1'").unwrap();
    database.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS").unwrap();
    again.1.check_alone().unwrap();
    // The others have promised more than the other copy knows of.
    refused(&early, "other nodes have promised or stored more");
}

#[test]
fn a_node_that_has_seen_a_copy_asks_lost_nodes_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = backup::several_on_disk(directory.path(), 5);
    cluster.cut(4);
    cluster.nodes[0].look_after();
    cluster.nodes[0].repair(Duration::ZERO).unwrap();
    // A majority may know it before the node that is copied does.
    let epoch = |node: usize| cluster.nodes[node].catalog().map(|catalog| catalog.epoch);
    until("the node does not learn who is lost", || epoch(1) == epoch(0));
    let again = copied(&cluster, directory.path(), "again");
    assert!(again.1.check_alone().is_err());
    cluster.cut(1);
    let promote = || again.0.connect().unwrap().execute("ALTER CLUSTER PROMOTE n2").map(drop);
    // The lost one may still run, and have been promised what this database does not know.
    let error = promote().unwrap_err();
    assert_eq!(error.sqlstate(), "55000", "{error}");
    assert!(error.message().contains("does not answer: \"n5\" (lost)"), "{error}");
    let add = "ALTER CLUSTER ADD NODE \"n2\" ADDRESS 'again:1'";
    assert!(error.message().contains(add), "{error}");
    cluster.on(0).execute(add).unwrap();
    again.1.check_alone().unwrap();
    promote().unwrap();
    assert!(again.1.coordinates());
}
