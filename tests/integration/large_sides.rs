//! Large sides of joins of which few rows are wanted give the rows of sides that are collected whole.

use crate::backup::rows;
use hypostyle::{Connection, Database, OpenOptions};

/// Two large tables, of which no column is a key, and small ones beside them.
const TABLES: [&str; 5] = [
    "CREATE TABLE day AS SELECT v AS d, v % 12 AS month FROM generate_series(0, 364) AS g (v)",
    "CREATE TABLE product AS SELECT v AS p, 'product ' || v AS name, CASE WHEN v % 5 > 0 THEN v % 5 END AS kind \
     FROM generate_series(0, 999) AS g (v)",
    "CREATE TABLE sale AS SELECT CASE WHEN v % 1001 > 0 THEN v * 7919 % 1000 END AS p, v / 4 AS ticket, \
     v % 365 AS d, v % 97 AS amount FROM generate_series(0, 599999) AS g (v)",
    "CREATE TABLE refund AS SELECT v * 7919 % 1000 AS p, CASE WHEN v % 777 > 0 THEN v / 4 END AS ticket, \
     v % 31 AS amount, (v % 365)::SMALLINT AS d FROM generate_series(0, 599999, 3) AS g (v)",
    "CREATE TABLE visit AS SELECT v % 150000 AS ticket, 'page ' || v % 300 AS page FROM generate_series(0, 449999) AS g (v)",
];

/// Queries whose large sides are told which rows are wanted.
const TOLD: [&str; 7] = [
    "SELECT s.d, count(*), min(v.page) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket WHERE s.amount = 96 \
     AND s.d < 10 GROUP BY s.d ORDER BY s.d",
    "SELECT count(*), count(v.page), max(v.page) FROM sale AS s LEFT JOIN visit AS v ON s.ticket = v.ticket AND v.page > 'page 2' \
     WHERE s.amount = 3 AND s.d = 7",
    "SELECT count(*), sum(amount) FROM sale AS s WHERE s.d = 3 AND s.amount < 5 AND EXISTS \
     (SELECT * FROM visit AS v WHERE v.ticket = s.ticket AND v.page LIKE 'page 1%')",
    "SELECT count(*), sum(amount) FROM sale AS s WHERE s.d = 3 AND s.amount < 5 AND NOT EXISTS \
     (SELECT * FROM visit AS v WHERE v.ticket = s.ticket AND v.page LIKE 'page 1%')",
    "SELECT count(*), sum(amount) FROM sale AS s WHERE s.d = 3 AND s.amount < 5 AND (s.amount = 2 OR EXISTS \
     (SELECT * FROM visit AS v WHERE v.ticket = s.ticket AND v.page LIKE 'page 1%'))",
    "SELECT x.kind, count(*), sum(v.ticket) FROM sale AS s JOIN product AS x ON s.p = x.p JOIN visit AS v ON v.ticket = s.ticket \
     JOIN day ON day.d = s.d WHERE x.name LIKE 'product 7_' AND month = 3 GROUP BY x.kind ORDER BY x.kind",
    "SELECT count(*), sum(s.amount) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket AND s.amount * 3 > length(v.page) \
     WHERE s.d = 5 AND s.amount BETWEEN 1 AND 4",
];

/// Queries of which many rows pass before they meet a large side, or whose join order begins with few rows.
const WHOLE: [&str; 5] = [
    "SELECT count(*), sum(s.amount), sum(r.amount) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket JOIN refund AS r \
     ON s.p = r.p AND s.ticket = r.ticket JOIN product AS x ON s.p = x.p WHERE x.name = 'product 77'",
    "SELECT count(*), sum(s.amount) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket WHERE s.d = 5 AND s.amount = 1000",
    "SELECT count(*), sum(s.amount) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket",
    "SELECT count(*), sum(s.amount) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket WHERE s.amount > 3",
    "SELECT v.page, count(*) FROM sale AS s JOIN visit AS v ON s.ticket = v.ticket JOIN day ON day.d = s.d \
     WHERE month < 9 GROUP BY v.page ORDER BY 1",
];

fn compare(connection: &Connection, sql: &str) {
    connection.execute("SET position_pipelines = off").unwrap();
    let expected = rows(connection, sql);
    connection.execute("SET position_pipelines = on").unwrap();
    for run in 0..3 {
        assert_eq!(rows(connection, sql), expected, "run {run}: {sql}");
    }
}

#[test]
fn large_sides_of_joins_are_told_which_rows_are_wanted() {
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    TABLES.iter().for_each(|sql| drop(connection.execute(sql).unwrap()));
    for changed in [false, true] {
        if changed {
            connection.execute("DELETE FROM visit WHERE ticket % 7 = 3").unwrap();
            connection.execute("INSERT INTO visit SELECT ticket, 'late' FROM sale WHERE amount = 3").unwrap();
        }
        for (queries, is_told) in [(&TOLD[..], true), (&WHOLE[..], false)] {
            for sql in queries {
                compare(&connection, sql);
                let plan = rows(&connection, &format!("EXPLAIN ANALYZE {sql}"));
                assert_eq!(plan.contains("wanted keys"), is_told, "{sql}: {plan}");
            }
        }
    }
}
