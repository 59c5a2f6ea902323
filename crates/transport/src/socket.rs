//! A connected TCP or Unix socket. Reads and writes never wait; waiting is a function of its own.

use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::DESCRIPTORS_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use socket2::{SockRef, TcpKeepalive};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The bytes that the kernel accepts beyond those that are on the way. Without a limit it takes
/// megabytes at the speed of memory. The time spent in the socket would then say nothing about the
/// link, and decisions based on it would come too late.
const UNSENT_BYTES: u32 = 128 << 10;

/// A peer that disappears silently is noticed after two minutes, if nothing is sent to it. Bytes that it does
/// not take are no sign of that: a program may let its result wait. So there is no `TCP_USER_TIMEOUT`, which
/// would count them. Bytes that its system does not acknowledge are: see `Transport::set_answer_time`.
const ALIVE_TIME: Duration = Duration::from_secs(60);
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const ALIVE_RETRIES: u32 = 4;

/// The reason why a read or write has not gone on.
pub(crate) enum Stop {
    /// The peer is not ready; wait.
    Wait,
    /// The peer has closed its side.
    Closed,
    Failed(Error),
}

#[derive(Debug)]
pub enum Socket {
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

/// Lets the system check whether the peer of a silent TCP connection is still there.
///
/// # Errors
/// The errors of the system.
pub fn keep_alive(stream: &impl AsFd) -> std::io::Result<()> {
    let alive =
        TcpKeepalive::new().with_time(ALIVE_TIME).with_interval(ALIVE_INTERVAL).with_retries(ALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&alive)
}

/// The way in which a peer has ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sends no more; it may still receive.
    Said,
    /// The connection is of no use in either direction.
    Cut,
}

/// Says whether the peer of a socket has gone. The system knows it, even if bytes are unread.
pub fn end_of(socket: &impl AsFd) -> Option<End> {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&at_once)).ok()?;
    let found = watched[0].revents();
    match found.intersects(PollFlags::HUP | PollFlags::ERR) {
        true => Some(End::Cut),
        false => found.contains(PollFlags::RDHUP).then_some(End::Said),
    }
}

impl Socket {
    /// Wraps a TCP socket. It sends small frames at once, shows its owner how fast the link is, and
    /// ends when the peer is gone.
    pub fn tcp(stream: TcpStream) -> Result<Self> {
        let socket = SockRef::from(&stream);
        socket
            .set_tcp_nodelay(true)
            .and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES))
            .and_then(|()| keep_alive(&stream))
            .map_err(|error| failed(&error))?;
        Ok(Self::Tcp(stream))
    }

    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Returns the name of this end of the connection: its address, or the process. The other end
    /// compares it in [`Self::is_direct`].
    pub fn origin(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.local_addr().map_or_else(|_| String::new(), |own| own.to_string()),
            Self::Unix(_) => std::process::id().to_string(),
        }
    }

    /// Says whether the peer, whose end is called `origin`, is on this machine and at the other end
    /// of this very socket. A connection from this machine may also have been forwarded.
    pub fn is_direct(&self, origin: &str) -> bool {
        match self {
            Self::Tcp(stream) => {
                let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return false };
                let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
                peer.ip() == own.ip() && origin.parse().is_ok_and(|told| canonical(told) == canonical(peer))
            }
            Self::Unix(stream) => rustix::net::sockopt::socket_peercred(stream)
                .is_ok_and(|peer| peer.pid.as_raw_nonzero().to_string() == origin),
        }
    }

    /// Returns the user id of the peer, on a Unix socket.
    pub fn peer_user(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(stream) => {
                rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
            }
        }
    }

    /// Returns the address of the peer, for people.
    pub fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map_or_else(|_| "gone".into(), |peer| peer.to_string()),
            Self::Unix(stream) => match rustix::net::sockopt::socket_peercred(stream) {
                Ok(peer) => format!("process {}", peer.pid.as_raw_nonzero()),
                Err(_) => "gone".into(),
            },
        }
    }

    /// Returns the bytes that the kernel could not send yet. Returns `None` if it does not tell.
    pub(crate) fn unsent_bytes(&self) -> Option<u64> {
        match self {
            Self::Tcp(stream) => hypostyle_io::unsent_bytes(stream),
            Self::Unix(_) => None,
        }
    }

    /// Returns for how long the peer's system has answered nothing that goes to it again and again.
    pub(crate) fn unanswered_for(&self) -> Option<Duration> {
        match self {
            Self::Tcp(stream) => hypostyle_io::unanswered_for(stream),
            Self::Unix(_) => None,
        }
    }

    /// Has the system ask a peer of which nothing has come for a time whether it is there, and end the
    /// connection if that answers nothing for as long again.
    pub(crate) fn ask_after(&self, time: Duration) {
        let Self::Tcp(stream) = self else { return };
        let interval = (time / ALIVE_RETRIES).max(Duration::from_secs(1));
        let alive = TcpKeepalive::new().with_time(time).with_interval(interval).with_retries(ALIVE_RETRIES);
        // Otherwise it is asked later.
        let _later = SockRef::from(stream).set_tcp_keepalive(&alive);
    }

    /// Ends both directions, for every thread that uses the socket.
    pub fn shut_down(&self) {
        // This fails only when the peer was faster.
        let _gone = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
    }

    /// Appends the available bytes to `bytes`, up to its capacity.
    pub(crate) fn read(&self, bytes: &mut Vec<u8>) -> Result<usize, Stop> {
        loop {
            let spare = rustix::buffer::spare_capacity(bytes);
            match rustix::net::recv(self, spare, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Stop::Closed),
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(stop(errno)),
            }
        }
    }

    /// Reads the available bytes into the beginning of `bytes`.
    pub(crate) fn read_into(&self, bytes: &mut [u8]) -> Result<usize, Stop> {
        loop {
            match rustix::net::recv(self, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Stop::Closed),
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(stop(errno)),
            }
        }
    }

    /// Reads bytes and the descriptors that come with them.
    pub(crate) fn read_with_descriptors(
        &self,
        bytes: &mut [u8],
        descriptors: Option<&mut Vec<OwnedFd>>,
    ) -> Result<usize, Stop> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        // Without space for them the kernel opens none here, and says that there were some.
        let room = if descriptors.is_some() { space.as_mut_slice() } else { &mut [] };
        let mut control = RecvAncillaryBuffer::new(room);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match rustix::net::recvmsg(self, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
                Err(Errno::INTR) => {}
                other => break other.map_err(stop)?,
            }
        };
        let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
        let Some(descriptors) = descriptors else {
            return match received.bytes {
                _ if is_cut => Err(Stop::Failed(unasked())),
                0 => Err(Stop::Closed),
                length => Ok(length),
            };
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if is_cut {
            // The kernel gave as many as the process may still open. They are closed, and the owner
            // is told.
            descriptors.clear();
        }
        if received.bytes == 0 { Err(Stop::Closed) } else { Ok(received.bytes) }
    }

    /// Writes the beginning of `pieces`, with descriptors on the first byte.
    pub(crate) fn write(
        &self,
        pieces: &[IoSlice<'_>],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<usize, Stop> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            let error =
                Error::internal(format!("{} descriptors do not go with one frame", descriptors.len()));
            return Err(Stop::Failed(error));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match rustix::net::sendmsg(self, pieces, &mut control, flags) {
                Ok(length) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(stop(errno)),
            }
        }
    }

    /// Says whether it can be read within a time of less than a second.
    pub(crate) fn is_readable_within(&self, time: Duration) -> Result<bool> {
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(failed(&errno.into())),
        }
    }

    /// Says whether the peer has ended its side, or is gone, although unread bytes may be left.
    pub(crate) fn is_left(&self) -> bool {
        end_of(self).is_some()
    }

    /// Waits until one of the wanted operations is possible, or until the interval of less than a
    /// second is over.
    pub(crate) fn wait(&self, wanted: PollFlags, interval: Duration) -> Result<()> {
        let interval = Timespec { tv_sec: 0, tv_nsec: interval.subsec_nanos().into() };
        match poll(&mut [PollFd::new(self, wanted)], Some(&interval)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(failed(&errno.into())),
        }
    }
}

fn stop(errno: Errno) -> Stop {
    match errno {
        Errno::AGAIN => Stop::Wait,
        Errno::PIPE | Errno::CONNRESET => Stop::Closed,
        errno => Stop::Failed(failed(&errno.into())),
    }
}

pub(crate) fn failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Connection, format!("the connection failed: {error}"))
}

pub(crate) fn unasked() -> Error {
    Error::protocol("descriptors came that were not asked for")
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Connection, "the other side closed the connection")
}
