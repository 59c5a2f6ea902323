//! Rows that a client sends.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::binary::{BINARY_SIGNATURE, from_values};
use super::command::{Copy, Format};
use super::csv::csv_fields;
use super::text::text_fields;
use crate::pgwire::channel::{Failure, Input};
use crate::pgwire::decode::{HAS_ZERO, from_text};
use crate::pgwire::message::Message;
use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchReader};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hypostyle::{ColumnDescription, Connection, Held};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Rows that are appended at a time, or those that have so many bytes.
const ROWS_AT_A_TIME: usize = 8192;
const BYTES_AT_A_TIME: usize = 16 << 20;

/// A row that is not complete after so many bytes is not one.
const ROW_BYTES_MAX: usize = 256 << 20;

/// A row that is longer takes memory of the session's, for its bytes and for its values.
const ROW_BYTES_FREE: usize = 1 << 20;
const ROW_COPIES: usize = 2;

/// How far the rows of a client have come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Begun,
    /// All have been given.
    Ended,
    /// The client has given them up.
    GivenUp,
}

/// Rows that are read from the client's messages as they are asked for.
pub(super) struct Incoming {
    input: Arc<Mutex<Input>>,
    connection: Connection,
    copy: Copy,
    columns: Vec<ColumnDescription>,
    /// The zone of times that are written without one.
    zone: String,
    schema: SchemaRef,
    /// What has been received and not yet been cut into rows.
    received: BytesMut,
    /// The memory of the session's for the longest row, and its bytes.
    memory: Vec<Held>,
    held: usize,
    /// The line of the current row, for errors.
    line: u64,
    header_read: bool,
    /// The client has said that there is no more.
    complete: bool,
    pub delivery: Arc<Mutex<Delivery>>,
}

/// The fields of a row.
enum Row {
    Texts(Vec<Option<String>>),
    Values(Vec<Option<Bytes>>),
}

impl Incoming {
    pub fn new(
        input: Arc<Mutex<Input>>,
        connection: Connection,
        copy: Copy,
        columns: Vec<ColumnDescription>,
        zone: String,
    ) -> Self {
        let fields = columns.iter().map(|column| column.logical_type.arrow_field(&column.name, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let delivery = Arc::new(Mutex::new(Delivery::Begun));
        let (line, header_read, complete) = (0, false, false);
        Self {
            input,
            connection,
            copy,
            columns,
            zone,
            schema,
            received: BytesMut::new(),
            memory: Vec::new(),
            held: 0,
            line,
            header_read,
            complete,
            delivery,
        }
    }

    /// Waits for more data; false when there is no more.
    fn receive(&mut self) -> Result<bool> {
        if self.complete {
            return Ok(false);
        }
        self.hold()?;
        loop {
            let message = self.input.lock().next_of_copy().map_err(|failure| match failure {
                Failure::Statement(error) | Failure::GivenUp(error) | Failure::Fatal(error) => error,
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
                    *self.delivery.lock() = Delivery::GivenUp;
                    let message = format!("COPY from stdin failed: {why}");
                    return Err(Error::new(ErrorKind::Interrupted, message));
                }
                // As PostgreSQL has it, these mean nothing here.
                Message::Flush | Message::Sync => {}
                _ => return Err(Error::protocol("a message came in the middle of COPY")),
            }
        }
    }

    /// Takes memory for a row that is not complete yet, which is all that has been received.
    fn hold(&mut self) -> Result<()> {
        let bytes = ROW_COPIES * self.received.len();
        if bytes > self.held.max(ROW_BYTES_FREE) {
            let more = (bytes - self.held).max(ROW_BYTES_FREE);
            self.memory.extend(self.connection.hold("rows of COPY", more as u64)?);
            self.held += more;
        }
        Ok(())
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
        let fields = match self.copy.format {
            Format::Csv => csv_fields(text, &self.copy),
            _ => text_fields(text, &self.copy).map_err(|why| self.wrong(why).with_sqlstate("22021"))?,
        };
        // An escape may stand for it, too.
        match fields.iter().flatten().any(|field| field.as_bytes().contains(&0)) {
            true => Err(self.wrong(HAS_ZERO).with_sqlstate("22021")),
            false => Ok(fields),
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
        let count = usize::try_from(count).map_err(|_| self.wrong("a number of fields below zero"))?;
        self.check_width(count)?;
        let (mut values, mut bytes) = (Vec::new(), 0);
        for _ in 0..count {
            values.push(match self.bytes(4)?.get_i32() {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| self.wrong("a length below zero"))?;
                    bytes += length;
                    if bytes > ROW_BYTES_MAX {
                        return Err(self.wrong(format!("a row has more than {ROW_BYTES_MAX} bytes")));
                    }
                    Some(self.bytes(length)?)
                }
            });
        }
        Ok(Some(Row::Values(values)))
    }

    fn check_width(&self, width: usize) -> Result<()> {
        match self.columns.len() {
            wanted if wanted == width => Ok(()),
            wanted => Err(self.wrong(format!("{wanted} fields were expected, not {width}"))),
        }
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
            self.check_width(width)?;
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
            *self.delivery.lock() = Delivery::Ended;
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
