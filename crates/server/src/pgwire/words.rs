//! The words of a statement, as far as one must look at them here to know what kind of statement it
//! is, and to read those that the engine does not have.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use hypostyle::kind::Kind;
use hypostyle::lexer::{Token, TokenKind, tokens};
use hypostyle_types::{Error, ErrorKind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// Unquoted: a key word, a name or a number.
    Bare(&'a str),
    /// A name in double quotes, without them.
    Quoted(String),
    /// A text in single quotes, without them.
    Text(String),
    Symbol(char),
}

/// The words of a text from here on.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub fn of(sql: &'a str) -> Self {
        Self { sql, at: 0 }
    }

    /// The text behind the words that have been taken.
    pub fn rest(&self) -> &'a str {
        &self.sql[self.at..]
    }

    pub fn peek(&self) -> Option<Word<'a>> {
        self.clone().next()
    }

    /// Takes a key word, if it is the next one.
    pub fn accept(&mut self, key: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Word::Bare(word)) if word.eq_ignore_ascii_case(key));
        if is_next {
            self.next();
        }
        is_next
    }

    pub fn accept_symbol(&mut self, symbol: char) -> bool {
        let is_next = self.peek() == Some(Word::Symbol(symbol));
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes one of some key words.
    pub fn accept_any(&mut self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().copied().find(|key| self.accept(key))
    }

    /// A name, in lower case unless it is quoted.
    pub fn name(&mut self) -> Result<String> {
        match self.next() {
            Some(Word::Bare(word)) => Ok(word.to_lowercase()),
            Some(Word::Quoted(name)) => Ok(name),
            other => Err(unexpected("a name", other.as_ref())),
        }
    }

    /// A name, a number or a text.
    pub fn value(&mut self) -> Result<String> {
        if self.accept_symbol('-') {
            return match self.next() {
                Some(Word::Bare(word)) => Ok(format!("-{word}")),
                other => Err(unexpected("a number", other.as_ref())),
            };
        }
        match self.next() {
            Some(Word::Bare(word)) => Ok(word.to_string()),
            Some(Word::Quoted(text) | Word::Text(text)) => Ok(text),
            other => Err(unexpected("a value", other.as_ref())),
        }
    }

    /// # Errors
    /// `Syntax` when there is something left.
    pub fn end(&mut self) -> Result<()> {
        match self.next() {
            None | Some(Word::Symbol(';')) => Ok(()),
            other => Err(unexpected("the end of the statement", other.as_ref())),
        }
    }
}

/// The highest number among parameters that all have numbers, or 0 where there are none.
pub(super) fn highest_parameter(sql: &str) -> Option<usize> {
    let marks = tokens(sql).filter(|token| token.kind == TokenKind::Parameter);
    let number = |token: Token<'_>| token.text.strip_prefix('$')?.parse::<usize>().ok();
    marks.map(number).try_fold(0, |highest: usize, number: Option<usize>| Some(highest.max(number?)))
}

pub(super) fn unexpected(wanted: &str, found: Option<&Word<'_>>) -> Error {
    let found = match found {
        None => "the end".to_string(),
        Some(Word::Bare(word)) => format!("\"{word}\""),
        Some(Word::Quoted(name)) => format!("\"{name}\""),
        Some(Word::Text(text)) => format!("'{text}'"),
        Some(Word::Symbol(symbol)) => format!("\"{symbol}\""),
    };
    Error::new(ErrorKind::Syntax, format!("{wanted} was expected, not {found}"))
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let rest = self.rest();
        let mut tokens = tokens(rest).skip_while(|token| token.kind == TokenKind::Comment);
        let Some(token) = tokens.next() else {
            self.at = self.sql.len();
            return None;
        };
        let mut end = token.end();
        let word = match token.kind {
            TokenKind::QuotedName => Word::Quoted(between_quotes(&token)),
            TokenKind::Text if token.text.starts_with(['e', 'E']) => Word::Text(unescaped(&token)),
            TokenKind::Text if token.text.starts_with('$') => Word::Text(between_tags(&token).into()),
            TokenKind::Text => Word::Text(between_quotes(&token)),
            TokenKind::Word | TokenKind::Number => {
                // The parts of a name are one word, but for those in quotes.
                let is_part = |next: &Token<'_>| {
                    matches!(next.kind, TokenKind::Word | TokenKind::Number) || next.is_symbol(".")
                };
                for next in tokens {
                    if next.start != end || !is_part(&next) {
                        break;
                    }
                    end = next.end();
                }
                Word::Bare(&rest[token.start..end])
            }
            TokenKind::Comment | TokenKind::Parameter | TokenKind::Symbol => {
                Word::Symbol(token.text.chars().next()?)
            }
        };
        self.at += end;
        Some(word)
    }
}

/// The text within quotes; two of them are one of the text.
fn between_quotes(token: &Token<'_>) -> String {
    let quote = &token.text[..1];
    let end = token.text.len() - usize::from(!token.is_open);
    token.text[1..end].replace(&[quote, quote].concat(), quote)
}

/// The text of `$tag$…$tag$`.
fn between_tags<'a>(token: &Token<'a>) -> &'a str {
    let tag = token.text[1..].find('$').map_or(token.text.len(), |end| end + 2);
    let inside = &token.text[tag..];
    if token.is_open { inside } else { &inside[..inside.len() - tag] }
}

/// The text of `E'…'`.
fn unescaped(token: &Token<'_>) -> String {
    let end = token.text.len() - usize::from(!token.is_open);
    let mut characters = token.text[2..end].chars();
    let mut plain = String::with_capacity(end);
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => '\\',
            },
            // There are two of them.
            '\'' => characters.next().unwrap_or('\''),
            other => other,
        });
    }
    plain
}

/// What the client is told that a statement has done, without the rows.
pub(super) fn tag(sql: &str) -> String {
    Kind::read(sql).tag()
}

/// The name of the extension that a statement is to install.
pub(super) fn extension(sql: &str) -> Option<String> {
    let mut words = Words::of(sql);
    if !(words.accept("CREATE") && words.accept("EXTENSION")) {
        return None;
    }
    if words.accept("IF") {
        words.accept("NOT");
        words.accept("EXISTS");
    }
    words.name().ok()
}

/// What PREPARE says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prepared<'a> {
    pub name: String,
    /// What is written between the name and AS: the types of the parameters, in parentheses.
    pub types: &'a str,
    /// The statement.
    pub sql: &'a str,
}

pub(super) fn prepared(sql: &str) -> Option<Prepared<'_>> {
    let mut words = Words::of(sql);
    let name = words.accept("PREPARE").then(|| words.name())?.ok()?;
    let behind = words.at;
    loop {
        let types = sql[behind..words.at].trim();
        if words.accept("AS") {
            return Some(Prepared { name, types, sql: words.rest() });
        }
        words.next()?;
    }
}

/// The name of the statement that EXECUTE runs.
pub(super) fn executed(sql: &str) -> Option<String> {
    let mut words = Words::of(sql);
    words.accept("EXECUTE").then(|| words.name())?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_quotes_comments_and_symbols() {
        let words: Vec<_> = Words::of("a.b /* c */ \"d\"\"e\" 'f''g' -- h\n(1) E'\\t' 'open").collect();
        assert_eq!(
            words,
            [
                Word::Bare("a.b"),
                Word::Quoted("d\"e".into()),
                Word::Text("f'g".into()),
                Word::Symbol('('),
                Word::Bare("1"),
                Word::Symbol(')'),
                Word::Text("\t".into()),
                Word::Text("open".into()),
            ]
        );
    }

    #[test]
    fn nasty_words_are_one_each() {
        for (sql, expected) in [
            (r"E'it\'s; x'", vec![Word::Text("it's; x".into())]),
            (r"e'''\\' a", vec![Word::Text(r"'\".into()), Word::Bare("a")]),
            (r"E'open\", vec![Word::Text(r"open\".into())]),
            ("/* a /* b */ größe */ c", vec![Word::Bare("c")]),
            ("-- größe", vec![]),
            ("$x$ $$; $x$", vec![Word::Text(" $$; ".into())]),
            ("$$open", vec![Word::Text("open".into())]),
            ("$1 ?", vec![Word::Symbol('$'), Word::Symbol('?')]),
            ("U&\"d\"", vec![Word::Bare("U"), Word::Symbol('&'), Word::Quoted("d".into())]),
            (
                "größe.b.\"C\".1",
                vec![Word::Bare("größe.b."), Word::Quoted("C".into()), Word::Symbol('.'), Word::Bare("1")],
            ),
        ] {
            assert_eq!(Words::of(sql).collect::<Vec<_>>(), expected, "{sql}");
        }
    }

    #[test]
    fn prepared_statements_have_their_own_tags() {
        let of = |sql| prepared(sql).unwrap();
        let (name, types) = ("q".to_string(), "");
        assert_eq!(of("PREPARE q AS select 1"), Prepared { name, types, sql: " select 1" });
        let (name, types, sql) = ("Q".to_string(), "(int, text)", " insert into t values ($1)");
        assert_eq!(
            of("prepare \"Q\"(int, text) as insert into t values ($1)"),
            Prepared { name, types, sql }
        );
        assert_eq!(tag(sql), "INSERT");
        assert_eq!(prepared("select 1 as prepare"), None);
        assert_eq!(prepared("prepare q"), None);
        assert_eq!(executed("EXECUTE Q(1)"), Some("q".into()));
        assert_eq!(executed("select 1"), None);
    }
}
