//! The bytes of an index (docs/format.md §10).

use crate::column::KeyType;
use crate::key::{AFFINE, DENSE, HASH, KeyIndex, RANK};
use crate::{Imprint, JoinIndex, NO_ROW, OrderIndex, ReverseIndex};
use arrow_buffer::Buffer;
use hypostyle_types::{ColumnId, Error, Generation, Result, TableId};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

const MAGIC: [u8; 8] = *b"HYPINDEX";
const VERSION: u32 = 2;

const JOIN: u32 = 5;
const REVERSE: u32 = 6;
const IMPRINT: u32 = 7;
const ORDER: u32 = 8;

/// The bytes of the header that every index has.
const FIXED_BYTES: usize = 80;
/// Where the checksum lies, at the end of these.
const CHECKSUM: usize = 72;
/// The bytes that tell of a column.
const COLUMN_BYTES: usize = 32;
/// Every array begins at a multiple of this.
const ALIGNMENT: usize = 64;

/// More than any index has.
const COLUMNS_MAX: usize = 1 << 14;
const ARRAYS_MAX: usize = 8;

/// What a column was when an index was built over its first rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub column: ColumnId,
    pub generation: Generation,
    /// Values of its dictionary.
    pub dictionary: u64,
    /// A checksum of the rows and the values of the dictionary.
    pub checksum: u64,
}

/// The rows of a table that an index was built over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub table: TableId,
    pub rows: u32,
    pub columns: Vec<Content>,
}

/// An index of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Index {
    Key(Arc<KeyIndex>),
    Join(Arc<JoinIndex>),
    Reverse(Arc<ReverseIndex>),
    Imprint(Arc<Imprint>),
    Order(Arc<OrderIndex>),
}

/// An index with what it was built over.
#[derive(Clone, Debug)]
pub struct Stored {
    pub index: Index,
    pub covered: Covered,
    /// The rows that are referred to, of a join and a reverse index.
    pub referenced: Option<Covered>,
}

/// The bytes of an index in pieces.
#[derive(Debug)]
pub struct Encoded {
    header: Vec<u8>,
    arrays: Vec<(usize, Buffer)>,
    length: usize,
}

impl Encoded {
    /// Returns the pieces, and where each begins; bytes between them are zero.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let arrays = self.arrays.iter().map(|(start, array)| (*start as u64, array.as_slice()));
        std::iter::once((0, self.header.as_slice())).chain(arrays)
    }

    /// Returns the length of all.
    pub fn length(&self) -> u64 {
        self.length as u64
    }
}

impl Index {
    /// Returns the bytes of its arrays.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Key(index) => index.bytes(),
            Self::Join(index) => index.bytes(),
            Self::Reverse(index) => index.bytes(),
            Self::Imprint(index) => index.bytes(),
            Self::Order(index) => index.bytes(),
        }
    }

    /// Returns the word for what it finds, and for an index of a key how.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Key(index) => ("key", index.kind()),
            Self::Join(_) => ("join", "row ids"),
            Self::Reverse(_) => ("reverse", "offsets"),
            Self::Imprint(_) => ("imprint", "masks"),
            Self::Order(_) => ("order", "row ids"),
        }
    }

    /// Returns how many rows it covers.
    pub fn rows(&self) -> u32 {
        match self {
            Self::Key(index) => index.rows(),
            Self::Join(index) => index.rows(),
            Self::Reverse(index) => index.rows(),
            Self::Imprint(index) => index.rows(),
            Self::Order(index) => index.rows(),
        }
    }

    /// Returns the types of its columns: none of a join and a reverse index, which have no values.
    fn types(&self) -> Vec<KeyType> {
        match self {
            Self::Key(index) => index.types().to_vec(),
            Self::Join(_) | Self::Reverse(_) => Vec::new(),
            Self::Imprint(index) => vec![index.key_type()],
            Self::Order(index) => vec![index.key_type()],
        }
    }

    fn number(&self) -> u32 {
        match self {
            Self::Key(index) => index.number(),
            Self::Join(_) => JOIN,
            Self::Reverse(_) => REVERSE,
            Self::Imprint(_) => IMPRINT,
            Self::Order(_) => ORDER,
        }
    }

    fn parameter(&self) -> u64 {
        match self {
            Self::Key(index) => index.parameter(),
            Self::Join(index) => index.parameter(),
            Self::Reverse(index) => index.parameter(),
            Self::Imprint(_) | Self::Order(_) => 0,
        }
    }

    fn arrays(&self) -> Vec<Buffer> {
        match self {
            Self::Key(index) => index.arrays(),
            Self::Join(index) => index.arrays(),
            Self::Reverse(index) => index.arrays(),
            Self::Imprint(index) => index.arrays(),
            Self::Order(index) => index.arrays(),
        }
    }
}

impl Stored {
    /// Returns the bytes of the index. Its arrays are shared, not copied.
    pub fn encode(&self) -> Encoded {
        let arrays = self.index.arrays();
        let none = Vec::new();
        let (table, rows, referenced) = match &self.referenced {
            Some(other) => (other.table.0, other.rows, &other.columns),
            None => (0, 0, &none),
        };
        let types = self.index.types();
        let mut header = Vec::with_capacity(FIXED_BYTES + COLUMN_BYTES * self.covered.columns.len());
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(self.index.number().to_le_bytes());
        header.extend(self.covered.table.0.to_le_bytes());
        header.extend(u64::from(self.covered.rows).to_le_bytes());
        header.extend(table.to_le_bytes());
        header.extend(u64::from(rows).to_le_bytes());
        header.extend(self.index.parameter().to_le_bytes());
        for count in [self.covered.columns.len(), referenced.len(), arrays.len(), 0] {
            header.extend((count as u32).to_le_bytes());
        }
        header.extend([0; 8]);
        for (place, column) in self.covered.columns.iter().chain(referenced).enumerate() {
            let code = types.get(place).map_or(0, |key_type| key_type.code());
            header.extend(code.to_le_bytes());
            header.extend(column.column.0.to_le_bytes());
            header.extend(column.generation.0.to_le_bytes());
            header.extend([0; 4]);
            header.extend(column.dictionary.to_le_bytes());
            header.extend(column.checksum.to_le_bytes());
        }
        arrays.iter().for_each(|array| header.extend((array.len() as u64).to_le_bytes()));
        let mut length = header.len();
        let place = |array: Buffer| {
            let start = start_behind(length, array.len());
            length = start + array.len();
            (start, array)
        };
        let arrays = arrays.into_iter().map(place).collect();
        let mut encoded = Encoded { header, arrays, length };
        let checksum = encoded.checksum();
        encoded.header[CHECKSUM..FIXED_BYTES].copy_from_slice(&checksum.to_le_bytes());
        encoded
    }

    /// Reads an index, which shares the bytes: they must not change, and begin at a multiple of 64,
    /// as those of a mapping do.
    ///
    /// # Errors
    /// `Version` when a later release has written it; `Corrupt` when the checksum does not match,
    /// or the bytes are not those of an index.
    pub fn decode(bytes: &Buffer) -> Result<Self> {
        let damaged = || Error::corrupt("an index file is damaged");
        let mut reader = Reader { bytes: bytes.as_slice(), at: 0 };
        if reader.take::<8>()? != MAGIC {
            return Err(Error::corrupt("not an index file"));
        }
        if reader.u32()? != VERSION {
            return Err(Error::new(
                hypostyle_types::ErrorKind::Version,
                "another release wrote this index file",
            ));
        }
        let number = reader.u32()?;
        let (table, rows) = (TableId(reader.u64()?), reader.rows()?);
        let (other, other_rows) = (TableId(reader.u64()?), reader.rows()?);
        let parameter = reader.u64()?;
        let columns = reader.count(COLUMNS_MAX)?;
        let other_columns = reader.count(COLUMNS_MAX)?;
        let arrays = reader.count(ARRAYS_MAX)?;
        let zero = reader.u32()?;
        let checksum = reader.u64()?;
        let mut types = Vec::new();
        let mut contents = Vec::new();
        for _ in 0..columns + other_columns {
            types.push(reader.u32()?);
            contents.push(reader.column()?);
        }
        let lengths = (0..arrays).map(|_| reader.u64()).collect::<Result<Vec<_>>>()?;
        let arrays = split(bytes, reader.at, &lengths).ok_or_else(damaged)?;
        if zero != 0 || checksum_of(bytes.as_slice()) != checksum {
            return Err(damaged());
        }
        let other_contents = contents.split_off(columns);
        let is_join = [JOIN, REVERSE].contains(&number);
        if columns == 0 || is_join != (other_columns > 0) || (!is_join && (other.0, other_rows) != (0, 0)) {
            return Err(damaged());
        }
        let types = match is_join {
            true => types.iter().all(|code| *code == 0).then(Vec::new),
            false => types.into_iter().map(KeyType::of_code).collect(),
        };
        let types = types.ok_or_else(damaged)?;
        let index = match (number, types.as_slice()) {
            (AFFINE | RANK | DENSE | HASH, _) => {
                Index::Key(KeyIndex::decode(number, types, rows, parameter, &arrays)?.into())
            }
            (JOIN, _) => Index::Join(JoinIndex::decode(rows, other_rows, parameter, &arrays)?.into()),
            (REVERSE, _) => {
                Index::Reverse(ReverseIndex::decode(rows, other_rows, parameter, &arrays)?.into())
            }
            (IMPRINT, [key_type]) => Index::Imprint(Imprint::decode(*key_type, rows, &arrays)?.into()),
            (ORDER, [key_type]) => Index::Order(OrderIndex::decode(*key_type, rows, &arrays)?.into()),
            _ => return Err(damaged()),
        };
        let referenced =
            is_join.then_some(Covered { table: other, rows: other_rows, columns: other_contents });
        Ok(Self { index, covered: Covered { table, rows, columns: contents }, referenced })
    }
}

impl Encoded {
    fn checksum(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        hash.update(&self.header[..CHECKSUM]);
        hash.update(&self.header[FIXED_BYTES..]);
        let mut end = self.header.len();
        for (start, array) in &self.arrays {
            hash.update(&[0; ALIGNMENT][..start - end]);
            hash.update(array.as_slice());
            end = start + array.len();
        }
        hash.digest()
    }
}

fn checksum_of(bytes: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&bytes[..CHECKSUM]);
    hash.update(&bytes[FIXED_BYTES..]);
    hash.digest()
}

/// Returns where an array begins behind what ends at some byte; an empty one takes no place.
fn start_behind(end: usize, length: usize) -> usize {
    if length == 0 { end } else { end.next_multiple_of(ALIGNMENT) }
}

/// Cuts the arrays of some lengths out of an index; `None` unless they are all that there is behind
/// the header.
fn split(bytes: &Buffer, header: usize, lengths: &[u64]) -> Option<Vec<Buffer>> {
    let mut end = header;
    let mut arrays = Vec::with_capacity(lengths.len());
    for length in lengths {
        let length = usize::try_from(*length).ok()?;
        let start = start_behind(end, length);
        end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
        arrays.push(bytes.slice_with_length(start, length));
    }
    (end == bytes.len()).then_some(arrays)
}

/// Reads a header from its beginning.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        rest.copied().ok_or_else(|| Error::corrupt("an index file ends in its header"))
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn rows(&mut self) -> Result<u32> {
        let rows = u32::try_from(self.u64()?).ok().filter(|rows| *rows < NO_ROW);
        rows.ok_or_else(|| Error::corrupt("an index of more rows than one can have"))
    }

    fn count(&mut self, most: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        match count <= most {
            true => Ok(count),
            false => Err(Error::corrupt("an index of more columns or arrays than one can have")),
        }
    }

    fn column(&mut self) -> Result<Content> {
        let (column, generation, zero) = (self.u32()?, self.u32()?, self.u32()?);
        let (dictionary, checksum) = (self.u64()?, self.u64()?);
        match zero {
            0 => Ok(Content {
                column: ColumnId(column),
                generation: Generation(generation),
                dictionary,
                checksum,
            }),
            _ => Err(Error::corrupt("an index file is damaged")),
        }
    }
}
