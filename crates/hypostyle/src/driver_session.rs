//! What the interfaces of drivers expect of a connection: autocommit that can be turned off,
//! statements that take effect together, and calls that are cancelled one by one.
//!
//! With autocommit off, a transaction begins with the first statement after the last one ended, and
//! not before. Otherwise a program that waits would read old data.

use crate::cancel::{CancelMark, RunningCalls, poll_hook};
use crate::{Connection, Parameters, PollHook, QueryResult};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The savepoint of the statements that take effect together.
const SAVEPOINT: &str = "hypostyle_statement";

/// The transaction options of a program.
#[derive(Clone, Copy, Debug)]
struct Modes {
    autocommit: bool,
    read_only: bool,
}

/// A connection with the rules that ADBC, JDBC, DBI and the C interface share for transactions and
/// cancelling.
///
/// ```
/// use hypostyle::{CancelMark, Database, DriverSession, OpenOptions, Parameters};
///
/// let session = DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?);
/// session.set_autocommit(false)?;
/// let mark = CancelMark::default();
/// session.step(|| session.execute(&mark, "CREATE TABLE t (a INTEGER)", Parameters::None))?;
/// session.roll_back()?;
/// assert!(session.connection().tables()?.is_empty());
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct DriverSession {
    connection: Connection,
    modes: Mutex<Modes>,
    calls: RunningCalls,
    /// Held while a transaction is begun for a step: several threads may have one each.
    beginning: Mutex<()>,
}

impl DriverSession {
    /// Takes a connection, whose poll hook it sets.
    pub fn new(connection: Connection) -> Self {
        connection.set_poll(Some(poll_hook(None)));
        let modes = Modes { autocommit: true, read_only: false };
        Self {
            connection,
            modes: Mutex::new(modes),
            calls: RunningCalls::default(),
            beginning: Mutex::default(),
        }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the calls that run now, for cancelling them.
    pub fn calls(&self) -> &RunningCalls {
        &self.calls
    }

    /// Sets a function that is called about every 50 ms as that of [`Connection::set_poll`].
    pub fn set_poll(&self, poll: Option<PollHook>) {
        self.connection.set_poll(Some(poll_hook(poll)));
    }

    /// Calls the database; `mark` cancels the call. A panic becomes an error.
    ///
    /// # Errors
    /// Those of the call; `Interrupted`; `Internal` after a panic; `InvalidInput` (HY010) from within
    /// [`RunningCalls::asking`] for this session.
    pub fn call<T>(&self, mark: &CancelMark, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        mark.check()?;
        self.calls.check_not_asking()?;
        let _call = self.calls.enter(mark);
        caught(|| work(&self.connection))
    }

    /// Executes statements as [`Connection::execute_with`] does; `mark` cancels them.
    ///
    /// # Errors
    /// Those of [`Connection::execute_with`] and [`Self::call`].
    pub fn execute(&self, mark: &CancelMark, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        self.call(mark, |connection| connection.execute_with(sql, parameters))
    }

    fn control(&self, sql: &str) -> Result<()> {
        // The end of a transaction is not cancelled together with its work.
        self.execute(&CancelMark::default(), sql, Parameters::None).map(drop)
    }

    fn begin(&self) -> Result<()> {
        self.control(if self.modes.lock().read_only { "BEGIN READ ONLY" } else { "BEGIN" })
    }

    /// Begins a transaction unless there is one, which another thread may just have begun.
    fn begin_if_none(&self) -> Result<()> {
        let _one = self.beginning.lock();
        if self.connection.is_in_transaction() { Ok(()) } else { self.begin() }
    }

    /// Runs one step of the program: in its transaction, which begins here if necessary, or by
    /// itself with autocommit.
    ///
    /// # Errors
    /// Those of the step and of beginning or ending its transaction; `InvalidInput` (HY010) from within
    /// [`RunningCalls::asking`] for this session.
    pub fn step<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // A server's connection would already wait when it is asked for its transaction.
        self.calls.check_not_asking()?;
        if self.connection.is_in_transaction() {
            return work();
        }
        let Modes { autocommit, read_only } = *self.modes.lock();
        match (autocommit, read_only) {
            (true, false) => work(),
            // The result of a query lives on after it.
            (true, true) => self.whole(work),
            (false, _) => {
                self.begin_if_none()?;
                work()
            }
        }
    }

    /// Runs several statements that take effect together or not at all.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn atomically<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let scope = self.begin_together()?;
        let done = work();
        let ended = self.end_together(scope, done.is_ok());
        done.and_then(|value| ended.map(|()| value))
    }

    /// Begins statements that take effect together: in a transaction of their own with autocommit,
    /// else behind a savepoint.
    pub(crate) fn begin_together(&self) -> Result<Together> {
        let in_transaction = self.connection.is_in_transaction();
        if self.modes.lock().autocommit && !in_transaction {
            self.begin()?;
            return Ok(Together::Transaction);
        }
        self.begin_if_none()?;
        self.control(&format!("SAVEPOINT {SAVEPOINT}"))?;
        Ok(Together::Savepoint)
    }

    /// Ends what [`Self::begin_together`] has begun. What has failed has no effect.
    pub(crate) fn end_together(&self, scope: Together, is_good: bool) -> Result<()> {
        let in_transaction = self.connection.is_in_transaction();
        match scope {
            Together::Transaction if is_good => {
                let committed = self.control("COMMIT");
                if committed.is_err() && self.connection.is_in_transaction() {
                    // The error is reported; a broken connection has rolled back.
                    let _rolled_back = self.control("ROLLBACK");
                }
                committed
            }
            Together::Transaction => {
                if in_transaction {
                    let _rolled_back = self.control("ROLLBACK");
                }
                Ok(())
            }
            Together::Savepoint => {
                // After an error of the database the program can only roll back.
                if in_transaction && !self.connection.is_transaction_failed() {
                    if !is_good {
                        self.control(&format!("ROLLBACK TO SAVEPOINT {SAVEPOINT}"))?;
                    }
                    self.control(&format!("RELEASE SAVEPOINT {SAVEPOINT}"))?;
                }
                Ok(())
            }
        }
    }

    /// Runs several queries that read one state of the database.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn consistently<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.connection.is_in_transaction() { work() } else { self.whole(work) }
    }

    /// Runs `work` in a transaction of its own.
    fn whole<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.begin()?;
        let done = work();
        let ended = self.end_together(Together::Transaction, done.is_ok());
        done.and_then(|value| ended.map(|()| value))
    }

    pub fn autocommit(&self) -> bool {
        self.modes.lock().autocommit
    }

    /// Sets autocommit. Turning it on commits the open transaction.
    ///
    /// # Errors
    /// Those of the commit; autocommit stays off then.
    pub fn set_autocommit(&self, autocommit: bool) -> Result<()> {
        if autocommit && !self.autocommit() && self.connection.is_in_transaction() {
            self.control("COMMIT")?;
        }
        self.modes.lock().autocommit = autocommit;
        Ok(())
    }

    pub fn read_only(&self) -> bool {
        self.modes.lock().read_only
    }

    /// Makes the transactions to come read-only, or not.
    ///
    /// # Errors
    /// `TransactionState` while a transaction is open.
    pub fn set_read_only(&self, read_only: bool) -> Result<()> {
        if self.connection.is_in_transaction() {
            return Err(Error::new(
                ErrorKind::TransactionState,
                "a transaction is open; whether the connection is read-only can be set when it is over",
            )
            .with_sqlstate("HY010"));
        }
        self.modes.lock().read_only = read_only;
        Ok(())
    }

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// Those of the commit; `TransactionState` with autocommit.
    pub fn commit(&self) -> Result<()> {
        self.end("COMMIT")
    }

    /// Rolls back the open transaction, if there is one.
    ///
    /// # Errors
    /// Those of the rollback; `TransactionState` with autocommit.
    pub fn roll_back(&self) -> Result<()> {
        self.end("ROLLBACK")
    }

    fn end(&self, how: &str) -> Result<()> {
        match self.connection.is_in_transaction() {
            false if self.autocommit() => Err(Error::new(
                ErrorKind::TransactionState,
                format!("{how}: autocommit is on, so that no transaction is open; turn it off first"),
            )
            .with_sqlstate("HY010")),
            false => Ok(()),
            true => self.control(how),
        }
    }

    /// Ends the session, and rolls back uncommitted changes.
    pub fn close(&self) {
        if self.connection.is_in_transaction() {
            let _gone = self.control("ROLLBACK");
        }
        let _closed = self.connection.close();
    }
}

/// How statements that take effect together are held together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    Transaction,
    Savepoint,
}

/// Turns a panic into an error, for callers that must not unwind.
///
/// # Errors
/// Those of `work`; `Internal` after a panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// Returns the error for a panic of the database or of a binding.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!("a panic, please report it: {}", text.unwrap_or("without a message")))
}
