//! A node's part in storing catalogs.

use super::message::{Answer, Ask, Place, Replicated, Stored};
use crate::id::{NodeId, Term};
use crate::rules::Rules;
use hypostyle_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// What a node stores durably before it answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Voter<C> {
    /// The highest term that it has heard of. It refuses lower ones.
    pub promised: Term,
    /// Who coordinates in that term. Another one of the same term is refused, too.
    pub owner: Option<NodeId>,
    /// The latest state, which need not be published.
    pub stored: Option<Stored<C>>,
    /// The latest state of which the node knows that it is published: what readers read.
    pub readable: Option<Stored<C>>,
}

impl<C: Replicated> Voter<C> {
    /// Returns what a node of a new cluster stores, or one that joins: a published state.
    pub fn new(term: Term, content: C) -> Self {
        let stored = Stored { term, epoch: content.epoch(), content };
        Self { promised: term, owner: None, stored: Some(stored.clone()), readable: Some(stored) }
    }

    /// Takes a message. If the voter is another one then, it is stored durably before the answer is
    /// sent.
    pub fn receive(&mut self, ask: &Ask<C>) -> Option<Answer<C>> {
        self.receive_by(Rules::ALL, ask)
    }

    /// Checks the term of a coordinator whose message is about something else.
    ///
    /// # Errors
    /// `Conflict` naming the term that is known here, if it is a higher one.
    pub fn check(&self, term: Term) -> Result<()> {
        if term < self.promised {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("a coordinator of term {term} asks, and term {} has begun", self.promised),
            ));
        }
        Ok(())
    }

    pub(crate) fn receive_by(&mut self, rules: Rules, ask: &Ask<C>) -> Option<Answer<C>> {
        match ask {
            Ask::Promise { term, owner, known } => {
                if !self.follows(rules, *term, *owner) {
                    return Some(Answer::Refused { term: self.promised });
                }
                let later = self.stored.as_ref().filter(|own| known.is_none_or(|known| known < own.place()));
                Some(Answer::Promised { term: *term, owner: *owner, stored: later.cloned() })
            }
            Ask::Store { owner, stored } => {
                if !self.follows(rules, stored.term, *owner) {
                    return Some(Answer::Refused { term: self.promised });
                }
                // An earlier one arrives late: what is stored has grown out of it.
                if self.stored.as_ref().is_none_or(|own| own.place() < stored.place()) {
                    self.stored = Some(stored.clone());
                }
                Some(Answer::Accepted { term: stored.term, owner: *owner, epoch: stored.epoch })
            }
            Ask::Publish { term, epoch } => {
                let is_stored = |own: &&Stored<C>| own.place() == (*term, *epoch);
                let is_later =
                    |own: &Stored<C>| self.readable.as_ref().is_none_or(|known| known.epoch < own.epoch);
                if let Some(own) = self.stored.as_ref().filter(is_stored)
                    && is_later(own)
                {
                    self.readable = Some(own.clone());
                }
                None
            }
        }
    }

    /// Follows a coordinator, unless a later one is known, or another one of the same term.
    fn follows(&mut self, rules: Rules, term: Term, owner: NodeId) -> bool {
        let is_refused = term < self.promised || (term == self.promised && self.owner != Some(owner));
        if is_refused && rules.refuse_earlier {
            return false;
        }
        (self.promised, self.owner) = (term, Some(owner));
        true
    }
}

impl<C> Stored<C> {
    /// Returns what orders the states, and tells them apart.
    pub fn place(&self) -> Place {
        (self.term, self.epoch)
    }
}
