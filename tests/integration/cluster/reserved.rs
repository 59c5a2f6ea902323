//! The schema of what a node keeps of its cluster, in which statements make nothing.

use super::{Cluster, Wires, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Database, ErrorKind, OpenOptions};
use std::sync::Arc;

const REFUSED: [&str; 12] = [
    "CREATE TABLE hypostyle_cluster.t1_f0 (a INTEGER)",
    "CREATE TABLE hypostyle_cluster.t1_f0 AS SELECT 1 AS a",
    "CREATE TABLE IF NOT EXISTS hypostyle_cluster.x (a INTEGER)",
    "CREATE TABLE hypostyle_cluster.x (a BIGINT) REPLICATED",
    "CREATE TABLE hypostyle_cluster.x (a BIGINT) PARTITION BY HASH (a) INTO 2 FRAGMENTS",
    "CREATE VIEW hypostyle_cluster.v AS SELECT 1 AS a",
    "CREATE OR REPLACE VIEW hypostyle_cluster.v AS SELECT 1 AS a",
    "CREATE SEQUENCE hypostyle_cluster.s",
    "COMMENT ON SCHEMA hypostyle_cluster IS 'mine'",
    "COMMENT ON TABLE hypostyle_cluster.state IS 'mine'",
    "ALTER TABLE hypostyle_cluster.state RENAME TO other",
    "INSERT INTO hypostyle_cluster.state VALUES ('node', '1')",
];

#[test]
fn nothing_is_made_in_the_schema_of_a_node() {
    let cluster = Cluster::new(2);
    for node in 0..2 {
        let connection = cluster.on(node);
        connection.execute("CREATE TABLE own (a INTEGER)").unwrap();
        for sql in REFUSED {
            let error = failure(&connection, sql);
            // The other node makes no tables of the cluster at all.
            let kinds = [ErrorKind::Denied, ErrorKind::Unsupported, ErrorKind::ReadOnly];
            assert!(kinds.contains(&error.kind()), "{sql}: {error}");
            connection.execute("BEGIN").unwrap();
            let error = failure(&connection, sql);
            assert!(kinds.contains(&error.kind()), "{sql}: {error}");
            connection.execute("ROLLBACK").unwrap();
        }
        let error = failure(&connection, REFUSED[0]);
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "42501"), "{error}");
        assert!(error.message().contains("hypostyle_cluster"), "{error}");
    }
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE t (a BIGINT) PARTITION BY HASH (a) INTO 2 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator.execute("INSERT INTO t SELECT x FROM generate_series(1, 10) AS r (x)").unwrap();
    let in_sync = "SELECT count(*) FROM hypostyle_cluster.replica WHERE in_sync";
    assert_eq!(on_each(&cluster, in_sync), vec![vec!["4"]; 2]);
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM own"), vec![vec!["0"]; 2]);
}

#[test]
fn what_was_made_there_before_is_told_and_dropped() {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    connection
        .execute(
            "BEGIN; CREATE SCHEMA hypostyle_cluster; CREATE TABLE hypostyle_cluster.t7_f0 (a INTEGER);
             CREATE TABLE hypostyle_cluster.mine AS SELECT 5 AS a; CREATE VIEW hypostyle_cluster.v AS SELECT 1 AS a;
             CREATE SEQUENCE hypostyle_cluster.s; COMMIT",
        )
        .unwrap();
    let node = database.join_cluster("n1", "h1:1", Arc::<Wires>::default()).unwrap();
    node.found_cluster().unwrap();
    let mut strangers = node.strangers().unwrap();
    strangers.sort();
    assert_eq!(strangers, ["mine", "s", "t7_f0", "v"]);
    let connection = database.connect().unwrap();
    connection.execute("CREATE TABLE t (a BIGINT) REPLICATED").unwrap();
    connection.execute("INSERT INTO t SELECT a FROM hypostyle_cluster.mine").unwrap();
    for (kind, name) in [("TABLE", "t7_f0"), ("TABLE", "mine"), ("VIEW", "v"), ("SEQUENCE", "s")] {
        connection.execute(&format!("DROP {kind} hypostyle_cluster.{name}")).unwrap();
        assert!(!node.strangers().unwrap().contains(&name.to_string()), "{name}");
    }
    for table in ["state", "t1_f0"] {
        let error = failure(&connection, &format!("DROP TABLE hypostyle_cluster.{table}"));
        assert_eq!(error.sqlstate(), "42501", "{table}: {error}");
    }
    assert_eq!(sorted_rows(&connection, "SELECT * FROM t").unwrap(), ["5"]);
}

#[test]
fn a_backup_needs_a_directory() {
    let cluster = Cluster::new(1);
    let error = failure(&cluster.on(0), "BACKUP CLUSTER TO ''");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
