//! Cancelling, as ADBC's handles: the database's marks do it.

use crate::error::Result;
use adbc_core::CancelHandle;
pub use hypostyle::CancelMark as Mark;
use hypostyle::RunningCalls;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Cancels a statement.
pub struct OneStatement(pub Mark);

impl CancelHandle for OneStatement {
    fn try_cancel(&self) -> Result<()> {
        self.0.set();
        Ok(())
    }
}

/// Cancels the calls of a connection that run now, and none that come later.
pub struct WholeConnection(pub RunningCalls);

impl CancelHandle for WholeConnection {
    fn try_cancel(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

/// Locks a mutex. A thread that panicked meanwhile has left nothing half done, because no lock is
/// held over a call of the database.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
