//! Differences of points in time: in years, months and days as people count them, and in units.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::calendar::days_in_month;
use crate::interval::INTERVAL;
use arrow::array::{ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDateTime};
use datafusion::error::Result;
use hypostyle_types::DAY_MICROSECONDS;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["age"], &[Kind::Time, Kind::Time], |_| Ok(INTERVAL), ages),
    Described::new(
        &["date_diff", "datediff"],
        &[Kind::Text, Kind::Time, Kind::Time],
        |_| Ok(DataType::Int64),
        boundaries,
    ),
    Described::new(
        &["date_sub", "datesub"],
        &[Kind::Text, Kind::Time, Kind::Time],
        |_| Ok(DataType::Int64),
        whole_units,
    ),
];

/// Returns what clocks show, in microseconds; points in time as clocks in UTC.
fn clocks(values: &ArrayRef) -> Result<ArrayRef> {
    let without_zone = DataType::Timestamp(TimeUnit::Microsecond, None);
    Ok(match values.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            // A cast would move them to their zone; they have been moved to the session's.
            let plain = cast(values, &DataType::Timestamp(*unit, Some("UTC".into())))?;
            cast(&plain, &without_zone)?
        }
        _ => cast(values, &without_zone)?,
    })
}

fn at(microseconds: i64) -> Result<NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(microseconds).map(|time| time.naive_utc());
    time.ok_or_else(|| refused("a point in time is out of range"))
}

/// Months since the year 0, the day of the month, and the microseconds of the day.
fn parts(microseconds: i64) -> Result<(i64, i64, i64)> {
    let time = at(microseconds)?;
    let months = i64::from(time.year()) * 12 + i64::from(time.month0());
    Ok((months, i64::from(time.day()), microseconds.rem_euclid(DAY_MICROSECONDS)))
}

/// Returns the days of a month.
fn days_of(months: i64) -> i64 {
    let month = u32::try_from(months.rem_euclid(12)).unwrap_or_default();
    days_in_month(months.div_euclid(12), month + 1).into()
}

/// Returns the interval from the second point in time to the first, as PostgreSQL's `age` does.
fn age(to: i64, from: i64) -> Result<IntervalMonthDayNano> {
    let (early, late, sign) = if to < from { (to, from, -1) } else { (from, to, 1) };
    let ((months, day, time), (late_months, late_day, late_time)) = (parts(early)?, parts(late)?);
    let (mut months, mut days, mut time) = (late_months - months, late_day - day, late_time - time);
    if time < 0 {
        (days, time) = (days - 1, time + DAY_MICROSECONDS);
    }
    if days < 0 {
        // This is the number of days of the earlier month.
        let month = parts(early)?.0;
        (months, days) = (months - 1, days + days_of(month));
    }
    let fits = |value: i64| i32::try_from(value * sign).map_err(|_| refused("interval out of range"));
    Ok(IntervalMonthDayNano::new(fits(months)?, fits(days)?, time * 1000 * sign))
}

fn ages(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let (to, from) = (clocks(&args[0])?, clocks(&args[1])?);
    let pairs = to.as_primitive::<TimestampMicrosecondType>().iter();
    let pairs = pairs.zip(from.as_primitive::<TimestampMicrosecondType>());
    let ages = pairs.map(|pair| match pair {
        (Some(to), Some(from)) => age(to, from).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(ages.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// A unit of time: microseconds, or months.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Microseconds(i64),
    Weeks,
    Months(i64),
    IsoYears,
}

pub(super) fn unit_of(name: &str) -> Result<Unit> {
    let lower = name.to_ascii_lowercase();
    let singular = match lower.as_str() {
        "centuries" => "century",
        "millennia" => "millennium",
        "ms" | "us" => lower.as_str(),
        other => other.strip_suffix('s').filter(|rest| !rest.is_empty()).unwrap_or(other),
    };
    Ok(match singular {
        "microsecond" | "us" | "usec" => Unit::Microseconds(1),
        "millisecond" | "ms" | "msec" => Unit::Microseconds(1000),
        "second" | "sec" | "s" | "epoch" => Unit::Microseconds(1_000_000),
        "minute" | "min" | "m" => Unit::Microseconds(60_000_000),
        "hour" | "hr" | "h" => Unit::Microseconds(3_600_000_000),
        "day" | "d" | "dayofyear" | "doy" | "dayofmonth" | "dayofweek" | "weekday" | "dow" | "isodow"
        | "julian" => Unit::Microseconds(DAY_MICROSECONDS),
        "week" | "w" | "yearweek" => Unit::Weeks,
        "month" | "mon" => Unit::Months(1),
        "quarter" => Unit::Months(3),
        "year" | "yr" | "y" => Unit::Months(12),
        "isoyear" => Unit::IsoYears,
        "decade" => Unit::Months(120),
        "century" => Unit::Months(1200),
        "millennium" => Unit::Months(12_000),
        _ => return Err(refused(format!("\"{name}\" is no unit of time"))),
    })
}

impl Unit {
    /// Returns the number of the unit that a time is in.
    fn number(self, time: i64) -> Result<i64> {
        Ok(match self {
            Self::Microseconds(length) => time.div_euclid(length),
            // Weeks begin on Monday, and 1970 began on a Thursday.
            Self::Weeks => (time.div_euclid(DAY_MICROSECONDS) + 3).div_euclid(7),
            Self::Months(months) => parts(time)?.0.div_euclid(months),
            Self::IsoYears => i64::from(at(time)?.iso_week().year()),
        })
    }

    /// Returns how many whole units there are from one time to another.
    fn whole(self, from: i64, to: i64) -> Result<i64> {
        let between = |length: i64| {
            let distance = to.checked_sub(from).ok_or_else(|| refused("a difference is out of range"))?;
            Ok(distance / length)
        };
        match self {
            Self::Microseconds(length) => between(length),
            Self::Weeks => between(7 * DAY_MICROSECONDS),
            Self::Months(months) => Ok(i64::from(whole_months(from, to)?) / months),
            Self::IsoYears => Ok(i64::from(whole_months(from, to)?) / 12),
        }
    }
}

fn whole_months(from: i64, to: i64) -> Result<i32> {
    let (early, late, sign) = if to < from { (to, from, -1) } else { (from, to, 1) };
    let ((months, day, time), (late_months, late_day, late_time)) = (parts(early)?, parts(late)?);
    // The last day of a shorter month ends a month that began on a later one.
    let is_end = late_day == days_of(late_months) && day > late_day;
    let is_whole = (late_day, late_time) >= (day, time) || is_end && late_time >= time;
    let months = late_months - months - i64::from(!is_whole);
    i32::try_from(months * sign).map_err(|_| refused("a difference is out of range"))
}

fn in_units(args: &[ArrayRef], count: impl Fn(Unit, i64, i64) -> Result<i64>) -> Result<ArrayRef> {
    let units = args[0].as_string::<i32>();
    let (from, to) = (clocks(&args[1])?, clocks(&args[2])?);
    let pairs = from.as_primitive::<TimestampMicrosecondType>().iter();
    let pairs = pairs.zip(to.as_primitive::<TimestampMicrosecondType>());
    let mut known: Option<(&str, Unit)> = None;
    let counts = units.iter().zip(pairs).map(|(unit, pair)| {
        let (Some(name), (Some(from), Some(to))) = (unit, pair) else { return Ok(None) };
        let unit = match known {
            Some((of, unit)) if of == name => unit,
            _ => known.insert((name, unit_of(name)?)).1,
        };
        count(unit, from, to).map(Some)
    });
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

/// Returns how many times a unit begins between two points in time.
fn boundaries(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    in_units(args, |unit, from, to| Ok(unit.number(to)? - unit.number(from)?))
}

/// Returns how many whole units lie between two points in time.
fn whole_units(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    in_units(args, Unit::whole)
}
