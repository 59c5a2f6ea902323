//! Frames over TCP, TLS and Unix sockets, for both sides of a connection (docs/protocol.md §1, §2).
//!
//! One thread owns a [`Transport`] and both reads and writes, so there is no lock and no second
//! thread to wake. When it has to wait for the peer, it waits at most a twentieth of a second at a
//! time, or a quarter for a silent peer. In between it calls the owner's hook, which may end the
//! wait with an error. While a write waits, arriving frames go into an inbox, so that two sides
//! that both write never wait for each other. A [`Channel`] continues over a new socket when the
//! old one breaks.

#![forbid(unsafe_code)]
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

mod body;
mod channel;
mod frames;
mod pool;
mod socket;
mod streams;

pub use channel::{Channel, Reconnect};
pub use frames::{Frame, Transport};
pub use pool::{Pending, Pool};
pub use socket::{End, Socket, end_of, keep_alive};
pub use streams::Numbered;

use std::time::Duration;

/// The length of a wait before the owner is asked again.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// The same for a peer that has been silent for longer than [`SILENCE`], because many sessions only
/// wait.
const SILENT_WAIT_INTERVAL: Duration = Duration::from_millis(250);

const SILENCE: Duration = Duration::from_secs(2);

/// A function that is called while a transport waits. Its error ends the wait.
pub type Hook<'a> = &'a mut dyn FnMut() -> hypostyle_types::Result<()>;
