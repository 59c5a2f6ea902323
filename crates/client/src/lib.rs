//! The client of docs/protocol.md: statements to a server, results from it as Arrow arrays.
//!
//! This crate links no query engine. Calls block, and handles may be used from any thread, one
//! statement at a time. A result is a set of columns: in the server's files, in memory files, or in
//! buffers into which chunks were decoded. Rows are a view of these columns.

#![deny(unsafe_op_in_unsafe_fn)]
// Bytes come from outside: whatever they are is an error at worst.
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod address;
mod again;
mod append;
mod asked;
mod call;
mod connection;
mod files;
mod link;
mod login;
mod options;
mod progress;
mod result;
mod sending;
mod silence;
mod traffic;

pub use address::{Address, Tls};
pub use call::CallAnswer;
pub use connection::Connection;
pub use files::MappedColumns;
pub use hypostyle_wire::{Chosen, Description, Gives, Role, TableEntry, Times, Transaction};
pub use options::{AppendOptions, Hook, Options, Resolver, Table};
pub use progress::{Meter, Progress, Running};
pub use result::{QueryResult, Statistics};
pub use traffic::Traffic;
