//! The same rows give the same answers, whatever they are read from: a table in files and in the log, files
//! of each format, what a query makes of them, and several at once. Statistics, which readers skip rows by
//! and answer from, differ between them.

use crate::backup::rows;
use hypostyle::{Connection, Database, OpenOptions};

const ROWS: usize = 60;

/// The columns, their types, and the values that they have beside NULL, one row after the other.
const COLUMNS: [(&str, &str, &[&str]); 9] = [
    ("i", "BIGINT", &["0", "1", "-1", "9007199254740993", "-9007199254740993", "7"]),
    ("f", "DOUBLE", &["'nan'", "0.0", "'-0.0'", "1.5", "-2.25", "'inf'", "'-inf'", "'-nan'"]),
    ("r", "REAL", &["1.5", "'nan'", "'-0.0'", "'-inf'"]),
    ("d", "DECIMAL(12,2)", &["0", "-0.01", "99.99", "1234567890.12"]),
    ("t", "VARCHAR", &["''", "'a'", "'NULL'", "'é\"'", "'a,b'", "' x '", "'A'"]),
    ("b", "BOOLEAN", &["true", "false"]),
    ("day", "DATE", &["'2024-02-29'", "'1969-12-31'", "'0001-01-01'", "'9999-12-31'"]),
    ("ts", "TIMESTAMP", &["'1969-12-31 23:59:59.999999'", "'2024-01-01 00:00:00'", "'2038-01-19 03:14:08'"]),
    ("u", "UUID", &["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
];

/// What a condition says of a column and a value.
const OF_A_VALUE: [&str; 5] = ["c = v", "c <> v", "c < v", "NOT (c > v)", "c IS DISTINCT FROM v"];

/// The aggregates that no order of the rows changes. Either zero may stand for both.
const AGGREGATES: [&str; 30] = [
    "count(*)",
    "count(i), count(f), count(t), count(u)",
    "count(DISTINCT i), count(DISTINCT d), count(DISTINCT t)",
    "count(DISTINCT f), count(DISTINCT r)",
    "count(DISTINCT u)",
    "sum(i)",
    "avg(n)",
    "min(i), max(i)",
    "min(f) + 0, max(f) + 0",
    "min(r) + 0, max(r) + 0",
    "min(f) FILTER (WHERE f < 'inf') + 0, max(f) FILTER (WHERE f < 'inf') + 0",
    "sum(d)",
    "avg(d)",
    "min(d), max(d)",
    "min(t), max(t)",
    "min(b), max(b)",
    "min(day), max(day)",
    "min(ts), max(ts)",
    "min(u)::TEXT, max(u)::TEXT",
    "bool_or(b), bool_and(b)",
    "bit_xor(i), bit_or(i), bit_and(i)",
    "sum(i) FILTER (WHERE f > 1)",
    "count(*) FILTER (WHERE t = '')",
    "median(d)",
    "quantile_disc(i, 0.5)",
    "quantile_disc(day, 0.25)",
    "string_agg(t, '|' ORDER BY n)",
    "array_agg(day ORDER BY n)",
    "sum(DISTINCT d)",
    "max(i) - min(i)",
];

/// Where the rows of the table `stored` are, too; `{}` is a directory, and `{columns}` names the columns and
/// their types.
const SOURCES: [&str; 10] = [
    "tail",
    "'{}/t.parquet'",
    "'{}/groups.parquet'",
    "'{}/t.arrow'",
    "read_csv('{}/t.csv', columns => {columns})",
    "read_json('{}/t.json', columns => {columns})",
    "read_parquet(['{}/odd.parquet', '{}/even.parquet'])",
    "(SELECT * FROM stored WHERE n % 2 = 0 UNION ALL SELECT * FROM '{}/odd.parquet') AS s",
    "(WITH c AS MATERIALIZED (SELECT * FROM '{}/groups.parquet') SELECT * FROM c) AS s",
    "(SELECT a.* FROM '{}/t.parquet' AS a JOIN tail AS b ON a.n = b.n) AS s",
];

fn run(connection: &Connection, sql: &str) {
    connection.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
}

/// Makes a table with the rows, in files up to one of them and in the log behind that.
fn make(connection: &Connection, table: &str, stored: usize) {
    let columns = COLUMNS.map(|(name, of, _)| format!("{name} {of}")).join(", ");
    run(connection, &format!("CREATE TABLE {table} (n INTEGER, {columns})"));
    for n in 0..ROWS {
        let values = COLUMNS.map(|(_, _, values)| {
            let place = n % (values.len() + 1);
            values.get(place).map_or("NULL", |value| *value)
        });
        run(connection, &format!("INSERT INTO {table} VALUES ({n}, {})", values.join(", ")));
        if n + 1 == stored {
            run(connection, "CHECKPOINT");
        }
    }
}

fn conditions() -> Vec<String> {
    let mut made = Vec::new();
    for (name, _, values) in COLUMNS {
        for value in values {
            let of_value = OF_A_VALUE.map(|form| {
                let words = form.split(' ').map(|word| match word.trim_matches(['(', ')']) {
                    "c" => word.replace('c', name),
                    "v" => word.replace('v', value),
                    _ => word.to_string(),
                });
                words.collect::<Vec<_>>().join(" ")
            });
            made.extend(of_value);
        }
        let (first, last) = (values[0], values[values.len() - 1]);
        made.extend([
            format!("{name} IS NULL"),
            format!("{name} IS NOT NULL"),
            format!("{name} IN ({first}, {last})"),
            format!("{name} NOT IN ({first}, {last})"),
            format!("{name} BETWEEN {first} AND {last}"),
        ]);
    }
    made
}

#[test]
fn the_same_rows_give_the_same_answers_whatever_they_are_read_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(directory.path().join("db"), options).unwrap();
    let connection = database.connect().unwrap();
    make(&connection, "stored", ROWS);
    make(&connection, "tail", ROWS / 2);
    run(&connection, &format!("COPY stored TO '{path}/groups.parquet' (row_group_size 5)"));
    for format in ["parquet", "arrow", "csv", "json"] {
        run(&connection, &format!("COPY stored TO '{path}/t.{format}'"));
    }
    for (name, rest) in [("even", 0), ("odd", 1)] {
        let part = format!("SELECT * FROM stored WHERE n % 2 = {rest}");
        run(&connection, &format!("COPY ({part}) TO '{path}/{name}.parquet'"));
    }
    let columns = COLUMNS.map(|(name, of, _)| format!("'{name}': '{of}'")).join(", ");
    let columns = format!("{{'n': 'INTEGER', {columns}}}");

    let mut questions: Vec<String> =
        conditions().iter().map(|of| format!("SELECT n FROM source WHERE {of} ORDER BY n")).collect();
    for aggregates in AGGREGATES {
        questions.extend([
            format!("SELECT {aggregates} FROM source"),
            format!("SELECT {aggregates} FROM source WHERE f IS NULL"),
            format!("SELECT b, {aggregates} FROM source GROUP BY b ORDER BY b"),
        ]);
    }
    for (name, _, _) in COLUMNS {
        questions.push(format!("SELECT count(*), min(n), max(n) FROM source GROUP BY {name} ORDER BY 2"));
        questions.push(format!("SELECT n, rank() OVER (ORDER BY {name} DESC) FROM source ORDER BY n"));
    }
    let expected: Vec<String> =
        questions.iter().map(|sql| rows(&connection, &sql.replace("source", "stored"))).collect();
    for source in SOURCES {
        let source = source.replace("{}", path).replace("{columns}", &columns);
        for (sql, expected) in questions.iter().zip(&expected) {
            let sql = sql.replace("source", &source);
            assert_eq!(&rows(&connection, &sql), expected, "{sql}");
        }
    }
}
