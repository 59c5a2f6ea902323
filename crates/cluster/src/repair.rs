//! Moves replicas from node to node, and brings those up to date that were away: on the node that
//! coordinates.

use crate::coordinate::start_thread;
use crate::fresh::keep_time;
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{is_unreachable, unexpected};
use hypostyle_placement::append::{CatchUp, Effect};
use hypostyle_placement::catalog::{Catalog, Change, Node as Member, NodeState};
use hypostyle_placement::layout::Step;
use hypostyle_placement::term::{Answer, Ask, Stored};
use hypostyle_placement::{Epoch, FragmentId, NodeId};
use hypostyle_types::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long rows are kept that the catalog does not know any more.
const LEFTOVERS_KEPT: Duration = Duration::from_secs(60);

/// How often the coordinator looks after the nodes.
const INTERVAL: Duration = Duration::from_secs(2);

impl Node {
    /// Takes the steps of a plan, one after the other. Queries and appends go on meanwhile.
    ///
    /// # Errors
    /// Those of a step; the steps before it stay taken.
    pub fn take_steps(&self, steps: Vec<Step>) -> Result<()> {
        for step in steps {
            match step {
                Step::Copy { fragment, to, .. } => {
                    self.change(Change::AddReplica(fragment, to))?;
                    self.catch_up(fragment, to)?;
                }
                Step::CatchUp { fragment, to, .. } => self.catch_up(fragment, to)?,
                Step::Prefer { fragment, node } => self.change(Change::Prefer(fragment, node)).map(drop)?,
                Step::Drop { fragment, node } => {
                    self.change(Change::DropReplica(fragment, node)).map(drop)?
                }
            }
        }
        Ok(())
    }

    /// Copies the rows that a replica lacks, unless somebody has copied them meanwhile. Two that copied
    /// one fragment would each begin a new life of the replica, and refuse the other's rows.
    fn catch_up(&self, fragment: FragmentId, to: NodeId) -> Result<()> {
        let _one = self.copying.lock();
        match self.known_catalog()?.replica(fragment, to) {
            Some(replica) if replica.in_sync => Ok(()),
            _ => self.copy_rows(fragment, to),
        }
    }

    /// Copies most rows while appends go on, then the rest.
    fn copy_rows(&self, fragment: FragmentId, to: NodeId) -> Result<()> {
        self.copy_round(fragment, to, false)?;
        let turn = self.turn(fragment.table);
        let _mine = turn.lock();
        self.copy_round(fragment, to, true)
    }

    fn copy_round(&self, fragment: FragmentId, to: NodeId, joins: bool) -> Result<()> {
        let catalog = self.known_catalog()?;
        let altered = catalog.table(fragment.table).map_or(Epoch(0), |table| table.layout.altered);
        let (mut round, effect) = CatchUp::begin(&catalog, fragment, to, joins)?;
        let mut effects = VecDeque::from([effect]);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Commit(change) => {
                    let published = self.change(change);
                    effects.extend(round.committed(published.as_deref().map_err(Clone::clone)));
                }
                Effect::Send(request) => match self.ask_replica(request, altered, || Ok(None)) {
                    Ok(Reply::Appended(reply)) => effects.extend(round.receive(&reply)),
                    Ok(_) => return Err(unexpected("a message")),
                    Err(error) if is_unreachable(&error) => effects.extend(round.give_up()),
                    Err(error) => return Err(error),
                },
                Effect::Finish(result) => return result.map(drop),
            }
        }
        Err(Error::internal("a copy of a fragment has no end"))
    }

    /// Looks after the nodes once: gives those the catalog that have missed it, and brings replicas up
    /// to date whose nodes are back, those of this node among them.
    pub fn look_after(&self) {
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else {
            self.health.lock().clear();
            return;
        };
        let members = catalog.nodes.iter();
        let health = members.map(|member| (member.id, self.look_after_node(&catalog, member)));
        *self.health.lock() = health.collect();
    }

    /// Returns how the nodes were when this node looked after them the last time. It is empty on nodes
    /// that do not coordinate.
    pub fn health(&self) -> BTreeMap<NodeId, Health> {
        self.health.lock().clone()
    }

    fn look_after_node(&self, catalog: &Arc<Catalog>, member: &Member) -> Health {
        let epoch = self.epoch_of(member.id);
        let is_reachable = epoch.is_ok();
        let problem = epoch.and_then(|epoch| self.mend(catalog, member, epoch)).err();
        if let Some(error) = &problem {
            tracing::warn!(node = member.name, %error, "a node of the cluster is not in order");
        }
        Health { is_reachable, problem: problem.map(|error| error.to_string()) }
    }

    fn epoch_of(&self, node: NodeId) -> Result<Epoch> {
        match self.ask(node, Request::Identify, None)? {
            Reply::Identity { epoch, .. } => Ok(epoch),
            _ => Err(unexpected("a message")),
        }
    }

    /// Gives a node what it has missed since an epoch.
    fn mend(&self, catalog: &Arc<Catalog>, member: &Member, epoch: Epoch) -> Result<()> {
        if epoch < catalog.epoch {
            self.bring(catalog, member.id)?;
        }
        match member.state {
            NodeState::Lost => Ok(()),
            NodeState::Active | NodeState::Draining => self.bring_up_to_date(catalog, member.id),
        }
    }

    /// Drops rows of replicas that this node has no more: some time after it was seen that the catalog
    /// says so, when few read by an earlier one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn drop_leftovers(&self, seen: &mut BTreeMap<FragmentId, Instant>, kept_for: Duration) -> Result<()> {
        let Some(catalog) = self.catalog() else { return Ok(()) };
        let kept = self.own_fragments()?;
        let gone = kept.into_iter().filter(|id| catalog.replica(*id, self.id()).is_none());
        let gone: BTreeSet<FragmentId> = gone.collect();
        seen.retain(|id, _| gone.contains(id));
        let is_due = |id: &FragmentId| seen.entry(*id).or_insert_with(Instant::now).elapsed() >= kept_for;
        let due: BTreeSet<FragmentId> = gone.into_iter().filter(is_due).collect();
        if due.is_empty() { Ok(()) } else { self.drop_fragments(&due) }
    }

    /// Gives a node the published catalog.
    pub(crate) fn bring(&self, catalog: &Arc<Catalog>, to: NodeId) -> Result<()> {
        let content = Catalog::clone(catalog);
        let (term, epoch, owner) = (content.term, content.epoch, content.coordinator);
        let stored = Stored { term, epoch, content };
        let answer = self.ask(to, Request::Ask(Box::new(Ask::Store { owner, stored })), None)?;
        if let Reply::Answer(Some(answer)) = answer
            && let Answer::Refused { term } = *answer
        {
            return self.renew(term);
        }
        self.ask(to, Request::Ask(Box::new(Ask::Publish { term, epoch })), None).map(drop)
    }

    /// Copies the rows that a node's replicas lack. One that fails keeps back those after it only if
    /// the node is gone.
    fn bring_up_to_date(&self, catalog: &Catalog, node: NodeId) -> Result<()> {
        // A statement that moves fragments copies what they lack.
        let Some(_one) = self.copying.try_lock() else { return Ok(()) };
        let mut first = Ok(());
        for (id, fragment) in catalog.tables.iter().flat_map(|table| table.numbered()) {
            let is_behind = fragment.replica(node).is_some_and(|replica| !replica.in_sync);
            if is_behind
                && !fragment.lost
                && let Err(error) = self.copy_rows(id, node)
            {
                first = first.and(Err(error));
                if self.epoch_of(node).is_err() {
                    break;
                }
            }
        }
        first
    }
}

/// How a node was when it was looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it has answered.
    pub is_reachable: bool,
    /// Why it was not brought up to date.
    pub problem: Option<String>,
}

/// Looks after the nodes of a cluster from time to time, for as long as this node is open.
///
/// # Errors
/// `Io` if no thread can be started.
pub fn look_after(node: &Arc<Node>) -> Result<()> {
    let node: Weak<Node> = Arc::downgrade(node);
    keep_time(node.clone())?;
    let work = move || {
        let mut leftovers = BTreeMap::new();
        loop {
            thread::sleep(INTERVAL);
            let Some(node) = node.upgrade() else { return };
            node.look_after();
            // What fails is tried again next time.
            if let Err(error) = node.drop_leftovers(&mut leftovers, LEFTOVERS_KEPT) {
                tracing::warn!(%error, "rows of fragments that are elsewhere now are not dropped");
            }
        }
    };
    start_thread("hypostyle-cluster", work)
}
