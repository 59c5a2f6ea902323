//! Sends rows from the program to a table of the server (protocol.md §5).

use crate::link::Link;
use crate::sending::send_rows;
use arrow_array::RecordBatchReader;
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
    let mut early = send_rows(link, query, append.schema.clone(), data)?;
    loop {
        let frame = match early.take() {
            Some(frame) => frame,
            None => link.receive(query)?,
        };
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
