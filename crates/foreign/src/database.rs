//! Attached databases of other systems, and their connections that wait for the next statement.

use crate::relation::Name;
use crate::server::{Connection, Dialer, Wanted};
use arrow::array::RecordBatchReader;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// Connections that are kept for later statements.
const IDLE_MAX: usize = 8;

/// A database of another system under the name that ATTACH gave it, for all sessions of an engine.
pub struct ForeignDatabase {
    name: String,
    address: String,
    shown: String,
    is_read_only: bool,
    dialer: Arc<dyn Dialer>,
    /// The connections that no statement has; `None` once it is closed.
    idle: Mutex<Option<Vec<Idle>>>,
    /// The connections that scans may have now.
    pub(crate) leased: Mutex<usize>,
}

/// A connection that no statement has.
struct Idle {
    connection: Box<dyn Connection>,
    /// The process that uses it: a child of `fork()` must not use those of its parent.
    process: u32,
}

impl Idle {
    fn new(connection: Box<dyn Connection>) -> Self {
        Self { connection, process: std::process::id() }
    }
}

impl fmt::Debug for ForeignDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignDatabase")
            .field("name", &self.name)
            .field("address", &self.shown)
            .finish_non_exhaustive()
    }
}

impl ForeignDatabase {
    /// Connects to a database, which is to be read only if it says so.
    ///
    /// # Errors
    /// Those of [`Dialer::dial`].
    pub fn open(dialer: Arc<dyn Dialer>, name: &str, address: &str, is_read_only: bool) -> Result<Arc<Self>> {
        let shown = dialer.shown(address)?;
        let first = dialer.dial(address)?;
        let idle = Mutex::new(Some(vec![Idle::new(first)]));
        let (name, address) = (name.to_string(), address.to_string());
        let leased = Mutex::new(0);
        Ok(Arc::new(Self { name, address, shown, is_read_only, dialer, idle, leased }))
    }

    /// Returns the name by which statements know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its address without the password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Says whether rows may be inserted into its tables by no statement of ours.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Ends its use. Statements that run come to their ends.
    pub fn close(&self) {
        let idle = self.idle.lock().take();
        drop(idle);
    }

    /// Returns an error of the server with the name of the database before it. Its place is one of a
    /// text that this side has written.
    pub(crate) fn of_server(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Interrupted => error,
            _ => error.nowhere().context(format!("database \"{}\"", self.name)),
        }
    }

    /// Takes a connection, and runs the statements on it that begin a transaction.
    ///
    /// # Errors
    /// Those of the server; `Closed`.
    pub(crate) fn begin(&self, sql: &str, wanted: &Wanted) -> Result<Box<dyn Connection>> {
        loop {
            let idle = self.take_idle()?;
            let is_new = idle.is_none();
            let connection = match idle {
                Some(connection) => connection,
                None => self.dialer.dial(&self.address).map_err(|error| self.of_server(error))?,
            };
            match connection.query(sql, wanted) {
                Ok(_) => return Ok(connection),
                // It was lost while it waited.
                Err(error) if error.kind() == ErrorKind::Connection && !is_new => {}
                Err(error) => return Err(self.of_server(error)),
            }
        }
    }

    fn take_idle(&self) -> Result<Option<Box<dyn Connection>>> {
        let mut idle = self.idle.lock();
        let Some(connections) = idle.as_mut() else {
            let message = format!("the database \"{}\" is closed", self.name);
            return Err(Error::new(ErrorKind::Closed, message));
        };
        let process = std::process::id();
        connections.retain(|idle| idle.process == process);
        Ok(connections.pop().map(|idle| idle.connection))
    }

    /// Ends the transaction of a connection, and keeps it for later statements. One that cannot be
    /// kept is closed.
    pub(crate) fn give_back(&self, connection: Box<dyn Connection>) {
        let always: Wanted = Arc::new(|| true);
        let ended = connection.query("ROLLBACK", &always).map(drop);
        if ended.is_err() {
            return;
        }
        if let Some(connections) = self.idle.lock().as_mut()
            && connections.len() < IDLE_MAX
        {
            connections.push(Idle::new(connection));
        }
    }

    /// Appends all rows to a table in a transaction of their own, and returns their number. If
    /// `create`, a table that is not there is made for them.
    ///
    /// # Errors
    /// `ReadOnly`; those of the server and of `rows`. Nothing is appended then, unless the connection
    /// broke (`Connection`) after the last row was sent: then it is not known.
    pub fn append(
        &self,
        table: &Name,
        rows: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
        wanted: &Wanted,
    ) -> Result<u64> {
        if self.is_read_only {
            let message = format!("the database \"{}\" is attached for reading only", self.name);
            return Err(Error::new(ErrorKind::ReadOnly, message).with_sqlstate("25006"));
        }
        // The rows are gone once they are read, so the connection must be one that answers.
        let connection = self.begin("BEGIN", wanted)?;
        let appended = connection
            .append(&table.quoted(), rows, create, by_name, wanted)
            .and_then(|rows| connection.query("COMMIT", wanted).map(|_| rows))
            .map_err(|error| self.of_server(error))?;
        self.give_back(connection);
        Ok(appended)
    }
}
