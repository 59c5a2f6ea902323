//! The append protocol, run through every order of events that a few writers can meet: the writers
//! and replicas are those of the product.
//!
//! Two fragments have two replicas each. Each statement appends one row to both fragments; one that
//! updates deletes the first row of each as well. The
//! network is the set of all messages ever sent: each may arrive at any time, several times, or
//! never. So a node that is down, or dies before it has written or after, is one to which messages
//! come late, and whose answers are lost: a replica has no other state than its disk. A writer that
//! dies is one that does nothing more. What it has proposed may still be stored later, and its
//! client may begin again although it lives.
//!
//! Answers change only what their writer remembers, which nobody sees before it publishes. So they
//! need not be taken in every order among other events: a writer takes any of those that have
//! arrived at once, gives up the rest, and goes on ([`World::settle`]). For the same reason,
//! messages that change nothing any more are forgotten.

use super::{
    Append, CatchUp, Decision, Effect, Outcome, Part as Share, ReplicaState, Reply, Request, Source,
};
use crate::catalog::{Catalog, Change, Copied, NewTable, Node, NodeState, Publication, publish};
use crate::explore::{Found, Model, Part, explore};
use crate::id::{NodeId, StatementId, Term, Token};
use crate::partition::Partitioning;
use crate::rules::Rules;
use hypostyle_types::TableId;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const TABLE: TableId = TableId(1);
const NODES: [NodeId; 2] = [NodeId(Uuid::from_u128(1)), NodeId(Uuid::from_u128(2))];

/// What the disk of a node has of a fragment.
#[derive(Clone, Default, Hash)]
struct Disk {
    state: ReplicaState,
    /// The statement that each row is from, and whether it is deleted.
    rows: Vec<(usize, bool)>,
    /// The positions of rows that are deleted for readers of so many positions and more.
    deleted: Vec<(usize, u64)>,
}

impl Disk {
    /// Returns the statements of the rows that a reader finds.
    fn read(&self, positions: u64) -> Option<Vec<usize>> {
        Some(self.places(positions)?.into_iter().map(|place| self.rows[place].0).collect())
    }

    /// Returns the places of these rows.
    fn places(&self, positions: u64) -> Option<Vec<usize>> {
        let rows = self.rows.get(..usize::try_from(positions).ok()?)?;
        let is_noted = |place| self.deleted.iter().any(|&(other, at)| other == place && at <= positions);
        let there = (0..rows.len()).filter(|&place| !rows[place].1 && !is_noted(place));
        Some(there.collect())
    }
}

/// What readers of an earlier epoch still read.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Snapshot {
    statements: Vec<usize>,
    positions: Vec<(u32, NodeId, u64)>,
}

#[derive(Clone, Hash)]
struct World {
    rules: Part<Rules>,
    catalog: Part<Catalog>,
    disks: Part<BTreeMap<(u32, NodeId), Disk>>,
    statements: usize,
    /// The statements from this one on are updates.
    updates: usize,
    /// The attempts of statements, in the order in which they began.
    writers: Part<Vec<(usize, Option<Append>)>>,
    catch_up: Part<Option<CatchUp>>,
    requests: Part<BTreeSet<Request>>,
    replies: Part<BTreeSet<Reply>>,
    publications: Part<BTreeSet<Publication>>,
    copies: Part<BTreeSet<Copied>>,
    snapshots: Part<Vec<Snapshot>>,
    acknowledged: BTreeSet<usize>,
    /// How many writers and rounds of catching up may still begin.
    begins: u32,
    rounds: u32,
    /// Who publishes has the next writer begin in the same catalog.
    begins_ahead: bool,
    /// The token of the writer that has begun so, until it comes.
    ahead: Option<Token>,
}

#[derive(Clone, Debug)]
#[expect(dead_code, reason = "events are shown")]
enum Event {
    Begin(usize),
    Arrive(Request),
    Settle(usize, Vec<Reply>),
    Copy(Reply),
    Publish(Publication),
    Learn(usize),
    CatchUp(u32, NodeId, bool),
    AbandonCatchUp,
    Copied(Copied),
}

fn answers(reply: &Reply, request: &Request) -> bool {
    (reply.fragment, reply.node, reply.life, reply.token)
        == (request.fragment, request.node, request.life, request.token)
}

fn statement(number: usize) -> StatementId {
    StatementId(Uuid::from_u128(number as u128))
}

impl World {
    fn new(rules: Rules, statements: usize, begins: u32, rounds: u32) -> World {
        let node = |number: usize| Node {
            id: NODES[number],
            name: format!("n{number}"),
            address: format!("h:{}", number + 1),
            state: NodeState::Active,
        };
        let create = Change::CreateTable {
            table: NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 2 }, 2),
            nodes: vec![NODES.to_vec(), NODES.to_vec()],
        };
        let catalog = Catalog::new(Uuid::nil(), node(0))
            .and_then(|catalog| catalog.apply(&Change::AddNode(node(1)))?.apply(&create))
            .unwrap();
        let places = (0..2).flat_map(|fragment| NODES.map(|node| ((fragment, node), Disk::default())));
        World {
            rules: Part::new(rules),
            catalog: Part::new(catalog),
            disks: Part::new(places.collect()),
            statements,
            updates: statements,
            writers: Part::new(Vec::new()),
            catch_up: Part::new(None),
            requests: Part::new(BTreeSet::new()),
            replies: Part::new(BTreeSet::new()),
            publications: Part::new(BTreeSet::new()),
            copies: Part::new(BTreeSet::new()),
            snapshots: Part::new(Vec::new()),
            acknowledged: BTreeSet::new(),
            begins,
            rounds,
            begins_ahead: false,
            ahead: None,
        }
    }

    /// Makes the statements from one on updates.
    fn with_updates(self, updates: usize) -> World {
        World { updates, ..self }
    }

    /// Has who publishes have the next writer begin.
    fn with_writers_ahead(self) -> World {
        World { begins_ahead: true, ..self }
    }

    /// Returns the statements whose rows are there: an update deletes the first row.
    fn there(&self) -> Vec<usize> {
        let mut there = Vec::new();
        for statement in self.published() {
            if statement >= self.updates && !there.is_empty() {
                there.remove(0);
            }
            there.push(statement);
        }
        there
    }

    /// Returns the statements that are published, in their order.
    fn published(&self) -> Vec<usize> {
        let finished = &self.catalog.table(TABLE).unwrap().finished;
        finished.iter().map(|finished| finished.statement.0.as_u128() as usize).collect()
    }

    fn replace_catalog(&mut self, next: Catalog) {
        let has_more = next.table(TABLE).unwrap().finished.len() > self.published().len();
        self.catalog = Part::new(next);
        if has_more {
            let snapshot = Snapshot { statements: self.there(), positions: self.positions() };
            self.snapshots.change(|snapshots| snapshots.push(snapshot));
        }
    }

    /// Returns what readers of this epoch scan.
    fn positions(&self) -> Vec<(u32, NodeId, u64)> {
        let fragments = self.catalog.table(TABLE).unwrap().numbered();
        fragments
            .flat_map(|(id, fragment)| fragment.in_sync().map(move |r| (id.number, r.node, r.positions)))
            .collect()
    }

    /// Does what a writer wants.
    fn perform(&mut self, writer: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(request) => {
                    self.requests.change(|requests| requests.insert(request));
                }
                Effect::Commit(Change::Publish(publication)) => {
                    self.publications.change(|publications| publications.insert(publication));
                }
                Effect::Commit(begin) => {
                    self.begins -= 1;
                    // The token is its: it has begun before it came.
                    if self.ahead.take() != Some(self.catalog.table(TABLE).unwrap().token) {
                        let next = self.catalog.apply(&begin).unwrap();
                        self.replace_catalog(next);
                    }
                    let catalog = self.catalog.clone();
                    let effects = self.writers.change(|w| w[writer].1.as_mut().unwrap().begun(Ok(&catalog)));
                    self.perform(writer, effects);
                }
                Effect::Finish(result) => {
                    self.writers.change(|writers| writers[writer].1 = None);
                    if result.is_ok() {
                        self.acknowledged.insert(self.writers[writer].0);
                    }
                }
            }
        }
    }

    fn perform_catch_up(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(request) => {
                    self.requests.change(|requests| requests.insert(request));
                }
                Effect::Commit(Change::Copied(copied)) => {
                    self.copies.change(|copies| copies.insert(copied));
                }
                Effect::Commit(change) => {
                    let next = self.catalog.apply(&change).unwrap();
                    self.replace_catalog(next);
                    let catalog = self.catalog.clone();
                    let effects = self.catch_up.change(|c| c.as_mut().unwrap().committed(Ok(&catalog)));
                    self.perform_catch_up(effects);
                }
                Effect::Finish(_) => self.catch_up = Part::new(None),
            }
        }
    }

    /// A client begins its statement, or repeats it. The writer of before may be dead or not.
    fn begin(&self, number: usize) -> Option<World> {
        let table = self.catalog.table(TABLE).unwrap();
        let share = |fragment: u32| {
            let fragment = table.fragment(fragment).unwrap();
            let deletes = u64::from(number >= self.updates && fragment.rows > 0);
            Share { rows: 1, deletes, seen: fragment.deleted, free: None }
        };
        let rows = BTreeMap::from([0, 1].map(|fragment| (fragment, share(fragment))));
        if self.acknowledged.contains(&number) {
            return None;
        }
        let (append, effect) = Append::begin(&self.catalog, TABLE, statement(number), rows).unwrap();
        let mut next = self.clone();
        match append {
            None => drop(next.acknowledged.insert(number)),
            Some(_) if self.begins == 0 => return None,
            Some(append) => {
                next.writers.change(|writers| writers.push((number, Some(append))));
                next.perform(self.writers.len(), vec![effect]);
            }
        }
        Some(next)
    }

    fn arrive(&self, request: &Request) -> Option<World> {
        let place = (request.fragment.number, request.node);
        let (reply, write) = match self.disks[&place].state.receive_by(*self.rules, request, Term(1)) {
            Decision::Answer(reply) => (reply, None),
            Decision::Write(write) => (write.reply, Some(write)),
        };
        let is_new = self.awaits(&reply) && !self.replies.contains(&reply);
        if write.is_none() && !is_new {
            return None;
        }
        let mut next = self.clone();
        if let Some(write) = write {
            let rows = self.rows_of(request)?;
            assert_eq!(rows.len() as u64, write.rows, "as many rows as the request says");
            next.disks.change(|disks| {
                let disk = disks.get_mut(&place).unwrap();
                let places = disk.places(write.base).unwrap();
                for position in write.delete {
                    disk.rows[position as usize].1 = true;
                }
                disk.deleted.retain(|&(_, at)| at <= write.base);
                let first = places.into_iter().take(write.deletes as usize);
                disk.deleted.extend(first.map(|place| (place, write.next.positions)));
                disk.rows.extend(rows.into_iter().map(|statement| (statement, false)));
                disk.rows.extend(write.is_filled.then_some((usize::MAX, true)));
                disk.state = write.next;
                assert_eq!(disk.state.positions, disk.rows.len() as u64);
            });
        }
        if is_new {
            next.replies.change(|replies| replies.insert(reply));
        }
        Some(next)
    }

    /// Tells whether somebody is there who has asked for an answer.
    fn awaits(&self, reply: &Reply) -> bool {
        let mut writers = self.writers.iter().filter_map(|(_, writer)| writer.as_ref());
        let request = self.catch_up.as_ref().and_then(CatchUp::waiting);
        writers.any(|writer| writer.waiting().iter().any(|request| answers(reply, request)))
            || request.is_some_and(|request| answers(reply, &request))
    }

    /// Forgets what changes nothing any more: answers that nobody waits for, and publications that
    /// are refused, because what they are compared with never comes back.
    fn forget(mut self) -> World {
        let stale = |reply: &&Reply| !self.awaits(reply);
        if self.replies.iter().any(|reply| stale(&reply)) {
            let kept: BTreeSet<Reply> = self.replies.iter().filter(|r| !stale(r)).copied().collect();
            self.replies = Part::new(kept);
        }
        let is_refused = |p: &Publication| publish(&self.catalog, p, *self.rules).is_err();
        if self.publications.iter().any(is_refused) {
            let kept: BTreeSet<Publication> =
                self.publications.iter().filter(|p| !is_refused(p)).cloned().collect();
            self.publications = Part::new(kept);
        }
        self
    }

    /// Returns the statements of the rows that a request brings; `None` if the replica which has
    /// them cannot be read.
    fn rows_of(&self, request: &Request) -> Option<Vec<usize>> {
        match request.source {
            Source::Statement(statement) => Some(vec![statement.0.as_u128() as usize]),
            Source::Replica { node, first, positions, .. } => {
                let rows = self.disks[&(request.fragment.number, node)].read(positions)?;
                let rows = rows.into_iter().skip(first as usize).take(request.rows as usize);
                Some(rows.collect::<Vec<_>>()).filter(|rows| rows.len() as u64 == request.rows)
            }
        }
    }

    /// A writer takes some of the answers that have arrived, and gives up the other replicas. One
    /// that is refused ends: it does nothing more.
    fn settle(&self, number: usize) -> Vec<(Event, World)> {
        let Some(writer) = &self.writers[number].1 else { return Vec::new() };
        let mut choices: Vec<Vec<Reply>> = vec![Vec::new()];
        let requests = writer.waiting();
        for request in &requests {
            let replies = self.replies.iter().filter(|reply| answers(reply, request));
            let taken = replies.filter(|reply| matches!(reply.outcome, Outcome::Written { .. }));
            let more: Vec<Vec<Reply>> = taken
                .flat_map(|&reply| choices.iter().map(move |choice| [choice.as_slice(), &[reply]].concat()))
                .collect();
            choices.extend(more);
        }
        let settled = choices.into_iter().filter(|choice| !choice.is_empty()).map(|choice| {
            let mut next = self.clone();
            for reply in &choice {
                let effects = next.writers.change(|w| w[number].1.as_mut().unwrap().receive(reply));
                next.perform(number, effects);
            }
            for request in &requests {
                let fragment = Some(request.fragment.number);
                let give_up = |w: &mut Append| w.give_up(request.node, fragment);
                let effects = next.writers.change(|w| w[number].1.as_mut().map(give_up));
                next.perform(number, effects.unwrap_or_default());
            }
            (Event::Settle(number, choice), next)
        });
        settled.collect()
    }

    /// A round of catching up takes an answer.
    fn copy(&self, reply: &Reply) -> Option<(Event, World)> {
        let request = self.catch_up.as_ref()?.waiting().filter(|request| answers(reply, request));
        let mut next = self.clone();
        request?;
        let effects = next.catch_up.change(|catch_up| catch_up.as_mut().unwrap().receive(reply));
        next.perform_catch_up(effects);
        Some((Event::Copy(*reply), next))
    }

    /// The writer of a publication that is stored hears of it. One that is refused ends.
    fn learn(&self, number: usize) -> Option<World> {
        let (own, writer) = &self.writers[number];
        let token = writer.as_ref()?.token()?;
        self.catalog.table(TABLE)?.finished(statement(*own)).filter(|f| f.token == token)?;
        let mut next = self.clone();
        let effects = next.writers.change(|w| w[number].1.as_mut().unwrap().published(Ok(&self.catalog)));
        next.perform(number, effects);
        Some(next)
    }

    /// Begins a round of catching up for each replica that is out of sync.
    fn catch_ups(&self) -> Vec<(Event, World)> {
        let mut found = Vec::new();
        if self.catch_up.is_some() || self.rounds == 0 {
            return found;
        }
        for (id, fragment) in self.catalog.table(TABLE).unwrap().numbered() {
            for replica in fragment.replicas.iter().filter(|replica| !replica.in_sync) {
                for joins in [true, false].into_iter().filter(|&joins| joins || self.rounds > 1) {
                    let (catch_up, effect) = CatchUp::begin(&self.catalog, id, replica.node, joins).unwrap();
                    let mut next = self.clone();
                    next.rounds -= 1;
                    next.catch_up = Part::new(Some(catch_up));
                    next.perform_catch_up(vec![effect]);
                    found.push((Event::CatchUp(id.number, replica.node, joins), next));
                }
            }
        }
        found
    }

    fn catalog_events(&self) -> Vec<(Event, World)> {
        let mut found = Vec::new();
        for publication in &*self.publications {
            if let Ok(catalog) = publish(&self.catalog, publication, *self.rules) {
                let mut next = self.clone();
                if self.begins_ahead {
                    let begin = Change::Begin { table: TABLE, statement: None };
                    let begun = catalog.apply(&begin).unwrap();
                    next.ahead = begun.table(TABLE).map(|table| table.token);
                    next.replace_catalog(begun);
                } else {
                    next.replace_catalog(catalog);
                }
                found.push((Event::Publish(publication.clone()), next));
            }
        }
        for copied in &*self.copies {
            if let Ok(catalog) = self.catalog.apply(&Change::Copied(*copied)) {
                let mut next = self.clone();
                next.replace_catalog(catalog);
                // Whether the round learns of it changes nothing.
                next.catch_up = Part::new(None);
                found.push((Event::Copied(*copied), next));
            }
        }
        found
    }
}

impl Model for World {
    type Event = Event;

    fn next(&self) -> Vec<(Event, Self)> {
        let mut found = self.catalog_events();
        let begins = (0..self.statements).filter_map(|n| Some((Event::Begin(n), self.begin(n)?)));
        found.extend(begins);
        // Who coordinates may be another process by now, which knows of no writer that has begun.
        if self.ahead.is_some() {
            let forgotten = World { ahead: None, ..self.clone() };
            let begins = (0..self.statements).filter_map(|n| Some((Event::Begin(n), forgotten.begin(n)?)));
            found.extend(begins);
        }
        for number in 0..self.writers.len() {
            found.extend(self.learn(number).map(|next| (Event::Learn(number), next)));
            found.extend(self.settle(number));
        }
        for request in &*self.requests {
            found.extend(self.arrive(request).map(|next| (Event::Arrive(*request), next)));
        }
        found.extend(self.replies.iter().filter_map(|reply| self.copy(reply)));
        found.extend(self.catch_ups());
        if self.catch_up.is_some() {
            let next = World { catch_up: Part::new(None), ..self.clone() };
            found.push((Event::AbandonCatchUp, next));
        }
        found.into_iter().map(|(event, next)| (event, next.forget())).collect()
    }

    fn violation(&self) -> Option<String> {
        let published = self.published();
        let once: BTreeSet<usize> = published.iter().copied().collect();
        if once.len() != published.len() {
            return Some(format!("published twice: {published:?}"));
        }
        if let Some(lost) = self.acknowledged.iter().find(|number| !once.contains(number)) {
            return Some(format!("statement {lost} is acknowledged and lost"));
        }
        let now = Snapshot { statements: self.there(), positions: self.positions() };
        for snapshot in self.snapshots.iter().chain([&now]) {
            for &(fragment, node, positions) in &snapshot.positions {
                let found = self.disks[&(fragment, node)].read(positions);
                // A replica that begins anew after an update has lost what earlier readers want: they
                // notice by the number of rows, and read another one.
                let is_refused = found.as_ref().map(Vec::len) != Some(snapshot.statements.len());
                let may_be_refused = self.updates < self.statements && *snapshot != now;
                if found.as_ref() != Some(&snapshot.statements) && !(is_refused && may_be_refused) {
                    return Some(format!(
                        "fragment {fragment} on {node} has the rows of {found:?} instead of {:?}",
                        snapshot.statements
                    ));
                }
            }
        }
        let whole = |rows: u64| rows == now.statements.len() as u64;
        let mut fragments = self.catalog.table(TABLE).unwrap().fragments.iter();
        fragments.find(|fragment| !whole(fragment.rows)).map(|fragment| format!("{} rows", fragment.rows))
    }

    fn is_done(&self) -> bool {
        self.acknowledged.len() == self.statements && self.positions().len() == 4
    }
}

fn report(what: &str, found: &Found<Event>) {
    println!("{what}: {} states, {} steps, {} done", found.states, found.steps, found.done);
    if let Some((violation, way)) = &found.violation {
        println!("  {violation}, after {} events", way.len());
    }
}

/// Explores until the end and finds nothing wrong.
fn holds(what: &str, start: World, limit: usize) {
    let found = explore(start, limit);
    report(what, &found);
    assert!(found.violation.is_none(), "{what}: {:#?}", found.violation);
    assert!(found.done > 0, "{what}: nothing is ever done");
}

#[test]
fn appends_stay_whole() {
    holds("1 statement, 2 writers", World::new(Rules::ALL, 1, 2, 0), 1_000_000);
    holds("2 statements, 2 writers", World::new(Rules::ALL, 2, 2, 0), 1_000_000);
}

#[test]
fn updates_stay_whole() {
    holds("an append and an update", World::new(Rules::ALL, 2, 2, 0).with_updates(1), 1_000_000);
    holds("2 updates", World::new(Rules::ALL, 2, 2, 0).with_updates(0), 1_000_000);
}

#[test]
fn writers_may_have_begun_before_they_come() {
    let start = |statements| World::new(Rules::ALL, statements, 2, 0).with_writers_ahead();
    holds("1 statement, 2 writers, ahead", start(1), 1_000_000);
    holds("2 statements, 2 writers, ahead", start(2), 2_000_000);
    holds("an append and an update, ahead", start(2).with_updates(1), 2_000_000);
}

#[test]
fn replicas_catch_up() {
    holds("1 statement, 1 writer, 2 rounds", World::new(Rules::ALL, 1, 1, 2), 1_000_000);
}

#[test]
#[ignore = "takes minutes"]
fn appends_stay_whole_in_larger_models() {
    holds("1 statement, 2 writers, 1 round", World::new(Rules::ALL, 1, 2, 1), 5_000_000);
    holds("2 statements, 2 writers, 1 round", World::new(Rules::ALL, 2, 2, 1), 5_000_000);
    holds("an append, an update, 1 round", World::new(Rules::ALL, 2, 2, 1).with_updates(1), 5_000_000);
    let ahead = World::new(Rules::ALL, 2, 2, 1).with_writers_ahead();
    holds("2 statements, 2 writers, 1 round, ahead", ahead, 10_000_000);
}

#[test]
fn each_rule_is_needed() {
    for (what, rules, writers, rounds) in [
        ("earlier writers are not refused", Rules { refuse_earlier: false, ..Rules::ALL }, 2, 0),
        ("earlier lives are not refused", Rules { refuse_earlier_life: false, ..Rules::ALL }, 1, 1),
        ("repeated requests are written again", Rules { repeat_answer: false, ..Rules::ALL }, 1, 0),
        ("nothing is compared when publishing", Rules { compare_and_set: false, ..Rules::ALL }, 2, 0),
    ] {
        let found = explore(World::new(rules, 1, writers, rounds), 1_000_000);
        report(what, &found);
        assert!(found.violation.is_some(), "{what}, and nothing goes wrong");
    }
}
