//! Connections to a server, which take statements and give results.

use crate::address::Address;
use crate::append;
use crate::describe::{self, table};
use crate::failure::Notice;
use crate::link::{Link, Told};
use crate::login;
use crate::message::check_text;
use crate::options::Options;
use crate::query::{self, Begun, Choices};
use crate::result::{QueryResult, Stream};
use crate::statement::{Statement, split};
use arrow_array::{RecordBatch, RecordBatchReader};
use hypostyle_client::{AppendOptions, Description, Hook, Progress, TableEntry, Transaction};
use hypostyle_sync::{Mutex, TimedMutex, TimedMutexGuard};
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long closing waits for a statement of another thread, which it has interrupted.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A session with a server; clones share it. One statement runs at a time; the rest of a result that
/// is being read is taken into memory when the next one begins.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

pub(crate) struct Shared {
    pub link: TimedMutex<Link>,
    /// The result of which more may come.
    stream: Mutex<Weak<Stream>>,
    told: Arc<Told>,
    closed: AtomicBool,
    address: Address,
    options: Options,
    /// The number of the server's process.
    session: u32,
    process: u32,
}

impl Shared {
    /// # Errors
    /// `Closed` in a child of `fork()`, which has the same socket. Two processes that use it would
    /// take each other's answers.
    pub fn check_process(&self) -> Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Closed,
                "the connection was opened before fork(); connect again in the child process",
            )),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child that was forked has the same socket, and must not end the session.
        if self.process == std::process::id() {
            self.link.get_mut().close();
        }
    }
}

impl Connection {
    /// # Errors
    /// `Connection` when no server answers; `Denied` when the login fails.
    pub fn connect(address: &Address, options: Options) -> Result<Self> {
        let told = Arc::<Told>::default();
        let link = login::open(address, &options, &told)?;
        let session = link.process;
        Ok(Self(Arc::new(Shared {
            link: TimedMutex::new(link),
            stream: Mutex::default(),
            told,
            closed: AtomicBool::new(false),
            address: address.clone(),
            options,
            session,
            process: std::process::id(),
        })))
    }

    /// Opens another session with the same server.
    pub fn duplicate(&self) -> Result<Self> {
        Self::connect(&self.0.address, self.0.options.clone())
    }

    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Returns the number of the server's process that has the session.
    pub fn session(&self) -> u32 {
        self.0.session
    }

    /// Returns the name and version of the server.
    pub fn server(&self) -> String {
        format!("PostgreSQL {}", self.parameter("server_version").unwrap_or_default())
    }

    /// Returns the value of a setting that the server reports, such as `server_version` or
    /// `TimeZone`.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.0.link.lock().parameters.get(name).cloned()
    }

    /// Runs the statements of a text one after the other, and returns the result of the last one.
    /// `row` has a column for each of its parameters `$1`, `$2` and so on.
    ///
    /// # Errors
    /// The error of the first failing statement. The statements before it have taken effect.
    pub fn execute(&self, sql: &str, row: Option<&RecordBatch>) -> Result<QueryResult> {
        check_text(sql, "the statement")?;
        check_row(row)?;
        let mut link = self.link()?;
        let running = self.0.told.meter.begin();
        let is_standard = is_standard(&link);
        let statements = split(sql, is_standard);
        let address = &self.0.address;
        let choices = Choices { numeric: address.numeric, transfer: address.transfer, codec: address.codec };
        let begun = match statements.split_last() {
            None => Begun::Done(None),
            Some((last, before)) => {
                for statement in before {
                    query::run_before_last(&mut link, *statement)?;
                }
                query::run(&mut link, *last, row, choices)?
            }
        };
        let result = QueryResult::begin(self.0.clone(), begun, running);
        let stream = result.stream();
        let taken = stream.take_first(&mut link).and_then(|()| {
            let writes = statements.last().is_some_and(Statement::writes);
            if writes { stream.take_written(&mut link) } else { Ok(()) }
        });
        if let Err(error) = taken {
            let before = statements.last().map_or(0, |last| last.before);
            return Err(query::moved(error, before, link.sent_before));
        }
        *self.0.stream.lock() = Arc::downgrade(stream);
        Ok(result)
    }

    /// Returns all rows of a table or view, of which the name is as in SQL.
    ///
    /// # Errors
    /// `UnknownName`; those of [`Self::execute`].
    pub fn table(&self, name: &str) -> Result<QueryResult> {
        let found = table(&mut *self.link()?, name)?;
        match found {
            Some(found) => self.execute(&format!("SELECT * FROM {}", found.name), None),
            None => {
                let message = format!("there is no table or view {name}");
                Err(Error::new(ErrorKind::UnknownName, message))
            }
        }
    }

    /// Appends all rows of `data` by one COPY, and returns their number.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` or `Constraint`, with the row and the column as far as the
    /// server tells; the error of `data`. Nothing is appended then. `Connection` when the connection
    /// broke; if it broke after the last row was sent, it is not known whether they were appended.
    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        let mut link = self.link()?;
        let running = self.0.told.meter.begin();
        running.expect(None);
        let rows = append::append(&mut link, table, data, options, &mut |rows| running.receive(rows))?;
        running.end();
        Ok(rows)
    }

    /// Describes one statement before it runs, with `$1` for its first parameter.
    ///
    /// # Errors
    /// Those of the server.
    pub fn describe(&self, sql: &str) -> Result<Description> {
        let mut link = self.link()?;
        let is_standard = is_standard(&link);
        describe::describe_statement(&mut link, sql, is_standard, self.0.address.numeric)
    }

    /// Returns all tables and views, in order of schema and name.
    ///
    /// # Errors
    /// Those of the server.
    pub fn tables(&self) -> Result<Vec<TableEntry>> {
        describe::tables(&mut *self.link()?, self.0.address.numeric)
    }

    /// Takes the link, after removing the rest of an earlier result from it.
    fn link(&self) -> Result<TimedMutexGuard<'_, Link>> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the connection is closed; connect again"));
        }
        self.0.check_process()?;
        let mut link = self.0.link.lock();
        if link.running {
            let stream = self.0.stream.lock().upgrade();
            if let Some(stream) = stream {
                stream.take_all(&mut link);
            }
            // Nobody has this result any more, or it could not be taken.
            link.abandon()?;
        }
        link.begin()?;
        Ok(link)
    }

    /// Returns the state of the transaction after the last statement.
    pub fn transaction(&self) -> Transaction {
        self.0.link.lock().transaction
    }

    /// Returns the progress of the running statement, or of the last one at its end. Any thread may
    /// call it. It returns `None` before the first statement.
    pub fn progress(&self) -> Option<Progress> {
        self.0.told.meter.progress()
    }

    /// Makes the running statement fail with `Interrupted`. Any thread may call it. The connection
    /// stays usable.
    pub fn interrupt(&self) {
        self.0.told.interrupted.store(true, Ordering::Release);
    }

    /// Sets the function that is asked about every 50 ms during a wait. If it returns `false`, the
    /// statement is interrupted.
    pub fn set_hook(&self, hook: Option<Hook>) {
        self.0.link.lock().hook = hook;
    }

    /// Returns the notices that have come since the last call, the latest hundred.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.0.link.lock().notices.drain(..).collect()
    }

    /// Returns the error that the server sent during the last call, with all that it said.
    pub fn failure(&self) -> Option<Notice> {
        self.0.link.lock().failure.clone()
    }

    /// Ends the session. Rows that have come stay valid.
    pub fn close(&self) {
        if self.0.closed.swap(true, Ordering::AcqRel) || self.0.check_process().is_err() {
            return;
        }
        self.interrupt();
        match self.0.link.try_lock_until(Instant::now() + CLOSE_WITHIN) {
            Some(mut link) => link.close(),
            // The second interrupt gives the connection up.
            None => self.interrupt(),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}

fn is_standard(link: &Link) -> bool {
    link.parameters.get("standard_conforming_strings").is_none_or(|value| value == "on")
}

/// Checks that parameters are one row.
fn check_row(row: Option<&RecordBatch>) -> Result<()> {
    match row.map(RecordBatch::num_rows) {
        None | Some(1) => Ok(()),
        Some(rows) => {
            Err(Error::invalid_input(format!("the parameters are one row, and {rows} rows are given")))
        }
    }
}
