//! Groups that several threads have seen, some of which have NULLs only, or what is no number: their
//! aggregates are those of the group's rows alone, with pipelines and without.

use crate::backup::rows;
use hypostyle::{Connection, Database, OpenOptions};

const AGGREGATES: [&str; 44] = [
    "count(*)",
    "count(i)",
    "count(f)",
    "count(DISTINCT i)",
    "count(DISTINCT f)",
    "sum(i)",
    "sum(d)",
    "sum(f)",
    "sum(DISTINCT i)",
    "sum(DISTINCT d)",
    "avg(i)",
    "avg(d)",
    "avg(f)",
    "min(i)",
    "max(i)",
    "min(f)",
    "max(f)",
    "min(r)",
    "max(r)",
    "min(t)",
    "max(t)",
    "min(o)",
    "max(o)",
    "min(f) FILTER (WHERE i > 3)",
    "max(f) FILTER (WHERE i > 3)",
    "bool_or(o)",
    "bool_and(o)",
    "every(o)",
    "bool_or(o) FILTER (WHERE i > 3)",
    "bit_or(i)",
    "bit_and(i)",
    "bit_xor(i)",
    "bit_or(i) FILTER (WHERE o)",
    "var_pop(f)::REAL",
    "var_samp(i)::REAL",
    "stddev_pop(f)::REAL",
    "stddev_samp(i)::REAL",
    "covar_pop(f, i)::REAL",
    "corr(i, i)::REAL",
    "regr_slope(i, i)::REAL",
    "median(i)",
    "mode(i)",
    "quantile_disc(i, 0.5)",
    "histogram(i)",
];

/// The values of the groups' rows: an integer, a floating-point number, a truth and a text.
const GROUPS: [&[[&str; 4]]; 9] = [
    &[["NULL", "NULL", "NULL", "NULL"]; 3],
    &[["1", "'nan'", "true", "'a'"], ["NULL", "NULL", "NULL", "NULL"], ["1", "'nan'", "true", "'a'"]],
    &[["4", "'-nan'", "false", "'b'"], ["5", "'nan'", "true", "NULL"]],
    &[["0", "-0.0", "false", "''"], ["0", "0.0", "NULL", "''"], ["7", "-0.0", "false", "'c'"]],
    &[["6", "'inf'", "true", "'d'"], ["6", "'-inf'", "false", "'e'"]],
    &[["9", "2.5", "NULL", "NULL"]],
    &[["NULL", "NULL", "true", "'z'"]; 2],
    &[["-8", "NULL", "NULL", "'q'"], ["8", "8", "NULL", "'q'"]],
    &[["NULL", "'nan'", "NULL", "NULL"]],
];

/// Makes a table whose groups have rows in the files and in the log.
fn fill(connection: &Connection, step: usize, distance: usize) {
    connection
        .execute("CREATE OR REPLACE TABLE c (g INTEGER, i INTEGER, d DECIMAL(38,2), f DOUBLE, r REAL, o BOOLEAN, t VARCHAR)")
        .unwrap();
    let mut inserted = 0;
    for round in 0..3 {
        for (place, group) in GROUPS.iter().enumerate() {
            if let Some([i, f, o, t]) = group.get(round) {
                let g = place * distance;
                let sql = format!("INSERT INTO c VALUES ({g}, {i}, {i}, {f}, {f}, {o}, {t})");
                connection.execute(&sql).unwrap();
                inserted += 1;
                if inserted == step {
                    connection.execute("CHECKPOINT").unwrap();
                }
            }
        }
    }
}

#[test]
fn merged_groups_are_those_of_their_rows() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(directory.path().join("merged"), options).unwrap();
    let connection = database.connect().unwrap();
    // Keys that lie close together have ids that no row has; others are hashed.
    for (step, distance) in [(3, 1), (8, 7), (12, 1), (5, 100_000)] {
        fill(&connection, step, distance);
        for aggregate in AGGREGATES {
            let grouped = format!("SELECT g, {aggregate} AS a FROM c WHERE g >= 0 GROUP BY g ORDER BY g");
            let sets =
                format!("SELECT g, o, {aggregate} AS a FROM c GROUP BY ROLLUP (g, o) ORDER BY g, o, 3");
            let with = |mode: &str, sql: &str| {
                connection.execute(&format!("SET position_pipelines = {mode}")).unwrap();
                rows(&connection, sql)
            };
            for sql in [&grouped, &sets] {
                let expected = with("off", sql);
                assert_eq!(with("on", sql), expected, "{sql}");
                assert_eq!(with("verify", sql), expected, "{sql}");
            }
            let alone: Vec<String> = (0..GROUPS.len())
                .map(|place| {
                    let g = place * distance;
                    format!("SELECT {g} AS g, {aggregate} AS a FROM (SELECT * FROM c WHERE g = {g}) AS q")
                })
                .collect();
            let alone = format!("SELECT * FROM ({}) AS all_groups ORDER BY g", alone.join(" UNION ALL "));
            assert_eq!(with("on", &grouped), with("off", &alone), "{grouped}");
        }
    }
}

/// Aggregates of all rows whose values do not follow from the order in which rows come.
fn is_of_any_order(aggregate: &str) -> bool {
    ["count", "min", "max", "bool_", "every", "bit_"].iter().any(|name| aggregate.starts_with(name))
}

#[test]
fn aggregates_of_files_are_those_of_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let database = Database::open(directory.path().join("files"), options).unwrap();
    let connection = database.connect().unwrap();
    fill(&connection, 8, 7);
    let path = directory.path().display();
    for format in ["parquet", "arrow", "csv", "json"] {
        connection.execute(&format!("COPY c TO '{path}/c.{format}'")).unwrap();
    }
    let columns = "columns => {'g': 'INTEGER', 'i': 'INTEGER', 'd': 'DECIMAL(38,2)', 'f': 'DOUBLE', 'r': 'REAL', \
                   'o': 'BOOLEAN', 't': 'VARCHAR'}";
    let sources = [
        format!("'{path}/c.parquet'"),
        format!("'{path}/c.arrow'"),
        format!("read_csv('{path}/c.csv', {columns})"),
        format!("read_json('{path}/c.json', {columns})"),
        "(SELECT * FROM c WHERE g IS NOT NULL) AS q".to_string(),
    ];
    // The two zeros are equal, and either may be shown.
    let found = |sql: &str| -> Vec<String> {
        let cells =
            |line: &str| line.split('|').map(|cell| cell.trim().replace("-0.0", "0.0")).collect::<Vec<_>>();
        let shown = rows(&connection, sql);
        shown.lines().filter(|line| line.starts_with('|')).map(|line| cells(line).join("|")).collect()
    };
    for aggregate in AGGREGATES {
        let grouped =
            |source: &str| format!("SELECT g, {aggregate} AS a FROM {source} GROUP BY g ORDER BY g");
        let all = |source: &str| format!("SELECT {aggregate} AS a FROM {source}");
        let expected = (found(&grouped("c")), found(&all("c")));
        for source in &sources {
            assert_eq!(found(&grouped(source)), expected.0, "{}", grouped(source));
            if is_of_any_order(aggregate) {
                assert_eq!(found(&all(source)), expected.1, "{}", all(source));
            }
        }
    }
}
