//! Passwords that were wrong: whoever gives many waits longer and longer, as that user and from
//! where that was.
//!
//! The rightful user is not kept out from elsewhere, and neither are others. What is remembered is
//! bounded, and forgotten after a while.

use crate::arrivals::Peer;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The time without a wrong password after which all is forgotten.
const FORGOTTEN_TIME: Duration = Duration::from_secs(15 * 60);

/// The time between two attempts after a wrong password or a few; after more, twice as long for
/// each.
const SPACE_FIRST: Duration = Duration::from_millis(250);
const SPACE_MAX: Duration = Duration::from_secs(30);
const FREE_OF_USER: u32 = 3;

/// A peer with wrong passwords of many users.
const FREE_OF_PEER: u32 = 10;
const SPACE_OF_PEER_MAX: Duration = Duration::from_secs(1);

/// Who would have to wait longer for a turn is sent away.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Users and peers, and peers, that are remembered.
const REMEMBERED_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Attempts(Mutex<State>);

#[derive(Default)]
struct State {
    of_user: HashMap<(String, Peer), Failures>,
    of_peer: HashMap<Peer, Failures>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// When the next attempt may be made.
    next: Instant,
}

impl Failures {
    fn space_of_user(count: u32) -> Duration {
        match count {
            0 => Duration::ZERO,
            _ => space(count.saturating_sub(FREE_OF_USER), SPACE_MAX),
        }
    }

    fn space_of_peer(count: u32) -> Duration {
        match count.checked_sub(FREE_OF_PEER) {
            None => Duration::ZERO,
            Some(more) => space(more, SPACE_OF_PEER_MAX),
        }
    }
}

fn space(doublings: u32, max: Duration) -> Duration {
    SPACE_FIRST.saturating_mul(1 << doublings.min(16)).min(max)
}

impl Attempts {
    /// How long an attempt has to wait for its turn, which is then its own.
    ///
    /// # Errors
    /// `Busy` when that would be too long.
    pub fn turn(&self, user: &str, peer: Peer) -> Result<Duration> {
        let mut state = self.0.lock();
        let now = Instant::now();
        let State { of_user, of_peer } = &mut *state;
        let mut user =
            of_user.get_mut(&(user.to_string(), peer)).filter(|failures| is_remembered(failures, now));
        let mut peer = of_peer.get_mut(&peer).filter(|failures| is_remembered(failures, now));
        let turn_of = |failures: &Option<&mut Failures>| {
            failures.as_ref().map_or(now, |failures| failures.next.max(now))
        };
        let (turn_of_user, turn_of_peer) = (turn_of(&user), turn_of(&peer));
        let wait = turn_of_user.max(turn_of_peer) - now;
        if wait > WAIT_MAX {
            let message = format!(
                "too many logins have failed as this user, or from this address; try again in {} s",
                wait.as_secs() + 1
            );
            return Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"));
        }
        if let Some(failures) = &mut user {
            failures.next = turn_of_user + Failures::space_of_user(failures.count);
        }
        if let Some(failures) = &mut peer {
            failures.next = turn_of_peer + Failures::space_of_peer(failures.count);
        }
        Ok(wait)
    }

    pub fn failed(&self, user: &str, peer: Peer) {
        let mut state = self.0.lock();
        let State { of_user, of_peer } = &mut *state;
        count(of_user, (user.to_string(), peer), Failures::space_of_user);
        count(of_peer, peer, Failures::space_of_peer);
    }

    /// The user is who it says: what was wrong before were mistakes.
    pub fn succeeded(&self, user: &str, peer: Peer) {
        self.0.lock().of_user.remove(&(user.to_string(), peer));
    }
}

fn is_remembered(failures: &Failures, now: Instant) -> bool {
    now.duration_since(failures.last) < FORGOTTEN_TIME
}

fn count<K: Hash + Eq + Clone>(all: &mut HashMap<K, Failures>, key: K, space: fn(u32) -> Duration) {
    let now = Instant::now();
    if all.len() >= REMEMBERED_MAX && !all.contains_key(&key) {
        all.retain(|_, failures| is_remembered(failures, now));
        // Whoever gives many names has to wait as a peer.
        let least = all.iter().min_by_key(|(_, failures)| (failures.count, failures.last));
        if all.len() >= REMEMBERED_MAX
            && let Some(least) = least.map(|(key, _)| key.clone())
        {
            all.remove(&least);
        }
    }
    let failures = all.entry(key).or_insert(Failures { count: 0, last: now, next: now });
    if !is_remembered(failures, now) {
        failures.count = 0;
    }
    failures.count = failures.count.saturating_add(1);
    failures.last = now;
    failures.next = failures.next.max(now + space(failures.count));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::of_address([10, 0, 0, number].into())
    }

    #[test]
    fn who_guesses_waits_and_nobody_else_does() {
        let attempts = Attempts::default();
        for _ in 0..12 {
            attempts.failed("ada", peer(1));
        }
        let refused = attempts.turn("ada", peer(1)).unwrap_err();
        assert_eq!(refused.sqlstate(), "53300");
        // To be refused does not make it longer.
        for _ in 0..1000 {
            assert!(attempts.turn("ada", peer(1)).is_err());
        }
        let Failures { next, .. } = attempts.0.lock().of_user.remove(&("ada".into(), peer(1))).unwrap();
        assert!(next <= Instant::now() + SPACE_MAX);
        assert_eq!(attempts.turn("ada", peer(2)).unwrap(), Duration::ZERO);
        assert!(attempts.turn("bob", peer(1)).unwrap() <= SPACE_OF_PEER_MAX);
    }

    #[test]
    fn attempts_at_the_same_time_have_turns() {
        let attempts = Attempts::default();
        assert_eq!(attempts.turn("ada", peer(1)).unwrap(), Duration::ZERO);
        attempts.failed("ada", peer(1));
        let waits: Vec<_> = (0..20).map(|_| attempts.turn("ada", peer(1))).collect();
        assert!(waits.iter().filter(|wait| wait.is_ok()).count() <= 13, "{waits:?}");
        attempts.succeeded("ada", peer(1));
        assert_eq!(attempts.turn("ada", peer(1)).unwrap(), Duration::ZERO);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let attempts = Attempts::default();
        for _ in 0..10 {
            attempts.failed("ada", peer(1));
        }
        for number in 0..2 * REMEMBERED_MAX {
            attempts.failed(&number.to_string(), peer(2));
        }
        assert!(attempts.0.lock().of_user.len() <= REMEMBERED_MAX);
        // Not for others' names.
        assert!(attempts.turn("ada", peer(1)).is_err());
    }
}
