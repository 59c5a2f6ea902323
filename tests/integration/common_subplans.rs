//! Parts of a query that are written, or read, several times are computed once, with the rows that
//! they would have by themselves.

use crate::backup::rows;
use arrow::util::pretty::pretty_format_batches;
use hypostyle::{Connection, Database, Error, OpenOptions};

const TABLE: &str = "CREATE TABLE t AS SELECT v AS k, v % 20000 AS g, v % 7 AS h, 'text ' || v % 300 AS s FROM generate_series(1, 100000) AS r (v)";

/// Queries, and in how many places of their plans a part is that is computed once.
const QUERIES: [(&str, usize); 9] = [
    (
        "WITH y AS (SELECT g, h, sum(k) AS s FROM t GROUP BY g, h) SELECT count(*), sum(b.s - a.s) FROM y AS a JOIN y AS b ON a.g = b.g AND a.h + 1 = b.h WHERE b.s > a.s",
        2,
    ),
    (
        "WITH r AS (SELECT g, sum(k) AS s FROM t GROUP BY g) SELECT * FROM r WHERE s = (SELECT max(s) FROM r)",
        2,
    ),
    (
        "WITH r AS (SELECT DISTINCT g, h FROM t) SELECT count(*) FROM (SELECT * FROM r UNION ALL SELECT * FROM r UNION ALL SELECT * FROM r)",
        3,
    ),
    (
        "SELECT (SELECT max(n) FROM (SELECT count(*) AS n FROM t GROUP BY s)), (SELECT min(n) FROM (SELECT count(*) AS n FROM t GROUP BY s))",
        2,
    ),
    (
        "WITH w AS (SELECT k, g, row_number() OVER (PARTITION BY g ORDER BY k) AS n FROM t) SELECT count(*), sum(a.k) FROM w AS a JOIN w AS b ON a.g = b.g AND a.n = b.n + 1",
        2,
    ),
    // Filters make the parts differ.
    (
        "WITH y AS (SELECT g, h, sum(k) AS s FROM t GROUP BY g, h) SELECT count(*) FROM y AS a JOIN y AS b ON a.g = b.g WHERE a.h = 1 AND b.h = 2",
        0,
    ),
    // Rows that are others each time, and a table that has none of its own.
    (
        "SELECT sum(m) >= 0 FROM (SELECT g, max(random()) AS m FROM t GROUP BY g UNION ALL SELECT g, max(random()) AS m FROM t GROUP BY g)",
        0,
    ),
    (
        "SELECT count(*) FROM (SELECT DISTINCT v FROM generate_series(1, 5) AS a (v) UNION ALL SELECT DISTINCT v FROM generate_series(1, 5) AS a (v))",
        0,
    ),
    // A part in each step of a recursive query.
    (
        "WITH RECURSIVE y AS (SELECT h, sum(k) AS s FROM t GROUP BY h), r (n, s) AS (SELECT 0::BIGINT, 0::DECIMAL(38, 0) UNION ALL SELECT n + 1, r.s + y.s FROM r JOIN y ON y.h = r.n) SELECT n, r.s, z.s FROM r, (SELECT h, sum(k) AS s FROM t GROUP BY h) AS z WHERE z.h = r.n",
        2,
    ),
];

fn table(options: OpenOptions) -> Connection {
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    connection.execute(TABLE).unwrap();
    connection
}

fn try_sorted(connection: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let batches = connection.execute(sql)?.record_batches()?;
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let mut rows: Vec<String> = text.lines().map(str::to_string).collect();
    rows.sort_unstable();
    Ok(rows)
}

fn sorted(connection: &Connection, sql: &str) -> Vec<String> {
    try_sorted(connection, sql).unwrap()
}

#[test]
fn equal_parts_are_computed_once() {
    let connection = table(OpenOptions { threads: Some(2), ..OpenOptions::default() });
    for (sql, places) in QUERIES {
        let plan = rows(&connection, &format!("EXPLAIN {sql}"));
        assert_eq!(plan.matches("ComputedOnceExec").count(), places, "{sql}: {plan}");
        let expected = sorted(&connection, sql);
        assert!(!expected.is_empty(), "{sql}");
        for mode in ["off", "verify", "on"] {
            connection.execute(&format!("SET position_pipelines = {mode}")).unwrap();
            assert_eq!(sorted(&connection, sql), expected, "{mode}: {sql}");
        }
    }
}

#[test]
fn parts_that_do_not_fit_into_memory_are_computed_in_each_place() {
    let connection = table(OpenOptions { threads: Some(2), ..OpenOptions::default() });
    let sql = "WITH r AS (SELECT g, h, s, count(*) AS n FROM t GROUP BY g, h, s) SELECT a.n, count(*) FROM r AS a JOIN r AS b USING (g, h, s) GROUP BY a.n";
    let expected = sorted(&connection, sql);
    let mut refused = 0;
    for megabytes in [64, 48, 32, 24, 16, 12, 8, 6] {
        connection.execute(&format!("SET query_memory_limit = '{megabytes}MB'")).unwrap();
        match try_sorted(&connection, sql) {
            Ok(rows) => assert_eq!(rows, expected, "{megabytes} MB"),
            Err(error) => {
                assert_eq!(error.sqlstate(), "53200", "{megabytes} MB: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused < 8);
}
