//! Temporary files of queries that need more memory than they may have. They have no names, so that nothing is left of those of a
//! process that is killed.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use hypostyle_types::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Makes temporary files in a directory.
pub(crate) struct SpillFiles {
    directory: Arc<Path>,
}

impl SpillFiles {
    /// In the system's temporary directory when none is given; one that is not there is made for the first file.
    pub fn within(directory: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self { directory: directory.unwrap_or_else(std::env::temp_dir).into() })
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = fs::create_dir_all(&self.directory).and_then(|()| tempfile::tempfile_in(&self.directory));
        let file = file.map_err(|error| failed(&error, "make", &self.directory))?;
        Ok(Arc::new(Spill {
            file: Arc::new(file),
            length: Arc::default(),
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
    length: Arc<AtomicU64>,
    directory: Arc<Path>,
}

impl Spill {
    /// The bytes from a place on, as many as are read at a time; none at the end.
    fn read(&self, at: u64) -> Result<Bytes> {
        let length = self.length.load(Ordering::Acquire).saturating_sub(at).min(READ_BYTES);
        let mut bytes = vec![0; length as usize];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|error| failed(&error, "read", &self.directory)).map(|()| bytes.into())
    }
}

impl SpillFile for Spill {
    fn size(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Acquire))
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
        let written =
            file.write_at(bytes, length.load(Ordering::Acquire)).map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => error,
                kind => {
                    let doing = format!("cannot write a temporary file in \"{}\"", directory.display());
                    io::Error::new(kind, format!("{doing}: {error}"))
                }
            })?;
        length.fetch_add(written as u64, Ordering::AcqRel);
        Ok(written)
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
        let file = SpillFiles::within(Some(within.clone())).create_temp_file("a sort").unwrap();
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
        let refused = SpillFiles::within(Some(missing)).create_temp_file("").err().unwrap();
        assert!(refused.to_string().contains("cannot make a temporary file in"), "{refused}");
    }
}
