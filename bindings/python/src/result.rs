//! Results: columns, rows and Arrow streams of one statement.
//!
//! All calls work on the whole, kept result, so that they can be mixed in any order. The only
//! exception is a stream that is asked not to keep its batches.

use crate::capsule;
use crate::column::{Column, kind_of};
use crate::error::{guarded, panicked, to_exception};
use crate::export::object::{Converter, rows_to_list};
use crate::inherited::Owned;
use crate::turns::{Fetch, Turns};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use hypostyle::Error;
use hypostyle_sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The number of rows that become Python objects between two checks for signals.
const ROWS_PER_BLOCK: usize = 4096;

#[pyclass(frozen, module = "hypostyle._native")]
pub struct QueryResult {
    inner: Arc<Owned<hypostyle::QueryResult>>,
    threads: usize,
    turns: Arc<Turns>,
    position: Mutex<Position>,
    /// The error with which a stream has ended, of which a foreign reader has only the text.
    failure: Arc<Mutex<Option<Error>>>,
}

/// The state of `fetch`.
#[derive(Default)]
struct Position {
    /// The remaining batches of a kept result, last first; `None` before the first fetch.
    kept: Option<Vec<RecordBatch>>,
    batch: Option<RecordBatch>,
    row: usize,
    /// The rows of the batches before.
    before: usize,
}

impl QueryResult {
    pub fn new(inner: hypostyle::QueryResult, threads: usize, turns: Arc<Turns>) -> Self {
        let inner = Arc::new(Owned::new(inner));
        Self { inner, threads, turns, position: Mutex::default(), failure: Arc::default() }
    }

    /// Notes that this thread fetches rows, for `Connection.close()`.
    fn begin(&self, py: Python<'_>) -> PyResult<Fetch> {
        self.inner.check().map_err(|error| to_exception(py, error))?;
        Ok(self.turns.fetch())
    }

    /// Returns the batch with the next row, or `None` at the end.
    fn advance(&self, position: &mut Position, keep: bool) -> hypostyle::Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = &position.batch
                && position.row < batch.num_rows()
            {
                return Ok(Some(batch.clone()));
            }
            position.row = 0;
            position.before += position.batch.as_ref().map_or(0, RecordBatch::num_rows);
            position.batch = if keep || position.kept.is_some() {
                if position.kept.is_none() {
                    let mut batches = self.inner.unread_batches()?;
                    batches.reverse();
                    position.kept = Some(batches);
                }
                position.kept.as_mut().and_then(Vec::pop)
            } else {
                self.inner.next_unread()?
            };
            if position.batch.is_none() {
                return Ok(None);
            }
        }
    }
}

/// The rows, the bytes before and after codecs, the seconds, whether it is a mapping, and
/// `(column, codec, chunks)`.
type Statistics = (u64, u64, u64, [f64; 5], bool, Vec<(u32, String, u64)>);

#[pymethods]
impl QueryResult {
    /// Returns `(name, SQL type, nullable)` for each column.
    fn columns(&self) -> Vec<(String, String, bool)> {
        self.inner
            .columns()
            .iter()
            .map(|column| (column.name.clone(), column.logical_type.to_string(), column.nullable))
            .collect()
    }

    #[getter]
    fn rows_affected(&self) -> Option<u64> {
        self.inner.rows_affected()
    }

    #[getter]
    fn is_query(&self) -> bool {
        self.inner.is_query()
    }

    #[getter]
    fn is_stored(&self) -> bool {
        self.inner.is_stored()
    }

    #[getter]
    fn is_mapped(&self) -> bool {
        self.inner.is_mapped()
    }

    /// Returns the kind of a column's values, by which the Python half chooses a conversion.
    fn kind(&self, index: usize) -> &'static str {
        kind_of(self.inner.schema().field(index))
    }

    /// Returns how the result came from its server. The seconds are those of execute, encode, send,
    /// wait and decode.
    #[getter]
    fn statistics(&self) -> Option<Statistics> {
        let statistics = self.inner.statistics()?;
        let times = statistics.times;
        let seconds = [times.execute, times.encode, times.send, times.wait, statistics.decode];
        let chosen = statistics.chosen.iter().map(|chosen| (chosen.column, chosen.codec(), chosen.chunks));
        Some((
            statistics.rows,
            statistics.raw_bytes,
            statistics.sent_bytes,
            seconds.map(|time| time.as_secs_f64()),
            statistics.mapped,
            chosen.collect(),
        ))
    }

    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    fn row_count(&self, py: Python<'_>) -> PyResult<u64> {
        let _fetch = self.begin(py)?;
        py.detach(|| self.inner.row_count()).map_err(|error| to_exception(py, error))
    }

    fn materialize(&self, py: Python<'_>) -> PyResult<()> {
        let _fetch = self.begin(py)?;
        py.detach(|| self.inner.materialize()).map_err(|error| to_exception(py, error))
    }

    /// Returns the next rows as tuples, or all remaining ones when `limit` is `None`. With `keep`
    /// the whole result stays in memory for other calls. Without it each batch is dropped once its
    /// rows are fetched.
    #[pyo3(signature = (limit, keep))]
    fn fetch<'py>(&self, py: Python<'py>, limit: Option<usize>, keep: bool) -> PyResult<Bound<'py, PyList>> {
        guarded(py, || self.fetch_rows(py, limit, keep))
    }

    /// Returns the rows `start..start + count` of the kept result. Does not move `fetch`.
    fn slice<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Bound<'py, PyList>> {
        guarded(py, || self.slice_rows(py, start, count))
    }

    /// Returns a column as one read-only array, shared with the database and other results.
    fn column(&self, py: Python<'_>, index: usize) -> PyResult<Column> {
        let _fetch = self.begin(py)?;
        guarded(py, || {
            let array = py.detach(|| self.inner.column(index)).map_err(|error| to_exception(py, error))?;
            Ok(self.wrap(index, array))
        })
    }

    /// Joins the batches of all columns, for whoever wants all of them.
    fn join_columns(&self, py: Python<'_>) -> PyResult<()> {
        let _fetch = self.begin(py)?;
        guarded(py, || {
            py.detach(|| self.inner.join_columns(self.threads)).map_err(|error| to_exception(py, error))
        })
    }

    /// Returns a column as one array whose memory the caller may write to.
    fn column_private(&self, py: Python<'_>, index: usize) -> PyResult<Column> {
        let _fetch = self.begin(py)?;
        guarded(py, || {
            let array = py.detach(|| self.inner.column_private(index));
            Ok(self.wrap(index, array.map_err(|error| to_exception(py, error))?))
        })
    }

    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::export_schema(py, &self.inner.schema())
    }

    /// Returns an Arrow stream. Without `keep` it runs the statement while it is read, and can be
    /// read once.
    fn stream_capsule<'py>(&self, py: Python<'py>, keep: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let fetch = self.begin(py)?;
        let kept = if keep {
            let batches =
                py.detach(|| self.inner.record_batches()).map_err(|error| to_exception(py, error))?;
            Some(batches.into_iter())
        } else {
            None
        };
        drop(fetch);
        let stream = Stream {
            result: self.inner.clone(),
            turns: self.turns.clone(),
            kept,
            failure: self.failure.clone(),
        };
        capsule::export_stream(py, Box::new(stream))
    }

    /// Raises the error with which a stream has ended, if one has.
    fn raise_failure(&self, py: Python<'_>) -> PyResult<()> {
        self.failure.lock().take().map_or(Ok(()), |error| Err(to_exception(py, error)))
    }
}

impl QueryResult {
    fn fetch_rows<'py>(
        &self,
        py: Python<'py>,
        limit: Option<usize>,
        keep: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let _fetch = self.begin(py)?;
        let rows = PyList::empty(py);
        let mut left = limit.unwrap_or(usize::MAX);
        let mut converters: Option<Vec<Converter<'py>>> = None;
        while left > 0 {
            let step = py.detach(|| {
                let mut position = self.position.lock();
                let Some(batch) = self.advance(&mut position, keep)? else { return Ok(None) };
                let start = position.row;
                let count = left.min(ROWS_PER_BLOCK).min(batch.num_rows() - start);
                position.row += count;
                Ok(Some((batch, position.before, start, count)))
            });
            let Some((batch, before, start, count)) = step.map_err(|error| to_exception(py, error))? else {
                break;
            };
            if start == 0 {
                converters = None;
            }
            self.verify(py, before + start, count)?;
            let converters = match &mut converters {
                Some(converters) => converters,
                none => none.insert(Converter::for_batch(py, &batch)?),
            };
            rows_to_list(converters, start..start + count, &rows)?;
            left -= count;
            py.check_signals()?;
        }
        Ok(rows)
    }

    fn slice_rows<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Bound<'py, PyList>> {
        let _fetch = self.begin(py)?;
        let batches = py.detach(|| self.inner.unread_batches()).map_err(|error| to_exception(py, error))?;
        let rows = PyList::empty(py);
        let (mut skip, mut left, mut before) = (start, count, 0);
        for batch in batches {
            let first = skip.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - first);
            skip -= first;
            left -= taken;
            if taken > 0 {
                self.verify(py, before + first, taken)?;
                rows_to_list(&mut Converter::for_batch(py, &batch)?, first..first + taken, &rows)?;
            }
            before += batch.num_rows();
        }
        Ok(rows)
    }

    /// Verifies rows of the result before they are read here.
    fn verify(&self, py: Python<'_>, start: usize, count: usize) -> PyResult<()> {
        let rows = start as u64..(start + count) as u64;
        py.detach(|| self.inner.verify_rows(rows)).map_err(|error| to_exception(py, error))
    }

    fn wrap(&self, index: usize, array: arrow::array::ArrayRef) -> Column {
        Column::of_result(&self.inner, index, array, self.threads)
    }
}

struct Stream {
    result: Arc<Owned<hypostyle::QueryResult>>,
    turns: Arc<Turns>,
    kept: Option<std::vec::IntoIter<RecordBatch>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Stream {
    fn compute(&self) -> hypostyle::Result<Option<RecordBatch>> {
        self.result.check()?;
        let _fetch = self.turns.fetch();
        // A panic would pass through the foreign reader, which cannot have one.
        let next = catch_unwind(AssertUnwindSafe(|| self.result.next_batch()));
        next.unwrap_or_else(|panic| Err(panicked(&*panic)))
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.kept {
            Some(batches) => batches.next().map(Ok),
            None => self.compute().transpose().map(|batch| {
                batch.map_err(|error| {
                    *self.failure.lock() = Some(error.clone());
                    ArrowError::ExternalError(Box::new(error))
                })
            }),
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.result.schema()
    }
}
