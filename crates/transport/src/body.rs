//! The body of a frame while it arrives.

use crate::socket::{Socket, Stop};
use arrow_buffer::Buffer;
use bytes::Bytes;
use hypostyle_io::{Arena, Piece};

/// The length up to which a header is trusted; most chunks are smaller.
const BELIEVED_BYTES: usize = 2 << 20;

/// Memory grows by at least this many bytes.
const GROWTH_BYTES: usize = 64 << 10;

/// Smaller bodies are left to the allocator, and so are the first of the larger ones: a small
/// result is not worth a huge page.
const LARGE_BYTES: usize = 64 << 10;
const FIRST_BYTES: usize = 8 << 20;

/// Memory for the bodies of one connection.
#[derive(Default)]
pub(crate) struct BodyMemory {
    arena: Arena,
    /// The bytes of large bodies until now.
    bytes: usize,
}

impl BodyMemory {
    /// Makes room for a body of so many bytes, the first of which have come.
    #[expect(clippy::indexing_slicing, reason = "the piece is as long as the body")]
    pub fn body(&mut self, length: usize, first: &[u8]) -> Body {
        let mut body = Body { length, bytes: self.bytes_of(length, first.len()) };
        match &mut body.bytes {
            Memory::Growing(bytes) => bytes.extend_from_slice(first),
            Memory::Piece { piece, filled } => {
                piece.as_mut()[..first.len()].copy_from_slice(first);
                *filled = first.len();
            }
        }
        body
    }

    fn bytes_of(&mut self, length: usize, here: usize) -> Memory {
        if (LARGE_BYTES..=BELIEVED_BYTES).contains(&length) {
            self.bytes = self.bytes.saturating_add(length);
            if self.bytes > FIRST_BYTES
                && let Some(piece) = self.arena.piece(length)
            {
                return Memory::Piece { piece, filled: 0 };
            }
        }
        // Beyond this size memory is taken as the bytes come, because the header alone is not
        // trusted.
        Memory::Growing(Vec::with_capacity(length.min(here.max(BELIEVED_BYTES))))
    }
}

pub(crate) struct Body {
    /// The length of the whole body.
    length: usize,
    bytes: Memory,
}

enum Memory {
    Growing(Vec<u8>),
    Piece { piece: Piece, filled: usize },
}

impl Body {
    /// Returns the number of bytes that are still missing.
    fn missing(&self) -> usize {
        self.length
            - match &self.bytes {
                Memory::Growing(bytes) => bytes.len(),
                Memory::Piece { filled, .. } => *filled,
            }
    }

    pub fn is_whole(&self) -> bool {
        self.missing() == 0
    }

    /// Returns the whole body.
    pub fn finish(self) -> Buffer {
        match self.bytes {
            Memory::Growing(bytes) => Buffer::from_vec(bytes),
            Memory::Piece { piece, .. } => Buffer::from(Bytes::from_owner(piece)),
        }
    }

    /// Reads the bytes that are there, and none of the next frame.
    pub fn read(&mut self, socket: &Socket) -> Result<(), Stop> {
        let missing = self.missing();
        if let Memory::Growing(bytes) = &mut self.bytes {
            if bytes.capacity() == bytes.len() {
                bytes.reserve_exact(missing.min(bytes.len().max(GROWTH_BYTES)));
            }
            // The capacity may be more than was requested.
            if bytes.capacity() - bytes.len() <= missing {
                return socket.read(bytes).map(drop);
            }
        }
        self.read_by(missing, |room| socket.read_into(room))
    }

    /// Has at most so many bytes put into their place.
    #[expect(clippy::indexing_slicing, reason = "no more are read than are missing")]
    pub fn read_by(
        &mut self,
        at_most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<(), Stop> {
        let wanted = self.missing().min(at_most);
        match &mut self.bytes {
            Memory::Growing(bytes) => append(bytes, wanted, read),
            Memory::Piece { piece, filled } => {
                *filled += read(&mut piece.as_mut()[*filled..*filled + wanted])?;
                Ok(())
            }
        }
    }
}

/// Has at most `wanted` bytes put behind others.
#[expect(clippy::indexing_slicing, reason = "there are at least as many as before")]
pub(crate) fn append(
    bytes: &mut Vec<u8>,
    wanted: usize,
    read: impl FnOnce(&mut [u8]) -> Result<usize, Stop>,
) -> Result<(), Stop> {
    let start = bytes.len();
    bytes.resize(start + wanted, 0);
    let result = read(&mut bytes[start..]);
    bytes.truncate(start + result.as_ref().map_or(0, |length| *length));
    result.map(drop)
}
