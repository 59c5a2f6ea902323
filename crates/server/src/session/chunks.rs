//! How large the chunks of a result are (protocol.md §10.4).
//!
//! A mebibyte is the best of chunks of some columns. In one of several hundred columns it holds so few rows
//! that both sides spend their time on arrays rather than on values, and the receiver has to join chunks.
//! So a wide result gets larger ones, where that delays nobody: the first rows come as early as ever, and a
//! slow link is not left idle while a large chunk is encoded.

use hypostyle_wire::{CHUNK_BYTES, CHUNK_BYTES_MAX};

/// Bytes of a chunk for each column: what a chunk of 16 columns has.
const COLUMN_BYTES: usize = CHUNK_BYTES as usize / 16;

/// The largest chunk that a client gets which has not asked for a size.
const WIDE_BYTES_MAX: usize = 8 << 20;

/// So long a larger chunk takes on the link at most, in seconds.
const LINK_SECONDS: f64 = 0.01;

/// Bytes before codecs that wait to be encoded or sent, unless each thread has one chunk.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The link to a client that is on this machine.
pub const THIS_MACHINE: f64 = f64::INFINITY;

/// Says how many bytes before codecs the next chunk of a result aims at.
pub struct ChunkSize {
    /// The first chunk's.
    least: usize,
    most: usize,
    /// Bytes of the chunks until now.
    planned: usize,
}

impl ChunkSize {
    /// `wanted` is what the client asks for, or 0; its frames have at most `frame_bytes_max` bytes.
    pub fn new(wanted: u32, frame_bytes_max: u32, columns: usize) -> Self {
        let room = frame_bytes_max as usize / 2;
        let (least, most) = match wanted.min(CHUNK_BYTES_MAX) as usize {
            0 => {
                let wide = columns.saturating_mul(COLUMN_BYTES).min(WIDE_BYTES_MAX);
                (CHUNK_BYTES as usize, wide.max(CHUNK_BYTES as usize))
            }
            wanted => (wanted, wanted),
        };
        Self { least: least.min(room), most: most.min(room), planned: 0 }
    }

    /// Bytes of the next chunk, over a link of so many bytes a second as far as that is known. No chunk is
    /// larger than all before it, so that all cores have some of a small result.
    pub fn next(&self, link: Option<f64>) -> usize {
        let on_link = link.unwrap_or(0.0) * LINK_SECONDS;
        // A float that is too large becomes the largest number.
        self.most.min(self.planned).min(on_link as usize).max(self.least)
    }

    /// Takes note of a chunk.
    pub fn add(&mut self, bytes: usize) {
        self.planned = self.planned.saturating_add(bytes);
    }
}

/// Says whether chunks that wait, of so many bytes in all, are enough for a number of threads.
pub fn are_enough(chunks: usize, bytes: usize, threads: usize) -> bool {
    chunks > 2 * threads || (chunks > threads && bytes > WAITING_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 256 << 20;
    const MIB: usize = 1 << 20;

    /// The sizes of the first chunks.
    fn sizes(mut size: ChunkSize, link: Option<f64>) -> Vec<usize> {
        let next = |_| {
            let bytes = size.next(link);
            size.add(bytes);
            bytes
        };
        (0..7).map(next).collect()
    }

    #[test]
    fn wide_results_get_larger_chunks_step_by_step() {
        let wide = sizes(ChunkSize::new(0, FRAME, 274), Some(THIS_MACHINE));
        assert_eq!(wide, [MIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 8 * MIB, 8 * MIB]);
        assert_eq!(sizes(ChunkSize::new(0, FRAME, 40), Some(1e10))[3..], [5 * MIB / 2; 4]);
        assert_eq!(sizes(ChunkSize::new(0, FRAME, 16), Some(THIS_MACHINE)), [MIB; 7]);
        assert_eq!(sizes(ChunkSize::new(0, FRAME, 0), Some(THIS_MACHINE)), [MIB; 7]);
    }

    #[test]
    fn a_chunk_is_not_long_on_the_link() {
        let last = |link| sizes(ChunkSize::new(0, FRAME, 1600), link)[6];
        assert_eq!(last(None), MIB);
        assert_eq!(last(Some(12.5e6)), MIB);
        assert_eq!(last(Some(125e6)), 1_250_000);
        assert_eq!(last(Some(1.25e9)), 8 * MIB);
    }

    #[test]
    fn a_client_gets_what_it_asks_for_and_has_room_for() {
        let sizes_of = |wanted, frame| sizes(ChunkSize::new(wanted, frame, 274), Some(THIS_MACHINE));
        assert_eq!(sizes_of(65_536, FRAME), [65_536; 7]);
        assert_eq!(sizes_of(u32::MAX, FRAME), [16 * MIB; 7]);
        assert_eq!(sizes_of(0, 1 << 20), [MIB / 2; 7]);
        assert_eq!(sizes_of(0, 4 << 20)[6], 2 * MIB);
    }

    #[test]
    fn few_large_chunks_wait() {
        assert!(!are_enough(16, 16 * MIB, 8));
        assert!(are_enough(17, 17 * MIB, 8));
        assert!(!are_enough(8, 64 * MIB, 8));
        assert!(are_enough(9, 72 * MIB, 8));
        // Each of many threads has one.
        assert!(!are_enough(32, 256 * MIB, 32));
    }
}
