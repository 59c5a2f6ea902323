//! The socket of a session, and what the client says while its statement runs.

use crate::server::Server;
use arrow::buffer::Buffer;
use hypostyle::{Connection, Poll, Progress};
use hypostyle_transport::{Channel, Frame, Hook};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::FrameType;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What a client may have sent ahead of the running statement's end: more than its window of rows.
const WAITING_BYTES_MAX: usize = 64 << 20;
const WAITING_FRAMES_MAX: usize = 1024;

/// For a client when the server stops.
const PATIENCE: Duration = Duration::from_secs(1);

/// Frames that are taken before the statement goes on.
const FRAMES_AT_ONCE: usize = 64;

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

pub struct Link {
    server: Arc<Server>,
    pub channel: Channel,
    /// The session's, which KILL and KILL QUERY act upon.
    connection: Option<Connection>,
    /// Frames for the running statement that came before they were asked for, and requests sent ahead.
    waiting: VecDeque<Frame>,
    /// Bytes of their bodies.
    waiting_bytes: usize,
    /// The running statement.
    query: u32,
    credit: i64,
    reason: Option<Reason>,
    started: Instant,
    /// When `Progress` was sent last; `None` when it is not wanted.
    told: Option<Instant>,
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
    pub fn new(server: Arc<Server>, mut channel: Channel) -> Self {
        // A client may leave a result unread for as long as it may say nothing.
        channel.set_stall_time(server.limits.idle_time);
        Self {
            server,
            channel,
            connection: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            query: 0,
            credit: 0,
            reason: None,
            started: Instant::now(),
            told: None,
            in_socket: Duration::ZERO,
            for_credit: Duration::ZERO,
        }
    }

    /// The client's next request; waits as long as a session may be idle.
    pub fn next_request(&mut self) -> Result<Frame> {
        if let Some(frame) = self.next_waiting() {
            return Ok(frame);
        }
        let (server, since, connection) = (self.server.clone(), Instant::now(), self.connection.clone());
        self.channel.receive(&mut || {
            if server.is_stopping() {
                return Err(stopping());
            }
            if connection.as_ref().is_some_and(Connection::is_killed) {
                return Err(killed());
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
    pub fn begin(&mut self, query: u32, credit: u64, progress: bool) {
        self.query = query;
        self.credit = i64::try_from(credit).unwrap_or(i64::MAX);
        self.reason = None;
        self.started = Instant::now();
        self.told = progress.then_some(self.started);
        (self.in_socket, self.for_credit) = (Duration::ZERO, Duration::ZERO);
    }

    pub fn end(&mut self) {
        self.query = 0;
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

    fn next_waiting(&mut self) -> Option<Frame> {
        let frame = self.waiting.pop_front()?;
        self.waiting_bytes -= frame.body.len();
        Some(frame)
    }

    /// Takes what has come; not for ever, when ever more comes.
    pub fn look(&mut self) -> Result<()> {
        let mut hook = self.hook();
        for _ in 0..FRAMES_AT_ONCE {
            if self.is_full() {
                // The rest waits in the socket, which the client feels.
                break;
            }
            let Some(frame) = self.channel.try_receive(&mut hook)? else { break };
            self.take(frame)?;
        }
        Ok(())
    }

    /// Whether so much waits that no more is taken. The last of it may be of any size: a row, or a request.
    fn is_full(&self) -> bool {
        self.waiting_bytes > WAITING_BYTES_MAX || self.waiting.len() >= WAITING_FRAMES_MAX
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
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
            _ if self.is_full() => {
                return Err(Error::protocol("the client sends more than it may while a statement runs"));
            }
            _ => {
                self.waiting_bytes += frame.body.len();
                self.waiting.push_back(frame);
            }
        }
        Ok(())
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

    /// The next frame of the running statement that the client sends by itself: a chunk, an answer.
    pub fn next_of_statement(&mut self) -> Result<Frame> {
        loop {
            self.interrupted()?;
            if let Some(frame) = self.next_waiting() {
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
