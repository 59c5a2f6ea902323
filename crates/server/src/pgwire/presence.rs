//! Whether a client is still there: asked of its socket, whatever it has sent ahead and nobody has read.

use hypostyle_transport::{End, end_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A client that says no more may still wait for an answer, and one that was killed looks the same:
/// so long it is waited with.
const LAST_ANSWERS_TIME: Duration = Duration::from_millis(400);

pub(super) struct Presence {
    socket: OwnedFd,
    left: OnceLock<Instant>,
}

impl Presence {
    /// # Errors
    /// That the process has no descriptors left.
    pub fn of(socket: &TcpStream) -> std::io::Result<Self> {
        Ok(Self { socket: socket.as_fd().try_clone_to_owned()?, left: OnceLock::new() })
    }

    /// The client says no more.
    pub fn leave(&self) {
        self.left.get_or_init(Instant::now);
    }

    /// Whether what it has asked for is of no use any more.
    pub fn is_over(&self) -> bool {
        match end_of(&self.socket) {
            Some(End::Cut) => return true,
            Some(End::Said) => self.leave(),
            None => {}
        }
        self.left.get().is_some_and(|left| left.elapsed() > LAST_ANSWERS_TIME)
    }
}
