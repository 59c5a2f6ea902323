//! Reads text: in the first of three dialects that knows it. Nothing is rewritten.

use crate::gate::{self, check_size};
use crate::tokenized::tokens_of;
use crate::watched_dialect::Watched;
use crate::{escapes, printable, type_brackets};
use datafusion_sql::parser::{DFParser, DFParserBuilder};
use hypostyle_error::from_datafusion;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use sqlparser::dialect::{Dialect, DuckDbDialect, GenericDialect, PostgreSqlDialect};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::borrow::Cow;

/// Queries, statements and expressions within each other that the parser takes. The gate bounds
/// them, too, but for statements.
const RECURSION_LIMIT: usize = 3000;

/// The text of a statement, by which a pass is skipped that has nothing to rewrite.
pub struct Text<'a> {
    pub(crate) sql: &'a str,
    pub(crate) tokens: &'a [Token],
}

impl Text<'_> {
    /// Says whether one of some words is among the statement's.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        let is = |word: &str| names.iter().any(|name| word.eq_ignore_ascii_case(name));
        self.tokens.iter().any(|token| matches!(token, Token::Word(word) if is(&word.value)))
    }

    /// Says whether a SELECT may be within the statement: one that it does not begin with.
    pub fn may_have_inner_select(&self) -> bool {
        let is_select = |word: &str| word.eq_ignore_ascii_case("SELECT");
        let mut words = self.tokens.iter().filter_map(|token| match token {
            Token::Word(word) => Some(word.value.as_str()),
            _ => None,
        });
        let begins = words.next().is_some_and(is_select);
        !begins || words.any(is_select)
    }

    /// Says whether there may be rows of values, as in `(a, b) = (1, 2)`.
    pub(crate) fn may_have_rows(&self) -> bool {
        self.tokens.contains(&Token::LParen) && self.tokens.contains(&Token::Comma)
    }
}

/// Parses an expression, and rewrites nothing: one of a definition has been rewritten before.
///
/// # Errors
/// `Syntax`, also where the text is more than one expression.
pub fn parse_as_written(sql: &str) -> Result<SqlExpr> {
    check_size(sql)?;
    let sql = &*escapes::plain(sql)?;
    match in_any(sql, None, |parser| parser.parse_into_expr().map_err(from_datafusion))? {
        ExprWithAlias { mut expr, alias: None } => {
            printable::rewrite(&mut expr);
            Ok(expr)
        }
        ExprWithAlias { alias: Some(alias), .. } => {
            Err(Error::new(ErrorKind::Syntax, format!("an expression without the name {alias} was expected")))
        }
    }
}

/// Reads a text in one dialect.
///
/// # Errors
/// `Syntax`, which is 54001 where the text is too complex.
fn read_in<T>(
    dialect: &'static dyn Dialect,
    sql: &str,
    nests_joins: bool,
    read: impl FnOnce(&mut DFParser<'_>) -> Result<T>,
) -> Result<T> {
    let tokens = Tokenizer::new(&Watched::of_tokens(dialect), sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| from_datafusion(ParserError::from(error).into()))?;
    printable::plain_tokens(&mut tokens)?;
    // Another dialect may have other tokens.
    gate::check(tokens.iter().map(|token| &token.token))?;
    read_tokens(dialect, tokens, nests_joins, read)
}

/// Reads the tokens of a text, which the gate has let through.
///
/// # Errors
/// Those of [`read_in`].
fn read_tokens<T>(
    dialect: &'static dyn Dialect,
    tokens: Vec<TokenWithSpan>,
    nests_joins: bool,
    read: impl FnOnce(&mut DFParser<'_>) -> Result<T>,
) -> Result<T> {
    Watched::new(dialect, tokens.len()).nesting_joins(nests_joins).parse(|dialect| {
        DFParserBuilder::new(tokens)
            .with_dialect(dialect)
            .with_recursion_limit(RECURSION_LIMIT)
            .build()
            .map_err(from_datafusion)
            .and_then(|mut parser| read(&mut parser))
    })?
}

/// The tokens of a text that are known already, and that the gate has let through: as they are written,
/// and as they are meant.
pub(crate) type KnownTokens<'a> = (&'a [Token], Vec<TokenWithSpan>);

/// Reads a text in the first dialect that knows it.
pub(crate) fn in_any<T>(
    sql: &str,
    known: Option<KnownTokens<'_>>,
    read: impl Fn(&mut DFParser<'_>) -> Result<T>,
) -> Result<T> {
    let (written, first) = match known {
        Some((written, mut meant)) => {
            let plain = printable::plain_tokens(&mut meant);
            (Some(written), plain.and_then(|()| read_tokens(&GenericDialect {}, meant, false, &read)))
        }
        None => (None, read_in(&GenericDialect {}, sql, false, &read)),
    };
    let error = match first {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    let tokens: Cow<'_, [Token]> = written.map_or_else(|| Cow::Owned(tokens_of(sql)), Cow::Borrowed);
    let text = Text { sql, tokens: &tokens };
    if text.has(&["STRUCT"]) && text.has(&["MAP"]) {
        let angled = type_brackets::with_angle_brackets(&tokens);
        if let Ok(parsed) = read_in(&GenericDialect {}, &angled, false, &read) {
            return Ok(parsed);
        }
    }
    let others = read_in(&DuckDbDialect {}, sql, false, &read)
        .or_else(|_| read_in(&PostgreSqlDialect {}, sql, false, &read));
    // A NATURAL JOIN would take the joins behind it for its right side.
    let may_nest = text.has(&["JOIN"]) && !text.has(&["NATURAL"]);
    let nested = others.or_else(|other| match may_nest {
        true => read_in(&GenericDialect {}, sql, true, &read),
        false => Err(other),
    });
    nested.map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use super::Text;
    use crate::tokenized::tokens_of;

    #[test]
    fn words_tell_of_a_select_within() {
        for (sql, may_have) in [
            ("SELECT a FROM t WHERE b = 'SELECT'", false),
            ("(select 1)", false),
            ("SELECT a FROM (FROM t)", false),
            ("SELECT a FROM (SELECT 1 AS a)", true),
            ("SELECT 1 UNION SELECT 2", true),
            ("WITH x AS (SELECT 1) FROM x", true),
            ("FROM (SELECT 1)", true),
            ("INSERT INTO t SELECT 1", true),
            ("EXPLAIN SELECT 1", true),
        ] {
            let text = Text { sql, tokens: &tokens_of(sql) };
            assert_eq!(text.may_have_inner_select(), may_have, "{sql}");
        }
    }
}
