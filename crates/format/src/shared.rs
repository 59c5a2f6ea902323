//! The file `shared` (format.md §8).

use crate::{array_at, u32_at, u64_at};
use hypostyle_types::Version;
use xxhash_rust::xxh3::xxh3_64;

pub const SHARED_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"HYSH";
const FLAGS: usize = MAGIC.len();
const CHECKPOINT: usize = FLAGS + 4;
const WRITTEN: usize = CHECKPOINT + 8;
const PUBLISHED: usize = WRITTEN + 8;
const BOOT: usize = PUBLISHED + 8;
const SYNCED: usize = BOOT + 16;
const CHECKSUM: usize = SHARED_BYTES - 8;
const _: () = assert!(BOOT == 32 && SYNCED + 8 == CHECKSUM);

const SYNC_FAILED: u32 = 1;
const COMMIT_WAITS: u32 = 2;

/// The state that the processes share that have a database open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The checkpoint of the log in use.
    pub checkpoint: Version,
    /// Bytes of whole frames in the log.
    pub written: u64,
    /// The bytes of the log that readers have to see.
    pub published: u64,
    /// The bytes of the log that are known to be durable; never more than `published`.
    pub synced: u64,
    pub sync_failed: bool,
    /// Says that a commit which is written but not published waits for a sync.
    pub commit_waits: bool,
    /// The boot id of the machine. After a restart the file has no meaning.
    pub boot: [u8; 16],
}

impl Shared {
    pub fn encode(&self) -> [u8; SHARED_BYTES] {
        let mut bytes = [0; SHARED_BYTES];
        bytes[..FLAGS].copy_from_slice(&MAGIC);
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(self.sync_failed, SYNC_FAILED) | flag(self.commit_waits, COMMIT_WAITS);
        bytes[FLAGS..CHECKPOINT].copy_from_slice(&flags.to_le_bytes());
        bytes[CHECKPOINT..WRITTEN].copy_from_slice(&self.checkpoint.0.to_le_bytes());
        bytes[WRITTEN..PUBLISHED].copy_from_slice(&self.written.to_le_bytes());
        bytes[PUBLISHED..BOOT].copy_from_slice(&self.published.to_le_bytes());
        bytes[BOOT..SYNCED].copy_from_slice(&self.boot);
        bytes[SYNCED..CHECKSUM].copy_from_slice(&self.synced.to_le_bytes());
        let checksum = xxh3_64(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the file. Returns `None` when the bytes are not whole: another process is writing
    /// them, or never finished.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SHARED_BYTES] = bytes.try_into().ok()?;
        let whole = bytes.starts_with(&MAGIC) && xxh3_64(&bytes[..CHECKSUM]) == u64_at(bytes, CHECKSUM);
        let shared = whole.then(|| Self {
            checkpoint: Version(u64_at(bytes, CHECKPOINT)),
            written: u64_at(bytes, WRITTEN),
            published: u64_at(bytes, PUBLISHED),
            synced: u64_at(bytes, SYNCED),
            sync_failed: u32_at(bytes, FLAGS) & SYNC_FAILED != 0,
            commit_waits: u32_at(bytes, FLAGS) & COMMIT_WAITS != 0,
            boot: array_at(bytes, BOOT),
        })?;
        (shared.synced <= shared.published && shared.published <= shared.written).then_some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_comes_back_and_a_torn_one_does_not(checkpoint: u64, published in 0..u64::MAX / 2, ahead in 0..1000_u64,
            sync_failed: bool, commit_waits: bool, boot: [u8; 16], bit in 0..SHARED_BYTES * 8) {
            let checkpoint = Version(checkpoint);
            let (written, synced) = (published + ahead, published / 2);
            let shared = Shared { checkpoint, written, published, synced, sync_failed, commit_waits, boot };
            let mut bytes = shared.encode();
            prop_assert_eq!(Shared::decode(&bytes), Some(shared));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Shared::decode(&bytes), None);
        }
    }
}
