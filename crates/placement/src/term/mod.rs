//! Who coordinates a cluster, and which catalog is published (docs/transactions.md, "Terms and
//! coordinators").
//!
//! Each node is a [`Voter`], which keeps one catalog; the coordinator is a [`Leader`]. A catalog is
//! published when a majority has stored it. This is a replicated log of which only the last entry
//! is kept (Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", 2014).
//! A node coordinates because somebody says PROMOTE, or because a majority has missed the one before.

mod coordinator;
mod leader;
mod message;
#[cfg(test)]
mod model;
mod voter;

pub use coordinator::{CHANGES_MAX, Coordinator, Output, Ticket};
pub use leader::{Leader, Progress};
pub use message::{After, Answer, Ask, Place, Replicated, Stored};
pub use voter::Voter;
