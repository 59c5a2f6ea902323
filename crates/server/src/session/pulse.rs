//! Tells the caller of a long call that this server is there (protocol.md §7).
//!
//! The thread of a session tells the progress when it waits. A call may keep it elsewhere: in a
//! commit, or in a call of another node. So a second thread watches the sessions of a cluster.

use super::link::Link;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Half of the time within which a caller has to hear something.
pub const PULSE_INTERVAL: Duration = Duration::from_secs(1);

/// The thread of a session that sends progress when nothing else does. It ends when this value is
/// dropped.
pub struct Pulse {
    _ends: Sender<()>,
}

impl Pulse {
    /// # Errors
    /// That this process may have no more threads.
    pub fn begin(link: &Arc<Mutex<Link>>) -> Result<Self> {
        let (_ends, ended) = channel();
        let link = Arc::downgrade(link);
        let watch = move || {
            while ended.recv_timeout(PULSE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let Some(link) = link.upgrade() else { return };
                // Whoever has it sends something, or waits for the caller.
                if let Some(mut link) = link.try_lock() {
                    link.pulse();
                }
            }
        };
        thread::Builder::new()
            .name("pulse".into())
            .spawn(watch)
            .map_err(|error| Error::from_io(&error, "cannot watch a session"))?;
        Ok(Self { _ends })
    }
}
