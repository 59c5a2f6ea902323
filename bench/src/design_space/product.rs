//! The product's own chunks (protocol.md §10, §11), through the public API of `hypostyle-wire`.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hypostyle_wire::{
    COMPRESSIONS, Codec, FrameType, OnLink, StreamDecoder, StreamEncoder, canonical_schema,
};

use super::Result;
use super::format::{ChunkReceiver, ChunkSender, Format};
use super::link::{Link, Outgoing};

const QUERY: u32 = 1;

/// Chunks that one thread encodes and one decodes, as for all alternatives.
pub struct Chunks(pub Codec);

impl Format for Chunks {
    fn sender(&self, schema: &SchemaRef, link: &Link) -> Result<Box<dyn ChunkSender + '_>> {
        let schema = canonical_schema(schema)?;
        let encoder = StreamEncoder::new(QUERY, schema, COMPRESSIONS, self.0, 1);
        let encoder = encoder.on_this_machine(link.is_local());
        Ok(Box::new(Encoder(encoder)))
    }

    fn receiver(&self, schema: &SchemaRef) -> Result<Box<dyn ChunkReceiver + '_>> {
        Ok(Box::new(Decoder(StreamDecoder::new(QUERY, canonical_schema(schema)?))))
    }
}

struct Encoder(StreamEncoder);

impl ChunkSender for Encoder {
    fn send(&mut self, chunk: RecordBatch, outgoing: &mut Outgoing) -> Result<()> {
        let encoded = self.0.plan(chunk)?.encode()?;
        let mut time = Duration::ZERO;
        for frame in &encoded.frames {
            let mut pieces = vec![frame.head.as_slice()];
            pieces.extend(frame.payload.iter().map(|piece| piece.as_slice()));
            time += outgoing.send(frame.frame_type, &pieces)?;
        }
        self.0.sent(&encoded, Some(OnLink::full(encoded.body_bytes() as u64, time)));
        Ok(())
    }
}

struct Decoder(StreamDecoder);

impl ChunkReceiver for Decoder {
    fn receive(&mut self, frame_type: FrameType, body: Vec<u8>) -> Result<Option<RecordBatch>> {
        if frame_type == FrameType::Dictionary {
            self.0.dictionary(body.into())?;
            return Ok(None);
        }
        Ok(Some(self.0.chunk(body.into())?.decode()?))
    }
}
