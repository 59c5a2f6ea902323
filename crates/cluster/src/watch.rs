//! What a node has heard of the coordinator, by its own clock.

use hypostyle_placement::{NodeId, Term};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long a node waits for the coordinator, and the most that it adds at random: who asks first is done
/// before the next one begins.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const SPREAD: Duration = Duration::from_secs(4);

/// How long a node has had no answer that tells another one that it misses the coordinator.
const MISSED: Duration = Duration::from_secs(6);

/// What a node has heard of the coordinator.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The coordinator, and its term.
    of: Option<(NodeId, Term)>,
    /// When it has answered, or was seen for the first time.
    heard: Instant,
    /// When the node asks the others, if it hears nothing until then.
    due: Instant,
    /// How often it has tried to replace the coordinator.
    attempts: u32,
}

impl Watch {
    /// Begins to watch nobody.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { of: None, heard: now, due: now + PATIENCE, attempts: 0 }
    }

    /// Watches a coordinator.
    pub fn begin(&mut self, of: (NodeId, Term), now: Instant) {
        if self.of != Some(of) {
            self.of = Some(of);
            self.hear(now);
        }
    }

    /// Notes that the coordinator has answered.
    pub fn hear(&mut self, now: Instant) {
        (self.heard, self.attempts) = (now, 0);
        self.due = now + PATIENCE + some_of(SPREAD);
    }

    /// Says whether the node misses a coordinator.
    pub fn misses(&self, coordinator: NodeId, now: Instant) -> bool {
        self.of.is_some_and(|(own, _)| own == coordinator) && now.duration_since(self.heard) >= MISSED
    }

    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Notes an attempt to replace the coordinator, and returns how many there were before.
    pub fn attempt(&mut self, now: Instant) -> u32 {
        self.due = now + SPREAD / 2 + some_of(SPREAD);
        self.attempts += 1;
        self.attempts - 1
    }
}

/// Returns a random part of some time.
fn some_of(time: Duration) -> Duration {
    let [one, other, ..] = Uuid::new_v4().into_bytes();
    time.mul_f64(f64::from(u16::from_le_bytes([one, other])) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hears_nothing_misses_the_coordinator_before_it_asks() {
        let (one, other) = (NodeId(Uuid::from_u128(1)), NodeId(Uuid::from_u128(2)));
        let (start, mut watch) = (Instant::now(), Watch::new());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        watch.begin((one, Term(1)), start);
        assert!(
            !watch.misses(one, after(5)) && watch.misses(one, after(6)) && !watch.misses(other, after(6))
        );
        assert!(!watch.is_due(after(9)) && watch.is_due(after(15)));
        watch.begin((one, Term(1)), after(8));
        assert!(watch.misses(one, after(8)), "the same is watched since the beginning");
        watch.hear(after(8));
        assert!(!watch.misses(one, after(13)) && !watch.is_due(after(17)) && watch.is_due(after(23)));
        assert_eq!((watch.attempt(after(23)), watch.attempt(after(23))), (0, 1));
        assert!(!watch.is_due(after(24)) && watch.is_due(after(30)));
        watch.begin((one, Term(2)), after(30));
        assert!(!watch.misses(one, after(35)), "it has begun again");
        assert_eq!(watch.attempt(after(40)), 0);
    }
}
