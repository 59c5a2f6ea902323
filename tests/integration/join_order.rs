//! Joins that are put in order have the rows of the joins as they are written: for random graphs of
//! relations, whose conditions stand in any place.

use crate::backup::rows;
use hypostyle::{Connection, Database, OpenOptions};

const TABLES: u64 = 12;

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Makes tables of few rows whose columns have values in common, and NULLs.
fn fill(connection: &Connection) {
    let mut random = Random(3);
    for table in 0..TABLES {
        let key = if table % 3 == 0 { " PRIMARY KEY" } else { "" };
        connection
            .execute(&format!(
                "CREATE TABLE t{table} (a INT{key}, b INT, c VARCHAR, d DECIMAL(9, 2), e DOUBLE)"
            ))
            .unwrap();
        for row in 0..4 + random.below(28) {
            let a = if table % 3 == 0 { row } else { random.below(24) };
            let mut value = |text: String| if random.below(12) == 0 { "NULL".to_string() } else { text };
            let (b, c) =
                (value(format!("{}", (row * 7 + table) % 23)), value(format!("'v{}'", (row * 5) % 19)));
            let (d, e) = (value(format!("{}.50", row % 17)), value(format!("{}.25e0", row % 21)));
            connection.execute(&format!("INSERT INTO t{table} VALUES ({a}, {b}, {c}, {d}, {e})")).unwrap();
        }
    }
}

/// Returns an equality between two relations, or rarely something like one.
fn condition(random: &mut Random, one: u64, other: u64) -> String {
    let column = ["a", "a", "b", "b", "c", "d", "e"][random.below(7) as usize];
    let other_column = match column {
        "a" | "b" => ["a", "b"][random.below(2) as usize],
        same => same,
    };
    match random.below(14) {
        1 => format!("(r{one}.a = r{other}.a OR r{one}.b = r{other}.b)"),
        2 => format!("r{one}.a + 1 = r{other}.b"),
        3 => format!("CAST(r{one}.a AS BIGINT) = r{other}.b AND r{one}.b IS NOT NULL"),
        _ => format!("r{one}.{column} = r{other}.{other_column}"),
    }
}

/// Returns a query over a random graph: relations after commas and of JOIN … ON, in any order.
fn query(random: &mut Random) -> String {
    let count = 3 + random.below(6);
    let mut text = String::new();
    let mut conditions = Vec::new();
    for relation in 0..count {
        let table = random.below(TABLES);
        let source = match random.below(8) {
            0 => format!("(SELECT * FROM t{table} WHERE b > 3) AS r{relation}"),
            1 => format!(
                "(SELECT a, max(b) AS b, min(c) AS c, min(d) AS d, min(e) AS e FROM t{table} GROUP BY a) AS r{relation}"
            ),
            _ => format!("t{table} AS r{relation}"),
        };
        if relation == 0 {
            text = source;
            continue;
        }
        let before = random.below(relation);
        let related = condition(random, before, relation);
        match random.below(3) {
            0 => text = format!("{text} JOIN {source} ON {related}"),
            1 if relation > 1 && random.below(4) == 0 => {
                text = format!("{text} LEFT JOIN {source} ON {related}");
            }
            _ => {
                // A comma binds less than JOIN, so that ON could not name what is before it.
                text = format!("{text} CROSS JOIN {source}");
                conditions.push(related);
            }
        }
    }
    for _ in 0..random.below(3) {
        let one = random.below(count);
        let other = random.below(count);
        conditions.push(match random.below(5) {
            0 => format!("r{one}.b <> r{other}.a"),
            _ => condition(random, one, other),
        });
    }
    for _ in 0..random.below(3) {
        let relation = random.below(count);
        conditions.push(match random.below(4) {
            0 => format!("r{relation}.a < {}", random.below(24)),
            1 => format!("r{relation}.c IN ('v1', 'v2', 'v3', 'v5')"),
            2 => format!("r{relation}.b BETWEEN 2 AND {}", random.below(24)),
            _ => format!("(r{relation}.c LIKE 'v1%' OR r{relation}.a IS NOT NULL)"),
        });
    }
    let filter =
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let sums: Vec<String> =
        (0..count).map(|relation| format!("sum(r{relation}.a), min(r{relation}.c)")).collect();
    match random.below(3) {
        0 => format!("SELECT * FROM {text}{filter} ORDER BY ALL LIMIT 200"),
        1 => format!("SELECT count(*), {} FROM {text}{filter}", sums.join(", ")),
        _ => {
            format!("SELECT r1.b, count(*), {} FROM {text}{filter} GROUP BY r1.b ORDER BY 1", sums.join(", "))
        }
    }
}

#[test]
fn joins_in_order_have_the_rows_of_joins_as_written() {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let connections: Vec<Connection> = ["estimated", "written"]
        .iter()
        .map(|order| {
            let connection = database.connect().unwrap();
            connection.execute(&format!("SET join_order = {order}")).unwrap();
            connection
        })
        .collect();
    fill(&connections[0]);
    let (mut random, mut changed) = (Random(5), 0);
    for _ in 0..120 {
        let sql = query(&mut random);
        let [estimated, written] = [0, 1].map(|place: usize| rows(&connections[place], &sql));
        assert_eq!(estimated, written, "{sql}");
        let [estimated, written] =
            [0, 1].map(|place: usize| rows(&connections[place], &format!("EXPLAIN {sql}")));
        changed += usize::from(estimated != written);
    }
    assert!(changed > 12, "only {changed} plans have another order");
}

/// Returns the tables of a query in the order in which its plan reads them: the first of the two
/// sides of a join is the one with fewer rows.
fn order(connection: &Connection, sql: &str) -> String {
    let plan = rows(connection, &format!("EXPLAIN {sql}"));
    let (logical, _) = plan.split_once("physical_plan").unwrap();
    let scans = logical.split("TableScan: ").skip(1);
    scans.map(|scan| scan.split_whitespace().next().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_order_follows_rows_values_and_conditions() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    for sql in [
        "CREATE TABLE region (r INT PRIMARY KEY, name VARCHAR)",
        "INSERT INTO region SELECT i, 'region ' || i FROM generate_series(0, 4) AS s(i)",
        "CREATE TABLE nation (n INT PRIMARY KEY, r INT)",
        "INSERT INTO nation SELECT i, i % 5 FROM generate_series(0, 24) AS s(i)",
        "CREATE TABLE customer (c INT PRIMARY KEY, n INT)",
        "INSERT INTO customer SELECT i, i % 25 FROM generate_series(1, 3000) AS s(i)",
        "CREATE TABLE supplier (s INT, n INT)",
        "INSERT INTO supplier SELECT i, i % 25 FROM generate_series(1, 200) AS s(i)",
        "CREATE TABLE sale (o INT, c INT, day DATE)",
        "INSERT INTO sale SELECT i, 1 + i % 3000, DATE '2022-01-01' + CAST(i % 1000 AS INT) FROM generate_series(1, 20000) AS s(i)",
        "CREATE TABLE item (o INT, s INT, price INT)",
        "INSERT INTO item SELECT 1 + i % 20000, 1 + (i * 31) % 200, i % 100 FROM generate_series(1, 60000) AS s(i)",
        "CHECKPOINT",
    ] {
        connection.execute(sql).unwrap();
    }
    // Customers and suppliers are related by their nation only, and are not joined first. Nations
    // are joined with customers although the text relates them to suppliers.
    let star = "SELECT count(*) FROM item JOIN supplier ON item.s = supplier.s CROSS JOIN nation \
        JOIN region ON nation.r = region.r JOIN sale ON item.o = sale.o \
        JOIN customer ON customer.c = sale.c AND customer.n = supplier.n \
        WHERE day < DATE '2022-02-01' AND region.name = 'region 2' AND supplier.n = nation.n";
    assert_eq!(order(&connection, star), "supplier region nation customer sale item");
    // Few sales leave few items, whose suppliers are sought last.
    let few = "SELECT * FROM supplier JOIN item ON supplier.s = item.s JOIN sale ON sale.o = item.o \
        WHERE day = DATE '2022-02-02'";
    assert_eq!(order(&connection, few), "sale item supplier");
    // Another order would cost about as much.
    let good = "SELECT count(*) FROM sale JOIN item ON sale.o = item.o JOIN supplier ON supplier.s = item.s \
        WHERE day = DATE '2022-02-02'";
    assert_eq!(order(&connection, good), "sale item supplier");
    connection.execute("SET join_order = written").unwrap();
    assert_eq!(order(&connection, few), "supplier item sale");
    connection.execute("RESET join_order").unwrap();
    assert_eq!(order(&connection, few), "sale item supplier");
    let error = connection.execute("SET join_order = best").err().unwrap();
    assert!(error.message().contains("estimated or written"), "{error}");
}
