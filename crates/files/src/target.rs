//! The target of `COPY … TO`, and how it is written.
//!
//! A regular file appears whole or not at all. The rows go into a file beside it, which replaces it
//! at the end and has its mode and its owner. If the file has other names, or an owner that this
//! process cannot set, it is overwritten at the end instead. Symbolic links are followed. All other
//! kinds (pipes, devices and the process's own descriptors) are written as the rows come, and never
//! replaced.

use crate::path::local_path;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Links that may lead from one to the next, as Linux has it.
const LINKS_MAX: usize = 40;

/// A pipe that is ready takes so many bytes without making its writer wait.
const PIPE_BYTES: usize = 4096;

/// The interval at which a writer checks whether it still has to wait for a reader.
const READER_WAIT: Duration = Duration::from_millis(20);
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The target of the rows.
#[derive(Debug)]
pub struct Target {
    /// The name as the statement has it, for messages.
    name: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A regular file, or one that is still to be made.
    File(PathBuf),
    Stream(PathBuf),
    /// A descriptor of this process, as `/dev/stdout`.
    Descriptor(PathBuf, u32),
}

/// An opened target, while rows are written; what is not finished leaves nothing behind.
#[derive(Debug)]
pub struct Opened {
    name: String,
    file: File,
    given_up: AtomicBool,
    /// A regular file to replace, and the one beside it that has the rows.
    replacing: Option<(PathBuf, PathBuf)>,
}

impl Target {
    /// Looks at what a name stands for.
    ///
    /// # Errors
    /// `InvalidInput` for a directory, `NotFound` when there is none for the file, `Unsupported`
    /// for a URL.
    pub fn find(name: &str) -> Result<Self> {
        let cannot = |error: io::Error| cannot_write(name, &error);
        let path = std::path::absolute(local_path(name)?).map_err(cannot)?;
        let is_directory =
            || Error::invalid_input(format!("cannot write \"{name}\": it is a directory, not a file"));
        if name.ends_with('/') {
            return Err(is_directory());
        }
        let place = match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(is_directory()),
            Ok(found) => match descriptor(&path) {
                Some(number) => Place::Descriptor(path, number),
                None if found.is_file() => Place::File(path.canonicalize().map_err(cannot)?),
                None => Place::Stream(path),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Place::File(new_file(name, path)?),
            Err(error) => return Err(cannot(error)),
        };
        Ok(Self { name: name.to_string(), place })
    }

    /// Opens it for writing; waits until somebody reads a named pipe.
    ///
    /// # Errors
    /// Those of the operating system, with the file's name.
    pub async fn open(self) -> Result<Opened> {
        let cannot = |error: io::Error| cannot_write(&self.name, &error);
        let (file, replacing) = match self.place {
            Place::File(path) => {
                let (file, beside) = open_beside(&path).map_err(cannot)?;
                (file, Some((path, beside)))
            }
            Place::Stream(path) => (open_stream(&path).await.map_err(cannot)?, None),
            Place::Descriptor(path, number) => (open_descriptor(&path, number).map_err(cannot)?, None),
        };
        Ok(Opened { name: self.name, file, given_up: AtomicBool::new(false), replacing })
    }
}

impl Opened {
    /// Writes all of some bytes; ends early once [`Self::give_up`] has been called.
    ///
    /// # Errors
    /// Those of the operating system; one of a reader that has gone away is a broken pipe.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        if self.replacing.is_some() {
            return (&self.file).write_all(bytes);
        }
        while !bytes.is_empty() {
            let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut polled, Some(&POLL)) {
                _ if self.given_up.load(Ordering::Relaxed) => return Err(io::ErrorKind::Interrupted.into()),
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match (&self.file).write(&bytes[..bytes.len().min(PIPE_BYTES)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stops writing, because nobody waits for the rows any more.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Finishes writing: a regular file takes its place.
    ///
    /// # Errors
    /// Those of the operating system, with the file's name.
    pub fn finish(&self) -> Result<()> {
        let Some((path, beside)) = &self.replacing else { return Ok(()) };
        self.put_in_place(path, beside).map_err(|error| cannot_write(&self.name, &error))
    }

    fn put_in_place(&self, path: &Path, beside: &Path) -> io::Result<()> {
        match std::fs::symlink_metadata(path) {
            Ok(replaced) if !replaced.is_file() => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no regular file any more"))
            }
            Ok(replaced) if !can_stand_for(&self.file, &replaced) => {
                let mut over = OpenOptions::new().write(true).truncate(true).open(path)?;
                io::copy(&mut File::open(beside)?, &mut over).map(drop)
            }
            Ok(_) => std::fs::rename(beside, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::rename(beside, path),
            Err(error) => Err(error),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file that has the rows until they take their place; `None` for what is written
    /// as the rows come.
    pub fn beside(&self) -> Option<&Path> {
        self.replacing.as_ref().map(|(_, beside)| beside.as_path())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some((_, beside)) = &self.replacing {
            // The file is gone when it has replaced the target. Otherwise this is best effort,
            // because an error is on its way.
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// Returns an error of writing, with what was to be written.
pub fn cannot_write(name: &str, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        let message = format!("cannot write \"{name}\": its reader has gone away");
        return Error::new(ErrorKind::Io, message);
    }
    Error::from_io(error, format!("cannot write \"{name}\""))
}

/// Returns the path of a file to be made, with the links in it followed.
fn new_file(name: &str, mut path: PathBuf) -> Result<PathBuf> {
    for _ in 0..LINKS_MAX {
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !parent.is_dir() {
            let message = format!("cannot write \"{name}\": there is no directory \"{}\"", parent.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        match std::fs::read_link(&path) {
            Ok(link) => path = parent.join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(Error::invalid_input(format!("cannot write \"{name}\": its links lead in a circle")))
}

/// Returns the number of the descriptor of this process that a path leads to.
fn descriptor(path: &Path) -> Option<u32> {
    let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let parent = path.parent()?.canonicalize().ok()?;
        if parent == own {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = parent.join(std::fs::read_link(&path).ok()?);
    }
    None
}

/// Returns a new file in the directory of `path`, so that it can take its place in one step.
fn open_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let exists = match OpenOptions::new().write(true).open(path) {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // A user who may not write a file may not replace it either.
        Err(error) => return Err(error),
    };
    let beside = path.with_file_name(format!(".{}.part", uuid::Uuid::new_v4().simple()));
    let mode = if exists { 0o600 } else { 0o666 };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    Ok((file, beside))
}

async fn open_stream(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    loop {
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
                    && std::fs::metadata(path)?.file_type().is_fifo() =>
            {
                tokio::time::sleep(READER_WAIT).await;
            }
            opened => return opened,
        }
    }
}

/// Returns the descriptor itself where it can be had, since its place in a file is where the rows
/// belong.
fn open_descriptor(path: &Path, number: u32) -> io::Result<File> {
    let own = match number {
        0 => io::stdin().as_fd().try_clone_to_owned()?,
        1 => io::stdout().as_fd().try_clone_to_owned()?,
        2 => io::stderr().as_fd().try_clone_to_owned()?,
        _ => return OpenOptions::new().append(true).open(path),
    };
    Ok(File::from(own))
}

/// Says whether a new file can take the place of one: it gets its mode and owner, and no other name
/// leads there.
fn can_stand_for(file: &File, replaced: &Metadata) -> bool {
    let same_owner = || {
        let own = file.metadata()?;
        match (own.uid(), own.gid()) == (replaced.uid(), replaced.gid()) {
            true => Ok(()),
            false => fchown(file, Some(replaced.uid()), Some(replaced.gid())),
        }
    };
    let mode = Permissions::from_mode(replaced.mode() & 0o7777);
    replaced.nlink() == 1 && same_owner().is_ok() && file.set_permissions(mode).is_ok()
}
