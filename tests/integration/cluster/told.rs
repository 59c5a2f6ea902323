//! Parts of plans whose messages would not tell all of them have the rows of one node.

use super::{Cluster, on_each};
use crate::tpch::sorted_rows;
use hypostyle::{Database, OpenOptions};

const QUERIES: [&str; 8] = [
    "SELECT k, v, count(*) FILTER (WHERE v > 2) OVER (PARTITION BY k) FROM t",
    "SELECT k, v, sum(v) FILTER (WHERE v > 2) OVER (PARTITION BY k ORDER BY v ROWS 1 PRECEDING) FROM t",
    "SELECT k, v, lag(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY v NULLS FIRST) FROM t",
    "SELECT k, last_value(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY v NULLS LAST
     ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t",
    "SELECT count(*) FROM t GROUP BY ()",
    "SELECT count(*), count(v) FROM t GROUP BY GROUPING SETS ((), ())",
    "SELECT DISTINCT k, to_json(j), to_json(u), json_build_object('j', j, 'u', u), u FROM t",
    "SELECT k, json_agg(j ORDER BY v), max(u) FROM t GROUP BY k",
];

#[test]
fn what_messages_do_not_tell_has_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let cluster = Cluster::new(3);
    let several = cluster.on(0);
    let columns = "(k BIGINT, v BIGINT, u UUID, j JSON)";
    one.execute(&format!("CREATE TABLE t {columns}")).unwrap();
    several.execute(&format!("CREATE TABLE t {columns} PARTITION BY HASH (k) INTO 6 FRAGMENTS")).unwrap();
    for connection in [&one, &several] {
        connection
            .execute(
                "INSERT INTO t SELECT x % 2, NULLIF(x, 3), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '[1]'
                 FROM generate_series(1, 6) AS r (x)",
            )
            .unwrap();
    }
    for sql in QUERIES {
        let rows = sorted_rows(&one, sql).unwrap();
        assert!(!rows.is_empty(), "{sql}");
        assert_eq!(on_each(&cluster, sql), vec![rows; 3], "{sql}");
    }
}
