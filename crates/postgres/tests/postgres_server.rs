//! The client against a real server: what it returns is compared with what psql says as text.

mod common;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, LargeStringArray, RecordBatch,
    RecordBatchIterator, StringArray, make_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use bytes::BytesMut;
use common::{Server, has_extension, server};
use hypostyle_pgtypes::{Cells, Column, IntervalStyle, Style};
use hypostyle_postgres::{AppendOptions, Connection, Gives, QueryResult, TYPE_KEY, Transaction};
use hypostyle_types::{ErrorKind, LogicalType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Columns of a table with random values: their names, their types and how a value is made.
const COLUMNS: [(&str, &str, &str); 40] = [
    ("b", "bool", "random() < 0.5"),
    ("i2", "int2", "(random() * 65535 - 32768)::int"),
    ("i4", "int4", "(random() * 4294967295 - 2147483648)::int8"),
    ("i8", "int8", "(random() * 1.8e19 - 9e18)::numeric(20)"),
    ("f4", "float4", "(random() - 0.5) * 10 ^ (random() * 60 - 30)"),
    ("f8", "float8", "(random() - 0.5) * 10 ^ (random() * 600 - 300)"),
    ("n9", "numeric(9,2)", "(random() - 0.5) * 1e7"),
    ("n18", "numeric(18,6)", "(random() - 0.5) * 1e11"),
    ("n38", "numeric(38,10)", "(random() - 0.5)::numeric * 10 ^ (random() * 27)::int"),
    ("n76", "numeric(76,38)", "(random() - 0.5)::numeric * 10 ^ (random() * 60 - 25)::int"),
    ("n3", "numeric(3,5)", "random() * 0.00999"),
    ("nm", "numeric(3,-2)", "random() * 90000"),
    ("nu", "numeric", "((random() - 0.5)::numeric * 10 ^ (random() * 60 - 30)::int)"),
    ("t", "text", "repeat(md5(random()::text), (random() * 3)::int) || ' é\t\"\\,'"),
    ("vc", "varchar(12)", "left(md5(random()::text), (random() * 12)::int)"),
    ("bp", "char(6)", "left(md5(random()::text), (random() * 6)::int)"),
    ("na", "name", "md5(random()::text)"),
    ("c", "\"char\"", "chr((random() * 90 + 33)::int)"),
    ("by", "bytea", "decode(repeat(md5(random()::text), (random() * 3)::int), 'hex')"),
    ("d", "date", "date '4713-01-01 BC' + (random() * 5000000)::int"),
    ("ti", "time", "time '00:00' + random() * interval '86399.999999 s'"),
    ("ts", "timestamp", "timestamp '4713-01-01 BC' + random() * 3000000 * interval '1 day'"),
    ("tz", "timestamptz", "timestamptz '1900-01-01' + random() * 80000 * interval '1 day'"),
    (
        "iv",
        "interval",
        "(random() * 100 - 50)::int * interval '1 month' + (random() * 100 - 50)::int * interval '1 day' \
          + (random() - 0.5) * interval '100 hours'",
    ),
    ("u", "uuid", "md5(random()::text)::uuid"),
    ("j", "json", "json_build_object('a', random(), 'b', md5(random()::text))"),
    ("jb", "jsonb", "jsonb_build_object('a', random(), 'b', null)"),
    ("e", "mood", "(array['sad', 'ok', 'so so'])[1 + (random() * 2)::int]::mood"),
    ("dm", "positive", "random() * 1000 + 1"),
    ("o", "oid", "(random() * 4294967295)::int8::oid"),
    ("ia", "int4[]", "array[(random() * 100)::int, null, 7]"),
    ("ta", "text[]", "array[md5(random()::text), 'a b', null, 'null', '{']"),
    ("inn", "inet", "('10.0.0.' || (random() * 255)::int)::inet"),
    ("ra", "int4range", "int4range((random() * 10)::int, 10 + (random() * 10)::int)"),
    ("mo", "money", "(random() * 1000)::numeric::money"),
    ("bi", "bit(3)", "(random() * 7)::int::bit(3)"),
    ("tt", "timetz", "timetz '00:00+02' + random() * interval '1 hour'"),
    ("po", "point", "point(random(), random())"),
    ("inna", "inet[]", "array['10.0.0.1', null]::inet[]"),
    ("rc", "regclass", "'pg_class'::regclass"),
];

/// Creates a table with random rows, of which about a tenth of the values are NULL.
fn make_random(server: &Server, name: &str, rows: usize) {
    let columns: Vec<String> = COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let values: Vec<String> = COLUMNS
        .iter()
        .map(|(_, kind, value)| format!("CASE WHEN random() > 0.1 THEN ({value})::{kind} END"))
        .collect();
    server.psql(&format!(
        "SELECT setseed(0.42); CREATE TABLE {name} (id int8, {}); INSERT INTO {name} SELECT i, {} \
         FROM generate_series(1, {rows}) AS s (i)",
        columns.join(", "),
        values.join(", ")
    ));
}

fn make_types(server: &Server) {
    static DONE: std::sync::Once = std::sync::Once::new();
    DONE.call_once(|| {
        server.psql(
            "CREATE TYPE mood AS ENUM ('sad', 'ok', 'so so'); \
             CREATE DOMAIN positive AS numeric(8,3) CHECK (value > 0); \
             CREATE TYPE pair AS (a int, b text); \
             CREATE TYPE nested AS (p pair, l int[], m mood, d positive)",
        );
    });
}

/// Returns a value as the server writes it.
fn shown(array: &ArrayRef, field: &Field, row: usize) -> String {
    if array.is_null(row) {
        return "\\N".into();
    }
    let array = match array.data_type() {
        DataType::Dictionary(_, _) => cast(array, &DataType::LargeUtf8).unwrap(),
        _ => array.clone(),
    };
    let column = Column::new(field.name(), &LogicalType::from_arrow(field).unwrap());
    let style =
        Style { zone: "UTC".parse().unwrap(), intervals: IntervalStyle::Postgres, escapes_bytes: false };
    let cells = Cells::new(&array, &column, style).unwrap();
    let mut out = BytesMut::new();
    cells.text(row, &mut out);
    let text = String::from_utf8(out.to_vec()).unwrap();
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// Returns the rows of a result as COPY writes them in text.
fn rows_of(result: &QueryResult) -> Vec<String> {
    let schema = result.schema();
    let mut rows = Vec::new();
    for batch in result.batches().unwrap() {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().zip(schema.fields());
            let values: Vec<String> = values.map(|(array, field)| shown(array, field, row)).collect();
            rows.push(values.join("\t"));
        }
    }
    rows
}

fn copied(server: &Server, query: &str) -> Vec<String> {
    let text = server.psql(&format!("SET TimeZone = 'UTC'; COPY ({query}) TO STDOUT"));
    text.lines().map(String::from).collect()
}

fn text_of(connection: &Connection, sql: &str) -> Option<String> {
    let result = connection.execute(sql, None).unwrap();
    let batches = result.batches().unwrap();
    let array = cast(batches[0].column(0), &DataType::LargeUtf8).unwrap();
    let array = array.as_string::<i64>();
    (!array.is_null(0)).then(|| array.value(0).to_string())
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn append(
    connection: &Connection,
    table: &str,
    batches: Vec<RecordBatch>,
    options: AppendOptions,
) -> Result<u64> {
    let schema = batches[0].schema();
    connection.append(table, Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)), options)
}

const BY_NAME: AppendOptions = AppendOptions { create: false, by_name: true };
const CREATE: AppendOptions = AppendOptions { create: true, by_name: true };

#[test]
fn random_tables_are_what_psql_says() {
    let Some(server) = server() else { return };
    make_types(server);
    make_random(server, "random_rows", 3000);
    let query = "SELECT * FROM random_rows ORDER BY id";
    let expected = copied(server, query);
    for transfer in ["auto", "rows"] {
        let connection = server.connect(&format!("transfer={transfer}")).unwrap();
        let result = connection.execute(query, None).unwrap();
        let schema = result.schema();
        assert_eq!(schema.field_with_name("inn").unwrap().metadata()[TYPE_KEY], "inet");
        assert_eq!(schema.field_with_name("nu").unwrap().metadata()[TYPE_KEY], "numeric");
        assert!(matches!(schema.field_with_name("n9").unwrap().data_type(), DataType::Decimal32(9, 2)));
        assert!(matches!(schema.field_with_name("e").unwrap().data_type(), DataType::Dictionary(_, _)));
        let rows = rows_of(&result);
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(&expected) {
            let (values, expected): (Vec<&str>, Vec<&str>) =
                (row.split('\t').collect(), expected.split('\t').collect());
            assert_eq!(values.len(), expected.len());
            for ((value, expected), field) in values.iter().zip(&expected).zip(schema.fields()) {
                // The same number has several texts of the shortest length.
                let is_same = match field.data_type() {
                    DataType::Float32 => value.parse::<f32>() == expected.parse(),
                    DataType::Float64 => value.parse::<f64>() == expected.parse(),
                    _ => false,
                };
                assert!(is_same || value == expected, "{} by {transfer}: {value}, {expected}", field.name());
            }
        }
    }
}

#[test]
fn rows_that_are_read_can_be_appended() {
    let Some(server) = server() else { return };
    make_types(server);
    make_random(server, "original", 2000);
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    let connection = server.connect("").unwrap();
    // All columns need text; those with a binary form go in binary.
    let is_binary =
        |name: &str| !["c", "e", "dm", "inn", "ra", "mo", "bi", "tt", "po", "inna", "rc"].contains(&name);
    let binary: Vec<&str> = names.iter().copied().filter(|name| is_binary(name)).collect();
    for columns in [names, binary] {
        let list = columns.join(", ");
        server.psql("DROP TABLE IF EXISTS copy_of; CREATE TABLE copy_of (LIKE original)");
        let result = connection.execute(&format!("SELECT {list} FROM original"), None).unwrap();
        let batches = result.batches().unwrap();
        assert_eq!(append(&connection, "copy_of", batches, BY_NAME).unwrap(), 2000);
        // JSON and points have no equality.
        let shown: Vec<String> = columns.iter().map(|name| format!("{name}::text")).collect();
        let shown = shown.join(", ");
        let difference = format!(
            "SELECT count(*) FROM ((SELECT {shown} FROM original EXCEPT ALL SELECT {shown} FROM copy_of) \
             UNION ALL \
             (SELECT {shown} FROM copy_of EXCEPT ALL SELECT {shown} FROM original)) AS d"
        );
        assert_eq!(server.psql(&difference).trim(), "0", "{list}");
    }
}

#[test]
fn nested_values_keep_their_structure() {
    let Some(server) = server() else { return };
    make_types(server);
    server.psql(
        "CREATE TABLE nests (n nested, m int4[][], a pair[]); \
         INSERT INTO nests VALUES (ROW(ROW(1, 'x'), '{1,NULL}', 'ok', 2.5), '{{1,2},{3,4}}', \
         array[ROW(1, 'a'), NULL]::pair[]), \
         (NULL, '{}', NULL)",
    );
    let connection = server.connect("").unwrap();
    let result = connection.execute("SELECT * FROM nests", None).unwrap();
    let batch = result.next_batch().unwrap().unwrap();
    let nested = batch.column(0).as_struct();
    assert_eq!(nested.column(0).as_struct().column(0).as_primitive::<Int32Type>().value(0), 1);
    assert_eq!(nested.column(1).as_list::<i64>().value_length(0), 2);
    assert!(nested.is_null(1));
    let matrix = batch.column(1).as_list::<i64>();
    assert_eq!(
        matrix.value(0).as_list::<i64>().value(1).as_primitive::<Int32Type>().values().to_vec(),
        [3, 4]
    );
    assert_eq!(matrix.value_length(1), 0);
    let pairs = batch.column(2).as_list::<i64>().value(0);
    assert_eq!((pairs.len(), pairs.is_null(1)), (2, true));
    server.psql("CREATE TABLE nests_again (LIKE nests)");
    assert_eq!(append(&connection, "nests_again", vec![batch.clone()], BY_NAME).unwrap(), 2);
    let difference = "SELECT count(*) FROM (SELECT n::text, m::text, a::text FROM nests EXCEPT ALL \
                      SELECT n::text, m::text, a::text FROM nests_again) AS d";
    assert_eq!(server.psql(difference).trim(), "0");
    // The label came after the type was known.
    server.psql("ALTER TYPE mood ADD VALUE 'new'");
    assert_eq!(text_of(&connection, "SELECT 'new'::mood").as_deref(), Some("new"));
    let error = connection.execute("SELECT 1, '{{1}}'::int4[] AS deep", None).err().unwrap();
    assert!(error.message().contains("column \"deep\""), "{error}");
    assert!(has_extension() || error.message().contains("row 1"), "{error}");
    assert_eq!(text_of(&connection, "SELECT 5").as_deref(), Some("5"));
}

#[test]
fn values_without_an_arrow_form_are_errors_that_name_them() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    for (value, kind, hint) in [
        ("infinity", "date", "nullif"),
        ("-infinity", "timestamptz", "nullif"),
        ("NaN", "numeric(9,2)", "is no DECIMAL(9,2)"),
        ("24:00", "time", "24:00:00"),
        ("294270-01-01", "timestamp", "later"),
    ] {
        let value = format!("(CASE WHEN i = 2 THEN '{value}' END)::{kind}");
        let sql = format!("SELECT {value} AS odd FROM generate_series(1, 3) AS s (i)");
        let error = connection.execute(&sql, None).and_then(|result| result.batches()).unwrap_err();
        let message = error.message();
        assert!(message.contains("column \"odd\""), "{value}: {message}");
        // In columns it is the server that finds the value.
        assert!(has_extension() || message.contains("row 2") && message.contains(hint), "{value}: {message}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let sum = connection.execute("SELECT 'NaN'::numeric, 'Infinity'::numeric, 1e400::numeric", None).unwrap();
    assert!(rows_of(&sum)[0].starts_with("NaN\tInfinity\t1000"));
    let doubles = server.connect("numeric=double").unwrap();
    let result = doubles.execute("SELECT 0.1::numeric", None).unwrap();
    assert_eq!(result.schema().field(0).data_type(), &DataType::Float64);
    let decimals = server.connect("numeric=decimal(20,4)").unwrap();
    assert_eq!(rows_of(&decimals.execute("SELECT 1.5::numeric", None).unwrap()), ["1.5000"]);
    assert!(decimals.execute("SELECT 1.23456::numeric", None).is_err());
}

#[test]
fn large_results_come_in_batches() {
    let Some(server) = server() else { return };
    for parameters in ["", "transfer=rows"] {
        let connection = server.connect(parameters).unwrap();
        let sql = "SELECT i, repeat('x', 100) FROM generate_series(1, 300000) AS s (i)";
        let result = connection.execute(sql, None).unwrap();
        let (mut rows, mut batches, mut sum) = (0, 0, 0);
        while let Some(batch) = result.next_batch().unwrap() {
            assert!(batch.num_rows() <= 65_536);
            sum += batch
                .column(0)
                .as_primitive::<Int32Type>()
                .values()
                .iter()
                .map(|i| i64::from(*i))
                .sum::<i64>();
            (rows, batches) = (rows + batch.num_rows(), batches + 1);
        }
        assert_eq!((rows, sum), (300_000, 300_000 * 300_001 / 2));
        assert!(batches > 3);
        let progress = connection.progress().unwrap();
        assert_eq!((progress.rows_done, progress.is_running), (300_000, false));
    }
}

#[test]
fn odd_queries_have_their_rows() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    connection.execute("CREATE TEMP TABLE odd (a int, i inet)", None).unwrap();
    for (sql, rows) in [
        ("SELECT 1 AS a, 2 AS a -- comment", vec!["1\t2"]),
        ("(VALUES (1), (NULL))", vec!["1", "\\N"]),
        ("INSERT INTO odd VALUES (1, '10.0.0.1') RETURNING i, a", vec!["10.0.0.1\t1"]),
        ("WITH w AS (INSERT INTO odd VALUES (2, NULL) RETURNING *) SELECT i, a FROM w", vec!["\\N\t2"]),
        ("TABLE odd", vec!["1\t10.0.0.1", "2\t\\N"]),
        ("UPDATE odd SET a = 3 WHERE a = 2 RETURNING a", vec!["3"]),
        ("SELECT a FROM odd ORDER BY a FOR UPDATE", vec!["1", "3"]),
        ("SELECT ROW(1, 'x')", vec!["(1,x)"]),
        ("SELECT pg_sleep(0)", vec![""]),
        ("SHOW server_encoding", vec!["UTF8"]),
        ("SELECT $$a;b$$; SELECT ';'", vec![";"]),
        ("EXPLAIN (COSTS OFF) SELECT 1", vec!["Result"]),
        ("DELETE FROM odd RETURNING a", vec!["1", "3"]),
    ] {
        assert_eq!(rows_of(&connection.execute(sql, None).unwrap()), rows, "{sql}");
    }
    let nothing = connection.execute("SELECT FROM generate_series(1, 3)", None).unwrap();
    assert_eq!(nothing.batches().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    let done =
        connection.execute("INSERT INTO odd SELECT i FROM generate_series(1, 7) AS s (i)", None).unwrap();
    assert_eq!((done.rows_affected(), done.is_query()), (Some(7), false));
    assert!(connection.execute("", None).unwrap().batches().unwrap().is_empty());
    for refused in ["COPY odd TO STDOUT", "COPY odd FROM STDIN"] {
        assert!(connection.execute(refused, None).is_err());
        assert_eq!(text_of(&connection, "SELECT count(*) FROM odd").as_deref(), Some("7"));
    }
}

#[test]
fn errors_say_what_the_server_says() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let fail = |sql: &str| connection.execute(sql, None).and_then(|result| result.batches()).unwrap_err();
    let error = fail("SELECT 1;\nSELECT é, nosuch FROM (SELECT 1 AS é) AS q");
    assert_eq!(
        (error.kind(), error.sqlstate(), error.position()),
        (ErrorKind::UnknownName, "42703", Some(21))
    );
    let error = fail("SELECT relnam FROM pg_class");
    assert!(error.message().contains("Hint: Perhaps you meant"), "{error}");
    let error = fail("SELECT 1 / (2 - i) FROM generate_series(1, 3) AS s (i)");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::InvalidInput, "22012"));
    let error = fail("SELEC 1");
    assert_eq!((error.kind(), error.position()), (ErrorKind::Syntax, Some(1)));
    connection
        .execute(
            "CREATE TEMP TABLE unique_rows (a int PRIMARY KEY); INSERT INTO unique_rows VALUES (1)",
            None,
        )
        .unwrap();
    let error = fail("INSERT INTO unique_rows VALUES (1)");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23505"));
    assert_eq!(error.detail(), Some("Key (a)=(1) already exists."));
    assert_eq!(connection.failure().unwrap().constraint.as_deref(), Some("unique_rows_pkey"));
    connection.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$", None).unwrap();
    assert_eq!(connection.take_notices()[0].message, "hello");
    // The rows before the error were good, but the result is not.
    let result = connection
        .execute("SELECT 1 / (2000000 - i) FROM generate_series(1, 3000000) AS s (i)", None)
        .unwrap();
    assert_eq!(result.batches().unwrap_err().sqlstate(), "22012");
    assert_eq!(result.next_batch().unwrap_err().sqlstate(), "22012");
}

#[test]
fn transactions_have_their_state() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    assert_eq!(connection.transaction(), Transaction::None);
    connection.execute("BEGIN", None).unwrap();
    assert_eq!(connection.transaction(), Transaction::Open);
    assert_eq!(text_of(&connection, "SELECT 1").as_deref(), Some("1"));
    assert!(connection.execute("SELECT nosuch", None).is_err());
    assert_eq!(connection.transaction(), Transaction::Failed);
    let error = connection.execute("SELECT 1", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TransactionState);
    connection.execute("ROLLBACK", None).unwrap();
    // A result that is dropped inside a transaction does not abort it.
    connection.execute("BEGIN; CREATE TEMP TABLE kept (a int)", None).unwrap();
    drop(connection.execute("SELECT repeat('x', 1000) FROM generate_series(1, 20000)", None).unwrap());
    connection.execute("COMMIT", None).unwrap();
    assert_eq!(text_of(&connection, "SELECT count(*) FROM kept").as_deref(), Some("0"));
    // The rest of one result is kept while the next statement runs.
    let first = connection.execute("SELECT * FROM generate_series(1, 200000)", None).unwrap();
    assert_eq!(text_of(&connection, "SELECT 2").as_deref(), Some("2"));
    assert_eq!(first.batches().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 200_000);
}

#[test]
fn rows_that_are_written_and_given_are_counted() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let made = "CREATE TEMP TABLE counted (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); CREATE TEMP TABLE more (a int)";
    connection.execute(made, None).unwrap();
    let written = |sql: &str| {
        let result = connection.execute(sql, None).unwrap();
        (result.rows_affected(), rows_of(&result).len(), result.rows_affected())
    };
    assert_eq!(
        written("INSERT INTO counted SELECT generate_series(1, 3) RETURNING a"),
        (Some(3), 3, Some(3))
    );
    assert_eq!(written("UPDATE counted SET a = a + 10 WHERE a > 1 RETURNING a"), (Some(2), 2, Some(2)));
    assert_eq!(written("DELETE FROM counted WHERE a > 99 RETURNING a"), (Some(0), 0, Some(0)));
    assert_eq!(written("SELECT a FROM counted"), (None, 3, None));
    // Of many rows the number is known behind them.
    let many = "INSERT INTO more SELECT generate_series(1, 400000) RETURNING a";
    assert_eq!(written(many), (None, 400_000, Some(400_000)));
    // What is found at the end of the transaction is an error of the statement.
    let error = connection.execute("INSERT INTO counted VALUES (1) RETURNING a", None).err().unwrap();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23505"));
    assert_eq!(text_of(&connection, "SELECT count(*) FROM counted").as_deref(), Some("3"));
}

#[test]
fn parameters_have_the_types_of_the_statement() {
    let Some(server) = server() else { return };
    make_types(server);
    let connection = server.connect("").unwrap();
    let with = |sql: &str, columns: Vec<ArrayRef>| {
        let names: Vec<String> = (0..columns.len()).map(|index| index.to_string()).collect();
        let row = batch(names.iter().map(String::as_str).zip(columns).collect());
        connection.execute(sql, Some(&row)).map(|result| rows_of(&result))
    };
    let int = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let text = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let null = || make_array(arrow_array::NullArray::new(1).into_data());
    assert_eq!(with("SELECT $1 + 1, $2::text", vec![int(41), text("é")]).unwrap(), ["42\té"]);
    assert_eq!(with("SELECT substr('hello', $1)", vec![int(3)]).unwrap(), ["llo"]);
    assert_eq!(
        with("SELECT $1::inet, $2::mood", vec![text("10.0.0.1"), text("ok")]).unwrap(),
        ["10.0.0.1\tok"]
    );
    assert_eq!(with("SELECT $1::jsonb ->> 'a'", vec![text("{\"a\": 5}")]).unwrap(), ["5"]);
    assert_eq!(with("SELECT $1::numeric", vec![text("1.50")]).unwrap(), ["1.50"]);
    assert_eq!(with("SELECT $1::int IS NULL", vec![null()]).unwrap(), ["t"]);
    assert_eq!(with("SELECT $1::date - date '2000-01-01'", vec![text("2000-03-01")]).unwrap(), ["60"]);
    let float = Arc::new(Float64Array::from(vec![0.1])) as ArrayRef;
    assert_eq!(with("SELECT $1", vec![float]).unwrap(), ["0.1"]);
    let list = arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
    assert_eq!(with("SELECT $1::int4[]", vec![Arc::new(list)]).unwrap(), ["{1,NULL}"]);
    assert!(with("SELECT $1, $2", vec![int(1)]).is_err());
    assert!(connection.execute("SELECT $1::int", None).is_err());
    assert_eq!(with("INSERT INTO pg_temp.nosuch VALUES ($1)", vec![int(1)]).unwrap_err().sqlstate(), "42P01");
}

#[test]
fn types_of_parameters_are_found_within_transactions_too() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let run = |sql: &str| connection.execute(sql, None).unwrap();
    let with = |sql: &str, value: ArrayRef| {
        connection.execute(sql, Some(&batch(vec![("0", value)]))).map(|result| rows_of(&result))
    };
    let int = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    run("CREATE TEMP TABLE kept (t text)");
    run("CREATE FUNCTION pg_temp.of_int(int) RETURNS text LANGUAGE sql AS $$ SELECT 'int ' || $1 $$");
    run("CREATE FUNCTION pg_temp.of_ints(int[]) RETURNS int LANGUAGE sql AS $$ SELECT cardinality($1) $$");
    let list = arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
    let list: ArrayRef = Arc::new(list);
    for begin in [None, Some("BEGIN"), Some("BEGIN ISOLATION LEVEL SERIALIZABLE")] {
        if let Some(begin) = begin {
            run(begin);
        }
        run("TRUNCATE kept");
        run("INSERT INTO kept VALUES ('5'), ('6')");
        for (sql, value, expected) in [
            ("SELECT pg_temp.of_int($1)", int(7), "int 7"),
            ("SELECT pg_temp.of_ints($1)", list.clone(), "2"),
            // As with a constant: neither a pattern nor a key, which a text would be.
            ("SELECT substring('2hello', $1)", int(2), "hello"),
            ("SELECT '[10, 20]'::jsonb -> $1", int(1), "20"),
            ("SELECT count(*) FROM kept WHERE t = $1", int(5), "1"),
            ("SELECT pg_typeof($1)::text", int(5), "bigint"),
            ("SELECT $1 * 1000000000", int(1_000_000), "1000000000000000"),
        ] {
            for _again in 0..2 {
                assert_eq!(with(sql, value.clone()).unwrap(), [expected], "{begin:?} {sql}");
            }
        }
        let state = if begin.is_some() { Transaction::Open } else { Transaction::None };
        assert_eq!(connection.transaction(), state);
        assert_eq!(text_of(&connection, "SELECT count(*)::text FROM kept").as_deref(), Some("2"));
        let error = with("SELECT pg_temp.of_nothing($1)", int(7)).unwrap_err();
        assert_eq!(error.sqlstate(), "42883");
        assert!(error.message().contains("bigint"), "{error}");
        if begin.is_some() {
            assert_eq!(connection.transaction(), Transaction::Failed);
            run("ROLLBACK");
            assert_eq!(text_of(&connection, "SELECT count(*)::text FROM kept").as_deref(), Some("2"));
        }
    }
}

#[test]
fn interrupts_end_statements_and_leave_the_session() {
    let Some(server) = server() else { return };
    for parameters in ["", "transfer=rows"] {
        let connection = server.connect(parameters).unwrap();
        let other = connection.clone();
        let interrupter = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            other.interrupt();
        });
        let begin = Instant::now();
        let error = connection.execute("SELECT pg_sleep(60)", None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert!(begin.elapsed() < Duration::from_secs(20));
        interrupter.join().unwrap();
        assert_eq!(text_of(&connection, "SELECT 1").as_deref(), Some("1"));
        // A server that is sending rows does not look for a cancel: they are read.
        let rows =
            connection.execute("SELECT repeat('x', 1000) FROM generate_series(1, 10000000)", None).unwrap();
        rows.next_batch().unwrap().unwrap();
        connection.interrupt();
        let error = loop {
            match rows.next_batch() {
                Ok(batch) => assert!(batch.is_some()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert_eq!(text_of(&connection, "SELECT 1").as_deref(), Some("1"));
    }
}

#[test]
fn the_hook_is_asked_and_can_interrupt() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    connection.set_hook(Some(Arc::new(move |progress| {
        assert!(progress.is_running);
        counted.fetch_add(1, Ordering::Relaxed) < 3
    })));
    let error = connection.execute("SELECT pg_sleep(60)", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(calls.load(Ordering::Relaxed) > 3);
    connection.set_hook(None);
    assert_eq!(text_of(&connection, "SELECT 1").as_deref(), Some("1"));
    // The server's own limit is no interrupt of ours, but has the same code.
    connection.execute("SET statement_timeout = 100", None).unwrap();
    let error = connection.execute("SELECT pg_sleep(60)", None).err().unwrap();
    assert!(error.message().contains("statement timeout") && error.sqlstate() == "57014", "{error}");
}

#[test]
fn appends_are_whole_or_nothing() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let rows = |from: i64, to: i64| {
        let numbers = Int64Array::from_iter_values(from..to);
        let names = LargeStringArray::from_iter_values((from..to).map(|number| format!("n{number}")));
        batch(vec![("a", Arc::new(numbers) as ArrayRef), ("Name", Arc::new(names))])
    };
    assert_eq!(append(&connection, "new_rows", vec![rows(0, 10)], BY_NAME).unwrap_err().sqlstate(), "42P01");
    assert_eq!(
        append(&connection, "new_rows", vec![rows(0, 50_000), rows(50_000, 50_001)], CREATE).unwrap(),
        50_001
    );
    let sum = "SELECT sum(a), count(DISTINCT \"Name\") FROM new_rows";
    assert_eq!(server.psql(sum).trim(), "1250025000|50001");
    // Narrower columns take what fits.
    server.psql(
        "CREATE TABLE narrow (\"Name\" varchar(5) NOT NULL, a int2 CHECK (a <> 7), \
         g int GENERATED ALWAYS AS (a + 1) STORED)",
    );
    assert_eq!(append(&connection, "narrow", vec![rows(0, 5)], BY_NAME).unwrap(), 5);
    let error = append(&connection, "narrow", vec![rows(10, 20), rows(32_760, 32_770)], BY_NAME).unwrap_err();
    assert!(error.message().contains("row 19") && error.message().contains("\"a\""), "{error}");
    let error = append(&connection, "narrow", vec![rows(0, 20)], BY_NAME).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Constraint);
    assert!(error.message().contains("row 8"), "{error}");
    let error = append(&connection, "narrow", vec![rows(9_990, 10_010)], BY_NAME).unwrap_err();
    assert!(error.message().contains("row 11, column \"Name\""), "{error}");
    let nothing = batch(vec![("nam", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let error = append(&connection, "narrow", vec![nothing], BY_NAME).unwrap_err();
    assert_eq!(error.sqlstate(), "42703");
    assert_eq!(server.psql("SELECT count(*), sum(g) FROM narrow").trim(), "5|15");
    // A table that cannot be filled is not created.
    let wrong = RecordBatchIterator::new(
        [Ok(rows(0, 1)), Err(arrow_schema::ArrowError::ComputeError("no more".into()))],
        rows(0, 1).schema(),
    );
    assert!(connection.append("unmade", Box::new(wrong), CREATE).unwrap_err().message().contains("no more"));
    assert_eq!(server.psql("SELECT to_regclass('unmade') IS NULL").trim(), "t");
    assert_eq!(connection.transaction(), Transaction::None);
    // By position, and inside a transaction.
    let by_position = AppendOptions { create: false, by_name: false };
    connection.execute("CREATE TEMP TABLE positions (x int8, y text); BEGIN", None).unwrap();
    assert_eq!(append(&connection, "positions", vec![rows(0, 3)], by_position).unwrap(), 3);
    connection.execute("ROLLBACK", None).unwrap();
    assert_eq!(text_of(&connection, "SELECT count(*) FROM positions").as_deref(), Some("0"));
    let odd = append(&connection, "no such \" table", vec![rows(0, 1)], CREATE);
    assert!(odd.is_err());
    assert_eq!(text_of(&connection, "SELECT 1").as_deref(), Some("1"));
}

#[test]
fn an_append_is_interrupted_as_a_whole() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    connection.execute("CREATE TEMP TABLE endless (a int8)", None).unwrap();
    let numbers = batch(vec![("a", Arc::new(Int64Array::from_iter_values(0..1000)) as ArrayRef)]);
    let schema = numbers.schema();
    let begin = Instant::now();
    connection.set_hook(Some(Arc::new(move |_| begin.elapsed() < Duration::from_millis(300))));
    let rows = std::iter::repeat_with(move || Ok(numbers.clone()));
    let endless = Box::new(RecordBatchIterator::new(rows, schema));
    let error = connection.append("endless", endless, BY_NAME).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    connection.set_hook(None);
    assert_eq!(text_of(&connection, "SELECT count(*) FROM endless").as_deref(), Some("0"));
}

#[test]
fn numbers_of_other_kinds_are_appended_exactly() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    connection.execute("CREATE TEMP TABLE amounts (n numeric, m numeric(9,2), d float8)", None).unwrap();
    let floats = Arc::new(Float64Array::from(vec![1.5, 1e20, -1e-7])) as ArrayRef;
    let rows = batch(vec![("n", floats.clone()), ("d", floats)]);
    append(&connection, "amounts", vec![rows], BY_NAME).unwrap();
    let texts = batch(vec![("m", Arc::new(StringArray::from(vec!["12.345", "NaN"])) as ArrayRef)]);
    append(&connection, "amounts", vec![texts], BY_NAME).unwrap();
    let shown = "SELECT string_agg(coalesce(n, m)::text, ' ') FROM amounts";
    let expected = "1.5 100000000000000000000 -0.0000001 12.35 NaN";
    assert_eq!(text_of(&connection, shown).as_deref(), Some(expected));
}

#[test]
fn long_values_and_many_columns_come_whole() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    let result = connection.execute("SELECT repeat('é', 20000000), 1", None).unwrap();
    let rows = result.next_batch().unwrap().unwrap();
    assert_eq!(rows.column(0).as_string::<i64>().value(0).len(), 40_000_000);
    let columns: Vec<String> = (0..1600).map(|number| format!("{number} AS c{number}")).collect();
    let result = connection.execute(&format!("SELECT {}", columns.join(", ")), None).unwrap();
    assert_eq!(result.next_batch().unwrap().unwrap().num_columns(), 1600);
    // A database may have bytes that are no text.
    server.psql("CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let bytes = server.connect("dbname=bytes").unwrap();
    let error = bytes.execute("SELECT convert_from('\\xff', 'SQL_ASCII') AS odd", None);
    let error = error.and_then(|result| result.batches()).unwrap_err();
    assert_eq!(error.sqlstate(), "22021", "{error}");
    assert_eq!(text_of(&bytes, "SELECT 'plain'").as_deref(), Some("plain"));
}

#[test]
fn statements_and_tables_are_described() {
    let Some(server) = server() else { return };
    make_types(server);
    server.psql(
        "CREATE SCHEMA shop; CREATE TABLE shop.items (a int8 NOT NULL, n numeric(9,2), e mood); \
         CREATE VIEW shop.v AS SELECT a FROM shop.items",
    );
    let connection = server.connect("").unwrap();
    let described = connection.describe("SELECT a, $1::text AS t FROM shop.items WHERE n > $2").unwrap();
    assert_eq!(described.gives, Gives::Rows);
    let types: Vec<DataType> = described.parameters.fields().iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [DataType::LargeUtf8, DataType::LargeUtf8]);
    assert_eq!(described.columns.field(1).name(), "t");
    assert_eq!(connection.describe("CREATE TABLE never (a int)").unwrap().gives, Gives::Nothing);
    assert_eq!(connection.describe("SELECT nosuch").unwrap_err().position(), Some(8));
    let tables = connection.tables().unwrap();
    let items = tables.iter().find(|table| table.schema == "shop" && table.name == "items").unwrap();
    assert!(!items.is_view && items.rows.is_none());
    assert!(!items.columns.field(0).is_nullable() && items.columns.field(1).is_nullable());
    assert!(matches!(items.columns.field(1).data_type(), DataType::Decimal32(9, 2)));
    assert!(tables.iter().find(|table| table.name == "v").unwrap().is_view);
    assert!(tables.iter().all(|table| table.schema != "pg_catalog"));
    server.psql("INSERT INTO shop.items VALUES (1, 2.5, 'ok')");
    assert_eq!(rows_of(&connection.table("shop.items").unwrap()), ["1\t2.50\tok"]);
    assert_eq!(connection.table("shop.nosuch").err().unwrap().kind(), ErrorKind::UnknownName);
}

#[test]
fn logins_prove_who_both_sides_are() {
    let Some(server) = server() else { return };
    let no_tls = "sslmode=disable";
    for (user, password) in [("scram_user", "'p,=é'"), ("md5_user", "five")] {
        let connection = server.connect_tcp(user, &format!("password={password} {no_tls}")).unwrap();
        assert_eq!(text_of(&connection, "SELECT current_user").as_deref(), Some(user));
        let error = server.connect_tcp(user, &format!("password=wrong {no_tls}")).err().unwrap();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Denied, "28P01"), "{error}");
        let error = server.connect_tcp(user, no_tls).err().unwrap();
        assert!(error.message().contains("PGPASSWORD"), "{error}");
    }
    let error = server.connect_tcp("clear_user", &format!("password=clear {no_tls}")).err().unwrap();
    assert!(error.message().contains("clear text"), "{error}");
    server.connect_tcp("clear_user", &format!("password=clear {no_tls} require_auth=password")).unwrap();
    let error = server.connect_tcp("md5_user", &format!("password=five {no_tls} require_auth=scram-sha-256"));
    assert!(error.err().unwrap().message().contains("require_auth"));
    assert!(server.connect_tcp("tester", &format!("{no_tls} require_auth=scram-sha-256")).is_err());
    server.connect_tcp("tester", &format!("{no_tls} require_auth=none")).unwrap();
    let bound = format!("password='p,=é' {no_tls} channel_binding=require");
    assert!(server.connect_tcp("scram_user", &bound).err().unwrap().message().contains("channel_binding"));
    let error = server.connect("dbname=nosuch").err().unwrap();
    assert_eq!(error.sqlstate(), "3D000");
}

#[test]
fn tls_is_checked_as_the_mode_says() {
    let Some(server) = server() else { return };
    if !server.has_tls {
        eprintln!("skipped: the server has no TLS, or there is no openssl to make certificates");
        return;
    }
    let (own, other) = (server.directory.join("server.crt"), server.directory.join("other.crt"));
    let (own, other) = (format!("sslrootcert={}", own.display()), format!("sslrootcert={}", other.display()));
    let has_tls = |connection: &Connection| {
        text_of(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").as_deref()
            == Some("true")
    };
    for parameters in ["", "sslmode=prefer", "sslmode=require", "sslmode=allow"] {
        let connection = server.connect_tcp("tls_user", parameters).unwrap();
        assert!(has_tls(&connection), "{parameters}");
    }
    assert!(server.connect_tcp("tls_user", "sslmode=disable").is_err());
    assert!(!has_tls(&server.connect_tcp("tester", "sslmode=allow").unwrap()));
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(has_tls(&server.connect_tcp("tester", &format!("sslmode={mode} {own}")).unwrap()), "{mode}");
        let error = server.connect_tcp("tester", &format!("sslmode={mode} {other}")).err().unwrap();
        assert!(error.message().contains("sslrootcert"), "{mode}: {error}");
    }
    let address = format!("host=127.0.0.1 port={} user=tester dbname=postgres {own}", server.port);
    server.connect_to(&format!("{address} sslmode=verify-ca")).unwrap();
    let error = server.connect_to(&format!("{address} sslmode=verify-full")).err().unwrap();
    assert!(error.message().contains("subject alternative name"), "{error}");
    // SCRAM is bound to the certificate, a statement is cancelled inside TLS, and much is sent.
    let parameters = format!("password='p,=é' channel_binding=require sslmode=verify-full {own}");
    let connection = server.connect_tcp("scram_user", &parameters).unwrap();
    let canceller = connection.clone();
    let interrupter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        canceller.interrupt();
    });
    let error = connection.execute("SELECT pg_sleep(60)", None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    interrupter.join().unwrap();
    let numbers = batch(vec![("a", Arc::new(Int64Array::from_iter_values(0..200_000)) as ArrayRef)]);
    connection.execute("CREATE TEMP TABLE many (a int8)", None).unwrap();
    assert_eq!(append(&connection, "many", vec![numbers], BY_NAME).unwrap(), 200_000);
    assert_eq!(text_of(&connection, "SELECT sum(a) FROM many").as_deref(), Some("19999900000"));
}

#[test]
fn the_first_host_that_fits_is_taken() {
    let Some(server) = server() else { return };
    let directory = server.directory.display();
    let address = |attributes: &str| {
        format!("host=/nosuch,{directory} port=1,{} user=tester dbname=postgres {attributes}", server.port)
    };
    for attributes in [
        "",
        "target_session_attrs=read-write",
        "target_session_attrs=primary",
        "target_session_attrs=prefer-standby",
    ] {
        server.connect_to(&address(attributes)).unwrap();
    }
    for attributes in ["target_session_attrs=standby", "target_session_attrs=read-only"] {
        let error = server.connect_to(&address(attributes)).err().unwrap();
        assert!(
            error.message().contains("/nosuch") && error.message().contains("target_session_attrs"),
            "{error}"
        );
    }
    let tcp = format!("host=127.0.0.1,{directory} port={} dbname=postgres sslmode=disable", server.port);
    let error = server.connect_to(&format!("{tcp} user=scram_user password=wrong")).err().unwrap();
    assert_eq!(error.sqlstate(), "28P01");
    let read_only = "options='-c default_transaction_read_only=on'";
    server.connect_to(&address(&format!("target_session_attrs=read-only {read_only}"))).unwrap();
    assert!(server.connect_to(&address(&format!("target_session_attrs=read-write {read_only}"))).is_err());
    let connection = server.connect("application_name=mine options='-c work_mem=5MB'").unwrap();
    assert_eq!(text_of(&connection, "SHOW application_name").as_deref(), Some("mine"));
    assert_eq!(text_of(&connection, "SHOW work_mem").as_deref(), Some("5MB"));
    assert!(connection.server().starts_with("PostgreSQL "));
}

#[test]
fn a_session_that_the_server_ends_is_of_no_use() {
    let Some(server) = server() else { return };
    let connection = server.connect("").unwrap();
    server.psql(&format!("SELECT pg_terminate_backend({})", connection.session()));
    let error = connection.execute("SELECT 1", None).err().unwrap();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "57P01"), "{error}");
    let error = connection.execute("SELECT 1", None).err().unwrap();
    assert!(error.message().contains("connect again"), "{error}");
    let again = connection.duplicate().unwrap();
    assert_eq!(text_of(&again, "SELECT 1").as_deref(), Some("1"));
    again.close();
    assert_eq!(again.execute("SELECT 1", None).err().unwrap().kind(), ErrorKind::Closed);
}
