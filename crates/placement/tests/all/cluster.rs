//! Whole clusters in random histories: three nodes that coordinate, store catalogs and have
//! replicas, a network that loses, repeats and delays messages, nodes that die and come back, clients that
//! repeat their statements, and writers that have begun before they come. Catalogs travel as differences.
//! `HYPOSTYLE_TEST_SEED` repeats a history, `HYPOSTYLE_TEST_ROUNDS` runs more of them.

use crate::common::{self, cluster, id, ids};
use hypostyle_placement::append::{
    Append, CatchUp, Decision, Effect, Part, ReplicaState, Reply, Request, Source,
};
use hypostyle_placement::catalog::{Catalog, Change, Difference, NewTable};
use hypostyle_placement::layout::place_table;
use hypostyle_placement::partition::Partitioning;
use hypostyle_placement::term::{After, Answer, Ask, Coordinator, Output, Place, Stored, Ticket, Voter};
use hypostyle_placement::{FragmentId, NodeId, StatementId, Token};
use hypostyle_types::TableId;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const TABLE: TableId = TableId(1);
const STATEMENTS: u128 = 10;
const FRAGMENTS: u32 = 3;

/// Marsaglia's xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

#[derive(Clone, Debug)]
enum Message {
    Ask(NodeId, Ask<Catalog>),
    Answer(NodeId, Answer<Catalog>),
    Request(NodeId, Request),
    Reply(Reply),
}

/// A writer that a coordinator runs.
#[derive(Clone)]
enum Writer {
    Append(u128, Append),
    CatchUp(CatchUp),
}

/// What a node loses when it dies.
struct Process {
    coordinator: Coordinator,
    writers: BTreeMap<u64, Writer>,
    tickets: BTreeMap<Ticket, u64>,
    next: u64,
    /// The change by which the next writer of the table begins before it comes, and its token once it has.
    begins: Option<Ticket>,
    ahead: Option<Token>,
}

#[derive(Default)]
struct Disk {
    state: ReplicaState,
    rows: Vec<(u128, bool)>,
}

impl Disk {
    fn read(&self, positions: u64) -> Vec<u128> {
        let rows = self.rows[..positions as usize].iter();
        rows.filter(|(_, is_deleted)| !is_deleted).map(|(statement, _)| *statement).collect()
    }
}

struct World {
    random: Random,
    voters: BTreeMap<NodeId, Voter<Catalog>>,
    disks: BTreeMap<(u32, NodeId), Disk>,
    processes: BTreeMap<NodeId, Process>,
    network: Vec<(NodeId, Message)>,
    /// The catalogs that coordinators wanted to be stored, and the first one.
    sent: BTreeMap<Place, Catalog>,
    /// The published catalogs.
    published: BTreeMap<u64, Catalog>,
    acknowledged: BTreeSet<u128>,
    promotions: usize,
    /// How many writers had begun before they came.
    ahead: usize,
}

/// Returns how many rows a statement appends to a fragment: some get none.
fn rows_of(statement: u128, fragment: u32) -> u64 {
    ((statement + u128::from(fragment)) % 3) as u64
}

impl World {
    fn new(seed: u64) -> World {
        let catalog = cluster(3);
        let round_robin = Partitioning::RoundRobin { fragments: FRAGMENTS };
        let create = place_table(&catalog, NewTable::new("main", "t", round_robin, 2)).unwrap();
        let catalog = catalog.apply(&create).unwrap();
        let voters = ids(3).into_iter().map(|node| (node, Voter::new(catalog.term, catalog.clone())));
        World {
            random: Random(seed),
            voters: voters.collect(),
            disks: BTreeMap::new(),
            processes: BTreeMap::new(),
            network: Vec::new(),
            sent: BTreeMap::from([((catalog.term, catalog.epoch), catalog.clone())]),
            published: BTreeMap::from([(catalog.epoch.0, catalog)]),
            acknowledged: BTreeSet::new(),
            promotions: 0,
            ahead: 0,
        }
    }

    fn promote(&mut self, node: NodeId) {
        self.promotions += 1;
        // Some say PROMOTE; others have missed the coordinator that they know, be it there or not.
        let known = self.voters[&node]
            .stored
            .as_ref()
            .map(|stored| (stored.content.coordinator, stored.content.term));
        let after = match (self.random.below(2), known) {
            (0, Some((missed, term))) => After::Missed(missed, term),
            _ => After::Anybody,
        };
        let (coordinator, ask) =
            Coordinator::promote(node, after, self.voters.get_mut(&node).unwrap()).unwrap();
        let (writers, tickets) = (BTreeMap::new(), BTreeMap::new());
        let process = Process { coordinator, writers, tickets, next: 0, begins: None, ahead: None };
        self.processes.insert(node, process);
        self.broadcast(node, &ask);
    }

    fn broadcast(&mut self, from: NodeId, ask: &Ask<Catalog>) {
        if let Ask::Store { stored, .. } = ask {
            let known = self.sent.insert(stored.place(), stored.content.clone());
            assert!(
                known.is_none_or(|known| known == stored.content),
                "two catalogs of {:?}",
                stored.place()
            );
        }
        self.network.extend(ids(3).into_iter().map(|to| (to, Message::Ask(from, ask.clone()))));
    }

    fn begin(&mut self, node: NodeId, statement: u128) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        let Some(catalog) = process.coordinator.catalog() else { return };
        let is_under_way = |w: &Writer| matches!(w, Writer::Append(other, _) if *other == statement);
        if process.writers.values().any(is_under_way) {
            return;
        }
        let rows =
            (0..FRAGMENTS).map(|fragment| (fragment, Part::of_rows(rows_of(statement, fragment)))).collect();
        let number = StatementId(Uuid::from_u128(statement));
        let (append, effect) = Append::begin(catalog, TABLE, number, rows).unwrap();
        match append {
            None => drop(self.acknowledged.insert(statement)),
            Some(append) => self.start(node, Writer::Append(statement, append), effect),
        }
    }

    fn catch_up(&mut self, node: NodeId, joins: bool) {
        let Some(catalog) = self.processes.get(&node).and_then(|process| process.coordinator.catalog())
        else {
            return;
        };
        let fragments = catalog.table(TABLE).unwrap().numbered();
        let out =
            fragments.flat_map(|(id, f)| f.replicas.iter().filter(|r| !r.in_sync).map(move |r| (id, r.node)));
        let out: Vec<(FragmentId, NodeId)> = out.collect();
        if let Some(&(fragment, replica)) = out.first() {
            let (round, effect) = CatchUp::begin(catalog, fragment, replica, joins).unwrap();
            self.start(node, Writer::CatchUp(round), effect);
        }
    }

    fn start(&mut self, node: NodeId, writer: Writer, effect: Effect) {
        let process = self.processes.get_mut(&node).unwrap();
        process.next += 1;
        let number = process.next;
        process.writers.insert(number, writer);
        self.perform(node, number, vec![effect]);
    }

    fn perform(&mut self, node: NodeId, number: u64, effects: Vec<Effect>) {
        for effect in effects {
            let Some(process) = self.processes.get_mut(&node) else { return };
            match effect {
                Effect::Send(request) => self.network.push((request.node, Message::Request(node, request))),
                Effect::Commit(change) => {
                    if let Some(effects) = self.begun_before(node, number) {
                        self.perform(node, number, effects);
                        continue;
                    }
                    let begins = matches!(change, Change::Publish(_)) && self.random.below(2) == 0;
                    let next = begins.then_some(Change::Begin { table: TABLE, statement: None });
                    let Some(process) = self.processes.get_mut(&node) else { return };
                    let changes = [change].into_iter().chain(next).collect();
                    let (tickets, outputs) = process.coordinator.submit_all(changes);
                    process.tickets.insert(tickets[0], number);
                    process.begins = tickets.get(1).copied().or(process.begins);
                    self.output(node, outputs);
                }
                Effect::Finish(result) => {
                    if let Some(Writer::Append(statement, _)) = process.writers.remove(&number)
                        && result.is_ok()
                    {
                        self.acknowledged.insert(statement);
                    }
                }
            }
        }
    }

    /// Has a writer write that has begun before it came, if it still is the table's last one.
    fn begun_before(&mut self, node: NodeId, number: u64) -> Option<Vec<Effect>> {
        let process = self.processes.get_mut(&node)?;
        let Some(Writer::Append(_, append)) = process.writers.get_mut(&number) else { return None };
        if append.token().is_some() {
            return None;
        }
        let (token, catalog) = (process.ahead.take()?, process.coordinator.catalog()?);
        let is_last = catalog.table(TABLE).unwrap().token == token;
        self.ahead += usize::from(is_last);
        is_last.then(|| append.begun(Ok(catalog)))
    }

    fn output(&mut self, node: NodeId, outputs: Vec<Output>) {
        for output in outputs {
            let (ticket, result) = match output {
                Output::Send(ask) => {
                    self.broadcast(node, &ask);
                    self.publish(node);
                    continue;
                }
                Output::Deposed(_) => {
                    self.processes.remove(&node);
                    continue;
                }
                Output::Committed(ticket, catalog) => (ticket, Some(Ok(catalog))),
                Output::Refused(ticket, error) => (ticket, Some(Err(error))),
                Output::Unknown(ticket) => (ticket, None),
            };
            let Some(process) = self.processes.get_mut(&node) else { return };
            if process.begins == Some(ticket) {
                let begun = result.and_then(Result::ok);
                process.ahead = begun.map(|catalog| catalog.table(TABLE).unwrap().token);
                continue;
            }
            let Some(number) = process.tickets.remove(&ticket) else { continue };
            let Some(writer) = process.writers.get_mut(&number) else { continue };
            let effects = match (writer, result) {
                (Writer::Append(_, append), None) => append.unknown(),
                (Writer::CatchUp(round), None) => round.give_up(),
                (Writer::CatchUp(round), Some(Ok(catalog))) => round.committed(Ok(&catalog)),
                (Writer::CatchUp(round), Some(Err(error))) => round.committed(Err(error)),
                (Writer::Append(_, append), Some(result)) => {
                    let catalog = result.as_ref().map(|catalog| &**catalog).map_err(Clone::clone);
                    if append.token().is_none() { append.begun(catalog) } else { append.published(catalog) }
                }
            };
            self.perform(node, number, effects);
        }
    }

    /// Records what a coordinator has published, and looks whether readers find what they should.
    fn publish(&mut self, node: NodeId) {
        let catalog = self.processes.get(&node).and_then(|process| process.coordinator.catalog());
        if let Some(catalog) = catalog.cloned() {
            let known = self.published.insert(catalog.epoch.0, catalog.clone());
            assert!(known.is_none_or(|known| known == catalog), "two catalogs of epoch {}", catalog.epoch);
            self.check();
        }
    }

    fn check(&self) {
        let finished = |catalog: &Catalog| -> Vec<u128> {
            catalog.table(TABLE).unwrap().finished.iter().map(|f| f.statement.0.as_u128()).collect()
        };
        let mut before: Vec<u128> = Vec::new();
        for catalog in self.published.values() {
            let statements = finished(catalog);
            assert!(statements.starts_with(&before), "epoch {} forgets: {statements:?}", catalog.epoch);
            for (fragment, entry) in catalog.table(TABLE).unwrap().numbered() {
                let expected: Vec<u128> = statements
                    .iter()
                    .flat_map(|&s| std::iter::repeat_n(s, rows_of(s, fragment.number) as usize))
                    .collect();
                for replica in entry.in_sync() {
                    let disk = self.disks.get(&(fragment.number, replica.node));
                    let found = disk.map_or_else(Vec::new, |disk| disk.read(replica.positions));
                    assert_eq!(found, expected, "epoch {}, {fragment}, node {}", catalog.epoch, replica.node);
                }
            }
            before = statements;
        }
        let lost: Vec<_> = self.acknowledged.iter().filter(|statement| !before.contains(statement)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    }

    fn deliver(&mut self, to: NodeId, message: Message) {
        match message {
            Message::Ask(from, ask) => {
                let ask = self.by_difference(to, ask);
                if let Some(answer) = self.voters.get_mut(&to).unwrap().receive(&ask) {
                    self.network.push((from, Message::Answer(to, answer)));
                }
            }
            Message::Answer(from, answer) => {
                if let Some(process) = self.processes.get_mut(&to) {
                    let outputs = process.coordinator.receive(from, &answer);
                    self.publish(to);
                    self.output(to, outputs);
                }
            }
            Message::Request(from, request) => {
                if let Some(reply) = self.write(&request) {
                    self.network.push((from, Message::Reply(reply)));
                }
            }
            Message::Reply(reply) => {
                let Some(process) = self.processes.get_mut(&to) else { return };
                let receive = |(&number, writer): (&u64, &mut Writer)| match writer {
                    Writer::Append(_, append) => (number, append.receive(&reply)),
                    Writer::CatchUp(round) => (number, round.receive(&reply)),
                };
                let effects: Vec<_> = process.writers.iter_mut().map(receive).collect();
                for (number, effects) in effects {
                    self.perform(to, number, effects);
                }
            }
        }
    }

    /// Returns a message as a node understands it that is told what differs from the catalog which it has
    /// stored, by somebody who knows no more of that than its place.
    fn by_difference(&self, to: NodeId, ask: Ask<Catalog>) -> Ask<Catalog> {
        let Ask::Store { owner, stored } = &ask else { return ask };
        let own = self.voters[&to].stored.as_ref().unwrap();
        let difference = Difference::between(&self.sent[&own.place()], &stored.content).unwrap();
        let content = own.content.clone().with(&difference).unwrap();
        let understood = Ask::Store { owner: *owner, stored: Stored { content, ..*stored } };
        assert_eq!(understood, ask);
        understood
    }

    fn write(&mut self, request: &Request) -> Option<Reply> {
        let number = request.fragment.number;
        let rows: Vec<u128> = match request.source {
            Source::Statement(statement) => vec![statement.0.as_u128(); request.rows as usize],
            Source::Replica { node, first, positions, .. } => {
                let source =
                    self.disks.get(&(number, node)).map_or_else(Vec::new, |disk| disk.read(positions));
                source.into_iter().skip(first as usize).take(request.rows as usize).collect()
            }
        };
        let term = self.voters[&request.node].promised;
        let disk = self.disks.entry((number, request.node)).or_default();
        Some(match disk.state.receive(request, term) {
            Decision::Answer(reply) => reply,
            Decision::Write(write) => {
                assert_eq!(rows.len() as u64, write.rows);
                disk.rows[write.delete.start as usize..].iter_mut().for_each(|row| row.1 = true);
                disk.rows.extend(rows.into_iter().map(|statement| (statement, false)));
                disk.state = write.next;
                write.reply
            }
        })
    }

    /// Sends what is unanswered again.
    fn resend(&mut self, node: NodeId) {
        let Some(process) = self.processes.get(&node) else { return };
        let requests = process.writers.values().flat_map(|writer| match writer {
            Writer::Append(_, append) => append.waiting(),
            Writer::CatchUp(round) => round.waiting().into_iter().collect(),
        });
        let messages: Vec<_> =
            requests.map(|request| (request.node, Message::Request(node, request))).collect();
        let ask = process.coordinator.waiting();
        self.network.extend(messages);
        if let Some(ask) = ask {
            self.broadcast(node, &ask);
        }
    }

    fn give_up(&mut self, node: NodeId) {
        let silent = id(self.random.below(3));
        let Some(process) = self.processes.get_mut(&node) else { return };
        let give_up = |(&number, writer): (&u64, &mut Writer)| match writer {
            Writer::Append(_, append) => (number, append.give_up(silent, None)),
            Writer::CatchUp(round) => (number, round.give_up()),
        };
        let effects: Vec<_> = process.writers.iter_mut().map(give_up).collect();
        for (number, effects) in effects {
            self.perform(node, number, effects);
        }
    }

    /// Says whether a writer may begin: if there is no other, or sometimes nevertheless.
    fn has_turn(&mut self, node: NodeId) -> bool {
        let is_alone = self.processes.get(&node).is_some_and(|process| process.writers.is_empty());
        is_alone || self.random.below(32) == 0
    }

    fn step(&mut self) {
        let node = id(self.random.below(3));
        match self.random.below(100) {
            0..60 if !self.network.is_empty() => {
                let place = self.random.below(self.network.len());
                let (to, message) = self.network.swap_remove(place);
                // One in twenty is lost, and one in ten comes again.
                match self.random.below(20) {
                    0 => return,
                    1 | 2 => self.network.push((to, message.clone())),
                    _ => {}
                }
                self.deliver(to, message);
            }
            60..75 if self.has_turn(node) => {
                let statement = self.random.below(STATEMENTS as usize) as u128;
                self.begin(node, statement);
            }
            75..80 if self.has_turn(node) => self.catch_up(node, true),
            80..82 => self.catch_up(node, false),
            82..90 => self.resend(node),
            90..94 => self.give_up(node),
            // Rare enough that something is done in between.
            94 if self.random.below(8) == 0 => drop(self.processes.remove(&node)),
            95 if self.processes.is_empty() || self.random.below(16) == 0 => self.promote(node),
            _ => {}
        }
    }

    /// Lets everything arrive, with one coordinator, until all is done.
    fn heal(&mut self) {
        self.processes.clear();
        for round in 0.. {
            assert!(round < 400, "the cluster does not become whole: {:?}", self.acknowledged);
            // The first may be refused, if another node knows a higher term.
            if self.processes.is_empty() {
                self.promote(id(round % 3));
            }
            let node = *self.processes.keys().next().unwrap();
            while let Some((to, message)) = self.network.pop() {
                self.deliver(to, message);
            }
            if !self.processes.contains_key(&node) {
                continue;
            }
            for statement in (0..STATEMENTS).filter(|s| !self.acknowledged.contains(s)).collect::<Vec<_>>() {
                self.begin(node, statement);
                while let Some((to, message)) = self.network.pop() {
                    self.deliver(to, message);
                }
            }
            self.catch_up(node, true);
            self.resend(node);
            let last = self.published.values().next_back().unwrap();
            let is_whole = |catalog: &Catalog| {
                catalog.table(TABLE).unwrap().fragments.iter().all(|f| f.replicas.iter().all(|r| r.in_sync))
            };
            if self.acknowledged.len() == STATEMENTS as usize && is_whole(last) {
                return;
            }
        }
    }
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn random_histories_lose_and_double_nothing() {
    let rounds = number_in("HYPOSTYLE_TEST_ROUNDS").unwrap_or(1);
    let first = number_in("HYPOSTYLE_TEST_SEED");
    let seeds = first.map_or(1..1 + 100 * rounds, |seed| seed..seed + 1);
    let (mut promotions, mut epochs, mut acknowledged, mut ahead) = (0, 0, 0, 0);
    for seed in seeds {
        println!("HYPOSTYLE_TEST_SEED={seed}");
        let mut world = World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..1500 {
            world.step();
        }
        acknowledged += world.acknowledged.len();
        world.heal();
        world.check();
        promotions += world.promotions;
        epochs += world.published.len();
        ahead += world.ahead;
    }
    println!("{promotions} promotions, {epochs} published catalogs, {acknowledged} early statements");
    println!("{ahead} writers had begun before they came");
    assert!(acknowledged > 0 || first.is_some(), "nothing is done before the end");
    assert!(ahead > 0 || first.is_some(), "nobody begins before he comes");
}

#[test]
fn a_change_that_does_not_fit_is_refused_alone() {
    let mut voter = Voter::new(cluster(1).term, cluster(1));
    let (mut coordinator, ask) = Coordinator::promote(id(0), After::Anybody, &mut voter).unwrap();
    let submitted =
        [Change::DropTable(TABLE), Change::AddNode(common::node(1)), Change::AddNode(common::node(1))];
    for change in submitted {
        assert!(coordinator.submit(change).1.is_empty(), "nothing is stored before it is elected");
    }
    let mut asks = vec![ask];
    let (mut committed, mut refused) = (0, 0);
    while let Some(ask) = asks.pop() {
        for node in [id(0), id(1)] {
            let mut other = voter.clone();
            let answers = if node == id(0) { voter.receive(&ask) } else { other.receive(&ask) };
            for output in answers.into_iter().flat_map(|answer| coordinator.receive(node, &answer)) {
                match output {
                    Output::Send(ask) => asks.push(ask),
                    Output::Committed(..) => committed += 1,
                    Output::Refused(..) => refused += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert_eq!((committed, refused), (1, 2));
    assert_eq!(coordinator.catalog().unwrap().nodes.len(), 2);
}

#[test]
fn a_coordinator_that_was_replaced_does_not_resume() {
    let before = cluster(2);
    let promotion = Change::Promote { coordinator: id(1), term: before.term.next().unwrap() };
    let replaced = before.apply(&promotion).unwrap();
    for (latest, resumes) in [(before.clone(), true), (replaced, false)] {
        let mut voter = Voter::new(before.term, before.clone());
        let mut other = Voter::new(latest.term, latest);
        // The first attempt reaches nobody.
        Coordinator::promote(id(0), After::Itself, &mut voter).unwrap();
        let (mut coordinator, ask) = Coordinator::promote(id(0), After::Itself, &mut voter).unwrap();
        let mut asks = vec![ask];
        while let Some(ask) = asks.pop() {
            let answers = [(id(0), voter.receive(&ask)), (id(1), other.receive(&ask))];
            for (node, answer) in answers {
                for output in answer.into_iter().flat_map(|answer| coordinator.receive(node, &answer)) {
                    match output {
                        Output::Send(ask) => asks.push(ask),
                        Output::Deposed(term) => assert!(!resumes && term > before.term, "{term}"),
                        output => panic!("{output:?}"),
                    }
                }
            }
        }
        assert_eq!(coordinator.catalog().is_some(), resumes);
        let (_, outputs) = coordinator.submit(Change::AddNode(common::node(2)));
        let refused = outputs.iter().find_map(|output| match output {
            Output::Refused(_, error) => Some(error.sqlstate()),
            _ => None,
        });
        assert_eq!(refused, (!resumes).then_some("25006"));
    }
}

#[test]
fn changes_that_are_submitted_together_are_stored_together() {
    let mut voter = Voter::new(cluster(1).term, cluster(1));
    let (mut coordinator, ask) = Coordinator::promote(id(0), After::Anybody, &mut voter).unwrap();
    let mut stored = 0;
    let mut run = |coordinator: &mut Coordinator, voter: &mut Voter<Catalog>, outputs: Vec<Output>| {
        let (mut outputs, mut committed) = (outputs, Vec::new());
        while let Some(output) = outputs.pop() {
            match output {
                Output::Send(ask) => {
                    stored += usize::from(matches!(ask, Ask::Store { .. }));
                    let answer = voter.receive(&ask);
                    outputs.extend(answer.into_iter().flat_map(|answer| coordinator.receive(id(0), &answer)));
                }
                Output::Committed(ticket, catalog) => committed.push((ticket, catalog.epoch)),
                other => panic!("{other:?}"),
            }
        }
        committed.sort_unstable();
        (committed, stored)
    };
    assert_eq!(run(&mut coordinator, &mut voter, vec![Output::Send(ask)]), (Vec::new(), 1));
    let first = coordinator.catalog().unwrap().epoch.0;
    let changes = (0..3).map(|number| {
        let round_robin = Partitioning::RoundRobin { fragments: 1 };
        let table = NewTable::new("main", &format!("t{number}"), round_robin, 1);
        Change::CreateTable { table, nodes: vec![vec![id(0)]] }
    });
    let (tickets, outputs) = coordinator.submit_all(changes.collect());
    let (committed, stored) = run(&mut coordinator, &mut voter, outputs);
    assert_eq!(stored, 2, "one catalog has all three");
    let epochs = (first + 1..).map(hypostyle_placement::Epoch);
    assert_eq!(committed, tickets.into_iter().zip(epochs).collect::<Vec<_>>());
    assert_eq!(coordinator.catalog().unwrap().tables.len(), 3);
}

#[test]
fn nodes_are_added_one_after_the_other() {
    let mut voter = Voter::new(cluster(1).term, cluster(1));
    let (mut coordinator, ask) = Coordinator::promote(id(0), After::Anybody, &mut voter).unwrap();
    let changes = (1..4).map(|number| Change::AddNode(common::node(number)));
    let (_, outputs) = coordinator.submit_all(changes.collect());
    assert!(outputs.is_empty(), "nothing is stored before it is elected");
    let mut others: BTreeMap<NodeId, Voter<Catalog>> =
        (1..4).map(|number| (id(number), Voter::new(cluster(1).term, cluster(1)))).collect();
    let (mut asks, mut counts) = (vec![ask], Vec::new());
    while let Some(ask) = asks.pop() {
        if let Ask::Store { stored, .. } = &ask {
            counts.push(stored.content.nodes.len());
        }
        let mut answers = vec![(id(0), voter.receive(&ask))];
        answers.extend(others.iter_mut().map(|(node, other)| (*node, other.receive(&ask))));
        for (node, answer) in answers {
            for output in answer.into_iter().flat_map(|answer| coordinator.receive(node, &answer)) {
                match output {
                    Output::Send(ask) => asks.push(ask),
                    Output::Committed(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert_eq!(counts, [1, 2, 3, 4]);
}
