//! What the server says: messages written one after the other into a buffer.

use bytes::{BufMut, Bytes, BytesMut};
use hypostyle_pgtypes::Column;
use hypostyle_types::{Error, Result};

/// The length of a message has a sign.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// What drivers look for before they prepare a statement again.
pub(super) const CHANGED: &str = "cached plan must not change result type";

/// The state that a client is told when it may say something again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    InTransaction,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Notice,
    Warning,
    Error,
    /// The connection ends with it.
    Fatal,
}

/// Messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies(BytesMut);

impl Replies {
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    pub fn take(&mut self) -> Bytes {
        self.0.split().freeze()
    }

    /// A message with what `body` writes.
    pub fn message(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.0.put_u8(kind);
        let start = self.0.len();
        self.0.put_u32(0);
        body(&mut self.0);
        let length = (self.0.len() - start) as u32;
        self.0[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// A message with a row, of which several values may be large.
    ///
    /// # Errors
    /// `54000` for a row that is longer than a message may be, of which nothing is sent.
    pub fn row(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) -> Result<()> {
        let before = self.0.len();
        self.message(kind, body);
        let length = self.0.len() - before;
        if length <= MESSAGE_BYTES_MAX {
            return Ok(());
        }
        self.0.truncate(before);
        let message = format!("a row of {length} bytes, and a message has at most {MESSAGE_BYTES_MAX}");
        Err(Error::invalid_input(message).with_sqlstate("54000"))
    }

    /// A message without a body.
    fn bare(&mut self, kind: u8) {
        self.message(kind, |_| ());
    }

    pub fn authentication(&mut self, code: u32, data: &[u8]) {
        self.message(b'R', |body| {
            body.put_u32(code);
            body.put_slice(data);
        });
    }

    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }

    pub fn backend_key(&mut self, process: u32, secret: u32) {
        self.message(b'K', |body| {
            body.put_u32(process);
            body.put_u32(secret);
        });
    }

    pub fn negotiate_version(&mut self, minor: u32, unknown: &[String]) {
        self.message(b'v', |body| {
            body.put_u32(minor);
            body.put_u32(unknown.len() as u32);
            unknown.iter().for_each(|name| put_text(body, name));
        });
    }

    pub fn ready(&mut self, status: Status) {
        self.message(b'Z', |body| {
            body.put_u8(match status {
                Status::Idle => b'I',
                Status::InTransaction => b'T',
                Status::Failed => b'E',
            });
        });
    }

    pub fn parameters(&mut self, types: &[u32]) {
        self.message(b't', |body| {
            body.put_u16(types.len() as u16);
            types.iter().for_each(|oid| body.put_u32(*oid));
        });
    }

    /// The columns of a result; `formats` are those of Bind.
    pub fn columns(&mut self, columns: &[Column], formats: &[i16]) {
        self.message(b'T', |body| {
            body.put_u16(columns.len() as u16);
            for (index, column) in columns.iter().enumerate() {
                put_text(body, &column.name);
                body.put_u32(column.table);
                body.put_i16(column.number);
                body.put_u32(column.oid);
                body.put_i16(column.bytes);
                body.put_i32(column.modifier);
                body.put_i16(format_of(formats, index));
            }
        });
    }

    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    pub fn copy(&mut self, kind: u8, binary: bool, columns: usize) {
        self.message(kind, |body| {
            body.put_u8(u8::from(binary));
            body.put_u16(columns as u16);
            (0..columns).for_each(|_| body.put_u16(u16::from(binary)));
        });
    }

    pub fn copy_done(&mut self) {
        self.bare(b'c');
    }

    pub fn parse_complete(&mut self) {
        self.bare(b'1');
    }

    pub fn bind_complete(&mut self) {
        self.bare(b'2');
    }

    pub fn close_complete(&mut self) {
        self.bare(b'3');
    }

    pub fn no_data(&mut self) {
        self.bare(b'n');
    }

    pub fn empty_query(&mut self) {
        self.bare(b'I');
    }

    pub fn suspended(&mut self) {
        self.bare(b's');
    }

    /// An error, or with a lesser severity a notice. `position` counts characters of the query from 1.
    pub fn error(&mut self, severity: Severity, error: &Error, position: Option<usize>) {
        let kind = if matches!(severity, Severity::Notice | Severity::Warning) { b'N' } else { b'E' };
        let name = match severity {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        };
        // What to do about it is a hint to PostgreSQL's clients.
        let (message, hint) = match error.message().rfind("; did you mean ") {
            Some(at) => (&error.message()[..at], Some(&error.message()[at + 2..])),
            None => (error.message(), None),
        };
        self.message(kind, |body| {
            let mut field = |code: u8, text: &str| {
                body.put_u8(code);
                // A text that a message shows may have zeros, of which the first would end it.
                put_text(body, &text.replace('\0', "\u{2400}"));
            };
            field(b'S', name);
            field(b'V', name);
            field(b'C', error.sqlstate());
            field(b'M', message);
            if let Some(detail) = error.detail() {
                field(b'D', detail);
            }
            if let Some(hint) = hint {
                field(b'H', hint);
            }
            if let Some(position) = position {
                field(b'P', &position.to_string());
            }
            if message == CHANGED {
                // Drivers look at the place in PostgreSQL's source.
                field(b'R', "RevalidateCachedQuery");
            }
            body.put_u8(0);
        });
    }
}

/// A text up to its first zero, which would end it.
fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.split('\0').next().unwrap_or_default().as_bytes());
    body.put_u8(0);
}

/// The format of a column: one for each, one for all, or text.
pub(super) fn format_of(formats: &[i16], index: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(index).copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_ends_no_message() {
        let mut replies = Replies::default();
        replies.error(Severity::Error, &Error::invalid_input("not \"a\0b\""), None);
        let sent = replies.take();
        let fields: Vec<&[u8]> = sent[5..].split(|byte| *byte == 0).collect();
        assert!(fields.contains(&"Mnot \"a\u{2400}b\"".as_bytes()), "{fields:?}");
    }
}
