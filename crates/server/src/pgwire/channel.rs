//! Between a session, which blocks on a thread of its own, and its socket, which is served asynchronously: messages
//! come in and bytes go out through channels of few places, so that neither side runs ahead of the other.

use super::LOOK_INTERVAL;
use super::message::Message;
use super::reply::Replies;
use crate::Server;
use bytes::Bytes;
use hypostyle::Connection;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender};

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

/// What the client says. The messages of one read come together.
pub(super) struct Input {
    receiver: Receiver<Vec<Result<Message>>>,
    waiting: VecDeque<Result<Message>>,
    runtime: Handle,
    server: Arc<Server>,
    connection: Connection,
}

impl Input {
    pub fn new(
        receiver: Receiver<Vec<Result<Message>>>,
        runtime: Handle,
        server: Arc<Server>,
        connection: Connection,
    ) -> Self {
        Self { receiver, waiting: VecDeque::new(), runtime, server, connection }
    }

    /// Waits until there is a message.
    fn fill(&mut self) -> Result<(), Failure> {
        let since = Instant::now();
        while self.waiting.is_empty() {
            let waiting = async { tokio::time::timeout(LOOK_INTERVAL, self.receiver.recv()).await };
            match self.runtime.block_on(waiting) {
                Ok(received) => self.waiting.extend(received.ok_or(Failure::Gone)?),
                Err(_) => self.check_end(since).map_err(Failure::Fatal)?,
            }
        }
        Ok(())
    }

    /// # Errors
    /// Why a session ends whose client says nothing.
    fn check_end(&self, since: Instant) -> Result<()> {
        if self.server.is_stopping() {
            let message = "terminating connection because the server is stopping";
            return Err(Error::new(ErrorKind::Closed, message).with_sqlstate("57P01"));
        }
        if self.connection.is_killed() {
            let message = "terminating connection because the session was ended by KILL";
            return Err(Error::new(ErrorKind::Closed, message).with_sqlstate("57P01"));
        }
        match self.server.limits.idle_time.filter(|limit| since.elapsed() > *limit) {
            Some(limit) => Err(idle_for_too_long(limit)),
            None => Ok(()),
        }
    }

    pub fn next(&mut self) -> Result<Message, Failure> {
        self.fill()?;
        self.waiting.pop_front().ok_or(Failure::Gone)?.map_err(Failure::Fatal)
    }

    /// Whether the next message ends a group of messages.
    pub fn sync_is_next(&mut self) -> Result<bool, Failure> {
        self.fill()?;
        Ok(matches!(self.waiting.front(), Some(Ok(Message::Sync))))
    }
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
