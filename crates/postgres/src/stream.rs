//! A socket to a server, inside TLS or not, and the messages that come from it.
//!
//! Reads and writes never wait. Waiting is a step of its own, of at most a twentieth of a second, so
//! that the owner is asked in between.

use crate::address::{KeepAlive, Place};
use crate::tls;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind as IoErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The length of a wait before the owner is asked again.
pub const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// The bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The bytes that go through TLS between two writes to the socket.
const TLS_BYTES: usize = 64 << 10;

/// The bytes that are kept while a write waits, because a server that writes may not read.
const AHEAD_BYTES_MAX: usize = 32 << 20;

/// The longest message of a server: PostgreSQL has none beyond a gigabyte.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The time after which the system looks whether a silent server is there, and how often.
const ALIVE_TIME: Duration = Duration::from_secs(60);
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const ALIVE_RETRIES: u32 = 4;

/// A function that is called while a stream waits. Its error ends the wait.
pub type Poll<'a> = &'a mut dyn FnMut() -> Result<()>;

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A message of the server, of which the stream has the body until the next one is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    start: usize,
    end: usize,
}

/// A connection to a server.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// What was read; the part that is not taken is between `start` and `end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Stream {
    /// Returns what this end of the connection is called: a server that has the same name for it is
    /// on this machine, and nothing is between.
    pub fn origin(&self) -> String {
        match &self.socket {
            Socket::Tcp(stream) => stream.local_addr().map_or_else(|_| String::new(), |own| own.to_string()),
            Socket::Unix(_) => std::process::id().to_string(),
        }
    }
}

/// Where a stream leads, so that another one can be opened to the same place.
#[derive(Clone, Debug)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix(String),
}

/// Returns the places that a host may have.
///
/// # Errors
/// `Connection` when the name has no address.
pub fn peers(place: &Place) -> Result<Vec<Peer>> {
    match place {
        Place::Tcp { address: Some(address), port, .. } => {
            Ok(vec![Peer::Tcp(SocketAddr::new(*address, *port))])
        }
        Place::Tcp { host, port, .. } => {
            let found = (host.as_str(), *port).to_socket_addrs();
            let found = found.map_err(|error| unreached(place, &error))?;
            Ok(found.map(Peer::Tcp).collect())
        }
        Place::Unix { .. } => Ok(place.socket().map(Peer::Unix).into_iter().collect()),
    }
}

/// Returns the error for a place that does not answer.
pub fn unreached(place: &Place, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Connection, format!("cannot connect to {place}: {error}"))
        .with_sqlstate("08001")
        .unreachable()
}

impl Stream {
    /// Connects to a place within a time.
    pub fn connect(peer: &Peer, keep_alive: &KeepAlive, limit: Duration) -> io::Result<Self> {
        let socket = match peer {
            Peer::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, limit.max(Duration::from_millis(1)))?;
                stream.set_nodelay(true)?;
                set_keep_alive(&stream, keep_alive)?;
                stream.set_nonblocking(true)?;
                Socket::Tcp(stream)
            }
            Peer::Unix(path) => {
                let stream = match path.strip_prefix('@') {
                    Some(name) => {
                        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                        UnixStream::connect_addr(&address)?
                    }
                    None => UnixStream::connect(path)?,
                };
                stream.set_nonblocking(true)?;
                Socket::Unix(stream)
            }
        };
        Ok(Self { socket, tls: None, input: Vec::new(), start: 0, end: 0 })
    }

    pub fn is_unix(&self) -> bool {
        matches!(self.socket, Socket::Unix(_))
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the number of the user that the peer runs as, on a Unix socket.
    pub fn peer_user(&self) -> Option<u32> {
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(stream) => {
                rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
            }
        }
    }

    /// Returns the certificate that the server has shown, as DER.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Puts all that follows inside TLS.
    pub fn start_tls(&mut self, mut connection: ClientConnection, poll: Poll<'_>) -> Result<()> {
        // Bytes that came before the handshake could have been put there by anybody.
        if self.start != self.end {
            return Err(Error::protocol("the server sends data before TLS begins"));
        }
        connection.set_buffer_limit(None);
        self.tls = Some(Box::new(connection));
        loop {
            self.flush_tls(poll)?;
            if !self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                return Ok(());
            }
            if let Err(error) = self.fill() {
                // The alert tells the reason to the server.
                let _unsent = self.flush_tls(poll);
                return Err(error);
            }
            if self.tls.as_ref().is_some_and(|tls| tls.is_handshaking() && !tls.wants_write()) {
                self.wait(PollFlags::IN, WAIT_INTERVAL)?;
                poll()?;
            }
        }
    }

    /// Reads one byte, and nothing that follows it.
    pub fn read_byte(&mut self, poll: Poll<'_>) -> Result<u8> {
        let mut byte = [0];
        loop {
            match self.socket.read(&mut byte) {
                Ok(0) => return Err(closed()),
                Ok(_) => return Ok(u8::from_be_bytes(byte)),
                Err(error) if is_waiting(&error) => {
                    self.wait(PollFlags::IN, WAIT_INTERVAL)?;
                    poll()?;
                }
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    /// Returns the next message if it has come whole. `limit` is the largest length of its body.
    pub fn take(&mut self, limit: usize) -> Result<Option<Message>> {
        let Some(header) = self.input.get(self.start..self.end).and_then(<[u8]>::first_chunk::<5>) else {
            return Ok(None);
        };
        let [kind, length @ ..] = *header;
        let length =
            usize::try_from(i32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|length| *length <= limit.min(MESSAGE_BYTES_MAX));
        let Some(length) = length else {
            return Err(Error::protocol(format!(
                "a message of the server (type {:?}) has a length that it cannot have",
                char::from(kind)
            )));
        };
        let start = self.start + header.len();
        if self.end - start < length {
            return Ok(None);
        }
        self.start = start + length;
        Ok(Some(Message { kind, start, end: self.start }))
    }

    /// Returns the type of the next message if its beginning has come.
    pub fn next_kind(&self) -> Option<u8> {
        self.input.get(self.start..self.end)?.first().copied()
    }

    /// Returns the body of the message that was taken last.
    pub fn body(&self, message: Message) -> &[u8] {
        self.input.get(message.start..message.end).unwrap_or_default()
    }

    /// Reads what has come. Returns whether there was anything.
    pub fn fill(&mut self) -> Result<bool> {
        self.make_room();
        let Self { socket, tls, input, end, .. } = self;
        let room = input.get_mut(*end..).unwrap_or_default();
        let length = match tls {
            Some(tls) => read_tls(socket, tls, room)?,
            None => loop {
                match socket.read(room) {
                    Ok(0) => return Err(closed()),
                    Ok(length) => break length,
                    Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                    Err(error) if is_waiting(&error) => break 0,
                    Err(error) => return Err(lost(&error)),
                }
            },
        };
        *end += length;
        Ok(length > 0)
    }

    /// Makes room for more bytes. The buffer grows with what has come, not with what a message says
    /// of its length.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.input.len() > 16 * READ_BYTES {
                self.input = Vec::new();
            }
        }
        if self.input.len() - self.end >= READ_BYTES / 4 {
            return;
        }
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.input.len() - self.end < READ_BYTES / 2 {
            let length = (self.input.len() * 2).max(READ_BYTES);
            self.input.resize(length, 0);
        }
    }

    /// Waits until something comes, or until the interval is over.
    pub fn wait_to_read(&self) -> Result<()> {
        self.wait(PollFlags::IN, WAIT_INTERVAL).map(drop)
    }

    fn wait(&self, wanted: PollFlags, interval: Duration) -> Result<PollFlags> {
        let interval = Timespec { tv_sec: 0, tv_nsec: interval.subsec_nanos().into() };
        let mut watched = [PollFd::new(&self.socket, wanted)];
        match poll(&mut watched, Some(&interval)) {
            Ok(_) => Ok(watched.first().map_or(PollFlags::empty(), PollFd::revents)),
            Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
            Err(errno) => Err(lost(&errno.into())),
        }
    }

    /// Sends bytes. While the server takes none, what it sends is read and kept.
    pub fn send(&mut self, bytes: &[u8], poll: Poll<'_>) -> Result<()> {
        if self.tls.is_none() {
            let mut left = bytes;
            while !left.is_empty() {
                match self.socket.write(left) {
                    Ok(length) => left = left.get(length..).unwrap_or_default(),
                    Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                    Err(error) if is_waiting(&error) => self.wait_to_write(poll)?,
                    Err(error) => return Err(lost(&error)),
                }
            }
            return Ok(());
        }
        for piece in bytes.chunks(TLS_BYTES) {
            if let Some(tls) = &mut self.tls {
                tls.writer().write_all(piece).map_err(|error| lost(&error))?;
            }
            self.flush_tls(poll)?;
        }
        Ok(())
    }

    fn flush_tls(&mut self, poll: Poll<'_>) -> Result<()> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) if is_waiting(&error) => self.wait_to_write(poll)?,
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    fn wait_to_write(&mut self, poll: Poll<'_>) -> Result<()> {
        let has_room = self.end - self.start < AHEAD_BYTES_MAX;
        let wanted = if has_room { PollFlags::IN | PollFlags::OUT } else { PollFlags::OUT };
        let ready = self.wait(wanted, WAIT_INTERVAL)?;
        if has_room && ready.contains(PollFlags::IN) {
            self.fill()?;
        }
        poll()
    }

    /// Ends the connection. What cannot be sent at once is left.
    pub fn close(&mut self, farewell: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                let _unsent = tls.writer().write_all(farewell);
                tls.send_close_notify();
                let _gone = tls.write_tls(&mut self.socket);
            }
            None => drop(self.socket.write(farewell)),
        }
        // This fails only when the server was faster.
        let _gone = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

fn set_keep_alive(stream: &TcpStream, wanted: &KeepAlive) -> io::Result<()> {
    let socket = SockRef::from(stream);
    if !wanted.is_off {
        let alive = TcpKeepalive::new()
            .with_time(wanted.idle.unwrap_or(ALIVE_TIME))
            .with_interval(wanted.interval.unwrap_or(ALIVE_INTERVAL))
            .with_retries(wanted.count.unwrap_or(ALIVE_RETRIES));
        socket.set_tcp_keepalive(&alive)?;
    }
    match wanted.user_timeout {
        Some(time) => socket.set_tcp_user_timeout(Some(time)),
        None => Ok(()),
    }
}

/// Returns decrypted bytes, and reads the socket if there are none. Returns no bytes if it would have
/// to wait, or has read a part of the handshake.
fn read_tls(socket: &mut Socket, tls: &mut ClientConnection, bytes: &mut [u8]) -> Result<usize> {
    loop {
        match tls.reader().read(bytes) {
            Ok(0) => return Err(closed()),
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == IoErrorKind::WouldBlock => {}
            Err(error) if error.kind() == IoErrorKind::UnexpectedEof => return Err(closed()),
            Err(error) => return Err(lost(&error)),
        }
        match tls.read_tls(socket) {
            Ok(0) => return Err(closed()),
            Ok(_) => {}
            Err(error) if error.kind() == IoErrorKind::Interrupted => continue,
            Err(error) if is_waiting(&error) => return Ok(0),
            Err(error) => return Err(lost(&error)),
        }
        let was_handshaking = tls.is_handshaking();
        tls.process_new_packets().map_err(|error| tls::failed(&error))?;
        if was_handshaking {
            return Ok(0);
        }
    }
}

fn is_waiting(error: &io::Error) -> bool {
    error.kind() == IoErrorKind::WouldBlock
}

fn lost(error: &io::Error) -> Error {
    Error::new(ErrorKind::Connection, format!("the connection failed: {error}")).unreachable()
}

fn closed() -> Error {
    Error::new(ErrorKind::Connection, "the server closed the connection").unreachable()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Stream, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        (Stream { socket: Socket::Unix(own), tls: None, input: Vec::new(), start: 0, end: 0 }, other)
    }

    #[test]
    fn messages_come_whole() {
        let (mut stream, mut other) = pair();
        assert!(!stream.fill().unwrap());
        other.write_all(b"Z\0\0\0\x05IC\0\0").unwrap();
        assert!(stream.fill().unwrap());
        let message = stream.take(100).unwrap().unwrap();
        assert_eq!((message.kind, stream.body(message)), (b'Z', &b"I"[..]));
        assert_eq!(stream.take(100).unwrap(), None);
        other.write_all(b"\0\x06ab").unwrap();
        stream.fill().unwrap();
        let message = stream.take(100).unwrap().unwrap();
        assert_eq!((message.kind, stream.body(message)), (b'C', &b"ab"[..]));
        drop(other);
        assert!(stream.fill().is_err());
    }

    #[test]
    fn a_length_that_is_told_costs_nothing_before_its_bytes_come() {
        let (mut stream, mut other) = pair();
        other.write_all(b"d\x3f\xff\xff\xff123").unwrap();
        stream.fill().unwrap();
        assert_eq!(stream.take(usize::MAX).unwrap(), None);
        stream.fill().unwrap();
        assert!(stream.input.len() <= 2 * READ_BYTES);
        for bytes in [b"d\0\0\0\x03", b"d\xff\xff\xff\xff", b"d\x7f\xff\xff\xff"] {
            let (mut stream, mut other) = pair();
            other.write_all(bytes).unwrap();
            stream.fill().unwrap();
            assert_eq!(stream.take(usize::MAX).unwrap_err().sqlstate(), "08P01");
        }
    }

    #[test]
    fn long_messages_are_kept_together() {
        let (mut stream, mut other) = pair();
        let body = vec![7; 3 * READ_BYTES];
        let sent = [&b"d"[..], &(body.len() as u32 + 4).to_be_bytes(), &body, b"Z\0\0\0\x05I"].concat();
        let sender = std::thread::spawn(move || other.write_all(&sent).map(|()| other));
        let mut kinds = Vec::new();
        while kinds.len() < 2 {
            match stream.take(usize::MAX).unwrap() {
                Some(message) => {
                    kinds.push((message.kind, stream.body(message).len()));
                }
                None if stream.fill().unwrap() => {}
                None => stream.wait_to_read().unwrap(),
            }
        }
        assert_eq!(kinds, [(b'd', body.len()), (b'Z', 1)]);
        drop(sender.join().unwrap().unwrap());
    }
}
