//! The session that the handles of one ADBC connection share, with ADBC's errors.

use crate::cancel::{Mark, WholeConnection};
use crate::error::{Result, from_database};
use adbc_core::error::Error;
use hypostyle::{Connection, DriverSession, Parameters, QueryResult};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub struct Session(Arc<DriverSession>);

impl Session {
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(DriverSession::new(connection)))
    }

    pub fn connection(&self) -> &Connection {
        self.0.connection()
    }

    pub fn driver(&self) -> &Arc<DriverSession> {
        &self.0
    }

    pub fn cancel_handle(&self) -> WholeConnection {
        WholeConnection(self.0.calls().clone())
    }

    /// Calls the database; `mark` cancels the call.
    pub fn call<T>(&self, mark: &Mark, work: impl FnOnce(&Connection) -> hypostyle::Result<T>) -> Result<T> {
        self.0.call(mark, work).map_err(from_database)
    }

    pub fn execute(&self, mark: &Mark, sql: &str, parameters: Parameters) -> Result<QueryResult> {
        self.0.execute(mark, sql, parameters).map_err(from_database)
    }

    /// Runs several statements that take effect together or not at all.
    pub fn atomically<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        carried(work, |work| self.0.atomically(work))
    }

    /// Runs several queries that read one state of the database.
    pub fn consistently<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        carried(work, |work| self.0.consistently(work))
    }

    pub fn autocommit(&self) -> bool {
        self.0.autocommit()
    }

    pub fn set_autocommit(&self, autocommit: bool) -> Result<()> {
        self.0.set_autocommit(autocommit).map_err(from_database)
    }

    pub fn read_only(&self) -> bool {
        self.0.read_only()
    }

    pub fn set_read_only(&self, read_only: bool) -> Result<()> {
        self.0.set_read_only(read_only).map_err(from_database)
    }

    pub fn commit(&self) -> Result<()> {
        self.0.commit().map_err(from_database)
    }

    pub fn roll_back(&self) -> Result<()> {
        self.0.roll_back().map_err(from_database)
    }

    pub fn close(&self) {
        self.0.close();
    }
}

/// Runs work with errors of ADBC within a call that has those of the database.
fn carried<T, Work: FnOnce() -> Result<T>>(
    work: Work,
    call: impl FnOnce(&mut dyn FnMut() -> hypostyle::Result<T>) -> hypostyle::Result<T>,
) -> Result<T> {
    let mut refused = None;
    let mut work = Some(work);
    let mut told = || match work.take().map(|work| work()) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            let message = error.message.clone();
            refused = Some(error);
            Err(hypostyle::Error::internal(message))
        }
        None => Err(hypostyle::Error::internal("work is done once")),
    };
    let done = call(&mut told);
    done.map_err(|error| refused.unwrap_or_else(|| from_database(error)))
}

/// Turns a panic into an error. A panic that reaches the exporter makes every later call of the
/// process fail, and one that reaches a stream ends the process.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// Returns the error for a panic of the database or the driver.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    from_database(hypostyle::panicked(panic))
}
