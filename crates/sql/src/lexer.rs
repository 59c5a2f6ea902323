//! The tokens of SQL text, for all who look at a text that they do not parse: those that split it
//! into statements, colour it, or number its parameters. It never fails.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A key word, or a name without quotes.
    Word,
    /// `"a name"`, also between backticks.
    QuotedName,
    /// `'text'`, `E'text'` and `$tag$text$tag$`.
    Text,
    /// `-- to the end of the line`, and `/* to its end, which may have /* others */ within */`.
    Comment,
    /// Digits, and what is written with them: `1.5`, `0x1f`.
    Number,
    /// `?`, `$1` and `$name`.
    Parameter,
    /// Any other character.
    Symbol,
}

/// A token, and where it begins in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    pub start: usize,
    /// Says whether the text ends before the token does, which has no end of its own then.
    pub is_open: bool,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub fn range(&self) -> Range<usize> {
        self.start..self.end()
    }

    /// Says whether it is some character that means something by itself.
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }
}

/// Returns the tokens of a text, without the white space between them.
pub fn tokens(sql: &str) -> Tokens<'_> {
    Tokens { sql, at: 0 }
}

/// The tokens of a text from some place on.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.sql.get(self.at..)?;
        let text = rest.trim_start();
        let start = self.at + rest.len() - text.len();
        let first = text.chars().next()?;
        let (kind, length) = kind_and_length(text, first);
        self.at = start + length.unwrap_or(text.len());
        Some(Token { kind, text: &self.sql[start..self.at], start, is_open: length.is_none() })
    }
}

/// Returns the kind and the length of the token that a text begins with; no length if the token is
/// open.
fn kind_and_length(text: &str, first: char) -> (TokenKind, Option<usize>) {
    match first {
        '\'' => (TokenKind::Text, quoted(text, '\'')),
        'e' | 'E' if text[1..].starts_with('\'') => (TokenKind::Text, escaped(text)),
        '"' | '`' => (TokenKind::QuotedName, quoted(text, first)),
        '-' if text.starts_with("--") => (TokenKind::Comment, Some(text.find('\n').unwrap_or(text.len()))),
        '/' if text.starts_with("/*") => (TokenKind::Comment, comment(text)),
        '?' => (TokenKind::Parameter, Some(1)),
        '$' => dollar(text),
        _ if first.is_alphabetic() || first == '_' => {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
            (TokenKind::Word, Some(length_while(text, is_part)))
        }
        _ if first.is_numeric() => {
            (TokenKind::Number, Some(length_while(text, |c| is_of_name(c) || c == '.')))
        }
        _ => (TokenKind::Symbol, Some(first.len_utf8())),
    }
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn length_while(text: &str, accept: impl Fn(char) -> bool) -> usize {
    text.find(|character| !accept(character)).unwrap_or(text.len())
}

/// Returns the length of a text between quotes; two of them within are one of the text.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].find(quote)? + 1;
        if !text[at..].starts_with(quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns the length of `E'…'`, in which a backslash takes its meaning from the next character.
fn escaped(text: &str) -> Option<usize> {
    let mut at = 2;
    loop {
        at += text[at..].find(['\'', '\\'])? + 1;
        match &text[at - 1..] {
            escape if escape.starts_with('\\') => at += text[at..].chars().next()?.len_utf8(),
            quotes if quotes.starts_with("''") => at += 1,
            _ => return Some(at),
        }
    }
}

fn comment(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    loop {
        at += text[at..].find(['*', '/'])?;
        match text.as_bytes().get(at..at + 2)? {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Returns a text between two tags, a parameter, or a lone `$`.
fn dollar(text: &str) -> (TokenKind, Option<usize>) {
    let end = 1 + length_while(&text[1..], is_of_name);
    let is_tag = text[end..].starts_with('$') && !text[1..].starts_with(|c: char| c.is_ascii_digit());
    match end {
        _ if is_tag => {
            let (tag, inside) = text.split_at(end + 1);
            (TokenKind::Text, inside.find(tag).map(|length| length + 2 * tag.len()))
        }
        1 => (TokenKind::Symbol, Some(1)),
        _ => (TokenKind::Parameter, Some(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, tokens};
    use crate::split::{leading_words, split_statements, statement_is_complete};

    /// Texts that are hard to read, their tokens, and whether the last of them is open.
    const NASTY: &[(&str, &[&str], bool)] = &[
        (r"E'it\'s; x'; b", &[r"E'it\'s; x'", ";", "b"], false),
        (r"e'a\\'; b", &[r"e'a\\'", ";", "b"], false),
        (r"E'a''\'; '';b", &[r"E'a''\'; '';b"], true),
        (r"'a\'; b", &[r"'a\'", ";", "b"], false),
        (r"E'\", &[r"E'\"], true),
        (r"E'ä\ö; '", &[r"E'ä\ö; '"], false),
        ("type'a'", &["type", "'a'"], false),
        ("'it''s; so' ;", &["'it''s; so'", ";"], false),
        ("'a;", &["'a;"], true),
        ("''", &["''"], false),
        ("'''", &["'''"], true),
        ("/* a; /* b; */ c; */ d", &["/* a; /* b; */ c; */", "d"], false),
        ("/* a; /* b; */ c;", &["/* a; /* b; */ c;"], true),
        ("/*/ a */ b", &["/*/ a */", "b"], false),
        ("/**/a/***/b", &["/**/", "a", "/***/", "b"], false),
        ("a */ b", &["a", "*", "/", "b"], false),
        ("/* größe; ※ */;", &["/* größe; ※ */", ";"], false),
        ("-- größe; 'x\n;", &["-- größe; 'x", ";"], false),
        ("- -a--", &["-", "-", "a", "--"], false),
        ("$$a;'$$;", &["$$a;'$$", ";"], false),
        ("$x$ $$; $y$ $x$;", &["$x$ $$; $y$ $x$", ";"], false),
        ("$größe$;$größe$", &["$größe$;$größe$"], false),
        ("$a$ ;", &["$a$ ;"], true),
        ("$1$2;", &["$1", "$2", ";"], false),
        ("a$b$;c$b$", &["a$b$", ";", "c$b$"], false),
        ("$", &["$"], false),
        ("$;", &["$", ";"], false),
        ("?,$1,$name,:x", &["?", ",", "$1", ",", "$name", ",", ":", "x"], false),
        ("\"a\"\";b\";", &["\"a\"\";b\"", ";"], false),
        ("`a;b` c", &["`a;b`", "c"], false),
        ("U&\"d\\0061t;a\" U&'\\'", &["U", "&", "\"d\\0061t;a\"", "U", "&", "'\\'"], false),
        ("N'a;b' x'00'", &["N", "'a;b'", "x", "'00'"], false),
        ("größe.ſ\u{2003}1.5e3", &["größe", ".", "ſ", "1.5e3"], false),
        ("１;२", &["１", ";", "२"], false),
        ("\u{feff};\0", &["\u{feff}", ";", "\0"], false),
        ("", &[], false),
    ];

    #[test]
    fn nasty_texts_have_their_tokens() {
        for (sql, expected, is_open) in NASTY {
            let found: Vec<_> = tokens(sql).collect();
            let texts: Vec<&str> = found.iter().map(|token| token.text).collect();
            assert_eq!(texts, *expected, "{sql}");
            assert_eq!(found.last().is_some_and(|last| last.is_open), *is_open, "{sql}");
        }
    }

    #[test]
    fn nasty_texts_are_split_at_the_ends_of_statements() {
        for (sql, expected) in [
            (r"SELECT E'it\'s; x'; SELECT 2", &[r"SELECT E'it\'s; x'", "SELECT 2"][..]),
            ("SELECT a$b$ ; SELECT $b$", &["SELECT a$b$", "SELECT $b$"]),
            ("/* a; /* b; */ c; */ d; -- größe; 'x\n;", &["/* a; /* b; */ c; */ d"]),
            ("a U&\"d\\0061t;a\"; b", &["a U&\"d\\0061t;a\"", "b"]),
            ("$größe$;$größe$;$1;", &["$größe$;$größe$", "$1"]),
        ] {
            assert_eq!(split_statements(sql), expected, "{sql}");
        }
        for (sql, _, is_open) in NASTY {
            assert_eq!(statement_is_complete(&format!("a {sql}\n;")), !is_open, "{sql}");
        }
    }

    #[test]
    fn leading_words_are_those_before_anything_else() {
        for (sql, expected) in [
            ("/* a /* b */ c */ create -- größe\n Table t", &["CREATE", "TABLE"][..]),
            ("select'a'", &["SELECT"]),
            (r"E'it\'s' a", &[]),
            ("\"a\" b", &[]),
            ("(select 1)", &[]),
            ("größe$1 = 1", &["GRößE$1"]),
        ] {
            assert_eq!(leading_words(sql), expected, "{sql}");
        }
    }

    #[test]
    fn parameters_are_told_from_texts_and_words() {
        let parameters = |sql| -> Vec<&str> {
            let all = tokens(sql).filter(|token| token.kind == TokenKind::Parameter);
            all.map(|token| token.text).collect()
        };
        assert_eq!(
            parameters(r"? '?' E'\'?' $1 $$ $2 $$ $t$ ? $t$ /* ? /* ? */ ? */ $a -- ?"),
            ["?", "$1", "$a"]
        );
        assert_eq!(parameters("a$1 \"$1\" `?` $größe"), ["$größe"]);
    }

    #[test]
    fn tokens_cover_all_but_white_space() {
        for (one, _, _) in NASTY {
            for (other, _, _) in NASTY {
                let sql = format!("{one}{other}");
                let mut end = 0;
                for token in tokens(&sql) {
                    assert!(sql[end..token.start].trim().is_empty() && !token.text.is_empty(), "{sql}");
                    assert_eq!(&sql[token.range()], token.text);
                    end = token.end();
                }
                assert!(sql[end..].trim().is_empty(), "{sql}");
            }
        }
    }
}
