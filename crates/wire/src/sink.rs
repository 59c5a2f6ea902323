//! Where an encoder puts heads and buffers (protocol.md §10, §10.2).

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::compression::{Compression, compress};
use crate::cursor::Writer;
use crate::symbols::Symbols;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use hypostyle_types::{Error, Result};
use std::time::Duration;

/// The alignment of buffers, in a frame and in a memory file.
pub(crate) const FRAME_ALIGNMENT: usize = 16;
pub(crate) const MEMORY_ALIGNMENT: usize = 64;

/// Shorter buffers are copied behind one another: a slice of its own in a vectored write costs more.
const OWN_SLICE_BYTES: usize = 2048;

/// What may be done to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Encodings other than plain.
    pub light: bool,
    /// Strings as codes of symbols; a compression of the strings themselves does better.
    pub symbols: bool,
    /// Packed widths are 8, 16, 32 or 64, which leaves more to a compression that follows.
    pub rounded: bool,
    pub compression: Compression,
    /// Strings as offsets, and everything plain: the receiver takes it as it lies.
    pub in_place: bool,
}

impl Settings {
    pub const PLAIN: Self = Self {
        light: false,
        symbols: false,
        rounded: false,
        compression: Compression::None,
        in_place: false,
    };
    /// Encodings that are fast.
    pub const QUICK: Self = Self { light: true, ..Self::PLAIN };
    /// All encodings.
    pub const LIGHT: Self = Self { symbols: true, ..Self::QUICK };
    pub const IN_PLACE: Self = Self { in_place: true, ..Self::PLAIN };
}

pub(crate) struct Sink {
    pub head: Writer,
    pub settings: Settings,
    /// The heaviest compression that was used since it was last reset.
    pub compressed_by: u8,
    /// Symbols of the column's chunks before, and after it those of this chunk.
    pub symbols: Option<Symbols>,
    /// Time that finding new symbols took.
    pub setup: Duration,
    alignment: usize,
    length: usize,
    tail: Vec<u8>,
    full: Vec<Buffer>,
}

impl Sink {
    pub fn new(settings: Settings) -> Self {
        Self {
            head: Writer::default(),
            settings,
            compressed_by: 0,
            symbols: None,
            setup: Duration::ZERO,
            alignment: if settings.in_place { MEMORY_ALIGNMENT } else { FRAME_ALIGNMENT },
            length: 0,
            tail: Vec::new(),
            full: Vec::new(),
        }
    }

    /// Bytes of the head and the payload so far.
    pub fn bytes(&self) -> usize {
        self.head.length() + self.length
    }

    /// An array's first two fields and its mask. `nulls` are neither none nor all.
    pub fn array(&mut self, encoding: u8, nulls: Option<&NullBuffer>) -> Result<()> {
        self.head.u8(encoding);
        match nulls {
            None => _ = self.head.u8(0),
            Some(nulls) => {
                self.head.u8(1);
                self.bits(nulls.inner())?;
            }
        }
        Ok(())
    }

    pub fn bits(&mut self, bits: &BooleanBuffer) -> Result<()> {
        let bytes = bits.len().div_ceil(8);
        if bits.offset().is_multiple_of(8) && bits.len().is_multiple_of(8) {
            return self.buffer(bits.inner().slice_with_length(bits.offset() / 8, bytes));
        }
        // Bits behind the last one would tell what a neighbour holds.
        let mut copy = bits.sliced().as_slice()[..bytes].to_vec();
        if let (Some(last), used @ 1..) = (copy.last_mut(), bits.len() % 8) {
            *last &= u8::MAX >> (8 - used);
        }
        self.buffer(copy.into())
    }

    pub fn buffer(&mut self, bytes: Buffer) -> Result<()> {
        self.compressed(self.settings.compression, bytes)
    }

    /// A buffer of packed integers. What little there is left in them, the lowest level finds, too.
    pub fn packed(&mut self, bytes: Buffer) -> Result<()> {
        let compression = match self.settings.rounded {
            true => self.settings.compression,
            false => self.settings.compression.min(Compression::Zstd(1)),
        };
        self.compressed(compression, bytes)
    }

    fn compressed(&mut self, compression: Compression, bytes: Buffer) -> Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| too_long(bytes.len()))?;
        match compress(compression, &bytes)? {
            Some((number, compressed)) => {
                self.head.u8(number).u32(length).u32(compressed.len() as u32);
                self.compressed_by = self.compressed_by.max(number);
                self.put(compressed.into());
            }
            None => {
                self.head.u8(0).u32(length);
                self.put(bytes);
            }
        }
        Ok(())
    }

    fn put(&mut self, bytes: Buffer) {
        if bytes.is_empty() {
            return;
        }
        let padding = self.length.next_multiple_of(self.alignment) - self.length;
        self.tail.resize(self.tail.len() + padding, 0);
        self.length += padding + bytes.len();
        if bytes.len() < OWN_SLICE_BYTES {
            self.tail.extend_from_slice(&bytes);
        } else {
            self.flush();
            self.full.push(bytes);
        }
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.full.push(std::mem::take(&mut self.tail).into());
        }
    }

    /// The head, and the payload in pieces.
    pub fn finish(mut self) -> (Writer, Vec<Buffer>) {
        self.flush();
        (self.head, self.full)
    }
}

/// Zeros behind a head that begins `before` bytes into its body (protocol.md §10).
pub(crate) fn pad_head(head: &mut Writer, before: usize) {
    let end = before + head.length();
    for _ in end..end.next_multiple_of(FRAME_ALIGNMENT) {
        head.u8(0);
    }
}

pub(crate) fn too_long(bytes: usize) -> Error {
    Error::unsupported(format!("{bytes} bytes of a column cannot be in one chunk")).with_sqlstate("54000")
}
