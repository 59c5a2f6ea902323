//! Sums of distinct values over frames that leave rows behind: a value counts for as long as one of
//! its rows is in the frame.

use crate::wrapped::over_frames;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Float64Type, i256};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;
use std::collections::{BTreeMap, HashMap};

/// The distinct values of a frame, each with the number of its rows.
#[derive(Debug)]
pub struct DistinctSum {
    /// Integers and decimals, as decimals of this type, and their sum.
    exact: HashMap<i256, usize>,
    sum: i256,
    wide: DataType,
    /// Floating-point numbers by their order.
    floats: BTreeMap<i64, usize>,
    gives: DataType,
}

impl DistinctSum {
    /// Makes the sum of no values, which has a type.
    ///
    /// # Errors
    /// `Unsupported` for types other than those of numbers.
    pub fn of(gives: &DataType) -> Result<Box<dyn Accumulator>> {
        let scale = match gives {
            DataType::Decimal128(_, scale) => *scale,
            of if of.is_integer() || *of == DataType::Float64 => 0,
            other => {
                let message = format!("sum(DISTINCT) of {} is not supported in this frame", type_name(other));
                return Err(external(Error::unsupported(message)));
            }
        };
        Ok(Box::new(Self {
            exact: HashMap::new(),
            sum: i256::ZERO,
            wide: DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale),
            floats: BTreeMap::new(),
            gives: gives.clone(),
        }))
    }

    fn change(&mut self, values: &[ArrayRef], is_new: bool) -> Result<()> {
        let values = values.first().ok_or_else(|| internal_datafusion_err!("a sum is of one column"))?;
        if self.gives == DataType::Float64 {
            let values = cast(values, &DataType::Float64)?;
            for value in values.as_primitive::<Float64Type>().iter().flatten().map(in_order) {
                let rows = self.floats.entry(value).or_default();
                *rows = counted(*rows, is_new);
                if *rows == 0 {
                    self.floats.remove(&value);
                }
            }
            return Ok(());
        }
        let values = cast(values, &self.wide)?;
        for value in values.as_primitive::<Decimal256Type>().iter().flatten() {
            let rows = self.exact.entry(value).or_default();
            let before = *rows;
            *rows = counted(before, is_new);
            match (before, *rows) {
                (0, 1) => self.sum = self.sum.wrapping_add(value),
                (1, 0) => {
                    self.sum = self.sum.wrapping_sub(value);
                    self.exact.remove(&value);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn counted(rows: usize, is_new: bool) -> usize {
    if is_new { rows + 1 } else { rows.saturating_sub(1) }
}

/// Returns the bits of a number as an integer of the same order, with one zero and one NaN.
fn in_order(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn number(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ (((ordered >> 63) as u64) >> 1) as i64) as u64)
}

impl Accumulator for DistinctSum {
    over_frames!();

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, true)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, false)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.exact.is_empty() && self.floats.is_empty() {
            return ScalarValue::try_from(&self.gives);
        }
        if self.gives == DataType::Float64 {
            return Ok(ScalarValue::from(self.floats.keys().map(|value| number(*value)).sum::<f64>()));
        }
        let DataType::Decimal256(digits, scale) = self.wide else {
            return Err(internal_datafusion_err!("a wide sum is of 256 bits"));
        };
        let sum = ScalarValue::Decimal256(Some(self.sum), digits, scale).to_array()?;
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let sum = cast_with_options(&sum, &self.gives, &strict).map_err(|_| {
            let message = format!("a sum is out of range of {}", type_name(&self.gives));
            external(Error::invalid_input(message).with_sqlstate("22003"))
        })?;
        ScalarValue::try_from_array(&sum, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.exact.len() + self.floats.len()) * 2 * size_of::<(i256, usize)>()
    }
}
