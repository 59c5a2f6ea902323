//! Where the rows of a cluster are, and how appends reach them.
//!
//! | module | decides |
//! |---|---|
//! | [`catalog`] | what a cluster knows about itself, its bytes, and how it changes |
//! | [`partition`] | which fragment a row belongs to, and which fragments a query needs |
//! | [`layout`] | which nodes have which fragments, and the steps to another distribution |
//! | [`append`] | how rows reach several nodes and become visible together |
//! | [`term`] | who coordinates, and which catalog is the published one |
//! | [`ticket`] | parts of a query's rows that are read by themselves |
//! | [`config`] | what a node's file `cluster.toml` says |
//!
//! Everything here is a function of its arguments: there is no I/O, no clock and no thread. State
//! machines take messages and return what is to be stored and sent, so a test can run them through
//! every order of events (docs/cluster.md).

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Catalogs and messages come from outside: whatever they are is an error at worst.
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

pub mod append;
pub mod catalog;
pub mod config;
#[cfg(test)]
mod explore;
mod id;
pub mod layout;
pub mod partition;
mod rules;
pub mod term;
pub mod ticket;

pub use id::{Epoch, FragmentId, Life, NodeId, StatementId, Term, Token};
