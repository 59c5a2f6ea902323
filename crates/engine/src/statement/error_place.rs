//! Finds the place of an error in the text of a statement. The binder and DataFusion tell the word that
//! an error is about, and its place in the parsed text, which may differ from the statement.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use hypostyle_sql::watched_dialect::Watched;
use hypostyle_types::{Error, Mark};

/// Returns the error with its place in the text.
pub(super) fn located(error: Error, sql: &str) -> Error {
    let Some(mark) = error.mark() else { return error };
    match find(mark, sql) {
        Some(position) => error.at(position),
        None => error.nowhere(),
    }
}

/// Returns the error with its place in the whole text, of one statement in it.
pub(super) fn located_within(error: Error, statement: &str, sql: &str) -> Error {
    let error = located(error, statement);
    let before = (statement.as_ptr() as usize).checked_sub(sql.as_ptr() as usize);
    match (error.position(), before.and_then(|before| sql.get(..before))) {
        (Some(position), Some(before)) => error.at(before.chars().count() + position),
        _ => error,
    }
}

fn find(mark: &Mark, sql: &str) -> Option<usize> {
    if mark.word.as_deref() == Some("") {
        return Some(sql.trim_end().chars().count() + 1);
    }
    let dialect = Watched::of_tokens(&GenericDialect {});
    let tokens = Tokenizer::new(&dialect, sql).with_unescape(false).tokenize_with_location();
    let Ok(tokens) = tokens else {
        return mark.line_and_column.and_then(|place| position_of(sql, place));
    };
    let start = |token: &TokenWithSpan| (token.span.start.line, token.span.start.column);
    let mut words = tokens.iter().filter(|token| match &mark.word {
        Some(word) => is_word(&token.token, word),
        None => Some(start(token)) == mark.line_and_column,
    });
    let first = words.next()?;
    let later = mark.line_and_column.filter(|place| start(first) < *place);
    // The place may be that of the table before the column.
    let found = later.and_then(|place| words.find(|token| start(token) >= place)).unwrap_or(first);
    position_of(sql, start(found))
}

fn is_word(token: &Token, word: &str) -> bool {
    match token {
        Token::Word(found) => found.value.eq_ignore_ascii_case(word) || token.to_string() == word,
        Token::Whitespace(_) => false,
        other => other.to_string() == word,
    }
}

/// Returns the character at a line and a column, each from 1.
fn position_of(sql: &str, (line, column): (u64, u64)) -> Option<usize> {
    let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
    let before: usize = sql.split('\n').take(line.checked_sub(1)?).map(|line| line.chars().count() + 1).sum();
    let position = before + column;
    (position <= sql.chars().count() + 1).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_types::ErrorKind;

    fn position(sql: &str, word: Option<&str>, line_and_column: Option<(u64, u64)>) -> Option<usize> {
        let mark = Mark { word: word.map(str::to_string), line_and_column };
        located(Error::new(ErrorKind::Syntax, "").marked(mark), sql).position()
    }

    #[test]
    fn a_word_is_found_where_it_is_told_to_be() {
        let sql = "select b, a\nfrom t where a > 1";
        assert_eq!(position(sql, Some("a"), None), Some(11));
        assert_eq!(position(sql, Some("a"), Some((2, 14))), Some(26));
        // Another text was parsed.
        assert_eq!(position(sql, Some("b"), Some((2, 14))), Some(8));
        assert_eq!(position(sql, Some("c"), Some((1, 1))), None);
        assert_eq!(position(sql, None, Some((2, 1))), Some(13));
        assert_eq!(position(sql, None, Some((2, 2))), None);
        assert_eq!(position("select t.a", Some("A"), Some((1, 8))), Some(10));
        assert_eq!(position("select 'größe', \"A b\"", Some("A b"), None), Some(17));
        assert_eq!(position("select ( ", Some(""), None), Some(9));
    }

    #[test]
    fn statements_are_within_a_text() {
        let sql = "select 'ö'; select x";
        let error = Error::new(ErrorKind::Syntax, "").about("x");
        assert_eq!(located_within(error, &sql[13..], sql).position(), Some(20));
    }
}
