//! Tests the texts of errors. Among hundreds of wrong statements, none shows a syntax tree, a type
//! by its name in the engine's libraries, or the libraries themselves. The errors know their place
//! in the statement.

use hypostyle::{Connection, Database, ErrorKind, OpenOptions};

/// Words that only the libraries' programmers know.
const FOREIGN: [&str; 33] = [
    "{ value:",
    "Ident {",
    "span:",
    "Span(",
    "ObjectName(",
    "BinaryOp",
    "ValueWithSpan",
    "quote_style",
    "Utf8",
    "Binary(",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Float32",
    "Float64",
    "Date32",
    "Decimal128",
    "Timestamp(",
    "Interval(",
    "MonthDayNano",
    "List(",
    "UserDefined",
    "Coercible",
    "Variadic",
    "TypeSignature",
    "Signature",
    "DataFusion",
    "Arrow",
    "This issue was likely",
    "ScalarValue",
    "ScalarFunction",
    "LogicalPlan",
];

/// Values of many types.
const VALUES: [&str; 14] = [
    "1",
    "'a'",
    "1.5",
    "2.5::DOUBLE",
    "true",
    "NULL",
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 00:00:00'",
    "INTERVAL '1 day'",
    "[1, 2]",
    "['a']",
    "{'a': 1}",
    "MAP(['k'], [1])",
    "'ab'::BLOB",
];

const OPERATORS: [&str; 14] =
    ["+", "-", "*", "/", "%", "||", "=", "<", "AND", "LIKE", "IS DISTINCT FROM", "&", "<<", "~"];

const FUNCTIONS: [&str; 38] = [
    "abs",
    "sqrt",
    "round",
    "length",
    "upper",
    "substr",
    "replace",
    "lpad",
    "concat_ws",
    "date_trunc",
    "date_part",
    "to_timestamp",
    "make_date",
    "coalesce",
    "nullif",
    "greatest",
    "sum",
    "avg",
    "min",
    "max",
    "count",
    "stddev",
    "string_agg",
    "array_agg",
    "median",
    "bool_and",
    "array_length",
    "array_slice",
    "list_sort",
    "array_append",
    "row_number",
    "lag",
    "first_value",
    "generate_series",
    "regexp_replace",
    "json_get_str",
    "to_char",
    "nosuch",
];

/// Statements that are wrong in other ways.
const WRONG: [&str; 66] = [
    "SELEC 1",
    "SELECT 1 +",
    "SELECT (1",
    "SELECT 1 FROM",
    "SELECT * FROM t WHERE",
    "SELECT a FROM t GROUP BY",
    "SELECT a b c FROM t",
    "SELECT * FROM t ORDER a",
    "SELECT 'a",
    "SELECT \"a",
    "SELECT $$a",
    "SELECT 1 2",
    "SELECT a FROM t UNION SELECT a, b FROM t",
    "SELECT a FROM t UNION SELECT",
    "SELECT a, sum(b) FROM t",
    "SELECT *, sum(b) FROM t GROUP BY a",
    "SELECT sum(sum(b)) FROM t",
    "SELECT a FROM t WHERE sum(b) > 1",
    "SELECT a FROM t GROUP BY sum(b)",
    "SELECT a FROM t HAVING b > 1",
    "SELECT row_number() FROM t",
    "SELECT sum(a) OVER (PARTITION BY row_number() OVER ()) FROM t",
    "SELECT a FROM t WHERE row_number() OVER () > 1",
    "SELECT nosuch FROM t",
    "SELECT t.nosuch FROM t",
    "SELECT u.a FROM t",
    "SELECT a FROM t, t AS u",
    "SELECT * FROM nosuch",
    "SELECT * FROM main.nosuch",
    "SELECT * FROM nosuch.t",
    "SELECT * FROM t JOIN t AS u USING (nosuch)",
    "SELECT * FROM t JOIN t AS u ON a",
    "SELECT * FROM t JOIN t AS u ON t.a = u.s",
    "SELECT * FROM t AS x (p, q, r, s, t, u)",
    "SELECT (SELECT a, b FROM t)",
    "SELECT a IN (SELECT a, b FROM t) FROM t",
    "SELECT EXISTS (1)",
    "SELECT CASE WHEN 1 THEN 2 END",
    "SELECT CASE a WHEN 'x' THEN DATE '2020-01-01' ELSE [1] END FROM t",
    "SELECT CAST(1 AS nosuch)",
    "SELECT CAST([1] AS DATE)",
    "SELECT 'abc' BETWEEN 20 AND true",
    "SELECT a FROM t LIMIT 'x'",
    "SELECT a FROM t LIMIT -1",
    "SELECT a FROM t LIMIT a",
    "SELECT a FROM t ORDER BY 7",
    "SELECT a FROM t GROUP BY 7",
    "SELECT DISTINCT ON (a) FROM t",
    "SELECT INTERVAL '1' nosuch",
    "SELECT EXTRACT(nosuch FROM DATE '2020-01-01')",
    "SELECT s.nosuch.more FROM t",
    "SELECT s[1][2] FROM t",
    "SELECT [1, 'a', DATE '2020-01-01']",
    "SELECT [1, 2][1:2:9223372036854775807]",
    "SELECT a FROM t TABLESAMPLE nosuch (1)",
    "SELECT * EXCLUDE (nosuch) FROM t",
    "SELECT count(* EXCLUDE (a)) FROM t",
    "SELECT * FROM unnest(1)",
    "SELECT unnest(a) FROM t",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t (a, nosuch) VALUES (1, 2)",
    "INSERT INTO t SELECT 1",
    "UPDATE t SET nosuch = 1",
    "DELETE FROM t WHERE nosuch = 1",
    "WITH q AS (SELECT 1) SELECT * FROM r",
    "WITH RECURSIVE q AS (SELECT 1 UNION ALL SELECT 'a' FROM q) SELECT * FROM q",
];

fn connection() -> Connection {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE t (a INTEGER, b DOUBLE, s VARCHAR, d DATE, l INTEGER[])").unwrap();
    connection
}

#[test]
fn no_message_shows_what_only_programmers_of_libraries_know() {
    let connection = connection();
    let mut statements: Vec<String> = WRONG.iter().map(ToString::to_string).collect();
    for function in FUNCTIONS {
        statements.push(format!("SELECT {function}()"));
        for value in VALUES {
            statements.push(format!("SELECT {function}({value})"));
            statements.push(format!("SELECT {function}({value}, 'x', [1])"));
        }
        statements.push(format!("SELECT {function}(1, 2, 3, 4, 5, 6)"));
    }
    for operator in OPERATORS {
        for (index, left) in VALUES.iter().enumerate() {
            let right = VALUES[(index * 5 + operator.len()) % VALUES.len()];
            statements.push(format!("SELECT {left} {operator} {right}"));
            statements.push(format!("SELECT a {operator} {left} FROM t"));
        }
    }
    let mut errors = 0;
    let mut wrong = Vec::new();
    for sql in &statements {
        let Err(error) = connection.execute(sql).and_then(|result| result.row_count()) else { continue };
        errors += 1;
        let message = error.message();
        let foreign = FOREIGN.iter().find(|word| message.contains(**word));
        if foreign.is_some() || error.kind() == ErrorKind::Internal {
            wrong.push(format!("{sql}: {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {errors}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(errors > 600, "only {errors}");
}

#[test]
fn errors_know_where_in_the_statement_they_are() {
    let connection = connection();
    // The place is that of the bar, which is not part of the statement.
    for marked in [
        "SELECT a, |nosuch FROM t",
        "SELECT a FROM t WHERE a > 1 AND |nosuch = 2",
        "SELECT 'größe 大', |nosuch FROM t",
        "SELECT a\nFROM t\nWHERE |nosuch = 1",
        "SELECT t.|nosuch FROM t",
        "SELECT a FROM t ORDER BY |nosuch",
        "SELECT a, (SELECT max(|nosuch) FROM t) FROM t",
        "SELECT |a FROM t, t AS u",
        "SELECT t.a, |a FROM t, t AS u",
        "SELECT * FROM |nosuch",
        "SELECT * FROM t JOIN |nosuch ON true",
        "SELECT * FROM main.|nosuch",
        "SELECT |nosuch(1)",
        "SELECT a, |nosuch(a) FROM t",
        "|SELEC 1",
        "SELECT a FROM t WHERE group |BY a",
        "SELECT (1|",
        "SELECT 1; SELECT |nosuch",
        "SELECT 'ö';\n SELECT a, |nosuch FROM t",
        "INSERT INTO t (a, |nosuch) VALUES (1, 2)",
        "INSERT INTO |nosuch VALUES (1)",
        "UPDATE t SET |nosuch = 1",
        "UPDATE t SET a = |nosuch",
        "DELETE FROM t WHERE |nosuch = 1",
        "SELECT a FROM t WHERE 12345678901234567890123 = 1 AND |nosuch = 2",
        "SELECT count(*) OVER (|w ORDER BY a) FROM t",
        "EXPLAIN SELECT |nosuch FROM t",
    ] {
        let (before, after) = marked.split_once('|').unwrap();
        let sql = format!("{before}{after}");
        let error = match connection.execute(&sql).and_then(|result| result.row_count()) {
            Ok(rows) => panic!("{sql} gave {rows} rows"),
            Err(error) => error,
        };
        assert_eq!(error.position(), Some(before.chars().count() + 1), "{sql}: {error:?}");
        let excerpt = error.excerpt(&sql).unwrap();
        assert!(excerpt.starts_with("LINE ") && excerpt.ends_with('^'), "{excerpt}");
    }
    let error = connection.execute("SELECT 1 / 0").and_then(|result| result.row_count()).unwrap_err();
    assert_eq!(error.position(), None);
}
