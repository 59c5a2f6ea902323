//! Lets tests watch the operations of a store on disk, and make them fail.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A change of a directory, of a file, or of what is durable. Names are paths on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Creates an empty file; a file of that name is unlinked.
    Create {
        file: &'a str,
    },
    Write {
        file: &'a str,
        offset: u64,
        bytes: &'a [u8],
    },
    /// Copies a range of a file to the same offset of another.
    Copy {
        from: &'a str,
        file: &'a str,
        offset: u64,
        length: u64,
    },
    SetLength {
        file: &'a str,
        length: u64,
    },
    Sync {
        file: &'a str,
    },
    Rename {
        from: &'a str,
        to: &'a str,
    },
    Remove {
        file: &'a str,
    },
    /// Creates a directory and its parents, unless they exist.
    CreateDirectory {
        directory: &'a str,
    },
    /// Removes a directory with everything in it.
    RemoveDirectory {
        directory: &'a str,
    },
    SyncDirectory {
        directory: &'a str,
    },
}

/// Is told of each operation before it happens. An error replaces the operation.
pub trait Observer: Debug + Send + Sync {
    fn before(&self, operation: Operation<'_>) -> io::Result<()>;
}

/// The observer of a store; `None` outside of tests.
pub(crate) type Observed = Option<Arc<dyn Observer>>;

pub(crate) fn tell(observer: &Observed, operation: Operation<'_>) -> io::Result<()> {
    observer.as_ref().map_or(Ok(()), |observer| observer.before(operation))
}
