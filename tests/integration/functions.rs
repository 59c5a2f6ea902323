//! Calls every function with various arguments: it gives a value, or an error about the arguments.

use arrow::array::AsArray;
use hypostyle::{Connection, Database, ErrorKind, OpenOptions};
use std::collections::BTreeMap;

/// Values at the limits of their types, empty ones, and NULL.
const SAMPLES: [&str; 30] = [
    "NULL",
    "0",
    "-1",
    "3",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "'nan'::DOUBLE",
    "'-inf'::DOUBLE",
    "1e300",
    "'-128'::TINYINT",
    "12.34::DECIMAL(10,2)",
    "99999999999999999999999999999999999999::DECIMAL(38,0)",
    "true",
    "''",
    "'abc'",
    "'é%d(['",
    "'month'",
    "DATE '2024-02-29'",
    "TIMESTAMP '0001-01-01 00:00:00'",
    "TIMESTAMPTZ '2024-02-29 12:00:00+01'",
    "TIME '23:59:59.999999'",
    "INTERVAL '-1 month 3 days'",
    "[1, NULL, 3]",
    "['a', 'b']",
    "[[1], [2, 3]]",
    "{'a': 1, 'b': 'x'}",
    "MAP {'a': 1}",
    "'\\x00ff'::BYTEA",
    "'{\"a\": [1, 2]}'::JSON",
];

/// The number of calls of each function with a given number of arguments.
const CALLS: usize = 6;

/// Functions that do not only depend on their arguments: this one waits.
const LEFT_OUT: [&str; 1] = ["pg_sleep"];

/// Returns numbers that look random, and are the same each time.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut number = 1_u64;
    move |below| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (number >> 33) as usize % below
    }
}

fn functions(connection: &Connection) -> BTreeMap<String, String> {
    let sql = "SELECT DISTINCT routine_name, function_type FROM information_schema.routines ORDER BY 1";
    let rows = connection.execute(sql).unwrap().record_batches().unwrap();
    let text = |column: &arrow::array::ArrayRef| {
        arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap()
    };
    let mut functions = BTreeMap::new();
    for batch in rows {
        let (names, kinds) = (text(batch.column(0)), text(batch.column(1)));
        let rows = names.as_string::<i32>().iter().zip(kinds.as_string::<i32>());
        functions.extend(rows.map(|(name, kind)| (name.unwrap().to_string(), kind.unwrap().to_string())));
    }
    functions.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    functions
}

/// Returns the samples as literals, and as columns whose second row is NULL.
fn arguments(connection: &Connection) -> Vec<String> {
    let mut arguments: Vec<String> = SAMPLES.map(String::from).to_vec();
    let columns: Vec<String> =
        SAMPLES.iter().enumerate().skip(1).map(|(place, sample)| format!("{sample} AS c{place}")).collect();
    let nulls: Vec<String> =
        (1..SAMPLES.len()).map(|place| format!("nullif(c{place}, c{place}) AS c{place}")).collect();
    connection.execute(&format!("CREATE TABLE one AS SELECT {}", columns.join(", "))).unwrap();
    connection.execute("CREATE TABLE samples AS SELECT * FROM one").unwrap();
    connection.execute(&format!("INSERT INTO samples SELECT {} FROM one", nulls.join(", "))).unwrap();
    arguments.extend((1..SAMPLES.len()).map(|place| format!("c{place}")));
    arguments
}

#[test]
fn calls_give_a_value_or_an_error_of_the_caller() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let arguments = arguments(&connection);
    let mut below = numbers();
    let mut wrong = Vec::new();
    let functions = functions(&connection);
    assert!(functions.len() > 400, "{} functions", functions.len());
    for (name, kind) in functions {
        let mut calls: Vec<Vec<&str>> = vec![Vec::new()];
        for count in 1..=3 {
            let choose = |_| (0..count).map(|_| arguments[below(arguments.len())].as_str()).collect();
            calls.extend((0..CALLS).map(choose).collect::<Vec<_>>());
        }
        for call in calls {
            let over = if kind == "WINDOW" { " OVER (ORDER BY c3)" } else { "" };
            let sql = format!("SELECT \"{name}\"({}){over} FROM samples", call.join(", "));
            let result = connection.execute(&sql).and_then(|result| result.record_batches().map(drop));
            if let Err(error) = result
                && error.kind() == ErrorKind::Internal
            {
                wrong.push(format!("{sql}: {}", error.message()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} internal errors:\n{}", wrong.len(), wrong.join("\n"));
}
