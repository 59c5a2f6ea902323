//! Texts and bytes in other notations: digits of other bases, URLs, sizes, escapes; and checksums.

use crate::arguments::refused;
use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use crate::value_keys::nested_keys;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, LargeBinaryArray, StringArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::error::Result;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["hex"],
        &[Kind::Any],
        |_| Ok(DataType::Utf8),
        |args, _| digits(&args[0], "hex", |value| format!("{value:X}"), |byte| format!("{byte:02X}")),
    ),
    Described::new(
        &["bin", "to_binary"],
        &[Kind::Any],
        |_| Ok(DataType::Utf8),
        |args, _| digits(&args[0], "bin", |value| format!("{value:b}"), |byte| format!("{byte:08b}")),
    ),
    Described::new(
        &["unhex", "from_hex"],
        &[Kind::Text],
        |_| Ok(DataType::LargeBinary),
        |args, _| bytes_of(&args[0], unhex),
    ),
    // As PostgreSQL writes integers: those of negative ones have the digits of their 32 or 64 bits.
    Described::new(
        &["to_bin"],
        &[Kind::Any],
        |_| Ok(DataType::Utf8),
        |args, _| digits_of_bits(&args[0], "to_bin", |bits| format!("{bits:b}")),
    ),
    Described::new(
        &["to_oct"],
        &[Kind::Any],
        |_| Ok(DataType::Utf8),
        |args, _| digits_of_bits(&args[0], "to_oct", |bits| format!("{bits:o}")),
    ),
    Described::new(
        &["unbin", "from_binary"],
        &[Kind::Text],
        |_| Ok(DataType::LargeBinary),
        |args, _| bytes_of(&args[0], unbin),
    ),
    // The number, the base, and the least number of digits.
    Described::new(
        &["to_base"],
        &[Kind::Integer, Kind::Integer, Kind::Integer],
        |_| Ok(DataType::Utf8),
        in_bases,
    )
    .optional(1),
    Described::new(
        &["url_encode"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| texts(&args[0], |text| Ok(url_encoded(text))),
    ),
    Described::new(
        &["url_decode"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| texts(&args[0], url_decoded),
    ),
    Described::new(
        &["format_bytes", "formatreadablesize"],
        &[Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, _| sizes(&args[0], 1024, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
    ),
    Described::new(
        &["formatreadabledecimalsize"],
        &[Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, _| sizes(&args[0], 1000, &["kB", "MB", "GB", "TB", "PB", "EB"]),
    ),
    // All units of PostgreSQL are powers of 1024. Those of DuckDB are so where they say it, as MiB.
    Described::new(
        &["pg_size_bytes"],
        &[Kind::Text],
        |_| Ok(DataType::Int64),
        |args, _| sizes_of(&args[0], 1024),
    ),
    Described::new(
        &["parse_formatted_bytes"],
        &[Kind::Text],
        |_| Ok(DataType::Int64),
        |args, _| sizes_of(&args[0], 1000),
    ),
    Described::new(&["unistr"], &[Kind::Text], |_| Ok(DataType::Utf8), |args, _| texts(&args[0], unescaped)),
    // Equal values of a type have the same; another release may have others.
    Described::new(&["hash"], &[Kind::Any], |_| Ok(DataType::UInt64), hashes).more(),
    Described::new(
        &["sha1"],
        &[Kind::Any],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let all = bytes(&args[0], "sha1")?;
            let digests = all.iter().map(|bytes| bytes.map(sha1));
            Ok(Arc::new(digests.collect::<StringArray>()))
        },
    ),
    Described::new(
        &["crc32"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, _| checksums(&args[0], "crc32", 0xedb8_8320),
    ),
    Described::new(
        &["crc32c"],
        &[Kind::Any],
        |_| Ok(DataType::Int64),
        |args, _| checksums(&args[0], "crc32c", 0x82f6_3b78),
    ),
    Described::new(
        &["regexp_escape"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| texts(&args[0], |text| Ok(regex::escape(text))),
    ),
];

fn texts(values: &ArrayRef, of: impl Fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = values.as_string::<i32>().iter().map(|text| text.map(&of).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn bytes_of(values: &ArrayRef, of: impl Fn(&str) -> Result<Vec<u8>>) -> Result<ArrayRef> {
    let bytes = values.as_string::<i32>().iter().map(|text| text.map(&of).transpose());
    Ok(Arc::new(bytes.collect::<Result<Vec<_>>>()?.into_iter().collect::<LargeBinaryArray>()))
}

/// Returns the bytes of texts or BLOBs.
fn bytes(values: &ArrayRef, name: &str) -> Result<LargeBinaryArray> {
    match values.data_type() {
        of if of.is_string() || of.is_binary() || of.is_null() => {
            Ok(cast(values, &DataType::LargeBinary)?.as_binary::<i64>().clone())
        }
        _ => Err(refused(format!("{name}() is of a text or a BLOB"))),
    }
}

/// The digits of integers, without leading zeros, or those of each byte of texts. Negative numbers
/// have those of 64 bits.
fn digits(
    values: &ArrayRef,
    name: &str,
    of_number: fn(u64) -> String,
    of_byte: fn(u8) -> String,
) -> Result<ArrayRef> {
    if values.data_type().is_integer() {
        let numbers = cast(values, &DataType::Decimal128(38, 0))?;
        let digits = numbers.as_primitive::<Decimal128Type>().iter();
        return Ok(Arc::new(digits.map(|of| of.map(|of| of_number(of as u64))).collect::<StringArray>()));
    }
    let bytes = bytes(values, name)?;
    let digits = bytes.iter().map(|of| of.map(|of| of.iter().copied().map(of_byte).collect::<String>()));
    Ok(Arc::new(digits.collect::<StringArray>()))
}

/// Returns the digits of the bits of integers, without leading zeros.
fn digits_of_bits(values: &ArrayRef, name: &str, of: fn(u64) -> String) -> Result<ArrayRef> {
    let kept = match values.data_type() {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => u64::from(u32::MAX),
        other if other.is_integer() || other.is_null() => u64::MAX,
        _ => return Err(refused(format!("{name}() is of an integer"))),
    };
    let numbers = cast(values, &DataType::Decimal128(38, 0))?;
    let digits = numbers.as_primitive::<Decimal128Type>().iter();
    Ok(Arc::new(digits.map(|number| number.map(|number| of(number as u64 & kept))).collect::<StringArray>()))
}

/// The most digits that `to_base` writes where a number has fewer.
const DIGITS_MAX: i64 = 64;

fn in_bases(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [numbers, bases] = [0, 1].map(|place| args[place].as_primitive::<Int64Type>());
    let least = args.get(2).map(|least| least.as_primitive::<Int64Type>());
    let digits = |row: usize| {
        if args.iter().any(|of| of.is_null(row)) {
            return Ok(None);
        }
        in_base(numbers.value(row), bases.value(row), least.map_or(0, |least| least.value(row))).map(Some)
    };
    Ok(Arc::new((0..rows).map(digits).collect::<Result<StringArray>>()?))
}

fn in_base(number: i64, base: i64, least: i64) -> Result<String> {
    let mut rest = u64::try_from(number).map_err(|_| refused("to_base() is of a number of 0 and more"))?;
    let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
    let base = base.ok_or_else(|| refused("a base of to_base() is from 2 to 36"))?;
    if !(0..=DIGITS_MAX).contains(&least) {
        return Err(refused(format!("to_base() writes from 0 to {DIGITS_MAX} digits at least")));
    }
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        let digit = char::from_digit((rest % u64::from(base)) as u32, base).unwrap_or('0');
        digits.push(digit.to_ascii_uppercase());
        rest /= u64::from(base);
    }
    while (digits.len() as i64) < least {
        digits.push('0');
    }
    Ok(digits.iter().rev().collect())
}

/// Returns the bytes of binary digits, of which the first byte may have fewer than eight.
fn unbin(text: &str) -> Result<Vec<u8>> {
    let digit = |digit: &u8| match digit {
        b'0' => Ok(0_u8),
        b'1' => Ok(1),
        _ => Err(refused(format!("'{text}' is not of binary digits"))),
    };
    let byte =
        |digits: &[u8]| -> Result<u8> { digits.iter().try_fold(0_u8, |byte, of| Ok(byte << 1 | digit(of)?)) };
    let mut bytes = text.as_bytes().rchunks(8).map(byte).collect::<Result<Vec<u8>>>()?;
    bytes.reverse();
    Ok(bytes)
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let wrong = || refused(format!("'{text}' is not of hexadecimal digits"));
    let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_string() };
    let digits: Option<Vec<u8>> =
        padded.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    Ok(digits.ok_or_else(wrong)?.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn url_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What is no code stays as it is.
fn url_decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| refused(format!("url_decode(): '{text}' stands for no UTF-8")))
}

/// Numbers of bytes as they are read by people.
fn sizes(values: &ArrayRef, base: u64, units: &[&str]) -> Result<ArrayRef> {
    let size = |value: i64| {
        let sign = if value < 0 { "-" } else { "" };
        let bytes = value.unsigned_abs();
        let (mut whole, mut unit) = (bytes as f64, None);
        for name in units {
            if whole < base as f64 {
                break;
            }
            (whole, unit) = (whole / base as f64, Some(name));
        }
        match unit {
            None if bytes == 1 => format!("{sign}1 byte"),
            None => format!("{sign}{bytes} bytes"),
            Some(unit) => format!("{sign}{:.1} {unit}", (whole * 10.0).floor() / 10.0),
        }
    };
    let values = values.as_primitive::<Int64Type>().iter();
    Ok(Arc::new(values.map(|value| value.map(size)).collect::<StringArray>()))
}

/// Returns the numbers of bytes that texts as `1.5 GB` say.
fn sizes_of(values: &ArrayRef, base: u32) -> Result<ArrayRef> {
    let sizes = values.as_string::<i32>().iter().map(|text| text.map(|text| size_of(text, base)).transpose());
    Ok(Arc::new(sizes.collect::<Result<Int64Array>>()?))
}

fn size_of(text: &str, base: u32) -> Result<i64> {
    let invalid = || refused(format!("'{text}' is no size; write it as '16 kB' or '1.5 GB'"));
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c)).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let (unit, base) = match unit.strip_suffix("ib") {
        Some(letter) if !letter.is_empty() => (letter, 1024),
        _ => (unit.strip_suffix('b').unwrap_or(&unit), base),
    };
    let power = match unit {
        "" | "byte" | "bytes" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(invalid()),
    };
    let factor = i64::from(base).pow(power);
    let large = || wrong("22003", format!("'{text}' is more than a BIGINT has room for"));
    if let Ok(number) = number.parse::<i64>() {
        return number.checked_mul(factor).ok_or_else(large);
    }
    let bytes = (number.parse::<f64>().map_err(|_| invalid())? * factor as f64).round();
    // The limit is the least number that is too large.
    let is_known = bytes >= i64::MIN as f64 && bytes < i64::MAX as f64;
    if is_known { Ok(bytes as i64) } else { Err(large()) }
}

/// Returns a text with the characters that `\0041`, `\+000041`, `\u0041` and `\U00000041` stand for.
fn unescaped(text: &str) -> Result<String> {
    let invalid =
        || wrong("42601", "invalid Unicode escape: write \\XXXX, \\+XXXXXX, \\uXXXX or \\UXXXXXXXX");
    let (mut out, mut rest, mut high) = (String::with_capacity(text.len()), text, None);
    while let Some(place) = rest.find('\\') {
        let (before, behind) = (&rest[..place], &rest[place + 1..]);
        if high.is_some() && !before.is_empty() {
            return Err(invalid());
        }
        out.push_str(before);
        if let (Some(behind), None) = (behind.strip_prefix('\\'), high) {
            out.push('\\');
            rest = behind;
            continue;
        }
        let (start, length) = match behind.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let digits = behind.get(start..start + length).ok_or_else(invalid)?;
        // A sign would be read as one of the number.
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let code = u32::from_str_radix(digits, 16).map_err(|_| invalid())?;
        match (high.take(), code) {
            (None, 0xd800..=0xdbff) => high = Some(code),
            (Some(first), 0xdc00..=0xdfff) => {
                let code = 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00);
                out.push(char::from_u32(code).ok_or_else(invalid)?);
            }
            (Some(_), _) | (None, 0) => return Err(invalid()),
            (None, code) => out.push(char::from_u32(code).ok_or_else(invalid)?),
        }
        rest = &behind[start + length..];
    }
    if high.is_some() {
        return Err(invalid());
    }
    out.push_str(rest);
    Ok(out)
}

/// One number for the values of each row, of which NULL is one.
fn hashes(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    // Fowler, Noll and Vo's function of bytes, and behind it the end of SplitMix64, which mixes all bits.
    let of_bytes = |state: u64, bytes: &[u8]| {
        bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let mixed = |state: u64| {
        let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ state >> 31
    };
    let mut states = vec![0xcbf2_9ce4_8422_2325_u64; rows];
    for values in args {
        let keys = match values.data_type() {
            DataType::Null => LargeBinaryArray::new_null(rows),
            _ => nested_keys(values)?,
        };
        for (state, key) in states.iter_mut().zip(&keys) {
            *state = mixed(of_bytes(*state, key.unwrap_or(b"NULL")));
        }
    }
    Ok(Arc::new(UInt64Array::from(states)))
}

/// Returns the digits of the SHA-1 digest of bytes (FIPS 180-4).
fn sha1(bytes: &[u8]) -> String {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    // The last blocks have a mark behind the bytes, zeros, and the number of bits.
    let blocks = bytes.chunks_exact(64);
    let mut end = blocks.remainder().to_vec();
    end.push(0x80);
    while end.len() % 64 != 56 {
        end.push(0);
    }
    end.extend((bytes.len() as u64).wrapping_mul(8).to_be_bytes());
    for block in blocks.chain(end.chunks_exact(64)) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for place in 16..80 {
            let mixed = words[place - 3] ^ words[place - 8] ^ words[place - 14] ^ words[place - 16];
            words[place] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in words.iter().enumerate() {
            let (mixed, constant) = match round {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            let next = next.wrapping_add(constant).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(value);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// Returns the cyclic redundancy checks of bytes by a polynomial, whose bits are in the order of bytes.
fn checksums(values: &ArrayRef, name: &str, polynomial: u32) -> Result<ArrayRef> {
    let shifted = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ polynomial } else { sum >> 1 };
    let step = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| shifted(sum));
    let all = bytes(values, name)?;
    let sums = all.iter().map(|bytes| bytes.map(|bytes| i64::from(!bytes.iter().fold(u32::MAX, step))));
    Ok(Arc::new(sums.collect::<Int64Array>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_they_are_written() {
        for text in ["a b/ü", "100%", "%zz", ""] {
            assert_eq!(url_decoded(&url_encoded(text)).unwrap(), text);
        }
        assert_eq!(url_decoded("a%zz%4").unwrap(), "a%zz%4");
        assert!(url_decoded("%ff").is_err());
    }

    #[test]
    fn sizes_are_read_in_both_bases() {
        for (text, base, expected) in [
            ("16 KiB", 1000, 16_384),
            ("1.5MB", 1000, 1_500_000),
            ("10", 1024, 10),
            ("-3 bytes", 1024, -3),
            (" 1 gb ", 1024, 1 << 30),
            ("9223372036854775807", 1024, i64::MAX),
        ] {
            assert_eq!(size_of(text, base).unwrap(), expected, "{text}");
        }
        for text in ["", "kB", "1 x", "1.2.3 MB", "9223372036854775807 kB", "1e3 MB", "9999999999.5 PB"] {
            assert!(size_of(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn bits_of_bytes_come_back() {
        for (text, expected) in [("", vec![]), ("1", vec![1]), ("101010101", vec![1, 0x55])] {
            assert_eq!(unbin(text).unwrap(), expected);
        }
        assert!(unbin("012").is_err());
    }
}
