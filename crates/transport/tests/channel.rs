//! A channel loses and repeats nothing, wherever its sockets break.

use hypostyle_transport::{Channel, Hook, Reconnect, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{FRAME_BYTES_MAX, FrameHeader, FrameType, Received};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const FRAMES: u32 = 3000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Sockets that a test may break.
type Sockets = Arc<Mutex<Vec<TcpStream>>>;

struct Connecting {
    address: SocketAddr,
    sockets: Sockets,
}

struct Accepting(TcpListener);

fn transport(stream: TcpStream) -> Transport {
    let mut transport = Transport::new(Socket::tcp(stream).unwrap());
    transport.set_body_bytes_max(FRAME_BYTES_MAX);
    transport
}

impl Connecting {
    fn connect(&self) -> Result<Transport> {
        let failed = |error: std::io::Error| Error::new(ErrorKind::Connection, error.to_string());
        let stream = TcpStream::connect(self.address).map_err(failed)?;
        self.sockets.lock().unwrap().push(stream.try_clone().unwrap());
        Ok(transport(stream))
    }
}

impl Reconnect for Connecting {
    fn reconnect(&mut self, _error: &Error, _hook: Hook<'_>) -> Result<Transport> {
        self.connect()
    }
}

impl Accepting {
    fn accept(&self, error: &Error) -> Result<Transport> {
        self.0.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            match self.0.accept() {
                Ok((stream, _)) => return Ok(transport(stream)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        Err(error.clone())
    }
}

impl Reconnect for Accepting {
    fn reconnect(&mut self, error: &Error, _hook: Hook<'_>) -> Result<Transport> {
        self.accept(error)
    }
}

/// Two ends of a channel, and the sockets between them.
fn pair() -> (Channel, Channel, Sockets) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = Sockets::default();
    let connecting = Connecting { address: listener.local_addr().unwrap(), sockets: sockets.clone() };
    let accepting = Accepting(listener);
    let one = connecting.connect().unwrap();
    let other = accepting.accept(&Error::internal("nobody came")).unwrap();
    let one = Channel::resumable(one, Box::new(connecting));
    (one, Channel::resumable(other, Box::new(accepting)), sockets)
}

/// A frame whose length and bytes follow from its number.
fn frame(number: u32) -> Vec<u8> {
    let length = number.wrapping_mul(2_654_435_761) >> (if number.is_multiple_of(50) { 13 } else { 22 });
    let header = FrameHeader { length: 4 + length, frame_type: FrameType::Chunk, descriptors: 0 };
    let body = vec![number as u8; length as usize];
    [header.encode().as_slice(), &number.to_le_bytes(), &body].concat()
}

/// Sends all frames, and takes as many, each as soon as it is there.
fn exchange(mut channel: Channel) -> Result<Channel> {
    let deadline = Instant::now() + PATIENCE;
    let mut hook = || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::internal("nothing comes any more")),
    };
    let mut next = 0;
    for number in 0..FRAMES {
        channel.send(&frame(number), &mut hook)?;
        while let Some(received) = channel.try_receive(&mut hook)? {
            assert_eq!(received.body.as_slice(), &frame(next)[8..]);
            next += 1;
        }
    }
    while next < FRAMES {
        assert_eq!(channel.receive(&mut hook)?.body.as_slice(), &frame(next)[8..]);
        next += 1;
    }
    Ok(channel)
}

#[test]
fn all_frames_come_once_and_in_order_while_sockets_break() {
    let (one, other, sockets) = pair();
    let over = Arc::new(AtomicBool::new(false));
    let cutter = {
        let over = over.clone();
        thread::spawn(move || {
            let mut cuts = 0_u64;
            while !over.load(Ordering::Acquire) {
                thread::sleep(Duration::from_micros(500 + cuts * 7919 % 9000));
                let last = sockets.lock().unwrap().pop();
                cuts += u64::from(last.is_some_and(|socket| socket.shutdown(Shutdown::Both).is_ok()));
            }
            cuts
        })
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| exchange(one));
        let other = scope.spawn(|| exchange(other));
        (one.join().unwrap(), other.join().unwrap())
    });
    // What one side has sent last may still be on the way when it is dropped.
    let (_one, _other) = (one.unwrap(), other.unwrap());
    over.store(true, Ordering::Release);
    let cuts = cutter.join().unwrap();
    assert!(cuts > 5, "only {cuts} sockets were broken: nothing was tested");
}

#[test]
fn without_a_new_socket_the_error_is_that_of_the_old_one() {
    let (mut one, other, _sockets) = pair();
    drop(other);
    let error = one.receive(&mut || Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
}

#[test]
fn a_peer_that_has_got_more_than_was_sent_is_refused() {
    let (mut one, mut other, _sockets) = pair();
    other.send(&Received(1).frame(), &mut || Ok(())).unwrap();
    let error = one.receive(&mut || Ok(())).unwrap_err();
    assert_eq!(error.sqlstate(), "08P01");
}
