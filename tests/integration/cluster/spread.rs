//! Which replicas are read.

use super::Cluster;
use crate::tpch::sorted_rows;
use std::collections::BTreeSet;

/// Returns the nodes that a query asks.
fn asked(cluster: &Cluster, node: usize, sql: &str) -> BTreeSet<&'static str> {
    let plan = sorted_rows(&cluster.on(node), &format!("EXPLAIN {sql}")).unwrap().join("\n");
    ["n1", "n2", "n3", "n4"].into_iter().filter(|name| plan.contains(&format!("{name}: "))).collect()
}

#[test]
fn replicas_are_read_in_turn_when_few_nodes_are_needed() {
    let cluster = Cluster::new(4);
    let connection = cluster.on(0);
    let made = "CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 8 FRAGMENTS REPLICAS 3";
    connection.execute(made).unwrap();
    connection.execute("INSERT INTO t SELECT x, x FROM generate_series(1, 80) AS r (x)").unwrap();
    for key in 1..8 {
        let sql = format!("SELECT v FROM t WHERE k = {key}");
        let mut away = 0;
        for node in 0..4 {
            let found: Vec<_> = (0..24).map(|_| asked(&cluster, node, &sql)).collect();
            assert!(found.iter().all(|nodes| nodes.len() == 1), "{found:?}");
            let all: BTreeSet<_> = found.into_iter().flatten().collect();
            let own = ["n1", "n2", "n3", "n4"][node];
            // A node that has the fragment reads it; the one that has not asks each of the three.
            if !all.contains(own) {
                away += 1;
                assert_eq!(all.len(), 3, "{key} on {own}: {all:?}");
            } else {
                assert_eq!(all.len(), 1, "{key} on {own}: {all:?}");
            }
            assert_eq!(sorted_rows(&cluster.on(node), &sql).unwrap(), [key.to_string()]);
        }
        assert_eq!(away, 1, "{key} is on three of four nodes");
    }
    // All nodes share the work of a whole table.
    for _ in 0..3 {
        assert_eq!(asked(&cluster, 0, "SELECT sum(v) FROM t").len(), 4);
    }
    // Whoever is away is not waited for.
    cluster.cut(1);
    cluster.cut(2);
    for key in 1..20 {
        for node in [0, 3] {
            let sql = format!("SELECT v FROM t WHERE k = {key}");
            assert_eq!(sorted_rows(&cluster.on(node), &sql).unwrap(), [key.to_string()]);
        }
    }
    cluster.cut(0);
    cluster.cut(3);
    let error = sorted_rows(&connection, "SELECT sum(v) FROM t").unwrap_err();
    assert!(["08006", "58030"].contains(&error.sqlstate()), "{error}");
}
