//! Aggregates of floating-point numbers over frames that leave rows behind. What was added cannot be
//! subtracted again: 1 + 1e20 − 1e20 is 0, ∞ − ∞ is no number, and a frame of NULLs would have a sum.
//!
//! So nothing is subtracted. A frame is kept in two parts: of the older one, what each of its rows and
//! all later ones of this part come to; of the newer one, its rows and what they come to. The oldest
//! row is left out by looking at the next one. When the older part is used up, the newer one takes
//! its place, which touches each row once.

use crate::wrapped::over_frames;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::fmt::Debug;

/// What some consecutive rows come to.
pub trait Part: Copy + Debug + Send + Sync + 'static {
    /// That of no rows.
    const NONE: Self;

    /// Returns what the rows and some later ones come to.
    fn joined(self, later: Self) -> Self;
}

/// The rows of a frame, as a queue.
#[derive(Debug)]
struct Frame<P> {
    /// What the rows of the older part and the later ones of it come to, the oldest one last.
    older: Vec<P>,
    newer: Vec<P>,
    /// What all rows of the newer part come to.
    whole: P,
}

impl<P: Part> Frame<P> {
    fn push(&mut self, row: P) {
        self.newer.push(row);
        self.whole = self.whole.joined(row);
    }

    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut sum = P::NONE;
            for row in self.newer.drain(..).rev() {
                sum = row.joined(sum);
                self.older.push(sum);
            }
            self.whole = P::NONE;
        }
        self.older.pop();
    }

    fn total(&self) -> P {
        self.older.last().copied().unwrap_or(P::NONE).joined(self.whole)
    }
}

/// An accumulator of one or two columns of numbers.
#[derive(Debug)]
pub struct Sliding<P> {
    frame: Frame<P>,
    /// Returns what one row comes to, of its values; the second one is 0 where there is one column.
    of: fn(f64, f64) -> P,
    result: fn(&P) -> Option<f64>,
    gives: DataType,
}

impl<P: Part> Sliding<P> {
    pub fn new(of: fn(f64, f64) -> P, result: fn(&P) -> Option<f64>, gives: DataType) -> Self {
        Self { frame: Frame { older: Vec::new(), newer: Vec::new(), whole: P::NONE }, of, result, gives }
    }
}

fn numbers(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

impl<P: Part> Accumulator for Sliding<P> {
    over_frames!();

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let first = numbers(&values[0])?;
        let second = values.get(1).map(numbers).transpose()?;
        for row in 0..first.len() {
            let is_null = first.is_null(row) || second.as_ref().is_some_and(|second| second.is_null(row));
            self.frame.push(match is_null {
                true => P::NONE,
                false => (self.of)(first.value(row), second.as_ref().map_or(0.0, |second| second.value(row))),
            });
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).for_each(|_| self.frame.pop());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64((self.result)(&self.frame.total())).cast_to(&self.gives)
    }

    fn size(&self) -> usize {
        let rows = self.frame.older.capacity() + self.frame.newer.capacity();
        size_of_val(self) + rows * size_of::<P>()
    }
}

/// A number of values and their sum.
#[derive(Clone, Copy, Debug)]
struct Sum {
    count: f64,
    sum: f64,
}

impl Part for Sum {
    const NONE: Self = Self { count: 0.0, sum: 0.0 };

    fn joined(self, later: Self) -> Self {
        Self { count: self.count + later.count, sum: self.sum + later.sum }
    }
}

/// The moments of pairs of values: sums, and squares and products of the distances from the means.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    count: f64,
    sums: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Moments {
    /// Returns the moments of one pair.
    pub fn of(first: f64, second: f64) -> Self {
        // The distance from itself is no number where the value is none, or infinite.
        let distance = [first, second].map(|value| if value.is_finite() { 0.0 } else { f64::NAN });
        Self { count: 1.0, sums: [first, second], squares: distance, products: distance[0] + distance[1] }
    }

    /// Returns the numbers that they are of, from which [`of_state`](Self::of_state) makes them again.
    pub fn state(&self) -> [f64; MOMENTS] {
        let ([first, second], [of_first, of_second]) = (self.sums, self.squares);
        [self.count, first, second, of_first, of_second, self.products]
    }

    /// Returns the moments that some numbers are of.
    pub fn of_state([count, first, second, of_first, of_second, products]: [f64; MOMENTS]) -> Self {
        Self { count, sums: [first, second], squares: [of_first, of_second], products }
    }

    fn some(&self, value: f64) -> Option<f64> {
        (self.count > 0.0).then_some(value)
    }

    fn sample(&self, value: f64) -> Option<f64> {
        (self.count > 1.0).then(|| value / (self.count - 1.0))
    }

    fn mean(&self, place: usize) -> f64 {
        self.sums[place] / self.count
    }

    fn correlation(&self) -> Option<f64> {
        let [first, second] = self.squares;
        let deviations = match first * second {
            0.0 | f64::INFINITY => first.sqrt() * second.sqrt(),
            product => product.sqrt(),
        };
        (first != 0.0 && second != 0.0 && self.count > 0.0).then(|| self.products / deviations)
    }

    /// Returns the slope of a line through the pairs, of which the second values are the independent
    /// ones.
    fn slope(&self) -> Option<f64> {
        (self.squares[1] != 0.0 && self.count > 0.0).then(|| self.products / self.squares[1])
    }
}

/// The numbers that [`Moments`] are of.
pub const MOMENTS: usize = 6;

impl Part for Moments {
    const NONE: Self = Self { count: 0.0, sums: [0.0; 2], squares: [0.0; 2], products: 0.0 };

    fn joined(self, later: Self) -> Self {
        if self.count == 0.0 {
            return later;
        }
        if later.count == 0.0 {
            return self;
        }
        let count = self.count + later.count;
        // Sums of integers are exact, where means are rounded.
        let distance = [0, 1].map(|place| self.sums[place] * later.count - later.sums[place] * self.count);
        let weight = self.count * later.count * count;
        let sums = [0, 1].map(|place| self.sums[place] + later.sums[place]);
        let squares = [0, 1].map(|place| {
            self.squares[place] + later.squares[place] + distance[place] * distance[place] / weight
        });
        let products = self.products + later.products + distance[0] * distance[1] / weight;
        Self { count, sums, squares, products }
    }
}

/// Returns what an aggregate makes of moments; `None` for others.
pub fn of_moments(name: &str) -> Option<fn(&Moments) -> Option<f64>> {
    let outcome: fn(&Moments) -> Option<f64> = match name {
        "var" => |of| of.sample(of.squares[0]),
        "var_pop" => |of| of.some(of.squares[0] / of.count),
        "stddev" => |of| of.sample(of.squares[0]).map(f64::sqrt),
        "stddev_pop" => |of| of.some((of.squares[0] / of.count).sqrt()),
        "covar_samp" => |of| of.sample(of.products),
        "covar_pop" => |of| of.some(of.products / of.count),
        "corr" => Moments::correlation,
        "regr_slope" => Moments::slope,
        "regr_intercept" => |of| of.slope().map(|slope| (of.sums[0] - slope * of.sums[1]) / of.count),
        "regr_count" => |of| Some(of.count),
        "regr_avgx" => |of| of.some(of.mean(1)),
        "regr_avgy" => |of| of.some(of.mean(0)),
        "regr_sxx" => |of| of.some(of.squares[1]),
        "regr_syy" => |of| of.some(of.squares[0]),
        "regr_sxy" => |of| of.some(of.products),
        "regr_r2" => |of| match of.squares {
            // A line through equal values explains them completely.
            [0.0, second] if second != 0.0 && of.count > 0.0 => Some(1.0),
            _ => of.correlation().map(|correlation| correlation * correlation),
        },
        _ => return None,
    };
    Some(outcome)
}

/// Returns the accumulator of an aggregate over sliding frames, which gives a type; `None` for
/// others than those of floating-point numbers.
pub fn accumulator(name: &str, gives: &DataType) -> Option<Box<dyn Accumulator>> {
    let sums = |result| -> Option<Box<dyn Accumulator>> {
        let of = |value, _| Sum { count: 1.0, sum: value };
        Some(Box::new(Sliding::<Sum>::new(of, result, gives.clone())))
    };
    match name {
        "sum" => return sums(|sum| (sum.count > 0.0).then_some(sum.sum)),
        "avg" => return sums(|sum| (sum.count > 0.0).then(|| sum.sum / sum.count)),
        _ => {}
    }
    let result = of_moments(name)?;
    Some(Box::new(Sliding::<Moments>::new(Moments::of, result, gives.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_frame_is_what_its_rows_come_to() {
        let values =
            [Some(1e20), Some(1.0), None, None, Some(f64::INFINITY), Some(2.0), Some(f64::NAN), Some(3.0)];
        for width in 1..=values.len() {
            let mut sum = accumulator("sum", &DataType::Float64).unwrap();
            for (place, value) in values.iter().enumerate() {
                sum.update_batch(&[Arc::new(Float64Array::from(vec![*value]))]).unwrap();
                if place >= width {
                    sum.retract_batch(&[Arc::new(Float64Array::from(vec![values[place - width]]))]).unwrap();
                }
                let known: Vec<f64> =
                    values[(place + 1).saturating_sub(width)..=place].iter().flatten().copied().collect();
                let expected = (!known.is_empty()).then(|| known.iter().sum::<f64>());
                let ScalarValue::Float64(found) = sum.evaluate().unwrap() else { panic!("no DOUBLE") };
                let is_same =
                    found == expected || found.is_some_and(f64::is_nan) && expected.is_some_and(f64::is_nan);
                assert!(is_same, "{width} rows up to {place}: {found:?}, not {expected:?}");
            }
        }
    }
}
