//! The socket of a session, which the session's own thread reads and writes. Reads and writes never
//! wait; waiting is a function of its own.

use bytes::BytesMut;
use hypostyle_sync::Mutex;
use hypostyle_transport::{End, end_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most bytes that are read at once.
pub(super) const READ_BYTES: usize = 16 << 10;

/// A client that says no more may still wait for an answer, and one that was killed looks the same:
/// so long it is waited with.
const LAST_ANSWERS_TIME: Duration = Duration::from_millis(400);

pub(super) struct SessionSocket {
    /// Does not block.
    stream: TcpStream,
    tls: Option<Mutex<ServerConnection>>,
    /// The encrypted bytes that have been written.
    passed_on: AtomicU64,
    /// When it was seen that the client says no more.
    left: OnceLock<Instant>,
}

impl SessionSocket {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, tls: None, passed_on: AtomicU64::new(0), left: OnceLock::new() }
    }

    /// The same socket, with what encrypts its bytes.
    pub fn encrypted(self, tls: ServerConnection) -> Self {
        Self { tls: Some(Mutex::new(tls)), ..self }
    }

    /// Appends what has come to `received`, and gives the number of bytes: 0 at the end. They come through
    /// `room`, which would take longer to be made than a short message to be read.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come; others when the connection is broken.
    pub fn read(&self, room: &mut [u8], received: &mut BytesMut) -> io::Result<usize> {
        let length = match &self.tls {
            None => retried(|| (&self.stream).read(room))?,
            Some(tls) => self.decrypted(&mut tls.lock(), room)?,
        };
        received.extend_from_slice(&room[..length]);
        Ok(length)
    }

    fn decrypted(&self, tls: &mut ServerConnection, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            retried(|| tls.read_tls(&mut &self.stream))?;
            let processed = tls.process_new_packets();
            // TLS may have to say why it ends. Where there is no room, that goes with the next reply.
            let _said_later = self.pass_on(tls);
            processed.map_err(io::Error::other)?;
        }
    }

    /// Writes the beginning of some bytes, and gives how many were taken.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; others when the connection is broken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return retried(|| (&self.stream).write(bytes)) };
        let mut tls = tls.lock();
        self.pass_on(&mut tls)?;
        tls.writer().write(bytes)
    }

    /// Writes what has been taken and not yet been written.
    ///
    /// # Errors
    /// Those of [`Self::write`].
    pub fn flush(&self) -> io::Result<()> {
        self.tls.as_ref().map_or(Ok(()), |tls| self.pass_on(&mut tls.lock()))
    }

    fn pass_on(&self, tls: &mut ServerConnection) -> io::Result<()> {
        while tls.wants_write() {
            let length = retried(|| tls.write_tls(&mut &self.stream))?;
            self.passed_on.fetch_add(length as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many encrypted bytes have been written: [`Self::write`] takes bytes some time before.
    pub fn passed_on(&self) -> u64 {
        self.passed_on.load(Ordering::Relaxed)
    }

    /// Waits for less than a second, and says whether one of the wanted operations may be possible.
    pub fn wait(&self, wanted: PollFlags, interval: Duration) -> bool {
        let interval = Timespec { tv_sec: 0, tv_nsec: interval.subsec_nanos().into() };
        // An error is one of the operation that follows, too.
        poll(&mut [PollFd::new(&self.stream, wanted)], Some(&interval)).is_ok_and(|ready| ready > 0)
    }

    /// The client says no more.
    pub fn leave(&self) {
        self.left.get_or_init(Instant::now);
    }

    /// Says whether what the client has asked for is of no use any more. The system is asked, whatever the
    /// client has sent ahead and nobody has read.
    pub fn is_over(&self) -> bool {
        match end_of(&self.stream) {
            Some(End::Cut) => return true,
            Some(End::Said) => self.leave(),
            None => {}
        }
        self.left.get().is_some_and(|left| left.elapsed() > LAST_ANSWERS_TIME)
    }

    /// Says no more. A client that takes nothing does not hear the end of TLS.
    pub fn close(&self) {
        if let Some(tls) = &self.tls {
            let mut tls = tls.lock();
            tls.send_close_notify();
            let _gone = self.pass_on(&mut tls);
        }
        let _gone = self.stream.shutdown(Shutdown::Write);
    }
}

/// Does an operation that no signal interrupts.
fn retried<T>(mut operate: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operate() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, Stream};
    use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    /// Returns a client's end, and the session's.
    fn pair() -> (TcpStream, SessionSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (client, SessionSocket::new(stream))
    }

    fn read(socket: &SessionSocket, received: &mut BytesMut) -> io::Result<usize> {
        socket.read(&mut [0; READ_BYTES], received)
    }

    #[test]
    fn nothing_waits_but_the_wait() {
        let (mut client, socket) = pair();
        let mut received = BytesMut::new();
        assert_eq!(read(&socket, &mut received).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"one").unwrap();
        assert!(!socket.wait(PollFlags::PRI, Duration::from_millis(1)));
        assert!(socket.wait(PollFlags::IN, Duration::from_millis(900)));
        assert_eq!((read(&socket, &mut received).unwrap(), &received[..]), (3, &b"one"[..]));
        // The client takes nothing: at some time there is no room.
        let full = loop {
            if let Err(error) = socket.write(&[0; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn the_end_is_seen_behind_what_nobody_has_read() {
        let (mut client, socket) = pair();
        assert!(!socket.is_over());
        client.write_all(b"one").unwrap();
        drop(client);
        let since = Instant::now();
        while !socket.is_over() {
            assert!(since.elapsed() < Duration::from_secs(30));
            socket.wait(PollFlags::PRI, Duration::from_millis(10));
        }
        let mut received = BytesMut::new();
        assert_eq!((read(&socket, &mut received).unwrap(), &received[..]), (3, &b"one"[..]));
        assert_eq!(read(&socket, &mut received).unwrap(), 0);
    }

    /// Returns both sides of an encrypted connection, before they have said anything.
    fn encrypting() -> (ClientConnection, ServerConnection) {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let others = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = ClientConnection::new(Arc::new(others), "localhost".try_into().unwrap()).unwrap();
        (client, ServerConnection::new(Arc::new(own)).unwrap())
    }

    #[test]
    fn what_is_encrypted_goes_both_ways_and_ends() {
        const LENGTH: usize = 300_000;
        let (mut client, socket) = pair();
        let (mut tls, own) = encrypting();
        let socket = socket.encrypted(own);
        let listens = thread::spawn(move || {
            let mut stream = Stream::new(&mut tls, &mut client);
            stream.write_all(b"one").unwrap();
            let mut answer = vec![0; LENGTH];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer.iter().all(|byte| *byte == 7));
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        });
        let short = Duration::from_millis(100);
        let mut received = BytesMut::new();
        while received.len() < 3 {
            match read(&socket, &mut received) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.wait(PollFlags::IN, short);
                }
                read => assert!(read.unwrap() > 0),
            }
        }
        assert_eq!(&received[..], b"one");
        let mut written = 0;
        while written < LENGTH {
            match socket.write(&vec![7; LENGTH - written]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.wait(PollFlags::OUT, short);
                }
                taken => written += taken.unwrap(),
            }
        }
        while socket.flush().is_err() {
            socket.wait(PollFlags::OUT, short);
        }
        assert!(socket.wait(PollFlags::OUT, Duration::from_millis(900)));
        assert!(socket.passed_on() > LENGTH as u64);
        socket.close();
        listens.join().unwrap();
    }
}
