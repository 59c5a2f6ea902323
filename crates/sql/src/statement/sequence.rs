//! CREATE SEQUENCE and ALTER SEQUENCE. The parser knows some of the clauses, in one order; PostgreSQL
//! accepts any order.

use super::Statement;
use crate::parse::syntax;
use hypostyle_types::{Error, Result};
use sqlparser::ast::{DataType, ObjectName, SequenceOptions};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// The clauses of a definition; what is not there stays or has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceClauses {
    pub data_type: Option<DataType>,
    pub increment: Option<i64>,
    /// NO MINVALUE is `Some(None)`.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// RESTART without a value is `Some(None)`.
    pub restart: Option<Option<i64>>,
    pub cycle: Option<bool>,
    pub cache: Option<i64>,
    /// OWNED BY NONE is `Some(None)`.
    pub owner: Option<Option<ObjectName>>,
}

/// CREATE SEQUENCE or ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceDefinition {
    /// IF NOT EXISTS, or IF EXISTS.
    pub if_exists: bool,
    pub temporary: bool,
    pub name: ObjectName,
    pub clauses: SequenceClauses,
    /// It is one of the cluster, which all nodes take values of.
    pub replicated: bool,
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    let token = parser.next_token();
    let value = match &token.token {
        Token::Number(digits, _) => format!("{sign}{digits}").parse().ok(),
        _ => None,
    };
    value.map_or_else(|| parser.expected("a whole number of at most 64 bits", token), Ok)
}

/// Takes the word REPLICATED, if it is next.
fn take_replicated(parser: &mut Parser<'_>) -> bool {
    let is_next = matches!(&parser.peek_token().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("replicated"));
    if is_next {
        let _word = parser.next_token();
    }
    is_next
}

/// Sets a clause that stands once.
fn once<T>(clause: &mut Option<T>, value: T, what: &str) -> Result<(), ParserError> {
    match clause.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParserError::ParserError(format!("{what} is said twice"))),
    }
}

/// Returns what stands behind RESTART; `None` for the start.
fn restart_value(parser: &mut Parser<'_>) -> Result<Option<i64>, ParserError> {
    let with = parser.parse_keyword(Keyword::WITH);
    let is_number = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus);
    if with || is_number { number(parser).map(Some) } else { Ok(None) }
}

impl SequenceClauses {
    /// Reads clauses, and the word of a sequence of the cluster behind them where it may be.
    fn parse(parser: &mut Parser<'_>, may_be_replicated: bool) -> Result<(Self, bool), ParserError> {
        let mut clauses = Self::default();
        while clauses.take(parser)? {}
        let replicated = may_be_replicated && take_replicated(parser);
        match parser.peek_token().token {
            Token::EOF | Token::SemiColon => Ok((clauses, replicated)),
            _ => parser.expected("a clause of a sequence", parser.peek_token()),
        }
    }

    /// Takes in the next clause, if there is one.
    pub(super) fn take(&mut self, parser: &mut Parser<'_>) -> Result<bool, ParserError> {
        if parser.parse_keyword(Keyword::AS) {
            self.data_type = Some(parser.parse_data_type()?);
        } else if parser.parse_keyword(Keyword::INCREMENT) {
            let _by = parser.parse_keyword(Keyword::BY);
            once(&mut self.increment, number(parser)?, "INCREMENT")?;
        } else if parser.parse_keyword(Keyword::MINVALUE) {
            once(&mut self.min, Some(number(parser)?), "MINVALUE")?;
        } else if parser.parse_keyword(Keyword::MAXVALUE) {
            once(&mut self.max, Some(number(parser)?), "MAXVALUE")?;
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
            once(&mut self.min, None, "MINVALUE")?;
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
            once(&mut self.max, None, "MAXVALUE")?;
        } else if parser.parse_keyword(Keyword::START) {
            let _with = parser.parse_keyword(Keyword::WITH);
            once(&mut self.start, number(parser)?, "START")?;
        } else if parser.parse_keyword(Keyword::RESTART) {
            self.restart = Some(restart_value(parser)?);
        } else if parser.parse_keyword(Keyword::CACHE) {
            // Values are taken for many rows at a time anyway.
            once(&mut self.cache, number(parser)?, "CACHE")?;
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
            once(&mut self.cycle, false, "CYCLE")?;
        } else if parser.parse_keyword(Keyword::CYCLE) {
            once(&mut self.cycle, true, "CYCLE")?;
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            let none = parser.parse_keyword(Keyword::NONE);
            self.owner = Some(if none { None } else { Some(parser.parse_object_name(false)?) });
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the options of an identity column.
    ///
    /// # Errors
    /// `Syntax`, also for a clause that stands twice.
    pub fn of_identity(options: Option<&[SequenceOptions]>) -> Result<Self> {
        let text: String = options.unwrap_or_default().iter().map(ToString::to_string).collect();
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&text).map_err(syntax)?;
        Self::parse(&mut parser, false).map(|(clauses, _)| clauses).map_err(syntax)
    }
}

/// Reads CREATE SEQUENCE or ALTER SEQUENCE.
///
/// # Errors
/// `Syntax`, and `Unsupported` for another name.
pub(super) fn parse(sql: &str) -> Result<Statement> {
    let head = |parser: &mut Parser<'_>| -> Result<(bool, bool, bool, ObjectName), ParserError> {
        let create = parser.expect_one_of_keywords(&[Keyword::CREATE, Keyword::ALTER])? == Keyword::CREATE;
        let temporary =
            create && parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
        parser.expect_keyword(Keyword::SEQUENCE)?;
        let if_exists = match create {
            true => parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]),
            false => parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
        };
        Ok((create, if_exists, temporary, parser.parse_object_name(false)?))
    };
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).map_err(syntax)?;
    let (create, if_exists, temporary, name) = head(&mut parser).map_err(syntax)?;
    if parser.parse_keyword(Keyword::RENAME) {
        return Err(Error::unsupported("ALTER SEQUENCE … RENAME is not supported"));
    }
    let (clauses, replicated) = SequenceClauses::parse(&mut parser, create).map_err(syntax)?;
    let definition = Box::new(SequenceDefinition { if_exists, temporary, name, clauses, replicated });
    Ok(if create { Statement::CreateSequence(definition) } else { Statement::AlterSequence(definition) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Extension;

    #[test]
    fn clauses_stand_in_any_order() {
        let of = |sql: &str| Statement::parse(sql, None, &Extension::NONE);
        let sql =
            "-- c\ncreate Temp sequence if not exists a.\"S\" no cycle START -3 as smallint OWNED BY t.c";
        let Ok(Statement::CreateSequence(found)) = of(sql) else { panic!("{sql}") };
        assert!(found.if_exists && found.temporary && !found.replicated);
        assert_eq!(found.name.to_string(), "a.\"S\"");
        let SequenceClauses { data_type, start, cycle, owner, increment, .. } = found.clauses;
        assert_eq!(data_type, Some(DataType::SmallInt(None)));
        assert_eq!((start, cycle, increment), (Some(-3), Some(false), None));
        assert_eq!(owner.flatten().map(|owner| owner.to_string()), Some("t.c".into()));
        let Ok(Statement::AlterSequence(found)) = of("ALTER SEQUENCE s RESTART MINVALUE 1 NO MAXVALUE")
        else {
            panic!("ALTER SEQUENCE");
        };
        let SequenceClauses { restart, min, max, .. } = found.clauses;
        assert_eq!((restart, min, max), (Some(None), Some(Some(1)), Some(None)));
        let Ok(Statement::CreateSequence(found)) = of("CREATE SEQUENCE s AS INT START 5 Replicated;") else {
            panic!("REPLICATED");
        };
        assert!(found.replicated && found.clauses.start == Some(5));
        for (wrong, state) in [
            ("CREATE SEQUENCE s REPLICATED START 1", "42601"),
            ("ALTER SEQUENCE s REPLICATED", "42601"),
            ("CREATE SEQUENCE s START 1 START 2", "42601"),
            ("CREATE SEQUENCE s FOO", "42601"),
            ("ALTER SEQUENCE s RENAME TO t", "0A000"),
        ] {
            assert_eq!(of(wrong).unwrap_err().sqlstate(), state, "{wrong}");
        }
    }
}
