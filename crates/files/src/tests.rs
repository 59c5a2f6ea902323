//! Files through SQL and COPY: every option, format, compression and error message.

use crate::test_arguments::register;
use crate::test_directory::TestDirectory;
use crate::*;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use hypostyle_types::Privileges;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::sync::Arc;

pub fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(3);
    let config = config.with_extension(Arc::new(Privileges::ALL));
    let context = SessionContext::new_with_config(config);
    register(&context);
    context
}

/// Returns rows as text: values joined by `|`, rows by a blank.
pub fn rows(batches: &[RecordBatch]) -> String {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_string(),
                false => array_value_to_string(column, row).unwrap(),
            });
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows.join(" ")
}

pub fn types(batches: &[RecordBatch]) -> String {
    let schema = batches[0].schema();
    let fields = schema.fields().iter();
    fields.map(|field| LogicalType::from_arrow(field).unwrap().to_string()).collect::<Vec<_>>().join(" ")
}

pub async fn query(sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = session().sql(sql).await.map_err(|error| message(&error))?;
    frame.collect().await.map_err(|error| message(&error))
}

/// Returns the message of our own error inside DataFusion's.
pub fn message(error: &datafusion::error::DataFusionError) -> String {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return ours.message().to_string();
        }
        source = inner.source();
    }
    error.to_string()
}

pub async fn select(sql: &str) -> String {
    rows(&query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

pub async fn failure(sql: &str) -> String {
    query(sql).await.expect_err(sql)
}

#[tokio::test]
async fn comments_and_short_rows_are_read_where_they_are_asked_for() {
    let directory = TestDirectory::new("short");
    let file = directory.write("a.csv", "# \"a\n# of 3\na,b,c\n1,2,3\n# more\n4\n5,6\n");
    let sql = format!("SELECT * FROM read_csv('{file}', comment => '#', null_padding => true)");
    assert_eq!(select(&sql).await, "1|2|3 4|NULL|NULL 5|6|NULL");
    let error = failure(&format!("SELECT * FROM read_csv('{file}', comment => '#')")).await;
    assert!(error.contains("line 6 has 1 field, expected 3"), "{error}");
    let file = directory.write("b.csv", "a,b\n1,2\n3,4,5\n");
    let sql = format!("SELECT a, column2 FROM read_csv('{file}', null_padding => true)");
    assert_eq!(select(&sql).await, "1|NULL 3|5");
    let error = failure(&format!("SELECT * FROM read_csv('{file}')")).await;
    assert!(error.contains("line 3 has 3 fields, expected 2"), "{error}");
    let file = directory.write("c.csv", "a,b # names\n1,x # one\n2,\"#\"# two\n");
    let sql = format!("SELECT * FROM read_csv('{file}', comment => '#')");
    assert_eq!(select(&sql).await, "1|x 2|#");
    let file = directory.write("d.csv", "a,b\n1,2 # q\n3,4\t# r\n");
    let sql = format!("SELECT sum(b) FROM read_csv('{file}', comment => '#')");
    assert_eq!(select(&sql).await, "6");
}

#[tokio::test]
async fn notes_before_the_header_and_single_quotes_are_found() {
    let directory = TestDirectory::new("notes");
    for notes in ["# x, y\n", "# a\n\n# b\n", "# one\n# two, three\n", "# one, two\n# three\n", "#\r\n\r\n"] {
        let file = directory.write("a.csv", format!("{notes}a,b\n1,2\n"));
        assert_eq!(select(&format!("SELECT a + b FROM read_csv('{file}')")).await, "3", "{notes:?}");
    }
    // A header may begin with the same character.
    let file = directory.write("b.csv", "#id,n\nx,1\n2,3\n");
    assert_eq!(select(&format!("SELECT \"#id\", n FROM read_csv('{file}')")).await, "x|1 2|3");
    let file = directory.write("c.csv", "a;b\n'x;y';2\n");
    assert_eq!(select(&format!("SELECT a, b FROM read_csv('{file}')")).await, "x;y|2");
    let file = directory.write("d.csv", "a\n'tis\nx;y\n");
    assert_eq!(select(&format!("SELECT a FROM read_csv('{file}')")).await, "'tis x;y");
}

#[tokio::test]
async fn csv_options_are_obeyed() {
    let directory = TestDirectory::new("options");
    let plain = directory.write("a.csv", "id,name\n1,Ann\n2,\"B, \"\"b\"\"\"\n3,\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{plain}')")).await, "1|Ann 2|B, \"b\" 3|NULL");
    assert_eq!(
        select(&format!("SELECT * FROM read_csv('{plain}', header => false)")).await,
        "id|name 1|Ann 2|B, \"b\" 3|NULL"
    );
    assert_eq!(
        select(&format!(
            "SELECT name FROM read_csv('{plain}', skip = 1, names => ['a', 'name']) WHERE a > 1"
        ))
        .await,
        "B, \"b\" NULL"
    );
    // Names of the query do not make a row of the file's own ones.
    assert_eq!(select(&format!("SELECT p FROM read_csv('{plain}', names => ['p', 'q'])")).await, "1 2 3");
    assert_eq!(
        select(&format!("SELECT p FROM read_csv('{plain}', names => ['p', 'q'], header => false)")).await,
        "id 1 2 3"
    );
    let other = directory.write("b.txt", "# made by hand\nid|when|note\n007|2024-01-01|'a|\\'b'\nNA|NA|NA\n");
    let sql = format!(
        "SELECT * FROM read_csv('{other}', sep => '|', quote => '''', escape => '\\', nullstr => ['NA', '-'], skip => 1)"
    );
    assert_eq!(select(&sql).await, "007|2024-01-01|a|'b NULL|NULL|NULL");
    assert_eq!(types(&query(&sql).await.unwrap()), "VARCHAR DATE VARCHAR");
    let sql = format!("SELECT * FROM read_csv('{plain}', all_varchar => true)");
    assert_eq!(types(&query(&sql).await.unwrap()), "VARCHAR VARCHAR");
    let sql = format!("SELECT * FROM read_csv('{plain}', types => {{'id': 'DECIMAL(9,2)'}})");
    assert_eq!(types(&query(&sql).await.unwrap()), "DECIMAL(9,2) VARCHAR");
    let sql = format!(
        "SELECT * FROM read_csv('{plain}', columns => {{'k': 'INTEGER', 'v': 'VARCHAR'}}, header => true)"
    );
    assert_eq!(types(&query(&sql).await.unwrap()), "INTEGER VARCHAR");
    assert_eq!(select(&format!("SELECT count(*) FROM read_csv_auto('{plain}')")).await, "3");
    let raw = directory.write("c.tsv", "a\tb\n\"x\t2\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{raw}', quote => '')")).await, "\"x|2");
}

#[tokio::test]
async fn detected_types_are_the_documented_ones() {
    let directory = TestDirectory::new("types");
    let path = directory.write(
        "a.csv",
        "b,i,f,d,t,z,c,s\ntrue,1,1.5,2024-01-01,2024-01-01 10:00:00.5,2024-01-01T10:00:00+02:00,10:11:12,x\n",
    );
    let batches = query(&format!("SELECT * FROM '{path}'")).await;
    // Without the engine's catalog a path is no table. The catalog would resolve it to the
    // function.
    assert!(batches.is_err());
    let batches = query(&format!("SELECT * FROM read_csv('{path}')")).await.unwrap();
    assert_eq!(types(&batches), "BOOLEAN BIGINT DOUBLE DATE TIMESTAMP TIMESTAMP WITH TIME ZONE TIME VARCHAR");
    assert_eq!(
        rows(&batches),
        "true|1|1.5|2024-01-01|2024-01-01T10:00:00.500|2024-01-01T08:00:00Z|10:11:12|x"
    );
}

#[tokio::test]
async fn globs_lists_and_compression_are_read() {
    let directory = TestDirectory::new("many");
    for number in 1..=3 {
        directory.write(&format!("part/{number}.csv"), format!("n\n{number}\n"));
    }
    let glob = directory.path("part/*.csv");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{glob}')")).await, "1 2 3");
    let (one, three) = (directory.path("part/1.csv"), directory.path("part/3.csv"));
    assert_eq!(select(&format!("SELECT * FROM read_csv(['{three}', '{one}'])")).await, "3 1");
    directory.write("part/4.csv", "m\n4\n");
    let error = failure(&format!("SELECT * FROM read_csv('{glob}')")).await;
    assert!(error.ends_with("4.csv: the header is (m), but that of the first file is (n)"), "{error}");

    for suffix in ["gz", "zst", "bz2", "xz"] {
        for format in ["csv", "json"] {
            let path = directory.path(&format!("x.{format}.{suffix}"));
            export("SELECT 1 AS a, 'é' AS b", &path, &[]).await.unwrap();
            let function = format!("read_{format}");
            assert_eq!(select(&format!("SELECT * FROM {function}('{path}')")).await, "1|é", "{path}");
        }
    }
    let renamed = directory.path("renamed.csv");
    std::fs::rename(directory.path("x.csv.gz"), &renamed).unwrap();
    assert_eq!(select(&format!("SELECT a FROM read_csv('{renamed}', compression => 'gzip')")).await, "1");
    let wrong = directory.write("wrong.csv.gz", "a\n1\n");
    assert!(
        failure(&format!("SELECT * FROM read_csv('{wrong}')")).await.contains("damaged or not compressed")
    );
}

#[tokio::test]
async fn decimals_of_files_are_those_of_casts() {
    let directory = TestDirectory::new("decimals");
    let json_of = |number: &str| format!("{{\"a\": {number}}}\n{{\"a\": \"{number}\"}}\n{{\"a\": 1}}\n");
    for (number, read) in [("1e3", "1000.00"), ("-2.345", "-2.35"), ("0.5E1", "5.00"), ("7", "7.00")] {
        let csv = directory.write("a.csv", format!("a,b\n{number},x\n1,y\n"));
        let sql = format!("SELECT a FROM read_csv('{csv}', types => {{'a': 'DECIMAL(9,2)'}})");
        assert_eq!(select(&sql).await, format!("{read} 1.00"), "{number}");
        let json = directory.write("a.json", json_of(number));
        let sql = format!("SELECT a FROM read_json('{json}', columns => {{'a': 'DECIMAL(9,2)'}})");
        assert_eq!(select(&sql).await, format!("{read} {read} 1.00"), "{number}");
    }
    // Counted in eight or sixteen bits, these would be short numbers.
    let long = format!("1{}", "0".repeat(299));
    for (number, of) in [
        ("12345678.9", "DECIMAL(9,2)"),
        ("1e65537", "DECIMAL(9,2)"),
        (long.as_str(), "DECIMAL(76,0)"),
        (long.as_str(), "DECIMAL(38,2)"),
    ] {
        let csv = directory.write("b.csv", format!("a,b\n1,x\n{number},y\n"));
        let error = failure(&format!("SELECT a FROM read_csv('{csv}', types => {{'a': '{of}'}})")).await;
        assert!(error.contains("line 3, column 1") && error.contains(of), "{error}");
        let json = directory.write("b.json", json_of(number));
        let error = failure(&format!("SELECT a FROM read_json('{json}', columns => {{'a': '{of}'}})")).await;
        assert!(error.contains(of), "{error}");
    }
}

#[tokio::test]
async fn whole_numbers_of_a_detected_type_are_not_rounded() {
    let directory = TestDirectory::new("whole");
    let wide = "12345678901234567890";
    let csv = |number: &str| directory.write("a.csv", format!("a,b\n{wide},x\n{number},y\n"));
    let json = |number: &str| {
        directory.write(
            "a.json",
            format!("{{\"a\":{wide},\"s\":{{\"n\":{wide}}}}}\n{{\"a\":1,\"s\":{{\"n\":{number}}}}}\n"),
        )
    };
    for number in ["1.5", "-0.25e1", "1e-3"] {
        let error = failure(&format!("SELECT a FROM read_csv('{}', sample_size => 1)", csv(number))).await;
        let expected = format!("line 3, column 1 (\"a\"): cannot read '{number}' as DECIMAL(38,0)");
        assert!(error.contains(&expected), "{error}");
        let error = failure(&format!("SELECT s FROM read_json('{}', sample_size => 1)", json(number))).await;
        assert!(error.contains("DECIMAL(38,0)"), "{error}");
        // A type that is given is that of a cast.
        let given = "sample_size => 1, types => {'a': 'DECIMAL(38,0)'}";
        select(&format!("SELECT a FROM read_csv('{}', {given})", csv(number))).await;
    }
    for number in ["15e2", "1500.0", "1500"] {
        let read = select(&format!("SELECT a FROM read_csv('{}', sample_size => 1)", csv(number))).await;
        assert_eq!(read, format!("{wide} 1500"), "{number}");
        let read = select(&format!("SELECT s FROM read_json('{}', sample_size => 1)", json(number))).await;
        assert_eq!(read, format!("{{n: {wide}}} {{n: 1500}}"), "{number}");
    }
}

#[tokio::test]
async fn csv_errors_name_the_place_and_the_value() {
    let directory = TestDirectory::new("errors");
    let options = "types => {'o_total': 'DECIMAL(15,2)'}";
    let path = directory.write("orders.csv", "id,note,o_total\n1,\"two\nlines\",1.5\n\n2,b,abc\n3,c,2\n");
    let error = failure(&format!("SELECT * FROM read_csv('{path}', {options})")).await;
    let expected = format!("{path}, line 5, column 3 (\"o_total\"): cannot read 'abc' as DECIMAL(15,2); ");
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("ignore_errors => true"), "{error}");
    assert_eq!(select(&format!("SELECT id FROM read_csv('{path}', {options})")).await, "1 2 3");

    let path = directory.write("short.csv", "a,b,c\n1,2,3\n4,5\n6,7,8,9\n");
    let error = failure(&format!("SELECT * FROM read_csv('{path}')")).await;
    assert!(error.starts_with(&format!("{path}, line 3 has 2 fields, expected 3")), "{error}");
    let lenient = format!("SELECT * FROM read_csv('{path}', ignore_errors => true)");
    assert_eq!(select(&lenient).await, "1|2|3");

    let path = directory.write("latin1.csv", b"a,b\n1,x\n2,caf\xE9\n");
    let error = failure(&format!("SELECT * FROM read_csv('{path}')")).await;
    assert!(error.contains("line 3, column 2 (\"b\"): is not valid UTF-8"), "{error}");

    let path = directory.write("quote.csv", "a,b\n1,x\n2,\"never\n3,y\n");
    let quoted = format!("read_csv('{path}', quote => '\"'");
    let error = failure(&format!("SELECT * FROM {quoted})")).await;
    assert!(error.contains("line 3 has a quoted value that is never closed"), "{error}");
    assert_eq!(select(&format!("SELECT * FROM {quoted}, ignore_errors => true)")).await, "1|x");
    // A quote that is never closed is text, unless an option says that it quotes.
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}')")).await, "1|x 2|\"never 3|y");

    let path = directory.write("many.csv", "a\n1\nx\ny\nz\n");
    let sql =
        format!("SELECT * FROM read_csv('{path}', types => ['BIGINT'], header => true, max_errors => 2)");
    assert!(failure(&sql).await.starts_with("more than 2 bad rows; the last: "));
    let error = failure("SELECT * FROM read_csv('no/such.csv')").await;
    assert_eq!(error, "no file \"no/such.csv\"");
    let error = failure(&format!("SELECT * FROM read_csv('{path}', heder => true)")).await;
    assert!(error.starts_with("read_csv has no option \"heder\"; did you mean \"header\"?"), "{error}");
    let error = failure(&format!("SELECT * FROM read_csv('{path}', types => {{'b': 'INTEGER'}})")).await;
    assert!(error.contains("types names the column \"b\", which the file does not have"), "{error}");
    let error = failure(&format!("SELECT * FROM read_csv('{path}', types => ['INTEGRE'])")).await;
    assert!(error.starts_with("no type \"INTEGRE\""), "{error}");
    let path = directory.write("empty.csv", "");
    assert!(failure(&format!("SELECT * FROM read_csv('{path}')")).await.contains("is empty"));
}

#[tokio::test]
async fn a_large_file_keeps_its_order_and_its_line_numbers() {
    let directory = TestDirectory::new("large");
    let mut text = String::from("n,text\n");
    let count = 400_000;
    for number in 0..count {
        text.push_str(&format!("{number},\"line {number}\nand more, \"\"quoted\"\"\"\n"));
    }
    let path = directory.write("large.csv", &text);
    let batches = query(&format!("SELECT * FROM read_csv('{path}')")).await.unwrap();
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    let numbers = all.column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
    assert!(numbers.values().iter().copied().eq(0..count));

    let bad = text.replacen("\n399000,", "\nbad,", 1);
    let path = directory.write("bad.csv", bad);
    let error = failure(&format!("SELECT sum(n) FROM read_csv('{path}')")).await;
    assert!(error.contains("line 798002, column 1 (\"n\"): cannot read 'bad' as BIGINT"), "{error}");
    let lenient = format!("SELECT count(n) FROM read_csv('{path}', ignore_errors => true)");
    assert_eq!(select(&lenient).await, (count - 1).to_string());
}

#[tokio::test]
async fn json_is_read_in_every_layout() {
    let directory = TestDirectory::new("json");
    let lines = directory.write(
        "a.ndjson",
        "{\"b\":1,\"a\":\"x\",\"l\":[1,2]}\n\n{\"a\":null,\"b\":2.5,\"o\":{\"k\":true}}\n",
    );
    assert_eq!(
        select(&format!("SELECT * FROM read_json('{lines}')")).await,
        "1.0|x|[1, 2]|NULL 2.5|NULL|NULL|{k: true}"
    );
    let array = directory.write("b.json", "[\n{\"a\": 1, \"s\": \"],[\"},\n {\"a\": 2}\n ]\n");
    assert_eq!(select(&format!("SELECT * FROM read_json('{array}')")).await, "1|],[ 2|NULL");
    let values = directory.write("c.json", "{\n\"a\": \"2024-01-01\"\n}\n{\n\"a\": null }");
    assert_eq!(select(&format!("SELECT * FROM read_json_auto('{values}')")).await, "2024-01-01 NULL");
    assert_eq!(select(&format!("SELECT count(*) FROM read_ndjson('{lines}')")).await, "2");
    let typed = format!("SELECT * FROM read_json('{lines}', columns => {{'b': 'VARCHAR'}})");
    assert_eq!(select(&typed).await, "1 2.5");
}

#[tokio::test]
async fn json_errors_name_the_place_and_the_value() {
    let directory = TestDirectory::new("json-errors");
    let path = directory.write("a.json", "{\"n\":1}\n{\"n\":\n{\"n\":\"x\"}\n{\"n\":4}\n");
    let sql = format!("SELECT * FROM read_json('{path}', columns => {{'n': 'BIGINT'}})");
    let error = failure(&sql).await;
    assert!(error.starts_with(&format!("{path}, line 2 is not valid JSON: ")), "{error}");
    let lenient = sql.replace(")", ", ignore_errors => true)");
    assert_eq!(select(&lenient).await, "1 4");
    let path = directory.write("several.json", "{\"n\":1} {\"n\":2}");
    assert_eq!(select(&format!("SELECT * FROM read_json('{path}')")).await, "1 2");
    let path = directory.write("several.json", "[ {\"n\":1} , {\"n\":2,\"s\":\"],\"}\n]\n");
    assert_eq!(select(&format!("SELECT n FROM read_json('{path}')")).await, "1 2");
    let path = directory.write("b.json", "{\"n\":1}\n{\"n\":\"x\"}\n");
    let error = failure(&format!("SELECT * FROM read_json('{path}', columns => {{'n': 'BIGINT'}})")).await;
    assert!(error.contains("line 2, column 1 (\"n\"): cannot read \"x\" as BIGINT"), "{error}");
    for (text, reason) in [
        ("[{\"n\":1},\n{\"n\":2}\n", "ends before the ']' of the JSON array"),
        ("[{\"n\":1},\n{\"n\":[2}\n", "starts a JSON value that is never closed"),
        ("[{\"n\":1}]\nmore\n", "has text after the end of the JSON array"),
        ("[{\"n\":1},]\n", "has a comma beside which a value of the JSON array is missing"),
        ("[{\"n\":1},,{\"n\":2}]\n", "has a comma beside which a value of the JSON array is missing"),
        ("[,{\"n\":1}]\n", "has no JSON object"),
    ] {
        let path = directory.write("c.json", text);
        let error = failure(&format!("SELECT * FROM read_json('{path}')")).await;
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[tokio::test]
async fn parquet_and_arrow_are_read_and_refused() {
    let directory = TestDirectory::new("parquet");
    for (extension, function) in [("parquet", "read_parquet"), ("arrow", "read_arrow")] {
        for number in 0..2 {
            let path = directory.path(&format!("{number}.{extension}"));
            let sql =
                format!("SELECT column1 + {number} AS n, column2 AS s FROM (VALUES (10, 'x'), (20, NULL))");
            export(&sql, &path, &[]).await.unwrap();
        }
        let glob = directory.path(&format!("*.{extension}"));
        let sql = format!("SELECT n, s FROM {function}('{glob}') WHERE n > 10 ORDER BY n");
        assert_eq!(select(&sql).await, "11|x 20|NULL 21|NULL");
        let wrong = directory.write(&format!("wrong-{extension}.bin"), "this is text, not columns");
        assert!(failure(&format!("SELECT * FROM {function}('{wrong}')")).await.contains("is not a readable"));
    }
    let error = failure("SELECT * FROM read_parquet('x.parquet', header => true)").await;
    assert!(error.contains("the options are filename"), "{error}");
}

#[tokio::test]
async fn a_path_is_a_table_and_a_name_is_not() {
    let directory = TestDirectory::new("path");
    let path = directory.write("a.csv", "n\n1\n2\n");
    let context = session();
    let state = context.state();
    assert!(table_from_path(&state, "orders").await.is_none());
    let table = table_from_path(&state, &path).await.unwrap().unwrap();
    let batches = context.read_table(table).unwrap().collect().await.unwrap();
    assert_eq!(rows(&batches), "1 2");
    let error = table_from_path(&state, "no/a.csv").await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no file \"no/a.csv\""));
    let error = table_from_path(&state, "data/what").await.unwrap().unwrap_err();
    assert!(error.message().contains("read_csv('data/what')"), "{error}");
}

pub async fn export(sql: &str, path: &str, options: &[(&str, &str)]) -> Result<u64, String> {
    let mut pairs: Vec<Pair> =
        options.iter().map(|(name, value)| (name.to_string(), ScalarValue::from(*value))).collect();
    let format = take_format(path, &mut pairs).map_err(|error| error.to_string())?;
    let options = WriteOptions::parse(path, format, &pairs).map_err(|error| error.to_string())?;
    let rows = session().sql(sql).await.map_err(|error| message(&error))?;
    write(rows, path, format, &options).await.map_err(|error| message(&error))
}

pub async fn import(
    path: &str,
    fields: &[(&str, DataType)],
    options: &[(&str, &str)],
) -> Result<(String, Vec<Rejected>), String> {
    let fields = fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false));
    import_fields(path, fields.collect(), options).await
}

async fn import_fields(
    path: &str,
    fields: Vec<Field>,
    options: &[(&str, &str)],
) -> Result<(String, Vec<Rejected>), String> {
    let target: SchemaRef = Arc::new(Schema::new(fields));
    let mut pairs: Vec<Pair> =
        options.iter().map(|(name, value)| (name.to_string(), ScalarValue::from(*value))).collect();
    let format = take_format(path, &mut pairs).map_err(|error| error.to_string())?;
    let options = ReadOptions::parse("COPY FROM", format, &pairs).map_err(|error| error.to_string())?;
    let source =
        read_for_copy(&session(), path, format, &options, target).await.map_err(|error| error.to_string())?;
    let batches: Vec<RecordBatch> = source.rows.try_collect().await.map_err(|error| message(&error))?;
    Ok((rows(&batches), source.rejects.take()))
}

#[tokio::test]
async fn copy_from_matches_by_position_or_by_header() {
    use DataType::{Int32, LargeUtf8};
    let directory = TestDirectory::new("copy");
    let target = [("a", Int32), ("b", LargeUtf8)];
    let path = directory.write("1.csv", "x,y\n1,one\n2,\n");
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "1|one 2|NULL");
    let path = directory.write("2.csv", "B,extra,a\none,0,1\n");
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "1|one");
    let path = directory.write("3.csv", "1,one\n2,two\n");
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "1|one 2|two");
    let path = directory.write("4.csv", "x,y\np,q\n");
    assert_eq!(import(&path, &[("s", LargeUtf8), ("t", LargeUtf8)], &[]).await.unwrap().0, "x|y p|q");
    assert_eq!(
        import(&path, &[("s", LargeUtf8), ("t", LargeUtf8)], &[("header", "")]).await.unwrap().0,
        "p|q"
    );
    let path = directory.write("5.csv", "1,2,3\n");
    let error = import(&path, &target, &[]).await.unwrap_err();
    assert!(error.contains("3 columns, but 2 are to be filled (a, b)"), "{error}");
    let path = directory.write("6.csv", "");
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "");
    let path = directory.write("7.json", "{\"b\":\"x\",\"a\":1}\n{\"a\":2,\"z\":0}\n");
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "1|x 2|NULL");
}

#[tokio::test]
async fn copy_from_collects_the_rows_it_leaves_out() {
    let directory = TestDirectory::new("rejects");
    let path = directory.write("a.csv", "n,s\n1,a\nx,b\n2\n3,c\n300,d\n");
    let target = [("n", DataType::Int8), ("s", DataType::LargeUtf8)];
    let error = import(&path, &target, &[]).await.unwrap_err();
    assert!(
        error.starts_with(&format!("{path}, line 3, column 1 (\"n\"): cannot read 'x' as TINYINT")),
        "{error}"
    );
    let (kept, rejects) = import(&path, &target, &[("REJECTS_TABLE", "bad")]).await.unwrap();
    assert_eq!(kept, "1|a 3|c");
    let reasons: Vec<(u64, &str, &str)> =
        rejects.iter().map(|row| (row.line, row.value.as_str(), row.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (3, "x", "cannot read 'x' as TINYINT"),
            (4, "2", "has 1 field, expected 2"),
            (6, "300", "cannot read '300' as TINYINT"),
        ]
    );
    let error = import(&path, &target, &[("max_errors", "2")]).await.unwrap_err();
    assert!(error.starts_with("more than 2 bad rows"), "{error}");
}

#[tokio::test]
async fn copy_from_columns_names_row_and_value() {
    let directory = TestDirectory::new("columns");
    for extension in ["parquet", "arrow"] {
        let path = directory.path(&format!("a.{extension}"));
        let options: &[_] = if extension == "parquet" { &[("row_group_size", "2")] } else { &[] };
        let sql =
            "SELECT column1 AS amount, column2 AS s FROM (VALUES (1, 'a'), (2, 'b'), (300, 'c'), (4, 'd'))";
        export(sql, &path, options).await.unwrap();
        let (kept, _) =
            import(&path, &[("S", DataType::LargeUtf8), ("amount", DataType::Int32)], &[]).await.unwrap();
        assert_eq!(kept, "a|1 b|2 c|300 d|4");
        let error = import(&path, &[("amount", DataType::Int8)], &[]).await.unwrap_err();
        assert_eq!(error, format!("{path}, row 3, column 1 (\"amount\"): cannot read 300 as TINYINT"));
        let error = import(&path, &[("amout", DataType::Int8)], &[]).await.unwrap_err();
        assert!(error.contains("none of the columns amout is there; did you mean \"amount\"?"), "{error}");
    }
}

#[tokio::test]
async fn every_type_survives_a_round_trip_through_every_format() {
    let directory = TestDirectory::new("round-trip");
    let list = DataType::new_large_list(DataType::Int64, true);
    let record = DataType::Struct(vec![Field::new("k", DataType::LargeUtf8, true)].into());
    let mut fields: Vec<Field> = [
        ("bool", DataType::Boolean),
        ("tiny", DataType::Int8),
        ("big", DataType::UInt64),
        ("real", DataType::Float32),
        ("double", DataType::Float64),
        ("dec", DataType::Decimal64(15, 2)),
        ("wide", DataType::Decimal128(38, 4)),
        ("day", DataType::Date32),
        ("moment", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("instant", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("clock", DataType::Time64(TimeUnit::Microsecond)),
        ("text", DataType::LargeUtf8),
        ("bytes", DataType::LargeBinary),
        ("list", list),
        ("record", record),
    ]
    .map(|(name, data_type)| Field::new(name, data_type, true))
    .into();
    let sql = "SELECT true AS bool, arrow_cast(-1, 'Int8') AS tiny, arrow_cast(18446744073709551615, 'UInt64') AS big, \
               arrow_cast(1.5, 'Float32') AS real, 0.1 AS double, arrow_cast(12.34, 'Decimal64(15, 2)') AS dec, \
               arrow_cast('12345678901234567890.1234', 'Decimal128(38, 4)') AS wide, DATE '2024-02-29' AS day, \
               arrow_cast('2024-02-29T10:11:12.000013', 'Timestamp(Microsecond, None)') AS moment, \
               arrow_cast('2024-02-29T10:11:12Z', 'Timestamp(Microsecond, Some(\"UTC\"))') AS instant, \
               arrow_cast('10:11:12.5', 'Time64(Microsecond)') AS clock, E'a,\"b\"\\nc' AS text, \
               arrow_cast(X'00FF', 'LargeBinary') AS bytes, arrow_cast([1, NULL, 3], 'LargeList(Int64)') AS list, \
               {'k': 'v'} AS record";
    let nulls: Vec<String> = fields.iter().map(|field| format!("NULL AS {}", field.name())).collect();
    let sql = format!("{sql} UNION ALL SELECT {}", nulls.join(", "));
    let mut first = None;
    for name in ["a.csv", "a.tsv", "a.json", "a.parquet", "a.arrow"] {
        let path = directory.path(name);
        assert_eq!(export(&sql, &path, &[]).await.unwrap(), 2, "{name}");
        let (mut imported, _) = import_fields(&path, fields.clone(), &[]).await.unwrap();
        if !imported.starts_with("true") {
            // A union has no order.
            let split = imported.find(" true|").unwrap();
            imported = format!("{} {}", &imported[split + 1..], &imported[..split]);
        }
        assert_eq!(first.get_or_insert(imported.clone()), &imported, "{name}");
    }
    let first = first.unwrap();
    assert!(
        first.contains("|12.34|12345678901234567890.1234|2024-02-29|2024-02-29T10:11:12.000013|"),
        "{first}"
    );
    assert!(first.contains("|00ff|[1, , 3]|{k: v}"), "{first}");

    fields.clear();
    let uuid = LogicalType::Uuid.arrow_field("u", true);
    let path = directory.write("u.csv", "u\n67e55044-10b1-426f-9247-bb680e5fe0c8\n");
    let (imported, _) = import_fields(&path, vec![uuid.clone()], &[]).await.unwrap();
    assert_eq!(imported, "67e5504410b1426f9247bb680e5fe0c8");
    let json = LogicalType::Json.arrow_field("j", true);
    let path =
        directory.write("j.ndjson", "{\"j\":{\"k\":[1,\"x\"]}}\n{\"j\":\"text\"}\n{\"j\":\"{}\"}\n{}\n");
    let (imported, _) = import_fields(&path, vec![json.clone()], &[]).await.unwrap();
    assert_eq!(imported, "{\"k\":[1,\"x\"]} \"text\" \"{}\" NULL");
    let path = directory.write("j.csv", "j\n[1]\n[1\n");
    let error = import_fields(&path, vec![json], &[]).await.unwrap_err();
    assert!(error.contains("line 3, column 1 (\"j\"): cannot read '[1' as JSON"), "{error}");

    let path = directory.write("u.csv", "u\nnot-one\n");
    let error = import_fields(&path, vec![uuid], &[]).await.unwrap_err();
    assert!(error.contains("cannot read 'not-one' as UUID"), "{error}");
}

#[tokio::test]
async fn copy_to_obeys_its_options_and_leaves_no_half_file() {
    let directory = TestDirectory::new("export");
    let read = |name: &str| std::fs::read_to_string(directory.path(name)).unwrap();
    let sql = "SELECT 1 AS a, 'x;y' AS b, CAST(NULL AS INT) AS c, TIMESTAMP '2024-01-01 10:00:00' AS t";
    export(sql, &directory.path("a.csv"), &[]).await.unwrap();
    assert_eq!(read("a.csv"), "a,b,c,t\n1,x;y,,2024-01-01 10:00:00\n");
    let options = [
        ("HEADER", "false"),
        ("delim", ";"),
        ("null", "NA"),
        ("quote", "'"),
        ("timestampformat", "%d.%m.%Y"),
    ];
    export(sql, &directory.path("b.csv"), &options).await.unwrap();
    assert_eq!(read("b.csv"), "1;'x;y';NA;01.01.2024\n");
    export(sql, &directory.path("c.tsv"), &[]).await.unwrap();
    assert!(read("c.tsv").starts_with("a\tb\tc\tt\n"));
    export("SELECT 1 AS a, [1,2] AS l", &directory.path("d.json"), &[]).await.unwrap();
    assert_eq!(read("d.json"), "{\"a\":1,\"l\":[1,2]}\n");
    let two = "SELECT column1 AS a FROM (VALUES (1), (2)) ORDER BY a";
    export(two, &directory.path("d.json"), &[("array", "true")]).await.unwrap();
    assert_eq!(read("d.json"), "[\n{\"a\":1},\n{\"a\":2}\n]\n");
    assert_eq!(select(&format!("SELECT * FROM read_json('{}')", directory.path("d.json"))).await, "1 2");
    export("SELECT 1 AS a WHERE false", &directory.path("d.json"), &[("array", "true")]).await.unwrap();
    assert_eq!(read("d.json"), "[]\n");
    export("SELECT 1 AS a WHERE false", &directory.path("e.csv"), &[]).await.unwrap();
    assert_eq!(read("e.csv"), "a\n");
    export("SELECT 1 AS a WHERE false", &directory.path("e.parquet"), &[]).await.unwrap();
    assert_eq!(
        select(&format!("SELECT count(*) FROM read_parquet('{}')", directory.path("e.parquet"))).await,
        "0"
    );

    for codec in ["snappy", "none", "gzip", "lz4"] {
        let path = directory.path("f.parquet");
        export("SELECT value FROM generate_series(1, 100)", &path, &[("compression", codec)]).await.unwrap();
        assert_eq!(
            select(&format!("SELECT sum(value) FROM read_parquet('{path}')")).await,
            "5050",
            "{codec}"
        );
    }
    let failing = "SELECT 1 / (2 - column1) AS a FROM (VALUES (1), (2))";
    assert!(export(failing, &directory.path("a.csv"), &[]).await.is_err());
    assert!(read("a.csv").starts_with("a,b,c,t\n"), "the old file is still there");
    let left: Vec<String> = std::fs::read_dir(directory.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let error = export("SELECT 1", &directory.path("no/a.csv"), &[]).await.unwrap_err();
    assert!(error.contains("there is no directory"), "{error}");
}

#[tokio::test]
async fn files_of_other_columns_come_together_by_name() {
    let directory = TestDirectory::new("by_name");
    directory.write("part/1.csv", "id,name\n1,a\n2,b\n");
    directory.write("part/2.csv", "price,id\n1.5,3\n");
    directory.write("part/3.csv", "id\nx\n");
    let glob = directory.path("part/*.csv");
    let sql = format!("SELECT * FROM read_csv('{glob}', union_by_name => true) ORDER BY id");
    assert_eq!(select(&sql).await, "1|a|NULL 2|b|NULL 3|NULL|1.5 x|NULL|NULL");
    assert_eq!(types(&query(&sql).await.unwrap()), "VARCHAR VARCHAR DOUBLE");
    let sql = format!(
        "SELECT price FROM read_csv('{glob}', union_by_name => true) WHERE name IS NULL AND id = '3'"
    );
    assert_eq!(select(&sql).await, "1.5");
    let sql = format!(
        "SELECT id, replace(filename, '{}', '') FROM read_csv('{glob}', union_by_name => true, filename => true) \
         ORDER BY id DESC LIMIT 2",
        directory.path("part/")
    );
    assert_eq!(select(&sql).await, "x|3.csv 3|2.csv");
    let error = failure(&format!("SELECT * FROM read_csv('{glob}', union_by_name => maybe)")).await;
    assert!(error.contains("union_by_name"), "{error}");
    assert!(query(&format!("SELECT * FROM read_csv('{glob}')")).await.is_err());

    let (one, two) = (directory.path("1.parquet"), directory.path("2.parquet"));
    export("SELECT 1 AS a, 'x' AS b", &one, &[]).await.unwrap();
    export("SELECT 2.5 AS c, CAST(2 AS BIGINT) AS a", &two, &[]).await.unwrap();
    let sql =
        format!("SELECT a, b, c FROM read_parquet(['{one}', '{two}'], union_by_name => true) ORDER BY a");
    assert_eq!(select(&sql).await, "1|x|NULL 2|NULL|2.5");
}

#[tokio::test]
async fn directories_of_names_and_values_are_columns() {
    let directory = TestDirectory::new("directories");
    for (year, month, city) in
        [(2024, 1, "Z%C3%BCrich"), (2024, 2, "a=b"), (2025, 1, "__HIVE_DEFAULT_PARTITION__")]
    {
        let path = format!("sales/year={year}/month={month}/city={city}/a.csv");
        directory.write(&path, format!("n\n{year}\n{month}\n"));
    }
    let glob = directory.path("sales/**/*.csv");
    let all = format!("read_csv('{glob}', hive_partitioning => true)");
    let sql =
        format!("SELECT year, month, city, count(*), min(n) FROM {all} GROUP BY ALL ORDER BY year, month");
    let sql = sql.replace("GROUP BY ALL", "GROUP BY year, month, city");
    assert_eq!(select(&sql).await, "2024|1|Zürich|2|1 2024|2|a=b|2|2 2025|1|NULL|2|1");
    let sql = format!("SELECT n, year FROM {all} WHERE year = 2025 AND city IS NULL ORDER BY n");
    assert_eq!(select(&sql).await, "1|2025 2025|2025");
    assert_eq!(types(&query(&format!("SELECT year, city FROM {all}")).await.unwrap()), "BIGINT VARCHAR");
    assert_eq!(select(&format!("SELECT count(*) FROM read_csv('{glob}')")).await, "6");

    for (day, value) in [("2024-01-01", 1), ("2024-01-02", 2)] {
        let path = directory.path(&format!("days/day={day}/a.parquet"));
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        export(&format!("SELECT {value} AS v"), &path, &[]).await.unwrap();
    }
    let days = directory.path("days/*/*.parquet");
    let sql = format!(
        "SELECT * FROM read_parquet('{days}', hive_partitioning => true) WHERE day > DATE '2024-01-01'"
    );
    assert_eq!(select(&sql).await, "2|2024-01-02");
    let other = directory.path("days/*");
    directory.write("days/loose/a.parquet", "");
    let error =
        failure(&format!("SELECT * FROM read_parquet('{other}/*.parquet', hive_partitioning => true)")).await;
    for part in ["days/loose/a.parquet\" give no columns", "days/day=2024-01-01/a.parquet\" the column day"] {
        assert!(error.contains(part), "{error}");
    }
    directory.write("other/k=1/a.csv", "n\n1\n");
    directory.write("other/k=2/a.csv", "m\n1\n");
    let other = directory.path("other/*/a.csv");
    let error = failure(&format!("SELECT * FROM read_csv('{other}', hive_partitioning => true)")).await;
    assert!(error.contains("union_by_name"), "{error}");
}
