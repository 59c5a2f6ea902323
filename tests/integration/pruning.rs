//! Scans leave out the right blocks, and never a row that passes.

use hypostyle::{Connection, Database, OpenOptions};

const ROWS: i64 = 200_000;
const BLOCK_ROWS: i64 = 65_536;

fn connection() -> Connection {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let sql = format!(
        "CREATE TABLE t AS SELECT v AS i, DATE '2000-01-01' + CAST(v / 100 AS INT) AS d, lpad(v::TEXT, 9, '0') AS s,
         (v / 4.0)::DECIMAL(12, 2) AS m, v * 0.5 - 50000 AS f, CASE WHEN v / {BLOCK_ROWS} <> 1 THEN v END AS n
         FROM generate_series(0, {}) AS g(v) ORDER BY v",
        ROWS - 1
    );
    connection.execute(&sql).unwrap();
    connection
}

/// Returns the rows of the blocks that a query reads, according to its plan.
fn rows_read(connection: &Connection, condition: &str) -> i64 {
    let explained = connection.execute(&format!("EXPLAIN SELECT i FROM t WHERE {condition}")).unwrap();
    let plan = format!("{:?}", explained.record_batches().unwrap());
    let Some((_, rows)) = plan.split_once("rows=") else { panic!("{plan}") };
    rows.split_once(' ').unwrap().0.parse().unwrap()
}

fn rows_found(connection: &Connection, condition: &str) -> u64 {
    connection.execute(&format!("SELECT i FROM t WHERE {condition}")).unwrap().row_count().unwrap()
}

#[test]
fn comparisons_find_what_they_find_without_bounds() {
    let connection = connection();
    let edges = [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS, ROWS - 1, ROWS, -1];
    for operator in ["=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM"] {
        for edge in edges {
            for (column, constant) in [
                ("i", edge.to_string()),
                ("i", format!("{edge}.5")),
                ("d", format!("DATE '2000-01-01' + {}", edge / 100)),
                ("s", format!("'{edge:09}'")),
                ("m", format!("{:.2}", edge as f64 / 4.0)),
                ("f", format!("{:?}::DOUBLE", edge as f64 * 0.5 - 50000.0)),
                ("f", "-0.0::DOUBLE".into()),
                ("n", edge.to_string()),
                ("n", "NULL".into()),
            ] {
                let condition = format!("{column} {operator} {constant}");
                let found = rows_found(&connection, &condition);
                // Bounds say nothing about this condition.
                let all = format!("CASE WHEN {condition} THEN i + 1 ELSE 0 END % 1000000 > 0");
                assert_eq!(found, rows_found(&connection, &all), "{condition}");
            }
        }
    }
}

#[test]
fn blocks_without_a_row_that_passes_are_not_read() {
    let connection = connection();
    for (condition, rows) in [
        ("i = 70000", BLOCK_ROWS),
        ("i < 65536", BLOCK_ROWS),
        ("i <= 65536", 2 * BLOCK_ROWS),
        ("i > 131071", ROWS - 2 * BLOCK_ROWS),
        ("i >= 131071", ROWS - BLOCK_ROWS),
        ("i >= 70000 AND i < 70010", BLOCK_ROWS),
        ("s = '000070000'", BLOCK_ROWS),
        ("m = 1.25", BLOCK_ROWS),
        ("d < DATE '2000-02-01'", BLOCK_ROWS),
        ("f = 0.0", BLOCK_ROWS),
        // This is a block of only NULLs.
        ("n > 50000", ROWS - BLOCK_ROWS),
        ("n = 5", BLOCK_ROWS),
        // All values of the others are INTEGERs.
        ("i::INTEGER = 70000", BLOCK_ROWS),
        ("i::INTEGER >= 70000 AND i::INTEGER < 70010", BLOCK_ROWS),
        ("TRY_CAST(i AS SMALLINT) = 5", BLOCK_ROWS),
        // Some of each block are no SMALLINTs, which is an error.
        ("i::SMALLINT = 5", ROWS),
    ] {
        assert_eq!(rows_read(&connection, condition), rows, "{condition}");
    }
    // No block is left, and the plan does not mention blocks, or mentions none of their rows.
    assert_eq!(rows_found(&connection, "i > 1000000"), 0);
    assert_eq!(rows_found(&connection, "i::INTEGER = 70000"), 1);
    let error = connection.execute("SELECT i FROM t WHERE i::SMALLINT = 5").and_then(|rows| rows.row_count());
    assert_eq!(error.unwrap_err().sqlstate(), "22003");
}
