//! Results in columns, from a server that has the extension `hypostyle` (docs/protocol.md, §15).

use crate::address::Numeric;
use crate::link::Link;
use crate::statement::Statement;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Field, Schema, SchemaRef};
use hypostyle_types::{Error, Result};
use hypostyle_wire::{Codec, Done, FRAME_HEADER_BYTES, FrameHeader, FrameType, ResultHeader, StreamDecoder};
use std::sync::Arc;

/// Loads the extension into the session: it catches COPY from then on. A pooler may have another
/// server for each transaction, so it comes with each statement.
pub const LOAD: &str = "SELECT pg_catalog.hypostyle_protocol()";

/// What comes in front of a query that COPY runs.
const COPY_BEFORE: &str = "COPY (";

/// The version of the protocol that this client speaks.
const PROTOCOL: u32 = 1;

/// The longest frame that is accepted: a server has no longer messages. So a row may be as long here as in
/// COPY and in rows.
const FRAME_BYTES: u32 = (1 << 30) - 65;

/// Returns the text of the COPY that runs a query, and the number of characters before the query in
/// it.
pub fn copy_text(statement: Statement<'_>, numeric: Numeric, codec: Codec, origin: &str) -> (String, usize) {
    let numeric = match numeric {
        Numeric::Text => "text".to_string(),
        Numeric::Double => "double".into(),
        Numeric::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
    };
    let text = format!(
        "{COPY_BEFORE}{}\n) TO STDOUT (FORMAT hypostyle, protocol {PROTOCOL}, frame_bytes {FRAME_BYTES}, \
         codec '{codec}', numeric '{numeric}', origin '{origin}')",
        statement.text
    );
    (text, COPY_BEFORE.len())
}

/// Says whether the server has the extension.
///
/// # Errors
/// Those of the server.
pub fn are_spoken(link: &mut Link) -> Result<bool> {
    if let Some(are_spoken) = link.speaks_columns {
        return Ok(are_spoken);
    }
    let found = link.select("SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'hypostyle'")?;
    link.speaks_columns = Some(!found.is_empty());
    Ok(!found.is_empty())
}

/// The frames of a result, one in each message.
pub struct Columns {
    schema: SchemaRef,
    decoder: Box<StreamDecoder>,
    done: bool,
}

impl Columns {
    /// Takes the first frame. `described` has what the server says of the columns beside.
    ///
    /// # Errors
    /// `Connection` for bytes that are no such frame.
    pub fn new(message: &[u8], described: &Schema) -> Result<Self> {
        let (FrameType::Result, body) = frame(message)? else {
            return Err(Error::protocol("the first frame of a result is none of it"));
        };
        let header = ResultHeader::decode(body)?;
        let fields = header.schema.fields();
        let fields: Vec<Field> = fields
            .iter()
            .enumerate()
            .map(|(index, field)| with_metadata(field, described.fields().get(index).map(|field| &**field)))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let decoder = Box::new(StreamDecoder::new(header.query, schema.clone()));
        Ok(Self { decoder, schema, done: false })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Takes the next frame. Returns the rows that it has.
    ///
    /// # Errors
    /// `Connection` for bytes that are no frame of a result.
    pub fn take(&mut self, message: &[u8]) -> Result<Option<RecordBatch>> {
        if self.done {
            return Err(Error::protocol("a frame follows the last one of a result"));
        }
        let (frame_type, body) = frame(message)?;
        match frame_type {
            FrameType::Dictionary => self.decoder.dictionary(Buffer::from(body))?,
            FrameType::Chunk => return self.decoder.chunk(Buffer::from(body))?.decode().map(Some),
            FrameType::Done => {
                let done = Done::decode(body)?;
                self.decoder.end(done.rows, done.checksum)?;
                self.done = true;
            }
            other => return Err(Error::protocol(format!("a {other:?} frame is none of a result"))),
        }
        Ok(None)
    }

    /// Checks that the result has come to its end.
    ///
    /// # Errors
    /// `Connection` if it was cut short.
    pub fn end(&self) -> Result<()> {
        match self.done {
            true => Ok(()),
            false => Err(Error::protocol("the frames of a result end before its end")),
        }
    }
}

/// Returns a field with what is said of it beside, which may be more.
fn with_metadata(field: &Field, described: Option<&Field>) -> Field {
    let mut metadata = described.map(|field| field.metadata().clone()).unwrap_or_default();
    metadata.extend(field.metadata().clone());
    field.clone().with_metadata(metadata)
}

/// Returns the kind and the body of the frame that a message is.
fn frame(message: &[u8]) -> Result<(FrameType, &[u8])> {
    let short = || Error::protocol("a message is shorter than the frame in it");
    let (header, body) = message.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or_else(short)?;
    let header = FrameHeader::decode(header, FRAME_BYTES)?;
    match usize::try_from(header.length) == Ok(body.len()) {
        true => Ok((header.frame_type, body)),
        false => Err(short()),
    }
}
