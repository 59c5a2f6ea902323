//! Strings and blobs (protocol.md §11.4).
//!
//! They are read from where they lie, with short or long offsets or as views; what goes out are their
//! lengths and their bytes.

use crate::integers::{DICTIONARY, PLAIN, check_codes, decode_nested, encode_inner};
use crate::sink::{Sink, too_long};
use crate::source::Source;
use crate::word::words;
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use fsst::Compressor;
use hypostyle_types::{Error, Result};
use std::fmt;
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

/// Bytes that a table of symbols is made from.
const TRAIN_BYTES: usize = 32 << 10;

/// Strings of a dictionary that are not longer are copied with so many bytes.
const PADDED: usize = 32;

/// The code before a byte that stands for itself.
const ESCAPE: u8 = 255;

/// A table of symbols, which is good for more than the chunk that it was made from.
#[derive(Clone)]
pub(crate) struct Symbols(Arc<Compressor>);

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} symbols", self.0.n_symbols())
    }
}

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
            bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
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
    if text.bytes.len() < SYMBOLS_BYTES_MIN {
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
    let mean = text.bytes.len() / text.lengths.len().max(1) + 1;
    let step = (text.lengths.len() * mean / TRAIN_BYTES).max(1);
    let sample: Vec<&[u8]> = text.iter().step_by(step).filter(|value| !value.is_empty()).collect();
    let symbols = Symbols(Arc::new(Compressor::train(&sample)));
    *setup += start.elapsed();
    let codes = symbols.0.compress(&text.bytes);
    worth_it(&codes).then_some((symbols, codes))
}

/// Strings as they come.
pub(crate) struct Decoded {
    pub lengths: Lengths,
    pub bytes: Buffer,
}

pub(crate) enum Lengths {
    Lengths(Vec<u32>),
    /// One more than there are strings; the first is 0, none is less than the one before, and the last is
    /// the number of bytes.
    Offsets(ScalarBuffer<i64>),
}

/// The strings of an array whose encoding and mask have been read.
pub(crate) fn decode_text(source: &mut Source<'_>, encoding: u8, count: usize) -> Result<Decoded> {
    match encoding {
        PLAIN => {
            let (lengths, total) = decode_lengths(source, count)?;
            Ok(Decoded { lengths: Lengths::Lengths(lengths), bytes: source.buffer(total)? })
        }
        OFFSETS => {
            let (offsets, total) = decode_offsets(source, count)?;
            Ok(Decoded { lengths: Lengths::Offsets(offsets), bytes: source.buffer(total)? })
        }
        DICTIONARY => decode_dictionary(source, count),
        SYMBOLS => decode_symbols(source, count),
        other => Err(Error::protocol(format!("there is no encoding {other} of strings"))),
    }
}

/// Lengths, and their sum.
pub(crate) fn decode_lengths(source: &mut Source<'_>, count: usize) -> Result<(Vec<u32>, usize)> {
    let lengths: Vec<u32> = decode_nested(source, count)?;
    let total = lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
    Ok((lengths, total as usize))
}

/// Offsets that begin with 0 and do not decrease, and the last.
pub(crate) fn decode_offsets(source: &mut Source<'_>, count: usize) -> Result<(ScalarBuffer<i64>, usize)> {
    let offsets: ScalarBuffer<i64> =
        words::<u64>(source.buffer((count + 1) * size_of::<i64>())?).into_inner().into();
    if offsets[0] != 0 || offsets.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err(Error::protocol("offsets do not begin with 0 and grow"));
    }
    let total = offsets[count] as usize;
    Ok((offsets, total))
}

fn decode_dictionary(source: &mut Source<'_>, count: usize) -> Result<Decoded> {
    let values = source.head().u32()? as usize;
    if values > count {
        return Err(Error::protocol(format!("{values} distinct values cannot be in {count} elements")));
    }
    let distinct = source.within(|source| {
        let (encoding, mask) = source.array(values)?;
        if !matches!(mask, crate::source::Mask::None) {
            return Err(Error::protocol("the values of a dictionary have NULLs"));
        }
        decode_text(source, encoding, values)
    })?;
    let codes: Vec<u32> = decode_nested(source, count)?;
    check_codes(&codes, values)?;
    source.claim(values, size_of::<i64>())?;
    let offsets = match &distinct.lengths {
        Lengths::Lengths(lengths) => offsets_of(lengths).into_inner(),
        Lengths::Offsets(offsets) => offsets.clone(),
    };
    source.claim(count, size_of::<u32>())?;
    let lengths: Vec<u32> =
        codes.iter().map(|code| (offsets[*code as usize + 1] - offsets[*code as usize]) as u32).collect();
    let total: usize = lengths.iter().map(|length| *length as usize).sum();
    source.claim(total + PADDED, 1)?;
    let longest = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0);
    let bytes = match longest {
        0..=8 => repeat_short::<8>(&offsets, &distinct.bytes, &codes, total),
        9..=PADDED => repeat_short::<PADDED>(&offsets, &distinct.bytes, &codes, total),
        _ => {
            let mut bytes = Vec::with_capacity(total);
            for code in codes {
                let (start, end) = (offsets[code as usize] as usize, offsets[code as usize + 1] as usize);
                bytes.extend_from_slice(&distinct.bytes[start..end]);
            }
            bytes
        }
    };
    Ok(Decoded { lengths: Lengths::Lengths(lengths), bytes: bytes.into() })
}

/// The strings of `codes`, none of which is longer than `N`. Each is written with as many bytes, which is faster than to
/// look how many it has; the next one overwrites what was too much.
fn repeat_short<const N: usize>(offsets: &[i64], distinct: &[u8], codes: &[u32], total: usize) -> Vec<u8> {
    let padded: Vec<([u8; N], usize)> = offsets
        .windows(2)
        .map(|pair| {
            let value = &distinct[pair[0] as usize..pair[1] as usize];
            let mut padded = [0; N];
            padded[..value.len()].copy_from_slice(value);
            (padded, value.len())
        })
        .collect();
    let mut bytes = vec![0; total + N];
    let mut at = 0;
    for code in codes {
        let (value, length) = &padded[*code as usize];
        bytes[at..at + N].copy_from_slice(value);
        at += length;
    }
    bytes.truncate(total);
    bytes
}

fn decode_symbols(source: &mut Source<'_>, count: usize) -> Result<Decoded> {
    let number = usize::from(source.head().u8()?);
    let symbol_lengths = source.buffer(number)?;
    let symbol_bytes = source.buffer(number * 8)?;
    if number > usize::from(ESCAPE) || symbol_lengths.iter().any(|length| !(1..=8).contains(length)) {
        return Err(Error::protocol("symbols have 1 to 8 bytes, and there are at most 255"));
    }
    let (lengths, total) = decode_lengths(source, count)?;
    let codes = source.buffer_within(total.saturating_mul(2))?;
    source.claim(total + 8, 1)?;
    let mut symbols = [([0u8; 8], 0usize); 256];
    for (symbol, (bytes, length)) in
        symbols.iter_mut().zip(symbol_bytes.chunks_exact(8).zip(symbol_lengths.iter()))
    {
        symbol.0.copy_from_slice(bytes);
        symbol.1 = usize::from(*length);
    }
    let bytes = expand(&symbols, &codes, total)
        .ok_or_else(|| Error::protocol(format!("codes of symbols do not stand for {total} bytes")))?;
    Ok(Decoded { lengths: Lengths::Lengths(lengths), bytes: bytes.into() })
}

/// What codes stand for, if that is `total` bytes. Symbols that do not exist have no length.
fn expand(symbols: &[([u8; 8], usize); 256], codes: &[u8], total: usize) -> Option<Vec<u8>> {
    // A symbol is written with all of its 8 bytes; the next one overwrites what was too much.
    let mut bytes = vec![0; total + 8];
    let mut at = 0;
    let mut codes = codes.iter();
    while let Some(code) = codes.next() {
        let (symbol, length) = &symbols[usize::from(*code)];
        if *length == 0 {
            if *code != ESCAPE {
                return None;
            }
            *bytes.get_mut(at)? = *codes.next()?;
            at += 1;
        } else {
            bytes.get_mut(at..at + 8)?.copy_from_slice(symbol);
            at += length;
        }
    }
    bytes.truncate(total);
    (at == total).then_some(bytes)
}
