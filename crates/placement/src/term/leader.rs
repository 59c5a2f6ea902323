//! The coordinator's part in storing catalogs.

use super::message::{After, Answer, Ask, Replicated, Stored};
use super::voter::Voter;
use crate::id::{Epoch, NodeId, Term};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A node that coordinates, or wants to. It is volatile: a node that starts again takes a new term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader<C> {
    owner: NodeId,
    term: Term,
    after: After,
    state: State<C>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State<C> {
    /// It collects promises. `known` is what its own node has.
    Candidate { known: Stored<C>, promises: BTreeMap<NodeId, Option<Stored<C>>> },
    /// It stores one state after the other. `base` is the one that the next one grows out of.
    Leading { base: C, proposal: Option<Proposal<C>> },
    /// Somebody else coordinates.
    Deposed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal<C> {
    stored: Stored<C>,
    accepted: BTreeSet<NodeId>,
}

/// What an answer has brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<C> {
    /// Nothing yet.
    None,
    /// A majority has promised. The next state is to grow out of this one, and must be published
    /// before anything else is believed.
    Elected(C),
    /// A majority has stored the proposal: it is published. Tell the nodes by the message.
    Published(C, Ask<C>),
    /// Another node coordinates, in this term: a later one, or one that this one may not follow. This one has
    /// to stop.
    Deposed(Term),
}

impl<C: Replicated> Leader<C> {
    /// Wants to coordinate in a new term, the first that this node has not heard of. `voter` is
    /// what the node itself has stored; it is stored again before the message is sent, to all nodes
    /// of the state that it has. So a node never takes a term twice. `after` says whom it may follow: if the
    /// majority knows another coordinator, that one is left in its place.
    ///
    /// # Errors
    /// `Conflict` if the node has no state yet, `Internal` if there is no further term.
    pub fn promote(owner: NodeId, after: After, voter: &mut Voter<C>) -> Result<(Self, Ask<C>)> {
        let none = || Error::new(ErrorKind::Conflict, "this node has no catalog of a cluster");
        let end = || Error::new(ErrorKind::Internal, "the cluster has no further term");
        let known = voter.stored.clone().ok_or_else(none)?;
        let term = voter.promised.next().ok_or_else(end)?;
        (voter.promised, voter.owner) = (term, Some(owner));
        let ask = Ask::Promise { term, owner, known: Some(known.place()) };
        let state = State::Candidate { known, promises: BTreeMap::new() };
        Ok((Self { owner, term, after, state }, ask))
    }

    /// Returns the term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns the state that the next proposal has to follow, once it is elected and no proposal
    /// is under way.
    pub fn base(&self) -> Option<&C> {
        match &self.state {
            State::Leading { base, proposal: None } => Some(base),
            _ => None,
        }
    }

    /// Returns the last state that it has published, or found when it was elected.
    pub fn latest(&self) -> Option<&C> {
        match &self.state {
            State::Leading { base, .. } => Some(base),
            State::Candidate { .. } | State::Deposed => None,
        }
    }

    /// Proposes the next state. The message is for the nodes of this state and of the one before.
    ///
    /// # Errors
    /// `Conflict` if the node does not coordinate, if another proposal is under way, or if the
    /// state is not later than the last one.
    pub fn propose(&mut self, content: C) -> Result<Ask<C>> {
        let conflict = |message: &str| Err(Error::new(ErrorKind::Conflict, message));
        let State::Leading { base, proposal } = &mut self.state else {
            return conflict("this node does not coordinate the cluster");
        };
        if proposal.is_some() {
            return conflict("another change of the cluster's catalog is under way");
        }
        if content.epoch() <= base.epoch() {
            return conflict("the cluster's catalog has changed");
        }
        let stored = Stored { term: self.term, epoch: content.epoch(), content };
        *proposal = Some(Proposal { stored: stored.clone(), accepted: BTreeSet::new() });
        Ok(Ask::Store { owner: self.owner, stored })
    }

    /// Returns the message that is not answered by a majority yet: a node sends it again from time
    /// to time, to all nodes.
    pub fn waiting(&self) -> Option<Ask<C>> {
        match &self.state {
            State::Candidate { known, .. } => {
                Some(Ask::Promise { term: self.term, owner: self.owner, known: Some(known.place()) })
            }
            State::Leading { proposal: Some(proposal), .. } => {
                Some(Ask::Store { owner: self.owner, stored: proposal.stored.clone() })
            }
            State::Leading { .. } | State::Deposed => None,
        }
    }

    /// Takes the answer of a node. Those to other messages, and repeated ones, change nothing.
    pub fn receive(&mut self, from: NodeId, answer: &Answer<C>) -> Progress<C> {
        let own = (self.term, self.owner);
        match answer {
            Answer::Refused { term } if *term >= self.term => {
                self.state = State::Deposed;
                Progress::Deposed(*term)
            }
            Answer::Promised { term, owner, stored } if (*term, *owner) == own => self.promised(from, stored),
            Answer::Accepted { term, owner, epoch } if (*term, *owner) == own => self.accepted(from, *epoch),
            Answer::Refused { .. } | Answer::Promised { .. } | Answer::Accepted { .. } => Progress::None,
        }
    }

    fn promised(&mut self, from: NodeId, stored: &Option<Stored<C>>) -> Progress<C> {
        let State::Candidate { known, promises } = &mut self.state else { return Progress::None };
        promises.insert(from, stored.clone());
        let others = promises.values().flatten().filter(|stored| stored.place() > known.place());
        let latest = &others.max_by_key(|stored| stored.place()).unwrap_or(known).content;
        // Whatever follows the latest state was stored by a majority of its voters: one of them
        // would have told.
        let promised: BTreeSet<NodeId> = promises.keys().copied().collect();
        if !is_majority(&promised, &known.content.voters()) || !is_majority(&promised, &latest.voters()) {
            return Progress::None;
        }
        let base = latest.clone();
        let (before, began) = base.coordinator();
        let may_follow = match self.after {
            After::Anybody => true,
            After::Itself => before == self.owner,
            After::Missed(missed, term) => (before, began) == (missed, term),
        };
        if !may_follow {
            self.state = State::Deposed;
            return Progress::Deposed(began);
        }
        self.state = State::Leading { base: base.clone(), proposal: None };
        Progress::Elected(base)
    }

    fn accepted(&mut self, from: NodeId, epoch: Epoch) -> Progress<C> {
        let State::Leading { base, proposal } = &mut self.state else { return Progress::None };
        let Some(waiting) = proposal.as_mut().filter(|waiting| waiting.stored.epoch == epoch) else {
            return Progress::None;
        };
        waiting.accepted.insert(from);
        let next = &waiting.stored.content;
        // Both majorities, so that nodes can be added and removed.
        if !is_majority(&waiting.accepted, &base.voters()) || !is_majority(&waiting.accepted, &next.voters())
        {
            return Progress::None;
        }
        *base = next.clone();
        *proposal = None;
        Progress::Published(base.clone(), Ask::Publish { term: self.term, epoch })
    }
}

fn is_majority(nodes: &BTreeSet<NodeId>, of: &[NodeId]) -> bool {
    of.iter().filter(|node| nodes.contains(node)).count() > of.len() / 2
}
