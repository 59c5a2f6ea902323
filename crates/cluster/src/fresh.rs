//! Learns what a node has missed while it was away, before somebody reads: from a majority, if one answers
//! soon. A node was away when it has just begun, and when its process was stopped for a while.

use crate::coordinate::{no_majority, start_thread};
use crate::forward::ATTEMPTS;
use crate::message::{Reply, Request};
use crate::node::Node;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::term::Stored;
use hypostyle_placement::{Epoch, Term};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often a node looks at the clock, and the time between two looks in which it was stopped.
const BEAT: Duration = Duration::from_millis(200);
const STOPPED: Duration = Duration::from_secs(1);

/// How long a reader waits for a majority. Reads need none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a node may have missed what others know.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    was_away: AtomicBool,
    clock: Mutex<Clock>,
    /// Locked by who asks the others, for all who read.
    asking: Mutex<()>,
}

/// What a node that looks at the clock from time to time knows of when it was stopped.
#[derive(Debug, Default)]
struct Clock {
    /// When it has looked, if it does.
    looked: Option<Instant>,
    /// The time that it was stopped before, all together.
    stopped: Duration,
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

    /// Says whether there is a doubt.
    pub fn is_there(&self) -> bool {
        self.clock.lock().gap().is_some() || self.was_away.load(Ordering::Acquire)
    }

    /// Returns for how long the node was stopped, all together.
    pub fn stopped(&self) -> Duration {
        let clock = self.clock.lock();
        clock.stopped + clock.gap().unwrap_or_default()
    }

    fn beat(&self) {
        let mut clock = self.clock.lock();
        if clock.gap().is_some() {
            self.was_away.store(true, Ordering::Release);
        }
        clock.look();
        clock.looked = Some(Instant::now());
    }

    fn end(&self) {
        self.was_away.store(false, Ordering::Release);
        self.clock.lock().look();
    }
}

impl Node {
    /// Has the node ask the others for what it has missed, before it is read the next time.
    pub fn doubt(&self) {
        self.doubt.was_away.store(true, Ordering::Release);
    }

    /// Learns what others know, if this node was away. Without a majority, it goes on with what it knows.
    pub fn freshen(&self) {
        if !self.doubt.is_there() {
            return;
        }
        let _one = self.doubt.asking.lock();
        if !self.doubt.is_there() {
            return;
        }
        if let Err(error) = self.learn() {
            tracing::warn!(%error, "a node that was away reads what it knows");
        }
        self.doubt.end();
    }

    /// Takes over the latest catalog that somebody of a majority knows to be published.
    pub(crate) fn learn(&self) -> Result<()> {
        let Some(own) = self.catalog() else { return Ok(()) };
        let heard = self.ask_others(&own, &Request::Catalog { after: own.epoch })?;
        let (end, mut answers, mut latest) = (Instant::now() + PATIENCE, 1, None::<Box<Stored<Catalog>>>);
        while answers <= own.nodes.len() / 2 {
            let left = end.saturating_duration_since(Instant::now());
            match heard.recv_timeout(left).map_err(|_| no_majority())? {
                Ok(Reply::Catalog(found)) => {
                    answers += 1;
                    latest = latest.into_iter().chain(found).max_by_key(|stored| stored.epoch);
                }
                Ok(_) => return Err(Error::internal("a node answers with another message than a catalog")),
                Err(_) => {}
            }
        }
        latest.map_or(Ok(()), |stored| self.show_published(*stored))
    }

    /// Makes sure that nobody coordinates in a later term than one, by a majority of the nodes. Whoever wants
    /// to publish in a later one has had the promise of a majority before. So what the coordinator of this
    /// term has said to be published, in this statement, is all that was published before it began.
    ///
    /// # Errors
    /// `Conflict` if somebody has wanted to coordinate since: the statement is run again. `Connection`
    /// (57P03) if no majority answers.
    pub fn confirm(&self, term: Term) -> Result<()> {
        let (known, mut promised) = (self.known_catalog()?, self.promised());
        let heard = self.ask_others(&known, &Request::Identify)?;
        let (end, mut confirmed) = (Instant::now() + PATIENCE, usize::from(promised <= term));
        while confirmed <= known.nodes.len() / 2 {
            match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(Reply::Identity { term: later, .. })) if later > term => {
                    self.learn()?;
                    return Err(coordinated_since(term));
                }
                Ok(Ok(Reply::Identity { promised: later, .. })) if later > term => {
                    promised = promised.max(later);
                }
                Ok(Ok(Reply::Identity { .. })) => confirmed += 1,
                Ok(_) => {}
                Err(_) if promised <= term => return Err(no_majority()),
                Err(_) => {
                    // Somebody has not come to coordinate, and nobody can until another term begins.
                    if known.coordinator == self.id() && known.term <= term {
                        self.renew(promised)?;
                    }
                    return Err(coordinated_since(term));
                }
            }
        }
        Ok(())
    }

    /// Has this node read what all nodes together have published by now, or more.
    ///
    /// # Errors
    /// `Connection` (57P03) if the coordinator, or a majority, cannot be reached.
    pub fn read_latest(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let known = match self.catch_up() {
                // It coordinates by now.
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                other => other?,
            };
            match self.confirm(known.term) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other,
            }
        }
        Err(no_majority())
    }

    /// Lets readers have a catalog that another node knows to be published. It stays a matter of
    /// coordinators what this node has stored.
    pub(crate) fn show_published(&self, published: Stored<Catalog>) -> Result<()> {
        let content = Arc::new(published.content.clone());
        let stored = self.with_voter(|voter| {
            if voter.readable.as_ref().is_none_or(|known| known.epoch < published.epoch) {
                voter.readable = Some(published);
            }
            Ok(())
        });
        if let Err(error) = stored {
            // Readers need no room on the disk: a node that begins again asks the others.
            tracing::warn!(%error, "what others have published is read here, and not stored");
        }
        self.take(content)
    }

    /// Returns the published catalog that this node knows, if it is later than one.
    pub(crate) fn published_after(&self, epoch: Epoch) -> Option<Box<Stored<Catalog>>> {
        let known = self.catalog().filter(|catalog| catalog.epoch > epoch)?;
        let content = Catalog::clone(&known);
        Some(Box::new(Stored { term: content.term, epoch: content.epoch, content }))
    }
}

fn coordinated_since(term: Term) -> Error {
    let message =
        format!("another node has wanted to coordinate the cluster since term {term}: run it again");
    Error::new(ErrorKind::Conflict, message)
}

/// Looks at the clock from time to time, for as long as a node is open.
///
/// # Errors
/// `Io` if no thread can be started.
pub(crate) fn keep_time(node: Weak<Node>) -> Result<()> {
    let work = move || {
        while let Some(node) = node.upgrade() {
            node.doubt.beat();
            drop(node);
            thread::sleep(BEAT);
        }
    };
    start_thread("hypostyle-clock", work)
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
}
