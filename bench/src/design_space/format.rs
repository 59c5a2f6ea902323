//! The serialization of rows by a protocol: the two ends that a transfer needs.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hypostyle_wire::{FrameType, rows_that_fit};

use super::Result;
use super::general::General;
use super::link::{Link, Outgoing};

/// One alternative of the design space.
pub trait Format: Sync {
    fn sender(&self, schema: &SchemaRef, link: &Link) -> Result<Box<dyn ChunkSender + '_>>;
    fn receiver(&self, schema: &SchemaRef) -> Result<Box<dyn ChunkReceiver + '_>>;

    /// Returns how many rows from `start` on make a chunk of `chunk_bytes` before compression.
    fn chunk_rows(&self, batch: &RecordBatch, start: usize, chunk_bytes: usize) -> usize {
        rows_that_fit(batch, start, chunk_bytes)
    }
}

pub trait ChunkSender {
    fn send(&mut self, chunk: RecordBatch, outgoing: &mut Outgoing) -> Result<()>;
}

pub trait ChunkReceiver {
    /// Takes a frame's body, which in most cases gives rows.
    fn receive(&mut self, frame_type: FrameType, body: Vec<u8>) -> Result<Option<RecordBatch>>;
}

/// Serializes the rows of a chunk to one message, and reads them back.
pub trait Serializer: Sync {
    fn write(&self, chunk: &RecordBatch, message: &mut Vec<u8>) -> Result<()>;
    fn read(&self, message: &[u8], schema: &SchemaRef) -> Result<RecordBatch>;

    fn chunk_rows(&self, batch: &RecordBatch, start: usize, chunk_bytes: usize) -> usize {
        rows_that_fit(batch, start, chunk_bytes)
    }
}

/// Chunks that are serialized, and then compressed as a whole, as in the chapter.
pub struct Messages<S> {
    pub serializer: S,
    pub general: General,
}

impl<S: Serializer> Format for Messages<S> {
    fn sender(&self, _schema: &SchemaRef, _link: &Link) -> Result<Box<dyn ChunkSender + '_>> {
        Ok(Box::new(MessageSender { format: self, bytes_max: 0 }))
    }

    fn receiver(&self, schema: &SchemaRef) -> Result<Box<dyn ChunkReceiver + '_>> {
        Ok(Box::new(MessageReceiver { format: self, schema: schema.clone() }))
    }

    fn chunk_rows(&self, batch: &RecordBatch, start: usize, chunk_bytes: usize) -> usize {
        self.serializer.chunk_rows(batch, start, chunk_bytes)
    }
}

struct MessageSender<'a, S> {
    format: &'a Messages<S>,
    /// The longest message until now, for which memory is reserved.
    bytes_max: usize,
}

impl<S: Serializer> ChunkSender for MessageSender<'_, S> {
    fn send(&mut self, chunk: RecordBatch, outgoing: &mut Outgoing) -> Result<()> {
        let mut message = Vec::with_capacity(self.bytes_max);
        self.format.serializer.write(&chunk, &mut message)?;
        self.bytes_max = self.bytes_max.max(message.len());
        let body = self.format.general.compress(message)?;
        outgoing.send(FrameType::Chunk, &[&body])?;
        Ok(())
    }
}

struct MessageReceiver<'a, S> {
    format: &'a Messages<S>,
    schema: SchemaRef,
}

impl<S: Serializer> ChunkReceiver for MessageReceiver<'_, S> {
    fn receive(&mut self, _frame_type: FrameType, body: Vec<u8>) -> Result<Option<RecordBatch>> {
        let message = self.format.general.decompress(body)?;
        self.format.serializer.read(&message, &self.schema).map(Some)
    }
}
