//! Aggregates of the moments of numbers: their skewness and kurtosis, as in DuckDB, and linear
//! regression.

use crate::arguments::refused;
use crate::moments;
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

/// How many values there are, their mean, and the sums of the powers of the distances from it.
const STATE: [&str; 5] = ["count", "mean", "squares", "cubes", "fourths"];

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
        if self.what == What::Determination {
            let known = moments::accumulator(self.name(), &DataType::Float64);
            return known.ok_or_else(|| refused(format!("{}() is not known", self.name())));
        }
        Ok(Box::new(Powers { what: self.what, total: Part::NONE }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gives = DataType::Float64;
        let result: fn(&[f64; STATE.len()]) -> Option<f64> = match self.what {
            What::Skewness => |of| result(What::Skewness, of),
            What::Kurtosis => |of| result(What::Kurtosis, of),
            What::KurtosisPopulation => |of| result(What::KurtosisPopulation, of),
            What::Determination => {
                let known = sliding_numbers::accumulator(self.name(), &gives);
                return known.ok_or_else(|| refused(format!("{}() has no frames", self.name())));
            }
        };
        Ok(Box::new(Sliding::new(|value, _| of_value(value), result, gives)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if self.what == What::Determination {
            return Ok(moments::state_fields(args.name));
        }
        let field =
            |name: &&str| Arc::new(Field::new(format!("{}[{name}]", args.name), DataType::Float64, true));
        Ok(STATE.iter().map(field).collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Powers {
    what: What,
    total: [f64; STATE.len()],
}

fn of_value(value: f64) -> [f64; STATE.len()] {
    // The distance from itself is no number where the value is none, or infinite.
    let distance = if value.is_finite() { 0.0 } else { f64::NAN };
    [1.0, value, distance, distance, distance]
}

impl Part for [f64; STATE.len()] {
    const NONE: Self = [0.0; STATE.len()];

    fn joined(self, later: Self) -> Self {
        let ([own, mean, squares, cubes, fourths], [more, mean2, squares2, cubes2, fourths2]) = (self, later);
        if own == 0.0 {
            return later;
        }
        if more == 0.0 {
            return self;
        }
        let count = own + more;
        let distance = mean2 - mean;
        let step = distance / count;
        let square = distance * step * own * more;
        [
            count,
            mean + step * more,
            squares + squares2 + square,
            cubes + cubes2 + square * step * (own - more) + 3.0 * step * (own * squares2 - more * squares),
            fourths
                + fourths2
                + square * step * step * (own * own - own * more + more * more)
                + 6.0 * step * step * (own * own * squares2 + more * more * squares)
                + 4.0 * step * (own * cubes2 - more * cubes),
        ]
    }
}

fn result(what: What, of: &[f64; STATE.len()]) -> Option<f64> {
    let [n, _, squares, cubes, fourths] = *of;
    // Equal values have no shape. What is no number passes.
    if n == 0.0 || squares <= 0.0 {
        return None;
    }
    let second = squares / n;
    match what {
        What::Skewness => {
            (n > 2.0).then(|| (n * (n - 1.0)).sqrt() / (n - 2.0) * (cubes / n) / second.powf(1.5))
        }
        What::Kurtosis if n > 3.0 => {
            let ratio = fourths / n / (second * second);
            Some((n - 1.0) * ((n + 1.0) * ratio - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0)))
        }
        What::KurtosisPopulation if n > 1.0 => Some(fourths / n / (second * second) - 3.0),
        _ => None,
    }
}

impl Accumulator for Powers {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values.first().ok_or_else(|| refused("moments are of one column"))?;
        for value in cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().iter().flatten() {
            self.total = self.total.joined(of_value(value));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(result(self.what, &self.total)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.total.iter().map(|number| ScalarValue::Float64(Some(*number))).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |state| state.len());
        for row in 0..rows {
            let mut part = <[f64; STATE.len()]>::NONE;
            for (number, state) in part.iter_mut().zip(states) {
                *number = state.as_primitive::<Float64Type>().value(row);
            }
            self.total = self.total.joined(part);
        }
        Ok(())
    }
}
