//! The memory of temporary tables, of which users who share a server have a part only: whoever may
//! read could otherwise keep so much of it that the statements of others fail.

use super::{Engine, Session};
use hypostyle_exec::memory::Held;
use hypostyle_storage::Budget;
use hypostyle_types::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::{Arc, Weak};

/// A user's temporary tables have this part of `memory_limit`, and those of all users twice as much.
const PART_OF_USER: u64 = 4;

/// The memory of a session's temporary tables, as a part of that of its user's sessions.
pub(crate) struct Share {
    held: Arc<Held>,
    user: String,
    engine: Weak<Engine>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({}, {:?})", self.user, self.held)
    }
}

impl Session {
    /// Returns what the temporary tables take their memory from: of a user who may set limits, all there
    /// is.
    pub(crate) fn temporary_budget(&self) -> Arc<dyn Budget> {
        let pool = self.context.runtime_env().memory_pool.clone();
        let held = self.temporary.get_or_init(|| Arc::new(Held::new("temporary tables", &pool))).clone();
        match self.identity.privileges.machine {
            true => held,
            false => {
                let (user, engine) = (self.identity.user.clone(), Arc::downgrade(&self.engine));
                Arc::new(Share { held, user, engine })
            }
        }
    }
}

impl Budget for Share {
    fn take(&self, bytes: u64) -> Result<()> {
        if let Some(engine) = self.engine.upgrade() {
            let part = engine.options().memory_limit / PART_OF_USER;
            let (mut own, mut all) = (bytes, bytes);
            for session in engine.sessions().iter().filter(|session| !session.identity.privileges.machine) {
                let held = session.temporary.get().map_or(0, |held| held.bytes());
                all += held;
                own += if session.identity.user == self.user { held } else { 0 };
            }
            check(own, part, &format!("of the user \"{}\"", self.user))?;
            check(all, 2 * part, "of all users")?;
        }
        self.held.take(bytes)
    }
}

fn check(bytes: u64, limit: u64, whose: &str) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    let message = format!(
        "the temporary tables {whose} would take {bytes} bytes, and memory_limit lets them have {limit}; drop some \
         of them, or have an administrator raise memory_limit"
    );
    Err(Error::new(ErrorKind::OutOfMemory, message).with_sqlstate("53400"))
}
