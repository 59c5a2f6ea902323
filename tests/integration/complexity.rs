//! No statement ends the process or runs without an end, however often it repeats what the grammar
//! allows. Each gives an answer, and the session stays usable.

use crate::backup::rows;
use hypostyle::{Connection, Database, Error, ErrorKind, OpenOptions, Poll};
use std::time::{Duration, Instant};

/// The time after which a statement is asked to end, and after which one that has not ended then
/// counts as hung.
const PATIENCE: Duration = Duration::from_millis(200);
const HUNG: Duration = Duration::from_secs(30);

/// A statement's text before the repetitions, the texts that are repeated before and after the
/// middle, the middle, and the text after them.
type Construct = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// The texts around an operand.
const OPERANDS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("(", "1", ""),
    ("- ", "1", ""),
    ("+ ", "1", ""),
    ("~ ", "1", ""),
    ("@ ", "1", ""),
    ("! ", "true", ""),
    ("NOT ", "true", ""),
    ("NOT (", "true", ")"),
    ("NOT (", "1 1", ")"),
    ("CAST(", "1", " AS INT)"),
    ("CAST(", "1", ")"),
    ("TRY_CAST(", "1", " AS INT)"),
    ("TRY_CAST(", "1", ")"),
    ("CONVERT(", "1", ")"),
    ("POSITION(", "'a'", " IN 'a')"),
    ("POSITION(", "1", ")"),
    ("SUBSTRING(", "'abc'", " FROM 1)"),
    ("OVERLAY(", "'a'", " PLACING 'a' FROM 1)"),
    ("OVERLAY(", "1", ")"),
    ("TRIM(", "'a'", ")"),
    ("EXTRACT(DAY FROM ", "DATE '2000-01-01'", ")"),
    ("CEIL(", "1", ")"),
    ("CURRENT_TIMESTAMP(", "1 1", ")"),
    ("abs(", "1", ")"),
    ("abs(", "1 1", ")"),
    ("coalesce(", "1", ", 2)"),
    ("coalesce(1, ", "2", ")"),
    ("nvl(", "1", ", 2)"),
    ("nvl2(", "1", ", 2, 3)"),
    ("nullif(", "1", ", 2)"),
    ("ifnull(", "1", ", 2)"),
    ("greatest(", "1", ", 2)"),
    ("concat(", "'a'", ", 'b')"),
    ("replace(", "'a'", ", 'b', 'c')"),
    ("regexp_extract(", "'a'", ", 'a')"),
    ("list_sort(", "[1]", ", 'DESC')"),
    ("date_trunc('day', ", "TIMESTAMPTZ '2000-01-01'", ", 'UTC')"),
    ("round(", "1.5", ", 1)"),
    ("power(", "1", ", 1)"),
    ("log(", "1", ")"),
    ("struct(", "1", ")"),
    ("row(", "1", ")"),
    ("char_length(", "'a'", ")"),
    ("list_transform(", "[1]", ", x -> x)"),
    ("(1, ", "1", ")"),
    ("[", "1", "]"),
    ("ARRAY[", "1", "]"),
    ("ARRAY[", "1 1", "]"),
    ("{'a': ", "1", "}"),
    ("MAP {'a': ", "1", "}"),
    ("CASE WHEN true THEN ", "1", " END"),
    ("CASE WHEN true THEN 1 ELSE ", "1", " END"),
    ("CASE ", "1", " WHEN 1 THEN 2 END"),
    ("CASE WHEN true THEN ", "1 1", " END"),
    ("CASE ", "1", ""),
    ("(SELECT ", "1", ")"),
    ("(SELECT ", "1 1 1", ")"),
    ("(SELECT a FROM t WHERE a = ", "1", ")"),
    ("EXISTS (SELECT ", "1", ")"),
    ("1 IN (", "1", ")"),
    ("1 IN (SELECT ", "1", ")"),
    ("1 = ANY (SELECT ", "1", ")"),
    ("1 = ANY (", "[1]", ")"),
    ("INTERVAL ", "'1'", ""),
    ("DATE ", "'2000-01-01'", ""),
    ("x -> ", "x", ""),
    ("(x, y) -> (", "1 1", ")"),
    ("PRIOR ", "1", ""),
    ("BINARY ", "1", ""),
    ("sum(", "1", ") OVER ()"),
    ("sum(1) FILTER (WHERE ", "true", ")"),
    ("f(a => ", "1", ")"),
    ("{fn abs(", "1", ")}"),
    ("(1 ", "+ 1", " + 1)"),
    ("1 BETWEEN (", "1", ") AND 2"),
    ("(", "1", " BETWEEN 0 AND 1)"),
    ("(", "1", " IN (1, 2))"),
    ("(", "1", ", 2) = (1, 2)"),
    ("(", "1", ")::INT"),
    ("(", "'{}'", " -> 'a')"),
    ("('{}' -> ", "'a'", ")"),
    ("upper(", "'{}'", " ->> 'a')"),
];

/// The texts after an operand.
const OPERATORS: &[(&str, &str)] = &[
    ("1", " + 1"),
    ("1", " - 1"),
    ("1", " * 1"),
    ("1.5", " / 1.5"),
    ("1", " % 1"),
    ("2", " ^ 1"),
    ("1", " & 1"),
    ("1", " << 0"),
    ("'a'", " || 'a'"),
    ("true", " AND true"),
    ("true", " OR false"),
    ("true", " OR false AND true"),
    ("true", " XOR false"),
    ("1", " = 1"),
    ("1", " < 1"),
    ("1", " IS NULL"),
    ("1", " IS DISTINCT FROM 1"),
    ("true", " IS TRUE"),
    ("1", " IN (1)"),
    ("1", " IN (1, 2)"),
    ("1", " NOT IN (1)"),
    ("1", " BETWEEN 0 AND 1"),
    ("1", " BETWEEN SYMMETRIC 0 AND 1"),
    ("'a'", " LIKE 'a'"),
    ("'a'", " ILIKE 'a' ESCAPE '!'"),
    ("'a'", " SIMILAR TO 'a'"),
    ("'a'", " REGEXP 'a'"),
    ("'a'", " ~ 'a'"),
    ("'a'", " COLLATE \"C\""),
    ("1", "::INT"),
    ("1", "::INT::TEXT"),
    ("'{}'", " -> 'a'"),
    ("'{}'", " ->> 'a'"),
    ("'{}'", " #> '{a}'"),
    ("[1]", "[1]"),
    ("[1]", "[1:1]"),
    ("l", "[1][1]"),
    ("a", ".a"),
    ("now()", " AT TIME ZONE 'UTC'"),
    ("1", " MEMBER OF (1)"),
    ("1", " OPERATOR(pg_catalog.+) 1"),
    ("1", " OVERLAPS 1"),
    ("abs(1)", "(1)"),
    ("1", " AS a"),
    ("1", ", 1"),
    ("1", " a, 1"),
    ("'a'", " 'b'"),
    ("*", " EXCEPT (a)"),
    ("CASE", " WHEN true THEN 1"),
    ("CASE 1", " WHEN 1 THEN 1"),
    ("1", " /*"),
    ("1", " /* */"),
    ("1", " --"),
    ("1", "\n"),
    ("1", ";"),
    ("1", " UNION SELECT 1"),
    ("1", " UNION ALL SELECT 1"),
    ("1", " EXCEPT SELECT 1"),
    ("1", " INTERSECT ALL SELECT 1"),
    ("1", " UNION SELECT 1, 2"),
    ("1", " FROM t WHERE true"),
    ("1 FROM t", ", t"),
    ("1 FROM t", ", (SELECT 1)"),
    ("1 FROM t", " JOIN t ON true"),
    ("1 FROM t", " CROSS JOIN t"),
    ("1 FROM t", " NATURAL JOIN t"),
    ("1 FROM t", " LEFT JOIN t USING (a)"),
    ("1 FROM t", " PIVOT(sum(a) FOR a IN (1))"),
    ("1 FROM t", " UNPIVOT(b FOR c IN (a))"),
    ("1 FROM t", " TABLESAMPLE (1)"),
    ("1 FROM t ORDER BY a", ", a"),
    ("1 FROM t GROUP BY a", ", a"),
    ("1 FROM t GROUP BY a", ", CUBE (a)"),
    ("1 FROM t GROUP BY GROUPING SETS ((a)", ", (a)"),
    ("1 FROM t GROUP BY CUBE (a", ", a"),
    ("1 FROM t GROUP BY ROLLUP (a", ", a"),
    ("a FROM t WHERE a IN (1", ", 1"),
    ("coalesce(1", ", 1"),
    ("concat('a'", ", 'a'"),
    ("[1", ", 1"),
    ("{'a': 1", ", 'a': 1"),
    ("sum(a) OVER (ORDER BY a", ", a"),
    ("1 FROM t WINDOW w AS ()", ", w AS ()"),
];

/// Types, relations, queries and whole statements.
const OTHERS: &[Construct] = &[
    ("SELECT CAST(NULL AS ", "STRUCT(a ", "INT", ")", ")"),
    ("SELECT CAST(NULL AS ", "STRUCT(a ", "INT x y", ")", ")"),
    ("SELECT CAST(NULL AS ", "STRUCT<a ", "INT", ">", ")"),
    ("SELECT CAST(NULL AS ", "MAP(INT, ", "INT", ")", ")"),
    ("SELECT CAST(NULL AS ", "ARRAY<", "INT", ">", ")"),
    ("SELECT CAST(NULL AS INT", "[]", "", "", ")"),
    ("SELECT CAST(NULL AS ", "Nullable(", "INT", ")", ")"),
    ("SELECT CAST(NULL AS STRUCT(a INT", ", a INT", "", "", "))"),
    ("CREATE TABLE x (a ", "STRUCT(a ", "INT", ")", ")"),
    ("CREATE TABLE x (a INT", ", a INT", "", "", ")"),
    ("CREATE TABLE x (a INT ", "CHECK (a > 0) ", "", "", ")"),
    ("CREATE TABLE x (a INT DEFAULT ", "(", "1", ")", ")"),
    ("CREATE TABLE x (a INT CHECK (a > ", "1 + ", "1", "", "))"),
    ("CREATE TABLE x (a INT, b INT GENERATED ALWAYS AS (a", " + 1", "", "", ") STORED)"),
    ("SELECT * FROM ", "(", "t", ")", ""),
    ("SELECT * FROM ", "(", "t x y z", ")", ""),
    ("SELECT * FROM ", "(t JOIN ", "t", " ON true)", ""),
    ("SELECT * FROM ", "t JOIN ", "t", " ON true", ""),
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ")", ""),
    ("SELECT * FROM ", "(SELECT a + a AS a FROM ", "t", ")", " WHERE a > 1"),
    ("SELECT * FROM ", "(SELECT 1 FROM ", "t x y z", ")", ""),
    ("SELECT * FROM ", "((SELECT 1 FROM ", "t x y z", ") UNION SELECT 1)", ""),
    ("SELECT * FROM ", "(FROM ", "t", ")", ""),
    ("SELECT * FROM ", "(VALUES ", "(1)", ")", ""),
    ("SELECT * FROM ", "(TABLE ", "t", ")", ""),
    ("SELECT * FROM ", "LATERAL (SELECT * FROM ", "t", ")", ""),
    ("SELECT * FROM ", "unnest(", "[1]", ")", ""),
    ("SELECT ", "unnest(", "[1]", ")", ""),
    ("", "SELECT 1 UNION (", "SELECT 1", ")", ""),
    ("", "(", "SELECT 1", ")", ""),
    ("", "(", "SELECT 1 1 1", ")", ""),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1", ""),
    ("", "WITH a AS (", "SELECT 1 1 1", ") SELECT 1", ""),
    ("", "WITH RECURSIVE a AS (SELECT 1 UNION ALL ", "SELECT 1", ") SELECT 1", ""),
    ("WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " SELECT 1", "", ""),
    ("", "EXPLAIN ", "SELECT 1", "", ""),
    ("", "EXPLAIN ANALYZE ", "SELECT 1", "", ""),
    ("", "DESCRIBE ", "SELECT 1", "", ""),
    ("", "SUMMARIZE ", "SELECT 1", "", ""),
    ("", "PREPARE a AS ", "SELECT 1", "", ""),
    ("", "INSERT INTO t ", "SELECT 1", "", ""),
    ("", "CREATE VIEW v AS ", "SELECT 1", "", ""),
    ("CREATE OR REPLACE VIEW v AS SELECT ", "1 + ", "1", "", ""),
    ("", "CREATE TABLE x AS ", "SELECT 1", "", ""),
    ("", "BEGIN ", "SELECT 1", " END", ""),
    ("", "IF 1 THEN ", "SELECT 1", " END IF", ""),
    ("", "CALL f(", "1", ")", ""),
    ("", "DECLARE c CURSOR FOR ", "SELECT 1", "", ""),
    ("SET x = ", "(", "1", ")", ""),
    ("COPY (SELECT ", "(", "1", ")", ") TO '/dev/null' (FORMAT csv)"),
    ("COPY ", "(", "SELECT 1", ")", " TO '/dev/null' (FORMAT csv)"),
    ("VALUES ", "(", "1", ")", ""),
    ("VALUES (1)", ", (1)", "", "", ""),
    ("VALUES (1", ", 1", "", "", ")"),
    ("INSERT INTO t VALUES (1)", ", (1)", "", "", ""),
    ("INSERT INTO t VALUES (", "1 + ", "1", "", ")"),
    ("INSERT INTO t VALUES (1) RETURNING ", "(", "a", ")", ""),
    ("UPDATE t SET a = ", "(", "1", ")", ""),
    ("UPDATE t SET a = 1", ", a = 1", "", "", ""),
    ("DELETE FROM t WHERE ", "NOT ", "true", "", ""),
    ("MERGE INTO t USING t AS s ON ", "(", "true", ")", " WHEN MATCHED THEN DELETE"),
    ("MERGE INTO t USING t AS s ON true", " WHEN MATCHED THEN DELETE", "", "", ""),
    ("EXECUTE p (", "(", "1", ")", ")"),
    ("x", " x", "", "", ""),
    ("", "/*", "", "*/", "SELECT 1"),
    ("SELECT '", "a", "", "", "'"),
    ("SELECT ", "\"", "a", "", ""),
    ("SELECT ", "$a$", "", "", ""),
    ("SELECT ", "''", "", "", ""),
    ("SELECT ", "E'\\'", "", "", ""),
];

fn constructs() -> Vec<Construct> {
    let operands = OPERANDS.iter().map(|(open, middle, close)| ("SELECT ", *open, *middle, *close, ""));
    let operators = OPERATORS.iter().flat_map(|(operand, operator)| {
        // The parenthesis that the operand has opened is closed.
        let end = if operand.contains('(') && !operand.contains(')') || operand.contains("SETS") {
            ")"
        } else {
            ""
        };
        let end = if operand.starts_with("CASE") { " END" } else { end };
        [("SELECT ", "", *operand, *operator, end)]
    });
    operands.chain(operators).chain(OTHERS.iter().copied()).collect()
}

fn statement((before, open, middle, close, after): Construct, count: usize) -> String {
    format!("{before}{}{middle}{}{after}", open.repeat(count), close.repeat(count))
}

/// Runs a statement, which is asked to end when it takes long.
fn run(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.set_poll(Some(std::sync::Arc::new(|progress| match progress.elapsed > PATIENCE {
        true => Poll::Interrupt,
        false => Poll::Continue,
    })));
    let answer = connection.execute(sql).and_then(|result| result.row_count()).map(drop);
    connection.set_poll(None);
    answer
}

/// Runs a test on a thread with as small a stack as any program's thread has.
fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    on_stack(2 << 20, test);
}

fn on_stack(bytes: usize, test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(bytes).spawn(test).unwrap().join().unwrap();
}

fn connection() -> Connection {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").unwrap();
    connection
}

/// Checks that a statement gives any answer in time, and that the session is as before.
fn check(connection: &Connection, sql: &str) {
    let shown = || format!("{} bytes of {}", sql.len(), &sql[..sql.floor_char_boundary(60)]);
    let mut tries = 0;
    loop {
        let started = Instant::now();
        let answer = run(connection, sql);
        assert!(started.elapsed() < HUNG, "{} took {:?}", shown(), started.elapsed());
        if std::env::var_os("HYPOSTYLE_TEST_SHOW").is_some() {
            let told = answer
                .as_ref()
                .map_or_else(|error| format!("{} {error}", error.sqlstate()), |()| "rows".into());
            eprintln!("{:?}\t{}\t{}", started.elapsed(), shown(), &told[..told.floor_char_boundary(100)]);
        }
        match answer {
            // Abandoned plans may still be running.
            Err(error) if error.sqlstate() == "53000" && tries < 600 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Internal, "{}: {error}", shown());
                break;
            }
            Ok(()) => break,
        }
    }
    let _closed = connection.execute("ROLLBACK");
    assert!(rows(connection, "SELECT 1").contains("| 1 "), "{}", shown());
    let restore = "DROP TABLE IF EXISTS x; DROP VIEW IF EXISTS v; DEALLOCATE ALL; DELETE FROM t; INSERT INTO t VALUES (1)";
    while let Err(error) = connection.execute(restore) {
        assert!(error.sqlstate() == "53000" && tries < 600, "after {}: {error}", shown());
        tries += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The second time a short query runs on its caller's stack, if that has room for the text.
#[test]
fn short_queries_that_are_known_fit_the_stacks_of_small_threads() {
    for kibibytes in [448, 896] {
        let connection = connection();
        on_stack(kibibytes << 10, move || {
            for (construct, count) in
                constructs().into_iter().flat_map(|construct| [(construct, 2), (construct, 25)])
            {
                let sql = statement(construct, count);
                if sql.len() > 512 || !sql.starts_with("SELECT") {
                    continue;
                }
                for _ in 0..3 {
                    if let Err(error) = run(&connection, &sql) {
                        assert_ne!(error.kind(), ErrorKind::Internal, "{sql}: {error}");
                    }
                }
            }
            assert!(rows(&connection, "SELECT 1").contains("| 1 "));
        });
    }
}

#[test]
fn every_construct_answers_however_often_it_is_repeated() {
    on_small_stack(|| {
        let connection = connection();
        let counts: &[usize] = match std::env::var("HYPOSTYLE_TEST_ROUNDS") {
            Ok(_) => &[3, 10, 15, 20, 30, 50, 100, 300, 1000, 1900, 3000, 10_000, 100_000, 1_000_000],
            Err(_) => &[15, 25, 150, 20_000],
        };
        for construct in constructs() {
            for count in counts {
                check(&connection, &statement(construct, *count));
            }
        }
    });
}
