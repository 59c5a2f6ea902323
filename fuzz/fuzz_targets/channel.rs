//! Receives arbitrary bytes over several sockets of a session, including further streams. The
//! result is frames or an error.
#![no_main]

use hypostyle_transport::{Channel, Hook, Numbered, Reconnect, Socket, Transport};
use hypostyle_types::{Error, Result};
use hypostyle_wire::{Elsewhere, FrameHeader, FrameType, Received};
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;

#[derive(Debug, arbitrary::Arbitrary)]
enum Said<'a> {
    Received(u16),
    Elsewhere(u8, u16),
    Frame(&'a [u8]),
    Bytes(&'a [u8]),
}

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    /// The bytes of each socket, and of each further stream of it.
    sockets: Vec<(Vec<Said<'a>>, Vec<Vec<Said<'a>>>)>,
    sends: u8,
}

/// Returns a socket over which all bytes are sent already, and which is then closed.
fn transport(said: &[Said<'_>]) -> Transport {
    let (own, mut peer) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    for said in said {
        let bytes = match said {
            Said::Received(bytes) => Received((*bytes).into()).frame(),
            Said::Elsewhere(stream, bytes) => {
                Elsewhere { stream: u32::from(*stream) % 4, bytes: (*bytes).into() }.frame()
            }
            Said::Frame(body) => {
                let header =
                    FrameHeader { length: body.len() as u32, frame_type: FrameType::Chunk, descriptors: 0 };
                [&header.encode(), *body].concat()
            }
            Said::Bytes(bytes) => bytes.to_vec(),
        };
        if peer.write_all(&bytes).is_err() {
            break;
        }
    }
    Transport::new(Socket::Unix(own))
}

struct Sockets {
    next: VecDeque<(Transport, Vec<Numbered>)>,
    streams: Vec<Numbered>,
}

impl Reconnect for Sockets {
    fn open_streams(&mut self) -> Vec<Numbered> {
        std::mem::take(&mut self.streams)
    }

    fn reconnect(&mut self, error: &Error, _hook: Hook<'_>) -> Result<Transport> {
        let (transport, streams) = self.next.pop_front().ok_or_else(|| error.clone())?;
        self.streams = streams;
        Ok(transport)
    }
}

fuzz_target!(|input: Input<'_>| {
    let mut number = 0;
    let numbered = |said: &Vec<Said<'_>>| {
        number += 1;
        (number % 4, transport(said))
    };
    let mut numbered = numbered;
    let mut next: VecDeque<_> = input
        .sockets
        .iter()
        .take(4)
        .map(|(first, streams)| {
            (transport(first), streams.iter().take(3).map(&mut numbered).collect::<Vec<_>>())
        })
        .collect();
    let Some((first, streams)) = next.pop_front() else { return };
    let mut channel = Channel::resumable(first, Box::new(Sockets { next, streams }));
    channel.open_streams();
    let mut hook = || Err(Error::internal("a closed socket is waited for"));
    let frame = FrameHeader { length: 3, frame_type: FrameType::Chunk, descriptors: 0 }.encode();
    for _ in 0..input.sends % 8 {
        let _broken = channel.send(&[&frame[..], b"abc"].concat(), &mut hook);
    }
    while channel.receive(&mut hook).is_ok() {}
});
