//! Results: batches of rows that are decoded while they come.

use crate::connection::Shared;
use crate::incoming::Incoming;
use crate::link::Link;
use crate::query::{Begun, written};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use hypostyle_client::Running;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows of a running statement.
pub(crate) struct Stream {
    running: Running,
    state: Mutex<State>,
}

/// The batches of a statement that writes which are taken at once, so that its end tells how many rows it has
/// written before anybody asks.
const WRITTEN_BATCHES: usize = 4;

struct State {
    /// The batches that were taken because the next statement needed the connection.
    kept: VecDeque<RecordBatch>,
    source: Source,
    /// The rows that the statement has written, once its end has told it.
    affected: Option<u64>,
}

enum Source {
    Coming(Box<Incoming>),
    Ended,
    /// The error of the result. No rows come after it: they would not be the result's.
    Failed(Error),
}

impl Stream {
    fn new(source: Source, running: Running) -> Self {
        Self { running, state: Mutex::new(State { kept: VecDeque::new(), source, affected: None }) }
    }

    /// Waits for the first rows, which may be an error.
    pub fn take_first(&self, link: &mut Link) -> Result<()> {
        let mut state = self.state.lock();
        let mut batch = None;
        while batch.is_none() && state.is_empty() {
            batch = self.step(link, &mut state)?;
        }
        state.kept.extend(batch);
        Ok(())
    }

    /// Takes the rest into memory, because the next statement needs the connection. An error is the
    /// result's.
    pub fn take_all(&self, link: &mut Link) {
        self.take(link, usize::MAX);
    }

    /// Takes the rows that a statement gives of what it has written, if they are few. Its end may be an
    /// error.
    pub fn take_written(&self, link: &mut Link) -> Result<()> {
        self.take(link, WRITTEN_BATCHES);
        match &self.state.lock().source {
            Source::Failed(error) => Err(error.clone()),
            Source::Coming(_) | Source::Ended => Ok(()),
        }
    }

    /// Takes rows into memory until so many batches are there, or the end.
    fn take(&self, link: &mut Link, batches: usize) {
        let mut state = self.state.lock();
        while state.kept.len() < batches && matches!(state.source, Source::Coming(_)) {
            // The state keeps the error.
            if let Ok(Some(batch)) = self.step(link, &mut state) {
                state.kept.push_back(batch);
            }
        }
    }

    /// Takes the next message. Returns a batch when one is full, or the last one.
    fn step(&self, link: &mut Link, state: &mut State) -> Result<Option<RecordBatch>> {
        let stepped = state.step(link, &self.running);
        if let Err(error) = &stepped {
            state.source = Source::Failed(error.clone());
            self.running.fail();
        }
        stepped
    }
}

impl State {
    /// Says whether rows are still to come, and none has.
    fn is_empty(&self) -> bool {
        matches!(&self.source, Source::Coming(incoming) if incoming.is_empty())
    }

    fn step(&mut self, link: &mut Link, running: &Running) -> Result<Option<RecordBatch>> {
        let Source::Coming(incoming) = &mut self.source else { return Ok(None) };
        if link.is_interrupted() {
            // What still comes is of no use, and comes to an end soon.
            let _cancelled = link.finish();
            return Err(Error::interrupted());
        }
        let message = link.receive()?;
        let body = link.stream.body(message);
        match message.kind {
            b'E' => {
                let error = link.failed(message);
                link.fail(error)
            }
            b'Z' => {
                if link.is_interrupted() {
                    return Err(Error::interrupted());
                }
                let last = incoming.finish()?;
                running.receive(last.as_ref().map_or(0, |batch| batch.num_rows() as u64));
                running.end();
                self.source = Source::Ended;
                Ok(last)
            }
            kind => {
                if kind == b'C' {
                    self.affected = written(body);
                }
                let batch = incoming.take(kind, body).map_err(|error| undecoded(link, error))?;
                if let Some(batch) = &batch {
                    running.receive(batch.num_rows() as u64);
                }
                Ok(batch)
            }
        }
    }
}

/// Ends a statement of which rows cannot be decoded, and forgets what was known of types.
fn undecoded(link: &mut Link, error: Error) -> Error {
    link.forget();
    if error.kind() == ErrorKind::Connection {
        // The bytes that follow would be misread.
        let kept: Result<()> = link.keep_protocol(Err(error.clone()));
        return kept.err().unwrap_or(error);
    }
    match link.abandon() {
        Ok(()) => error,
        Err(lost) => lost,
    }
}

/// The result of a statement. Its rows come on request.
pub struct QueryResult {
    shared: Arc<Shared>,
    schema: SchemaRef,
    rows_affected: Option<u64>,
    is_query: bool,
    stream: Arc<Stream>,
}

impl QueryResult {
    pub(crate) fn begin(shared: Arc<Shared>, begun: Begun, running: Running) -> Self {
        let (schema, rows_affected, is_query, source) = match begun {
            Begun::Rows(incoming) => {
                running.expect(None);
                (incoming.schema(), None, true, Source::Coming(incoming))
            }
            Begun::Done(rows) => {
                running.end();
                (Arc::new(Schema::empty()), rows, false, Source::Ended)
            }
        };
        Self { shared, schema, rows_affected, is_query, stream: Arc::new(Stream::new(source, running)) }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the number of rows that the statement has written, as far as it is known: a statement that
    /// also gives rows tells it behind them.
    pub fn rows_affected(&self) -> Option<u64> {
        self.rows_affected.or_else(|| self.stream.state.lock().affected)
    }

    /// Says whether the statement has a result set.
    pub fn is_query(&self) -> bool {
        self.is_query
    }

    /// Returns the next rows, or `None` after the last.
    ///
    /// # Errors
    /// The errors of the statement; `InvalidInput` with the row and the column for a value that no
    /// Arrow type holds; `Interrupted`; `Connection`.
    pub fn next_batch(&self) -> Result<Option<RecordBatch>> {
        if let Some(next) = self.known() {
            return next;
        }
        self.shared.check_process()?;
        let mut link = self.shared.link.lock();
        // Another thread may have taken the rest meanwhile.
        if let Some(next) = self.known() {
            return next;
        }
        let mut state = self.stream.state.lock();
        loop {
            let batch = self.stream.step(&mut link, &mut state)?;
            if batch.is_some() || !matches!(state.source, Source::Coming(_)) {
                return Ok(batch);
            }
        }
    }

    /// Returns what needs no message: a batch that was kept, or the end.
    fn known(&self) -> Option<Result<Option<RecordBatch>>> {
        let mut state = self.stream.state.lock();
        if let Some(batch) = state.kept.pop_front() {
            return Some(Ok(Some(batch)));
        }
        match &state.source {
            Source::Coming(_) => None,
            Source::Ended => Some(Ok(None)),
            Source::Failed(error) => Some(Err(error.clone())),
        }
    }

    /// Returns all rows that were not returned yet.
    ///
    /// # Errors
    /// Those of [`Self::next_batch`].
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    }
}
