//! Indexes of tables of a cluster: each node has those of its fragments, and they find what queries see.

use super::{Cluster, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Connection, Database, OpenOptions};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a query is run: by the second time, it has had the indexes made that it wishes for.
const TIMES: usize = 3;

/// The time that nodes take to build their indexes, beside whatever else they do.
const BUILT: Duration = Duration::from_secs(60);

fn alone() -> Connection {
    Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap()
}

/// Runs a statement on one database and on a cluster.
fn on_both(one: &Connection, other: &Connection, sql: &str, distribution: &str) {
    one.execute(sql).unwrap_or_else(|error| panic!("one: {sql}: {error}"));
    other.execute(&format!("{sql} {distribution}")).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn compare(one: &Connection, cluster: &Cluster, sql: &str, told: &str) {
    let expected = sorted_rows(one, sql).unwrap();
    for time in 0..TIMES {
        let nodes = cluster.nodes.len();
        assert_eq!(on_each(cluster, sql), vec![expected.clone(); nodes], "{told}: {sql}, time {time}");
    }
}

#[test]
fn rows_that_were_deleted_are_not_found_by_an_index() {
    let (one, cluster) = (alone(), Cluster::new(2));
    let other = cluster.on(0);
    for (sql, distribution) in [
        ("CREATE TABLE d (id BIGINT, name VARCHAR)", "REPLICATED"),
        ("CREATE TABLE f (k BIGINT, d BIGINT)", "PARTITION BY HASH (k) INTO 2 FRAGMENTS"),
        ("CREATE TABLE g (k BIGINT, n BIGINT)", "PARTITION BY HASH (k) INTO 2 FRAGMENTS"),
        ("INSERT INTO d SELECT x, 'name of ' || x FROM generate_series(1, 40000) AS r (x)", ""),
        ("INSERT INTO f SELECT x, x % 40000 + 1 FROM generate_series(1, 160000) AS r (x)", ""),
        ("INSERT INTO g SELECT x, x % 7 FROM generate_series(1, 160000) AS r (x)", ""),
    ] {
        on_both(&one, &other, sql, distribution);
    }
    let queries = [
        "SELECT count(*), sum(f.k) FROM f JOIN d ON f.d = d.id",
        "SELECT count(*), sum(f.k) FROM f JOIN d ON f.d = d.id WHERE d.name = 'name of 77'",
        "SELECT count(*) FROM f WHERE d IN (SELECT id FROM d WHERE id < 30)",
        "SELECT count(*), sum(g.n) FROM f JOIN g ON f.k = g.k",
        "SELECT count(*), sum(g.n) FROM f JOIN g ON f.k = g.k WHERE f.d = 21",
    ];
    let statements = [
        "DELETE FROM d WHERE id % 7 = 0",
        "DELETE FROM g WHERE k % 5 = 0",
        "DELETE FROM f WHERE k % 11 = 0",
        "INSERT INTO d VALUES (77, 'name of 77'), (7, 'new')",
    ];
    queries.iter().for_each(|sql| compare(&one, &cluster, sql, "before"));
    for statement in statements {
        on_both(&one, &other, statement, "");
        queries.iter().for_each(|sql| compare(&one, &cluster, sql, statement));
    }
}

/// What nodes have of an index that was declared.
#[derive(Default)]
struct Told {
    fragments: usize,
    built: usize,
    uses: u64,
}

/// Returns what the first nodes have of the indexes that were declared, by their names and columns.
fn declared(cluster: &Cluster, nodes: usize) -> BTreeMap<String, Told> {
    let mut found: BTreeMap<String, Told> = BTreeMap::new();
    for row in on_each(cluster, "SHOW INDEXES").into_iter().take(nodes).flatten() {
        let cells: Vec<&str> = row.split('|').collect();
        let [_, schema, _, kind, columns, name, _, _, rows, _, _, is_declared, uses] = cells[..] else {
            panic!("{row}");
        };
        if schema == "hypostyle_cluster" && is_declared == "true" {
            let told = found.entry(format!("{name}: {kind} ({columns})")).or_default();
            told.fragments += 1;
            told.built += usize::from(!rows.is_empty());
            told.uses += uses.parse::<u64>().unwrap();
        }
    }
    found
}

/// Waits until the nodes have built all indexes, and returns these.
fn built(cluster: &Cluster) -> BTreeMap<String, Told> {
    let since = Instant::now();
    loop {
        let found = declared(cluster, cluster.nodes.len());
        if found.values().all(|told| told.built == told.fragments) {
            return found;
        }
        assert!(since.elapsed() < BUILT, "the indexes are not built");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn indexes_that_are_declared_are_of_each_fragment() {
    let (one, cluster) = (alone(), Cluster::new(3));
    let other = cluster.on(1);
    let made = "CREATE TABLE t (k BIGINT, v BIGINT, w BIGINT, s VARCHAR)";
    on_both(&one, &other, made, "PARTITION BY HASH (k) INTO 2 FRAGMENTS REPLICAS 2");
    let rows = "INSERT INTO t SELECT x, x % 20000, x * 7919 % 10007, 's' || x FROM generate_series(1, 160000) AS r (x)";
    on_both(&one, &other, rows, "");
    // A node that misses them has them later.
    cluster.cut(2);
    on_both(&one, &other, "CREATE INDEX by_v ON t (v)", "");
    on_both(&one, &other, "CREATE ORDER INDEX by_w ON t (w)", "");
    cluster.mend(2);
    cluster.nodes[0].look_after();
    let of_fragments = built(&cluster);
    assert_eq!(of_fragments.keys().collect::<Vec<_>>(), ["by_v: key (v)", "by_w: order (w)"]);
    assert!(of_fragments.values().all(|told| told.fragments == 4));
    let queries = [
        "SELECT k, w, s FROM t WHERE v = 77",
        "SELECT count(*), sum(k) FROM t WHERE v = 77 AND k > 100",
        "SELECT count(*), sum(k), max(s) FROM t WHERE w BETWEEN 5 AND 9",
        "SELECT k, s FROM t WHERE w < 3",
    ];
    queries.iter().for_each(|sql| compare(&one, &cluster, sql, "before"));
    assert!(declared(&cluster, 3).values().all(|told| told.uses > 0), "nobody has used an index");
    for statement in [
        "UPDATE t SET v = 77 WHERE k BETWEEN 10 AND 20",
        "DELETE FROM t WHERE w = 7",
        "UPDATE t SET w = 6 WHERE v = 77",
        "INSERT INTO t VALUES (200000, 77, 8, 'new')",
        "DELETE FROM t WHERE v = 77 AND k < 15",
    ] {
        on_both(&one, &other, statement, "");
        queries.iter().for_each(|sql| compare(&one, &cluster, sql, statement));
    }
    // Replicas that are made elsewhere have them, too.
    cluster.on(0).execute("ALTER CLUSTER DRAIN NODE n3").unwrap();
    queries.iter().for_each(|sql| compare(&one, &cluster, sql, "drained"));
    assert!(declared(&cluster, 2).values().all(|told| told.fragments == 4));
    for statement in ["ALTER TABLE t RENAME COLUMN v TO u", "ALTER TABLE t DROP COLUMN w"] {
        on_both(&one, &other, statement, "");
    }
    compare(&one, &cluster, "SELECT k, s FROM t WHERE u = 77", "renamed");
    assert_eq!(declared(&cluster, 3).keys().collect::<Vec<_>>(), ["by_v: key (u)"]);
    other.execute("DROP INDEX by_v").unwrap();
    assert!(declared(&cluster, 3).is_empty());
    compare(&one, &cluster, "SELECT k, s FROM t WHERE u = 77", "dropped");
}

#[test]
fn comments_are_those_of_all_nodes() {
    let cluster = Cluster::new(3);
    let connection = cluster.on(2);
    let made = "CREATE TABLE t (k BIGINT CONSTRAINT positive CHECK (k > 0), n INTEGER) REPLICATED";
    connection.execute(made).unwrap();
    cluster.cut(1);
    for comment in [
        "COMMENT ON TABLE t IS 'of the cluster'",
        "COMMENT ON COLUMN t.n IS 'a number'",
        "COMMENT ON CONSTRAINT positive ON t IS 'none is 0'",
        "ALTER TABLE t RENAME COLUMN n TO m",
    ] {
        connection.execute(comment).unwrap_or_else(|error| panic!("{comment}: {error}"));
    }
    cluster.mend(1);
    cluster.nodes[0].look_after();
    for (sql, expected) in [
        ("SELECT table_comment FROM information_schema.tables WHERE table_name = 't'", "of the cluster"),
        (
            "SELECT column_comment FROM information_schema.columns WHERE table_name = 't' AND column_name = 'm'",
            "a number",
        ),
        ("SELECT description FROM pg_description WHERE description LIKE 'none%'", "none is 0"),
    ] {
        assert_eq!(on_each(&cluster, sql), vec![vec![expected]; 3], "{sql}");
    }
    connection.execute("COMMENT ON TABLE t IS NULL").unwrap();
    let sql =
        "SELECT count(*) FROM information_schema.tables WHERE table_comment IS NOT NULL AND table_name = 't'";
    assert_eq!(on_each(&cluster, sql), vec![vec!["0"]; 3]);
}
