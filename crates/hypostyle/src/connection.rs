//! Connections: they take statements and give results, for databases in this process and on a
//! server alike.

use crate::embedded::Embedded;
use crate::foreign::Postgres;
use crate::remote::Remote;
use crate::{Database, OpenOptions, Parameters, Poll, Progress, QueryResult, ServerAddress, TableResolver};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatchReader;
use hypostyle_client::Address;
use hypostyle_engine::postgres::{Origin, Settings};
use hypostyle_engine::{Held, Identity, Meaning, SettingCheck, Transfer};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, LogicalType, Result};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// A function that is called about every 50 ms by the thread that waits for a statement.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// use hypostyle::{ErrorKind, Poll, PollHook};
/// use std::sync::Arc;
///
/// let never: PollHook = Arc::new(|_| Poll::Interrupt);
/// connection.set_poll(Some(never));
/// let endless = "SELECT count(*) FROM generate_series(1, 1000000) AS a, generate_series(1, 1000000) AS b";
/// let error = connection.execute(endless).and_then(|result| result.row_count()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Interrupted);
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub type PollHook = Arc<dyn Fn(&Progress) -> Poll + Send + Sync>;

/// A column of a result or table.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// let result = connection.execute("SELECT 1::BIGINT AS a")?;
/// let [column] = result.columns() else { panic!("one column was selected") };
/// assert_eq!((column.name.as_str(), column.logical_type.to_string().as_str()), ("a", "BIGINT"));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDescription {
    pub name: String,
    pub logical_type: LogicalType,
    pub nullable: bool,
}

/// Tells tables, which have rows, from views, which have a query.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// use hypostyle::TableKind;
///
/// connection.execute("CREATE VIEW v AS SELECT 1 AS a")?;
/// assert_eq!(connection.tables()?[0].kind, TableKind::View);
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    Table,
    View,
}

/// A table or view of the database.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// connection.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")?;
/// let table = &connection.tables()?[0];
/// assert_eq!((table.name.as_str(), table.row_count, table.columns.len()), ("t", Some(1), 2));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescription {
    pub schema: String,
    pub name: String,
    pub kind: TableKind,
    /// The number of rows, for tables.
    pub row_count: Option<u64>,
    pub columns: Vec<ColumnDescription>,
}

/// The description of a statement before it runs.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// let described = connection.describe("SELECT $1::INTEGER + 1 AS b")?;
/// assert_eq!(described.parameters.len(), 1);
/// assert_eq!(described.columns.unwrap_or_default()[0].name, "b");
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StatementDescription {
    /// The types of `$1` and so on; `None` if nothing in the statement determines the type.
    pub parameters: Vec<Option<LogicalType>>,
    /// The columns of its result, if it has one.
    pub columns: Option<Vec<ColumnDescription>>,
    /// Says whether the columns are known only after the statement has run.
    pub runs_to_tell: bool,
    /// The origins of its columns, for a session that speaks PostgreSQL's protocol.
    pub origins: Vec<Option<Origin>>,
    /// Says whether it is a query for tables alone, whose description changes only with definitions
    /// and settings.
    pub follows_definitions: bool,
}

/// The options of [`Connection::append`].
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// use hypostyle::AppendOptions;
/// use hypostyle::arrow::array::{ArrayRef, Int64Array};
/// use hypostyle::arrow::record_batch::{RecordBatch, RecordBatchIterator};
/// use std::sync::Arc;
///
/// let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
/// let rows = RecordBatch::try_from_iter([("a", values)]).expect("one column has one length");
/// let schema = rows.schema();
/// let data = Box::new(RecordBatchIterator::new([Ok(rows)], schema));
/// let options = AppendOptions { create: true, ..AppendOptions::default() };
/// assert_eq!(connection.append("t", data, options)?, 2);
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AppendOptions {
    /// Create the table from the data's schema when it does not exist.
    pub create: bool,
    /// Match columns by name, and give missing ones their default. Otherwise match them by
    /// position.
    pub by_name: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self { create: false, by_name: true }
    }
}

/// The answer to a call of another node of a cluster.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// // Nothing answers calls until `Database::set_calls`.
/// let error = connection.call(b"request", None).err().expect("no node of a cluster");
/// assert_eq!(error.sqlstate(), "0A000");
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub enum CallAnswer {
    Reply(Vec<u8>),
    /// Rows, or the end of something that gives none.
    Rows(QueryResult),
}

/// A session with a database; clones share it. One statement runs at a time.
///
/// ```
/// use hypostyle::{Connection, OpenOptions, Parameters, ScalarValue};
///
/// // Without a path: a new database in memory.
/// let connection = Connection::open(None, OpenOptions::default())?;
/// connection.execute("CREATE TABLE t (a INTEGER)")?;
/// let seven = Parameters::Positional(vec![ScalarValue::Int32(Some(7))]);
/// let inserted = connection.execute_with("INSERT INTO t VALUES ($1)", seven)?;
/// assert_eq!(inserted.rows_affected(), Some(1));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone)]
pub struct Connection {
    kind: Kind,
    /// The threads that append. The code that produces their rows may have the connection, too.
    appending: Arc<Mutex<HashSet<ThreadId>>>,
}

/// Marks a thread as one that appends.
struct Appending<'a>(&'a Connection);

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        self.0.appending.lock().remove(&thread::current().id());
    }
}

#[derive(Clone)]
enum Kind {
    Embedded(Embedded),
    Remote(Remote),
    Postgres(Postgres),
}

/// Makes the same call on each kind of connection.
macro_rules! on_each {
    ($self:ident, $connection:ident => $call:expr) => {
        match &$self.kind {
            Kind::Embedded($connection) => $call,
            Kind::Remote($connection) => $call,
            Kind::Postgres($connection) => $call,
        }
    };
}

impl Connection {
    fn new(kind: Kind) -> Self {
        Self { kind, appending: Arc::default() }
    }

    pub(crate) fn embedded(database: Database, identity: Identity) -> Result<Self> {
        Ok(Self::new(Kind::Embedded(Embedded::new(database, identity)?)))
    }

    /// Opens a connection to a server or to a directory; without either, to a new database in
    /// memory.
    ///
    /// # Errors
    /// The errors of [`Database::open`]; `Connection` when no server answers, and `Denied` when the
    /// login fails.
    pub fn open(target: Option<&Path>, options: OpenOptions) -> Result<Self> {
        let in_memory = target.is_none_or(|target| target == Path::new(":memory:"));
        let Some(target) = target.filter(|_| !in_memory) else {
            return Database::in_memory(options)?.connect();
        };
        match target.to_str().filter(|text| ServerAddress::is_address(text)) {
            Some(_) if options.read_only => Err(Error::unsupported(
                "a server's database is not opened read-only: connect as a user with the role read, or write \
                 BEGIN TRANSACTION READ ONLY",
            )),
            Some(text) => Self::to_address(&ServerAddress::parse(text)?, None),
            None => Database::open(target, options)?.connect(),
        }
    }

    /// Opens a connection to a server of ours or to PostgreSQL. `program` is what the server's lists
    /// and logs call the client.
    ///
    /// # Errors
    /// `Connection` when no server answers; `Denied` when the login fails.
    pub fn to_address(address: &ServerAddress, program: Option<String>) -> Result<Self> {
        match address {
            ServerAddress::Hypostyle(address) => {
                let mut options = hypostyle_client::Options::default();
                options.client = program.unwrap_or(options.client);
                Self::to_server(address, options)
            }
            ServerAddress::Postgres(address) => {
                Ok(Self::new(Kind::Postgres(Postgres::open(address, program)?)))
            }
        }
    }

    /// Opens a connection to a server, with the client's own options.
    pub fn to_server(address: &Address, options: hypostyle_client::Options) -> Result<Self> {
        Ok(Self::new(Kind::Remote(Remote::open(address, options)?)))
    }

    /// Opens another session with the same database.
    pub fn duplicate(&self) -> Result<Self> {
        match &self.kind {
            Kind::Embedded(connection) => connection.database().connect(),
            Kind::Remote(connection) => Ok(Self::new(Kind::Remote(connection.duplicate()?))),
            Kind::Postgres(connection) => Ok(Self::new(Kind::Postgres(connection.duplicate()?))),
        }
    }

    /// Runs one or more statements separated by `;` and returns the result of the last one.
    ///
    /// # Errors
    /// The error of the first failing statement. The statements before it have taken effect.
    pub fn execute(&self, sql: &str) -> Result<QueryResult> {
        self.execute_with(sql, Parameters::None)
    }

    /// Runs statements as [`Self::execute`] does, with values for `?`, `$1` or `$name` in the last
    /// statement.
    pub fn execute_with(&self, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        self.check_not_appending()?;
        on_each!(self, connection => connection.execute_with(sql, parameters))
    }

    /// Returns the whole of a table or view; for a table, its stored columns.
    pub fn table(&self, name: &str) -> Result<QueryResult> {
        self.check_not_appending()?;
        on_each!(self, connection => connection.table(name))
    }

    /// Returns all tables and views, in order of schema and name.
    pub fn tables(&self) -> Result<Vec<TableDescription>> {
        self.check_not_appending()?;
        on_each!(self, connection => connection.tables())
    }

    /// Appends all rows of `data` in one transaction and returns their number.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` or `Constraint` with the column, the row and the value;
    /// `DiskFull`, `Io`, `ReadOnly`; the error of `data`, which cannot use this connection. Nothing
    /// is appended then.
    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        let _appending = self.begin_appending()?;
        on_each!(self, connection => connection.append(table, data, options))
    }

    /// Checks that rows may be appended to a table, before there are any. Only for a database in this
    /// process: others check it when the rows come.
    ///
    /// # Errors
    /// `Denied`; `ReadOnly`; `InvalidInput` (42809) for what is no table.
    pub fn check_append(&self, table: &str) -> Result<()> {
        match &self.kind {
            Kind::Embedded(connection) => connection.check_append(table),
            Kind::Remote(_) | Kind::Postgres(_) => Ok(()),
        }
    }

    /// Calls the node of a cluster that the database belongs to. What it has been given by
    /// [`Database::set_calls`] gives meaning to the request, the rows that follow it and the
    /// answer.
    ///
    /// # Errors
    /// The error of the call, or of `rows`, which cannot use this connection; `Unsupported` if the
    /// database is no part of a cluster; `Denied` if a server's user has not the role `cluster`;
    /// `InvalidInput` (54000) for a request to a server that is too long. An error says whether the
    /// server cannot be reached ([`Error::is_unreachable`]).
    pub fn call(
        &self,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let _appending = self.begin_appending()?;
        on_each!(self, connection => connection.call(request, rows))
    }

    /// Notes that this thread sends rows, which may be made by code that has the connection, too.
    fn begin_appending(&self) -> Result<Appending<'_>> {
        self.check_not_appending()?;
        self.appending.lock().insert(thread::current().id());
        Ok(Appending(self))
    }

    /// Refuses a call that would wait for itself: a statement of the code that produces the rows
    /// which the connection is appending.
    ///
    /// # Errors
    /// `InvalidInput` on a thread whose [`Self::append`] is reading its rows.
    pub fn check_not_appending(&self) -> Result<()> {
        if self.appending.lock().contains(&thread::current().id()) {
            let message =
                "the connection is appending the rows that are being made: make them with another connection";
            return Err(Error::invalid_input(message).with_sqlstate("55006"));
        }
        Ok(())
    }

    /// Says whether BEGIN has opened a transaction that is not over.
    pub fn is_in_transaction(&self) -> bool {
        on_each!(self, connection => connection.is_in_transaction())
    }

    /// Says whether an error has aborted the open transaction, which refuses work until it is
    /// rolled back.
    pub fn is_transaction_failed(&self) -> bool {
        on_each!(self, connection => connection.is_transaction_failed())
    }

    /// Returns the number of its session among those of the database in its process, as in SHOW
    /// SESSIONS.
    pub fn id(&self) -> u64 {
        on_each!(self, connection => connection.id())
    }

    /// Says whether KILL has ended the session, as far as this side knows.
    pub fn is_killed(&self) -> bool {
        on_each!(self, connection => connection.is_killed())
    }

    /// Says whether the running statement, or the last one, was asked to end. Only for a database
    /// in this process.
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.kind, Kind::Embedded(connection) if connection.is_interrupted())
    }

    /// Adds a setting for SET and SHOW that has a meaning only to the caller. Only for a database
    /// in this process.
    ///
    /// # Errors
    /// `Closed`; `Unsupported` for a connection to a server.
    pub fn define_setting(&self, name: &'static str, value: &str, check: SettingCheck) -> Result<()> {
        on_each!(self, connection => connection.define_setting(name, value, check))
    }

    /// Sets a setting to a value, or resets it, as SET, SET LOCAL and RESET do. Only for a database in this
    /// process.
    ///
    /// # Errors
    /// Those of the statements; `Closed`; `Unsupported` for a connection to a server.
    pub fn change_setting(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        self.check_not_appending()?;
        match &self.kind {
            Kind::Embedded(connection) => connection.change_setting(name, value, is_local),
            Kind::Remote(_) | Kind::Postgres(_) => {
                Err(Error::unsupported(format!("the setting \"{name}\" of a server's session is set by SET")))
            }
        }
    }

    /// Returns the value of a setting that was added.
    pub fn setting(&self, name: &str) -> Option<String> {
        on_each!(self, connection => connection.setting(name))
    }

    /// Aborts the open transaction, if there is one, as an error in one of its statements does.
    /// Only for a database in this process.
    pub fn abort_transaction(&self, why: &str) {
        if let Kind::Embedded(connection) = &self.kind {
            connection.abort_transaction(why);
        }
    }

    /// Describes one statement before it runs, with `$1` for its first parameter.
    ///
    /// # Errors
    /// The errors of parsing the statement, and of planning it if it is a query.
    pub fn describe(&self, sql: &str) -> Result<StatementDescription> {
        self.describe_with(sql, &[])
    }

    /// Describes a statement as [`Self::describe`] does, with the types of the values for the first
    /// parameters, on which types of columns may depend.
    ///
    /// # Errors
    /// Also `Unsupported` if there are types and the database is a server's.
    pub fn describe_with(&self, sql: &str, given: &[Option<DataType>]) -> Result<StatementDescription> {
        self.check_not_appending()?;
        on_each!(self, connection => connection.describe_with(sql, given))
    }

    /// Checks that a text is a statement, without asking what its names mean. Only for a database in this
    /// process: others check it when it is described or runs.
    ///
    /// # Errors
    /// Those of parsing it; `Closed`.
    pub fn check_syntax(&self, sql: &str) -> Result<()> {
        match &self.kind {
            Kind::Embedded(connection) => connection.check_syntax(sql),
            Kind::Remote(_) | Kind::Postgres(_) => Ok(()),
        }
    }

    /// Returns what the names of statements mean now: what a description of a statement depends on.
    ///
    /// # Errors
    /// `Closed`; `Unsupported` for a connection to a server.
    pub fn meaning(&self) -> Result<Meaning> {
        on_each!(self, connection => connection.meaning())
    }

    /// Says whether all names surely mean what they did.
    ///
    /// # Errors
    /// `Closed`.
    pub fn still_means(&self, meaning: &Meaning) -> Result<bool> {
        on_each!(self, connection => connection.still_means(meaning))
    }

    /// Returns the session's settings that are PostgreSQL's.
    ///
    /// # Errors
    /// `Closed`; `Unsupported` for a connection to a server.
    pub fn postgres_settings(&self) -> Result<Arc<Settings>> {
        on_each!(self, connection => connection.postgres_settings())
    }

    /// Returns the progress of the running statement, or of the last one at its end. Any thread may
    /// call it. It returns `None` before the first statement.
    pub fn progress(&self) -> Option<Progress> {
        on_each!(self, connection => connection.progress())
    }

    /// Makes the running statement fail with `Interrupted`. Any thread may call it. The connection
    /// stays usable.
    pub fn interrupt(&self) {
        on_each!(self, connection => connection.interrupt());
    }

    /// Reserves memory of a session for data that is kept for it, until the result is dropped. Only
    /// for a database in this process.
    ///
    /// # Errors
    /// `OutOfMemory`; `Closed`.
    pub fn hold(&self, what: &str, bytes: u64) -> Result<Option<Held>> {
        match &self.kind {
            Kind::Embedded(connection) => connection.hold(what, bytes).map(Some),
            Kind::Remote(_) | Kind::Postgres(_) => Ok(None),
        }
    }

    /// Checks whether the running statement has to end, as waiting for it does, for loops that take
    /// its rows. Only for a database in this process.
    ///
    /// # Errors
    /// `Interrupted`; `Closed`.
    pub fn check_interrupt(&self) -> Result<()> {
        match &self.kind {
            Kind::Embedded(connection) => connection.check_interrupt(),
            Kind::Remote(_) | Kind::Postgres(_) => Ok(()),
        }
    }

    /// Continues a result that was left open: older interrupts are forgotten, and its time begins
    /// anew. Only for a database in this process.
    ///
    /// # Errors
    /// `Closed`.
    pub fn go_on(&self) -> Result<()> {
        match &self.kind {
            Kind::Embedded(connection) => connection.go_on(),
            Kind::Remote(_) | Kind::Postgres(_) => Ok(()),
        }
    }

    /// Closes the connection. Later uses of it and its clones fail with `Closed`; results stay
    /// valid.
    pub fn close(&self) -> Result<()> {
        on_each!(self, connection => connection.close())
    }

    /// Returns the database, if it is in this process.
    pub fn database(&self) -> Option<&Database> {
        match &self.kind {
            Kind::Embedded(connection) => Some(connection.database()),
            Kind::Remote(_) | Kind::Postgres(_) => None,
        }
    }

    /// Returns the server's address without the password, if there is a server.
    pub fn address(&self) -> Option<String> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Remote(connection) => Some(connection.address().to_string()),
            Kind::Postgres(connection) => Some(connection.address().to_string()),
        }
    }

    /// Says whether the database is PostgreSQL's.
    pub fn is_postgres(&self) -> bool {
        matches!(self.kind, Kind::Postgres(_))
    }

    /// Returns the directory of a database in this process.
    pub fn path(&self) -> Option<&Path> {
        self.database().and_then(Database::path)
    }

    /// Sets a function that is called about every 50 ms, on the thread that waits, during each
    /// blocking call of this connection and its results.
    pub fn set_poll(&self, poll: Option<PollHook>) {
        on_each!(self, connection => connection.set_poll(poll));
    }

    /// Lets EXPLAIN ANALYZE show the cost of sending the result. Only for a database in this
    /// process.
    pub fn set_transfer(&self, transfer: Arc<dyn Transfer>) {
        if let Kind::Embedded(connection) = &self.kind {
            connection.set_transfer(transfer);
        }
    }

    /// Sets a function that is asked, on a worker thread, for names that no table or view has.
    pub fn set_table_resolver(&self, resolver: Option<TableResolver>) {
        on_each!(self, connection => connection.set_table_resolver(resolver));
    }
}
