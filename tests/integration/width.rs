//! Statements of many columns, keys and branches: what each of them takes grows with their number, not
//! with a power of two.

use crate::alone;
use crate::backup::rows;
use hypostyle::{Connection, Database, ErrorKind, OpenOptions};
use std::time::{Duration, Instant};

/// More than the widest of the statements takes on a slow machine.
const LONG: Duration = Duration::from_secs(60);

/// More than the largest piece of work takes that is not interrupted: a fraction of a second, optimised.
const AT_REST: Duration = Duration::from_secs(15);

const WIDTHS: [usize; 4] = [10, 20, 40, 80];

/// The type of a column, and how its values are made.
const TYPES: [(&str, &str); 4] =
    [("INTEGER", "{}"), ("BIGINT", "{} * 10000000000"), ("VARCHAR", "'v' || {}"), ("DOUBLE", "{} / 4.0")];

fn list(width: usize, separator: &str, of: impl Fn(usize) -> String) -> String {
    (0..width).map(of).collect::<Vec<_>>().join(separator)
}

/// Makes a table of as many columns, whose rows differ in the first and the last one. Some of its rows
/// are in the files, others in the log.
fn make(connection: &Connection, name: &str, width: usize, of: impl Fn(usize) -> usize) {
    let columns = list(width, ", ", |place| format!("c{place} {}", TYPES[of(place)].0));
    connection.execute(&format!("CREATE TABLE {name} ({columns})")).unwrap();
    let insert = |first: u8, last: u8| {
        let values = list(width, ", ", |place| {
            let number = match place {
                0 => first.to_string(),
                _ if place + 1 == width => last.to_string(),
                _ if place % 2 == 0 => "7".to_string(),
                _ => "NULLIF(7, 7)".to_string(),
            };
            TYPES[of(place)].1.replace("{}", &number)
        });
        connection.execute(&format!("INSERT INTO {name} SELECT {values}")).unwrap();
    };
    insert(1, 1);
    insert(1, 2);
    connection.execute("CHECKPOINT").unwrap();
    insert(2, 1);
    insert(1, 2);
}

/// Statements of each shape, and how many rows they give.
fn statements(table: &str, width: usize) -> Vec<(String, usize)> {
    let all = list(width, ", ", |place| format!("c{place}"));
    let computed = list(width, ", ", |place| format!("c{place} IS NULL, coalesce(c{place}, c{place})"));
    let distinct = list(width, ", ", |place| format!("count(DISTINCT c{place}), max(c{place})"));
    let equal = list(width, " AND ", |place| format!("a.c{place} IS NOT DISTINCT FROM b.c{place}"));
    let branches = list(width, " ", |place| format!("WHEN c0 = {place} THEN {place} * 2"));
    let numbers = list(width, ", ", |place| place.to_string());
    let either = list(width, " OR ", |place| format!("c{place} IS NULL"));
    let unions = list(width, " UNION ALL ", |place| format!("SELECT count(c{place}) AS n FROM {table}"));
    let sets = list(width.min(20) - 1, ", ", |place| format!("(c{}, c0)", place + 1));
    let windows =
        list(width.min(20), ", ", |place| format!("count(*) OVER (PARTITION BY c{place} ORDER BY c0)"));
    vec![
        (format!("SELECT DISTINCT {all} FROM {table}"), 3),
        (format!("SELECT {all}, count(*) FROM {table} GROUP BY ALL"), 3),
        (format!("SELECT count(*) FROM {table} GROUP BY {computed}"), 3),
        (format!("SELECT row_number() OVER (PARTITION BY {all}) FROM {table}"), 4),
        (format!("SELECT rank() OVER (ORDER BY {all}) FROM {table}"), 4),
        (format!("SELECT {windows} FROM {table}"), 4),
        (format!("SELECT {all} FROM {table} ORDER BY {all}"), 4),
        (format!("SELECT {all} FROM {table} UNION SELECT {all} FROM {table}"), 3),
        (format!("SELECT {all} FROM {table} INTERSECT SELECT {all} FROM {table}"), 3),
        (format!("SELECT {all} FROM {table} EXCEPT SELECT {all} FROM {table} WHERE c0 = 2"), 2),
        (format!("SELECT 1 FROM {table} AS a JOIN {table} AS b ON {equal}"), 6),
        (format!("SELECT {distinct} FROM {table}"), 1),
        (format!("SELECT CASE {branches} END FROM {table}"), 4),
        (format!("SELECT c0 FROM {table} WHERE c0 IN ({numbers})"), 4),
        (format!("SELECT c0 FROM {table} WHERE {either}"), 4),
        (format!("SELECT n FROM ({unions}) AS u"), width),
        (format!("SELECT count(*) FROM {table} GROUP BY GROUPING SETS ({sets})"), 0),
    ]
}

/// A kind of tables, and the type of each of their columns.
type Kind = (&'static str, fn(usize) -> usize);

#[test]
fn wide_statements_take_time_in_proportion_to_their_width() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("wide"), OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    for width in WIDTHS {
        let kinds: [Kind; 2] = [("integers", |_| 0), ("mixed", |place| place % TYPES.len())];
        for (name, of) in kinds {
            let table = format!("{name}_{width}");
            make(&connection, &table, width, of);
            for (sql, expected) in statements(&table, width) {
                let begun = Instant::now();
                let found = connection.execute(&sql).and_then(|result| result.row_count());
                let found = found.unwrap_or_else(|error| panic!("{error}: {sql}"));
                assert!(expected == 0 || found as usize == expected, "{found} rows, not {expected}: {sql}");
                assert!(begun.elapsed() < LONG, "{:?}: {sql}", begun.elapsed());
            }
        }
    }
}

#[test]
fn thousands_of_columns_take_time_in_proportion_to_their_number() {
    alone::run("width::thousands_of_columns");
}

#[test]
#[ignore = "it looks at the time that its process computes"]
fn thousands_of_columns() {
    const SHORT: Duration = Duration::from_millis(500);
    let directory = tempfile::tempdir().unwrap();
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let mut narrow = Vec::new();
    for width in [500, 4_000] {
        let columns = list(width, ", ", |place| format!("c{place} {}", TYPES[place % TYPES.len()].0));
        connection.execute(&format!("CREATE TABLE t_{width} ({columns})")).unwrap();
        let numbers = list(width, ", ", |place| format!("{place} AS c{place}"));
        let listed = list(width, ", ", |place| format!("c{place}"));
        let file = directory.path().join(format!("{width}.parquet"));
        let statements = [
            format!("INSERT INTO t_{width} SELECT {numbers}"),
            format!("CREATE TABLE u_{width} AS SELECT * FROM t_{width}"),
            format!("INSERT INTO u_{width} SELECT * FROM t_{width}"),
            format!("INSERT INTO u_{width} ({listed}) SELECT {listed} FROM t_{width}"),
            format!("COPY (SELECT * FROM u_{width}) TO '{}'", file.display()),
            format!("CREATE TABLE v_{width} AS SELECT * FROM '{}'", file.display()),
        ];
        for (number, sql) in statements.iter().enumerate() {
            let before = computed();
            connection.execute(sql).unwrap_or_else(|error| panic!("{error}: {number}"));
            let taken = computed() - before;
            match narrow.get(number) {
                None => narrow.push(taken),
                Some(before) => {
                    assert!(taken < 12 * SHORT.max(*before), "{before:?}, then {taken:?}: {number}")
                }
            }
        }
        let sql = format!("SELECT count(*), min(c1), max(c{}) FROM v_{width}", width - 1);
        assert_eq!(rows(&connection, &sql), rows(&connection, &expected(width)), "{sql}");
    }
}

/// What the last of the columns has in each of three rows.
fn expected(width: usize) -> String {
    let last = width - 1;
    format!("SELECT 3 AS \"count(*)\", 1::BIGINT AS \"min(c1)\", {last}::DOUBLE AS \"max(c{last})\"")
}

#[test]
fn threads_end_soon_after_an_interrupt() {
    alone::run("width::the_processor_rests_after_an_interrupt");
}

/// The time that the process has computed for.
fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in hundredths of a second.
    Duration::from_millis([11, 12].map(|place| fields[place].parse::<u64>().unwrap() * 10).iter().sum())
}

#[test]
#[ignore = "it looks at the time that its process computes"]
fn the_processor_rests_after_an_interrupt() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("busy"), OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    connection
        .execute(
            "CREATE TABLE t AS SELECT value AS a, (value * 7919) % 1000003 AS b, 'text ' || (value % 500000) AS s,
             value % 97 AS c FROM generate_series(1, 1000000) AS g (value)",
        )
        .unwrap();
    connection.execute("CREATE TABLE u AS SELECT b + 1 AS b, s, a FROM t").unwrap();
    for sql in [
        "SELECT count(*) FROM (SELECT DISTINCT a, b, s, c, a + 1, b + 1, a + 2, b + 2, a + 3, b + 3 FROM t)",
        "SELECT s, b, sum(a), count(DISTINCT a) FROM t GROUP BY s, b",
        "SELECT a, b, c, count(*) FROM t GROUP BY ROLLUP (a, b, c)",
        "SELECT count(*) FROM t JOIN u ON t.s = u.s AND t.a = u.a",
        "SELECT count(*) FROM t JOIN u ON t.c = u.b % 97",
        "SELECT a FROM t ORDER BY s, b",
        "SELECT sum(a) OVER (PARTITION BY s ORDER BY b), rank() OVER (PARTITION BY s, c ORDER BY a) FROM t",
        "SELECT s, mode(b), median(a), quantile_disc(a, 0.5) FROM t GROUP BY s",
        "SELECT count(*) FROM t WHERE a NOT IN (SELECT b FROM u WHERE u.s = t.s)",
        "SELECT count(*) FROM t AS x, t AS y WHERE x.a + y.b < 5",
        "SELECT count(*) FROM t AS x JOIN t AS y ON x.c = y.c JOIN t AS z ON z.c = y.c JOIN u ON u.a % 97 = z.c",
        "SELECT count(*) FROM t WHERE repeat(s, 100) ~ '(\\w+\\s*){20,200}x'",
        "SELECT count(*) FROM t WHERE repeat(s, 100) LIKE '%' || repeat('%x%', c::INTEGER) || a || '%'",
        "SELECT count(*) FROM t WHERE s LIKE ANY (list_transform(range(0, 10000), x -> '%' || x || '%1'))",
        "SELECT array_has_any(range(0, 30000), range(30000, 60000)) FROM t",
        "SELECT strpos(repeat('a', 10000000), repeat('a', 5000000) || 'b')",
        "SELECT length(trim(repeat('a', 1000), repeat('b', 10000) || 'a')) FROM t",
        "SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY CUBE (a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9))",
    ] {
        for pipelines in ["on", "off"] {
            connection.execute(&format!("SET position_pipelines = {pipelines}")).unwrap();
            let other = connection.clone();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(400));
                other.interrupt();
            });
            let answer = connection.execute(sql).and_then(|result| result.row_count());
            thread.join().unwrap();
            if let Err(error) = &answer {
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{sql}: {error}");
            }
            // A piece of the work is done to its end.
            let ended = Instant::now();
            loop {
                let before = computed();
                std::thread::sleep(Duration::from_millis(500));
                let busy = computed() - before;
                if busy < Duration::from_millis(200) {
                    break;
                }
                assert!(ended.elapsed() < AT_REST, "{busy:?} of 500 ms, pipelines {pipelines}: {sql}");
            }
            assert_eq!(
                rows(&connection, "SELECT min(c) FROM t"),
                rows(&connection, "SELECT 0 AS \"min(c)\"")
            );
        }
    }
}
