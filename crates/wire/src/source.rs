//! Where a decoder takes heads and buffers from (protocol.md §10, §10.2), and what it may take for them.

use crate::compression::decompress;
use crate::cursor::Reader;
use crate::sink::FRAME_ALIGNMENT;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use hypostyle_types::{Error, Result};

/// Arrays within arrays.
const NESTING_MAX: usize = 64;

/// Bytes that a chunk or a dictionary may take in memory (§10.4), unless it came with a good part of them.
const DECODED_BYTES_MAX: usize = 256 << 20;
const DECODED_TIMES: usize = 16;

/// The same of a single row, and of everything.
pub(crate) const ROW_BYTES_MAX: usize = 1 << 30;

/// Bytes in memory that so many which have come may become.
pub(crate) fn decoded_bytes_max(came: usize) -> usize {
    DECODED_BYTES_MAX.max(came.saturating_mul(DECODED_TIMES)).min(ROW_BYTES_MAX)
}

pub(crate) struct Source<'a> {
    head: Reader<'a>,
    payload: Buffer,
    at: usize,
    alignment: usize,
    /// Bytes that may still be taken for what is decoded.
    left: usize,
    depth: usize,
}

/// Which elements of an array are NULL.
pub(crate) enum Mask {
    None,
    Some(NullBuffer),
    All,
}

impl<'a> Source<'a> {
    pub fn new(head: &'a [u8], payload: Buffer, alignment: usize, limit: usize) -> Self {
        Self { head: Reader::new(head), payload, at: 0, alignment, left: limit, depth: 0 }
    }

    pub fn head(&mut self) -> &mut Reader<'a> {
        &mut self.head
    }

    /// Takes `count` elements of `bytes` each from what may be decoded, before anything is
    /// allocated for them.
    pub fn claim(&mut self, count: usize, bytes: usize) -> Result<()> {
        let claimed = count.checked_mul(bytes).filter(|claimed| *claimed <= self.left);
        self.left -= claimed.ok_or_else(|| {
            Error::protocol(format!("{count} elements of {bytes} bytes are more than a chunk may have"))
        })?;
        Ok(())
    }

    /// Goes into an array that belongs to another.
    pub fn within<R>(&mut self, inner: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(Error::protocol(format!("arrays are nested deeper than {NESTING_MAX}")));
        }
        let result = inner(self)?;
        self.depth -= 1;
        Ok(result)
    }

    /// The encoding and mask of an array of `count` elements.
    pub fn array(&mut self, count: usize) -> Result<(u8, Mask)> {
        let encoding = self.head.u8()?;
        let mask = match self.head.u8()? {
            0 => Mask::None,
            1 => {
                let nulls = NullBuffer::new(self.bits(count)?);
                if nulls.null_count() == 0 { Mask::None } else { Mask::Some(nulls) }
            }
            2 => Mask::All,
            other => return Err(Error::protocol(format!("there is no mask {other}"))),
        };
        Ok((encoding, mask))
    }

    pub fn bits(&mut self, count: usize) -> Result<BooleanBuffer> {
        Ok(BooleanBuffer::new(self.buffer(count.div_ceil(8))?, 0, count))
    }

    /// A buffer that must have `length` bytes when decoded.
    pub fn buffer(&mut self, length: usize) -> Result<Buffer> {
        self.buffer_where(|found| match found == length {
            true => Ok(()),
            false => Err(Error::protocol(format!("a buffer of {found} bytes is where {length} must be"))),
        })
    }

    /// A buffer of at most `length_max` bytes when decoded.
    pub fn buffer_within(&mut self, length_max: usize) -> Result<Buffer> {
        self.buffer_where(|found| match found <= length_max {
            true => Ok(()),
            false => Err(Error::protocol(format!(
                "a buffer of {found} bytes is where at most {length_max} may be"
            ))),
        })
    }

    fn buffer_where(&mut self, check: impl FnOnce(usize) -> Result<()>) -> Result<Buffer> {
        let number = self.head.u8()?;
        let length = self.head.u32()? as usize;
        check(length)?;
        let stored = if number == 0 { length } else { self.head.u32()? as usize };
        if number != 0 {
            self.claim(length, 1)?;
        }
        if stored == 0 {
            let nothing = if number == 0 { Vec::new() } else { decompress(number, &[], length)? };
            return Ok(nothing.into());
        }
        let start = self.at.next_multiple_of(self.alignment);
        let end = start.checked_add(stored).filter(|end| *end <= self.payload.len()).ok_or_else(|| {
            Error::protocol(format!(
                "{stored} bytes at {start} are not in a payload of {}",
                self.payload.len()
            ))
        })?;
        if self.payload[self.at..start].iter().any(|byte| *byte != 0) {
            return Err(Error::protocol("what lies between two buffers is not zero"));
        }
        self.at = end;
        if number == 0 {
            return Ok(self.payload.slice_with_length(start, stored));
        }
        Ok(decompress(number, &self.payload[start..end], length)?.into())
    }

    /// # Errors
    /// When something is left that nobody has asked for.
    pub fn end(mut self) -> Result<()> {
        if self.at != self.payload.len() {
            return Err(Error::protocol(format!(
                "{} bytes too many in a payload",
                self.payload.len() - self.at
            )));
        }
        let padding = self.head.rest();
        if padding.len() >= FRAME_ALIGNMENT || padding.iter().any(|byte| *byte != 0) {
            return Err(Error::protocol(format!("{} bytes too many in a head", padding.len())));
        }
        Ok(())
    }
}
