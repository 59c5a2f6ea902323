//! The sending end of a stream of chunks (protocol.md §6.1, §10).
//!
//! What must be done in order is here: numbers, dictionaries, the choice of codecs. What takes time is in an
//! [`EncodeJob`], which any thread may do.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::choice::{Chooser, OnLink};
use crate::codec::Codec;
use crate::dictionary::{DictionaryPlan, SentDictionaries};
use crate::encode::canonical;
use crate::encode_job::{ColumnPlan, EncodeJob, Encoded};
use crate::message::Chosen;
use crate::size::bytes_of;
use crate::symbols::Symbols;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use hypostyle_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

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
    /// The checksum of the chunks below the number.
    checksum: (u64, Xxh3),
    /// The checksums of chunks that were told of before their turn.
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
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        Self {
            query,
            schema,
            chooser: Chooser::new(codec, accepted, cores, &types),
            types: Arc::new(types),
            next: 0,
            dictionaries: (0..columns).map(|_| SentDictionaries::default()).collect(),
            dictionaries_sent: 0,
            rows_expected: 0,
            symbols: vec![None; columns],
            rows: 0,
            checksum: (0, Xxh3::new()),
            checksums: BTreeMap::new(),
            raw: 0,
            sent: 0,
            encode: Duration::ZERO,
            chosen: BTreeMap::new(),
        }
    }

    /// The receiver is on this machine, and its work is at the cost of ours.
    pub fn on_this_machine(mut self, is_local: bool) -> Self {
        if is_local {
            self.chooser.share_machine();
        }
        self
    }

    /// Begins with what is known of the link, in bytes a second.
    pub fn with_link(mut self, link: Option<f64>) -> Self {
        self.chooser.link = link;
        self
    }

    /// What the link has shown, in bytes a second.
    pub fn link(&self) -> Option<f64> {
        self.chooser.link
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

    /// Takes what is known of the link, in bytes a second, for the next choices.
    pub fn set_link(&mut self, link: f64) {
        self.chooser.link = Some(link);
    }

    /// What the sender has seen of the link, unless that says nothing; waiting for credit is not
    /// waiting for the link. Every chunk must be told that was sent.
    pub fn sent(&mut self, encoded: &Encoded, on_link: Option<OnLink>) {
        self.sum(encoded.number, encoded.checksum);
        self.raw += encoded.raw_bytes;
        self.sent += encoded.body_bytes() as u64;
        if let Some(on_link) = on_link {
            self.chooser.sent(encoded.body_bytes() as u64, on_link);
        }
        for (column, measured) in encoded.columns.iter().enumerate() {
            self.chooser.encoded(column, measured);
            self.encode += measured.setup + measured.time;
            *self.chosen.entry((column as u32, measured.encoding, measured.compression)).or_default() += 1;
            if let Some(symbols) = &measured.symbols {
                self.symbols[column] = Some(symbols.clone());
            }
        }
    }

    fn sum(&mut self, number: u64, checksum: u64) {
        self.checksums.insert(number, checksum);
        while let Some(checksum) = self.checksums.remove(&self.checksum.0) {
            self.checksum.0 += 1;
            self.checksum.1.update(&checksum.to_le_bytes());
        }
    }

    /// Takes a chunk without dictionaries that another encoder has encoded for a stream of the same schema,
    /// with the checksum of its payload and its bytes before and after codecs. Returns the number that it has
    /// in this stream.
    pub fn adopt(&mut self, rows: u64, checksum: u64, raw: u64, sent: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.rows += rows;
        self.raw += raw;
        self.sent += sent;
        self.sum(number, checksum);
        number
    }

    /// What the other side is told of the stream, all of which has been sent.
    pub fn end(&self) -> StreamEnd {
        let chosen = self.chosen.iter().map(|((column, encoding, compression), chunks)| Chosen {
            column: *column,
            encoding: *encoding,
            compression: *compression,
            chunks: *chunks,
        });
        StreamEnd {
            rows: self.rows,
            checksum: self.checksum.1.digest(),
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
