//! What goes between a session and its client. The session's thread reads and writes the socket itself:
//! a short statement needs no other thread, and no switch to one.
//!
//! A client may send messages ahead. They are read when the session wants the next one, and besides
//! while a statement keeps the session or the client takes no replies, so that a client that first says all
//! and then listens does not wait forever.

use super::message::{Message, announced, announced_before, take};
use super::reply::Replies;
use super::socket::{READ_BYTES, SessionSocket};
use crate::Server;
use crate::session::{idle_in_transaction, idle_transaction_time};
use bytes::BytesMut;
use hypostyle::{Connection, Held};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::event::PollFlags;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two looks whether a session has to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same of a session whose client has said nothing for some time: there may be thousands of them.
const IDLE_INTERVAL: Duration = Duration::from_millis(900);
const IDLE_TIME: Duration = Duration::from_secs(5);

/// The time between two looks whether a client is there that has sent messages ahead, and whether a
/// COPY that waits for its client has been cancelled.
pub(super) const PRESENCE_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes of replies that are sent on before the client asks.
const REPLY_BYTES: usize = 64 << 10;

/// A client that takes nothing for so long is given up.
const STALL_TIME: Duration = Duration::from_secs(120);

/// A client that takes its replies slowly has so long for them when its session has to end.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);

/// Bytes of messages that wait for the session; one message may have more.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// So much of it takes no memory of the session's; what takes some is called so.
const WAITING_BYTES_FREE: usize = 1 << 20;
const WAITS: &str = "messages of a client";

/// Why a session stops doing what it does.
#[derive(Debug)]
pub(super) enum Failure {
    /// The client is told; the session goes on.
    Statement(Error),
    /// The client has given up what it sent, and is told so in words of its own; the session goes on.
    GivenUp(Error),
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

/// What the client says.
pub(super) struct Input {
    socket: Arc<SessionSocket>,
    /// Where bytes are read to.
    room: Box<[u8]>,
    /// What has been read and not yet been cut into messages.
    received: BytesMut,
    /// The next message, once it is all there.
    next: Option<Result<Message>>,
    /// The memory of the session's that messages take, if they are many or large, and its bytes.
    memory: Vec<Held>,
    held: usize,
    /// The client says no more.
    has_ended: bool,
    /// When it was looked last whether the client is there.
    looked: Instant,
    /// When something has come last.
    heard: Instant,
    server: Arc<Server>,
    connection: Connection,
}

/// What a session waits for.
#[derive(Clone, Copy)]
enum Waits {
    /// A request, in a transaction so long.
    Idle(Option<Duration>),
    /// What belongs to a statement that has begun.
    Within,
    /// The rows of a COPY, which can be cancelled.
    Copy,
}

impl Input {
    /// `received` is what came together with the end of the startup.
    pub fn new(
        socket: Arc<SessionSocket>,
        received: BytesMut,
        server: Arc<Server>,
        connection: Connection,
    ) -> Self {
        Self {
            socket,
            room: vec![0; READ_BYTES].into_boxed_slice(),
            received,
            next: None,
            memory: Vec::new(),
            held: 0,
            has_ended: false,
            looked: Instant::now(),
            heard: Instant::now(),
            server,
            connection,
        }
    }

    /// Waits until there is a message.
    fn fill(&mut self, waits: Waits) -> Result<(), Failure> {
        if self.next.is_some() {
            return Ok(());
        }
        self.let_go();
        let since = Instant::now();
        loop {
            self.next = take(&mut self.received).transpose();
            match &self.next {
                None => {}
                Some(Ok(_)) => return Ok(()),
                Some(Err(_)) => {
                    // What follows cannot be understood.
                    self.received.clear();
                    self.has_ended = true;
                    return Ok(());
                }
            }
            let announced = announced(&self.received);
            if announced > WAITING_BYTES_FREE {
                self.hold(announced).map_err(Failure::Fatal)?;
            }
            if !self.read()? {
                self.wait(waits, since)?;
            }
        }
    }

    /// Waits for bytes. Looks whether the session has to end if none come.
    fn wait(&self, waits: Waits, since: Instant) -> Result<(), Failure> {
        let interval = match waits {
            Waits::Copy => PRESENCE_INTERVAL,
            Waits::Idle(_) if since.elapsed() > IDLE_TIME => IDLE_INTERVAL,
            Waits::Idle(_) | Waits::Within => LOOK_INTERVAL,
        };
        let is_there = self.socket.wait(PollFlags::IN, interval);
        let waited = since.elapsed();
        // A message that comes byte by byte keeps the session no longer than none.
        if is_there && waited < interval {
            return Ok(());
        }
        self.check_end(waits, waited).map_err(Failure::Fatal)?;
        // The time in which nobody read does not count.
        let (silent, limit) = (self.heard.max(since).elapsed(), self.server.limits.message_time);
        if !self.received.is_empty() && silent > limit {
            return Err(Failure::Fatal(unfinished(limit)));
        }
        match waits {
            Waits::Idle(Some(limit)) if waited > limit => Err(Failure::Fatal(idle_in_transaction(limit))),
            Waits::Copy => self.check_copy(),
            Waits::Idle(_) | Waits::Within => Ok(()),
        }
    }

    /// Reads what has come; `false` if nothing has.
    fn read(&mut self) -> Result<bool, Failure> {
        if self.has_ended {
            return Err(Failure::Gone);
        }
        match self.socket.read(&mut self.room, &mut self.received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Ok(0) | Err(_) => {
                self.has_ended = true;
                self.socket.leave();
                Err(Failure::Gone)
            }
            Ok(_) => {
                self.heard = Instant::now();
                Ok(true)
            }
        }
    }

    /// Reads messages that the session does not want yet, and says whether there is room for more.
    pub fn read_ahead(&mut self) -> bool {
        let mut most = WAITING_BYTES_MAX;
        loop {
            let bytes = self.received.len() + READ_BYTES;
            if bytes > most {
                // One message may be longer than all together may be.
                most = announced_before(&self.received, WAITING_BYTES_MAX).max(WAITING_BYTES_MAX);
                if self.received.len() >= most {
                    return false;
                }
            }
            // Where there is no memory, nothing else waits.
            if bytes > WAITING_BYTES_FREE && self.hold(bytes).is_err() {
                return false;
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Takes memory of the session's for so many bytes in total.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.held {
            let more = (bytes - self.held).max(WAITING_BYTES_FREE);
            self.memory.extend(self.connection.hold(WAITS, more as u64)?);
            self.held += more;
        }
        Ok(())
    }

    /// Gives memory back that the messages took which have been served.
    fn let_go(&mut self) {
        if self.held > 0 && self.received.len().max(announced(&self.received)) <= WAITING_BYTES_FREE {
            self.memory.clear();
            self.held = 0;
            // What is left lies at the end of all that there was.
            self.received = BytesMut::from(&self.received[..]);
        }
    }

    /// # Errors
    /// Why a session ends whose client says nothing.
    fn check_end(&self, waits: Waits, waited: Duration) -> Result<()> {
        let is_over = match waits {
            // COPY is a statement that runs, and its client may pause between its rows.
            Waits::Copy => self.server.must_end(),
            Waits::Idle(_) | Waits::Within => self.server.is_over(self.connection.is_in_transaction()),
        };
        if is_over {
            return Err(stopping());
        }
        if self.connection.is_killed() {
            return Err(killed());
        }
        match self.server.limits.idle_time.filter(|limit| waited > *limit) {
            Some(limit) => Err(idle_for_too_long(limit)),
            None => Ok(()),
        }
    }

    /// # Errors
    /// Why a COPY ends whose client would go on.
    fn check_copy(&self) -> Result<(), Failure> {
        let interrupted = self.connection.check_interrupt();
        // These interrupt it, too.
        match (self.connection.is_killed(), self.server.must_end()) {
            (true, _) => Err(Failure::Fatal(killed())),
            (false, true) => Err(Failure::Fatal(stopping())),
            (false, false) => interrupted.map_err(Failure::Statement),
        }
    }

    /// What the client says while no statement runs. `between`: nothing is begun that it may want to end.
    pub fn next_request(&mut self, between: bool) -> Result<Message, Failure> {
        // Who never pauses is not waited for.
        let may_end = between && !self.connection.is_in_transaction();
        if self.server.must_end() || (may_end && self.server.is_over(false)) {
            return Err(Failure::Fatal(stopping()));
        }
        if self.connection.is_killed() {
            return Err(Failure::Fatal(killed()));
        }
        if self.next.is_none() {
            let in_transaction = idle_transaction_time(&self.server, &self.connection);
            self.fill(Waits::Idle(in_transaction))?;
        }
        self.take_next()
    }

    /// What the client says while a COPY takes its rows.
    pub fn next_of_copy(&mut self) -> Result<Message, Failure> {
        self.fill(Waits::Copy)?;
        // Rows that come one by one are many before the engine looks by itself. It is looked before the next
        // row is taken, which notes the time.
        if self.looked.elapsed() >= PRESENCE_INTERVAL {
            self.check_copy()?;
        }
        self.take_next()
    }

    fn take_next(&mut self) -> Result<Message, Failure> {
        // What has been sent ahead by a client that is gone is not begun any more.
        if self.looked.elapsed() >= PRESENCE_INTERVAL {
            if self.socket.is_over() {
                return Err(Failure::Gone);
            }
            self.looked = Instant::now();
        }
        self.next.take().ok_or(Failure::Gone)?.map_err(Failure::Fatal)
    }

    /// Whether the next message ends a group of messages.
    pub fn sync_is_next(&mut self) -> Result<bool, Failure> {
        self.fill(Waits::Within)?;
        Ok(matches!(self.next, Some(Ok(Message::Sync))))
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

fn unfinished(limit: Duration) -> Error {
    let message = format!("the rest of a message has not come for {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Connection, message)
}

/// What the server says.
pub(super) struct Output {
    pub replies: Replies,
    socket: Arc<SessionSocket>,
    /// The client's messages, which are read while it takes nothing.
    input: Arc<Mutex<Input>>,
    /// When it was looked last whether the session has to end.
    looked: Instant,
    server: Arc<Server>,
    connection: Connection,
}

impl Output {
    pub fn new(
        socket: Arc<SessionSocket>,
        input: Arc<Mutex<Input>>,
        server: Arc<Server>,
        connection: Connection,
    ) -> Self {
        Self { replies: Replies::default(), socket, input, looked: Instant::now(), server, connection }
    }

    /// Sends what there is, when it is much.
    ///
    /// # Errors
    /// Also `Fatal` when the session has to end: a client that takes rows slowly never keeps it waiting for
    /// long, and some thousand rows may take hours.
    pub fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.replies.bytes() < REPLY_BYTES {
            return Ok(());
        }
        self.flush()?;
        if self.looked.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        match (self.connection.is_killed(), self.server.must_end()) {
            (true, _) => Err(Failure::Fatal(killed())),
            (false, true) => Err(Failure::Fatal(stopping())),
            (false, false) => Ok(()),
        }
    }

    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.replies.bytes() == 0 {
            return Ok(());
        }
        let bytes = self.replies.take();
        self.send(&bytes)
    }

    /// # Errors
    /// `Gone` also when the client takes nothing for too long, or its session has to end.
    fn send(&self, bytes: &[u8]) -> Result<(), Failure> {
        let began = Instant::now();
        let (mut left, mut since, mut passed_on) = (bytes, began, self.socket.passed_on());
        loop {
            let written = match left.is_empty() {
                true => self.socket.flush().map(|()| 0),
                false => self.socket.write(left),
            };
            // TLS has taken all of it at once, and the client takes it little by little.
            let passed_before = std::mem::replace(&mut passed_on, self.socket.passed_on());
            if passed_on > passed_before {
                since = Instant::now();
            }
            match written {
                Ok(_) if left.is_empty() => return Ok(()),
                Ok(0) => return Err(Failure::Gone),
                Ok(length) => (left, since) = (&left[length..], Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(began, since)?,
                Err(_) => return Err(Failure::Gone),
            }
        }
    }

    /// Waits until the client takes more of what it began to take at some time; it has last taken some
    /// at another.
    fn wait(&self, began: Instant, since: Instant) -> Result<(), Failure> {
        let reads = self.input.try_lock().is_some_and(|mut input| input.read_ahead());
        let wanted = if reads { PollFlags::OUT | PollFlags::IN } else { PollFlags::OUT };
        // Who takes something, however little, is left in peace: it may have said all that it wants. Only a
        // session that has to end waits no longer than for a few words.
        let takes = self.socket.wait(wanted, LOOK_INTERVAL) && since.elapsed() < LOOK_INTERVAL;
        if takes && began.elapsed() < LAST_WORDS_TIME {
            return Ok(());
        }
        let has_to_end = self.connection.is_killed() || self.server.must_end();
        let is_left = !takes && (self.socket.is_over() || since.elapsed() > STALL_TIME);
        if has_to_end || is_left { Err(Failure::Gone) } else { Ok(()) }
    }
}
