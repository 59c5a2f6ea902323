//! What INSERT, UPDATE, DELETE and MERGE have in common.

use crate::session::Session;
use crate::statement::completion::Compiler;
use crate::statement::constraint::Checks;
use crate::statement::names::Names;
use crate::statement::queries::Queries;
use hypostyle_catalog::scope::Scope;
use std::sync::Arc;

/// What finds the rows that a statement changes, makes their values whole, and stages them with what follows
/// for rows that refer to them. The transaction is handed to it; it neither begins nor commits one.
pub(super) struct Writer<'a> {
    pub queries: &'a dyn Queries,
    pub scope: &'a Arc<Scope>,
    pub checks: Checks<'a>,
    pub compiler: Compiler<'a>,
    /// The threads that read what is stored.
    pub threads: usize,
}

impl Session {
    pub(super) fn writer(&self) -> Writer<'_> {
        Writer {
            queries: self,
            scope: &self.scope,
            checks: self.checks(),
            compiler: self.compiler(),
            threads: self.engine.threads(),
        }
    }
}

impl Writer<'_> {
    pub fn names(&self) -> Names<'_> {
        Names { scope: self.scope }
    }
}
