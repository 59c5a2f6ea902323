//! Points in time, days and times of day from texts, in PostgreSQL's forms too, and as texts, as
//! PostgreSQL writes them.

use crate::time_read::{self, Refusal, Written, Zone};
use crate::time_zone::{in_zones, moved};
use crate::zone_name;
use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Int64Array, StringViewArray, Time64MicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use hypostyle_error::type_name::type_name;
use hypostyle_error::{external, from_datafusion};
use hypostyle_types::{ClockText, DAY_MICROSECONDS, DateText, Error, MomentText};
use std::sync::Arc;

type ArrowResult<T> = std::result::Result<T, ArrowError>;

/// Returns texts as points in time or days; `safe` makes NULLs of those that are none.
///
/// # Errors
/// `InvalidInput` for a text that is none (22007), or one that is out of range (22008);
/// `Unsupported` for infinite ones.
pub fn read(values: &ArrayRef, wanted: &DataType, safe: bool) -> ArrowResult<ArrayRef> {
    let texts = texts(values)?;
    let texts = texts.as_string_view().iter();
    match wanted {
        DataType::Timestamp(unit, zone) => {
            let digits = if *unit == TimeUnit::Nanosecond { 9 } else { 6 };
            let mut zones = Zones { own: zone.as_deref(), last: None };
            let ticks: Int64Array = in_order(texts, safe, |text| {
                let written = time_read::read(text, digits).map_err(|why| refused(text, wanted, why))?;
                zones.ticks_of(text, &written, wanted)
            })?;
            match unit {
                TimeUnit::Nanosecond | TimeUnit::Microsecond => cast(&ticks, wanted),
                _ => {
                    let exact = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                    rounded(&cast(&ticks, &exact)?, wanted)
                }
            }
        }
        _ => {
            let days: Date32Array = in_order(texts, safe, |text| {
                let written = time_read::read(text, 6).map_err(|why| refused(text, wanted, why))?;
                let days = written.days.ok_or_else(|| refused(text, wanted, Refusal::Syntax))?;
                i32::try_from(days).map_err(|_| refused(text, wanted, Refusal::Field))
            })?;
            cast(&days, wanted)
        }
    }
}

/// Returns texts as times of day.
///
/// # Errors
/// As [`read`]; 22008 for a time at which the day has ended.
pub fn read_times(values: &ArrayRef, safe: bool) -> ArrowResult<ArrayRef> {
    const WANTED: DataType = DataType::Time64(TimeUnit::Microsecond);
    let texts = texts(values)?;
    let times: Time64MicrosecondArray = in_order(texts.as_string_view().iter(), safe, |text| {
        let written = time_read::read(text, 6).map_err(|why| refused(text, &WANTED, why))?;
        match written.time.map(|time| time / 1000) {
            Some(DAY_MICROSECONDS..) => {
                let message = format!("a TIME ends before 24:00:00: \"{text}\"");
                Err(Error::invalid_input(message).with_sqlstate("22008"))
            }
            Some(time) => Ok(time),
            None => Err(refused(text, &WANTED, Refusal::Syntax)),
        }
    })?;
    Ok(Arc::new(times))
}

/// Returns what each text is, or NULL where it is none and that is `safe`.
fn in_order<'a, T, A: FromIterator<Option<T>>>(
    texts: impl Iterator<Item = Option<&'a str>>,
    safe: bool,
    mut read: impl FnMut(&str) -> hypostyle_types::Result<T>,
) -> ArrowResult<A> {
    let read = |text: Option<&str>| match text.map(&mut read) {
        None => Ok(None),
        Some(Err(_)) if safe => Ok(None),
        Some(found) => found.map(Some).map_err(|error| ArrowError::ExternalError(Box::new(error))),
    };
    texts.map(read).collect()
}

fn refused(text: &str, wanted: &DataType, why: Refusal) -> Error {
    let name = type_name(wanted);
    match why {
        Refusal::Infinite => {
            Error::unsupported(format!("infinite dates and points in time are not supported: '{text}'"))
        }
        Refusal::Field => {
            let message = format!("date/time field value out of range: \"{text}\"");
            Error::invalid_input(message).with_sqlstate("22008")
        }
        Refusal::Syntax => {
            let message =
                format!("'{text}' is not of type {name}; write it as in ISO 8601, 2024-01-31 10:20:30");
            Error::invalid_input(message).with_sqlstate("22007")
        }
    }
}

/// The zones that texts name.
struct Zones<'a> {
    /// That of those that name none.
    own: Option<&'a str>,
    last: Option<(String, bool, Tz)>,
}

impl Zones<'_> {
    fn known(&mut self, name: &str, is_own: bool) -> hypostyle_types::Result<Tz> {
        if let Some((known, of_own, zone)) = &self.last
            && known == name
            && *of_own == is_own
        {
            return Ok(*zone);
        }
        let zone = if is_own { zone_name::of_table(name) } else { zone_name::of_statement(name) };
        let zone = zone.map_err(from_datafusion)?;
        self.last = Some((name.to_string(), is_own, zone));
        Ok(zone)
    }

    /// Returns the microseconds or nanoseconds of what a text says. What clocks show has no zone, so
    /// that one in the text says nothing, as in PostgreSQL.
    fn ticks_of(&mut self, text: &str, written: &Written, wanted: &DataType) -> hypostyle_types::Result<i64> {
        let out_of_range = || refused(text, wanted, Refusal::Field);
        let days = written.days.ok_or_else(|| refused(text, wanted, Refusal::Syntax))?;
        let in_nanoseconds = matches!(wanted, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let second: i64 = if in_nanoseconds { 1_000_000_000 } else { 1_000_000 };
        let time = written.time.unwrap_or_default() / (1_000_000_000 / second);
        let clock = days.checked_mul(86_400 * second).and_then(|of| of.checked_add(time));
        let clock = clock.filter(|_| days.abs() < DAYS_MAX).ok_or_else(out_of_range)?;
        let zone = match (self.own, &written.zone) {
            (None, None | Some(Zone::Offset(_))) => return Ok(clock),
            (None, Some(Zone::Named(name))) => return self.known(name, false).map(|_| clock),
            (Some(_), Some(Zone::Offset(ahead))) => {
                return clock.checked_sub(ahead * second).ok_or_else(out_of_range);
            }
            (Some(_), Some(Zone::Named(name))) => self.known(name, false)?,
            (Some(own), None) => self.known(own, true)?,
        };
        moved(clock, second, zone, true).map_err(from_datafusion)
    }
}

/// No calendar shows a day so far from 1970.
const DAYS_MAX: i64 = 95_000_000;

/// Returns points in time in a unit that is not finer, rounded to the nearest as in PostgreSQL:
/// halves away from the year 2000.
///
/// # Errors
/// Those of Arrow's kernels.
pub fn rounded(values: &ArrayRef, wanted: &DataType) -> ArrowResult<ArrayRef> {
    let DataType::Timestamp(unit, _) = values.data_type() else { return cast(values, wanted) };
    let DataType::Timestamp(coarse, zone) = wanted else { return cast(values, wanted) };
    let (of, to): (i64, i64) = (in_second(unit), in_second(coarse));
    if of <= to {
        return cast(values, wanted);
    }
    let step = of / to;
    let values = cast(values, &DataType::Timestamp(*unit, zone.clone()))?;
    let ticks = cast(&values, &DataType::Int64)?;
    let ticks: Int64Array = ticks.as_primitive::<Int64Type>().unary(|ticks| nearest(ticks, step, of) / step);
    cast(&ticks, wanted)
}

/// Returns the ticks of a second.
pub(crate) fn in_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the multiple of a step that is nearest to a point in time, in parts of a second.
pub(crate) fn nearest(ticks: i64, step: i64, second: i64) -> i64 {
    const SECONDS_2000: i64 = 946_684_800;
    let origin = SECONDS_2000 * second;
    let from = i128::from(ticks) - i128::from(origin);
    let (step, half) = (i128::from(step), i128::from(step / 2));
    let steps = (from.abs() + half) / step * from.signum();
    i64::try_from(steps * step + i128::from(origin)).unwrap_or(ticks)
}

fn texts(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    cast(values, &DataType::Utf8View)
}

/// Returns dates, points in time and times of day as texts, those in a zone with how far its clocks are from
/// UTC.
///
/// # Errors
/// Those of Arrow's kernels.
pub fn written(values: &ArrayRef) -> ArrowResult<StringViewArray> {
    if let Some(days) = values.as_primitive_opt::<Date32Type>() {
        return Ok(days.iter().map(|days| days.map(|days| DateText(days.into()).to_string())).collect());
    }
    let (shown, ahead) = match values.data_type() {
        DataType::Timestamp(_, Some(zone)) => {
            let clocks = in_zones(values, |_| Some(zone.as_ref()));
            let clocks = clocks.map_err(|error| ArrowError::ExternalError(error.into()))?;
            let ahead = seconds_between(values, &clocks)?;
            (clocks, Some(ahead))
        }
        DataType::Time32(_) => (cast(values, &DataType::Int32)?, None),
        _ => (values.clone(), None),
    };
    let is_of_day = matches!(values.data_type(), DataType::Time32(_) | DataType::Time64(_));
    let second = match (values.data_type(), shown.data_type()) {
        (DataType::Time32(unit) | DataType::Time64(unit), _) | (_, DataType::Timestamp(unit, _)) => {
            in_second(unit)
        }
        (of, _) => return Err(ArrowError::CastError(format!("{of} is no time"))),
    };
    let ticks = cast(&shown, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let (day, tick) = (86_400 * second, 1_000_000_000 / second);
    // A file may have others. What lies under NULL is no value.
    let of_no_day = ticks.iter().flatten().find(|ticks| is_of_day && !(0..=day).contains(ticks));
    if let Some(ticks) = of_no_day {
        let what = match second {
            1 => "seconds",
            1_000 => "milliseconds",
            1_000_000 => "microseconds",
            _ => "nanoseconds",
        };
        let error = Error::invalid_input(format!("{ticks} {what} after midnight are no TIME of a day"));
        return Err(ArrowError::ExternalError(external(error.with_sqlstate("22008")).into()));
    }
    let text = |row| {
        let ticks = ticks.value(row);
        if is_of_day {
            return ClockText(ticks * tick).to_string();
        }
        let (days, nanoseconds) = (ticks.div_euclid(day), ticks.rem_euclid(day) * tick);
        MomentText { days, nanoseconds, ahead: ahead.as_ref().map(|ahead| ahead[row]) }.to_string()
    };
    Ok((0..values.len()).map(|row| values.is_valid(row).then(|| text(row))).collect())
}

/// Returns how far clocks are ahead of points in time; of NULL anything.
pub(crate) fn seconds_between(moments: &ArrayRef, clocks: &ArrayRef) -> ArrowResult<Vec<i64>> {
    let (unit, second) = match clocks.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (TimeUnit::Nanosecond, 1_000_000_000),
        _ => (TimeUnit::Microsecond, 1_000_000),
    };
    let ticks =
        |array: &ArrayRef, zone| cast(&cast(array, &DataType::Timestamp(unit, zone))?, &DataType::Int64);
    let (moments, clocks) = (ticks(moments, Some("UTC".into()))?, ticks(clocks, None)?);
    let pairs =
        moments.as_primitive::<Int64Type>().values().iter().zip(clocks.as_primitive::<Int64Type>().values());
    Ok(pairs.map(|(moment, shown)| shown.wrapping_sub(*moment) / second).collect())
}

#[cfg(test)]
mod tests {
    use super::{nearest, written};
    use arrow::array::{ArrayRef, Time64MicrosecondArray};
    use hypostyle_error::from_datafusion;
    use std::sync::Arc;

    #[test]
    fn times_of_no_day_are_errors() {
        let times = |time: i64| -> ArrayRef {
            Arc::new(Time64MicrosecondArray::from(vec![Some(5), None, Some(time)]))
        };
        assert_eq!(written(&times(3_600_000_000)).unwrap().value(2), "01:00:00");
        for time in [-1, 86_400_000_001, i64::MAX, i64::MIN] {
            let error = written(&times(time)).unwrap_err();
            assert_eq!(from_datafusion(error.into()).sqlstate(), "22008", "{time}");
        }
    }

    #[test]
    fn halves_go_away_from_2000() {
        const Y2000: i64 = 946_684_800_000_000;
        for (ticks, rounded) in [
            (Y2000 + 1_500_000, Y2000 + 2_000_000),
            (Y2000 + 1_499_999, Y2000 + 1_000_000),
            (Y2000 - 1_500_000, Y2000 - 2_000_000),
            (Y2000 - 1_499_999, Y2000 - 1_000_000),
            (i64::MAX, i64::MAX),
        ] {
            assert_eq!(nearest(ticks, 1_000_000, 1_000_000), rounded);
        }
    }
}
