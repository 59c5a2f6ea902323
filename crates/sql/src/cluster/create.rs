//! CREATE TABLE with a distribution.

use super::{ClusterStatement, Distribution, distribution};
use crate::cursor::{Cursor, blanked};
use crate::parse::{self, Extension};
use datafusion_sql::parser::Statement as DfStatement;
use hypostyle_types::{Error, Result};
use sqlparser::ast::Statement;

/// Reads CREATE TABLE with a distribution; `None` where a CREATE has none.
///
/// # Errors
/// `Syntax` at its place in the text, and what [`parse::parse`] gives for the rest.
pub(super) fn parse(sql: &str, extension: &Extension) -> Result<Option<ClusterStatement>> {
    let mut cursor = Cursor::skipping(sql, 1);
    if !find_clause(&mut cursor) {
        return Ok(None);
    }
    let start = cursor.start();
    let distribution = if cursor.take("REPLICATED") {
        Distribution::Replicated
    } else {
        cursor.expect(&["PARTITION", "BY"])?;
        distribution::parse(&mut cursor)?
    };
    let end = cursor.end_of_last();
    let is_last = cursor.peek().is_none_or(|token| token.is_symbol(";"));
    if !is_last && !cursor.is_at(&["AS"]) && !cursor.is_at(&["WITH"]) {
        return Err(cursor.unexpected("AS, WITH or the end of the statement"));
    }
    let plain = blanked(sql, start..end);
    let DfStatement::Statement(statement) = parse::parse(&plain, extension)? else {
        return Err(Error::internal("a CREATE TABLE is another statement without its distribution"));
    };
    let Statement::CreateTable(create) = *statement else {
        return Err(Error::internal("a CREATE TABLE is another statement without its distribution"));
    };
    if create.temporary {
        let why = "a temporary table is of one session and one node: it cannot be distributed";
        return Err(Error::unsupported(why).at(sql.get(..start).unwrap_or(sql).chars().count() + 1));
    }
    Ok(Some(ClusterStatement::CreateTable { create: Box::new(create), distribution }))
}

/// Goes to the words that begin a distribution: PARTITION BY before the query, or REPLICATED behind
/// the name or the columns. Says whether there are any.
fn find_clause(cursor: &mut Cursor<'_>) -> bool {
    let _replaces = cursor.take_all(&["OR", "REPLACE"]);
    let _scope = cursor.take("LOCAL") || cursor.take("GLOBAL");
    let _temporary = cursor.take("TEMPORARY") || cursor.take("TEMP");
    if !cursor.take("TABLE") {
        return false;
    }
    let _skips = cursor.take_all(&["IF", "NOT", "EXISTS"]);
    if cursor.table().is_err() {
        return false;
    }
    let (mut depth, mut may_be_replicated) = (0_usize, true);
    while let Some(token) = cursor.peek() {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 {
            if cursor.is_at(&["PARTITION", "BY"]) || may_be_replicated && cursor.is_at(&["REPLICATED"]) {
                return true;
            }
            if cursor.is_at(&["AS"]) || cursor.is_at(&["SELECT"]) {
                return false;
            }
        }
        may_be_replicated = token.is_symbol(")");
        cursor.next();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::Bound;
    use super::*;

    fn parsed(sql: &str) -> Option<(String, Distribution)> {
        match ClusterStatement::parse(sql, &Extension::NONE) {
            Ok(Some(ClusterStatement::CreateTable { create, distribution })) => {
                Some((create.to_string(), distribution))
            }
            Ok(None) => None,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn the_statement_and_the_distribution_are_told_apart() {
        let hash = |columns: &[&str], fragments, replicas| Distribution::Hash {
            columns: columns.iter().map(|column| (*column).into()).collect(),
            fragments,
            replicas,
        };
        for (sql, plain, distribution) in [
            (
                "create table t (a int, b text) partition by hash (a, B) into 32 fragments replicas 2;",
                "CREATE TABLE t (a INT, b TEXT)",
                hash(&["a", "b"], 32, 2),
            ),
            (
                "CREATE TABLE IF NOT EXISTS s.t (a INT) /* x */ PARTITION BY HASH (\"A b\") INTO 1 FRAGMENTS",
                "CREATE TABLE IF NOT EXISTS s.t (a INT)",
                hash(&["A b"], 1, 1),
            ),
            (
                "CREATE OR REPLACE TABLE t (a INT) PARTITION BY ROUND ROBIN INTO 4096 FRAGMENTS",
                "CREATE OR REPLACE TABLE t (a INT)",
                Distribution::RoundRobin { fragments: 4096, replicas: 1 },
            ),
            ("CREATE TABLE d (a INT) REPLICATED", "CREATE TABLE d (a INT)", Distribution::Replicated),
            (
                "CREATE TABLE t REPLICATED AS SELECT 1 AS a",
                "CREATE TABLE t AS SELECT 1 AS a",
                Distribution::Replicated,
            ),
            (
                "CREATE TABLE t PARTITION BY HASH (a) INTO 8 FRAGMENTS AS SELECT a, sum(b) OVER (PARTITION BY c) AS s FROM x",
                "CREATE TABLE t AS SELECT a, sum(b) OVER (PARTITION BY c) AS s FROM x",
                hash(&["a"], 8, 1),
            ),
            (
                "CREATE TABLE replicated (replicated INT, fragments INT, hash INT, PRIMARY KEY (hash)) REPLICATED",
                "CREATE TABLE replicated (replicated INT, fragments INT, hash INT, PRIMARY KEY (hash))",
                Distribution::Replicated,
            ),
            (
                "CREATE TABLE t (a INT) PARTITION BY HASH (a) INTO 2 FRAGMENTS WITH (fillfactor = 70)",
                "CREATE TABLE t (a INT) WITH (fillfactor = 70)",
                hash(&["a"], 2, 1),
            ),
        ] {
            assert_eq!(parsed(sql), Some((plain.into(), distribution)), "{sql}");
        }
    }

    #[test]
    fn ranges_have_literals_and_may_have_a_last_fragment() {
        let sql = "CREATE TABLE t (d DATE) PARTITION BY RANGE (D) (VALUES LESS THAN (DATE '2024-01-01'), \
                   VALUES LESS THAN (-1.5), values less than ('a)''b'), VALUES LESS THAN (CAST('1' AS DECIMAL(9, 2))), \
                   VALUES LESS THAN (MAXVALUE)) REPLICAS 3";
        let Some((_, Distribution::Range { column, bounds, replicas })) = parsed(sql) else {
            panic!("not a range")
        };
        let shown = |bound: &Bound| match bound {
            Bound::Value(value) => value.to_string(),
            Bound::MaxValue => "the rest".into(),
        };
        let bounds: Vec<String> = bounds.iter().map(shown).collect();
        assert_eq!((column.as_str(), replicas), ("d", 3));
        let expected = ["DATE '2024-01-01'", "-1.5", "'a)''b'", "CAST('1' AS DECIMAL(9,2))", "the rest"];
        assert_eq!(bounds, expected);
    }

    #[test]
    fn the_words_are_names_elsewhere() {
        for sql in [
            "CREATE TABLE replicated (a INT)",
            "CREATE TABLE s.replicated AS SELECT 1 AS a",
            "CREATE TABLE t (fragments INT, replicas INT, replicated INT, hash INT, cluster INT, nodes INT)",
            "CREATE TABLE t AS SELECT * FROM replicated",
            "CREATE TABLE t AS SELECT sum(a) OVER (PARTITION BY hash) AS s FROM fragments",
            "CREATE TABLE t (LIKE replicated)",
            "CREATE TABLE t LIKE replicated",
            "CREATE VIEW replicated AS SELECT 1 AS replicated",
            "CREATE INDEX replicated ON t (fragments)",
            "SHOW TABLES",
            "SHOW fragment",
            "SELECT cluster FROM fragments AS replicated",
            "ALTER TABLE cluster ADD COLUMN node INT",
            "ALTER",
            "",
        ] {
            assert_eq!(parsed(sql), None, "{sql}");
        }
        let query = "SELECT fragments.cluster AS replicated, hash FROM fragments, nodes AS round";
        assert!(parse::parse(query, &Extension::NONE).is_ok());
    }

    #[test]
    fn errors_say_what_was_expected_and_where() {
        for (clause, message) in [
            ("PARTITION BY^", "HASH, RANGE or ROUND ROBIN behind PARTITION BY was expected, not the end"),
            ("PARTITION BY ^LIST (a)", "was expected, not LIST"),
            ("PARTITION BY ^ROUND INTO 2 FRAGMENTS", "was expected, not ROUND"),
            ("PARTITION BY HASH ^INTO 2 FRAGMENTS", "( was expected, not INTO"),
            ("PARTITION BY HASH (^) INTO 2 FRAGMENTS", "the name of a column was expected, not )"),
            (
                "PARTITION BY HASH (a, b, ^A) INTO 2 FRAGMENTS",
                "the column \"a\" is in the partition key twice",
            ),
            ("PARTITION BY HASH (a ^b) INTO 2 FRAGMENTS", ") was expected, not b"),
            ("PARTITION BY HASH (a)^", "INTO was expected, not the end of the statement"),
            ("PARTITION BY HASH (a) INTO ^0 FRAGMENTS", "a whole number from 1 to 4096, not 0"),
            ("PARTITION BY HASH (a) INTO ^4097 FRAGMENTS", "a whole number from 1 to 4096, not 4097"),
            ("PARTITION BY HASH (a) INTO ^99999999999 FRAGMENTS", "not 99999999999"),
            ("PARTITION BY HASH (a) INTO ^1.5 FRAGMENTS", "not 1.5"),
            ("PARTITION BY HASH (a) INTO ^-1 FRAGMENTS", "the number of fragments was expected, not -"),
            ("PARTITION BY HASH (a) INTO ^many FRAGMENTS", "the number of fragments was expected, not many"),
            ("PARTITION BY HASH (a) INTO 2 ^PARTS", "FRAGMENTS was expected, not PARTS"),
            (
                "PARTITION BY HASH (a) INTO 2 FRAGMENTS REPLICAS ^0",
                "the number of replicas is a whole number",
            ),
            (
                "PARTITION BY HASH (a) INTO 2 FRAGMENTS ^REPLICA 2",
                "the end of the statement was expected, not REPLICA",
            ),
            ("PARTITION BY HASH (a) INTO 2 FRAGMENTS ^REPLICATED", "was expected, not REPLICATED"),
            ("REPLICATED ^REPLICAS 2", "was expected, not REPLICAS"),
            ("PARTITION BY RANGE (a^, b) (VALUES LESS THAN (1))", "RANGE is of one column"),
            (
                "PARTITION BY RANGE (a)^",
                "a list of bounds, (VALUES LESS THAN (10), VALUES LESS THAN (MAXVALUE)), was expected, not the end",
            ),
            ("PARTITION BY RANGE (a) (^)", "VALUES was expected, not )"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN ^1)", "( was expected, not 1"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (1^", ") was expected, not the end of the statement"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^))", "a bound is a literal or MAXVALUE"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^b))", "a bound is a literal or MAXVALUE; b is none"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^1 + 1))", "1 + 1 is none"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^$1))", "$1 is none"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^1, 2))", "a bound is a literal or MAXVALUE"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^1 b))", "a bound is a literal or MAXVALUE"),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (^NULL))", "NULL is in the fragment of MAXVALUE"),
            (
                "PARTITION BY RANGE (a) (VALUES LESS THAN (MAXVALUE), ^VALUES LESS THAN (MAXVALUE))",
                "no bound follows MAXVALUE",
            ),
            (
                "PARTITION BY RANGE (a) (VALUES LESS THAN (MAXVALUE), ^VALUES LESS THAN (1))",
                "no bound follows MAXVALUE",
            ),
            ("PARTITION BY RANGE (a) (VALUES LESS THAN (1) ^VALUES", ") was expected, not VALUES"),
        ] {
            let sql = format!("CREATE TABLE größe (a INT)\n {clause}");
            let place = sql.chars().take_while(|character| *character != '^').count() + 1;
            let error = ClusterStatement::parse(&sql.replace('^', ""), &Extension::NONE).unwrap_err();
            assert!(error.message().contains(message), "{sql}: {error}");
            assert_eq!((error.position(), error.sqlstate()), (Some(place), "42601"), "{sql}: {error}");
        }
    }

    #[test]
    fn there_are_limits() {
        let error = |sql: &str| ClusterStatement::parse(sql, &Extension::NONE).unwrap_err();
        let columns: Vec<String> = (0..17).map(|number| format!("c{number}")).collect();
        let sql =
            format!("CREATE TABLE t (a INT) PARTITION BY HASH ({}) INTO 2 FRAGMENTS", columns.join(", "));
        assert!(error(&sql).message().contains("1 to 16 columns"));
        let bounds = vec!["VALUES LESS THAN (1)"; 4097].join(", ");
        let sql = format!("CREATE TABLE t (a INT) PARTITION BY RANGE (a) ({bounds})");
        assert!(error(&sql).message().contains("1 to 4096 fragments"));
        let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
        let sql = format!("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (VALUES LESS THAN ({deep}))");
        assert!(error(&sql).message().contains("a bound is a literal"));
        let nested = format!("{}1{}", "CAST(".repeat(300), ")".repeat(300));
        let sql = format!("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (VALUES LESS THAN ({nested}))");
        assert!(error(&sql).message().contains("a bound is a literal"));
    }

    #[test]
    fn errors_of_the_rest_keep_their_places() {
        let sql = "CREATE TABLE t REPLICATED\nAS SELECT 1 AS a FROM";
        let of_rest = ClusterStatement::parse(sql, &Extension::NONE).unwrap_err();
        let whole =
            parse::parse("CREATE TABLE t           \nAS SELECT 1 AS a FROM", &Extension::NONE).unwrap_err();
        assert_eq!(of_rest.mark(), whole.mark());
        let sql = "CREATE TEMP TABLE t (a INT) REPLICATED";
        let error = ClusterStatement::parse(sql, &Extension::NONE).unwrap_err();
        assert_eq!((error.sqlstate(), error.position()), ("0A000", Some(29)));
    }
}
