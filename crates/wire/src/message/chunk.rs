//! What stands before the payloads of chunks and dictionaries (protocol.md §10).

use super::field::{Field, fields};
use crate::cursor::{Reader, Writer};
use hypostyle_types::{Error, Result};

/// Where a chunk's payload is (§10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Frame,
    MemoryFile,
    Columns,
    /// Some rows are in columns, and others in the chunks behind this one.
    Pieces,
}

impl Place {
    fn is_in_columns(self) -> bool {
        matches!(self, Self::Columns | Self::Pieces)
    }
}

/// What stands before a chunk's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    pub query: u32,
    pub place: Place,
    pub number: u64,
    pub rows: u64,
    pub checksum: u64,
    /// Rows at the beginning of the files that are not part of the result.
    pub skip: u64,
    pub head: Vec<u8>,
}

impl ChunkHeader {
    #[expect(clippy::expect_used, reason = "chunks have as many rows as fit into some MiB")]
    pub fn write(&self, to: &mut Writer) {
        to.u32(self.query);
        match self.place {
            Place::Frame => to.u8(0),
            Place::MemoryFile => to.u8(1),
            Place::Columns => to.u8(2),
            Place::Pieces => to.u8(3),
        };
        to.u64(self.number);
        match self.place.is_in_columns() {
            true => to.u64(self.rows),
            false => to.u32(u32::try_from(self.rows).expect("a chunk has fewer than 2^32 rows")),
        };
        to.u64(self.checksum);
        if self.place == Place::Columns {
            to.u64(self.skip);
        }
        to.bytes(&self.head);
    }

    /// The header, and how many bytes of the body it takes.
    pub fn decode(body: &[u8]) -> Result<(Self, usize)> {
        let mut from = Reader::new(body);
        let query = from.u32()?;
        let place = match from.u8()? {
            0 => Place::Frame,
            1 => Place::MemoryFile,
            2 => Place::Columns,
            3 => Place::Pieces,
            other => return Err(Error::protocol(format!("there is no place {other} of a payload"))),
        };
        let number = from.u64()?;
        let rows = match place.is_in_columns() {
            true => from.u64()?,
            false => u64::from(from.u32()?),
        };
        let checksum = from.u64()?;
        let skip = if place == Place::Columns { from.u64()? } else { 0 };
        let head = from.bytes()?.to_vec();
        let left = from.rest().len();
        if place != Place::Frame && left > 0 {
            return Err(Error::protocol(format!("{left} bytes follow a chunk whose payload is elsewhere")));
        }
        Ok((Self { query, place, number, rows, checksum, skip, head }, body.len() - left))
    }
}

fields! {
    /// What stands before a dictionary's payload.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DictionaryHeader {
        pub query: u32,
        pub column: u32,
        pub number: u32,
        pub values: u32,
        /// The checksum of the payload.
        pub checksum: u64,
        pub head: Vec<u8>,
    }
}

impl DictionaryHeader {
    pub fn write(&self, to: &mut Writer) {
        Field::write(self, to);
    }

    /// The header, and how many bytes of the body it takes.
    pub fn decode(body: &[u8]) -> Result<(Self, usize)> {
        let mut from = Reader::new(body);
        let header = Field::read(&mut from)?;
        Ok((header, body.len() - from.rest().len()))
    }
}
