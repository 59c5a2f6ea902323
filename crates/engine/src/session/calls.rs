//! Calls of other nodes of a cluster, which the program around the engine answers.

use super::{Engine, Outcome, Session};
use arrow::record_batch::RecordBatchReader;
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// The answer to a call.
pub enum CallAnswer {
    Reply(Vec<u8>),
    Rows(Outcome),
}

/// Answers the calls of other nodes.
pub trait Calls: Send + Sync {
    /// Answers a call on the thread of its session. Rows that follow the request are read as they
    /// are taken. What is left of them when the answer is given is not sent, so rows of an answer
    /// cannot be computed from it.
    ///
    /// The call is the session's running statement. So it waits by [`Session::wait`] or calls
    /// [`Session::check_interrupt`] from time to time: there it is ended if it is cancelled, if its
    /// caller is gone or if its time is over. Statements of its own need another session.
    ///
    /// # Errors
    /// Those of the call, which its caller gets.
    fn call(
        &self,
        session: &Session,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer>;
}

impl Engine {
    /// Has calls answered, which are refused until then. The engine keeps what answers them, so
    /// that must not keep the engine.
    ///
    /// # Errors
    /// `Internal` the second time.
    pub fn set_calls(&self, calls: Arc<dyn Calls>) -> Result<()> {
        self.calls.set(calls).map_err(|_| Error::internal("the calls of a cluster are answered already"))
    }

    /// # Errors
    /// `Unsupported` if nothing answers calls.
    pub(crate) fn calls(&self) -> Result<Arc<dyn Calls>> {
        let calls = self.calls.get().cloned();
        calls.ok_or_else(|| Error::unsupported("this server is not part of a cluster"))
    }
}
