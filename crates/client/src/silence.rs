//! The silence of a server whose answer is awaited.

use hypostyle_types::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// A wait that a silent server ends.
pub struct Silence {
    limit: Option<Duration>,
    since: Instant,
    /// The time at which the server was heard last, when it had been silent for too long.
    suspected: Option<Instant>,
}

impl Silence {
    /// Begins a wait.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, since: Instant::now(), suspected: None }
    }

    /// Says whether a server that was last heard at `heard` has been silent for too long.
    pub fn is_too_long(&self, heard: Instant) -> bool {
        self.limit.is_some_and(|limit| heard.max(self.since).elapsed() > limit)
    }

    /// Returns the error that ends the wait. A server is given up the second time only: what it has
    /// sent may not have been read yet if this process has not run for a while.
    pub fn end(&mut self, heard: Instant) -> Option<Error> {
        let limit = self.limit.filter(|_| self.is_too_long(heard))?;
        if self.suspected.replace(heard) != Some(heard) {
            return None;
        }
        let message = format!(
            "the server has sent nothing for {} s: it is unreachable or stopped, and the connection is given up",
            limit.as_secs_f64()
        );
        Some(Error::new(ErrorKind::Connection, message).unreachable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn a_server_is_silent_when_nothing_has_come_once_all_is_read() {
        let limit = Duration::from_millis(20);
        let early = Instant::now();
        let mut silence = Silence::new(Some(limit));
        assert!(!silence.is_too_long(early) && silence.end(early).is_none());
        sleep(2 * limit);
        assert!(silence.is_too_long(early) && silence.end(early).is_none());
        // Something has come meanwhile.
        let heard = Instant::now();
        assert!(!silence.is_too_long(heard) && silence.end(heard).is_none());
        sleep(2 * limit);
        assert!(silence.end(heard).is_none());
        let error = silence.end(heard).unwrap();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Connection, "08006"));
        assert!(error.is_unreachable());
    }

    #[test]
    fn the_time_before_a_wait_is_no_silence() {
        let heard = Instant::now();
        sleep(Duration::from_millis(20));
        assert!(!Silence::new(Some(Duration::from_millis(15))).is_too_long(heard));
        assert!(!Silence::new(None).is_too_long(heard));
    }
}
