//! `bit_and`, `bit_or` and `bit_xor` over sliding frames. DataFusion's `bit_xor` has a value even where only
//! NULLs are left of a frame, and the others do not slide.

use crate::wrapped::over_frames;
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
        let values = bits_of(values)?;
        Ok((values.iter().fold(0, |bits, value| bits ^ value), values.len()))
    }
}

/// Returns the bits of the integers that are not NULL.
fn bits_of(values: &[ArrayRef]) -> Result<Vec<u64>> {
    let values = values.first().ok_or_else(|| internal_datafusion_err!("bits are of one column"))?;
    if *values.data_type() == DataType::UInt64 {
        return Ok(values.as_primitive::<UInt64Type>().iter().flatten().collect());
    }
    let values = cast(values, &DataType::Int64)?;
    Ok(values.as_primitive::<Int64Type>().iter().flatten().map(|value| value as u64).collect())
}

/// Returns bits as an integer of a type, or NULL where there are no rows.
fn integer(bits: u64, rows: usize, gives: &DataType) -> Result<ScalarValue> {
    match (rows, gives) {
        (0, gives) => ScalarValue::try_from(gives),
        (_, DataType::UInt64) => Ok(ScalarValue::from(bits)),
        (_, gives) => ScalarValue::from(bits as i64).cast_to(gives),
    }
}

/// How many integers of a frame have each bit, from which AND and OR of them follow.
#[derive(Debug)]
pub struct CountedBits {
    ones: [usize; 64],
    rows: usize,
    /// Whether all of the integers must have a bit, or one of them.
    of_all: bool,
    gives: DataType,
}

impl CountedBits {
    /// Makes AND of no rows, which gives integers of a type.
    pub fn of_all(gives: DataType) -> Self {
        Self { ones: [0; 64], rows: 0, of_all: true, gives }
    }

    /// Makes OR of no rows.
    pub fn of_any(gives: DataType) -> Self {
        Self { of_all: false, ..Self::of_all(gives) }
    }
}

impl Accumulator for CountedBits {
    over_frames!();

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for bits in bits_of(values)? {
            self.rows += 1;
            self.ones
                .iter_mut()
                .enumerate()
                .for_each(|(place, ones)| *ones += ((bits >> place) & 1) as usize);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for bits in bits_of(values)? {
            self.rows -= 1;
            self.ones
                .iter_mut()
                .enumerate()
                .for_each(|(place, ones)| *ones -= ((bits >> place) & 1) as usize);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let wanted = if self.of_all { self.rows } else { 1 };
        let has = self.ones.iter().enumerate().filter(|(_, ones)| **ones >= wanted);
        integer(has.fold(0_u64, |bits, (place, _)| bits | (1_u64 << place)), self.rows, &self.gives)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

impl Accumulator for ExclusiveOr {
    over_frames!();

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

    fn evaluate(&mut self) -> Result<ScalarValue> {
        integer(self.bits, self.rows, &self.gives)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
