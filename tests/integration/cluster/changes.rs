//! UPDATE, DELETE, MERGE and TRUNCATE over tables of a cluster: the same rows as in one database.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::cluster::change::{Changes, Rows, Seen, Unlimited, all_of};
use hypostyle::{Connection, Database, ErrorKind, OpenOptions};
use hypostyle_placement::StatementId;
use roaring::RoaringTreemap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use uuid::Uuid;

const DISTRIBUTIONS: [&str; 4] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY RANGE (k) (VALUES LESS THAN (0), VALUES LESS THAN (40), VALUES LESS THAN (MAXVALUE)) REPLICAS 2",
    "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
    "REPLICATED",
];

const ALL: &str = "SELECT k, n, s, x FROM t";

/// Statements, of which `?` is a small number that varies.
const STATEMENTS: [&str; 20] = [
    "INSERT INTO t SELECT v, v % 7, 's' || v, v / 4.0 FROM generate_series(1, 30 + ?) AS r (v)",
    "INSERT INTO t VALUES (NULL, ?, 'null', NULL), (?, NULL, NULL, 1.5)",
    "UPDATE t SET n = n + 1 WHERE k % 5 = ? % 5",
    "UPDATE t SET s = upper(s), n = ?",
    "UPDATE t SET k = k + 50 WHERE n = ? % 7",
    "UPDATE t SET k = NULL WHERE k = ?",
    "UPDATE t SET x = DEFAULT WHERE k > 10 + ?",
    "UPDATE t AS a SET n = o.m FROM other AS o WHERE a.k = o.k AND o.m < ?",
    "UPDATE t SET n = (SELECT max(m) FROM other WHERE other.k = t.k) WHERE k < ?",
    "UPDATE t SET (n, s) = (?, 'both') WHERE k IN (SELECT k FROM other WHERE m = ? % 4)",
    "UPDATE t SET n = 0 WHERE false",
    "DELETE FROM t WHERE k % 11 = ? % 11",
    "DELETE FROM t WHERE k IS NULL",
    "DELETE FROM t USING other AS o WHERE t.k = o.k AND o.m = ? % 4",
    "DELETE FROM t WHERE n = (SELECT min(n) FROM t) AND k > ?",
    "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM other AS o WHERE o.k = t.n) AND k < ?",
    "MERGE INTO t USING (SELECT DISTINCT k, m FROM other) AS o ON t.k = o.k AND t.n IS DISTINCT FROM ? \
     WHEN MATCHED AND o.m = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'merged' \
     WHEN NOT MATCHED THEN INSERT (k, n) VALUES (o.k, o.m)",
    "DELETE FROM t",
    "TRUNCATE t",
    "INSERT INTO t SELECT k, n, s, x FROM t WHERE k < ?",
];

const RETURNING: [&str; 3] = [
    "UPDATE t SET n = n * 2 WHERE k % 3 = ? % 3 RETURNING k, n, s",
    "DELETE FROM t WHERE k % 17 = ? RETURNING *",
    "INSERT INTO t (k) VALUES (?) RETURNING k, n, x",
];

fn prepare(connection: &Connection, distribution: &str, of_other: &str) {
    let columns = "(k BIGINT, n INTEGER DEFAULT 3, s VARCHAR, x DECIMAL(9, 2) DEFAULT 0.25)";
    connection.execute(&format!("CREATE TABLE t {columns} {distribution}")).unwrap();
    connection.execute(&format!("CREATE TABLE other (k BIGINT, m INTEGER) {of_other}")).unwrap();
    connection.execute("INSERT INTO other SELECT v * 2, v % 4 FROM generate_series(1, 25) AS r (v)").unwrap();
    connection
        .execute("INSERT INTO t SELECT v, v % 5, 'v' || v, v FROM generate_series(-20, 80) AS r (v)")
        .unwrap();
}

#[test]
fn changes_are_those_of_one_database() {
    for (round, distribution) in DISTRIBUTIONS.into_iter().enumerate() {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let other = cluster.on(0);
        prepare(&one, "", "");
        prepare(&other, distribution, DISTRIBUTIONS[(round + 2) % 4]);
        let mut state = 0x9E37_79B9 + round as u64;
        for step in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (pick, number) = ((state >> 33) as usize, (state >> 40) % 40);
            // One node misses some of them, and catches up.
            match step % 10 {
                4 => cluster.cut(1 + round % 2),
                6 => {
                    cluster.mend(1 + round % 2);
                    cluster.nodes[0].look_after();
                }
                _ => {}
            }
            let all = [STATEMENTS.as_slice(), &RETURNING].concat();
            let sql = all[pick % all.len()].replace('?', &number.to_string());
            let told = format!("{distribution}, step {step}: {sql}");
            if RETURNING.contains(&all[pick % all.len()]) {
                let found = sorted_rows(&other, &sql).unwrap_or_else(|error| panic!("{told}: {error}"));
                assert_eq!(found, sorted_rows(&one, &sql).unwrap(), "{told}");
            } else {
                let found = other.execute(&sql).unwrap_or_else(|error| panic!("{told}: {error}"));
                assert_eq!(found.rows_affected(), one.execute(&sql).unwrap().rows_affected(), "{told}");
            }
            assert_eq!(sorted_rows(&other, ALL).unwrap(), sorted_rows(&one, ALL).unwrap(), "{told}");
        }
        cluster.mend(1);
        cluster.mend(2);
        cluster.nodes[0].look_after();
        let expected = sorted_rows(&one, ALL).unwrap();
        assert_eq!(on_each(&cluster, ALL), vec![expected; 3]);
    }
}

#[test]
fn replicas_have_the_same_rows_after_changes() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0], "REPLICATED");
    connection.execute("DELETE FROM t WHERE k % 4 = 1").unwrap();
    cluster.cut(2);
    connection.execute("UPDATE t SET n = 100 WHERE k % 4 = 2").unwrap();
    connection.execute("DELETE FROM t WHERE k % 8 = 3").unwrap();
    cluster.mend(2);
    cluster.nodes[0].look_after();
    connection.execute("UPDATE t SET s = 'last' WHERE k % 8 = 2").unwrap();
    let expected = sorted_rows(&connection, ALL).unwrap();
    assert_eq!(expected.len(), 71);
    for node in 0..3 {
        cluster.on(node).execute("VACUUM").unwrap();
        cluster.on(node).execute("CHECK DATABASE").unwrap();
    }
    // Whichever replica is read: each fragment is on two of three nodes.
    for away in 1..3 {
        cluster.cut(away);
        assert_eq!(sorted_rows(&connection, ALL).unwrap(), expected, "without {away}");
        cluster.mend(away);
    }
    // They are moved with what was deleted.
    for change in ["DRAIN NODE n2", "DROP NODE n2", "ADD NODE n2 ADDRESS 'h2:1'", "REBALANCE"] {
        connection.execute(&format!("ALTER CLUSTER {change}")).unwrap();
    }
    connection.execute("DELETE FROM t WHERE k % 8 = 2").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*), min(n) FROM t"), vec![vec!["61|-4"]; 3]);
}

#[test]
fn a_reader_of_an_earlier_epoch_sees_the_rows_of_before() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO t SELECT v FROM generate_series(1, 90) AS r (v)").unwrap();
    let before = cluster.nodes[0].catalog().unwrap();
    connection.execute("DELETE FROM t WHERE k <= 30").unwrap();
    connection.execute("UPDATE t SET k = k + 100 WHERE k > 60").unwrap();
    connection.execute("TRUNCATE t").unwrap();
    for (fragment, entry) in before.tables[0].numbered() {
        let replica = &entry.replicas[0];
        let node = cluster.nodes.iter().find(|node| node.id() == replica.node).unwrap();
        let piece = super::Piece::of(&before.tables[0], fragment, replica);
        let snapshot = node.database().snapshot().unwrap();
        let (_, rows) = node.fragment(&snapshot, piece).unwrap();
        assert_eq!(rows.rows(), replica.rows, "{fragment}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["0"]; 2]);
}

#[test]
fn places_of_rows_that_are_gone_are_a_conflict() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT) PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO t VALUES (1), (2), (3), (4)").unwrap();
    let node = &cluster.nodes[0];
    let seen = node.catalog().unwrap();
    let table = seen.tables[0].id;
    connection.execute("DELETE FROM t WHERE k = 1").unwrap();
    let delete = |places: RoaringTreemap| {
        let seen = &Seen::of(&seen, table, &places).unwrap();
        let changes = Changes { rows: Rows::Batches(&[]), deleted: &places, seen, memory: &Unlimited };
        node.write_all(StatementId(Uuid::new_v4()), &[(table, changes)])
    };
    let error = delete(all_of(0, 2).collect()).unwrap_err();
    assert_eq!(error.sqlstate(), "40001", "{error}");
    // Rows of the other fragment are those that were seen.
    delete(all_of(1, 1).collect()).unwrap();
    assert_eq!(on_each(&cluster, "SELECT k FROM t"), vec![vec!["3", "4"]; 2]);
    // More rows than there are.
    let error = delete((all_of(1, 0).start + 7..all_of(1, 0).start + 8).collect()).unwrap_err();
    assert_eq!(error.sqlstate(), "40001", "{error}");
    assert_eq!(on_each(&cluster, "SELECT k FROM t"), vec![vec!["3", "4"]; 2]);
}

#[test]
fn updates_at_the_same_time_are_not_lost() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT, n BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2")
        .unwrap();
    connection.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").unwrap();
    let updated = AtomicU64::new(0);
    thread::scope(|scope| {
        for key in 1..=3 {
            let (connection, updated) = (cluster.on(0), &updated);
            scope.spawn(move || {
                for _ in 0..10 {
                    match connection.execute(&format!("UPDATE t SET n = n + 1 WHERE k = {key} OR k = 1")) {
                        Ok(done) => updated.fetch_add(done.rows_affected().unwrap(), Ordering::SeqCst),
                        Err(error) => {
                            assert_eq!(error.sqlstate(), "40001", "{error}");
                            0
                        }
                    };
                }
            });
        }
    });
    let updated = updated.load(Ordering::SeqCst);
    assert!(updated >= 10, "{updated} updates");
    assert_eq!(on_each(&cluster, "SELECT sum(n), count(*) FROM t"), vec![vec![format!("{updated}|3")]; 2]);
}

#[test]
fn a_statement_that_is_sent_again_changes_nothing() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    let send = |id: &str, sql: &str| {
        connection.execute(&format!("SET statement_id = '{id}'")).unwrap();
        connection.execute(sql).unwrap().rows_affected()
    };
    let count = || sorted_rows(&connection, "SELECT count(*), sum(k) FROM t").unwrap();
    let ids = [Uuid::new_v4().to_string(), Uuid::new_v4().to_string()];
    let insert = "INSERT INTO t SELECT v FROM generate_series(1, 10) AS r (v)";
    for _ in 0..3 {
        assert_eq!(send(&ids[0], insert), Some(10));
        assert_eq!(count(), ["10|55"]);
    }
    for _ in 0..2 {
        assert_eq!(send(&ids[1], "UPDATE t SET k = k + 100"), Some(10));
        assert_eq!(count(), ["10|1055"]);
    }
    // It names one statement.
    assert_eq!(sorted_rows(&connection, "SHOW statement_id").unwrap(), ["statement_id|"]);
    connection.execute(insert).unwrap();
    assert_eq!(count(), ["20|1110"]);
    assert!(connection.execute("SET statement_id = 'no'").is_err());
}

#[test]
fn a_transaction_has_the_name_that_is_set_before_its_end() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT) REPLICATED").unwrap();
    let name = "SET statement_id = 'f1eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'";
    let insert = "INSERT INTO t VALUES (50)";
    let shown = || sorted_rows(&connection, "SHOW statement_id").unwrap();
    let run = |statements: &[&str]| {
        statements.iter().for_each(|sql| drop(connection.execute(sql).unwrap()));
        assert_eq!(shown(), ["statement_id|"], "{statements:?}");
    };
    for statements in [
        [name, "BEGIN", insert, "SAVEPOINT s", "COMMIT"],
        ["START TRANSACTION", name, "SAVEPOINT s", insert, "COMMIT"],
        ["BEGIN", insert, "SAVEPOINT s", name, "COMMIT"],
    ] {
        run(&statements);
        assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![vec!["50"]; 2], "{statements:?}");
    }
    // What is given up leaves its name to nobody.
    run(&[name, "BEGIN", insert, "ROLLBACK", insert]);
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["2"]; 2]);
}

#[test]
fn a_named_insert_that_the_planner_makes_again_changes_nothing() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT, s VARCHAR DEFAULT 'x') REPLICATED").unwrap();
    for _ in 0..3 {
        connection.execute("SET statement_id = 'f1eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'").unwrap();
        connection.execute("INSERT INTO t (k) VALUES (50)").unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![vec!["50|x"]; 2]);
}

#[test]
fn what_reads_or_describes_takes_no_name_from_a_change() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT) REPLICATED").unwrap();
    let (id, insert) = (Uuid::new_v4().to_string(), "INSERT INTO t VALUES (50)");
    for _ in 0..3 {
        connection.execute(&format!("SET statement_id = '{id}'")).unwrap();
        // The shell asks for the time zone, and drivers for the columns of what they run.
        sorted_rows(&connection, "SHOW timezone").unwrap();
        sorted_rows(&connection, "SELECT count(*) FROM t").unwrap();
        for sql in [insert, "SELECT k FROM t"] {
            connection.describe(sql).unwrap();
        }
        assert_eq!(sorted_rows(&connection, "SHOW statement_id").unwrap(), [format!("statement_id|{id}")]);
        assert_eq!(connection.execute(insert).unwrap().rows_affected(), Some(1));
        assert_eq!(sorted_rows(&connection, "SHOW statement_id").unwrap(), ["statement_id|"]);
    }
    assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![vec!["50"]; 2]);
}

#[test]
fn rows_for_other_nodes_take_no_more_memory_than_there_is_and_many_take_little() {
    let cluster = Cluster::new(2);
    let owner = cluster.on(0);
    owner.execute("CREATE TABLE own AS SELECT i FROM generate_series(1, 8000000) AS s (i)").unwrap();
    owner.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2").unwrap();
    owner.execute("SET memory_limit = '20MB'").unwrap();
    let connection = cluster.on(0);
    // 24 MB are copied for the nodes.
    let error = failure(&connection, "INSERT INTO t SELECT i FROM own WHERE i <= 3000000");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::OutOfMemory, "53200"), "{error}");
    assert!(error.message().contains("rows for other nodes"), "{error}");
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["0"]; 2]);
    owner.execute("SET memory_limit = '40MB'").unwrap();
    let connection = cluster.on(0);
    for round in 1..=4 {
        connection.execute("INSERT INTO t SELECT i FROM own WHERE i <= 2000000").unwrap();
        let count = (2_000_000 * round).to_string();
        assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec![count]; 2]);
    }
    // 64 MB are read again as they are sent.
    connection.execute("INSERT INTO t SELECT i FROM own").unwrap();
    let count = "SELECT count(*), sum(k) FROM t";
    assert_eq!(on_each(&cluster, count), vec![vec!["16000000|40000008000000"]; 2]);
}

#[test]
fn changed_rows_of_other_nodes_take_no_more_memory_than_there_is() {
    let cluster = Cluster::new(2);
    let owner = cluster.on(0);
    owner
        .execute("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2")
        .unwrap();
    owner.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 2000000) AS s (i)").unwrap();
    owner.execute("SET memory_limit = '20MB'").unwrap();
    let connection = cluster.on(0);
    let error = failure(&connection, "UPDATE t SET v = v + 1");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::OutOfMemory, "53200"), "{error}");
    connection.execute("UPDATE t SET v = v + 1 WHERE k <= 1000").unwrap();
    let sum = "SELECT count(*), sum(v - k) FROM t";
    assert_eq!(on_each(&cluster, sum), vec![vec!["2000000|1000"]; 2]);
}
