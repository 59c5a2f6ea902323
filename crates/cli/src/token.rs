//! A light scanner of SQL text for colours and completion. It never fails, and a token that is not
//! closed yet extends to the end.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or plain name.
    Word,
    /// `"a name"`
    QuotedName,
    /// `'text'`
    Text,
    Comment,
    Number,
    Symbol,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub range: Range<usize>,
}

/// Returns the tokens of `sql`, without the space between them.
pub fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = sql[start..].chars().next() {
        let rest = &sql[start..];
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let (kind, length) = match first {
            '\'' => (TokenKind::Text, quoted_length(rest, '\'')),
            '"' => (TokenKind::QuotedName, quoted_length(rest, '"')),
            '-' if rest.starts_with("--") => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => {
                (TokenKind::Comment, rest[2..].find("*/").map_or(rest.len(), |end| end + 4))
            }
            c if is_name_start(c) => (TokenKind::Word, length_while(rest, is_name_part)),
            c if c.is_ascii_digit() => {
                (TokenKind::Number, length_while(rest, |c| is_name_part(c) || c == '.'))
            }
            c => (TokenKind::Symbol, c.len_utf8()),
        };
        tokens.push(Token { kind, range: start..start + length });
        start += length;
    }
    tokens
}

/// Returns the first word of a statement in capitals, or its first symbol.
pub fn first_keyword(sql: &str) -> Option<String> {
    let first = tokens(sql).into_iter().find(|token| token.kind != TokenKind::Comment)?;
    Some(sql[first.range].to_ascii_uppercase())
}

/// Returns a name as SQL takes it, with quotes only if it needs them.
pub fn quote_name(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !KEYWORDS.contains(&name.to_ascii_uppercase().as_str());
    if plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Returns the name that a word or quoted name stands for; unquoted names are in lower case.
pub fn unquote_name(text: &str) -> String {
    match text.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner).replace("\"\"", "\""),
        None => text.to_lowercase(),
    }
}

pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&word.to_ascii_uppercase().as_str()).is_ok()
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn length_while(text: &str, accept: impl Fn(char) -> bool) -> usize {
    text.find(|c| !accept(c)).unwrap_or(text.len())
}

/// Returns the bytes of a quoted token; a doubled quote belongs to it.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(end) = text[from..].find(quote) {
        from += end + 1;
        if !text[from..].starts_with(quote) {
            return from;
        }
        from += 1;
    }
    text.len()
}

/// The keywords, sorted for the binary search.
pub const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BY",
    "CALL",
    "CASE",
    "CAST",
    "CHECK",
    "COLUMN",
    "COPY",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FLOAT",
    "FOR",
    "FORMAT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "JSON",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PREPARE",
    "RECURSIVE",
    "REPLACE",
    "RIGHT",
    "SCHEMA",
    "SELECT",
    "SET",
    "SHOW",
    "SMALLINT",
    "SUMMARIZE",
    "TABLE",
    "TABLES",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TINYINT",
    "TO",
    "TRUE",
    "UNION",
    "UNNEST",
    "UPDATE",
    "USING",
    "UUID",
    "VALUES",
    "VARCHAR",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
        assert!(is_keyword("select") && !is_keyword("lineitem"));
    }

    #[test]
    fn quotes_and_comments_are_one_token_each() {
        let sql = "SELECT 'it''s', \"a b\" -- x\n, 1.5 /* y */ FROM é;";
        let texts: Vec<&str> = tokens(sql).into_iter().map(|token| &sql[token.range]).collect();
        let expected = ["SELECT", "'it''s'", ",", "\"a b\"", "-- x", ",", "1.5", "/* y */", "FROM", "é", ";"];
        assert_eq!(texts, expected);
        assert_eq!(tokens("'open").len(), 1);
        assert_eq!(tokens("/* open").len(), 1);
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for (name, quoted) in [("a_1", "a_1"), ("A", "\"A\""), ("order", "\"order\""), ("x\"y", "\"x\"\"y\"")]
        {
            assert_eq!(quote_name(name), quoted);
            assert_eq!(unquote_name(quoted), name);
        }
    }

    #[test]
    fn the_first_keyword_skips_comments() {
        assert_eq!(first_keyword(" -- hi\n with x AS (SELECT 1) FROM x").as_deref(), Some("WITH"));
        assert_eq!(first_keyword("  "), None);
    }
}
