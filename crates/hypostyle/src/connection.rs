//! Connections: statements in, results out.

use crate::{Database, Parameters, PollHook, QueryResult, TableResolver};
use arrow::record_batch::RecordBatchReader;
use hypostyle_engine::postgres::Settings;
use hypostyle_engine::{Described, Gives, Outcome, Session};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use parking_lot::RwLock;
use std::sync::Arc;

/// A column of a result or table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    pub name: String,
    pub logical_type: LogicalType,
    pub nullable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    Table,
    View,
}

/// A table or view of the database.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescription {
    pub schema: String,
    pub name: String,
    pub kind: TableKind,
    /// Of tables.
    pub row_count: Option<u64>,
    pub columns: Vec<ColumnDescription>,
}

/// A statement before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementDescription {
    /// The types of `$1` and so on; `None` where nothing in the statement tells it.
    pub parameters: Vec<Option<LogicalType>>,
    /// Of its result, if it has one.
    pub columns: Option<Vec<ColumnDescription>>,
    /// Whether only its result tells its columns.
    pub runs_to_tell: bool,
}

/// How [`Connection::append`] treats its table.
#[derive(Clone, Copy, Debug)]
pub struct AppendOptions {
    /// Create the table from the data's schema when it does not exist.
    pub create: bool,
    /// Match columns by name, and give missing ones their default; else by position.
    pub by_name: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self { create: false, by_name: true }
    }
}

/// A session with a database; clones share it. One statement runs at a time.
#[derive(Clone)]
pub struct Connection {
    database: Database,
    session: Arc<RwLock<Option<Arc<Session>>>>,
}

impl Connection {
    pub(crate) fn new(database: Database) -> Result<Self> {
        let session = Session::new(database.engine()?)?;
        Ok(Self { database, session: Arc::new(RwLock::new(Some(session))) })
    }

    fn session(&self) -> Result<Arc<Session>> {
        self.database.engine()?;
        self.session
            .read()
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Closed, "the connection is closed; connect again"))
    }

    /// Runs one or more statements separated by `;` and gives the result of the last.
    ///
    /// # Errors
    /// The first failing statement's; those before it have taken effect.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        self.execute_with(sql, Parameters::None)
    }

    /// [`Self::execute`] with values for `?`, `$1` or `$name` in the last statement.
    pub fn execute_with(&self, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        let session = self.session()?;
        let outcome = session.execute(sql, &parameters)?;
        QueryResult::new(session, outcome)
    }

    /// The whole of a table or view; for a table, its stored columns.
    pub fn table(&self, name: &str) -> Result<QueryResult> {
        let session = self.session()?;
        let outcome = session.table(name)?;
        QueryResult::new(session, outcome)
    }

    /// All tables and views, in order of schema and name.
    pub fn tables(&self) -> Result<Vec<TableDescription>> {
        let session = self.session()?;
        let snapshot = session.snapshot()?.unpinned();
        let describe = |columns: &[hypostyle_storage::ColumnEntry]| {
            columns
                .iter()
                .map(|column| ColumnDescription {
                    name: column.name.clone(),
                    logical_type: column.logical_type.clone(),
                    nullable: column.nullable,
                })
                .collect()
        };
        let mut tables: Vec<TableDescription> = snapshot
            .tables()
            .map(|table| TableDescription {
                schema: table.entry().schema.clone(),
                name: table.entry().name.clone(),
                kind: TableKind::Table,
                row_count: Some(table.rows()),
                columns: describe(&table.entry().columns),
            })
            .collect();
        for view in &snapshot.catalog().views {
            // A view over something dropped is listed without columns; using it tells why.
            let outcome = session.table(&format!("\"{}\".\"{}\"", view.schema, view.name));
            let columns = outcome.and_then(|outcome| describe_outcome(&outcome)).unwrap_or_default();
            tables.push(TableDescription {
                schema: view.schema.clone(),
                name: view.name.clone(),
                kind: TableKind::View,
                row_count: None,
                columns,
            });
        }
        tables.sort_by(|one, other| (&one.schema, &one.name).cmp(&(&other.schema, &other.name)));
        Ok(tables)
    }

    /// Appends all rows of `data` in one transaction and gives their number.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` or `Constraint` naming column, row and value; `DiskFull`, `Io`,
    /// `ReadOnly`. Nothing is appended then.
    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        self.session()?.append(table, data, options.create, options.by_name)
    }

    /// Whether BEGIN has opened a transaction that is not over.
    pub fn is_in_transaction(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_in_transaction())
    }

    /// Whether an error has aborted the open transaction, so that only its end is left.
    pub fn is_transaction_aborted(&self) -> bool {
        self.session.read().as_ref().is_some_and(|session| session.is_transaction_aborted())
    }

    /// Aborts the open transaction, if there is one, as an error in one of its statements does.
    pub fn abort_transaction(&self, why: &str) {
        if let Some(session) = self.session.read().as_ref() {
            session.abort_transaction(why);
        }
    }

    /// What can be told of one statement before it runs, with `$1` for its parameters.
    ///
    /// # Errors
    /// Those of parsing it, and of planning it if it is a query.
    pub fn describe(&self, sql: &str) -> Result<StatementDescription> {
        let Described { parameters, gives } = self.session()?.describe_statement(sql)?;
        let column = |(name, logical_type, nullable)| ColumnDescription { name, logical_type, nullable };
        let (columns, runs_to_tell) = match gives {
            Gives::Rows(columns) => (Some(columns.into_iter().map(column).collect()), false),
            Gives::Nothing => (None, false),
            Gives::Unknown => (None, true),
        };
        Ok(StatementDescription { parameters, columns, runs_to_tell })
    }

    /// The session's settings of PostgreSQL's.
    pub fn postgres_settings(&self) -> Result<Arc<Settings>> {
        Ok(self.session()?.settings().clone())
    }

    /// Makes the running statement fail with `Interrupted`; from any thread. The connection stays usable.
    pub fn interrupt(&self) {
        if let Some(session) = self.session.read().as_ref() {
            session.interrupt();
        }
    }

    /// Later uses of this connection and its clones fail with `Closed`; results live on.
    pub fn close(&self) -> Result<()> {
        *self.session.write() = None;
        Ok(())
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Has `poll` called about every 50 ms, on the thread that waits, during each blocking call of
    /// this connection and its results.
    pub fn set_poll(&self, poll: Option<PollHook>) {
        if let Some(session) = self.session.read().as_ref() {
            session.set_poll(poll);
        }
    }

    /// Has `resolver` asked, on a worker thread, for names that no table or view has.
    pub fn set_table_resolver(&self, resolver: Option<TableResolver>) {
        if let Some(session) = self.session.read().as_ref() {
            session.set_table_resolver(resolver);
        }
    }
}

pub(crate) fn describe_outcome(outcome: &Outcome) -> Result<Vec<ColumnDescription>> {
    let columns = Session::describe(outcome)?;
    let describe = |(name, logical_type, nullable)| ColumnDescription { name, logical_type, nullable };
    Ok(columns.into_iter().map(describe).collect())
}
