//! What a session keeps under names that its statements give: prepared statements and a function.

use datafusion::sql::sqlparser::ast::{Insert, Statement};
use hypostyle_exec::memory::Held;
use hypostyle_types::LogicalType;
use std::sync::Arc;

/// A statement under a name of the session.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub statement: Box<Statement>,
    /// The declared types of the first parameters.
    pub types: Vec<LogicalType>,
    /// The memory that the statement takes.
    pub _memory: Arc<Held>,
}

/// A function that tries to insert a row.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub name: String,
    pub insert: Insert,
    /// The names of what it gives: the row, and the key that is violated.
    pub row: String,
    pub detail: String,
}
