//! Files to read: regular ones, which are opened as often as needed, and pipes, whose bytes come
//! once.
//!
//! Detection reads the start of a file, and the rows are read after it. What detection has read of
//! a pipe is kept and comes first among the rows. A pipe gives its rows to one reader; a second one
//! in the same statement is an error, since it would get the rest of them.

use crate::encoding::{Decoded, Encoding};
use crate::known_files::KnownFiles;
use crate::option::ReadOptions;
use crate::path::compression_from_path;
use datafusion::prelude::SessionConfig;
use hypostyle_expr::meter::Meter;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The interval at which a reader of a pipe without data looks whether somebody still waits.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Bytes of a pipe that are kept for the rows; a sample of more needs a regular file.
const SAMPLE_BYTES_MAX: usize = 256 << 20;

/// Says that nobody waits for what is read.
#[derive(Clone)]
pub struct Stopped(Arc<dyn Fn() -> bool + Send + Sync>);

impl Stopped {
    /// Returns one that a flag tells.
    pub fn by(flag: Arc<AtomicBool>) -> Self {
        Self(Arc::new(move || flag.load(Ordering::Relaxed)))
    }

    /// Returns one that the interrupts of a session tell.
    fn by_session(config: &SessionConfig) -> Self {
        match config.get_extension::<Meter>() {
            Some(meter) => Self(Arc::new(move || meter.interrupted.load(Ordering::Acquire))),
            None => Self(Arc::new(|| false)),
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stopped({})", (self.0)())
    }
}

/// What a session knows of pipes and JSON files, and how it interrupts those who wait for them.
#[derive(Clone, Debug)]
pub struct Reading {
    pipes: Arc<Pipes>,
    known: Arc<KnownFiles>,
    stopped: Stopped,
}

impl Reading {
    /// Returns that of a session.
    pub fn of(config: &SessionConfig) -> Self {
        Self {
            pipes: config.get_extension::<Pipes>().unwrap_or_default(),
            known: config.get_extension::<KnownFiles>().unwrap_or_default(),
            stopped: Stopped::by_session(config),
        }
    }

    /// Returns the JSON files that the session has looked at.
    pub fn known(&self) -> &KnownFiles {
        &self.known
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self::of(&SessionConfig::default())
    }
}

/// The pipes that a session's statement reads, by device and inode.
#[derive(Debug, Default)]
pub struct Pipes(Mutex<HashMap<(u64, u64), Known>>);

/// A pipe that is still to be read, which is kept for the next plan, or one that plans read.
#[derive(Debug)]
enum Known {
    Unread(Arc<Pipe>),
    Read(Weak<Pipe>),
}

/// How files begin that are no texts, and what is told of them.
const NO_TEXTS: [(&[u8], &str); 6] = [
    (b"PAR1", "a Parquet file; read it with read_parquet"),
    (b"ARROW1", "an Arrow file; read it with read_arrow"),
    (b"\x1F\x8B", "compressed with gzip; give the option compression 'gzip'"),
    (b"\x28\xB5\x2F\xFD", "compressed with Zstandard; give the option compression 'zstd'"),
    (b"PK\x03\x04", "a ZIP archive, as spreadsheets are; write it as CSV first"),
    (b"SQLite format 3\0", "a database of SQLite; write its tables as CSV first"),
];

/// Looks whether a file begins as one that is no text.
///
/// # Errors
/// `InvalidInput`, with what it is.
pub fn check_text(path: &Path, start: &[u8]) -> Result<()> {
    // A text may begin with such letters, and has no NUL.
    let is_text = |magic: &[u8]| magic.is_ascii() && !start.contains(&0);
    match NO_TEXTS.iter().find(|(magic, _)| start.starts_with(magic) && !is_text(magic)) {
        Some((_, what)) => Err(Error::invalid_input(format!("\"{}\" is {what}", path.display()))),
        None => Ok(()),
    }
}

/// A file of one table.
#[derive(Clone, Debug)]
pub struct Input {
    path: PathBuf,
    pipe: Option<Arc<Pipe>>,
}

/// A file that can be read once, from front to back.
#[derive(Debug)]
struct Pipe {
    file: Mutex<Option<File>>,
    /// What detection has read.
    sample: Mutex<Vec<u8>>,
    /// Interrupts detection.
    stopped: Stopped,
    /// What knows it, and by which device and inode.
    known: (Weak<Pipes>, (u64, u64)),
}

impl Input {
    /// Returns the files of some paths; looks which of them are pipes.
    ///
    /// # Errors
    /// `NotFound`, `Io`, and `InvalidInput` for a directory.
    pub fn of(paths: Vec<PathBuf>, options: &ReadOptions) -> Result<Vec<Self>> {
        let Reading { pipes, stopped, .. } = &options.reading;
        let find = |path: PathBuf| {
            let cannot =
                |error: io::Error| Error::from_io(&error, format!("cannot open \"{}\"", path.display()));
            let metadata = std::fs::metadata(&path).map_err(cannot)?;
            let pipe = match metadata.is_file() || metadata.is_dir() {
                true => None,
                false => Some(pipes.open(&path, stopped).map_err(cannot)?),
            };
            Ok(Self { path, pipe })
        };
        paths.into_iter().map(find).collect()
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for detection: reads from the start, as often as wanted.
    ///
    /// # Errors
    /// Those of opening it; `InvalidInput` when its rows have been read already.
    pub fn sample(&self, options: &ReadOptions) -> Result<Box<dyn Read + Send>> {
        match &self.pipe {
            None => self.text(File::open(&self.path).map_err(|error| self.cannot_open(&error))?, options),
            Some(pipe) if pipe.file.lock().is_none() => Err(self.read_already()),
            Some(pipe) => self.text(Sample { pipe: Arc::clone(pipe), at: 0 }, options),
        }
    }

    /// Opens it for its rows: a pipe only once.
    ///
    /// # Errors
    /// As [`Self::sample`].
    pub fn rows(&self, options: &ReadOptions, stopped: &Stopped) -> Result<Box<dyn Read + Send>> {
        let Some(pipe) = &self.pipe else { return self.sample(options) };
        let file = pipe.file.lock().take().ok_or_else(|| self.read_already())?;
        let (pipes, key) = &pipe.known;
        if let Some(pipes) = pipes.upgrade() {
            pipes.0.lock().insert(*key, Known::Read(Arc::downgrade(pipe)));
        }
        let sample = std::mem::take(&mut *pipe.sample.lock());
        let rest = Rest { file, stopped: stopped.clone() };
        self.text(Cursor::new(sample).chain(rest), options)
    }

    /// Returns the bytes decompressed and as UTF-8.
    fn text(&self, bytes: impl Read + Send + 'static, options: &ReadOptions) -> Result<Box<dyn Read + Send>> {
        let compression = options.compression.unwrap_or_else(|| compression_from_path(&self.path));
        let plain = compression.convert_read(bytes).map_err(|error| {
            Error::invalid_input(format!("cannot decompress \"{}\": {error}", self.path.display()))
        })?;
        match options.encoding {
            Some(Encoding::Utf8) => Ok(plain),
            encoding => Ok(Box::new(Decoded::new(plain, encoding))),
        }
    }

    fn cannot_open(&self, error: &io::Error) -> Error {
        Error::from_io(error, format!("cannot open \"{}\"", self.path.display()))
    }

    fn read_already(&self) -> Error {
        Error::invalid_input(format!(
            "\"{}\" is a pipe, which can be read once in a statement; keep its rows in a table or a WITH … AS \
             MATERIALIZED",
            self.path.display()
        ))
    }

    /// Returns the error of reading some bytes of it.
    pub fn damaged(path: &Path, error: &io::Error) -> Error {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Other => Error::invalid_input(format!(
                "\"{path}\" is damaged or not compressed as its name says: {error}"
            )),
            io::ErrorKind::TimedOut => Error::interrupted(),
            io::ErrorKind::OutOfMemory => Error::new(ErrorKind::OutOfMemory, error.to_string()),
            _ => Error::from_io(error, format!("cannot read \"{path}\"")),
        }
    }
}

impl Pipes {
    /// Returns the pipe of that name, which may be one that the statement has opened already.
    fn open(self: &Arc<Self>, path: &Path, stopped: &Stopped) -> io::Result<Arc<Pipe>> {
        let file = open_pipe(path)?;
        let metadata = file.metadata()?;
        let key = (metadata.dev(), metadata.ino());
        let mut pipes = self.0.lock();
        let known = match pipes.get(&key) {
            Some(Known::Unread(pipe)) => Some(Arc::clone(pipe)),
            Some(Known::Read(pipe)) => pipe.upgrade(),
            None => None,
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let pipe = Arc::new(Pipe {
            file: Mutex::new(Some(file)),
            sample: Mutex::default(),
            stopped: stopped.clone(),
            known: (Arc::downgrade(self), key),
        });
        pipes.retain(|_, known| !matches!(known, Known::Read(pipe) if pipe.strong_count() == 0));
        pipes.insert(key, Known::Unread(Arc::clone(&pipe)));
        Ok(pipe)
    }
}

/// Checks that files can be read at any place.
///
/// # Errors
/// `Unsupported` for a pipe.
pub fn check_regular(files: &[PathBuf], format: &str) -> Result<()> {
    let is_pipe =
        |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir());
    match files.iter().find(is_pipe) {
        None => Ok(()),
        Some(pipe) => Err(Error::unsupported(format!(
            "\"{}\" is no regular file, and {format} is not read from front to back; write it to a file first",
            pipe.display()
        ))),
    }
}

/// Opens a pipe without waiting for its writer. What is no file by its name, as a socket, is had
/// from the process's own descriptor.
fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    match File::options().read(true).custom_flags(flags).open(path) {
        Err(_) if path == Path::new("/dev/stdin") => {
            Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
        }
        opened => opened,
    }
}

/// Reads what has come, or waits for it; ends early once nobody wants it.
fn read_ready(mut file: &File, buffer: &mut [u8], stopped: &Stopped) -> io::Result<usize> {
    loop {
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        let ready = match poll(&mut polled, Some(&POLL)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        if (stopped.0)() {
            // Readers take `Interrupted` for a signal and try again.
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the statement was interrupted"));
        }
        if !ready {
            continue;
        }
        match file.read(buffer) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            read => return read,
        }
    }
}

/// A pipe from its start, for detection.
struct Sample {
    pipe: Arc<Pipe>,
    at: usize,
}

impl Read for Sample {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut sample = self.pipe.sample.lock();
        if self.at == sample.len() {
            let file = self.pipe.file.lock();
            let Some(file) = file.as_ref() else { return Ok(0) };
            if sample.len() >= SAMPLE_BYTES_MAX {
                let message = "a pipe keeps no larger sample; give sample_size fewer rows";
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
            }
            let read = read_ready(file, buffer, &self.pipe.stopped)?;
            sample.extend_from_slice(&buffer[..read]);
        }
        let kept = &sample[self.at..];
        let count = kept.len().min(buffer.len());
        buffer[..count].copy_from_slice(&kept[..count]);
        self.at += count;
        Ok(count)
    }
}

/// What detection has left of a pipe.
struct Rest {
    file: File,
    stopped: Stopped,
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_ready(&self.file, buffer, &self.stopped)
    }
}
