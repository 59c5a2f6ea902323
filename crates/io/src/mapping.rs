//! Memory-mapped files, as owned bytes.

use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

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

    /// Maps the first bytes of a file copy-on-write at an address of the caller's, who unmaps them.
    ///
    /// # Safety
    /// The address begins a page, and as many pages from there on as the bytes take are the caller's:
    /// nothing is read or written there that is there now.
    pub(crate) unsafe fn private_at(file: &File, length: usize, address: *mut c_void) -> io::Result<()> {
        if length > 0 {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the caller promises this; the file's bytes do not change, as above.
            unsafe { rustix::mm::mmap(address, length, access, flags, file, 0) }?;
        }
        Ok(())
    }

    /// Maps the first bytes of a file, and puts others behind them. Whole pages are those of the
    /// file; only what comes behind them takes memory. A private mapping is copy-on-write.
    pub(crate) fn extended(
        file: &File,
        length: usize,
        behind: &[&[u8]],
        is_private: bool,
    ) -> io::Result<Self> {
        let total = behind.iter().map(|bytes| bytes.len()).sum::<usize>() + length;
        if total == 0 {
            return Ok(Self(Kind::Empty));
        }
        let mut map = MmapOptions::new().len(total).map_anon()?;
        let whole = length - length % rustix::param::page_size();
        if whole > 0 {
            let start = map.as_mut_ptr().cast();
            let (protection, flags) = match is_private {
                true => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE),
                false => (ProtFlags::READ, MapFlags::SHARED),
            };
            // SAFETY: the pages are the first ones of `map`, which nobody has read, and go with it.
            // Their bytes do not change, as above, and writing to private ones reaches no file.
            unsafe { rustix::mm::mmap(start, whole, protection, flags | MapFlags::FIXED, file, 0) }?;
        }
        file.read_exact_at(&mut map[whole..length], whole as u64)?;
        let mut start = length;
        for bytes in behind {
            map[start..start + bytes.len()].copy_from_slice(bytes);
            start += bytes.len();
        }
        Ok(Self(match is_private {
            true => Kind::Private(map),
            false => Kind::ReadOnly(map.make_read_only()?),
        }))
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
