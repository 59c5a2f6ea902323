//! Bytes as texts and texts as bytes: `encode` and `decode`, their encodings, and single bytes and bits.

use crate::arguments::refused;
use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use crate::byte_text::{base64, escaped, hexadecimal, of_base64, of_digits, read};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, LargeBinaryArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    // Of a text alone, its bytes.
    Described::new(&["encode"], &[Kind::Any, Kind::Text], encoded_type, encoded).optional(1),
    Described::new(&["to_base64", "base64"], &[Kind::Any], |_| Ok(DataType::Utf8), in_base64),
    // Of bytes alone, the text that they are.
    Described::new(&["decode"], &[Kind::Any, Kind::Text], decoded_type, decoded).optional(1),
    Described::new(&["from_base64"], &[Kind::Text], |_| Ok(DataType::LargeBinary), of_text_in_base64),
    Described::new(
        &["convert_from"],
        &[Kind::Any, Kind::Text],
        |types| of_bytes(types, "convert_from").map(|()| DataType::Utf8),
        |args, _| {
            let pairs = blobs(&args[0])?;
            let pairs = pairs.iter().zip(args[1].as_string::<i32>());
            let texts = pairs.map(|pair| {
                let (Some(bytes), Some(name)) = pair else { return Ok(None) };
                Ok(Some(match Encoding::named(name)? {
                    Encoding::Utf8 => text_of(bytes)?,
                    Encoding::Latin1 => bytes.iter().copied().map(char::from).collect(),
                }))
            });
            Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
        },
    ),
    Described::new(
        &["convert_to"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::LargeBinary),
        |args, _| {
            let pairs = args[0].as_string::<i32>().iter().zip(args[1].as_string::<i32>());
            let bytes = pairs.map(|pair| {
                let (Some(text), Some(name)) = pair else { return Ok(None) };
                Ok(Some(match Encoding::named(name)? {
                    Encoding::Utf8 => text.as_bytes().to_vec(),
                    Encoding::Latin1 => text.chars().map(in_latin1).collect::<Result<Vec<u8>>>()?,
                }))
            });
            Ok(Arc::new(bytes.collect::<Result<LargeBinaryArray>>()?))
        },
    ),
    // What `length`, `substr`, `strpos` and `reverse` are of BLOBs.
    Described::new(
        &["length_of_blob"],
        &[Kind::Any],
        |types| of_bytes(types, "length").map(|()| DataType::Int64),
        |args, _| {
            let all = blobs(&args[0])?;
            let lengths = all.iter().map(|bytes| bytes.map(|bytes| bytes.len() as i64));
            Ok(Arc::new(lengths.collect::<Int64Array>()))
        },
    ),
    Described::new(
        &["part_of_blob"],
        &[Kind::Any, Kind::Integer, Kind::Integer],
        |types| of_bytes(types, "substr").map(|()| DataType::LargeBinary),
        parts_of_blobs,
    )
    .optional(1),
    Described::new(
        &["place_in_blob"],
        &[Kind::Any, Kind::Any],
        |types| {
            of_bytes(types, "strpos")?;
            of_bytes(types.get(1..).unwrap_or_default(), "strpos").map(|()| DataType::Int64)
        },
        |args, _| {
            let (all, sought) = (blobs(&args[0])?, blobs(&args[1])?);
            let places = all.iter().zip(&sought).map(|(bytes, sought)| Some(place_in(bytes?, sought?)));
            Ok(Arc::new(places.collect::<Int64Array>()))
        },
    ),
    Described::new(
        &["reversed_blob"],
        &[Kind::Any],
        |types| of_bytes(types, "reverse").map(|()| DataType::LargeBinary),
        |args, _| {
            let all = blobs(&args[0])?;
            let reversed =
                all.iter().map(|bytes| bytes.map(|of| of.iter().rev().copied().collect::<Vec<u8>>()));
            Ok(Arc::new(reversed.collect::<LargeBinaryArray>()))
        },
    ),
    Described::new(
        &["trimmed_blob"],
        &[Kind::Any, Kind::Any],
        |types| of_bytes(types, "btrim").map(|()| DataType::LargeBinary),
        |args, _| trimmed(args, true, true),
    ),
    Described::new(
        &["left_trimmed_blob"],
        &[Kind::Any, Kind::Any],
        |types| of_bytes(types, "ltrim").map(|()| DataType::LargeBinary),
        |args, _| trimmed(args, true, false),
    ),
    Described::new(
        &["right_trimmed_blob"],
        &[Kind::Any, Kind::Any],
        |types| of_bytes(types, "rtrim").map(|()| DataType::LargeBinary),
        |args, _| trimmed(args, false, true),
    ),
    // The bytes, those that are put over them, where, and over how many.
    Described::new(
        &["overlaid_blob"],
        &[Kind::Any, Kind::Any, Kind::Integer, Kind::Integer],
        |types| of_bytes(types, "overlay").map(|()| DataType::LargeBinary),
        overlaid,
    )
    .optional(1),
    // Bytes and bits are counted from 0. The first bit of a byte is its least one.
    Described::new(
        &["get_byte"],
        &[Kind::Any, Kind::Integer],
        |types| of_bytes(types, "get_byte").map(|()| DataType::Int64),
        |args, rows| looked_up(args, rows, 1, |bytes, at| bytes[at]),
    ),
    Described::new(
        &["get_bit"],
        &[Kind::Any, Kind::Integer],
        |types| of_bytes(types, "get_bit").map(|()| DataType::Int64),
        |args, rows| looked_up(args, rows, 8, |bytes, at| bytes[at / 8] >> (at % 8) & 1),
    ),
    Described::new(
        &["set_byte"],
        &[Kind::Any, Kind::Integer, Kind::Integer],
        |types| of_bytes(types, "set_byte").map(|()| DataType::LargeBinary),
        |args, rows| {
            changed(args, rows, 1, |bytes, at, new| {
                // Only the last eight bits of a number are a byte.
                bytes[at] = new as u8;
                Ok(())
            })
        },
    ),
    Described::new(
        &["set_bit"],
        &[Kind::Any, Kind::Integer, Kind::Integer],
        |types| of_bytes(types, "set_bit").map(|()| DataType::LargeBinary),
        |args, rows| {
            changed(args, rows, 8, |bytes, at, new| {
                let bit = 1_u8 << (at % 8);
                match new {
                    0 => bytes[at / 8] &= !bit,
                    1 => bytes[at / 8] |= bit,
                    _ => return Err(refused("a bit is 0 or 1")),
                }
                Ok(())
            })
        },
    ),
];

/// Checks that the first argument is bytes, or a text that is read as them.
fn of_bytes(types: &[DataType], name: &str) -> Result<()> {
    match types.first() {
        Some(of) if of.is_binary() || of.is_string() || of.is_null() => Ok(()),
        Some(of) => Err(refused(format!("{name}() is of a BLOB, not of {}", type_name(of)))),
        None => Err(refused(format!("{name}() is of a BLOB"))),
    }
}

fn encoded_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [_] => of_bytes(types, "encode").map(|()| DataType::LargeBinary),
        _ => Ok(DataType::Utf8),
    }
}

fn decoded_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [_] => of_bytes(types, "decode").map(|()| DataType::Utf8),
        [of, ..] if of.is_string() || of.is_null() => Ok(DataType::LargeBinary),
        _ => Err(refused("decode() is of a text and the name of a code, or of a BLOB alone")),
    }
}

/// An encoding of texts, by one of its names.
enum Encoding {
    Utf8,
    Latin1,
}

impl Encoding {
    fn named(name: &str) -> Result<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => Ok(Self::Utf8),
            "latin1" | "iso88591" => Ok(Self::Latin1),
            _ => Err(refused(format!("'{name}' is no encoding; write 'UTF8' or 'LATIN1'"))),
        }
    }
}

fn in_latin1(character: char) -> Result<u8> {
    u8::try_from(u32::from(character))
        .map_err(|_| wrong("22P05", format!("the character '{character}' is not in LATIN1")))
}

fn text_of(bytes: &[u8]) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_string()),
        Err(error) => Err(wrong("22021", format!("the bytes from {} on are no UTF-8", error.valid_up_to()))),
    }
}

/// Returns the place, from 1, at which bytes are found; 0 where they are not.
fn place_in(bytes: &[u8], sought: &[u8]) -> i64 {
    match sought.len() {
        0 => 1,
        length => bytes.windows(length).position(|found| found == sought).map_or(0, |place| place as i64 + 1),
    }
}

/// Returns bytes from a place on, which may be before the first one, so many where that is said.
fn parts_of_blobs(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (all, starts) = (blobs(&args[0])?, args[1].as_primitive::<Int64Type>());
    let counts = args.get(2).map(|counts| counts.as_primitive::<Int64Type>());
    let part = |row: usize| {
        if all.is_null(row) || starts.is_null(row) || counts.is_some_and(|counts| counts.is_null(row)) {
            return Ok(None);
        }
        let (bytes, start) = (all.value(row), starts.value(row));
        let end = match counts.map(|counts| counts.value(row)) {
            Some(count) if count < 0 => return Err(wrong("22011", "negative substring length not allowed")),
            Some(count) => start.saturating_add(count),
            None => i64::MAX,
        };
        let length = bytes.len() as i64;
        let from = (start.max(1) - 1).min(length);
        let to = end.saturating_sub(1).clamp(from, length);
        Ok(Some(&bytes[from as usize..to as usize]))
    };
    Ok(Arc::new((0..rows).map(part).collect::<Result<LargeBinaryArray>>()?))
}

/// Bytes without those of a set at their start, and at their end.
fn trimmed(args: &[ArrayRef], at_start: bool, at_end: bool) -> Result<ArrayRef> {
    let (all, sets) = (blobs(&args[0])?, blobs(&args[1])?);
    let parts = all.iter().zip(&sets).map(|(bytes, set)| {
        let (mut part, set) = (bytes?, set?);
        while let Some((_, rest)) = part.split_first().filter(|(first, _)| at_start && set.contains(first)) {
            part = rest;
        }
        while let Some((_, rest)) = part.split_last().filter(|(last, _)| at_end && set.contains(last)) {
            part = rest;
        }
        Some(part)
    });
    Ok(Arc::new(parts.collect::<LargeBinaryArray>()))
}

/// Bytes with others over some of them.
fn overlaid(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (all, new) = (blobs(&args[0])?, blobs(&args[1])?);
    let starts = args[2].as_primitive::<Int64Type>();
    let counts = args.get(3).map(|counts| counts.as_primitive::<Int64Type>());
    let with = |row: usize| {
        let is_null = all.is_null(row) || new.is_null(row) || starts.is_null(row);
        if is_null || counts.is_some_and(|counts| counts.is_null(row)) {
            return Ok(None);
        }
        let (bytes, new, start) = (all.value(row), new.value(row), starts.value(row));
        if start < 1 {
            return Err(wrong("22011", "negative substring length not allowed"));
        }
        let count = counts.map_or(new.len() as i64, |counts| counts.value(row));
        let length = bytes.len() as i64;
        let before = (start - 1).min(length) as usize;
        let behind = (start.saturating_add(count).max(1) - 1).min(length) as usize;
        Ok(Some([&bytes[..before], new, &bytes[behind..]].concat()))
    };
    Ok(Arc::new((0..rows).map(with).collect::<Result<LargeBinaryArray>>()?))
}

/// Returns the place among the bytes, or their eighths, that a number names.
fn place_of(number: i64, bytes: &[u8], parts: usize) -> Result<usize> {
    let count = bytes.len().saturating_mul(parts);
    usize::try_from(number).ok().filter(|place| *place < count).ok_or_else(|| match count {
        0 => wrong("2202E", format!("index {number} out of valid range: there are no bytes")),
        count => wrong("2202E", format!("index {number} out of valid range, 0..{}", count - 1)),
    })
}

/// Returns a part of the bytes of each row, of which there are so many in a byte.
fn looked_up(args: &[ArrayRef], rows: usize, parts: usize, look: fn(&[u8], usize) -> u8) -> Result<ArrayRef> {
    let (all, places) = (blobs(&args[0])?, args[1].as_primitive::<Int64Type>());
    let part = |row: usize| {
        if all.is_null(row) || places.is_null(row) {
            return Ok(None);
        }
        let place = place_of(places.value(row), all.value(row), parts)?;
        Ok(Some(i64::from(look(all.value(row), place))))
    };
    Ok(Arc::new((0..rows).map(part).collect::<Result<Int64Array>>()?))
}

/// Returns the bytes of each row with another part, of which there are so many in a byte.
fn changed(
    args: &[ArrayRef],
    rows: usize,
    parts: usize,
    change: fn(&mut [u8], usize, i64) -> Result<()>,
) -> Result<ArrayRef> {
    let all = blobs(&args[0])?;
    let [places, news] = [1, 2].map(|place| args[place].as_primitive::<Int64Type>());
    let with = |row: usize| {
        if all.is_null(row) || places.is_null(row) || news.is_null(row) {
            return Ok(None);
        }
        let mut bytes = all.value(row).to_vec();
        let place = place_of(places.value(row), &bytes, parts)?;
        change(&mut bytes, place, news.value(row))?;
        Ok(Some(bytes))
    };
    Ok(Arc::new((0..rows).map(with).collect::<Result<LargeBinaryArray>>()?))
}

/// Returns bytes, or those that texts stand for, as a cast reads them.
fn blobs(values: &ArrayRef) -> Result<LargeBinaryArray> {
    if !values.data_type().is_string() {
        return bytes(values);
    }
    let texts = cast(values, &DataType::LargeUtf8)?;
    let blobs = texts.as_string::<i64>().iter().map(|text| text.map(read).transpose().map_err(external));
    blobs.collect()
}

/// Returns bytes, or those of texts.
fn bytes(values: &ArrayRef) -> Result<LargeBinaryArray> {
    Ok(cast(values, &DataType::LargeBinary)?.as_binary::<i64>().clone())
}

fn unknown(code: &str) -> datafusion::error::DataFusionError {
    refused(format!("\"{code}\" is no code; write 'hex', 'base64' or 'escape'"))
}

fn encoded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let pairs = bytes(&args[0])?;
    if args.len() == 1 {
        return Ok(Arc::new(pairs));
    }
    let pairs = pairs.iter().zip(args[1].as_string::<i32>());
    let texts = pairs.map(|pair| {
        let (Some(bytes), Some(code)) = pair else { return Ok(None) };
        Ok(Some(match code.to_ascii_lowercase().as_str() {
            "hex" => hexadecimal(bytes),
            // Lines end after 76 characters, as in PostgreSQL.
            "base64" => base64(bytes, true),
            "base64pad" => base64(bytes, false),
            "escape" => escaped(bytes),
            _ => return Err(unknown(code)),
        }))
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn in_base64(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let texts =
        bytes(&args[0])?.iter().map(|bytes| bytes.map(|bytes| base64(bytes, false))).collect::<StringArray>();
    Ok(Arc::new(texts))
}

fn decoded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let [texts, codes] = args else {
        let texts = blobs(&args[0])?;
        let texts = texts.iter().map(|bytes| bytes.map(text_of).transpose());
        return Ok(Arc::new(texts.collect::<Result<StringArray>>()?));
    };
    let texts = cast(texts, &DataType::Utf8)?;
    let pairs = texts.as_string::<i32>().iter().zip(codes.as_string::<i32>());
    let bytes = pairs.map(|pair| {
        let (Some(text), Some(code)) = pair else { return Ok(None) };
        decode(text, code).map(Some)
    });
    Ok(Arc::new(bytes.collect::<Result<LargeBinaryArray>>()?))
}

fn of_text_in_base64(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let bytes =
        args[0].as_string::<i32>().iter().map(|text| text.map(|text| decode(text, "base64")).transpose());
    Ok(Arc::new(bytes.collect::<Result<LargeBinaryArray>>()?))
}

fn decode(text: &str, code: &str) -> Result<Vec<u8>> {
    let found = match code.to_ascii_lowercase().as_str() {
        "hex" => of_digits(text),
        "base64" | "base64pad" => of_base64(text),
        "escape" => return read(text).map_err(external),
        _ => return Err(unknown(code)),
    };
    found.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        refused(format!("'{shown}' is no text of the code '{code}'"))
    })
}
