//! How a node reaches others.

use crate::message::{Addressed, Reply};
pub use crate::rows::RowReader;
use datafusion::execution::SendableRecordBatchStream;
use hypostyle_placement::catalog::Node;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Weak;
use std::time::Duration;

/// What a node answers.
pub enum Answer {
    /// A message.
    Reply(Reply),
    /// The rows of a task.
    Rows(SendableRecordBatchStream),
}

impl Answer {
    /// Returns the message.
    ///
    /// # Errors
    /// `Connection` (08P01) for rows, which nobody asked for.
    pub fn reply(self) -> Result<Reply> {
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::Rows(_) => Err(unexpected("rows")),
        }
    }

    /// Returns the rows.
    ///
    /// # Errors
    /// `Connection` (08P01) for a message in their place.
    pub fn rows(self) -> Result<SendableRecordBatchStream> {
        match self {
            Self::Rows(rows) => Ok(rows),
            Self::Reply(_) => Err(unexpected("a message")),
        }
    }
}

pub(crate) fn unexpected(what: &str) -> Error {
    let message = format!("a node answered with {what} that were not asked for");
    Error::new(ErrorKind::Connection, message).with_sqlstate("08P01")
}

/// What a node has measured of another one since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerMeasure {
    /// The name of the other node.
    pub peer: String,
    /// What it was asked.
    pub requests: u64,
    /// Requests that have failed because it could not be reached, or was silent for too long.
    pub unreachable: u64,
    /// Requests that have failed for another reason. One that nobody wanted any more has not failed.
    pub failed: u64,
    /// The bytes of all frames to it, before TLS.
    pub bytes_sent: u64,
    /// The bytes of all frames that it has sent, before TLS.
    pub bytes_received: u64,
    /// The rows that it has sent.
    pub rows_received: u64,
    /// How long threads have waited for it: one after the other, if they have waited together.
    pub waited: Duration,
    /// Connections to it that wait for the next request.
    pub idle_connections: u64,
    /// Whether it could be reached the last time; `None` if it was not asked yet.
    pub reachable: Option<bool>,
}

/// Connections to other nodes.
pub trait Peers: Send + Sync {
    /// Asks a node, and waits for its answer; rows go with the request. Whoever answers is checked
    /// before it is asked. A request with rows is sent once; one without rows may be sent again, if the
    /// connection was broken.
    ///
    /// # Errors
    /// `Connection` if the node is not there, breaks off or is silent for too long; `Conflict` (55000) if
    /// another one has its address; else what the node answers.
    fn call(&self, node: &Node, request: &Addressed, rows: Option<RowReader>) -> Result<Answer>;

    /// Asks a node for rows that are of no use any more once `wanted` is dropped: then the node is
    /// told to end its work.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    fn call_while(&self, node: &Node, request: &Addressed, _wanted: Weak<()>) -> Result<Answer> {
        self.call(node, request, None)
    }

    /// Returns what was measured of each node that was asked.
    fn measures(&self) -> Vec<PeerMeasure> {
        Vec::new()
    }
}

/// Checks who has answered an introduction ([`Addressed::introduction`]).
///
/// # Errors
/// `Conflict` (55000) if it is not the node that is meant.
pub fn check_introduced(asked: &Addressed, reply: &Reply) -> Result<()> {
    let Reply::Identity { node, cluster, .. } = reply else { return Err(unexpected("a message")) };
    match asked.to {
        Some(to) if to != *node => Err(not_here(format!(
            "another database has the address of node {to} of the cluster: node {node}"
        ))),
        // One that is about to be added has none yet.
        Some(_) if cluster.is_some_and(|cluster| cluster != asked.cluster) => {
            Err(not_here("a node of another cluster has the address of one of this cluster"))
        }
        _ => Ok(()),
    }
}

/// The SQLSTATE of a node that lacks rows which it should have: it is behind, or they were moved.
const NOT_HERE: &str = "55000";

/// The SQLSTATE of a node that is about to end.
const ENDS: &str = "57P01";

/// Returns the error of a node that lacks what it is asked for, while another one may have it.
pub fn not_here(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Conflict, message).with_sqlstate(NOT_HERE)
}

/// Says whether another node may have rows that one has not given.
pub fn is_elsewhere(error: &Error) -> bool {
    is_unreachable(error) || matches!(error.sqlstate(), NOT_HERE | ENDS)
}

/// Says whether an error means that a node is there, but does not have what it should.
pub fn is_behind(error: &Error) -> bool {
    is_elsewhere(error) && !is_unreachable(error)
}

/// Says whether an error means that a node cannot be reached, rather than what it has answered.
pub fn is_unreachable(error: &Error) -> bool {
    error.is_unreachable()
}
