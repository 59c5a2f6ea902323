//! Cancel requests: which statement of which session is to be interrupted.
//!
//! A session has a number and a secret, which it told its client; whoever knows both may interrupt it, over a
//! connection of its own and without a password.

use hypostyle::{Connection, Result};
use hypostyle_sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub process: u32,
    pub secret: u32,
}

/// The sessions that can be interrupted.
#[derive(Clone, Default)]
pub(crate) struct Cancels(Arc<Mutex<HashMap<Key, Connection>>>);

impl Cancels {
    /// Adds a session; it is there as long as the guard.
    pub fn add(&self, connection: &Connection) -> Result<Registered> {
        let mut sessions = self.0.lock();
        loop {
            let random = crate::users::random(8)?;
            let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            // Clients show the number as a process: it is positive.
            let key = Key { process: number(&random[..4]) >> 1, secret: number(&random[4..]) };
            if key.process > 0 && sessions.keys().all(|other| other.process != key.process) {
                sessions.insert(key, connection.clone());
                return Ok(Registered { key, cancels: self.clone() });
            }
        }
    }

    /// Interrupts a session, if there is one of that key. The client is told nothing either way.
    pub fn cancel(&self, key: Key) {
        let connection = self.0.lock().get(&key).cloned();
        if let Some(connection) = connection {
            connection.interrupt();
        }
    }
}

/// Takes its session out of the list when dropped.
pub(crate) struct Registered {
    pub key: Key,
    cancels: Cancels,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancels.0.lock().remove(&self.key);
    }
}
