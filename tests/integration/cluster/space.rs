//! The space of deleted rows is given back, while others read and write.

use super::{Cluster, on_each};
use crate::tpch::sorted_rows;
use hypostyle::Connection;
use std::time::Duration;

const POSITIONS: &str = "SELECT \"table\", sum(positions), count(*), bool_and(in_sync) FROM hypostyle_cluster.replica GROUP BY \"table\"";

const PLACES: &str = "SELECT \"table\", fragment, node FROM hypostyle_cluster.replica";

const SUMS: &str = "SELECT count(*), sum(k), sum(n) FROM t";

fn compact(cluster: &Cluster) {
    cluster.nodes[0].look_after();
    for _ in 0..4 {
        cluster.nodes[0].compact(Duration::ZERO).unwrap();
    }
}

fn positions(connection: &Connection) -> Vec<String> {
    sorted_rows(connection, POSITIONS).unwrap()
}

#[test]
fn replicas_of_many_deleted_rows_are_copied_anew() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection
        .execute(
            "CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2;
             CREATE TABLE d (k BIGINT) REPLICATED;
             INSERT INTO t SELECT x, 0 FROM generate_series(1, 100000) AS r (x);
             INSERT INTO d SELECT x FROM generate_series(1, 80000) AS r (x)",
        )
        .unwrap();
    let places = sorted_rows(&connection, PLACES).unwrap();
    let readers = [0, 1, 2].map(|node| cluster.on(node));
    for reader in &readers {
        reader.execute("BEGIN").unwrap();
        assert_eq!(sorted_rows(reader, SUMS).unwrap(), ["100000|5000050000|0"]);
    }
    connection.execute("UPDATE t SET n = n + 1").unwrap();
    connection.execute("UPDATE t SET n = n + 1").unwrap();
    connection.execute("DELETE FROM d WHERE k > 10").unwrap();
    // Deletes alone make one position more.
    assert_eq!(positions(&connection), ["d|240003|3|true", "t|600000|4|true"]);
    // Not all replicas of a fragment at once: readers of before have the others.
    cluster.nodes[0].look_after();
    for _ in 0..2 {
        cluster.nodes[0].compact(Duration::from_secs(3600)).unwrap();
    }
    assert_eq!(positions(&connection), ["d|160012|3|true", "t|400000|4|true"]);
    for reader in &readers {
        assert_eq!(sorted_rows(reader, SUMS).unwrap(), ["100000|5000050000|0"]);
    }
    compact(&cluster);
    assert_eq!(positions(&connection), ["d|30|3|true", "t|200000|4|true"]);
    assert_eq!(sorted_rows(&connection, PLACES).unwrap(), places, "they are where they were");
    assert_eq!(on_each(&cluster, SUMS), vec![vec!["100000|5000050000|200000"]; 3]);
    assert_eq!(on_each(&cluster, "SELECT count(*), max(k) FROM d"), vec![vec!["10|10"]; 3]);
    for reader in &readers {
        match sorted_rows(reader, SUMS) {
            Ok(rows) => assert_eq!(rows, ["100000|5000050000|0"], "a snapshot stays as it is"),
            Err(error) => assert_eq!(error.sqlstate(), "40001", "{error}"),
        }
        reader.execute("ROLLBACK").unwrap();
    }
    connection.execute("UPDATE t SET n = 0 WHERE k <= 10; DELETE FROM t WHERE k = 1").unwrap();
    assert_eq!(on_each(&cluster, SUMS), vec![vec!["99999|5000049999|199980"]; 3]);
    for node in 0..3 {
        cluster.on(node).execute("CHECK DATABASE").unwrap();
    }
}

#[test]
fn readers_of_an_only_replica_find_what_was_before() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection
        .execute(
            "CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS;
             INSERT INTO t SELECT x, 0 FROM generate_series(1, 200000) AS r (x)",
        )
        .unwrap();
    let places = sorted_rows(&connection, PLACES).unwrap();
    let readers = [0, 1].map(|node| cluster.on(node));
    let read = || {
        for reader in &readers {
            assert_eq!(sorted_rows(reader, SUMS).unwrap(), ["200000|20000100000|0"]);
        }
    };
    readers.iter().for_each(|reader| drop(reader.execute("BEGIN").unwrap()));
    read();
    connection.execute("UPDATE t SET n = n + 1").unwrap();
    connection.execute("UPDATE t SET n = n + 1").unwrap();
    assert_eq!(positions(&connection), ["t|600000|2|true"]);
    cluster.nodes[0].look_after();
    // The rows move, and come back only some time later.
    for _ in 0..2 {
        cluster.nodes[0].compact(Duration::from_secs(3600)).unwrap();
        assert_eq!(positions(&connection), ["t|200000|2|true"]);
        assert_ne!(sorted_rows(&connection, PLACES).unwrap(), places);
        assert_eq!(on_each(&cluster, SUMS), vec![vec!["200000|20000100000|400000"]; 2]);
        read();
    }
    compact(&cluster);
    assert_eq!(positions(&connection), ["t|200000|2|true"]);
    assert_eq!(sorted_rows(&connection, PLACES).unwrap(), places);
    assert_eq!(on_each(&cluster, SUMS), vec![vec!["200000|20000100000|400000"]; 2]);
}

#[test]
fn rows_are_written_while_replicas_are_copied_anew() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection
        .execute(
            "CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2;
             INSERT INTO t SELECT x, 0 FROM generate_series(1, 100000) AS r (x);
             UPDATE t SET n = n + 1; UPDATE t SET n = n + 1",
        )
        .unwrap();
    std::thread::scope(|scope| {
        for node in 1..3 {
            let connection = cluster.on(node);
            scope.spawn(move || {
                for number in 0..10 {
                    let key = node * 1_000_000 + number;
                    connection.execute(&format!("INSERT INTO t VALUES ({key}, 1)")).unwrap();
                    let sql = "UPDATE t SET n = n + 1 WHERE k = 7";
                    while let Err(error) = connection.execute(sql) {
                        assert_eq!(error.sqlstate(), "40001", "{error}");
                    }
                }
            });
        }
        for _ in 0..8 {
            cluster.nodes[0].look_after();
            // A statement may change rows that are being copied.
            if let Err(error) = cluster.nodes[0].compact(Duration::ZERO) {
                assert_eq!(error.sqlstate(), "40001", "{error}");
            }
        }
    });
    compact(&cluster);
    let sums = "SELECT count(*), sum(n), count(DISTINCT k), max(n) FROM t";
    assert_eq!(on_each(&cluster, sums), vec![vec!["100020|200040|100020|22"]; 3]);
    let positions = "SELECT max(positions) < 60000, bool_and(in_sync) FROM hypostyle_cluster.replica";
    assert_eq!(sorted_rows(&connection, positions).unwrap(), ["true|true"]);
}

#[test]
fn no_replica_is_given_up_that_may_be_needed() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection
        .execute(
            "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 1 FRAGMENTS REPLICAS 2;
             INSERT INTO t SELECT x FROM generate_series(1, 80000) AS r (x); DELETE FROM t WHERE k > 10",
        )
        .unwrap();
    let before = sorted_rows(&connection, PLACES).unwrap();
    let wasted = positions(&connection);
    for node in 1..3 {
        // It has a replica, or is the only one that has room for another.
        cluster.cut(node);
        compact(&cluster);
        assert_eq!(
            (positions(&connection), sorted_rows(&connection, PLACES).unwrap()),
            (wasted.clone(), before.clone())
        );
        cluster.mend(node);
    }
    compact(&cluster);
    assert_eq!(positions(&connection), ["t|20|2|true"]);
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["10"]; 3]);
}
