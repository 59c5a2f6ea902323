//! Transactions over tables of a cluster: what is changed between BEGIN and COMMIT is published at once.

use super::{Cluster, failure, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};

const DISTRIBUTIONS: [&str; 3] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS REPLICAS 2",
    "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
    "REPLICATED",
];

const ALL: &str = "SELECT k, n, s FROM t";

fn prepare(connection: &Connection, distribution: &str) {
    connection
        .execute(&format!(
            "CREATE TABLE t (k BIGINT, n INTEGER DEFAULT 3, s VARCHAR DEFAULT 'x') {distribution}"
        ))
        .unwrap();
    connection
        .execute("INSERT INTO t SELECT v, v % 5, 'v' || v FROM generate_series(1, 60) AS r (v)")
        .unwrap();
}

/// Statements of a session, after each of which its rows are compared with those of one database.
const STATEMENTS: [&str; 32] = [
    "BEGIN",
    "INSERT INTO t (k) VALUES (100), (101)",
    "INSERT INTO t SELECT k + 1000, n, s FROM t WHERE k > 95",
    "SAVEPOINT a",
    "INSERT INTO t (k, s) VALUES (102, DEFAULT), (103, 'y')",
    "ROLLBACK TO a",
    "INSERT INTO t (k) VALUES (104)",
    "RELEASE a",
    "COMMIT",
    "BEGIN",
    "INSERT INTO t (k) VALUES (-1)",
    "ROLLBACK",
    "BEGIN",
    "DELETE FROM t WHERE false",
    "INSERT INTO t SELECT max(k) + 1, count(*), 'max' FROM t",
    "INSERT INTO t SELECT max(k) + 1, count(*), 'max' FROM t",
    "COMMIT",
    "BEGIN READ ONLY",
    "COMMIT",
    "CREATE TEMPORARY TABLE own (a BIGINT)",
    "BEGIN",
    "INSERT INTO own VALUES (1), (2)",
    "INSERT INTO t (k) SELECT a FROM own",
    "COMMIT",
    "BEGIN",
    "SAVEPOINT b",
    "INSERT INTO t (k) VALUES (7)",
    "ROLLBACK TO b",
    "COMMIT AND CHAIN",
    "INSERT INTO t (k, n) VALUES (8, NULL)",
    "SAVEPOINT c",
    "COMMIT",
];

#[test]
fn transactions_see_and_publish_what_they_append() {
    // On the coordinator and on another node alike.
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        prepare(&one, "");
        prepare(&connection, distribution);
        let (mut outside, mut open) = (sorted_rows(&one, ALL).unwrap(), false);
        for sql in STATEMENTS {
            one.execute(sql).unwrap();
            connection.execute(sql).unwrap_or_else(|error| panic!("{distribution}: {sql}: {error}"));
            let expected = sorted_rows(&one, ALL).unwrap();
            assert_eq!(sorted_rows(&connection, ALL).unwrap(), expected, "{distribution}: {sql}");
            for query in [
                "SELECT count(*), sum(k), max(s) FROM t",
                "SELECT n, count(*) FROM t WHERE k > 50 GROUP BY n",
                "SELECT k, s FROM t ORDER BY k DESC LIMIT 7",
                "SELECT a.k, b.n FROM t AS a JOIN t AS b ON a.k = b.k + 1000",
            ] {
                let expected = sorted_rows(&one, query).unwrap();
                assert_eq!(
                    sorted_rows(&connection, query).unwrap(),
                    expected,
                    "{distribution}: {sql}: {query}"
                );
            }
            open = match sql.split(' ').next() {
                Some("BEGIN") => true,
                Some("COMMIT" | "ROLLBACK") => sql.ends_with("CHAIN") || sql.contains(" TO "),
                _ => open,
            };
            if !open || sql.ends_with("CHAIN") {
                outside = expected;
            }
            assert_eq!(on_each(&cluster, ALL), vec![outside.clone(); 3], "{distribution}: {sql}");
        }
    }
}

#[test]
fn a_transaction_may_update_first() {
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        prepare(&connection, distribution);
        for (change, within, then, expected) in [
            (
                "UPDATE t SET n = 100 WHERE k <= 10",
                "10|100",
                "INSERT INTO t (k, n) VALUES (200, 100)",
                "11|100",
            ),
            ("DELETE FROM t WHERE n = 100", "0|", "INSERT INTO t (k, n) VALUES (201, 7)", "0|"),
            ("TRUNCATE t", "0|", "INSERT INTO t (k, n) VALUES (1, 100), (2, 100)", "2|100"),
        ] {
            let query = "SELECT count(*), max(n) FROM t WHERE n = 100";
            let before = sorted_rows(&connection, query).unwrap();
            connection.execute("BEGIN").unwrap();
            connection.execute(change).unwrap();
            assert_eq!(sorted_rows(&connection, query).unwrap(), [within]);
            connection.execute("ROLLBACK").unwrap();
            assert_eq!(sorted_rows(&connection, query).unwrap(), before);
            connection.execute("BEGIN").unwrap();
            connection.execute("SAVEPOINT a").unwrap();
            connection.execute(change).unwrap();
            connection.execute("ROLLBACK TO a").unwrap();
            assert_eq!(sorted_rows(&connection, query).unwrap(), before);
            connection.execute(change).unwrap();
            connection.execute(then).unwrap();
            assert_eq!(on_each(&cluster, query), vec![before; 3]);
            connection.execute("COMMIT").unwrap();
            assert_eq!(on_each(&cluster, query), vec![vec![expected]; 3], "{distribution}: {change}");
        }
    }
}

#[test]
fn what_cannot_be_published_at_once_is_refused() {
    let cluster = Cluster::new(2);
    let connection = cluster.on(0);
    prepare(&connection, DISTRIBUTIONS[0]);
    connection.execute("CREATE TABLE u (k BIGINT) REPLICATED; CREATE TABLE own (a BIGINT)").unwrap();
    for (first, then) in [
        ("INSERT INTO t (k) VALUES (1)", "INSERT INTO own VALUES (1)"),
        ("INSERT INTO own VALUES (1)", "INSERT INTO t (k) VALUES (1)"),
        ("INSERT INTO t (k) VALUES (1)", "ALTER TABLE t ADD COLUMN a INTEGER"),
        ("INSERT INTO t (k) VALUES (1)", "DROP TABLE t"),
        ("INSERT INTO t (k) VALUES (1)", "CREATE TABLE w (a BIGINT) REPLICATED"),
    ] {
        connection.execute("BEGIN").unwrap();
        connection.execute(first).unwrap();
        let error = failure(&connection, then);
        assert_eq!(error.sqlstate(), "0A000", "{first}; {then}: {error}");
        connection.execute("ROLLBACK").unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT count(*), sum(n) FROM t"), vec![vec!["60|120"]; 2]);
}

/// Statements that change the same rows again and again. After those that fail, ROLLBACK TO follows.
const AGAIN: [&str; 45] = [
    "BEGIN",
    "INSERT INTO t (k) VALUES (100), (101), (102)",
    "UPDATE t SET n = n + 1 WHERE k > 50",
    "UPDATE t SET n = n + 1 WHERE k > 90",
    "DELETE FROM t WHERE k IN (60, 101)",
    "INSERT INTO t SELECT k + 1000, n, s FROM t WHERE k > 55",
    "UPDATE t SET k = k + 1 WHERE k >= 100",
    "UPDATE t SET n = 9 WHERE k IN (3, 101, 1057) RETURNING k, n, s",
    "DELETE FROM t WHERE k > 1050 OR k = 4 RETURNING *",
    "SAVEPOINT a",
    "UPDATE t SET s = 'late', n = 0",
    "TRUNCATE t",
    "INSERT INTO t (k) VALUES (1)",
    "ROLLBACK TO a",
    "DELETE FROM t USING u WHERE t.k = u.k AND u.k < 20",
    "UPDATE t SET n = u.k FROM u WHERE t.k = u.k + 99",
    "MERGE INTO t USING (SELECT DISTINCT k FROM u) AS o ON t.k = o.k + 20 \
     WHEN MATCHED AND t.k % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'merged' \
     WHEN NOT MATCHED THEN INSERT (k, n) VALUES (o.k + 20, -1)",
    "INSERT INTO u VALUES (2, 'again'), (70, 'new') ON CONFLICT (k) DO UPDATE SET s = excluded.s",
    "INSERT INTO u VALUES (2, 'once more'), (70, 'newer') ON CONFLICT (k) DO UPDATE SET s = excluded.s",
    "DELETE FROM u WHERE k = 70",
    "INSERT INTO u VALUES (70, 'newest')",
    "INSERT INTO u VALUES (70, 'taken'), (71, 'free') ON CONFLICT DO NOTHING",
    "INSERT INTO w VALUES (1, 70), (2, 2)",
    "SAVEPOINT b",
    "DELETE FROM u WHERE k = 70",
    "ROLLBACK TO b",
    "DELETE FROM u WHERE k = 2",
    "ROLLBACK TO b",
    "INSERT INTO u VALUES (70, 'twice')",
    "ROLLBACK TO b",
    "DELETE FROM w WHERE u = 70",
    "DELETE FROM u WHERE k = 70",
    "COMMIT",
    "BEGIN",
    "INSERT INTO t (k) VALUES (500)",
    "DELETE FROM t WHERE k = 500",
    "COMMIT",
    "BEGIN",
    "TRUNCATE t",
    "INSERT INTO t (k) VALUES (7), (8)",
    "DELETE FROM t WHERE k = 7",
    "TRUNCATE t",
    "INSERT INTO t (k) VALUES (9)",
    "UPDATE t SET n = 1",
    "COMMIT",
];

#[test]
fn transactions_see_what_they_change_any_number_of_times() {
    const TABLES: [&str; 3] = [ALL, "SELECT k, s FROM u", "SELECT a, u FROM w"];
    for (node, distribution) in [0, 1].into_iter().flat_map(|node| DISTRIBUTIONS.map(|way| (node, way))) {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        let by_key = "PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2";
        for (of, of_t, of_u, of_w) in [
            (&one, "", "", ""),
            (&connection, distribution, by_key, "PARTITION BY HASH (a) INTO 3 FRAGMENTS"),
        ] {
            prepare(of, of_t);
            of.execute(&format!("CREATE TABLE u (k BIGINT PRIMARY KEY, s VARCHAR) {of_u}")).unwrap();
            of.execute(&format!("CREATE TABLE w (a BIGINT, u BIGINT REFERENCES u (k)) {of_w}")).unwrap();
            of.execute("INSERT INTO u SELECT x * 2, 'u' || x FROM generate_series(1, 25) AS r (x)").unwrap();
        }
        for sql in AGAIN {
            let told = format!("node {node}, {distribution}: {sql}");
            let run = |connection: &Connection| match sql.contains("RETURNING") {
                true => sorted_rows(connection, sql),
                false => connection.execute(sql).map(|done| vec![format!("{:?}", done.rows_affected())]),
            };
            match (run(&one), run(&connection)) {
                (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{told}"),
                (Err(expected), Err(found)) => {
                    assert_eq!(found.sqlstate(), expected.sqlstate(), "{told}: {found}");
                    continue;
                }
                (expected, found) => panic!("{told}: {found:?} instead of {expected:?}"),
            }
            for query in TABLES {
                assert_eq!(
                    sorted_rows(&connection, query).unwrap(),
                    sorted_rows(&one, query).unwrap(),
                    "{told}: {query}"
                );
            }
            for query in ["SELECT count(*), sum(n) FROM t", "SELECT max(k) FROM t WHERE n > 2 AND k < 1000"] {
                let expected = sorted_rows(&one, query).unwrap();
                assert_eq!(sorted_rows(&connection, query).unwrap(), expected, "{told}: {query}");
            }
            if sql == "COMMIT" {
                for query in TABLES {
                    assert_eq!(
                        on_each(&cluster, query),
                        vec![sorted_rows(&one, query).unwrap(); 3],
                        "{told}"
                    );
                }
            }
        }
    }
}

/// Statements of a session over three tables, some of which one transaction changes together.
const OF_SEVERAL: [&str; 24] = [
    "BEGIN",
    "INSERT INTO t (k) VALUES (100), (101)",
    "INSERT INTO u SELECT k, 'from t' FROM t WHERE k > 50",
    "DELETE FROM w WHERE a < 3",
    "INSERT INTO w VALUES (50)",
    "COMMIT",
    "BEGIN",
    "UPDATE t SET n = 70 WHERE k < 20",
    "UPDATE u SET s = 'updated' WHERE k % 2 = 0",
    "SAVEPOINT a",
    "DELETE FROM w",
    "INSERT INTO u VALUES (-1, NULL)",
    "ROLLBACK TO a",
    "INSERT INTO w SELECT x FROM generate_series(100, 400) AS r (x)",
    "COMMIT",
    "BEGIN",
    "INSERT INTO u VALUES (7, 'seven')",
    "INSERT INTO t (k) VALUES (7)",
    "ROLLBACK",
    "BEGIN",
    "TRUNCATE u",
    "DELETE FROM t WHERE k = 100",
    "INSERT INTO w VALUES (51), (52)",
    "COMMIT",
];

#[test]
fn transactions_change_several_tables_at_once() {
    const TABLES: [&str; 3] = ["SELECT k, n, s FROM t", "SELECT k, s FROM u", "SELECT a FROM w"];
    for node in [0, 1] {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        let connection = cluster.on(node);
        for (of, ways) in [(&one, ["", "", ""]), (&connection, DISTRIBUTIONS)] {
            prepare(of, ways[0]);
            of.execute(&format!("CREATE TABLE u (k BIGINT, s VARCHAR) {}", ways[1])).unwrap();
            of.execute(&format!("CREATE TABLE w (a BIGINT) {}", ways[2])).unwrap();
            of.execute("INSERT INTO w VALUES (1), (2), (3)").unwrap();
        }
        let rows = || TABLES.map(|sql| sorted_rows(&one, sql).unwrap());
        let (mut outside, mut open) = (rows(), false);
        for sql in OF_SEVERAL {
            one.execute(sql).unwrap();
            connection.execute(sql).unwrap_or_else(|error| panic!("node {node}: {sql}: {error}"));
            open = match sql {
                "BEGIN" => true,
                "COMMIT" | "ROLLBACK" => false,
                _ => open,
            };
            if !open {
                outside = rows();
            }
            for (sql, rows) in TABLES.iter().zip(&outside) {
                assert_eq!(on_each(&cluster, sql), vec![rows.clone(); 3], "node {node}: {sql}");
            }
        }
    }
}

#[test]
fn nothing_of_a_transaction_is_published_if_one_table_is_in_conflict() {
    let cluster = Cluster::new(2);
    let (one, other) = (cluster.on(0), cluster.on(1));
    prepare(&one, DISTRIBUTIONS[0]);
    one.execute("CREATE TABLE u (k BIGINT) REPLICATED; INSERT INTO u VALUES (1)").unwrap();
    for (connection, rest) in [(&one, "UPDATE u SET k = 2"), (&other, "UPDATE u SET k = 3")] {
        connection.execute("BEGIN").unwrap();
        connection.execute("INSERT INTO t (k, n) VALUES (1000, 0)").unwrap();
        connection.execute(rest).unwrap();
    }
    other.execute("COMMIT").unwrap();
    assert_eq!(failure(&one, "COMMIT").sqlstate(), "40001");
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["61"]; 2]);
    assert_eq!(on_each(&cluster, "SELECT k FROM u"), vec![vec!["3"]; 2]);
    // One that is sent again is published once.
    for connection in [&one, &other, &one] {
        connection.execute("BEGIN; INSERT INTO t (k, n) VALUES (1001, 0); INSERT INTO u VALUES (4)").unwrap();
        connection.execute("SET statement_id = '00112233-4455-6677-8899-aabbccddeeff'").unwrap();
        connection.execute("COMMIT").unwrap();
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM t"), vec![vec!["62"]; 2]);
    assert_eq!(on_each(&cluster, "SELECT k FROM u"), vec![vec!["3", "4"]; 2]);
}

#[test]
fn readers_see_all_tables_of_a_transaction_or_none() {
    let cluster = Cluster::new(3);
    prepare(&cluster.on(0), DISTRIBUTIONS[0]);
    cluster
        .on(0)
        .execute("CREATE TABLE u (k BIGINT) PARTITION BY HASH (k) INTO 3 FRAGMENTS REPLICAS 2")
        .unwrap();
    cluster.on(0).execute("INSERT INTO u SELECT k FROM t").unwrap();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let connection = cluster.on(2);
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                let sql = "SELECT (SELECT count(*) FROM t) = (SELECT count(*) FROM u)";
                assert_eq!(sorted_rows(&connection, sql).unwrap(), ["true"]);
            }
        });
        for number in 0..20 {
            let sql = format!(
                "BEGIN; INSERT INTO t (k) VALUES ({number}); INSERT INTO u VALUES ({number}); COMMIT"
            );
            cluster.on(number % 2).execute(&sql).unwrap();
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM u"), vec![vec!["80"]; 3]);
}

#[test]
fn transactions_that_update_the_same_rows_are_in_conflict() {
    let cluster = Cluster::new(2);
    let (one, other, reader) = (cluster.on(0), cluster.on(1), cluster.on(1));
    prepare(&one, DISTRIBUTIONS[0]);
    for connection in [&one, &other, &reader] {
        connection.execute("BEGIN").unwrap();
    }
    let count = "SELECT count(*), sum(n) FROM t";
    let before = sorted_rows(&reader, count).unwrap();
    one.execute("UPDATE t SET n = n + 1").unwrap();
    other.execute("UPDATE t SET n = n + 10").unwrap();
    one.execute("COMMIT").unwrap();
    assert_eq!(failure(&other, "COMMIT").sqlstate(), "40001");
    // A transaction reads one state.
    assert_eq!(sorted_rows(&reader, count).unwrap(), before);
    reader.execute("COMMIT").unwrap();
    assert_eq!(sorted_rows(&reader, count).unwrap(), ["60|180"]);
    // Appends are in conflict with nothing.
    for connection in [&one, &other] {
        connection.execute("BEGIN").unwrap();
        connection.execute("INSERT INTO t (k) VALUES (1)").unwrap();
    }
    one.execute("COMMIT").unwrap();
    other.execute("COMMIT").unwrap();
    assert_eq!(on_each(&cluster, count), vec![vec!["62|186"]; 2]);
}

#[test]
fn rows_that_are_locked_are_as_they_were_when_the_transaction_commits() {
    let cluster = Cluster::new(3);
    for sql in [
        "CREATE TABLE t (k BIGINT, n BIGINT) \
         PARTITION BY RANGE (k) (VALUES LESS THAN (30), VALUES LESS THAN (MAXVALUE)) REPLICAS 2",
        "CREATE TABLE log (k BIGINT) REPLICATED",
        "INSERT INTO t SELECT x, 0 FROM generate_series(1, 60) AS r (x)",
    ] {
        cluster.on(0).execute(sql).unwrap();
    }
    let lock = "SELECT n FROM t WHERE k = 7 FOR UPDATE";
    let of_all = "SELECT k FROM t ORDER BY k LIMIT 1 FOR SHARE";
    for (node, locking, change, is_refused) in [
        (0, lock, "UPDATE t SET n = n + 1 WHERE k = 7", true),
        (1, lock, "UPDATE t SET n = n + 1 WHERE k = 7", true),
        (2, lock, "DELETE FROM t WHERE k = 8", true),
        (0, lock, "UPDATE t SET n = n + 1 WHERE k = 50", false),
        (1, lock, "INSERT INTO t VALUES (7, 0)", false),
        (2, of_all, "UPDATE t SET n = n + 1 WHERE k = 50", true),
        (0, "SELECT count(*) FROM t FOR UPDATE", "UPDATE t SET n = n + 1 WHERE k = 50", true),
        (1, "SELECT n FROM t WHERE k = 1000 FOR UPDATE", "UPDATE t SET n = n + 1 WHERE k = 50", false),
        (2, "SELECT n FROM t WHERE k = 7", "UPDATE t SET n = n + 1 WHERE k = 7", false),
    ] {
        let connection = cluster.on(node);
        connection.execute("BEGIN").unwrap();
        sorted_rows(&connection, locking).unwrap();
        cluster.on((node + 1) % 3).execute(change).unwrap();
        connection.execute("INSERT INTO log VALUES (1)").unwrap();
        let state = connection.execute("COMMIT").err().map(|error| error.sqlstate().to_string());
        assert_eq!(state.as_deref(), is_refused.then_some("40001"), "{locking}; {change} on node {node}");
    }
    assert_eq!(on_each(&cluster, "SELECT count(*) FROM log"), vec![vec!["4"]; 3]);
    // What the transaction itself changes is in nobody's way, and one that changes nothing commits.
    let connection = cluster.on(1);
    connection.execute("BEGIN").unwrap();
    sorted_rows(&connection, lock).unwrap();
    connection.execute("UPDATE t SET n = 100 WHERE k = 7").unwrap();
    connection.execute("COMMIT").unwrap();
    connection.execute("BEGIN").unwrap();
    sorted_rows(&connection, lock).unwrap();
    cluster.on(2).execute("UPDATE t SET n = n + 1 WHERE k = 7").unwrap();
    connection.execute("COMMIT").unwrap();
}
