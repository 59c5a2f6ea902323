//! Connecting again to a session whose connection broke (docs/protocol.md §6.2).

use crate::address::Address;
use crate::link::{SharedHook, is_refused};
use crate::login::{REFUSED, log_in};
use crate::options::Options;
use crate::progress::Meter;
use hypostyle_transport::{Hook, Numbered, Reconnect, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The time for which a server keeps a session by default.
const RESUME_TIME: Duration = Duration::from_secs(30);

/// The time for which a refused connection is tried again. A server that is gone has lost its
/// sessions, but a proxy in front of it may only be starting.
const REFUSED_TIME: Duration = Duration::from_secs(1);

const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A session that can be resumed.
pub struct Again {
    pub address: Address,
    pub options: Options,
    pub session: u64,
    pub key: Vec<u8>,
    pub hook: SharedHook,
    pub meter: Arc<Meter>,
    pub interrupted: Arc<AtomicBool>,
    /// The number of further connections that were opened until now.
    pub streams: u32,
}

impl Again {
    fn is_interrupted(&self) -> bool {
        let hook = self.hook.lock().clone();
        is_refused(hook.as_ref(), &self.meter) || self.interrupted.load(Ordering::Acquire)
    }
}

impl Reconnect for Again {
    /// Opens as many streams as the server grants. Each one is useful, and none is needed.
    fn open_streams(&mut self) -> Vec<Numbered> {
        let first = self.streams + 1;
        self.streams += self.address.streams - 1;
        let open = |number| {
            let known = (self.session, self.key.as_slice(), number);
            log_in(&self.address, &self.options, Some(known)).ok().map(|(transport, _)| (number, transport))
        };
        scope(|scope| {
            let threads: Vec<_> =
                (first..=self.streams).map(|number| scope.spawn(move || open(number))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
        })
    }

    fn reconnect(&mut self, error: &Error, hook: Hook<'_>) -> Result<Transport> {
        let begin = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let failure = match log_in(&self.address, &self.options, Some((self.session, &self.key, 0))) {
                Ok((transport, _)) => return Ok(transport),
                Err(failure) => failure,
            };
            let patience = match failure.sqlstate() {
                REFUSED => REFUSED_TIME,
                // 53300: the broken connection has the server's last place until the session is
                // resumed or over.
                "08001" | "08006" | "53300" => RESUME_TIME,
                // The server has answered, and does not resume the session.
                _ => Duration::ZERO,
            };
            if begin.elapsed() + pause > patience {
                return Err(lost(error, &failure));
            }
            if self.is_interrupted() {
                return Err(lost(error, &Error::new(ErrorKind::Interrupted, "interrupted")));
            }
            hook()?;
            sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

fn lost(error: &Error, why: &Error) -> Error {
    let message = format!("{}; the session could not be resumed: {}", error.message(), why.message());
    Error::new(ErrorKind::Connection, message)
}
