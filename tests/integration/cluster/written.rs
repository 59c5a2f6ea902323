//! Readers that ask for what was written elsewhere.

use super::{Cluster, failure};
use crate::tpch::sorted_rows;
use hypostyle::Connection;

fn epoch(connection: &Connection) -> String {
    sorted_rows(connection, "SHOW cluster_epoch").unwrap()[0].rsplit('|').next().unwrap().to_string()
}

#[test]
fn a_reader_that_asks_for_it_sees_what_was_written_elsewhere() {
    let cluster = Cluster::new(3);
    let (one, other, reader) = (cluster.on(0), cluster.on(1), cluster.on(2));
    one.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 3").unwrap();
    let count = "SELECT count(*) FROM t";
    for (number, writer) in [&one, &other, &one, &other].into_iter().enumerate() {
        // The reader is not told of it.
        cluster.cut(2);
        writer.execute(&format!("INSERT INTO t VALUES ({number})")).unwrap();
        cluster.mend(2);
        assert_eq!(sorted_rows(&reader, count).unwrap(), [number.to_string()], "before it has asked");
        assert_eq!(sorted_rows(writer, count).unwrap(), [(number + 1).to_string()]);
        reader.execute(&format!("SET cluster_epoch = {}", epoch(writer))).unwrap();
        assert_eq!(sorted_rows(&reader, count).unwrap(), [(number + 1).to_string()]);
        assert_eq!(epoch(&reader), epoch(writer));
        cluster.nodes[0].look_after();
    }
    reader.execute("SET cluster_epoch = 1").unwrap();
    assert_eq!(sorted_rows(&reader, count).unwrap(), ["4"], "what it knows is later");
    assert_eq!(failure(&reader, "SET cluster_epoch = 'x'").sqlstate(), "22023");
    assert_eq!(failure(&reader, "SET cluster_epoch = 1000000").sqlstate(), "57P03");
    reader.execute("BEGIN").unwrap();
    assert_eq!(failure(&reader, "SET cluster_epoch = 2").sqlstate(), "0A000");
}

#[test]
fn a_statement_may_want_replicas_in_sync() {
    for node in [0, 1] {
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        connection
            .execute(
                "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 3; \
                 CREATE TABLE u (k BIGINT) PARTITION BY HASH (k) INTO 1 FRAGMENTS; CREATE TABLE r (k BIGINT) REPLICATED",
            )
            .unwrap();
        let count = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM r)";
        connection.execute("SET synced_replicas = 3; INSERT INTO t VALUES (1), (2)").unwrap();
        // More than there should be are not wanted.
        connection.execute("INSERT INTO u VALUES (1)").unwrap();
        cluster.cut(2);
        for sql in [
            "INSERT INTO t VALUES (3)",
            "DELETE FROM t",
            "UPDATE t SET k = k + 1",
            "INSERT INTO r VALUES (1)",
            "BEGIN; INSERT INTO t VALUES (3); INSERT INTO r VALUES (1); COMMIT",
        ] {
            assert_eq!(failure(&connection, sql).sqlstate(), "57P03", "node {node}: {sql}");
            assert_eq!(sorted_rows(&connection, count).unwrap(), ["2"], "node {node}: {sql}");
        }
        connection.execute("SET synced_replicas = 2; INSERT INTO t VALUES (3)").unwrap();
        cluster.mend(2);
        cluster.nodes[0].look_after();
        connection
            .execute("SET synced_replicas = 3; INSERT INTO t VALUES (4); INSERT INTO r VALUES (1)")
            .unwrap();
        assert_eq!(sorted_rows(&connection, count).unwrap(), ["5"], "node {node}");
    }
}
