//! Codecs for the end of a string (the chapter's Tables 3.8 and 3.9).

use std::ffi::CStr;

use arrow::array::{Array, LargeStringArray};

use super::Result;
use super::columns::TextBuilder;
use super::integers::varint;

#[derive(Clone, Copy, Debug)]
pub enum Strings {
    /// A NUL stands behind each string.
    NulTerminated,
    /// The length stands before each string, with 7 bits in each byte.
    VarintPrefix,
    /// All strings are as long as their type allows, filled up with NULs.
    Fixed(usize),
}

impl Strings {
    pub fn write(self, text: &LargeStringArray, out: &mut Vec<u8>) -> Result<()> {
        for row in 0..text.len() {
            let value = text.value(row).as_bytes();
            match self {
                Self::NulTerminated => {
                    out.extend_from_slice(value);
                    out.push(0);
                }
                Self::VarintPrefix => {
                    varint::write(value.len() as u64, out);
                    out.extend_from_slice(value);
                }
                Self::Fixed(width) => {
                    let padding = width
                        .checked_sub(value.len())
                        .ok_or_else(|| format!("{} bytes do not fit VARCHAR({width})", value.len()))?;
                    out.extend_from_slice(value);
                    out.resize(out.len() + padding, 0);
                }
            }
        }
        Ok(())
    }

    pub fn read(self, mut bytes: &[u8], rows: usize, text: &mut TextBuilder) -> Result<()> {
        for _ in 0..rows {
            let (value, rest) = match self {
                Self::NulTerminated => {
                    let value = CStr::from_bytes_until_nul(bytes)?.to_bytes();
                    (value, &bytes[value.len() + 1..])
                }
                Self::VarintPrefix => {
                    let length = varint::read(&mut bytes)? as usize;
                    bytes.split_at_checked(length).ok_or("a string is cut")?
                }
                Self::Fixed(width) => {
                    let (padded, rest) = bytes.split_at_checked(width).ok_or("a string is cut")?;
                    let value = CStr::from_bytes_until_nul(padded).map_or(padded, CStr::to_bytes);
                    (value, rest)
                }
            };
            text.push(value);
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { Err("bytes are left behind the last string".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(strings: Strings, text: &LargeStringArray) -> Vec<u8> {
        let mut out = Vec::new();
        strings.write(text, &mut out).unwrap();
        out
    }

    #[test]
    fn strings_come_back_and_are_as_long_as_told() {
        let long = "x".repeat(200);
        let text = LargeStringArray::from(vec!["", "R", "Grüße", &long]);
        let bytes = 1 + 7 + 200;
        for (strings, length) in [
            (Strings::NulTerminated, bytes + 4),
            (Strings::VarintPrefix, bytes + 5),
            (Strings::Fixed(200), 800),
            (Strings::Fixed(300), 1200),
        ] {
            let out = written(strings, &text);
            assert_eq!(out.len(), length, "{strings:?}");
            let mut builder = TextBuilder::new(4);
            strings.read(&out, 4, &mut builder).unwrap();
            assert_eq!(builder.finish().unwrap(), text, "{strings:?}");
            assert!(strings.read(&out[..length - 1], 4, &mut TextBuilder::new(4)).is_err());
            assert!(strings.read(&out, 3, &mut TextBuilder::new(4)).is_err());
        }
    }

    #[test]
    fn what_is_too_long_for_its_type_is_refused() {
        let text = LargeStringArray::from(vec!["ab"]);
        assert!(Strings::Fixed(1).write(&text, &mut Vec::new()).is_err());
    }
}
