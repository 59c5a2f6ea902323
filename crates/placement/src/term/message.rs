//! What a coordinator and the nodes say to each other about catalogs.

use crate::catalog::Catalog;
use crate::id::{Epoch, NodeId, Term};
use serde::{Deserialize, Serialize};

/// What is stored by a majority: a catalog.
pub trait Replicated: Clone + PartialEq {
    /// Returns the number of this state. Later ones have higher numbers.
    fn epoch(&self) -> Epoch;
    /// Returns the nodes of which a majority stores the state that follows this one.
    fn voters(&self) -> Vec<NodeId>;
    /// Returns who coordinates, and in which term it began.
    fn coordinator(&self) -> (NodeId, Term);
}

impl Replicated for Catalog {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn voters(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    fn coordinator(&self) -> (NodeId, Term) {
        (self.coordinator, self.term)
    }
}

/// Whom a node may follow that wants to coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Anybody: somebody has said PROMOTE.
    Anybody,
    /// Itself: it was away, and has coordinated before.
    Itself,
    /// The coordinator that a majority has missed, which began in this term: not one that has come meanwhile,
    /// be it the same node.
    Missed(NodeId, Term),
}

/// What orders states, and tells them apart: a term has one coordinator, which gives a number to one state
/// only. So whoever has the state of a place has the same as everybody else who has it.
pub type Place = (Term, Epoch);

/// A state as a node has it stored. Of two, the one of the higher term is later, and within a term
/// the one of the higher epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored<C> {
    /// The term in which it was stored.
    pub term: Term,
    /// Its number.
    pub epoch: Epoch,
    /// The state.
    pub content: C,
}

/// What a coordinator asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ask<C> {
    /// Refuse all lower terms from now on, and tell what is stored, if it is later than what the new
    /// coordinator has.
    Promise {
        /// The new term.
        term: Term,
        /// Who wants to coordinate in it.
        owner: NodeId,
        /// The place of what it has. An earlier release says nothing, and is told everything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Place>,
    },
    /// Store a state.
    Store {
        /// Who coordinates.
        owner: NodeId,
        /// The state, and the term of the coordinator.
        stored: Stored<C>,
    },
    /// Let readers have a state: a majority has stored it.
    Publish {
        /// The term in which it was stored.
        term: Term,
        /// Its number.
        epoch: Epoch,
    },
}

/// What a node answers, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Answer<C> {
    /// It refuses all lower terms.
    Promised {
        /// The term.
        term: Term,
        /// Who coordinates in it.
        owner: NodeId,
        /// What it has stored, if it is later than what was known.
        stored: Option<Stored<C>>,
    },
    /// It has stored the state, or a later one of the same term.
    Accepted {
        /// The term.
        term: Term,
        /// Who coordinates in it.
        owner: NodeId,
        /// The number of the state.
        epoch: Epoch,
    },
    /// It has promised somebody else to refuse.
    Refused {
        /// The term that it has promised.
        term: Term,
    },
}
