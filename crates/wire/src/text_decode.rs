//! Strings and blobs that come (protocol.md §11.4).

use crate::integers::{DICTIONARY, PLAIN, check_codes, decode_nested};
use crate::source::{Mask, Source};
use crate::text::{OFFSETS, SYMBOLS, offsets_of};
use crate::word::words;
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result, to_usize};

/// Strings of a dictionary that are not longer are copied with so many bytes.
const PADDED: usize = 32;

/// The code before a byte that stands for itself.
const ESCAPE: u8 = 255;

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
    Ok((lengths, to_usize(total)))
}

/// Offsets that begin with 0 and do not decrease, and the last.
pub(crate) fn decode_offsets(source: &mut Source<'_>, count: usize) -> Result<(ScalarBuffer<i64>, usize)> {
    let offsets: ScalarBuffer<i64> =
        words::<u64>(source.buffer((count + 1) * size_of::<i64>())?).into_inner().into();
    if offsets[0] != 0 || offsets.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err(descending());
    }
    let total = usize::try_from(offsets[count]).map_err(|_| descending())?;
    Ok((offsets, total))
}

fn descending() -> Error {
    Error::protocol("offsets do not begin with 0 and grow")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "offsets are within the bytes, and no string has more than 4 GiB"
)]
fn decode_dictionary(source: &mut Source<'_>, count: usize) -> Result<Decoded> {
    let values = source.head().u32()? as usize;
    if values > count {
        return Err(Error::protocol(format!("{values} distinct values cannot be in {count} elements")));
    }
    let distinct = source.within(|source| {
        let (encoding, mask) = source.array(values)?;
        if !matches!(mask, Mask::None) {
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
    let longest = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0);
    if u32::try_from(longest).is_err() {
        return Err(Error::protocol(format!("a string of {longest} bytes is too long")));
    }
    source.claim(count, size_of::<u32>())?;
    let lengths: Vec<u32> =
        codes.iter().map(|code| (offsets[*code as usize + 1] - offsets[*code as usize]) as u32).collect();
    let total: usize = lengths.iter().map(|length| *length as usize).sum();
    source.claim(total + PADDED, 1)?;
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

/// The strings of `codes`, none of which is longer than `N`. Each is written with as many bytes,
/// which is faster than to look how many it has; the next one overwrites what was too much.
#[expect(clippy::cast_possible_truncation, reason = "offsets are within the bytes")]
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
