//! Whether the elements of a block are what format.md §3 says of their type. A checksum tells that
//! bytes are those that somebody wrote; this tells that who reads them, here or elsewhere, stays
//! within them.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use super::layout::{Buffers, Node};
use arrow_schema::DataType;
use hypostyle_format::{BlockRecord, NodeEntry};
use hypostyle_io::File;
use hypostyle_types::{Result, to_usize};
use std::collections::HashSet;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes of a file in memory at a time: a block of long strings has no bound.
const PIECE_BYTES: u64 = 4 << 20;

/// What is wrong with some elements.
pub(super) type Flaw = &'static str;

const NOT_TEXT: Flaw = "it has text that is not UTF-8";

/// The bytes of a block, but for those of its heap.
pub(super) struct BlockBytes {
    pub validity: Option<Vec<u8>>,
    /// `values` or `offsets`.
    pub values: Vec<u8>,
    /// What the offsets span of the heap.
    pub heap: Range<u64>,
}

/// Looks at all of a block but its heap. `elements` of a child may be referred to.
pub(super) fn check_block(
    shape: &Node,
    entry: &NodeEntry,
    child_elements: u64,
    record: &BlockRecord,
    count: usize,
    bytes: &BlockBytes,
) -> std::result::Result<(), Flaw> {
    let validity = Bits { bytes: bytes.validity.as_deref(), count };
    if record.elements as usize != count || record.nulls as usize != validity.nulls() {
        return Err("it has another number of elements or of NULLs than its record says");
    }
    match &shape.buffers {
        Buffers::None => Ok(()),
        Buffers::Bitmap => match validity.bytes {
            Some(valid) if bytes.values.iter().zip(valid).any(|(value, valid)| value & !valid != 0) => {
                Err(VALUE_UNDER_NULL)
            }
            _ => Ok(()),
        },
        Buffers::Fixed { width, missing } => {
            if let DataType::Dictionary(..) = shape.data_type {
                check_codes(&bytes.values, *width, &validity, entry.dictionary_length)
            } else if has_missing_value(&shape.data_type) {
                let is_missing = |value: &[u8]| match shape.data_type {
                    DataType::Float32 => f32_of(value).is_nan(),
                    DataType::Float64 => f64_of(value).is_nan(),
                    _ => value == missing,
                };
                check_missing(&bytes.values, *width, &validity, is_missing)
            } else {
                Ok(())
            }
        }
        Buffers::Variable => check_offsets::<8>(&bytes.values, entry.heap_bytes),
        Buffers::Offsets { width: 8 } => check_offsets::<8>(&bytes.values, child_elements),
        Buffers::Offsets { .. } => check_offsets::<4>(&bytes.values, child_elements),
    }
}

const VALUE_UNDER_NULL: Flaw = "it has a value where it has NULL";

/// Which elements are valid.
struct Bits<'a> {
    /// `None` when all are.
    bytes: Option<&'a [u8]>,
    count: usize,
}

impl Bits<'_> {
    fn is_null(&self, index: usize) -> bool {
        self.bytes.is_some_and(|bytes| bytes[index / 8] & (1 << (index % 8)) == 0)
    }

    fn nulls(&self) -> usize {
        let Some(bytes) = self.bytes else { return 0 };
        let (whole, rest) = (self.count / 8, self.count % 8);
        let set: u32 = bytes[..whole].iter().map(|byte| byte.count_ones()).sum();
        let last = if rest > 0 { (bytes[whole] & ((1 << rest) - 1)).count_ones() } else { 0 };
        self.count - (set + last) as usize
    }
}

/// Whether what lies under a NULL of the type is the missing value of others, who are not told of
/// NULLs. Of floats it is any NaN: blocks of before have the plain one under NULLs of DOUBLE.
fn has_missing_value(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Interval(_) | DataType::FixedSizeBinary(_))
}

fn f32_of(bytes: &[u8]) -> f32 {
    bytes.try_into().map_or(0.0, f32::from_le_bytes)
}

fn f64_of(bytes: &[u8]) -> f64 {
    bytes.try_into().map_or(0.0, f64::from_le_bytes)
}

fn check_missing(
    values: &[u8],
    width: usize,
    validity: &Bits<'_>,
    is_missing: impl Fn(&[u8]) -> bool,
) -> std::result::Result<(), Flaw> {
    if validity.bytes.is_none() || width == 0 {
        return Ok(());
    }
    let mut slots = values.chunks_exact(width).enumerate();
    match slots.any(|(index, value)| validity.is_null(index) && !is_missing(value)) {
        true => Err(VALUE_UNDER_NULL),
        false => Ok(()),
    }
}

fn check_codes(
    codes: &[u8],
    width: usize,
    validity: &Bits<'_>,
    distinct: u64,
) -> std::result::Result<(), Flaw> {
    fn largest<const N: usize>(codes: &[u8], code: impl Fn([u8; N]) -> u32) -> u32 {
        codes.as_chunks().0.iter().fold(0, |largest, bytes| largest.max(code(*bytes)))
    }
    // Negative codes are the largest of all.
    let fits = |largest: u32| u64::from(largest) < distinct || codes.is_empty();
    if validity.bytes.is_none() {
        let largest = match width {
            1 => largest::<1>(codes, |bytes| u8::from_le_bytes(bytes).into()),
            2 => largest::<2>(codes, |bytes| u16::from_le_bytes(bytes).into()),
            _ => largest::<4>(codes, u32::from_le_bytes),
        };
        return if fits(largest) { Ok(()) } else { Err(UNKNOWN_CODE) };
    }
    for (index, code) in codes.chunks_exact(width).enumerate() {
        let mut word = [0; 4];
        word[..width].copy_from_slice(code);
        if validity.is_null(index) {
            if code.iter().any(|byte| *byte != 0xFF) {
                return Err(VALUE_UNDER_NULL);
            }
        } else if !fits(u32::from_le_bytes(word)) {
            return Err(UNKNOWN_CODE);
        }
    }
    Ok(())
}

const UNKNOWN_CODE: Flaw = "it has a code that its dictionary has no value for";

/// Offsets ascend, and the last is not past the end; so none is negative.
fn check_offsets<const N: usize>(bytes: &[u8], end: u64) -> std::result::Result<(), Flaw> {
    let mut last = 0;
    let mut ascend = true;
    for offset in bytes.as_chunks::<N>().0 {
        let mut word = [0; 8];
        word[..N].copy_from_slice(offset);
        let offset = u64::from_le_bytes(word);
        ascend &= last <= offset;
        last = offset;
    }
    match ascend && last <= end {
        true => Ok(()),
        false => Err("its offsets do not ascend, or leave what they point into"),
    }
}

/// Feeds a range of a heap to a hash, and looks whether it is text, in pieces that end with the
/// values of `offsets` or anywhere: `None` where it need not be text.
pub(super) fn hash_heap(
    hash: &mut Xxh3Default,
    file: &File,
    range: Range<u64>,
    offsets: Option<&[u8]>,
) -> Result<std::result::Result<(), Flaw>> {
    let mut flaw = Ok(());
    let mut offsets =
        offsets.map(|offsets| offsets.as_chunks::<8>().0.iter().map(|o| u64::from_le_bytes(*o)));
    let mut next = offsets.as_mut().and_then(Iterator::next);
    let mut buffer = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + PIECE_BYTES);
        // The beginning of a character whose end comes with this piece.
        let kept = buffer.len();
        buffer.resize(kept + to_usize(end - start), 0);
        file.read_at(start, &mut buffer[kept..])?;
        hash.update(&buffer[kept..]);
        let Some(offsets) = &mut offsets else {
            buffer.clear();
            start = end;
            continue;
        };
        let whole = match std::str::from_utf8(&buffer) {
            Ok(_) => buffer.len(),
            Err(error) if error.error_len().is_none() && end < range.end => error.valid_up_to(),
            Err(_) => {
                flaw = Err(NOT_TEXT);
                buffer.len()
            }
        };
        while let Some(offset) = next.filter(|offset| *offset < end) {
            let byte = offset.checked_sub(start).and_then(|at| buffer.get(kept + to_usize(at)));
            if byte.is_none_or(|byte| byte & 0xC0 == 0x80) {
                flaw = Err(NOT_TEXT);
            }
            next = offsets.next();
        }
        buffer.drain(..whole);
        start = end;
    }
    Ok(flaw)
}

/// Looks at the values of a dictionary, whose offsets are `offsets`.
pub(super) fn check_dictionary(offsets: &[u8], heap: &[u8]) -> std::result::Result<(), Flaw> {
    check_offsets::<8>(offsets, heap.len() as u64)?;
    let offsets = offsets.as_chunks::<8>().0;
    let place = |offset: &[u8; 8]| to_usize(u64::from_le_bytes(*offset));
    let text = offsets.first().zip(offsets.last()).and_then(|(first, last)| {
        let used = heap.get(place(first)..place(last))?;
        std::str::from_utf8(used).ok()
    });
    let (Some(text), Some(first)) = (text, offsets.first()) else { return Err(NOT_TEXT) };
    let mut values = HashSet::with_capacity(offsets.len());
    for pair in offsets.windows(2) {
        let value =
            text.get(place(&pair[0]) - place(first)..place(&pair[1]) - place(first)).ok_or(NOT_TEXT)?;
        if !values.insert(value) {
            return Err("it has the same value twice");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_io::Store;

    fn bytes_of(offsets: &[u64]) -> Vec<u8> {
        offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect()
    }

    #[test]
    fn offsets_ascend_and_end_within() {
        for (offsets, end, sound) in [
            (&[0, 2, 2, 5][..], 5, true),
            (&[3], 3, true),
            (&[0, 2, 1, 5], 5, false),
            (&[0, 2, 6], 5, false),
            (&[u64::MAX, 2], 5, false),
            (&[0, u64::MAX], 5, false),
        ] {
            assert_eq!(check_offsets::<8>(&bytes_of(offsets), end).is_ok(), sound, "{offsets:?}");
            let narrow: Vec<u8> = offsets.iter().flat_map(|offset| (*offset as i32).to_le_bytes()).collect();
            assert_eq!(check_offsets::<4>(&narrow, end).is_ok(), sound, "{offsets:?}");
        }
    }

    #[test]
    fn codes_are_of_values_and_minus_one_under_null() {
        let valid = |bits: &'static [u8]| Bits { bytes: Some(bits), count: 3 };
        let all = Bits { bytes: None, count: 3 };
        for (codes, validity, sound) in [
            ([0_i16, 6, 3], &all, true),
            ([0, 7, 3], &all, false),
            ([0, -1, 3], &all, false),
            ([0, -1, 3], &valid(&[0b101]), true),
            ([0, 2, 3], &valid(&[0b101]), false),
            ([0, -1, 7], &valid(&[0b101]), false),
            ([-1, -1, 3], &valid(&[0b101]), false),
        ] {
            let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
            assert_eq!(check_codes(&bytes, 2, validity, 7).is_ok(), sound, "{codes:?}");
            let wide: Vec<u8> = codes.iter().flat_map(|code| i32::from(*code).to_le_bytes()).collect();
            assert_eq!(check_codes(&wide, 4, validity, 7).is_ok(), sound, "{codes:?}");
            let narrow: Vec<u8> = codes.iter().map(|code| *code as u8).collect();
            assert_eq!(check_codes(&narrow, 1, validity, 7).is_ok(), sound, "{codes:?}");
        }
    }

    #[test]
    fn text_is_text_wherever_the_pieces_end() {
        // Characters of three bytes, of which the ends of pieces fall into.
        let text = "a€".repeat(3 << 20);
        let file = Store::memory().create("heap").unwrap();
        file.write_at(0, text.as_bytes()).unwrap();
        let check = |offsets: &[u64]| {
            let mut hash = Xxh3Default::new();
            let range = offsets[0]..offsets[offsets.len() - 1];
            let found = hash_heap(&mut hash, &file, range.clone(), Some(&bytes_of(offsets))).unwrap();
            let bytes = &file.read_all().unwrap()[range.start as usize..range.end as usize];
            assert_eq!(hash.digest(), xxhash_rust::xxh3::xxh3_64(bytes));
            found
        };
        let length = text.len() as u64;
        check(&[0, 1, 4, 8, 4_194_305, length]).unwrap();
        check(&[4, 4, 8]).unwrap();
        check(&[8, 8]).unwrap();
        for inside in [2, 3, 4_194_306, length - 1] {
            assert!(check(&[0, inside, length]).is_err(), "{inside}");
            assert!(check(&[0, inside]).is_err(), "{inside}");
        }
        file.write_at(9_000_001, &[0xFF]).unwrap();
        assert!(check(&[0, 4, length]).is_err());
        check(&[0, 4, 9_000_000]).unwrap();
        let mut hash = Xxh3Default::new();
        assert!(hash_heap(&mut hash, &file, 0..length, None).unwrap().is_ok(), "bytes need not be text");
    }

    #[test]
    fn values_of_a_dictionary_are_text_and_different() {
        let heap = "a€b".as_bytes();
        check_dictionary(&bytes_of(&[0, 1, 4, 5]), heap).unwrap();
        check_dictionary(&bytes_of(&[0, 0, 5]), heap).unwrap();
        check_dictionary(&bytes_of(&[0]), b"").unwrap();
        for offsets in [&[0, 2, 5][..], &[0, 4, 1, 5], &[0, 6], &[0, 0, 0, 5], &[]] {
            assert!(check_dictionary(&bytes_of(offsets), heap).is_err(), "{offsets:?}");
        }
        assert!(check_dictionary(&bytes_of(&[0, 1]), &[0xFF]).is_err());
    }
}
