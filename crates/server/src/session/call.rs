//! Calls of other nodes of a cluster (protocol.md §4.6), and what a session's role lets it ask for.

use super::pulse::Pulse;
use super::send::Wanted;
use super::{Session, receive};
use arrow::array::RecordBatchReader;
use hypostyle::CallAnswer;
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Role, check_call_bytes};
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Session {
    /// # Errors
    /// `Denied` for a session that may only call.
    pub(super) fn check_may_state(&self) -> Result<()> {
        match self.role {
            Role::Cluster => {
                let message = "the role cluster is for calls between nodes, and runs no statements; \
                               connect as another user";
                Err(Error::new(ErrorKind::Denied, message))
            }
            _ => Ok(()),
        }
    }

    fn check_may_call(&self) -> Result<()> {
        match self.role {
            Role::Cluster => Ok(()),
            other => {
                let message =
                    format!("calls take the role cluster, and this user has the role {}", other.name());
                Err(Error::new(ErrorKind::Denied, message))
            }
        }
    }

    /// Has a call answered, and sends the answer.
    pub(super) fn call(&mut self, call: &wire::Call) -> Result<()> {
        let started = Instant::now();
        self.kept = None;
        self.check_may_call()?;
        self.server.metrics.statements.inc();
        if self.pulse.is_none() {
            self.pulse = Some(Pulse::begin(&self.link)?);
        }
        let rows = call.rows.as_ref().map(|schema| receive::rows(&self.link, call.query, schema));
        let rows = rows.transpose()?;
        let answered = rows.as_ref().map(receive::Rows::answered).unwrap_or_default();
        let rows = rows.map(|rows| -> Box<dyn RecordBatchReader + Send> { Box::new(rows) });
        self.link.lock().begin_call();
        let answer = self.connection.call(&call.request, rows);
        answered.store(true, Ordering::Release);
        self.link.lock().end_call();
        let answer = self.link.lock().explained(answer)?;
        match answer {
            CallAnswer::Reply(reply) => self.reply(wire::Reply { query: call.query, reply }),
            CallAnswer::Rows(result) => self.send(Wanted::from(call), &result, started),
        }
    }

    fn reply(&self, reply: wire::Reply) -> Result<()> {
        let frame = reply.frame();
        check_call_bytes("reply", reply.reply.len(), frame.len(), self.frame_bytes_max)?;
        self.link.lock().send(&frame)
    }
}
