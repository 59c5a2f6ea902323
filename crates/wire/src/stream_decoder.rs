//! The receiving end of a stream of chunks (protocol.md §6.1, §10).
//!
//! What must be seen in order is here: numbers, rows, dictionaries, the stream's checksum. What
//! takes time is in a [`DecodeJob`], which any thread may do.

use crate::builder::ColumnBuilder;
use crate::decode::ChunkColumns;
use crate::decode::{decode, decode_codes, to_batch};
use crate::error::refused;
use crate::integers::NoColumns;
use crate::message::{ChunkHeader, DictionaryHeader, Place};
use crate::sink::{FRAME_ALIGNMENT, MEMORY_ALIGNMENT};
use crate::source::{ROW_BYTES_MAX, Source, decoded_bytes_max};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use hypostyle_types::{Error, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The last dictionary that has come for a column.
#[derive(Clone, Debug)]
struct Dictionary {
    number: u32,
    values: ArrayRef,
}

/// Serial half of decoding a stream: checks order, counts and checksums, and keeps dictionaries.
pub struct StreamDecoder {
    query: u32,
    schema: SchemaRef,
    limit: usize,
    next: u64,
    rows: u64,
    checksum: Xxh3,
    /// The dictionaries by column.
    dictionaries: Arc<Vec<Option<Dictionary>>>,
}

impl StreamDecoder {
    pub fn new(query: u32, schema: SchemaRef) -> Self {
        let dictionaries = Arc::new(vec![None; schema.fields().len()]);
        Self { query, schema, limit: ROW_BYTES_MAX, next: 0, rows: 0, checksum: Xxh3::new(), dictionaries }
    }

    /// Refuses chunks and dictionaries of more bytes in memory.
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    fn check_query(&self, query: u32) -> Result<()> {
        if query != self.query {
            return Err(Error::protocol(format!("rows of query {query} came for query {}", self.query)));
        }
        Ok(())
    }

    /// Takes the body of a `Dictionary` frame.
    pub fn dictionary(&mut self, body: Buffer) -> Result<()> {
        let (header, payload) = DictionaryHeader::decode(&body)?;
        self.check_query(header.query)?;
        let column = header.column as usize;
        let Some(DataType::Dictionary(_, values)) =
            self.schema.fields().get(column).map(|field| field.data_type())
        else {
            return Err(Error::protocol(format!("column {column} has no dictionary")));
        };
        let payload = body.slice(payload);
        if header.checksum != xxh3_64(&payload) {
            return Err(Error::protocol(format!(
                "dictionary {} is damaged: its checksum is another",
                header.number
            )));
        }
        let limit = self.limit.min(decoded_bytes_max(body.len()));
        let mut source = Source::new(&header.head, payload, FRAME_ALIGNMENT, limit);
        let values = decode(&mut source, values, header.values as usize, &NoColumns)?;
        source.end()?;
        if values.null_count() > 0 {
            return Err(Error::protocol("a dictionary has NULLs"));
        }
        Arc::make_mut(&mut self.dictionaries)[column] = Some(Dictionary { number: header.number, values });
        Ok(())
    }

    /// Takes the body of a `Chunk` frame with its payload.
    pub fn chunk(&mut self, body: Buffer) -> Result<DecodeJob> {
        let (header, payload) = ChunkHeader::decode(&body)?;
        if header.place != Place::Frame {
            return Err(Error::protocol("a chunk's payload is not in its frame"));
        }
        self.job(header, body.slice(payload), FRAME_ALIGNMENT)
    }

    /// A chunk whose payload is in a memory file that was mapped.
    pub fn mapped_chunk(&mut self, header: ChunkHeader, payload: Buffer) -> Result<DecodeJob> {
        if header.place != Place::MemoryFile || header.checksum != 0 {
            return Err(Error::protocol("a chunk's payload is not in a memory file"));
        }
        self.job(header, payload, MEMORY_ALIGNMENT)
    }

    fn job(&mut self, header: ChunkHeader, payload: Buffer, alignment: usize) -> Result<DecodeJob> {
        self.check_query(header.query)?;
        if header.number != self.next {
            return Err(Error::protocol(format!("chunk {} came where {} must", header.number, self.next)));
        }
        let rows = usize::try_from(header.rows).ok().filter(|rows| i32::try_from(*rows).is_ok());
        let rows =
            rows.ok_or_else(|| Error::protocol(format!("{} rows of a chunk are too many", header.rows)))?;
        self.next += 1;
        self.rows = self.rows.saturating_add(header.rows);
        self.checksum.update(&header.checksum.to_le_bytes());
        let limit =
            if rows == 1 { ROW_BYTES_MAX } else { decoded_bytes_max(header.head.len() + payload.len()) };
        Ok(DecodeJob {
            schema: self.schema.clone(),
            dictionaries: self.dictionaries.clone(),
            limit: limit.min(self.limit),
            rows,
            checksum: (header.place == Place::Frame).then_some(header.checksum),
            number: header.number,
            head: header.head,
            payload,
            alignment,
        })
    }

    /// Rows of the chunks that have come.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of the next chunk.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Checks what the sender says of the whole stream.
    ///
    /// # Errors
    /// When it was cut short, or is another one.
    pub fn end(&self, rows: u64, checksum: u64) -> Result<()> {
        if rows != self.rows {
            return Err(Error::protocol(format!("{} rows came where {rows} were sent", self.rows)));
        }
        if checksum != self.checksum.digest() {
            return Err(Error::protocol("the checksum of the rows is not that of what was sent"));
        }
        Ok(())
    }
}

/// The checksum of a stream of chunks with these checksums (§6.1).
pub fn stream_checksum(chunks: impl IntoIterator<Item = u64>) -> u64 {
    let mut hash = Xxh3::new();
    chunks.into_iter().for_each(|checksum| hash.update(&checksum.to_le_bytes()));
    hash.digest()
}

/// Chunks of more rows are not joined.
const SHORT_ROWS_MAX: usize = 4096;

/// The decoding of one chunk, which any thread may do.
pub struct DecodeJob {
    schema: SchemaRef,
    dictionaries: Arc<Vec<Option<Dictionary>>>,
    limit: usize,
    rows: usize,
    checksum: Option<u64>,
    number: u64,
    head: Vec<u8>,
    payload: Buffer,
    alignment: usize,
}

impl DecodeJob {
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn source(&self) -> Result<Source<'_>> {
        if self.checksum.is_some_and(|checksum| checksum != xxh3_64(&self.payload)) {
            return Err(Error::protocol(format!(
                "chunk {} is damaged: its checksum is another",
                self.number
            )));
        }
        Ok(Source::new(&self.head, self.payload.clone(), self.alignment, self.limit))
    }

    /// The column of a dictionary's codes.
    fn codes(&self, source: &mut Source<'_>, column: usize, code: &DataType) -> Result<ArrayRef> {
        let number = source.head().u32()?;
        let dictionary = self.dictionaries[column].as_ref().filter(|dictionary| dictionary.number == number);
        let dictionary = dictionary.ok_or_else(|| {
            Error::protocol(format!("dictionary {number} is not the last that came for column {column}"))
        })?;
        decode_codes(source, code, self.rows, &dictionary.values)
    }

    /// The chunk as a batch. Plain buffers stay where they are.
    pub fn decode(self) -> Result<RecordBatch> {
        let mut source = self.source()?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (column, field) in self.schema.fields().iter().enumerate() {
            columns.push(match field.data_type() {
                DataType::Dictionary(code, _) => self.codes(&mut source, column, code)?,
                data_type => decode(&mut source, data_type, self.rows, &ChunkColumns(&columns))?,
            });
        }
        source.end()?;
        to_batch(self.schema.clone(), columns, self.rows)
    }

    /// Whether this chunk and the next one are better one batch: of so few rows, more time goes
    /// into the arrays of a batch than into what they hold. Codes have to be of the same
    /// dictionaries.
    pub fn joins(&self, next: &Self) -> bool {
        self.is_short() && next.is_short() && Arc::ptr_eq(&self.dictionaries, &next.dictionaries)
    }

    /// Whether it is worth to wait for a chunk that it joins.
    pub fn is_short(&self) -> bool {
        self.rows <= SHORT_ROWS_MAX
    }

    /// Chunks that come one after the other as one batch.
    ///
    /// # Errors
    /// `Internal` when there are none.
    pub fn decode_joined(jobs: Vec<Self>) -> Result<RecordBatch> {
        let rows = jobs.iter().map(Self::rows).sum();
        let mut jobs = jobs.into_iter();
        let Some(first) = jobs.next() else { return Err(Error::internal("no chunks are no batch")) };
        let (schema, more) = (first.schema.clone(), rows - first.rows);
        let mut columns: Vec<_> = schema.fields().iter().map(|field| ColumnBuilder::new(field)).collect();
        first.decode_into(&mut columns)?;
        // Room for the others is made when there was as much as the first has said.
        columns.iter_mut().for_each(|column| column.reserve(more, 0));
        jobs.try_for_each(|job| job.decode_into(&mut columns))?;
        let columns = columns.into_iter().map(ColumnBuilder::finish).collect::<Result<_>>()?;
        to_batch(schema, columns, rows)
    }

    /// Decodes into columns' buffers, behind what is there.
    ///
    /// # Errors
    /// After one the columns are of no use.
    pub fn decode_into(self, columns: &mut [ColumnBuilder]) -> Result<()> {
        if columns.len() != self.schema.fields().len() {
            return Err(Error::internal("a chunk was decoded into another number of columns"));
        }
        let mut source = self.source()?;
        for (column, field) in self.schema.fields().iter().enumerate() {
            let (earlier, rest) = columns.split_at_mut(column);
            match field.data_type() {
                DataType::Dictionary(code, _) => {
                    rest[0].append_array(self.codes(&mut source, column, code)?)?
                }
                _ => rest[0].append(&mut source, self.rows, earlier)?,
            }
            if !field.is_nullable() && rest[0].has_nulls() {
                return Err(refused(arrow_schema::ArrowError::SchemaError(format!(
                    "\"{}\" has NULLs, and may not",
                    field.name()
                ))));
            }
        }
        source.end()
    }
}
