//! What writers and replicas say to each other, and what a writer has its node do.

use crate::catalog::Change;
use crate::id::{FragmentId, Life, NodeId, StatementId, Term, Token};
use hypostyle_types::Result;
use serde::{Deserialize, Serialize};

/// Asks a replica to delete rows and to append others. It may be sent several times, and arrive at any
/// later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Request {
    /// The term of the coordinator.
    pub term: Term,
    /// The fragment.
    pub fragment: FragmentId,
    /// The node of the replica.
    pub node: NodeId,
    /// The life of the replica that is meant.
    pub life: Life,
    /// The token of the writer.
    pub token: Token,
    /// The positions that the catalog says the replica has. What is behind them was never
    /// published.
    pub base: u64,
    /// The number of rows to append.
    pub rows: u64,
    /// The number of rows to delete among those within `base`. Their places, counted without deleted
    /// rows, travel before the new rows.
    #[serde(default)]
    pub deletes: u64,
    /// Where the rows come from.
    pub source: Source,
}

/// Says where the rows of a request come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The statement: they travel with the request.
    Statement(StatementId),
    /// Another replica, which is asked for them.
    Replica {
        /// The node of that replica.
        node: NodeId,
        /// Its life.
        life: Life,
        /// The first of its rows, counted without deleted ones.
        first: u64,
        /// The positions that are read.
        positions: u64,
    },
}

/// Answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// The fragment.
    pub fragment: FragmentId,
    /// The node of the replica.
    pub node: NodeId,
    /// The life that the request was for.
    pub life: Life,
    /// The token of the writer.
    pub token: Token,
    /// What became of the request.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The rows are durable; the replica has this many positions.
    Written {
        /// The positions, with the new rows.
        positions: u64,
    },
    /// Nothing was written.
    Refused(Refusal),
}

/// Why a replica writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The node knows a coordinator of this later term.
    Term(Term),
    /// The replica has begun this later life.
    Life(Life),
    /// The replica knows a later writer, with this token.
    Token(Token),
    /// The replica has fewer positions than the catalog says: it has lost some.
    Behind {
        /// The positions that it has.
        positions: u64,
    },
    /// The node cannot write, for example because its disk is full.
    Failed,
}

/// What a writer has its node do.
#[derive(Debug)]
pub enum Effect {
    /// Store this change of the catalog, and tell the writer what came of it.
    Commit(Change),
    /// Send this to its node, again after some time without an answer.
    Send(Request),
    /// Tell the client, and forget the writer. The number is of the appended rows.
    Finish(Result<u64>),
}
