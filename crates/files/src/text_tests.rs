//! Tests that CSV and JSON survive being written and read, that what was sampled can be read, and
//! that what is odd in files is read or refused.

use crate::test_directory::TestDirectory;
use crate::tests::{export, failure, import, query, rows, select, types};
use arrow::datatypes::DataType;

/// Numbers that look random and are the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self, of: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % of
    }
}

const HOSTILE: [&str; 24] = [
    "",
    "NULL",
    "null",
    "NA",
    "\\N",
    "a",
    " a",
    "a ",
    "a,b",
    "a;b",
    "a\tb",
    "a|b",
    "say \"x\"",
    "it's",
    "\"",
    "\\",
    "\\\"",
    "a\\b",
    "line\nend",
    "cr\rend",
    "crlf\r\nend",
    "#note",
    "\u{FEFF}x",
    "é€😀",
];

/// Returns a SELECT of the values, of which `None` is NULL.
fn values(table: &[Vec<Option<&str>>]) -> String {
    let columns = table[0].len();
    let literal = |value: &Option<&str>| match value {
        None => "CAST(NULL AS VARCHAR)".to_string(),
        Some(text) => format!("'{}'", text.replace('\'', "''")),
    };
    let row =
        |row: &Vec<Option<&str>>| format!("({})", row.iter().map(literal).collect::<Vec<_>>().join(", "));
    let names: Vec<String> = (1..=columns).map(|column| format!("column{column} AS c{column}")).collect();
    let all: Vec<String> = table.iter().map(row).collect();
    format!("SELECT {} FROM (VALUES {})", names.join(", "), all.join(", "))
}

#[tokio::test]
async fn hostile_texts_survive_csv_with_all_options() {
    let directory = TestDirectory::new("hostile");
    let mut chance = Chance(11);
    let options: [&[(&str, &str)]; 8] = [
        &[],
        &[("header", "false")],
        &[("null", "NULL")],
        &[("null", "\\N"), ("delim", "|")],
        &[("escape", "\\")],
        &[("escape", "\\"), ("quote", "'"), ("null", "NA"), ("delim", ";")],
        &[("delim", "tab"), ("null", "a")],
        &[("null", "null"), ("header", "false"), ("quote", "|")],
    ];
    for round in 0..64 {
        let columns = 1 + chance.next(3);
        let mut table: Vec<Vec<Option<&str>>> = (0..1 + chance.next(12))
            .map(|_| (0..columns).map(|_| HOSTILE.get(chance.next(HOSTILE.len() + 4)).copied()).collect())
            .collect();
        if round < 8 {
            table = HOSTILE.iter().map(|text| vec![Some(*text)]).chain([vec![None]]).collect();
        }
        let columns = table[0].len();
        let options = options[round % options.len()];
        let path = directory.path(&format!("{round}.csv"));
        let sql = values(&table);
        export(&sql, &path, options).await.unwrap();
        let names: Vec<String> = (1..=columns).map(|column| format!("c{column}")).collect();
        let target: Vec<(&str, DataType)> =
            names.iter().map(|name| (name.as_str(), DataType::Utf8View)).collect();
        let mut given = options.to_vec();
        if !options.iter().any(|(name, _)| *name == "header") {
            given.push(("header", "true"));
        }
        let shown = std::fs::read_to_string(&path).unwrap();
        let expected = rows(&query(&sql).await.unwrap());
        let (read, _) = import(&path, &target, &given).await.unwrap();
        assert_eq!(read, expected, "COPY {given:?} {shown:?}");
        let list: Vec<String> =
            given.iter().map(|(name, value)| format!("{name} => '{}'", value.replace('\'', "''"))).collect();
        let comma = if options.iter().any(|(name, _)| *name == "delim") { "" } else { ", delim => ','" };
        let sql =
            format!("SELECT * FROM read_csv('{path}', all_varchar => true{comma}, {})", list.join(", "));
        assert_eq!(select(&sql).await, expected, "read_csv {given:?} {shown:?}");
    }
}

#[tokio::test]
async fn numbers_and_times_survive_hostile_options() {
    let directory = TestDirectory::new("numbers");
    let sql = "SELECT column1 AS i, column2 AS d, column3 AS t, column4 AS b FROM (VALUES \
               (0, -1.5, TIMESTAMP '2024-01-02 03:04:05', true), (7, 2.0, CAST(NULL AS TIMESTAMP), false), \
               (CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), TIMESTAMP '2024-01-02 03:04:05', CAST(NULL AS BOOLEAN)))";
    let target = [
        ("i", DataType::Int64),
        ("d", DataType::Float64),
        ("t", DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)),
        ("b", DataType::Boolean),
    ];
    let expected = rows(&query(sql).await.unwrap());
    for options in [
        &[("null", "0")][..],
        &[("null", "true"), ("delim", ":")],
        &[("delim", "-")],
        &[("delim", "."), ("null", "7")],
        &[("quote", "1"), ("delim", " ")],
    ] {
        let path = directory.path("a.csv");
        export(sql, &path, options).await.unwrap();
        let mut given = options.to_vec();
        given.push(("header", "true"));
        let (read, _) = import(&path, &target, &given).await.unwrap();
        assert_eq!(read, expected, "{options:?} {:?}", std::fs::read_to_string(&path).unwrap());
    }
}

#[tokio::test]
async fn quoted_texts_are_no_nulls_unless_that_is_asked_for() {
    let directory = TestDirectory::new("quoted");
    let path = directory.write("a.csv", "s,n\n\"\",\"\"\n,\n\"NA\",1\nNA,2\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}')")).await, "|NULL NULL|NULL NA|1 NA|2");
    let allowed = format!("SELECT * FROM read_csv('{path}', allow_quoted_nulls => true)");
    assert_eq!(select(&allowed).await, "NULL|NULL NULL|NULL NA|1 NA|2");
    let words = format!("SELECT s FROM read_csv('{path}', nullstr => ['NA', ''])");
    assert_eq!(select(&words).await, " NULL NA NULL");
}

#[tokio::test]
async fn nulls_are_written_to_json() {
    let directory = TestDirectory::new("nulls");
    let path = directory.path("a.json");
    export("SELECT 1 AS a, CAST(NULL AS INT) AS b, {'x': CAST(NULL AS INT)} AS s", &path, &[]).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1,\"b\":null,\"s\":{\"x\":null}}\n");
    assert_eq!(select(&format!("SELECT b, s FROM read_json('{path}')")).await, "NULL|{x: }");
    let path = directory.path("b.json.gz");
    export("SELECT 1 AS a WHERE false", &path, &[]).await.unwrap();
    assert!(failure(&format!("SELECT * FROM read_json('{path}')")).await.contains("has no JSON object"));
}

#[tokio::test]
async fn keys_behind_the_sample_are_an_error() {
    let directory = TestDirectory::new("keys");
    let lines =
        |last: &str| format!("{}{last}\n", "{\"a\":1,\"o\":{\"x\":1},\"l\":[{\"x\":1}]}\n".repeat(50));
    for (last, key) in
        [("{\"b\":1}", "b"), ("{\"a\":1,\"o\":{\"y\":2}}", "o.y"), ("{\"l\":[{\"x\":1},{\"z\":1}]}", "l.z")]
    {
        let path = directory.write("a.json", lines(last));
        for columns in ["*", "a", "o, l"] {
            let error =
                failure(&format!("SELECT {columns} FROM read_json('{path}', sample_size => 20)")).await;
            let expected = format!("line 51 has the key \"{key}\"");
            assert!(error.contains(&expected) && error.contains("sample_size => -1"), "{columns}: {error}");
        }
        let all = format!("SELECT count(*) FROM read_json('{path}', sample_size => -1)");
        assert_eq!(select(&all).await, "51");
        let some = format!("SELECT sum(a) FROM read_json('{path}', columns => {{'a': 'BIGINT'}})");
        assert!(select(&some).await.starts_with("5"), "{last}");
    }
    let one = directory.write("1.json", "{\"a\":1}\n");
    let two = directory.write("2.json", "{\"a\":2,\"b\":3}\n");
    let error = failure(&format!("SELECT * FROM read_json(['{one}', '{two}'])")).await;
    assert!(error.contains("union_by_name => true"), "{error}");
    let both = format!("SELECT a, b FROM read_json(['{one}', '{two}'], union_by_name => true) ORDER BY a");
    assert_eq!(select(&both).await, "1|NULL 2|3");
    let many: Vec<String> = (0..20_000).map(|key| format!("\"k{key}\":{key}")).collect();
    let path = directory.write("many.json", format!("{{{}}}\n", many.join(",")));
    let error = failure(&format!("SELECT * FROM read_json('{path}')")).await;
    assert!(error.contains("more than 16384 different keys"), "{error}");
}

/// Returns a random JSON value.
fn json(chance: &mut Chance, depth: usize) -> String {
    match chance.next(if depth == 0 { 7 } else { 10 }) {
        0 => "null".into(),
        1 => "true".into(),
        2 => (chance.next(2000) as i64 - 1000).to_string(),
        3 => "12345678901234567890".into(),
        4 => "1.5".into(),
        5 => ["\"\"", "\"x\"", "\"2024-01-01\"", "\"2024-01-01T10:00:00Z\"", "\"{}\""][chance.next(5)].into(),
        6 => "\"a\\\"b\\n\"".into(),
        7 => {
            let elements: Vec<String> = (0..chance.next(3)).map(|_| json(chance, depth - 1)).collect();
            format!("[{}]", elements.join(","))
        }
        _ => object(chance, depth - 1),
    }
}

fn object(chance: &mut Chance, depth: usize) -> String {
    let keys = ["a", "b", "c"];
    let first = chance.next(3);
    let members: Vec<String> = (first..(first + chance.next(3)).min(3))
        .map(|key| format!("\"{}\":{}", keys[key], json(chance, depth)))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[tokio::test]
async fn what_was_sampled_can_be_read() {
    let directory = TestDirectory::new("sampled");
    let mut chance = Chance(3);
    for round in 0..150 {
        let count = 1 + chance.next(8);
        let lines: Vec<String> = (0..count).map(|_| object(&mut chance, 3)).collect();
        let text = format!("{{\"id\":0}}\n{}\n", lines.join("\n"));
        let path = directory.write("a.json", &text);
        let batches = query(&format!("SELECT * FROM read_json('{path}')")).await;
        let batches = batches.unwrap_or_else(|error| panic!("round {round}: {error}\n{text}"));
        let read: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(read, count + 1, "round {round}\n{text}");
    }
    let path = directory.write("b.json", "{\"a\":{\"x\":1}}\n{\"a\":5}\n{\"a\":\"t\"}\n{\"a\":null}\n");
    let sql = format!("SELECT * FROM read_json('{path}')");
    assert_eq!(select(&sql).await, "{\"x\":1} 5 \"t\" NULL");
    assert_eq!(types(&query(&sql).await.unwrap()), "JSON");
    let path = directory.write("c.json", "{\"a\":[1,\"x\",{\"z\":1}]}\n");
    let sql = format!("SELECT * FROM read_json('{path}')");
    assert_eq!(types(&query(&sql).await.unwrap()), "JSON[]");
    assert_eq!(select(&sql).await, "[1, \"x\", {\"z\":1}]");
}

#[tokio::test]
async fn numbers_of_json_keep_their_digits() {
    let directory = TestDirectory::new("digits");
    let read = |path: &str| format!("SELECT * FROM read_json('{path}')");
    let path = directory.write("a.json", "{\"k\":{\"b\": 1, \"a\":2}}\n{\"k\":12345678901234567890123}\n");
    assert_eq!(select(&read(&path)).await, "{\"b\":1,\"a\":2} 12345678901234567890123");
    let path = directory.write("b.json", "{\"l\":[{\"x\":1},1.10]}\n{\"l\":[1e400]}\n");
    assert_eq!(select(&read(&path)).await, "[{\"x\":1}, 1.10] [1e400]");
    // Numbers that DOUBLE has not are text.
    let path = directory.write("c.json", "{\"k\":1e400,\"i\":1}\n{\"k\":2,\"i\":2}\n");
    assert_eq!(select(&read(&path)).await, "1e400|1 2|2");
    let path = directory.write("d.json", "{\"k\":\"2025-01-01T00:00:00Z\"}\n{\"k\":1e400}\n");
    assert_eq!(select(&read(&path)).await, "2025-01-01T00:00:00Z 1e400");
    // Those of other types are errors.
    for of in ["DOUBLE", "REAL", "TIMESTAMP", "BIGINT"] {
        let path = directory.write("e.json", "{\"i\":1,\"k\":null}\n{\"i\":2,\"k\":1e400}\n");
        let columns = format!("columns => {{'i': 'BIGINT', 'k': '{of}'}}");
        let error = failure(&format!("SELECT * FROM read_json('{path}', {columns})")).await;
        assert!(error.contains("line 2, column 2 (\"k\"): cannot read 1e400 as"), "{error}");
    }
    let path = directory.write("f.json", "{\"k\":\"inf\"}\n{\"k\":1}\n");
    let sql = format!("SELECT * FROM read_json('{path}', columns => {{'k': 'DOUBLE'}})");
    assert_eq!(query(&sql).await.unwrap().len(), 1);
}

#[tokio::test]
async fn encodings_are_read_and_nul_is_refused() {
    let directory = TestDirectory::new("encodings");
    let text = "n,s\n1,é€😀\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked: Vec<u8> = [0xFF, 0xFE].into_iter().chain(utf16.iter().copied()).collect();
    let path = directory.write("a.csv", &marked);
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}')")).await, "1|é€😀");
    let path = directory.write("b.csv", &utf16);
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}', encoding => 'utf-16')")).await, "1|é€😀");
    let error = failure(&format!("SELECT * FROM read_csv('{path}')")).await;
    assert!(error.contains("NUL") && error.contains("encoding"), "{error}");
    for damaged in [&b"\xFF\xFEa\0\n\0\x00\xD8x\0\n\0"[..], b"\xFF\xFEa\0\n\0x\0y"] {
        let path = directory.write("e.csv", damaged);
        let error = failure(&format!("SELECT * FROM read_csv('{path}', header => true)")).await;
        assert!(error.contains("line 2, column 1 (\"a\"): is not valid UTF-8 or UTF-16"), "{error}");
    }
    let path = directory.write("c.csv", b"n,s\n1,caf\xE9\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}', encoding => 'latin-1')")).await, "1|café");
    let error = failure(&format!("SELECT * FROM read_csv('{path}', encoding => 'ebcdic')")).await;
    assert!(error.contains("takes utf-8, utf-16"), "{error}");
    let json: Vec<u8> = "\u{FEFF}{\"s\":\"é\"}\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let path = directory.write("d.json", &json);
    assert_eq!(select(&format!("SELECT * FROM read_json('{path}')")).await, "é");
    let (read, _) =
        import(&directory.path("a.csv"), &[("n", DataType::Int64), ("s", DataType::Utf8View)], &[])
            .await
            .unwrap();
    assert_eq!(read, "1|é€😀");
}

#[tokio::test]
async fn forms_of_dates_and_numbers_are_detected_or_given() {
    let directory = TestDirectory::new("forms");
    let read = |text: &str, options: &str| {
        let path = directory.write("a.csv", text);
        format!("SELECT * FROM read_csv('{path}'{options})")
    };
    for (text, options, expected_types, expected) in [
        (
            "d,t\n31.12.2025,10:00\n1.2.2026,23:59\n",
            "",
            "DATE TIME",
            "2025-12-31|10:00:00 2026-02-01|23:59:00",
        ),
        ("d\n31/12/2025\n01/02/2026\n", "", "DATE", "2025-12-31 2026-02-01"),
        ("d\n12/31/2025\n01/02/2026\n", "", "DATE", "2025-12-31 2026-01-02"),
        ("d,x\n01/02/2026,1\n", "", "VARCHAR BIGINT", "01/02/2026|1"),
        ("d\n01/02/2026\n", ", dateformat => '%d/%m/%Y'", "DATE", "2026-02-01"),
        ("d\n2026/02/01 10:30\n", "", "TIMESTAMP", "2026-02-01T10:30:00"),
        (
            "t\n10:30 01.02.2026\n",
            ", timestampformat => '%H:%M %d.%m.%Y'",
            "TIMESTAMP",
            "2026-02-01T10:30:00",
        ),
        ("n;m\n1,5;2\n-3;4,25\n", ", decimal_separator => ','", "DOUBLE DOUBLE", "1.5|2.0 -3.0|4.25"),
        ("n\n1.5\n", ", decimal_separator => ',', header => true", "VARCHAR", "1.5"),
        ("a, b\n1, 2\n", "", "BIGINT BIGINT", "1|2"),
        (
            "n\n1234567890123456789012345678901234567890\n",
            "",
            "VARCHAR",
            "1234567890123456789012345678901234567890",
        ),
    ] {
        let sql = read(text, options);
        let batches = query(&sql).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((types(&batches).as_str(), rows(&batches).as_str()), (expected_types, expected), "{text}");
    }
    let sql = read("First Name,2nd-Value\nx,1\n", ", normalize_names => true");
    let batches = query(&sql).await.unwrap();
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["first_name", "_2nd_value"]);
    let path = directory.write("b.csv", "31.12.2025,1.5\n1.2.2026,2\n");
    let target = [("d", DataType::Date32), ("n", DataType::Float64)];
    assert_eq!(import(&path, &target, &[]).await.unwrap().0, "2025-12-31|1.5 2026-02-01|2.0");
    let error = failure(&read("a\n1\n", ", dateformat => 'xyz'")).await;
    assert!(error.contains("a pattern such as"), "{error}");
    let error = failure(&read("a\n1\n", ", rejects_table => 'bad'")).await;
    assert!(error.contains("a query writes no rejects_table"), "{error}");
}

#[tokio::test]
async fn an_empty_line_is_the_null_of_a_lone_column() {
    let directory = TestDirectory::new("lone");
    let path = directory.write("a.csv", "n\r\n1\r\n\r\n\"\"\r\n3\r\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}')")).await, "1 NULL NULL 3");
    let path = directory.write("b.csv", "n,m\n\n1,2\n\n");
    assert_eq!(select(&format!("SELECT * FROM read_csv('{path}')")).await, "1|2");
}

#[tokio::test]
async fn what_is_no_text_is_told_by_what_it_is() {
    let directory = TestDirectory::new("no_texts");
    for (bytes, what) in [
        (&b"PAR1\x15\x04\x15\0\x15"[..], "is a Parquet file; read it with read_parquet"),
        (b"ARROW1\0\0\xFF\xFF\xFF\xFF", "is an Arrow file; read it with read_arrow"),
        (b"\x1F\x8B\x08\0\0\0", "give the option compression 'gzip'"),
        (b"PK\x03\x04\x14\0", "is a ZIP archive"),
    ] {
        for (name, function) in [("a.csv", "read_csv"), ("a.json", "read_json")] {
            let path = directory.write(name, bytes);
            let error = failure(&format!("SELECT * FROM {function}('{path}')")).await;
            assert!(error.contains(what), "{error}");
        }
    }
    let path = directory.write("b.csv", "PAR1,b\n1,2\n");
    assert_eq!(select(&format!("SELECT \"PAR1\" FROM read_csv('{path}')")).await, "1");
    for (text, why) in [
        ("{'a':1}\n", "has no JSON object: '{'a':1}' is not valid JSON: "),
        ("[1, 2]\n", "has no JSON object: values that are no objects are no rows"),
    ] {
        let path = directory.write("c.json", text);
        let error = failure(&format!("SELECT * FROM read_json('{path}')")).await;
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn moments_without_seconds_are_moments() {
    let directory = TestDirectory::new("without_seconds");
    let path = directory.write("a.csv", "a\n2026-01-01 10:00\n2026-01-02T11:30\n");
    let read = format!("SELECT count(*) FROM read_csv('{path}') WHERE a = TIMESTAMP '2026-01-02 11:30:00'");
    assert_eq!(select(&read).await, "1");
    let other = format!("SELECT count(*) FROM read_csv('{path}') WHERE date_part('minute', a) = 30");
    assert_eq!(select(&other).await, "1");
}
