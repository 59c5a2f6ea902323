//! Files, locks, fsync, memfd, what the kernel knows of a socket and of the machine, and the only
//! mmap: of files, and of memory for what is large.
//!
//! A [`Store`] is a flat name space of files: a directory on disk, or memfds for an in-memory
//! database. Both run the same code above this crate. Invariants kept here:
//!
//! * a file is never truncated while it can be mapped; it grows, or it is unlinked;
//! * nothing outside of the directory that a store was opened with is read, written or removed
//!   through it: names are resolved beneath it, without symbolic links, and only regular files are
//!   opened, to write only those with one name;
//! * files and directories are made for their user alone, unless the directory has the set-group-ID
//!   bit;
//! * no wait for a lock is without an end ([`Patience`]);
//! * no mapping is shared-writable: writes go through `pwrite`, mappings are read-only or private;
//! * a mapping never reaches past the end of its file as measured when it was made, so that reading
//!   it cannot fault (what another program does to the file is outside this promise).

#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod directory;
mod file;
mod lock;
mod machine;
mod mapping;
mod observer;
mod pool;
mod socket;
mod store;

pub use arena::{Arena, Piece};
pub use file::File;
pub use lock::{Held, LOCK_TIMEOUT, Patience, Waiting};
pub use machine::{machine_id, yield_to_others};
pub use mapping::Mapping;
pub use observer::{Observer, Operation};
pub use socket::unsent_bytes;
pub use store::{Lock, LockFile, LockFileGuard, Store, boot_id};
