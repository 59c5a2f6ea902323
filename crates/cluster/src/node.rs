//! One node of a cluster: what it has stored, and its answers to the others.

use crate::ahead::Ahead;
use crate::backup::Backups;
use crate::coordinate::{Couriers, Lane, Submitted};
use crate::door::Door;
use crate::doubt::Doubt;
use crate::fit::{MadeAt, differ_in_rows};
use crate::health::{Compacted, Health};
use crate::heard::{Heard, Kept};
use crate::helpers::Helpers;
use crate::history::{self, History};
use crate::measure::Served;
use crate::message::{self, Addressed, Piece, Reply, Request, StageTask, StoreDifference, Task, TaskRows};
use crate::peers::{Answer, Peers, RowReader, is_behind, not_here, unexpected};
use crate::ranges::Ranges;
use crate::state;
pub use crate::state::{SCHEMA, SEQUENCE};
use crate::watch::Watch;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use hypostyle_placement::catalog::{Additions, Catalog, Node as Member, NodeState};
use hypostyle_placement::term::{After, Answer as TermAnswer, Ask, Coordinator, Stored, Voter};
use hypostyle_placement::{Epoch, FragmentId, NodeId, Term};
use hypostyle_storage::{Budget, Database, Snapshot, TableData, Transaction};
use hypostyle_sync::{Mutex, RwLock, TimedMutex};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use uuid::Uuid;

/// The name of what identifies a node, in what it has stored.
const IDENTITY: &str = "node";

/// The places for clients that a server has by itself.
const CLIENTS: usize = 256;

/// Gives tables that were made their foreign keys, and what else they lack, once all are made.
pub type References = Box<dyn FnOnce(&mut Transaction) -> Result<()>>;

/// What only the engine around a node can do.
pub trait Host: Send + Sync {
    /// Makes a table of the node's own database, without rows, by its CREATE TABLE statement, but for its
    /// name. Returns what gives it its foreign keys, indexes and comments.
    ///
    /// # Errors
    /// Those of the statement.
    fn make_table(
        &self,
        transaction: &mut Transaction,
        name: (&str, &str),
        definition: &str,
        additions: &Additions,
    ) -> Result<References>;

    /// Runs a part of a query.
    ///
    /// # Errors
    /// Those of the plan.
    fn run(&self, node: &Arc<Node>, task: Task) -> Result<SendableRecordBatchStream>;

    /// Begins a task of a query's stage, which runs until its rows are taken, but no longer than the rows are
    /// read that are returned: these tell what it has measured.
    ///
    /// # Errors
    /// Those of the session.
    fn begin(&self, node: &Arc<Node>, task: StageTask) -> Result<SendableRecordBatchStream>;

    /// Returns the rows of such a task's partition.
    ///
    /// # Errors
    /// Those of the session.
    fn rows(&self, asked: TaskRows) -> Result<SendableRecordBatchStream>;

    /// Returns these rows as they are, for a task of this node.
    fn own_rows(&self, asked: TaskRows) -> BoxStream<'static, datafusion::error::Result<RecordBatch>>;

    /// Returns what gives memory for the rows of a statement, until it is dropped.
    ///
    /// # Errors
    /// `OutOfMemory` if there is none.
    fn memory(&self) -> Result<Box<dyn Budget>>;
}

/// A node, for as long as its database is open.
pub struct Node {
    this: Weak<Self>,
    id: NodeId,
    /// Which process it is, of all that ever were the node.
    run: Uuid,
    name: String,
    address: String,
    /// The cluster that the node is part of, which it never leaves.
    cluster: OnceLock<Uuid>,
    database: Arc<Database>,
    threads: usize,
    pub(crate) peers: Arc<dyn Peers>,
    host: OnceLock<Weak<dyn Host>>,
    voter: Mutex<Option<Voter<Catalog>>>,
    /// How that is stored. Locked by who has locked `voter`.
    history: Mutex<History>,
    /// Whether the node knows of a later publication than it has stored. Changed by who has locked `voter`.
    reads_unstored: AtomicBool,
    /// What it keeps durably of that. Whoever appends does not wait for a catalog that is being stored.
    kept: Mutex<Kept>,
    /// The catalog that queries are planned with.
    readable: RwLock<Option<Arc<Catalog>>>,
    pub(crate) coordinator: TimedMutex<Option<Coordinator>>,
    /// The changes that wait for those before them.
    pub(crate) submitted: Submitted,
    /// The next writers of tables that have begun before they come.
    pub(crate) ahead: Ahead,
    /// When a change has found no majority the last time.
    pub(crate) alone: Mutex<Option<Instant>>,
    pub(crate) doubt: Doubt,
    /// Locked by who makes the database fit a catalog.
    pub(crate) fitting: Mutex<()>,
    /// Locked for the moment in which the database and the catalog change together.
    pub(crate) showing: RwLock<()>,
    /// What was read of the values that the node has stored.
    pub(crate) stored: state::Known,
    /// The tables that the node has made in its database, as they were when somebody has asked the last time.
    pub(crate) made_at: Mutex<Option<MadeAt>>,
    /// Locked by who writes to what the node has of the cluster, but for rows.
    pub(crate) writing: Mutex<()>,
    /// Locked by who writes rows of a fragment.
    pub(crate) writers: Mutex<BTreeMap<FragmentId, Arc<Mutex<()>>>>,
    pub(crate) couriers: Couriers,
    /// How many parts of queries were placed.
    turns_to_read: AtomicU32,
    /// The most partitions that it gives rows of tasks to at a time.
    given_max: AtomicUsize,
    /// The latest state that the coordinator has published for a statement of this node.
    pub(crate) written: Mutex<Epoch>,
    /// The values of columns that it gives out next.
    pub(crate) ranges: Ranges,
    /// The threads that send appends.
    pub(crate) helpers: Helpers,
    /// What lets appends through to each node.
    lanes: Mutex<BTreeMap<NodeId, Arc<Lane>>>,
    /// Locked by who copies rows of a fragment from node to node, on the node that coordinates.
    copiers: Mutex<BTreeMap<FragmentId, Arc<Mutex<()>>>>,
    /// Locked by who takes the steps of a plan that moves replicas.
    pub(crate) moving: Mutex<()>,
    /// What was copied anew, on the node that coordinates.
    pub(crate) compacted: Mutex<Compacted>,
    /// How the nodes were the last time, on the node that coordinates.
    pub(crate) health: Mutex<BTreeMap<NodeId, Health>>,
    /// What the nodes have said that they keep.
    pub(crate) heard: Heard,
    /// What it has heard of the coordinator.
    pub(crate) watch: Mutex<Watch>,
    /// Locked by the one writer of a table, on the node that coordinates.
    turns: Mutex<BTreeMap<TableId, Arc<Mutex<()>>>>,
    /// The backups of the cluster that it has begun.
    pub(crate) backups: Backups,
    /// Whether another process is this node where the others find it.
    pub(crate) is_copy: AtomicBool,
    /// What lets its clients in, if it is served.
    pub(crate) door: OnceLock<Arc<dyn Door>>,
    /// What others have asked this node for.
    pub served: Served,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Node {
    /// Makes a database a node, or goes on with what it has stored as one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(
        name: &str,
        address: &str,
        database: Arc<Database>,
        threads: usize,
        peers: Arc<dyn Peers>,
    ) -> Result<Arc<Self>> {
        if let Err(error) = state::tidy(&database, threads) {
            tracing::warn!(%error, "what a node has stored keeps the space of what it has forgotten");
        }
        let snapshot = database.snapshot()?;
        let id = match state::load(&snapshot, IDENTITY)? {
            Some(id) => id,
            None => make_identity(&database, threads)?,
        };
        let (voter, history) = history::load(&snapshot)?;
        let cluster = voter.as_ref().and_then(cluster_of);
        let kept = voter.as_ref().map(kept_of).unwrap_or_default();
        let (was_away, cluster) = (cluster.is_some(), cluster.map(OnceLock::from).unwrap_or_default());
        Ok(Arc::new_cyclic(|this| Self {
            this: this.clone(),
            id,
            run: Uuid::new_v4(),
            name: name.into(),
            address: address.into(),
            cluster,
            database,
            threads,
            peers,
            host: OnceLock::new(),
            voter: Mutex::new(voter),
            history: Mutex::new(history),
            reads_unstored: AtomicBool::new(false),
            kept: Mutex::new(kept),
            readable: RwLock::new(None),
            coordinator: TimedMutex::new(None),
            submitted: Submitted::default(),
            ahead: Ahead::default(),
            alone: Mutex::new(None),
            doubt: Doubt::new(was_away),
            fitting: Mutex::new(()),
            showing: RwLock::new(()),
            stored: state::Known::default(),
            made_at: Mutex::new(None),
            writing: Mutex::new(()),
            writers: Mutex::default(),
            couriers: Couriers::default(),
            turns_to_read: AtomicU32::new(0),
            given_max: AtomicUsize::new(given_of(CLIENTS)),
            written: Mutex::default(),
            ranges: Ranges::default(),
            helpers: Helpers::default(),
            lanes: Mutex::default(),
            copiers: Mutex::default(),
            moving: Mutex::new(()),
            compacted: Mutex::default(),
            health: Mutex::default(),
            heard: Heard::default(),
            watch: Mutex::new(Watch::new()),
            turns: Mutex::default(),
            backups: Backups::default(),
            is_copy: AtomicBool::new(false),
            door: OnceLock::new(),
            served: Served::default(),
        }))
    }

    /// Returns the names of tables, views and sequences that are where the node has what is its own, and
    /// are not: statements of an earlier release have made them, and a replica may need their name.
    ///
    /// # Errors
    /// Those of reading what the node has stored.
    pub fn strangers(&self) -> Result<Vec<String>> {
        let snapshot = self.database.snapshot()?;
        state::strangers(&snapshot)
    }

    /// Gives the node the engine that it is in, once, and takes over what it knows of its cluster: it
    /// may have ended before it had made all tables.
    ///
    /// # Errors
    /// Those of making tables.
    pub fn bind(&self, host: Weak<dyn Host>) -> Result<()> {
        let _already = self.host.set(host);
        let known = self.voter.lock().as_ref().and_then(|voter| voter.readable.clone());
        known.map_or(Ok(()), |stored| self.take(Arc::new(stored.content)))
    }

    pub(crate) fn host(&self) -> Result<Arc<dyn Host>> {
        self.host.get().and_then(Weak::upgrade).ok_or_else(|| {
            Error::new(ErrorKind::Closed, "the database of this node is closed").with_sqlstate("57P01")
        })
    }

    pub(crate) fn shared(&self) -> Result<Arc<Self>> {
        self.this.upgrade().ok_or_else(|| Error::internal("a node that is gone"))
    }

    /// The node's number, which it has for ever.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Which process it is, of all that ever were the node.
    pub(crate) fn run(&self) -> Uuid {
        self.run
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where other nodes find it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes over how many places its server has for clients, and as many for other nodes.
    pub fn set_clients(&self, clients: usize) {
        self.given_max.store(given_of(clients), Ordering::Relaxed);
    }

    /// The most partitions that it gives rows of tasks to at a time.
    pub(crate) fn given_max(&self) -> usize {
        self.given_max.load(Ordering::Relaxed)
    }

    /// The database of the node.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The threads that the node works with.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the published catalog that this node knows; `None` for a node that is not part of a
    /// cluster yet.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.readable.read().clone()
    }

    /// Returns the catalog.
    ///
    /// # Errors
    /// `Unsupported` if the node is not part of a cluster yet.
    pub fn known_catalog(&self) -> Result<Arc<Catalog>> {
        self.catalog().ok_or_else(|| {
            Error::unsupported(format!(
                "node \"{}\" is not part of a cluster yet: ALTER CLUSTER ADD NODE on its coordinator",
                self.name
            ))
        })
    }

    /// Returns the lock of a table's writers: a writer that begins ends those before it.
    pub(crate) fn turn(&self, table: TableId) -> Arc<Mutex<()>> {
        self.turns.lock().entry(table).or_default().clone()
    }

    /// Returns the lock of who copies rows of a fragment to other nodes.
    pub(crate) fn copier(&self, fragment: FragmentId) -> Arc<Mutex<()>> {
        self.copiers.lock().entry(fragment).or_default().clone()
    }

    /// Returns the turn of the next part of a query that is placed, of 2^32. Multiples of the golden ratio
    /// are spread evenly, also if queries take several turns each.
    pub(crate) fn next_turn(&self) -> u32 {
        self.turns_to_read.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9)
    }

    /// Returns what lets appends through to a node.
    pub(crate) fn lane(&self, node: NodeId) -> Arc<Lane> {
        self.lanes.lock().entry(node).or_default().clone()
    }

    /// Answers another node, if this one is meant.
    ///
    /// # Errors
    /// `Conflict` (55000) if another node is, or one of another cluster; those of what is asked.
    pub fn answer(&self, asked: Addressed, rows: Option<RowReader>) -> Result<Answer> {
        self.check_meant(&asked)?;
        if matches!(asked.request, Request::InRows) {
            let asked = message::request_in(rows)?;
            self.check_meant(&asked)?;
            self.served.count(&asked.request);
            return self.serve(asked.request, None);
        }
        self.served.count(&asked.request);
        self.serve(asked.request, rows)
    }

    fn check_meant(&self, asked: &Addressed) -> Result<()> {
        let identifies = matches!(asked.request, Request::Identify);
        let name = &self.name;
        match asked.to {
            Some(to) if to == self.id => {}
            None if identifies => return Ok(()),
            to => {
                let to = to.map_or_else(|| "another one".to_string(), |to| format!("node {to}"));
                return Err(not_here(format!(
                    "node \"{name}\" ({}) is asked in the place of {to}: it has its address",
                    self.id
                )));
            }
        }
        match self.cluster.get() {
            Some(own) if *own == asked.cluster => Ok(()),
            Some(_) => {
                Err(not_here(format!("node \"{name}\" is part of another cluster than the one that asks")))
            }
            // One that is about to be added.
            None if identifies || matches!(asked.request, Request::Ask(_) | Request::InRows) => Ok(()),
            None => Err(not_here(format!("node \"{name}\" is not part of a cluster yet"))),
        }
    }

    /// Asks another node of the cluster.
    pub(crate) fn call(&self, member: &Member, request: Request, rows: Option<RowReader>) -> Result<Answer> {
        self.peers.call(member, &self.addressed(member, request)?, rows)
    }

    /// Addresses a request to another node of the cluster.
    pub(crate) fn addressed(&self, member: &Member, request: Request) -> Result<Addressed> {
        let cluster = self.cluster.get().ok_or_else(|| Error::internal("a node without a cluster asks"))?;
        Ok(Addressed::new(*cluster, member, request))
    }

    /// Answers what this node is asked, be it by itself.
    pub(crate) fn serve(&self, request: Request, rows: Option<RowReader>) -> Result<Answer> {
        Ok(match request {
            Request::Identify => Answer::Reply(self.identity()),
            Request::Ask(ask) => Answer::Reply(Reply::Answer(self.take_ask(&ask)?.map(Box::new))),
            Request::Store(told) => Answer::Reply(match self.whole(&told)? {
                Some(ask) => Reply::Answer(self.take_ask(&ask)?.map(Box::new)),
                None => Reply::OtherBase,
            }),
            Request::Missed(coordinator) => Answer::Reply(self.says_missed(coordinator)),
            Request::Drain => Answer::Reply(self.drain_here()?),
            // Nobody has said that another process which was this node has ended.
            Request::TakeOver => Answer::Reply(self.promote_after(After::Anybody).map(|_| Reply::TookOver)?),
            Request::InRows => return Err(unexpected("a message")),
            Request::Catalog { after } => Answer::Reply(Reply::Catalog(self.remembered_after(after))),
            Request::Append { request, altered } => {
                let reply = self.append_to_fragments(&[request], altered, None, rows)?.pop();
                let none = || Error::internal("an append without an answer");
                Answer::Reply(Reply::Appended(reply.ok_or_else(none)?))
            }
            Request::AppendAll { requests, altered } => {
                Answer::Reply(Reply::AppendedAll(self.append_to_fragments(&requests, altered, None, rows)?))
            }
            Request::Update { requests, altered, columns } => {
                let replies = self.append_to_fragments(&requests, altered, Some(&columns), rows)?;
                Answer::Reply(Reply::AppendedAll(replies))
            }
            Request::Read { piece, first } => Answer::Rows(self.read(piece, first)?),
            Request::Have(pieces) => Answer::Reply(Reply::Has { lacking: self.lacking(&pieces)? }),
            Request::Run(task) => Answer::Rows(self.host()?.run(&self.shared()?, *task)?),
            Request::Backup(step) => Answer::Reply(self.take_backup_step(step).map(|()| Reply::BackedUp)?),
            Request::Write { table, statement, seen, deletes } => {
                Answer::Reply(self.write_for_another((table, statement), &seen, deletes, rows)?)
            }
            Request::WriteValues { table, statement, seen, columns } => {
                Answer::Reply(self.write_values_for_another((table, statement), &seen, columns, rows)?)
            }
            Request::WriteAll { statement, tables } => {
                Answer::Reply(self.write_all_for_another(statement, &tables, rows)?)
            }
            Request::Count { table, column, after, count } => {
                Answer::Reply(self.count_for_another((table, column), after, count)?)
            }
            Request::Stage(task) => Answer::Rows(self.host()?.begin(&self.shared()?, *task)?),
            Request::Rows(asked) => Answer::Rows(self.host()?.rows(*asked)?),
            Request::Define(change) => Answer::Reply(self.define_for_another(*change)?),
            Request::Weigh { table } => {
                Answer::Reply(Reply::Weighed { node: self.id, fragments: self.own_bytes(table)? })
            }
        })
    }

    /// Says who this node is, and what it knows.
    fn identity(&self) -> Reply {
        let (known, Kept { promised, stored }) = (self.catalog(), self.kept());
        Reply::Identity {
            node: self.id,
            cluster: self.cluster.get().copied(),
            epoch: known.as_ref().map_or(Epoch(0), |catalog| catalog.epoch),
            term: known.as_ref().map_or(Term(0), |catalog| catalog.term),
            promised,
            stored,
            run: Some(self.run),
            clients: self.door.get().map(|door| door.clients() as u64),
        }
    }

    /// Makes this node one that coordinates a cluster of its own, unless it is in one.
    ///
    /// # Errors
    /// Those of storing it.
    pub fn found_cluster(&self) -> Result<()> {
        let mut voter = self.voter.lock();
        if voter.is_some() {
            return Ok(());
        }
        let own = Member {
            id: self.id,
            name: self.name.clone(),
            address: self.address.clone(),
            state: NodeState::Active,
        };
        let catalog = Catalog::new(Uuid::new_v4(), own)?;
        let new = Voter::new(Term(1), catalog.clone());
        self.store_voter(None, &new)?;
        let _known = self.cluster.set(catalog.cluster);
        *voter = Some(new);
        *self.readable.write() = Some(Arc::new(catalog));
        Ok(())
    }

    fn store_voter(&self, before: Option<&Voter<Catalog>>, voter: &Voter<Catalog>) -> Result<()> {
        let mut history = self.history.lock();
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        let next = history.write(&mut transaction, before, voter)?;
        transaction.commit()?;
        *history = next;
        self.reads_unstored.store(false, Ordering::Release);
        *self.kept.lock() = kept_of(voter);
        Ok(())
    }

    /// Stores which catalog the node knows to be published, if it has not yet: from time to time, and when
    /// the node is ended, so that it knows that when it begins again.
    ///
    /// # Errors
    /// Those of storing it.
    pub fn store_readable(&self) -> Result<()> {
        if !self.reads_unstored.load(Ordering::Acquire) {
            return Ok(());
        }
        let voter = self.voter.lock();
        let known = voter.as_ref().filter(|_| self.reads_unstored.load(Ordering::Acquire));
        known.map_or(Ok(()), |known| self.store_voter(Some(known), known))
    }

    /// Returns the state that the node has stored, if it does not know that it is published, and the nodes of
    /// the one of which it knows that.
    pub(crate) fn unpublished(&self) -> Option<(Stored<Catalog>, Vec<Member>)> {
        let voter = self.voter.lock();
        let known = voter.as_ref()?;
        let (stored, readable) = (known.stored.as_ref()?, known.readable.as_ref()?);
        (readable.epoch < stored.epoch).then(|| (stored.clone(), readable.content.nodes.clone()))
    }

    /// Changes what the node has stored of catalogs, durably.
    pub(crate) fn with_voter<R>(&self, change: impl FnOnce(&mut Voter<Catalog>) -> Result<R>) -> Result<R> {
        let mut voter = self.voter.lock();
        let none = || Voter { promised: Term(0), owner: None, stored: None, readable: None };
        let mut next = voter.clone().unwrap_or_else(none);
        let result = change(&mut next)?;
        if voter.as_ref() != Some(&next) {
            self.store_voter(voter.as_ref(), &next)?;
            if let Some(cluster) = cluster_of(&next) {
                let _known = self.cluster.set(cluster);
            }
            *voter = Some(next);
        }
        Ok(result)
    }

    /// Returns a message with all of the catalog that it tells by what differs from another one; `None` if
    /// the node does not have that.
    fn whole(&self, told: &StoreDifference) -> Result<Option<Ask<Catalog>>> {
        let voter = self.voter.lock();
        told.with(voter.iter().flat_map(|voter| voter.stored.iter().chain(&voter.readable)))
    }

    /// Takes a coordinator's message. Readers have a publication of rows before this node stores it: the
    /// coordinator's own node does so before anybody is told that rows are written, others with what comes
    /// next, or soon. A node that was away asks others what a majority has stored.
    pub(crate) fn take_ask(&self, ask: &Ask<Catalog>) -> Result<Option<TermAnswer<Catalog>>> {
        match self.publish_unstored(ask) {
            Some(readable) => self.take(readable).map(|()| None),
            None => self.vote(ask),
        }
    }

    /// Takes the publication of rows without storing it, and returns the catalog. `None` for other messages,
    /// and if tables or nodes differ: what a node makes, it may not have forgotten to be published.
    fn publish_unstored(&self, ask: &Ask<Catalog>) -> Option<Arc<Catalog>> {
        let Ask::Publish { term, epoch } = ask else { return None };
        let mut voter = self.voter.lock();
        let known = voter.as_mut()?;
        let (stored, readable) = (known.stored.as_ref()?, known.readable.as_ref()?);
        let is_later = stored.place() == (*term, *epoch) && readable.epoch < stored.epoch;
        if !is_later || !differ_in_rows(&readable.content, &stored.content) {
            return None;
        }
        known.receive(ask);
        self.reads_unstored.store(true, Ordering::Release);
        known.readable.as_ref().map(|readable| Arc::new(readable.content.clone()))
    }

    /// Takes a coordinator's message.
    pub(crate) fn vote(&self, ask: &Ask<Catalog>) -> Result<Option<TermAnswer<Catalog>>> {
        self.check_cluster(ask)?;
        let (answer, readable) = self.with_voter(|voter| {
            let answer = voter.receive(ask);
            Ok((answer, voter.readable.clone()))
        })?;
        // Whoever begins to coordinate does not wait for what nodes do to their tables.
        if let Some(readable) = readable.filter(|_| matches!(ask, Ask::Publish { .. })) {
            self.take(Arc::new(readable.content))?;
        }
        Ok(answer)
    }

    /// Refuses the coordinator of another cluster.
    fn check_cluster(&self, ask: &Ask<Catalog>) -> Result<()> {
        if let (Ask::Store { stored, .. }, Some(own)) = (ask, self.cluster.get())
            && stored.content.cluster != *own
        {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("node \"{}\" is part of another cluster already", self.name),
            ));
        }
        Ok(())
    }

    /// Shows queries a catalog.
    pub(crate) fn show(&self, catalog: Arc<Catalog>) {
        *self.readable.write() = Some(catalog);
    }

    /// Returns the fragments that this node has rows of.
    pub(crate) fn own_fragments(&self) -> Result<Vec<FragmentId>> {
        Ok(state::fragments(&*self.database.unpinned_snapshot()?).collect())
    }

    /// Drops the rows of fragments, in one transaction.
    pub(crate) fn drop_fragments(&self, ids: &BTreeSet<FragmentId>) -> Result<()> {
        let _one = self.writing.lock();
        let mut transaction = self.database.begin(self.threads)?.of_statements();
        state::drop_fragments(&mut transaction, ids)?;
        transaction.commit().map(|_| ())
    }

    /// Returns the highest term that the node has promised to follow.
    pub(crate) fn promised(&self) -> Term {
        self.kept().promised
    }

    /// Returns what the node keeps of coordinators' messages.
    pub(crate) fn kept(&self) -> Kept {
        *self.kept.lock()
    }

    /// Returns the rows of a fragment that a reader sees: those of a snapshot, if it has them already.
    /// Only tables of one snapshot have indexes together.
    ///
    /// # Errors
    /// `Conflict` (55000) if the node has others than were published: it has lost some, its replica was
    /// dropped since and made again, or the table was altered.
    pub fn fragment(
        &self,
        snapshot: &Arc<Snapshot>,
        piece: Piece,
    ) -> Result<(Arc<Snapshot>, Arc<TableData>)> {
        if let Ok(found) = self.fragment_in(snapshot, piece) {
            return Ok((snapshot.clone(), found));
        }
        let snapshot = self.database.snapshot()?;
        let found = self.fragment_in(&snapshot, piece)?;
        Ok((snapshot, found))
    }

    fn fragment_in(&self, snapshot: &Snapshot, piece: Piece) -> Result<Arc<TableData>> {
        let Piece { fragment, positions, rows, altered, life } = piece;
        let made = self.made_in(snapshot, fragment.table, altered)?;
        let Some(table) = state::fragment(snapshot, fragment) else {
            // It has never had rows.
            return match (positions, made.shell(snapshot)) {
                (0, Some(shell)) => Ok(shell.with_views()),
                _ => Err(self.lacks(piece, 0, 0)),
            };
        };
        if positions > 0 && life < state::made_in_life(&table) {
            return Err(not_here(format!(
                "the replica of {fragment} on node \"{}\" was dropped, and made again, since it had the rows \
                 that are asked for",
                self.name
            )));
        }
        let there = table.positions();
        let first = state::seen(snapshot, &table, fragment, positions)?;
        // Those behind the positions count as deleted.
        let found = there.saturating_sub(first.deleted().len());
        match there >= positions && found == rows {
            true => Ok(first.with_views()),
            false => Err(self.lacks(piece, there, found)),
        }
    }

    fn lacks(&self, piece: Piece, positions: u64, rows: u64) -> Error {
        not_here(format!(
            "node \"{}\" has {rows} rows in {positions} positions of {}, but {} in {} were published",
            self.name, piece.fragment, piece.rows, piece.positions
        ))
    }

    /// Returns the first fragment whose rows the node lacks, of some replicas.
    fn lacking(&self, pieces: &[Piece]) -> Result<Option<FragmentId>> {
        let snapshot = self.database.snapshot()?;
        for piece in pieces {
            match self.fragment(&snapshot, *piece) {
                Ok(_) => {}
                Err(error) if is_behind(&error) => {
                    tracing::warn!(node = self.name, %error, "the node is asked for rows that it lacks");
                    return Ok(Some(piece.fragment));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the rows of a replica.
    fn read(&self, piece: Piece, first: u64) -> Result<SendableRecordBatchStream> {
        let (_, table) = self.fragment(&self.database.snapshot()?, piece)?;
        let fields = table.columns().iter();
        let fields = fields.map(|column| column.entry().logical_type.arrow_field(&column.entry().name, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let first_position = nth_row(table.deleted(), first);
        let rows = state::batches(table, first_position..piece.positions, self.threads);
        let rows = rows.map(|batch| batch.map_err(hypostyle_error::external));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(rows))))
    }
}

/// Stores which node a database is, which has been none.
fn make_identity(database: &Arc<Database>, threads: usize) -> Result<NodeId> {
    let id = NodeId(Uuid::new_v4());
    let mut transaction = database.begin(threads)?.of_statements();
    state::store(&mut transaction, IDENTITY, &id)?;
    transaction.commit()?;
    Ok(id)
}

/// Returns what a node keeps of coordinators' messages, by what it has stored.
fn kept_of(voter: &Voter<Catalog>) -> Kept {
    Kept { promised: voter.promised, stored: voter.stored.as_ref().map(Stored::place) }
}

/// Returns the cluster whose published catalog a node knows.
fn cluster_of(voter: &Voter<Catalog>) -> Option<Uuid> {
    voter.readable.as_ref().map(|stored| stored.content.cluster)
}

/// Returns the position of a row that is counted without deleted ones; the last number if it is behind all.
fn nth_row(deleted: &RoaringTreemap, mut row: u64) -> u64 {
    for deleted in deleted {
        if deleted > row {
            break;
        }
        // Another node has said which row it wants.
        row = row.saturating_add(1);
    }
    row
}

/// Returns to how many partitions a node gives rows of tasks at a time, by its server's places for other
/// nodes: each partition of another node takes one of these, of which other requests of nodes need some, too.
fn given_of(clients: usize) -> usize {
    clients.saturating_mul(5) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_leave_places_for_other_requests() {
        for (clients, given) in [(1, 0), (10, 6), (CLIENTS, 160), (1000, 625)] {
            assert_eq!(given_of(clients), given, "{clients}");
        }
    }

    #[test]
    fn rows_are_counted_without_deleted_ones_whatever_is_asked_for() {
        let deleted: RoaringTreemap = [0, 1, 4].into_iter().collect();
        let rows = [0, 1, 2, 3, u64::MAX - 1, u64::MAX];
        let positions = rows.map(|row| nth_row(&deleted, row));
        assert_eq!(positions, [2, 3, 5, 6, u64::MAX, u64::MAX]);
    }
}
