//! Lines of COPY in the text format.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::command::Copy;
use bytes::{BufMut, BytesMut};

/// Writes a field.
pub(super) fn put_escaped(body: &mut BytesMut, text: &[u8], delimiter: u8) {
    for byte in text {
        let escaped = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            11 => b'v',
            12 => b'f',
            other if *other == delimiter => *other,
            other => {
                body.put_u8(*other);
                continue;
            }
        };
        body.put_u8(b'\\');
        body.put_u8(escaped);
    }
}

/// The fields of a line in the text format.
pub(in crate::pgwire) fn text_fields(line: &str, copy: &Copy) -> Result<Vec<Option<String>>, String> {
    let (mut fields, mut start, mut escaped) = (Vec::new(), 0, false);
    let mut finish = |raw: &str| {
        fields.push(if raw == copy.null { None } else { Some(unescaped(raw)?) });
        Ok::<(), String>(())
    };
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == copy.delimiter => {
                finish(&line[start..at])?;
                start = at + 1;
            }
            _ => {}
        }
    }
    finish(&line[start..])?;
    Ok(fields)
}

/// A field without its backslashes.
///
/// # Errors
/// Why numbered bytes make no text.
fn unescaped(raw: &str) -> Result<String, String> {
    if !raw.contains('\\') {
        return Ok(raw.to_string());
    }
    let mut bytes = raw.bytes().peekable();
    let mut plain = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'b') => plain.push(8),
            Some(b'f') => plain.push(12),
            Some(b'n') => plain.push(b'\n'),
            Some(b'r') => plain.push(b'\r'),
            Some(b't') => plain.push(b'\t'),
            Some(b'v') => plain.push(11),
            Some(digit @ b'0'..=b'7') => plain.push(digits(&mut bytes, u32::from(digit - b'0'), 8, 2)),
            Some(b'x') if bytes.peek().is_some_and(u8::is_ascii_hexdigit) => {
                plain.push(digits(&mut bytes, 0, 16, 2));
            }
            Some(other) => plain.push(other),
            None => plain.push(b'\\'),
        }
    }
    String::from_utf8(plain).map_err(|error| format!("not UTF-8: {error}"))
}

/// A byte by its number, of which some digits follow.
fn digits(bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>, first: u32, radix: u32, most: usize) -> u8 {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        number = number * radix + digit;
        bytes.next();
    }
    (number & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_stand_for_bytes() {
        assert_eq!(unescaped("\\101\\x42\\q\\").unwrap(), "ABq\\");
        assert_eq!(unescaped("\\xc3\\xa9").unwrap(), "é");
        assert!(unescaped("\\xff").unwrap_err().contains("not UTF-8"));
    }
}
