//! The file `HYPOSTYLE` (format.md §2).

use crate::{array_at, u32_at, u64_at};
use hypostyle_types::{Error, ErrorKind, Result};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

pub const FORMAT_VERSION: u32 = 1;
pub const SUPERBLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"HYPOSTYL";
const VERSION: usize = MAGIC.len();
const INCOMPATIBLE_FLAGS: usize = VERSION + 4 + 4;
const READ_COMPATIBLE_FLAGS: usize = INCOMPATIBLE_FLAGS + 8;
const DATABASE_ID: usize = READ_COMPATIBLE_FLAGS + 8;
const CHECKSUM: usize = SUPERBLOCK_BYTES - 8;
const _: () = assert!(DATABASE_ID == 32);

/// The fields that identify a directory as a database that this release can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub database_id: Uuid,
    /// Says that an unknown read-compatible feature flag is set: the database may be read but not
    /// written.
    pub read_only: bool,
}

impl Superblock {
    pub fn new(database_id: Uuid) -> Self {
        Self { database_id, read_only: false }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[..VERSION].copy_from_slice(&MAGIC);
        bytes[VERSION..VERSION + 4].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[DATABASE_ID..DATABASE_ID + 16].copy_from_slice(self.database_id.as_bytes());
        let checksum = xxh3_64(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes.to_vec()
    }

    /// # Errors
    /// `InvalidInput` when the file is not ours, `Version` when a newer release wrote it, `Corrupt`
    /// when it is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::invalid_input(
                "not a Hypostyle database: the file HYPOSTYLE has a foreign start",
            ));
        }
        let bytes: &[u8; SUPERBLOCK_BYTES] = bytes.first_chunk().ok_or_else(|| {
            Error::corrupt(format!(
                "the file HYPOSTYLE is truncated: {} of {SUPERBLOCK_BYTES} bytes",
                bytes.len()
            ))
        })?;
        let version = u32_at(bytes, VERSION);
        let incompatible = u64_at(bytes, INCOMPATIBLE_FLAGS);
        let intact = xxh3_64(&bytes[..CHECKSUM]) == u64_at(bytes, CHECKSUM);
        if version > FORMAT_VERSION || (intact && incompatible != 0) {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "the database has format version {version} (features {incompatible:#x}); this release reads version {FORMAT_VERSION}: use a newer Hypostyle"
                ),
            ));
        }
        if version == 0 || !intact {
            return Err(Error::corrupt("the file HYPOSTYLE is damaged: its checksum does not match"));
        }
        Ok(Self {
            database_id: Uuid::from_bytes(array_at(bytes, DATABASE_ID)),
            read_only: u64_at(bytes, READ_COMPATIBLE_FLAGS) != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = xxh3_64(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn decode_tells_foreign_newer_and_damaged_apart() {
        let superblock = Superblock::new(Uuid::from_u128(7));
        let bytes = superblock.encode();
        assert_eq!(Superblock::decode(&bytes).unwrap(), superblock);

        let kind = |bytes: &[u8]| Superblock::decode(bytes).unwrap_err().kind();
        assert_eq!(kind(b""), ErrorKind::InvalidInput);
        assert_eq!(kind(b"SQLite format 3\0"), ErrorKind::InvalidInput);
        assert_eq!(kind(&bytes[..100]), ErrorKind::Corrupt);
        for offset in [9, 40, 1000, SUPERBLOCK_BYTES - 1] {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 1;
            let expected = if offset == 9 { ErrorKind::Version } else { ErrorKind::Corrupt };
            assert_eq!(kind(&damaged), expected, "bit flipped at {offset}");
        }
        let mut newer = bytes.clone();
        newer[VERSION] = 2;
        assert_eq!(kind(&newer), ErrorKind::Version);
        let mut featured = bytes.clone();
        featured[INCOMPATIBLE_FLAGS] = 1;
        assert_eq!(kind(&sealed(featured)), ErrorKind::Version);
        let mut readable = bytes;
        readable[READ_COMPATIBLE_FLAGS] = 1;
        assert!(Superblock::decode(&sealed(readable)).unwrap().read_only);
    }
}
