//! Memory that C writes and Arrow reads.
//!
//! It is asked for with `try_reserve`, so that a lack of memory is an error: an abort would end all
//! sessions of the server.

use arrow_buffer::Buffer;
use hypostyle_types::{Error, ErrorKind, Result};

/// The unit of memory, as wide as Arrow's widest values need their buffers aligned.
type Unit = i128;

const UNIT_BYTES: usize = size_of::<Unit>();

/// Bytes that are written from outside, in memory that is aligned for any values.
#[derive(Default)]
pub(crate) struct RawBuffer(Vec<Unit>);

fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("there is no memory for {bytes} bytes of a chunk"))
}

impl RawBuffer {
    /// Makes room for so many bytes in all; the first `used` of them are kept.
    pub fn reserve(&mut self, used: usize, bytes: usize) -> Result<()> {
        let units = bytes.div_ceil(UNIT_BYTES);
        if units <= self.0.capacity() {
            return Ok(());
        }
        let mut grown: Vec<Unit> = Vec::new();
        grown.try_reserve_exact(units).map_err(|_| no_memory(bytes))?;
        let used = used.div_ceil(UNIT_BYTES).min(self.0.capacity());
        // SAFETY: both have so many units, and are not the same memory. Bytes that nobody has written are
        // moved like others and not looked at.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.0.as_ptr().cast::<std::mem::MaybeUninit<Unit>>(),
                grown.as_mut_ptr().cast::<std::mem::MaybeUninit<Unit>>(),
                used,
            );
        }
        self.0 = grown;
        Ok(())
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    pub fn capacity(&self) -> usize {
        self.0.capacity() * UNIT_BYTES
    }

    /// Sets bytes that have room.
    pub fn fill(&mut self, from: usize, to: usize, byte: u8) {
        let (from, to) = (from.min(self.capacity()), to.min(self.capacity()));
        // SAFETY: the range is within the memory.
        unsafe { self.pointer().add(from).write_bytes(byte, to.saturating_sub(from)) };
    }

    /// Gives the first bytes to Arrow.
    ///
    /// # Safety
    /// They have been written.
    pub unsafe fn finish(mut self, bytes: usize) -> Buffer {
        let bytes = bytes.min(self.capacity());
        let units = bytes.div_ceil(UNIT_BYTES);
        self.fill(bytes, units * UNIT_BYTES, 0);
        // SAFETY: the caller has written the first bytes, and the rest of the last unit is zero.
        unsafe { self.0.set_len(units) };
        Buffer::from_vec(self.0).slice_with_length(0, bytes)
    }
}

/// Looks whether there is memory for work that cannot end in an error without it.
pub(crate) fn check_memory(bytes: usize) -> Result<()> {
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| no_memory(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_while_it_grows() {
        let mut buffer = RawBuffer::default();
        buffer.reserve(0, 5).unwrap();
        buffer.fill(0, 5, 7);
        buffer.reserve(5, 1000).unwrap();
        buffer.fill(5, 21, 9);
        assert!(buffer.capacity() >= 1000);
        // SAFETY: the first 21 bytes were written.
        let bytes = unsafe { buffer.finish(21) };
        assert_eq!(bytes.as_slice(), [[7; 5].as_slice(), &[9; 16]].concat());
    }

    #[test]
    fn no_memory_is_an_error() {
        let error = RawBuffer::default().reserve(0, isize::MAX as usize - 64).unwrap_err();
        assert_eq!(error.sqlstate(), "53200");
        assert_eq!(check_memory(usize::MAX / 2).unwrap_err().sqlstate(), "53200");
    }
}
