//! Results: stored columns that are handed out, or rows that are computed on request.

use crate::ColumnDescription;
use crate::embedded::describe_outcome;
use crate::remote::columns_of;
use arrow::array::ArrayData;
use arrow::array::{Array, ArrayRef, RecordBatch, make_array, new_empty_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use hypostyle_client::Running;
use hypostyle_engine::postgres::Origin;
use hypostyle_engine::{Outcome, Session, StoredPieces, StoredResult};
use hypostyle_storage::NodeFiles;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long handed-out rows are verified between two calls of the poll hook.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of a statement. The rows of a computed result are computed on request. A result that
/// only selects stored columns costs nothing, however many rows it has.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// let result = connection.execute("SELECT * FROM generate_series(1, 20000) AS t (a)")?;
/// let mut rows = 0;
/// while let Some(batch) = result.next_batch()? {
///     rows += batch.num_rows();
/// }
/// assert_eq!(rows, 20_000);
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct QueryResult {
    schema: SchemaRef,
    columns: Vec<ColumnDescription>,
    rows_affected: Option<u64>,
    is_query: bool,
    origins: Vec<Option<Origin>>,
    source: Source,
    /// Columns that were joined ahead of those who ask for them.
    joined: Mutex<Vec<Option<ArrayRef>>>,
}

enum Source {
    /// Rows that lie in this process, that it computes, or that come from PostgreSQL.
    Rows {
        stored: Option<Box<Stored>>,
        rows: Mutex<Rows>,
    },
    Remote(Box<hypostyle_client::QueryResult>),
}

/// Stored columns, and the session that asked for them.
struct Stored {
    result: StoredResult,
    session: Arc<Session>,
}

/// The files of a stored result, each column's in the preorder of its nodes.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// connection.execute("CREATE TABLE t AS SELECT * FROM generate_series(1, 20000) AS t (a)")?;
/// let files = connection.table("t")?.stored_files().transpose()?.expect("a table is stored");
/// assert_eq!((files.rows, files.columns.len()), (20_000, 1));
/// assert_eq!(files.columns[0][0].elements, 20_000);
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredFiles {
    /// The rows at the beginning of the files that are not part of the result.
    pub skip: u64,
    /// The rows of the result.
    pub rows: u64,
    pub columns: Vec<Vec<NodeFiles>>,
}

enum Rows {
    Computed(Computed),
    Kept {
        batches: Vec<RecordBatch>,
        next: usize,
    },
    /// The error of the result. No rows come after it: they would not be the result's.
    Failed(Error),
}

struct Computed {
    producer: Producer,
    taken: bool,
}

/// What gives the rows of a result, batch by batch.
enum Producer {
    Engine {
        session: Arc<Session>,
        rows: hypostyle_engine::Rows,
        running: Running,
        /// Says whether an error aborts the open transaction.
        in_transaction: bool,
    },
    Postgres(Box<hypostyle_postgres::QueryResult>),
}

impl Source {
    fn of(rows: Rows) -> Self {
        Self::Rows { stored: None, rows: Mutex::new(rows) }
    }
}

impl Rows {
    fn of(producer: Producer) -> Self {
        Self::Computed(Computed { producer, taken: false })
    }
}

impl Producer {
    /// Returns the next batch. The waiting thread's poll hook sees the progress and may end the
    /// statement, even if no batch makes the session wait.
    fn next(&self) -> Result<Option<RecordBatch>> {
        let (session, rows, running, in_transaction) = match self {
            Self::Engine { session, rows, running, in_transaction } => {
                (session, rows, running, in_transaction)
            }
            Self::Postgres(result) => return result.next_batch(),
        };
        if running.is_silent()
            && let Err(error) = session.check_interrupt()
        {
            if *in_transaction {
                session.abort_transaction(error.message());
            }
            return Err(error);
        }
        let batch = session.next_batch(rows)?;
        if batch.is_none() {
            running.end();
        }
        Ok(batch)
    }
}

impl QueryResult {
    pub(crate) fn remote(result: hypostyle_client::QueryResult) -> Result<Self> {
        let schema = result.schema();
        Ok(Self {
            columns: columns_of(&schema)?,
            rows_affected: result.rows_affected(),
            is_query: result.is_query(),
            origins: Vec::new(),
            schema,
            source: Source::Remote(Box::new(result)),
            joined: Mutex::default(),
        })
    }

    pub(crate) fn postgres(result: hypostyle_postgres::QueryResult) -> Result<Self> {
        let schema = result.schema();
        Ok(Self {
            columns: columns_of(&schema)?,
            rows_affected: result.rows_affected(),
            is_query: result.is_query(),
            origins: Vec::new(),
            schema,
            source: Source::of(Rows::of(Producer::Postgres(Box::new(result)))),
            joined: Mutex::default(),
        })
    }

    /// Makes a result of rows that are there.
    pub fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        Ok(Self {
            columns: columns_of(&schema)?,
            rows_affected: None,
            is_query: true,
            origins: Vec::new(),
            schema,
            source: Source::of(Rows::Kept { batches, next: 0 }),
            joined: Mutex::default(),
        })
    }

    /// Makes the result of a statement that has written rows and gives none.
    pub fn written(rows: Option<u64>) -> Self {
        Self {
            schema: Arc::new(Schema::empty()),
            columns: Vec::new(),
            rows_affected: rows,
            is_query: false,
            origins: Vec::new(),
            source: Source::of(Rows::Kept { batches: Vec::new(), next: 0 }),
            joined: Mutex::default(),
        }
    }

    pub(crate) fn embedded(session: Arc<Session>, outcome: Outcome, running: Running) -> Result<Self> {
        let columns = describe_outcome(&outcome)?;
        let is_query = !matches!(outcome, Outcome::Done { .. });
        let kept = |batches| {
            running.end();
            Rows::Kept { batches, next: 0 }
        };
        let (schema, rows_affected, stored, rows) = match outcome {
            Outcome::Stored(stored) => {
                let batches = stored.batches()?;
                (stored.schema(), None, Some(stored), kept(batches))
            }
            Outcome::Stream { schema, stream } => {
                let (rows, in_transaction) = (session.rows(stream), session.is_in_transaction());
                let session = session.clone();
                let producer = Producer::Engine { session, rows, running, in_transaction };
                (schema, None, None, Rows::of(producer))
            }
            Outcome::Batches { schema, batches, rows_affected } => {
                (schema, rows_affected, None, kept(batches))
            }
            Outcome::Done { rows_affected } => {
                (Arc::new(Schema::empty()), rows_affected, None, kept(Vec::new()))
            }
        };
        let origins = session.take_origins();
        let stored = stored.map(|result| Box::new(Stored { result, session }));
        let source = Source::Rows { stored, rows: Mutex::new(rows) };
        let joined = Mutex::default();
        Ok(Self { schema, columns, rows_affected, is_query, origins, source, joined })
    }

    pub(crate) fn stored(&self) -> Option<&StoredResult> {
        match &self.source {
            Source::Rows { stored, .. } => stored.as_ref().map(|stored| &stored.result),
            Source::Remote(_) => None,
        }
    }

    /// Returns a column over mappings of a server's files, which are copy-on-write when `private`. Returns
    /// `None` of other results.
    pub(crate) fn mapped_column(&self, index: usize, private: bool) -> Result<Option<ArrayRef>> {
        match &self.source {
            Source::Remote(result) => result.mapped_column(index, private),
            Source::Rows { .. } => Ok(None),
        }
    }

    /// Returns how the result came from its server.
    pub fn statistics(&self) -> Option<hypostyle_client::Statistics> {
        match &self.source {
            Source::Rows { .. } => None,
            Source::Remote(result) => Some(result.statistics()),
        }
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn columns(&self) -> &[ColumnDescription] {
        &self.columns
    }

    /// Returns the tables' columns that the result's columns are, for a session that speaks
    /// PostgreSQL's protocol.
    pub fn origins(&self) -> &[Option<Origin>] {
        &self.origins
    }

    /// Returns the number of rows that INSERT, COPY, CREATE TABLE AS or CALL wrote.
    pub fn rows_affected(&self) -> Option<u64> {
        self.rows_affected
    }

    /// Says whether the statement has a result set.
    pub fn is_query(&self) -> bool {
        self.is_query
    }

    /// Says whether the result is a mapping of stored columns.
    pub fn is_stored(&self) -> bool {
        match &self.source {
            Source::Rows { stored, .. } => stored.is_some(),
            Source::Remote(result) => result.is_mapped(),
        }
    }

    /// Says whether each column of the result is one mapping of stored rows: getting one costs nothing
    /// per row. A stored result from between deleted rows is several, which must be copied to be one.
    pub fn is_mapped(&self) -> bool {
        match &self.source {
            Source::Rows { stored, rows } => {
                stored.is_some() && matches!(&*rows.lock(), Rows::Kept { batches, .. } if batches.len() <= 1)
            }
            Source::Remote(result) => result.is_mapped(),
        }
    }

    /// Returns the next rows. A returned batch is not kept, unless the result was materialized.
    /// Batches of a stored result are verified according to the database's options.
    ///
    /// # Errors
    /// The errors of the query; `Corrupt` with the column and the block; `Interrupted`.
    pub fn next_batch(&self) -> Result<Option<RecordBatch>> {
        self.hand_out(0..self.columns.len())?;
        self.next_unread()
    }

    /// Returns the next rows as [`Self::next_batch`] does, for callers that read a part of the rows
    /// at a time and call [`Self::verify_rows`] before.
    ///
    /// # Errors
    /// The errors of the query; `Interrupted`.
    pub fn next_unread(&self) -> Result<Option<RecordBatch>> {
        let rows = match &self.source {
            Source::Rows { rows, .. } => rows,
            Source::Remote(result) => return result.next_batch(),
        };
        let mut rows = rows.lock();
        let next = match &mut *rows {
            Rows::Kept { batches, next } => {
                let batch = batches.get(*next).cloned();
                *next += usize::from(batch.is_some());
                Ok(batch)
            }
            Rows::Computed(computed) => {
                computed.taken = true;
                computed.producer.next()
            }
            Rows::Failed(error) => return Err(error.clone()),
        };
        next.inspect_err(|error| *rows = Rows::Failed(error.clone()))
    }

    /// Prepares to hand out columns of a stored result.
    pub(crate) fn hand_out(&self, columns: Range<usize>) -> Result<()> {
        match &self.source {
            Source::Rows { stored: Some(stored), .. } => {
                let Stored { result, session } = stored.as_ref();
                // Older interrupts were meant for earlier statements.
                let may_be_interrupted = !session.is_interrupted();
                let mut looked = Instant::now();
                result.hand_out(columns, || {
                    if may_be_interrupted && looked.elapsed() >= POLL_INTERVAL {
                        looked = Instant::now();
                        session.check_interrupt()?;
                    }
                    Ok(())
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks the checksums and the structure of these rows of a stored result. Its arrays are
    /// mappings that nobody has read. Code that reads their values here must check them first, or
    /// it may take damage on disk for values. Computed results were checked while they were
    /// computed.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.verify_column(column, rows.clone()))
    }

    /// Checks one column as [`Self::verify_rows`] does.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block.
    pub fn verify_column(&self, column: usize, rows: Range<u64>) -> Result<()> {
        match &self.source {
            Source::Rows { stored: Some(stored), .. } => stored.result.verify_column(column, rows),
            Source::Rows { .. } => Ok(()),
            // The server checks the checksums of its own files.
            Source::Remote(result) => result.verify(column, rows),
        }
    }

    /// Returns the files of a result that is a mapping of stored columns. Returns `None` for a
    /// computed result, and for rows that are not all in files, one behind the other.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block.
    pub fn stored_files(&self) -> Option<Result<StoredFiles>> {
        let stored = self.stored()?;
        let files = stored.files()?;
        if let Err(error) = self.hand_out(0..self.columns.len()) {
            return Some(Err(error));
        }
        Some(files.map(|(skip, columns)| StoredFiles { skip, rows: stored.rows(), columns }))
    }

    /// Returns where the rows of a stored result lie that are not all in files, one behind the other,
    /// with those that are in none. Returns `None` for other results.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block.
    pub fn stored_pieces(&self) -> Result<Option<StoredPieces>> {
        let Some(stored) = self.stored() else { return Ok(None) };
        let pieces = stored.pieces()?;
        if pieces.is_some() {
            self.hand_out(0..self.columns.len())?;
        }
        Ok(pieces)
    }

    /// Returns the bytes of all rows of a stored result. Returns `None` for a computed result.
    pub fn stored_bytes(&self) -> Option<u64> {
        self.stored().map(StoredResult::bytes)
    }

    /// Computes all rows and keeps them. The second call costs nothing.
    ///
    /// # Errors
    /// The errors of the query, at every call; `InvalidInput` when `next_batch` has taken rows
    /// away.
    pub fn materialize(&self) -> Result<()> {
        let rows = match &self.source {
            Source::Rows { rows, .. } => rows,
            Source::Remote(result) => return result.materialize(),
        };
        let mut rows = rows.lock();
        let computed = match &mut *rows {
            Rows::Computed(computed) => computed,
            Rows::Kept { .. } => return Ok(()),
            Rows::Failed(error) => return Err(error.clone()),
        };
        if computed.taken {
            return Err(Error::invalid_input(
                "rows of this result have been streamed away already; run the query again",
            ));
        }
        computed.taken = true;
        let mut batches = Vec::new();
        loop {
            match computed.producer.next() {
                Ok(Some(batch)) if batch.num_rows() > 0 => batches.push(batch),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    *rows = Rows::Failed(error.clone());
                    return Err(error);
                }
            }
        }
        *rows = Rows::Kept { batches, next: 0 };
        Ok(())
    }

    /// Returns the number of all rows, if a database in this process knows it before they are
    /// computed.
    pub fn known_row_count(&self) -> Option<u64> {
        match (&self.source, self.stored()) {
            (Source::Remote(_), _) => None,
            (_, Some(stored)) => Some(stored.rows()),
            (Source::Rows { rows, .. }, None) => match &*rows.lock() {
                Rows::Kept { batches, .. } => Some(row_count_of(batches)),
                Rows::Computed(_) | Rows::Failed(_) => None,
            },
        }
    }

    /// Returns the number of all rows; materializes the result.
    pub fn row_count(&self) -> Result<u64> {
        match (&self.source, self.stored()) {
            (Source::Remote(result), _) => result.row_count(),
            (_, Some(stored)) => Ok(stored.rows()),
            (_, None) => Ok(row_count_of(&self.unread_batches()?)),
        }
    }

    /// Returns all rows and materializes the result. A stored result is one batch over its
    /// mappings, or several if deleted rows lie between them, verified according to the database's
    /// options.
    ///
    /// # Errors
    /// The errors of the query; `Corrupt` with the column and the block.
    pub fn record_batches(&self) -> Result<Vec<RecordBatch>> {
        self.hand_out(0..self.columns.len())?;
        self.unread_batches()
    }

    /// Returns all rows as [`Self::record_batches`] does, for callers that read a part of the rows
    /// at a time and call [`Self::verify_rows`] before.
    ///
    /// # Errors
    /// The errors of the query.
    pub fn unread_batches(&self) -> Result<Vec<RecordBatch>> {
        let rows = match &self.source {
            Source::Rows { rows, .. } => rows,
            Source::Remote(result) => return result.record_batches(),
        };
        self.materialize()?;
        match &*rows.lock() {
            Rows::Kept { batches, .. } => Ok(batches.clone()),
            Rows::Computed(_) | Rows::Failed(_) => Err(Error::internal("a materialized result without rows")),
        }
    }

    /// Returns one column as one read-only array.
    pub fn column(&self, index: usize) -> Result<ArrayRef> {
        self.joined(index).map(|(array, _)| array)
    }

    /// Joins the batches of all columns on several threads, for callers who want most of them: the next who
    /// asks for a column gets what was joined. A result that is one batch already costs nothing.
    ///
    /// # Errors
    /// The errors of the query; `Corrupt` with the column and the block.
    pub fn join_columns(&self, threads: usize) -> Result<()> {
        self.hand_out(0..self.columns.len())?;
        let batches = self.unread_batches()?;
        if batches.len() < 2 {
            return Ok(());
        }
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let joined = Mutex::new(vec![None; self.columns.len()]);
        let join = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.columns.len() || failed.lock().is_some() {
                    return;
                }
                match self.joined_of(&batches, index) {
                    Ok((column, _)) => joined.lock()[index] = Some(column),
                    Err(error) => *failed.lock() = Some(error),
                }
            }
        };
        std::thread::scope(|scope| {
            let others = threads.min(self.columns.len()).saturating_sub(1);
            // Where there are no more threads, this one joins all.
            let spawn = |_| Builder::new().name("hypostyle-join".into()).spawn_scoped(scope, join);
            let _workers: Vec<_> = (0..others).map(spawn).collect();
            join();
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        *self.joined.lock() = joined.into_inner();
        Ok(())
    }

    /// Returns one column, and whether it was concatenated from several batches.
    fn joined(&self, index: usize) -> Result<(ArrayRef, bool)> {
        self.check_index(index)?;
        if let Some(joined) = self.joined.lock().get_mut(index).and_then(Option::take) {
            return Ok((joined, true));
        }
        self.hand_out(index..index + 1)?;
        self.joined_of(&self.unread_batches()?, index)
    }

    fn joined_of(&self, batches: &[RecordBatch], index: usize) -> Result<(ArrayRef, bool)> {
        if let Some(stored) = self.stored()
            && batches.len() > 1
        {
            return Ok((stored.private_column(index)?, true));
        }
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        match arrays.as_slice() {
            [] => Ok((new_empty_array(self.schema.field(index).data_type()), false)),
            [_] => Ok((batches[0].column(index).clone(), false)),
            many => {
                let joined = concat(many);
                let refused = |error| Error::invalid_input(format!("cannot join the column: {error}"));
                Ok((joined.map_err(refused)?, true))
            }
        }
    }

    /// Returns one column as one array whose buffers belong to the caller, who may write into them.
    /// A stored column is a new copy-on-write mapping, however many rows it has. A computed column
    /// is a copy.
    pub fn column_private(&self, index: usize) -> Result<ArrayRef> {
        self.check_index(index)?;
        if let Some(column) = self.mapped_column(index, true)? {
            return Ok(column);
        }
        if let Some(stored) = self.stored().filter(|_| !self.is_joined(index)) {
            self.hand_out(index..index + 1)?;
            return stored.private_column(index);
        }
        let (array, is_joined) = self.joined(index)?;
        // A concatenated array belongs to the caller alone, except for what the batches share. A stored one
        // always does.
        match is_joined && (self.stored().is_some() || is_joined_by_copying(array.data_type())) {
            true => Ok(array),
            false => Ok(make_array(copied(&array.to_data())?)),
        }
    }

    fn is_joined(&self, index: usize) -> bool {
        self.joined.lock().get(index).is_some_and(Option::is_some)
    }

    pub(crate) fn check_index(&self, index: usize) -> Result<()> {
        if index >= self.columns.len() {
            return Err(Error::invalid_input(format!(
                "no column {index}: the result has {} columns",
                self.columns.len()
            )));
        }
        Ok(())
    }
}

fn row_count_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Says whether concatenating arrays of a type copies all buffers; dictionaries and views share
/// some.
fn is_joined_by_copying(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(data_type, DataType::Boolean | DataType::LargeUtf8 | DataType::LargeBinary)
}

/// Returns the same array over new buffers.
fn copied(data: &ArrayData) -> Result<ArrayData> {
    let copy = |buffer: &Buffer| Buffer::from(buffer.as_slice());
    let nulls = data.nulls().map(|nulls| {
        NullBuffer::new(arrow::buffer::BooleanBuffer::new(copy(nulls.buffer()), nulls.offset(), nulls.len()))
    });
    let children = data.child_data().iter().map(copied).collect::<Result<_>>()?;
    let builder = data
        .clone()
        .into_builder()
        .buffers(data.buffers().iter().map(copy).collect())
        .nulls(nulls)
        .child_data(children);
    builder.build().map_err(|error| Error::internal(format!("cannot copy a column: {error}")))
}
