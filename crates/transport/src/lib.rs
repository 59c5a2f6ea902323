//! Frames over TCP, TLS and Unix sockets, for both sides of a connection (docs/protocol.md §1, §2).
//!
//! One thread owns a [`Transport`] and both reads and writes: there is no lock and no second thread to wake. Whenever it would have to
//! wait for the peer it waits at most a twentieth of a second at a time, or a quarter for one that is silent, and calls the
//! owner's hook in between, which may end the wait with an error; while a write waits, frames that arrive are taken into an inbox, so that two sides that both
//! write never wait for each other. A [`Channel`] goes on over a new socket when the old one breaks.

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

/// How long a wait lasts before the owner is asked again.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// The same for a peer that has been silent for longer than [`SILENCE`]: many sessions only wait.
const SILENT_WAIT_INTERVAL: Duration = Duration::from_millis(250);

const SILENCE: Duration = Duration::from_secs(2);

/// Called while a transport waits; an error ends the wait with it.
pub type Hook<'a> = &'a mut dyn FnMut() -> hypostyle_types::Result<()>;
