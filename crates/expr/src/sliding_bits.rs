//! `bit_xor` over sliding frames. DataFusion's has a value even where only NULLs are left of a frame.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

/// The bits of a frame's integers, and how many there are.
#[derive(Debug)]
pub struct ExclusiveOr {
    bits: u64,
    rows: usize,
    gives: DataType,
}

impl ExclusiveOr {
    /// Makes that of no rows, which gives integers of a type.
    pub fn new(gives: DataType) -> Self {
        Self { bits: 0, rows: 0, gives }
    }

    /// Returns the bits of some values, and how many are not NULL.
    fn of(values: &[ArrayRef]) -> Result<(u64, usize)> {
        let values = values.first().ok_or_else(|| internal_datafusion_err!("bits are of one column"))?;
        let bits = match values.data_type() {
            DataType::UInt64 => {
                let values = values.as_primitive::<UInt64Type>().iter().flatten();
                values.fold(0, |bits, value| bits ^ value)
            }
            _ => {
                let values = cast(values, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>().iter().flatten();
                values.fold(0, |bits, value| bits ^ value) as u64
            }
        };
        Ok((bits, values.len() - values.logical_null_count()))
    }
}

impl Accumulator for ExclusiveOr {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (bits, rows) = Self::of(values)?;
        self.bits ^= bits;
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (bits, rows) = Self::of(values)?;
        self.bits ^= bits;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match (self.rows, &self.gives) {
            (0, gives) => ScalarValue::try_from(gives),
            (_, DataType::UInt64) => Ok(ScalarValue::from(self.bits)),
            (_, gives) => ScalarValue::from(self.bits as i64).cast_to(gives),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(internal_datafusion_err!("a frame is not made of parts"))
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(internal_datafusion_err!("a frame is not made of parts"))
    }
}
