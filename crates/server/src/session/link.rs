//! The socket of a session, and what the client says while its statement runs.

use super::pulse::PULSE_INTERVAL;
use crate::server::Server;
use arrow::buffer::Buffer;
use hypostyle::{Connection, Poll, Progress};
use hypostyle_sync::Mutex;
use hypostyle_transport::{Channel, Frame, Hook};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::FrameType;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Requests that a client may have sent ahead of the running statement's end; the last of them may
/// be of any size.
const AHEAD_BYTES_MAX: usize = 1 << 20;
const AHEAD_MAX: usize = 64;

/// The time for a client when the server stops.
const PATIENCE: Duration = Duration::from_secs(1);

/// Frames other than rows between two looks, far more than a client has to say: its end would stand
/// behind them for long.
const WORDS_AT_ONCE: usize = 4096;

/// Frames that a statement has not taken up, before more are read.
const ARRIVED_MAX: usize = 1 << 16;

/// The time for the last words to a client that may not listen.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// The time after which another node is gone whose system answers nothing: a second more than a node waits
/// for one that is silent.
const NODE_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Why a running statement has to end.
#[derive(Clone, Debug)]
pub enum Reason {
    Cancelled,
    TooLong(Duration),
    Stopping,
    Killed,
    /// The connection is of no use any more.
    Gone(Error),
}

/// What the client is to send by itself while its statement runs; who sends anything else is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Nothing,
    /// One frame, which may say that rows follow.
    Answer,
    /// Rows within a credit, and their end.
    Rows {
        credit: i64,
    },
}

pub struct Link {
    server: Arc<Server>,
    /// The client is another node of the cluster, which is answered as long as the server runs.
    is_of_node: bool,
    pub channel: Channel,
    /// The session's, which KILL and KILL QUERY act upon.
    connection: Option<Connection>,
    /// What the running statement expects, and has not taken up.
    arrived: VecDeque<Frame>,
    expected: Expected,
    /// Requests that were sent ahead, and the bytes of their bodies.
    ahead: VecDeque<Frame>,
    ahead_bytes: usize,
    /// The running statement.
    query: u32,
    credit: i64,
    reason: Option<Reason>,
    started: Instant,
    /// When `Progress` was sent last; `None` when it is not wanted.
    told: Option<Instant>,
    /// The client is told that the server is there while nothing else is said.
    pulsing: bool,
    /// Time spent in the socket and waiting for credit.
    pub in_socket: Duration,
    pub for_credit: Duration,
}

/// Has the connection look at the link while it waits.
pub fn install(link: &Arc<Mutex<Link>>, connection: &Connection) {
    link.lock().connection = Some(connection.clone());
    let link = Arc::downgrade(link);
    connection.set_poll(Some(Arc::new(move |progress| {
        let Some(link) = link.upgrade() else { return Poll::Interrupt };
        // Held by the thread that asks the client for a table: the wait is the client's.
        let Some(mut link) = link.try_lock() else { return Poll::Continue };
        link.poll(progress)
    })));
}

impl Link {
    pub fn new(server: Arc<Server>, mut channel: Channel, is_of_node: bool) -> Self {
        // A client may leave a result unread for as long as it may say nothing.
        channel.set_stall_time(server.limits.idle_time);
        channel.set_frame_time(Some(server.limits.message_time));
        // It has given up this node by then, and nobody wants what is computed for it.
        channel.set_answer_time(is_of_node.then_some(NODE_ANSWER_TIME));
        Self {
            server,
            is_of_node,
            channel,
            connection: None,
            arrived: VecDeque::new(),
            expected: Expected::Nothing,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            query: 0,
            credit: 0,
            reason: None,
            started: Instant::now(),
            told: None,
            pulsing: false,
            in_socket: Duration::ZERO,
            for_credit: Duration::ZERO,
        }
    }

    /// The client's next request; waits as long as a session may be idle.
    pub fn next_request(&mut self) -> Result<Frame> {
        let (server, since, connection) = (self.server.clone(), Instant::now(), self.connection.clone());
        let stays = self.is_of_node || connection.as_ref().is_some_and(Connection::is_in_transaction);
        // Who never pauses is not waited for.
        if server.must_end() || (!stays && server.is_over(false)) {
            return Err(stopping());
        }
        if connection.as_ref().is_some_and(Connection::is_killed) {
            return Err(killed());
        }
        if let Some(frame) = self.ahead.pop_front() {
            self.ahead_bytes -= frame.body.len();
            return Ok(frame);
        }
        let in_transaction =
            connection.as_ref().and_then(|connection| idle_transaction_time(&server, connection));
        self.channel.receive(&mut || {
            if server.is_over(stays) {
                return Err(stopping());
            }
            if connection.as_ref().is_some_and(Connection::is_killed) {
                return Err(killed());
            }
            if let Some(limit) = in_transaction.filter(|limit| since.elapsed() > *limit) {
                return Err(idle_in_transaction(limit));
            }
            match server.limits.idle_time.filter(|limit| since.elapsed() > *limit) {
                Some(limit) => Err(Error::new(
                    ErrorKind::Closed,
                    format!("the session has been idle for {} s", limit.as_secs_f64()),
                )
                .with_sqlstate("57P05")),
                None => Ok(()),
            }
        })
    }

    /// A statement begins.
    pub fn begin(&mut self, query: u32, credit: u64, progress: bool, expected: Expected) {
        self.query = query;
        self.expected = expected;
        self.credit = i64::try_from(credit).unwrap_or(i64::MAX);
        self.reason = None;
        self.started = Instant::now();
        self.told = progress.then_some(self.started);
        (self.in_socket, self.for_credit) = (Duration::ZERO, Duration::ZERO);
    }

    pub fn end(&mut self) {
        self.query = 0;
        self.expected = Expected::Nothing;
        self.arrived.clear();
    }

    /// The client is about to be asked for something.
    pub fn expect(&mut self, expected: Expected) {
        self.expected = expected;
    }

    /// Lets the client send so many bytes of rows, or more of them.
    pub fn grant(&mut self, query: u32, bytes: u64) -> Result<()> {
        if let Expected::Rows { credit } = &mut self.expected {
            *credit = credit.saturating_add_unsigned(bytes);
        }
        self.send(&wire::Credit { query, bytes }.frame())
    }

    pub fn reason(&self) -> Option<Reason> {
        self.reason.clone()
    }

    /// An interrupted statement's result, saying why it was interrupted.
    pub fn explained<T>(&self, result: Result<T>) -> Result<T> {
        let Err(error) = result else { return result };
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
        Err(match &self.reason {
            Some(Reason::TooLong(limit)) => too_long(*limit),
            Some(Reason::Stopping) => stopping(),
            Some(Reason::Killed) => killed(),
            Some(Reason::Gone(error)) => error.clone(),
            Some(Reason::Cancelled) | None => error,
        })
    }

    /// Called while the engine works.
    fn poll(&mut self, progress: &Progress) -> Poll {
        let looked = self.look().and_then(|()| self.tell(progress));
        if let Err(error) = looked {
            self.reason = Some(Reason::Gone(error));
        }
        self.check_limits();
        if self.reason.is_some() { Poll::Interrupt } else { Poll::Continue }
    }

    fn check_limits(&mut self) {
        let limit = self.server.limits.statement_time.filter(|limit| self.started.elapsed() > *limit);
        if let Some(limit) = limit {
            self.reason.get_or_insert(Reason::TooLong(limit));
        }
        if self.server.must_end() {
            self.reason.get_or_insert(Reason::Stopping);
        }
        // As far as the engine does not look at it, because it has nothing to do.
        let connection = self.connection.as_ref();
        if connection.is_some_and(Connection::is_killed) {
            self.reason.get_or_insert(Reason::Killed);
        } else if connection.is_some_and(Connection::is_interrupted) {
            self.reason.get_or_insert(Reason::Cancelled);
        }
    }

    /// What is looked at while the client is waited for.
    fn hook(&self) -> impl FnMut() -> Result<()> + use<> {
        let (server, connection) = (self.server.clone(), self.connection.clone());
        move || {
            if connection.as_ref().is_some_and(Connection::is_killed) {
                return Err(killed());
            }
            if server.must_end() { Err(stopping()) } else { Ok(()) }
        }
    }

    /// [`Self::hook`] where the statement may end by itself: between two frames.
    fn statement_hook(&self) -> impl FnMut() -> Result<()> + use<> {
        let (mut hook, connection) = (self.hook(), self.connection.clone());
        let (server, since, started) = (self.server.clone(), Instant::now(), self.started);
        move || {
            if connection.as_ref().is_some_and(Connection::is_interrupted) {
                return Err(cancelled());
            }
            if let Some(limit) = server.limits.statement_time.filter(|limit| started.elapsed() > *limit) {
                return Err(too_long(limit));
            }
            // A client that does not go on must not hold a server that stops.
            match server.is_stopping() && since.elapsed() > PATIENCE {
                true => Err(stopping()),
                false => hook(),
            }
        }
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// The connection's, which is let go when ever more comes.
    pub fn look(&mut self) -> Result<()> {
        let mut hook = self.hook();
        let mut words = 0;
        while words < WORDS_AT_ONCE {
            if self.arrived.len() >= ARRIVED_MAX {
                // Its end stands behind what is not read.
                return self.channel.notice_end(&mut hook);
            }
            let Some(frame) = self.channel.try_receive(&mut hook)? else { return Ok(()) };
            let before = self.arrived.len();
            self.take(frame)?;
            words += usize::from(self.arrived.len() == before);
        }
        let error = Error::protocol("the client sends more than it has to say while a statement runs");
        self.reason = Some(Reason::Gone(error.clone()));
        Err(error)
    }

    /// Whoever sends what cannot be is let go.
    fn take(&mut self, frame: Frame) -> Result<()> {
        let taken = self.take_frame(frame);
        if let Err(error) = &taken {
            self.reason = Some(Reason::Gone(error.clone()));
        }
        taken
    }

    fn take_frame(&mut self, frame: Frame) -> Result<()> {
        match frame.frame_type {
            FrameType::Cancel => {
                if wire::Cancel::decode(&frame.body)?.0 == self.query {
                    self.reason = Some(Reason::Cancelled);
                }
            }
            FrameType::Bye => {
                self.channel.close();
                let error = Error::new(ErrorKind::Closed, "the client said goodbye");
                self.reason = Some(Reason::Gone(error));
            }
            FrameType::Credit => {
                let credit = wire::Credit::decode(&frame.body)?;
                if credit.query == self.query {
                    self.credit = self.credit.saturating_add_unsigned(credit.bytes);
                }
            }
            FrameType::Answer | FrameType::Chunk | FrameType::Dictionary | FrameType::End => {
                self.expected = self.after(&frame)?;
                self.arrived.push_back(frame);
            }
            FrameType::Query
            | FrameType::Append
            | FrameType::Call
            | FrameType::Catalog
            | FrameType::Describe
            | FrameType::Chunks => {
                if self.ahead.len() >= AHEAD_MAX || self.ahead_bytes > AHEAD_BYTES_MAX {
                    let message = "the client sends more requests than may wait while a statement runs";
                    return Err(Error::protocol(message));
                }
                self.ahead_bytes += frame.body.len();
                self.ahead.push_back(frame);
            }
            other => return Err(Error::protocol(format!("a {other:?} frame while a statement runs"))),
        }
        Ok(())
    }

    /// What is expected behind a frame.
    ///
    /// # Errors
    /// That nobody has asked for it.
    fn after(&self, frame: &Frame) -> Result<Expected> {
        match (self.expected, frame.frame_type) {
            (Expected::Answer, FrameType::Answer) => Ok(Expected::Rows { credit: 0 }),
            (Expected::Rows { credit: credit @ 1.. }, FrameType::Chunk | FrameType::Dictionary) => {
                Ok(Expected::Rows { credit: credit - frame.body.len() as i64 })
            }
            (Expected::Rows { .. }, FrameType::End) => Ok(Expected::Nothing),
            (_, other) => Err(Error::protocol(format!("a {other:?} frame that nobody has asked for"))),
        }
    }

    fn tell(&mut self, progress: &Progress) -> Result<()> {
        if self.told.is_none_or(|told| told.elapsed() < PROGRESS_INTERVAL) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let progress = wire::Progress {
            query: self.query,
            done: progress.rows_done,
            total: progress.rows_total,
            elapsed: progress.elapsed,
        };
        self.send(&progress.frame())
    }

    /// A call begins to be computed: the client is told that the server is there.
    pub fn begin_call(&mut self) {
        self.pulsing = true;
    }

    /// A call has been computed.
    pub fn end_call(&mut self) {
        self.pulsing = false;
    }

    /// Tells the client that the server is there, unless it has heard something meanwhile.
    pub fn pulse(&mut self) {
        if !self.pulsing || self.told.is_none_or(|told| told.elapsed() < PULSE_INTERVAL / 2) {
            return;
        }
        let known = self.connection.as_ref().and_then(Connection::progress).unwrap_or_default();
        // The running statement is told of the error when it looks at the link.
        let _gone = self.tell(&Progress { elapsed: self.started.elapsed(), ..known });
    }

    /// The next frame of the running statement that the client sends by itself: a chunk, an answer.
    ///
    /// # Errors
    /// `Internal` where nothing comes any more: the statement is over.
    pub fn next_of_statement(&mut self, query: u32) -> Result<Frame> {
        if self.query != query {
            return Err(Error::internal("rows of the client are read after the answer, when no more come"));
        }
        loop {
            self.interrupted()?;
            if let Some(frame) = self.arrived.pop_front() {
                return Ok(frame);
            }
            let mut hook = self.statement_hook();
            let frame = self.channel.receive(&mut hook)?;
            self.take(frame)?;
        }
    }

    /// # Errors
    /// Why the running statement has to end, if it has to.
    pub fn interrupted(&mut self) -> Result<()> {
        self.check_limits();
        match &self.reason {
            None => Ok(()),
            Some(Reason::Gone(error)) => Err(error.clone()),
            Some(_) => self.explained(Err(cancelled())),
        }
    }

    pub fn has_no_credit(&self) -> bool {
        self.credit <= 0
    }

    /// Waits until the client has granted credit, then takes `bytes` from it.
    pub fn pay(&mut self, bytes: usize) -> Result<()> {
        self.look()?;
        let since = Instant::now();
        while self.credit <= 0 {
            self.interrupted()?;
            let mut hook = self.statement_hook();
            let frame = self.channel.receive(&mut hook)?;
            self.take(frame)?;
        }
        self.for_credit += since.elapsed();
        self.interrupted()?;
        self.credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Sends the last frame, to a client that may take nothing.
    pub fn send_last(&mut self, bytes: &[u8]) {
        let since = Instant::now();
        let _gone = self.channel.send(bytes, &mut || match since.elapsed() < GOODBYE_TIME {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Connection, "the client takes nothing")),
        });
    }

    /// Sends whole frames.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.sending(bytes.len(), |channel, hook| channel.send(bytes, hook))
    }

    /// Sends buffers that are whole frames together.
    pub fn send_buffers(&mut self, buffers: Vec<Buffer>) -> Result<()> {
        let length = buffers.iter().map(Buffer::len).sum();
        self.sending(length, |channel, hook| channel.send_buffers(buffers, hook))
    }

    /// Sends the header and body of a frame, and descriptors with them.
    pub fn send_with_descriptors(
        &mut self,
        header: &[u8],
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        self.sending(header.len() + body.len(), |channel, hook| {
            channel.send_with_descriptors(&[header, body], descriptors, hook)
        })
    }

    fn sending(
        &mut self,
        bytes: usize,
        send: impl FnOnce(&mut Channel, Hook<'_>) -> Result<()>,
    ) -> Result<()> {
        let (since, mut hook) = (Instant::now(), self.hook());
        let result = send(&mut self.channel, &mut hook);
        self.in_socket += since.elapsed();
        self.server.metrics.bytes_sent.inc_by(bytes as u64);
        if let Err(error) = &result {
            // A frame that was not sent whole cannot be followed by another.
            self.reason = Some(Reason::Gone(error.clone()));
        }
        result
    }
}

/// How long a session may be idle that has a transaction open, as the server and the session itself have it.
pub fn idle_transaction_time(server: &Server, connection: &Connection) -> Option<Duration> {
    if !connection.is_in_transaction() {
        return None;
    }
    let own = connection.postgres_settings().ok();
    let own = own.and_then(|settings| settings.time("idle_in_transaction_session_timeout"));
    [server.limits.idle_transaction_time, own].into_iter().flatten().min()
}

pub fn idle_in_transaction(limit: Duration) -> Error {
    let message = format!(
        "the session has been idle for {} s with a transaction open, which is rolled back",
        limit.as_secs_f64()
    );
    Error::new(ErrorKind::Closed, message).with_sqlstate("25P03")
}

fn too_long(limit: Duration) -> Error {
    let message =
        format!("the statement ran longer than the {} s that this server allows", limit.as_secs_f64());
    Error::new(ErrorKind::Interrupted, message)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Interrupted, "the statement was cancelled")
}

fn killed() -> Error {
    Error::new(ErrorKind::Closed, "the session was ended by KILL").with_sqlstate("57P01")
}

fn stopping() -> Error {
    Error::new(ErrorKind::Closed, "the server is stopping").with_sqlstate("57P01")
}
