//! Between a session, which blocks on a thread of its own, and its socket, which is served asynchronously: messages
//! come in and bytes go out through channels of few places, so that neither side runs ahead of the other.

use super::message::Message;
use super::reply::Replies;
use bytes::Bytes;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::time::Duration;
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
    idle_time: Option<Duration>,
}

impl Input {
    pub fn new(
        receiver: Receiver<Vec<Result<Message>>>,
        runtime: Handle,
        idle_time: Option<Duration>,
    ) -> Self {
        Self { receiver, waiting: VecDeque::new(), runtime, idle_time }
    }

    /// Waits until there is a message.
    fn fill(&mut self) -> Result<(), Failure> {
        while self.waiting.is_empty() {
            let received = match self.idle_time {
                None => self.receiver.blocking_recv(),
                Some(idle) => {
                    let waiting = async { tokio::time::timeout(idle, self.receiver.recv()).await };
                    self.runtime.block_on(waiting).map_err(|_| Failure::Fatal(idle_for_too_long(idle)))?
                }
            };
            self.waiting.extend(received.ok_or(Failure::Gone)?);
        }
        Ok(())
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
