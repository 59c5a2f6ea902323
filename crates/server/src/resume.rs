//! Sessions that outlive their connection (docs/protocol.md §6.2): who may take one up, and where
//! it waits for that.

use crate::server::{Guest, Server};
use crate::shown::Shown;
use hypostyle_sync::{Condvar, Mutex};
use hypostyle_transport::{Hook, Numbered, Reconnect, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::Capabilities;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// The time after which a session without a connection gives its place to a client that finds none.
const PLACE_KEPT: Duration = Duration::from_secs(1);

/// Further connections beside a session's first.
const STREAMS_MAX: usize = 15;

/// The sessions that a client may take up again.
#[derive(Default)]
pub(crate) struct Resumable(Mutex<HashMap<u64, Arc<Slot>>>);

/// Where a new connection is left for a session.
struct Slot {
    user: String,
    key: Vec<u8>,
    capabilities: Capabilities,
    arrived: Mutex<Option<Transport>>,
    streams: Mutex<Streams>,
    signal: Condvar,
}

/// Further connections that belong to the present first one.
#[derive(Default)]
struct Streams {
    /// Those that the session has not taken up yet.
    waiting: Vec<Numbered>,
    given: usize,
}

/// A session that may be taken up; kept by its own channel, and forgotten with it.
pub(crate) struct Awaited {
    server: Arc<Server>,
    session: u64,
    slot: Arc<Slot>,
}

impl Resumable {
    pub fn add(server: &Arc<Server>, guest: &Guest) -> Awaited {
        let slot = Arc::new(Slot {
            user: guest.identity.user.clone(),
            key: guest.key.clone(),
            capabilities: guest.capabilities,
            arrived: Mutex::default(),
            streams: Mutex::default(),
            signal: Condvar::new(),
        });
        server.resumable.0.lock().insert(guest.session, slot.clone());
        Awaited { server: server.clone(), session: guest.session, slot }
    }

    /// What the session of this user with this key can.
    ///
    /// # Errors
    /// `Closed`, with the same words whatever is wrong.
    pub fn find(&self, session: u64, user: &str, key: &[u8]) -> Result<Capabilities> {
        self.slot(session, user, key).map(|slot| slot.capabilities)
    }

    /// Gives the session a new connection, or a further one when that has a number.
    pub fn give(&self, session: u64, user: &str, key: &[u8], (stream, transport): Numbered) -> Result<()> {
        let slot = self.slot(session, user, key)?;
        let mut streams = slot.streams.lock();
        if stream != 0 {
            if streams.given == STREAMS_MAX {
                let message = format!("a session has no more than {STREAMS_MAX} further connections");
                return Err(Error::new(ErrorKind::Busy, message));
            }
            streams.given += 1;
            streams.waiting.push((stream, transport));
            return Ok(());
        }
        *streams = Streams::default();
        *slot.arrived.lock() = Some(transport);
        slot.signal.notify_all();
        Ok(())
    }

    fn slot(&self, session: u64, user: &str, key: &[u8]) -> Result<Arc<Slot>> {
        let slot = self.0.lock().get(&session).cloned();
        slot.filter(|slot| slot.user == user && is_same(&slot.key, key)).ok_or_else(|| {
            let message = "the session is over, and what it had open is rolled back";
            Error::new(ErrorKind::Closed, message)
        })
    }
}

/// Compares in a time that does not tell where two keys differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

impl Reconnect for Awaited {
    fn is_replaced(&self) -> bool {
        self.slot.arrived.lock().is_some()
    }

    fn arrived_streams(&mut self) -> Vec<Numbered> {
        std::mem::take(&mut self.slot.streams.lock().waiting)
    }

    fn reconnect(&mut self, error: &Error, hook: Hook<'_>) -> Result<Transport> {
        let broken = Instant::now();
        let deadline = broken + self.server.limits.resume_time;
        tracing::info!(session = self.session, error = %Shown(error), "the connection broke; the session waits");
        let mut arrived = self.slot.arrived.lock();
        loop {
            if let Some(transport) = arrived.take() {
                self.server.metrics.resumed.inc();
                tracing::info!(
                    session = self.session,
                    peer = transport.socket().peer(),
                    "the session goes on"
                );
                return Ok(transport);
            }
            if Instant::now() >= deadline || self.server.is_stopping() {
                return Err(error.clone());
            }
            if broken.elapsed() >= PLACE_KEPT && self.server.wants_place() {
                tracing::info!(session = self.session, "the session gives its place to another client");
                return Err(error.clone());
            }
            hook()?;
            arrived = self.slot.signal.wait_until(arrived, Instant::now() + WAIT_INTERVAL).0;
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.server.resumable.0.lock().remove(&self.session);
    }
}
