//! Whole frames in and out of a socket, through TLS where there is TLS.

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
use std::collections::VecDeque;
use std::io::{self, ErrorKind as IoErrorKind, IoSlice, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes read at once where many small frames may be.
const READ_BYTES: usize = 64 << 10;

/// Bytes of a body read at once from a Unix socket: about what its buffer holds.
const UNIX_READ_BYTES: usize = 256 << 10;

/// What may wait in the inbox while a write waits, and one frame beyond it: more than a peer may send by its credit (§6).
/// Of one that sends more nothing is read until it has taken what is being written.
const INBOX_FRAMES_MAX: usize = 1024;
const INBOX_BYTES_MAX: usize = 32 << 20;

/// Slices given to the kernel at once (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// Bytes put through TLS between two writes to the socket.
const TLS_BYTES: usize = 256 << 10;

/// A frame that has come.
#[derive(Debug)]
pub struct Frame {
    pub frame_type: FrameType,
    pub body: Buffer,
    pub descriptors: Vec<OwnedFd>,
    /// Descriptors that the peer sent; more than have come when this process may not open so many.
    pub descriptors_sent: usize,
}

/// A link that is full.
struct Filled {
    since: Instant,
    /// What it has to carry since then.
    bytes: u64,
}

/// A connection that speaks frames.
pub struct Transport {
    socket: Socket,
    tls: Option<Box<Connection>>,
    /// Bytes that were read and are not yet part of a frame that was given out.
    read: Vec<u8>,
    /// Whether descriptors may come.
    takes_descriptors: bool,
    /// Descriptors that came with bytes of a frame that is not complete.
    descriptors: Vec<OwnedFd>,
    inbox: VecDeque<Frame>,
    /// Bytes of the bodies in the inbox.
    inbox_bytes: usize,
    body_bytes_max: u32,
    /// The header of the frame whose body is being read, and the body so far.
    partial: Option<(FrameHeader, Body)>,
    memory: BodyMemory,
    /// When something was read and written last.
    heard: Instant,
    moved: Instant,
    /// A write that moves nothing for so long has failed.
    stall_time: Option<Duration>,
    /// What was sent while the link was full, and since when it is.
    full: Full,
    filled: Option<Filled>,
    /// The socket has ended or failed: nothing comes and goes any more.
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
            full: Full::default(),
            filled: None,
            broken: false,
        }
    }

    /// Goes on inside TLS.
    pub fn with_tls(mut self, connection: impl Into<Connection>) -> Self {
        let mut connection = connection.into();
        connection.set_buffer_limit(None);
        self.tls = Some(Box::new(connection));
        self
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether the socket itself has ended or failed, other than by what came over it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The socket is of no use any more.
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

    /// When the peer was heard last.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// A write of which the peer takes nothing for so long breaks the connection; without this it waits as long as there is one.
    pub(crate) fn set_stall_time(&mut self, time: Option<Duration>) {
        self.stall_time = time;
    }

    /// What was sent while the socket was full, and how long that took.
    pub(crate) fn full(&self) -> Full {
        self.full
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The certificate that the peer has shown, as DER.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Accepts bodies of so many bytes from now on.
    pub fn set_body_bytes_max(&mut self, length: u32) {
        self.body_bytes_max = length;
    }

    /// Takes descriptors from now on; until then a peer that sends some is refused.
    pub fn take_descriptors(&mut self) {
        self.takes_descriptors = true;
    }

    /// The first byte of the connection, which stays to be read.
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

    /// The client's preface.
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

    /// The next frame.
    ///
    /// # Errors
    /// `Connection` when the peer closes or sends what cannot be; the hook's.
    pub fn receive(&mut self, hook: Hook<'_>) -> Result<Frame> {
        loop {
            if let Some(frame) = self.try_receive()? {
                return Ok(frame);
            }
            self.wait(hook)?;
        }
    }

    /// The next frame if it is there.
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
                Ok(()) => self.heard = Instant::now(),
                Err(Stop::Wait) => return Ok(None),
                Err(stop) => return Err(self.stopped(stop)),
            }
        }
    }

    fn complete(&mut self, header: FrameHeader, body: Body) -> Result<Frame> {
        let sent = usize::from(header.descriptors);
        if sent > 0 {
            self.check_descriptors_of(sent)?;
        }
        // Else they are those of a frame behind this one, and have come already.
        let descriptors = if sent > 0 { std::mem::take(&mut self.descriptors) } else { Vec::new() };
        Ok(Frame { frame_type: header.frame_type, body: body.finish(), descriptors, descriptors_sent: sent })
    }

    /// Of all frames before it being given out, descriptors can only be those of the frame that is being read.
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

    /// Reads once: into the body that is being read, else into the buffer.
    fn fill(&mut self) -> Result<(), Stop> {
        let is_unix = self.socket.is_unix();
        let Self { socket, partial, tls, read, .. } = self;
        let descriptors = self.takes_descriptors.then_some(&mut self.descriptors);
        let read_unix = |room: &mut [u8]| socket.read_with_descriptors(room, descriptors);
        let Some((_, body)) = partial else {
            read.reserve(READ_BYTES);
            return match tls {
                Some(tls) => append(read, READ_BYTES, |room| read_tls(socket, tls, room)),
                // A frame's descriptors come with its first byte after the header: reading only headers here
                // keeps them with their frame.
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

    /// Whether something comes within a short time.
    pub(crate) fn is_readable_within(&self, time: Duration) -> Result<bool> {
        if !self.inbox.is_empty() {
            return Ok(true);
        }
        self.socket.is_readable_within(time)
    }

    /// Waits for the peer to send something, a while at most.
    pub(crate) fn wait(&mut self, hook: Hook<'_>) -> Result<()> {
        let is_silent = self.heard.elapsed() > SILENCE;
        self.socket.wait(PollFlags::IN, if is_silent { SILENT_WAIT_INTERVAL } else { WAIT_INTERVAL })?;
        hook()
    }

    /// Sends bytes that are whole frames.
    pub fn send(&mut self, bytes: &[u8], hook: Hook<'_>) -> Result<()> {
        self.send_pieces(&[bytes], &[], hook)
    }

    /// Sends pieces that are whole frames together. Descriptors go with the first byte of the second piece, the body's.
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

    /// Whether the link has more to carry at once than it can.
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

    /// The socket has taken so many bytes.
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

    /// While the peer takes nothing, what it sends is taken, so that it can go on.
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

    /// Whether one more frame may wait in the inbox.
    fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_FRAMES_MAX && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Whether the peer has ended its side, or is gone, although more of what it has said may be there to be read.
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
                    // The alert tells the peer why.
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

/// Takes what TLS has decrypted, reading the socket when it has nothing; nothing at the end of a step of the handshake.
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
    let hint = match text.contains("CaUsedAsEndEntity") {
        true => {
            "; the certificate is one of an authority (CA:TRUE), which no server may show: sign one for the server with it, \
             or make it with openssl req -x509 -addext basicConstraints=critical,CA:FALSE"
        }
        false => "",
    };
    Error::new(ErrorKind::Connection, format!("TLS: {text}{hint}")).with_sqlstate("08001")
}

/// A socket as rustls wants it: what would have to wait is `WouldBlock`.
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
