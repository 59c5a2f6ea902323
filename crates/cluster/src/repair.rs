//! Moves replicas from node to node, and brings those up to date that were away: on the node that
//! coordinates.

use crate::admit::keep_alone;
use crate::coordinate::start_thread;
use crate::failover::keep_watch;
use crate::fresh::{keep_readable, keep_time};
use crate::health::COPIES_AT_ONCE;
pub use crate::health::Health;
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{is_unreachable, unexpected};
use hypostyle_placement::append::{CatchUp, Effect};
use hypostyle_placement::catalog::{Catalog, Change, Fragment, Node as Member, NodeState, Replica};
use hypostyle_placement::layout::{self, Step};
use hypostyle_placement::term::{Answer, Ask, Stored};
use hypostyle_placement::{Epoch, FragmentId, NodeId};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long rows are kept that the catalog does not know any more.
const LEFTOVERS_KEPT: Duration = Duration::from_secs(60);

/// How often the coordinator looks after the nodes.
const INTERVAL: Duration = Duration::from_secs(2);

/// What a node does by itself while others are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Care {
    /// Whether it replaces the coordinator when a majority has missed it.
    pub failover: bool,
    /// How long another node stays away until it is lost, and others get its fragments, if this one
    /// coordinates; `None`: for ever.
    pub lost_after: Option<Duration>,
}

impl Node {
    /// Takes the steps of a plan: those of a fragment one after the other, and those of a few fragments at
    /// the same time. Queries and appends go on meanwhile.
    ///
    /// # Errors
    /// Those of a step; the steps that were taken stay taken.
    pub fn take_steps(&self, steps: Vec<Step>) -> Result<()> {
        let _one = self.moving.lock();
        self.take_steps_of_one(steps)
    }

    /// Takes the steps of a plan for who has locked [`Node::moving`].
    fn take_steps_of_one(&self, steps: Vec<Step>) -> Result<()> {
        let mut of_fragments = BTreeMap::<FragmentId, Vec<Step>>::new();
        for step in steps {
            of_fragments.entry(step.fragment()).or_default().push(step);
        }
        let waiting: Mutex<VecDeque<Vec<Step>>> = Mutex::new(of_fragments.into_values().collect());
        let failed = Mutex::new(None::<Error>);
        let threads = COPIES_AT_ONCE.min(waiting.lock().len());
        let next = || if failed.lock().is_some() { None } else { waiting.lock().pop_front() };
        let work = || {
            while let Some(steps) = next() {
                if let Err(error) = steps.into_iter().try_for_each(|step| self.take_step(step)) {
                    failed.lock().get_or_insert(error);
                }
            }
        };
        on_threads(threads, &work);
        let failed = failed.lock().take();
        failed.map_or(Ok(()), Err)
    }

    fn take_step(&self, step: Step) -> Result<()> {
        match step {
            Step::Copy { fragment, to, .. } => {
                self.change(Change::AddReplica(fragment, to))?;
                self.copy(fragment, to)
            }
            Step::CatchUp { fragment, to, .. } => self.copy(fragment, to),
            Step::Prefer { fragment, node } => self.change(Change::Prefer(fragment, node)).map(drop),
            Step::Drop { fragment, node } => self.change(Change::DropReplica(fragment, node)).map(drop),
        }
    }

    /// Copies the rows that a replica lacks, unless somebody has copied them meanwhile. Two that copied
    /// one fragment would each begin a new life of the replica, and refuse the other's rows.
    fn copy(&self, fragment: FragmentId, to: NodeId) -> Result<()> {
        let copier = self.copier(fragment);
        let _one = copier.lock();
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
        for (node, epoch) in self.look() {
            self.look_after_node(node, epoch);
        }
    }

    /// Looks which nodes are there, if this one coordinates, and returns these, with the epochs that they
    /// read.
    fn look(&self) -> Vec<(NodeId, Epoch)> {
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else {
            self.health.lock().clear();
            return Vec::new();
        };
        self.health.lock().retain(|id, _| catalog.node(*id).is_some());
        let mut there = Vec::new();
        for member in &catalog.nodes {
            let state = self.state_of(member.id);
            let clients = state.as_ref().map(|(_, clients)| *clients);
            self.health.lock().entry(member.id).or_default().note(clients);
            match state {
                Ok((epoch, _)) => there.push((member.id, epoch)),
                Err(error) => {
                    tracing::warn!(node = member.name, %error, "a node of the cluster is not there")
                }
            }
        }
        there
    }

    /// Looks after the nodes: on a thread for each that lacks something, unless one is at it. What is copied
    /// to one node may take long, and others may go away or come back meanwhile.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    fn begin_to_look_after(&self, looked_after: &Arc<Mutex<BTreeSet<NodeId>>>) -> Result<()> {
        for (id, epoch) in self.look() {
            if !self.lacks_something(id, epoch) {
                self.look_after_node(id, epoch);
                continue;
            }
            if !looked_after.lock().insert(id) {
                continue;
            }
            let mine = LookedAfter { all: looked_after.clone(), node: id };
            let node = self.shared()?;
            start_thread("hypostyle-mend", move || {
                node.look_after_node(id, epoch);
                drop(mine);
            })?;
        }
        Ok(())
    }

    /// Says whether a node that reads some epoch may have something to get, by the catalog.
    fn lacks_something(&self, node: NodeId, epoch: Epoch) -> bool {
        let Some(catalog) = self.catalog() else { return false };
        let is_behind = |replica: Option<&Replica>| replica.is_some_and(|replica| !replica.in_sync);
        let mut fragments = catalog.tables.iter().flat_map(|table| &table.fragments);
        epoch < catalog.epoch || fragments.any(|fragment| is_behind(fragment.replica(node)))
    }

    /// Returns how the nodes were when this node looked after them the last time. It is empty on nodes
    /// that do not coordinate.
    pub fn health(&self) -> BTreeMap<NodeId, Health> {
        self.health.lock().clone()
    }

    /// Gives a node that is there what it lacks, and notes why if that cannot be.
    fn look_after_node(&self, id: NodeId, epoch: Epoch) {
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else { return };
        let Some(member) = catalog.node(id) else { return };
        let problem = self.mend(&catalog, member, epoch).err();
        if let Some(error) = &problem {
            tracing::warn!(node = member.name, %error, "a node of the cluster is not in order");
        }
        if let Some(health) = self.health.lock().get_mut(&id) {
            health.problem = problem.map(|error| error.to_string());
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

    /// Declares nodes lost that were away for some time, and nodes active that are back, and copies fragments
    /// that have fewer replicas than they should: on the node that coordinates, after [`Self::look_after`].
    ///
    /// A lost node may only seem so, and still run. It can do no harm: its replicas are out of sync, so that
    /// nobody reads them and no append waits for them, and what is copied begins a new life.
    ///
    /// # Errors
    /// Those of changes and of copies. The next time, it goes on where it was.
    pub fn repair(&self, lost_after: Duration) -> Result<()> {
        // What a statement moves is not counted while it does: it may have a replica more for a while.
        let Some(_one) = self.moving.try_lock() else { return Ok(()) };
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else { return Ok(()) };
        let health = self.health();
        let is_there = |id: NodeId| health.get(&id).is_some_and(|health| health.is_reachable);
        // A coordinator that is cut off has lost nobody, and could not say so.
        if catalog.nodes.iter().filter(|member| is_there(member.id)).count() <= catalog.nodes.len() / 2 {
            return Ok(());
        }
        let mut is_back = false;
        for Member { id, name, state, .. } in &catalog.nodes {
            let away = health.get(id).and_then(|health| health.away_since);
            let state = match state {
                NodeState::Lost if is_there(*id) => NodeState::Active,
                NodeState::Active | NodeState::Draining
                    if away.is_some_and(|since| since.elapsed() >= lost_after) =>
                {
                    NodeState::Lost
                }
                _ => continue,
            };
            tracing::warn!(node = name, ?state, "a node of the cluster has another state");
            self.change(Change::SetNodeState { node: *id, state })?;
            is_back |= state == NodeState::Active;
        }
        let catalog = self.known_catalog()?;
        if !is_back && !catalog.nodes.iter().any(|member| member.state == NodeState::Lost) {
            return Ok(());
        }
        let mut steps = layout::repair(&catalog)?;
        // Nodes that are away and not lost yet are brought up to date when they are back.
        steps.retain(|step| step.receiver().is_none_or(is_there));
        self.take_steps_of_one(steps)
    }

    /// Copies replicas anew of which most rows are deleted, or were never published, so that their space is
    /// given back: on the node that coordinates, after [`Self::look_after`]. A few fragments are taken at a
    /// time. Readers of before find their rows in other replicas of a fragment, of which none is copied anew
    /// within some time; those of an only replica find it where it was, as it is on another node for as long.
    ///
    /// # Errors
    /// Those of changes and of copies. The next time, it goes on where it was.
    pub fn compact(&self, pause: Duration) -> Result<()> {
        let Some(_one) = self.moving.try_lock() else { return Ok(()) };
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else { return Ok(()) };
        let health = self.health();
        let is_there = |id: NodeId| health.get(&id).is_some_and(|health| health.is_reachable);
        let steps = self.compacted.lock().plan(&catalog, &is_there, pause);
        if steps.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        let taken = self.take_steps_of_one(steps.values().flatten().cloned().collect());
        self.compacted.lock().note(&steps, since, taken.is_ok());
        taken
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

    /// Copies the rows that a node's replicas lack, those of a few fragments at the same time. One that fails
    /// keeps back those after it only if the node is gone.
    fn bring_up_to_date(&self, catalog: &Catalog, node: NodeId) -> Result<()> {
        let is_behind = |fragment: &Fragment| {
            !fragment.lost && fragment.replica(node).is_some_and(|replica| !replica.in_sync)
        };
        let fragments = catalog.tables.iter().flat_map(|table| table.numbered());
        let behind = fragments.filter(|(_, fragment)| is_behind(fragment)).map(|(id, _)| id);
        let waiting: Mutex<VecDeque<FragmentId>> = Mutex::new(behind.collect());
        let failed = Mutex::new(None::<Error>);
        let threads = COPIES_AT_ONCE.min(waiting.lock().len());
        let next = || waiting.lock().pop_front();
        let work = || {
            while let Some(id) = next() {
                if let Err(error) = self.bring_fragment(id, node) {
                    failed.lock().get_or_insert(error);
                    if self.state_of(node).is_err() {
                        waiting.lock().clear();
                    }
                }
            }
        };
        on_threads(threads, &work);
        let failed = failed.lock().take();
        failed.map_or(Ok(()), Err)
    }

    /// Copies the rows that a replica lacks, unless somebody does, or has copied them or moved it away since
    /// it was looked for.
    fn bring_fragment(&self, fragment: FragmentId, to: NodeId) -> Result<()> {
        let copier = self.copier(fragment);
        let Some(_one) = copier.try_lock() else { return Ok(()) };
        let known = self.known_catalog()?;
        let is_behind = known.replica(fragment, to).is_some_and(|replica| !replica.in_sync);
        if is_behind { self.copy_rows(fragment, to) } else { Ok(()) }
    }

    /// Has a thread do what [`Self::repair`] and [`Self::compact`] say, if there may be something to do:
    /// copies take long.
    fn begin_repair(&self, lost_after: Option<Duration>) -> Result<()> {
        let Some(catalog) = self.catalog().filter(|_| self.coordinates()) else { return Ok(()) };
        let has_lost = catalog.nodes.iter().any(|member| member.state == NodeState::Lost);
        let is_away = self.health().values().any(|health| health.away_since.is_some());
        let lost_after = lost_after.filter(|_| has_lost || is_away);
        let compacts = {
            let compacted = self.compacted.lock();
            let is_wanted = || compacted.has_moved() || !layout::compact(&catalog, &|_| true).is_empty();
            !compacted.rests() && is_wanted()
        };
        if lost_after.is_none() && !compacts {
            return Ok(());
        }
        let node = self.shared()?;
        start_thread("hypostyle-repair", move || {
            if let Some(lost_after) = lost_after
                && let Err(error) = node.repair(lost_after)
            {
                tracing::warn!(%error, "fragments of lost nodes are not copied yet");
            }
            if compacts && let Err(error) = node.compact(LEFTOVERS_KEPT) {
                tracing::warn!(%error, "rows that nobody sees keep their space");
            }
        })
    }
}

/// Does some work on this thread, and on as many others as are missing to a number.
fn on_threads(count: usize, work: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        for _ in 1..count {
            let builder = thread::Builder::new().name("hypostyle-copy".into());
            // Without the thread, the others do its work.
            let _fewer = builder.spawn_scoped(scope, work);
        }
        work();
    });
}

/// A node that a thread looks after, until this is dropped.
struct LookedAfter {
    all: Arc<Mutex<BTreeSet<NodeId>>>,
    node: NodeId,
}

impl Drop for LookedAfter {
    fn drop(&mut self) {
        self.all.lock().remove(&self.node);
    }
}

/// Looks after the nodes of a cluster from time to time, for as long as this node is open.
///
/// # Errors
/// `Io` if no thread can be started.
pub fn look_after(node: &Arc<Node>, care: Care) -> Result<()> {
    let node: Weak<Node> = Arc::downgrade(node);
    keep_time(node.clone())?;
    keep_readable(node.clone())?;
    keep_alone(node.clone())?;
    keep_watch(node.clone(), care.failover)?;
    let work = move || {
        let (mut leftovers, looked_after) = (BTreeMap::new(), Arc::default());
        loop {
            thread::sleep(INTERVAL);
            let Some(node) = node.upgrade() else { return };
            if let Err(error) = node.begin_to_look_after(&looked_after) {
                tracing::warn!(%error, "nodes that have missed something do not get it yet");
            }
            if let Err(error) = node.begin_repair(care.lost_after) {
                tracing::warn!(%error, "fragments are not repaired");
            }
            // What fails is tried again next time.
            if let Err(error) = node.drop_leftovers(&mut leftovers, LEFTOVERS_KEPT) {
                tracing::warn!(%error, "rows of fragments that are elsewhere now are not dropped");
            }
        }
    };
    start_thread("hypostyle-cluster", work)
}
