//! Calls of one node of a cluster by another (protocol.md §4.6).

use super::field::{Field, body};
use crate::CALL_BYTES_MAX;
use crate::cursor::{Reader, Writer};
use crate::schema::{read_schema, write_schema};
use arrow_schema::SchemaRef;
use hypostyle_types::{Error, Result};

/// The flag that rows follow.
const ROWS: u8 = 1;

/// A request to another node, which knows what its bytes mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub query: u32,
    pub credit: u64,
    pub chunk_bytes: u32,
    pub request: Vec<u8>,
    /// The schema of the rows that follow, if some do.
    pub rows: Option<SchemaRef>,
}

impl Field for Call {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).u64(self.credit).u32(self.chunk_bytes);
        to.u8(if self.rows.is_some() { ROWS } else { 0 }).bytes(&self.request);
        if let Some(schema) = &self.rows {
            write_schema(to, schema);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (query, credit, chunk_bytes) = (from.u32()?, from.u64()?, from.u32()?);
        let flags = from.u8()?;
        if flags > ROWS {
            return Err(Error::protocol(format!("flags {flags} of a call are not of version 1")));
        }
        let request = read_bytes(from)?;
        let rows = (flags == ROWS).then(|| read_schema(from)).transpose()?;
        Ok(Self { query, credit, chunk_bytes, request, rows })
    }
}

body!(Call, Call);

/// An answer to a call that is not rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub query: u32,
    pub reply: Vec<u8>,
}

impl Field for Reply {
    fn write(&self, to: &mut Writer) {
        to.u32(self.query).bytes(&self.reply);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { query: from.u32()?, reply: read_bytes(from)? })
    }
}

body!(Reply, Reply);

/// Reads the bytes of a request or reply.
fn read_bytes(from: &mut Reader<'_>) -> Result<Vec<u8>> {
    let bytes = from.bytes()?;
    match bytes.len() <= CALL_BYTES_MAX {
        true => Ok(bytes.into()),
        false => Err(Error::protocol(format!(
            "a request or reply of {} bytes, where at most {CALL_BYTES_MAX} may be",
            bytes.len()
        ))),
    }
}

/// Checks that a request or reply may be sent in a frame.
///
/// # Errors
/// `54000` when it has more bytes than a call may have, or its frame more than the receiver
/// accepts.
pub fn check_call_bytes(what: &str, bytes: usize, frame: usize, frame_bytes_max: u32) -> Result<()> {
    let too_long = |length: usize, limit: usize, whose: &str| {
        let message =
            format!("the {what} has {length} bytes, more than the {limit} that {whose}; send rows instead");
        Err(Error::invalid_input(message).with_sqlstate("54000"))
    };
    if bytes > CALL_BYTES_MAX {
        return too_long(bytes, CALL_BYTES_MAX, "a call may have");
    }
    match usize::try_from(frame_bytes_max) {
        Ok(limit) if frame > limit => too_long(frame, limit, "the other side accepts"),
        _ => Ok(()),
    }
}
