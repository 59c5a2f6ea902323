//! Queries with conditions on a partition key: which nodes they ask, and that they have the rows of one node.

use super::{Cluster, Wires};
use crate::tpch::sorted_rows;
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, OpenOptions, Result};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the parts of queries that other nodes run.
struct Counting {
    wires: Arc<Wires>,
    runs: AtomicUsize,
}

impl Counting {
    fn cluster() -> (Cluster, Arc<Self>) {
        let made = OnceCell::new();
        let cluster = Cluster::reached_by(3, |wires| {
            let peers = Arc::new(Self { wires: wires.clone(), runs: AtomicUsize::new(0) });
            made.get_or_init(|| peers).clone()
        });
        (cluster, made.into_inner().unwrap())
    }

    /// Returns how many parts a statement has run on other nodes.
    fn during(&self, connection: &Connection, sql: &str) -> usize {
        self.runs.store(0, Ordering::SeqCst);
        let result = connection.execute(sql).unwrap();
        if result.is_query() {
            result.record_batches().unwrap();
        }
        self.runs.load(Ordering::SeqCst)
    }
}

impl Peers for Counting {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        if matches!(request.request, Request::Run(_)) {
            self.runs.fetch_add(1, Ordering::SeqCst);
        }
        self.wires.call(node, request, rows)
    }
}

/// Returns the numbers of the fragments that a query reads, as EXPLAIN tells them.
fn fragments(connection: &Connection, sql: &str) -> Vec<u32> {
    let plan = sorted_rows(connection, &format!("EXPLAIN {sql}")).unwrap().join("\n");
    let (_, shares) = plan.split_once("GatherExec: fragments of ").unwrap_or_else(|| panic!("{plan}"));
    let shares = shares.split_once("=[").unwrap().1.split_once(']').unwrap().0;
    let numbers = shares.split("; ").flat_map(|share| share.split_once(": ").unwrap().1.split(' '));
    let mut numbers: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn joins_of_changes_ask_for_partners_only() {
    let (cluster, counting) = Counting::cluster();
    let connection = cluster.on(0);
    for sql in [
        "CREATE TABLE t (k BIGINT PRIMARY KEY, v INTEGER) PARTITION BY HASH (k) INTO 12 FRAGMENTS",
        "CREATE TEMPORARY TABLE few (a BIGINT, b INTEGER)",
        "CREATE TEMPORARY TABLE many (a BIGINT)",
        "INSERT INTO t SELECT x, 0 FROM generate_series(1, 600) AS r (x)",
        "INSERT INTO few VALUES (7, 1), (NULL, 2)",
        "INSERT INTO many SELECT x FROM generate_series(-3000, 3000) AS r (x)",
    ] {
        connection.execute(sql).unwrap();
    }
    // EXPLAIN shows what runs.
    let seven = fragments(&connection, "SELECT v FROM t WHERE k = 7");
    for sql in
        ["UPDATE t SET v = f.b FROM few AS f WHERE t.k = f.a", "DELETE FROM t USING few WHERE t.k = few.a"]
    {
        assert_eq!(fragments(&connection, sql), seven, "{sql}");
    }
    for (most, sql) in [
        (1, "UPDATE t SET v = f.b FROM few AS f WHERE t.k = f.a"),
        (1, "UPDATE t SET k = t.k + 1000 FROM few WHERE few.a = t.k AND t.v = 1 RETURNING t.k"),
        (1, "UPDATE t SET k = 7 WHERE k = 1007"),
        (1, "MERGE INTO t USING few ON few.a = t.k WHEN MATCHED THEN UPDATE SET v = few.b + 1"),
        (1, "DELETE FROM t USING few WHERE t.k = few.a AND few.b < 5"),
    ] {
        let runs = counting.during(&connection, sql);
        // Keys of rows that are written anew are looked for where they would be.
        let most = most + usize::from(sql.contains("SET k") || sql.starts_with("MERGE"));
        assert!(runs <= most, "{sql}: {runs} parts");
    }
    assert_eq!(sorted_rows(&connection, "SELECT count(*), sum(v) FROM t").unwrap(), ["599|0"]);
    let changed = |sql: &str| connection.execute(sql).unwrap().rows_affected();
    assert_eq!(changed("UPDATE t SET v = 1 FROM many AS m WHERE t.k = m.a"), Some(599));
    assert_eq!(changed("DELETE FROM t USING many WHERE many.a + 1 = t.k AND t.k = many.a + 1"), Some(599));
    connection.execute("DELETE FROM few; INSERT INTO t SELECT a, 0 FROM many").unwrap();
    assert_eq!(changed("UPDATE t SET v = 1 FROM few WHERE t.k = few.a"), Some(0));
    assert_eq!(changed("DELETE FROM t USING many WHERE t.k = many.a OR t.k = 0"), Some(6001));
}

#[test]
fn conditions_on_a_hashed_key_rule_fragments_out() {
    let (cluster, counting) = Counting::cluster();
    let coordinator = cluster.on(0);
    for (name, key) in [("t", "k"), ("u", "k"), ("w", "k, s")] {
        coordinator
            .execute(&format!(
                "CREATE TABLE {name} (k BIGINT, v INTEGER, s VARCHAR) PARTITION BY HASH ({key}) INTO 12 FRAGMENTS"
            ))
            .unwrap();
        coordinator
            .execute(&format!(
                "INSERT INTO {name} SELECT NULLIF(v, 0), v % 10, 's' || v % 4 FROM generate_series(0, 400) AS r (v)"
            ))
            .unwrap();
    }
    for (most, condition) in [
        (1, "k = 5"),
        (1, "5 = k"),
        (1, "k = 5 AND v > 3"),
        (1, "k = 5 AND k IN (4, 5, 6)"),
        (2, "k IN (1, 2)"),
        (8, "k IN (1, 2, 3, 4, 5, 6, 7, 8)"),
        (2, "k = 1 OR k = 2"),
        (2, "(k = 1 AND v = 2) OR (k = 3 AND v < 9)"),
        (1, "k IS NULL"),
        (2, "k IS NULL OR k = 4"),
        (3, "(k = 1 OR k = 2 OR k = 3) AND s = 's1'"),
    ] {
        let found = fragments(&coordinator, &format!("SELECT * FROM t WHERE {condition}"));
        assert!(found.len() <= most, "{condition}: {found:?}");
    }
    for condition in [
        "k <> 5",
        "k > 5",
        "k % 7 = 5",
        "k = v",
        "k NOT IN (1, 2)",
        "k = 5 OR v = 3",
        "k IS NOT NULL",
        "v = 5",
        "abs(k) = 5",
        "NOT k = 5",
    ] {
        let found = fragments(&coordinator, &format!("SELECT * FROM t WHERE {condition}"));
        assert_eq!(found.len(), 12, "{condition}: {found:?}");
    }
    for (most, condition) in [(1, "k = 5 AND s = 's1'"), (4, "k IN (5, 6) AND s IN ('s1', 's2')")] {
        let found = fragments(&coordinator, &format!("SELECT * FROM w WHERE {condition}"));
        assert!(found.len() <= most, "{condition}: {found:?}");
    }
    assert_eq!(fragments(&coordinator, "SELECT * FROM w WHERE k = 5").len(), 12);
    // Fragments that are read together are needed if one of their tables is.
    let joined = "SELECT t.v, u.v FROM t JOIN u ON t.k = u.k";
    assert_eq!(fragments(&coordinator, joined).len(), 12);
    assert_eq!(fragments(&coordinator, &format!("{joined} WHERE t.k = 5")).len(), 1);
    let kept = "SELECT u.k, x.v FROM u LEFT JOIN (SELECT * FROM t WHERE k = 5) AS x ON x.k = u.k";
    assert_eq!(fragments(&coordinator, kept).len(), 12);
    statements_of_one_key_ask_its_node(&coordinator, &counting);
}

/// Runs statements with a condition on one key, of which a third are about fragments of the node itself.
fn statements_of_one_key_ask_its_node(coordinator: &Connection, counting: &Counting) {
    let all = counting.during(coordinator, "SELECT count(*) FROM t");
    assert_eq!(all, 2, "both other nodes");
    let mut asked = 0;
    for key in 1..=30 {
        for sql in [
            format!("SELECT v FROM t WHERE k = {key}"),
            format!("SELECT count(*), sum(v) FROM t WHERE k = {key}"),
            format!("SELECT k, max(s) FROM t WHERE k = {key} GROUP BY k"),
            format!("SELECT * FROM t WHERE k = {key} ORDER BY s LIMIT 3"),
            format!("UPDATE t SET v = 77 WHERE k = {key}"),
            format!("DELETE FROM t WHERE k = {key}"),
        ] {
            let runs = counting.during(coordinator, &sql);
            assert!(runs <= 1, "{sql} asks {runs} other nodes");
            asked += runs;
        }
    }
    // A third of them are on the node itself.
    assert!((60..180).contains(&asked), "{asked} of 180 statements have asked another node");
    assert_eq!(sorted_rows(coordinator, "SELECT count(*) FROM t WHERE v = 77").unwrap(), ["0"]);
    assert_eq!(sorted_rows(coordinator, "SELECT count(*) FROM t").unwrap(), ["371"]);
}

#[test]
fn conditions_on_a_ranged_key_rule_fragments_out() {
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    coordinator
        .execute(
            "CREATE TABLE t (k INTEGER, v INTEGER) PARTITION BY RANGE (k)
             (VALUES LESS THAN (0), VALUES LESS THAN (100), VALUES LESS THAN (200), VALUES LESS THAN (MAXVALUE))",
        )
        .unwrap();
    coordinator
        .execute("INSERT INTO t SELECT NULLIF(v, 7), v FROM generate_series(-50, 300) AS r (v)")
        .unwrap();
    for (expected, condition) in [
        (vec![0], "k < 0"),
        (vec![0, 1], "k <= 0"),
        (vec![2], "k >= 100 AND k < 200"),
        (vec![2], "k BETWEEN 150 AND 160"),
        (vec![2, 3], "k > 199"),
        (vec![2, 3], "199 < k"),
        (vec![3], "k >= 200"),
        (vec![1], "k = 5"),
        (vec![3], "k IS NULL"),
        (vec![0, 3], "k IN (-5, 250)"),
        (vec![0, 3], "k < -5 OR k > 250"),
        (vec![1], "k = 99 AND v = 3"),
        (vec![0, 1, 2, 3], "k <> 5"),
        (vec![0, 1, 2, 3], "k < 5 OR v = 300"),
        (vec![0, 1, 2, 3], "k % 5 = 1"),
    ] {
        let found = fragments(&coordinator, &format!("SELECT * FROM t WHERE {condition}"));
        assert_eq!(found, expected, "{condition}");
    }
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A column of a key, and constants that are compared with it: some of other types, NULL, and such as no
/// row has.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("i", &["0", "1", "-3", "7", "2.0", "2.5", "NULL", "9223372036854775807", "CAST(4 AS TINYINT)", "'5'"]),
    ("n", &["0", "1.50", "1.5", "-2.25", "3", "NULL", "1e0", "100000.001"]),
    ("f", &["0.0", "-0.0", "1.5", "'NaN'::DOUBLE", "NULL", "'Infinity'::DOUBLE", "-1", "2"]),
    ("s", &["'a'", "''", "'A'", "'zz'", "NULL", "'ä'", "'b '"]),
    (
        "d",
        &[
            "DATE '2024-01-01'",
            "'2024-01-03'",
            "NULL",
            "DATE '1960-02-03'",
            "TIMESTAMP '2024-01-02 00:00:00'",
        ],
    ),
    ("b", &["true", "false", "NULL"]),
    (
        "u",
        &[
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
            "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12'::UUID",
            "'00000000-0000-0000-0000-000000000003'::UUID",
            "NULL",
        ],
    ),
    ("z", &["TIMESTAMPTZ '2024-01-01 00:00:00+00'", "TIMESTAMPTZ '2024-01-01 02:00:00+01'", "NULL"]),
];

/// Returns a condition on a column.
fn atom(random: &mut Random) -> String {
    let (column, constants) = COLUMNS[random.below(COLUMNS.len())];
    let constant = random.of(constants);
    match random.below(9) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => {
            let count = 1 + random.below(5);
            let list: Vec<&str> = (0..count).map(|_| random.of(constants)).collect();
            format!("{column} {} ({})", random.of(&["IN", "NOT IN"]), list.join(", "))
        }
        3 => format!("{column} BETWEEN {constant} AND {}", random.of(constants)),
        4 => format!("{column} IS NOT DISTINCT FROM {constant}"),
        5 if column == "b" => "b".to_string(),
        5 => format!("{constant} {} {column}", random.of(&["=", "<", ">", "<=", ">="])),
        _ => format!("{column} {} {constant}", random.of(&["=", "=", "=", "<", "<=", ">", ">=", "<>"])),
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 | 1 => atom(random),
        2 => format!("({} AND {})", expression(random, depth - 1), expression(random, depth - 1)),
        3 => format!("({} OR {})", expression(random, depth - 1), expression(random, depth - 1)),
        _ => format!("NOT ({})", expression(random, depth - 1)),
    }
}

const TABLE: &str = "(id BIGINT, i INTEGER, n DECIMAL(10,2), f DOUBLE, s VARCHAR, d DATE, b BOOLEAN, u UUID,
    z TIMESTAMPTZ)";

const ROWS: &str = "SELECT x, NULLIF(x % 11, 3) - 3, NULLIF(x % 9, 4) * 0.75 - 2.25,
    CASE x % 8 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN NULL WHEN 2 THEN -0.0 WHEN 3 THEN 0.0
        WHEN 4 THEN 'Infinity'::DOUBLE ELSE x % 7 - 1.5 END,
    CASE x % 7 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a' WHEN 3 THEN 'A' WHEN 4 THEN 'zz' WHEN 5 THEN 'ä'
        ELSE 'b' END,
    CASE WHEN x % 5 = 0 THEN NULL ELSE DATE '2024-01-01' + CAST(x % 6 AS INTEGER) END,
    CASE x % 3 WHEN 0 THEN true WHEN 1 THEN false END,
    CASE x % 4 WHEN 0 THEN NULL WHEN 1 THEN 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID
        WHEN 2 THEN 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'::UUID
        ELSE '00000000-0000-0000-0000-000000000003'::UUID END,
    CASE x % 3 WHEN 0 THEN NULL WHEN 1 THEN TIMESTAMPTZ '2024-01-01 00:00:00+00'
        ELSE TIMESTAMPTZ '2024-01-01 01:00:00+00' END
    FROM generate_series(1, 300) AS r (x)";

/// How the table is partitioned: by each of its columns, and by several.
const PARTITIONED: [&str; 14] = [
    "HASH (i) INTO 7 FRAGMENTS",
    "HASH (n) INTO 7 FRAGMENTS",
    "HASH (f) INTO 7 FRAGMENTS",
    "HASH (s) INTO 7 FRAGMENTS",
    "HASH (d) INTO 7 FRAGMENTS",
    "HASH (b) INTO 4 FRAGMENTS",
    "HASH (u) INTO 7 FRAGMENTS",
    "HASH (z, b) INTO 7 FRAGMENTS",
    "HASH (s, i) INTO 11 FRAGMENTS",
    "RANGE (i) (VALUES LESS THAN (-1), VALUES LESS THAN (2), VALUES LESS THAN (5), VALUES LESS THAN (MAXVALUE))",
    "RANGE (n) (VALUES LESS THAN (0), VALUES LESS THAN (1.5), VALUES LESS THAN (3), VALUES LESS THAN (MAXVALUE))",
    "RANGE (f) (VALUES LESS THAN (0), VALUES LESS THAN (1.5), VALUES LESS THAN (9), VALUES LESS THAN (MAXVALUE))",
    "RANGE (s) (VALUES LESS THAN ('A'), VALUES LESS THAN ('b'), VALUES LESS THAN ('c'), VALUES LESS THAN (MAXVALUE))",
    "RANGE (u) (VALUES LESS THAN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), VALUES LESS THAN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'),
     VALUES LESS THAN (MAXVALUE))",
];

#[test]
fn random_conditions_have_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute(&format!("CREATE TABLE t {TABLE}; INSERT INTO t {ROWS}")).unwrap();
    let cluster = Cluster::new(2);
    let several = cluster.on(0);
    for (number, partitioned) in PARTITIONED.iter().enumerate() {
        several.execute(&format!("CREATE TABLE t{number} {TABLE} PARTITION BY {partitioned}")).unwrap();
        several.execute(&format!("INSERT INTO t{number} {ROWS}")).unwrap();
    }
    let mut random = Random(7);
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..120 {
        let condition = expression(&mut random, 3);
        for columns in ["id", "count(*), min(id), max(id)"] {
            let Ok(expected) = sorted_rows(&one, &format!("SELECT {columns} FROM t WHERE {condition}"))
            else {
                refused += 1;
                continue;
            };
            for (number, partitioned) in PARTITIONED.iter().enumerate() {
                let sql = format!("SELECT {columns} FROM t{number} WHERE {condition}");
                assert_eq!(sorted_rows(&several, &sql).unwrap(), expected, "{partitioned}: {sql}");
                compared += 1;
            }
        }
    }
    assert!(compared > 2000, "{compared} compared, {refused} refused");
    // Changes find the same rows.
    for _ in 0..12 {
        let condition = expression(&mut random, 2);
        let update = |table: &str| format!("UPDATE {table} SET id = id + 1000 WHERE {condition}");
        let Ok(changed) = one.execute(&update("t")) else { continue };
        for (number, partitioned) in PARTITIONED.iter().enumerate() {
            let done = several.execute(&update(&format!("t{number}"))).unwrap();
            assert_eq!(done.rows_affected(), changed.rows_affected(), "{partitioned}: {condition}");
        }
    }
    let expected = sorted_rows(&one, "SELECT count(*), sum(id) FROM t").unwrap();
    for (number, partitioned) in PARTITIONED.iter().enumerate() {
        let found = sorted_rows(&several, &format!("SELECT count(*), sum(id) FROM t{number}")).unwrap();
        assert_eq!(found, expected, "{partitioned}");
    }
}
