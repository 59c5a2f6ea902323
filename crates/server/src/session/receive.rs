//! Rows that the client sends: of an append, or of a table that it was asked for.

use super::link::Link;
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use hypostyle::TakeMemory;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{FrameType, StreamDecoder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that a client may have on the way.
const WINDOW_BYTES: u64 = 16 << 20;

/// The rows of an append or a call, as they come.
pub fn rows(link: &Arc<Mutex<Link>>, query: u32, schema: &SchemaRef) -> Result<Rows> {
    let arriving = Arriving::begin(&mut link.lock(), query, schema)?;
    Ok(Rows { link: link.clone(), schema: schema.clone(), arriving, over: false, answered: Arc::default() })
}

/// All rows of a table that the client has, each batch as it is given memory. Few bytes may become many rows.
pub fn table(
    link: &mut Link,
    query: u32,
    schema: &SchemaRef,
    take: TakeMemory<'_>,
) -> Result<Vec<RecordBatch>> {
    let mut arriving = Arriving::begin(link, query, schema)?;
    let mut batches = Vec::new();
    while let Some(batch) = arriving.next(link)? {
        take(&batch)?;
        batches.push(batch);
    }
    Ok(batches)
}

/// A stream of chunks from the client.
struct Arriving {
    query: u32,
    decoder: StreamDecoder,
}

impl Arriving {
    fn begin(link: &mut Link, query: u32, schema: &SchemaRef) -> Result<Self> {
        link.grant(query, WINDOW_BYTES)?;
        Ok(Self { query, decoder: StreamDecoder::new(query, schema.clone()) })
    }

    /// The next rows, for which the client may send as many bytes more.
    fn next(&mut self, link: &mut Link) -> Result<Option<RecordBatch>> {
        loop {
            let frame = link.next_of_statement(self.query)?;
            let bytes = frame.body.len() as u64;
            let batch = match frame.frame_type {
                FrameType::Dictionary => {
                    self.decoder.dictionary(frame.body)?;
                    None
                }
                FrameType::Chunk => Some(self.decoder.chunk(frame.body)?.decode()?),
                FrameType::End => {
                    let end = wire::End::decode(&frame.body)?;
                    self.decoder.end(end.rows, end.checksum)?;
                    return Ok(None);
                }
                other => return Err(Error::protocol(format!("a {other:?} frame among rows"))),
            };
            link.grant(self.query, bytes)?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }
}

/// Rows that are read off the socket when they are wanted.
pub struct Rows {
    link: Arc<Mutex<Link>>,
    schema: SchemaRef,
    arriving: Arriving,
    over: bool,
    answered: Arc<AtomicBool>,
}

impl Rows {
    /// What says, when it is set, that the call of the rows is answered, and no more of them come.
    pub fn answered(&self) -> Arc<AtomicBool> {
        self.answered.clone()
    }

    /// # Errors
    /// `Internal` when the call is answered; those of what the client sends.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        self.check_unanswered()?;
        // A session that waits for its next statement has the link.
        let mut link = self.link.lock();
        self.check_unanswered()?;
        self.arriving.next(&mut link)
    }

    fn check_unanswered(&self) -> Result<()> {
        match self.answered.load(Ordering::Acquire) {
            true => Err(Error::internal("rows of the client are read after the answer, when no more come")),
            false => Ok(()),
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let batch = self.read().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose();
        self.over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
