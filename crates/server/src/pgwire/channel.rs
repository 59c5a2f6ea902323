//! Channels between a session, which blocks on a thread of its own, and its socket, which is served
//! asynchronously: messages come in and bytes go out through few places, so that neither side runs
//! ahead of the other.

use super::message::Message;
use super::presence::Presence;
use super::reply::Replies;
use crate::Server;
use crate::session::{idle_in_transaction, idle_transaction_time};
use bytes::Bytes;
use hypostyle::{Connection, Held};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender};

/// The time between two looks whether a session has to end.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of replies that are sent on before the client asks.
const REPLY_BYTES: usize = 64 << 10;

/// Why a session stops doing what it does.
#[derive(Debug)]
pub(super) enum Failure {
    /// The client is told; the session goes on.
    Statement(Error),
    /// The client is told, and the session ends.
    Fatal(Error),
    /// There is no client any more.
    Gone,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

/// The messages of one read, and the room that they take.
pub(super) struct Batch {
    pub messages: Vec<Result<Message>>,
    pub room: OwnedSemaphorePermit,
    /// The memory of the session's that they take, if they are many or large.
    pub memory: Option<Held>,
}

/// What the client says.
pub(super) struct Input {
    receiver: Receiver<Batch>,
    waiting: VecDeque<Result<Message>>,
    /// The room of the messages that wait.
    room: Option<(OwnedSemaphorePermit, Option<Held>)>,
    runtime: Handle,
    server: Arc<Server>,
    connection: Connection,
    pub presence: Arc<Presence>,
    /// When a statement that takes what the client says was last asked whether it has to end.
    looked: Instant,
}

impl Input {
    pub fn new(
        receiver: Receiver<Batch>,
        runtime: Handle,
        server: Arc<Server>,
        connection: Connection,
        presence: Arc<Presence>,
    ) -> Self {
        let (waiting, looked) = (VecDeque::new(), Instant::now());
        Self { receiver, waiting, room: None, runtime, server, connection, presence, looked }
    }

    /// Waits until there is a message, `in_transaction` so long.
    fn fill(&mut self, in_transaction: Option<Duration>) -> Result<(), Failure> {
        let since = Instant::now();
        while self.waiting.is_empty() {
            self.receive(since)?;
            let limit = in_transaction.filter(|limit| self.waiting.is_empty() && since.elapsed() > *limit);
            if let Some(limit) = limit {
                return Err(Failure::Fatal(idle_in_transaction(limit)));
            }
        }
        Ok(())
    }

    /// Waits for messages until it is time to look around. The client has said nothing `since` then.
    fn receive(&mut self, since: Instant) -> Result<(), Failure> {
        self.room = None;
        let waiting = async { tokio::time::timeout(LOOK_INTERVAL, self.receiver.recv()).await };
        match self.runtime.block_on(waiting) {
            Ok(received) => {
                let Batch { messages, room, memory } = received.ok_or(Failure::Gone)?;
                self.waiting.extend(messages);
                self.room = Some((room, memory));
                Ok(())
            }
            Err(_) => self.check_end(since).map_err(Failure::Fatal),
        }
    }

    /// # Errors
    /// Why a session ends whose client says nothing.
    fn check_end(&self, since: Instant) -> Result<()> {
        if self.server.is_over(self.connection.is_in_transaction()) {
            return Err(stopping());
        }
        if self.connection.is_killed() {
            return Err(killed());
        }
        match self.server.limits.idle_time.filter(|limit| since.elapsed() > *limit) {
            Some(limit) => Err(idle_for_too_long(limit)),
            None => Ok(()),
        }
    }

    /// What the client says while no statement runs. `between`: nothing is begun that it may want to end.
    pub fn next_request(&mut self, between: bool) -> Result<Message, Failure> {
        // Who never pauses is not waited for.
        let may_end = between && !self.connection.is_in_transaction();
        if self.server.must_end() || (may_end && self.server.is_over(false)) {
            return Err(Failure::Fatal(stopping()));
        }
        let in_transaction = idle_transaction_time(&self.server, &self.connection);
        self.fill(in_transaction)?;
        self.next()
    }

    pub fn next(&mut self) -> Result<Message, Failure> {
        self.fill(None)?;
        // What has been sent ahead by a client that is gone is not begun any more.
        if self.presence.is_over() {
            return Err(Failure::Gone);
        }
        self.waiting.pop_front().ok_or(Failure::Gone)?.map_err(Failure::Fatal)
    }

    /// What the client says while a statement waits for it, which ends when it is interrupted or has
    /// taken too long.
    pub fn next_of_statement(&mut self) -> Result<Message, Failure> {
        let since = Instant::now();
        loop {
            // Also where the client never pauses.
            if self.looked.elapsed() >= LOOK_INTERVAL {
                self.looked = Instant::now();
                if self.connection.is_killed() {
                    return Err(Failure::Fatal(killed()));
                }
                self.connection.check_interrupt()?;
            }
            if !self.waiting.is_empty() {
                return self.next();
            }
            self.receive(since)?;
        }
    }

    /// Whether the next message ends a group of messages.
    pub fn sync_is_next(&mut self) -> Result<bool, Failure> {
        self.fill(None)?;
        Ok(matches!(self.waiting.front(), Some(Ok(Message::Sync))))
    }
}

/// Why a session ends when its server does.
pub(super) fn stopping() -> Error {
    let message = "terminating connection because the server is stopping";
    Error::new(ErrorKind::Closed, message).with_sqlstate("57P01")
}

fn killed() -> Error {
    let message = "terminating connection because the session was ended by KILL";
    Error::new(ErrorKind::Closed, message).with_sqlstate("57P01")
}

fn idle_for_too_long(idle: Duration) -> Error {
    Error::new(ErrorKind::Connection, format!("the session has said nothing for {} s", idle.as_secs()))
        .with_sqlstate("57P05")
}

/// What the server says.
pub(super) struct Output {
    pub replies: Replies,
    sender: Sender<Bytes>,
}

impl Output {
    pub fn new(sender: Sender<Bytes>) -> Self {
        Self { replies: Replies::default(), sender }
    }

    /// Sends what there is, when it is much.
    pub fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.replies.bytes() < REPLY_BYTES { Ok(()) } else { self.flush() }
    }

    pub fn flush(&mut self) -> Result<(), Failure> {
        match self.replies.bytes() {
            0 => Ok(()),
            _ => self.sender.blocking_send(self.replies.take()).map_err(|_| Failure::Gone),
        }
    }
}
