//! The directory of a cluster.

use hypostyle::{Error, ErrorKind, Result};
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that is locked by a command which is at work.
const LOCK: &str = "lock";

/// The directory of a cluster, in which no other command is at work meanwhile.
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Opens the directory of a cluster.
    ///
    /// # Errors
    /// `NotFound` where there is none, `Busy` where another command is at work, `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.join(LOCK).exists() {
            let message = format!(
                "there is no cluster in \"{}\": make one with `hypostyle cluster up 3`, or say with --data where it is",
                path.display()
            );
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Self::make(path)
    }

    /// Opens a directory, which is made if there is none. Others than its owner may not read it.
    ///
    /// # Errors
    /// `Busy` where another command is at work, `Io`.
    pub fn make(path: &Path) -> Result<Self> {
        let shown = path.display();
        let failed = |error: &std::io::Error| Error::from_io(error, format!("cannot use \"{shown}\""));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| failed(&error))?;
        let path = path.canonicalize().map_err(|error| failed(&error))?;
        let lock = File::create(path.join(LOCK)).map_err(|error| failed(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another `hypostyle cluster` is at work in \"{shown}\": try again");
                Err(Error::new(ErrorKind::Busy, message))
            }
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }

    /// Returns the path from the root, which the nodes have wherever they are started.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
