//! The messages of PostgreSQL's protocol, version 3.0: how this side writes them, and how the parts
//! of those of the server are read.

use hypostyle_types::{Error, Result};

/// The version of the protocol, and the numbers that stand in its place in other first messages.
const VERSION: u32 = 3 << 16;
const CANCEL: u32 = 80_877_102;
const TLS_REQUEST: u32 = 80_877_103;

/// The length at which a text is too long: a server takes no message of a gigabyte.
const TEXT_BYTES_MAX: usize = (1 << 30) - (1 << 16);

/// Writes messages one after the other.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes a message of a type. `body` writes what follows its length.
    pub fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.0.push(kind);
        self.body(body)
    }

    fn body(&mut self, body: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        body(&mut self.0);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self
    }

    /// The first message of a session.
    pub fn startup(&mut self, settings: &[(&str, &str)]) -> &mut Self {
        self.body(|to| {
            to.extend_from_slice(&VERSION.to_be_bytes());
            for (name, value) in settings {
                put_text(to, name);
                put_text(to, value);
            }
            to.push(0);
        })
    }

    pub fn tls_request(&mut self) -> &mut Self {
        self.body(|to| to.extend_from_slice(&TLS_REQUEST.to_be_bytes()))
    }

    /// Asks on a connection of its own that the statement of a session ends.
    pub fn cancel(&mut self, process: u32, key: &[u8]) -> &mut Self {
        self.body(|to| {
            to.extend_from_slice(&CANCEL.to_be_bytes());
            to.extend_from_slice(&process.to_be_bytes());
            to.extend_from_slice(key);
        })
    }

    /// A password, or a message of SASL after the first.
    pub fn password(&mut self, bytes: &[u8]) -> &mut Self {
        self.message(b'p', |to| to.extend_from_slice(bytes))
    }

    pub fn sasl_initial(&mut self, mechanism: &str, first: &[u8]) -> &mut Self {
        self.message(b'p', |to| {
            put_text(to, mechanism);
            to.extend_from_slice(&length_of(first).to_be_bytes());
            to.extend_from_slice(first);
        })
    }

    /// A text of statements.
    pub fn query(&mut self, sql: &str) -> &mut Self {
        self.message(b'Q', |to| put_text(to, sql))
    }

    /// Gives a statement to the server, with the types of its parameters; 0 for those that it finds
    /// by itself.
    pub fn parse(&mut self, sql: &str, types: &[u32]) -> &mut Self {
        self.message(b'P', |to| {
            to.push(0);
            put_text(to, sql);
            to.extend_from_slice(&count_of(types.len()).to_be_bytes());
            types.iter().for_each(|oid| to.extend_from_slice(&oid.to_be_bytes()));
        })
    }

    pub fn describe_statement(&mut self) -> &mut Self {
        self.message(b'D', |to| to.extend_from_slice(b"S\0"))
    }

    /// Gives values to the parameters. `values` has each with its length before it. `given` says of
    /// each parameter, and `wanted` of each column, whether it is in binary.
    pub fn bind(&mut self, given: &[bool], values: &[u8], wanted: &[bool]) -> &mut Self {
        let put_formats = |to: &mut Vec<u8>, formats: &[bool]| {
            to.extend_from_slice(&count_of(formats.len()).to_be_bytes());
            formats.iter().for_each(|binary| to.extend_from_slice(&u16::from(*binary).to_be_bytes()));
        };
        self.message(b'B', |to| {
            to.extend_from_slice(&[0, 0]);
            put_formats(to, given);
            to.extend_from_slice(&count_of(given.len()).to_be_bytes());
            to.extend_from_slice(values);
            put_formats(to, wanted);
        })
    }

    /// Runs the statement to its end.
    pub fn execute(&mut self) -> &mut Self {
        self.message(b'E', |to| to.extend_from_slice(&[0; 5]))
    }

    pub fn sync(&mut self) -> &mut Self {
        self.message(b'S', |_| {})
    }

    pub fn copy_done(&mut self) -> &mut Self {
        self.message(b'c', |_| {})
    }

    pub fn copy_fail(&mut self, why: &str) -> &mut Self {
        self.message(b'f', |to| put_text(to, why))
    }

    pub fn terminate(&mut self) -> &mut Self {
        self.message(b'X', |_| {})
    }
}

/// Writes a text and the zero that ends it. Callers have refused texts that have a zero.
fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(text.as_bytes());
    to.push(0);
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The server refuses more parameters or columns than a count has room for; their bytes would follow
/// this one.
fn count_of(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Refuses a text that has a zero, which would end it early, or that no server takes.
///
/// # Errors
/// `InvalidInput`.
pub fn check_text(text: &str, what: &str) -> Result<()> {
    if text.len() >= TEXT_BYTES_MAX {
        let message = format!("{what} has {} bytes, more than a server accepts", text.len());
        return Err(Error::invalid_input(message).with_sqlstate("54000"));
    }
    match text.contains('\0') {
        true => Err(Error::invalid_input(format!("{what} contains a zero byte")).with_sqlstate("22021")),
        false => Ok(()),
    }
}

/// Reads the parts of a message or value. Every part that is missing is an error.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a number of things that each take some bytes of what is left, so that no count that is
    /// told makes this side allocate more than came.
    pub fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = usize::try_from(self.i16()?).map_err(|_| cut())?;
        match count.saturating_mul(bytes_each) <= self.0.len() {
            true => Ok(count),
            false => Err(cut()),
        }
    }

    /// Reads a text that ends with a zero.
    pub fn text(&mut self) -> Result<&'a str> {
        let length = memchr::memchr(0, self.0).ok_or_else(cut)?;
        let text = self.bytes(length)?;
        self.bytes(1)?;
        std::str::from_utf8(text).map_err(|_| Error::protocol("a text of the server is not UTF-8"))
    }

    /// Reads a value with its length before it; -1 is NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.bytes(usize::try_from(length).map_err(|_| cut())?).map(Some),
        }
    }
}

fn cut() -> Error {
    Error::protocol("a message of the server ends early or has a length that it cannot have")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_length() {
        let mut writer = Writer::default();
        writer.query("SELECT 1").sync();
        assert_eq!(writer.bytes(), b"Q\0\0\0\x0dSELECT 1\0S\0\0\0\x04");
        let mut writer = Writer::default();
        writer.startup(&[("user", "u")]);
        assert_eq!(writer.bytes(), b"\0\0\0\x10\0\x03\0\0user\0u\0\0");
        let mut writer = Writer::default();
        writer.bind(&[true], &[0, 0, 0, 1, 7], &[true]);
        assert_eq!(writer.bytes(), b"B\0\0\0\x15\0\0\0\x01\0\x01\0\x01\0\0\0\x01\x07\0\x01\0\x01");
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut cursor = Cursor(&[0, 0, 0, 5, 1]);
        assert!(cursor.value().is_err());
        assert_eq!(Cursor(&[255, 255, 255, 255]).value().unwrap(), None);
        assert!(Cursor(&[255, 255, 255, 254]).value().is_err());
        assert!(Cursor(&[0x7f, 0xff, 1]).count(4).is_err());
        assert!(Cursor(&[0xff, 0xff]).count(0).is_err());
        assert!(Cursor(b"abc").text().is_err());
        assert!(Cursor(b"\xff\0").text().is_err());
        assert_eq!(Cursor(b"ab\0c").text().unwrap(), "ab");
        assert!(check_text("a\0", "the statement").is_err());
    }
}
