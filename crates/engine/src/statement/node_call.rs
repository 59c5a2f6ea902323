//! Runs a call of another node of the cluster as a statement of its session.

use super::for_caller;
use crate::session::{CallAnswer, Session};
use arrow::record_batch::RecordBatchReader;
use hypostyle_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Session {
    /// Has a call answered by what [`Engine::set_calls`](crate::Engine::set_calls) was given.
    ///
    /// # Errors
    /// Those of the call; `Unsupported` if this is no node of a cluster; `Interrupted`.
    pub fn answer_call(
        &self,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let calls = self.engine.calls()?;
        let _running = self.enter();
        self.run.lock().begin(&format!("call of {} bytes", request.len()));
        self.start_counting()?;
        let call = || self.meter.charge(|| calls.call(self, request, rows));
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(CallAnswer::Rows(outcome))) => for_caller(outcome).map(CallAnswer::Rows),
            Ok(answer) => answer,
            Err(_) => Err(Error::internal("the call panicked; please report it")),
        }
    }
}
