//! Where a decoder takes heads and buffers from (protocol.md §10, §10.2), and what it may take for them.

use crate::compression::decompress;
use crate::cursor::Reader;
use crate::sink::FRAME_ALIGNMENT;
use crate::text::OFFSETS;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use hypostyle_types::{Error, Result};

/// Arrays within arrays.
const NESTING_MAX: usize = 64;

pub(crate) struct Source<'a> {
    head: Reader<'a>,
    buffers: Buffers<'a>,
    /// Bytes that may still be taken for what is decoded.
    left: usize,
    depth: usize,
}

/// Where the buffers are that a head names.
enum Buffers<'a> {
    /// One behind the other.
    Payload { payload: Buffer, at: usize, alignment: usize },
    /// In files that were mapped.
    Files(&'a [Buffer]),
}

/// Which elements of an array are NULL.
pub(crate) enum Mask {
    None,
    Some(NullBuffer),
    All,
}

impl<'a> Source<'a> {
    pub fn new(head: &'a [u8], payload: Buffer, alignment: usize, limit: usize) -> Self {
        let buffers = Buffers::Payload { payload, at: 0, alignment };
        Self { head: Reader::new(head), buffers, left: limit, depth: 0 }
    }

    /// Of stored columns (protocol.md §10.5, place 2).
    pub fn of_files(head: &'a [u8], files: &'a [Buffer], limit: usize) -> Self {
        Self { head: Reader::new(head), buffers: Buffers::Files(files), left: limit, depth: 0 }
    }

    /// Elements that an array may have.
    pub fn elements_max(&self) -> usize {
        match self.buffers {
            Buffers::Payload { .. } => i32::MAX as usize,
            Buffers::Files(_) => isize::MAX as usize / 32,
        }
    }

    pub fn head(&mut self) -> &mut Reader<'a> {
        &mut self.head
    }

    /// Takes `count` elements of `bytes` each from what may be decoded, before anything is allocated for them.
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
        if encoding > OFFSETS && matches!(self.buffers, Buffers::Files(_)) {
            return Err(Error::protocol(format!("a stored column has encoding {encoding}")));
        }
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
        match &mut self.buffers {
            Buffers::Files(files) => {
                let (file, offset, length) = (self.head.u16()?, self.head.u64()?, self.head.u64()?);
                check(usize::try_from(length).unwrap_or(usize::MAX))?;
                file_slice(files, file, offset, length)
            }
            Buffers::Payload { payload, at, alignment } => {
                let number = self.head.u8()?;
                let length = self.head.u32()? as usize;
                check(length)?;
                let stored = if number == 0 { length } else { self.head.u32()? as usize };
                let bytes = next_slice(payload, at, *alignment, stored)?;
                if number == 0 {
                    return Ok(bytes);
                }
                self.claim(length, 1)?;
                Ok(decompress(number, &bytes, length)?.into())
            }
        }
    }

    /// # Errors
    /// When something is left that nobody has asked for.
    pub fn end(mut self) -> Result<()> {
        if let Buffers::Payload { payload, at, .. } = &self.buffers
            && *at != payload.len()
        {
            return Err(Error::protocol(format!("{} bytes too many in a payload", payload.len() - at)));
        }
        let padding = self.head.rest();
        if padding.len() >= FRAME_ALIGNMENT || padding.iter().any(|byte| *byte != 0) {
            return Err(Error::protocol(format!("{} bytes too many in a head", padding.len())));
        }
        Ok(())
    }
}

/// The next buffer of a payload, and where the one after it may begin.
fn next_slice(payload: &Buffer, at: &mut usize, alignment: usize, length: usize) -> Result<Buffer> {
    if length == 0 {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    let start = at.next_multiple_of(alignment);
    let end = start.checked_add(length).filter(|end| *end <= payload.len()).ok_or_else(|| {
        Error::protocol(format!("{length} bytes at {start} are not in a payload of {}", payload.len()))
    })?;
    if payload[*at..start].iter().any(|byte| *byte != 0) {
        return Err(Error::protocol("what lies between two buffers is not zero"));
    }
    *at = end;
    Ok(payload.slice_with_length(start, length))
}

fn file_slice(files: &[Buffer], file: u16, offset: u64, length: u64) -> Result<Buffer> {
    let bytes = files
        .get(usize::from(file))
        .filter(|bytes| offset.checked_add(length).is_some_and(|end| end <= bytes.len() as u64));
    let bytes = bytes.ok_or_else(|| {
        Error::protocol(format!("{length} bytes at {offset} are not in descriptor {file} of {}", files.len()))
    })?;
    Ok(bytes.slice_with_length(offset as usize, length as usize))
}
