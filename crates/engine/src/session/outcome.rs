//! What a statement gives, and what is told of it before it runs.

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_storage::{ColumnData, Snapshot};
use hypostyle_types::{LogicalType, Result};
use std::ops::Range;
use std::sync::Arc;

/// Stored columns as a result: nothing was computed, nothing is copied.
#[derive(Debug)]
pub struct StoredResult {
    /// The result's names, with the columns behind them.
    pub columns: Vec<(String, Arc<ColumnData>)>,
    pub offset: u64,
    pub rows: u64,
    /// Keeps the columns' files.
    pub snapshot: Arc<Snapshot>,
}

/// The outcome of a statement.
pub enum Outcome {
    Stored(StoredResult),
    Stream { schema: SchemaRef, stream: SendableRecordBatchStream },
    Batches { schema: SchemaRef, batches: Vec<RecordBatch> },
    Done { rows_affected: Option<u64> },
}

/// The outcome of a statement that gives nothing, not even a number of rows.
pub(crate) const DONE: Outcome = Outcome::Done { rows_affected: None };

impl Outcome {
    /// Returns one batch as a whole result.
    pub(crate) fn batch(batch: RecordBatch) -> Self {
        Self::Batches { schema: batch.schema(), batches: vec![batch] }
    }
}

impl StoredResult {
    /// Returns the Arrow schema of the columns at rest.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<_> =
            self.columns.iter().map(|(name, column)| column.field().with_name(name)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Verifies columns before they are handed out unread: now, or soon, according to the
    /// database's options. `proceed` is called before each block that is verified.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block; the errors of `proceed`.
    pub fn hand_out(&self, columns: Range<usize>, mut proceed: impl FnMut() -> Result<()>) -> Result<()> {
        let rows = self.offset..self.offset + self.rows;
        self.columns[columns]
            .iter()
            .try_for_each(|(_, column)| self.snapshot.hand_out(column, rows.clone(), &mut proceed))
    }

    /// Checks the checksums and the structure of rows of the result, for those who read them here:
    /// a mapping is handed over unread.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.verify_column(column, rows.clone()))
    }

    /// Verifies one column as [`Self::verify_rows`] does.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_column(&self, column: usize, rows: Range<u64>) -> Result<()> {
        let rows = self.offset + rows.start..self.offset + rows.end.min(self.rows);
        self.columns[column].1.verify_rows(rows)
    }
}

/// A column of a result: its name, its type, and whether NULL may be in it.
pub type DescribedColumn = (String, LogicalType, bool);

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Gives {
    Rows(Vec<DescribedColumn>),
    Nothing,
    /// Only running the statement tells.
    Unknown,
}

/// A statement that has not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// `None` where nothing in the statement tells the type.
    pub parameters: Vec<Option<LogicalType>>,
    pub gives: Gives,
    /// The origins of its columns, for a client of PostgreSQL's protocol.
    pub origins: Vec<Option<Origin>>,
}
