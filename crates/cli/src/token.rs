//! Keywords and names of SQL, for colours and completion.

use hypostyle::lexer::{TokenKind, tokens};

/// Returns the first word of a statement in capitals, or its first symbol.
pub fn first_keyword(sql: &str) -> Option<String> {
    let first = tokens(sql).find(|token| token.kind != TokenKind::Comment)?;
    Some(first.text.to_ascii_uppercase())
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

/// The keywords, sorted for the binary search.
pub const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BACKUP",
    "BETWEEN",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BY",
    "CALL",
    "CASE",
    "CAST",
    "CHECK",
    "CLUSTER",
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
    "FRAGMENTS",
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
    "REBALANCE",
    "RECURSIVE",
    "REPLACE",
    "REPLICAS",
    "REPLICATED",
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
