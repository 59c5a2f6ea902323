//! Sends rows to the server; they are encoded on all cores while others are being sent.

use crate::link::Link;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
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
}

impl Sending {
    pub fn new(link: &Link, query: u32, schema: SchemaRef) -> Self {
        let codec = if link.channel.socket().is_unix() { Codec::None } else { Codec::Auto };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            query,
            encoder: StreamEncoder::new(query, schema, wire::COMPRESSIONS, codec, threads),
            held: None,
            encoding: VecDeque::new(),
            pool: None,
            last: Instant::now(),
            credit: 0,
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

    /// Sends the rest.
    ///
    /// # Errors
    /// The errors of [`Self::batch`].
    pub fn end(mut self, link: &mut Link) -> Result<()> {
        while let Some(pending) = self.encoding.pop_front() {
            self.encoded(link, &pending.wait()??)?;
        }
        if let Some(job) = self.held.take() {
            self.encoded(link, &job.encode()?)?;
        }
        let end = self.encoder.end();
        link.send(&End { query: self.query, rows: end.rows, checksum: end.checksum }.frame())
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
            send_frame(link, frame)?;
        }
        let elapsed = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        let full = link.channel.full().since(before);
        self.encoder.sent(encoded, Some(wire::OnLink { elapsed, full }));
        Ok(())
    }

    fn pay(&mut self, link: &mut Link, bytes: usize) -> Result<()> {
        while let Some(frame) = link.try_receive()? {
            self.take(link, &frame)?;
        }
        while self.credit <= 0 {
            let frame = link.receive(self.query)?;
            self.take(link, &frame)?;
        }
        self.credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(())
    }

    fn take(&mut self, link: &mut Link, frame: &Frame) -> Result<()> {
        match frame.frame_type {
            FrameType::Credit => {
                let credit = wire::Credit::decode(&frame.body)?;
                self.credit = self.credit.saturating_add_unsigned(credit.bytes);
                Ok(())
            }
            FrameType::Progress => Ok(()),
            FrameType::Error => Err(link.failed(frame)),
            other => Err(Error::protocol(format!("a {other:?} frame where credit must be"))),
        }
    }
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
