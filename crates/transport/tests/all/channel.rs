//! Tests that a channel loses and repeats nothing, wherever its sockets break.

use hypostyle_transport::{Channel, Hook, Numbered, Reconnect, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{
    Elsewhere, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameType, Full, Received,
};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const FRAMES: u32 = 3000;
const PATIENCE: Duration = Duration::from_secs(20);

/// The sockets that a test may break.
type Sockets = Arc<Mutex<Vec<TcpStream>>>;

/// The other ends of further connections.
type Arriving = Arc<Mutex<Vec<Numbered>>>;

struct Connecting {
    address: SocketAddr,
    sockets: Sockets,
    arriving: Arriving,
    /// The number of further connections that there are at a time, and how many there have been.
    streams: u32,
    made: u32,
}

struct Accepting {
    listener: TcpListener,
    arriving: Arriving,
}

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
    fn open_streams(&mut self) -> Vec<Numbered> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut opened = Vec::new();
        for _ in 0..self.streams {
            self.made += 1;
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            self.sockets.lock().unwrap().push(stream.try_clone().unwrap());
            opened.push((self.made, transport(stream)));
            self.arriving.lock().unwrap().push((self.made, transport(listener.accept().unwrap().0)));
        }
        opened
    }

    fn reconnect(&mut self, _error: &Error, _hook: Hook<'_>) -> Result<Transport> {
        self.connect()
    }
}

impl Accepting {
    fn accept(&self, error: &Error) -> Result<Transport> {
        self.listener.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            match self.listener.accept() {
                Ok((stream, _)) => return Ok(transport(stream)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        Err(error.clone())
    }
}

impl Reconnect for Accepting {
    fn arrived_streams(&mut self) -> Vec<Numbered> {
        std::mem::take(&mut *self.arriving.lock().unwrap())
    }

    fn reconnect(&mut self, error: &Error, _hook: Hook<'_>) -> Result<Transport> {
        self.accept(error)
    }
}

/// Returns two ends of a channel, and the sockets between them.
fn pair(streams: u32) -> (Channel, Channel, Sockets) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = Sockets::default();
    let arriving = Arriving::default();
    let connecting = Connecting {
        address: listener.local_addr().unwrap(),
        sockets: sockets.clone(),
        arriving: arriving.clone(),
        streams,
        made: 0,
    };
    let accepting = Accepting { listener, arriving };
    let one = connecting.connect().unwrap();
    let other = accepting.accept(&Error::internal("nobody came")).unwrap();
    let mut one = Channel::resumable(one, Box::new(connecting));
    one.open_streams();
    (one, Channel::resumable(other, Box::new(accepting)), sockets)
}

/// Returns a frame whose length and bytes follow from its number.
fn frame(number: u32) -> Vec<u8> {
    let length = number.wrapping_mul(2_654_435_761) >> (if number.is_multiple_of(50) { 13 } else { 22 });
    let header = FrameHeader { length: 4 + length, frame_type: FrameType::Chunk, descriptors: 0 };
    let body = vec![number as u8; length as usize];
    [header.encode().as_slice(), &number.to_le_bytes(), &body].concat()
}

/// Sends all frames, and receives as many, each as soon as it is there.
///
/// Serves the peer until `finished` counts both: the last bytes may be lost with their socket, and
/// are then requested again.
fn exchange(mut channel: Channel, finished: &AtomicUsize) -> Result<Channel> {
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
    finished.fetch_add(1, Ordering::AcqRel);
    let both_finished = || finished.load(Ordering::Acquire) == 2;
    while !both_finished() {
        match channel.try_receive(&mut hook) {
            Ok(frame) => assert!(frame.is_none(), "more frames came than were sent"),
            Err(error) if !both_finished() => return Err(error),
            Err(_) => break,
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(channel)
}

#[test]
fn all_frames_come_once_and_in_order_while_sockets_break() {
    exchange_while_sockets_break(0);
}

#[test]
fn all_frames_come_once_and_in_order_over_several_sockets_that_break() {
    let elsewhere = exchange_while_sockets_break(3);
    assert!(elsewhere > 1 << 20, "{elsewhere} bytes went over further sockets: nothing was tested");
}

#[test]
fn frames_on_a_stream_that_never_comes_are_an_error_and_no_wait() {
    let (mut one, mut other, _sockets) = pair(0);
    other.send(&Elsewhere { stream: 7, bytes: 9 }.frame(), &mut || Ok(())).unwrap();
    other.send(&frame(3), &mut || Ok(())).unwrap();
    let serving = thread::spawn(move || other.receive(&mut || Ok(())).map(|frame| (frame, other)));
    // It may have been lost with another socket, so it is requested again, several times.
    let deadline = Instant::now() + PATIENCE;
    let mut hook = || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::internal("nothing comes any more")),
    };
    let error = one.receive(&mut hook).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    drop(one);
    assert!(serving.join().unwrap().is_err());
}

/// Returns the number of bytes that went over further sockets.
fn exchange_while_sockets_break(streams: u32) -> u64 {
    let (one, other, sockets) = pair(streams);
    let over = Arc::new(AtomicBool::new(false));
    let cutter = {
        let over = over.clone();
        thread::spawn(move || {
            let mut cuts = 0_u64;
            while !over.load(Ordering::Acquire) {
                thread::sleep(Duration::from_micros(500 + cuts * 7919 % 9000));
                let mut sockets = sockets.lock().unwrap();
                let live = sockets.len().min(streams as usize + 1);
                let place = sockets.len().checked_sub(1 + cuts as usize % live.max(1));
                let last = place.map(|place| sockets.remove(place));
                cuts += u64::from(last.is_some_and(|socket| socket.shutdown(Shutdown::Both).is_ok()));
            }
            cuts
        })
    };
    let finished = AtomicUsize::new(0);
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| exchange(one, &finished));
        let other = scope.spawn(|| exchange(other, &finished));
        (one.join().unwrap(), other.join().unwrap())
    });
    one.unwrap();
    let other = other.unwrap();
    over.store(true, Ordering::Release);
    let cuts = cutter.join().unwrap();
    assert!(cuts > 5, "only {cuts} sockets were broken: nothing was tested");
    other.sent_elsewhere()
}

#[test]
fn only_what_goes_out_while_the_peer_is_slow_shows_the_link() {
    const WANTED: u64 = 8 << 20;
    let (mut one, mut other, _sockets) = pair(0);
    let body = vec![7; 1 << 20];
    let header = FrameHeader { length: body.len() as u32, frame_type: FrameType::Chunk, descriptors: 0 };
    let frame = [header.encode().as_slice(), &body].concat();
    one.send(&frame[..FRAME_HEADER_BYTES], &mut || Ok(())).unwrap();
    assert_eq!(one.full(), Full::default(), "that the kernel took at once");
    let taking = thread::spawn(move || {
        while other.receive(&mut || Ok(())).is_ok() {
            thread::sleep(Duration::from_millis(2));
        }
    });
    one.send(&body, &mut || Ok(())).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut sent = frame.len() as u64;
    // Which part of it finds the link full depends on the scheduling of threads.
    while one.full().bytes < WANTED {
        assert!(Instant::now() < deadline, "{:?} of {sent} bytes", one.full());
        one.send(&frame, &mut || Ok(())).unwrap();
        sent += frame.len() as u64;
    }
    let full = one.full();
    assert!(full.bytes <= sent && full.time > Duration::ZERO, "{full:?} of {sent} bytes");
    one.close();
    taking.join().unwrap();
}

#[test]
fn without_a_new_socket_the_error_is_that_of_the_old_one() {
    let (mut one, other, _sockets) = pair(0);
    drop(other);
    let error = one.receive(&mut || Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
}

#[test]
fn a_peer_that_has_got_more_than_was_sent_is_refused() {
    let (mut one, mut other, _sockets) = pair(0);
    other.send(&Received(1).frame(), &mut || Ok(())).unwrap();
    let error = one.receive(&mut || Ok(())).unwrap_err();
    assert_eq!(error.sqlstate(), "08P01");
}

/// The new sockets of a session, as a server gets them.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<Vec<Transport>>>);

impl Reconnect for Given {
    fn is_replaced(&self) -> bool {
        !self.0.lock().unwrap().is_empty()
    }

    fn reconnect(&mut self, _error: &Error, hook: Hook<'_>) -> Result<Transport> {
        loop {
            if let Some(transport) = self.0.lock().unwrap().pop() {
                return Ok(transport);
            }
            hook()?;
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_new_socket_that_says_nothing_is_left_for_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (transport(listener.accept().unwrap().0), transport(peer))
    };
    let (first, first_peer) = connect();
    let given = Given::default();
    let mut channel = Channel::resumable(first, Box::new(given.clone()));
    let deadline = Instant::now() + PATIENCE;
    let mut hook = move || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::internal("the silent socket is waited for")),
    };
    let receiving = thread::spawn(move || channel.receive(&mut hook).map(|frame| frame.body.len()));
    drop(first_peer);
    let (silent, _silent_peer) = connect();
    given.0.lock().unwrap().push(silent);
    // This is so until the session is resumed.
    while given.is_replaced() {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    let (last, mut last_peer) = connect();
    given.0.lock().unwrap().push(last);
    last_peer.send(&Received(0).frame(), &mut || Ok(())).unwrap();
    last_peer.send(&frame(3), &mut || Ok(())).unwrap();
    assert_eq!(receiving.join().unwrap().unwrap(), frame(3).len() - 8);
}
