//! Further connections of a session, which carry one result together with the first
//! (docs/protocol.md §6.3).
//!
//! The first connection keeps the order of all frames: if frames are sent over another connection,
//! it says so in their place. So nothing has to be put in order again, and a session whose
//! connection breaks is resumed as if everything had gone over the first.

use crate::frames::{Frame, Transport};
use arrow_buffer::Buffer;
use hypostyle_sync::{Condvar, Mutex};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{Elsewhere, FRAME_HEADER_BYTES};
use std::sync::Arc;
use std::thread;

/// A further connection and its number in the session, which is never used twice.
pub type Numbered = (u32, Transport);

/// The connections to send over, with a thread for each.
#[derive(Default)]
pub(crate) struct Outgoing(Vec<Lane>);

struct Lane {
    number: u32,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The buffers that are to be sent, or are being sent.
    job: Option<Vec<Buffer>>,
    failed: Option<Error>,
    over: bool,
}

impl Outgoing {
    pub fn add(&mut self, (number, transport): Numbered) -> Result<()> {
        let shared = Arc::<Shared>::default();
        let its = shared.clone();
        thread::Builder::new()
            .name(format!("stream {number}"))
            .spawn(move || its.serve(transport))
            .map_err(|error| Error::new(ErrorKind::Io, format!("no thread for a stream: {error}")))?;
        self.0.push(Lane { number, shared });
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of a connection that is not sending.
    ///
    /// # Errors
    /// The error of a connection that is broken.
    pub fn free(&self) -> Result<Option<u32>> {
        let mut free = None;
        for Lane { number, shared } in &self.0 {
            let state = shared.state.lock();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.job.is_none() {
                free.get_or_insert(*number);
            }
        }
        Ok(free)
    }

    /// Sends whole frames over a connection that is free.
    pub fn send(&self, number: u32, buffers: Vec<Buffer>) {
        if let Some(Lane { shared, .. }) = self.0.iter().find(|lane| lane.number == number) {
            shared.state.lock().job = Some(buffers);
            shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn serve(&self, mut transport: Transport) {
        loop {
            let mut state = self.state.lock();
            while state.job.is_none() && !state.over {
                state = self.changed.wait(state);
            }
            let Some(buffers) = state.job.clone().filter(|_| !state.over) else { return };
            drop(state);
            let pieces: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
            let sent = transport.send_pieces(&pieces, &[], &mut || match self.state.lock().over {
                true => Err(Error::new(ErrorKind::Closed, "the session is over")),
                false => Ok(()),
            });
            let mut state = self.state.lock();
            if let Err(error) = sent {
                state.failed = Some(error);
                return;
            }
            state.job = None;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.state.lock().over = true;
        self.shared.changed.notify_one();
    }
}

/// The connections to receive from.
#[derive(Default)]
pub(crate) struct Incoming {
    transports: Vec<Numbered>,
    /// The connection of the next frames, and the number of their bytes.
    next: Option<(usize, u64)>,
}

impl Incoming {
    pub fn add(&mut self, stream: Numbered) {
        self.transports.push(stream);
    }

    /// # Errors
    /// `Connection` when there is no such connection.
    pub fn go_on(&mut self, elsewhere: Elsewhere) -> Result<()> {
        let place = self.transports.iter().position(|(number, _)| *number == elsewhere.stream);
        let place = place.filter(|_| elsewhere.bytes > 0).ok_or_else(|| {
            Error::protocol(format!(
                "{} bytes on stream {}, which is not there",
                elsewhere.bytes, elsewhere.stream
            ))
        })?;
        self.next = Some((place, elsewhere.bytes));
        Ok(())
    }

    /// Returns the connection over which the next frame comes, unless it is the first.
    pub fn current(&mut self) -> Option<&mut Transport> {
        let (place, _) = self.next?;
        self.transports.get_mut(place).map(|(_, transport)| transport)
    }

    /// Counts a frame that has come over the current connection.
    pub fn count(&mut self, frame: &Frame) -> Result<()> {
        let Some((place, left)) = self.next else { return Ok(()) };
        let left = left.checked_sub((FRAME_HEADER_BYTES + frame.body.len()) as u64);
        let left = left.ok_or_else(|| Error::protocol("a stream has other frames than were announced"))?;
        self.next = (left > 0).then_some((place, left));
        Ok(())
    }
}
