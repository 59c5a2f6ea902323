//! Points in time: read from text by a pattern, and divided into buckets.

use crate::builtin::{Described, Kind, refused};
use crate::pattern::in_percents;
use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use chrono::format::{Parsed, StrftimeItems, parse};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::DAY_MICROSECONDS;
use hypostyle_types::Error;
use std::sync::Arc;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["strptime"],
        &[Kind::Text, Kind::Text],
        |_| Ok(TIMESTAMP),
        |args, rows| read(args, rows, false),
    ),
    Described::new(
        &["try_strptime"],
        &[Kind::Text, Kind::Text],
        |_| Ok(TIMESTAMP),
        |args, rows| read(args, rows, true),
    ),
    Described::new(&["moment_of_seconds"], &[Kind::Double], |_| Ok(moment()), moments),
    Described::new(
        &["time_bucket"],
        &[Kind::Interval, Kind::Time, Kind::Time],
        |types| Ok(types.get(1).cloned().unwrap_or(TIMESTAMP)),
        bucketed,
    )
    .optional(1),
];

fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Returns the points in time so many seconds after 1970 began.
fn moments(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let moments = args[0].as_primitive::<Float64Type>().iter().map(|seconds| {
        let Some(seconds) = seconds else { return Ok(None) };
        let microseconds = (seconds * 1e6).round();
        let is_known = microseconds.abs() < i64::MAX as f64
            && DateTime::from_timestamp_micros(microseconds as i64).is_some();
        match is_known {
            true => Ok(Some(microseconds as i64)),
            false => Err(external(
                Error::invalid_input(format!("timestamp out of range: \"{seconds}\"")).with_sqlstate("22008"),
            )),
        }
    });
    let moments = moments.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(moments.with_data_type(moment())))
}

/// Texts as what clocks show, by patterns of strftime or PostgreSQL; NULLs for others, if that is
/// wanted.
fn read(args: &[ArrayRef], rows: usize, safe: bool) -> Result<ArrayRef> {
    let (texts, patterns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let read = |row: usize| {
        if texts.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let (text, pattern) = (texts.value(row), patterns.value(row));
        let percents = in_percents(pattern).map_err(external)?;
        match by_pattern(text, &percents) {
            Some(time) => Ok(Some(time)),
            None if safe => Ok(None),
            None => Err(refused(format!("'{text}' is not of the form '{pattern}'"))),
        }
    };
    let times = (0..rows).map(read).collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(times))
}

fn by_pattern(text: &str, pattern: &str) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, StrftimeItems::new(pattern)).ok()?;
    if let Ok(moment) = parsed.to_datetime() {
        return Some(moment.timestamp_micros());
    }
    if parsed.timestamp().is_some() {
        return parsed.to_naive_datetime_with_offset(0).ok().map(|time| time.and_utc().timestamp_micros());
    }
    let year = parsed.year().is_some() || parsed.year_mod_100().is_some() || parsed.isoyear().is_some();
    if year && parsed.month().is_none() && parsed.ordinal().is_none() && parsed.isoweek().is_none() {
        parsed.set_month(1).ok()?;
    }
    if parsed.month().is_some() && parsed.day().is_none() {
        parsed.set_day(1).ok()?;
    }
    if parsed.month().is_some() && !year {
        parsed.set_year(1900).ok()?;
    }
    let date = parsed.to_naive_date().ok();
    if parsed.minute().is_none() && (parsed.hour_div_12().is_some() || parsed.hour_mod_12().is_some()) {
        parsed.set_minute(0).ok()?;
    }
    let time = parsed.to_naive_time().ok();
    let day = date.or_else(|| time.and_then(|_| NaiveDate::from_ymd_opt(1900, 1, 1)))?;
    Some(day.and_time(time.unwrap_or(NaiveTime::MIN)).and_utc().timestamp_micros())
}

/// The origin of buckets of months and years, and of the others: Monday, 3 January 2000.
const MONTHS_ORIGIN: i64 = 946_684_800_000_000;
const ORIGIN: i64 = MONTHS_ORIGIN + 2 * DAY_MICROSECONDS;

/// Returns the beginning of the bucket that a point in time is in.
fn bucket(width: IntervalMonthDayNano, time: i64, origin: Option<i64>) -> Result<i64> {
    let IntervalMonthDayNano { months, days, nanoseconds } = width;
    let out_of_range = || refused("time_bucket(): a point in time is out of range");
    if months == 0 {
        let width =
            i64::from(days).checked_mul(DAY_MICROSECONDS).and_then(|of| of.checked_add(nanoseconds / 1000));
        let width = width.filter(|width| *width > 0).ok_or_else(of_positive_width)?;
        let origin = origin.unwrap_or(ORIGIN);
        let distance = time.checked_sub(origin).ok_or_else(out_of_range)?;
        return Ok(origin + distance.div_euclid(width) * width);
    }
    if months < 0 || days != 0 || nanoseconds != 0 {
        return Err(of_positive_width());
    }
    let parts = |time: i64| {
        let time = DateTime::from_timestamp_micros(time)?;
        Some(i64::from(time.year()) * 12 + i64::from(time.month0()))
    };
    let origin = parts(origin.unwrap_or(MONTHS_ORIGIN)).ok_or_else(out_of_range)?;
    let distance = parts(time).ok_or_else(out_of_range)? - origin;
    let start = origin + distance.div_euclid(i64::from(months)) * i64::from(months);
    let (year, month) = (start.div_euclid(12), start.rem_euclid(12));
    let start = i32::try_from(year).ok().zip(u32::try_from(month + 1).ok());
    let start = start.and_then(|(year, month)| NaiveDate::from_ymd_opt(year, month, 1));
    Ok(start.ok_or_else(out_of_range)?.and_time(NaiveTime::MIN).and_utc().timestamp_micros())
}

fn of_positive_width() -> datafusion::error::DataFusionError {
    refused("time_bucket(): the width is more than nothing, and in months, or in days and less")
}

fn bucketed(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let widths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let times = args[1].as_primitive::<TimestampMicrosecondType>();
    let origins = args.get(2).map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    let bucketed = |row: usize| {
        let is_null = widths.is_null(row) || times.is_null(row);
        if is_null || origins.is_some_and(|origins| origins.is_null(row)) {
            return Ok(None);
        }
        let origin = origins.map(|origins| origins.value(row));
        bucket(widths.value(row), times.value(row), origin).map(Some)
    };
    let starts = (0..rows).map(bucketed).collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(starts.with_data_type(args[1].data_type().clone())))
}
