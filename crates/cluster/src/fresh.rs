//! Learns what a node has missed while it was away, before somebody reads: from a majority, if one answers
//! soon. A node was away when it has just begun, and when its process was stopped for a while.

use crate::coordinate::{no_majority, start_thread};
use crate::forward::ATTEMPTS;
use crate::message::{Reply, Request};
use crate::node::Node;
use hypostyle_placement::catalog::{Catalog, Node as Member};
use hypostyle_placement::term::Stored;
use hypostyle_placement::{Epoch, Term};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often a node looks at the clock.
const BEAT: Duration = Duration::from_millis(200);

/// How long a node may wait to store what its readers have: less than a second, with the time that it takes.
const UNSTORED: Duration = Duration::from_millis(500);

/// How long a reader waits for a majority. Reads need none.
const PATIENCE: Duration = Duration::from_secs(1);

impl Node {
    /// Has the node ask the others for what it has missed, before it is read the next time.
    pub fn doubt(&self) {
        self.doubt.begin();
    }

    /// Learns what others know, if this node was away. Without a majority, it goes on with what it knows. It
    /// may have stored a later state, which its readers have had before: then it asks again after a while.
    pub fn freshen(&self) {
        if !self.doubt.is_due() {
            return;
        }
        let Some(_one) = self.doubt.ask_alone() else { return };
        if !self.doubt.is_due() {
            return;
        }
        if let Err(error) = self.learn_after_absence() {
            if !self.doubt.has_asked() {
                tracing::warn!(%error, "a node that was away reads what it knows");
            }
            if self.unpublished().is_some() {
                self.doubt.go_on();
                return;
            }
        }
        self.doubt.end();
    }

    /// Learns what others know, and what a majority has stored, on a node that was away.
    pub(crate) fn learn_after_absence(&self) -> Result<()> {
        self.learn()?;
        self.find_published(PATIENCE)
    }

    /// Takes over the latest catalog that somebody of a majority knows to be published. What nobody has heard
    /// to be published, nobody reads by this: the coordinator's readers have it first
    /// ([`Self::read_latest`]).
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

    /// Lets readers have the state that this node has stored, if a majority has stored the same: then it is
    /// published, be there nobody left who has heard so. Nodes store publications of rows some time after
    /// their readers have them.
    fn find_published(&self, patience: Duration) -> Result<()> {
        let Some((stored, nodes)) = self.unpublished() else { return Ok(()) };
        let heard = self.ask_others(&stored.content, &Request::Identify)?;
        let (end, mut have) = (Instant::now() + patience, BTreeSet::from([self.id()]));
        loop {
            let is_majority =
                |of: &[Member]| of.iter().filter(|member| have.contains(&member.id)).count() > of.len() / 2;
            if is_majority(&nodes) && is_majority(&stored.content.nodes) {
                return self.show_published(stored);
            }
            match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(Reply::Identity { node, stored: Some(place), .. })) if place == stored.place() => {
                    have.insert(node);
                }
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Does what [`Self::published_after`] does, for another node that was away. This one may have been, too,
    /// and then finds out first what it had told its readers before, while the other one waits.
    pub(crate) fn remembered_after(&self, epoch: Epoch) -> Option<Box<Stored<Catalog>>> {
        if self.doubt.is_there()
            && let Err(error) = self.find_published(PATIENCE / 4)
        {
            tracing::warn!(%error, "a node that was away tells others what it knows");
        }
        self.published_after(epoch)
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
    fn published_after(&self, epoch: Epoch) -> Option<Box<Stored<Catalog>>> {
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

/// Stores within a second what the coordinator has published, for as long as a node is open. Nothing that may
/// take longer is done by the same thread: the coordinator may be silent just then.
///
/// # Errors
/// `Io` if no thread can be started.
pub(crate) fn keep_readable(node: Weak<Node>) -> Result<()> {
    let work = move || {
        while let Some(node) = node.upgrade() {
            if let Err(error) = node.store_readable() {
                tracing::warn!(%error, "what others have published is read here, and not stored");
            }
            drop(node);
            thread::sleep(UNSTORED);
        }
    };
    start_thread("hypostyle-keep", work)
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
