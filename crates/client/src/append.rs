//! Rows from the program to a table of the server (protocol.md §5).

use crate::link::{Link, Sending};
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
    let mut sending = Sending::new(link, query, append.schema.clone());
    let mut rows = 0;
    for batch in data {
        let sent = link
            .check_interrupt()
            .and(batch.map_err(|error| readable(&error)))
            .and_then(|batch| sending.batch(link, &batch).map(|()| batch.num_rows() as u64));
        match sent {
            Ok(sent) => rows += sent,
            Err(error) => {
                // The program's own rows failed, so that the append is nothing; of the server's error it knows.
                link.abandon(query)?;
                return Err(error);
            }
        }
        link.meter.computed(rows, None);
    }
    sending.end(link)?;
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

fn readable(error: &ArrowError) -> Error {
    if let ArrowError::ExternalError(inner) = error
        && let Some(own) = inner.downcast_ref::<Error>()
    {
        return own.clone();
    }
    Error::invalid_input(format!("the rows to append cannot be read: {error}"))
}
