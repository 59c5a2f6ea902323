//! Foreign keys between tables of a cluster: no row refers to a key that is not there, whichever nodes write.

use super::metrics::{metric, nodes};
use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};
use std::sync::atomic::{AtomicUsize, Ordering};

const RANGES: &str = "PARTITION BY RANGE (k) (VALUES LESS THAN (30), VALUES LESS THAN (MAXVALUE)) REPLICAS 2";

/// How the tables of the keys are distributed, and those of the rows that refer to them: also together.
const DISTRIBUTIONS: [(&str, &str); 4] = [
    ("REPLICATED", "PARTITION BY HASH (id) INTO 3 FRAGMENTS REPLICAS 2"),
    ("PARTITION BY HASH (k) INTO 5 FRAGMENTS", "PARTITION BY HASH (p) INTO 5 FRAGMENTS"),
    (RANGES, "PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS"),
    ("PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2", "REPLICATED"),
];

fn make(connection: &Connection, (keys, rows): (&str, &str)) {
    connection.execute(&format!("CREATE TABLE p (k BIGINT PRIMARY KEY, n INTEGER) {keys}")).unwrap();
    connection
        .execute(&format!("CREATE TABLE c (id BIGINT, p INTEGER REFERENCES p (k), s VARCHAR) {rows}"))
        .unwrap();
}

/// Statements of a session: some are refused, as one database refuses them.
const STATEMENTS: [&str; 36] = [
    "INSERT INTO p SELECT v, 0 FROM generate_series(1, 100) AS r (v)",
    "INSERT INTO c VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, 'n')",
    "INSERT INTO c VALUES (4, 3, 'x'), (5, 101, 'y')",
    "INSERT INTO c SELECT v, v, 's' FROM generate_series(10, 90) AS r (v)",
    "INSERT INTO c SELECT v, v, 's' FROM generate_series(50, 150) AS r (v)",
    "INSERT INTO c SELECT 200 + v, NULL, 's' FROM generate_series(1, 100) AS r (v)",
    "UPDATE c SET s = 'u' WHERE p < 5",
    "UPDATE c SET p = 100 WHERE id = 1",
    "UPDATE c SET p = 1000 WHERE id = 1",
    "UPDATE p SET n = n + 1",
    "UPDATE p SET k = 500 WHERE k = 1",
    "UPDATE p SET k = 501 WHERE k = 2",
    "UPDATE p SET k = k WHERE k = 2",
    "DELETE FROM p WHERE k = 100",
    "DELETE FROM p WHERE k IN (500, 99)",
    "DELETE FROM p WHERE k > 5 AND k < 12",
    "DELETE FROM p",
    "BEGIN; INSERT INTO p VALUES (600, 0); INSERT INTO c VALUES (600, 600, 't'); COMMIT",
    "BEGIN; DELETE FROM c WHERE p = 600; DELETE FROM p WHERE k = 600; COMMIT",
    "BEGIN; DELETE FROM p WHERE k = 98; INSERT INTO c VALUES (700, 98, 't')",
    "ROLLBACK",
    "TRUNCATE p",
    "ALTER TABLE c DROP CONSTRAINT c_p_fkey",
    "INSERT INTO c VALUES (5, 101, 'y')",
    "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (k)",
    "DELETE FROM c WHERE p = 101",
    "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (k) ON DELETE RESTRICT",
    "DELETE FROM p WHERE k = 2",
    "DELETE FROM p WHERE k = 97",
    "ALTER TABLE p ADD COLUMN more INTEGER DEFAULT 7",
    "INSERT INTO c VALUES (800, 999, 'z')",
    "INSERT INTO c VALUES (801, 96, 'z')",
    "DELETE FROM p WHERE k = 96",
    "DROP TABLE p",
    "DROP TABLE c",
    "DROP TABLE p",
];

#[test]
fn references_are_kept_as_in_one_database() {
    for (node, ways) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|ways| (node, ways))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        make(&one, ("", ""));
        make(&connection, ways);
        let mut refused = 0;
        for sql in STATEMENTS {
            let (expected, found) = (one.execute(sql), connection.execute(sql));
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(found.rows_affected(), expected.rows_affected(), "{ways:?}: {sql}");
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(found.sqlstate(), expected.sqlstate(), "{ways:?}: {sql}: {found}");
                    refused += 1;
                }
                (expected, found) => panic!("{ways:?}: {sql}: {:?} and {:?}", expected.err(), found.err()),
            }
            if one.is_in_transaction() {
                continue;
            }
            for all in ["SELECT k, n FROM p", "SELECT id, p, s FROM c"] {
                let rows = sorted_rows(&one, all).unwrap_or_default();
                if !rows.is_empty() {
                    assert_eq!(on_each(&cluster, all), vec![rows; 3], "{ways:?}: {sql}");
                }
            }
        }
        assert_eq!(refused, 14, "{ways:?}");
    }
}

/// Makes tables whose rows go, or get other values, with the keys that they refer to.
fn make_following(connection: &Connection, (keys, rows): (&str, &str)) {
    // As many fragments as `p` has, by the same keys. Rows with NULL are not partitioned by range here.
    let by = |column: &str| keys.replace("(k)", &format!("({column})"));
    let (others, last) = (if keys == RANGES { "REPLICATED".into() } else { by("p") }, by("m"));
    for sql in [
        format!("CREATE TABLE p (k BIGINT PRIMARY KEY, n INTEGER) {keys}"),
        format!(
            "CREATE TABLE c (id BIGINT, p BIGINT REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, s VARCHAR) {rows}"
        ),
        format!(
            "CREATE TABLE d (id BIGINT, p BIGINT DEFAULT 1 REFERENCES p ON DELETE SET NULL ON UPDATE SET DEFAULT) {others}"
        ),
        format!(
            "CREATE TABLE m (k BIGINT PRIMARY KEY, p BIGINT REFERENCES p ON DELETE CASCADE ON UPDATE SET NULL) {keys}"
        ),
        format!("CREATE TABLE l (id BIGINT, m BIGINT REFERENCES m ON DELETE CASCADE) {last}"),
    ] {
        connection.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

const FOLLOWED: [&str; 18] = [
    "INSERT INTO p SELECT v, 0 FROM generate_series(1, 60) AS r (v)",
    "INSERT INTO c SELECT v, v % 60 + 1, 's' FROM generate_series(1, 200) AS r (v)",
    "INSERT INTO d SELECT v, v % 60 + 1 FROM generate_series(1, 100) AS r (v)",
    "INSERT INTO m SELECT v, v % 60 + 1 FROM generate_series(1, 80) AS r (v)",
    "INSERT INTO l SELECT v, v % 80 + 1 FROM generate_series(1, 160) AS r (v)",
    "DELETE FROM p WHERE k > 50",
    "UPDATE p SET k = k + 1000 WHERE k BETWEEN 10 AND 20",
    "UPDATE p SET n = n + 1, k = k WHERE k < 30",
    "BEGIN; DELETE FROM p WHERE k = 5; INSERT INTO c VALUES (500, 5, 't')",
    "ROLLBACK",
    "BEGIN; INSERT INTO p VALUES (700, 0); INSERT INTO c VALUES (700, 700, 't'); INSERT INTO m VALUES (700, 700); \
     INSERT INTO l VALUES (700, 700); UPDATE p SET k = 701 WHERE k = 700; DELETE FROM p WHERE k = 4; COMMIT",
    "BEGIN; UPDATE p SET k = 800 WHERE k = 6; UPDATE p SET k = 801 WHERE k = 800; COMMIT",
    "BEGIN; DELETE FROM p WHERE k = 8; ROLLBACK",
    // Keys that rows would refer to which get defaults.
    "DELETE FROM p WHERE k = 1",
    "UPDATE p SET k = 900 WHERE k = 2",
    "DELETE FROM m WHERE k < 30",
    "DELETE FROM p WHERE k > 30",
    "DELETE FROM p",
];

#[test]
fn rows_follow_the_keys_that_they_refer_to_as_in_one_database() {
    for (node, ways) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|ways| (node, ways))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        make_following(&one, ("", ""));
        make_following(&connection, ways);
        for sql in FOLLOWED {
            let (expected, found) = (one.execute(sql), connection.execute(sql));
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(found.rows_affected(), expected.rows_affected(), "{ways:?}: {sql}");
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(found.sqlstate(), expected.sqlstate(), "{ways:?}: {sql}: {found}");
                }
                (expected, found) => panic!("{ways:?}: {sql}: {:?} and {:?}", expected.err(), found.err()),
            }
            if one.is_in_transaction() {
                continue;
            }
            for all in [
                "SELECT k, n FROM p",
                "SELECT id, p, s FROM c",
                "SELECT id, p FROM d",
                "SELECT k, p FROM m",
                "SELECT id, m FROM l",
            ] {
                let rows = sorted_rows(&one, all).unwrap();
                assert_eq!(on_each(&cluster, all), vec![rows; 3], "{ways:?}: {sql}: {all}");
            }
        }
        assert_eq!(sorted_rows(&one, "SELECT count(*) FROM c").unwrap(), ["0"]);
    }
}

#[test]
fn rows_follow_others_of_their_table() {
    for action in ["ON DELETE CASCADE ON UPDATE CASCADE", "ON DELETE SET NULL", "ON DELETE RESTRICT"] {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(2);
        let connection = cluster.on(1);
        let table = format!("CREATE TABLE tree (k BIGINT PRIMARY KEY, up BIGINT REFERENCES tree {action})");
        one.execute(&table).unwrap();
        connection.execute(&format!("{table} PARTITION BY HASH (k) INTO 3 FRAGMENTS")).unwrap();
        for sql in [
            // Below each row there are two.
            "INSERT INTO tree SELECT v, CASE WHEN v > 1 THEN (v - v % 2) / 2 END FROM generate_series(1, 63) AS r (v)",
            "UPDATE tree SET k = 100 WHERE k = 5",
            "DELETE FROM tree WHERE k = 6",
            "DELETE FROM tree WHERE k IN (40, 20, 41)",
            "BEGIN; INSERT INTO tree VALUES (70, 7), (71, 70); DELETE FROM tree WHERE k = 70; COMMIT",
            "ROLLBACK",
            "DELETE FROM tree",
        ] {
            let (expected, found) = (one.execute(sql), connection.execute(sql));
            let state = |error: hypostyle::Error| error.sqlstate().to_string();
            assert_eq!(found.err().map(state), expected.err().map(state), "{action}: {sql}");
            if one.is_in_transaction() {
                continue;
            }
            let all = "SELECT k, up FROM tree";
            assert_eq!(on_each(&cluster, all), vec![sorted_rows(&one, all).unwrap(); 2], "{action}: {sql}");
        }
    }
}

#[test]
fn a_row_that_comes_for_a_key_goes_with_it_or_is_refused() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    make_following(&connection, DISTRIBUTIONS[1]);
    connection
        .execute(&format!("INSERT INTO p SELECT v, 0 FROM generate_series(0, {}) AS r (v)", KEYS - 1))
        .unwrap();
    let insert = |key: u32| format!("INSERT INTO c VALUES ({key}, {key}, 'x')");
    let delete = |key: u32| format!("DELETE FROM p WHERE k = {key}");
    // Each key goes; a row comes before, and goes with it, or is refused.
    assert!(race(&cluster, insert, delete) >= KEYS as usize);
    for table in ["p", "c"] {
        assert_eq!(
            on_each(&cluster, &format!("SELECT count(*) FROM {table}")),
            vec![vec!["0"]; 3],
            "{table}"
        );
    }
}

#[test]
fn errors_name_the_constraint_the_key_and_the_table() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(1);
    make(&connection, DISTRIBUTIONS[1]);
    connection.execute("INSERT INTO p VALUES (1, 0)").unwrap();
    connection.execute("INSERT INTO c VALUES (1, 1, 'x')").unwrap();
    for sql in ["INSERT INTO c VALUES (2, 1, 'y'), (3, 8, 'z')", "DELETE FROM p"] {
        let error = failure(&connection, sql);
        assert_eq!(error.sqlstate(), "23503", "{sql}: {error}");
        for part in ["\"c_p_fkey\"", "\"c\"", "\"p\" has no row with that key"] {
            assert!(error.message().contains(part), "{sql}: {error}");
        }
    }
    let error = failure(&connection, "INSERT INTO c VALUES (2, 1, 'y'), (3, 8, 'z')");
    assert!(error.message().contains("row 2 of the new rows"), "{error}");
}

/// Returns how often statements of two sessions, one of each for a key, have succeeded.
fn race(cluster: &Cluster, insert: fn(u32) -> String, delete: fn(u32) -> String) -> usize {
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (connection, sql) in [(cluster.on(0), insert), (cluster.on(1), delete)] {
            let done = &done;
            scope.spawn(move || {
                for key in 0..KEYS {
                    loop {
                        match connection.execute(&sql(key)) {
                            Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                            Err(error) if error.sqlstate() == "40001" => continue,
                            Err(error) => {
                                assert_eq!(error.sqlstate(), "23503", "{error}");
                                0
                            }
                        };
                        break;
                    }
                }
            });
        }
    });
    done.into_inner()
}

const KEYS: u32 = 16;

#[test]
fn a_key_goes_or_a_row_comes_that_refers_to_it() {
    for ways in [DISTRIBUTIONS[0], DISTRIBUTIONS[1]] {
        let cluster = Cluster::new(3);
        let connection = cluster.on(0);
        make(&connection, ways);
        connection
            .execute(&format!("INSERT INTO p SELECT v, 0 FROM generate_series(0, {}) AS r (v)", KEYS - 1))
            .unwrap();
        let insert = |key: u32| format!("INSERT INTO c VALUES ({key}, {key}, 'x')");
        let delete = |key: u32| format!("DELETE FROM p WHERE k = {key}");
        assert_eq!(race(&cluster, insert, delete), KEYS as usize, "{ways:?}");
        let orphans = "SELECT count(*) FROM c WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.k = c.p)";
        assert_eq!(on_each(&cluster, orphans), vec![vec!["0"]; 3], "{ways:?}");
        let keys = sorted_rows(&connection, "SELECT k FROM p").unwrap();
        assert_eq!(on_each(&cluster, "SELECT p FROM c"), vec![keys; 3], "{ways:?}");
    }
}

#[test]
fn keys_that_go_are_told_to_the_nodes_with_the_rows() {
    let (served, _nodes) = nodes(3);
    let connection = served[0].database.connect().unwrap();
    make(&connection, ("PARTITION BY HASH (k) INTO 3 FRAGMENTS", "PARTITION BY HASH (id) INTO 3 FRAGMENTS"));
    connection.execute("INSERT INTO p SELECT v, 0 FROM generate_series(1, 110000) AS r (v)").unwrap();
    connection
        .execute("INSERT INTO c SELECT v, 2 * v - 1, 's' FROM generate_series(1, 20000) AS r (v)")
        .unwrap();
    let received = || -> f64 {
        let of = |peer: &str| metric(&served[0], &format!("peer_rows_received_total{{peer=\"{peer}\"}}"));
        ["n2", "n3"].map(of).iter().sum()
    };
    let before = received();
    let deleted = connection.execute("DELETE FROM p WHERE k % 2 = 0 AND k <= 20000").unwrap();
    assert_eq!(deleted.rows_affected(), Some(10_000));
    // The places of these rows, and their keys: no rows of others, and none that could refer to them.
    let rows = received() - before;
    assert!(rows <= 20_000.0, "{rows} rows");
    for sql in [
        "DELETE FROM p WHERE k <= 20000",
        "UPDATE p SET k = k + 1000000 WHERE k <= 20000",
        "DELETE FROM p WHERE k >= 19999 AND k <= 22000",
        // More than are told.
        "DELETE FROM p",
    ] {
        assert_eq!(failure(&connection, sql).sqlstate(), "23503", "{sql}");
    }
    connection.execute("DELETE FROM p WHERE k > 40000").unwrap();
    let left = "SELECT count(*), min(k), max(k) FROM p";
    for of_node in &served {
        let connection = of_node.database.connect().unwrap();
        assert_eq!(sorted_rows(&connection, left).unwrap(), ["30000|1|40000"]);
    }
}

#[test]
fn transactions_that_do_both_are_in_conflict() {
    let cluster = Cluster::new(2);
    let (one, other) = (cluster.on(0), cluster.on(1));
    make(&one, DISTRIBUTIONS[0]);
    one.execute("INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)").unwrap();
    one.execute("BEGIN").unwrap();
    one.execute("INSERT INTO c VALUES (1, 1, 'x')").unwrap();
    other.execute("DELETE FROM p WHERE k = 1").unwrap();
    assert_eq!(failure(&one, "COMMIT").sqlstate(), "40001");
    one.execute("BEGIN").unwrap();
    one.execute("DELETE FROM p WHERE k = 2").unwrap();
    other.execute("INSERT INTO c VALUES (2, 2, 'x')").unwrap();
    assert_eq!(failure(&one, "COMMIT").sqlstate(), "40001");
    // A foreign key that is new since, too.
    one.execute("BEGIN").unwrap();
    one.execute("DELETE FROM p WHERE k = 3").unwrap();
    other
        .execute("CREATE TABLE d (p BIGINT REFERENCES p) PARTITION BY ROUND ROBIN INTO 2 FRAGMENTS")
        .unwrap();
    other.execute("INSERT INTO d VALUES (3)").unwrap();
    assert_eq!(failure(&one, "COMMIT").sqlstate(), "40001");
    assert_eq!(on_each(&cluster, "SELECT k FROM p"), vec![vec!["2", "3"]; 2]);
}

#[test]
fn a_node_that_was_away_has_the_foreign_keys() {
    let cluster = Cluster::new(3);
    let (connection, away) = (cluster.on(0), cluster.on(2));
    cluster.cut(2);
    for sql in [
        "CREATE TABLE a (k BIGINT PRIMARY KEY, b BIGINT) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2",
        "CREATE TABLE b (k BIGINT PRIMARY KEY, a BIGINT REFERENCES a) PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2",
        // To a table that comes later, and back.
        "ALTER TABLE a ADD CONSTRAINT back FOREIGN KEY (b) REFERENCES b",
        "ALTER TABLE a ADD COLUMN more INTEGER",
        "INSERT INTO a VALUES (1, NULL, 0)",
        "INSERT INTO b VALUES (1, 1)",
        "UPDATE a SET b = 1",
    ] {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    cluster.mend(2);
    cluster.nodes[0].look_after();
    for sql in
        ["INSERT INTO a VALUES (2, 9, 0)", "INSERT INTO b VALUES (2, 9)", "DELETE FROM a", "DELETE FROM b"]
    {
        assert_eq!(failure(&away, sql).sqlstate(), "23503", "{sql}");
    }
    away.execute("INSERT INTO a VALUES (2, 1, 0)").unwrap();
    // What is altered keeps the others' foreign keys.
    away.execute("ALTER TABLE b ADD COLUMN more INTEGER").unwrap();
    for node in 0..3 {
        let error = failure(&cluster.on(node), "DELETE FROM b");
        assert_eq!(error.sqlstate(), "23503", "node {node}: {error}");
    }
}

#[test]
fn rows_of_one_table_refer_to_each_other() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(1);
    connection
        .execute(
            "CREATE TABLE tree (k BIGINT PRIMARY KEY, up BIGINT REFERENCES tree) PARTITION BY HASH (k) INTO 3 FRAGMENTS",
        )
        .unwrap();
    connection.execute("INSERT INTO tree VALUES (3, 2), (2, 1), (1, NULL)").unwrap();
    connection.execute("INSERT INTO tree VALUES (4, 4), (5, 3)").unwrap();
    for sql in [
        "INSERT INTO tree VALUES (6, 7)",
        "DELETE FROM tree WHERE k = 1",
        "UPDATE tree SET k = 9 WHERE k = 2",
        "UPDATE tree SET up = 8 WHERE k = 5",
    ] {
        assert_eq!(failure(&connection, sql).sqlstate(), "23503", "{sql}");
    }
    connection.execute("DELETE FROM tree WHERE k IN (3, 5)").unwrap();
    assert_eq!(on_each(&cluster, "SELECT k FROM tree"), vec![vec!["1", "2", "4"]; 2]);
    connection.execute("DELETE FROM tree").unwrap();
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM tree"), vec![vec!["0"]; 2]);
}

#[test]
fn names_are_those_of_the_session_that_defines() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    for sql in [
        "CREATE SCHEMA s",
        "CREATE TABLE s.p (k BIGINT PRIMARY KEY) REPLICATED",
        "CREATE TABLE p (k BIGINT PRIMARY KEY) REPLICATED",
        "INSERT INTO s.p VALUES (1)",
        "INSERT INTO p VALUES (2)",
        "SET search_path = s",
        "CREATE TABLE c (p BIGINT REFERENCES p) PARTITION BY HASH (p) INTO 2 FRAGMENTS",
        "CREATE TABLE d (p BIGINT REFERENCES main.p) PARTITION BY HASH (p) INTO 2 FRAGMENTS",
        "ALTER TABLE d ADD COLUMN n INTEGER",
    ] {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for node in 0..2 {
        let connection = cluster.on(node);
        assert_eq!(failure(&connection, "INSERT INTO s.c VALUES (2)").sqlstate(), "23503");
        assert_eq!(failure(&connection, "INSERT INTO s.d (p) VALUES (1)").sqlstate(), "23503");
        connection.execute("INSERT INTO s.c VALUES (1)").unwrap();
        connection.execute("INSERT INTO s.d (p) VALUES (2)").unwrap();
    }
}

#[test]
fn other_foreign_keys_are_refused() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    make(&connection, DISTRIBUTIONS[0]);
    connection.execute("CREATE TABLE own (k BIGINT PRIMARY KEY)").unwrap();
    for sql in [
        "CREATE TABLE u (a BIGINT REFERENCES p)",
        "ALTER TABLE own ADD FOREIGN KEY (k) REFERENCES p",
        "CREATE TABLE u (a BIGINT REFERENCES own) REPLICATED",
        "ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES own",
        "CREATE TABLE u (a BIGINT REFERENCES p DEFERRABLE INITIALLY DEFERRED) REPLICATED",
        "ALTER TABLE p RENAME TO q",
        "ALTER TABLE p RENAME COLUMN k TO key",
    ] {
        let error = failure(&connection, sql);
        assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
    }
    assert_eq!(failure(&connection, "ALTER TABLE p DROP CONSTRAINT p_pkey").sqlstate(), "2BP01");
    connection.execute("ALTER TABLE p RENAME COLUMN n TO number").unwrap();
    connection.execute("ALTER TABLE c RENAME TO d").unwrap();
    assert_eq!(failure(&connection, "INSERT INTO d VALUES (1, 1, 'x')").sqlstate(), "23503");
}
