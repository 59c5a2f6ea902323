//! The first groups in the order of an aggregate are those of all groups, whatever is equal.

use crate::backup::rows;
use hypostyle::{Database, OpenOptions};

const TABLE: &str = "CREATE TABLE t AS SELECT v AS k, v * 7919 % 40009 AS g, 'text ' || v * 31 % 150001 AS s, \
    CASE WHEN v % 3 > 0 THEN v % 100 END AS n, (v % 1000)::DECIMAL(10, 2) AS d FROM generate_series(1, 300000) AS r (v)";

const QUERIES: [&str; 12] = [
    "SELECT g, count(*) AS c FROM t GROUP BY g ORDER BY c DESC, g LIMIT 10",
    "SELECT s, count(*) AS c FROM t GROUP BY s ORDER BY c DESC, s LIMIT 10",
    "SELECT s, count(*) AS c FROM t GROUP BY s ORDER BY c, s DESC LIMIT 7 OFFSET 5",
    "SELECT g, s, sum(n) FROM t GROUP BY g, s ORDER BY 3 DESC NULLS LAST, g, s LIMIT 10",
    "SELECT g, s, sum(n) FROM t GROUP BY g, s ORDER BY 3 DESC NULLS FIRST, g, s LIMIT 10",
    "SELECT g, avg(d) AS a, max(s) AS m FROM t GROUP BY g ORDER BY a, m DESC, g LIMIT 20",
    "SELECT max(s) AS m, g FROM t GROUP BY g ORDER BY m DESC, g LIMIT 20",
    "SELECT 'x' || g AS x, sum(d) + 1 AS a FROM t GROUP BY g ORDER BY a DESC, x LIMIT 5",
    "SELECT g, sum(d) AS a FROM t GROUP BY g ORDER BY g, a LIMIT 5",
    "SELECT g, sum(d) AS a FROM t WHERE k < 0 GROUP BY g ORDER BY a LIMIT 5",
    "SELECT g, count(*) AS c FROM t GROUP BY g HAVING count(*) > 7 ORDER BY c DESC, g LIMIT 10",
    "SELECT n % 7 AS r, count(DISTINCT g) AS c FROM t GROUP BY r ORDER BY c DESC, r LIMIT 3",
];

#[test]
fn the_first_groups_are_those_of_all() {
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let connection = Database::in_memory(options).unwrap().connect().unwrap();
    connection.execute(TABLE).unwrap();
    for sql in QUERIES {
        connection.execute("SET position_pipelines = off").unwrap();
        let expected = rows(&connection, sql);
        connection.execute("SET position_pipelines = on").unwrap();
        assert_eq!(rows(&connection, sql), expected, "{sql}");
    }
    let plan = rows(&connection, &format!("EXPLAIN {}", QUERIES[0]));
    assert!(plan.contains("first=10 by [count(Int64(1)) DESC"), "{plan}");
    let plan = rows(&connection, &format!("EXPLAIN {}", QUERIES[10]));
    assert!(!plan.contains("first="), "{plan}");
}
