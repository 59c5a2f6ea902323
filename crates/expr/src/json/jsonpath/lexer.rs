//! The words and signs of a path of SQL/JSON.

use hypostyle_types::{Error, Result};
use std::iter::Peekable;
use std::str::Chars;

/// A word or a sign of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name without quotes, which may be a keyword.
    Name(String),
    /// What is in quotes.
    Text(String),
    /// `$name`
    Variable(String),
    /// A number, as JSON has it.
    Number(String),
    Sign(&'static str),
}

/// Longer signs stand before those that they begin with.
const SIGNS: [&str; 29] = [
    "&&", "||", "==", "!=", "<>", "<=", ">=", "**", "&", "|", "=", "!", "<", ">", "*", "$", "@", ".", ",",
    "?", "(", ")", "[", "]", "{", "}", "+", "-", "/",
];

/// Says whether a character belongs to a name.
fn is_of_name(letter: char) -> bool {
    !letter.is_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\"".contains(letter)
}

/// Returns all words and signs of a path.
///
/// # Errors
/// `InvalidInput` (42601) for what is none.
pub(super) fn tokens(path: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { path, rest: path };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    path: &'a str,
    rest: &'a str,
}

impl Lexer<'_> {
    fn token(&mut self) -> Result<Option<Token>> {
        self.pass_blanks()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let second = self.rest.chars().nth(1);
        let is_number =
            first.is_ascii_digit() || first == '.' && second.is_some_and(|of| of.is_ascii_digit());
        Ok(Some(match first {
            '"' => Token::Text(self.text()?),
            '$' if second == Some('"') => {
                self.rest = &self.rest[1..];
                Token::Variable(self.text()?)
            }
            '$' if second.is_some_and(is_of_name) => {
                self.rest = &self.rest[1..];
                Token::Variable(self.name()?)
            }
            _ if is_number => Token::Number(self.number()?),
            '%' => {
                self.rest = &self.rest[1..];
                Token::Sign("%")
            }
            first if is_of_name(first) => Token::Name(self.name()?),
            _ => {
                let sign = SIGNS.iter().copied().find(|sign| self.rest.starts_with(*sign));
                let sign = sign.ok_or_else(|| malformed(self.path, self.rest))?;
                self.rest = &self.rest[sign.len()..];
                Token::Sign(sign)
            }
        }))
    }

    /// Passes blanks and comments.
    fn pass_blanks(&mut self) -> Result<()> {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix("/*") else { return Ok(()) };
            let (_, behind) = comment.split_once("*/").ok_or_else(|| malformed(self.path, self.rest))?;
            self.rest = behind;
        }
    }

    /// Returns a name, in which a backslash may stand before any letter.
    fn name(&mut self) -> Result<String> {
        let mut letters = self.rest.chars().peekable();
        let mut name = String::new();
        while let Some(letter) = letters.next_if(|letter| is_of_name(*letter)) {
            name.push(if letter == '\\' { self.escaped(&mut letters)? } else { letter });
        }
        self.rest = behind(self.rest, letters);
        Ok(name)
    }

    /// Returns what is in quotes.
    fn text(&mut self) -> Result<String> {
        let mut letters = self.rest[1..].chars().peekable();
        let mut text = String::new();
        loop {
            match letters.next() {
                None => return Err(malformed(self.path, self.rest)),
                Some('"') => break,
                Some('\\') => text.push(self.escaped(&mut letters)?),
                Some(letter) => text.push(letter),
            }
        }
        self.rest = behind(self.rest, letters);
        Ok(text)
    }

    /// Returns the character that what is behind a backslash stands for.
    fn escaped(&self, letters: &mut Peekable<Chars<'_>>) -> Result<char> {
        let invalid = || malformed(self.path, self.rest);
        let letter = letters.next().ok_or_else(invalid)?;
        Ok(match letter {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => char::from_u32(digits(letters, 2).ok_or_else(invalid)?).ok_or_else(invalid)?,
            'u' if letters.next_if_eq(&'{').is_some() => {
                let mut code = 0_u32;
                while let Some(digit) = letters.next_if(char::is_ascii_hexdigit) {
                    let digit = digit.to_digit(16).ok_or_else(invalid)?;
                    code =
                        code.checked_mul(16).and_then(|code| code.checked_add(digit)).ok_or_else(invalid)?;
                }
                letters.next_if_eq(&'}').ok_or_else(invalid)?;
                char::from_u32(code).ok_or_else(invalid)?
            }
            'u' => {
                let first = digits(letters, 4).ok_or_else(invalid)?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or_else(invalid);
                }
                let marks = [letters.next(), letters.next()];
                let second = digits(letters, 4).filter(|second| (0xdc00..0xe000).contains(second));
                match (marks, second) {
                    ([Some('\\'), Some('u')], Some(second)) => {
                        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        char::from_u32(code).ok_or_else(invalid)?
                    }
                    _ => return Err(invalid()),
                }
            }
            other => other,
        })
    }

    fn number(&mut self) -> Result<String> {
        let bytes = self.rest.as_bytes();
        let digits_from = |start: usize| {
            let rest = bytes.get(start..).unwrap_or_default();
            start + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let whole = digits_from(0);
        let mut end = whole;
        if bytes.get(end) == Some(&b'.') {
            end = digits_from(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let behind = digits_from(signed);
            if behind > signed {
                end = behind;
            }
        }
        let (number, behind) = self.rest.split_at(end);
        // 01 is no number, and 1a is neither.
        let is_wrong = whole > 1 && number.starts_with('0') || behind.starts_with(is_of_name);
        if is_wrong {
            return Err(malformed(self.path, self.rest));
        }
        self.rest = behind;
        let number = match number.strip_prefix('.') {
            Some(fraction) => format!("0.{fraction}"),
            None => number.to_string(),
        };
        let (mantissa, exponent) = match number.find(['e', 'E']) {
            Some(place) => number.split_at(place),
            None => (number.as_str(), ""),
        };
        Ok(format!("{}{exponent}", mantissa.trim_end_matches('.')))
    }
}

/// Returns what is left of a text behind the letters that are taken.
fn behind<'a>(text: &'a str, letters: Peekable<Chars<'_>>) -> &'a str {
    let left: usize = letters.map(char::len_utf8).sum();
    &text[text.len() - left..]
}

/// Returns the number of so many hexadecimal digits.
fn digits(letters: &mut Peekable<Chars<'_>>, count: usize) -> Option<u32> {
    (0..count).try_fold(0, |code, _| Some(code * 16 + letters.next()?.to_digit(16)?))
}

/// Returns the error for a path that is none, and where that shows.
pub(super) fn malformed(path: &str, at: &str) -> Error {
    let message = match at {
        "" => format!("syntax error at the end of the jsonpath '{path}'"),
        at => format!("syntax error at or near \"{at}\" of the jsonpath '{path}'"),
    };
    Error::invalid_input(message).with_sqlstate("42601")
}
