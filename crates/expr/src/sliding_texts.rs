//! `string_agg` over sliding frames, from which DataFusion cannot remove rows.

use crate::wrapped::over_frames;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::VecDeque;

/// The texts of a frame in the order of its rows, each with what stands before it; other texts are NULL.
#[derive(Debug, Default)]
pub struct Texts {
    rows: VecDeque<(String, String)>,
    bytes: usize,
}

impl Accumulator for Texts {
    over_frames!();

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [texts, separators] = values else { return internal_err!("string_agg() is of two columns") };
        let texts = cast(texts, &DataType::LargeUtf8)?;
        let separators = cast(separators, &DataType::LargeUtf8)?;
        for (text, separator) in texts.as_string::<i64>().iter().zip(separators.as_string::<i64>()) {
            let Some(text) = text else { continue };
            let separator = separator.unwrap_or_default();
            self.bytes += separator.len() + text.len();
            self.rows.push_back((separator.to_string(), text.to_string()));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(texts) = values.first() else { return Ok(()) };
        for _ in texts.logical_null_count()..texts.len() {
            if let Some((separator, text)) = self.rows.pop_front() {
                self.bytes -= separator.len() + text.len();
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows.is_empty() {
            return Ok(ScalarValue::LargeUtf8(None));
        }
        let mut joined = String::with_capacity(self.bytes);
        for (number, (separator, text)) in self.rows.iter().enumerate() {
            if number > 0 {
                joined.push_str(separator);
            }
            joined.push_str(text);
        }
        Ok(ScalarValue::LargeUtf8(Some(joined)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.rows.capacity() * size_of::<(String, String)>()
    }
}
