//! Sends and receives whole frames over a socket, inside TLS if it is used.

use crate::body::{Body, BodyMemory, append};
use crate::socket::{Socket, Stop, closed, failed, unasked};
use crate::{Hook, SILENCE, SILENT_WAIT_INTERVAL, WAIT_INTERVAL};
use arrow_buffer::Buffer;
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{
    FRAME_HEADER_BYTES, FrameHeader, FrameType, Full, HANDSHAKE_BYTES_MAX, PREFACE_BYTES, Preface,
};
use rustix::event::PollFlags;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::collections::VecDeque;
use std::io::{self, ErrorKind as IoErrorKind, IoSlice, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The bytes that are read at once when many small frames may come.
const READ_BYTES: usize = 64 << 10;

/// The bytes of a body that are read at once from a Unix socket: about what its buffer holds.
const UNIX_READ_BYTES: usize = 256 << 10;

/// The limit of the inbox while a write waits, plus one frame: more than a peer may send by its
/// credit (§6). If a peer sends more, nothing more is read until it has received what is being
/// written.
const INBOX_FRAMES_MAX: usize = 1024;
const INBOX_BYTES_MAX: usize = 32 << 20;

/// The number of slices that are given to the kernel at once (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// The bytes that go through TLS between two writes to the socket.
const TLS_BYTES: usize = 256 << 10;

/// How often it is looked at whether the peer's system answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    pub frame_type: FrameType,
    pub body: Buffer,
    pub descriptors: Vec<OwnedFd>,
    /// The number of descriptors that the peer sent. Fewer have come if this process may not open
    /// so many.
    pub descriptors_sent: usize,
}

/// A link that is full.
struct Filled {
    since: Instant,
    /// The bytes that it has to carry since then.
    bytes: u64,
}

/// A connection that sends and receives frames.
pub struct Transport {
    socket: Socket,
    tls: Option<Box<Connection>>,
    /// The bytes that were read and are not yet part of a returned frame.
    read: Vec<u8>,
    /// Says whether descriptors may come.
    takes_descriptors: bool,
    /// The descriptors that came with bytes of an incomplete frame.
    descriptors: Vec<OwnedFd>,
    inbox: VecDeque<Frame>,
    /// The bytes of the bodies in the inbox.
    inbox_bytes: usize,
    body_bytes_max: u32,
    /// The header of the frame whose body is being read, and the body until now.
    partial: Option<(FrameHeader, Body)>,
    memory: BodyMemory,
    /// The times of the last read and the last write.
    heard: Instant,
    moved: Instant,
    /// The time after which a write fails that moves no bytes.
    stall_time: Option<Duration>,
    /// The time after which a wait fails for the rest of a frame of which nothing comes, and since when it is
    /// waited for.
    frame_time: Option<Duration>,
    rest_since: Option<Instant>,
    /// The time after which the connection fails if the peer's system answers nothing, since when it was seen
    /// that it does not, and when that was looked at last.
    answer_time: Option<Duration>,
    unanswered_since: Option<Instant>,
    looked: Instant,
    /// The bytes that were sent while the link was full, and the time since when it is full.
    full: Full,
    filled: Option<Filled>,
    /// Says that the socket has ended or failed: nothing can be received or sent any more.
    broken: bool,
}

impl Transport {
    pub fn new(socket: Socket) -> Self {
        Self {
            socket,
            tls: None,
            read: Vec::with_capacity(READ_BYTES),
            takes_descriptors: false,
            descriptors: Vec::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            body_bytes_max: HANDSHAKE_BYTES_MAX,
            partial: None,
            memory: BodyMemory::default(),
            heard: Instant::now(),
            moved: Instant::now(),
            stall_time: None,
            frame_time: None,
            rest_since: None,
            answer_time: None,
            unanswered_since: None,
            looked: Instant::now(),
            full: Full::default(),
            filled: None,
            broken: false,
        }
    }

    /// Returns the transport inside TLS.
    pub fn with_tls(mut self, connection: impl Into<Connection>) -> Self {
        let mut connection = connection.into();
        connection.set_buffer_limit(None);
        self.tls = Some(Box::new(connection));
        self
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Says whether the socket itself has ended or failed, for another reason than invalid bytes.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Marks the socket as useless.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    fn stopped(&mut self, stop: Stop) -> Error {
        self.broken = true;
        match stop {
            Stop::Failed(error) => error,
            Stop::Wait | Stop::Closed => closed(),
        }
    }

    /// Returns the time at which the peer was last heard.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// Sets the time after which a write breaks the connection if the peer takes nothing. Without
    /// this time a write waits as long as there is a peer.
    pub(crate) fn set_stall_time(&mut self, time: Option<Duration>) {
        self.stall_time = time;
    }

    /// Sets the time after which the connection breaks if the peer has begun a frame and sends nothing more
    /// of it. Each byte begins it anew.
    pub(crate) fn set_frame_time(&mut self, time: Option<Duration>) {
        self.frame_time = time;
    }

    /// Sets the time after which the connection breaks if the peer's system acknowledges nothing of what is
    /// sent to it. The peer's program may let it wait as long as it likes.
    pub(crate) fn set_answer_time(&mut self, time: Option<Duration>) {
        self.answer_time = time;
        if let Some(time) = time {
            self.socket.ask_after(time);
        }
    }

    /// Looks from time to time whether the peer's system is there.
    fn check_answers(&mut self) -> Result<()> {
        let Some(time) = self.answer_time.filter(|_| self.looked.elapsed() > LOOK_INTERVAL) else {
            return Ok(());
        };
        self.looked = Instant::now();
        let Some(unanswered) = self.socket.unanswered_for() else {
            self.unanswered_since = None;
            return Ok(());
        };
        // A connection that was idle has had no answer for long when the first packet is lost.
        let since = *self.unanswered_since.get_or_insert(self.looked);
        if unanswered.min(since.elapsed()) <= time {
            return Ok(());
        }
        let message = format!("the other side has not answered for {} s", time.as_secs_f64());
        Err(self.stopped(Stop::Failed(Error::new(ErrorKind::Connection, message))))
    }

    /// Returns the bytes that were sent while the socket was full, and the time that this took.
    pub(crate) fn full(&self) -> Full {
        self.full
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the certificate that the peer has shown, as DER.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Returns the certificates that the peer has shown: its own, and those that lead to an authority.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_ref()?.peer_certificates()
    }

    /// Sets the largest length of a body that is accepted from now on.
    pub fn set_body_bytes_max(&mut self, length: u32) {
        self.body_bytes_max = length;
    }

    /// Accepts descriptors from now on. Until then a peer that sends some is refused.
    pub fn take_descriptors(&mut self) {
        self.takes_descriptors = true;
    }

    /// Returns the first byte of the connection, and leaves it to be read again.
    pub fn first_byte(&mut self, hook: Hook<'_>) -> Result<u8> {
        loop {
            let mut byte = [0; 1];
            match rustix::net::recv(
                &self.socket,
                &mut byte,
                rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT,
            ) {
                Ok((_, 0)) => return Err(closed()),
                Ok(_) => return Ok(byte[0]),
                Err(rustix::io::Errno::AGAIN) => self.wait(hook)?,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(&errno.into())),
            }
        }
    }

    /// Reads the client's preface.
    pub fn receive_preface(&mut self, hook: Hook<'_>) -> Result<Preface> {
        loop {
            if let Some(preface) = self.read.first_chunk() {
                let preface = Preface::decode(preface);
                self.read.drain(..PREFACE_BYTES);
                return preface;
            }
            match self.fill() {
                Ok(()) => {}
                Err(Stop::Wait) => self.wait(hook)?,
                Err(stop) => return Err(self.stopped(stop)),
            }
        }
    }

    /// Returns the next frame.
    ///
    /// # Errors
    /// `Connection` when the peer closes the connection or sends invalid bytes; or the error of the
    /// hook.
    pub fn receive(&mut self, hook: Hook<'_>) -> Result<Frame> {
        loop {
            if let Some(frame) = self.try_receive()? {
                return Ok(frame);
            }
            self.wait(hook)?;
        }
    }

    /// Returns the next frame if it is there.
    pub fn try_receive(&mut self) -> Result<Option<Frame>> {
        let Some(frame) = self.inbox.pop_front() else { return self.take_frame() };
        self.inbox_bytes -= frame.body.len();
        Ok(Some(frame))
    }

    fn take_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if self.partial.is_none()
                && let Some((header, rest)) = self.read.split_first_chunk()
            {
                let header = FrameHeader::decode(header, self.body_bytes_max)?;
                if header.descriptors > 0 && !self.takes_descriptors {
                    return Err(unasked());
                }
                let first = rest.get(..header.length as usize).unwrap_or(rest);
                let here = first.len();
                let body = self.memory.body(header.length as usize, first);
                self.read.drain(..FRAME_HEADER_BYTES + here);
                self.partial = Some((header, body));
            }
            if self.partial.as_ref().is_some_and(|(_, body)| body.is_whole())
                && let Some((header, body)) = self.partial.take()
            {
                return self.complete(header, body).map(Some);
            }
            self.check_descriptors()?;
            match self.fill() {
                Ok(()) => (self.heard, self.rest_since) = (Instant::now(), None),
                Err(Stop::Wait) => return self.check_answers().map(|()| None),
                Err(stop) => return Err(self.stopped(stop)),
            }
        }
    }

    fn complete(&mut self, header: FrameHeader, body: Body) -> Result<Frame> {
        let sent = usize::from(header.descriptors);
        if sent > 0 {
            self.check_descriptors_of(sent)?;
        }
        // Otherwise they belong to a later frame, and have come already.
        let descriptors = if sent > 0 { std::mem::take(&mut self.descriptors) } else { Vec::new() };
        Ok(Frame { frame_type: header.frame_type, body: body.finish(), descriptors, descriptors_sent: sent })
    }

    /// Checks the descriptors. All earlier frames have been returned, so they can only belong to
    /// the frame that is being read.
    fn check_descriptors(&mut self) -> Result<()> {
        let announced = self.partial.as_ref().map_or(0, |(header, _)| usize::from(header.descriptors));
        self.check_descriptors_of(announced)
    }

    fn check_descriptors_of(&mut self, announced: usize) -> Result<()> {
        let found = self.descriptors.len();
        if found > announced {
            self.descriptors.clear();
            return Err(Error::protocol(format!(
                "{found} descriptors came where {announced} were announced"
            )));
        }
        Ok(())
    }

    /// Reads once: into the body that is being read, or else into the buffer.
    fn fill(&mut self) -> Result<(), Stop> {
        let is_unix = self.socket.is_unix();
        let Self { socket, partial, tls, read, .. } = self;
        let descriptors = self.takes_descriptors.then_some(&mut self.descriptors);
        let read_unix = |room: &mut [u8]| socket.read_with_descriptors(room, descriptors);
        let Some((_, body)) = partial else {
            read.reserve(READ_BYTES);
            return match tls {
                Some(tls) => append(read, READ_BYTES, |room| read_tls(socket, tls, room)),
                // A frame's descriptors come with its first byte after the header: reading only
                // headers here keeps them with their frame.
                None if is_unix => append(read, READ_BYTES / 16, read_unix),
                None => socket.read(read).map(drop),
            };
        };
        match tls {
            Some(tls) => body.read_by(READ_BYTES, |room| read_tls(socket, tls, room)),
            None if is_unix => body.read_by(UNIX_READ_BYTES, read_unix),
            None => body.read(socket),
        }
    }

    /// Says whether bytes come within a short time.
    pub(crate) fn is_readable_within(&self, time: Duration) -> Result<bool> {
        if !self.inbox.is_empty() {
            return Ok(true);
        }
        self.socket.is_readable_within(time)
    }

    /// Notices a peer that has begun a frame and does not go on. What had come has been read: the time in
    /// which nobody read does not count.
    fn check_rest(&mut self) -> Result<()> {
        if self.partial.is_none() && self.read.is_empty() {
            return Ok(());
        }
        let since = *self.rest_since.get_or_insert_with(Instant::now);
        let Some(time) = self.frame_time.filter(|time| since.elapsed() > *time) else { return Ok(()) };
        let message = format!("the rest of a frame has not come for {} s", time.as_secs_f64());
        Err(self.stopped(Stop::Failed(Error::new(ErrorKind::Connection, message))))
    }

    /// Waits for a while for the peer to send something.
    pub(crate) fn wait(&mut self, hook: Hook<'_>) -> Result<()> {
        self.check_rest()?;
        let is_silent = self.heard.elapsed() > SILENCE;
        self.socket.wait(PollFlags::IN, if is_silent { SILENT_WAIT_INTERVAL } else { WAIT_INTERVAL })?;
        hook()
    }

    /// Sends bytes that are whole frames.
    pub fn send(&mut self, bytes: &[u8], hook: Hook<'_>) -> Result<()> {
        self.send_pieces(&[bytes], &[], hook)
    }

    /// Sends pieces that together are whole frames. Descriptors go with the first byte of the
    /// second piece, the body.
    pub fn send_pieces(
        &mut self,
        pieces: &[&[u8]],
        descriptors: &[BorrowedFd<'_>],
        hook: Hook<'_>,
    ) -> Result<()> {
        self.moved = Instant::now();
        self.judge_link();
        let sent = self.write_pieces(pieces, descriptors, hook);
        self.filled = self.judge_link();
        sent
    }

    /// Counts what the link has carried since it was full, if it still is.
    fn judge_link(&mut self) -> Option<Filled> {
        let (before, now) = (self.filled.take(), self.filled()?);
        if let Some(before) = before {
            self.full.bytes += before.bytes.saturating_sub(now.bytes);
            self.full.time += now.since.duration_since(before.since);
        }
        Some(now)
    }

    /// Says whether the link has more to carry at once than it can.
    fn filled(&self) -> Option<Filled> {
        let bytes = self.socket.unsent_bytes().filter(|bytes| *bytes > 0)?;
        Some(Filled { since: Instant::now(), bytes })
    }

    fn write_pieces(
        &mut self,
        pieces: &[&[u8]],
        mut descriptors: &[BorrowedFd<'_>],
        hook: Hook<'_>,
    ) -> Result<()> {
        if self.tls.is_some() {
            return self.send_through_tls(pieces, hook);
        }
        if !descriptors.is_empty()
            && let Some((first, rest)) = pieces.split_first()
        {
            self.write_all(&[first], &mut &[][..], hook)?;
            return self.write_all(rest, &mut descriptors, hook);
        }
        self.write_all(pieces, &mut descriptors, hook)
    }

    /// Records that the socket has taken some bytes.
    fn wrote(&mut self, length: usize) {
        self.moved = Instant::now();
        if let Some(filled) = &mut self.filled {
            filled.bytes += length as u64;
        }
    }

    fn write_all(
        &mut self,
        pieces: &[&[u8]],
        descriptors: &mut &[BorrowedFd<'_>],
        hook: Hook<'_>,
    ) -> Result<()> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.socket.write(left.get(..SLICES_MAX).unwrap_or(left), descriptors) {
                Ok(length) => {
                    self.wrote(length);
                    *descriptors = &[];
                    IoSlice::advance_slices(&mut left, length);
                }
                Err(Stop::Wait) => self.wait_to_write(hook)?,
                Err(stop) => return Err(self.stopped(stop)),
            }
        }
        Ok(())
    }

    fn send_through_tls(&mut self, pieces: &[&[u8]], hook: Hook<'_>) -> Result<()> {
        for piece in pieces.iter().flat_map(|piece| piece.chunks(TLS_BYTES)) {
            if let Some(tls) = &mut self.tls {
                tls.writer().write_all(piece).map_err(|error| failed(&error))?;
            }
            self.flush_tls(hook)?;
        }
        Ok(())
    }

    fn flush_tls(&mut self, hook: Hook<'_>) -> Result<()> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            match tls.write_tls(&mut Ready(&self.socket)) {
                Ok(length) => self.wrote(length),
                Err(error) if error.kind() == IoErrorKind::WouldBlock => self.wait_to_write(hook)?,
                Err(error) => return Err(self.stopped(Stop::Failed(failed(&error)))),
            }
        }
        Ok(())
    }

    /// Waits until the socket can be written to. Meanwhile it reads what the peer sends, so that
    /// the peer can continue.
    fn wait_to_write(&mut self, hook: Hook<'_>) -> Result<()> {
        if self.filled.is_none() {
            self.filled = self.filled();
        }
        let wanted = if self.has_room() { PollFlags::IN | PollFlags::OUT } else { PollFlags::OUT };
        self.socket.wait(wanted, WAIT_INTERVAL)?;
        hook()?;
        if let Some(time) = self.stall_time.filter(|time| self.moved.elapsed() > *time) {
            let message = format!("the other side has taken nothing for {} s", time.as_secs_f64());
            return Err(self.stopped(Stop::Failed(Error::new(ErrorKind::Connection, message))));
        }
        self.check_answers()?;
        if !self.has_room() && self.socket.is_left() {
            return Err(self.stopped(Stop::Closed));
        }
        while self.has_room()
            && let Some(frame) = self.take_frame()?
        {
            self.inbox_bytes += frame.body.len();
            self.inbox.push_back(frame);
        }
        Ok(())
    }

    /// Says whether one more frame may wait in the inbox.
    fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_FRAMES_MAX && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Says whether the peer has ended its side, or is gone, although unread bytes may be left.
    pub(crate) fn is_left(&self) -> bool {
        self.socket.is_left()
    }

    /// Completes the handshake of TLS.
    pub fn shake_hands(&mut self, hook: Hook<'_>) -> Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.flush_tls(hook)?;
            match self.fill() {
                Ok(()) | Err(Stop::Wait) if !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) => {}
                Ok(()) => {}
                Err(Stop::Wait) => self.wait(hook)?,
                Err(Stop::Closed) => {
                    return Err(Error::new(
                        ErrorKind::Connection,
                        "the connection was closed during the TLS handshake; a server without a certificate has no TLS: \
                         start it with --tls-cert and --tls-key, or connect with tls=off",
                    )
                    .with_sqlstate("08001"));
                }
                Err(Stop::Failed(error)) => {
                    // The alert tells the reason to the peer.
                    let _unsent = self.flush_tls(hook);
                    return Err(error);
                }
            }
        }
        self.flush_tls(hook)
    }

    /// Says goodbye inside TLS, if it is in use.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _gone = tls.write_tls(&mut Ready(&self.socket));
        }
        self.socket.shut_down();
    }
}

/// Returns decrypted bytes, and reads the socket if there are none. Returns no bytes at the end of
/// a step of the handshake.
fn read_tls(socket: &Socket, tls: &mut Connection, bytes: &mut [u8]) -> Result<usize, Stop> {
    loop {
        match tls.reader().read(bytes) {
            Ok(0) => return Err(Stop::Closed),
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == IoErrorKind::WouldBlock => {}
            Err(error) if error.kind() == IoErrorKind::UnexpectedEof => return Err(Stop::Closed),
            Err(error) => return Err(Stop::Failed(failed(&error))),
        }
        let handshaking = tls.is_handshaking();
        match tls.read_tls(&mut Ready(socket)) {
            Ok(0) => return Err(Stop::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == IoErrorKind::WouldBlock => return Err(Stop::Wait),
            Err(error) => return Err(Stop::Failed(failed(&error))),
        }
        tls.process_new_packets().map_err(|error| Stop::Failed(tls_error(&error)))?;
        if handshaking {
            return Ok(0);
        }
    }
}

fn tls_error(error: &rustls::Error) -> Error {
    let text = error.to_string();
    // The error has a type of a library below, and its name in its text. Only advice hangs on it.
    let hint = match text.contains("CaUsedAsEndEntity") {
        true => {
            "; the certificate is one of an authority (CA:TRUE), which no server may show: sign one for the server with it, \
             or make it with openssl req -x509 -addext basicConstraints=critical,CA:FALSE"
        }
        false => "",
    };
    Error::new(ErrorKind::Connection, format!("TLS: {text}{hint}")).with_sqlstate("08001")
}

/// A socket as rustls needs it: an operation that would wait gives `WouldBlock`.
struct Ready<'a>(&'a Socket);

impl Ready<'_> {
    fn result(result: Result<usize, Stop>) -> io::Result<usize> {
        match result {
            Ok(length) => Ok(length),
            Err(Stop::Wait) => Err(IoErrorKind::WouldBlock.into()),
            Err(Stop::Closed) => Ok(0),
            Err(Stop::Failed(error)) => Err(io::Error::other(error)),
        }
    }
}

impl Read for Ready<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = Vec::with_capacity(bytes.len());
        let length = Self::result(self.0.read(&mut read))?;
        let length = length.min(bytes.len());
        if let Some((bytes, read)) = bytes.get_mut(..length).zip(read.get(..length)) {
            bytes.copy_from_slice(read);
        }
        Ok(length)
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(&[IoSlice::new(bytes)], &[]) {
            Err(Stop::Closed) => Err(IoErrorKind::BrokenPipe.into()),
            other => Self::result(other),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
