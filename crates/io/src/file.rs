//! One file of a store: positioned reads and writes, sync, and mappings.

use crate::Mapping;
use crate::observer::{Observed, Operation, tell};
use hypostyle_types::{Error, Result};
use rustix::fs::{AtFlags, FallocateFlags, MemfdFlags, Mode, SealFlags, StatxFlags, statx};
use std::io::{IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// Bytes that are read and written at a time, where the kernel does not copy.
const COPY_BYTES: u64 = 256 << 10;

/// An open file. Clones share the descriptor; no operation uses a cursor, so threads may share it.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<std::fs::File>,
    name: Arc<str>,
    observer: Observed,
}

impl File {
    pub(crate) fn new(inner: std::fs::File, name: &str, observer: &Observed) -> Self {
        Self { inner: Arc::new(inner), name: name.into(), observer: observer.clone() }
    }

    /// A file that somebody else has opened and passed on.
    pub fn from_descriptor(descriptor: OwnedFd, name: &str) -> Self {
        Self::new(descriptor.into(), name, &None)
    }

    /// A descriptor of the same file for others, who can only read through it.
    pub fn read_only_descriptor(&self) -> Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.inner.as_raw_fd());
        match std::fs::File::open(path) {
            Ok(file) => Ok(file.into()),
            Err(error) => Err(self.error("cannot open for others", &error)),
        }
    }

    /// The path on disk, or the name within a database in memory; for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length in bytes now.
    pub fn length(&self) -> Result<u64> {
        match self.inner.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => Err(self.error("cannot read the length of", &error)),
        }
    }

    /// Whether the file has no name on disk any more. A file of a database in memory never had one.
    pub fn is_removed(&self) -> Result<bool> {
        // Nothing else is asked for: Linux writes anew, with the next write, and makes durable with every sync, what
        // times of a file somebody has asked for, those of its neighbours on disk, too.
        match statx(&self.inner, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            Ok(answer) => Ok(answer.stx_nlink == 0),
            Err(error) => Err(self.error("cannot read the links of", &error.into())),
        }
    }

    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        tell(&self.observer, Operation::Write { file: &self.name, offset, bytes })
            .and_then(|()| self.inner.write_all_at(bytes, offset))
            .map_err(|error| self.error("cannot write to", &error))
    }

    /// Fills `bytes` from `offset`; a file that ends before is an error.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact_at(bytes, offset).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                let end = offset + bytes.len() as u64;
                Error::corrupt(format!("\"{}\" is truncated: it ends before byte {end}", self.name))
            } else {
                self.error("cannot read", &error)
            }
        })
    }

    /// Reads what there is from `offset`, at most as much as `bytes` takes; how much that was.
    pub fn read_up_to(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.inner.read_at(bytes, offset).map_err(|error| self.error("cannot read", &error))
    }

    pub fn read_all(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.length()? as usize];
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies a range of another file to the same place of this one. The kernel does it where it can, and then
    /// shares the blocks of the two files where their file system can (docs/decisions/0008).
    pub fn copy_at(&self, from: &Self, offset: u64, length: u64) -> Result<()> {
        let operation = Operation::Copy { from: &from.name, file: &self.name, offset, length };
        tell(&self.observer, operation).map_err(|error| self.error("cannot write to", &error))?;
        let end = offset + length;
        let copied = self.copy_by_kernel(from, offset, end);
        self.copy_by_hand(from, copied, end)
    }

    /// Up to where the kernel has copied: to the end, unless it cannot between these two files. Other errors are
    /// met again by who goes on.
    fn copy_by_kernel(&self, from: &Self, offset: u64, end: u64) -> u64 {
        let (mut at_from, mut at) = (offset, offset);
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let (source, copy) = (&*from.inner, &*self.inner);
            match rustix::fs::copy_file_range(source, Some(&mut at_from), copy, Some(&mut at), left) {
                Ok(1..) => {}
                _ => break,
            }
        }
        at
    }

    fn copy_by_hand(&self, from: &Self, mut at: u64, end: u64) -> Result<()> {
        let mut buffer = vec![0; (end - at).min(COPY_BYTES) as usize];
        while at < end {
            let piece = &mut buffer[..(end - at).min(COPY_BYTES) as usize];
            from.read_at(at, piece)?;
            self.inner.write_all_at(piece, at).map_err(|error| self.error("cannot write to", &error))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        tell(&self.observer, Operation::Sync { file: &self.name })
            .and_then(|()| self.inner.sync_data())
            .map_err(|error| self.error("cannot sync", &error))
    }

    /// Bytes of the disk, or of memory, that the file takes: not those of holes.
    pub fn allocated(&self) -> Result<u64> {
        match self.inner.metadata() {
            Ok(metadata) => Ok(metadata.blocks() * 512),
            Err(error) => Err(self.error("cannot read the length of", &error)),
        }
    }

    /// Cuts the file, but never below what anybody may have mapped: its page would be gone. A
    /// memory file that is sealed against that gets a hole instead, which gives back the memory.
    pub fn truncate(&self, length: u64) -> Result<()> {
        tell(&self.observer, Operation::SetLength { file: &self.name, length })
            .and_then(|()| match rustix::fs::fcntl_get_seals(&self.inner) {
                Ok(seals) if seals.contains(SealFlags::SHRINK) => self.cut_out_from(length),
                _ => self.inner.set_len(length),
            })
            .map_err(|error| self.error("cannot truncate", &error))
    }

    fn cut_out_from(&self, start: u64) -> std::io::Result<()> {
        let rest = self.inner.metadata()?.len().saturating_sub(start);
        if rest > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.inner, flags, start, rest)?;
        }
        Ok(())
    }

    /// Maps the first `length` bytes for reading.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map(&self, length: u64) -> Result<Mapping> {
        self.check_length(length)?;
        Mapping::read_only(&self.inner, length as usize).map_err(|error| self.error("cannot map", &error))
    }

    /// Maps the first `length` bytes copy-on-write: the owner may write, the file never changes.
    ///
    /// # Errors
    /// `Corrupt` when the file is shorter than that.
    pub fn map_private(&self, length: u64) -> Result<Mapping> {
        self.check_length(length)?;
        Mapping::private(&self.inner, length as usize).map_err(|error| self.error("cannot map", &error))
    }

    /// A new memory file for a database in memory. Nobody to whom a descriptor of it is passed can
    /// cut it under who has mapped it, nor seal it against being written to.
    pub(crate) fn in_memory() -> std::io::Result<std::fs::File> {
        let file = rustix::fs::memfd_create("hypostyle", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // Only its own user may open it again for writing.
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(file.into())
    }

    /// A new memory file, for [`Self::sealed`].
    ///
    /// # Errors
    /// `Io`: this process may open no more files.
    pub fn unsealed() -> Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        rustix::fs::memfd_create("hypostyle result", flags)
            .map_err(|errno| Error::from_io(&errno.into(), "cannot make a memory file"))
    }

    /// A memory file with these bytes, one piece behind the other, which nobody can change any more.
    ///
    /// # Errors
    /// `OutOfMemory` or `DiskFull`: there is no room for them.
    pub fn sealed(file: OwnedFd, pieces: &[&[u8]]) -> Result<OwnedFd> {
        let fill = || -> std::io::Result<OwnedFd> {
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
    /// `Corrupt` when the file is shorter than that, as it may be once somebody has cut it from
    /// outside.
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

    fn error(&self, doing: &str, error: &std::io::Error) -> Error {
        Error::from_io(error, format_args!("{doing} \"{}\"", self.name))
    }
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use hypostyle_types::ErrorKind;

    #[test]
    fn a_range_is_copied_by_the_kernel_by_hand_and_from_memory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Store::directory(directory.path(), false);
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
            // What it has behind the range stays.
            from.write_at(0, &[0; 10]).unwrap();
            copy.copy_at(&from, 0, 10).unwrap();
            assert!(copy.read_all().unwrap() == from.read_all().unwrap());
            let error = copy.copy_at(&from, 700_000, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains("truncated"), "{error}");
        }
    }

    #[test]
    fn nobody_cuts_a_memory_file_under_its_readers() {
        let file = Store::memory().create("a").unwrap();
        file.write_at(0, &[7; 100_000]).unwrap();
        let mapping = file.map(100_000).unwrap();
        let others: std::fs::File = file.read_only_descriptor().unwrap().into();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&others));
        // Its own user may open it for writing again.
        let again = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        assert!(again.set_len(0).is_err());
        assert!(rustix::fs::fcntl_add_seals(&again, rustix::fs::SealFlags::WRITE).is_err());
        // What is rolled back gives back its memory, and keeps its length.
        let before = file.allocated().unwrap();
        file.truncate(50_000).unwrap();
        assert_eq!(file.length().unwrap(), 100_000);
        assert!(file.allocated().unwrap() < before);
        assert_eq!(mapping.as_ref()[..50_000], [7; 50_000]);
        file.write_at(50_000, &[8; 60_000]).unwrap();
        assert_eq!(file.length().unwrap(), 110_000);
    }
}
