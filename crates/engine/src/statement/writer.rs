//! What INSERT, UPDATE, DELETE and MERGE have in common.

use crate::session::Session;
use crate::statement::completion::Compiler;
use crate::statement::constraint::Checks;
use crate::statement::databases::InDatabases;
use crate::statement::names::Names;
use crate::statement::queries::Queries;
use hypostyle_catalog::scope::Scope;
use hypostyle_exec::memory::Held;
use hypostyle_storage::Budget;
use hypostyle_types::Result;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

/// What INSERT, UPDATE, DELETE and MERGE may touch: rows, and transactions.
pub(super) struct Dml<'a> {
    pub queries: &'a dyn Queries,
    pub databases: InDatabases<'a>,
    pub writer: Writer<'a>,
    /// The session speaks PostgreSQL's protocol.
    pub is_wire: bool,
    /// Whether the last statement that gave rows other values has failed: whole rows are sent then.
    pub sends_whole_rows: &'a AtomicBool,
}

impl Session {
    pub(super) fn dml(&self) -> Dml<'_> {
        Dml {
            queries: self,
            databases: InDatabases { scope: &self.scope, transactions: self },
            writer: self.writer(),
            is_wire: self.settings.is_wire(),
            sends_whole_rows: &self.sends_whole_rows,
        }
    }

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

impl Dml<'_> {
    /// Takes memory of the session's.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn hold(&self, what: &str, bytes: u64) -> Result<Held> {
        let held = Held::new(what, &self.writer.compiler.context.runtime_env().memory_pool);
        held.take(bytes)?;
        Ok(held)
    }
}

impl Writer<'_> {
    pub fn names(&self) -> Names<'_> {
        Names { scope: self.scope }
    }
}
