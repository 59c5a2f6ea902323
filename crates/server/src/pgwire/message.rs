//! What a client says: frames cut out of the bytes of a connection, and their bodies taken apart.
//!
//! All of it comes from somebody who may not have been let in: every length is checked before it is believed.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use bytes::{Buf, Bytes, BytesMut};
use hypostyle_types::{Error, Result};

/// The longest message before authentication, as in PostgreSQL.
pub(super) const STARTUP_BYTES_MAX: usize = 10_000;

/// The longest message of a session.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Bytes of a length, which counts itself.
const LENGTH_BYTES: usize = 4;

/// The prepared statement or the portal that a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement(String),
    Portal(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind {
        portal: String,
        statement: String,
        formats: Vec<i16>,
        values: Vec<Option<Bytes>>,
        result_formats: Vec<i16>,
    },
    Describe(Target),
    Execute {
        portal: String,
        /// 0: all.
        rows: i32,
    },
    Close(Target),
    Flush,
    Sync,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// An answer in the authentication.
    Password(Bytes),
    Terminate,
    /// One whose end can be told, and nothing else.
    Wrong {
        kind: u8,
        reason: String,
        sqlstate: String,
    },
}

/// Takes the next message out of what has been received; `None` when it is not all there.
///
/// # Errors
/// `08P01` for what is no message, if nothing that follows can be understood.
pub(super) fn take(received: &mut BytesMut) -> Result<Option<Message>> {
    take_up_to(received, MESSAGE_BYTES_MAX)
}

/// [`take`] from somebody who has not been let in.
pub(super) fn take_in_startup(received: &mut BytesMut) -> Result<Option<Message>> {
    take_up_to(received, STARTUP_BYTES_MAX)
}

fn take_up_to(received: &mut BytesMut, max: usize) -> Result<Option<Message>> {
    let Some((kind, length)) = head(received) else { return Ok(None) };
    let max = if kind == b'p' { STARTUP_BYTES_MAX } else { max };
    if !(LENGTH_BYTES..=max).contains(&length) {
        return Err(Error::protocol(format!(
            "a message of type '{}' has a length of {length} bytes; 4 to {max} are allowed",
            kind.escape_ascii()
        )));
    }
    if received.len() < 1 + length {
        return Ok(None);
    }
    let mut body = received.split_to(1 + length).freeze();
    body.advance(1 + LENGTH_BYTES);
    let mut body = Body(body);
    match body.message(kind).and_then(|message| body.end(kind).map(|()| message)) {
        Ok(message) => Ok(Some(message)),
        // As in PostgreSQL, what follows it is understood.
        Err(error)
            if max == MESSAGE_BYTES_MAX && matches!(kind, b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'F') =>
        {
            let (reason, sqlstate) = (error.message().into(), error.sqlstate().into());
            Ok(Some(Message::Wrong { kind, reason, sqlstate }))
        }
        Err(error) => Err(error),
    }
}

/// The bytes of the message that has begun, as it says itself.
pub(super) fn announced(received: &[u8]) -> usize {
    head(received).map_or(0, |(_, length)| length.min(MESSAGE_BYTES_MAX))
}

/// The bytes of the messages that have begun before a limit, as they say themselves: the last one may end
/// behind it, or may not be all there.
pub(super) fn announced_before(received: &[u8], limit: usize) -> usize {
    let mut end = 0;
    while end < limit
        && let Some((_, length)) = received.get(end..).and_then(head)
    {
        end += 1 + length.clamp(LENGTH_BYTES, MESSAGE_BYTES_MAX);
    }
    end
}

fn head(received: &[u8]) -> Option<(u8, usize)> {
    let (kind, rest) = received.split_first()?;
    let length = rest.first_chunk::<LENGTH_BYTES>()?;
    Some((*kind, u32::from_be_bytes(*length) as usize))
}

/// What is left of a message.
pub(super) struct Body(pub Bytes);

impl Body {
    fn message(&mut self, kind: u8) -> Result<Message> {
        Ok(match kind {
            b'Q' => Message::Query(self.text()?),
            b'P' => {
                let (name, sql) = (self.text()?, self.text()?);
                Message::Parse { name, sql, types: self.list(Self::u32)? }
            }
            b'B' => Message::Bind {
                portal: self.text()?,
                statement: self.text()?,
                formats: self.list(Self::i16)?,
                values: self.list(Self::value)?,
                result_formats: self.list(Self::i16)?,
            },
            b'D' => Message::Describe(self.target()?),
            b'E' => Message::Execute { portal: self.text()?, rows: self.u32()? as i32 },
            b'C' => Message::Close(self.target()?),
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'd' => Message::CopyData(std::mem::take(&mut self.0)),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(self.text()?),
            b'p' => Message::Password(std::mem::take(&mut self.0)),
            b'X' => Message::Terminate,
            b'F' => {
                return Err(Error::unsupported(
                    "function calls are not supported; call the function in a query",
                ));
            }
            other => {
                return Err(Error::protocol(format!("'{}' is no type of a message", other.escape_ascii())));
            }
        })
    }

    /// # Errors
    /// `08P01` if something is left.
    fn end(&self, kind: u8) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Error::protocol(format!(
                "a message of type '{}' has {left} bytes too many",
                kind.escape_ascii()
            ))),
        }
    }

    fn target(&mut self) -> Result<Target> {
        let kind = self.bytes(1)?.get_u8();
        let name = self.text()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            other => Err(Error::protocol(format!(
                "'{}' is neither a statement nor a portal",
                other.escape_ascii()
            ))),
        }
    }

    pub fn bytes(&mut self, count: usize) -> Result<Bytes> {
        if self.0.len() < count {
            return Err(Error::protocol("a message ends too early"));
        }
        Ok(self.0.split_to(count))
    }

    /// Up to a zero.
    pub fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Error::protocol("a text of a message does not end"))?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        String::from_utf8(text.to_vec())
            .map_err(|_| Error::protocol("a text of a message is not UTF-8").with_sqlstate("22021"))
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(self.bytes(2)?.get_i16())
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.bytes(4)?.get_u32())
    }

    /// A value with its length before it; the length -1 is NULL.
    pub fn value(&mut self) -> Result<Option<Bytes>> {
        match self.u32()? as i32 {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| Error::protocol(format!("a value of {length} bytes")))?;
                self.bytes(length).map(Some)
            }
        }
    }

    fn list<T>(&mut self, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        // A count that is not true fails at the first item that is missing: nothing is reserved for it.
        let count = self.i16()? as u16;
        (0..count).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[kind][..]);
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_message_is_taken_when_it_is_all_there() {
        let whole = frame(b'Q', b"SELECT 1\0");
        for end in 0..whole.len() {
            assert_eq!(take(&mut BytesMut::from(&whole[..end])).unwrap(), None);
        }
        let mut two = whole.clone();
        two.extend_from_slice(&frame(b'S', b""));
        assert_eq!(take(&mut two).unwrap(), Some(Message::Query("SELECT 1".into())));
        assert_eq!(take(&mut two).unwrap(), Some(Message::Sync));
        assert_eq!(take(&mut two).unwrap(), None);
    }

    #[test]
    fn messages_say_where_they_end() {
        let one = frame(b'Q', b"SELECT 1\0");
        let two = [&one[..], &frame(b'd', &[0; 1000])[..]].concat();
        for (received, limit, end) in [
            (&two[..0], 100, 0),
            (&two[..3], 100, 0),
            (&two[..5], 100, one.len()),
            (&two[..one.len() + 4], 100, one.len()),
            (&two[..one.len() + 5], 100, two.len()),
            (&two[..], one.len() + 1, two.len()),
            (&two[..], one.len(), one.len()),
            (&b"Q\0\0\0\0Q\0\0\0\0"[..], 100, 10),
        ] {
            assert_eq!(announced_before(received, limit), end, "{received:?} {limit}");
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let wrong: [(u8, &[u8]); 10] = [
            (b'Q', b"no end"),
            (b'Q', b"\xff\xfe\0"),
            (b'Q', b"two\0texts\0"),
            (b'B', b"\0\0\x7f\xff"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"),
            (b'P', b"\0\0\xff\xff"),
            (b'D', b"X\0"),
            (b'D', b""),
            (b'F', b""),
        ];
        for (kind, body) in wrong {
            let taken = take(&mut frame(kind, body));
            assert!(
                matches!(taken, Ok(Some(Message::Wrong { kind: of, .. })) if of == kind),
                "{kind} {body:?}"
            );
            assert!(take_in_startup(&mut frame(kind, body)).is_err(), "{kind} {body:?}");
        }
        for (kind, body) in [(b'S', &b"x"[..]), (b'X', b"x"), (b'f', b"no end")] {
            assert!(take(&mut frame(kind, body)).is_err(), "{kind} {body:?}");
        }
        assert!(take(&mut BytesMut::from(&b"Q\0\0\0\x03"[..])).is_err());
        assert!(take(&mut BytesMut::from(&b"Q\xff\xff\xff\xff"[..])).is_err());
        assert!(take(&mut BytesMut::from(&b"p\0\x01\0\0"[..])).is_err());
        assert!(take(&mut frame(b'!', b"")).is_err());
    }
}
