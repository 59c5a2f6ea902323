//! COPY table FROM 'file' and COPY table | (query) TO 'file'.

use super::Statement;
use crate::build;
use crate::cursor::{Cursor, alone, blanked};
use crate::identifier::fold;
use crate::parse::{Extension, parse_query, syntax};
use crate::tokenized::tokens_of;
use crate::watched_dialect::Watched;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{ObjectName, ObjectNamePart, Query, Statement as Tree};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{IsOptional, Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::borrow::Cow;

/// COPY FROM: rows of a file that a table gets.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFrom {
    pub table: ObjectName,
    /// Those of the file's columns, in their order; all of the table's where there are none.
    pub columns: Vec<String>,
    pub path: String,
    pub options: Vec<CopyOption>,
}

/// COPY TO: rows that a file gets.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyTo {
    pub query: Box<Query>,
    pub path: String,
    pub options: Vec<CopyOption>,
}

/// The name of an option in lower case, and its value.
pub type CopyOption = (String, CopyValue);

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyValue {
    Truth(bool),
    Integer(i64),
    Text(String),
    List(Vec<String>),
}

/// What COPY says besides its query.
struct Frame {
    table: Option<(ObjectName, Vec<String>)>,
    from: bool,
    path: String,
    options: Vec<CopyOption>,
}

/// Reads a COPY.
///
/// # Errors
/// `Syntax`, also for what the query has.
pub(super) fn parse(sql: &str, extension: &Extension) -> Result<Statement> {
    let mut cursor = Cursor::skipping(sql, 1);
    let query = if cursor.take_symbol("(") { Some(cursor.parenthesized()?) } else { None };
    let text = query.as_ref().map_or(Cow::from(sql), |query| blanked(sql, query.clone()).into());
    let dialect = Watched::new(&GenericDialect {}, tokens_of(&text).len());
    let frame = dialect.parse(|dialect| {
        Parser::new(dialect).try_with_sql(&text).and_then(|mut parser| frame(&mut parser))
    })?;
    let Frame { table, from, path, options } = frame.map_err(syntax)?;
    match (table, query) {
        (Some((table, columns)), _) if from => {
            Ok(Statement::CopyFrom(CopyFrom { table, columns, path, options }))
        }
        (Some((table, columns)), _) => {
            let query = Box::new(rows_of(sql, table, &columns, extension)?);
            Ok(Statement::CopyTo(CopyTo { query, path, options }))
        }
        (None, Some(query)) if !from => {
            let query = Box::new(parse_query(&alone(sql, query), extension)?);
            Ok(Statement::CopyTo(CopyTo { query, path, options }))
        }
        (None, _) => Err(Error::new(ErrorKind::Syntax, "COPY FROM writes to a table, not to a query")),
    }
}

/// Returns the query for the rows of a table, or for some columns of it.
fn rows_of(sql: &str, table: ObjectName, columns: &[String], extension: &Extension) -> Result<Query> {
    let table = build::table(table, None);
    let query = match columns.is_empty() {
        true => build::all_rows(table),
        false => {
            let items = columns.iter().map(|column| build::item(build::column(column)));
            build::select(items.collect(), vec![table])
        }
    };
    let mut statement = Tree::Query(Box::new(query));
    (extension.system_names)(sql, &mut statement);
    match statement {
        Tree::Query(query) => Ok(*query),
        _ => Err(Error::internal("the rows of a table are no query")),
    }
}

fn frame(parser: &mut Parser<'_>) -> Result<Frame, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let table = if parser.consume_token(&Token::LParen) {
        parser.expect_token(&Token::RParen)?;
        None
    } else {
        let name = as_meant(parser.parse_object_name(false)?);
        let columns = if parser.peek_token().token == Token::LParen {
            let columns = parser.parse_parenthesized_column_list(IsOptional::Mandatory, false)?;
            columns.into_iter().map(|column| fold(&column)).collect()
        } else {
            Vec::new()
        };
        Some((name, columns))
    };
    let from = parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? == Keyword::FROM;
    let path = parser.parse_literal_string()?;
    let with = parser.parse_keyword(Keyword::WITH);
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        loop {
            options.push(option(parser)?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else if with {
        return parser.expected("options in parentheses", parser.peek_token());
    }
    let _end = parser.consume_token(&Token::SemiColon);
    match parser.peek_token().token {
        Token::EOF => Ok(Frame { table, from, path, options }),
        _ => parser.expected("the end of the COPY statement", parser.peek_token()),
    }
}

fn option(parser: &mut Parser<'_>) -> Result<CopyOption, ParserError> {
    let name = parser.parse_identifier()?.value.to_lowercase();
    let _sign = parser.consume_token(&Token::Eq) || parser.consume_token(&Token::RArrow);
    if matches!(parser.peek_token().token, Token::Comma | Token::RParen) {
        return Ok((name, CopyValue::Truth(true)));
    }
    if parser.consume_token(&Token::LParen) {
        let values = parser.parse_comma_separated(value)?;
        parser.expect_token(&Token::RParen)?;
        return Ok((name, CopyValue::List(values.into_iter().map(text).collect())));
    }
    Ok((name, value(parser)?))
}

fn value(parser: &mut Parser<'_>) -> Result<CopyValue, ParserError> {
    let token = parser.next_token();
    Ok(match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => CopyValue::Text(text.clone()),
        Token::Number(number, _) => match number.parse() {
            Ok(number) => CopyValue::Integer(number),
            Err(_) => CopyValue::Text(number.clone()),
        },
        // All columns.
        Token::Mul => CopyValue::Text("*".into()),
        Token::Word(word) if word.quote_style.is_some() => CopyValue::Text(word.value.clone()),
        Token::Word(word) => match word.value.to_lowercase().as_str() {
            "true" | "on" => CopyValue::Truth(true),
            "false" | "off" => CopyValue::Truth(false),
            text => CopyValue::Text(text.into()),
        },
        _ => return parser.expected("a value of an option", token),
    })
}

/// Returns a value of a list.
fn text(value: CopyValue) -> String {
    match value {
        CopyValue::Truth(is) => is.to_string(),
        CopyValue::Integer(number) => number.to_string(),
        CopyValue::Text(text) => text,
        CopyValue::List(texts) => texts.join(", "),
    }
}

/// Returns a name with its parts as they are looked up.
fn as_meant(name: ObjectName) -> ObjectName {
    let part = |part: ObjectNamePart| match part {
        ObjectNamePart::Identifier(identifier) => ObjectNamePart::Identifier(build::name(&fold(&identifier))),
        other => other,
    };
    ObjectName(name.0.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn options_may_stand_with_or_without_a_sign() {
        let sql = "/* c */ copy s.T (a, \"B\") FROM 'x.csv' WITH (FORMAT csv, header, delim = '|', n 3)";
        let Ok(Statement::CopyFrom(copy)) = parsed(sql) else { panic!("{sql}") };
        assert_eq!((copy.table.to_string(), copy.path.as_str()), ("\"s\".\"t\"".into(), "x.csv"));
        assert_eq!(copy.columns, ["a", "B"]);
        let option = |name: &str, value| (name.to_string(), value);
        let expected = [
            option("format", CopyValue::Text("csv".into())),
            option("header", CopyValue::Truth(true)),
            option("delim", CopyValue::Text("|".into())),
            option("n", CopyValue::Integer(3)),
        ];
        assert_eq!(copy.options, expected);
        let Ok(Statement::CopyTo(copy)) = parsed("COPY t TO 'x' (partition_by (a, \"B\", 3), header)") else {
            panic!("a file");
        };
        let list = CopyValue::List(vec!["a".into(), "B".into(), "3".into()]);
        assert_eq!(copy.options, [option("partition_by", list), option("header", CopyValue::Truth(true))]);
        assert_eq!(copy.query.to_string(), "SELECT * FROM \"t\"");
        let Ok(Statement::CopyTo(copy)) = parsed("COPY t TO 'x' (FORCE_QUOTE *, header)") else {
            panic!("a file")
        };
        assert_eq!(copy.options[0], option("force_quote", CopyValue::Text("*".into())));
        for wrong in ["COPY t", "COPY t FROM x.csv", "COPY t TO 'x' (FORMAT", "COPY t TO 'x' y", "COPY (t"] {
            assert_eq!(parsed(wrong).err().map(|error| error.kind()), Some(ErrorKind::Syntax), "{wrong}");
        }
    }

    #[test]
    fn queries_are_read_once_where_they_are() {
        for (sql, query) in [
            ("COPY (SELECT 1) TO 'x'", "SELECT 1"),
            (
                "copy /* ( */ (SELECT ')' AS \")\" -- )\n, (1 + 2)) TO 'x' (FORMAT csv)",
                "SELECT ')' AS \")\", (1 + 2)",
            ),
            ("COPY t (A, \"B\") TO 'x'", "SELECT \"a\", \"B\" FROM \"t\""),
        ] {
            let Ok(Statement::CopyTo(copy)) = parsed(sql) else { panic!("{sql}") };
            assert_eq!(copy.query.to_string(), query);
        }
        let error = parsed("COPY (SELECT 1) FROM 'x'").unwrap_err();
        assert_eq!(error.message(), "COPY FROM writes to a table, not to a query");
        assert_eq!(parsed("COPY (SELECT 1 +) TO 'x'").unwrap_err().sqlstate(), "42601");
    }
}
