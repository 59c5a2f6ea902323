//! Loopback TCP, at full speed or limited to the speed of a network.
//!
//! A link's bytes leave a send buffer at the link's rate, as they leave the kernel's. A writer
//! continues until the buffer is full, so that encoding and sending overlap as on a real link. All
//! tables are one query and its answer, so latency counts once.

use std::io::{IoSlice, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hypostyle_wire::{FrameHeader, FrameType};

/// The bytes that a sender may be ahead of its link, beyond those that are on the way: the limit of
/// the product's sockets.
const UNSENT_BYTES: f64 = (256 << 10) as f64;

/// The bytes that are given to the socket at once if the link limits the rate.
const SLICE_BYTES: usize = 64 << 10;

/// A network, by the chapter's names.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub name: &'static str,
    bytes_per_second: Option<f64>,
    round_trip: Duration,
    /// The divisor of the rows: only the first part of them is sent if all would take minutes.
    pub share: usize,
    /// The largest number of counted runs: on a slow link they hardly differ, and take long.
    pub runs_max: usize,
}

pub const LOCAL: Link = Link {
    name: "Local",
    bytes_per_second: None,
    round_trip: Duration::ZERO,
    share: 1,
    runs_max: usize::MAX,
};
pub const LAN: Link =
    Link { name: "LAN", bytes_per_second: Some(125e6), round_trip: Duration::from_micros(300), ..LOCAL };
pub const WAN: Link = Link {
    name: "WAN",
    bytes_per_second: Some(12.5e6),
    round_trip: Duration::from_millis(25),
    runs_max: 3,
    ..LOCAL
};
/// The slowest network of the chapter's Table 3.5.
pub const SLOW: Link =
    Link { name: "10 Mbit/s, a tenth", bytes_per_second: Some(1.25e6), share: 10, runs_max: 1, ..WAN };

impl Link {
    /// Says whether the receiver shares the sender's machine, with nothing in between.
    pub fn is_local(&self) -> bool {
        self.bytes_per_second.is_none()
    }

    /// Returns the sending end, after the time that the query and the first byte of its answer are
    /// on the way.
    pub fn open(&self, stream: TcpStream) -> Outgoing {
        sleep(self.round_trip);
        let pace = self.bytes_per_second.map(|rate| Pace {
            rate,
            backlog_max: UNSENT_BYTES + rate * self.round_trip.as_secs_f64(),
            backlog: 0.0,
            seen: Instant::now(),
        });
        Outgoing { stream, pace, bytes: 0, frame_bytes_max: 0 }
    }
}

/// The send buffer of a link.
struct Pace {
    rate: f64,
    backlog_max: f64,
    /// The bytes that have not left the buffer.
    backlog: f64,
    seen: Instant,
}

impl Pace {
    /// Waits until the buffer has no more bytes than a limit.
    fn wait_for(&mut self, backlog_max: f64) {
        self.drain();
        if self.backlog > backlog_max {
            sleep(Duration::from_secs_f64((self.backlog - backlog_max) / self.rate));
            self.drain();
        }
    }

    fn drain(&mut self) {
        let now = Instant::now();
        self.backlog = (self.backlog - self.rate * (now - self.seen).as_secs_f64()).max(0.0);
        self.seen = now;
    }
}

/// The sending end of a link.
pub struct Outgoing {
    stream: TcpStream,
    pace: Option<Pace>,
    bytes: u64,
    frame_bytes_max: usize,
}

impl Outgoing {
    /// Sends a frame whose body is in pieces, and returns the time that this took.
    pub fn send(&mut self, frame_type: FrameType, body: &[&[u8]]) -> Result<Duration> {
        let start = Instant::now();
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        let length = u32::try_from(length).map_err(|_| std::io::Error::other("a frame is above 4 GiB"))?;
        let header = FrameHeader { length, frame_type, descriptors: 0 }.encode();
        let frame_bytes = header.len() + length as usize;
        self.bytes += frame_bytes as u64;
        self.frame_bytes_max = self.frame_bytes_max.max(frame_bytes);
        let mut pieces = vec![header.as_slice()];
        pieces.extend_from_slice(body);
        match &mut self.pace {
            None => write_all(&mut self.stream, &pieces)?,
            Some(pace) => {
                for slice in pieces.iter().flat_map(|piece| piece.chunks(SLICE_BYTES)) {
                    pace.wait_for(pace.backlog_max - slice.len() as f64);
                    self.stream.write_all(slice)?;
                    pace.backlog += slice.len() as f64;
                }
            }
        }
        Ok(start.elapsed())
    }

    /// Ends the stream when its last byte has left the buffer.
    pub fn finish(mut self) -> Result<Sent> {
        if let Some(pace) = &mut self.pace {
            pace.wait_for(0.0);
        }
        self.stream.shutdown(Shutdown::Write)?;
        Ok(Sent { bytes: self.bytes, frame_bytes_max: self.frame_bytes_max })
    }
}

/// The bytes and times of a transfer, headers of frames included.
pub struct Sent {
    pub bytes: u64,
    pub frame_bytes_max: usize,
}

fn write_all(stream: &mut TcpStream, pieces: &[&[u8]]) -> Result<()> {
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        let written = stream.write_vectored(rest)?;
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn bytes_take_the_time_of_their_link() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiving, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            receiving.read_to_end(&mut received).unwrap();
            received
        });
        let start = Instant::now();
        let mut outgoing = LAN.open(sending);
        let body = vec![7; 3 << 20];
        for _ in 0..4 {
            outgoing.send(FrameType::Chunk, &[&body[..1000], &body[1000..]]).unwrap();
        }
        let sent = outgoing.finish().unwrap();
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(sent.bytes, 4 * (8 + (3 << 20)));
        assert_eq!(sent.frame_bytes_max, 8 + (3 << 20));
        assert_eq!(reader.join().unwrap().len() as u64, sent.bytes);
        assert!(seconds >= sent.bytes as f64 / 125e6, "{seconds}");
    }
}
