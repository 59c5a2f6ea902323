//! Temporary files of queries that need more memory than they may have. They are places in one file of
//! the system: a query may have thousands of them, and a process may have few open files. That file
//! has no name, so that nothing is left of it when the process is killed, and no more than
//! `temp_directory_limit` bytes.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The setting that bounds all files together.
const LIMIT_NAME: &str = "temp_directory_limit";

/// Read at a time.
const READ_BYTES: u64 = 1 << 20;

/// The bytes of a chunk, which has rows of one file only.
const CHUNK_BYTES: u64 = 64 << 10;

/// Makes temporary files in a directory.
pub struct SpillFiles {
    directory: Arc<Path>,
    limit: Option<u64>,
    /// Half of what was free when the first file was made.
    free: OnceLock<u64>,
    /// Where the files are, while there are any.
    store: Mutex<Weak<Store>>,
}

impl SpillFiles {
    /// Returns files in a directory, or in the system's temporary directory if none is given. A
    /// missing directory is created for the first file. The files take no more than `limit` bytes,
    /// or half of the free space without a limit.
    pub fn within(directory: Option<PathBuf>, limit: Option<u64>) -> Arc<Self> {
        let directory = directory.unwrap_or_else(std::env::temp_dir).into();
        Arc::new(Self { directory, limit, free: OnceLock::new(), store: Mutex::default() })
    }

    fn limit(&self) -> u64 {
        let half_of_free = || {
            let found = rustix::fs::statvfs(&*self.directory);
            found.map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize) / 2)
        };
        self.limit.unwrap_or_else(|| *self.free.get_or_init(half_of_free))
    }

    fn create(&self) -> Result<Spill> {
        let mut place = self.store.lock();
        let store = match place.upgrade() {
            Some(store) => store,
            None => {
                let made = fs::create_dir_all(&self.directory);
                let file = made.and_then(|()| tempfile::tempfile_in(&self.directory));
                let file = file.map_err(|error| failed(&error, "make", &self.directory))?;
                let (directory, limit) = (self.directory.clone(), self.limit());
                let store = Arc::new(Store { file, directory, limit, chunks: Mutex::default() });
                *place = Arc::downgrade(&store);
                store
            }
        };
        Ok(Spill(Arc::new(Content { store, chunks: Mutex::default(), written: AtomicU64::new(0) })))
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(self.create()?))
    }
}

fn failed(error: &io::Error, doing: &str, directory: &Path) -> DataFusionError {
    let doing = format!("cannot {doing} a temporary file in \"{}\"", directory.display());
    DataFusionError::External(Box::new(Error::from_io(error, doing)))
}

/// The file of the system that all files are in. It is gone with the last of them.
struct Store {
    file: File,
    directory: Arc<Path>,
    limit: u64,
    chunks: Mutex<Chunks>,
}

/// The chunks of a store, by their numbers.
#[derive(Default)]
struct Chunks {
    made: u64,
    /// Those that no file has any more.
    free: Vec<u64>,
}

impl Store {
    /// Takes a chunk.
    fn take(&self) -> io::Result<u64> {
        let mut chunks = self.chunks.lock();
        if let Some(chunk) = chunks.free.pop() {
            return Ok(chunk);
        }
        if (chunks.made + 1) * CHUNK_BYTES > self.limit {
            let message = format!(
                "temporary files would take more than {} bytes; raise {LIMIT_NAME} or make the query smaller",
                self.limit
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, Error::new(ErrorKind::DiskFull, message)));
        }
        chunks.made += 1;
        Ok(chunks.made - 1)
    }
}

/// A file.
#[derive(Clone)]
struct Spill(Arc<Content>);

struct Content {
    store: Arc<Store>,
    /// The chunks in their order. All but the last one are full.
    chunks: Mutex<Vec<u64>>,
    /// The bytes that can be read. A file is read while it is written.
    written: AtomicU64,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.store.chunks.lock().free.append(self.chunks.get_mut());
    }
}

impl Content {
    fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the bytes from a place on, as many as are read at a time; none at the end.
    fn read(&self, at: u64) -> Result<Bytes> {
        let length = self.written().saturating_sub(at).min(READ_BYTES);
        let mut bytes = vec![0; length as usize];
        let read = self
            .pieces(at, length)
            .into_iter()
            .try_for_each(|(place, piece)| self.store.file.read_exact_at(&mut bytes[piece], place));
        read.map_err(|error| failed(&error, "read", &self.store.directory)).map(|()| bytes.into())
    }

    /// Returns where bytes from a place on are in the store, piece by piece.
    fn pieces(&self, at: u64, length: u64) -> Vec<(u64, Range<usize>)> {
        let chunks = self.chunks.lock();
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < length {
            let (chunk, within) = ((at + done) / CHUNK_BYTES, (at + done) % CHUNK_BYTES);
            let bytes = (CHUNK_BYTES - within).min(length - done);
            pieces.push((
                chunks[chunk as usize] * CHUNK_BYTES + within,
                done as usize..(done + bytes) as usize,
            ));
            done += bytes;
        }
        pieces
    }

    /// Writes bytes behind those that there are.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let (end, more) = (self.written(), bytes.len() as u64);
        while self.chunks.lock().len() as u64 * CHUNK_BYTES < end + more {
            let chunk = self.store.take()?;
            self.chunks.lock().push(chunk);
        }
        for (place, piece) in self.pieces(end, more) {
            self.store.file.write_all_at(&bytes[piece], place).map_err(|error| {
                let doing =
                    format!("cannot write a temporary file in \"{}\"", self.store.directory.display());
                io::Error::new(error.kind(), Error::from_io(&error, doing))
            })?;
        }
        self.written.store(end + more, Ordering::Release);
        Ok(())
    }
}

impl SpillFile for Spill {
    fn size(&self) -> Option<u64> {
        Some(self.0.written())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let content = self.0.clone();
        Ok(Box::pin(stream::try_unfold(0, move |at| {
            let content = content.clone();
            async move {
                let read = tokio::task::spawn_blocking(move || content.read(at)).await;
                let bytes = read.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
                let next = at + bytes.len() as u64;
                Ok((next > at).then_some((bytes, next)))
            }
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Appending(self.0.clone())))
    }
}

/// Writes behind what a file has.
struct Appending(Arc<Content>);

impl io::Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map(|()| bytes.len())
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
    fn a_file_is_read_while_it_is_written() {
        const PIECES: u8 = 100;
        const PIECE_BYTES: usize = 300_000;
        let directory = tempfile::tempdir().unwrap();
        let spill = SpillFiles::within(Some(directory.path().into()), None).create().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = spill.open_writer().unwrap();
                (0..PIECES).for_each(|piece| writer.write_all(&vec![piece; PIECE_BYTES]).unwrap());
            });
            let mut read = 0;
            while read < usize::from(PIECES) * PIECE_BYTES {
                let bytes = spill.0.read(read as u64).unwrap();
                // Not all of them, so that the reader is never far behind the writer.
                let is_expected = |(at, byte): (usize, &u8)| usize::from(*byte) == (read + at) / PIECE_BYTES;
                assert!(bytes.iter().enumerate().step_by(1000).all(is_expected), "{read}");
                read += bytes.len();
            }
        });
    }

    #[test]
    fn all_files_together_are_bounded_and_give_back_what_they_had() {
        const CHUNK: usize = CHUNK_BYTES as usize;
        let directory = tempfile::tempdir().unwrap();
        let files = SpillFiles::within(Some(directory.path().into()), Some(10 * CHUNK_BYTES + 1));
        let write = |bytes: usize| {
            let file = files.create_temp_file("a sort").unwrap();
            file.open_writer().unwrap().write_all(&vec![1; bytes]).map(|()| file)
        };
        let first = write(6 * CHUNK - 1).unwrap();
        let refused = write(4 * CHUNK + 1).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains(LIMIT_NAME), "{refused}");
        let second = write(4 * CHUNK).unwrap();
        write(1).err().unwrap();
        drop(first);
        write(6 * CHUNK).unwrap();
        drop(second);
        let refused = hypostyle_error::from_datafusion(write(11 * CHUNK).map(drop).unwrap_err().into());
        assert_eq!(refused.sqlstate(), "53100", "{refused}");
    }

    #[test]
    fn many_files_take_one_of_the_system_and_keep_their_bytes_apart() {
        let directory = tempfile::tempdir().unwrap();
        let files = SpillFiles::within(Some(directory.path().into()), None);
        let open_files = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = open_files();
        let content = |number: usize, part: usize| vec![(number * 3 + part) as u8; number * 97];
        let mut spills: Vec<Spill> = (0..3000).map(|_| files.create().unwrap()).collect();
        for part in 0..2 {
            for (number, spill) in spills.iter().enumerate() {
                spill.0.append(&content(number, part)).unwrap();
            }
        }
        // Others may open files meanwhile, but not as many.
        assert!(open_files() < before + 1000);
        let check = |spills: &[Spill], number: usize| {
            let both = [content(number, 0), content(number, 1)].concat();
            assert!(spills[number].0.read(0).unwrap() == both, "{number}");
        };
        (0..3000).for_each(|number| check(&spills, number));
        // What is freed is used again.
        let made = spills[0].0.store.chunks.lock().made;
        spills.drain(2000..);
        for number in 2000..3000 {
            spills.push(files.create().unwrap());
            for part in 0..2 {
                spills[number].0.append(&content(number, part)).unwrap();
            }
        }
        (0..3000).for_each(|number| check(&spills, number));
        assert_eq!(spills[0].0.store.chunks.lock().made, made);
    }
}
