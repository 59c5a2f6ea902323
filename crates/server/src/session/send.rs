//! Results on their way to the client: descriptors, memory files, or chunks (protocol.md §4, §10).

use super::Session;
use super::chunks::{ChunkSize, THIS_MACHINE, are_enough};
use super::link::Link;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use hypostyle::{LivePlace, NodeFiles, QueryResult, StoredFiles, StoredPieces};
use hypostyle_io::File;
use hypostyle_sync::MutexGuard;
use hypostyle_transport::Pending;
use hypostyle_types::{Error, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{
    Capabilities, Codec, DESCRIPTORS_MAX, EncodeJob, Encoded, EncodedFrame, FRAME_HEADER_BYTES, FileNode,
    FilePiece, FrameHeader, FrameType, OnLink, Place, Region, ResultHeader, StreamEncoder, Writer,
    rows_that_fit,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Results of fewer bytes are not worth a mapping.
const MAPPED_BYTES_MIN: u64 = 64 << 10;

/// Bytes of a memory file: fewer files to open, few enough not to wait long for the first.
const MEMORY_CHUNK_BYTES: usize = 8 << 20;

/// Files that a client takes for one result; a process may have 1024 open where nobody has raised that.
const FILES_MAX: usize = 750;

/// Small frames are put together up to so many bytes.
const TOGETHER_BYTES: usize = 64 << 10;

/// Bytes before codecs of the chunks by which the link is measured: more than the kernel takes at once.
const FIRST_CHUNK_BYTES: usize = 256 << 10;

/// Results of fewer bytes tell nothing of the link: they fit into its buffers.
const LINK_BYTES_MIN: u64 = 4 << 20;

/// How long the arrival of the first chunk is waited for: longer than it takes between machines of one place,
/// and not so long that who is far away would notice.
const FLIGHT_TIME: Duration = Duration::from_millis(3);

/// The part of it that two processes take to wake up and answer, however fast the link.
const LATENCY: Duration = Duration::from_micros(500);

/// The part of the time that is the link's at least: where both have answered at once, nearly nothing would
/// be left, and the link be taken for faster than any is.
const ON_LINK_MIN: u32 = 16;

/// Bytes a second that a link is believed to have at least, by the first chunk alone, which may
/// have waited for a program to look; and while it has not arrived.
const LINK_MIN: f64 = 5e6;
const LINK_UNKNOWN_MIN: f64 = 20e6;

/// The first chunk of a session whose link is not known. What the kernel and routers take at once
/// tells nothing of the link, but when it arrives does.
#[derive(Clone, Copy)]
enum Flight {
    None,
    Begun {
        since: Instant,
        bytes: f64,
    },
    /// `mark` bytes of the connection are to arrive.
    Open {
        since: Instant,
        bytes: f64,
        mark: u64,
    },
    Judged,
}

impl Flight {
    fn is_open(self) -> bool {
        !matches!(self, Self::Judged)
    }

    /// Whether the first chunk is not under way yet.
    fn is_new(self) -> bool {
        matches!(self, Self::None)
    }
}

/// A chunk that is encoded, and the memory file with its payload if it goes into one.
struct Ready {
    encoded: Encoded,
    file: Option<OwnedFd>,
}

/// The files of a stored result, open for a client.
struct Opened {
    skip: u64,
    rows: u64,
    nodes: Vec<FileNode>,
    descriptors: Vec<OwnedFd>,
}

impl Opened {
    /// # Errors
    /// That this process may open no more files.
    fn new(files: &StoredFiles) -> Result<Self> {
        let mut descriptors = Vec::new();
        let nodes = files.columns.iter().flatten().map(|node| file_node(node, &mut descriptors));
        let nodes = nodes.collect::<Result<_>>()?;
        Ok(Self { skip: files.skip, rows: files.rows, nodes, descriptors })
    }
}

/// A stored result that is in files but for some rows.
struct Parted {
    opened: Opened,
    pieces: Vec<FilePiece>,
    others: Vec<RecordBatch>,
}

impl Parted {
    /// # Errors
    /// That this process may open no more files.
    fn new(parted: StoredPieces) -> Result<Self> {
        let piece =
            |place: LivePlace| FilePiece { start: place.start, rows: place.rows, others: place.others };
        let pieces: Vec<_> = parted.pieces.into_iter().map(piece).collect();
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let opened = Opened::new(&StoredFiles { skip: 0, rows, columns: parted.files })?;
        Ok(Self { opened, pieces, others: parted.others })
    }
}

/// How the rows of a result were sent.
enum Sent {
    Chunks,
    /// So many rows in files.
    Files(u64),
    /// So many rows in files, and the others in chunks.
    Pieces(u64),
}

/// How a client wants a result.
#[derive(Clone, Copy)]
pub struct Wanted {
    query: u32,
    chunk_bytes: u32,
    descriptors: bool,
    /// The codec, if it is not the session's.
    codec: Option<Codec>,
}

impl From<&wire::Query> for Wanted {
    fn from(query: &wire::Query) -> Self {
        let wire::Query { query, chunk_bytes, descriptors, .. } = *query;
        Self { query, chunk_bytes, descriptors, codec: None }
    }
}

impl From<&wire::Call> for Wanted {
    /// A node that gives rows to another one has queries to compute as well: what it measures is its own
    /// time, and not the link's, and to find out again for each of many short results what pays takes longer
    /// than it saves.
    fn from(call: &wire::Call) -> Self {
        let wire::Call { query, chunk_bytes, .. } = *call;
        Self { query, chunk_bytes, descriptors: false, codec: Some(Codec::Light) }
    }
}

/// A result that is being sent.
struct Sending<'a> {
    session: &'a Session,
    query: u32,
    encoder: StreamEncoder,
    /// Frames that go out with the next ones.
    ready: Vec<u8>,
    /// Chunks that are being encoded, with their bytes before that, and the sum of these.
    encoding: VecDeque<(usize, Pending<Result<Ready>>)>,
    encoding_bytes: usize,
    chunk_size: ChunkSize,
    /// Whether chunks go into memory files.
    in_memory: bool,
    flight: Flight,
    /// The end of sending the last chunk.
    last: Instant,
}

impl Session {
    pub(super) fn send(&self, wanted: Wanted, result: &QueryResult, started: Instant) -> Result<()> {
        let Wanted { query, chunk_bytes, descriptors, codec } = wanted;
        let codec = codec.map_or_else(|| self.codec(), Ok)?;
        let schema = wire::canonical_schema(&result.schema())?;
        let descriptors = descriptors && self.capabilities.has(Capabilities::DESCRIPTORS);
        let files = if descriptors && self.may_open_files { mapped_files(result)? } else { None };
        let files = files.map(|files| Opened::new(&files)).transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "stored columns go as bytes");
            None
        });
        let may_have_pieces =
            descriptors && self.may_open_files && self.capabilities.has(Capabilities::PIECES);
        let parted = if may_have_pieces && files.is_none() { parted(result)? } else { None };
        let execute = started.elapsed();
        let chunk_size = ChunkSize::new(chunk_bytes, self.frame_bytes_max, schema.fields().len());
        let header = ResultHeader {
            query,
            is_query: result.is_query(),
            rows: result.known_row_count().filter(|_| result.is_query()),
            bytes: result.stored_bytes(),
            schema: schema.clone(),
        };
        let mut sending = Sending {
            session: self,
            query,
            encoder: StreamEncoder::new(query, schema, self.codecs, codec, self.pool.threads())
                .on_this_machine(self.is_direct)
                .with_link(self.link_speed.get()),
            ready: header.frame(),
            encoding: VecDeque::new(),
            encoding_bytes: 0,
            chunk_size,
            in_memory: descriptors,
            flight: match self.is_direct || self.link_speed.get().is_some() {
                true => Flight::Judged,
                false => Flight::None,
            },
            last: Instant::now(),
        };
        let sent = match (files, parted) {
            (Some(files), _) => Sent::Files(sending.files(&files)?),
            (None, Some(parted)) => Sent::Pieces(sending.pieces(parted)?),
            (None, None) => {
                if result.is_query() {
                    sending.rows(result)?;
                }
                Sent::Chunks
            }
        };
        sending.done(result, sent, execute)
    }

    pub(super) fn codec(&self) -> Result<Codec> {
        self.connection.setting(crate::RESULT_CODEC).unwrap_or_default().parse()
    }
}

impl Sending<'_> {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.session.link.lock()
    }

    /// The columns' own files (§10.5, place 2); how many rows.
    fn files(&mut self, files: &Opened) -> Result<u64> {
        let head = wire::write_file_nodes(files.nodes.iter());
        self.columns(files, Place::Columns, files.skip, head)
    }

    /// The columns' own files and other rows (§10.5, place 3); how many rows are in the files.
    fn pieces(&mut self, parted: Parted) -> Result<u64> {
        let Parted { opened, pieces, others } = parted;
        let nodes = wire::write_file_nodes(opened.nodes.iter());
        let rows = self.columns(&opened, Place::Pieces, 0, wire::write_file_pieces(&pieces, &nodes))?;
        self.encoder.expect_rows(others.iter().map(|batch| batch.num_rows() as u64).sum());
        let mut others = others.into_iter();
        self.batches(|| Ok(others.next()), |_| Ok(()))?;
        Ok(rows)
    }

    fn columns(&mut self, files: &Opened, place: Place, skip: u64, head: Vec<u8>) -> Result<u64> {
        self.flush()?;
        let borrowed: Vec<_> = files.descriptors.iter().map(AsFd::as_fd).collect();
        let mut left = borrowed.as_slice();
        while left.len() > DESCRIPTORS_MAX {
            let (ahead, rest) = left.split_at(DESCRIPTORS_MAX);
            let frame = wire::Cancel(self.query).frame(FrameType::Descriptors);
            self.frame_with_descriptors(FrameType::Descriptors, &frame[FRAME_HEADER_BYTES..], ahead)?;
            left = rest;
        }
        let mut body = Writer::default();
        wire::ChunkHeader { query: self.query, place, number: 0, rows: files.rows, checksum: 0, skip, head }
            .write(&mut body);
        self.frame_with_descriptors(FrameType::Chunk, &body.finish(), left)?;
        Ok(files.rows)
    }

    fn frame_with_descriptors(
        &mut self,
        frame_type: FrameType,
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let (length, count) = (body.len() as u32, descriptors.len() as u16);
        let header = FrameHeader { length, frame_type, descriptors: count };
        self.link().send_with_descriptors(&header.encode(), body, descriptors)
    }

    /// Chunks, encoded on all cores while the engine computes the next rows.
    fn rows(&mut self, result: &QueryResult) -> Result<()> {
        if result.is_stored() {
            self.encoder.expect_rows(result.row_count()?);
        }
        let mut position = 0;
        self.batches(
            || result.next_unread(),
            |rows| {
                position += rows;
                result.verify_rows(position - rows..position)
            },
        )
    }

    /// Chunks with the rows of batches; `verify` is told how many of them are read next.
    fn batches(
        &mut self,
        mut next: impl FnMut() -> Result<Option<RecordBatch>>,
        mut verify: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut held: Option<EncodeJob> = None;
        while let Some(batch) = self.link_explained(next())? {
            let mut start = 0;
            while start < batch.num_rows() {
                let is_judged = self.in_memory || !self.flight.is_open();
                if !is_judged {
                    if self.flight.is_new() {
                        // What is sent first is sent for the link to be known.
                        self.finish(held.take())?;
                    }
                    self.judge_link()?;
                }
                let is_first = !is_judged && self.flight.is_new();
                let target = match (self.in_memory, is_first) {
                    (true, _) => MEMORY_CHUNK_BYTES,
                    (false, true) => self.chunk_size.next(None).min(FIRST_CHUNK_BYTES),
                    (false, false) => self.chunk_size.next(self.link_speed()),
                };
                let rows = rows_that_fit(&batch, start, target);
                self.link_explained(verify(rows as u64))?;
                let job = self.encoder.plan(batch.slice(start, rows))?;
                self.chunk_size.add(job.raw_bytes());
                if let Some(job) = held.replace(job) {
                    self.encode(job)?;
                }
                start += rows;
            }
        }
        self.finish(held)
    }

    /// Sends all that is planned; nothing is to be done beside `held`, the last and often the only one.
    fn finish(&mut self, held: Option<EncodeJob>) -> Result<()> {
        while !self.encoding.is_empty() {
            self.send_next()?;
        }
        match held {
            Some(job) => {
                let encoded = encode(job, self.in_memory);
                self.encoded(encoded)
            }
            None => Ok(()),
        }
    }

    fn link_explained<T>(&self, result: Result<T>) -> Result<T> {
        self.link().explained(result)
    }

    /// Has a chunk encoded, and sends those that are.
    fn encode(&mut self, job: EncodeJob) -> Result<()> {
        let (in_memory, bytes) = (self.in_memory, job.raw_bytes());
        self.encoding.push_back((bytes, self.session.pool.run(move || encode(job, in_memory))));
        self.encoding_bytes += bytes;
        while are_enough(self.encoding.len(), self.encoding_bytes, self.session.pool.threads()) {
            self.send_next()?;
        }
        Ok(())
    }

    /// Sends the first chunk of those that are being encoded, if there is one.
    fn send_next(&mut self) -> Result<()> {
        let Some((bytes, pending)) = self.encoding.pop_front() else { return Ok(()) };
        self.encoding_bytes -= bytes;
        self.encoded(pending.wait()?)
    }

    /// Bytes a second of the link, as far as they are known.
    fn link_speed(&self) -> Option<f64> {
        if self.session.is_direct { Some(THIS_MACHINE) } else { self.encoder.link() }
    }

    /// Sends a chunk.
    fn encoded(&mut self, ready: Result<Ready>) -> Result<()> {
        let Ready { encoded, file } = ready?;
        let (before, begin) = (self.link().channel.full(), Instant::now());
        let elsewhere = self.link().channel.sent_elsewhere();
        for frame in &encoded.frames {
            let length = frame.body_bytes();
            if length > self.session.frame_bytes_max as usize {
                return Err(Error::invalid_input(format!(
                    "a row takes {length} bytes, more than the {} that the client accepts",
                    self.session.frame_bytes_max
                ))
                .with_sqlstate("54000"));
            }
            self.pay(length)?;
            match &file {
                Some(file) if frame.frame_type == FrameType::Chunk => self.memory_file(frame, file)?,
                _ => self.frame(frame)?,
            }
        }
        // What goes over another connection is waited for by nobody, and says nothing of the link.
        let is_measured = !self.flight.is_open() && self.link().channel.sent_elsewhere() == elsewhere;
        let elapsed = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        let on_link = is_measured.then(|| {
            let channel = &self.link().channel;
            // The others have carried about as much meanwhile.
            OnLink { elapsed, full: channel.full().since(before).times(channel.connections()) }
        });
        self.encoder.sent(&encoded, on_link);
        if matches!(self.flight, Flight::None) {
            self.flight = Flight::Begun { since: begin, bytes: encoded.body_bytes() as f64 };
        }
        Ok(())
    }

    /// How fast the link can be at most while the client has not got the first chunk, and how fast
    /// it is when it has.
    fn judge_link(&mut self) -> Result<()> {
        if let Flight::Begun { since, bytes } = self.flight {
            self.flush()?;
            let told = self.link().channel.sent_and_acknowledged();
            self.flight = told.map_or(Flight::Judged, |(mark, _)| Flight::Open { since, bytes, mark });
        }
        let Flight::Open { since, bytes, mark } = self.flight else { return Ok(()) };
        let deadline = since + FLIGHT_TIME;
        let arrived = loop {
            let mut link = self.link();
            link.look()?;
            let acknowledged = link.channel.sent_and_acknowledged().is_none_or(|(_, known)| known >= mark);
            let left = deadline.saturating_duration_since(Instant::now());
            if acknowledged || left.is_zero() || !link.channel.is_readable_within(left)? {
                break acknowledged;
            }
        };
        let elapsed = since.elapsed();
        let on_link =
            elapsed.saturating_sub(LATENCY).max(elapsed / ON_LINK_MIN).max(Duration::from_micros(1));
        let seen = bytes / on_link.as_secs_f64();
        self.encoder.set_link(seen.max(if arrived { LINK_MIN } else { LINK_UNKNOWN_MIN }));
        if arrived {
            self.flight = Flight::Judged;
        }
        Ok(())
    }

    /// A chunk whose payload is in a memory file (§10.5, place 1).
    fn memory_file(&mut self, frame: &EncodedFrame, file: &OwnedFd) -> Result<()> {
        self.flush()?;
        self.frame_with_descriptors(frame.frame_type, &frame.head, &[file.as_fd()])
    }

    fn frame(&mut self, frame: &EncodedFrame) -> Result<()> {
        let is_small = frame.body_bytes() < TOGETHER_BYTES;
        let buffers = frame.buffers();
        if is_small {
            buffers.iter().for_each(|buffer| self.ready.extend_from_slice(buffer));
            return if self.ready.len() < TOGETHER_BYTES { Ok(()) } else { self.flush() };
        }
        let ready = Buffer::from_vec(std::mem::take(&mut self.ready));
        self.link().send_buffers([vec![ready], buffers].concat())
    }

    /// What is ready goes out before credit is waited for: the client grants more when it has that.
    fn pay(&mut self, bytes: usize) -> Result<()> {
        if self.link().has_no_credit() {
            self.flush()?;
        }
        self.link().pay(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let ready = Buffer::from_vec(std::mem::take(&mut self.ready));
        self.link().send_buffers(vec![ready])
    }

    fn done(mut self, result: &QueryResult, sent: Sent, execute: Duration) -> Result<()> {
        let end = self.encoder.end();
        let (rows, checksum) = match sent {
            Sent::Chunks => (end.rows, end.checksum),
            Sent::Files(rows) => (rows, wire::stream_checksum([0])),
            Sent::Pieces(rows) => (rows + end.rows, end.checksum),
        };
        if end.sent >= LINK_BYTES_MIN {
            self.session.link_speed.set(self.encoder.link());
        }
        let metrics = &self.session.server.metrics;
        metrics.rows_sent.inc_by(rows);
        let (send, wait) = {
            let link = self.link();
            (link.in_socket, link.for_credit)
        };
        let done = wire::Done {
            query: self.query,
            rows,
            checksum,
            affected: result.rows_affected(),
            transaction: self.session.transaction(),
            times: wire::Times { execute, encode: end.encode, send, wait },
            raw: end.raw,
            sent: end.sent,
            chosen: end.chosen,
        };
        self.ready.extend_from_slice(&done.frame());
        self.flush()
    }
}

fn encode(job: EncodeJob, in_memory: bool) -> Result<Ready> {
    if !in_memory || (job.raw_bytes() as u64) < MAPPED_BYTES_MIN {
        return Ok(Ready { encoded: job.encode()?, file: None });
    }
    let file = match File::unsealed() {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(%error, "a chunk goes as bytes");
            return Ok(Ready { encoded: job.encode()?, file: None });
        }
    };
    let encoded = job.encode_for_memory()?;
    let chunk = encoded.frames.iter().find(|frame| frame.frame_type == FrameType::Chunk);
    let pieces: Vec<&[u8]> = chunk.iter().flat_map(|frame| &frame.payload).map(Buffer::as_slice).collect();
    let file = File::sealed(file, &pieces)?;
    Ok(Ready { encoded, file: Some(file) })
}

/// The files of a stored result, if it is large enough and they are few enough to be passed.
fn mapped_files(result: &QueryResult) -> Result<Option<StoredFiles>> {
    if result.stored_bytes().is_none_or(|bytes| bytes < MAPPED_BYTES_MIN) {
        return Ok(None);
    }
    let files = result.stored_files().transpose()?;
    Ok(files.filter(|files| are_few(&files.columns)))
}

/// The files and other rows of a stored result, if it is large enough and the files are few enough.
fn parted(result: &QueryResult) -> Result<Option<Parted>> {
    if result.stored_bytes().is_none_or(|bytes| bytes < MAPPED_BYTES_MIN) {
        return Ok(None);
    }
    let Some(parted) = result.stored_pieces()?.filter(|parted| are_few(&parted.files)) else {
        return Ok(None);
    };
    Ok(Parted::new(parted).map_or_else(
        |error| {
            tracing::warn!(%error, "stored columns go as bytes");
            None
        },
        Some,
    ))
}

/// Whether a client can take all files of columns.
fn are_few(columns: &[Vec<NodeFiles>]) -> bool {
    let count = |node: &NodeFiles| {
        node.buffers.len() + usize::from(node.validity.is_some()) + 2 * usize::from(node.dictionary.is_some())
    };
    columns.iter().flatten().map(count).sum::<usize>() <= FILES_MAX
}

fn file_node(node: &NodeFiles, descriptors: &mut Vec<OwnedFd>) -> Result<FileNode> {
    let mut region = |buffer: &hypostyle::BufferFile| -> Result<Region> {
        let Some(file) = &buffer.file else { return Ok(Region { length: 0, descriptor: 0 }) };
        descriptors.push(file.read_only_descriptor()?);
        Ok(Region { length: buffer.length, descriptor: (descriptors.len() - 1) as u16 })
    };
    let validity = node.validity.as_ref().map(&mut region).transpose()?;
    let buffers = node.buffers.iter().map(&mut region).collect::<Result<Vec<_>>>()?;
    let dictionary = match &node.dictionary {
        Some(dictionary) => {
            Some((dictionary.values, region(&dictionary.offsets)?, region(&dictionary.heap)?))
        }
        None => None,
    };
    Ok(FileNode { elements: node.elements, nulls: node.nulls, validity, buffers, dictionary })
}
