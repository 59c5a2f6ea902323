//! Coordinators and nodes, run through every order of events: three nodes, of which some want to
//! coordinate, and a network that loses, repeats and reorders messages (the set of all messages
//! ever sent, as in the model of appends). A node that is down is one that messages reach later.
//!
//! A coordinator does nothing before a majority has answered, so it takes the answers of a majority
//! at once. One that dies, or is refused, is one that does nothing more.
//! Its own node is one of the three: its messages come there in any order, too, or never.
//!
//! Between nodes a state travels as what differs from another one that is named by its place
//! ([`super::Place`]): so in all states of the model, what has one place is one state.

use super::{After, Answer, Ask, Leader, Progress, Replicated, Stored, Voter};
use crate::explore::{Found, Model, Part, explore};
use crate::id::{Epoch, NodeId, Term};
use crate::rules::Rules;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The history of a catalog: each entry is the number of the change that made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct History {
    changes: Vec<u8>,
    voters: Vec<NodeId>,
    coordinator: (NodeId, Term),
}

impl Replicated for History {
    fn epoch(&self) -> Epoch {
        Epoch(self.changes.len() as u64)
    }

    fn voters(&self) -> Vec<NodeId> {
        self.voters.clone()
    }

    fn coordinator(&self) -> (NodeId, Term) {
        self.coordinator
    }
}

/// Who coordinates at the beginning: nobody hears of it.
const MISSED: After = After::Missed(NodeId(Uuid::from_u128(1)), Term(0));

/// Tells whether a coordinator still waits for an answer, and not to be refused.
fn awaits(leader: &Leader<History>, answer: &Answer<History>) -> bool {
    match (leader.waiting(), answer) {
        (Some(Ask::Promise { term, owner, .. }), Answer::Promised { term: promised, owner: to, .. }) => {
            (term, owner) == (*promised, *to)
        }
        (Some(Ask::Store { stored, owner }), Answer::Accepted { term, owner: to, epoch }) => {
            (stored.term, owner, stored.epoch) == (*term, *to, *epoch)
        }
        _ => false,
    }
}

fn node(number: u128) -> NodeId {
    NodeId(Uuid::from_u128(number))
}

/// A promotion of a node, which then changes the catalog a few times. If the node coordinates
/// already, it has started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    owner: NodeId,
    after: After,
    changes: u8,
    /// The nodes after its first change, if these are others.
    voters: Option<&'static [u128]>,
}

#[derive(Clone, Hash)]
enum Life {
    Before,
    Running { leader: Box<Leader<History>>, changes: u8 },
    Over,
}

#[derive(Clone, Hash)]
struct World {
    rules: Part<Rules>,
    plans: Part<Vec<Plan>>,
    lives: Part<Vec<Life>>,
    voters: Part<BTreeMap<NodeId, Voter<History>>>,
    asks: Part<BTreeSet<Ask<History>>>,
    answers: Part<BTreeSet<(NodeId, Answer<History>)>>,
    published: Part<BTreeSet<History>>,
    /// States are told apart by their epochs alone, without the terms.
    by_epoch: bool,
    /// Each promotion is meant to replace the first coordinator: one of them does.
    one_replaces: bool,
}

#[derive(Clone, Debug)]
#[expect(dead_code, reason = "events are shown")]
enum Event {
    Promote(usize),
    Change(usize),
    Arrive(NodeId, Ask<History>),
    Majority(usize, Vec<NodeId>),
}

impl World {
    fn new(rules: Rules, plans: &[Plan]) -> World {
        let (voters, coordinator) = ((1..=3).map(node).collect(), (node(1), Term(0)));
        let start = History { changes: Vec::new(), voters, coordinator };
        let start = Voter::new(Term(0), start);
        World {
            rules: Part::new(rules),
            plans: Part::new(plans.to_vec()),
            lives: Part::new(vec![Life::Before; plans.len()]),
            voters: Part::new((1..=3).map(|number| (node(number), start.clone())).collect()),
            asks: Part::new(BTreeSet::new()),
            answers: Part::new(BTreeSet::new()),
            published: Part::new(BTreeSet::new()),
            by_epoch: false,
            one_replaces: false,
        }
    }

    fn with(&self, number: usize, life: Life, ask: Option<Ask<History>>) -> World {
        let mut next = self.clone();
        next.lives.change(|lives| lives[number] = life);
        if let Some(ask) = ask {
            next.asks.change(|asks| asks.insert(ask));
        }
        next
    }

    fn promote(&self, number: usize) -> World {
        let Plan { owner, after, .. } = self.plans[number];
        let mut next = self.clone();
        for (other, plan) in self.plans.iter().enumerate() {
            if plan.owner == owner && matches!(self.lives[other], Life::Running { .. }) {
                next = next.with(other, Life::Over, None);
            }
        }
        let (leader, ask) =
            next.voters.change(|v| Leader::promote(owner, after, v.get_mut(&owner).unwrap())).unwrap();
        next.with(number, Life::Running { leader: Box::new(leader), changes: 0 }, Some(ask))
    }

    fn arrive(&self, to: NodeId, ask: &Ask<History>) -> Option<World> {
        // Readers are looked after by `violation`.
        if matches!(ask, Ask::Publish { .. }) {
            return None;
        }
        let mut voter = self.voters[&to].clone();
        let answer = voter.receive_by(*self.rules, ask).map(|answer| (to, answer));
        let answer = answer.filter(|answer| self.awaits(&answer.1) && !self.answers.contains(answer));
        if voter == self.voters[&to] && answer.is_none() {
            return None;
        }
        let mut next = self.clone();
        next.voters.change(|voters| voters.insert(to, voter));
        if let Some(answer) = answer {
            next.answers.change(|answers| answers.insert(answer));
        }
        Some(next)
    }

    /// Tells whether a coordinator waits for an answer.
    fn awaits(&self, answer: &Answer<History>) -> bool {
        self.lives.iter().any(|life| match life {
            Life::Running { leader, .. } => awaits(leader, answer),
            Life::Before | Life::Over => false,
        })
    }

    /// Finds two states of one place. Who sends what differs from a state knows of that no more than its
    /// place: the node that gets it would make another one of it.
    fn mistaken(&self) -> Option<String> {
        let own = self.voters.values().flat_map(|voter| voter.stored.iter().chain(&voter.readable));
        let sent = self.asks.iter().filter_map(|ask| match ask {
            Ask::Store { stored, .. } => Some(stored),
            Ask::Promise { .. } | Ask::Publish { .. } => None,
        });
        let mut known = BTreeMap::new();
        for stored in own.chain(sent) {
            let place = if self.by_epoch { (Term(0), stored.epoch) } else { stored.place() };
            let first: &mut &History = known.entry(place).or_insert(&stored.content);
            if **first != stored.content {
                return Some(format!(
                    "{:?} and {:?} are both {place:?}",
                    first.changes, stored.content.changes
                ));
            }
        }
        None
    }

    /// Returns the states that a majority of their nodes has stored: who was away takes these for published,
    /// whether or not somebody has heard so.
    fn found(&self) -> Vec<&History> {
        let stored = self.voters.iter().filter_map(|(node, voter)| Some((node, voter.stored.as_ref()?)));
        let stored: Vec<(&NodeId, &Stored<History>)> = stored.collect();
        let is_found = |own: &Stored<History>| {
            let nodes = own.content.voters();
            let others = stored.iter().filter(|(_, other)| other.place() == own.place());
            others.filter(|(node, _)| nodes.contains(node)).count() > nodes.len() / 2
        };
        stored.iter().filter(|(_, own)| is_found(own)).map(|(_, own)| &own.content).collect()
    }

    fn forget(mut self) -> World {
        if self.answers.iter().any(|(_, answer)| !self.awaits(answer)) {
            let kept: BTreeSet<_> =
                self.answers.iter().filter(|(_, answer)| self.awaits(answer)).cloned().collect();
            self.answers = Part::new(kept);
        }
        self
    }

    /// A coordinator takes the answers of two nodes, and perhaps of the third.
    fn majorities(&self, number: usize) -> Vec<(Event, World)> {
        let Life::Running { leader, changes } = &self.lives[number] else { return Vec::new() };
        let awaited: Vec<_> =
            self.answers.iter().filter(|(_, answer)| awaits(leader, answer)).cloned().collect();
        let mut found = Vec::new();
        for chosen in 0..1_u32 << awaited.len() {
            let taken = awaited.iter().enumerate().filter(|(place, _)| chosen & (1 << place) != 0);
            let mut leader = leader.clone();
            let (mut nodes, mut outcome) = (Vec::new(), Progress::None);
            for (_, (from, answer)) in taken {
                nodes.push(*from);
                outcome = leader.receive(*from, answer);
            }
            // Others wait for more answers, or have got more than were needed.
            if outcome == Progress::None || nodes.iter().collect::<BTreeSet<_>>().len() < nodes.len() {
                continue;
            }
            let mut next = self.with(number, Life::Running { leader, changes: *changes }, None);
            if let Progress::Published(history, ask) = outcome {
                next.published.change(|published| published.insert(history));
                next.asks.change(|asks| asks.insert(ask));
            }
            found.push((Event::Majority(number, nodes), next));
        }
        found
    }

    fn change(&self, number: usize) -> Option<World> {
        let Life::Running { leader, changes } = &self.lives[number] else { return None };
        let (plan, mut leader) = (self.plans[number], leader.clone());
        let mut next = leader.base()?.clone();
        if *changes == plan.changes {
            return None;
        }
        if *changes == 0 {
            next.coordinator = (plan.owner, leader.term());
        }
        next.changes.push(number as u8 * 10 + changes);
        if let Some(voters) = plan.voters {
            next.voters = voters.iter().map(|&number| node(number)).collect();
        }
        let ask = leader.propose(next).unwrap();
        Some(self.with(number, Life::Running { leader, changes: changes + 1 }, Some(ask)))
    }
}

impl Model for World {
    type Event = Event;

    fn next(&self) -> Vec<(Event, Self)> {
        let mut found = Vec::new();
        for (number, life) in self.lives.iter().enumerate() {
            match life {
                Life::Before => {
                    found.push((Event::Promote(number), self.promote(number)));
                }
                Life::Running { .. } => {
                    found.extend(self.change(number).map(|next| (Event::Change(number), next)));
                    found.extend(self.majorities(number));
                }
                Life::Over => {}
            }
        }
        for ask in &*self.asks {
            for &to in self.voters.keys() {
                let event = || Event::Arrive(to, ask.clone());
                found.extend(self.arrive(to, ask).map(|next| (event(), next)));
            }
        }
        found.into_iter().map(|(event, next)| (event, next.forget())).collect()
    }

    fn violation(&self) -> Option<String> {
        let grows = |a: &History, b: &History| b.changes.starts_with(&a.changes);
        // What a node that now hears of a publication lets its readers have.
        let publications = self.asks.iter().filter(|ask| matches!(ask, Ask::Publish { .. }));
        let read: Vec<History> = publications
            .flat_map(|ask| {
                self.voters.values().filter_map(|voter| {
                    let mut voter = voter.clone();
                    voter.receive_by(*self.rules, ask);
                    Some(voter.readable?.content)
                })
            })
            .collect();
        let all: Vec<&History> = self.published.iter().chain(&read).chain(self.found()).collect();
        for a in &all {
            if let Some(b) = all.iter().find(|b| !grows(a, b) && !grows(b, a)) {
                return Some(format!("published are {:?} and {:?}", a.changes, b.changes));
            }
        }
        let several =
            |h: &&&History| self.one_replaces && h.changes.iter().filter(|c| *c % 10 == 0).count() > 1;
        if let Some(history) = all.iter().find(several) {
            return Some(format!("several have replaced the coordinator: {:?}", history.changes));
        }
        self.mistaken()
    }

    fn is_done(&self) -> bool {
        let made = |number: usize| self.published.iter().any(|h| h.changes.contains(&(number as u8 * 10)));
        if self.one_replaces { (0..self.plans.len()).any(made) } else { (0..self.plans.len()).all(made) }
    }
}

fn report(what: &str, found: &Found<Event>) {
    println!("{what}: {} states, {} steps, {} done", found.states, found.steps, found.done);
    if let Some((violation, way)) = &found.violation {
        println!("  {violation}, after {} events", way.len());
    }
}

fn plan(owner: u128, changes: u8) -> Plan {
    Plan { owner: node(owner), after: After::Anybody, changes, voters: None }
}

fn holds(what: &str, plans: &[Plan], limit: usize) {
    let found = explore(World::new(Rules::ALL, plans), limit);
    report(what, &found);
    assert!(found.violation.is_none(), "{what}: {:#?}", found.violation);
    assert!(found.done > 0, "{what}: nothing is ever done");
}

#[test]
fn a_promotion_loses_nothing() {
    holds("2 nodes, 1 change each", &[plan(1, 1), plan(2, 1)], 1_000_000);
    holds("2 nodes, 2 and 1 changes", &[plan(1, 2), plan(2, 1)], 1_000_000);
    holds("a node that starts again", &[plan(1, 1), plan(1, 1)], 1_000_000);
}

#[test]
fn nodes_can_be_removed_meanwhile() {
    let removal = Plan { voters: Some(&[1, 2]), ..plan(1, 2) };
    holds("2 nodes, a third is removed", &[removal, plan(2, 1)], 1_000_000);
}

/// Explores promotions that are meant to replace the first coordinator.
fn replaced(plans: &[(u128, After)]) -> Found<Event> {
    let plans: Vec<Plan> =
        plans.iter().map(|(owner, after)| Plan { after: *after, ..plan(*owner, 1) }).collect();
    explore(World { one_replaces: true, ..World::new(Rules::ALL, &plans) }, 1_000_000)
}

#[test]
fn a_coordinator_that_is_missed_is_replaced_once() {
    for (what, plans) in [
        ("two nodes miss the coordinator", [(2, MISSED), (3, MISSED)]),
        ("it is missed, and begins again", [(1, After::Itself), (2, MISSED)]),
    ] {
        let found = replaced(&plans);
        report(what, &found);
        assert!(found.violation.is_none(), "{what}: {:#?}", found.violation);
        assert!(found.done > 0, "{what}: it is never replaced");
    }
}

#[test]
fn who_replaces_a_coordinator_has_to_look_whom() {
    for plans in [[(2, MISSED), (3, After::Anybody)], [(1, After::Anybody), (2, MISSED)]] {
        let found = replaced(&plans);
        report("whoever wants to replaces the coordinator", &found);
        let (violation, _) = found.violation.expect("nobody replaces who has replaced the coordinator");
        assert!(violation.contains("several"), "{violation}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_promotion_loses_nothing_in_larger_models() {
    holds("3 nodes", &[plan(1, 1), plan(2, 1), plan(3, 1)], 20_000_000);
    holds("a node that starts again, and another", &[plan(1, 2), plan(2, 1), plan(1, 1)], 20_000_000);
}

#[test]
fn lower_terms_have_to_be_refused() {
    let rules = Rules { refuse_earlier: false, ..Rules::ALL };
    let found = explore(World::new(rules, &[plan(1, 1), plan(2, 1)]), 1_000_000);
    report("lower terms are not refused", &found);
    assert!(found.violation.is_some(), "lower terms are not refused, and nothing goes wrong");
}

#[test]
fn differences_have_to_name_the_term_of_their_base() {
    let world = World { by_epoch: true, ..World::new(Rules::ALL, &[plan(1, 1), plan(2, 1)]) };
    let found = explore(world, 1_000_000);
    report("states are told apart by epochs", &found);
    let (violation, _) = found.violation.expect("epochs tell states apart");
    assert!(violation.contains("are both"), "{violation}");
}

/// Has some nodes answer a message, and returns what the last answer has brought about.
fn asked(
    leader: &mut Leader<History>,
    ask: &Ask<History>,
    voters: &mut BTreeMap<NodeId, Voter<History>>,
    of: &[u128],
) -> Progress<History> {
    let mut progress = Progress::None;
    for number in of.iter().copied().map(node) {
        let answer = voters.get_mut(&number).unwrap().receive(ask).unwrap();
        progress = leader.receive(number, &answer);
    }
    progress
}

/// Why a database that may be an old copy of a node asks all others before it coordinates, those included
/// that are lost by the catalog: one that does not answer may be whom it has given a forgotten promise to.
#[test]
fn a_forgotten_promise_to_a_lost_node_loses_what_was_published() {
    let all: Vec<NodeId> = (1..=5).map(node).collect();
    let history = |changes: Vec<u8>, coordinator| History { changes, voters: all.clone(), coordinator };
    let start = Voter::new(Term(0), history(Vec::new(), (node(1), Term(0))));
    let mut voters: BTreeMap<_, _> = all.iter().map(|number| (*number, start.clone())).collect();
    // The fifth node has wanted to coordinate some times, and the second one alone hears of the last one.
    let lost = voters.get_mut(&node(5)).unwrap();
    lost.promised = Term(4);
    let (mut late, promise) = Leader::promote(node(5), After::Anybody, lost).unwrap();
    assert_eq!(asked(&mut late, &promise, &mut voters, &[5, 2]), Progress::None);
    // A copy of before takes its place, and all that answer know of no later promise.
    voters.insert(node(2), start.clone());
    let knows_later = |number: u128| voters[&node(number)].promised > start.promised;
    assert_eq!([1, 3, 4, 5].map(knows_later), [false, false, false, true]);
    let (mut copy, ask) =
        Leader::promote(node(2), After::Anybody, voters.get_mut(&node(2)).unwrap()).unwrap();
    assert!(matches!(asked(&mut copy, &ask, &mut voters, &[2, 1, 3]), Progress::Elected(_)));
    let store = copy.propose(history(vec![10], (node(2), copy.term()))).unwrap();
    let Progress::Published(first, _) = asked(&mut copy, &store, &mut voters, &[2, 1, 3]) else {
        panic!("three of five nodes are no majority")
    };
    // The promise counts as the second one of three, and none of them has stored that.
    let Progress::Elected(base) = asked(&mut late, &promise, &mut voters, &[4]) else {
        panic!("three of five nodes are no majority")
    };
    assert_eq!((first.changes, base.changes), (vec![10], Vec::new()), "what was published is found");
}
