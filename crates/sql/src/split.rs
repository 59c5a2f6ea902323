//! Splits SQL text into statements without parsing it.

/// Returns the statements of a text, cut at each `;` outside of quotes, comments and dollar quotes;
/// blank ones are left out, an unfinished one comes last.
pub fn split_statements(sql: &str) -> Vec<&str> {
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

/// Says whether a text has only white space and comments.
fn is_blank(sql: &str) -> bool {
    past_comments(sql).is_empty()
}

/// Returns what follows the white space and the comments that a text begins with; nothing after a
/// comment that does not end.
pub fn past_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let length = if rest.starts_with("--") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else {
            return rest;
        };
        rest = rest[length.unwrap_or(rest.len())..].trim_start();
    }
}

/// Returns where the statements end, and whether the text stops inside a quote or comment.
fn scan(sql: &str) -> (Vec<usize>, bool) {
    let bytes = sql.as_bytes();
    let mut ends = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &sql[at..];
        let skipped = match bytes[at] {
            b';' => {
                ends.push(at);
                Some(1)
            }
            quote @ (b'\'' | b'"' | b'`') => quoted(rest, quote),
            b'-' if rest.starts_with("--") => Some(rest.find('\n').map_or(rest.len(), |end| end + 1)),
            b'/' if rest.starts_with("/*") => block_comment(rest),
            b'$' => dollar_quoted(rest),
            _ => Some(rest.chars().next().map_or(1, char::len_utf8)),
        };
        match skipped {
            Some(bytes) => at += bytes,
            None => return (ends, true),
        }
    }
    (ends, false)
}

/// Returns the length of a quoted string. A doubled quote starts the next one, with the same
/// effect.
fn quoted(text: &str, quote: u8) -> Option<usize> {
    text[1..].bytes().position(|byte| byte == quote).map(|end| end + 2)
}

fn block_comment(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns `$tag$ … $tag$`; a lone `$` (as in `$1`) is one character.
fn dollar_quoted(text: &str) -> Option<usize> {
    let Some(end) = text[1..].find('$') else { return Some(1) };
    let tag = &text[..end + 2];
    let word = &tag[1..tag.len() - 1];
    let is_tag = !word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_tag {
        return Some(1);
    }
    text[tag.len()..].find(tag).map(|end| end + 2 * tag.len())
}

/// Returns the first two words of a statement in upper case, past comments.
pub fn leading_words(sql: &str) -> Vec<String> {
    let is_of_word = |character: char| character.is_alphanumeric() || "_$#@".contains(character);
    let mut words = Vec::new();
    let mut rest = past_comments(sql);
    while words.len() < 2 && rest.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        let (word, after) = rest.split_at(rest.find(|next| !is_of_word(next)).unwrap_or(rest.len()));
        words.push(word.to_ascii_uppercase());
        rest = past_comments(after);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_semicolon_of_the_outermost_level_ends_a_statement() {
        let sql = "select ';' /* ; */ -- ;\n, \"a;b\"; ; select $$;$$, $1;-- the end";
        assert_eq!(split_statements(sql), ["select ';' /* ; */ -- ;\n, \"a;b\"", "select $$;$$, $1"]);
        assert_eq!(split_statements("select 1"), ["select 1"]);
        assert_eq!(split_statements("/* a /* nested; */ ; */ select 'it''s; so'").len(), 1);
        assert_eq!(split_statements("select 'ä;ö'; select 2").len(), 2);
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
