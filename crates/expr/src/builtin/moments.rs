//! Aggregates of the moments of numbers: their skewness and kurtosis, as in DuckDB, and linear
//! regression.

use crate::builtin::refused;
use crate::sliding_numbers::{self, Part, Sliding};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    for what in [What::Skewness, What::Kurtosis, What::KurtosisPopulation, What::Determination] {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udaf(AggregateUDF::from(Moments { what, signature }));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Skewness,
    Kurtosis,
    KurtosisPopulation,
    /// The coefficient of determination of a regression, whose arguments are y and x.
    Determination,
}

/// Sums of powers, or of two columns' values, squares and products, and how many there are.
const STATE: [&str; 6] = ["count", "sum", "sum2", "sum3", "sum4", "sum5"];

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moments {
    what: What,
    signature: Signature,
}

impl AggregateUDFImpl for Moments {
    fn name(&self) -> &str {
        match self.what {
            What::Skewness => "skewness",
            What::Kurtosis => "kurtosis",
            What::KurtosisPopulation => "kurtosis_pop",
            What::Determination => "regr_r2",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = if self.what == What::Determination { 2 } else { 1 };
        let are_numbers = types.iter().all(|of| of.is_numeric() || of.is_null());
        match types.len() == wanted && are_numbers {
            true => Ok(vec![DataType::Float64; wanted]),
            false => Err(refused(format!("{}() is of {wanted} number(s)", self.name()))),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sums { what: self.what, sums: [0.0; STATE.len()] }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gives = DataType::Float64;
        let result: fn(&[f64; STATE.len()]) -> Option<f64> = match self.what {
            What::Skewness => |sums| result(What::Skewness, sums),
            What::Kurtosis => |sums| result(What::Kurtosis, sums),
            What::KurtosisPopulation => |sums| result(What::KurtosisPopulation, sums),
            What::Determination => {
                let known = sliding_numbers::accumulator(self.name(), &gives);
                return known.ok_or_else(|| refused(format!("{}() has no frames", self.name())));
            }
        };
        Ok(Box::new(Sliding::new(|value, _| powers(value), result, gives)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |name: &&str| Arc::new(Field::new(format!("{}[{name}]", args.name), DataType::Float64, true));
        Ok(STATE.iter().map(field).collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Sums {
    what: What,
    sums: [f64; STATE.len()],
}

impl Sums {
    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = |values: &ArrayRef| cast(values, &DataType::Float64);
        let first = numbers(&values[0])?;
        let first = first.as_primitive::<Float64Type>();
        if self.what == What::Determination {
            let second = numbers(&values[1])?;
            let pairs = first.iter().zip(second.as_primitive::<Float64Type>());
            for (y, x) in pairs.filter_map(|(y, x)| Some((y?, x?))) {
                self.sums = self.sums.joined([1.0, y, x, y * y, x * x, x * y]);
            }
            return Ok(());
        }
        for value in first.iter().flatten() {
            self.sums = self.sums.joined(powers(value));
        }
        Ok(())
    }
}

impl Part for [f64; STATE.len()] {
    const NONE: Self = [0.0; STATE.len()];

    fn joined(mut self, later: Self) -> Self {
        self.iter_mut().zip(later).for_each(|(sum, by)| *sum += by);
        self
    }
}

fn powers(value: f64) -> [f64; STATE.len()] {
    let square = value * value;
    [1.0, value, square, square * value, square * square, 0.0]
}

fn result(what: What, sums: &[f64; STATE.len()]) -> Option<f64> {
    let [n, sum, squares, cubes, fourths, products] = *sums;
    let mean = sum / n;
    // These are the moments of the population, around the mean.
    let second = squares / n - mean * mean;
    match what {
        What::Determination => {
            let (x, y_squares, x_squares) = (squares, cubes, fourths);
            let of_x = x_squares - x * x / n;
            let of_y = y_squares - sum * sum / n;
            let of_both = products - x * sum / n;
            match n > 0.0 && of_x > 0.0 {
                true if of_y > 0.0 => Some(of_both * of_both / (of_x * of_y)),
                // A line through equal values explains them completely.
                true => Some(1.0),
                false => None,
            }
        }
        What::Skewness => {
            let third = cubes / n - 3.0 * mean * squares / n + 2.0 * mean.powi(3);
            (n > 2.0).then(|| (n * (n - 1.0)).sqrt() / (n - 2.0) * third / second.powf(1.5))
        }
        What::Kurtosis | What::KurtosisPopulation => {
            let fourth =
                fourths / n - 4.0 * mean * cubes / n + 6.0 * mean * mean * squares / n - 3.0 * mean.powi(4);
            let ratio = fourth / (second * second);
            match what {
                What::Kurtosis if n > 3.0 && second > 0.0 => {
                    Some((n - 1.0) * ((n + 1.0) * ratio - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0)))
                }
                What::KurtosisPopulation if n > 1.0 && second > 0.0 => Some(ratio - 3.0),
                _ => None,
            }
        }
    }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(result(self.what, &self.sums)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.sums.iter().map(|sum| ScalarValue::Float64(Some(*sum))).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (sum, state) in self.sums.iter_mut().zip(states) {
            *sum += state.as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        }
        Ok(())
    }
}
