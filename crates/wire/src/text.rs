//! Strings and blobs that go out (protocol.md §11.4).
//!
//! They are read from where they lie, with short or long offsets or as views; what goes out are their
//! lengths and their bytes.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::integers::{DICTIONARY, PLAIN, encode_inner};
use crate::sink::{Sink, too_long};
use crate::symbols::Symbols;
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use fsst::Compressor;
use hypostyle_types::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const OFFSETS: u8 = 1;
pub(crate) const SYMBOLS: u8 = 9;

/// Distinct strings that a dictionary may have.
const DICTIONARY_MAX: usize = 1 << 15;

/// Strings of a sample.
const SAMPLE: usize = 256;

/// Fewer bytes are not worth a table of symbols.
const SYMBOLS_BYTES_MIN: usize = 8 << 10;

/// Longer ones, on average, are no texts that have symbols in common, but documents and files: compressions
/// do more with these, by what they have within themselves.
const SYMBOLS_MEAN_MAX: usize = 4 << 10;

/// Bytes that a table of symbols is made from, and those of one string.
const TRAIN_BYTES: usize = 32 << 10;
const TRAIN_BYTES_OF_ONE: usize = 4 << 10;

/// Strings one behind the other.
pub(crate) struct Text {
    pub lengths: Vec<u32>,
    pub bytes: Buffer,
}

impl Text {
    /// The strings of an array of any string or binary type, or `None` for other types.
    pub fn gather(array: &dyn Array) -> Option<Result<Self>> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::of_offsets(array.as_string::<i32>()),
            DataType::LargeUtf8 => Self::of_offsets(array.as_string::<i64>()),
            DataType::Binary => Self::of_offsets(array.as_binary::<i32>()),
            DataType::LargeBinary => Self::of_offsets(array.as_binary::<i64>()),
            DataType::Utf8View => Self::of_views(array.as_string_view()),
            DataType::BinaryView => Self::of_views(array.as_binary_view()),
            _ => return None,
        })
    }

    fn of_offsets<T: ByteArrayType>(array: &GenericByteArray<T>) -> Result<Self> {
        let offsets = array.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
        if u32::try_from(last - first).is_err() {
            return Err(too_long(last - first));
        }
        let lengths =
            offsets.windows(2).map(|pair| (pair[1].as_usize() - pair[0].as_usize()) as u32).collect();
        Ok(Self { lengths, bytes: array.values().slice_with_length(first, last - first) })
    }

    fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Result<Self> {
        let length = |index| if array.is_null(index) { 0 } else { array.views()[index] as u32 };
        let lengths: Vec<u32> = (0..array.len()).map(length).collect();
        let total = lengths.iter().map(|length| *length as usize).sum::<usize>();
        if u32::try_from(total).is_err() {
            return Err(too_long(total));
        }
        let mut bytes = Vec::with_capacity(total);
        for index in (0..array.len()).filter(|index| lengths[*index] > 0) {
            let value: &[u8] = array.value(index).as_ref();
            bytes.extend_from_slice(value);
        }
        Ok(Self { lengths, bytes: bytes.into() })
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.lengths.iter().map(move |length| {
            let end = start + *length as usize;
            let value = &self.bytes[start..end];
            start = end;
            value
        })
    }
}

/// Writes an array, and its encoding.
pub(crate) fn encode_text(sink: &mut Sink, text: Text, nulls: Option<&NullBuffer>) -> Result<u8> {
    if sink.settings.in_place {
        sink.array(OFFSETS, nulls)?;
        sink.buffer(offsets_of(&text.lengths).into_inner().into_inner())?;
        sink.buffer(text.bytes)?;
        return Ok(OFFSETS);
    }
    if sink.settings.light {
        if let Some((values, codes)) = to_dictionary(&text) {
            sink.array(DICTIONARY, nulls)?;
            sink.head.u32(values.lengths.len() as u32);
            encode_plain(sink, values, None)?;
            encode_inner(sink, codes, false)?;
            return Ok(DICTIONARY);
        }
        if sink.settings.symbols
            && let Some((symbols, codes)) = to_symbols(&text, sink.symbols.take(), &mut sink.setup)
        {
            sink.array(SYMBOLS, nulls)?;
            sink.head.u8(symbols.0.n_symbols() as u8);
            sink.buffer(symbols.0.symbol_lengths().to_vec().into())?;
            sink.buffer(
                symbols.0.symbol_table().iter().map(|symbol| symbol.to_u64()).collect::<Vec<_>>().into(),
            )?;
            encode_inner(sink, text.lengths, false)?;
            sink.buffer(codes.into())?;
            sink.symbols = Some(symbols);
            return Ok(SYMBOLS);
        }
    }
    encode_plain(sink, text, nulls)?;
    Ok(PLAIN)
}

fn encode_plain(sink: &mut Sink, text: Text, nulls: Option<&NullBuffer>) -> Result<()> {
    sink.array(PLAIN, nulls)?;
    encode_inner(sink, text.lengths, false)?;
    sink.buffer(text.bytes)
}

pub(crate) fn offsets_of(lengths: &[u32]) -> OffsetBuffer<i64> {
    OffsetBuffer::from_lengths(lengths.iter().map(|length| *length as usize))
}

/// What tells a string from others: its length and its first and last bytes, which are all of them up to 16.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    first: u64,
    last: u64,
    length: u32,
}

impl Key {
    fn new(bytes: &[u8], start: usize, length: u32) -> Self {
        let word = |at: usize| -> Option<u64> {
            bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
        };
        if length >= 8 {
            let first = word(start).unwrap_or_default();
            return Self { first, last: word(start + length as usize - 8).unwrap_or_default(), length };
        }
        let first = word(start).unwrap_or_else(|| {
            let mut last_bytes = [0; 8];
            let rest = &bytes[start..];
            last_bytes[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(last_bytes)
        });
        Self { first: first & ((1 << (8 * length)) - 1), last: 0, length }
    }

    fn hash(self) -> usize {
        let mixed = self.first ^ self.last.rotate_left(29) ^ u64::from(self.length) << 56;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

/// The distinct strings and a code for each string, where that is clearly smaller.
fn to_dictionary(text: &Text) -> Option<(Text, Vec<u32>)> {
    let rows = text.lengths.len();
    let most = (rows / 4).min(DICTIONARY_MAX);
    if most == 0 || looks_distinct(text, most) {
        return None;
    }
    let mut table: Vec<u32> = vec![0; (most * 2).next_power_of_two()];
    let mask = table.len() - 1;
    let mut values: Vec<(Key, usize)> = Vec::new();
    let mut codes = Vec::with_capacity(rows);
    let slice = |key: Key, start: usize| &text.bytes[start..start + key.length as usize];
    let mut start = 0;
    for length in &text.lengths {
        let key = Key::new(&text.bytes, start, *length);
        let mut slot = key.hash() & mask;
        let code = loop {
            let Some(code) = table[slot].checked_sub(1) else {
                if values.len() == most {
                    return None;
                }
                values.push((key, start));
                table[slot] = values.len() as u32;
                break values.len() as u32 - 1;
            };
            let (other, other_start) = values[code as usize];
            if other == key && (key.length <= 16 || slice(other, other_start) == slice(key, start)) {
                break code;
            }
            slot = (slot + 1) & mask;
        };
        codes.push(code);
        start += *length as usize;
    }
    let lengths: Vec<u32> = values.iter().map(|(key, _)| key.length).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|(key, start)| slice(*key, *start)).copied().collect();
    let code_bits = usize::BITS - (values.len() - 1).leading_zeros();
    let coded = bytes.len() + lengths.len() * 2 + rows * code_bits as usize / 8;
    (coded + coded / 8 < text.bytes.len() + rows / 2).then(|| (Text { lengths, bytes: bytes.into() }, codes))
}

/// Whether a sample has so many distinct strings that all of them cannot have few.
fn looks_distinct(text: &Text, most: usize) -> bool {
    let step = (text.lengths.len() / SAMPLE).max(1);
    let mut hashes: Vec<u64> = text.iter().step_by(step).map(xxh3_64).collect();
    let sampled = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len() > most || hashes.len() > sampled / 2 && sampled >= 16
}

/// The codes by these symbols, or by new ones, where either is clearly smaller.
fn to_symbols(text: &Text, kept: Option<Symbols>, setup: &mut Duration) -> Option<(Symbols, Vec<u8>)> {
    let mean = text.bytes.len() / text.lengths.len().max(1) + 1;
    if text.bytes.len() < SYMBOLS_BYTES_MIN || mean > SYMBOLS_MEAN_MAX {
        return None;
    }
    let worth_it = |codes: &Vec<u8>| codes.len() < text.bytes.len() - text.bytes.len() / 4;
    if let Some(symbols) = kept {
        let codes = symbols.0.compress(&text.bytes);
        if worth_it(&codes) {
            return Some((symbols, codes));
        }
    }
    let start = Instant::now();
    let step = (text.lengths.len() * mean / TRAIN_BYTES).max(1);
    let sampled = text.iter().step_by(step).filter(|value| !value.is_empty());
    let sample: Vec<&[u8]> = sampled.map(|value| &value[..value.len().min(TRAIN_BYTES_OF_ONE)]).collect();
    let symbols = Symbols(Arc::new(Compressor::train(&sample)));
    *setup += start.elapsed();
    let codes = symbols.0.compress(&text.bytes);
    worth_it(&codes).then_some((symbols, codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_get_no_symbols() {
        let text = |value: &str, count: usize| Text {
            lengths: vec![value.len() as u32; count],
            bytes: value.repeat(count).into_bytes().into(),
        };
        let words = "some words that come again, ";
        let coded =
            |text: &Text| to_symbols(text, None, &mut Duration::default()).map(|(_, codes)| codes.len());
        assert!(coded(&text(words, 1000)).is_some_and(|bytes| bytes < 10_000));
        assert_eq!(coded(&text(&words.repeat(1000), 20)), None);
        // A long one among short ones is not all that the symbols are made from.
        let mut mixed = text(words, 2000);
        mixed.lengths.push(1 << 14);
        mixed.bytes = [mixed.bytes.as_slice(), &vec![b'x'; 1 << 14]].concat().into();
        assert!(coded(&mixed).is_some_and(|bytes| bytes < 40_000));
    }
}
