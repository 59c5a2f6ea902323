//! What the node does that coordinates: changes of the catalog, and appends.

use crate::change::{Changes, Rows, Seen, Unlimited};
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{RowReader, is_behind, is_unreachable, unexpected};
use crate::share::Sent;
use crate::tell::Told;
use arrow::array::RecordBatch;
use hypostyle_placement::append::{self, Append, Effect, Outcome};
use hypostyle_placement::catalog::{
    Altered, Catalog, Change, Found, Node as Member, Publication, Restarted, Table,
};
use hypostyle_placement::partition::Partitioning;
use hypostyle_placement::term::{After, Answer, Ask, CHANGES_MAX, Coordinator, Output, Ticket};
use hypostyle_placement::{Epoch, FragmentId, NodeId, StatementId, Term};
use hypostyle_sync::{Condvar, Mutex, TimedMutexGuard};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long a change waits for those before it and for a majority. An append also waits for nodes
/// that are silent, and all together should take 10 s at most.
pub(crate) const MAJORITY: Duration = Duration::from_secs(3);

/// How long a change waits in all that another one has taken along. Its majority may be found later than
/// that: then nobody knows what came of it.
const DECIDED: Duration = Duration::from_secs(5);

/// A node is silent for so many seconds until an append goes on without it (`node::SILENCE`).
const SILENT_SECONDS: u64 = 4;

/// What an append waits for, one after the other: silent nodes, its decision, and those that take it over.
const _: () = assert!(SILENT_SECONDS + DECIDED.as_secs() + TAKEN.as_secs() <= 10);

/// How long it waits until it asks again those that have not answered.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a publication waits for nodes to take it over, so that who asks them next sees it.
const TAKEN: Duration = Duration::from_secs(1);

/// The most requests that all statements together have sent to a node and it has not answered: each takes
/// a place for clients there, and a thread here.
const REQUESTS_AT_ONCE: usize = 16;

/// The most messages about catalogs that wait for one node.
const MESSAGES_MAX: usize = 16;

/// How long a coordinator that was away waits for others to say whether it still is one.
const INQUIRY: Duration = Duration::from_secs(1);

/// A coordinator's message to one node.
struct Message {
    member: Member,
    ask: Arc<Ask<Catalog>>,
    answers: Sender<(NodeId, Option<Answer<Catalog>>)>,
    /// Dropped when the message has arrived, or cannot.
    _taken: Sender<()>,
}

/// Threads that bring messages to nodes: to each of them in the order in which they were sent. A
/// node takes a catalog over only after it has stored it.
#[derive(Default)]
pub(crate) struct Couriers(Mutex<BTreeMap<NodeId, SyncSender<Message>>>);

impl Couriers {
    /// Sends a message. It is lost if as many wait for a slow node as may, or if this fails: what needs an
    /// answer is sent again.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    fn send(&self, node: &Arc<Node>, message: Message) -> Result<()> {
        let mut couriers = self.0.lock();
        let own = match couriers.entry(message.member.id) {
            Entry::Occupied(courier) => courier.into_mut(),
            Entry::Vacant(place) => place.insert(courier(Arc::downgrade(node))?),
        };
        match own.try_send(message) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            // The thread has ended in a panic. Another one has room for this message.
            Err(TrySendError::Disconnected(message)) => {
                *own = courier(Arc::downgrade(node))?;
                let _sent = own.try_send(message);
            }
        }
        Ok(())
    }
}

/// Starts the thread that brings one node its messages, for as long as this node is open.
fn courier(node: Weak<Node>) -> Result<SyncSender<Message>> {
    let (sender, messages) = sync_channel::<Message>(MESSAGES_MAX);
    let work = move || {
        let mut told = Told::default();
        for Message { member, ask, answers, _taken } in messages {
            let Some(node) = node.upgrade() else { return };
            let answer = node.tell(&member, &ask, &mut told).unwrap_or_default();
            node.hear(member.id, answer.as_ref());
            let _nobody_waits = answers.send((member.id, answer));
        }
    };
    start_thread("hypostyle-cluster", work).map(|()| sender)
}

/// What became of a change.
type Decision = Result<Arc<Catalog>>;

/// The changes that wait for those before them, the earliest first. Whoever may make the next catalog takes
/// along those of others.
#[derive(Default)]
pub(crate) struct Submitted(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    changes: VecDeque<(u64, Change, Sender<Decision>)>,
}

impl Submitted {
    /// Adds changes that follow each other, and returns their numbers.
    fn add(&self, changes: impl IntoIterator<Item = (Change, Sender<Decision>)>) -> Range<u64> {
        let mut waiting = self.0.lock();
        let first = waiting.next;
        for (change, decided) in changes {
            let number = waiting.next;
            waiting.next += 1;
            waiting.changes.push_back((number, change, decided));
        }
        first..waiting.next
    }

    /// Takes changes back; false if somebody has taken the first of them along.
    fn withdraw(&self, numbers: &Range<u64>) -> bool {
        let mut waiting = self.0.lock();
        let has_first = waiting.changes.iter().any(|(number, ..)| *number == numbers.start);
        waiting.changes.retain(|(number, ..)| !numbers.contains(number));
        has_first
    }

    /// Returns the first changes, as many as are stored together.
    fn take(&self) -> (Vec<Change>, Vec<Sender<Decision>>) {
        let mut waiting = self.0.lock();
        let count = waiting.changes.len().min(CHANGES_MAX);
        waiting.changes.drain(..count).map(|(_, change, decided)| (change, decided)).unzip()
    }
}

/// Lets so many at a time through, in whichever order they come.
#[derive(Default)]
pub(crate) struct Lane {
    inside: Mutex<usize>,
    left: Condvar,
}

/// The place of one that is let through.
struct Place<'a>(&'a Lane);

impl Lane {
    fn enter(&self) -> Place<'_> {
        let mut inside = self.inside.lock();
        while *inside >= REQUESTS_AT_ONCE {
            inside = self.left.wait(inside);
        }
        *inside += 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.inside.lock() -= 1;
        self.0.left.notify_one();
    }
}

/// Answers the requests of a thread that ends in a panic, and those that no other may take any more: a
/// statement waits for each of them, and others for the statement.
struct Unanswered {
    requests: Vec<append::Request>,
    /// What is still to be sent to the node.
    waiting: Arc<Mutex<VecDeque<Vec<append::Request>>>>,
    answers: Sender<(append::Request, Result<append::Reply>)>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for request in self.requests.drain(..).chain(waiting.into_iter().flatten()) {
            let error = Error::internal("a thread that sends rows to a node has ended without an answer");
            let _nobody_waits = self.answers.send((request, Err(error)));
        }
    }
}

/// What a statement does to one table, on its way.
struct Writer {
    append: Append,
    sent: Arc<Sent>,
    effects: VecDeque<Effect>,
    /// What the statement has found in other tables.
    found: Vec<Found>,
    /// The columns that the statement has count anew.
    restarts: Vec<Restarted>,
    /// How many replicas of each fragment have to have written.
    least: usize,
    /// Why a replica has not written.
    failed: Option<Error>,
    /// Whether there is one that has not.
    leaves_behind: bool,
    /// The term in which the writer had begun before it came ([`crate::ahead`]), if it had.
    ahead: Option<Term>,
}

/// Why an attempt of a statement has come to nothing.
struct Failed {
    error: Error,
    /// Nothing is published, and it may be otherwise for a writer that begins anew.
    again: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, again: false }
    }
}

/// What becomes of a statement that begins.
enum Begun {
    /// It is published already, with so many rows.
    Published(u64),
    Writing(BTreeMap<TableId, Writer>),
}

impl Writer {
    /// Takes the answer of a replica.
    ///
    /// # Errors
    /// That of a node that does not know rows of which only some columns come.
    fn take_answer(&mut self, request: append::Request, reply: Result<append::Reply>) -> Result<()> {
        let effects = match reply {
            Ok(reply) => {
                self.leaves_behind |= !matches!(reply.outcome, Outcome::Written { .. });
                self.append.receive(&reply)
            }
            // All nodes know whole rows. A replica that is not left behind has nothing to catch up.
            Err(error) if self.sent.columns.is_some() && error.sqlstate() == "08P01" => return Err(error),
            // Rows that are bad are so on all nodes: then no replica is left.
            Err(error) => {
                tracing::warn!(fragment = %request.fragment, node = %request.node, %error, "a replica is left behind");
                self.leaves_behind = true;
                if !is_unreachable(&error) {
                    self.failed = Some(error);
                }
                self.append.give_up(request.node, Some(request.fragment.number))
            }
        };
        self.effects.extend(effects);
        Ok(())
    }
}

/// Returns how many replicas of each fragment a statement wants to have what it changes: no more than a
/// fragment should have.
fn replicas_wanted(table: &Table, seen: &Seen) -> usize {
    let all = match table.partitioning {
        Partitioning::Replicated => table.fragments.first().map_or(1, |fragment| fragment.replicas.len()),
        _ => usize::try_from(table.replicas).unwrap_or(usize::MAX),
    };
    usize::try_from(seen.synced.unwrap_or(1)).map_or(all, |least| least.min(all))
}

/// Checks that as many replicas have what a statement changes as it wants. Otherwise it is not published: the
/// next writer deletes what some have written.
///
/// # Errors
/// `Connection` (57P03) naming a fragment.
fn check_synced(publication: &Publication, writers: &BTreeMap<TableId, Writer>) -> Result<()> {
    let least = writers.get(&publication.table).map_or(1, |writer| writer.least);
    for fragment in &publication.fragments {
        let have = fragment.replicas.iter().filter(|replica| replica.positions.is_some()).count();
        if have < least {
            let of = FragmentId { table: publication.table, number: fragment.number };
            let message = format!(
                "{have} replicas of {of} are in sync with the statement, and synced_replicas wants {least}: nothing was \
                 changed"
            );
            return Err(Error::new(ErrorKind::Connection, message).with_sqlstate("57P03"));
        }
    }
    Ok(())
}

/// Returns what a writer that is done says of its statement.
fn told(effects: Vec<Effect>) -> Result<u64> {
    match effects.into_iter().next() {
        Some(Effect::Finish(result)) => result,
        Some(_) | None => Err(Error::internal("a writer that is done goes on")),
    }
}

/// The answers of nodes to one message.
type Answers = (Sender<(NodeId, Option<Answer<Catalog>>)>, Receiver<(NodeId, Option<Answer<Catalog>>)>);

impl Node {
    /// Makes this node the coordinator, in a new term, because somebody says so.
    ///
    /// # Errors
    /// `Conflict` if another one is meanwhile, or another process may be this node; `Connection` if no
    /// majority of the nodes is there.
    pub fn promote(&self) -> Result<Arc<Catalog>> {
        self.ask_again()?;
        self.promote_after(After::Anybody).map_err(|error| match error.sqlstate() {
            "57P03" => self.catalog().map_or(error, |catalog| too_few(&catalog)),
            _ => error,
        })
    }

    /// Does what [`Self::promote`] says, if this node may follow who coordinates.
    pub(crate) fn promote_after(&self, after: After) -> Result<Arc<Catalog>> {
        let (id, since) = (self.id(), Instant::now());
        let mut slot = self.changes(since)?;
        let (mut coordinator, ask) = self.with_voter(|voter| Coordinator::promote(id, after, voter))?;
        self.begin(&mut coordinator, ask, since + MAJORITY)?;
        *slot = Some(coordinator);
        self.known_catalog()
    }

    /// Says whether this node coordinates the cluster.
    pub fn coordinates(&self) -> bool {
        self.catalog().is_some_and(|catalog| catalog.coordinator == self.id())
    }

    /// Publishes a change of the catalog, together with others that wait.
    ///
    /// # Errors
    /// Those of the change; `Conflict` if another node coordinates; `Connection` if no majority of
    /// the nodes is there.
    pub fn change(&self, change: Change) -> Result<Arc<Catalog>> {
        self.change_with(change, Vec::new()).0
    }

    /// Publishes a change, and others right behind it, for which nobody waits. Returns what became of the
    /// first one, and, in their order, of those of the others of which that is known by then.
    fn change_with(&self, change: Change, others: Vec<Change>) -> (Decision, Vec<Decision>) {
        let since = Instant::now();
        let ((decided, decision), (others_decided, of_others)) = (channel(), channel());
        let others = others.into_iter().map(|change| (change, others_decided.clone()));
        let numbers = self.submitted.add([(change, decided)].into_iter().chain(others));
        let decision = match self.changes(since) {
            Ok(mut slot) => loop {
                if let Ok(decision) = decision.try_recv() {
                    break decision;
                }
                if !self.store_submitted(&mut slot, since + MAJORITY) {
                    break Err(unknown());
                }
            },
            Err(error) if self.submitted.withdraw(&numbers) => Err(error),
            // Somebody has taken it along, and waits for a majority.
            Err(_) => {
                let left = (since + DECIDED).saturating_duration_since(Instant::now());
                decision.recv_timeout(left).unwrap_or_else(|_| Err(unknown()))
            }
        };
        (decision, of_others.try_iter().collect())
    }

    /// Has the changes stored that were submitted first, and tells who waits for them what became of them;
    /// false if there are none.
    fn store_submitted(&self, slot: &mut Option<Coordinator>, end: Instant) -> bool {
        let (changes, waiting) = self.submitted.take();
        if changes.is_empty() {
            return false;
        }
        let decisions = self.store_together(slot, changes, end);
        for (waiting, decision) in waiting.into_iter().zip(decisions) {
            let _nobody_waits = waiting.send(decision);
        }
        true
    }

    fn store_together(
        &self,
        slot: &mut Option<Coordinator>,
        changes: Vec<Change>,
        end: Instant,
    ) -> Vec<Decision> {
        let (count, is_of_rows) = (changes.len(), are_of_rows(&changes));
        if slot.is_none() {
            match self.resume(end) {
                Ok(coordinator) => *slot = Some(coordinator),
                Err(error) => return vec![Err(error); count],
            }
        }
        let Some(coordinator) = slot.as_mut() else {
            return vec![Err(Error::internal("no coordinator")); count];
        };
        let (tickets, outputs) = coordinator.submit_all(changes);
        let mut decisions: BTreeMap<Ticket, Option<Decision>> =
            tickets.iter().map(|ticket| (*ticket, None)).collect();
        let driven = self.drive(coordinator, (outputs, is_of_rows), &mut decisions, end);
        let failed = driven.as_ref().err().cloned().unwrap_or_else(unknown);
        let decisions: Vec<Decision> =
            decisions.into_values().map(|decision| decision.unwrap_or_else(|| Err(failed.clone()))).collect();
        let is_over = |error: &Error| matches!(error.sqlstate(), "08007" | "25006");
        // What it has proposed must not be stored later, as somebody has been told an error.
        if driven.is_err() || decisions.iter().any(|decision| decision.as_ref().is_err_and(is_over)) {
            *slot = None;
            self.ahead.forget();
        }
        decisions
    }

    /// Does something with the published catalog while no other one is published.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub(crate) fn hold_off<R>(&self, work: impl FnOnce(&Catalog) -> Result<R>) -> Result<R> {
        let since = Instant::now();
        let mut slot = self.changes(since)?;
        if slot.is_none() {
            *slot = Some(self.resume(since + MAJORITY)?);
        }
        work(slot.as_ref().and_then(Coordinator::catalog).ok_or_else(no_majority)?)
    }

    /// Waits for the changes before one that is wanted since some time.
    ///
    /// # Errors
    /// `Connection` (57P03) if they have found no majority: this one would not, either. `Conflict` (55000) if
    /// this node is a copy of one that runs.
    fn changes(&self, since: Instant) -> Result<TimedMutexGuard<'_, Option<Coordinator>>> {
        self.check_no_copy()?;
        let slot = self.coordinator.try_lock_until(Instant::now() + MAJORITY).ok_or_else(no_majority)?;
        self.check_majority(since)?;
        Ok(slot)
    }

    /// Fails if a change has found no majority since some time, so that those who wait for each
    /// other wait no longer than the first of them.
    fn check_majority(&self, since: Instant) -> Result<()> {
        match self.alone.lock().is_some_and(|when| when >= since) {
            true => Err(no_majority()),
            false => Ok(()),
        }
    }

    /// Begins to coordinate again what this node coordinated before it was away.
    fn resume(&self, end: Instant) -> Result<Coordinator> {
        self.check_coordinates()?;
        self.check_replaced()?;
        let id = self.id();
        let (mut coordinator, ask) =
            self.with_voter(|voter| Coordinator::promote(id, After::Itself, voter))?;
        self.begin(&mut coordinator, ask, end)?;
        Ok(coordinator)
    }

    /// Begins a later term than one that a node has promised to somebody who wanted to coordinate and
    /// has not come to it: the node refuses this one until then.
    ///
    /// # Errors
    /// `Conflict` if somebody does coordinate in a later term; those of [`Self::change`].
    pub(crate) fn renew(&self, refused: Term) -> Result<()> {
        let since = Instant::now();
        let mut slot = self.changes(since)?;
        self.check_coordinates()?;
        self.check_replaced()?;
        let (mut coordinator, ask) = self.with_voter(|voter| {
            voter.promised = voter.promised.max(refused);
            Coordinator::promote(self.id(), After::Itself, voter)
        })?;
        self.begin(&mut coordinator, ask, since + MAJORITY)?;
        *slot = Some(coordinator);
        Ok(())
    }

    /// Asks the others whether one of them coordinates by now: a new term would end theirs.
    fn check_replaced(&self) -> Result<()> {
        let own = self.known_catalog()?;
        let heard = self.ask_others(&own, &Request::Identify)?;
        let end = Instant::now() + INQUIRY;
        let mut answers = 1;
        while answers <= own.nodes.len() / 2 {
            match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(Reply::Identity { term, .. })) if term > own.term => return Err(replaced(term)),
                Ok(Ok(Reply::Identity { .. })) => answers += 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Asks all other nodes of a catalog at once, and returns their answers as they come.
    pub(crate) fn ask_others(&self, catalog: &Catalog, request: &Request) -> Result<Receiver<Result<Reply>>> {
        let (answers, heard) = channel();
        for member in catalog.nodes.iter().filter(|member| member.id != self.id()) {
            let (node, member, answers) = (self.shared()?, member.clone(), answers.clone());
            let request = request.clone();
            let ask = move || {
                let reply = node.call(&member, request, None).and_then(crate::peers::Answer::reply);
                let _nobody_waits = answers.send(reply);
            };
            start_thread("hypostyle-cluster", ask)?;
        }
        Ok(heard)
    }

    /// Refuses on a node that does not coordinate the cluster.
    ///
    /// # Errors
    /// `ReadOnly` (25006) naming the node that does.
    pub fn check_coordinates(&self) -> Result<()> {
        let catalog = self.known_catalog()?;
        if catalog.coordinator == self.id() {
            return Ok(());
        }
        let name = catalog.node(catalog.coordinator).map_or("?", |node| node.name.as_str());
        let address = catalog.node(catalog.coordinator).map_or("?", |node| node.address.as_str());
        Err(Error::new(
            ErrorKind::ReadOnly,
            format!("node \"{name}\" at {address} coordinates writes to tables of the cluster: send the statement there"),
        )
        .with_sqlstate("25006"))
    }

    /// Has a coordinator begin.
    fn begin(&self, coordinator: &mut Coordinator, ask: Ask<Catalog>, end: Instant) -> Result<()> {
        self.drive(coordinator, (vec![Output::Send(ask)], false), &mut BTreeMap::new(), end)
    }

    /// Does what a coordinator wants, until all of some changes are decided; without any, until the
    /// coordinator has begun. `is_of_rows` says that they publish rows, and change no table.
    ///
    /// # Errors
    /// Why those that are left will not be decided.
    fn drive(
        &self,
        coordinator: &mut Coordinator,
        (outputs, is_of_rows): (Vec<Output>, bool),
        decisions: &mut BTreeMap<Ticket, Option<Decision>>,
        end: Instant,
    ) -> Result<()> {
        let answers = channel();
        let mut outputs = VecDeque::from(outputs);
        let mut over: Option<Error> = None;
        let mut untaken: Option<Error> = None;
        let mut asked_again = Instant::now();
        loop {
            while let Some(output) = outputs.pop_front() {
                let (ticket, decision) = match output {
                    Output::Send(ask) => {
                        let is_publication = matches!(ask, Ask::Publish { .. });
                        match self.send(coordinator, ask, is_of_rows, &answers) {
                            Ok(more) => outputs.extend(more),
                            // A majority has stored it. Who waits is not told that nothing was changed.
                            Err(error) if is_publication && !decisions.is_empty() => untaken = Some(error),
                            Err(error) => return Err(error),
                        }
                        continue;
                    }
                    Output::Deposed(term) => {
                        over.get_or_insert(replaced(term));
                        continue;
                    }
                    Output::Committed(ticket, catalog) => match &untaken {
                        None => (ticket, Ok(Arc::from(catalog))),
                        Some(error) => (ticket, Err(published_elsewhere(error))),
                    },
                    Output::Refused(ticket, error) => (ticket, Err(error)),
                    Output::Unknown(ticket) => (ticket, Err(unknown())),
                };
                if let Some(place) = decisions.get_mut(&ticket) {
                    *place = Some(decision);
                }
            }
            if !decisions.is_empty() && decisions.values().all(Option::is_some) {
                return Ok(());
            }
            if let Some(error) = over.take() {
                return Err(error);
            }
            if decisions.is_empty() && coordinator.waiting().is_none() {
                return Ok(());
            }
            match answers.1.recv_timeout(Duration::from_millis(100)) {
                Ok((from, Some(answer))) => outputs.extend(coordinator.receive(from, &answer)),
                Ok((_, None)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(unknown()),
            }
            if Instant::now() > end {
                *self.alone.lock() = Some(Instant::now());
                // Without a change to decide, nothing but a term was asked for.
                return Err(if decisions.is_empty() { no_majority() } else { unknown() });
            }
            if outputs.is_empty()
                && asked_again.elapsed() > AGAIN
                && let Some(ask) = coordinator.waiting()
            {
                asked_again = Instant::now();
                outputs.push_back(Output::Send(ask));
            }
        }
    }

    /// Sends a message to all nodes of the catalog, and has this one take it: first, so that what fails here
    /// is told nobody. What publishes rows, all nodes store at the same time. Then nobody knows what becomes
    /// of it if this node cannot store it. That they are published, this node's readers have first: whoever
    /// wants to read all that others have read asks this node. It stores that while others hear of it.
    fn send(
        &self,
        coordinator: &mut Coordinator,
        ask: Ask<Catalog>,
        is_of_rows: bool,
        answers: &Answers,
    ) -> Result<Vec<Output>> {
        let (members, node) = (self.members(coordinator, &ask), self.shared()?);
        let is_publication = matches!(ask, Ask::Publish { .. });
        let ask = Arc::new(ask);
        let first = match (is_publication, is_of_rows) {
            (true, true) => Some(self.take_ask(&ask)),
            (false, true) => None,
            (_, false) => Some(self.vote(&ask)),
        };
        let first = match first {
            // The others hear of what a majority has stored, whatever becomes of this node.
            Some(Err(error)) if !is_publication => return Err(error),
            first => first,
        };
        let (taken, all_taken) = channel::<()>();
        for member in members.into_iter().filter(|member| member.id != self.id()) {
            let message =
                Message { member, ask: ask.clone(), answers: answers.0.clone(), _taken: taken.clone() };
            // It counts as lost: others may have got theirs, and this node has stored what it says.
            if let Err(error) = self.couriers.send(&node, message) {
                tracing::warn!(%error, "a node is not told what to store");
            }
        }
        drop(taken);
        let own = first.unwrap_or_else(|| self.vote(&ask).map_err(|error| stored_elsewhere(&error)));
        if is_publication {
            let stored = self.store_readable();
            // Ends when all have answered, or cannot.
            let _timeout = all_taken.recv_timeout(TAKEN);
            stored?;
        }
        Ok(own?.map_or_else(Vec::new, |answer| coordinator.receive(self.id(), &answer)))
    }

    /// Returns the nodes that a message is for.
    fn members(&self, coordinator: &Coordinator, ask: &Ask<Catalog>) -> Vec<Member> {
        if let Ask::Store { stored, .. } = ask {
            return stored.content.nodes.clone();
        }
        match coordinator.catalog() {
            Some(catalog) => catalog.nodes.clone(),
            None => self.catalog().map(|catalog| catalog.nodes.clone()).unwrap_or_default(),
        }
    }

    /// Gives a table other columns or another name: not while rows are appended, whose columns would be
    /// those of before.
    ///
    /// # Errors
    /// `Conflict` (40001) if it was altered since; those of [`Self::change`].
    pub(crate) fn alter(&self, altered: Altered) -> Result<Arc<Catalog>> {
        self.check_coordinates()?;
        let (since, turn) = (Instant::now(), self.turn(altered.table));
        let _mine = turn.lock();
        self.check_majority(since)?;
        self.change(Change::AlterTable(altered))
    }

    /// Appends rows to a table of the cluster, with the columns that it has in a catalog: all, or none.
    ///
    /// # Errors
    /// Those of [`Self::write_all`].
    pub fn append(
        &self,
        table: TableId,
        statement: StatementId,
        rows: &[RecordBatch],
        seen: &Catalog,
    ) -> Result<u64> {
        let (rows, deleted) = (Rows::Batches(rows), &RoaringTreemap::new());
        let seen = &Seen::of(seen, table, deleted)?;
        self.write_all(statement, &[(table, Changes { rows, deleted, seen, memory: &Unlimited })])
    }

    /// Does what [`Self::write_all`] says, on the node that coordinates.
    pub(crate) fn write_here(
        &self,
        statement: StatementId,
        tables: &[(TableId, Changes<'_>)],
    ) -> Result<u64> {
        self.check_coordinates()?;
        let since = Instant::now();
        // In one order for all statements, so that no two wait for each other.
        let turns: BTreeMap<TableId, Arc<Mutex<()>>> =
            tables.iter().map(|(id, _)| (*id, self.turn(*id))).collect();
        if turns.len() != tables.len() {
            return Err(Error::internal("a statement changes a table twice"));
        }
        let _mine: Vec<_> = turns.values().map(|turn| turn.lock()).collect();
        self.check_majority(since)?;
        let mut sent = BTreeMap::new();
        let mut attempt = || -> std::result::Result<u64, Failed> {
            match self.writers(statement, tables, &mut sent)? {
                Begun::Published(rows) => Ok(rows),
                Begun::Writing(writers) => self.attempt(statement, writers),
            }
        };
        let done = attempt().or_else(|failed: Failed| match failed.again {
            true => {
                tracing::debug!(error = %failed.error, "a writer that had begun before begins anew");
                attempt()
            }
            false => Err(failed),
        });
        done.map_err(|failed| failed.error)
    }

    /// Makes the writers of a statement, one for each table. `sent` has what they send, as far as that is
    /// known.
    fn writers(
        &self,
        statement: StatementId,
        tables: &[(TableId, Changes<'_>)],
        sent: &mut BTreeMap<TableId, Arc<Sent>>,
    ) -> Result<Begun> {
        let catalog = self.known_catalog()?;
        let mut writers = BTreeMap::new();
        for (id, changes) in tables {
            let unknown =
                || Error::new(ErrorKind::UnknownName, format!("there is no table {id} in the cluster"));
            let entry = catalog.table(*id).ok_or_else(unknown)?;
            if changes.seen.altered != entry.layout.altered {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("table \"{}\" was altered meanwhile: run the statement again", entry.name),
                ));
            }
            let sent = match sent.entry(*id) {
                Entry::Occupied(sent) => sent.get().clone(),
                Entry::Vacant(place) => place.insert(Arc::new(Sent::share_out(entry, changes)?)).clone(),
            };
            let (append, effect) = Append::begin(&catalog, *id, statement, sent.parts(changes.seen))?;
            let Some(append) = append else {
                // It is published, with whatever it does to the other tables.
                let finished = |(id, _): &(TableId, Changes<'_>)| catalog.table(*id)?.finished(statement);
                let rows = tables.iter().filter_map(finished).map(|finished| finished.rows).sum();
                return Ok(Begun::Published(rows));
            };
            let effects = VecDeque::from([effect]);
            let (found, restarts) = (changes.seen.found.clone(), changes.seen.restarts.clone());
            let least = replicas_wanted(entry, changes.seen);
            let (failed, leaves_behind, ahead) = (None, false, None);
            let writer =
                Writer { append, sent, effects, found, restarts, least, failed, leaves_behind, ahead };
            writers.insert(*id, writer);
        }
        Ok(Begun::Writing(writers))
    }

    /// Makes one attempt of a statement.
    fn attempt(
        &self,
        statement: StatementId,
        mut writers: BTreeMap<TableId, Writer>,
    ) -> std::result::Result<u64, Failed> {
        let (answers, arrived) = channel();
        let mut publications = Vec::new();
        loop {
            for (table, writer) in &mut writers {
                let mut requests = Vec::new();
                while let Some(effect) = writer.effects.pop_front() {
                    match effect {
                        Effect::Commit(Change::Publish(publication)) => {
                            let found = std::mem::take(&mut writer.found);
                            let restarts = std::mem::take(&mut writer.restarts);
                            publications.push(Publication { found, restarts, ..publication });
                        }
                        Effect::Commit(change) => {
                            // Somebody else may want to coordinate by now.
                            let may_begin = |catalog: &Arc<Catalog>| self.promised() <= catalog.term;
                            let begun_before = self
                                .catalog()
                                .filter(|catalog| may_begin(catalog) && self.ahead.take(*table, catalog));
                            writer.ahead = begun_before.as_ref().map(|catalog| catalog.term);
                            let begun = begun_before.map_or_else(|| self.begin_to_write(change), Ok);
                            let effects = writer.append.begun(begun.as_deref().map_err(Clone::clone));
                            // What does not fit this catalog does not fit the next one, either.
                            writer.ahead = writer.ahead.filter(|_| writer.append.token().is_some());
                            writer.effects.extend(effects);
                        }
                        Effect::Send(request) => requests.push(request),
                        Effect::Finish(result) => {
                            // A replica has refused it as an earlier one. Who begins anew has the same errors
                            // of rows, and waits as long for nodes that are silent.
                            let may_begin = writer.ahead.is_some() && writer.failed.is_none();
                            let failed = |error: Error| {
                                let again = may_begin && error.kind() == ErrorKind::Conflict;
                                Failed { error: writer.failed.take().unwrap_or(error), again }
                            };
                            return result.map_err(failed);
                        }
                    }
                }
                self.send_rows(requests, &writer.sent, &answers)?;
            }
            // Each fragment of each table has a replica that has its rows.
            if publications.len() == writers.len() {
                return self.publish_written(statement, writers, publications);
            }
            let (request, reply): (append::Request, Result<append::Reply>) =
                arrived.recv().map_err(|_| Error::internal("nobody answers an append"))?;
            let Some(writer) = writers.get_mut(&request.fragment.table) else {
                return Err(Error::internal("an answer to an append to another table").into());
            };
            writer.take_answer(request, reply)?;
        }
    }

    /// Makes the change by which a writer begins. Whether or not it has begun: nothing is appended.
    fn begin_to_write(&self, change: Change) -> Result<Arc<Catalog>> {
        let since = Instant::now();
        let begun = self.change(change.clone()).or_else(|error| match error.sqlstate() {
            // Somebody wanted to coordinate meanwhile. To begin twice does no harm.
            "08007" if self.check_majority(since).is_ok() => self.change(change),
            _ => Err(error),
        });
        begun.map_err(|error| match error.sqlstate() {
            "08007" => no_majority(),
            _ => error,
        })
    }

    /// Publishes what the writers of a statement have written: all of it, or nothing.
    fn publish_written(
        &self,
        statement: StatementId,
        mut writers: BTreeMap<TableId, Writer>,
        mut publications: Vec<Publication>,
    ) -> std::result::Result<u64, Failed> {
        let ahead = writers.values().filter_map(|writer| writer.ahead).min();
        if let Some(term) = ahead.filter(|_| writers.values().any(|writer| writer.leaves_behind)) {
            // Without a majority, nothing is changed: nobody has to find out what became of it.
            self.confirm(term)
                .map_err(|error| Failed { again: error.kind() == ErrorKind::Conflict, error })?;
        }
        publications.iter().try_for_each(|publication| check_synced(publication, &writers))?;
        let change = match (publications.pop(), publications.is_empty()) {
            (Some(only), true) => Change::Publish(only),
            (last, _) => Change::PublishAll(publications.into_iter().chain(last).collect()),
        };
        let since = Instant::now();
        let published = self.publish_and_begin(change, writers.keys().copied().collect());
        if let Err(error) = &published
            && error.sqlstate() == "08007"
            && let Some((table, writer)) = writers.iter_mut().next()
        {
            // Without a majority, it would take as long to find out nothing. Whoever begins anew to write to
            // one of the tables keeps all of them from being published later.
            let known = self.check_majority(since).and_then(|()| self.outcome(*table, statement));
            match known {
                Ok(Err(error)) => return Err(Failed { error, again: ahead.is_some() }),
                Ok(Ok(_)) => {}
                Err(_) => return told(writer.append.unknown()).map_err(Failed::from),
            }
            let known = self.known_catalog()?;
            let tell = |writer: &mut Writer| told(writer.append.published(Ok(known.as_ref())));
            return writers.values_mut().map(tell).sum::<Result<u64>>().map_err(Failed::from);
        }
        let published = published.as_deref();
        let tell = |writer: &mut Writer| told(writer.append.published(published.map_err(Clone::clone)));
        writers.values_mut().map(tell).sum::<Result<u64>>().map_err(Failed::from)
    }

    /// Publishes what was written to some tables, and has the next writer of each begin in the same catalog.
    fn publish_and_begin(&self, change: Change, tables: Vec<TableId>) -> Decision {
        let since = Instant::now();
        let begins = tables.iter().map(|table| Change::Begin { table: *table, statement: None });
        let (published, begun) = self.change_with(change, begins.collect());
        if published.is_ok() {
            for (table, begun) in tables.into_iter().zip(begun) {
                if let Ok(catalog) = begun {
                    self.ahead.note(table, &catalog, since);
                }
            }
        }
        published
    }

    /// Finds out what became of a statement that may have been published, by beginning it again: either
    /// it is in the catalog, or it never will be. The inner result is the statement's.
    ///
    /// # Errors
    /// If this cannot be found out.
    fn outcome(&self, table: TableId, statement: StatementId) -> Result<Result<u64>> {
        match self.change(Change::Begin { table, statement: Some(statement) }) {
            Ok(_) => Ok(Err(Error::new(
                ErrorKind::Conflict,
                "another node wanted to coordinate the cluster meanwhile: nothing was changed",
            ))),
            Err(error) => {
                let catalog = self.known_catalog()?;
                let finished = catalog.table(table).and_then(|table| table.finished(statement));
                finished.map(|finished| Ok(finished.rows)).ok_or(error)
            }
        }
    }

    /// Sends the rows of fragments to nodes: those of small ones together, so that a node writes them in one
    /// transaction, and those of large ones on a few threads for each node.
    fn send_rows(
        &self,
        requests: Vec<append::Request>,
        sent: &Arc<Sent>,
        answers: &Sender<(append::Request, Result<append::Reply>)>,
    ) -> Result<()> {
        let mut of_nodes = BTreeMap::<NodeId, Vec<append::Request>>::new();
        for request in requests {
            of_nodes.entry(request.node).or_default().push(request);
        }
        for (id, requests) in of_nodes {
            let groups = sent.grouped(requests);
            let threads = groups.len().min(REQUESTS_AT_ONCE);
            let (lane, groups) = (self.lane(id), Arc::new(Mutex::new(groups)));
            for _ in 0..threads {
                let (node, sent, answers) = (self.shared()?, sent.clone(), answers.clone());
                let (lane, groups) = (lane.clone(), groups.clone());
                let work = move || {
                    let next = || groups.lock().pop_front();
                    while let Some(group) = next() {
                        let _place = lane.enter();
                        let (requests, waiting) = (group.clone(), groups.clone());
                        let mut unanswered = Unanswered { requests, waiting, answers: answers.clone() };
                        let answered = node.append_to(id, group, &sent);
                        unanswered.requests.clear();
                        for answer in answered {
                            if answers.send(answer).is_err() {
                                // Nobody waits any more.
                                return;
                            }
                        }
                    }
                };
                self.helpers.run("hypostyle-append", work)?;
            }
        }
        Ok(())
    }

    /// Has a node append rows to some of its fragments, and returns what it answers for each.
    fn append_to(
        &self,
        node: NodeId,
        requests: Vec<append::Request>,
        sent: &Sent,
    ) -> Vec<(append::Request, Result<append::Reply>)> {
        let one = |request: append::Request| {
            let rows = || Ok(Some(sent.reader(&[request])));
            let reply = match self.ask_replica(request, sent.altered, rows) {
                Ok(Reply::Appended(reply)) => Ok(reply),
                Ok(_) => Err(unexpected("a message")),
                Err(error) => Err(error),
            };
            (request, reply)
        };
        let (all, altered) = (requests.clone(), sent.altered);
        let asked = match &sent.columns {
            Some(columns) => Request::Update { requests: all, altered, columns: columns.clone() },
            None if requests.len() == 1 => return requests.into_iter().map(one).collect(),
            None => Request::AppendAll { requests: all, altered },
        };
        let rows = || Ok(Some(sent.reader(&requests)));
        match self.ask_up_to_date(node, &asked, rows) {
            Ok(Reply::AppendedAll(replies)) if replies.len() == requests.len() => {
                requests.into_iter().zip(replies.into_iter().map(Ok)).collect()
            }
            Ok(_) => requests.into_iter().map(|request| (request, Err(unexpected("a message")))).collect(),
            // An earlier release knows requests for one fragment only.
            Err(error) if error.sqlstate() == "08P01" && sent.columns.is_none() => {
                requests.into_iter().map(one).collect()
            }
            Err(error) => requests.into_iter().map(|request| (request, Err(error.clone()))).collect(),
        }
    }

    /// Asks a replica to append rows. One that is behind the catalog is given it first.
    pub(crate) fn ask_replica(
        &self,
        request: append::Request,
        altered: Epoch,
        rows: impl Fn() -> Result<Option<RowReader>>,
    ) -> Result<Reply> {
        self.ask_up_to_date(request.node, &Request::Append { request, altered }, rows)
    }

    /// Asks a node to write. One that is behind the catalog is given it first.
    fn ask_up_to_date(
        &self,
        node: NodeId,
        request: &Request,
        rows: impl Fn() -> Result<Option<RowReader>>,
    ) -> Result<Reply> {
        let ask = || self.ask(node, request.clone(), rows()?);
        match ask() {
            Err(error) if is_behind(&error) => {
                self.bring(&self.known_catalog()?, node)?;
                ask()
            }
            other => other,
        }
    }

    /// Asks a node of the catalog, or this one.
    pub(crate) fn ask(&self, id: NodeId, request: Request, rows: Option<RowReader>) -> Result<Reply> {
        if id == self.id() {
            return self.serve(request, rows)?.reply();
        }
        let catalog = self.known_catalog()?;
        let member = catalog.node(id).ok_or_else(|| gone(id))?;
        self.call(member, request, rows)?.reply()
    }
}

pub(crate) fn gone(id: NodeId) -> Error {
    Error::new(ErrorKind::Connection, format!("node {id} has left the cluster"))
        .with_sqlstate("08006")
        .unreachable()
}

pub(crate) fn unknown() -> Error {
    Error::new(
        ErrorKind::Connection,
        "no majority of the cluster's nodes has answered: nobody knows whether the statement was committed",
    )
    .with_sqlstate("08007")
}

/// Says whether changes publish rows, and besides have writers begin at most: nodes make or alter nothing by
/// them.
fn are_of_rows(changes: &[Change]) -> bool {
    let begins = |change: &Change| matches!(change, Change::Begin { .. });
    let publishes = |change: &Change| matches!(change, Change::Publish(_) | Change::PublishAll(_));
    changes.iter().any(publishes) && changes.iter().all(|change| begins(change) || publishes(change))
}

/// Returns the error for a change that other nodes may have stored, and this one has not.
fn stored_elsewhere(error: &Error) -> Error {
    let message = format!(
        "this node could not store the change, and others may have: nobody knows whether the statement was \
         committed: {}",
        error.message()
    );
    Error::new(ErrorKind::Connection, message).with_sqlstate("08007")
}

/// Returns the error for a change that a majority has stored, and this node does not read.
fn published_elsewhere(error: &Error) -> Error {
    let message =
        format!("the statement was committed, and this node could not take that over: {}", error.message());
    Error::new(ErrorKind::Connection, message).with_sqlstate("08007")
}

pub(crate) fn no_majority() -> Error {
    Error::new(ErrorKind::Connection, "no majority of the cluster's nodes has answered: nothing was changed")
        .with_sqlstate("57P03")
}

/// Returns the error for a node that finds no majority to coordinate with, which says how many nodes that is.
fn too_few(catalog: &Catalog) -> Error {
    let (error, nodes) = (no_majority(), catalog.nodes.len());
    let lost: Vec<&str> =
        catalog.nodes.iter().filter(|node| catalog.is_lost(node.id)).map(|node| node.name.as_str()).collect();
    let count = match lost.is_empty() {
        true => String::new(),
        false => format!(
            "; lost ones ({}) count until a coordinator has run ALTER CLUSTER DROP NODE",
            lost.join(", ")
        ),
    };
    let message =
        format!("{}. {} of {nodes} have to: start more of them{count}", error.message(), nodes / 2 + 1);
    Error::new(error.kind(), message).with_sqlstate("57P03")
}

pub(crate) fn replaced(term: Term) -> Error {
    Error::new(ErrorKind::Conflict, format!("another node coordinates the cluster in term {term}"))
        .with_sqlstate("25006")
}

/// Starts a thread that talks to other nodes.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.into()).spawn(work);
    started.map(drop).map_err(|error| Error::from_io(&error, "cannot talk to other nodes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_placement::append::Source;
    use hypostyle_placement::{Life, Token};

    #[test]
    fn a_thread_that_ends_early_answers_what_it_was_to_send() {
        let request = append::Request {
            term: Term(1),
            fragment: FragmentId { table: TableId(1), number: 2 },
            node: NodeId(uuid::Uuid::nil()),
            life: Life(3),
            token: Token(4),
            base: 0,
            rows: 5,
            deletes: 0,
            source: Source::Statement(StatementId(uuid::Uuid::nil())),
        };
        let (answers, arrived) = channel();
        let requests = vec![request; 2];
        let waiting = Arc::new(Mutex::new(VecDeque::from([vec![request], vec![request]])));
        let unanswered = |requests: Vec<append::Request>| Unanswered {
            requests,
            waiting: waiting.clone(),
            answers: answers.clone(),
        };
        let mut done = unanswered(requests.clone());
        done.requests.clear();
        drop(done);
        assert!(arrived.try_recv().is_err(), "nothing is told of what is answered");
        drop(unanswered(requests));
        let told: Vec<append::Request> =
            arrived.try_iter().filter_map(|(request, reply)| reply.is_err().then_some(request)).collect();
        assert_eq!(told, [request; 4]);
        assert!(waiting.lock().is_empty());
    }
}
