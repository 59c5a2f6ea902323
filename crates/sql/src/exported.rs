//! What EXPORT DATABASE writes, and IMPORT DATABASE runs: definitions, and the rows of files beside them.

use crate::parse::{Extension, parse};
use datafusion_sql::parser::Statement as DfStatement;
use hypostyle_types::Result;
use sqlparser::ast::Statement;
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// Says whether a statement is one of these, but for views.
///
/// # Errors
/// `Syntax`.
pub fn is_exported(statement: &str) -> Result<bool> {
    let tokens = Tokenizer::new(&GenericDialect {}, statement).tokenize().unwrap_or_default();
    let tokens: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let words: Vec<String> = tokens.iter().map(|token| keyword(token)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        ["SELECT", rest @ ..] => is_setval(&tokens[1..]) && !rest.contains(&"FROM"),
        ["COPY", ..] => reads_file_beside(&tokens),
        // Neither of them reads rows.
        words if words.contains(&"SELECT") => false,
        ["CREATE", "SCHEMA" | "SEQUENCE" | "INDEX" | "MACRO", ..] | ["CREATE", "ORDER", "INDEX", ..] => true,
        ["ALTER", "SEQUENCE", ..] | ["COMMENT", "ON", ..] => true,
        ["ALTER", "TABLE", words @ ..] => {
            words.windows(2).any(|pair| matches!(pair, ["ADD", "CONSTRAINT" | "GENERATED"]))
        }
        ["CREATE", "TABLE", ..] => match parse(statement, &Extension::NONE)? {
            DfStatement::Statement(parsed) => {
                matches!(*parsed, Statement::CreateTable(create) if create.query.is_none())
            }
            _ => false,
        },
        _ => false,
    })
}

/// Says whether tokens are `setval('s', 1, true)`.
fn is_setval(tokens: &[&Token]) -> bool {
    let number = |token: &Token| matches!(token, Token::Number(..) | Token::Minus);
    match tokens {
        [
            Token::Word(name),
            Token::LParen,
            Token::SingleQuotedString(_),
            Token::Comma,
            state @ ..,
            Token::RParen,
        ] => {
            name.value.eq_ignore_ascii_case("setval")
                && matches!(state, [value @ .., Token::Comma, Token::Word(_)]
                    if value.len() <= 2 && value.iter().all(|token| number(token)))
        }
        _ => false,
    }
}

/// Says whether tokens are `COPY t FROM 'file' (FORMAT parquet)` with a file of the same directory.
fn reads_file_beside(tokens: &[&Token]) -> bool {
    let is = |token: &Token, word: &str| matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
    let [copy, name @ .., from, Token::SingleQuotedString(file), Token::LParen, format, kind, Token::RParen] =
        tokens
    else {
        return false;
    };
    is(copy, "COPY")
        && is(from, "FROM")
        && is(format, "FORMAT")
        && is(kind, "parquet")
        && name.iter().all(|token| matches!(token, Token::Word(_) | Token::Period))
        && !file.contains('/')
        && file != ".."
}

#[cfg(test)]
mod tests {
    use super::is_exported;

    #[test]
    fn only_what_is_exported_is_known() {
        for statement in [
            "CREATE SCHEMA \"a\"",
            "CREATE SEQUENCE \"main\".\"s\" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9 START WITH 1",
            "CREATE TABLE \"main\".\"select\" (\"a\" INTEGER DEFAULT CAST(1 AS INTEGER), CONSTRAINT \"c\" CHECK (a > 0))",
            "COPY \"main\".\"t\" FROM 'main.t.parquet' (FORMAT parquet)",
            "SELECT setval('\"main\".\"s\"', -5, true)",
            "ALTER SEQUENCE \"main\".\"s\" OWNED BY \"main\".\"t\".\"a\"",
            "ALTER TABLE \"main\".\"t\" ADD CONSTRAINT \"f\" FOREIGN KEY (\"a\") REFERENCES \"main\".\"u\" (\"b\")",
            "ALTER TABLE \"main\".\"t\" ALTER COLUMN \"a\" ADD GENERATED ALWAYS AS IDENTITY",
            "COMMENT ON TABLE \"main\".\"t\" IS 'SELECT'",
        ] {
            assert!(is_exported(statement).unwrap(), "{statement}");
        }
        for statement in [
            "ATTACH 'elsewhere' AS x",
            "DROP TABLE t",
            "SET memory_limit = '1TB'",
            "SELECT 1",
            "SELECT setval('s', (SELECT max(a) FROM 'secret.csv'), true)",
            "SELECT setval('s', 1, true) FROM 'secret.csv'",
            "COPY t TO 'elsewhere.csv'",
            "COPY t FROM '/etc/passwd' (FORMAT csv)",
            "COPY \"t\" FROM '../other/main.t.parquet' (FORMAT parquet)",
            "COPY (SELECT 1) TO 'x.parquet' (FORMAT parquet)",
            "CREATE TABLE t AS FROM 'secret.csv'",
            "CREATE TABLE t AS SELECT 1",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
            "ALTER TABLE t ALTER COLUMN a TYPE VARCHAR USING (SELECT max(a) FROM 'secret.csv')",
            "ALTER TABLE t DROP COLUMN a",
            "EXPORT DATABASE 'elsewhere'",
            "CALL tpch_generate(sf => 1000)",
            "INSERT INTO t VALUES (1)",
        ] {
            assert!(!is_exported(statement).unwrap_or(false), "{statement}");
        }
    }
}
