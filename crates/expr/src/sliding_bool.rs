//! `bool_and` and `bool_or` over sliding frames, from which DataFusion cannot remove rows.

use crate::wrapped::over_frames;
use arrow::array::{Array, ArrayRef, AsArray};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

/// The number of true and of false values in a frame; other values are NULL.
#[derive(Debug)]
pub struct Truths {
    /// The value that decides the result: false for `bool_and`, true for `bool_or`.
    decisive: bool,
    decisive_rows: usize,
    other_rows: usize,
}

impl Truths {
    pub fn all() -> Self {
        Self { decisive: false, decisive_rows: 0, other_rows: 0 }
    }

    pub fn any() -> Self {
        Self { decisive: true, decisive_rows: 0, other_rows: 0 }
    }

    /// Returns the decisive values of a column, and the others.
    fn counts(&self, values: &[ArrayRef]) -> (usize, usize) {
        let values = values[0].as_boolean();
        let (known, trues) = (values.len() - values.null_count(), values.true_count());
        if self.decisive { (trues, known - trues) } else { (known - trues, trues) }
    }
}

impl Accumulator for Truths {
    over_frames!();

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (decisive, other) = self.counts(values);
        self.decisive_rows += decisive;
        self.other_rows += other;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (decisive, other) = self.counts(values);
        self.decisive_rows -= decisive;
        self.other_rows -= other;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = match (self.decisive_rows, self.other_rows) {
            (0, 0) => None,
            (0, _) => Some(!self.decisive),
            _ => Some(self.decisive),
        };
        Ok(ScalarValue::Boolean(value))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
