//! How a node reaches others.

use crate::message::{Reply, Request};
use arrow::array::RecordBatchReader;
use datafusion::execution::SendableRecordBatchStream;
use hypostyle_placement::catalog::Node;
use hypostyle_types::{Error, ErrorKind, Result};

/// Rows on their way between nodes.
pub type RowReader = Box<dyn RecordBatchReader + Send>;

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

/// Connections to other nodes.
pub trait Peers: Send + Sync {
    /// Asks a node, and waits for its answer; rows go with the request.
    ///
    /// # Errors
    /// `Connection` if the node is not there, breaks off or is silent for too long; else what the
    /// node answers.
    fn call(&self, node: &Node, request: &Request, rows: Option<RowReader>) -> Result<Answer>;
}

/// Says whether an error means that a node cannot be reached, rather than what it has answered.
pub fn is_unreachable(error: &Error) -> bool {
    error.is_unreachable()
}
