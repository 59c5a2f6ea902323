//! Whether a node may have missed what others know, because it was away.

use hypostyle_sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks at the clock in which a node was stopped.
const STOPPED: Duration = Duration::from_secs(1);

/// How long a node that has found no majority waits until it asks again.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether a node may have missed what others know.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    was_away: AtomicBool,
    clock: Mutex<Clock>,
    /// Locked by who asks the others, for all who read.
    asking: Mutex<()>,
}

/// What a node that looks at the clock from time to time knows of when it was stopped, and has asked.
#[derive(Debug, Default)]
struct Clock {
    /// When it has looked, if it does.
    looked: Option<Instant>,
    /// The time that it was stopped before, all together.
    stopped: Duration,
    /// When it has asked the others in this doubt, and has not learned what would end it.
    asked: Option<Instant>,
}

impl Clock {
    /// Returns for how long the node was stopped since it has looked, if it was.
    fn gap(&self) -> Option<Duration> {
        self.looked.map(|looked| looked.elapsed()).filter(|gap| *gap > STOPPED)
    }

    /// Looks at the clock, if somebody does so from time to time.
    fn look(&mut self) {
        self.stopped += self.gap().unwrap_or_default();
        self.looked = self.looked.map(|_| Instant::now());
    }
}

impl Doubt {
    /// Makes the doubt of a node that begins.
    pub fn new(was_away: bool) -> Self {
        Self { was_away: was_away.into(), ..Self::default() }
    }

    /// Begins a doubt.
    pub fn begin(&self) {
        self.clock.lock().asked = None;
        self.was_away.store(true, Ordering::Release);
    }

    /// Waits until nobody else asks the others, and keeps others from it. Once they were asked in vain,
    /// nobody waits for that again: `None` if somebody asks.
    pub fn ask_alone(&self) -> Option<MutexGuard<'_, ()>> {
        if self.has_asked() { self.asking.try_lock() } else { Some(self.asking.lock()) }
    }

    /// Says whether the others were asked in this doubt already.
    pub fn has_asked(&self) -> bool {
        self.clock.lock().asked.is_some()
    }

    /// Says whether there is a doubt, and it is time to ask the others.
    pub fn is_due(&self) -> bool {
        self.is_there() && self.clock.lock().asked.is_none_or(|asked| asked.elapsed() >= AGAIN)
    }

    /// Goes on with a doubt: the others were asked, and too few have answered.
    pub fn go_on(&self) {
        self.clock.lock().asked = Some(Instant::now());
        self.was_away.store(true, Ordering::Release);
    }

    /// Says whether there is a doubt.
    pub fn is_there(&self) -> bool {
        self.clock.lock().gap().is_some() || self.was_away.load(Ordering::Acquire)
    }

    /// Returns for how long the node was stopped, all together.
    pub fn stopped(&self) -> Duration {
        let clock = self.clock.lock();
        clock.stopped + clock.gap().unwrap_or_default()
    }

    /// Looks at the clock: who was stopped since the last time is in doubt.
    pub fn beat(&self) {
        let mut clock = self.clock.lock();
        if clock.gap().is_some() {
            self.was_away.store(true, Ordering::Release);
        }
        clock.look();
        clock.looked = Some(Instant::now());
    }

    /// Ends the doubt.
    pub fn end(&self) {
        self.was_away.store(false, Ordering::Release);
        let mut clock = self.clock.lock();
        clock.look();
        clock.asked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_stopped_is_in_doubt_until_it_has_asked() {
        let doubt = Doubt::new(true);
        assert!(doubt.is_there());
        doubt.end();
        assert!(!doubt.is_there());
        doubt.beat();
        assert!(!doubt.is_there());
        let long_ago = Instant::now() - 2 * STOPPED;
        // Whoever comes first: a reader, or the thread that looks at the clock.
        doubt.clock.lock().looked = Some(long_ago);
        assert!(doubt.is_there() && doubt.stopped() >= 2 * STOPPED);
        doubt.end();
        assert!(!doubt.is_there() && doubt.stopped() >= 2 * STOPPED);
        doubt.clock.lock().looked = Some(long_ago);
        doubt.beat();
        assert!(doubt.is_there() && doubt.stopped() >= 4 * STOPPED);
        doubt.end();
        assert!(!doubt.is_there() && doubt.stopped() >= 4 * STOPPED);
    }

    #[test]
    fn who_has_asked_too_few_asks_again_after_a_while() {
        let doubt = Doubt::new(true);
        assert!(doubt.is_due() && !doubt.has_asked() && doubt.ask_alone().is_some());
        doubt.go_on();
        assert!(doubt.is_there() && !doubt.is_due() && doubt.has_asked());
        let asking = doubt.ask_alone();
        assert!(asking.is_some() && doubt.ask_alone().is_none(), "nobody waits for who asks again");
        drop(asking);
        doubt.clock.lock().asked = Some(Instant::now() - AGAIN);
        assert!(doubt.is_due());
        doubt.go_on();
        doubt.begin();
        assert!(doubt.is_due() && !doubt.has_asked(), "it is another doubt");
        doubt.go_on();
        doubt.end();
        assert!(!doubt.is_there() && !doubt.is_due() && !doubt.has_asked());
    }
}
