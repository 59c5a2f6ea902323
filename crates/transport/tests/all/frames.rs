//! Tests that a peer can do little harm to the other side.

use hypostyle_transport::{Channel, Socket, Transport};
use hypostyle_types::Error;
use hypostyle_wire::{DESCRIPTORS_MAX, FRAME_BYTES_MAX, FrameHeader, FrameType};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use socket2::{SockFilter, SockRef};
use std::io::{ErrorKind, IoSlice, PipeReader, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A call that waits for nothing takes less, however busy the machine is.
const SOON: Duration = Duration::from_secs(10);

/// Returns a transport, and the bare socket of its peer.
fn pair() -> (Transport, UnixStream) {
    let (own, peer) = UnixStream::pair().unwrap();
    let mut transport = Transport::new(Socket::Unix(own));
    transport.set_body_bytes_max(FRAME_BYTES_MAX);
    (transport, peer)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32;
    [&FrameHeader { length, frame_type: FrameType::Chunk, descriptors: 0 }.encode(), body].concat()
}

/// Returns a hook that ends a wait which would last for ever.
fn patient() -> impl FnMut() -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    move || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::internal("nothing moves any more")),
    }
}

#[test]
fn a_peer_that_sends_and_takes_nothing_is_not_read_without_end() {
    let (mut transport, mut peer) = pair();
    let (ours, theirs) = (frame(&vec![1; 8 << 20]), frame(&vec![2; 1 << 20]));
    let writing = {
        let ours = ours.clone();
        thread::spawn(move || {
            transport.send(&ours, &mut patient()).unwrap();
            transport
        })
    };
    peer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    let stopped = loop {
        match peer.write(&theirs[sent % theirs.len()..]) {
            Ok(length) => sent += length,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "{sent} bytes were taken without a pause");
    };
    assert_eq!(stopped.kind(), ErrorKind::WouldBlock);
    assert!((32 << 20..48 << 20).contains(&sent), "{sent} bytes were taken");
    // Once it takes what is written, everything goes on, and nothing is lost.
    let mut read = vec![0; ours.len()];
    peer.read_exact(&mut read).unwrap();
    assert!(read == ours);
    let mut transport = writing.join().unwrap();
    let finishing = thread::spawn(move || {
        peer.set_write_timeout(None).unwrap();
        peer.write_all(&theirs[sent % theirs.len()..]).unwrap();
        peer
    });
    for _ in 0..=sent / (frame(&[]).len() + (1 << 20)) {
        assert!(transport.receive(&mut patient()).unwrap().body.as_slice() == &frame(&vec![2; 1 << 20])[8..]);
    }
    let _peer = finishing.join().unwrap();
}

/// The end of a peer stands behind what it has sent, of which no more is read.
#[test]
fn the_end_of_a_peer_that_has_sent_ahead_is_noticed() {
    for half in [true, false] {
        let (mut transport, mut peer) = pair();
        let writing = thread::spawn(move || transport.send(&frame(&vec![1; 8 << 20]), &mut patient()));
        peer.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let theirs = frame(&vec![2; 1 << 20]);
        while peer.write_all(&theirs).is_ok() {}
        let begin = Instant::now();
        let _open = half.then(|| peer.try_clone().unwrap());
        peer.shutdown(Shutdown::Write).unwrap();
        drop(peer);
        assert!(writing.join().unwrap().is_err());
        assert!(begin.elapsed() < SOON, "{half}: {:?}", begin.elapsed());
    }
    // A side that takes one frame at a time sees it behind thousands.
    let (transport, mut peer) = pair();
    let mut channel = Channel::new(transport);
    peer.write_all(&frame(b"").repeat(1000)).unwrap();
    assert!(channel.try_receive(&mut patient()).unwrap().is_some());
    channel.notice_end(&mut patient()).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(channel.notice_end(&mut patient()).unwrap_err().sqlstate(), "08006");
}

/// Sends bytes, and descriptors with the first of them.
fn send_with_descriptors(peer: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    let sent = sendmsg(peer, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

/// Checks that a pipe's writing end is closed everywhere, which ends its reading end.
fn is_closed_everywhere(mut reader: PipeReader) -> bool {
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    reader.read(&mut [0]).is_ok_and(|length| length == 0)
}

fn announcing(body: &[u8], descriptors: u16) -> [Vec<u8>; 2] {
    let header = FrameHeader { length: body.len() as u32, frame_type: FrameType::Chunk, descriptors };
    [header.encode().to_vec(), body.to_vec()]
}

#[test]
fn descriptors_come_with_their_frame() {
    let (mut transport, mut peer) = pair();
    transport.take_descriptors();
    let (_reader, writer) = pipe().unwrap();
    peer.write_all(&frame(b"before")).unwrap();
    for count in [1, 3, 250] {
        let [header, body] = announcing(b"with", count);
        peer.write_all(&header).unwrap();
        send_with_descriptors(&peer, &body, &vec![writer.as_fd(); usize::from(count)]);
    }
    peer.write_all(&frame(b"behind")).unwrap();
    for count in [0, 1, 3, 250, 0] {
        let frame = transport.receive(&mut patient()).unwrap();
        assert_eq!((frame.descriptors.len(), frame.descriptors_sent), (count, count));
    }
}

#[test]
fn descriptors_that_were_not_announced_are_closed_and_refused() {
    // Descriptors come where none may: with a header, with a body, and with a long one; announced
    // or not.
    let long = vec![1; 100_000];
    for (takes, body, announced, with_header) in [
        (false, &b"body"[..], 0, true),
        (false, b"body", 0, false),
        (false, &long, 0, false),
        (false, b"body", 1, false),
        (true, b"body", 0, true),
        (true, b"body", 0, false),
        (true, &long, 0, false),
        (true, b"body", 1, false),
    ] {
        let (mut transport, mut peer) = pair();
        if takes {
            transport.take_descriptors();
        }
        let (reader, writer) = pipe().unwrap();
        let [header, body] = announcing(body, announced);
        let two = [writer.as_fd(), writer.as_fd()];
        if with_header {
            send_with_descriptors(&peer, &header, &two);
            peer.write_all(&body).unwrap();
        } else {
            peer.write_all(&header).unwrap();
            send_with_descriptors(&peer, &body, &two);
        }
        drop(writer);
        let received = transport.receive(&mut patient()).and_then(|_| transport.receive(&mut patient()));
        assert_eq!(received.unwrap_err().sqlstate(), "08P01", "{takes} {announced} {with_header}");
        assert!(is_closed_everywhere(reader), "{takes} {announced} {with_header}");
    }
}

#[test]
fn peers_that_are_gone_without_a_word_are_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    for stream in [connecting, listener.accept().unwrap().0] {
        let socket = Socket::tcp(stream).unwrap();
        let socket = SockRef::from(&socket);
        assert!(socket.keepalive().unwrap());
        let silence = socket.tcp_keepalive_time().unwrap()
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(silence, Duration::from_secs(120));
    }
}

/// A node that waits for nobody's answer would go on with what it computes for a quarter of an hour.
#[test]
fn peers_whose_system_answers_nothing_are_gone_and_those_who_read_nothing_are_not() {
    let answer_time = Duration::from_secs(2);
    let channels = |is_there: bool| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut channel = Channel::new(Transport::new(Socket::tcp(listener.accept().unwrap().0).unwrap()));
        channel.set_answer_time(Some(answer_time));
        if !is_there {
            // `BPF_RET`, 0: the system drops all that comes.
            SockRef::from(&peer).attach_filter(&[SockFilter::new(6, 0, 0, 0)]).unwrap();
        }
        (channel, peer)
    };
    for length in [10, 32 << 20] {
        let (mut channel, _peer) = channels(false);
        let begin = Instant::now();
        let sent = channel.send(&frame(&vec![1; length]), &mut patient());
        // A side that only waits finds it out, too.
        let lost = sent.and_then(|()| channel.receive(&mut patient()).map(drop)).unwrap_err();
        assert!(lost.message().contains("has not answered for 2 s"), "{length}: {lost}");
        assert!((answer_time..SOON).contains(&begin.elapsed()), "{length}: {:?}", begin.elapsed());
    }
    // One that has nothing to send, because the peer takes nothing, asks.
    let (mut channel, _peer) = channels(false);
    let begin = Instant::now();
    channel.receive(&mut patient()).unwrap_err();
    assert!((answer_time..SOON).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let (mut channel, mut peer) = channels(true);
    let body = vec![1; 32 << 20];
    let writing = thread::spawn(move || channel.send(&frame(&body), &mut patient()));
    thread::sleep(3 * answer_time);
    assert!(!writing.is_finished());
    let mut read = vec![0; (32 << 20) + 8];
    peer.read_exact(&mut read).unwrap();
    writing.join().unwrap().unwrap();
}

#[test]
fn a_write_stalls_when_nothing_is_taken_and_not_when_little_is() {
    let stall_time = Duration::from_millis(500);
    for takes in [true, false] {
        let (transport, mut peer) = pair();
        let mut channel = Channel::new(transport);
        channel.set_stall_time(Some(stall_time));
        let writing = thread::spawn(move || channel.send(&frame(&vec![1; 1 << 20]), &mut patient()));
        let mut left = if takes { (1 << 20) + 8 } else { 0 };
        let begin = Instant::now();
        while left > 0 {
            thread::sleep(Duration::from_millis(100));
            left -= peer.read(&mut vec![0; 100 << 10]).unwrap();
        }
        let sent = writing.join().unwrap();
        assert_eq!(sent.is_ok(), takes, "{sent:?}");
        assert!(begin.elapsed() > stall_time);
    }
}

#[test]
fn last_words_wait_for_nobody() {
    let bye = FrameHeader { length: 0, frame_type: FrameType::Bye, descriptors: 0 }.encode();
    let (transport, mut peer) = pair();
    Channel::new(transport).close_with(&bye);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, bye);
    // A socket that is full takes no more.
    let (mut transport, _peer) = pair();
    let full = transport.send(&frame(&vec![1; 8 << 20]), &mut || Err(Error::internal("full")));
    assert!(full.is_err());
    let begin = Instant::now();
    Channel::new(transport).close_with(&bye);
    assert!(begin.elapsed() < SOON);
}
