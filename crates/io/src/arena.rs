//! Memory for large pieces of bytes that are needed one after the other.
//!
//! If an allocator gives new pages for each piece, every 4 KiB of it cost a page fault, which is as
//! much work as copying the bytes. An [`Arena`] maps huge pages for several pieces. The pages go
//! back to the system with the last of these pieces.

use memmap2::{Advice, MmapMut, MmapOptions};
use std::fmt;
use std::sync::Arc;

/// The bytes that are mapped at a time. Whoever keeps one piece keeps no more than this.
const ROOM_BYTES: usize = 8 << 20;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The alignment of a piece: any array may begin there.
const ALIGNMENT: usize = 64;

/// Gives out pieces of memory, one after the other.
#[derive(Default)]
pub struct Arena {
    room: Option<Arc<Room>>,
    /// The offset at which the free part of the room begins.
    free: usize,
}

struct Room {
    /// Keeps the mapping alive; its bytes are accessed only through pieces.
    _map: MmapMut,
    first: *mut u8,
}

// SAFETY: the bytes are accessed only through pieces, no two of which overlap.
unsafe impl Send for Room {}
// SAFETY: as above.
unsafe impl Sync for Room {}

/// A range of bytes that has one owner; it is zeroed at first.
pub struct Piece {
    room: Arc<Room>,
    start: usize,
    length: usize,
}

impl Arena {
    /// Returns a piece of `length` bytes. Returns `None` when it is larger than the room, or when
    /// the system has no memory.
    pub fn piece(&mut self, length: usize) -> Option<Piece> {
        if length > ROOM_BYTES {
            return None;
        }
        if self.room.is_none() || self.free + length > ROOM_BYTES {
            self.room = Some(Arc::new(Room::new()?));
            self.free = 0;
        }
        let (room, start) = (self.room.clone()?, self.free);
        self.free = (start + length).next_multiple_of(ALIGNMENT);
        Some(Piece { room, start, length })
    }
}

impl Room {
    fn new() -> Option<Self> {
        // The first huge page may begin this far behind the start. Pages that are not touched cost
        // nothing.
        let mut map = MmapOptions::new().len(ROOM_BYTES + HUGE_PAGE_BYTES).map_anon().ok()?;
        // Without huge pages, small ones are used.
        let _small = map.advise(Advice::HugePage);
        let skipped = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let first = map.get_mut(skipped..skipped + ROOM_BYTES)?.as_mut_ptr();
        Some(Self { _map: map, first })
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range is in the room, which lives as long as the piece, and only this piece
        // has it.
        unsafe { std::slice::from_raw_parts(self.room.first.add(self.start), self.length) }
    }
}

impl AsMut<[u8]> for Piece {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.room.first.add(self.start), self.length) }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Piece of {} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_and_outlive_the_arena() {
        let mut arena = Arena::default();
        let lengths = [1, 100, 1 << 20, 64, 0, 5 << 20, 4 << 20, ROOM_BYTES, 3];
        let mut pieces: Vec<Piece> = lengths.iter().map(|length| arena.piece(*length).unwrap()).collect();
        assert!(arena.piece(ROOM_BYTES + 1).is_none());
        drop(arena);
        for (number, piece) in pieces.iter_mut().enumerate() {
            assert!(piece.as_ref().iter().all(|byte| *byte == 0), "piece {number} was somebody's");
            assert!((piece.as_ref().as_ptr() as usize).is_multiple_of(ALIGNMENT), "piece {number}");
            piece.as_mut().fill(number as u8 + 1);
        }
        for (number, (piece, length)) in pieces.iter().zip(lengths).enumerate() {
            assert_eq!(piece.as_ref().len(), length);
            assert!(piece.as_ref().iter().all(|byte| *byte == number as u8 + 1), "piece {number} is mixed");
        }
    }
}
