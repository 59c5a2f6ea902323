//! Replaces a coordinator that a majority of the nodes has missed, so that nobody has to say PROMOTE.
//!
//! Each node asks the coordinator from time to time who it is. One that has had no answer for 10 s and a
//! random while asks the others. If more than half of all nodes miss it, itself included, the node promotes
//! itself, in a new term.
//!
//! **Clocks decide when, not what.** A node may be wrong about the coordinator, and two may promote
//! themselves at once: terms keep that safe, as they do when somebody says PROMOTE. A majority has promised
//! to refuse the coordinator before, which can store nothing any more; what it has stored at a majority, the
//! new one finds. The majority that is asked first serves two other things. A node that is cut off begins no
//! term, so that it ends nobody's when it is back. And a coordinator is replaced once: the first attempt
//! stops if a majority has stored meanwhile that somebody else coordinates ([`After::Missed`]; the model in
//! `crates/placement/src/term/model.rs` finds two without that). Whoever that is may have died before it was
//! published, and then nobody would know whom to miss. So a later attempt follows anybody; the others have
//! been asked again before.
//!
//! **Only time in which a node runs counts.** One that was stopped, with its process or its machine, has
//! heard nothing of anybody meanwhile. Its own clock goes on where it stood, whoever reads on it or not.

use crate::coordinate::{MAJORITY, start_thread};
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::watch::{PATIENCE, SPREAD};
use hypostyle_placement::catalog::{Catalog, NodeState};
use hypostyle_placement::term::After;
use hypostyle_placement::{NodeId, Term};
use hypostyle_types::Result;
use std::sync::Weak;
use std::thread;
use std::time::{Duration, Instant};

/// How often a node asks the coordinator whether it is there.
const LOOK: Duration = Duration::from_secs(1);

/// How long the others are waited for. Those that are silent miss nobody.
const INQUIRY: Duration = Duration::from_secs(2);

/// The time that it takes to replace a coordinator at most, also if two nodes have tried that at once.
const REPLACED: Duration = Duration::from_secs(30);

const _: () = {
    let first = PATIENCE.as_secs() + SPREAD.as_secs() + LOOK.as_secs() + INQUIRY.as_secs();
    let second = SPREAD.as_secs() / 2 + SPREAD.as_secs() + LOOK.as_secs() + INQUIRY.as_secs();
    assert!(first + second + MAJORITY.as_secs() <= REPLACED.as_secs());
};

impl Node {
    /// Asks the coordinator whether it is there, and replaces it if it may and a majority has missed it.
    pub fn watch_coordinator(&self, may_replace: bool) {
        let Some(catalog) = self.catalog().filter(|catalog| catalog.coordinator != self.id()) else { return };
        self.watch.lock().begin((catalog.coordinator, catalog.term), self.awake());
        if let Ok(Reply::Identity { term, .. }) = self.ask(catalog.coordinator, Request::Identify, None) {
            self.watch.lock().hear(self.awake());
            if term > catalog.term {
                // Somebody else coordinates by now.
                self.doubt();
                self.freshen();
            }
            return;
        }
        let is_active = catalog.node(self.id()).is_some_and(|own| own.state == NodeState::Active);
        if !may_replace || !is_active || !self.watch.lock().is_due(self.awake()) {
            return;
        }
        match self.replace(&catalog) {
            Ok(true) => tracing::warn!(
                node = self.name(),
                missed = catalog.node_name(catalog.coordinator),
                "this node coordinates the cluster from now on: a majority has missed the one before"
            ),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the coordinator is missed, and cannot be replaced yet"),
        }
    }

    /// Returns what time it is on a clock that stands still while the node is stopped.
    fn awake(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.doubt.stopped()).unwrap_or(now)
    }

    /// Replaces the coordinator, if a majority misses it.
    fn replace(&self, catalog: &Catalog) -> Result<bool> {
        if !self.is_missed(catalog)? {
            return Ok(false);
        }
        let after = match self.watch.lock().attempt(self.awake()) {
            0 => After::Missed(catalog.coordinator, catalog.term),
            _ => After::Anybody,
        };
        self.promote_after(after).map(|_| true)
    }

    /// Asks the others whether a majority of all nodes misses the coordinator, this node among them.
    fn is_missed(&self, catalog: &Catalog) -> Result<bool> {
        let heard = self.ask_others(catalog, &Request::Missed(catalog.coordinator))?;
        let (end, mut missing) = (Instant::now() + INQUIRY, 1);
        while missing <= catalog.nodes.len() / 2 {
            match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(Reply::Missed { term, .. })) if term > catalog.term => {
                    // Somebody else coordinates by now, and has not reached this node.
                    self.doubt();
                    self.freshen();
                    return Ok(false);
                }
                Ok(Ok(Reply::Missed { missed: true, .. })) => missing += 1,
                Ok(_) => {}
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Tells another node whether this one misses the coordinator, too.
    pub(crate) fn says_missed(&self, coordinator: NodeId) -> Reply {
        let known = self.catalog();
        let missed = known.as_ref().is_some_and(|catalog| catalog.coordinator == coordinator)
            && coordinator != self.id()
            && self.watch.lock().misses(coordinator, self.awake());
        Reply::Missed { missed, term: known.map_or(Term(0), |catalog| catalog.term) }
    }
}

/// Watches the coordinator for as long as a node is open, whatever else the node does: what it copies or
/// drops may take long. A node that was away learns what it has missed.
///
/// # Errors
/// `Io` if no thread can be started.
pub(crate) fn keep_watch(node: Weak<Node>, may_replace: bool) -> Result<()> {
    start_thread("hypostyle-watch", move || {
        loop {
            thread::sleep(LOOK);
            let Some(node) = node.upgrade() else { return };
            // Others ask this node for what it knows, whether or not somebody reads here.
            node.freshen();
            node.watch_coordinator(may_replace);
        }
    })
}
