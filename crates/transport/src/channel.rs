//! A connection that outlives its socket (docs/protocol.md §6.2).
//!
//! The bytes of all frames since the handshake are one stream in each direction. A side keeps the
//! bytes that it has sent until the peer has acknowledged them. When the socket breaks, a new one
//! is requested, both sides tell how many bytes they have received, and the stream goes on from
//! there. Code that sends and receives frames through a [`Channel`] notices none of it.

use crate::Hook;
use crate::frames::{Frame, Transport};
use crate::socket::{Socket, closed};
use crate::streams::{Incoming, Numbered, Outgoing};
use arrow_buffer::Buffer;
use hypostyle_types::{Error, ErrorKind, Result, to_usize};
use hypostyle_wire::{Elsewhere, FRAME_HEADER_BYTES, FrameType, Full, Received};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The number of bytes after which the peer is told how much has arrived.
const TOLD_BYTES: u64 = 1 << 20;

/// The number of bytes after which the peer is told before a wait: it judges the link by how soon
/// it hears of them.
const TOLD_EARLY_BYTES: u64 = 16 << 10;

/// A peer that has not acknowledged this many bytes cannot resume any more, so that memory is
/// bounded.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Frames of fewer bytes are not worth another connection.
const ELSEWHERE_BYTES_MIN: u64 = 64 << 10;

/// The time that both sides may take to agree. A server looks for a new socket only when its
/// statement lets it.
const AGREE_TIME: Duration = Duration::from_secs(30);

/// The number of new sockets in a row over which nothing has come through.
const FRUITLESS_MAX: u32 = 8;

/// Gives a new socket when the old one is broken.
pub trait Reconnect: Send {
    /// Says whether a new socket is there although the old one does not look broken.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Opens further connections of the session, to receive over.
    fn open_streams(&mut self) -> Vec<Numbered> {
        Vec::new()
    }

    /// Returns the connections that the peer has opened since the last call, to send over.
    fn arrived_streams(&mut self) -> Vec<Numbered> {
        Vec::new()
    }

    /// Waits for a new connection to the same session, whose handshake is done.
    ///
    /// # Errors
    /// The reason why there will be none, which is `error` or a better one; or the error of the
    /// hook.
    fn reconnect(&mut self, error: &Error, hook: Hook<'_>) -> Result<Transport>;
}

/// Sends and receives frames, over one socket after the other.
pub struct Channel {
    transport: Transport,
    stall_time: Option<Duration>,
    frame_time: Option<Duration>,
    answer_time: Option<Duration>,
    resumption: Option<Resumption>,
}

struct Resumption {
    source: Box<dyn Reconnect>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// The bytes that were sent over further connections.
    elsewhere: u64,
    /// The bytes that the peer may not have, from the byte `acknowledged` of the stream on, or a
    /// little before.
    kept: VecDeque<Buffer>,
    /// The place in the stream of the first kept byte, and of the first that is not sent.
    kept_from: u64,
    sent: u64,
    /// The bytes of the peer's stream that have been given out, and the number that the peer knows
    /// of.
    received: u64,
    told: u64,
    /// The bytes of our stream that the peer is known to have.
    acknowledged: u64,
    /// The number of sockets since bytes came through last, and how many bytes had come then.
    fruitless: u32,
    progress: (u64, u64),
}

impl Channel {
    pub fn new(transport: Transport) -> Self {
        Self { transport, stall_time: None, frame_time: None, answer_time: None, resumption: None }
    }

    /// Returns a channel that continues over the sockets of `source`.
    pub fn resumable(transport: Transport, source: Box<dyn Reconnect>) -> Self {
        let resumption = Resumption {
            source,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            elsewhere: 0,
            kept: VecDeque::new(),
            kept_from: 0,
            sent: 0,
            received: 0,
            told: 0,
            acknowledged: 0,
            fruitless: 0,
            progress: (0, 0),
        };
        let resumption = Some(resumption);
        Self { transport, stall_time: None, frame_time: None, answer_time: None, resumption }
    }

    pub fn socket(&self) -> &Socket {
        self.transport.socket()
    }

    /// Sets the time after which a write breaks the socket if the peer takes nothing. Without this
    /// time a write waits as long as there is a peer.
    pub fn set_stall_time(&mut self, time: Option<Duration>) {
        self.stall_time = time;
        self.transport.set_stall_time(time);
    }

    /// Sets the time after which the socket breaks if the peer has begun a frame and sends nothing more of
    /// it.
    pub fn set_frame_time(&mut self, time: Option<Duration>) {
        self.frame_time = time;
        self.transport.set_frame_time(time);
    }

    /// Sets the time after which the socket breaks if the peer's system acknowledges nothing of what is sent
    /// to it: its machine is gone, or the network. What its program does not take, its system acknowledges.
    pub fn set_answer_time(&mut self, time: Option<Duration>) {
        self.answer_time = time;
        self.transport.set_answer_time(time);
    }

    /// Returns the time at which the peer was last heard.
    pub fn heard(&mut self) -> Instant {
        let first = self.transport.heard();
        let stream = self.resumption.as_mut().and_then(|resumption| resumption.incoming.current());
        stream.map_or(first, |stream| stream.heard().max(first))
    }

    /// Returns the bytes that were sent and those that the peer is known to have. Returns `None` if
    /// it does not acknowledge.
    pub fn sent_and_acknowledged(&self) -> Option<(u64, u64)> {
        self.resumption.as_ref().map(|resumption| (resumption.sent, resumption.acknowledged))
    }

    /// Returns the bytes that were sent over the present socket while it was full, and the time
    /// that this took.
    pub fn full(&self) -> Full {
        self.transport.full()
    }

    /// Returns the bytes that were sent over further connections of the session, for which nobody
    /// waited.
    pub fn sent_elsewhere(&self) -> u64 {
        self.resumption.as_ref().map_or(0, |resumption| resumption.elsewhere)
    }

    /// Returns the number of connections that frames are sent over.
    pub fn connections(&self) -> u32 {
        1 + self
            .resumption
            .as_ref()
            .map_or(0, |resumption| u32::try_from(resumption.outgoing.len()).unwrap_or(u32::MAX))
    }

    /// Opens further connections to receive over.
    pub fn open_streams(&mut self) {
        if let Some(Resumption { source, incoming, .. }) = &mut self.resumption {
            source.open_streams().into_iter().for_each(|stream| incoming.add(stream));
        }
    }

    /// Says whether bytes come within a short time.
    pub fn is_readable_within(&self, time: Duration) -> Result<bool> {
        self.transport.is_readable_within(time)
    }

    /// Closes the connection after some last bytes, of which as many are sent as the socket takes
    /// at once.
    pub fn close_with(&mut self, words: &[u8]) {
        self.resumption = None;
        let _gone = self.transport.send(words, &mut || Err(closed()));
        self.transport.close();
    }

    /// Closes the channel: no socket follows the present one.
    pub fn close(&mut self) {
        self.resumption = None;
        self.transport.close();
    }

    /// Returns the next frame.
    ///
    /// # Errors
    /// `Connection` when the socket is broken for good or the peer sends invalid bytes; or the
    /// error of the hook.
    pub fn receive(&mut self, hook: Hook<'_>) -> Result<Frame> {
        loop {
            if let Some(frame) = self.try_receive(hook)? {
                return Ok(frame);
            }
            if self.resumption.as_ref().is_some_and(|resumption| resumption.untold() >= TOLD_EARLY_BYTES) {
                self.tell(hook)?;
            }
            let waited = match self.resumption.as_mut().and_then(|resumption| resumption.incoming.current()) {
                // If the first connection breaks meanwhile, this is found when it has its turn
                // again.
                Some(stream) => stream.wait(hook),
                None => self.transport.wait(&mut watched(self.resumption.as_ref(), hook)),
            };
            self.unless_broken(waited, hook)?;
        }
    }

    /// Notices that a peer is gone although it has sent more than has been read, for callers that
    /// do not read to the end.
    ///
    /// # Errors
    /// `Connection` when the peer is gone, and no other socket follows.
    pub fn notice_end(&mut self, hook: Hook<'_>) -> Result<()> {
        if !self.transport.is_left() {
            return Ok(());
        }
        self.transport.give_up();
        self.unless_broken(Err::<(), _>(closed()), hook).map(drop)
    }

    /// Returns the next frame if it has come over the connection whose turn it is.
    fn next_here(&mut self) -> Result<Option<Frame>> {
        let Some(resumption) = &mut self.resumption else { return self.transport.try_receive() };
        if self.transport.is_broken() {
            // The hook ended an agreement: the next bytes may not be the next ones of the stream.
            return Err(closed());
        }
        let Some(stream) = resumption.incoming.current() else { return self.transport.try_receive() };
        let received = stream.try_receive();
        if stream.is_broken() {
            // A connection is of no use without the others.
            self.transport.give_up();
        }
        if let Ok(Some(frame)) = &received {
            resumption.incoming.count(frame)?;
        }
        received
    }

    /// Returns the next frame if it is there. Waits only for a new socket.
    pub fn try_receive(&mut self, hook: Hook<'_>) -> Result<Option<Frame>> {
        loop {
            let received = self.next_here();
            let Some(received) = self.unless_broken(received, hook)? else { continue };
            let Some(frame) = received else {
                if !self.is_replaced() {
                    return Ok(None);
                }
                // A side that works all the time never waits, and would not notice it there.
                self.resume(replaced(), hook)?;
                continue;
            };
            let Some(resumption) = &mut self.resumption else { return Ok(Some(frame)) };
            if frame.frame_type == FrameType::Received {
                resumption.acknowledge(&Received::decode(&frame.body)?)?;
                continue;
            }
            if frame.frame_type == FrameType::Elsewhere {
                let found = resumption.incoming.go_on(Elsewhere::decode(&frame.body)?);
                if found.is_err() {
                    // It was lost when another one broke: its frames are sent again.
                    self.transport.give_up();
                }
                self.unless_broken(found, hook)?;
                continue;
            }
            resumption.count(&frame);
            if resumption.untold() >= TOLD_BYTES {
                self.tell(hook)?;
            }
            return Ok(Some(frame));
        }
    }

    fn tell(&mut self, hook: Hook<'_>) -> Result<()> {
        let Some(resumption) = &mut self.resumption else { return Ok(()) };
        resumption.told = resumption.received;
        let frame = Received(resumption.received).frame();
        let sent = self.transport.send(&frame, &mut watched(self.resumption.as_ref(), hook));
        self.unless_broken(sent, hook).map(drop)
    }

    /// Sends bytes that are whole frames.
    pub fn send(&mut self, bytes: &[u8], hook: Hook<'_>) -> Result<()> {
        match self.resumption {
            None => self.transport.send(bytes, hook),
            Some(_) => self.send_buffers(vec![Buffer::from(bytes)], hook),
        }
    }

    /// Sends buffers that together are whole frames, without copying them.
    pub fn send_buffers(&mut self, buffers: Vec<Buffer>, hook: Hook<'_>) -> Result<()> {
        let pieces: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
        let Some(resumption) = &mut self.resumption else {
            return self.transport.send_pieces(&pieces, &[], hook);
        };
        resumption.keep(&buffers);
        if resumption.sent - resumption.kept_from > KEPT_BYTES_MAX + length_of(&buffers) {
            self.resumption = None;
        } else if length_of(&buffers) >= ELSEWHERE_BYTES_MIN
            && !self.transport.is_broken()
            && let Some(stream) = resumption.free_stream()
        {
            return self.send_elsewhere(stream, buffers, hook);
        }
        let sent = match self.transport.is_broken() {
            true => Err(closed()),
            false => self.transport.send_pieces(&pieces, &[], &mut watched(self.resumption.as_ref(), hook)),
        };
        // After a new socket is found, the buffers have been sent with everything else that is
        // kept.
        self.unless_broken(sent, hook).map(drop)
    }

    /// Sends kept frames over another connection.
    fn send_elsewhere(&mut self, stream: Result<u32>, buffers: Vec<Buffer>, hook: Hook<'_>) -> Result<()> {
        let told = match stream {
            Ok(stream) => {
                let frame = Elsewhere { stream, bytes: length_of(&buffers) }.frame();
                let watched = &mut watched(self.resumption.as_ref(), hook);
                self.transport.send(&frame, watched).map(|()| stream)
            }
            Err(error) => {
                self.transport.give_up();
                Err(error)
            }
        };
        // After a new socket is found, the frames have been sent with everything else that is kept.
        if let Some(stream) = self.unless_broken(told, hook)?
            && let Some(resumption) = &mut self.resumption
        {
            resumption.elsewhere += length_of(&buffers);
            resumption.outgoing.send(stream, buffers);
        }
        Ok(())
    }

    /// Sends a frame with descriptors, which go with the first byte of the second piece, the body.
    pub fn send_with_descriptors(
        &mut self,
        pieces: &[&[u8]],
        descriptors: &[BorrowedFd<'_>],
        hook: Hook<'_>,
    ) -> Result<()> {
        assert!(self.resumption.is_none(), "descriptors go over one socket");
        self.transport.send_pieces(pieces, descriptors, hook)
    }

    /// Returns the result, or `None` if the socket was broken and another one has replaced it.
    fn unless_broken<T>(&mut self, result: Result<T>, hook: Hook<'_>) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if !self.is_lost() {
            return Err(error);
        }
        self.resume(error, hook)?;
        Ok(None)
    }

    /// Says whether only a new socket helps.
    fn is_lost(&self) -> bool {
        self.transport.is_broken() || self.is_replaced()
    }

    fn is_replaced(&self) -> bool {
        self.resumption.as_ref().is_some_and(|resumption| resumption.source.is_replaced())
    }

    fn resume(&mut self, mut error: Error, hook: Hook<'_>) -> Result<()> {
        loop {
            self.transport.close();
            let Some(resumption) = &mut self.resumption else { return Err(error) };
            if resumption.is_fruitless() {
                return Err(error);
            }
            (resumption.outgoing, resumption.incoming) = Default::default();
            self.transport = resumption.source.reconnect(&error, hook)?;
            self.transport.set_stall_time(self.stall_time);
            self.transport.set_frame_time(self.frame_time);
            self.transport.set_answer_time(self.answer_time);
            match self.agree(hook) {
                Ok(()) => {
                    self.open_streams();
                    return Ok(());
                }
                Err(broken) if self.is_lost() => error = broken,
                Err(other) => {
                    // An agreement by one side is not enough: the next call begins anew.
                    self.transport.give_up();
                    return Err(other);
                }
            }
        }
    }

    /// Lets both sides tell how far they have come, and sends again what is missing.
    fn agree(&mut self, hook: Hook<'_>) -> Result<()> {
        let frame = self.exchange_received(hook)?;
        if frame.frame_type != FrameType::Received {
            let message =
                format!("a {:?} frame where a resumed session begins with Received", frame.frame_type);
            return Err(Error::protocol(message));
        }
        let received = Received::decode(&frame.body)?;
        let Some(resumption) = &mut self.resumption else { return Ok(()) };
        resumption.acknowledge(&received)?;
        let resumption = &*resumption;
        let mut skip = to_usize(received.0 - resumption.kept_from);
        let mut pieces = Vec::with_capacity(resumption.kept.len());
        for buffer in &resumption.kept {
            pieces.push(buffer.get(skip..).unwrap_or_default());
            skip = skip.saturating_sub(buffer.len());
        }
        self.transport.send_pieces(&pieces, &[], &mut watched(Some(resumption), hook))
    }

    /// Tells how far this side has come, and waits for the other side's answer. The wait has a
    /// limit, and ends when the next socket is there.
    fn exchange_received(&mut self, hook: Hook<'_>) -> Result<Frame> {
        let received = self.resumption.as_mut().map_or(0, |resumption| {
            resumption.told = resumption.received;
            resumption.received
        });
        let deadline = Instant::now() + AGREE_TIME;
        let mut watched = watched(self.resumption.as_ref(), hook);
        let mut hook = || match Instant::now() < deadline {
            true => watched(),
            false => Err(Error::new(ErrorKind::Connection, "the other side does not go on with the session")),
        };
        let sent = self.transport.send(&Received(received).frame(), &mut hook);
        let frame = sent.and_then(|()| self.transport.receive(&mut hook));
        if frame.is_err() && Instant::now() >= deadline {
            self.transport.give_up();
        }
        frame
    }
}

impl Resumption {
    /// Returns a further connection that is free.
    fn free_stream(&mut self) -> Option<Result<u32>> {
        for stream in self.source.arrived_streams() {
            if let Err(error) = self.outgoing.add(stream) {
                return Some(Err(error));
            }
        }
        self.outgoing.free().transpose()
    }

    fn keep(&mut self, buffers: &[Buffer]) {
        self.sent += length_of(buffers);
        self.kept.extend(buffers.iter().filter(|buffer| !buffer.is_empty()).cloned());
    }

    /// Drops the bytes that the peer has acknowledged.
    fn acknowledge(&mut self, received: &Received) -> Result<()> {
        if received.0 > self.sent || received.0 < self.kept_from {
            return Err(Error::protocol(format!(
                "{} bytes are said to have arrived of which {} were sent and {} forgotten",
                received.0, self.sent, self.kept_from
            )));
        }
        self.acknowledged = received.0;
        while let Some(first) = self.kept.front()
            && self.kept_from + first.len() as u64 <= received.0
        {
            self.kept_from += first.len() as u64;
            self.kept.pop_front();
        }
        Ok(())
    }

    /// Counts a frame that is given out.
    fn count(&mut self, frame: &Frame) {
        self.received += (FRAME_HEADER_BYTES + frame.body.len()) as u64;
    }

    /// Returns the bytes of the peer's stream that have been given out and not acknowledged.
    fn untold(&self) -> u64 {
        self.received - self.told
    }

    /// Says whether sockets come and go and nothing gets through.
    fn is_fruitless(&mut self) -> bool {
        let progress = (self.received, self.kept_from);
        self.fruitless = if progress == self.progress { self.fruitless + 1 } else { 0 };
        self.progress = progress;
        self.fruitless > FRUITLESS_MAX
    }
}

/// Returns a hook that calls another one, and that ends the wait when the socket is replaced.
fn watched<'a>(resumption: Option<&'a Resumption>, hook: Hook<'a>) -> impl FnMut() -> Result<()> + use<'a> {
    move || match resumption {
        Some(resumption) if resumption.source.is_replaced() => Err(replaced()),
        _ => hook(),
    }
}

fn replaced() -> Error {
    Error::new(ErrorKind::Connection, "the client has connected again")
}

fn length_of(buffers: &[Buffer]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}
