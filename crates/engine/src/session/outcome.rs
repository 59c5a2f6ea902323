//! What a statement gives.

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use hypostyle_storage::{ColumnData, Snapshot};
use hypostyle_types::Result;
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
