//! Arrow arrays over mapped files, with rows behind those of the files.
//!
//! A column lies in files: a file for each buffer of each of its arrays ([`NodeFiles`]), the buffers being
//! those that [`Buffers`] says for a type (docs/format.md §3). Rows that no file has yet, those of the log,
//! extend the mapping of these files ([`extended`]): whole pages are shared with everybody who maps them, and
//! only the other rows take memory. Whoever stores columns does that, and so does who gets descriptors of
//! their files.

#![deny(unsafe_op_in_unsafe_fn)]

mod buffers;
mod extended;
mod files;

pub use buffers::Buffers;
pub use extended::extended;
pub use files::{BufferFile, DictionaryFiles, NodeFiles};
