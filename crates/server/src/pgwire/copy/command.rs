//! The statement COPY: what is copied, and in which format.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use crate::pgwire::words::{Word, Words, unexpected};
use hypostyle_types::{Error, ErrorKind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Csv,
    Binary,
}

impl Format {
    fn of_name(name: &str) -> Result<Self> {
        match name {
            "text" => Ok(Self::Text),
            "csv" => Ok(Self::Csv),
            "binary" => Ok(Self::Binary),
            _ => Err(Error::invalid_input(format!(
                "COPY format \"{name}\" not recognized; there are text, csv and binary"
            ))
            .with_sqlstate("22023")),
        }
    }
}

/// A COPY from or to the client.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::pgwire) struct Copy {
    pub is_in: bool,
    /// The table's name with its parts in quotes, where it is not a query that is copied.
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) query: Option<String>,
    pub(super) format: Format,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) header: bool,
    /// Its names must be those of the columns.
    pub(super) header_match: bool,
    pub(super) quote: u8,
    pub(super) escape: u8,
    /// The columns whose values all stand in quotes; `*` is all of them.
    force_quote: Vec<String>,
    /// Whether those of a column do, by its place.
    pub(super) quoted: Vec<bool>,
}

impl Copy {
    /// Reads what is behind COPY; `None` when it is one with a file.
    pub fn read(mut words: Words<'_>) -> Result<Option<Self>> {
        let (mut table, mut columns, mut query) = (String::new(), Vec::new(), None);
        let is_binary = words.accept("BINARY");
        if words.accept_symbol('(') {
            let start = words.rest();
            let length = closing(&mut words)?;
            query = Some(start[..length].to_string());
        } else {
            loop {
                match words.peek() {
                    Some(Word::Bare(word))
                        if ["FROM", "TO"].iter().any(|key| word.eq_ignore_ascii_case(key)) =>
                    {
                        break;
                    }
                    Some(Word::Bare(word)) => table.push_str(&word.to_lowercase()),
                    Some(Word::Quoted(name)) => table.push_str(&quoted(&name)),
                    Some(Word::Symbol('.')) => table.push('.'),
                    _ => break,
                }
                words.next();
            }
            if words.accept_symbol('(') {
                columns.push(words.name()?);
                while words.accept_symbol(',') {
                    columns.push(words.name()?);
                }
                if !words.accept_symbol(')') {
                    return Err(unexpected(")", words.peek().as_ref()));
                }
            }
        }
        let is_in = match words.accept_any(&["FROM", "TO"]) {
            Some(direction) => direction == "FROM",
            None => return Err(unexpected("FROM or TO", words.peek().as_ref())),
        };
        if !words.accept("STDIN") && !words.accept("STDOUT") {
            return Ok(None);
        }
        if is_in && query.is_some() {
            return Err(Error::new(ErrorKind::Syntax, "COPY FROM needs a table, not a query"));
        }
        let mut copy = Self {
            is_in,
            table,
            columns,
            query,
            format: if is_binary { Format::Binary } else { Format::Text },
            delimiter: b'\t',
            null: "\\N".into(),
            header: false,
            header_match: false,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            quoted: Vec::new(),
        };
        copy.options(&mut words)?;
        Ok(Some(copy))
    }

    fn options(&mut self, words: &mut Words<'_>) -> Result<()> {
        words.accept("WITH");
        let in_parentheses = words.accept_symbol('(');
        let (mut delimiter, mut null, mut quote, mut escape) = (None, None, None, None);
        let mut given: Vec<String> = Vec::new();
        while let Some(word) = words.peek() {
            if word == Word::Symbol(';') || in_parentheses && word == Word::Symbol(')') {
                break;
            }
            words.accept_symbol(',');
            let key = words.name()?;
            words.accept("AS");
            let option = if matches!(key.as_str(), "csv" | "binary") { "format" } else { key.as_str() };
            if given.iter().any(|before| before == option) {
                return Err(Error::new(ErrorKind::Syntax, format!("COPY has {option} twice")));
            }
            given.push(option.into());
            match key.as_str() {
                "format" => self.format = Format::of_name(&words.value()?.to_ascii_lowercase())?,
                "csv" => self.format = Format::Csv,
                "binary" => self.format = Format::Binary,
                "header" => {
                    let off = in_parentheses && words.accept_any(&["FALSE", "OFF", "0"]).is_some();
                    self.header = !off;
                    if in_parentheses {
                        words.accept_any(&["TRUE", "ON", "1"]);
                        self.header_match = words.accept_any(&["MATCH"]).is_some();
                    }
                }
                "delimiter" => delimiter = Some(one_byte("the delimiter", words.value()?)?),
                "null" => null = Some(words.value()?),
                "quote" => quote = Some(one_byte("the quote", words.value()?)?),
                "escape" => escape = Some(one_byte("the escape", words.value()?)?),
                "force_quote" => self.force_quote = columns_of(words)?,
                "encoding" => {
                    let encoding = words.value()?;
                    if !["utf8", "utf-8", "unicode"].iter().any(|name| encoding.eq_ignore_ascii_case(name)) {
                        return Err(Error::unsupported(format!("COPY has UTF8 only, not {encoding}")));
                    }
                }
                "freeze" => drop(words.accept_any(&["TRUE", "ON", "1"])),
                other => return Err(Error::unsupported(format!("COPY option \"{other}\" is not supported"))),
            }
        }
        if in_parentheses && !words.accept_symbol(')') {
            return Err(unexpected(")", words.peek().as_ref()));
        }
        // Such as PostgreSQL's WHERE.
        if let more @ Some(_) = words.peek()
            && more != Some(Word::Symbol(';'))
        {
            return Err(unexpected("the end of COPY", more.as_ref()));
        }
        self.check_options(&given)?;
        let csv = self.format == Format::Csv;
        self.quote = quote.unwrap_or(b'"');
        self.delimiter = delimiter.unwrap_or(if csv { b',' } else { b'\t' });
        self.null = null.unwrap_or_else(|| if csv { String::new() } else { "\\N".into() });
        self.escape = escape.unwrap_or(self.quote);
        self.check()
    }

    /// # Errors
    /// `Syntax` for options that the format has not.
    fn check_options(&self, given: &[String]) -> Result<()> {
        let of_format = match self.format {
            Format::Csv => None,
            Format::Text => {
                given.iter().find(|option| matches!(option.as_str(), "quote" | "escape" | "force_quote"))
            }
            Format::Binary => given.iter().find(|option| {
                let is_of_lines = matches!(option.as_str(), "delimiter" | "null" | "header");
                is_of_lines || matches!(option.as_str(), "quote" | "escape" | "force_quote")
            }),
        };
        if let Some(option) = of_format {
            let format = if self.format == Format::Text { "text" } else { "binary" };
            let message = format!("COPY in the {format} format has no option \"{option}\"");
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        if self.header_match && !self.is_in {
            return Err(Error::new(ErrorKind::Syntax, "HEADER MATCH is for COPY FROM"));
        }
        if !self.force_quote.is_empty() && self.is_in {
            return Err(Error::new(ErrorKind::Syntax, "FORCE_QUOTE is for COPY TO"));
        }
        Ok(())
    }

    /// # Errors
    /// `InvalidInput` (22023) for signs that could not be told from each other.
    fn check(&self) -> Result<()> {
        let csv = self.format == Format::Csv;
        let wrong = if matches!(self.delimiter, b'\n' | b'\r') {
            "the delimiter of COPY cannot be the end of a line"
        } else if csv && self.delimiter == self.quote {
            "the delimiter and the quote of COPY must differ"
        } else if !csv && (self.delimiter.is_ascii_alphanumeric() || matches!(self.delimiter, b'\\' | b'.')) {
            "the delimiter of COPY in the text format cannot be a letter, a digit, a backslash or a point"
        } else if self.null.contains(['\n', '\r']) {
            "NULL of COPY cannot have the end of a line in it"
        } else if self.null.as_bytes().contains(&self.delimiter) {
            "the delimiter of COPY cannot be in its NULL"
        } else if csv && self.null.as_bytes().contains(&self.quote) {
            "the quote of COPY cannot be in its NULL"
        } else {
            return Ok(());
        };
        Err(Error::invalid_input(wrong).with_sqlstate("22023"))
    }

    /// Returns it with the columns that it has, some of which stand in quotes.
    ///
    /// # Errors
    /// `InvalidInput` (42703) for a column that there is not.
    pub fn of_columns(&self, names: &[&str]) -> Result<Self> {
        let unknown = self.force_quote.iter().find(|name| *name != "*" && !names.contains(&name.as_str()));
        if let Some(name) = unknown {
            let message = format!("FORCE_QUOTE names no column \"{name}\" that is copied");
            return Err(Error::invalid_input(message).with_sqlstate("42703"));
        }
        let is_quoted = |name: &&str| self.force_quote.iter().any(|of| of == "*" || of == name);
        Ok(Self { quoted: names.iter().map(is_quoted).collect(), ..self.clone() })
    }

    /// What is copied, as a query.
    pub fn query(&self) -> String {
        match &self.query {
            Some(query) => query.clone(),
            None => {
                let columns: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
                let columns = if columns.is_empty() { "*".to_string() } else { columns.join(", ") };
                format!("SELECT {columns} FROM {}", self.table)
            }
        }
    }
}

/// Takes `*` or the names of columns in parentheses.
fn columns_of(words: &mut Words<'_>) -> Result<Vec<String>> {
    if words.accept_symbol('*') {
        return Ok(vec!["*".into()]);
    }
    if !words.accept_symbol('(') {
        return Err(unexpected("* or columns in parentheses", words.peek().as_ref()));
    }
    let mut columns = vec![words.name()?];
    while words.accept_symbol(',') {
        columns.push(words.name()?);
    }
    match words.accept_symbol(')') {
        true => Ok(columns),
        false => Err(unexpected(")", words.peek().as_ref())),
    }
}

/// An option's value that is one byte.
fn one_byte(what: &str, text: String) -> Result<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => {
            Err(Error::invalid_input(format!("{what} of COPY is one byte, not '{text}'"))
                .with_sqlstate("22023"))
        }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Takes words up to the parenthesis that closes the one before, and gives the length of the text
/// between.
fn closing(words: &mut Words<'_>) -> Result<usize> {
    let start = words.rest().len();
    let mut depth = 1;
    while let Some(word) = words.next() {
        match word {
            Word::Symbol('(') => depth += 1,
            Word::Symbol(')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(start - words.rest().len() - 1);
        }
    }
    Err(unexpected(")", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(sql: &str) -> Copy {
        Copy::read(Words::of(sql)).unwrap().unwrap()
    }

    #[test]
    fn copies_are_told_from_those_with_files() {
        let plain = copy("main.\"T\" (a, \"B\") FROM STDIN");
        assert_eq!((plain.table.as_str(), plain.columns.len(), plain.is_in), ("main.\"T\"", 2, true));
        let csv = copy("(SELECT ')' FROM t) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')");
        assert_eq!(csv.query(), "SELECT ')' FROM t");
        assert_eq!((csv.delimiter, csv.null.as_str(), csv.header), (b';', "x", true));
        let old = copy("t FROM STDIN WITH DELIMITER AS '|' CSV HEADER");
        assert_eq!((old.format, old.delimiter, old.header), (Format::Csv, b'|', true));
        assert_eq!(copy("BINARY t FROM STDIN").format, Format::Binary);
        assert_eq!(Copy::read(Words::of("t FROM 'file.csv'")).unwrap(), None);
        for wrong in [
            "t",
            "(SELECT 1) FROM STDIN",
            "t FROM STDIN (FORMAT xml)",
            "t TO STDOUT (DELIMITER 'ab')",
            "t TO STDOUT (FORMAT csv, FORMAT text)",
            "t TO STDOUT WITH CSV BINARY",
            "t TO STDOUT (QUOTE '|')",
            "t TO STDOUT (FORMAT binary, NULL '')",
            "t TO STDOUT (FORMAT csv, DELIMITER '\"')",
            "t TO STDOUT (FORMAT csv, NULL 'a,b')",
            "t TO STDOUT (DELIMITER 'n')",
            "t TO STDOUT (FORMAT csv, HEADER match)",
        ] {
            assert!(Copy::read(Words::of(wrong)).is_err(), "{wrong}");
        }
    }
}
