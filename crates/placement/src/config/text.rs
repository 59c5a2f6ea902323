//! Reads the part of TOML that `cluster.toml` needs: keys with strings, integers, truth values and
//! arrays of these, in tables and arrays of tables of one level. Every text that is read here means
//! the same in all of TOML 1.0. The rest of it is refused by name, with the line.

use hypostyle_types::{Error, Result};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::iter::Peekable;
use std::str::Chars;

/// Arrays may be nested this deep.
const DEPTH_MAX: usize = 8;

/// Reads a text as the tree of its tables.
///
/// # Errors
/// `InvalidInput` naming the line.
pub(super) fn parse(text: &str) -> Result<Value> {
    let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
    let mut root = Map::new();
    // The table that keys go to: none is the root.
    let mut table: Option<String> = None;
    loop {
        reader.skip_lines();
        match reader.rest.peek() {
            None => return Ok(Value::Object(root)),
            Some('[') => table = Some(reader.header(&mut root)?),
            Some(_) => {
                let (key, value) = reader.pair()?;
                let place = match &table {
                    None => &mut root,
                    Some(name) => last_of(&mut root, name).ok_or_else(|| reader.error("no such table"))?,
                };
                if place.contains_key(&key) {
                    return Err(reader.error(format_args!("the key {key} is there twice")));
                }
                place.insert(key, value);
            }
        }
        reader.end_line()?;
    }
}

/// Returns the table of a name, or the last one of an array of tables.
fn last_of<'a>(root: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    match root.get_mut(name)? {
        Value::Object(table) => Some(table),
        Value::Array(tables) => tables.last_mut()?.as_object_mut(),
        _ => None,
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn error(&self, what: impl Display) -> Error {
        Error::invalid_input(format!("line {}: {what}", self.line))
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn skip_blanks(&mut self) {
        while self.rest.next_if(|&c| c == ' ' || c == '\t').is_some() {}
    }

    fn skip_comment(&mut self) {
        if self.rest.peek() == Some(&'#') {
            while self.rest.next_if(|&c| c != '\n').is_some() {}
        }
    }

    /// Skips blanks, comments and ends of lines.
    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            self.skip_comment();
            match self.rest.peek() {
                Some('\n' | '\r') => self.next(),
                _ => return,
            };
        }
    }

    fn end_line(&mut self) -> Result<()> {
        self.skip_blanks();
        self.skip_comment();
        match self.rest.peek().copied() {
            None | Some('\n' | '\r') => Ok(()),
            Some(other) => Err(self.error(format_args!("the line should end before '{other}'"))),
        }
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        match self.rest.next_if_eq(&wanted) {
            Some(_) => Ok(()),
            None => Err(self.error(format_args!("'{wanted}' is missing"))),
        }
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.rest.next_if(|&c| is_part(c))).collect()
    }

    fn key(&mut self) -> Result<String> {
        let key = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        match self.rest.peek() {
            Some('.') => Err(self.error("keys with points are not supported here: use a [table]")),
            Some('"' | '\'') => Err(self.error("keys are not quoted here")),
            _ if key.is_empty() => Err(self.error("a key is missing")),
            _ => Ok(key),
        }
    }

    /// Reads `[name]` or `[[name]]` and makes the table.
    fn header(&mut self, root: &mut Map<String, Value>) -> Result<String> {
        self.expect('[')?;
        let is_array = self.rest.next_if_eq(&'[').is_some();
        self.skip_blanks();
        let name = self.key()?;
        self.skip_blanks();
        self.expect(']')?;
        if is_array {
            self.expect(']')?;
            let tables = root.entry(&name).or_insert_with(|| Value::Array(Vec::new()));
            match tables {
                // An array that was given as a value has no tables.
                Value::Array(tables) if tables.iter().all(Value::is_object) => {
                    tables.push(Value::Object(Map::new()));
                }
                _ => return Err(self.error(format_args!("{name} is no array of tables"))),
            }
        } else if root.insert(name.clone(), Value::Object(Map::new())).is_some() {
            return Err(self.error(format_args!("{name} is there twice")));
        }
        Ok(name)
    }

    fn pair(&mut self) -> Result<(String, Value)> {
        let key = self.key()?;
        self.skip_blanks();
        self.expect('=')?;
        self.skip_blanks();
        Ok((key, self.value(0)?))
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        match self.rest.peek() {
            Some('"') => self.text().map(Value::String),
            Some('\'') => self.literal().map(Value::String),
            Some('[') if depth < DEPTH_MAX => self.array(depth),
            Some('[') => Err(self.error("arrays are nested too deep")),
            Some('{') => Err(self.error("tables in braces are not supported here: use a [table]")),
            Some(_) => self.scalar(),
            None => Err(self.error("a value is missing")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        self.expect('[')?;
        let mut values = Vec::new();
        loop {
            self.skip_lines();
            if self.rest.next_if_eq(&']').is_some() {
                return Ok(Value::Array(values));
            }
            values.push(self.value(depth + 1)?);
            self.skip_lines();
            if self.rest.peek() != Some(&']') {
                self.expect(',')?;
            }
        }
    }

    fn scalar(&mut self) -> Result<Value> {
        let word = self.word(|c| !matches!(c, ' ' | '\t' | '\n' | '\r' | ',' | ']' | '#'));
        match word.as_str() {
            "" => Err(self.error("a value is missing")),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => match integer(&word) {
                Some(number) => Ok(Value::from(number)),
                None => Err(self.error(format_args!(
                    "'{word}' is no string in quotes, no integer and neither true nor false; other values are not \
                     supported here"
                ))),
            },
        }
    }

    /// Reads a string in which nothing is escaped.
    fn literal(&mut self) -> Result<String> {
        self.open('\'')?;
        let text = self.word(|c| c != '\'' && (c == '\t' || !c.is_control()));
        self.close('\'', text)
    }

    fn text(&mut self) -> Result<String> {
        self.open('"')?;
        let mut text = String::new();
        loop {
            text += &self.word(|c| c != '"' && c != '\\' && (c == '\t' || !c.is_control()));
            if self.rest.next_if_eq(&'\\').is_none() {
                return self.close('"', text);
            }
            text.push(self.escape()?);
        }
    }

    fn open(&mut self, quote: char) -> Result<()> {
        self.expect(quote)?;
        let mut ahead = self.rest.clone();
        if ahead.next() == Some(quote) && ahead.next() == Some(quote) {
            return Err(self.error("strings of several lines are not supported here"));
        }
        Ok(())
    }

    fn close(&mut self, quote: char, text: String) -> Result<String> {
        match self.rest.next_if_eq(&quote) {
            Some(_) => Ok(text),
            None => Err(self.error("a string does not end, or has a control character")),
        }
    }

    fn escape(&mut self) -> Result<char> {
        Ok(match self.next() {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some(same @ ('"' | '\\')) => same,
            Some('u') => self.code(4)?,
            Some('U') => self.code(8)?,
            _ => return Err(self.error("a string has an unknown escape")),
        })
    }

    fn code(&mut self, digits: usize) -> Result<char> {
        let mut code = 0_u32;
        for _ in 0..digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.error("an escape has too few digits"))?;
        }
        char::from_u32(code).ok_or_else(|| self.error("an escape is of no character"))
    }
}

/// Reads a decimal integer as TOML has them: a sign, and digits with single underscores between.
fn integer(word: &str) -> Option<i64> {
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    let parts: Vec<&str> = digits.split('_').collect();
    let is_number = parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let has_zero = digits.len() > 1 && digits.starts_with('0');
    if is_number && !has_zero { word.replace('_', "").parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_those_of_toml() {
        let text = "a = \"\\u00e9\\t\\\"#\" # c\n\n'";
        assert!(parse(text).is_err());
        let text = "a = \"\\u00e9\\t\\\"#\" # c\r\nb = ''\nc = [1_000, -2, # two\n [true], ]\n[t]\nx=+0\n[[u]]\n[[u]]\ny='\\n'";
        let expected =
            json!({"a": "é\t\"#", "b": "", "c": [1000, -2, [true]], "t": {"x": 0}, "u": [{}, {"y": "\\n"}]});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), json!({}));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("\n a", "line 2: '=' is missing"),
            ("a = 1 b = 2", "line 1: the line should end before 'b'"),
            ("a = 1\n\na = 2", "line 3: the key a is there twice"),
            ("[t]\n[t]", "line 2: t is there twice"),
            ("a = 1\n[[a]]", "line 2: a is no array of tables"),
            ("a = [1]\n[[a]]", "line 2: a is no array of tables"),
            ("[t\n", "line 1: ']' is missing"),
            ("a.b = 1", "line 1: keys with points"),
            ("a = {b = 1}", "line 1: tables in braces"),
            ("a = \"\"\"x\"\"\"", "line 1: strings of several lines"),
            ("a = \"x\nb = 1", "line 1: a string does not end"),
            ("a = \"\\q\"", "line 1: a string has an unknown escape"),
            ("a = \"\\ud800\"", "line 1: an escape is of no character"),
            ("a = \"\\u00g0\"", "line 1: an escape has too few digits"),
            ("a = 1.5", "line 1: '1.5' is no string"),
            ("a = 007", "line 1: '007' is no string"),
            ("a = 1__0", "line 1: '1__0' is no string"),
            ("a = 9223372036854775808", "line 1: '9223372036854775808' is no"),
            ("a =", "line 1: a value is missing"),
            ("a = [1 2]", "line 1: ',' is missing"),
            ("a = [[[[[[[[[1]]]]]]]]]", "line 1: arrays are nested too deep"),
            ("= 1", "line 1: a key is missing"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.message().starts_with(message), "{text}: {}", found.message());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]\"'\\\\#=,.{}\n\r\tau0-9_é ]{0,60}") {
            let _ = parse(&text);
        }
    }
}
