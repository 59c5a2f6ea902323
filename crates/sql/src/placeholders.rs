//! The `?` of a statement, which get numbers before the parser reads them.

use crate::kind::Kind;
use crate::tokenized::tokens_as_written;
use hypostyle_error::wrong_parameters;
use hypostyle_types::Result;
use sqlparser::tokenizer::Token;
use std::borrow::Cow;

/// Gives every `?` its number, for as many values as are given by position. Without values by position
/// only what PREPARE prepares gets numbers: EXECUTE gives their values.
///
/// # Errors
/// `InvalidInput` when there are more or fewer values than `?`.
pub fn numbered(sql: &str, given: Option<usize>) -> Result<Cow<'_, str>> {
    if given.is_none() && !Kind::of(sql).prepares() {
        return Ok(sql.into());
    }
    let is_mark = |token: &Token| matches!(token, Token::Placeholder(mark) if mark == "?");
    let tokens = tokens_as_written(sql)?;
    if !tokens.iter().any(is_mark) {
        return Ok(sql.into());
    }
    let mut number = 0;
    let mut text = String::with_capacity(sql.len() + 8);
    for token in tokens {
        match is_mark(&token) {
            true => {
                number += 1;
                text.push_str(&format!("${number}"));
            }
            false => text.push_str(&token.to_string()),
        }
    }
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
        assert!(numbered("SELECT ?, ?", Some(1)).is_err());
    }
}
