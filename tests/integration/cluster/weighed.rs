//! REBALANCE by the bytes of fragments, which the nodes tell.

use super::Cluster;
use crate::tpch::sorted_rows;
use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use hypostyle::Connection;
use std::collections::BTreeMap;

const PLACES: &str = "SELECT fragment, node FROM hypostyle_cluster.replica";

/// Returns the bytes of each node's replicas, as far as they are told, and how many are not.
fn bytes(connection: &Connection) -> (BTreeMap<String, u64>, usize) {
    let shown = connection.execute("SHOW FRAGMENTS FROM t").unwrap().record_batches().unwrap();
    let (mut of_nodes, mut unknown) = (BTreeMap::new(), 0);
    for batch in shown {
        let nodes = batch.column_by_name("node").unwrap();
        let nodes = arrow::compute::cast(nodes, &arrow::datatypes::DataType::Utf8).unwrap();
        let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<UInt64Type>().clone();
        unknown += bytes.null_count();
        for (node, bytes) in nodes.as_string::<i32>().iter().zip(&bytes) {
            *of_nodes.entry(node.unwrap().to_string()).or_default() += bytes.unwrap_or(0);
        }
    }
    (of_nodes, unknown)
}

#[test]
fn nodes_with_wide_rows_give_fragments_away() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection
        .execute(
            "CREATE TABLE t (k BIGINT, s VARCHAR) PARTITION BY RANGE (k) (VALUES LESS THAN (1),
             VALUES LESS THAN (2), VALUES LESS THAN (3), VALUES LESS THAN (MAXVALUE))",
        )
        .unwrap();
    let of_first = "SELECT fragment FROM hypostyle_cluster.replica WHERE node = 'n1'";
    let wide = sorted_rows(&connection, of_first).unwrap();
    assert_eq!(wide.len(), 2);
    connection
        .execute(&format!(
            "INSERT INTO t SELECT v % 4,
             CASE WHEN v % 4 IN ({}) THEN repeat(CAST(v AS VARCHAR) || '-', 40) ELSE 'x' END
             FROM generate_series(1, 200000) AS r (v)",
            wide.join(", ")
        ))
        .unwrap();
    let (before, unknown) = bytes(&connection);
    assert_eq!(unknown, 0);
    assert!(before["n1"] > 20_000_000 && before["n2"] < 5_000_000, "{before:?}");
    assert_eq!(bytes(&cluster.on(1)).0, before, "each node tells the same");
    // They have as many rows.
    connection.execute("ALTER CLUSTER REBALANCE TABLE t").unwrap();
    let (after, unknown) = bytes(&connection);
    assert_eq!(unknown, 0);
    assert!(after.values().all(|bytes| *bytes > 10_000_000), "{after:?}");
    let places = sorted_rows(&connection, PLACES).unwrap();
    connection.execute("ALTER CLUSTER REBALANCE").unwrap();
    assert_eq!(sorted_rows(&connection, PLACES).unwrap(), places, "nothing is left to be moved");
    let sums = "SELECT count(*), count(DISTINCT k), count(DISTINCT s) FROM t";
    assert_eq!(sorted_rows(&cluster.on(1), sums).unwrap(), ["200000|4|100001"]);
    // A node that is away tells nothing.
    cluster.cut(1);
    assert_eq!(bytes(&connection).1, 2);
}
