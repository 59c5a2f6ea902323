//! Wide columns of the first rows in an order, which are fetched of the rows that are left.

use super::metrics::nodes;
use super::{Cluster, Wires};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle::cluster::Member;
use hypostyle::cluster::message::{Addressed, Request};
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{Connection, Database, OpenOptions, Result};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const COLUMNS: &str = "k BIGINT, g INTEGER, wide VARCHAR, raw BLOB, doc JSON, list BIGINT[]";

const LAYOUTS: [&str; 5] = [
    "PARTITION BY HASH (k) INTO 5 FRAGMENTS",
    "PARTITION BY HASH (k) INTO 7 FRAGMENTS REPLICAS 2",
    "PARTITION BY RANGE (k) (VALUES LESS THAN (0), VALUES LESS THAN (50), VALUES LESS THAN (51), \
     VALUES LESS THAN (100), VALUES LESS THAN (150), VALUES LESS THAN (200), VALUES LESS THAN (MAXVALUE)) \
     REPLICAS 2",
    "PARTITION BY ROUND ROBIN INTO 6 FRAGMENTS",
    "PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS REPLICAS 2",
];

/// Queries whose order tells all rows from each other, and which fetch columns.
const QUERIES: [&str; 12] = [
    "SELECT * FROM t ORDER BY k LIMIT 40",
    "SELECT * FROM t ORDER BY k DESC NULLS FIRST LIMIT 40",
    "SELECT wide FROM t ORDER BY g, k LIMIT 30",
    "SELECT raw, k, doc, wide AS w, wide FROM t ORDER BY g DESC, k LIMIT 25 OFFSET 15",
    "SELECT wide, list FROM t WHERE k % 3 = 1 AND wide LIKE '%7%' ORDER BY g NULLS FIRST, k LIMIT 20",
    "SELECT upper(wide), raw, k + 1 AS next FROM t ORDER BY g % 3, next LIMIT 50",
    "SELECT wide, list[1], doc FROM t ORDER BY k % 10 DESC, k LIMIT 33",
    "SELECT count(*), min(wide), max(length(raw)) FROM (SELECT * FROM t ORDER BY g, k LIMIT 35) AS r",
    "SELECT a.wide, b.k FROM (SELECT k, wide FROM t ORDER BY g, k LIMIT 20) AS a \
     JOIN (SELECT k, wide FROM t ORDER BY g, k LIMIT 30) AS b ON a.wide = b.wide ORDER BY b.k",
    "SELECT wide, name, k FROM t JOIN d ON t.g = d.g ORDER BY name, k, d.n LIMIT 45",
    "SELECT wide, name, k FROM d RIGHT JOIN t ON t.g = d.g AND d.n = 1 ORDER BY name DESC, k LIMIT 45 OFFSET 3",
    "SELECT k, doc FROM t WHERE g IN (SELECT g FROM d WHERE name > 'b') ORDER BY wide, k LIMIT 25",
];

/// Queries that fetch nothing.
const OTHERS: [&str; 9] = [
    "SELECT k, g FROM t ORDER BY k LIMIT 40",
    "SELECT k, wide FROM t ORDER BY wide LIMIT 40",
    "SELECT k, upper(wide) FROM t ORDER BY k LIMIT 40",
    "SELECT k, wide FROM t ORDER BY k",
    "SELECT k, wide FROM t LIMIT 40",
    "SELECT k, wide FROM t ORDER BY k LIMIT 5000",
    "SELECT k, wide FROM t ORDER BY k LIMIT 1",
    "SELECT g, max(wide) AS wide FROM t GROUP BY g ORDER BY g LIMIT 40",
    "SELECT a.k, a.wide FROM t AS a JOIN t AS b ON a.k = b.k ORDER BY a.k LIMIT 40",
];

/// Returns the rows of a query in their order.
fn rows(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let batches = connection.execute(sql)?.record_batches()?;
    let mut rows = Vec::new();
    for batch in &batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join("|"));
        }
    }
    Ok(rows)
}

fn plan(connection: &Connection, sql: &str) -> String {
    rows(connection, &format!("EXPLAIN {sql}")).unwrap().join("\n")
}

/// Makes a table with rows from -50 to 249, and one that is joined.
fn prepare(connection: &Connection, layout: &str, of_other: &str) {
    connection.execute(&format!("CREATE TABLE t ({COLUMNS}) {layout}")).unwrap();
    connection.execute(&format!("CREATE TABLE d (g INTEGER, n INTEGER, name VARCHAR) {of_other}")).unwrap();
    connection
        .execute(
            "INSERT INTO t SELECT v, nullif(v % 7, 3), CASE WHEN v % 11 <> 5 THEN repeat('w' || v, 20) END, \
             CASE WHEN v % 5 <> 2 THEN CAST('raw' || v AS BLOB) END, \
             CASE WHEN v % 4 <> 1 THEN '{\"v\": ' || v || '}' END, CASE WHEN v % 9 <> 4 THEN [v, NULL, v * 2] END \
             FROM generate_series(-50, 249) AS r (v)",
        )
        .unwrap();
    connection
        .execute("INSERT INTO d VALUES (0, 1, 'a'), (1, 1, 'b'), (1, 2, 'c'), (2, 1, NULL), (4, 1, 'd')")
        .unwrap();
}

#[test]
fn fetched_columns_are_those_of_one_database() {
    for layout in LAYOUTS {
        let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
        let cluster = Cluster::new(3);
        prepare(&one, "", "");
        prepare(&cluster.on(0), layout, "REPLICATED");
        let check = |node: usize, told: &str| {
            let connection = cluster.on(node);
            for sql in QUERIES {
                let told = format!("{layout}, {told}, node {node}: {sql}");
                let found = rows(&connection, sql).unwrap_or_else(|error| panic!("{told}: {error}"));
                assert_eq!(found, rows(&one, sql).unwrap(), "{told}");
            }
        };
        (0..3).for_each(|node| check(node, "as inserted"));
        for sql in QUERIES {
            let plan = plan(&cluster.on(1), sql);
            assert!(plan.contains("FetchExec: table=t, columns=["), "{layout}: {sql}\n{plan}");
        }
        let changes = [
            "DELETE FROM t WHERE k % 6 = 2",
            "UPDATE t SET wide = 'changed' || k, g = g + 1 WHERE k % 8 = 3",
            "INSERT INTO t (k, g) VALUES (NULL, 1), (500, NULL)",
            "DELETE FROM t WHERE k BETWEEN 20 AND 40",
        ];
        for sql in changes {
            one.execute(sql).unwrap();
            cluster.on(0).execute(sql).unwrap();
        }
        (0..3).for_each(|node| check(node, "changed"));
        if layout.contains("REPLICAS 2") {
            cluster.cut(1);
            check(0, "without n2");
            check(2, "without n2");
        }
    }
}

#[test]
fn columns_are_fetched_where_that_spares_rows() {
    let cluster = Cluster::new(3);
    prepare(&cluster.on(0), LAYOUTS[0], "REPLICATED");
    for sql in OTHERS {
        let plan = plan(&cluster.on(1), sql);
        assert!(plan.contains("GatherExec") && !plan.contains("FetchExec"), "{sql}\n{plan}");
    }
    let offset = plan(&cluster.on(1), "SELECT k, wide FROM t ORDER BY k LIMIT 10 OFFSET 20");
    let (fetch, limit) = (offset.find("FetchExec").unwrap(), offset.find("GlobalLimitExec").unwrap());
    assert!(fetch < limit, "{offset}");
    let replicated = plan(&cluster.on(1), "SELECT g, name FROM d ORDER BY g LIMIT 30");
    assert!(!replicated.contains("FetchExec"), "{replicated}");
}

#[test]
fn a_table_without_rows_and_conditions_without_rows_fetch_nothing() {
    let cluster = Cluster::new(3);
    prepare(&cluster.on(0), LAYOUTS[1], "REPLICATED");
    let none = "SELECT * FROM t WHERE g > 100 ORDER BY k LIMIT 30";
    assert!(plan(&cluster.on(1), none).contains("FetchExec"));
    assert!(rows(&cluster.on(1), none).unwrap().is_empty());
    assert!(rows(&cluster.on(1), "SELECT * FROM t ORDER BY k LIMIT 30 OFFSET 1000").unwrap().is_empty());
    cluster.on(0).execute("TRUNCATE t").unwrap();
    assert!(rows(&cluster.on(1), "SELECT * FROM t ORDER BY k LIMIT 30").unwrap().is_empty());
}

#[test]
fn equal_keys_have_the_columns_of_their_rows() {
    let cluster = Cluster::new(3);
    prepare(&cluster.on(0), LAYOUTS[3], "REPLICATED");
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    prepare(&one, "", "");
    let found = rows(&cluster.on(2), "SELECT * FROM t ORDER BY g LIMIT 60").unwrap();
    let all = rows(&one, "SELECT * FROM t").unwrap();
    assert_eq!(found.len(), 60);
    assert!(found.iter().all(|row| all.contains(row)), "{found:?}");
    let keys = "SELECT g FROM t ORDER BY g LIMIT 60";
    let of_rows = found.iter().map(|row| row.split('|').nth(1).unwrap().to_string());
    assert_eq!(of_rows.collect::<Vec<_>>(), rows(&one, keys).unwrap());
}

/// Reaches nodes, and loses one after some requests.
struct Losing {
    wires: Arc<Wires>,
    /// The parts of queries that nodes run before the next one is lost.
    runs: AtomicUsize,
}

impl Losing {
    fn cluster() -> (Cluster, Arc<Self>) {
        let made = OnceCell::new();
        let cluster = Cluster::reached_by(3, |wires| {
            let peers = Arc::new(Self { wires: wires.clone(), runs: AtomicUsize::new(usize::MAX) });
            made.get_or_init(|| peers).clone()
        });
        (cluster, made.into_inner().unwrap())
    }
}

impl Peers for Losing {
    fn call(&self, node: &Member, request: &Addressed, rows: Option<RowReader>) -> Result<Answer> {
        if matches!(request.request, Request::Run(_)) && self.runs.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.wires.cut.lock().unwrap().insert(node.address.clone());
        }
        self.wires.call(node, request, rows)
    }
}

/// Returns the measure of an operator that EXPLAIN ANALYZE shows.
fn measure(connection: &Connection, sql: &str, operator: &str, name: &str) -> String {
    let analyzed = rows(connection, &format!("EXPLAIN ANALYZE {sql}")).unwrap().join("\n");
    let line = analyzed.lines().find(|line| line.contains(operator)).unwrap_or_else(|| panic!("{analyzed}"));
    let value = line.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{analyzed}"));
    value.split([',', ']']).next().unwrap().trim().to_string()
}

/// Returns a measure that is written like "205.6 K" or "18.8 KB".
fn number(text: &str) -> u64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit = match unit {
        "" | "B" => 1.0,
        "K" => 1000.0,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        other => panic!("{other}"),
    };
    (number.parse::<f64>().unwrap() * unit) as u64
}

#[test]
fn nodes_send_wide_columns_of_the_rows_that_are_left() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(0);
    connection
        .execute("CREATE TABLE t (k BIGINT, text VARCHAR) PARTITION BY HASH (k) INTO 12 FRAGMENTS")
        .unwrap();
    connection
        .execute(
            "INSERT INTO t SELECT v, repeat(chr(97 + v % 26), 2048) FROM generate_series(1, 3000) AS r (v)",
        )
        .unwrap();
    let sql = "SELECT k, text FROM t ORDER BY k LIMIT 100";
    let of_late = |operator: &str, name: &str| number(&measure(&connection, sql, operator, name));
    // Of each fragment the keys and places of 100 rows, and of 100 rows the text.
    assert_eq!(of_late("GatherExec", "output_rows"), 1200);
    assert!(of_late("GatherExec", "output_bytes") < 1200 * 20);
    let fetched = of_late("FetchExec", "fetched_bytes");
    assert!((100 * 2048..100 * 2100).contains(&fetched), "{fetched}");
    assert_eq!(of_late("FetchExec", "output_rows"), 100);
    assert_eq!(of_late("FetchExec", "attempts"), 3);
    // A column that is computed on the nodes is sent of all rows that may be among the first ones.
    let computed = "SELECT k, upper(text) FROM t ORDER BY k LIMIT 100";
    assert!(number(&measure(&connection, computed, "GatherExec", "output_bytes")) > 1200 * 2000);
}

#[test]
fn fetched_columns_and_no_others_go_over_the_network() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    prepare(&one, "", "");
    let (served, _nodes) = nodes(3);
    let connection = served[0].database.connect().unwrap();
    prepare(&connection, LAYOUTS[1], "REPLICATED");
    for sql in QUERIES {
        assert_eq!(rows(&connection, sql).unwrap(), rows(&one, sql).unwrap(), "{sql}");
    }
    // 2 KB of text that cannot be made much shorter.
    let text: Vec<String> = (0..64).map(|part| format!("md5(v || '_{part}')")).collect();
    let create = "CREATE TABLE long (k BIGINT, text VARCHAR) PARTITION BY HASH (k) INTO 12 FRAGMENTS";
    connection.execute(create).unwrap();
    let text = text.join(" || ");
    connection
        .execute(&format!("INSERT INTO long SELECT v, {text} FROM generate_series(1, 3000) AS r (v)"))
        .unwrap();
    let received = |sql: &str| {
        let all = "SELECT CAST(sum(bytes_received) AS BIGINT) FROM hypostyle_cluster.peer";
        let all = || rows(&connection, all).unwrap()[0].parse::<u64>().unwrap();
        let before = all();
        assert_eq!(rows(&connection, sql).unwrap().len(), 100);
        all() - before
    };
    let late = received("SELECT k, text FROM long ORDER BY k LIMIT 100");
    let early = received("SELECT k, text || '' FROM long ORDER BY k LIMIT 100");
    assert!(late < 100 * 2048 && early > 4 * late, "{late} and {early} bytes");
}

#[test]
fn another_replica_has_the_columns_when_a_node_is_lost_in_between() {
    for (layout, is_kept) in [(LAYOUTS[1], true), (LAYOUTS[0], false)] {
        let (cluster, losing) = Losing::cluster();
        prepare(&cluster.on(0), layout, "REPLICATED");
        cluster.on(0).execute("DELETE FROM t WHERE k % 6 = 2").unwrap();
        let sql = "SELECT * FROM t ORDER BY k LIMIT 100";
        let expected = rows(&cluster.on(0), sql).unwrap();
        assert_eq!(expected.len(), 100);
        // The two other nodes give the first rows, and one of them is lost when it is asked again.
        losing.runs.store(2, Ordering::Relaxed);
        match rows(&cluster.on(0), sql) {
            Ok(found) => assert!(is_kept && found == expected, "{layout}: {found:?}"),
            Err(error) => {
                assert!(!is_kept, "{layout}: {error}");
                assert_eq!(error.sqlstate(), "58030", "{error}");
                assert!(error.message().contains("of table \"t\" (asked in vain: n"), "{error}");
            }
        }
        assert_eq!(cluster.wires.cut.lock().unwrap().len(), 1, "a node was lost");
    }
}
