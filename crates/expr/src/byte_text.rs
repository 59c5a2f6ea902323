//! Bytes as texts: those that a BLOB is read from, and the codes of `encode` and `decode`.

use hypostyle_types::{Error, Result};

/// Returns the bytes that a text stands for, as PostgreSQL reads a `bytea`: pairs of hexadecimal
/// digits behind `\x`; else the text's own bytes, in which `\\` is a backslash and `\123` the byte of
/// three octal digits. `\x41` elsewhere is a byte, too, as in DuckDB.
///
/// # Errors
/// `InvalidInput` (22P02) for another backslash.
pub(crate) fn read(text: &str) -> Result<Vec<u8>> {
    if !text.contains('\\') {
        return Ok(text.as_bytes().to_vec());
    }
    if let Some(bytes) = text.strip_prefix("\\x").and_then(of_digits) {
        return Ok(bytes);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', behind @ ..] => {
                bytes.push(b'\\');
                behind
            }
            [b'\\', first @ b'0'..=b'3', second @ b'0'..=b'7', third @ b'0'..=b'7', behind @ ..] => {
                bytes.push((first - b'0') << 6 | (second - b'0') << 3 | (third - b'0'));
                behind
            }
            [b'\\', b'x' | b'X', high, low, behind @ ..]
                if let (Some(high), Some(low)) = (digit(*high), digit(*low)) =>
            {
                bytes.push(high << 4 | low);
                behind
            }
            [b'\\', ..] => {
                let message = format!(
                    "'{text}' is not a BLOB: behind a backslash come another one, x and two hexadecimal digits, \
                     or three octal ones"
                );
                return Err(Error::invalid_input(message).with_sqlstate("22P02"));
            }
            [byte, behind @ ..] => {
                bytes.push(*byte);
                behind
            }
        };
    }
}

fn digit(of: u8) -> Option<u8> {
    (of as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Returns the bytes of pairs of hexadecimal digits, between which there may be blanks.
pub(crate) fn of_digits(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(digit).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Returns hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns bytes as PostgreSQL's `escape` writes them: those that are no ASCII, and 0, in octal digits.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 | 0x80.. => text.push_str(&format!("\\{byte:03o}")),
            other => text.push(char::from(*other)),
        }
    }
    text
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes in base 64, padded; in lines of 76 characters, if that is wanted.
pub(crate) fn base64(bytes: &[u8], in_lines: bool) -> String {
    const LINE: usize = 76;
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 57 + 8);
    for (place, group) in bytes.chunks(3).enumerate() {
        if in_lines && place > 0 && place * 4 % LINE == 0 {
            text.push('\n');
        }
        let at = |place: usize| group.get(place).map_or(0, |byte| u32::from(*byte));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let is_given = place <= group.len();
            let sextet = bits >> (18 - 6 * place) & 63;
            text.push(if is_given { char::from(BASE64[sextet as usize]) } else { '=' });
        }
    }
    text
}

/// Returns the bytes of a text in base 64, with or without padding, and with blanks anywhere.
pub(crate) fn of_base64(text: &str) -> Option<Vec<u8>> {
    let signs: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let padding = signs.iter().rev().take_while(|sign| **sign == b'=').count();
    let given = &signs[..signs.len() - padding];
    if given.len() % 4 == 1 || padding > 2 || padding > 0 && !signs.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(given.len() / 4 * 3 + 2);
    for group in given.chunks(4) {
        let mut bits = 0;
        for place in 0..4 {
            let sextet = match group.get(place) {
                None => 0,
                Some(sign) => BASE64.iter().position(|known| known == sign)?,
            };
            bits = bits << 6 | u32::try_from(sextet).ok()?;
        }
        let [_, first, second, third] = bits.to_be_bytes();
        bytes.extend([first, second, third].iter().take(group.len() - 1));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bytes_as_in_postgresql() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("abc", b"abc"),
            ("\\xDEadBe", b"\xde\xad\xbe"),
            ("\\x De Ad", b"\xde\xad"),
            ("\\x", b""),
            ("De\\123", b"DeS"),
            ("\\\\", b"\\"),
            ("a\\x41b", b"aAb"),
            ("\\xEF\\xBF", b"\xef\xbf"),
            ("\\000\\377", b"\0\xff"),
            ("é", "é".as_bytes()),
        ] {
            assert_eq!(read(text).unwrap(), bytes, "{text}");
        }
        for text in ["\\", "a\\", "\\12", "\\400", "\\xZ", "a\\x4", "\\n"] {
            assert_eq!(read(text).unwrap_err().sqlstate(), "22P02", "{text}");
        }
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
        for length in 0..bytes.len() {
            let of = &bytes[..length];
            for in_lines in [false, true] {
                let text = base64(of, in_lines);
                assert_eq!(of_base64(&text).as_deref(), Some(of));
                assert_eq!(of_base64(text.trim_end_matches('=')).as_deref(), Some(of));
                assert!(text.lines().all(|line| line.len() <= if in_lines { 76 } else { usize::MAX }));
            }
            assert_eq!(of_digits(&hexadecimal(of)).as_deref(), Some(of));
            assert_eq!(read(&escaped(of)).unwrap(), of);
        }
        assert_eq!(base64(&[1, 2], true), "AQI=");
        for text in ["A", "AQI==", "AQ=I", "A!AA", "===="] {
            assert_eq!(of_base64(text), None, "{text}");
        }
    }
}
