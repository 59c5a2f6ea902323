//! ALTER TABLE over tables of a cluster: the same rows and columns as in one database.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};
use std::thread;
use std::time::Duration;

const DISTRIBUTIONS: [&str; 4] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY RANGE (k) (VALUES LESS THAN (0), VALUES LESS THAN (40), VALUES LESS THAN (MAXVALUE)) REPLICAS 2",
    "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
    "REPLICATED",
];

/// Alterations and, between them, changes of rows.
const STATEMENTS: [&str; 40] = [
    "ALTER TABLE t ADD COLUMN a INTEGER",
    "INSERT INTO t (k, a) SELECT v, v FROM generate_series(100, 130) AS r (v)",
    "ALTER TABLE t ADD COLUMN b VARCHAR DEFAULT 'b' || 1",
    "UPDATE t SET b = 'x' WHERE k % 3 = 0",
    "ALTER TABLE t ADD COLUMN d DECIMAL(9, 3) NOT NULL DEFAULT 2.5",
    "ALTER TABLE t RENAME COLUMN a TO c",
    "DELETE FROM t WHERE k % 7 = 1",
    "ALTER TABLE t DROP COLUMN n",
    "INSERT INTO t (k, d) VALUES (500, 1), (501, 2)",
    "ALTER TABLE t ADD COLUMN n VARCHAR DEFAULT 'again'",
    "ALTER TABLE t ADD COLUMN e DATE DEFAULT DATE '2024-02-29', ADD COLUMN f BLOB DEFAULT '\\x01ff'::BLOB",
    "UPDATE t SET e = NULL WHERE k > 50",
    "ALTER TABLE t ALTER COLUMN d SET DEFAULT 7, ALTER COLUMN d DROP NOT NULL",
    "INSERT INTO t (k) VALUES (600), (NULL)",
    "INSERT INTO t (k, d) VALUES (601, NULL)",
    // Names change places.
    "ALTER TABLE t RENAME COLUMN b TO old",
    "ALTER TABLE t RENAME COLUMN n TO b",
    "ALTER TABLE t RENAME COLUMN old TO n",
    "UPDATE t SET n = n || b WHERE k < 10",
    "ALTER TABLE t DROP COLUMN s",
    "ALTER TABLE t ADD COLUMN g DOUBLE[] DEFAULT ARRAY[1.5, NULL]",
    "ALTER TABLE t RENAME TO other",
    "CREATE TABLE t (k BIGINT)",
    "DROP TABLE t",
    "ALTER TABLE other RENAME TO t",
    "ALTER TABLE t RENAME COLUMN k TO kk",
    "MERGE INTO t USING (SELECT 600 AS o) AS u ON t.kk = u.o WHEN MATCHED THEN UPDATE SET c = -1",
    "ALTER TABLE t DROP COLUMN b, DROP COLUMN c",
    "ALTER TABLE t ALTER COLUMN d DROP DEFAULT",
    "INSERT INTO t (kk) SELECT v FROM generate_series(1000, 1010) AS r (v)",
    "ALTER TABLE t ALTER COLUMN d TYPE DOUBLE",
    "UPDATE t SET d = 0.5 WHERE kk % 5 = 2",
    "ALTER TABLE t ALTER COLUMN d TYPE VARCHAR",
    "ALTER TABLE t ALTER COLUMN e TYPE VARCHAR",
    "INSERT INTO t (kk, d, e) VALUES (2000, 'x', 'y'), (2001, '7', '2024-12-31'), (2002, '8', 'z')",
    // What nobody sees any more need not fit.
    "DELETE FROM t WHERE e = 'y'",
    "UPDATE t SET e = NULL WHERE e = 'z'",
    "ALTER TABLE t ALTER COLUMN e TYPE DATE",
    "ALTER TABLE t ALTER COLUMN kk TYPE INTEGER",
    "INSERT INTO t (kk, e) VALUES (3000, DATE '2025-01-01'), (10, NULL)",
];

fn prepare(connection: &Connection, distribution: &str) {
    connection
        .execute(&format!("CREATE TABLE t (n INTEGER DEFAULT 3, k BIGINT, s VARCHAR) {distribution}"))
        .unwrap();
    connection
        .execute("INSERT INTO t SELECT v % 5, v, 'v' || v FROM generate_series(-20, 80) AS r (v)")
        .unwrap();
}

fn shape(connection: &Connection, table: &str) -> Vec<String> {
    sorted_rows(
        connection,
        &format!(
            "SELECT ordinal_position, column_name, data_type, is_nullable, column_default \
             FROM information_schema.columns WHERE table_name = '{table}'"
        ),
    )
    .unwrap()
}

#[test]
fn alterations_are_those_of_one_database() {
    for (round, distribution) in DISTRIBUTIONS.into_iter().enumerate() {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let other = cluster.on(0);
        prepare(&one, "");
        prepare(&other, distribution);
        for (step, sql) in STATEMENTS.into_iter().enumerate() {
            let told = format!("{distribution}, step {step}: {sql}");
            // A node misses some of them, and catches up.
            let away = 1 + (step / 7 + round) % 2;
            match step % 7 {
                2 => cluster.cut(away),
                6 => {
                    cluster.mend(away);
                    cluster.nodes[0].look_after();
                    let health = cluster.nodes[0].health();
                    assert!(health.values().all(|health| health.problem.is_none()), "{told}: {health:?}");
                }
                _ => {}
            }
            one.execute(sql).unwrap_or_else(|error| panic!("one: {told}: {error}"));
            let distributed = match sql.starts_with("CREATE TABLE") {
                true => format!("{sql} REPLICATED"),
                false => sql.to_string(),
            };
            other.execute(&distributed).unwrap_or_else(|error| panic!("{told}: {error}"));
            if step % 7 < 2 {
                let behind = sorted_rows(&other, "SHOW FRAGMENTS").unwrap();
                assert!(behind.iter().all(|row| row.split('|').nth(5) == Some("true")), "{told}: {behind:?}");
            }
            let table = if (21..24).contains(&step) { "other" } else { "t" };
            let all = format!("SELECT * FROM {table}");
            assert_eq!(
                sorted_rows(&other, &all).unwrap_or_else(|error| panic!("{told}: {error}")),
                sorted_rows(&one, &all).unwrap(),
                "{told}"
            );
            assert_eq!(shape(&other, table), shape(&one, table), "{told}");
        }
        cluster.mend(1);
        cluster.mend(2);
        cluster.nodes[0].look_after();
        let expected = sorted_rows(&one, "SELECT * FROM t").unwrap();
        assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![expected.clone(); 3]);
        // Rows are copied with the columns that they have, and a node that comes later knows these.
        for change in ["DRAIN NODE n2", "DROP NODE n2", "ADD NODE n2 ADDRESS 'h2:1'", "REBALANCE"] {
            other.execute(&format!("ALTER CLUSTER {change}")).unwrap();
        }
        assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![expected.clone(); 3]);
        for away in 1..3 {
            cluster.cut(away);
            assert_eq!(sorted_rows(&other, "SELECT * FROM t").unwrap(), expected, "without {away}");
            cluster.mend(away);
        }
        for node in 0..3 {
            cluster.on(node).execute("CHECK DATABASE").unwrap();
        }
    }
}

#[test]
fn what_no_node_can_do_alone_is_refused() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0].replace("REPLICAS 2", "").as_str());
    let before = (sorted_rows(&connection, "SELECT * FROM t").unwrap(), shape(&connection, "t"));
    for (sql, state) in [
        ("ALTER TABLE t DROP COLUMN k", "2BP01"),
        ("ALTER TABLE t ALTER COLUMN k TYPE VARCHAR", "0A000"),
        ("ALTER TABLE t ALTER COLUMN n TYPE BIGINT USING n + 1", "0A000"),
        ("ALTER TABLE t ALTER COLUMN s TYPE INTEGER", "22P02"),
        ("ALTER TABLE t ALTER COLUMN n TYPE BIGINT, ADD CHECK (n < 99)", "0A000"),
        ("ALTER TABLE t ALTER COLUMN n TYPE BIGINT, ALTER COLUMN s TYPE BLOB", "0A000"),
        ("ALTER TABLE t ADD COLUMN a INTEGER NOT NULL", "23502"),
        ("ALTER TABLE t ADD COLUMN a DOUBLE DEFAULT random()", "0A000"),
        ("ALTER TABLE t ADD COLUMN a INTEGER UNIQUE", "0A000"),
        ("ALTER TABLE t ADD PRIMARY KEY (n)", "0A000"),
        ("ALTER TABLE t ADD CHECK (n > 0)", "23514"),
        ("ALTER TABLE t RENAME COLUMN n TO m, ADD CHECK (m < 9)", "0A000"),
        ("ALTER TABLE t ADD COLUMN a INTEGER, ALTER COLUMN n SET NOT NULL", "0A000"),
        ("ALTER TABLE t ADD COLUMN a INTEGER GENERATED ALWAYS AS IDENTITY", "0A000"),
        ("ALTER TABLE t ADD COLUMN s VARCHAR", "42701"),
        ("ALTER TABLE t RENAME COLUMN absent TO a", "42703"),
        ("CREATE INDEX i ON t (lower(s))", "0A000"),
        ("BEGIN; CREATE INDEX i ON t (n)", "0A000"),
        ("BEGIN; ALTER TABLE t ADD COLUMN a INTEGER", "0A000"),
    ] {
        let error = failure(&connection, sql);
        assert_eq!(error.sqlstate(), state, "{sql}: {error}");
        let _not_in_one = connection.execute("ROLLBACK");
        let now = (sorted_rows(&connection, "SELECT * FROM t").unwrap(), shape(&connection, "t"));
        assert_eq!(now, before, "{sql}");
    }
}

#[test]
fn keys_of_integers_get_another_width() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(1);
    for sql in [
        "CREATE TABLE p (k INTEGER PRIMARY KEY, s VARCHAR) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2",
        "CREATE TABLE c (p INTEGER REFERENCES p (k), n SMALLINT CHECK (n > 0)) PARTITION BY HASH (p) INTO 4 FRAGMENTS",
        "INSERT INTO p SELECT v, 's' FROM generate_series(1, 100) AS r (v)",
        "INSERT INTO c SELECT v, v FROM generate_series(1, 50) AS r (v)",
    ] {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    cluster.cut(2);
    connection.execute("ALTER TABLE p ALTER COLUMN k TYPE BIGINT").unwrap();
    connection.execute("INSERT INTO p VALUES (5000000000, 't')").unwrap();
    cluster.mend(2);
    cluster.nodes[0].look_after();
    for (sql, state) in [
        ("INSERT INTO p VALUES (7, 'again')", "23505"),
        ("INSERT INTO c VALUES (500, 1)", "23503"),
        ("DELETE FROM p WHERE k = 7", "23503"),
        ("ALTER TABLE p ALTER COLUMN k TYPE VARCHAR", "42804"),
        ("ALTER TABLE p ALTER COLUMN k TYPE INTEGER", "22003"),
        ("ALTER TABLE c ALTER COLUMN n TYPE INTEGER", "0A000"),
    ] {
        for node in 0..3 {
            let error = failure(&cluster.on(node), sql);
            assert_eq!(error.sqlstate(), state, "node {node}: {sql}: {error}");
        }
    }
    connection.execute("DELETE FROM p WHERE k = 5000000000").unwrap();
    connection.execute("ALTER TABLE p ALTER COLUMN k TYPE INTEGER").unwrap();
    let found = "SELECT count(*), sum(k), count(c.p) FROM p LEFT JOIN c ON p.k = c.p";
    assert_eq!(on_each(&cluster, found), vec![vec!["100|5050|50"]; 3]);
    assert_eq!(on_each(&cluster, "SELECT s FROM p WHERE k = 77"), vec![vec!["s"]; 3]);
}

#[test]
fn a_table_of_a_node_keeps_its_name() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    prepare(&connection, "REPLICATED");
    connection.execute("CREATE TABLE own (a INTEGER); INSERT INTO own VALUES (1)").unwrap();
    assert_eq!(failure(&connection, "ALTER TABLE t RENAME TO own").sqlstate(), "42P07");
    assert_eq!(sorted_rows(&connection, "SELECT * FROM own").unwrap(), ["1"]);
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["101"]; 2]);
}

#[test]
fn alterations_and_changes_at_once_lose_nothing() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0]);
    let (mut appended, mut read) = (0, 0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (writer, mut appended) = (cluster.on(0), 0);
            for number in 0..60 {
                match writer.execute(&format!("INSERT INTO t (k, s) VALUES ({number}, 'new')")) {
                    Ok(_) => appended += 1,
                    Err(error) => assert_eq!(error.sqlstate(), "40001", "{error}"),
                }
            }
            appended
        });
        let reader = scope.spawn(|| {
            let (reader, mut read) = (cluster.on(1), 0);
            for _ in 0..60 {
                match sorted_rows(&reader, "SELECT count(*) >= 101, count(DISTINCT k) >= 101 FROM t") {
                    Ok(rows) => {
                        assert_eq!(rows, ["true|true"]);
                        read += 1;
                    }
                    // The table was altered between the plan and its parts.
                    Err(error) => assert!(["40001", "55000", "58030"].contains(&error.sqlstate()), "{error}"),
                }
            }
            read
        });
        let other = cluster.on(0);
        for number in 0..12 {
            other.execute(&format!("ALTER TABLE t ADD COLUMN c{number} INTEGER DEFAULT {number}")).unwrap();
            if number % 3 == 2 {
                other.execute(&format!("ALTER TABLE t DROP COLUMN c{}", number - 1)).unwrap();
            }
        }
        (appended, read) = (writer.join().unwrap(), reader.join().unwrap());
    });
    assert!(appended > 0 && read > 0, "{appended} {read}");
    let sums = "SELECT count(*), count(c0), count(c11), sum(c9 - 9) FROM t";
    let expected = format!("{0}|{0}|{0}|0", 101 + appended);
    assert_eq!(on_each(&cluster, sums), vec![vec![expected]; 3]);
}

#[test]
fn conditions_of_rows_are_checked() {
    for distribution in DISTRIBUTIONS {
        let cluster = Cluster::new(3);
        let connection = cluster.on(0);
        connection
            .execute(&format!(
                "CREATE TABLE t (k BIGINT, n INTEGER CHECK (n > 0), s VARCHAR DEFAULT 'x', \
                 CONSTRAINT few CHECK (k + n < 100)) {distribution}"
            ))
            .unwrap();
        let fill = "INSERT INTO t (k, n) SELECT v, 1 + v % 5 FROM generate_series(1, 50) AS r (v)";
        connection.execute(fill).unwrap();
        let before = sorted_rows(&connection, "SELECT * FROM t").unwrap();
        for sql in [
            "INSERT INTO t (k, n) VALUES (7, 7), (8, 0)",
            "INSERT INTO t (k, n) SELECT v, v FROM generate_series(30, 60) AS r (v)",
            "UPDATE t SET n = n - 3",
            "UPDATE t SET k = 98",
            "MERGE INTO t USING (SELECT 5 AS o) AS u ON t.k = u.o WHEN MATCHED THEN UPDATE SET n = -1",
        ] {
            assert_eq!(failure(&connection, sql).sqlstate(), "23514", "{sql}");
        }
        assert_eq!(sorted_rows(&connection, "SELECT * FROM t").unwrap(), before);
        // NULL is not false. Rows of before are not looked at again.
        connection.execute("INSERT INTO t VALUES (NULL, 5, 'a'), (9, NULL, 'b')").unwrap();
        connection.execute("ALTER TABLE t RENAME COLUMN n TO m").unwrap();
        assert_eq!(failure(&connection, "UPDATE t SET m = 0 WHERE k = 9").sqlstate(), "23514");
        connection.execute("ALTER TABLE t DROP CONSTRAINT few").unwrap();
        connection.execute("INSERT INTO t VALUES (500, 500, 'c')").unwrap();
        connection.execute("ALTER TABLE t DROP COLUMN m").unwrap();
        assert_eq!(on_each(&cluster, "SELECT count(*), max(k) FROM t"), vec![vec!["53|500"]; 3]);
    }
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    for sql in [
        "CREATE TABLE t (a INTEGER CHECK (b > 0))",
        "CREATE TABLE t (a INTEGER, a VARCHAR)",
        "CREATE TABLE t (a INTEGER DEFAULT nothing())",
        "CREATE TABLE absent.t (a INTEGER)",
    ] {
        let error = failure(&connection, &format!("{sql} REPLICATED"));
        assert_eq!(error.sqlstate(), failure(&one, sql).sqlstate(), "{error}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM hypostyle_cluster.fragment"), vec![vec!["0"]; 2]);
}

#[test]
fn a_schema_comes_with_its_tables() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE SCHEMA s").unwrap();
    connection.execute("CREATE TABLE s.t (a BIGINT) PARTITION BY HASH (a) INTO 4 FRAGMENTS").unwrap();
    connection.execute("INSERT INTO s.t VALUES (1), (2), (3)").unwrap();
    connection.execute("ALTER TABLE s.t RENAME TO u").unwrap();
    assert_eq!(on_each(&cluster, "SELECT sum(a) FROM s.u"), vec![vec!["6"]; 2]);
}

#[test]
fn what_a_definition_does_not_tell_is_refused_before_it_is_published() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection.execute("CREATE SEQUENCE q").unwrap();
    connection
        .execute(&format!(
            "CREATE TABLE t (k BIGINT, n INTEGER CONSTRAINT few CHECK (n > 0), s VARCHAR) {}",
            DISTRIBUTIONS[0]
        ))
        .unwrap();
    connection.execute("INSERT INTO t SELECT v, v, 's' FROM generate_series(1, 20) AS r (v)").unwrap();
    let large = format!("ALTER TABLE t ADD COLUMN a VARCHAR DEFAULT '{}'", "x".repeat(300_000));
    for (sql, state) in [
        ("ALTER TABLE t ALTER COLUMN s SET DEFAULT nextval('q')", "0A000"),
        ("ALTER TABLE t DROP CONSTRAINT few, ADD CONSTRAINT few CHECK (n > 7)", "23514"),
        ("ALTER TABLE t DROP CONSTRAINT few, ADD CONSTRAINT other UNIQUE (n)", "0A000"),
        ("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", "0A000"),
        ("ALTER TABLE t ADD COLUMN a DOUBLE[] DEFAULT [random()]", "0A000"),
        ("ALTER TABLE t ADD COLUMN __position INTEGER", "42939"),
        ("ALTER TABLE t RENAME COLUMN s TO __position", "42939"),
        ("CREATE OR REPLACE TABLE t (a INTEGER)", "0A000"),
        (&large, "54000"),
    ] {
        let error = failure(&connection, sql);
        let told: String = sql.chars().take(80).collect();
        assert_eq!(error.sqlstate(), state, "{told}: {error}");
        // Nodes take the next catalog over, and have all rows.
        connection.execute("ALTER TABLE t ADD COLUMN x INTEGER; ALTER TABLE t DROP COLUMN x").unwrap();
        assert_eq!(on_each(&cluster, "SELECT count(*), sum(n) FROM t"), vec![vec!["20|210"]; 3], "{told}");
    }
    for (name, state) in [("__position", "42939"), ("k BIGINT DEFAULT nextval('q'), v", "0A000")] {
        let error = failure(&connection, &format!("CREATE TABLE u ({name} BIGINT) REPLICATED"));
        assert_eq!(error.sqlstate(), state, "{error}");
    }
}

#[test]
fn columns_may_have_the_names_that_new_ones_get_first() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT, __new_3_0 INTEGER, __new_2 INTEGER) REPLICATED").unwrap();
    connection.execute("INSERT INTO t VALUES (1, 2, 3)").unwrap();
    connection.execute("ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 4").unwrap();
    connection.execute("ALTER TABLE t ADD COLUMN __new_4_0 INTEGER DEFAULT 5").unwrap();
    connection.execute("ALTER TABLE t ADD COLUMN __new_6_0 INTEGER, ADD COLUMN b INTEGER DEFAULT 6").unwrap();
    assert_eq!(on_each(&cluster, "SELECT * FROM t"), vec![vec!["1|2|3|4|5||6"]; 2]);
}

#[test]
fn sequences_outlive_alterations() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    connection.execute("CREATE TABLE t (k BIGINT, n INTEGER) REPLICATED").unwrap();
    connection.execute("CREATE SEQUENCE q OWNED BY t.n REPLICATED").unwrap();
    assert_eq!(sorted_rows(&connection, "SELECT nextval('q')").unwrap(), ["1"]);
    connection.execute("ALTER TABLE t ADD COLUMN x INTEGER; ALTER TABLE t RENAME COLUMN n TO m").unwrap();
    assert_eq!(sorted_rows(&connection, "SELECT nextval('q')").unwrap(), ["2"]);
    connection.execute("ALTER TABLE t DROP COLUMN m").unwrap();
    assert_eq!(failure(&connection, "SELECT nextval('q')").sqlstate(), "42P01");
}

/// Alterations that look at the rows, and some that are refused as one database refuses them.
const OF_ROWS: [(&str, &str); 13] = [
    ("ALTER TABLE t ALTER COLUMN n SET NOT NULL", ""),
    ("INSERT INTO t VALUES (NULL, 500, 'x')", "23502"),
    ("ALTER TABLE t ADD CONSTRAINT few CHECK (n < 10)", ""),
    ("INSERT INTO t VALUES (50, 501, 'x')", "23514"),
    ("INSERT INTO t VALUES (1, 5, 'twice')", ""),
    ("ALTER TABLE t ADD PRIMARY KEY (k)", "23505"),
    ("DELETE FROM t WHERE s = 'twice'", ""),
    ("ALTER TABLE t ADD PRIMARY KEY (k)", ""),
    ("INSERT INTO t VALUES (1, 5, 'again')", "23505"),
    ("INSERT INTO t VALUES (1, NULL, 'again')", "23502"),
    ("ALTER TABLE t ALTER COLUMN n DROP NOT NULL", ""),
    ("INSERT INTO t VALUES (NULL, 600, 'x')", ""),
    ("ALTER TABLE t ALTER COLUMN n SET NOT NULL", "23502"),
];

#[test]
fn constraints_are_added_if_all_rows_keep_them() {
    // Rows of a round robin table have no keys.
    let distributions = [DISTRIBUTIONS[0], DISTRIBUTIONS[1], DISTRIBUTIONS[3]];
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| distributions.map(|way| (node, way))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        prepare(&one, "");
        prepare(&connection, distribution);
        for (sql, state) in OF_ROWS {
            for connection in [&one, &connection] {
                let error = connection.execute(sql).err();
                let found = error.as_ref().map_or("", |error| error.sqlstate());
                assert_eq!(found, state, "{distribution}: {sql}: {error:?}");
            }
            let all = "SELECT * FROM t";
            let rows = sorted_rows(&one, all).unwrap();
            assert_eq!(on_each(&cluster, all), vec![rows; 3], "{distribution}: {sql}");
            assert_eq!(shape(&connection, "t"), shape(&one, "t"), "{distribution}: {sql}");
        }
        for node in 0..3 {
            cluster.on(node).execute("CHECK DATABASE").unwrap();
        }
    }
}

#[test]
fn no_row_comes_between_a_look_and_its_constraint() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0]);
    let alter = "ALTER TABLE t ADD CONSTRAINT few CHECK (n < 1000)";
    thread::scope(|scope| {
        let writer = cluster.on(1);
        scope.spawn(move || {
            for number in 0..200 {
                match writer.execute(&format!("INSERT INTO t VALUES (2000, {number}, 'x')")) {
                    Ok(_) => {}
                    Err(error) if error.sqlstate() == "23514" => return,
                    // The columns may be others now.
                    Err(error) => assert!(["40001", "55000", "58030"].contains(&error.sqlstate()), "{error}"),
                }
                thread::sleep(Duration::from_millis(150));
            }
            panic!("the constraint has never come");
        });
        while let Err(error) = connection.execute(alter) {
            assert!(["40001", "23514"].contains(&error.sqlstate()), "{error}");
            while let Err(error) = connection.execute("DELETE FROM t WHERE n >= 1000") {
                assert_eq!(error.sqlstate(), "40001", "{error}");
            }
        }
    });
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t WHERE n >= 1000"), vec![vec!["0"]; 3]);
}
