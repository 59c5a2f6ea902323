//! Appends over several nodes that become visible together, without two-phase commit
//! (docs/transactions.md, "Appends over several nodes").
//!
//! A writer ([`Append`], [`CatchUp`]) is volatile: if its node dies, it is gone, and nothing of it
//! is visible or ever will be, unless its publication was stored. A replica ([`ReplicaState`]) is
//! durable: it is stored in the transaction that writes the rows, and has no other state.

mod catch_up;
mod message;
#[cfg(test)]
mod model;
mod replica;
mod writer;

pub use catch_up::CatchUp;
pub use message::{Effect, Outcome, Refusal, Reply, Request, Source};
pub use replica::{Decision, ReplicaState, Write};
pub use writer::{Append, Part};
