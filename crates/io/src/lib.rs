//! Files, locks, fsync, memfds, the state that the kernel has of a socket and of the machine, forks
//! of the process, and the only use of mmap: for files, and for large memory.
//!
//! A [`Store`] is a flat name space of files: a directory on disk, or memfds for an in-memory
//! database. The code above this crate is the same for both. These invariants are kept here:
//!
//! * a file is never truncated while it can be mapped; it grows, or it is unlinked;
//! * nothing outside the directory of a store is read, written or removed through it: names are
//!   resolved below it, without symbolic links, only regular files are opened, and files are opened
//!   for writing only if they have one name;
//! * files and directories are created for their user alone, unless the directory has the
//!   set-group-ID bit;
//! * every wait for a lock has an end ([`Patience`]);
//! * no mapping is shared-writable: writes go through `pwrite`, mappings are read-only or private;
//! * a mapping never reaches past the end that its file had when it was created, so that reading it
//!   cannot fault (what another program does to the file is outside this promise).

#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod directory;
mod file;
pub mod fork;
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
pub use machine::{machine_id, memory_of_groups, yield_to_others};
pub use mapping::Mapping;
pub use observer::{Observer, Operation};
pub use socket::{unanswered_for, unsent_bytes};
pub use store::{Lock, LockFile, LockFileGuard, Store, boot_id};
