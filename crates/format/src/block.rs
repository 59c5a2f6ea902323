//! Block records: checksum and synopsis of 65,536 elements of a node (format.md §4).

use crate::{array_at, u32_at, u64_at};
use hypostyle_types::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

pub const BLOCK_RECORD_BYTES: usize = 64;

const HAS_BOUNDS: u32 = 1;
const MINIMUM_TRUNCATED: u32 = 2;
const MAXIMUM_TRUNCATED: u32 = 4;
const HAS_NAN: u32 = 8;

/// Where a record's own checksum is.
const OWN_CHECKSUM: usize = 60;

/// The lower half of the hash, never 0: that is what releases before had there.
fn own_checksum(record: &[u8; BLOCK_RECORD_BYTES]) -> u32 {
    ((xxh3_64(&record[..OWN_CHECKSUM]) & 0xffff_ffff) as u32).max(1)
}

/// The checksum and synopsis of one block. The column's type says how the bounds' bytes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRecord {
    pub checksum: u64,
    pub elements: u32,
    pub nulls: u32,
    /// The minimum and maximum; absent when the type has none, or when every value is NULL or NaN.
    pub bounds: Option<([u8; 16], [u8; 16])>,
    pub minimum_truncated: bool,
    pub maximum_truncated: bool,
    pub has_nan: bool,
    /// The ranges of values that are present, a bit each; 0 = not built.
    pub imprint: u64,
}

impl BlockRecord {
    pub fn encode(&self) -> [u8; BLOCK_RECORD_BYTES] {
        let mut bytes = [0; BLOCK_RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.elements.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.nulls.to_le_bytes());
        let mut flags = 0;
        if let Some((minimum, maximum)) = &self.bounds {
            bytes[16..32].copy_from_slice(minimum);
            bytes[32..48].copy_from_slice(maximum);
            flags |= HAS_BOUNDS;
        }
        for (set, flag) in [
            (self.minimum_truncated, MINIMUM_TRUNCATED),
            (self.maximum_truncated, MAXIMUM_TRUNCATED),
            (self.has_nan, HAS_NAN),
        ] {
            flags |= if set { flag } else { 0 };
        }
        bytes[48..56].copy_from_slice(&self.imprint.to_le_bytes());
        bytes[56..60].copy_from_slice(&flags.to_le_bytes());
        let checksum = own_checksum(&bytes);
        bytes[OWN_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// # Errors
    /// `Corrupt` when the length, a flag or the record's own checksum does not match §4.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; BLOCK_RECORD_BYTES] = bytes
            .try_into()
            .map_err(|_| Error::corrupt(format!("a block record of {} bytes", bytes.len())))?;
        let flags = u32_at(bytes, 56);
        let elements = u32_at(bytes, 8);
        let nulls = u32_at(bytes, 12);
        let own = u32_at(bytes, OWN_CHECKSUM);
        if flags & !(HAS_BOUNDS | MINIMUM_TRUNCATED | MAXIMUM_TRUNCATED | HAS_NAN) != 0
            || nulls > elements
            || own != 0 && own != own_checksum(bytes)
        {
            return Err(Error::corrupt("a block record is damaged"));
        }
        Ok(Self {
            checksum: u64_at(bytes, 0),
            elements,
            nulls,
            bounds: (flags & HAS_BOUNDS != 0).then(|| (array_at(bytes, 16), array_at(bytes, 32))),
            minimum_truncated: flags & MINIMUM_TRUNCATED != 0,
            maximum_truncated: flags & MAXIMUM_TRUNCATED != 0,
            has_nan: flags & HAS_NAN != 0,
            imprint: u64_at(bytes, 48),
        })
    }
}

/// Reads and writes a block record as hexadecimal text, for the catalog's JSON.
pub(crate) mod hexadecimal {
    use super::*;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::fmt::Write;

    pub fn serialize<S: Serializer>(record: &Option<BlockRecord>, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(record) = record else { return serializer.serialize_none() };
        let mut text = String::with_capacity(2 * BLOCK_RECORD_BYTES);
        for byte in record.encode() {
            write!(text, "{byte:02x}").map_err(serde::ser::Error::custom)?;
        }
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BlockRecord>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        if text.len() != 2 * BLOCK_RECORD_BYTES || !text.is_ascii() {
            return Err(D::Error::custom("a block record of the wrong length"));
        }
        let mut bytes = [0; BLOCK_RECORD_BYTES];
        let wrong = || D::Error::custom("not hexadecimal");
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, [high, low]) in bytes.iter_mut().zip(text.as_bytes().as_chunks().0) {
            *byte = digit(*high).ok_or_else(wrong)? * 16 + digit(*low).ok_or_else(wrong)?;
        }
        BlockRecord::decode(&bytes).map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back(checksum: u64, elements in 0..=65_536_u32, bounds: Option<([u8; 16], [u8; 16])>,
            minimum_truncated: bool, maximum_truncated: bool, has_nan: bool, imprint: u64) {
            let record = BlockRecord { checksum, elements, nulls: elements / 2, bounds, minimum_truncated,
                maximum_truncated, has_nan, imprint };
            prop_assert_eq!(BlockRecord::decode(&record.encode()).unwrap(), record);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = BlockRecord::decode(&bytes);
        }
    }
}
