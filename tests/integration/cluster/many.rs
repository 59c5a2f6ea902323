//! Statements that write to many fragments at once, over connections between servers.

use super::metrics;
use crate::tpch::sorted_rows;

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
