//! CREATE TABLE … AS with names of columns, and WITH DATA or WITH NO DATA behind its query (ISO/IEC
//! 9075-2, 11.3), which the parser does not know.

use crate::phrases::{is_word, last_before, next};
use sqlparser::tokenizer::Token;

/// The words that may stand between CREATE and TABLE.
const KINDS: [&str; 7] = ["OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "LOCAL", "GLOBAL"];

/// Returns the text in words that are known; `None` where it is another statement, or they are known
/// already.
pub fn known(tokens: &[Token]) -> Option<String> {
    let first = (0..tokens.len()).find(|place| !matches!(tokens[*place], Token::Whitespace(_)))?;
    if !is_word(tokens.get(first), &["CREATE"]) {
        return None;
    }
    let mut at = next(tokens, first)?;
    while is_word(tokens.get(at), &KINDS) {
        at = next(tokens, at)?;
    }
    if !is_word(tokens.get(at), &["TABLE"]) {
        return None;
    }
    at = next(tokens, at)?;
    for word in ["IF", "NOT", "EXISTS"] {
        if is_word(tokens.get(at), &[word]) {
            at = next(tokens, at)?;
        }
    }
    let name = last_of_name(tokens, at)?;
    let mut behind = next(tokens, name)?;
    let mut columns = None;
    if tokens[behind] == Token::LParen {
        let end = end_of_names(tokens, behind)?;
        columns = Some(behind..end + 1);
        behind = next(tokens, end)?;
    }
    if !is_word(tokens.get(behind), &["AS"]) {
        return None;
    }
    let (end, data) = clause(tokens, behind);
    // What is written once is taken away once: the text is read again.
    let is_twice = data.is_some() && clause(&tokens[..end], behind).1.is_some();
    if is_twice || columns.is_none() && data.is_none() {
        return None;
    }
    let text = |tokens: &[Token]| tokens.iter().map(Token::to_string).collect::<String>();
    let (head, query) = (text(&tokens[..=name]), text(&tokens[behind + 1..end]));
    let columns = columns.map_or_else(String::new, |places| text(&tokens[places]));
    // A comment may end the query, to the end of its line.
    Some(match (columns.as_str(), data) {
        ("", Some(true)) => format!("{head} AS {query}"),
        (columns, data) => {
            let limit = if data == Some(false) { " LIMIT 0" } else { "" };
            format!("{head} AS SELECT * FROM ({query}\n) AS {}{columns}{limit}", tokens[name])
        }
    })
}

/// Returns the place of the last part of a name that begins at a place.
pub(crate) fn last_of_name(tokens: &[Token], first: usize) -> Option<usize> {
    let mut last = first;
    loop {
        if !matches!(tokens.get(last)?, Token::Word(_)) {
            return None;
        }
        match next(tokens, last) {
            Some(dot) if tokens[dot] == Token::Period => last = next(tokens, dot)?,
            _ => return Some(last),
        }
    }
}

/// Returns where a list of nothing but names ends.
fn end_of_names(tokens: &[Token], open: usize) -> Option<usize> {
    let mut at = open;
    loop {
        at = next(tokens, at)?;
        if !matches!(tokens[at], Token::Word(_)) {
            return None;
        }
        at = next(tokens, at)?;
        match tokens[at] {
            Token::Comma => {}
            Token::RParen => return Some(at),
            _ => return None,
        }
    }
}

/// Returns where the query ends that begins behind a place, and whether rows of it are wanted, if that is
/// said.
fn clause(tokens: &[Token], begin: usize) -> (usize, Option<bool>) {
    let mut end = tokens.len();
    while let Some(last) = last_before(tokens, end).filter(|last| tokens[*last] == Token::SemiColon) {
        end = last;
    }
    let wanted = || {
        let data = last_before(tokens, end).filter(|place| is_word(tokens.get(*place), &["DATA"]))?;
        let word = last_before(tokens, data)?;
        let is_empty = is_word(tokens.get(word), &["NO"]);
        let with = if is_empty { last_before(tokens, word)? } else { word };
        (with > begin && is_word(tokens.get(with), &["WITH"])).then_some((with, Some(!is_empty)))
    };
    wanted().unwrap_or((end, None))
}

#[cfg(test)]
mod tests {
    use super::known;
    use crate::tokenized::tokens_of;

    #[test]
    fn names_and_data_are_written_as_a_query() {
        for (sql, meant) in [
            (
                "CREATE TABLE t (x, \"Y\") AS SELECT 1, 2",
                "CREATE TABLE t AS SELECT * FROM ( SELECT 1, 2\n) AS t(x, \"Y\")",
            ),
            (
                "create temp table if not exists s.t as table a with no data;",
                "create temp table if not exists s.t AS SELECT * FROM ( table a \n) AS t LIMIT 0",
            ),
            ("CREATE TABLE t AS SELECT 1 WITH DATA", "CREATE TABLE t AS  SELECT 1 "),
            (
                "CREATE TABLE t (x) AS SELECT 1 -- so\nWITH DATA",
                "CREATE TABLE t AS SELECT * FROM ( SELECT 1 -- so\n\n) AS t(x)",
            ),
        ] {
            assert_eq!(known(&tokens_of(sql)).as_deref(), Some(meant), "{sql}");
        }
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS data",
            "CREATE TABLE t (x INT, y INT) AS SELECT 1, 2",
            "CREATE TABLE t (x)",
            "CREATE VIEW t (x) AS SELECT 1",
            "SELECT 1 WITH NO DATA",
            "CREATE TABLE t AS SELECT 1 WITH DATA WITH DATA",
            "CREATE TABLE t (x) AS SELECT 1 WITH NO DATA; WITH DATA;",
            "CREATE TABLE t AS WITH data AS (SELECT 1) SELECT * FROM data",
        ] {
            assert_eq!(known(&tokens_of(sql)), None, "{sql}");
        }
    }
}
