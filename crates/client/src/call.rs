//! Calls of another node of a cluster (protocol.md §4.6).

use crate::link::Link;
use crate::result::QueryResult;
use crate::sending::send_rows;
use arrow_array::RecordBatchReader;
use hypostyle_transport::Frame;
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Capabilities, Role, check_call_bytes};

/// The answer to a call.
pub enum CallAnswer {
    Reply(Vec<u8>),
    /// Rows, or the end of something that gives none.
    Rows(QueryResult),
}

/// # Errors
/// `Denied` if the session may not call.
pub fn check_granted(link: &Link, role: Role) -> Result<()> {
    if link.capabilities.has(Capabilities::CLUSTER) {
        return Ok(());
    }
    let message = format!(
        "only sessions whose user has the role cluster may call a node, and this one has the role {}",
        role.name()
    );
    Err(Error::new(ErrorKind::Denied, message))
}

/// Sends a call with its rows, and returns the first frame of the answer: `Reply` or `Result`.
///
/// # Errors
/// The error of the node, or of the rows; `54000` for a request that is too long.
pub fn call(
    link: &mut Link,
    call: &wire::Call,
    rows: Option<Box<dyn RecordBatchReader + Send>>,
) -> Result<Frame> {
    let bytes = call.frame();
    if let Err(error) = check_call_bytes("request", call.request.len(), bytes.len(), link.frame_bytes_max) {
        // Nothing was sent.
        link.running = None;
        return Err(error);
    }
    link.send(&bytes)?;
    let early = match (rows, &call.rows) {
        (Some(rows), Some(schema)) => send_rows(link, call.query, schema.clone(), rows)?,
        _ => None,
    };
    match early {
        Some(frame) => Ok(frame),
        None => link.receive_first(call.query),
    }
}
