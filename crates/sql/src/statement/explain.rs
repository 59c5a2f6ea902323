//! `EXPLAIN (FORMAT JSON, …)`, as PostgreSQL's programs write it.

use crate::cursor::{Cursor, alone};
use hypostyle_types::{Error, ErrorKind, Result};

const OPTIONS: [&str; 11] = [
    "ANALYZE",
    "ANALYSE",
    "VERBOSE",
    "COSTS",
    "SETTINGS",
    "GENERIC_PLAN",
    "BUFFERS",
    "WAL",
    "TIMING",
    "SUMMARY",
    "FORMAT",
];

/// The options in the parentheses behind EXPLAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    pub analyze: bool,
    pub verbose: bool,
    pub json: bool,
}

/// Reads the options, and the text of the statement behind them, which is where it was. Returns `None`
/// for an EXPLAIN without options, whose statement may be in parentheses.
///
/// # Errors
/// `Unsupported` for a format that there is not; `Syntax` for another option.
pub(super) fn parse(sql: &str) -> Result<Option<(ExplainOptions, String)>> {
    let mut cursor = Cursor::skipping(sql, 1);
    if !cursor.take_symbol("(") {
        return Ok(None);
    }
    let (mut words, mut is_closed) = (Vec::new(), false);
    while let Some(token) = cursor.next() {
        if token.is_symbol(")") {
            is_closed = true;
            break;
        }
        words.push(token.text.trim_matches('\'').to_ascii_uppercase());
    }
    if !is_closed || words.first().is_none_or(|first| !OPTIONS.contains(&first.as_str())) {
        return Ok(None);
    }
    let mut found = ExplainOptions::default();
    for option in words.split(|word| word == ",") {
        let is_on = |words: &[String]| match words.first().map(String::as_str) {
            None | Some("TRUE" | "ON" | "1") => true,
            Some(_) => false,
        };
        match option {
            [name, value @ ..] if name == "ANALYZE" || name == "ANALYSE" => found.analyze = is_on(value),
            [name, value @ ..] if name == "VERBOSE" => found.verbose = is_on(value),
            [name, format] if name == "FORMAT" => match format.as_str() {
                "JSON" => found.json = true,
                "TEXT" => {}
                other => {
                    let message = format!("EXPLAIN has no format {other}; there are TEXT and JSON");
                    return Err(Error::unsupported(message));
                }
            },
            // These options select further details.
            [name, ..] if OPTIONS.contains(&name.as_str()) => {}
            other => {
                let message = format!("unrecognized EXPLAIN option \"{}\"", other.join(" ").to_lowercase());
                return Err(Error::new(ErrorKind::Syntax, message));
            }
        }
    }
    Ok(Some((found, alone(sql, cursor.end_of_last()..sql.len()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_from_statements_in_parentheses() {
        let sql = "explain /* c */ (ANALYZE false, VERBOSE, format 'json') SELECT 1";
        let (found, explained) = parse(sql).unwrap().unwrap();
        assert_eq!(found, ExplainOptions { analyze: false, verbose: true, json: true });
        assert_eq!((explained.trim(), explained.len()), ("SELECT 1", sql.len()));
        assert_eq!(parse("EXPLAIN (SELECT 1)").unwrap(), None);
        assert_eq!(parse("EXPLAIN (ANALYZE").unwrap(), None);
        assert_eq!(parse("EXPLAIN SELECT 1").unwrap(), None);
        for (wrong, state) in
            [("EXPLAIN (FORMAT XML) SELECT 1", "0A000"), ("EXPLAIN (COSTS, NO) SELECT 1", "42601")]
        {
            assert_eq!(parse(wrong).unwrap_err().sqlstate(), state, "{wrong}");
        }
    }
}
