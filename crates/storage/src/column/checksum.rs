//! The checksum of a block (format.md §4), computed while writing and again while verifying.

use hypostyle_io::File;
use hypostyle_types::{Error, Result};
use std::ops::Range;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Bytes of a file in memory at a time: a block of long strings has no bound.
const PIECE_BYTES: u64 = 4 << 20;

/// The three digests of a block, fed in pieces.
#[derive(Clone)]
pub(crate) struct BlockHash {
    pub validity: Xxh3Default,
    pub values: Xxh3Default,
    pub heap: Xxh3Default,
}

impl BlockHash {
    pub fn new() -> Self {
        Self { validity: Xxh3Default::new(), values: Xxh3Default::new(), heap: Xxh3Default::new() }
    }

    pub fn checksum(&self) -> u64 {
        let mut digests = [0; 24];
        for (slot, hash) in digests.chunks_exact_mut(8).zip([&self.validity, &self.values, &self.heap]) {
            slot.copy_from_slice(&hash.digest().to_le_bytes());
        }
        xxh3_64(&digests)
    }
}

/// The error for a block that is not what its record says.
pub(crate) fn damaged_block(block: u64, rows: Range<u64>) -> Error {
    flawed_block(block, rows, "its checksum does not match")
}

/// The error for a block whose bytes cannot be those of its type.
pub(crate) fn flawed_block(block: u64, rows: Range<u64>, flaw: &str) -> Error {
    Error::corrupt(format!(
        "block {block} (rows {} to {}) is damaged: {flaw}; restore it from a backup",
        rows.start,
        rows.end - 1
    ))
}

/// A byte range of a bitmap that starts on a byte, with the bits past `bits` cleared.
pub(crate) fn update_with_bits(hash: &mut Xxh3Default, bytes: &[u8], bits: usize) {
    let (whole, rest) = (bits / 8, bits % 8);
    hash.update(&bytes[..whole]);
    if rest > 0 {
        hash.update(&[bytes[whole] & ((1 << rest) - 1)]);
    }
}

/// A range of a file.
pub(crate) fn update_with_file(hash: &mut Xxh3Default, file: &File, range: Range<u64>) -> Result<()> {
    let mut buffer = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + PIECE_BYTES);
        buffer.resize((end - start) as usize, 0);
        file.read_at(start, &mut buffer)?;
        hash.update(&buffer);
        start = end;
    }
    Ok(())
}
