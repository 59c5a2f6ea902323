//! The transfer of a result through a socket: one thread creates and sends chunks, another receives
//! and decodes them.

use std::io::{BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use hypostyle_wire::{FRAME_HEADER_BYTES, FrameHeader, FrameType};

use super::Result;
use super::format::Format;
use super::link::{LOCAL, Link, Sent};

const READ_BYTES: usize = 64 << 10;

/// The cost of a transfer.
pub struct Transfer {
    /// The seconds from the query until the last row is there.
    pub seconds: f64,
    /// The bytes that went through the socket.
    pub bytes: u64,
    pub chunks: usize,
    /// The bytes that both ends hold at once, at most: a frame that is sent, a received frame, and
    /// its columns. Columns that are read where they lie in the frame count twice.
    pub buffer_bytes: usize,
}

/// Sends all rows of a batch as chunks, and drops them as they come.
pub fn transfer(
    format: &dyn Format,
    rows: &RecordBatch,
    chunk_bytes: usize,
    link: &Link,
) -> Result<Transfer> {
    let (transfer, received) =
        run(format, rows, chunk_bytes, link, |received: &mut usize, batch| *received += batch.num_rows())?;
    if received != rows.num_rows() {
        return Err(format!("{received} rows came of {}", rows.num_rows()).into());
    }
    Ok(transfer)
}

/// Does the same over loopback, and checks that the received rows are those that were sent.
pub fn verify(format: &dyn Format, rows: &RecordBatch, chunk_bytes: usize) -> Result<Transfer> {
    let (transfer, received) =
        run(format, rows, chunk_bytes, &LOCAL, |received: &mut Vec<RecordBatch>, batch| {
            received.push(batch)
        })?;
    let schema = received.first().map_or_else(|| rows.schema(), RecordBatch::schema);
    if concat_batches(&schema, &received)?.columns() != rows.columns() {
        return Err("the rows that came are not those that were sent".into());
    }
    Ok(transfer)
}

/// Gives each received batch to `take`.
fn run<T: Default>(
    format: &dyn Format,
    rows: &RecordBatch,
    chunk_bytes: usize,
    link: &Link,
    take: impl FnMut(&mut T, RecordBatch),
) -> Result<(Transfer, T)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sending = TcpStream::connect(listener.local_addr()?)?;
    sending.set_nodelay(true)?;
    let (receiving, _) = listener.accept()?;
    let start = Instant::now();
    thread::scope(|scope| {
        let sender = scope.spawn(move || send(format, rows, chunk_bytes, link, sending));
        let received = receive(format, &rows.schema(), receiving, take);
        let seconds = start.elapsed().as_secs_f64();
        let sent = sender.join().map_err(|_| "the sender panicked")?;
        // A receiver that fails makes its sender fail, too. A sender that fails only ends the
        // stream.
        let (result, held_max) = received?;
        let (sent, chunks) = sent?;
        let buffer_bytes = sent.frame_bytes_max + held_max;
        Ok((Transfer { seconds, bytes: sent.bytes, chunks, buffer_bytes }, result))
    })
}

fn send(
    format: &dyn Format,
    rows: &RecordBatch,
    chunk_bytes: usize,
    link: &Link,
    stream: TcpStream,
) -> Result<(Sent, usize)> {
    let mut outgoing = link.open(stream);
    let mut sender = format.sender(&rows.schema(), link)?;
    let (mut start, mut chunks) = (0, 0);
    while start < rows.num_rows() {
        let length = format.chunk_rows(rows, start, chunk_bytes);
        sender.send(rows.slice(start, length), &mut outgoing)?;
        start += length;
        chunks += 1;
    }
    Ok((outgoing.finish()?, chunks))
}

/// Returns the result of `take` for the batches, and the most bytes that a frame and its columns
/// had.
fn receive<T: Default>(
    format: &dyn Format,
    schema: &SchemaRef,
    stream: TcpStream,
    mut take: impl FnMut(&mut T, RecordBatch),
) -> Result<(T, usize)> {
    let mut receiver = format.receiver(schema)?;
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    let (mut result, mut held_max) = (T::default(), 0);
    while let Some((frame_type, body)) = read_frame(&mut stream)? {
        let body_bytes = body.len();
        if let Some(batch) = receiver.receive(frame_type, body)? {
            held_max = held_max.max(body_bytes + column_bytes(&batch)?);
            take(&mut result, batch);
        }
    }
    Ok((result, held_max))
}

/// Returns the next frame, unless the stream has ended.
fn read_frame(stream: &mut impl Read) -> Result<Option<(FrameType, Vec<u8>)>> {
    let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
    stream.take(FRAME_HEADER_BYTES as u64).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let header: [u8; FRAME_HEADER_BYTES] = header.try_into().map_err(|_| "a frame's header is cut")?;
    let header = FrameHeader::decode(&header, u32::MAX)?;
    let mut body = Vec::with_capacity(header.length as usize);
    stream.take(u64::from(header.length)).read_to_end(&mut body)?;
    if body.len() != header.length as usize {
        return Err("a frame's body is cut".into());
    }
    Ok(Some((header.frame_type, body)))
}

fn column_bytes(batch: &RecordBatch) -> Result<usize> {
    let columns = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(columns.sum::<std::result::Result<usize, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design_space::columnar::ColumnWise;
    use crate::design_space::format::{ChunkReceiver, ChunkSender, Messages};
    use crate::design_space::general::General;
    use crate::design_space::lineitem;
    use crate::design_space::link::LAN;
    use crate::design_space::product::Chunks;
    use hypostyle_wire::Codec;

    #[test]
    fn rows_arrive_in_chunks_of_every_size() {
        let rows = lineitem(0.001).unwrap();
        let chapter = Messages { serializer: ColumnWise::CHAPTER, general: General::Snappy };
        let formats: [&dyn Format; 4] =
            [&Chunks(Codec::None), &Chunks(Codec::Light), &Chunks(Codec::Auto), &chapter];
        for format in formats {
            let small = verify(format, &rows, 2 << 10).unwrap();
            let large = verify(format, &rows, 100 << 20).unwrap();
            assert!(small.chunks > 100 && large.chunks == 1, "{} {}", small.chunks, large.chunks);
            assert!(small.buffer_bytes * 20 < large.buffer_bytes);
            assert!(small.bytes > large.bytes);
            let limited = transfer(format, &rows, 2 << 10, &LAN).unwrap();
            assert!(limited.seconds > limited.bytes as f64 / 125e6);
        }
    }

    /// A format that sends as another one does, but whose receiver loses a frame.
    struct Lossy(Chunks);

    impl Format for Lossy {
        fn sender(&self, schema: &SchemaRef, link: &Link) -> Result<Box<dyn ChunkSender + '_>> {
            self.0.sender(schema, link)
        }

        fn receiver(&self, schema: &SchemaRef) -> Result<Box<dyn ChunkReceiver + '_>> {
            Ok(Box::new(LosingReceiver(self.0.receiver(schema)?, 0)))
        }
    }

    struct LosingReceiver<'a>(Box<dyn ChunkReceiver + 'a>, usize);

    impl ChunkReceiver for LosingReceiver<'_> {
        fn receive(&mut self, frame_type: FrameType, body: Vec<u8>) -> Result<Option<RecordBatch>> {
            self.1 += 1;
            let batch = self.0.receive(frame_type, body)?;
            Ok(batch.filter(|_| self.1 != 3))
        }
    }

    #[test]
    fn rows_that_are_lost_are_noticed() {
        let rows = lineitem(0.001).unwrap();
        let lossy = Lossy(Chunks(Codec::None));
        assert!(transfer(&lossy, &rows, 10 << 10, &LOCAL).is_err());
        assert!(verify(&lossy, &rows, 10 << 10).is_err());
    }
}
