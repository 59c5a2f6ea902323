//! Whether a directory is the one that this machine has written, or came from elsewhere (format.md
//! §9).
//!
//! What a machine has written itself is believed until a thread has looked (docs/decisions/0011);
//! what was copied, unpacked or received is looked at before anything of it is handed out.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::names::{ORIGIN, SUPERBLOCK};
use hypostyle_format::Superblock;
use hypostyle_io::{Store, boot_id, machine_id};
use hypostyle_types::Result;
use ring::hmac;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// What the bytes of the file begin with.
const MAGIC: &[u8; 8] = b"HYORIGIN";

/// The content that the file has where the directory is this machine's own: a digest of what tells
/// the directory and the superblock from copies of them, keyed by a number that nobody outside the
/// machine knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(Vec<u8>);

impl Origin {
    /// `None` of a database in memory, and where it cannot be told.
    pub fn of(store: &Store) -> Option<Self> {
        let path = store.path()?;
        let superblock = store.open(SUPERBLOCK).ok()?.read_all().ok()?;
        Superblock::decode(&superblock).ok()?;
        let places = [path.metadata().ok()?, path.join(SUPERBLOCK).symlink_metadata().ok()?];
        Some(Self::from(machine_id().as_deref(), &places.map(|place| identity(&place)), &superblock))
    }

    fn from(machine: Option<&str>, places: &[[u64; 3]], superblock: &[u8]) -> Self {
        // A machine without a number knows its own directories until it is started again.
        let boot = boot_id();
        let key = hmac::Key::new(hmac::HMAC_SHA256, machine.map_or(boot.as_slice(), str::as_bytes));
        let mut context = hmac::Context::with_key(&key);
        context.update(b"Hypostyle: the origin of a directory");
        places.iter().flatten().for_each(|number| context.update(&number.to_le_bytes()));
        context.update(superblock);
        Self([MAGIC.as_slice(), context.sign().as_ref()].concat())
    }

    /// Whether the directory says so.
    pub fn is_recorded(&self, store: &Store) -> bool {
        let mut found = vec![0; self.0.len() + 1];
        let read = store.open(ORIGIN).and_then(|file| file.read_up_to(0, &mut found));
        read.is_ok_and(|length| found[..length] == self.0)
    }

    /// # Errors
    /// `ReadOnly`, `DiskFull`, `Io`.
    pub fn record(&self, store: &Store) -> Result<()> {
        store.replace(ORIGIN, &self.0)
    }
}

/// What a copy of a file or directory has otherwise: its number in the file system, and when it was
/// made.
fn identity(metadata: &Metadata) -> [u64; 3] {
    let made = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let made = made.unwrap_or_default();
    [metadata.ino(), made.as_secs(), made.subsec_nanos().into()]
}

/// Remembers that a database which was just made is this machine's own. Where that cannot be done,
/// it is looked at like one that came from elsewhere.
pub(crate) fn record_new(store: &Store) {
    if let Some(origin) = Origin::of(store)
        && let Err(error) = origin.record(store)
    {
        tracing::warn!(%error, "the new database will be taken for one from elsewhere");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_the_machine_the_places_and_the_superblock() {
        let machine = Some("0123456789abcdef0123456789abcdef");
        let places = [[1, 2, 3], [4, 5, 6]];
        let own = Origin::from(machine, &places, b"one");
        assert_eq!(own, Origin::from(machine, &places, b"one"));
        assert_eq!(own.0.len(), 40);
        let others = [
            Origin::from(None, &places, b"one"),
            Origin::from(Some("0123456789abcdef0123456789abcdee"), &places, b"one"),
            Origin::from(machine, &[[1, 2, 4], [4, 5, 6]], b"one"),
            Origin::from(machine, &[[1, 2, 3], [7, 5, 6]], b"one"),
            Origin::from(machine, &places, b"two"),
        ];
        assert!(others.iter().all(|other| *other != own));
    }
}
