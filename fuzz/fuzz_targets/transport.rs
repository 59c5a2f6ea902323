//! Receives arbitrary bytes and descriptors over a socket, in pieces of any length. The result is
//! frames or an error, and no descriptor stays open.
#![no_main]

use hypostyle_transport::{Socket, Transport};
use hypostyle_types::Error;
use hypostyle_wire::DESCRIPTORS_MAX;
use libfuzzer_sys::fuzz_target;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, PipeReader, Read, pipe};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    takes_descriptors: bool,
    preface: bool,
    /// Bytes, and the number of descriptors with the first of them.
    pieces: Vec<(&'a [u8], u8)>,
}

fn is_closed_everywhere(mut reader: PipeReader) -> bool {
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    reader.read(&mut [0]).is_ok_and(|length| length == 0)
}

fuzz_target!(|input: Input<'_>| {
    let (own, peer) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    let mut transport = Transport::new(Socket::Unix(own));
    if input.takes_descriptors {
        transport.take_descriptors();
    }
    let (reader, writer) = pipe().unwrap();
    for (bytes, descriptors) in &input.pieces {
        let descriptors = vec![writer.as_fd(); usize::from(*descriptors) % 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        // Bytes that do not fit are not sent.
        let _full = sendmsg(&peer, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }
    drop((peer, writer));
    let mut hook = || Err(Error::internal("a closed socket is waited for"));
    if input.preface && transport.receive_preface(&mut hook).is_err() {
        return;
    }
    let error = loop {
        match transport.receive(&mut hook) {
            Ok(frame) => {
                assert!(input.takes_descriptors || frame.descriptors_sent == 0);
                assert!(frame.descriptors.len() <= frame.descriptors_sent);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error.sqlstate(), "08P01" | "08006"), "{error}");
    drop(transport);
    assert!(is_closed_everywhere(reader));
});
