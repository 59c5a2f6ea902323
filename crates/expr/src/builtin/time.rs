//! Points in time: read from text by a pattern, made of numbers, divided into buckets, and their parts.

use crate::arguments::refused;
use crate::builtin::time_pattern::nodes;
use crate::builtin::written::{Described, Kind};
use crate::builtin::{strftime, strptime, time_from_char};
use crate::calendar::checked_days;
use crate::interval::INTERVAL;
use crate::interval_part;
use crate::time_read::Zone;
use crate::time_text::{nearest, seconds_between};
use crate::time_zone::{in_zones, moved};
use crate::year_part::{JULIAN_DAY_1970, Part, is_year, shown};
use crate::zone_name;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Utc};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};
use hypostyle_error::external;
use hypostyle_sql::interval_text::Fields;
use hypostyle_types::DAY_MICROSECONDS;
use hypostyle_types::Error;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, LazyLock};

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// When the process had its first session.
static STARTED: LazyLock<i64> = LazyLock::new(|| Utc::now().timestamp_micros());

/// Notes that there is a session.
pub(super) fn note_start() {
    LazyLock::force(&STARTED);
}

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["strptime"],
        &[Kind::Text, Kind::Texts],
        |_| Ok(TIMESTAMP),
        |args, rows| read(args, rows, false),
    ),
    Described::new(
        &["try_strptime"],
        &[Kind::Text, Kind::Texts],
        |_| Ok(TIMESTAMP),
        |args, rows| read(args, rows, true),
    ),
    Described::new(
        &["interval_within"],
        &[Kind::Interval, Kind::Text, Kind::Integer],
        |_| Ok(INTERVAL),
        within_fields,
    ),
    Described::new(
        &["time_within"],
        &[Kind::Any, Kind::Integer],
        |types| Ok(types.first().cloned().unwrap_or(TIMESTAMP)),
        rounded,
    ),
    Described::new(
        &["make_date"],
        &[Kind::Integer, Kind::Integer, Kind::Integer],
        |_| Ok(DataType::Date32),
        made_dates,
    ),
    Described::new(
        &["make_time"],
        &[Kind::Integer, Kind::Integer, Kind::Double],
        |_| Ok(DataType::Time64(TimeUnit::Microsecond)),
        made_times,
    ),
    // What is added to a date, which may be all of a day.
    Described::new(
        &["time_within_day"],
        &[Kind::Integer, Kind::Integer, Kind::Double],
        |_| Ok(INTERVAL),
        |args, rows| {
            let times = times_within_day(args, rows)?;
            let intervals = times
                .iter()
                .map(|time| time.map(|microseconds| IntervalMonthDayNano::new(0, 0, microseconds * 1000)));
            Ok(Arc::new(intervals.collect::<IntervalMonthDayNanoArray>()))
        },
    ),
    Described::new(
        &["make_timestamp"],
        &[Kind::Integer],
        |_| Ok(TIMESTAMP),
        |args, _| moments_since(&args[0], 1),
    ),
    Described::new(&["epoch_ms"], &[Kind::Shown], epoch_type, |args, _| match args[0].data_type() {
        of if of.is_integer() => moments_since(&args[0], 1000),
        _ => since_1970(&args[0], 1_000_000),
    }),
    Described::new(&["epoch_us"], &[Kind::Shown], epoch_type, |args, _| match args[0].data_type() {
        of if of.is_integer() => Err(refused("epoch_us() is of a point in time")),
        _ => since_1970(&args[0], 1000),
    }),
    Described::new(&["epoch_ns"], &[Kind::Shown], epoch_type, |args, _| match args[0].data_type() {
        of if of.is_integer() => Err(refused("epoch_ns() is of a point in time")),
        _ => since_1970(&args[0], 1),
    }),
    // Parts of `extract`, all digits of which count.
    Described::new(
        &["extract_epoch"],
        &[Kind::Elapsed],
        |types| exact_type(types, DataType::Decimal128(22, 6)),
        exact_epoch,
    ),
    Described::new(
        &["extract_seconds"],
        &[Kind::Elapsed],
        |types| exact_type(types, DataType::Decimal128(8, 6)),
        |args, _| with_places(&args[0], 6),
    ),
    Described::new(
        &["extract_milliseconds"],
        &[Kind::Elapsed],
        |types| exact_type(types, DataType::Decimal128(8, 3)),
        |args, _| with_places(&args[0], 3),
    ),
    Described::new(
        &["extract_microseconds"],
        &[Kind::Elapsed],
        |types| exact_type(types, DataType::Int64),
        |args, _| Ok(Arc::new(microseconds_of_minutes(&args[0])?)),
    ),
    Described::new(
        &["pg_postmaster_start_time", "pg_conf_load_time"],
        &[],
        |_| Ok(moment()),
        |_, rows| {
            let begun = TimestampMicrosecondArray::from_value(*STARTED, rows);
            Ok(Arc::new(begun.with_data_type(moment())))
        },
    ),
    Described::new(&["isfinite"], &[Kind::Any], |_| Ok(DataType::Boolean), finite),
    Described::new(&["timezone_part"], &[Kind::Text, Kind::Time], |_| Ok(DataType::Int64), of_zone),
    Described::new(&["moment_of_seconds"], &[Kind::Double], |_| Ok(moment()), moments),
    Described::new(
        &["time_bucket"],
        &[Kind::Interval, Kind::Time, Kind::TimeOrInterval],
        |types| Ok(types.get(1).cloned().unwrap_or(TIMESTAMP)),
        bucketed,
    )
    .optional(1),
    // The number of a year and a week. Both are negative before the first year.
    Described::new(
        &["year_and_week"],
        &[Kind::Integer, Kind::Integer],
        |_| Ok(DataType::Int64),
        numbers_of_weeks,
    ),
    // A year, of which that before the first is 0, of one that is shown.
    Described::new(
        &["counted_year"],
        &[Kind::Integer],
        |_| Ok(DataType::Int64),
        |args, _| {
            let count = |year: i64| if year < 0 { year + 1 } else { year };
            let years: Int64Array = args[0].as_primitive::<Int64Type>().unary(count);
            Ok(Arc::new(years))
        },
    ),
    // Of each row the part that it names, as `date_part(p, t)` of a column p.
    Described::new(
        &["computed_part"],
        &[Kind::Text, Kind::Shown],
        |types| check_times(types).map(|()| DataType::Float64),
        computed_parts,
    ),
    // The first argument is a structure whose fields have the names of the parts.
    Described::new(&["named_parts"], &[Kind::Any, Kind::Shown], parts_type, named_parts),
];

/// Years and weeks as one number each.
fn numbers_of_weeks(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let [years, weeks] = [0, 1].map(|place| args[place].as_primitive::<Int64Type>());
    let numbers = years.iter().zip(weeks).map(|(year, week)| {
        let (Some(year), Some(week)) = (year, week) else { return Ok(None) };
        let signed = if year > 0 { Some(week) } else { week.checked_neg() };
        let number = year.checked_mul(100).zip(signed).and_then(|(year, week)| year.checked_add(week));
        number.map(Some).ok_or_else(|| out_of_range(format!("week field value out of range: {year}-{week}")))
    });
    Ok(Arc::new(numbers.collect::<Result<Int64Array>>()?))
}

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

/// Texts as what clocks show, by patterns of percent signs, or of PostgreSQL, or by the first of several
/// that they are of; NULLs for others, if that is wanted.
fn read(args: &[ArrayRef], rows: usize, safe: bool) -> Result<ArrayRef> {
    let texts = args[0].as_string::<i32>();
    let patterns = args[1].as_string_opt::<i32>();
    let read = |row: usize| {
        if texts.is_null(row) || args[1].is_null(row) {
            return Ok(None);
        }
        let text = texts.value(row);
        let found = match patterns {
            Some(patterns) => read_by(text, patterns.value(row))?,
            None => read_by_any(text, args[1].as_list::<i32>().value(row).as_string())?,
        };
        match found {
            Some(time) => Ok(Some(time)),
            None if safe => Ok(None),
            None => {
                let form = match patterns {
                    Some(patterns) => format!("of the form '{}'", patterns.value(row)),
                    None => "of one of the forms".to_string(),
                };
                Err(refused(format!("'{text}' is not {form}, or contradicts itself")))
            }
        }
    };
    let times = (0..rows).map(read).collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(times))
}

fn read_by(text: &str, pattern: &str) -> Result<Option<i64>> {
    Ok(match pattern.contains('%') {
        true => read_percents(text, pattern)?.map(|(moment, _)| moment),
        false => time_from_char::read(text, &nodes(pattern))
            .ok()
            .map(|found| found.days * DAY_MICROSECONDS + found.time - found.ahead.unwrap_or(0) * 1_000_000),
    })
}

/// Returns what a text says by the first pattern that it is of.
fn read_by_any(text: &str, patterns: &StringArray) -> Result<Option<i64>> {
    if patterns.is_empty() {
        return Err(refused("strptime() takes one pattern or more"));
    }
    for pattern in patterns.iter().flatten() {
        let found = read_by(text, pattern)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns what a text says by a pattern of percent signs: what a clock shows, or where the text has
/// a zone, the point in time, in UTC. Says which of them it is.
///
/// # Errors
/// Those of a pattern, and of the name of a zone.
pub(super) fn read_percents(text: &str, pattern: &str) -> Result<Option<(i64, bool)>> {
    let items = strftime::items(pattern).map_err(refused)?;
    let Some(found) = strptime::read(text, &items) else { return Ok(None) };
    Ok(match &found.zone {
        None => Some((found.microseconds, false)),
        Some(Zone::Offset(ahead)) => Some((found.microseconds - ahead * 1_000_000, true)),
        Some(Zone::Named(name)) => match zone_name::of_statement(name) {
            Ok(zone) => Some((moved(found.microseconds, 1_000_000, zone, true)?, true)),
            Err(_) => None,
        },
    })
}

/// Intervals without what is below their fields, and with so many digits of a second.
fn within_fields(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let (words, digits) = (args[1].as_string::<i32>(), args[2].as_primitive::<Int64Type>());
    let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>().iter().enumerate();
    let cut = intervals.map(|(row, interval)| {
        let Some(interval) = interval.filter(|_| words.is_valid(row) && digits.is_valid(row)) else {
            return Ok(None);
        };
        let digits = u32::try_from(digits.value(row)).ok();
        let fields = Fields::named(words.value(row), digits);
        let fields =
            fields.ok_or_else(|| refused(format!("an INTERVAL has no fields {}", words.value(row))))?;
        Ok(Some(fields.truncate(interval)))
    });
    Ok(Arc::new(cut.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// Points in time and times of day with so many digits of a second, to the nearest.
fn rounded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let of = args[0].data_type().clone();
    let digits = args[1].as_primitive::<Int64Type>();
    let second: i64 = match of {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        _ => 1_000_000,
    };
    let ticks = cast(&args[0], &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>().iter().zip(digits);
    let ticks: Int64Array = ticks
        .map(|pair| match pair {
            (Some(ticks), Some(digits)) => {
                let kept = u32::try_from(digits).unwrap_or(0).min(9);
                let step = (second / 10_i64.pow(kept)).max(1);
                let is_time = matches!(of, DataType::Time64(_));
                match is_time {
                    // A time of day has no year, and does not become the next day's.
                    true => match (ticks + step / 2) / step * step {
                        DAY_MICROSECONDS.. => Err(external(
                            Error::invalid_input("a TIME ends before 24:00:00").with_sqlstate("22008"),
                        )),
                        time => Ok(Some(time)),
                    },
                    false => Ok(Some(nearest(ticks, step, second))),
                }
            }
            _ => Ok(None),
        })
        .collect::<Result<_>>()?;
    Ok(cast(&ticks, &of)?)
}

/// Dates of a year, a month and a day. Years before the first are counted from -1, as in PostgreSQL.
fn made_dates(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [years, months, days] = [0, 1, 2].map(|place| args[place].as_primitive::<Int64Type>());
    let date = |row: usize| {
        if years.is_null(row) || months.is_null(row) || days.is_null(row) {
            return Ok(None);
        }
        let (year, month, day) = (years.value(row), months.value(row), days.value(row));
        let counted = if year < 0 { year.saturating_add(1) } else { year };
        let found = checked_days(counted, month, day).filter(|_| year != 0);
        found
            .and_then(|days| i32::try_from(days).ok())
            .map(Some)
            .ok_or_else(|| out_of_range(format!("date field value out of range: {year}-{month:02}-{day:02}")))
    };
    Ok(Arc::new((0..rows).map(date).collect::<Result<Date32Array>>()?))
}

fn out_of_range(message: String) -> DataFusionError {
    external(Error::invalid_input(message).with_sqlstate("22008"))
}

/// Times of day of hours, minutes and seconds.
fn made_times(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let times = times_within_day(args, rows)?;
    if times.iter().flatten().any(|time| time == DAY_MICROSECONDS) {
        return Err(out_of_range("a TIME ends before 24:00:00".into()));
    }
    Ok(Arc::new(times.reinterpret_cast::<Time64MicrosecondType>()))
}

/// Microseconds of hours, minutes and seconds, of which there may be 60, to the end of a day at most.
fn times_within_day(args: &[ArrayRef], rows: usize) -> Result<Int64Array> {
    let [hours, minutes] = [0, 1].map(|place| args[place].as_primitive::<Int64Type>());
    let seconds = args[2].as_primitive::<Float64Type>();
    let time = |row: usize| {
        if hours.is_null(row) || minutes.is_null(row) || seconds.is_null(row) {
            return Ok(None);
        }
        let (hour, minute, second) = (hours.value(row), minutes.value(row), seconds.value(row));
        let are_known =
            (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
        let time = are_known.then(|| (hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64);
        time.filter(|time| *time <= DAY_MICROSECONDS).map(Some).ok_or_else(|| {
            out_of_range(format!("time field value out of range: {hour}:{minute:02}:{second:02}"))
        })
    };
    (0..rows).map(time).collect()
}

/// Points in time are numbers, and whole numbers points in time.
fn epoch_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [of] if of.is_integer() => Ok(TIMESTAMP),
        [of] if !of.is_numeric() => Ok(DataType::Int64),
        _ => Err(refused("a point in time, or a whole number, was expected")),
    }
}

/// Returns the points in time so many parts of a second, of some microseconds each, after 1970 began.
fn moments_since(numbers: &ArrayRef, microseconds: i64) -> Result<ArrayRef> {
    let numbers = cast(numbers, &DataType::Int64)?;
    let moment = |number: i64| {
        let moment = number.checked_mul(microseconds);
        let moment = moment.filter(|moment| DateTime::from_timestamp_micros(*moment).is_some());
        moment.ok_or_else(|| external(Error::invalid_input("timestamp out of range").with_sqlstate("22008")))
    };
    let moments = numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(moment).transpose());
    Ok(Arc::new(moments.collect::<Result<TimestampMicrosecondArray>>()?))
}

/// Returns the parts of a second, of some nanoseconds each, from 1970 on to points in time, or that a time
/// of day or an interval has.
fn since_1970(times: &ArrayRef, nanoseconds: i128) -> Result<ArrayRef> {
    let part = |part: i128| {
        i64::try_from(part).map_err(|_| {
            external(
                Error::invalid_input("a point in time has more nanoseconds than BIGINT")
                    .with_sqlstate("22003"),
            )
        })
    };
    let parts = wide_parts_since_1970(times, nanoseconds)?;
    let parts = parts.into_iter().map(|wide| wide.map(part).transpose());
    Ok(Arc::new(parts.collect::<Result<Int64Array>>()?))
}

fn wide_parts_since_1970(times: &ArrayRef, nanoseconds: i128) -> Result<Vec<Option<i128>>> {
    let of = times.data_type();
    if *of == INTERVAL {
        let intervals = times.as_primitive::<IntervalMonthDayNanoType>().iter();
        return Ok(intervals.map(|interval| interval.map(|of| length(of) / nanoseconds)).collect());
    }
    let is_short =
        matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(TimeUnit::Nanosecond));
    let tick = if is_short { 1 } else { 1000 };
    let ticks = cast(times, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>().iter();
    // A point in time lies in the part that has begun, also before 1970.
    let part = |ticks: i64| (i128::from(ticks) * tick).div_euclid(nanoseconds);
    Ok(ticks.map(|ticks| ticks.map(part)).collect())
}

/// Returns the nanoseconds of an interval: a year has 365.25 days, a month that makes no year 30.
fn length(IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    let months = i128::from(months);
    let of_months = months / 12 * (1461 * DAY / 4) + months % 12 * 30 * DAY;
    of_months + i128::from(days) * DAY + i128::from(nanoseconds)
}

fn exact_type(types: &[DataType], gives: DataType) -> Result<DataType> {
    match types {
        [of] if !of.is_numeric() => Ok(gives),
        _ => {
            let message = "extract() is of a point in time, a time of day or an interval";
            Err(external(Error::invalid_input(message).with_sqlstate("42883")))
        }
    }
}

/// Returns the seconds from 1970 on to points in time, or that a time of day or an interval has, to the
/// microsecond.
fn exact_epoch(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let microseconds = wide_parts_since_1970(&args[0], 1000)?;
    let seconds: Decimal128Array = microseconds.into_iter().collect();
    Ok(Arc::new(seconds.with_precision_and_scale(22, 6)?))
}

/// Returns the microseconds of minutes as decimals of larger parts: so many digits are behind the point.
fn with_places(times: &ArrayRef, places: i8) -> Result<ArrayRef> {
    let numbers = microseconds_of_minutes(times)?.unary::<_, Decimal128Type>(i128::from);
    Ok(Arc::new(numbers.with_precision_and_scale(8, places)?))
}

/// Returns the microseconds since clocks showed a whole minute, or that an interval has beside its minutes.
fn microseconds_of_minutes(times: &ArrayRef) -> Result<Int64Array> {
    const MINUTE: i64 = 60_000_000;
    if let Some(intervals) = times.as_primitive_opt::<IntervalMonthDayNanoType>() {
        return Ok(intervals.unary(|of| of.nanoseconds / 1000 % MINUTE));
    }
    let clocks = match times.data_type() {
        DataType::Timestamp(_, Some(zone)) => in_zones(times, |_| Some(zone.as_ref()))?,
        _ => times.clone(),
    };
    let tick = match clocks.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(TimeUnit::Nanosecond) => 1000,
        _ => 1,
    };
    let is_elapsed = matches!(clocks.data_type(), DataType::Duration(_));
    let ticks = cast(&clocks, &DataType::Int64)?;
    let of_minute = |ticks: i64| match is_elapsed {
        true => ticks % MINUTE,
        false => ticks.div_euclid(tick).rem_euclid(MINUTE),
    };
    Ok(ticks.as_primitive::<Int64Type>().unary(of_minute))
}

fn check_times(types: &[DataType]) -> Result<()> {
    match types {
        [_, of] if !of.is_numeric() => Ok(()),
        _ => Err(refused("date_part() is of a point in time, a time of day or an interval")),
    }
}

/// Returns for each row the part that it names.
fn computed_parts(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (names, times) = (args[0].as_string::<i32>(), &args[1]);
    let mut parts: HashMap<String, Float64Array> = HashMap::new();
    let part = |row: usize| -> Result<Option<f64>> {
        if names.is_null(row) || times.is_null(row) {
            return Ok(None);
        }
        let part = match parts.entry(names.value(row).to_ascii_lowercase()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(other) => {
                let part = cast(&part_of(other.key(), times)?, &DataType::Float64)?;
                other.insert(part.as_primitive::<Float64Type>().clone())
            }
        };
        Ok(part.is_valid(row).then(|| part.value(row)))
    };
    Ok(Arc::new((0..rows).map(part).collect::<Result<Float64Array>>()?))
}

/// Parts are whole numbers, but for those that have fractions.
fn parts_type(types: &[DataType]) -> Result<DataType> {
    check_times(types)?;
    let DataType::Struct(names) = &types[0] else {
        return Err(refused("the names of parts are fields of a structure"));
    };
    for (place, name) in names.iter().enumerate() {
        if names.iter().take(place).any(|other| other.name().eq_ignore_ascii_case(name.name())) {
            return Err(refused(format!("date_part() has the part '{}' twice", name.name())));
        }
    }
    let part = |name: &FieldRef| {
        let has_fraction = ["epoch", "julian"].iter().any(|of| name.name().eq_ignore_ascii_case(of));
        Field::new(name.name(), if has_fraction { DataType::Float64 } else { DataType::Int64 }, true)
    };
    Ok(DataType::Struct(names.iter().map(part).collect()))
}

fn named_parts(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|of| of.data_type().clone()).collect();
    let DataType::Struct(fields) = parts_type(&types)? else {
        return Err(refused("the names of parts are fields of a structure"));
    };
    let part = |field: &FieldRef| -> Result<ArrayRef> {
        Ok(cast(&part_of(&field.name().to_ascii_lowercase(), &args[1])?, field.data_type())?)
    };
    let parts = fields.iter().map(part).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(fields, parts, args[1].nulls().cloned(), rows)?))
}

/// Returns the part of a name in lower case of all points in time.
fn part_of(name: &str, times: &ArrayRef) -> Result<ArrayRef> {
    if let Some(intervals) = times.as_primitive_opt::<IntervalMonthDayNanoType>() {
        let part = interval_part::Part::named(name).ok_or_else(|| unknown(name))?;
        return Ok(part.of_all(intervals));
    }
    if matches!(name, "timezone" | "timezone_hour" | "timezone_minute") {
        let names: ArrayRef = Arc::new(StringArray::from(vec![name; times.len()]));
        return of_zone(&[names, times.clone()], times.len());
    }
    let clocks = match times.data_type() {
        DataType::Timestamp(_, Some(zone)) => in_zones(times, |_| Some(zone.as_ref()))?,
        _ => times.clone(),
    };
    let has_days = matches!(clocks.data_type(), DataType::Timestamp(..));
    match Part::named(name).filter(|_| has_days) {
        Some(Part::Julian) => {
            let seconds = plain_part("epoch", &clocks)?;
            let days = |seconds: f64| seconds / 86_400.0 + JULIAN_DAY_1970;
            Ok(Arc::new(seconds.as_primitive::<Float64Type>().unary::<_, Float64Type>(days)))
        }
        Some(part) => {
            let years = cast(&plain_part("year", &clocks)?, &DataType::Int32)?;
            let of_year = |year| part.of_year(year);
            Ok(Arc::new(years.as_primitive::<Int32Type>().unary::<_, Int32Type>(of_year)))
        }
        None if name == "epoch" => plain_part(name, times),
        None if is_year(name) => {
            let years = cast(&plain_part(name, &clocks)?, &DataType::Int32)?;
            Ok(Arc::new(years.as_primitive::<Int32Type>().unary::<_, Int32Type>(shown)))
        }
        None => plain_part(name, &clocks),
    }
}

fn unknown(name: &str) -> DataFusionError {
    refused(format!("date_part() has no part '{name}'"))
}

/// Returns a part that DataFusion knows.
fn plain_part(name: &str, times: &ArrayRef) -> Result<ArrayRef> {
    if name.is_empty() {
        return Err(unknown(name));
    }
    let function = date_part();
    let part = ScalarValue::from(name);
    let field = |of: DataType| Arc::new(Field::new("", of, true));
    let arg_fields: Vec<FieldRef> = vec![field(DataType::Utf8), field(times.data_type().clone())];
    let of = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &[Some(&part), None] };
    let return_field = function.return_field_from_args(of)?;
    let number_rows = times.len();
    let args = vec![ColumnarValue::Scalar(part), ColumnarValue::Array(times.clone())];
    let config_options = Arc::default();
    let args = ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
    function.invoke_with_args(args)?.into_array(number_rows)
}

/// There are no infinite points in time and intervals.
fn finite(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let numbers = match args[0].data_type().is_floating() {
        true => Some(cast(&args[0], &DataType::Float64)?),
        false => None,
    };
    let number = |row| numbers.as_ref().map(|of| of.as_primitive::<Float64Type>().value(row));
    let is_finite = |row| args[0].is_valid(row).then(|| number(row).is_none_or(f64::is_finite));
    Ok(Arc::new((0..rows).map(is_finite).collect::<BooleanArray>()))
}

/// Returns how far clocks of the zone are ahead of UTC: in seconds, or the hours or minutes of that.
fn of_zone(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let DataType::Timestamp(_, Some(zone)) = args[1].data_type() else {
        return Err(external(Error::unsupported("a TIMESTAMP has no time zone; a TIMESTAMPTZ has one")));
    };
    let clocks = in_zones(&args[1], |_| Some(zone.as_ref()))?;
    let ahead = seconds_between(&args[1], &clocks)?;
    let parts = args[0].as_string::<i32>();
    let part = |row: usize| {
        let is_known = parts.is_valid(row) && args[1].is_valid(row);
        is_known.then(|| match parts.value(row) {
            "timezone_hour" => ahead[row] / 3600,
            "timezone_minute" => ahead[row] / 60 % 60,
            _ => ahead[row],
        })
    };
    Ok(Arc::new((0..ahead.len()).map(part).collect::<Int64Array>()))
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

/// Buckets that begin so far from where they would begin otherwise.
fn shifted_buckets(widths: &ArrayRef, times: &ArrayRef, offsets: &ArrayRef) -> Result<ArrayRef> {
    let out_of_range = |_| refused("time_bucket(): a point in time is out of range");
    // The offset is one of clocks.
    let clocks = times.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(TIMESTAMP);
    let before = numeric::sub(&clocks, offsets).map_err(out_of_range)?;
    let starts = bucketed(&[widths.clone(), before], clocks.len())?;
    let starts = numeric::add(&starts, offsets).map_err(out_of_range)?;
    let starts = starts.as_primitive::<TimestampMicrosecondType>().clone();
    Ok(Arc::new(starts.with_data_type(times.data_type().clone())))
}

fn bucketed(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if let [widths, times, offsets] = args
        && *offsets.data_type() == INTERVAL
    {
        return shifted_buckets(widths, times, offsets);
    }
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
