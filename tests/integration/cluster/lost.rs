//! Nodes that stay away, and what they had.

use super::{Cluster, on_each};
use crate::tpch::sorted_rows;
use std::time::Duration;

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
