//! What a peer may do to whoever it is connected with: little.

use hypostyle_transport::{Socket, Transport};
use hypostyle_types::Error;
use hypostyle_wire::{FRAME_BYTES_MAX, FrameHeader, FrameType};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A transport, and the bare socket of its peer.
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

/// Ends a wait that would be one for ever.
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
    assert!((64 << 20..80 << 20).contains(&sent), "{sent} bytes were taken");
    // When it takes what is written, all goes on, and nothing is lost.
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
