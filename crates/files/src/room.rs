//! The memory that what a file claims may take, before it is taken.

use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use hypostyle_types::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Parts of the memory limit, of which one is for what is decompressed at once.
const PARTS: usize = 4;

/// The bytes where memory has no limit.
const BYTES_MAX: usize = 1 << 30;

/// The bytes that a part of a file may become at once.
#[derive(Clone, Copy, Debug)]
pub struct Room(pub u64);

impl Room {
    /// Returns what a memory pool has room for.
    pub fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        let bytes = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => (bytes / PARTS).min(BYTES_MAX),
            _ => BYTES_MAX,
        };
        Self(bytes as u64)
    }

    /// Returns all that a memory pool may give, for what is in memory together.
    pub fn whole(pool: &Arc<dyn MemoryPool>) -> Self {
        match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Self(bytes as u64),
            _ => Self(u64::MAX),
        }
    }

    /// Refuses a part of a file that would take more.
    ///
    /// # Errors
    /// `OutOfMemory`, with the file and the part.
    pub fn check(self, path: &Path, part: &str, bytes: u64) -> Result<()> {
        if bytes <= self.0 {
            return Ok(());
        }
        let (path, room) = (path.display(), self.0);
        let message = format!(
            "\"{path}\" has a {part} that becomes {bytes} bytes, and one may become {room} with this memory_limit"
        );
        Err(Error::new(ErrorKind::OutOfMemory, message))
    }
}
