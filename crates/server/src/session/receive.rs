//! Rows that the client sends: of an append, or of a table that it was asked for.

use super::link::Link;
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use hypostyle_types::{Error, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{FrameType, StreamDecoder};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes that a client may have on the way.
const WINDOW_BYTES: u64 = 16 << 20;

/// The rows of an append, as they come.
pub fn rows(link: &Arc<Mutex<Link>>, append: &wire::Append) -> Result<Rows> {
    let rows = Rows {
        link: link.clone(),
        query: append.query,
        schema: append.schema.clone(),
        decoder: StreamDecoder::new(append.query, append.schema.clone()),
        over: false,
    };
    rows.grant(WINDOW_BYTES)?;
    Ok(rows)
}

/// Rows that are read off the socket when they are wanted.
pub struct Rows {
    link: Arc<Mutex<Link>>,
    query: u32,
    schema: SchemaRef,
    decoder: StreamDecoder,
    over: bool,
}

impl Rows {
    fn grant(&self, bytes: u64) -> Result<()> {
        let credit = wire::Credit { query: self.query, bytes, received: self.decoder.next() };
        self.link.lock().send(&credit.frame())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let frame = self.link.lock().next_of_statement()?;
            let bytes = frame.body.len() as u64;
            match frame.frame_type {
                FrameType::Dictionary => {
                    self.decoder.dictionary(frame.body)?;
                    self.grant(bytes)?;
                }
                FrameType::Chunk => {
                    let batch = self.decoder.chunk(frame.body)?.decode()?;
                    self.grant(bytes)?;
                    return Ok(Some(batch));
                }
                FrameType::End => {
                    let end = wire::End::decode(&frame.body)?;
                    self.decoder.end(end.rows, end.checksum)?;
                    return Ok(None);
                }
                other => {
                    return Err(Error::protocol(format!("a {other:?} frame among the rows of an append")));
                }
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let batch = self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose();
        self.over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// All rows of a table that the client has.
pub fn table(link: &mut Link, query: u32, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let mut decoder = StreamDecoder::new(query, schema.clone());
    let grant =
        |link: &mut Link, bytes, received| link.send(&wire::Credit { query, bytes, received }.frame());
    grant(link, WINDOW_BYTES, 0)?;
    let mut batches = Vec::new();
    loop {
        let frame = link.next_of_statement()?;
        let bytes = frame.body.len() as u64;
        match frame.frame_type {
            FrameType::Dictionary => decoder.dictionary(frame.body)?,
            FrameType::Chunk => batches.push(decoder.chunk(frame.body)?.decode()?),
            FrameType::End => {
                let end = wire::End::decode(&frame.body)?;
                decoder.end(end.rows, end.checksum)?;
                return Ok(batches);
            }
            other => return Err(Error::protocol(format!("a {other:?} frame among the rows of a table"))),
        }
        grant(link, bytes, decoder.next())?;
    }
}
