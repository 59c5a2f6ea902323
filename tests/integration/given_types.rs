//! Parameters have the types of their values in every operator, in process and over PostgreSQL's
//! protocol: an expression with a parameter gives what it gives with a literal of that type.

use crate::pgwire::{Client, shown};
use crate::served::Served;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, IntervalMonthDayNano};
use arrow::util::pretty::pretty_format_batches;
use hypostyle::{Connection, Database, LogicalType, OpenOptions, Parameters, ScalarValue};
use std::sync::Arc;

struct Sample {
    literal: &'static str,
    value: ScalarValue,
    /// The type's number in PostgreSQL, and the value as its clients write it.
    oid: u32,
    text: &'static str,
}

fn samples() -> Vec<Sample> {
    let sample = |literal, value, oid, text| Sample { literal, value, oid, text };
    let interval = IntervalMonthDayNano::new(1, 2, 3_000_000_000);
    let moment = 1_600_000_000_000_000;
    vec![
        sample(
            "INTERVAL '1 month 2 days 3 seconds'",
            ScalarValue::IntervalMonthDayNano(Some(interval)),
            1186,
            "1 mon 2 days 00:00:03",
        ),
        sample("DATE '2020-09-13'", ScalarValue::Date32(Some(18518)), 1082, "2020-09-13"),
        sample("TIME '10:20:30'", ScalarValue::Time64Microsecond(Some(37_230_000_000)), 1083, "10:20:30"),
        sample(
            "TIMESTAMP '2020-09-13 12:26:40'",
            ScalarValue::TimestampMicrosecond(Some(moment), None),
            1114,
            "2020-09-13 12:26:40",
        ),
        sample(
            "TIMESTAMPTZ '2020-09-13 12:26:40+00'",
            ScalarValue::TimestampMicrosecond(Some(moment), Some(Arc::from("UTC"))),
            1184,
            "2020-09-13 12:26:40+00",
        ),
        sample("2::SMALLINT", ScalarValue::Int16(Some(2)), 21, "2"),
        sample("3::INTEGER", ScalarValue::Int32(Some(3)), 23, "3"),
        sample("4::BIGINT", ScalarValue::Int64(Some(4)), 20, "4"),
        sample("2.5::DOUBLE", ScalarValue::Float64(Some(2.5)), 701, "2.5"),
        sample("2.5", ScalarValue::Decimal128(Some(25), 2, 1), 1700, "2.5"),
        sample("true", ScalarValue::Boolean(Some(true)), 16, "t"),
        sample(
            "UUID '00112233-4455-6677-8899-aabbccddeeff'",
            Parameters::uuid([0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255]),
            2950,
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
    ]
}

const OPERATORS: [&str; 7] = ["+", "-", "*", "/", "=", "<", ">="];

fn connection() -> Connection {
    Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap()
}

fn answer(connection: &Connection, sql: &str, values: Vec<ScalarValue>) -> Result<String, String> {
    let parameters = if values.is_empty() { Parameters::None } else { Parameters::Positional(values) };
    let result = connection.execute_with(sql, parameters).map_err(|error| error.to_string())?;
    let mut batches = Vec::new();
    while let Some(batch) = result.next_batch().map_err(|error| error.to_string())? {
        batches.push(batch);
    }
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

#[test]
fn operands_have_the_types_of_their_values() {
    let connection = connection();
    for given in samples() {
        for other in samples() {
            for operator in OPERATORS {
                let (mine, theirs) = (given.literal, other.literal);
                for (with_parameter, with_literal) in [
                    (
                        format!("SELECT {theirs} {operator} ? AS x"),
                        format!("SELECT {theirs} {operator} {mine} AS x"),
                    ),
                    (
                        format!("SELECT ? {operator} {theirs} AS x"),
                        format!("SELECT {mine} {operator} {theirs} AS x"),
                    ),
                ] {
                    let Ok(expected) = answer(&connection, &with_literal, Vec::new()) else { continue };
                    for _ in 0..3 {
                        let found = answer(&connection, &with_parameter, vec![given.value.clone()]);
                        assert_eq!(found.as_ref(), Ok(&expected), "{with_literal}");
                    }
                }
            }
        }
    }
}

#[test]
fn operands_have_the_types_that_a_client_tells() {
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    for given in samples() {
        for other in samples() {
            for operator in OPERATORS {
                let (mine, theirs) = (given.literal, other.literal);
                for (with_parameter, with_literal) in [
                    (format!("SELECT {theirs} {operator} $1"), format!("SELECT {theirs} {operator} {mine}")),
                    (format!("SELECT $1 {operator} {theirs}"), format!("SELECT {mine} {operator} {theirs}")),
                ] {
                    let expected = shown(&client.query(&with_literal));
                    if expected.contains('E') && !expected.contains("SELECT") {
                        continue;
                    }
                    let found = client.run_with(&with_parameter, &[given.oid], &[given.text]);
                    let rows = expected.trim_start_matches("T ");
                    assert_eq!(found.trim_start_matches("2 "), rows, "{with_literal}");
                }
            }
        }
    }
}

#[test]
fn times_are_moved_by_parameters() {
    let connection = connection();
    connection.execute("CREATE TABLE t (d DATE, ts TIMESTAMP, z TIMESTAMPTZ)").unwrap();
    connection.execute("INSERT INTO t VALUES ('2020-01-01', '2020-01-01', '2020-01-01')").unwrap();
    let day = || vec![ScalarValue::DurationMicrosecond(Some(86_400_000_000))];
    let days = || vec![ScalarValue::Int64(Some(1))];
    for (sql, values, expected) in [
        ("SELECT (d + ?)::VARCHAR FROM t", days(), "2020-01-02"),
        ("SELECT (? + d)::VARCHAR FROM t", days(), "2020-01-02"),
        ("SELECT (d - ?)::VARCHAR FROM t", days(), "2019-12-31"),
        ("SELECT (ts + ?)::VARCHAR FROM t", day(), "2020-01-02 00:00:00"),
        ("SELECT (timestamp '2020-01-01' + ?)::VARCHAR", day(), "2020-01-02 00:00:00"),
        ("SELECT (z - ? > '2000-01-01')::VARCHAR FROM t", day(), "true"),
        ("SELECT (now() > now() - ?)::VARCHAR", day(), "true"),
        ("SELECT (? * 2)::VARCHAR", day(), "48:00:00"),
        (
            "SELECT ts::VARCHAR FROM t WHERE ts > ? - interval '1 day'",
            vec![ScalarValue::Date32(Some(18_262))],
            "2020-01-01 00:00:00",
        ),
    ] {
        let found = answer(&connection, sql, values).unwrap();
        assert!(found.contains(&format!("| {expected}")), "{sql}: {found}");
    }
    let changed = Parameters::Positional(day());
    connection.execute_with("UPDATE t SET ts = ts + ?", changed).unwrap();
    assert!(answer(&connection, "SELECT ts FROM t", Vec::new()).unwrap().contains("2020-01-02"));
}

#[test]
fn sums_and_joined_texts_have_parameters_of_any_type() {
    let connection = connection();
    for (sql, value, expected) in [
        ("SELECT sum(?) AS x", ScalarValue::Int16(Some(3)), "| 3"),
        ("SELECT SUM(DISTINCT -?) AS x", ScalarValue::Int64(Some(3)), "| -3"),
        ("SELECT sum(?) OVER () AS x", ScalarValue::Float64(Some(2.5)), "| 2.5"),
        ("SELECT sum(?) AS x", ScalarValue::Float32(Some(2.5)), "| 2.5"),
        ("SELECT sum(?) AS x", ScalarValue::Decimal128(Some(25), 2, 1), "| 2.5"),
        ("SELECT 1 || ? AS x", ScalarValue::from("a"), "| 1a"),
        ("SELECT ? || 1.5 || 'b' AS x", ScalarValue::from("a"), "| a1.5b"),
        ("SELECT DATE '2020-01-01' || ? AS x", ScalarValue::Int64(Some(7)), "| 2020-01-017"),
        ("SELECT (1 || ?) IS NULL AS x", ScalarValue::Null, "| true"),
        ("SELECT substr('abc', ?) AS x", ScalarValue::Int16(Some(2)), "| bc"),
    ] {
        for _ in 0..2 {
            let found = answer(&connection, sql, vec![value.clone()]).unwrap();
            assert!(found.contains(expected), "{sql}: {found}");
        }
    }
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    assert_eq!(client.run_with("SELECT sum($1)", &[20], &["7"]), "2 (7) SELECT 1 I");
    assert_eq!(client.run_with("SELECT 1 || $1", &[0], &["x"]), "2 (1x) SELECT 1 I");
    assert_eq!(client.run_with("SELECT substr('abc', $1)", &[21], &["2"]), "2 (bc) SELECT 1 I");
}

#[test]
fn bounds_of_frames_are_parameters() {
    let connection = connection();
    connection.execute("CREATE TABLE f (n INT, d DATE)").unwrap();
    connection
        .execute("INSERT INTO f VALUES (1, '2020-01-01'), (2, '2020-01-03'), (4, '2020-01-04')")
        .unwrap();
    let number = || ScalarValue::Int64(Some(1));
    let max = |sql: &str, value| {
        let sql = format!("SELECT 'm' || max(s) AS x FROM (SELECT sum(n) OVER {sql} AS s FROM f)");
        answer(&connection, &sql, vec![value])
    };
    let day = || ScalarValue::DurationMicrosecond(Some(86_400_000_000));
    let days = || ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 2, 0)));
    let double = ScalarValue::Float64(Some(1.5));
    for (sql, value, expected) in [
        ("(ORDER BY n ROWS ? PRECEDING)", number(), "m6"),
        ("(ORDER BY n GROUPS ? PRECEDING)", number(), "m6"),
        ("(ORDER BY n RANGE ? PRECEDING)", number(), "m4"),
        ("(ORDER BY n RANGE BETWEEN CURRENT ROW AND ? FOLLOWING)", number(), "m4"),
        ("(ORDER BY n::DOUBLE RANGE ? PRECEDING)", double, "m4"),
        ("(ORDER BY d RANGE BETWEEN ? PRECEDING AND CURRENT ROW)", day(), "m6"),
        ("(ORDER BY d RANGE BETWEEN ? PRECEDING AND CURRENT ROW)", days(), "m6"),
        ("(ORDER BY d::TIMESTAMP RANGE ? PRECEDING)", days(), "m6"),
        ("(ORDER BY d RANGE ?::INTERVAL PRECEDING)", ScalarValue::from("2 days"), "m6"),
    ] {
        let found = max(sql, value).unwrap();
        assert!(found.contains(expected), "{sql}: {found}");
    }
    for units in ["ROWS", "GROUPS", "RANGE"] {
        let sql = format!("(ORDER BY n {units} ? PRECEDING)");
        assert!(max(&sql, ScalarValue::Int64(Some(-1))).is_err(), "{units}");
    }
}

#[test]
fn texts_are_json_where_json_is_wanted() {
    let connection = connection();
    let text = || vec![ScalarValue::from(r#"{"a": {"b": 7}}"#)];
    for (sql, expected) in [
        ("SELECT ? ->> 'a' AS x", r#"{"b": 7}"#),
        ("SELECT ? -> 'a' ->> 'b' AS x", "7"),
        ("SELECT $1 #>> '{a,b}' AS x", "7"),
    ] {
        let found = answer(&connection, sql, text()).unwrap();
        assert!(found.contains(&format!("| {expected}")), "{sql}: {found}");
    }
    let served = Served::in_memory();
    let mut client = Client::new(&served);
    for oid in [114, 3802, 25, 0] {
        let found = client.run_with("SELECT $1 ->> 'a'", &[oid], &[r#"{"a": 1}"#]);
        assert_eq!(found, "2 (1) SELECT 1 I", "{oid}");
    }
}

#[test]
fn a_uuid_stays_one() {
    let connection = connection();
    let uuid = || Parameters::Positional(vec![Parameters::uuid([7; 16])]);
    connection.execute("CREATE TABLE u (id UUID, n INT)").unwrap();
    connection.execute_with("INSERT INTO u VALUES (?, 1)", uuid()).unwrap();
    connection.execute_with("INSERT INTO u SELECT ?, 2", uuid()).unwrap();
    for _ in 0..3 {
        let result = connection.execute_with("SELECT ?", uuid()).unwrap();
        assert_eq!(result.columns()[0].logical_type, LogicalType::Uuid);
        let batch = result.next_batch().unwrap().unwrap();
        assert_eq!(batch.column(0).as_fixed_size_binary().value(0), [7; 16]);
    }
    let found = connection.execute_with("SELECT count(*)::INT FROM u WHERE id = ?", uuid()).unwrap();
    let batch = found.next_batch().unwrap().unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int32Type>().value(0), 2);
    let copied = connection.execute_with("CREATE TABLE c AS SELECT ? AS id", uuid());
    copied.unwrap();
    let copied = connection.execute("SELECT id FROM c").unwrap();
    assert_eq!(copied.columns()[0].logical_type, LogicalType::Uuid);
    let found = connection.execute_with("SELECT * FROM unnest([?])", uuid()).unwrap();
    assert!(!found.next_batch().unwrap().unwrap().column(0).is_null(0));
    let served = Served::in_memory();
    let result = served.connect_tcp().unwrap().execute_with("SELECT ?", uuid()).unwrap();
    assert_eq!(result.columns()[0].logical_type, LogicalType::Uuid);
    let mut client = Client::new(&served);
    let text = "07070707-0707-0707-0707-070707070707";
    assert_eq!(client.run_with("SELECT $1", &[2950], &[text]), format!("2 ({text}) SELECT 1 I"));
}

#[test]
fn statements_of_one_text_share_parameters() {
    let connection = connection();
    let values = |numbers: &[i64]| numbers.iter().map(|number| ScalarValue::Int64(Some(*number))).collect();
    let sql =
        "CREATE TABLE p (a BIGINT); INSERT INTO p VALUES ($1), ($2); SELECT a + $2 AS x FROM p WHERE a = $1";
    assert!(answer(&connection, sql, values(&[1, 20])).unwrap().contains("| 21"));
    let sql = "DELETE FROM p WHERE a = ?; INSERT INTO p VALUES (?); SELECT sum(a) + ? AS x FROM p";
    assert!(answer(&connection, sql, values(&[1, 5, 100])).unwrap().contains("| 125"));
    assert!(answer(&connection, sql, values(&[1, 5])).unwrap_err().contains("the statements"));
    let named = Parameters::Named(vec![("n".into(), ScalarValue::Int64(Some(3)))]);
    let result =
        connection.execute_with("DELETE FROM p; INSERT INTO p VALUES ($n); SELECT a * $n FROM p", named);
    assert_eq!(result.unwrap().row_count().unwrap(), 1);
}

/// The values of an INSERT that are cast take the short way, and are what a query makes of them.
#[test]
fn casts_in_values_are_those_of_queries() {
    let connection = connection();
    let casts = [
        ("'2020-01-02 03:04:05'", "TIMESTAMP"),
        ("'2020-01-02 03:04:05'", "TIMESTAMPTZ"),
        ("'2020-01-02 03:04:05+02'", "TIMESTAMPTZ"),
        ("'2020-01-02'", "DATE"),
        ("'10:11:12.5'", "TIME"),
        ("'1 day 2 hours'", "INTERVAL"),
        ("'12'", "BIGINT"),
        ("1.5", "INTEGER"),
        ("2.5", "INTEGER"),
        ("7", "VARCHAR"),
        ("'x'", "VARCHAR"),
        ("'1.255'", "DECIMAL(10,2)"),
        ("1.255", "DECIMAL(10,2)"),
        ("'true'", "BOOLEAN"),
        ("1", "DOUBLE"),
        ("'00112233-4455-6677-8899-aabbccddeeff'", "UUID"),
        ("'{\"a\": 1}'", "JSON"),
        ("NULL", "INTEGER"),
    ];
    connection.execute("SET timezone = 'Europe/Berlin'").unwrap();
    for (value, to) in casts {
        connection.execute(&format!("CREATE OR REPLACE TABLE one (c {to}, n INT)")).unwrap();
        connection
            .execute(&format!("INSERT INTO one VALUES (CAST({value} AS {to}), 1), ({value}::{to}, 2)"))
            .unwrap();
        connection.execute(&format!("INSERT INTO one SELECT CAST({value} AS {to}), 3")).unwrap();
        let text = value.trim_matches('\'');
        let parameters = Parameters::Positional(vec![if value == "NULL" {
            ScalarValue::Null
        } else {
            ScalarValue::from(text)
        }]);
        if value.starts_with('\'') || value == "NULL" {
            connection.execute_with(&format!("INSERT INTO one VALUES (?::{to}, 4)"), parameters).unwrap();
        }
        let found = connection.execute("SELECT count(DISTINCT c::VARCHAR)::INT FROM one").unwrap();
        let distinct = found.next_batch().unwrap().unwrap().column(0).as_primitive::<Int32Type>().value(0);
        assert_eq!(distinct, i32::from(value != "NULL"), "{value} as {to}");
    }
    let wrong = connection.execute("INSERT INTO one VALUES ('x'::INTEGER, 1)").err().unwrap();
    assert_eq!(wrong.sqlstate(), "22P02");
}
