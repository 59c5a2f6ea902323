//! The state that the handles of one ADBC connection share: the database's connection, and ADBC's
//! rules for transactions.
//!
//! With autocommit off, a transaction begins with the first statement after the last one ended, and
//! not before. Otherwise a program that waits would read old data.

use crate::cancel::{Calls, Mark, locked, poll_hook};
use crate::error::{Result, from_database, internal, invalid_state};
use adbc_core::error::Error;
use hypostyle::{Connection, Parameters, QueryResult};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The transaction options of a program.
#[derive(Clone, Copy, Debug)]
struct Modes {
    autocommit: bool,
    read_only: bool,
}

pub struct Session {
    connection: Connection,
    modes: Mutex<Modes>,
    pub calls: Calls,
}

impl Session {
    pub fn new(connection: Connection) -> Self {
        connection.set_poll(Some(poll_hook()));
        let modes = Modes { autocommit: true, read_only: false };
        Self { connection, modes: Mutex::new(modes), calls: Calls::default() }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Calls the database; `mark` cancels the call.
    pub fn call<T>(&self, mark: &Mark, work: impl FnOnce(&Connection) -> hypostyle::Result<T>) -> Result<T> {
        mark.check()?;
        let _call = self.calls.enter(mark);
        caught(|| work(&self.connection).map_err(from_database))
    }

    pub fn execute(&self, mark: &Mark, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        self.call(mark, |connection| connection.execute_with(sql, parameters))
    }

    fn control(&self, sql: &str) -> Result<()> {
        // The end of a transaction is not cancelled together with its work.
        self.execute(&Mark::default(), sql, Parameters::None).map(drop)
    }

    fn begin(&self) -> Result<()> {
        self.control(if locked(&self.modes).read_only { "BEGIN READ ONLY" } else { "BEGIN" })
    }

    /// Runs one step of the program: in its transaction, which begins here if necessary, or by
    /// itself with autocommit.
    pub fn step<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.connection.is_in_transaction() {
            return work();
        }
        let Modes { autocommit, read_only } = *locked(&self.modes);
        match (autocommit, read_only) {
            (true, false) => work(),
            // The result of a query lives on after it.
            (true, true) => self.whole(work),
            (false, _) => {
                self.begin()?;
                work()
            }
        }
    }

    /// Runs several statements that take effect together or not at all.
    pub fn atomically<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if locked(&self.modes).autocommit && !self.connection.is_in_transaction() {
            return self.whole(work);
        }
        self.step(|| {
            self.control("SAVEPOINT adbc_statement")?;
            let done = work();
            // After an error of the database the program can only roll back.
            if !self.connection.is_transaction_failed() && self.connection.is_in_transaction() {
                if done.is_err() {
                    self.control("ROLLBACK TO SAVEPOINT adbc_statement")?;
                }
                self.control("RELEASE SAVEPOINT adbc_statement")?;
            }
            done
        })
    }

    /// Runs several queries that read one state of the database.
    pub fn consistently<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.connection.is_in_transaction() { work() } else { self.whole(work) }
    }

    /// Runs `work` in a transaction of its own.
    fn whole<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.begin()?;
        let done = work().and_then(|value| self.control("COMMIT").map(|()| value));
        if done.is_err() && self.connection.is_in_transaction() {
            // The error is reported; a broken connection has rolled back.
            let _rolled_back = self.control("ROLLBACK");
        }
        done
    }

    pub fn autocommit(&self) -> bool {
        locked(&self.modes).autocommit
    }

    /// Sets autocommit. Turning it on commits the open transaction.
    pub fn set_autocommit(&self, autocommit: bool) -> Result<()> {
        if autocommit && !self.autocommit() && self.connection.is_in_transaction() {
            self.control("COMMIT")?;
        }
        locked(&self.modes).autocommit = autocommit;
        Ok(())
    }

    pub fn read_only(&self) -> bool {
        locked(&self.modes).read_only
    }

    pub fn set_read_only(&self, read_only: bool) -> Result<()> {
        if self.connection.is_in_transaction() {
            return Err(invalid_state(
                "a transaction is open; whether the connection is read-only can be set when it is over",
            ));
        }
        locked(&self.modes).read_only = read_only;
        Ok(())
    }

    pub fn commit(&self) -> Result<()> {
        self.end("COMMIT")
    }

    pub fn roll_back(&self) -> Result<()> {
        self.end("ROLLBACK")
    }

    fn end(&self, how: &str) -> Result<()> {
        if self.autocommit() {
            return Err(invalid_state(format!(
                "{how}: autocommit is on, so that no transaction is open; turn it off first"
            )));
        }
        if self.connection.is_in_transaction() { self.control(how) } else { Ok(()) }
    }

    /// Ends the session, and rolls back uncommitted changes.
    pub fn close(&self) {
        if self.connection.is_in_transaction() {
            let _gone = self.control("ROLLBACK");
        }
        let _closed = self.connection.close();
    }
}

/// Turns a panic into an error. A panic that reaches the exporter makes every later call of the
/// process fail, and one that reaches a stream ends the process.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// Returns the error for a panic of the database or the driver.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    internal(format!("a panic, please report it: {}", text.unwrap_or("without a message")))
}
