//! The sending end of a stream of chunks (protocol.md §6.1, §10).
//!
//! What must be done in order is here: numbers, dictionaries, the choice of codecs. What takes time is in an
//! [`EncodeJob`], which any thread may do.

use crate::choice::Chooser;
use crate::codec::Codec;
use crate::cursor::Writer;
use crate::dictionary::{DictionaryPlan, Send, SentDictionaries, keep_used};
use crate::encode::{Columns, bytes_of, canonical, encode_array, encode_codes};
use crate::frame::FrameType;
use crate::message::{Chosen, ChunkHeader, DictionaryHeader, Place};
use crate::sink::{Settings, Sink, pad_head, too_long};
use crate::text::Symbols;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use hypostyle_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of a chunk's body before its head: query, place, number, rows, checksum, length of the head.
const CHUNK_FIELDS: usize = 4 + 1 + 8 + 4 + 8 + 4;

/// The same of a dictionary: query, column, number, values, checksum, length of the head.
const DICTIONARY_FIELDS: usize = 4 + 4 + 4 + 4 + 8 + 4;

/// Serial half of encoding a stream: numbers chunks, notices new dictionaries, chooses codecs.
pub struct StreamEncoder {
    query: u32,
    schema: SchemaRef,
    types: Arc<Vec<DataType>>,
    chooser: Chooser,
    next: u64,
    dictionaries: Vec<SentDictionaries>,
    dictionaries_sent: u32,
    rows_expected: u64,
    symbols: Vec<Option<Symbols>>,
    rows: u64,
    checksums: BTreeMap<u64, u64>,
    raw: u64,
    sent: u64,
    encode: Duration,
    chosen: BTreeMap<(u32, u8, u8), u64>,
}

/// What a stream was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    pub rows: u64,
    pub checksum: u64,
    /// Bytes of the chunks before and after codecs.
    pub raw: u64,
    pub sent: u64,
    /// Spent encoding, by all threads together.
    pub encode: Duration,
    pub chosen: Vec<Chosen>,
}

impl StreamEncoder {
    /// `schema` is canonical; `accepted` says what the receiver can undo, as `Hello.codecs`; jobs are done on
    /// `cores` cores.
    pub fn new(query: u32, schema: SchemaRef, accepted: u32, codec: Codec, cores: usize) -> Self {
        let columns = schema.fields().len();
        let types = Arc::new(schema.fields().iter().map(|field| field.data_type().clone()).collect());
        Self {
            query,
            schema,
            types,
            chooser: Chooser::new(codec, accepted, cores, columns),
            next: 0,
            dictionaries: (0..columns).map(|_| SentDictionaries::default()).collect(),
            dictionaries_sent: 0,
            rows_expected: 0,
            symbols: vec![None; columns],
            rows: 0,
            checksums: BTreeMap::new(),
            raw: 0,
            sent: 0,
            encode: Duration::ZERO,
            chosen: BTreeMap::new(),
        }
    }

    /// `batch` may have any types whose canonical ones are the schema's.
    pub fn plan(&mut self, batch: RecordBatch) -> Result<EncodeJob> {
        if batch.num_columns() != self.types.len() {
            return Err(Error::internal(format!(
                "{} columns came where a result has {}",
                batch.num_columns(),
                self.types.len()
            )));
        }
        let raw: Vec<usize> = batch.columns().iter().map(bytes_of).collect();
        let settings = self.chooser.choose(raw.iter().copied());
        let mut plans = Vec::with_capacity(batch.num_columns());
        for (column, array) in batch.columns().iter().enumerate() {
            let dictionary = match &self.types[column] {
                dictionary @ DataType::Dictionary(..) => {
                    let array = canonical(array, dictionary)?;
                    Some(self.plan_dictionary(column, array))
                }
                _ => None,
            };
            plans.push(ColumnPlan {
                settings: settings[column],
                raw: raw[column],
                dictionary,
                symbols: self.symbols[column].clone(),
            });
        }
        let number = self.next;
        self.next += 1;
        self.rows += batch.num_rows() as u64;
        Ok(EncodeJob { query: self.query, number, types: self.types.clone(), batch, plans })
    }

    /// How many rows will come, where that is known: a large dictionary is sent at once if they pay for it.
    pub fn expect_rows(&mut self, rows: u64) {
        self.rows_expected = rows;
    }

    fn plan_dictionary(&mut self, column: usize, array: ArrayRef) -> DictionaryPlan {
        let sent = &mut self.dictionaries_sent;
        self.dictionaries[column].plan(array, self.rows_expected, || {
            *sent += 1;
            *sent - 1
        })
    }

    /// What the sender has measured: the time that it took to put `encoded` into the socket, waiting for credit
    /// not counted. Every chunk must be told that was sent.
    pub fn sent(&mut self, encoded: &Encoded, in_socket: Duration) {
        self.checksums.insert(encoded.number, encoded.checksum);
        self.raw += encoded.raw_bytes;
        self.sent += encoded.body_bytes() as u64;
        self.chooser.sent(encoded.body_bytes() as u64, in_socket);
        for (column, measured) in encoded.columns.iter().enumerate() {
            self.chooser.encoded(column, measured.settings, measured.raw, measured.bytes, measured.time);
            self.encode += measured.time;
            *self.chosen.entry((column as u32, measured.encoding, measured.compression)).or_default() += 1;
            if let Some(symbols) = &measured.symbols {
                self.symbols[column] = Some(symbols.clone());
            }
        }
    }

    /// What the other side is told of the stream, all of which has been sent.
    pub fn end(&self) -> StreamEnd {
        let mut checksum = Xxh3::new();
        self.checksums.values().for_each(|chunk| checksum.update(&chunk.to_le_bytes()));
        let chosen = self.chosen.iter().map(|((column, encoding, compression), chunks)| Chosen {
            column: *column,
            encoding: *encoding,
            compression: *compression,
            chunks: *chunks,
        });
        StreamEnd {
            rows: self.rows,
            checksum: checksum.digest(),
            raw: self.raw,
            sent: self.sent,
            encode: self.encode,
            chosen: chosen.collect(),
        }
    }

    /// The canonical schema of what is sent.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

struct ColumnPlan {
    settings: Settings,
    /// Bytes before codecs.
    raw: usize,
    dictionary: Option<DictionaryPlan>,
    symbols: Option<Symbols>,
}

/// The encoding of one chunk, which any thread may do.
pub struct EncodeJob {
    query: u32,
    number: u64,
    types: Arc<Vec<DataType>>,
    batch: RecordBatch,
    plans: Vec<ColumnPlan>,
}

/// What became of a column.
#[derive(Clone, Debug)]
struct Measured {
    settings: Settings,
    raw: usize,
    /// In the payload and the head.
    bytes: usize,
    encoding: u8,
    compression: u8,
    time: Duration,
    symbols: Option<Symbols>,
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
    /// Of the payload; 0 when that is for a memory file.
    pub checksum: u64,
    pub place: Place,
    columns: Vec<Measured>,
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
}

impl EncodeJob {
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Bytes before codecs.
    pub fn raw_bytes(&self) -> usize {
        self.plans.iter().map(|plan| plan.raw).sum()
    }

    /// For a frame.
    pub fn encode(self) -> Result<Encoded> {
        self.run(Place::Frame)
    }

    /// Uncompressed, aligned to 64 bytes, strings as offsets: for a memory file (protocol.md §10.5).
    pub fn encode_for_memory(mut self) -> Result<Encoded> {
        self.plans.iter_mut().for_each(|plan| plan.settings = Settings::IN_PLACE);
        self.run(Place::MemoryFile)
    }

    fn run(self, place: Place) -> Result<Encoded> {
        let rows = self.batch.num_rows();
        let raw_bytes = self.plans.iter().map(|plan| plan.raw as u64).sum();
        let mut frames = Vec::new();
        let mut sink = Sink::new(if place == Place::Frame { Settings::PLAIN } else { Settings::IN_PLACE });
        let mut columns = Vec::with_capacity(self.plans.len());
        for (column, mut plan) in self.plans.into_iter().enumerate() {
            let (start, before) = (Instant::now(), sink.bytes());
            sink.settings = plan.settings;
            sink.compressed_by = 0;
            sink.symbols = plan.symbols.take();
            let encoding = match (&self.types[column], plan.dictionary) {
                (DataType::Dictionary(code, values_type), Some(dictionary)) => {
                    let array = match dictionary.send {
                        Send::Used => keep_used(&dictionary.array)?,
                        _ => dictionary.array,
                    };
                    if dictionary.send != Send::Nothing {
                        let values = array.as_any_dictionary().values();
                        let header = DictionaryHeader {
                            query: self.query,
                            column: column as u32,
                            number: dictionary.number,
                            values: u32::try_from(values.len()).map_err(|_| too_long(values.len()))?,
                            checksum: 0,
                            head: Vec::new(),
                        };
                        frames.push(encode_dictionary(header, values, values_type, plan.settings)?);
                    }
                    sink.head.u32(dictionary.number);
                    encode_codes(&mut sink, &array, code.primitive_width().unwrap_or(4))?
                }
                (data_type, _) => {
                    let earlier = Columns { earlier: &self.batch.columns()[..column], types: &self.types };
                    encode_array(&mut sink, self.batch.column(column), data_type, &earlier)?
                }
            };
            columns.push(Measured {
                settings: plan.settings,
                raw: plan.raw,
                bytes: sink.bytes() - before,
                encoding,
                compression: sink.compressed_by,
                time: start.elapsed(),
                symbols: sink.symbols.take(),
            });
        }
        let (mut head, payload) = sink.finish();
        pad_head(&mut head, CHUNK_FIELDS);
        let checksum = if place == Place::Frame { checksum(&payload) } else { 0 };
        let header = ChunkHeader {
            query: self.query,
            place,
            number: self.number,
            rows: rows as u64,
            checksum,
            skip: 0,
            head: head.finish(),
        };
        let mut writer = Writer::default();
        header.write(&mut writer);
        frames.push(EncodedFrame { frame_type: FrameType::Chunk, head: writer.finish(), payload });
        Ok(Encoded { frames, number: self.number, rows: rows as u64, raw_bytes, checksum, place, columns })
    }
}

fn encode_dictionary(
    mut header: DictionaryHeader,
    values: &ArrayRef,
    values_type: &DataType,
    settings: Settings,
) -> Result<EncodedFrame> {
    let mut sink = Sink::new(Settings { in_place: false, ..settings });
    encode_array(&mut sink, values, values_type, &Columns { earlier: &[], types: &[] })?;
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
