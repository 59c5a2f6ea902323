//! COPY between a table and the client, in PostgreSQL's text, CSV and binary formats.

use super::channel::{Failure, Input};
use super::column::Column;
use super::decode::{binary_array, binary_scalar, from_text};
use super::message::Message;
use super::rows::Rows;
use super::session::Session;
use super::words::{Word, Words, unexpected};
use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchReader};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hypostyle::{AppendOptions, ColumnDescription, ScalarValue};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Rows that are appended at a time, or those that have so many bytes.
const ROWS_AT_A_TIME: usize = 8192;
const BYTES_AT_A_TIME: usize = 16 << 20;

/// A row that is not complete after so many bytes is not one.
const ROW_BYTES_MAX: usize = 256 << 20;

const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Csv,
    Binary,
}

/// A COPY from or to the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    pub is_in: bool,
    /// With its parts in quotes, where it is not a query that is copied.
    table: String,
    columns: Vec<String>,
    query: Option<String>,
    format: Format,
    delimiter: u8,
    null: String,
    header: bool,
    /// Its names must be those of the columns.
    header_match: bool,
    quote: u8,
    escape: u8,
}

impl Copy {
    /// Behind COPY; `None` when it is one with a file.
    pub fn of(mut words: Words<'_>) -> Result<Option<Self>> {
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
        };
        copy.options(&mut words)?;
        Ok(Some(copy))
    }

    fn options(&mut self, words: &mut Words<'_>) -> Result<()> {
        words.accept("WITH");
        let in_parentheses = words.accept_symbol('(');
        let (mut delimiter, mut null, mut quote, mut escape) = (None, None, None, None);
        let mut given: Vec<String> = Vec::new();
        let one = |what: &str, text: String| match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(Error::invalid_input(format!("{what} of COPY is one byte, not '{text}'"))
                .with_sqlstate("22023")),
        };
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
                "format" => {
                    let name = words.value()?.to_ascii_lowercase();
                    self.format = match name.as_str() {
                        "text" => Format::Text,
                        "csv" => Format::Csv,
                        "binary" => Format::Binary,
                        _ => {
                            return Err(Error::invalid_input(format!(
                                "COPY format \"{name}\" not recognized; there are text, csv and binary"
                            ))
                            .with_sqlstate("22023"));
                        }
                    };
                }
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
                "delimiter" => delimiter = Some(one("the delimiter", words.value()?)?),
                "null" => null = Some(words.value()?),
                "quote" => quote = Some(one("the quote", words.value()?)?),
                "escape" => escape = Some(one("the escape", words.value()?)?),
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
        let csv = self.format == Format::Csv;
        let of_format = match self.format {
            Format::Csv => None,
            Format::Text => given.iter().find(|option| matches!(option.as_str(), "quote" | "escape")),
            Format::Binary => given.iter().find(|option| {
                matches!(option.as_str(), "delimiter" | "null" | "header" | "quote" | "escape")
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
        self.quote = quote.unwrap_or(b'"');
        self.delimiter = delimiter.unwrap_or(if csv { b',' } else { b'\t' });
        self.null = null.unwrap_or_else(|| if csv { String::new() } else { "\\N".into() });
        self.escape = escape.unwrap_or(self.quote);
        self.check()
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

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Takes words up to the parenthesis that closes the one before, and gives the length of the text between.
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

/// Copies, and gives the number of rows.
pub(super) fn run(session: &mut Session, copy: &Copy) -> Result<u64, Failure> {
    if copy.is_in { copy_in(session, copy) } else { copy_out(session, copy) }
}

// To the client.

fn copy_out(session: &mut Session, copy: &Copy) -> Result<u64, Failure> {
    let query = copy.query();
    let refused = || Failure::Statement(Error::invalid_input("COPY TO needs a query that has rows"));
    // Before it has done anything.
    let described = session.connection.describe(&query)?;
    if described.columns.is_none() && !described.runs_to_tell {
        return Err(refused());
    }
    let result = session.connection.execute(&query)?;
    if !result.is_query() {
        return Err(refused());
    }
    let mut rows = Rows::new(session.connection.clone(), result, None, session.zone());
    let output = &mut session.output;
    output.replies.copy(b'H', copy.format == Format::Binary, rows.columns.len());
    if copy.header && copy.format != Format::Binary {
        let names = rows.columns.iter().map(|column| Some(column.name.as_bytes()));
        output.replies.message(b'd', |body| put_line(body, names, copy));
    }
    // Clients expect the beginning and the first row, or the end, in one message.
    let mut first = copy.format == Format::Binary;
    let mut put_beginning = |body: &mut BytesMut| {
        if std::mem::take(&mut first) {
            body.put_slice(BINARY_SIGNATURE);
            body.put_u64(0);
        }
    };
    let mut count = 0;
    while let Some(chunk) = rows.next(usize::MAX)? {
        let mut texts: Vec<BytesMut> = vec![BytesMut::new(); chunk.cells.len()];
        for row in 0..chunk.rows {
            output.replies.message(b'd', |body| match copy.format {
                Format::Binary => {
                    put_beginning(body);
                    body.put_u16(chunk.cells.len() as u16);
                    chunk.cells.iter().for_each(|cells| cells.put(row, true, body));
                }
                _ => {
                    for (cells, text) in chunk.cells.iter().zip(&mut texts) {
                        text.clear();
                        if !cells.is_null(row) {
                            cells.text(row, text);
                        }
                    }
                    let fields = chunk.cells.iter().zip(&texts);
                    let fields = fields.map(|(cells, text)| (!cells.is_null(row)).then_some(&text[..]));
                    put_line(body, fields, copy);
                }
            });
            output.flush_if_full()?;
        }
        count += chunk.rows as u64;
    }
    if copy.format == Format::Binary {
        output.replies.message(b'd', |body| {
            put_beginning(body);
            body.put_i16(-1);
        });
    }
    output.replies.copy_done();
    Ok(count)
}

/// One row; NULL is `None`.
fn put_line<'a>(body: &mut BytesMut, fields: impl Iterator<Item = Option<&'a [u8]>>, copy: &Copy) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            body.put_u8(copy.delimiter);
        }
        match field {
            None => body.put_slice(copy.null.as_bytes()),
            Some(text) if copy.format == Format::Csv => put_csv(body, text, copy),
            Some(text) => put_escaped(body, text, copy.delimiter),
        }
    }
    body.put_u8(b'\n');
}

fn put_escaped(body: &mut BytesMut, text: &[u8], delimiter: u8) {
    for byte in text {
        let escaped = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            11 => b'v',
            12 => b'f',
            other if *other == delimiter => *other,
            other => {
                body.put_u8(*other);
                continue;
            }
        };
        body.put_u8(b'\\');
        body.put_u8(escaped);
    }
}

fn put_csv(body: &mut BytesMut, text: &[u8], copy: &Copy) {
    let special = |byte: &u8| [copy.delimiter, copy.quote, b'\n', b'\r'].contains(byte);
    // A text that looks like NULL is not NULL.
    if !text.iter().any(special) && text != copy.null.as_bytes() && text != b"\\." {
        return body.put_slice(text);
    }
    body.put_u8(copy.quote);
    for byte in text {
        if *byte == copy.quote || *byte == copy.escape {
            body.put_u8(copy.escape);
        }
        body.put_u8(*byte);
    }
    body.put_u8(copy.quote);
}

// From the client.

fn copy_in(session: &mut Session, copy: &Copy) -> Result<u64, Failure> {
    let described = session.connection.describe(&copy.query())?;
    let columns = described.columns.unwrap_or_default();
    session.output.replies.copy(b'G', copy.format == Format::Binary, columns.len());
    session.output.flush()?;
    let input = session.input.clone();
    let rows = Incoming::new(input, copy.clone(), columns, session.zone_name());
    let ended = rows.ended.clone();
    let options = AppendOptions { create: false, by_name: true };
    let appended = session.connection.append(&copy.table, Box::new(rows), options);
    if appended.is_ok() && !*ended.lock() {
        return Err(Failure::Statement(Error::internal("COPY ended before its data")));
    }
    // An error while the client still sends: the rest of it is passed over by the session.
    Ok(appended?)
}

/// Rows that are read from the client's messages as they are asked for.
struct Incoming {
    input: Arc<Mutex<Input>>,
    copy: Copy,
    columns: Vec<ColumnDescription>,
    /// Of times that are written without one.
    zone: String,
    schema: SchemaRef,
    /// What has been received and not yet been cut into rows.
    received: BytesMut,
    /// Of the current row, for errors.
    line: u64,
    header_read: bool,
    /// The client has said that there is no more.
    complete: bool,
    ended: Arc<Mutex<bool>>,
}

const GIVEN_UP: &str = "COPY from stdin failed: ";

/// Whether the client has given up a COPY.
pub(super) fn is_given_up(error: &Error) -> bool {
    error.message().contains(GIVEN_UP)
}

/// The fields of a row.
enum Row {
    Texts(Vec<Option<String>>),
    Values(Vec<Option<Bytes>>),
}

impl Incoming {
    fn new(input: Arc<Mutex<Input>>, copy: Copy, columns: Vec<ColumnDescription>, zone: String) -> Self {
        let fields = columns.iter().map(|column| column.logical_type.arrow_field(&column.name, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let ended = Arc::new(Mutex::new(false));
        let (line, header_read, complete) = (0, false, false);
        Self {
            input,
            copy,
            columns,
            zone,
            schema,
            received: BytesMut::new(),
            line,
            header_read,
            complete,
            ended,
        }
    }

    /// Waits for more data; false when there is no more.
    fn receive(&mut self) -> Result<bool> {
        if self.complete {
            return Ok(false);
        }
        loop {
            let message = self.input.lock().next().map_err(|failure| match failure {
                Failure::Statement(error) | Failure::Fatal(error) => error,
                Failure::Gone => Error::new(ErrorKind::Connection, "the client went away during COPY"),
            })?;
            match message {
                Message::CopyData(data) => {
                    if self.received.len() > ROW_BYTES_MAX {
                        return Err(self.wrong(format!("a row has more than {ROW_BYTES_MAX} bytes")));
                    }
                    self.received.extend_from_slice(&data);
                    return Ok(true);
                }
                Message::CopyDone => {
                    self.complete = true;
                    return Ok(false);
                }
                Message::CopyFail(why) => {
                    return Err(Error::new(ErrorKind::Interrupted, format!("{GIVEN_UP}{why}")));
                }
                // As PostgreSQL has it, these mean nothing here.
                Message::Flush | Message::Sync => {}
                _ => return Err(Error::protocol("a message came in the middle of COPY")),
            }
        }
    }

    fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::invalid_input(format!("COPY {}, row {}: {why}", self.copy.table, self.line))
            .with_sqlstate("22P04")
    }

    /// The next row; `None` at the end.
    fn row(&mut self) -> Result<Option<Row>> {
        match self.copy.format {
            Format::Binary => self.binary_row(),
            Format::Csv | Format::Text => {
                let Some(line) = self.line()? else { return Ok(None) };
                Ok(Some(Row::Texts(self.texts(&line)?)))
            }
        }
    }

    /// Checks the names of a header, if they must be those of the columns.
    fn check_header(&self, line: &[u8]) -> Result<()> {
        if !self.copy.header_match {
            return Ok(());
        }
        let names = self.texts(line)?;
        let found: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap_or_default()).collect();
        let wanted: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        match found == wanted {
            true => Ok(()),
            false => Err(self.wrong(format!(
                "the header has the columns {}, and not {}",
                found.join(", "),
                wanted.join(", ")
            ))),
        }
    }

    /// The fields of a line.
    fn texts(&self, line: &[u8]) -> Result<Vec<Option<String>>> {
        let text = std::str::from_utf8(line)
            .map_err(|error| self.wrong(format!("not UTF-8: {error}")).with_sqlstate("22021"))?;
        match self.copy.format {
            Format::Csv => Ok(csv_fields(text, &self.copy)),
            _ => text_fields(text, &self.copy).map_err(|why| self.wrong(why).with_sqlstate("22021")),
        }
    }

    /// The next line, without its end; in CSV, quotes may have lines in them.
    fn line(&mut self) -> Result<Option<Bytes>> {
        // How far the line has been looked at, so that a long one is not looked at again and again.
        let (mut seen, mut quoted, mut escaped) = (0, false, false);
        loop {
            let is_csv = self.copy.format == Format::Csv;
            while let Some(byte) = self.received.get(seen).copied() {
                seen += 1;
                match byte {
                    b'\n' if !quoted && !escaped => {
                        let mut line = self.received.split_to(seen).freeze();
                        line.truncate(seen - 1);
                        if line.ends_with(b"\r") {
                            line.truncate(line.len() - 1);
                        }
                        self.line += 1;
                        if line == b"\\."[..] {
                            self.received.clear();
                            while self.receive()? {
                                self.received.clear();
                            }
                            return Ok(None);
                        }
                        if self.copy.header && !std::mem::replace(&mut self.header_read, true) {
                            self.check_header(&line)?;
                            (seen, quoted, escaped) = (0, false, false);
                            continue;
                        }
                        return Ok(Some(line));
                    }
                    _ if is_csv && escaped => escaped = false,
                    byte if is_csv && quoted && byte == self.copy.escape && byte != self.copy.quote => {
                        escaped = true
                    }
                    byte if is_csv && byte == self.copy.quote => quoted = !quoted,
                    b'\\' if !is_csv => escaped = !escaped,
                    _ => escaped = false,
                }
            }
            if !self.receive()? {
                if self.received.is_empty() {
                    return Ok(None);
                }
                if quoted {
                    self.line += 1;
                    return Err(self.wrong("unterminated CSV quoted field"));
                }
                // The last line may lack its end.
                self.received.put_u8(b'\n');
                escaped = false;
            }
        }
    }

    /// Waits until so many bytes are there.
    fn bytes(&mut self, count: usize) -> Result<Bytes> {
        if count > ROW_BYTES_MAX {
            return Err(self.wrong(format!("a value of {count} bytes")));
        }
        while self.received.len() < count {
            if !self.receive()? {
                return Err(self.wrong("unexpected end of the data"));
            }
        }
        Ok(self.received.split_to(count).freeze())
    }

    fn binary_row(&mut self) -> Result<Option<Row>> {
        // The end has been read already.
        if self.complete && self.header_read && self.received.is_empty() {
            return Ok(None);
        }
        if !std::mem::replace(&mut self.header_read, true) {
            if self.bytes(BINARY_SIGNATURE.len())? != BINARY_SIGNATURE {
                return Err(self.wrong("COPY file signature not recognized"));
            }
            let mut flags = self.bytes(8)?;
            let (_flags, extension) = (flags.get_u32(), flags.get_u32());
            self.bytes(extension as usize)?;
        }
        self.line += 1;
        // PostgreSQL does without the mark of the end, and some clients, too.
        if self.received.is_empty() && !self.receive()? {
            return Ok(None);
        }
        let count = self.bytes(2)?.get_i16();
        if count == -1 {
            while self.receive()? {}
            return Ok(None);
        }
        let mut values = Vec::new();
        for _ in 0..count.max(0) {
            values.push(match self.bytes(4)?.get_i32() {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| self.wrong("a length below zero"))?;
                    Some(self.bytes(length)?)
                }
            });
        }
        Ok(Some(Row::Values(values)))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut texts: Vec<Vec<Option<String>>> = vec![Vec::new(); self.columns.len()];
        let mut values: Vec<Vec<Option<Bytes>>> = vec![Vec::new(); self.columns.len()];
        let first = self.line + 1;
        let (mut rows, mut bytes) = (0, 0);
        while rows < ROWS_AT_A_TIME && bytes < BYTES_AT_A_TIME {
            let Some(row) = self.row()? else { break };
            let width = match &row {
                Row::Texts(fields) => fields.len(),
                Row::Values(fields) => fields.len(),
            };
            bytes += match &row {
                Row::Texts(fields) => fields.iter().flatten().map(String::len).sum::<usize>(),
                Row::Values(fields) => fields.iter().flatten().map(Bytes::len).sum(),
            };
            if width != self.columns.len() {
                let wanted = self.columns.len();
                return Err(self.wrong(format!("{wanted} fields were expected, not {width}")));
            }
            match row {
                Row::Texts(fields) => {
                    fields.into_iter().zip(&mut texts).for_each(|(field, column)| column.push(field))
                }
                Row::Values(fields) => {
                    fields.into_iter().zip(&mut values).for_each(|(field, column)| column.push(field));
                }
            }
            rows += 1;
        }
        if rows == 0 {
            *self.ended.lock() = true;
            return Ok(None);
        }
        let arrays = self.columns.iter().enumerate().map(|(index, column)| {
            let array = match self.copy.format {
                Format::Binary => from_values(&values[index], &column.logical_type),
                _ => from_text(
                    &StringArray::from(std::mem::take(&mut texts[index])),
                    &column.logical_type,
                    &self.zone,
                ),
            };
            array.map_err(|error| {
                let last = first + rows as u64 - 1;
                error.context(format!(
                    "COPY {}, column \"{}\", rows {first} to {last}",
                    self.copy.table, column.name
                ))
            })
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map(Some)
            .map_err(|error| Error::internal(format!("rows of COPY do not fit their types: {error}")))
    }
}

fn from_values(values: &[Option<Bytes>], of: &LogicalType) -> Result<ArrayRef> {
    let column = Column::new("", of);
    let values = values.iter().map(|value| match value {
        None => Ok(ScalarValue::Null),
        Some(bytes) if column.shown.is_array => binary_array(bytes.clone(), column.shown.scalar),
        Some(bytes) => binary_scalar(bytes.clone(), column.shown.scalar),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let wrong = |error: String| Error::invalid_input(error).with_sqlstate("22P03");
    let exact = values.iter().map(ScalarValue::data_type).find(|found| !found.is_null());
    let Some(exact) = exact else { return Ok(arrow::array::new_null_array(&of.arrow_type(), values.len())) };
    // Texts are parsed, and numbers of several scales are brought to the column's.
    if matches!(exact, arrow::datatypes::DataType::LargeUtf8) || column.shown.scalar.name == "numeric" {
        let texts: StringArray =
            values.iter().map(|value| (!value.is_null()).then(|| value.to_string())).collect();
        return from_text(&texts, of, "UTC");
    }
    let nulls = ScalarValue::try_from(&exact).map_err(|error| wrong(error.to_string()))?;
    let values = values.into_iter().map(|value| if value.is_null() { nulls.clone() } else { value });
    let array = ScalarValue::iter_to_array(values).map_err(|error| wrong(error.to_string()))?;
    // What the column does not hold is no NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&array, &of.arrow_type(), &options).map_err(|error| wrong(error.to_string()))
}

impl Iterator for Incoming {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Incoming {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The fields of a line in the text format.
pub(super) fn text_fields(line: &str, copy: &Copy) -> Result<Vec<Option<String>>, String> {
    let (mut fields, mut start, mut escaped) = (Vec::new(), 0, false);
    let mut finish = |raw: &str| {
        fields.push(if raw == copy.null { None } else { Some(unescaped(raw)?) });
        Ok::<(), String>(())
    };
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == copy.delimiter => {
                finish(&line[start..at])?;
                start = at + 1;
            }
            _ => {}
        }
    }
    finish(&line[start..])?;
    Ok(fields)
}

/// # Errors
/// Why numbered bytes make no text.
fn unescaped(raw: &str) -> Result<String, String> {
    if !raw.contains('\\') {
        return Ok(raw.to_string());
    }
    let mut bytes = raw.bytes().peekable();
    let mut plain = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'b') => plain.push(8),
            Some(b'f') => plain.push(12),
            Some(b'n') => plain.push(b'\n'),
            Some(b'r') => plain.push(b'\r'),
            Some(b't') => plain.push(b'\t'),
            Some(b'v') => plain.push(11),
            Some(digit @ b'0'..=b'7') => plain.push(digits(&mut bytes, u32::from(digit - b'0'), 8, 2)),
            Some(b'x') if bytes.peek().is_some_and(u8::is_ascii_hexdigit) => {
                plain.push(digits(&mut bytes, 0, 16, 2));
            }
            Some(other) => plain.push(other),
            None => plain.push(b'\\'),
        }
    }
    String::from_utf8(plain).map_err(|error| format!("not UTF-8: {error}"))
}

/// A byte by its number, of which some digits follow.
fn digits(bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>, first: u32, radix: u32, most: usize) -> u8 {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        number = number * radix + digit;
        bytes.next();
    }
    number as u8
}

/// The fields of a row of CSV. Only what is not in quotes can be NULL.
pub(super) fn csv_fields(row: &str, copy: &Copy) -> Vec<Option<String>> {
    let (mut fields, mut field, mut was_quoted, mut quoted) = (Vec::new(), Vec::new(), false, false);
    let mut finish = |field: &mut Vec<u8>, was_quoted: &mut bool| {
        let text = String::from_utf8_lossy(&std::mem::take(field)).into_owned();
        fields.push((std::mem::take(was_quoted) || text != copy.null).then_some(text));
    };
    let mut bytes = row.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let next_is_special = bytes.peek().is_some_and(|next| *next == copy.quote || *next == copy.escape);
        if quoted && byte == copy.escape && next_is_special {
            field.extend(bytes.next());
        } else if byte == copy.quote {
            quoted = !quoted;
            was_quoted = true;
        } else if byte == copy.delimiter && !quoted {
            finish(&mut field, &mut was_quoted);
        } else {
            field.push(byte);
        }
    }
    finish(&mut field, &mut was_quoted);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(sql: &str) -> Copy {
        Copy::of(Words::of(sql)).unwrap().unwrap()
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
        assert_eq!(Copy::of(Words::of("t FROM 'file.csv'")).unwrap(), None);
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
            assert!(Copy::of(Words::of(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_come_back() {
        let text = copy("t TO STDOUT");
        let csv = copy("t TO STDOUT CSV");
        let fields = [Some("a\tb\\"), None, Some(""), Some("c\nd\",é"), Some("\\N")];
        let text_fields = |line: &str, copy: &Copy| text_fields(line, copy).unwrap();
        for (copy, split) in [(&text, text_fields as fn(&str, &Copy) -> _), (&csv, csv_fields)] {
            let mut line = BytesMut::new();
            put_line(&mut line, fields.iter().map(|field| field.map(str::as_bytes)), copy);
            let line = std::str::from_utf8(&line).unwrap().strip_suffix('\n').unwrap();
            let back: Vec<Option<String>> = split(line, copy);
            assert_eq!(back.iter().map(Option::as_deref).collect::<Vec<_>>(), fields, "{line}");
        }
        assert_eq!(unescaped("\\101\\x42\\q\\").unwrap(), "ABq\\");
        assert_eq!(unescaped("\\xc3\\xa9").unwrap(), "é");
        assert!(unescaped("\\xff").unwrap_err().contains("not UTF-8"));
    }
}
