//! Text files in other encodings than UTF-8, turned into UTF-8 as they are read.

use std::io::{self, Read};

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16(Order),
    /// ISO 8859-1: each byte is the code point of its number.
    Latin1,
}

/// The order of the two bytes of a unit of UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

/// Bytes that are decoded at once.
const BLOCK: usize = 64 << 10;

impl Encoding {
    /// Returns the encoding of a name; `utf-16` has the order that its mark tells.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(|character| !matches!(character, '-' | '_' | ' ')).collect();
        match plain.to_ascii_lowercase().as_str() {
            "utf8" => Some(Self::Utf8),
            "utf16" | "utf16le" => Some(Self::Utf16(Order::Little)),
            "utf16be" => Some(Self::Utf16(Order::Big)),
            "latin1" | "iso88591" => Some(Self::Latin1),
            _ => None,
        }
    }

    /// Returns the encoding that the mark at the start of a file tells.
    fn of_mark(start: &[u8]) -> Option<Self> {
        match start {
            [0xFF, 0xFE, ..] => Some(Self::Utf16(Order::Little)),
            [0xFE, 0xFF, ..] => Some(Self::Utf16(Order::Big)),
            _ => None,
        }
    }
}

/// A reader of UTF-8 over one of another encoding. What is damaged there is so here, too.
pub struct Decoded<R> {
    inner: R,
    /// `None`: not told before the first bytes are here.
    encoding: Option<Encoding>,
    started: bool,
    /// Bytes that are not yet decoded: those of the start, or the first half of a character.
    rest: Vec<u8>,
    text: Vec<u8>,
    at: usize,
}

impl<R: Read> Decoded<R> {
    /// Returns the text of some bytes; without an encoding their mark tells it, or they are UTF-8.
    pub fn new(inner: R, encoding: Option<Encoding>) -> Self {
        Self { inner, encoding, started: false, rest: Vec::new(), text: Vec::new(), at: 0 }
    }

    fn start(&mut self) -> io::Result<Encoding> {
        if !self.started {
            self.started = true;
            self.inner.by_ref().take(2).read_to_end(&mut self.rest)?;
            let marked = Encoding::of_mark(&self.rest);
            let told = match (self.encoding, marked) {
                // The mark knows the order of bytes better than an option.
                (None | Some(Encoding::Utf16(_)), Some(marked)) => {
                    self.rest.clear();
                    marked
                }
                (told, _) => told.unwrap_or(Encoding::Utf8),
            };
            self.encoding = Some(told);
        }
        Ok(self.encoding.unwrap_or(Encoding::Utf8))
    }

    /// Decodes the next block; false at the end.
    fn advance(&mut self, encoding: Encoding) -> io::Result<bool> {
        self.text.clear();
        self.at = 0;
        while self.text.is_empty() {
            let mut block = vec![0; BLOCK];
            let read = self.inner.read(&mut block)?;
            self.rest.extend_from_slice(&block[..read]);
            let bytes = std::mem::take(&mut self.rest);
            match encoding {
                Encoding::Utf16(order) => {
                    let used = decode(&bytes, order, read == 0, &mut self.text);
                    self.rest.extend_from_slice(&bytes[used..]);
                }
                _ => {
                    for byte in bytes {
                        self.text.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
            }
            if read == 0 {
                return Ok(!self.text.is_empty());
            }
        }
        Ok(true)
    }
}

/// A byte that no character of UTF-8 has.
const DAMAGED: u8 = 0xFF;

/// Decodes UTF-16 as far as its characters are whole; returns the bytes used. What is no character
/// becomes what is none in UTF-8, so that the reader of the rows finds it in its line.
fn decode(bytes: &[u8], order: Order, at_end: bool, text: &mut Vec<u8>) -> usize {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| match order {
        Order::Little => u16::from_le_bytes(*pair),
        Order::Big => u16::from_be_bytes(*pair),
    };
    let last_is_first_half = pairs.last().is_some_and(|pair| (0xD800..0xDC00).contains(&unit(pair)));
    let whole = if last_is_first_half && !at_end { &pairs[..pairs.len() - 1] } else { pairs };
    for character in char::decode_utf16(whole.iter().map(unit)) {
        match character {
            Ok(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(_) => text.push(DAMAGED),
        }
    }
    if at_end && !odd.is_empty() {
        text.push(DAMAGED);
        return bytes.len();
    }
    whole.len() * 2
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let encoding = self.start()?;
        if encoding == Encoding::Utf8 {
            if self.rest.is_empty() {
                return self.inner.read(buffer);
            }
            let count = self.rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.rest[..count]);
            self.rest.drain(..count);
            return Ok(count);
        }
        if self.at == self.text.len() && !self.advance(encoding)? {
            return Ok(0);
        }
        let count = (self.text.len() - self.at).min(buffer.len());
        buffer[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a,é€😀\n1,2\n";

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (Some((first, rest)), false) = (self.0.split_first(), buffer.is_empty()) else {
                return Ok(0);
            };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn decoded(bytes: &[u8], encoding: Option<Encoding>) -> String {
        let mut text = String::new();
        Decoded::new(Slow(bytes), encoding).read_to_string(&mut text).unwrap();
        let mut at_once = String::new();
        Decoded::new(bytes, encoding).read_to_string(&mut at_once).unwrap();
        assert_eq!(text, at_once);
        text
    }

    #[test]
    fn marks_and_names_tell_the_encoding() {
        for (order, to_bytes) in [
            (Order::Little, u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (Order::Big, u16::to_be_bytes as fn(u16) -> [u8; 2]),
        ] {
            let plain: Vec<u8> = TEXT.encode_utf16().flat_map(to_bytes).collect();
            assert_eq!(decoded(&plain, Some(Encoding::Utf16(order))), TEXT);
            let marked: Vec<u8> =
                [0xFEFF].into_iter().chain(TEXT.encode_utf16()).flat_map(to_bytes).collect();
            assert_eq!(decoded(&marked, None), TEXT);
            assert_eq!(decoded(&marked, Encoding::from_name("UTF-16")), TEXT);
        }
        assert_eq!(decoded(TEXT.as_bytes(), None), TEXT);
        assert_eq!(decoded(b"caf\xE9", Encoding::from_name("latin-1")), "café");
        for short in ["", "a", "ab"] {
            assert_eq!(decoded(short.as_bytes(), None), short);
        }
        assert_eq!(Encoding::from_name("ebcdic"), None);
    }

    #[test]
    fn what_is_damaged_is_no_text() {
        for damaged in [&b"a\0b"[..], b"a\0\x00\xD8b\0", b"a\0\x00\xDCb\0", b"a\0\x00\xD8"] {
            let mut bytes = Vec::new();
            let mut text = Decoded::new(Slow(damaged), Some(Encoding::Utf16(Order::Little)));
            text.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.get(..2), Some(&b"a\xFF"[..]), "{damaged:?}");
        }
    }
}
