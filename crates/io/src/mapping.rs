//! Memory-mapped files, as owned bytes.

use memmap2::{Mmap, MmapMut, MmapOptions};
use std::fs::File;
use std::io;

/// The first bytes of a file, mapped; unmapped on drop. The pages stay valid after the file is
/// closed or unlinked. Writes to a private mapping do not change the file.
#[derive(Debug)]
pub struct Mapping(Kind);

#[derive(Debug)]
enum Kind {
    /// mmap refuses a length of zero.
    Empty,
    ReadOnly(Mmap),
    Private(MmapMut),
}

impl Mapping {
    pub(crate) fn read_only(file: &File, length: usize) -> io::Result<Self> {
        if length == 0 {
            return Ok(Self(Kind::Empty));
        }
        // SAFETY: the bytes of a mapping must not change under a `&[u8]`. Hypostyle writes only
        // past the committed length and never truncates a file below what is read of it; a database
        // directory is Hypostyle's own, and altering its files from outside is excluded by
        // format.md §1.
        let map = unsafe { MmapOptions::new().len(length).map(file) }?;
        Ok(Self(Kind::ReadOnly(map)))
    }

    pub(crate) fn private(file: &File, length: usize) -> io::Result<Self> {
        if length == 0 {
            return Ok(Self(Kind::Empty));
        }
        // SAFETY: as above; the mapping is MAP_PRIVATE, so writing to it reaches no file.
        let map = unsafe { MmapOptions::new().len(length).no_reserve_swap().map_copy(file) }?;
        Ok(Self(Kind::Private(map)))
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Kind::Empty => &[],
            Kind::ReadOnly(map) => map,
            Kind::Private(map) => map,
        }
    }
}
