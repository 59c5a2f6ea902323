//! One file of a store: positioned reads and writes, sync, and mappings.

use crate::Mapping;
use crate::directory::error_of;
use crate::observer::{Observed, Operation, tell};
use crate::pool::Pooled;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, FallocateFlags, MemfdFlags, Mode, SealFlags, StatxFlags, statx};
use std::ffi::c_void;
use std::io::{self, IoSlice, Write};
use std::ops::{Deref, Range};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// The bytes that are read and written at a time if the kernel does not copy.
const COPY_BYTES: u64 = 256 << 10;

/// An open file. Clones share the descriptor; no operation uses a cursor, so threads may share it.
#[derive(Clone, Debug)]
pub struct File {
    inner: Inner,
    name: Arc<str>,
    observer: Observed,
}

#[derive(Clone, Debug)]
enum Inner {
    Open(Arc<std::fs::File>),
    Pooled(Arc<Pooled>),
}

/// A descriptor that is held during one operation.
enum Descriptor<'a> {
    Kept(&'a std::fs::File),
    Pooled(Arc<std::fs::File>),
}

impl Deref for Descriptor<'_> {
    type Target = std::fs::File;

    fn deref(&self) -> &std::fs::File {
        match self {
            Self::Kept(file) => file,
            Self::Pooled(file) => file,
        }
    }
}

impl File {
    pub(crate) fn new(inner: std::fs::File, name: &str, observer: &Observed) -> Self {
        Self { inner: Inner::Open(Arc::new(inner)), name: name.into(), observer: observer.clone() }
    }

    pub(crate) fn pooled(inner: Arc<Pooled>, name: &str, observer: &Observed) -> Self {
        Self { inner: Inner::Pooled(inner), name: name.into(), observer: observer.clone() }
    }

    fn descriptor(&self) -> io::Result<Descriptor<'_>> {
        Ok(match &self.inner {
            Inner::Open(file) => Descriptor::Kept(file),
            Inner::Pooled(file) => Descriptor::Pooled(file.open()?),
        })
    }

    /// Wraps a descriptor that another process has opened and passed.
    pub fn from_descriptor(descriptor: OwnedFd, name: &str) -> Self {
        Self::new(descriptor.into(), name, &None)
    }

    /// Returns a descriptor of the same file, through which others can only read.
    pub fn read_only_descriptor(&self) -> Result<OwnedFd> {
        let open = || {
            let own = self.descriptor()?;
            std::fs::File::open(format!("/proc/self/fd/{}", own.as_raw_fd()))
        };
        open().map(Into::into).map_err(|error| self.error("cannot open for others", &error))
    }

    /// Returns the path on disk, or the name within a database in memory, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current length in bytes.
    pub fn length(&self) -> Result<u64> {
        match self.descriptor().and_then(|file| file.metadata()) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => Err(self.error("cannot read the length of", &error)),
        }
    }

    /// Says whether the file has no name on disk any more. A file of a database in memory never had
    /// one.
    pub fn is_removed(&self) -> Result<bool> {
        // Only this field is asked for. If a program asks for times of a file, Linux updates them
        // at the next write, and writes them to disk with every sync, also for neighbouring files.
        let links =
            |file: Descriptor<'_>| Ok(statx(&*file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK)?.stx_nlink);
        match self.descriptor().and_then(links) {
            Ok(links) => Ok(links == 0),
            Err(error) => Err(self.error("cannot read the links of", &error)),
        }
    }

    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        tell(&self.observer, Operation::Write { file: &self.name, offset, bytes })
            .and_then(|()| self.descriptor()?.write_all_at(bytes, offset))
            .map_err(|error| self.error("cannot write to", &error))
    }

    /// Fills `bytes` from `offset`. A file that ends before is an error.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self.descriptor().and_then(|file| file.read_exact_at(bytes, offset));
        read.map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                self.truncated(offset + bytes.len() as u64)
            } else {
                self.error("cannot read", &error)
            }
        })
    }

    /// Reads from `offset` to the end of the file, or until `bytes` is full. Returns the number of
    /// bytes.
    pub fn read_up_to(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let read = self.descriptor().and_then(|file| file.read_at(bytes, offset));
        read.map_err(|error| self.error("cannot read", &error))
    }

    /// # Errors
    /// `OutOfMemory`, also for a file that claims to be larger than any memory; and the errors of
    /// [`Self::read_at`].
    pub fn read_all(&self) -> Result<Vec<u8>> {
        self.read(0..self.length()?)
    }

    /// Reads a range whose ends may come from a file. Neither false ends nor a file that is larger
    /// than the memory end the process.
    ///
    /// # Errors
    /// `Corrupt` when the file ends before the range, and `OutOfMemory` when there is no memory for
    /// it.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if self.length()? < range.end {
            return Err(self.truncated(range.end));
        }
        let length = range.end.saturating_sub(range.start) as usize;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| {
            let message = format!("there is no memory for {length} bytes of \"{}\"", self.name);
            Error::new(ErrorKind::OutOfMemory, message)
        })?;
        bytes.resize(length, 0);
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    fn truncated(&self, end: u64) -> Error {
        Error::corrupt(format!("\"{}\" is truncated: it ends before byte {end}", self.name))
    }

    /// Copies a range of another file to the same offset of this one. The kernel copies it if it
    /// can. It then shares the blocks of the two files if their file system can
    /// (docs/decisions/0008).
    pub fn copy_at(&self, from: &Self, offset: u64, length: u64) -> Result<()> {
        let operation = Operation::Copy { from: &from.name, file: &self.name, offset, length };
        tell(&self.observer, operation).map_err(|error| self.error("cannot write to", &error))?;
        let end = offset + length;
        let copied =
            self.copy_by_kernel(from, offset, end).map_err(|error| self.error("cannot write to", &error))?;
        self.copy_by_hand(from, copied, end)
    }

    /// Returns the offset up to which the kernel has copied. That is the end, unless the kernel
    /// cannot copy between these two files. The caller meets other errors again when it continues.
    fn copy_by_kernel(&self, from: &Self, offset: u64, end: u64) -> io::Result<u64> {
        let (source, copy) = (from.descriptor()?, self.descriptor()?);
        let (mut at_from, mut at) = (offset, offset);
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(&*source, Some(&mut at_from), &*copy, Some(&mut at), left) {
                Ok(1..) => {}
                _ => break,
            }
        }
        Ok(at)
    }

    fn copy_by_hand(&self, from: &Self, mut at: u64, end: u64) -> Result<()> {
        let mut buffer = vec![0; (end - at).min(COPY_BYTES) as usize];
        while at < end {
            let piece = &mut buffer[..(end - at).min(COPY_BYTES) as usize];
            from.read_at(at, piece)?;
            self.descriptor()
                .and_then(|file| file.write_all_at(piece, at))
                .map_err(|error| self.error("cannot write to", &error))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        tell(&self.observer, Operation::Sync { file: &self.name })
            .and_then(|()| self.descriptor()?.sync_data())
            .map_err(|error| self.error("cannot sync", &error))
    }

    /// Returns the bytes that the file takes on disk or in memory, without holes.
    pub fn allocated(&self) -> Result<u64> {
        let metadata = self.descriptor().and_then(|file| file.metadata());
        match metadata {
            Ok(metadata) => Ok(metadata.blocks() * 512),
            Err(error) => Err(self.error("cannot read the length of", &error)),
        }
    }

    /// Truncates the file, but never below a length that anybody may have mapped, because the
    /// mapped page would be gone. A memory file that is sealed against truncation gets a hole
    /// instead, which frees the memory.
    pub fn truncate(&self, length: u64) -> Result<()> {
        tell(&self.observer, Operation::SetLength { file: &self.name, length })
            .and_then(|()| self.cut(length))
            .map_err(|error| self.error("cannot truncate", &error))
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        let file = self.descriptor()?;
        match rustix::fs::fcntl_get_seals(&*file) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => cut_out_from(&file, length),
            _ => file.set_len(length),
        }
    }

    /// Maps the first `length` bytes for reading.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map(&self, length: u64) -> Result<Mapping> {
        self.check_length(length)?;
        let map = |file: Descriptor<'_>| Mapping::read_only(&file, length as usize);
        self.descriptor().and_then(map).map_err(|error| self.error("cannot map", &error))
    }

    /// Maps the first `length` bytes copy-on-write: the caller may write, and the file never
    /// changes.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map_private(&self, length: u64) -> Result<Mapping> {
        self.check_length(length)?;
        let map = |file: Descriptor<'_>| Mapping::private(&file, length as usize);
        self.descriptor().and_then(map).map_err(|error| self.error("cannot map", &error))
    }

    /// Maps the first `length` bytes as [`Self::map_private`] does, at an address of the caller's, who
    /// unmaps them. What is behind them on their last page may be anything.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that; `InvalidInput` for an address within a page.
    ///
    /// # Safety
    /// As many pages from the address on as the bytes take are the caller's: nothing is read or written
    /// there that is there now.
    pub unsafe fn map_private_at(&self, length: u64, address: *mut c_void) -> Result<()> {
        if address.is_null() || !address.addr().is_multiple_of(rustix::param::page_size()) {
            return Err(Error::invalid_input(format!(
                "a column is not mapped at {address:?}: no page begins there"
            )));
        }
        self.check_length(length)?;
        // SAFETY: the caller promises this, and a page begins at the address.
        let map = |file: Descriptor<'_>| unsafe { Mapping::private_at(&file, length as usize, address) };
        self.descriptor().and_then(map).map_err(|error| self.error("cannot map", &error))
    }

    /// Maps the first `length` bytes for reading, and other bytes behind them, which take memory of
    /// their own.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map_with(&self, length: u64, behind: &[&[u8]]) -> Result<Mapping> {
        self.extended(length, behind, false)
    }

    /// Maps as [`Self::map_with`] does, copy-on-write: the caller may write, and the file never
    /// changes.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map_private_with(&self, length: u64, behind: &[&[u8]]) -> Result<Mapping> {
        self.extended(length, behind, true)
    }

    fn extended(&self, length: u64, behind: &[&[u8]], is_private: bool) -> Result<Mapping> {
        self.check_length(length)?;
        let map = |file: Descriptor<'_>| Mapping::extended(&file, length as usize, behind, is_private);
        self.descriptor().and_then(map).map_err(|error| self.error("cannot map", &error))
    }

    /// Creates a memory file for a database in memory. A process that gets a descriptor of it can
    /// neither truncate it below others' mappings nor seal it against writing.
    pub(crate) fn in_memory() -> std::io::Result<std::fs::File> {
        let file = rustix::fs::memfd_create("hypostyle", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // Only a process of the same user may open it again for writing.
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(file.into())
    }

    /// Creates a memory file, for [`Self::sealed`].
    ///
    /// # Errors
    /// `Io` when this process may open no more files.
    pub fn unsealed() -> Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        rustix::fs::memfd_create("hypostyle result", flags)
            .map_err(|errno| Error::from_io(&errno.into(), "cannot make a memory file"))
    }

    /// Writes the pieces into a memory file, one after the other, and seals it against all changes.
    ///
    /// # Errors
    /// `OutOfMemory` or `DiskFull` when there is no room for them.
    pub fn sealed(file: OwnedFd, pieces: &[&[u8]]) -> Result<OwnedFd> {
        let fill = || -> io::Result<OwnedFd> {
            let mut file = std::fs::File::from(file);
            let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut left = slices.as_mut_slice();
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                let written = file.write_vectored(left)?;
                IoSlice::advance_slices(&mut left, written);
            }
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&file, seals)?;
            Ok(file.into())
        };
        fill().map_err(|error| Error::from_io(&error, "cannot fill a memory file"))
    }

    /// # Errors
    /// `Corrupt` when the file is shorter than that. This can happen if another program truncates
    /// it.
    pub fn check_length(&self, wanted: u64) -> Result<()> {
        let found = self.length()?;
        if found < wanted {
            return Err(Error::corrupt(format!(
                "\"{}\" is truncated: {found} bytes where the catalog promises {wanted}",
                self.name
            )));
        }
        Ok(())
    }

    fn error(&self, doing: &str, error: &io::Error) -> Error {
        error_of(error, format_args!("{doing} \"{}\"", self.name))
    }
}

/// Frees the memory of the bytes behind an offset.
fn cut_out_from(file: &std::fs::File, start: u64) -> io::Result<()> {
    let rest = file.metadata()?.len().saturating_sub(start);
    if rest > 0 {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, start, rest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use hypostyle_types::ErrorKind;

    #[test]
    fn a_range_is_copied_by_the_kernel_by_hand_and_from_memory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Store::directory(directory.path(), false, None).unwrap();
        let bytes: Vec<u8> =
            (0..700_001_u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
        for source in [&disk, &Store::memory()] {
            let from = source.create("from").unwrap();
            from.write_at(0, &bytes).unwrap();
            let copy = disk.create("copy").unwrap();
            copy.copy_at(&from, 0, 4096).unwrap();
            copy.copy_at(&from, 4096, 600_000).unwrap();
            copy.copy_by_hand(&from, 604_096, 700_001).unwrap();
            assert!(copy.read_all().unwrap() == bytes);
            // The bytes behind the range stay.
            from.write_at(0, &[0; 10]).unwrap();
            copy.copy_at(&from, 0, 10).unwrap();
            assert!(copy.read_all().unwrap() == from.read_all().unwrap());
            let error = copy.copy_at(&from, 700_000, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains("truncated"), "{error}");
        }
    }

    #[test]
    fn bytes_lie_behind_those_of_a_mapped_file() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Store::directory(directory.path(), false, None).unwrap();
        let bytes: Vec<u8> = (0..20_000_u32).map(|number| (number >> 3) as u8).collect();
        for store in [&disk, &Store::memory()] {
            let file = store.create("a").unwrap();
            file.write_at(0, &bytes).unwrap();
            for length in [0, 1, 4095, 4096, 4097, 8192, 19_999, 20_000] {
                for behind in [&[][..], &[&b"x"[..]], &[&bytes[..5000], b"", b"yz"]] {
                    for mapping in [
                        file.map_with(length as u64, behind).unwrap(),
                        file.map_private_with(length as u64, behind).unwrap(),
                    ] {
                        assert!(*mapping.as_ref() == [&bytes[..length], &behind.concat()].concat());
                    }
                }
            }
            // What is written behind the length later does not show.
            let mapping = file.map_with(10_000, &[b"behind"]).unwrap();
            file.write_at(10_000, b"others").unwrap();
            assert_eq!(&mapping.as_ref()[10_000..], b"behind");
            assert_eq!(file.map_with(20_001, &[]).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn nobody_cuts_a_memory_file_under_its_readers() {
        let file = Store::memory().create("a").unwrap();
        file.write_at(0, &[7; 100_000]).unwrap();
        let mapping = file.map(100_000).unwrap();
        let others: std::fs::File = file.read_only_descriptor().unwrap().into();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&others));
        // A process of the same user may open it for writing again.
        let again = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        assert!(again.set_len(0).is_err());
        assert!(rustix::fs::fcntl_add_seals(&again, rustix::fs::SealFlags::WRITE).is_err());
        // A rollback frees the memory and keeps the length.
        let before = file.allocated().unwrap();
        file.truncate(50_000).unwrap();
        assert_eq!(file.length().unwrap(), 100_000);
        assert!(file.allocated().unwrap() < before);
        assert_eq!(mapping.as_ref()[..50_000], [7; 50_000]);
        file.write_at(50_000, &[8; 60_000]).unwrap();
        assert_eq!(file.length().unwrap(), 110_000);
    }
}
