//! Temporary files of queries that need more memory than they may have. They have no names, so that
//! nothing is left of those of a killed process. Together they take no more than
//! `temp_directory_limit`.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use hypostyle_error::LIMIT_NAME;
use hypostyle_types::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Makes temporary files in a directory.
pub struct SpillFiles {
    directory: Arc<Path>,
    limit: Option<u64>,
    /// Half of what was free when the first file was made.
    free: OnceLock<u64>,
    used: Arc<AtomicU64>,
}

impl SpillFiles {
    /// Returns files in a directory, or in the system's temporary directory if none is given. A
    /// missing directory is created for the first file. The files take no more than `limit` bytes,
    /// or half of the free space without a limit.
    pub fn within(directory: Option<PathBuf>, limit: Option<u64>) -> Arc<Self> {
        let directory = directory.unwrap_or_else(std::env::temp_dir).into();
        Arc::new(Self { directory, limit, free: OnceLock::new(), used: Arc::default() })
    }

    fn limit(&self) -> u64 {
        let half_of_free = || {
            let found = rustix::fs::statvfs(&*self.directory);
            found.map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize) / 2)
        };
        self.limit.unwrap_or_else(|| *self.free.get_or_init(half_of_free))
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = fs::create_dir_all(&self.directory).and_then(|()| tempfile::tempfile_in(&self.directory));
        let file = file.map_err(|error| failed(&error, "make", &self.directory))?;
        Ok(Arc::new(Spill {
            file: Arc::new(file),
            length: Arc::new(Taken { bytes: AtomicU64::new(0), all: self.used.clone(), limit: self.limit() }),
            directory: self.directory.clone(),
        }))
    }
}

fn failed(error: &io::Error, doing: &str, directory: &Path) -> DataFusionError {
    let doing = format!("cannot {doing} a temporary file in \"{}\"", directory.display());
    DataFusionError::External(Box::new(Error::from_io(error, doing)))
}

#[derive(Clone)]
struct Spill {
    file: Arc<File>,
    length: Arc<Taken>,
    directory: Arc<Path>,
}

/// The bytes of one file, among those of all.
struct Taken {
    bytes: AtomicU64,
    all: Arc<AtomicU64>,
    limit: u64,
}

impl Taken {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Takes more of what all files may have.
    fn take(&self, bytes: u64) -> io::Result<()> {
        let fits = |all: u64| all.checked_add(bytes).filter(|all| *all <= self.limit);
        if self.all.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok() {
            self.bytes.fetch_add(bytes, Ordering::AcqRel);
            return Ok(());
        }
        let message = format!(
            "temporary files would take more than {} bytes; raise {LIMIT_NAME} or make the query smaller",
            self.limit
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, message))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes(), Ordering::AcqRel);
    }
}

impl Spill {
    /// Returns the bytes from a place on, as many as are read at a time; none at the end.
    fn read(&self, at: u64) -> Result<Bytes> {
        let length = self.length.bytes().saturating_sub(at).min(READ_BYTES);
        let mut bytes = vec![0; length as usize];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|error| failed(&error, "read", &self.directory)).map(|()| bytes.into())
    }
}

impl SpillFile for Spill {
    fn size(&self) -> Option<u64> {
        Some(self.length.bytes())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let spill = self.clone();
        Ok(Box::pin(stream::try_unfold(0, move |at| {
            let spill = spill.clone();
            async move {
                let read = tokio::task::spawn_blocking(move || spill.read(at)).await;
                let bytes = read.map_err(|error| DataFusionError::External(Box::new(error)))??;
                let next = at + bytes.len() as u64;
                Ok((next > at).then_some((bytes, next)))
            }
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Appending(self.clone())))
    }
}

/// Writes behind what a file has.
struct Appending(Spill);

impl io::Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Spill { file, length, directory } = &self.0;
        let end = length.bytes();
        length.take(bytes.len() as u64)?;
        file.write_all_at(bytes, end).map_err(|error| {
            let doing = format!("cannot write a temporary file in \"{}\"", directory.display());
            io::Error::new(error.kind(), format!("{doing}: {error}"))
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Appending {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;
    use std::io::Write;

    #[tokio::test]
    async fn what_was_written_is_read_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let within = directory.path().join("new");
        let file = SpillFiles::within(Some(within.clone()), None).create_temp_file("a sort").unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
        for piece in content.chunks(1_700_000) {
            let mut writer = file.open_writer().unwrap();
            writer.write_all(piece).unwrap();
            writer.finish().unwrap();
        }
        assert_eq!(file.size(), Some(content.len() as u64));
        for _ in 0..2 {
            let pieces: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
            assert_eq!(pieces.concat(), content);
        }
        assert_eq!(fs::read_dir(&within).unwrap().count(), 0);
        let missing = within.join("file");
        fs::write(&missing, "").unwrap();
        let refused = SpillFiles::within(Some(missing), None).create_temp_file("").err().unwrap();
        assert!(refused.to_string().contains("cannot make a temporary file in"), "{refused}");
    }

    #[test]
    fn all_files_together_are_bounded_and_give_back_what_they_had() {
        let directory = tempfile::tempdir().unwrap();
        let files = SpillFiles::within(Some(directory.path().into()), Some(1000));
        let write = |bytes: usize| {
            let file = files.create_temp_file("a sort").unwrap();
            file.open_writer().unwrap().write_all(&vec![1; bytes]).map(|()| file)
        };
        let first = write(600).unwrap();
        let refused = write(401).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains(LIMIT_NAME), "{refused}");
        let second = write(400).unwrap();
        write(1).err().unwrap();
        drop(first);
        write(600).unwrap();
        drop(second);
        let refused = hypostyle_error::from_datafusion(write(1001).map(drop).unwrap_err().into());
        assert_eq!(refused.sqlstate(), "53100", "{refused}");
    }
}
