//! What tests watch, and make fail: the operations of a store on disk.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Something that changes a directory, a file, or what of them is durable. Names are paths on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A new empty file; one of that name is unlinked.
    Create {
        file: &'a str,
    },
    Write {
        file: &'a str,
        offset: u64,
        bytes: &'a [u8],
    },
    /// A range of a file to the same place of another.
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
    /// A directory, and those above it, unless they exist.
    CreateDirectory {
        directory: &'a str,
    },
    /// A directory with everything in it.
    RemoveDirectory {
        directory: &'a str,
    },
    SyncDirectory {
        directory: &'a str,
    },
}

/// Told of each operation before it happens. An error takes the operation's place.
pub trait Observer: Debug + Send + Sync {
    fn before(&self, operation: Operation<'_>) -> io::Result<()>;
}

/// Nobody observes a database that is not under test.
pub(crate) type Observed = Option<Arc<dyn Observer>>;

pub(crate) fn tell(observer: &Observed, operation: Operation<'_>) -> io::Result<()> {
    observer.as_ref().map_or(Ok(()), |observer| observer.before(operation))
}
