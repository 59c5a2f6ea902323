//! Texts and bytes in other notations: hexadecimal and binary digits, URLs, sizes.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, LargeBinaryArray, StringArray};
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
}
