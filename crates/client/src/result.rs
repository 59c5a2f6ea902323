//! Results: columns in the server's files, or batches that come on request.

use crate::connection::Shared;
use crate::files::MappedColumns;
use crate::link::Link;
use crate::progress::Running;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat;
use hypostyle_io::File;
use hypostyle_sync::{Mutex, MutexGuard};
use hypostyle_transport::Frame;
use hypostyle_types::{Error, ErrorKind, Result, to_usize};
use hypostyle_wire as wire;
use hypostyle_wire::{
    Chosen, ChunkHeader, DecodeJob, Done, FilePiece, FrameType, Place, ResultHeader, StreamDecoder, Times,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The largest number of descriptors of one result: far more than a server passes, but few enough
/// that the process soon has some again.
const DESCRIPTORS_AHEAD_MAX: usize = 1 << 14;

/// Describes how a result came, for users who ask why it took so long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub rows: u64,
    /// Bytes of the chunks before and after codecs.
    pub raw_bytes: u64,
    pub sent_bytes: u64,
    /// The server's times.
    pub times: Times,
    /// The time that all threads together have spent decoding here.
    pub decode: Duration,
    /// How each column was encoded.
    pub chosen: Vec<Chosen>,
    /// Says whether the result is a mapping of the server's files.
    pub mapped: bool,
}

/// The frames of a running statement.
pub(crate) struct Stream {
    query: u32,
    schema: SchemaRef,
    running: Running,
    state: Mutex<State>,
}

struct State {
    decoder: StreamDecoder,
    /// The chunks that have come and are not decoded.
    jobs: VecDeque<DecodeJob>,
    mapped: Option<Arc<MappedColumns>>,
    /// The parts of a result that is a mapping but for some rows, which come as chunks.
    pieces: Option<Arc<Pieces>>,
    /// The descriptors that have come ahead of their chunk, and the number that was sent.
    ahead: (Vec<OwnedFd>, usize),
    /// Says that descriptors could not be received: the same result must come as chunks.
    again: bool,
    done: Option<Done>,
    failed: Option<Error>,
    /// The bytes that have been received and not been granted again.
    taken: u64,
}

/// A mapping of the server's files, and which of its rows are the result's.
struct Pieces {
    mapped: MappedColumns,
    pieces: Vec<FilePiece>,
    /// The rows of the files and of the chunks.
    rows: (u64, u64),
    /// The columns of the rows of the chunks, if each column is one mapping with them behind the files' rows.
    behind: OnceLock<Vec<ArrayRef>>,
}

impl Pieces {
    /// The piece behind whose rows, which are the last ones of the files, all others come.
    fn only_one(&self) -> Option<FilePiece> {
        match self.pieces.as_slice() {
            [piece] if piece.others > 0 && self.mapped.ends_at(piece.start + piece.rows) => Some(*piece),
            _ => None,
        }
    }
}

impl Stream {
    pub fn new(header: &ResultHeader, running: Running) -> Self {
        if header.is_query {
            running.expect(header.rows);
        }
        Self {
            query: header.query,
            schema: header.schema.clone(),
            running,
            state: Mutex::new(State {
                decoder: StreamDecoder::new(header.query, header.schema.clone()),
                jobs: VecDeque::new(),
                mapped: None,
                pieces: None,
                ahead: (Vec::new(), 0),
                again: false,
                done: None,
                failed: None,
                taken: 0,
            }),
        }
    }

    /// Waits for the first rows, and then takes the rows that have come. The first rows say whether
    /// the result is a mapping. Their receipt also lets the server judge the link, before the
    /// program does anything else.
    pub fn take_first(&self, link: &mut Link) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_open() {
            match link.try_receive()? {
                Some(frame) if frame.frame_type == FrameType::Error => return Err(link.failed(&frame)),
                Some(frame) => self.take(link, &mut state, frame)?,
                None if state.jobs.is_empty() => self.pull(link, &mut state)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Takes the rest into memory, because the next statement needs the connection.
    pub fn take_all(&self, link: &mut Link) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_open() {
            if let Err(error) = self.pull(link, &mut state)
                && error.kind() == ErrorKind::Connection
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the next frame and processes it.
    fn pull(&self, link: &mut Link, state: &mut State) -> Result<()> {
        state.grant(self.query, link)?;
        let result = link.receive(self.query).and_then(|frame| self.take(link, state, frame));
        if let Err(error) = &result {
            state.failed = Some(error.clone());
            self.running.fail();
        }
        result
    }

    fn take(&self, link: &mut Link, state: &mut State, frame: Frame) -> Result<()> {
        let result = self.take_frame(link, state, frame);
        let result = link.keep_error(result);
        if let Err(error) = &result {
            state.failed = Some(error.clone());
        }
        result
    }

    fn take_frame(&self, link: &mut Link, state: &mut State, frame: Frame) -> Result<()> {
        match frame.frame_type {
            FrameType::Progress => link.take_progress(self.query, &frame),
            FrameType::Dictionary => {
                state.taken += frame.body.len() as u64;
                state.decoder.dictionary(frame.body)
            }
            FrameType::Descriptors => {
                state.ahead.0.extend(frame.descriptors);
                state.ahead.1 += frame.descriptors_sent;
                match state.ahead.1 > DESCRIPTORS_AHEAD_MAX {
                    true => Err(Error::protocol("more descriptors come than a result can have")),
                    false => Ok(()),
                }
            }
            FrameType::Chunk => self.take_chunk(state, frame),
            FrameType::Result if state.again => {
                let header = ResultHeader::decode(&frame.body)?;
                if header.query != self.query || header.schema != self.schema {
                    return Err(Error::protocol("the result that was sent again is another one"));
                }
                state.again = false;
                state.decoder = StreamDecoder::new(self.query, self.schema.clone());
                Ok(())
            }
            FrameType::Done => {
                let done = link.done(&frame)?;
                if state.again {
                    link.running = Some(self.query);
                    return link.send(&wire::Cancel(self.query).frame(FrameType::Chunks));
                }
                match (&state.mapped, &state.pieces) {
                    (Some(mapped), _) => check_rows(mapped.rows as u64, done.rows)?,
                    (None, Some(pieces)) => {
                        let (in_files, others) = pieces.rows;
                        state.decoder.end(others, done.checksum)?;
                        check_rows(in_files + others, done.rows)?;
                    }
                    (None, None) => state.decoder.end(done.rows, done.checksum)?,
                }
                self.running.end();
                state.done = Some(done);
                Ok(())
            }
            other => Err(Error::protocol(format!("a {other:?} frame among the rows of a result"))),
        }
    }

    fn take_chunk(&self, state: &mut State, mut frame: Frame) -> Result<()> {
        let (mut descriptors, sent) = std::mem::take(&mut state.ahead);
        descriptors.append(&mut frame.descriptors);
        frame.descriptors = descriptors;
        frame.descriptors_sent += sent;
        if frame.descriptors_sent == 0 {
            state.taken += frame.body.len() as u64;
            if state.again {
                return Ok(());
            }
            let job = state.decoder.chunk(frame.body)?;
            self.running.receive(job.rows() as u64);
            state.jobs.push_back(job);
            return Ok(());
        }
        let (header, _) = ChunkHeader::decode(&frame.body)?;
        if header.query != self.query {
            return Err(Error::protocol("a chunk of another query"));
        }
        let complete = frame.descriptors.len() == frame.descriptors_sent;
        match header.place {
            Place::Columns | Place::Pieces if !complete => state.again = true,
            Place::Columns => {
                let mapped = MappedColumns::new(self.schema.clone(), &header, frame.descriptors)?;
                self.running.receive(mapped.rows as u64);
                state.mapped = Some(Arc::new(mapped));
            }
            Place::Pieces => {
                let (mapped, pieces) =
                    MappedColumns::in_pieces(self.schema.clone(), &header, frame.descriptors)?;
                let others = pieces.iter().map(|piece| piece.others).sum();
                self.running.receive(header.rows);
                state.pieces = Some(Arc::new(Pieces {
                    mapped,
                    pieces,
                    rows: (header.rows, others),
                    behind: OnceLock::new(),
                }));
            }
            Place::MemoryFile if frame.descriptors_sent > 1 => {
                return Err(Error::protocol("a chunk in memory has one file"));
            }
            Place::MemoryFile => {
                let payload = match frame.descriptors.pop() {
                    Some(file) if complete => map_all(file)?,
                    _ => {
                        let message = "this process has no descriptors left to take the result with; \
                                       close files, or raise the limit (ulimit -n)";
                        return Err(Error::new(ErrorKind::OutOfMemory, message).with_sqlstate("53000"));
                    }
                };
                state.taken += (frame.body.len() + payload.len()) as u64;
                let job = state.decoder.mapped_chunk(header, payload)?;
                self.running.receive(job.rows() as u64);
                state.jobs.push_back(job);
            }
            Place::Frame => return Err(Error::protocol("descriptors came with a chunk that needs none")),
        }
        Ok(())
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.done.is_none() && self.failed.is_none()
    }

    /// Lets the server send as many bytes as have been received.
    fn grant(&mut self, query: u32, link: &mut Link) -> Result<()> {
        if self.taken < crate::connection::WINDOW_BYTES / 4 {
            return Ok(());
        }
        let credit = wire::Credit { query, bytes: std::mem::take(&mut self.taken) };
        link.send(&credit.frame())
    }
}

/// Returns the rows of a column that are a piece and the others behind it.
fn rows_of(column: &ArrayRef, piece: &FilePiece) -> ArrayRef {
    column.slice(to_usize(piece.start), to_usize(piece.rows + piece.others))
}

/// Returns a column of batches as one array, without dictionaries: each batch may have one of its own.
fn joined(batches: &[RecordBatch], index: usize) -> Result<ArrayRef> {
    let plain = |batch: &RecordBatch| match batch.column(index).as_any_dictionary_opt() {
        Some(dictionary) => cast(batch.column(index), dictionary.values().data_type()),
        None => Ok(batch.column(index).clone()),
    };
    let parts = batches.iter().map(plain).collect::<std::result::Result<Vec<_>, _>>().map_err(no_fit)?;
    match parts.as_slice() {
        [part] => Ok(part.clone()),
        parts => concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>()).map_err(no_fit),
    }
}

fn no_fit(error: ArrowError) -> Error {
    Error::protocol(format!("the columns do not fit their schema: {error}"))
}

fn check_rows(came: u64, sent: u64) -> Result<()> {
    match came == sent {
        true => Ok(()),
        false => Err(Error::protocol(format!("{came} rows came where {sent} were sent"))),
    }
}

fn map_all(file: OwnedFd) -> Result<Buffer> {
    let file = File::from_descriptor(file, "a result in memory");
    // The file may be unsealed, because the server runs as our own user.
    Ok(Buffer::from(bytes::Bytes::from_owner(file.map(file.length()?)?)))
}

/// The result of a statement.
pub struct QueryResult {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    schema: SchemaRef,
    is_query: bool,
    kept: Mutex<Kept>,
    decode_nanoseconds: AtomicU64,
}

#[derive(Default)]
struct Kept {
    /// All batches, once they have been materialized, and the index of the next one for
    /// `next_batch`.
    batches: Option<Vec<RecordBatch>>,
    next: usize,
    /// Says whether `next_batch` has taken some away.
    streamed: bool,
}

/// The largest number of chunks that become one batch.
const JOINED_MAX: usize = 8;

impl QueryResult {
    pub(crate) fn new(shared: Arc<Shared>, header: ResultHeader, stream: Arc<Stream>) -> Result<Self> {
        let result = Self {
            shared,
            stream,
            schema: header.schema,
            is_query: header.is_query,
            kept: Mutex::default(),
            decode_nanoseconds: AtomicU64::new(0),
        };
        if !header.is_query {
            result.finish()?;
        }
        Ok(result)
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn is_query(&self) -> bool {
        self.is_query
    }

    /// Returns the number of rows that the statement wrote.
    pub fn rows_affected(&self) -> Option<u64> {
        self.stream.state.lock().done.as_ref().and_then(|done| done.affected)
    }

    /// Returns the columns of a result that is a mapping of the server's files.
    pub fn mapped(&self) -> Option<Arc<MappedColumns>> {
        self.stream.state.lock().mapped.clone()
    }

    fn pieces(&self) -> Option<Arc<Pieces>> {
        self.stream.state.lock().pieces.clone()
    }

    /// Checks that rows of a column that lie in the server's files are valid for its type
    /// ([`MappedColumns::verify`]).
    ///
    /// # Errors
    /// `Corrupt`, naming the column.
    pub fn verify(&self, column: usize, rows: Range<u64>) -> Result<()> {
        if let Some(mapped) = self.mapped() {
            return mapped.verify(column, to_usize(rows.start)..to_usize(rows.end));
        }
        let Some(pieces) = self.pieces() else { return Ok(()) };
        let mut first = 0;
        for piece in &pieces.pieces {
            let (start, end) = (rows.start.max(first), rows.end.min(first + piece.rows));
            if start < end {
                let at = |row: u64| to_usize(piece.start + row - first);
                pieces.mapped.verify(column, at(start)..at(end))?;
            }
            first += piece.rows + piece.others;
        }
        Ok(())
    }

    /// Returns the statistics of the result until now.
    pub fn statistics(&self) -> Statistics {
        let state = self.stream.state.lock();
        let done = state.done.clone().unwrap_or_default();
        Statistics {
            rows: done.rows,
            raw_bytes: done.raw,
            sent_bytes: done.sent,
            times: done.times,
            decode: Duration::from_nanos(self.decode_nanoseconds.load(Ordering::Relaxed)),
            chosen: done.chosen,
            mapped: state.mapped.is_some() || state.pieces.is_some(),
        }
    }

    /// Waits for the next chunk that has to be decoded. Returns `None` at the end.
    fn next_job(&self) -> Result<Option<DecodeJob>> {
        if let Some(job) = self.stream.state.lock().jobs.pop_front() {
            return Ok(Some(job));
        }
        loop {
            let open = self.stream.state.lock().is_open();
            if open {
                self.shared.check_process()?;
            }
            // The link is always taken before the stream's state.
            let mut link = open.then(|| self.shared.link.lock());
            let mut state = self.stream.state.lock();
            if let Some(job) = state.jobs.pop_front() {
                return Ok(Some(job));
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            match &mut link {
                Some(link) if state.is_open() => self.stream.pull(link, &mut state)?,
                _ => return Ok(None),
            }
        }
    }

    fn finish(&self) -> Result<()> {
        while self.next_job()?.is_some() {}
        Ok(())
    }

    /// Returns the next rows. A returned batch is not kept, unless the result was materialized.
    ///
    /// # Errors
    /// The errors of the query; `Interrupted`; `Connection` when the connection broke, or when the
    /// rows are not those that were sent.
    pub fn next_batch(&self) -> Result<Option<RecordBatch>> {
        let mut kept = self.kept.lock();
        if self.mapped().is_some() || self.pieces().is_some() {
            self.materialize_locked(&mut kept)?;
        }
        let Kept { batches, next, streamed } = &mut *kept;
        match batches {
            Some(batches) => {
                let batch = batches.get(*next).cloned();
                *next += usize::from(batch.is_some());
                Ok(batch)
            }
            None => {
                *streamed = true;
                let job = self.next_job()?;
                if job.is_none() && self.mapped().is_some() {
                    return Err(Error::internal("a mapping came where chunks were read"));
                }
                job.map(|job| self.decode(vec![job])).transpose()
            }
        }
    }

    /// Decodes one chunk, or several that become one batch.
    fn decode(&self, mut jobs: Vec<DecodeJob>) -> Result<RecordBatch> {
        let begin = Instant::now();
        let batch = match jobs.pop() {
            Some(job) if jobs.is_empty() => job.decode(),
            last => {
                jobs.extend(last);
                DecodeJob::decode_joined(jobs)
            }
        };
        let time = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.decode_nanoseconds.fetch_add(time, Ordering::Relaxed);
        batch
    }

    /// Takes all rows and keeps them. The second call costs nothing.
    ///
    /// # Errors
    /// The errors of the query; `InvalidInput` when `next_batch` has taken rows away.
    pub fn materialize(&self) -> Result<()> {
        self.materialize_locked(&mut self.kept.lock())
    }

    fn materialize_locked(&self, kept: &mut MutexGuard<'_, Kept>) -> Result<()> {
        if kept.batches.is_some() {
            return Ok(());
        }
        if kept.streamed {
            return Err(Error::invalid_input(
                "rows of this result have been streamed away already; run the query again",
            ));
        }
        let batches = match self.mapped() {
            Some(mapped) => vec![self.mapped_batch(&mapped)?],
            None => {
                let batches = self.decode_all()?;
                match self.pieces() {
                    Some(pieces) => match self.extended(&pieces, &batches)? {
                        Some(batch) => vec![batch],
                        None => self.in_order(&pieces, batches)?,
                    },
                    None => batches,
                }
            }
        };
        kept.batches = Some(batches);
        Ok(())
    }

    fn mapped_batch(&self, mapped: &MappedColumns) -> Result<RecordBatch> {
        let columns = (0..self.schema.fields().len()).map(|index| mapped.column(index, false));
        let options = RecordBatchOptions::new().with_row_count(Some(mapped.rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect::<Result<_>>()?, &options)
            .map_err(no_fit)
    }

    /// Returns the rows of the server's files as one batch, with those that came as chunks behind them.
    /// Returns `None` where these lie otherwise, or a column would be copied for it.
    fn extended(&self, pieces: &Pieces, others: &[RecordBatch]) -> Result<Option<RecordBatch>> {
        let Some(piece) = pieces.only_one() else { return Ok(None) };
        if others.iter().map(|batch| batch.num_rows() as u64).sum::<u64>() != piece.others {
            return Err(Error::protocol("rows of a result are missing"));
        }
        let count = self.schema.fields().len();
        let behind = (0..count).map(|index| joined(others, index)).collect::<Result<Vec<_>>>()?;
        let mut columns = Vec::with_capacity(count);
        for (index, behind) in behind.iter().enumerate() {
            match pieces.mapped.column_with(index, behind, false)? {
                Some(column) => columns.push(rows_of(&column, &piece)),
                None => return Ok(None),
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(to_usize(piece.rows + piece.others)));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let batch = batch.map_err(no_fit)?;
        let _known = pieces.behind.set(behind);
        Ok(Some(batch))
    }

    /// Says whether each column is one mapping of the server's files, with the rows behind them that came as
    /// chunks. Takes all of these.
    pub fn is_mapped(&self) -> bool {
        self.mapped().is_some()
            || self.pieces().is_some_and(|pieces| {
                pieces.only_one().is_some() && self.materialize().is_ok() && pieces.behind.get().is_some()
            })
    }

    /// Returns a column over mappings of the server's files, which are copy-on-write when `private`. Returns
    /// `None` where there is no such mapping ([`Self::is_mapped`]).
    ///
    /// # Errors
    /// `Corrupt`, naming the column, when its dictionary is damaged.
    pub fn mapped_column(&self, index: usize, private: bool) -> Result<Option<ArrayRef>> {
        if let Some(mapped) = self.mapped() {
            return mapped.column(index, private).map(Some);
        }
        let Some(pieces) = self.pieces().filter(|_| self.is_mapped()) else { return Ok(None) };
        let (Some(piece), Some(behind)) =
            (pieces.only_one(), pieces.behind.get().and_then(|all| all.get(index)))
        else {
            return Ok(None);
        };
        let column = pieces.mapped.column_with(index, behind, private)?;
        Ok(column.map(|column| rows_of(&column, &piece)))
    }

    /// Returns the rows of the server's files and those that came as chunks, in their order.
    fn in_order(&self, pieces: &Pieces, others: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let whole = self.mapped_batch(&pieces.mapped)?;
        let (mut batches, mut others, mut used) = (Vec::new(), others.into_iter().peekable(), 0);
        for piece in &pieces.pieces {
            if piece.rows > 0 {
                batches.push(whole.slice(to_usize(piece.start), to_usize(piece.rows)));
            }
            let mut left = to_usize(piece.others);
            while left > 0 {
                let batch = others.peek().ok_or_else(|| Error::protocol("rows of a result are missing"))?;
                let taken = left.min(batch.num_rows() - used);
                batches.push(batch.slice(used, taken));
                (left, used) = (left - taken, used + taken);
                if used == batch.num_rows() {
                    others.next();
                    used = 0;
                }
            }
        }
        Ok(batches)
    }

    /// Decodes on all cores while chunks come in.
    fn decode_all(&self) -> Result<Vec<RecordBatch>> {
        let Some(first) = self.next_job()? else {
            let mapped = self.mapped();
            return mapped.map(|mapped| self.mapped_batch(&mapped)).into_iter().collect();
        };
        let Some(second) = self.next_job()? else { return Ok(vec![self.decode(vec![first])?]) };
        let threads = hypostyle_sync::cores();
        let (sender, receiver) = channel::<(usize, Vec<DecodeJob>)>();
        let receiver = Mutex::new(receiver);
        let decode = || {
            let mut decoded = Vec::new();
            loop {
                let next = receiver.lock().recv();
                let Ok((index, jobs)) = next else { return decoded };
                decoded.push((index, self.decode(jobs)));
            }
        };
        let (received, mut decoded) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(decode)).collect();
            let (mut index, mut joined) = (0, vec![first]);
            // The workers wait until the sender is gone.
            let mut feed = |jobs: &mut Vec<DecodeJob>| {
                let _sent = sender.send((index, std::mem::take(jobs)));
                index += 1;
            };
            let mut next = Ok(Some(second));
            let received = loop {
                match next {
                    Ok(Some(job)) => {
                        let joins = joined.last().is_some_and(|last| last.joins(&job));
                        if !joined.is_empty() && (!joins || joined.len() == JOINED_MAX) {
                            feed(&mut joined);
                        }
                        let waits = job.is_short();
                        joined.push(job);
                        if !waits {
                            feed(&mut joined);
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
                next = self.next_job();
            };
            if !joined.is_empty() {
                feed(&mut joined);
            }
            drop(sender);
            let panicked =
                |_| vec![(0, Err(Error::internal("a chunk could not be decoded; please report it")))];
            let decoded: Vec<_> =
                workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(panicked)).collect();
            (received, decoded)
        });
        received?;
        decoded.sort_by_key(|(index, _)| *index);
        decoded.into_iter().map(|(_, batch)| batch).collect()
    }

    /// Returns the number of all rows; materializes the result.
    pub fn row_count(&self) -> Result<u64> {
        if let Some(mapped) = self.mapped() {
            return Ok(mapped.rows as u64);
        }
        Ok(self.record_batches()?.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    /// Returns all rows and materializes the result; a mapping is one batch.
    pub fn record_batches(&self) -> Result<Vec<RecordBatch>> {
        let mut kept = self.kept.lock();
        self.materialize_locked(&mut kept)?;
        Ok(kept.batches.clone().unwrap_or_default())
    }
}

impl Drop for QueryResult {
    /// Lets the server stop, because nobody reads the rest. The next statement skips what has been
    /// sent.
    fn drop(&mut self) {
        if self.shared.check_process().is_ok()
            && self.stream.state.lock().is_open()
            && let Some(mut link) = self.shared.link.try_lock()
            && link.running == Some(self.stream.query)
        {
            let _gone = link.send(&wire::Cancel(self.stream.query).frame(FrameType::Cancel));
        }
    }
}
