//! Bins of points in time, as PostgreSQL's `date_bin` has them. DataFusion's counts nanoseconds since 1970,
//! and 64 bits have room for 292 years of these.

use crate::builtin::written::{Described, Kind};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use chrono::DateTime;
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_types::{DAY_MICROSECONDS, Error};

/// The name of the function.
pub(crate) const NAME: &str = "date_bin";

pub(super) const FUNCTIONS: &[Described] =
    &[Described::new(&[NAME], &[Kind::Interval, Kind::TimeOrClock, Kind::TimeOrClock], type_of_bins, bins)
        .optional(1)
        .or_undefined()];

fn is_clock(of: &DataType) -> bool {
    matches!(of, DataType::Time64(_))
}

fn type_of_bins(types: &[DataType]) -> Result<DataType> {
    match types {
        [_, time, origin] if is_clock(time) != is_clock(origin) => {
            let message = "date_bin(): a point in time and a time of day are not in the same bins";
            Err(external(Error::invalid_input(message).with_sqlstate("42883")))
        }
        // What is beside a point in time becomes one.
        [_, DataType::Timestamp(_, None), moment @ DataType::Timestamp(_, Some(_))] => Ok(moment.clone()),
        [_, time, ..] => Ok(time.clone()),
        _ => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
    }
}

fn out_of_range(what: &str) -> DataFusionError {
    external(Error::invalid_input(format!("{what} out of range")).with_sqlstate("22008"))
}

/// Returns how many microseconds wide the bins of an interval are.
///
/// # Errors
/// `Unsupported` for months, `InvalidInput` (22008) for a width that is not positive, or too large.
pub(crate) fn width_of(interval: IntervalMonthDayNano) -> Result<i64> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    if months != 0 {
        let message =
            "date_bin() has no bins of months or years, which differ; write date_trunc() or time_bucket()";
        return Err(external(Error::unsupported(message)));
    }
    let width = i64::from(days).checked_mul(DAY_MICROSECONDS);
    let width = width.and_then(|width| width.checked_add(nanoseconds / 1000));
    let width = width.ok_or_else(|| out_of_range("interval"))?;
    if width <= 0 {
        let error = Error::invalid_input("date_bin(): the width of a bin is more than nothing");
        return Err(external(error.with_sqlstate("22008")));
    }
    Ok(width)
}

/// Returns where the bin begins that a time is in, all in microseconds.
fn beginning(width: i64, time: i64, origin: i64) -> Result<i64> {
    let distance = time.checked_sub(origin).ok_or_else(|| out_of_range("interval"))?;
    let whole = distance.div_euclid(width).checked_mul(width);
    let beginning = whole.and_then(|whole| origin.checked_add(whole));
    beginning.ok_or_else(|| out_of_range("timestamp"))
}

fn bins(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let widths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let times = cast(&args[1], &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let origins = args.get(2).map(|origins| cast(origins, &DataType::Int64)).transpose()?;
    let origins = origins.as_ref().map(|origins| origins.as_primitive::<Int64Type>());
    let of_clocks = is_clock(args[1].data_type());
    let bin = |row: usize| -> Result<Option<i64>> {
        let is_null = widths.is_null(row) || times.is_null(row);
        if is_null || origins.is_some_and(|origins| origins.is_null(row)) {
            return Ok(None);
        }
        let origin = origins.map_or(0, |origins| origins.value(row));
        let beginning = beginning(width_of(widths.value(row))?, times.value(row), origin)?;
        if of_clocks {
            return Ok(Some(beginning.rem_euclid(DAY_MICROSECONDS)));
        }
        let is_known = DateTime::from_timestamp_micros(beginning).is_some();
        is_known.then_some(Some(beginning)).ok_or_else(|| out_of_range("timestamp"))
    };
    let beginnings = (0..rows).map(bin).collect::<Result<Int64Array>>()?;
    Ok(cast(&beginnings, args[1].data_type())?)
}

#[cfg(test)]
mod tests {
    use super::{beginning, width_of};
    use arrow::datatypes::IntervalMonthDayNano;
    use hypostyle_types::DAY_MICROSECONDS;

    #[test]
    fn bins_begin_before_what_is_in_them_on_both_sides_of_the_origin() {
        for (time, begins) in [(0, 0), (6, 0), (7, 7), (-1, -7), (-7, -7), (-8, -14)] {
            assert_eq!(beginning(7, time + 3, 3).unwrap(), begins + 3, "{time}");
        }
        assert!(beginning(1, i64::MAX, -1).is_err());
        assert!(beginning(i64::MAX, i64::MIN, 0).is_err());
    }

    #[test]
    fn widths_are_of_days_and_less_and_positive() {
        let width =
            |months, days, nanoseconds| width_of(IntervalMonthDayNano::new(months, days, nanoseconds)).ok();
        assert_eq!(width(0, 2, -3_600_000_000_000), Some(2 * DAY_MICROSECONDS - 3_600_000_000));
        for (months, days, nanoseconds) in [(1, 0, 0), (0, 0, 0), (0, -1, 0), (0, 0, 999), (0, i32::MAX, 0)] {
            assert_eq!(width(months, days, nanoseconds), None);
        }
    }
}
