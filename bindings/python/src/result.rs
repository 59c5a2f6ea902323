//! Results: columns, rows and Arrow streams of one statement.
//!
//! All calls work on the whole, kept result, so that they can be mixed in any order. The only
//! exception is a stream that is asked not to keep its batches.

use crate::capsule;
use crate::column::Column;
use crate::error::to_exception;
use crate::export::object::{Converter, rows_to_list};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use hypostyle::ErrorKind;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::sync::Arc;

/// The number of rows that become Python objects between two checks for signals.
const ROWS_PER_BLOCK: usize = 4096;

#[pyclass(frozen, module = "hypostyle._native")]
pub struct QueryResult {
    inner: Arc<hypostyle::QueryResult>,
    threads: usize,
    position: Mutex<Position>,
}

/// The state of `fetch`.
#[derive(Default)]
struct Position {
    /// The remaining batches of a kept result, last first; `None` before the first fetch.
    kept: Option<Vec<RecordBatch>>,
    batch: Option<RecordBatch>,
    row: usize,
}

impl QueryResult {
    pub fn new(inner: hypostyle::QueryResult, threads: usize) -> Self {
        Self { inner: Arc::new(inner), threads, position: Mutex::default() }
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
        py.detach(|| self.inner.row_count()).map_err(|error| to_exception(py, error))
    }

    fn materialize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.materialize()).map_err(|error| to_exception(py, error))
    }

    /// Returns the next rows as tuples, or all remaining ones when `limit` is `None`. With `keep`
    /// the whole result stays in memory for other calls. Without it each batch is dropped once its
    /// rows are fetched.
    #[pyo3(signature = (limit, keep))]
    fn fetch<'py>(&self, py: Python<'py>, limit: Option<usize>, keep: bool) -> PyResult<Bound<'py, PyList>> {
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
                Ok(Some((batch, start, count)))
            });
            let Some((batch, start, count)) = step.map_err(|error| to_exception(py, error))? else { break };
            if start == 0 {
                converters = None;
            }
            self.verify(py, start, count)?;
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

    /// Returns the rows `start..start + count` of the kept result. Does not move `fetch`.
    fn slice<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Bound<'py, PyList>> {
        let batches = py.detach(|| self.inner.unread_batches()).map_err(|error| to_exception(py, error))?;
        let rows = PyList::empty(py);
        let (mut skip, mut left) = (start, count);
        for batch in batches {
            let first = skip.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - first);
            skip -= first;
            left -= taken;
            if taken > 0 {
                self.verify(py, first, taken)?;
                rows_to_list(&mut Converter::for_batch(py, &batch)?, first..first + taken, &rows)?;
            }
        }
        Ok(rows)
    }

    /// Returns a column as one read-only array, shared with the database and other results.
    fn column(&self, py: Python<'_>, index: usize) -> PyResult<Column> {
        let array = py.detach(|| self.inner.column(index)).map_err(|error| to_exception(py, error))?;
        Ok(self.wrap(index, array))
    }

    /// Returns a column as one array whose memory the caller may write to.
    fn column_private(&self, py: Python<'_>, index: usize) -> PyResult<Column> {
        let array =
            py.detach(|| self.inner.column_private(index)).map_err(|error| to_exception(py, error))?;
        Ok(self.wrap(index, array))
    }

    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::export_schema(py, &self.inner.schema())
    }

    /// Returns an Arrow stream. Without `keep` it runs the statement while it is read, and can be
    /// read once.
    fn stream_capsule<'py>(&self, py: Python<'py>, keep: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let kept = if keep {
            let batches =
                py.detach(|| self.inner.record_batches()).map_err(|error| to_exception(py, error))?;
            Some(batches.into_iter())
        } else {
            None
        };
        capsule::export_stream(py, Box::new(Stream { result: self.inner.clone(), kept }))
    }
}

impl QueryResult {
    /// Verifies rows before they are read here. A stored result is one batch, so its rows are the
    /// batch's.
    fn verify(&self, py: Python<'_>, start: usize, count: usize) -> PyResult<()> {
        let rows = start as u64..(start + count) as u64;
        py.detach(|| self.inner.verify_rows(rows)).map_err(|error| to_exception(py, error))
    }

    fn wrap(&self, index: usize, array: arrow::array::ArrayRef) -> Column {
        Column::of_result(&self.inner, index, array, self.threads)
    }
}

struct Stream {
    result: Arc<hypostyle::QueryResult>,
    kept: Option<std::vec::IntoIter<RecordBatch>>,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.kept {
            Some(batches) => batches.next().map(Ok),
            None => self.result.next_batch().transpose().map(|batch| {
                batch.map_err(|error| {
                    if error.kind() == ErrorKind::Interrupted {
                        capsule::resignal();
                    }
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
