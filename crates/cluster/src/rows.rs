//! Rows on their way between nodes.

use arrow::array::RecordBatchReader;

/// Rows that are read one batch after the other.
pub type RowReader = Box<dyn RecordBatchReader + Send>;
