//! Values as texts by patterns: `to_char` and `strftime`; and texts as values by them.

use crate::arguments::refused;
use crate::builtin::number_pattern::{Pattern, number_of};
use crate::builtin::strftime::{self, Item, Shown};
use crate::builtin::time_from_char::{self, Found, Refusal};
use crate::builtin::time_pattern::{Node, nodes};
use crate::builtin::time_to_char::{Parts, written};
use crate::builtin::written::{Described, Kind};
use crate::calendar::Clock;
use crate::time_text::seconds_between;
use crate::time_zone::in_zones;
use crate::zone_name::abbreviation;
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimeUnit,
};
use chrono::DateTime;
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["to_char", "date_format"], &[Kind::Shown, Kind::Text], text, to_char),
    Described::new(&["strftime"], &[Kind::Shown, Kind::Text], text, |args, rows| {
        moments(&args[0])?.each(&args[1], rows, &mut percents)
    }),
    Described::new(&["date_by_pattern"], &[Kind::Text, Kind::Text], |_| Ok(DataType::Date32), dates).more(),
    Described::new(&["time_by_pattern"], &[Kind::Text, Kind::Text], text, times).more(),
    Described::new(&["number_by_pattern"], &[Kind::Text, Kind::Text], text, numbers),
];

fn text(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Utf8)
}

/// A pattern that has been read.
enum Read {
    Percents(Vec<Item>),
    Nodes(Vec<Node>),
}

fn percents(pattern: &str) -> Result<Read> {
    strftime::items(pattern).map(Read::Percents).map_err(refused)
}

/// Reads a pattern of percent signs, or one of PostgreSQL, which has none.
fn either(pattern: &str) -> Result<Read> {
    match pattern.contains('%') {
        true => percents(pattern),
        false => Ok(Read::Nodes(nodes(pattern))),
    }
}

/// What is shown of points in time.
struct Moments<'a> {
    /// Ticks of what clocks show.
    clocks: Int64Array,
    second: i64,
    /// Seconds by which clocks are ahead.
    ahead: Option<Vec<i64>>,
    zone: &'a str,
}

fn moments(values: &ArrayRef) -> Result<Moments<'_>> {
    let (second, zone) = match values.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => (1_000_000_000, zone.as_deref()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => (1_000_000, zone.as_deref()),
        _ => return Err(refused("a point in time was expected")),
    };
    let shown = match zone {
        Some(zone) => in_zones(values, |_| Some(zone))?,
        None => values.clone(),
    };
    let ahead = match zone {
        Some(_) => Some(seconds_between(values, &shown)?),
        None => None,
    };
    let clocks = cast(&shown, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
    Ok(Moments { clocks, second, ahead, zone: zone.unwrap_or_default() })
}

impl Moments<'_> {
    /// Returns the text of each, by its pattern.
    fn each(
        &self,
        patterns: &ArrayRef,
        rows: usize,
        read: &mut dyn FnMut(&str) -> Result<Read>,
    ) -> Result<ArrayRef> {
        let patterns = patterns.as_string::<i32>();
        let mut known: Option<(&str, Read)> = None;
        let texts = (0..rows).map(|row| {
            if self.clocks.is_null(row) || patterns.is_null(row) {
                return Ok(None);
            }
            let pattern = patterns.value(row);
            if known.as_ref().is_none_or(|(of, _)| *of != pattern) {
                known = Some((pattern, read(pattern)?));
            }
            Ok(known.as_ref().map(|(_, pattern)| self.shown(row, pattern)))
        });
        Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
    }

    fn shown(&self, row: usize, pattern: &Read) -> String {
        let ticks = self.clocks.value(row);
        let (seconds, rest) = (ticks.div_euclid(self.second), ticks.rem_euclid(self.second));
        let nanosecond = u32::try_from(rest * (1_000_000_000 / self.second)).unwrap_or_default();
        let clock = Clock::at(seconds, nanosecond);
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead[row]);
        match pattern {
            Read::Percents(items) => strftime::written(items, &Shown { clock, ahead, zone: self.zone }),
            Read::Nodes(nodes) => {
                let moment = DateTime::from_timestamp_secs(seconds - ahead).unwrap_or_default().naive_utc();
                let zone = if self.zone.is_empty() { String::new() } else { abbreviation(self.zone, moment) };
                let parts = Parts { ahead, zone, ..Parts::of_clock(&clock) };
                written(nodes, &parts).unwrap_or_default()
            }
        }
    }
}

fn to_char(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    match args[0].data_type() {
        DataType::Interval(_) => {
            let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>().iter();
            of_intervals(intervals, &args[1])
        }
        DataType::Time64(_) => {
            let times = cast(&args[0], &DataType::Time64(TimeUnit::Nanosecond))?;
            let times = cast(&times, &DataType::Int64)?;
            let times = times.as_primitive::<Int64Type>().iter();
            of_intervals(times.map(|time| time.map(|time| IntervalMonthDayNano::new(0, 0, time))), &args[1])
        }
        DataType::Timestamp(..) => moments(&args[0])?.each(&args[1], rows, &mut either),
        _ => of_numbers(args),
    }
}

/// Intervals, and times of day, as texts.
fn of_intervals(
    intervals: impl Iterator<Item = Option<IntervalMonthDayNano>>,
    patterns: &ArrayRef,
) -> Result<ArrayRef> {
    let patterns = patterns.as_string::<i32>().iter();
    let texts = intervals.zip(patterns).map(|pair| {
        let (Some(IntervalMonthDayNano { months, days, nanoseconds }), Some(pattern)) = pair else {
            return Ok(None);
        };
        let parts = Parts::of_interval(months, days, nanoseconds);
        written(&nodes(pattern), &parts).map(Some).ok_or_else(|| {
            let message = format!(
                "to_char(): an interval has none of the parts of the pattern '{pattern}' that only a date has"
            );
            external(Error::invalid_input(message).with_sqlstate("22007"))
        })
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn of_numbers(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (values, patterns) = (&args[0], args[1].as_string::<i32>());
    let doubles = match values.data_type().is_floating() {
        true => Some(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
        false => None,
    };
    let mut read: Option<(&str, Pattern, Option<StringArray>)> = None;
    let texts = (0..values.len()).map(|row| {
        if values.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let text = patterns.value(row);
        if read.as_ref().is_none_or(|(of, ..)| *of != text) {
            let pattern = Pattern::read(text).map_err(refused)?;
            let decimals = match &doubles {
                None => Some(rounded_decimals(values, &pattern)?),
                Some(_) => None,
            };
            read = Some((text, pattern, decimals));
        }
        let Some((_, pattern, decimals)) = &read else { return Ok(None) };
        let digits = match (decimals, &doubles) {
            (Some(decimals), _) => decimals.value(row).to_string(),
            (None, Some(doubles)) => {
                let value = doubles.value(row);
                if !value.is_finite() {
                    return Ok(Some(value.to_string()));
                }
                format!("{value:.*}", (pattern.scale() + pattern.shift()).min(DIGITS_MAX))
            }
            (None, None) => return Ok(None),
        };
        if pattern.is_scientific() {
            let value = doubles.as_ref().map(|doubles: &Float64Array| doubles.value(row));
            return Ok(scientific(value, values, row, pattern.scale()));
        }
        let absolute = digits.strip_prefix('-');
        let shown = absolute.unwrap_or(&digits);
        let shown = if pattern.shift() > 0 { shown.replace('.', "") } else { shown.to_string() };
        let shown = match shown.trim_start_matches('0') {
            significant if pattern.shift() == 0 || significant.is_empty() => shown.clone(),
            significant => significant.to_string(),
        };
        Ok(Some(pattern.shown(absolute.is_some(), &shown)))
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

/// Returns the texts of exact numbers, rounded to the digits of a pattern.
fn rounded_decimals(values: &ArrayRef, pattern: &Pattern) -> Result<StringArray> {
    let digits = pattern.scale() + pattern.shift();
    let scale = i8::try_from(digits).unwrap_or(i8::MAX).min(60);
    let decimal = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale);
    Ok(cast(&cast(values, &decimal)?, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The digits that a double is written with: it has no more, and `format!` panics at 65,536.
const DIGITS_MAX: usize = 1_100;

/// Returns a number as ` 1.23e+04`.
fn scientific(value: Option<f64>, values: &ArrayRef, row: usize, digits: usize) -> Option<String> {
    let value = match value {
        Some(value) => value,
        None => cast(&values.slice(row, 1), &DataType::Float64).ok()?.as_primitive::<Float64Type>().value(0),
    };
    let digits = digits.min(DIGITS_MAX);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (blank, sign) = (if value < 0.0 { "" } else { " " }, if exponent < 0 { '-' } else { '+' });
    Some(format!("{blank}{mantissa}e{sign}{:02}", exponent.abs()))
}

/// Returns what a text says by the first of some patterns that it is of.
fn found_by(args: &[ArrayRef], row: usize) -> Result<Option<Found>> {
    let text = args[0].as_string::<i32>();
    if text.is_null(row) {
        return Ok(None);
    }
    let mut error = None;
    for patterns in &args[1..] {
        let patterns = patterns.as_string::<i32>();
        if patterns.is_null(row) {
            return Ok(None);
        }
        match by_pattern(text.value(row), patterns.value(row)) {
            Ok(found) => return Ok(Some(found)),
            Err(refusal) => error = error.or(Some(refusal)),
        }
    }
    error.map_or(Ok(None), Err)
}

fn by_pattern(text: &str, pattern: &str) -> Result<Found> {
    let of = |message: String, sqlstate| external(Error::invalid_input(message).with_sqlstate(sqlstate));
    if pattern.contains('%') {
        let found = super::time::read_percents(text, pattern)?;
        let found = found.ok_or_else(|| of(format!("'{text}' is not of the form '{pattern}'"), "22007"))?;
        const DAY: i64 = hypostyle_types::DAY_MICROSECONDS;
        let (days, time) = (found.0.div_euclid(DAY), found.0.rem_euclid(DAY));
        return Ok(Found { days, time, ahead: found.1.then_some(0) });
    }
    time_from_char::read(text, &nodes(pattern)).map_err(|refusal| match refusal {
        Refusal::Syntax(why) => of(format!("'{text}' is not of the form '{pattern}': {why}"), "22007"),
        Refusal::Range => of(format!("date/time field value out of range: \"{text}\""), "22008"),
        Refusal::Unsupported(field) => {
            external(Error::unsupported(format!("{field} in the pattern '{pattern}' is only of to_char()")))
        }
    })
}

fn dates(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let day = |row| {
        let Some(found) = found_by(args, row)? else { return Ok(None) };
        i32::try_from(found.days).map(Some).map_err(|_| out_of_range())
    };
    Ok(Arc::new((0..rows).map(day).collect::<Result<Date32Array>>()?))
}

fn times(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let time = |row| Ok(found_by(args, row)?.map(|found| found.text()));
    Ok(Arc::new((0..rows).map(time).collect::<Result<StringArray>>()?))
}

fn out_of_range() -> DataFusionError {
    external(Error::invalid_input("date out of range").with_sqlstate("22008"))
}

fn numbers(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let pairs = args[0].as_string::<i32>().iter().zip(args[1].as_string::<i32>());
    let numbers = pairs.map(|pair| {
        let (Some(text), Some(pattern)) = pair else { return Ok(None) };
        let read = Pattern::read(pattern).map_err(refused)?;
        number_of(text, &read).map(Some).ok_or_else(|| {
            let message = format!("'{text}' has no number of the form '{pattern}'");
            external(Error::invalid_input(message).with_sqlstate("22P02"))
        })
    });
    Ok(Arc::new(numbers.collect::<Result<StringArray>>()?))
}
