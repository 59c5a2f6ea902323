//! A place among the tokens of a statement, and what may follow there.

use crate::identifier::fold;
use crate::lexer::{Token, TokenKind, Tokens, tokens};
use hypostyle_types::{Error, ErrorKind, NAME_BYTES_MAX, Result};
use sqlparser::ast::{Ident, ObjectName};
use std::ops::Range;

/// Reads a statement token by token, past comments.
pub(crate) struct Cursor<'a> {
    sql: &'a str,
    rest: Tokens<'a>,
    end_of_last: usize,
}

impl<'a> Cursor<'a> {
    /// Begins behind some tokens of a statement.
    pub fn skipping(sql: &'a str, count: usize) -> Self {
        let mut cursor = Self { sql, rest: tokens(sql), end_of_last: 0 };
        (0..count).for_each(|_| _ = cursor.next());
        cursor
    }

    fn ahead(&self) -> impl Iterator<Item = Token<'a>> {
        self.rest.clone().filter(|token| token.kind != TokenKind::Comment)
    }

    /// Returns the next token.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.ahead().next()
    }

    /// Goes past the next token and returns it.
    pub fn next(&mut self) -> Option<Token<'a>> {
        let next = self.rest.find(|token| token.kind != TokenKind::Comment)?;
        self.end_of_last = next.end();
        Some(next)
    }

    /// Returns the byte at which the next token begins, or the statement ends.
    pub fn start(&self) -> usize {
        self.peek().map_or(self.sql.len(), |token| token.start)
    }

    /// Says whether nothing follows but a semicolon.
    pub fn is_at_end(&self) -> bool {
        let mut ahead = self.ahead().skip_while(|token| token.is_symbol(";"));
        ahead.next().is_none()
    }

    /// Returns the text of what follows.
    pub fn rest(&self) -> &'a str {
        self.sql.get(self.start()..).unwrap_or_default()
    }

    /// Goes past what is between parentheses that have just opened, and returns where it is.
    pub fn parenthesized(&mut self) -> Result<Range<usize>> {
        let (start, mut depth) = (self.start(), 1_usize);
        while let Some(token) = self.next() {
            if token.is_symbol("(") {
                depth += 1;
            } else if token.is_symbol(")") {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(start..token.start);
            }
        }
        Err(self.unexpected(")"))
    }

    /// Returns the byte at which the token before the next one ends.
    pub fn end_of_last(&self) -> usize {
        self.end_of_last
    }

    /// Says whether some words come next.
    pub fn is_at(&self, words: &[&str]) -> bool {
        let mut ahead = self.ahead();
        words.iter().all(|word| {
            let next = ahead.next().filter(|token| token.kind == TokenKind::Word);
            next.is_some_and(|token| token.text.eq_ignore_ascii_case(word))
        })
    }

    /// Goes past some words if they come next, all of them.
    pub fn take_all(&mut self, words: &[&str]) -> bool {
        let are_there = self.is_at(words);
        if are_there {
            words.iter().for_each(|_| _ = self.next());
        }
        are_there
    }

    /// Goes past a word if it comes next.
    pub fn take(&mut self, word: &str) -> bool {
        self.take_all(&[word])
    }

    /// Goes past a symbol if it comes next.
    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_there = self.peek().is_some_and(|token| token.is_symbol(symbol));
        if is_there {
            self.next();
        }
        is_there
    }

    /// Goes past words that have to come next.
    pub fn expect(&mut self, words: &[&str]) -> Result<()> {
        for word in words {
            if !self.take(word) {
                return Err(self.unexpected(word));
            }
        }
        Ok(())
    }

    /// Goes past a symbol that has to come next.
    pub fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    /// Checks that nothing follows but a semicolon.
    pub fn end(&mut self) -> Result<()> {
        let _semicolon = self.take_symbol(";");
        if self.is_at_end() { Ok(()) } else { Err(self.unexpected("the end of the statement")) }
    }

    /// Reads a name as it is looked up: in lower case unless it is quoted.
    pub fn name(&mut self, what: &str) -> Result<String> {
        Ok(fold(&self.identifier(what)?))
    }

    /// Reads the name of a table, which may have that of its schema and its database before it.
    pub fn table(&mut self) -> Result<ObjectName> {
        let mut parts = vec![self.identifier("the name of a table")?];
        while self.take_symbol(".") {
            parts.push(self.identifier("the name of a table")?);
        }
        Ok(ObjectName::from(parts))
    }

    /// Reads a name as it is written.
    pub fn identifier(&mut self, what: &str) -> Result<Ident> {
        let (at, token) = (self.start(), self.peek());
        let identifier = match token {
            Some(Token { kind: TokenKind::Word, text, .. }) => Ident::new(text),
            Some(Token { kind: TokenKind::QuotedName, text, is_open: false, .. }) => {
                Ident::with_quote('"', between_quotes(text))
            }
            _ => return Err(self.unexpected(what)),
        };
        if !(1..=NAME_BYTES_MAX).contains(&identifier.value.len()) {
            return Err(self.wrong(at, format!("{what} has 1 to {NAME_BYTES_MAX} bytes")));
        }
        self.next();
        Ok(identifier)
    }

    /// Reads a text between single quotes.
    pub fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token { kind: TokenKind::Text, text, is_open: false, .. }) if text.starts_with('\'') => {
                self.next();
                Ok(between_quotes(text))
            }
            _ => Err(self.unexpected(&format!("{what} in single quotes"))),
        }
    }

    /// Reads a whole number between two bounds.
    pub fn number(&mut self, what: &str, least: u32, most: u32) -> Result<u32> {
        let Some(token) = self.peek().filter(|token| token.kind == TokenKind::Number) else {
            return Err(self.unexpected(&format!("the number of {what}")));
        };
        match token.text.parse() {
            Ok(number) if (least..=most).contains(&number) => {
                self.next();
                Ok(number)
            }
            _ => {
                let why = format!("the number of {what} is a whole number from {least} to {most}");
                Err(self.wrong(token.start, format!("{why}, not {}", shortened(token.text))))
            }
        }
    }

    /// Returns the error that something else has to come next.
    pub fn unexpected(&self, wanted: &str) -> Error {
        self.wrong(self.start(), format!("{wanted} was expected, not {}", self.found()))
    }

    /// Returns what comes next, for a message.
    pub fn found(&self) -> String {
        self.peek().map_or("the end of the statement".into(), |token| shortened(token.text))
    }

    /// Returns an error at a byte of the statement.
    pub fn wrong(&self, at: usize, why: impl Into<String>) -> Error {
        let before = self.sql.get(..at).unwrap_or(self.sql);
        // What is missing at the end is missed behind the last token.
        let before = if at == self.sql.len() { before.trim_end() } else { before };
        Error::new(ErrorKind::Syntax, why).at(before.chars().count() + 1)
    }

    /// Returns the error that the statement is written in another way, where the next token is.
    pub fn usage(&self, usage: &str) -> Error {
        self.wrong(self.start(), usage)
    }

    /// Returns a part of the statement.
    pub fn text_between(&self, start: usize, end: usize) -> &'a str {
        self.sql.get(start..end).unwrap_or_default()
    }
}

/// Returns a text with blanks in place of a part, so that all others keep their places.
pub(crate) fn blanked(sql: &str, part: Range<usize>) -> String {
    let blank = |(at, character): (usize, char)| match character {
        '\n' => '\n',
        _ if part.contains(&at) => ' ',
        other => other,
    };
    sql.char_indices().map(blank).collect()
}

/// Returns a text with a part of it alone, where it is.
pub(crate) fn alone(sql: &str, part: Range<usize>) -> String {
    let Range { start, end } = part;
    blanked(sql.get(..end).unwrap_or(sql), 0..start)
}

/// Returns what is between the quotes of a token, two of which are one of the text.
fn between_quotes(text: &str) -> String {
    let quote = text.chars().next().map(String::from).unwrap_or_default();
    let inner = text.strip_prefix(&quote).and_then(|rest| rest.strip_suffix(&quote)).unwrap_or_default();
    inner.replace(&quote.repeat(2), &quote)
}

/// Returns a token for a message.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.into(),
    }
}
