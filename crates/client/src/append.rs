//! Sends rows from the program to a table of the server (protocol.md §5).

use crate::link::Link;
use crate::sending::Sending;
use arrow_array::RecordBatchReader;
use arrow_schema::ArrowError;
use hypostyle_types::{Error, Result};
use hypostyle_wire as wire;
use hypostyle_wire::FrameType;

pub fn append(
    link: &mut Link,
    append: &wire::Append,
    data: Box<dyn RecordBatchReader + Send>,
) -> Result<u64> {
    let query = append.query;
    link.send(&append.frame())?;
    if let Err(error) = send(link, append, data) {
        // The program's own rows failed, so the append has no effect. The program knows its error,
        // not the server's.
        link.abandon(query)?;
        return Err(error);
    }
    loop {
        let frame = link.receive(query)?;
        match frame.frame_type {
            FrameType::Credit => {}
            FrameType::Done => {
                let affected = link.done(&frame)?.affected;
                return affected.ok_or_else(|| Error::protocol("an append tells no rows"));
            }
            other => return Err(Error::protocol(format!("a {other:?} frame after an append"))),
        }
    }
}

fn send(link: &mut Link, append: &wire::Append, data: Box<dyn RecordBatchReader + Send>) -> Result<()> {
    let mut sending = Sending::new(link, append.query, append.schema.clone());
    let mut rows = 0;
    for batch in data {
        link.check_interrupt()?;
        let batch = batch.map_err(|error| readable(&error))?;
        sending.batch(link, &batch)?;
        rows += batch.num_rows() as u64;
        link.meter.computed(rows, None);
    }
    sending.end(link)
}

fn readable(error: &ArrowError) -> Error {
    if let ArrowError::ExternalError(inner) = error
        && let Some(own) = inner.downcast_ref::<Error>()
    {
        return own.clone();
    }
    Error::invalid_input(format!("the rows to append cannot be read: {error}"))
}
