//! The encoding of one chunk (protocol.md §10), which any thread may do.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::cursor::Writer;
use crate::dictionary::{DictionaryPlan, Send, keep_used};
use crate::encode::{Columns, encode_alone, encode_array, encode_codes};
use crate::frame::{FrameHeader, FrameType};
use crate::message::{ChunkHeader, DictionaryHeader, Place};
use crate::sink::{Settings, Sink, pad_head, too_long};
use crate::symbols::Symbols;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use hypostyle_types::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of a chunk's body before its head: query, place, number, rows, checksum, length of the head.
const CHUNK_FIELDS: usize = 4 + 1 + 8 + 4 + 8 + 4;

/// The same of a dictionary: query, column, number, values, checksum, length of the head.
const DICTIONARY_FIELDS: usize = 4 + 4 + 4 + 4 + 8 + 4;

/// What is done to a column.
pub(crate) struct ColumnPlan {
    pub settings: Settings,
    /// Bytes before codecs.
    pub raw: usize,
    pub dictionary: Option<DictionaryPlan>,
    pub symbols: Option<Symbols>,
}

/// The encoding of one chunk, which any thread may do.
pub struct EncodeJob {
    pub(crate) query: u32,
    pub(crate) number: u64,
    pub(crate) types: Arc<Vec<DataType>>,
    pub(crate) batch: RecordBatch,
    pub(crate) plans: Vec<ColumnPlan>,
}

/// What became of a column.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub settings: Settings,
    pub raw: usize,
    /// The bytes in the payload and the head.
    pub bytes: usize,
    pub encoding: u8,
    pub compression: u8,
    pub time: Duration,
    /// What chunks that follow are spared: sending a dictionary, and finding symbols.
    pub setup: Duration,
    pub symbols: Option<Symbols>,
}

/// A chunk as it goes out.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The new dictionaries, then the chunk.
    pub frames: Vec<EncodedFrame>,
    pub number: u64,
    pub rows: u64,
    /// Bytes before codecs.
    pub raw_bytes: u64,
    /// The checksum of the payload; 0 when that is for a memory file.
    pub checksum: u64,
    pub place: Place,
    pub(crate) columns: Vec<Measured>,
}

impl Encoded {
    pub fn body_bytes(&self) -> usize {
        self.frames.iter().map(EncodedFrame::body_bytes).sum()
    }
}

/// A frame's body in pieces.
#[derive(Clone, Debug)]
pub struct EncodedFrame {
    pub frame_type: FrameType,
    /// The body's first part: header fields and head.
    pub head: Vec<u8>,
    /// The payload, with padding; pieces of the arrays' own buffers where nothing had to be done.
    pub payload: Vec<Buffer>,
}

impl EncodedFrame {
    pub fn payload_bytes(&self) -> usize {
        self.payload.iter().map(Buffer::len).sum()
    }

    pub fn body_bytes(&self) -> usize {
        self.head.len() + self.payload_bytes()
    }

    /// The frame as it is sent, its payload not copied.
    pub fn buffers(&self) -> Vec<Buffer> {
        let length = self.body_bytes() as u32;
        let header = FrameHeader { length, frame_type: self.frame_type, descriptors: 0 }.encode();
        let mut buffers = Vec::with_capacity(1 + self.payload.len());
        buffers.push(Buffer::from_vec([header.as_slice(), &self.head].concat()));
        buffers.extend(self.payload.iter().cloned());
        buffers
    }
}

impl EncodeJob {
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Bytes before codecs.
    pub fn raw_bytes(&self) -> usize {
        self.plans.iter().map(|plan| plan.raw).sum()
    }

    /// Encodes the chunk for a frame.
    pub fn encode(self) -> Result<Encoded> {
        self.run(Place::Frame)
    }

    /// Uncompressed, aligned to 64 bytes, strings as offsets: for a memory file (protocol.md §10.5).
    pub fn encode_for_memory(mut self) -> Result<Encoded> {
        self.plans.iter_mut().for_each(|plan| plan.settings = Settings::IN_PLACE);
        self.run(Place::MemoryFile)
    }

    fn run(mut self, place: Place) -> Result<Encoded> {
        let rows = self.batch.num_rows() as u64;
        let raw_bytes = self.plans.iter().map(|plan| plan.raw as u64).sum();
        let mut frames = Vec::new();
        let mut sink = Sink::new(if place == Place::Frame { Settings::PLAIN } else { Settings::IN_PLACE });
        let mut columns = Vec::with_capacity(self.plans.len());
        let mut earlier = Columns::default();
        for (column, plan) in std::mem::take(&mut self.plans).into_iter().enumerate() {
            columns.push(self.encode_column(&mut sink, &mut frames, column, plan, &earlier)?);
            earlier.add(column as u32, self.batch.column(column), &self.types[column]);
        }
        let (mut head, payload) = sink.finish();
        pad_head(&mut head, CHUNK_FIELDS);
        let checksum = if place == Place::Frame { checksum(&payload) } else { 0 };
        let (query, number) = (self.query, self.number);
        let header = ChunkHeader { query, place, number, rows, checksum, skip: 0, head: head.finish() };
        let mut writer = Writer::default();
        header.write(&mut writer);
        frames.push(EncodedFrame { frame_type: FrameType::Chunk, head: writer.finish(), payload });
        Ok(Encoded { frames, number, rows, raw_bytes, checksum, place, columns })
    }

    /// Puts a column into the sink, and its new dictionary among the frames.
    fn encode_column(
        &self,
        sink: &mut Sink,
        frames: &mut Vec<EncodedFrame>,
        column: usize,
        plan: ColumnPlan,
        earlier: &Columns<'_>,
    ) -> Result<Measured> {
        let (start, before) = (Instant::now(), sink.bytes());
        let mut setup = Duration::ZERO;
        sink.settings = plan.settings;
        sink.compressed_by = 0;
        sink.symbols = plan.symbols;
        sink.setup = Duration::ZERO;
        let encoding = match (&self.types[column], plan.dictionary) {
            (DataType::Dictionary(code, values_type), Some(dictionary)) => {
                let number = dictionary.number;
                let (array, frame) = self.new_dictionary(column, dictionary, values_type, plan.settings)?;
                frames.extend(frame);
                setup = start.elapsed();
                sink.head.u32(number);
                encode_codes(sink, &array, code.primitive_width().unwrap_or(4))?
            }
            (data_type, _) => encode_array(sink, self.batch.column(column), data_type, earlier)?,
        };
        setup += sink.setup;
        Ok(Measured {
            settings: plan.settings,
            raw: plan.raw,
            bytes: sink.bytes() - before,
            encoding,
            compression: sink.compressed_by,
            time: start.elapsed().saturating_sub(setup),
            setup,
            symbols: sink.symbols.take(),
        })
    }

    /// The codes to send, and the dictionary that must go before them.
    fn new_dictionary(
        &self,
        column: usize,
        plan: DictionaryPlan,
        values_type: &DataType,
        settings: Settings,
    ) -> Result<(ArrayRef, Option<EncodedFrame>)> {
        let array = if plan.send == Send::Used { keep_used(&plan.array)? } else { plan.array };
        if plan.send == Send::Nothing {
            return Ok((array, None));
        }
        let values = array.as_any_dictionary().values();
        let header = DictionaryHeader {
            query: self.query,
            column: column as u32,
            number: plan.number,
            values: u32::try_from(values.len()).map_err(|_| too_long(values.len()))?,
            checksum: 0,
            head: Vec::new(),
        };
        let frame = encode_dictionary(header, values, values_type, settings)?;
        Ok((array, Some(frame)))
    }
}

fn encode_dictionary(
    mut header: DictionaryHeader,
    values: &ArrayRef,
    values_type: &DataType,
    settings: Settings,
) -> Result<EncodedFrame> {
    let mut sink = Sink::new(Settings { in_place: false, ..settings });
    encode_alone(&mut sink, values, values_type)?;
    let (mut head, payload) = sink.finish();
    pad_head(&mut head, DICTIONARY_FIELDS);
    header.head = head.finish();
    header.checksum = checksum(&payload);
    let mut writer = Writer::default();
    header.write(&mut writer);
    Ok(EncodedFrame { frame_type: FrameType::Dictionary, head: writer.finish(), payload })
}

fn checksum(payload: &[Buffer]) -> u64 {
    match payload {
        [only] => xxh3_64(only),
        pieces => {
            let mut hash = Xxh3::new();
            pieces.iter().for_each(|piece| hash.update(piece));
            hash.digest()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::{ENCODINGS, batch, decode_frames, encoder, expected, made_for_each};
    use crate::compression::Compression;
    use crate::{Codec, ColumnBuilder, StreamDecoder, canonical_schema};
    use arrow_schema::SchemaRef;

    fn every_setting() -> Vec<Settings> {
        let mut found = vec![Settings::PLAIN, Settings::QUICK, Settings::LIGHT];
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(12)] {
            for rounded in [false, true] {
                found.push(Settings { compression, rounded, ..Settings::QUICK });
            }
            found.push(Settings { compression, rounded: true, ..Settings::LIGHT });
            found.push(Settings { compression, ..Settings::PLAIN });
        }
        found
    }

    fn encode_by(batch: &RecordBatch, settings: Settings) -> (SchemaRef, Encoded) {
        let schema = canonical_schema(&batch.schema()).unwrap();
        let mut job = encoder(&schema, Codec::Auto).plan(batch.clone()).unwrap();
        job.plans.iter_mut().for_each(|plan| plan.settings = settings);
        (schema, job.encode().unwrap())
    }

    #[test]
    fn every_setting_comes_back() {
        for seed in 0..12 {
            let batch = batch(seed, 1500, seed % 3 == 0);
            for settings in every_setting() {
                let (schema, encoded) = encode_by(&batch, settings);
                let mut decoder = StreamDecoder::new(7, schema.clone());
                let decoded = decode_frames(&mut decoder, &encoded).unwrap();
                assert_eq!(decoded, expected(&batch, &schema), "{settings:?}");
            }
        }
    }

    #[test]
    fn each_encoding_is_chosen_where_it_is_best() {
        let batch = made_for_each(3000);
        let (schema, encoded) = encode_by(&batch, Settings::LIGHT);
        for (measured, (field, encoding)) in encoded.columns.iter().zip(schema.fields().iter().zip(ENCODINGS))
        {
            assert_eq!(measured.encoding, encoding, "{}", field.name());
        }
        let mut decoder = StreamDecoder::new(7, schema.clone());
        let chunk = decoder.chunk(crate::common::body(&encoded.frames[0])).unwrap();
        let mut builders: Vec<_> = schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
        chunk.decode_into(&mut builders).unwrap();
        for (builder, column) in builders.into_iter().zip(batch.columns()) {
            assert_eq!(&builder.finish().unwrap().to_data(), &column.to_data());
        }
    }
}
