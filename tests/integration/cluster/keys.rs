//! PRIMARY KEY and UNIQUE of tables of a cluster: no two rows have one key, whichever nodes write them.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};
use std::sync::atomic::{AtomicUsize, Ordering};

const DISTRIBUTIONS: [&str; 3] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY RANGE (k) (VALUES LESS THAN (12), VALUES LESS THAN (450), VALUES LESS THAN (MAXVALUE)) REPLICAS 2",
    "REPLICATED",
];

const ALL: &str = "SELECT k, n, s FROM t";

fn make(connection: &Connection, distribution: &str) {
    connection
        .execute(&format!(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, n INTEGER, s VARCHAR, UNIQUE (s, k)) {distribution}"
        ))
        .unwrap();
}

/// Statements of a session: some are refused, as one database refuses them.
const STATEMENTS: [&str; 30] = [
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    "INSERT INTO t VALUES (1, 9, 'other')",
    "INSERT INTO t VALUES (3, 1, 'c'), (3, 2, 'd')",
    "INSERT INTO t VALUES (NULL, 1, 'a')",
    "INSERT INTO t SELECT v, v % 7, 's' || v FROM generate_series(10, 500) AS r (v)",
    "INSERT INTO t SELECT v, 0, 'again' FROM generate_series(400, 900) AS r (v)",
    "INSERT INTO t SELECT v, 0, NULL FROM generate_series(600, 700) AS r (v)",
    "UPDATE t SET n = n + 1 WHERE k < 50",
    "UPDATE t SET k = k + 1",
    "UPDATE t SET k = 5 WHERE k > 5 AND k < 30",
    "UPDATE t SET k = 11 WHERE k = 12",
    "DELETE FROM t WHERE k = 11",
    "UPDATE t SET k = 11 WHERE k = 12",
    "INSERT INTO t VALUES (2, 0, 'c'), (4, 0, 'c') ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (2, 0, 'c'), (1000, 0, 'd') ON CONFLICT (k) DO UPDATE SET n = excluded.n, s = excluded.s",
    "INSERT OR REPLACE INTO t VALUES (2, 7, 'z')",
    "MERGE INTO t USING (VALUES (3, 5), (2000, 6)) AS x (k, n) ON t.k = x.k WHEN MATCHED THEN UPDATE SET n = x.n \
     WHEN NOT MATCHED THEN INSERT (k, n) VALUES (x.k, x.n)",
    "BEGIN; INSERT INTO t VALUES (3000, 1, 'x'); INSERT INTO t VALUES (3001, 1, 'x'); COMMIT",
    "BEGIN; INSERT INTO t VALUES (3002, 1, 'x'); INSERT INTO t VALUES (3002, 1, 'y'); COMMIT",
    "ROLLBACK",
    "BEGIN; DELETE FROM t WHERE k = 3000; INSERT INTO t VALUES (3000, 2, 'new'); COMMIT",
    "BEGIN; DELETE FROM t WHERE k = 3000; INSERT INTO t VALUES (3001, 2, 'new'); COMMIT",
    "ROLLBACK",
    "ALTER TABLE t RENAME COLUMN k TO key",
    "INSERT INTO t VALUES (3001, 2, 'new')",
    "ALTER TABLE t RENAME COLUMN key TO k",
    "TRUNCATE t",
    "INSERT INTO t VALUES (3001, 2, 'new')",
    "ALTER TABLE t DROP CONSTRAINT t_pkey",
    "INSERT INTO t VALUES (3001, 2, 'newer')",
];

#[test]
fn keys_are_kept_as_in_one_database() {
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        make(&one, "");
        make(&connection, distribution);
        let mut refused = 0;
        for sql in STATEMENTS {
            let (expected, found) = (one.execute(sql), connection.execute(sql));
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(found.rows_affected(), expected.rows_affected(), "{distribution}: {sql}");
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(found.sqlstate(), expected.sqlstate(), "{distribution}: {sql}: {found}");
                    refused += 1;
                }
                (expected, found) => {
                    panic!("{distribution}: {sql}: {:?} and {:?}", expected.err(), found.err())
                }
            }
            let all = if sql.contains("TO key") { "SELECT key, n, s FROM t" } else { ALL };
            if !one.is_in_transaction() {
                let rows = sorted_rows(&one, all).unwrap_or_default();
                if !rows.is_empty() {
                    assert_eq!(on_each(&cluster, all), vec![rows; 3], "{distribution}: {sql}");
                }
            }
        }
        assert_eq!(refused, 9, "{distribution}");
    }
}

#[test]
fn one_of_several_nodes_gets_a_key() {
    for distribution in [DISTRIBUTIONS[0], DISTRIBUTIONS[2]] {
        let cluster = Cluster::new(3);
        make(&cluster.on(0), distribution);
        let inserted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for node in 0..3 {
                let (connection, inserted) = (cluster.on(node), &inserted);
                scope.spawn(move || {
                    for key in 0..12 {
                        let sql = format!("INSERT INTO t VALUES ({key}, {node}, 'x')");
                        loop {
                            match connection.execute(&sql) {
                                Ok(_) => inserted.fetch_add(1, Ordering::Relaxed),
                                Err(error) if error.sqlstate() == "40001" => continue,
                                Err(error) => {
                                    assert_eq!(error.sqlstate(), "23505", "{error}");
                                    0
                                }
                            };
                            break;
                        }
                    }
                });
            }
        });
        assert_eq!(inserted.into_inner(), 12, "{distribution}");
        let counts = "SELECT count(*), count(DISTINCT k), max(k) FROM t";
        assert_eq!(on_each(&cluster, counts), vec![vec!["12|12|11"]; 3], "{distribution}");
    }
}

#[test]
fn transactions_that_add_one_key_are_in_conflict() {
    let cluster = Cluster::new(2);
    let (one, other, third) = (cluster.on(0), cluster.on(1), cluster.on(1));
    make(&one, DISTRIBUTIONS[0]);
    for (connection, key) in [(&one, 1), (&other, 1), (&third, 2)] {
        connection.execute("BEGIN").unwrap();
        connection.execute(&format!("INSERT INTO t VALUES ({key}, 0, 'x')")).unwrap();
    }
    one.execute("COMMIT").unwrap();
    assert_eq!(failure(&other, "COMMIT").sqlstate(), "40001");
    // In another fragment, or in the same one: the row is there, or the transaction is run again.
    if let Err(error) = third.execute("COMMIT") {
        assert_eq!(error.sqlstate(), "40001");
        third.execute("INSERT INTO t VALUES (2, 0, 'x')").unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT k FROM t"), vec![vec!["1", "2"]; 2]);
}

#[test]
fn what_a_refused_statement_would_have_deleted_stays() {
    for distribution in DISTRIBUTIONS {
        let cluster = Cluster::new(2);
        let connection = cluster.on(1);
        make(&connection, distribution);
        connection.execute("INSERT INTO t SELECT v, 0, 's' FROM generate_series(1, 9) AS r (v)").unwrap();
        for sql in ["UPDATE t SET k = 5", "INSERT OR REPLACE INTO t VALUES (1, 1, 'x'), (NULL, 1, 'y')"] {
            assert_eq!(&failure(&connection, sql).sqlstate()[..2], "23", "{sql}");
        }
        connection.execute("BEGIN; INSERT INTO t VALUES (600, 1, 'x'); COMMIT").unwrap();
        let counts = "SELECT count(*), max(k), sum(n) FROM t";
        assert_eq!(on_each(&cluster, counts), vec![vec!["10|600|1"]; 2], "{distribution}");
    }
}

#[test]
fn a_statement_with_keys_that_is_sent_again_changes_nothing() {
    let cluster = Cluster::new(3);
    make(&cluster.on(0), DISTRIBUTIONS[0]);
    for node in [1, 0, 2, 1] {
        let connection = cluster.on(node);
        connection.execute("SET statement_id = '00112233-4455-6677-8899-aabbccddeeff'").unwrap();
        let inserted = connection.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')").unwrap();
        assert_eq!(inserted.rows_affected(), Some(2), "node {node}");
        // Another statement is another one.
        let again = failure(&connection, "INSERT INTO t VALUES (1, 1, 'a')");
        assert_eq!(again.sqlstate(), "23505", "{again}");
        assert!(again.message().contains("t_pkey"), "{again}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["2"]; 3]);
}

#[test]
fn a_transaction_meets_the_rows_of_a_statement_of_the_same_name() {
    let name = "SET statement_id = '00112233-4455-6677-8899-aabbccddeeff'";
    let cluster = Cluster::new(3);
    make(&cluster.on(0), DISTRIBUTIONS[0]);
    for node in [0, 1] {
        let connection = cluster.on(node);
        connection.execute(name).unwrap();
        connection.execute("INSERT INTO t VALUES (1, 1, 'a')").unwrap();
        connection.execute("BEGIN").unwrap();
        connection.execute(name).unwrap();
        // The transaction would be published by another name, and its row be the second of the key.
        let again = failure(&connection, "INSERT INTO t VALUES (1, 1, 'a')");
        assert_eq!(again.sqlstate(), "23505", "node {node}: {again}");
        connection.execute("ROLLBACK").unwrap();
    }
    assert_eq!(on_each(&cluster, ALL), vec![vec!["1|1|a"]; 3]);
}

#[test]
fn keys_of_a_table_that_is_emptied_are_free() {
    for distribution in DISTRIBUTIONS {
        let cluster = Cluster::new(2);
        let (one, other) = (cluster.on(0), cluster.on(1));
        make(&one, distribution);
        one.execute("INSERT INTO t SELECT v, 0, 'x' FROM generate_series(1, 20) AS r (v)").unwrap();
        for connection in [&one, &other] {
            let again =
                "BEGIN; TRUNCATE t; INSERT INTO t SELECT v, 1, 'y' FROM generate_series(1, 20) AS r (v)";
            connection.execute(again).unwrap();
            // The rows of the transaction have keys.
            let twice = failure(connection, "INSERT INTO t VALUES (7, 2, 'z')");
            assert_eq!(twice.sqlstate(), "23505", "{distribution}: {twice}");
            connection.execute("ROLLBACK").unwrap();
            connection.execute(again).unwrap();
            connection.execute("COMMIT").unwrap();
            let counts = "SELECT count(*), count(DISTINCT k), min(s) FROM t";
            assert_eq!(on_each(&cluster, counts), vec![vec!["20|20|y"]; 2], "{distribution}");
        }
        // Others may have added rows before it is published.
        other.execute("TRUNCATE t").unwrap();
        other.execute("BEGIN; INSERT INTO t VALUES (7, 3, 'z')").unwrap();
        one.execute("INSERT INTO t VALUES (7, 4, 'z')").unwrap();
        assert_eq!(failure(&other, "COMMIT").sqlstate(), "40001", "{distribution}");
        assert_eq!(on_each(&cluster, ALL), vec![vec!["7|4|z"]; 2], "{distribution}");
    }
}

#[test]
fn a_node_that_is_behind_knows_the_keys() {
    let cluster = Cluster::new(3);
    let (coordinator, other) = (cluster.on(0), cluster.on(2));
    make(&coordinator, DISTRIBUTIONS[0]);
    cluster.cut(2);
    coordinator.execute("INSERT INTO t VALUES (1, 0, 'x')").unwrap();
    cluster.mend(2);
    assert_eq!(failure(&other, "INSERT INTO t VALUES (1, 1, 'y')").sqlstate(), "23505");
    cluster.cut(2);
    coordinator.execute("DELETE FROM t WHERE k = 1").unwrap();
    cluster.mend(2);
    other.execute("INSERT INTO t VALUES (1, 2, 'z')").unwrap();
    assert_eq!(on_each(&cluster, ALL), vec![vec!["1|2|z"]; 3]);
}

#[test]
fn the_nodes_of_other_fragments_are_not_asked_for_a_key() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    make(&connection, "PARTITION BY HASH (k) INTO 3 FRAGMENTS");
    connection.execute("INSERT INTO t SELECT v, 0, 'x' FROM generate_series(100, 130) AS r (v)").unwrap();
    cluster.cut(2);
    let mut missing = Vec::new();
    for key in 0..12 {
        if let Err(error) = connection.execute(&format!("INSERT INTO t VALUES ({key}, 1, 'y')")) {
            assert_eq!(error.sqlstate(), "58030", "{error}");
            missing.push(key);
        }
    }
    assert!(!missing.is_empty() && missing.len() < 12, "{missing:?}");
    cluster.mend(2);
    cluster.nodes[0].look_after();
    for key in missing {
        connection.execute(&format!("INSERT INTO t VALUES ({key}, 1, 'y')")).unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT count(*), count(DISTINCT k) FROM t"), vec![vec!["43|43"]; 3]);
}

#[test]
fn a_transaction_says_which_row_breaks_a_condition() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT CHECK (k > 0)) PARTITION BY HASH (k) INTO 2 FRAGMENTS")
        .unwrap();
    connection.execute("BEGIN").unwrap();
    connection.execute("INSERT INTO t VALUES (1), (2), (3)").unwrap();
    let error = failure(&connection, "INSERT INTO t VALUES (4), (-5)");
    assert_eq!(error.sqlstate(), "23514");
    assert!(error.message().contains("row 2 of the new rows"), "{error}");
    connection.execute("ROLLBACK").unwrap();
}

#[test]
fn keys_that_no_fragment_has_alone_are_refused() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    make(&connection, DISTRIBUTIONS[0]);
    for sql in [
        "CREATE TABLE u (a BIGINT PRIMARY KEY, b BIGINT) PARTITION BY HASH (b) INTO 2 FRAGMENTS",
        "CREATE TABLE u (a BIGINT, b BIGINT, UNIQUE (a)) PARTITION BY HASH (a, b) INTO 2 FRAGMENTS",
        "CREATE TABLE u (a BIGINT UNIQUE, b BIGINT) PARTITION BY RANGE (b) (VALUES LESS THAN (5))",
        "CREATE TABLE u (a BIGINT PRIMARY KEY) PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS",
        "ALTER TABLE t ADD UNIQUE (n)",
    ] {
        let error = failure(&connection, sql);
        assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
    }
    connection
        .execute("CREATE TABLE u (a BIGINT, b BIGINT, UNIQUE (b, a)) PARTITION BY HASH (a) INTO 2 FRAGMENTS")
        .unwrap();
    // NULLs are distinct.
    connection.execute("INSERT INTO u VALUES (1, NULL), (1, NULL), (NULL, NULL), (1, 1)").unwrap();
    assert_eq!(failure(&connection, "INSERT INTO u VALUES (NULL, 1), (1, 1)").sqlstate(), "23505");
    connection.execute("INSERT INTO u VALUES (1, NULL), (NULL, 1)").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM u"), vec![vec!["6"]; 2]);
}

#[test]
fn rows_of_large_fragments_are_found_by_their_keys() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let cluster = Cluster::new(3);
    let connection = cluster.on(1);
    make(&one, "");
    make(&connection, "PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2");
    let fill = "INSERT INTO t SELECT v, v % 100, 's' || v FROM generate_series(1, 200000) AS r (v)";
    for of in [&one, &connection] {
        of.execute(fill).unwrap();
    }
    for round in 0..30 {
        let key = round * 5003 + 1;
        for sql in [
            format!("UPDATE t SET n = -1 WHERE k = {key}"),
            format!("DELETE FROM t WHERE k = {}", key + 1),
            format!("INSERT INTO t VALUES ({key}, 0, 'twice')"),
            format!("INSERT INTO t VALUES ({}, 0, 'new')", 200_000 + key),
            format!("INSERT INTO t VALUES ({}, {round}, 'again')", key + 1),
        ] {
            let (expected, found) = (one.execute(&sql), connection.execute(&sql));
            let state = |error: hypostyle::Error| error.sqlstate().to_string();
            assert_eq!(found.map(|_| ()).map_err(state), expected.map(|_| ()).map_err(state), "{sql}");
        }
        for key in [key, key + 1, key + 2, 200_000 + key, 900_000] {
            for columns in ["k, n, s", "count(*)"] {
                let sql = format!("SELECT {columns} FROM t WHERE k = {key}");
                let expected = sorted_rows(&one, &sql).unwrap();
                assert_eq!(sorted_rows(&connection, &sql).unwrap(), expected, "{sql}");
            }
        }
    }
    let sums = "SELECT count(*), sum(k), sum(n), count(DISTINCT k) FROM t";
    assert_eq!(on_each(&cluster, sums), vec![sorted_rows(&one, sums).unwrap(); 3]);
}

/// Values of keys of all kinds, each in two forms that are equal, and another one.
const KEYS: [(&str, &str, &str, &str); 11] = [
    ("INTEGER", "-7", "-7", "8"),
    ("DECIMAL(9, 3)", "1.5", "1.500", "1.501"),
    ("UBIGINT", "18446744073709551615", "18446744073709551615", "18446744073709551614"),
    ("DOUBLE", "0.0", "-0.0", "1.0"),
    ("DOUBLE", "'NaN'::DOUBLE", "'NaN'::DOUBLE", "1.0"),
    ("VARCHAR", "'it''s \\ ''''x'", "'it''s \\ ''''x'", "'it''s'"),
    ("DATE", "DATE '2024-02-29'", "DATE '2024-02-29'", "DATE '2024-03-01'"),
    (
        "TIMESTAMP",
        "TIMESTAMP '2024-01-01 00:00:00.000001'",
        "TIMESTAMP '2024-01-01 00:00:00.000001'",
        "TIMESTAMP '2024-01-01'",
    ),
    (
        "TIMESTAMPTZ",
        "TIMESTAMPTZ '2024-01-01 00:00:00+00'",
        "TIMESTAMPTZ '2024-01-01 02:00:00+02'",
        "TIMESTAMPTZ '2024-01-02 00:00:00+00'",
    ),
    (
        "UUID",
        "'00112233-4455-6677-8899-aabbccddeeff'::UUID",
        "'00112233-4455-6677-8899-AABBCCDDEEFF'::UUID",
        "'00112233-4455-6677-8899-aabbccddeef0'::UUID",
    ),
    ("BLOB", "'\\x00ff'::BLOB", "'\\x00ff'::BLOB", "'\\x00fe'::BLOB"),
];

#[test]
fn keys_of_all_types_are_found() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let cluster = Cluster::new(2);
    let connection = cluster.on(1);
    for (number, (of, value, equal, other)) in KEYS.into_iter().enumerate() {
        let table = format!("k{number}");
        let make = format!("CREATE TABLE {table} (k {of} PRIMARY KEY, n INTEGER)");
        one.execute(&make).unwrap();
        connection.execute(&format!("{make} PARTITION BY HASH (k) INTO 3 FRAGMENTS")).unwrap();
        for sql in [
            format!("INSERT INTO {table} VALUES ({value}, 1)"),
            format!("INSERT INTO {table} VALUES ({equal}, 1)"),
            format!("INSERT INTO {table} VALUES ({other}, 1)"),
            format!("INSERT INTO {table} SELECT {equal}, x FROM generate_series(1, 100) AS r (x)"),
            format!("INSERT INTO {table} VALUES ({equal}, 2) ON CONFLICT (k) DO UPDATE SET n = excluded.n"),
            format!("INSERT INTO {table} VALUES ({other}, 3) ON CONFLICT DO NOTHING"),
        ] {
            let (expected, found) = (one.execute(&sql), connection.execute(&sql));
            let state = |error: hypostyle::Error| error.sqlstate().to_string();
            assert_eq!(found.map(|_| ()).map_err(state), expected.map(|_| ()).map_err(state), "{of}: {sql}");
        }
        let rows = format!("SELECT count(*), min(n), max(n) FROM {table}");
        assert_eq!(on_each(&cluster, &rows), vec![sorted_rows(&one, &rows).unwrap(); 2], "{of}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM k0"), vec![vec!["2"]; 2]);
}
