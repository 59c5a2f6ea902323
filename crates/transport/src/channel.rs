//! A connection that outlives its socket (docs/protocol.md §6.2).
//!
//! The bytes of all frames since the handshake are one stream in each direction. What was sent is kept until the peer
//! says that it has it; when the socket breaks, a new one is asked for, both sides tell how far they have
//! come, and the stream goes on from there. Whoever sends and receives frames through a [`Channel`] sees none of it.

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

/// The peer is told what has arrived whenever so much has come since the last time.
const TOLD_BYTES: u64 = 1 << 20;

/// Before a wait it is told earlier: by how soon that comes back the peer judges the link.
const TOLD_EARLY_BYTES: u64 = 16 << 10;

/// A peer that has not said it has so many bytes cannot resume any more: memory is bounded.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Frames of fewer bytes are not worth another connection.
const ELSEWHERE_BYTES_MIN: u64 = 64 << 10;

/// So long both sides may take to tell how far they have come: a server looks for a new socket when its statement lets it.
const AGREE_TIME: Duration = Duration::from_secs(30);

/// New sockets in a row over which nothing has come through.
const FRUITLESS_MAX: u32 = 8;

/// Where a new socket comes from when the old one is broken.
pub trait Reconnect: Send {
    /// Whether a new socket is there although the old one does not look broken.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Makes further connections of the session, to receive over.
    fn open_streams(&mut self) -> Vec<Numbered> {
        Vec::new()
    }

    /// Those that the peer has made since this was asked last, to send over.
    fn arrived_streams(&mut self) -> Vec<Numbered> {
        Vec::new()
    }

    /// Waits for a new connection to the same session, whose handshake is done.
    ///
    /// # Errors
    /// That there will be none, because of `error` or for a better reason; the hook's.
    fn reconnect(&mut self, error: &Error, hook: Hook<'_>) -> Result<Transport>;
}

/// Frames in and out, over one socket after the other.
pub struct Channel {
    transport: Transport,
    stall_time: Option<Duration>,
    resumption: Option<Resumption>,
}

struct Resumption {
    source: Box<dyn Reconnect>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Bytes that were sent over further connections.
    elsewhere: u64,
    /// What the peer may not have, from the byte `acknowledged` of the stream on, or a little before.
    kept: VecDeque<Buffer>,
    /// Place of the first kept byte in the stream, and of the first that is not sent.
    kept_from: u64,
    sent: u64,
    /// Bytes of the peer's stream that have been given out, and as the peer knows it.
    received: u64,
    told: u64,
    /// Bytes of our stream that the peer is known to have.
    acknowledged: u64,
    /// Sockets since something came through last, and what had come then.
    fruitless: u32,
    progress: (u64, u64),
}

impl Channel {
    pub fn new(transport: Transport) -> Self {
        Self { transport, stall_time: None, resumption: None }
    }

    /// A channel that goes on over the sockets of `source`.
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
        Self { transport, stall_time: None, resumption: Some(resumption) }
    }

    pub fn socket(&self) -> &Socket {
        self.transport.socket()
    }

    /// A write of which the peer takes nothing for so long breaks the socket; without this it waits as long as there is one.
    pub fn set_stall_time(&mut self, time: Option<Duration>) {
        self.stall_time = time;
        self.transport.set_stall_time(time);
    }

    /// When the peer was heard last.
    pub fn heard(&mut self) -> Instant {
        let first = self.transport.heard();
        let stream = self.resumption.as_mut().and_then(|resumption| resumption.incoming.current());
        stream.map_or(first, |stream| stream.heard().max(first))
    }

    /// Bytes that were sent and that the peer is known to have; `None` where it does not tell.
    pub fn sent_and_acknowledged(&self) -> Option<(u64, u64)> {
        self.resumption.as_ref().map(|resumption| (resumption.sent, resumption.acknowledged))
    }

    /// What was sent over the present socket while it was full, and how long that took.
    pub fn full(&self) -> Full {
        self.transport.full()
    }

    /// Bytes that were sent over further connections of the session: nobody waited for them.
    pub fn sent_elsewhere(&self) -> u64 {
        self.resumption.as_ref().map_or(0, |resumption| resumption.elsewhere)
    }

    /// Connections that frames are sent over.
    pub fn connections(&self) -> u32 {
        1 + self
            .resumption
            .as_ref()
            .map_or(0, |resumption| u32::try_from(resumption.outgoing.len()).unwrap_or(u32::MAX))
    }

    /// Receives over further connections, too, from now on.
    pub fn open_streams(&mut self) {
        if let Some(Resumption { source, incoming, .. }) = &mut self.resumption {
            source.open_streams().into_iter().for_each(|stream| incoming.add(stream));
        }
    }

    /// Whether something comes within a short time.
    pub fn is_readable_within(&self, time: Duration) -> Result<bool> {
        self.transport.is_readable_within(time)
    }

    /// Closes behind last words, of which so much is sent as the socket takes at once.
    pub fn close_with(&mut self, words: &[u8]) {
        self.resumption = None;
        let _gone = self.transport.send(words, &mut || Err(closed()));
        self.transport.close();
    }

    /// No socket follows on the present one.
    pub fn close(&mut self) {
        self.resumption = None;
        self.transport.close();
    }

    /// The next frame.
    ///
    /// # Errors
    /// `Connection` when the socket is broken for good or the peer sends what cannot be; the hook's.
    pub fn receive(&mut self, hook: Hook<'_>) -> Result<Frame> {
        loop {
            if let Some(frame) = self.try_receive(hook)? {
                return Ok(frame);
            }
            if self.resumption.as_ref().is_some_and(|resumption| resumption.untold() >= TOLD_EARLY_BYTES) {
                self.tell(hook)?;
            }
            let waited = match self.resumption.as_mut().and_then(|resumption| resumption.incoming.current()) {
                // When the first connection breaks meanwhile, that is found when it has its turn again.
                Some(stream) => stream.wait(hook),
                None => self.transport.wait(&mut watched(self.resumption.as_ref(), hook)),
            };
            self.unless_broken(waited, hook)?;
        }
    }

    /// Notices a peer that is gone behind more than has been read: for who does not read to the end.
    ///
    /// # Errors
    /// `Connection` when it is gone, and no other socket follows.
    pub fn notice_end(&mut self, hook: Hook<'_>) -> Result<()> {
        if !self.transport.is_left() {
            return Ok(());
        }
        self.transport.give_up();
        self.unless_broken(Err::<(), _>(closed()), hook).map(drop)
    }

    /// What has come over the connection that the next frame comes over.
    fn next_here(&mut self) -> Result<Option<Frame>> {
        let Some(resumption) = &mut self.resumption else { return self.transport.try_receive() };
        if self.transport.is_broken() {
            // Both sides were about to agree when the hook ended that: what comes now may not be what is next.
            return Err(closed());
        }
        let Some(stream) = resumption.incoming.current() else { return self.transport.try_receive() };
        let received = stream.try_receive();
        if stream.is_broken() {
            // One is nothing without the others.
            self.transport.give_up();
        }
        if let Ok(Some(frame)) = &received {
            resumption.incoming.count(frame)?;
        }
        received
    }

    /// The next frame if it is there; waits only for a new socket.
    pub fn try_receive(&mut self, hook: Hook<'_>) -> Result<Option<Frame>> {
        loop {
            let received = self.next_here();
            let Some(received) = self.unless_broken(received, hook)? else { continue };
            let Some(frame) = received else {
                if !self.is_replaced() {
                    return Ok(None);
                }
                // Who works all the time never waits, where this would be found.
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
                    // It was lost when another one broke: what it has is sent again.
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

    /// Sends buffers that are whole frames together, without copying them.
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
        // After a new socket is found it has been sent with all else that is kept.
        self.unless_broken(sent, hook).map(drop)
    }

    /// Sends frames that are kept over another connection.
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
        // After a new socket is found the frames have been sent with all else that is kept.
        if let Some(stream) = self.unless_broken(told, hook)?
            && let Some(resumption) = &mut self.resumption
        {
            resumption.elsewhere += length_of(&buffers);
            resumption.outgoing.send(stream, buffers);
        }
        Ok(())
    }

    /// Sends a frame with descriptors, which go with the first byte of the second piece: the body's.
    pub fn send_with_descriptors(
        &mut self,
        pieces: &[&[u8]],
        descriptors: &[BorrowedFd<'_>],
        hook: Hook<'_>,
    ) -> Result<()> {
        assert!(self.resumption.is_none(), "descriptors go over one socket");
        self.transport.send_pieces(pieces, descriptors, hook)
    }

    /// The result, or `None` after the socket was broken and another one has taken its place.
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

    /// Whether only a new socket helps.
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
            match self.agree(hook) {
                Ok(()) => {
                    self.open_streams();
                    return Ok(());
                }
                Err(broken) if self.is_lost() => error = broken,
                Err(other) => {
                    // Half agreed is not agreed: the next call begins anew.
                    self.transport.give_up();
                    return Err(other);
                }
            }
        }
    }

    /// Both sides tell how far they have come, and send what is behind.
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

    /// Tells how far this side has come, and waits for what the other says; not for ever, and not when the next socket is
    /// there.
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
    /// A further connection that is free, of those that there are by now.
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

    /// Forgets what the peer has.
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

    /// Bytes of the peer's stream that have been given out and that it does not know of.
    fn untold(&self) -> u64 {
        self.received - self.told
    }

    /// Whether sockets come and go and nothing gets through.
    fn is_fruitless(&mut self) -> bool {
        let progress = (self.received, self.kept_from);
        self.fruitless = if progress == self.progress { self.fruitless + 1 } else { 0 };
        self.progress = progress;
        self.fruitless > FRUITLESS_MAX
    }
}

/// The hook, and an end of the wait when the socket is replaced.
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
