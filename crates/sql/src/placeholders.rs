//! The `?` of a statement, which get numbers before the parser reads them.

use crate::kind::Kind;
use crate::lexer::{Token, TokenKind, tokens};
use hypostyle_error::wrong_parameters;
use hypostyle_types::Result;
use std::borrow::Cow;

/// Gives every `?` its number, for as many values as are given by position. Without values by position
/// only what PREPARE prepares gets numbers: EXECUTE gives their values.
///
/// # Errors
/// `InvalidInput` when there are more or fewer values than `?`.
pub fn numbered(sql: &str, given: Option<usize>) -> Result<Cow<'_, str>> {
    if !sql.contains('?') || given.is_none() && !Kind::read(sql).prepares() {
        return Ok(sql.into());
    }
    // `?1` is a name.
    let is_mark = |token: &Token<'_>| {
        let is_alone = !sql[token.end()..].starts_with(char::is_numeric);
        token.kind == TokenKind::Parameter && token.text == "?" && is_alone
    };
    let (mut number, mut copied) = (0, 0);
    let mut text = String::with_capacity(sql.len() + 8);
    for token in tokens(sql) {
        // The parser is to refuse what has no end.
        if token.is_open {
            return Ok(sql.into());
        }
        if is_mark(&token) {
            number += 1;
            text.push_str(&sql[copied..token.start]);
            text.push_str(&format!("${number}"));
            copied = token.end();
        }
    }
    if number == 0 {
        return Ok(sql.into());
    }
    text.push_str(&sql[copied..]);
    match given.filter(|given| *given != number) {
        Some(given) => Err(wrong_parameters("the statement", number, given)),
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn only_marks_of_values_get_numbers() {
        let of = |sql, given| numbered(sql, given).unwrap().into_owned();
        assert_eq!(of("SELECT ?, '?' /* ? */, ?", Some(2)), "SELECT $1, '?' /* ? */, $2");
        assert_eq!(of("SELECT ?", None), "SELECT ?");
        assert_eq!(of("-- c\nPREPARE q AS SELECT ? + ?", None), "-- c\nPREPARE q AS SELECT $1 + $2");
        assert_eq!(of("SELECT $1", Some(1)), "SELECT $1");
        assert_eq!(of("SELECT ?1, E'\\'?', \"?\", $$ ? $$", Some(1)), "SELECT ?1, E'\\'?', \"?\", $$ ? $$");
        assert_eq!(of("SELECT ?, 'without an end", Some(7)), "SELECT ?, 'without an end");
        assert!(numbered("SELECT ?, ?", Some(1)).is_err());
    }
}
