//! What lies between points in time, times of day and intervals: `percentile_cont` and `median`, as in
//! DuckDB, and of intervals as in PostgreSQL. Dates become points in time first.

use crate::interval::{INTERVAL, length, scaled};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, ListArray, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    DataType, Field, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::cmp::Ordering;
use std::sync::Arc;

/// Says whether values of a type are such.
pub fn is_of_time(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(..) | DataType::Time64(TimeUnit::Microsecond)) || *of == INTERVAL
}

/// The values of one group or frame. What is no interval is one of as many nanoseconds as it has ticks.
#[derive(Debug)]
pub struct Times {
    of: DataType,
    share: f64,
    is_descending: bool,
    is_distinct: bool,
    /// Whether values leave the frame, in the order in which they came.
    slides: bool,
    values: Vec<IntervalMonthDayNano>,
}

impl Times {
    /// Makes what lies at a share of no values.
    pub fn new(of: DataType, share: f64, is_descending: bool, is_distinct: bool, slides: bool) -> Self {
        Self { of, share, is_descending, is_distinct, slides, values: Vec::new() }
    }

    fn result(&self, mut values: Vec<IntervalMonthDayNano>) -> Result<Option<IntervalMonthDayNano>> {
        if self.is_distinct {
            values.sort_unstable_by_key(|value| length(*value));
            values.dedup_by_key(|value| length(*value));
        }
        let order = |one: &IntervalMonthDayNano, other: &IntervalMonthDayNano| -> Ordering {
            let order = length(*one).cmp(&length(*other));
            if self.is_descending { order.reverse() } else { order }
        };
        let Some(last) = values.len().checked_sub(1) else { return Ok(None) };
        let place = self.share * last as f64;
        let before = place.floor();
        let (_, first, others) = values.select_nth_unstable_by(before as usize, order);
        let (first, weight) = (*first, place - before);
        let second = others.iter().copied().min_by(order);
        match second.filter(|second| weight > 0.0 && order(&first, second).is_ne()) {
            None => Ok(Some(first)),
            Some(second) if self.of == INTERVAL => interval_between(first, second, weight).map(Some),
            Some(second) => {
                let ticks = ticks_between(first.nanoseconds, second.nanoseconds, weight);
                Ok(Some(IntervalMonthDayNano::new(0, 0, ticks)))
            }
        }
    }

    /// Returns values in their type.
    fn array(&self, values: Vec<IntervalMonthDayNano>) -> Result<ArrayRef> {
        if self.of == INTERVAL {
            return Ok(Arc::new(IntervalMonthDayNanoArray::from(values)));
        }
        let ticks: Int64Array = values.into_iter().map(|value| Some(value.nanoseconds)).collect();
        as_type(&ticks, &self.of)
    }
}

/// Returns values of 64 bits as those of another type.
fn as_type(values: &dyn Array, of: &DataType) -> Result<ArrayRef> {
    Ok(make_array(values.to_data().into_builder().data_type(of.clone()).build()?))
}

/// Returns the ticks between two, to the nearest one. Of two that are as near it is the earlier one.
fn ticks_between(first: i64, second: i64, weight: f64) -> i64 {
    let distance = (i128::from(second) - i128::from(first)) as f64;
    let between = i128::from(first) + (weight * distance - 0.5).ceil() as i128;
    // A DOUBLE may not have all digits of the distance.
    between.clamp(first.min(second).into(), first.max(second).into()) as i64
}

/// Returns the interval between two as PostgreSQL does: a share of their difference, part by part, is added
/// to the first one.
fn interval_between(
    first: IntervalMonthDayNano,
    second: IntervalMonthDayNano,
    weight: f64,
) -> Result<IntervalMonthDayNano> {
    let out_of_range = || external(Error::invalid_input("interval out of range").with_sqlstate("22008"));
    let in_parts = |one: IntervalMonthDayNano, other: IntervalMonthDayNano, sign: i64| {
        let part = |one: i32, other: i32| i32::try_from(i64::from(one) + sign * i64::from(other)).ok();
        let nanoseconds = other.nanoseconds.checked_mul(sign)?.checked_add(one.nanoseconds)?;
        Some(IntervalMonthDayNano::new(
            part(one.months, other.months)?,
            part(one.days, other.days)?,
            nanoseconds,
        ))
    };
    let difference = in_parts(second, first, -1).ok_or_else(out_of_range)?;
    in_parts(first, scaled(difference, weight, false)?, 1).ok_or_else(out_of_range)
}

impl Accumulator for Times {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values =
            values.first().ok_or_else(|| internal_datafusion_err!("a percentile is of one column"))?;
        if let Some(intervals) = values.as_primitive_opt::<IntervalMonthDayNanoType>() {
            self.values.extend(intervals.iter().flatten());
            return Ok(());
        }
        let ticks = as_type(values.as_ref(), &DataType::Int64)?;
        let ticks = ticks.as_primitive::<Int64Type>().iter().flatten();
        self.values.extend(ticks.map(|ticks| IntervalMonthDayNano::new(0, 0, ticks)));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].null_count();
        self.values.drain(..gone.min(self.values.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.slides
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = if self.slides { self.values.clone() } else { std::mem::take(&mut self.values) };
        match self.result(values)? {
            None => ScalarValue::try_from(&self.of),
            Some(value) => ScalarValue::try_from_array(&self.array(vec![value])?, 0),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<IntervalMonthDayNano>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = std::mem::take(&mut self.values);
        let values = self.array(values)?;
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        lists.iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_that_are_nearest() {
        for (first, second, weight, between) in [
            (0, 10, 0.25, 2),
            (0, 10, 0.26, 3),
            (1, 2, 0.5, 1),
            (2, 1, 0.5, 1),
            (-2, -1, 0.5, -2),
            (i64::MIN, i64::MAX, 1.0, i64::MAX),
            (0, 10_000_000, 1.2 - 1.0, 2_000_000),
        ] {
            assert_eq!(ticks_between(first, second, weight), between, "{first}, {second}, {weight}");
        }
    }

    #[test]
    fn intervals_are_ordered_by_their_lengths() {
        let interval = IntervalMonthDayNano::new;
        let of = |values: &[IntervalMonthDayNano], share: f64, is_descending: bool, is_distinct: bool| {
            let times = Times::new(INTERVAL, share, is_descending, is_distinct, false);
            times.result(values.to_vec()).unwrap()
        };
        let values = [interval(1, 0, 0), interval(0, 31, 0), interval(0, 45, 0)];
        assert_eq!(of(&values, 0.5, false, false), Some(interval(0, 31, 0)));
        assert_eq!(of(&values, 1.0, true, false), Some(interval(1, 0, 0)));
        assert_eq!(of(&values[1..], 0.5, false, false), Some(interval(0, 38, 0)));
        let half = 43_200_000_000_000;
        assert_eq!(
            of(&[interval(0, 1, 0), interval(0, 2, 0)], 0.5, false, false),
            Some(interval(0, 1, half))
        );
        assert_eq!(
            of(&[interval(1, 0, 0), interval(0, 30, 0), interval(0, 32, 0)], 1.0, false, true).map(length),
            Some(32 * 2 * i128::from(half))
        );
        assert_eq!(of(&[], 0.5, false, false), None);
    }
}
