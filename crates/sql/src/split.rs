//! Splits SQL text into statements without parsing it.

use crate::lexer::{Token, TokenKind, tokens};

/// Returns the statements of a text, cut at each `;` outside of quotes, comments and dollar quotes;
/// blank ones are left out, an unfinished one comes last.
pub fn split_statements(sql: &str) -> Vec<&str> {
    // Some editors put a mark at the start of a file.
    let sql = sql.strip_prefix('\u{FEFF}').unwrap_or(sql);
    let (ends, _) = scan(sql);
    let mut statements = Vec::new();
    let mut start = 0;
    for end in ends.into_iter().chain([sql.len()]) {
        let statement = sql[start..end].trim();
        if !is_blank(statement) {
            statements.push(statement);
        }
        start = (end + 1).min(sql.len());
    }
    statements
}

/// Says whether a shell may run the text: it ends in `;`, or there is nothing in it.
pub fn statement_is_complete(sql: &str) -> bool {
    let (ends, open) = scan(sql);
    if open {
        return false;
    }
    match ends.last() {
        Some(end) => is_blank(&sql[end + 1..]),
        None => is_blank(sql),
    }
}

/// Says whether a text has only white space and comments. One without an end is an error that somebody is to
/// see: it may have taken statements into it.
fn is_blank(sql: &str) -> bool {
    tokens(sql).all(|token| token.kind == TokenKind::Comment && !token.is_open)
}

fn past_comments(sql: &str) -> impl Iterator<Item = Token<'_>> {
    tokens(sql).filter(|token| token.kind != TokenKind::Comment)
}

/// Returns where the statements end, and whether the text stops inside a quote or comment.
fn scan(sql: &str) -> (Vec<usize>, bool) {
    let (mut ends, mut is_open) = (Vec::new(), false);
    for token in tokens(sql) {
        if token.is_symbol(";") {
            ends.push(token.start);
        }
        is_open = token.is_open;
    }
    (ends, is_open)
}

/// Returns the first two words of a statement in upper case, past comments.
pub fn leading_words(sql: &str) -> Vec<String> {
    let words = past_comments(sql).take(2).take_while(|token| token.kind == TokenKind::Word);
    words.map(|token| token.text.to_ascii_uppercase()).collect()
}

/// Returns what a statement has behind its first word, without comments at its end.
pub fn behind_first_word(sql: &str) -> &str {
    let mut rest = past_comments(sql).skip(1);
    let Some(first) = rest.next() else { return "" };
    let end = rest.last().map_or(first.end(), |last| last.end());
    sql.get(first.start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_around_a_word_are_no_part_of_what_is_behind_it() {
        for (sql, rest) in [
            ("summarize t", "t"),
            ("/* x */ summarize t", "t"),
            ("-- \u{e4}\nsummarize /* y */ t AS u -- z", "t AS u"),
            ("pragma version;", "version;"),
            ("summarize", ""),
            ("", ""),
        ] {
            assert_eq!(behind_first_word(sql), rest, "{sql}");
        }
    }

    #[test]
    fn only_a_semicolon_of_the_outermost_level_ends_a_statement() {
        let sql = "select ';' /* ; */ -- ;\n, \"a;b\"; ; select $$;$$, $1;-- the end";
        assert_eq!(split_statements(sql), ["select ';' /* ; */ -- ;\n, \"a;b\"", "select $$;$$, $1"]);
        assert_eq!(split_statements("select 1"), ["select 1"]);
        assert_eq!(split_statements("\u{FEFF}select 1"), ["select 1"]);
        assert_eq!(split_statements("/* a /* nested; */ ; */ select 'it''s; so'").len(), 1);
        assert_eq!(split_statements("select 'ä;ö'; select 2").len(), 2);
        assert_eq!(split_statements("select 1; -- the end\n/* x */"), ["select 1"]);
        assert_eq!(split_statements("select 1; /* x; select 2"), ["select 1", "/* x; select 2"]);
    }

    #[test]
    fn an_open_quote_or_a_missing_semicolon_is_incomplete() {
        for (sql, complete) in [
            ("", true),
            ("-- x", true),
            ("select 1", false),
            ("select 1;", true),
            ("select 1; -- x", true),
            ("select ';", false),
            ("select 1; select", false),
            ("/* ;", false),
            ("select $a$ ;", false),
        ] {
            assert_eq!(statement_is_complete(sql), complete, "{sql}");
        }
    }
}
