//! Sends rows to the server; they are encoded on all cores while others are being sent.

use crate::link::Link;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use hypostyle_transport::{Frame, Pending, Pool};
use hypostyle_types::{Error, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Codec, EncodeJob, Encoded, EncodedFrame, End, FrameType, StreamEncoder, rows_that_fit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

pub struct Sending {
    query: u32,
    encoder: StreamEncoder,
    /// The last chunk, which is often the only one. No threads are started for it, because there is
    /// no other work beside it.
    held: Option<EncodeJob>,
    encoding: VecDeque<Pending<Result<Encoded>>>,
    pool: Option<Arc<Pool>>,
    /// The time at which the last chunk was sent.
    last: Instant,
    credit: i64,
    /// The answer of a server that needs no more rows.
    answer: Option<Frame>,
}

impl Sending {
    pub fn new(link: &Link, query: u32, schema: SchemaRef) -> Self {
        let codec = if link.channel.socket().is_unix() { Codec::None } else { Codec::Auto };
        let threads = hypostyle_sync::cores();
        Self {
            query,
            encoder: StreamEncoder::new(query, schema, wire::COMPRESSIONS, codec, threads),
            held: None,
            encoding: VecDeque::new(),
            pool: None,
            last: Instant::now(),
            credit: 0,
            answer: None,
        }
    }

    /// # Errors
    /// The error of the server, which has then ended the statement; or an error about rows of this
    /// batch, or of an earlier one, that cannot be sent.
    pub fn batch(&mut self, link: &mut Link, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = rows_that_fit(batch, start, wire::CHUNK_BYTES as usize);
            let job = self.encoder.plan(batch.slice(start, rows))?;
            start += rows;
            if let Some(job) = self.held.replace(job) {
                self.encode(link, job)?;
            }
        }
        Ok(())
    }

    /// Sends the rest, and returns the answer of a server that did not want it any more.
    ///
    /// # Errors
    /// The errors of [`Self::batch`].
    pub fn end(mut self, link: &mut Link) -> Result<Option<Frame>> {
        while let Some(pending) = self.encoding.pop_front() {
            self.encoded(link, &pending.wait()??)?;
        }
        if let Some(job) = self.held.take() {
            self.encoded(link, &job.encode()?)?;
        }
        if self.answer.is_none() {
            let end = self.encoder.end();
            link.send(&End { query: self.query, rows: end.rows, checksum: end.checksum }.frame())?;
        }
        Ok(self.answer)
    }

    /// Says whether the server has answered, and takes no more rows.
    pub fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Starts encoding a chunk, and sends those that are encoded.
    fn encode(&mut self, link: &mut Link, job: EncodeJob) -> Result<()> {
        let pool = match &self.pool {
            Some(pool) => pool,
            None => self.pool.insert(Pool::new()?),
        };
        self.encoding.push_back(pool.run(move || job.encode()));
        let ahead = 2 * pool.threads();
        while self.encoding.len() > ahead {
            if let Some(pending) = self.encoding.pop_front() {
                self.encoded(link, &pending.wait()??)?;
            }
        }
        Ok(())
    }

    /// Sends a chunk.
    fn encoded(&mut self, link: &mut Link, encoded: &Encoded) -> Result<()> {
        let before = link.channel.full();
        for frame in &encoded.frames {
            self.pay(link, frame.body_bytes())?;
            if self.is_answered() {
                return Ok(());
            }
            send_frame(link, frame)?;
        }
        let elapsed = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        let full = link.channel.full().since(before);
        self.encoder.sent(encoded, Some(wire::OnLink { elapsed, full }));
        Ok(())
    }

    fn pay(&mut self, link: &mut Link, bytes: usize) -> Result<()> {
        while !self.is_answered()
            && let Some(frame) = link.try_receive()?
        {
            self.take(link, frame)?;
        }
        while !self.is_answered() && self.credit <= 0 {
            let frame = link.receive(self.query)?;
            self.take(link, frame)?;
        }
        self.credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(())
    }

    fn take(&mut self, link: &mut Link, frame: Frame) -> Result<()> {
        match frame.frame_type {
            FrameType::Credit => {
                let credit = wire::Credit::decode(&frame.body)?;
                self.credit = self.credit.saturating_add_unsigned(credit.bytes);
                Ok(())
            }
            FrameType::Progress => Ok(()),
            FrameType::Error => Err(link.failed(&frame)),
            FrameType::Result | FrameType::Reply => {
                self.answer = Some(frame);
                Ok(())
            }
            other => Err(Error::protocol(format!("a {other:?} frame where credit must be"))),
        }
    }
}

/// Sends all rows of a program, and returns the answer of a server that did not want them all.
///
/// # Errors
/// The error of the server, or of the program's rows. The latter has no effect: the statement is
/// ended.
pub fn send_rows(
    link: &mut Link,
    query: u32,
    schema: SchemaRef,
    data: Box<dyn RecordBatchReader + Send>,
) -> Result<Option<Frame>> {
    let sent = send_all(link, query, schema, data);
    if sent.is_err() {
        // The program knows its own error, not the server's.
        link.abandon(query)?;
    }
    sent
}

fn send_all(
    link: &mut Link,
    query: u32,
    schema: SchemaRef,
    data: Box<dyn RecordBatchReader + Send>,
) -> Result<Option<Frame>> {
    let mut sending = Sending::new(link, query, schema);
    let mut rows = 0;
    for batch in data {
        link.check_interrupt()?;
        let batch = batch.map_err(|error| readable(&error))?;
        sending.batch(link, &batch)?;
        if sending.is_answered() {
            break;
        }
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
    Error::invalid_input(format!("the rows to send cannot be read: {error}"))
}

fn send_frame(link: &mut Link, frame: &EncodedFrame) -> Result<()> {
    let length = frame.body_bytes();
    if length > link.frame_bytes_max as usize {
        return Err(Error::invalid_input(format!(
            "a row takes {length} bytes, more than the {} that the server accepts",
            link.frame_bytes_max
        ))
        .with_sqlstate("54000"));
    }
    link.send_buffers(frame.buffers())
}
