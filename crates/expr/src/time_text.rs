//! Points in time, days and times of day from texts, in PostgreSQL's forms too, and as texts, as
//! PostgreSQL writes them.

use crate::time_zone::in_zones;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray, StringViewArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle_types::{Error, recurring};
use std::borrow::Cow;
use std::sync::Arc;

type ArrowResult<T> = std::result::Result<T, ArrowError>;

/// Returns texts as points in time or days; `safe` makes NULLs of those that are none.
///
/// # Errors
/// Those of Arrow's parser; `Unsupported` for infinite ones.
pub fn read(values: &ArrayRef, wanted: &DataType, safe: bool) -> ArrowResult<ArrayRef> {
    let (options, strict) = (
        CastOptions { safe, ..CastOptions::default() },
        CastOptions { safe: false, ..CastOptions::default() },
    );
    let values = &without_zones(values, wanted)?;
    // Most texts are in the form that Arrow reads.
    match cast_with_options(values, wanted, &strict) {
        Ok(read) if !is_beyond_zones(&read)? => return Ok(read),
        Err(_) if !safe => refuse_infinite(values)?,
        _ => {}
    }
    if let DataType::Timestamp(_, Some(zone)) = wanted {
        return zoned(values, wanted, zone, &options);
    }
    let texts: StringArray = texts(values)?.as_string_view().iter().map(|text| text.map(time_text)).collect();
    cast_with_options(&texts, wanted, &options)
}

/// Says whether there are points in time of a zone whose table has no rules for them any more, so
/// that Arrow reads them by the offset of its last one.
fn is_beyond_zones(read: &ArrayRef) -> ArrowResult<bool> {
    let DataType::Timestamp(_, Some(_)) = read.data_type() else { return Ok(false) };
    let microseconds = cast(read, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let latest = arrow::compute::max(microseconds.as_primitive::<TimestampMicrosecondType>());
    Ok(latest.is_some_and(|latest| recurring(latest / 1_000_000) != latest / 1_000_000))
}

/// # Errors
/// `Unsupported` where a text is that of an infinite day or point in time.
fn refuse_infinite(values: &ArrayRef) -> ArrowResult<()> {
    let texts = texts(values)?;
    let is_infinite =
        |text: &str| text.trim().trim_start_matches(['-', '+']).eq_ignore_ascii_case("infinity");
    match texts.as_string_view().iter().flatten().find(|text| is_infinite(text)) {
        Some(text) => {
            let message = format!("infinite dates and points in time are not supported: '{text}'");
            Err(ArrowError::ExternalError(Box::new(Error::unsupported(message))))
        }
        None => Ok(()),
    }
}

fn texts(values: &ArrayRef) -> ArrowResult<ArrayRef> {
    cast(values, &DataType::Utf8View)
}

/// Texts as points in time; those that name no zone are of this one, also where its clocks leave an
/// hour out or show it twice.
fn zoned(
    values: &ArrayRef,
    wanted: &DataType,
    zone: &str,
    options: &CastOptions<'_>,
) -> ArrowResult<ArrayRef> {
    let texts = texts(values)?;
    let texts: StringArray = texts.as_string_view().iter().map(|text| text.map(time_text)).collect();
    let local: BooleanArray = texts.iter().map(|text| text.map(|text| !names_zone(text))).collect();
    let only = |local: bool| -> StringArray {
        texts.iter().map(|text| text.filter(|text| names_zone(text) != local)).collect()
    };
    let unit = match wanted {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    let clocks = cast_with_options(&only(true), &DataType::Timestamp(unit, None), options)?;
    let moments =
        in_zones(&clocks, |_| Some(zone)).map_err(|error| ArrowError::ExternalError(error.into()))?;
    let moments = arrow::compute::cast(&moments, wanted)?;
    zip(&local, &moments, &cast_with_options(&only(false), wanted, options)?)
}

/// Texts of what clocks show, or of days, without the zones or offsets that they may name, which
/// say nothing of these, as in PostgreSQL.
fn without_zones(values: &ArrayRef, wanted: &DataType) -> ArrowResult<ArrayRef> {
    if matches!(wanted, DataType::Timestamp(_, Some(_))) || wanted.is_decimal() {
        return Ok(values.clone());
    }
    let texts = texts(values)?;
    let texts = texts.as_string_view();
    if !texts.iter().flatten().any(names_zone) {
        return Ok(values.clone());
    }
    let without = texts.iter().map(|text| text.map(without_zone));
    Ok(Arc::new(without.collect::<StringViewArray>()))
}

fn without_zone(text: &str) -> &str {
    let Some(behind) = text.find(':') else { return text.trim_end().trim_end_matches(['Z', 'z']) };
    let zone = text[behind..].find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.' | ' '));
    let Some(zone) = zone else { return text };
    let (time, zone) = text.split_at(behind + zone);
    let is_zone = !["AM", "PM", "BC", "AD"].iter().any(|other| zone.trim().eq_ignore_ascii_case(other));
    if is_zone { time.trim_end() } else { text }
}

/// Says whether a zone or an offset is behind the time, as in `2020-01-01 00:00+01`.
fn names_zone(text: &str) -> bool {
    let behind = text.split_once(':').map_or(text, |(_, behind)| behind);
    let is_time = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b' ');
    match text.contains(':') {
        true => !behind.bytes().all(is_time),
        false => behind.ends_with(|last: char| last.is_ascii_alphabetic()),
    }
}

/// Returns points in time and times of day as texts, the former with how far clocks are from UTC.
///
/// # Errors
/// Those of Arrow's kernels.
pub fn written(values: &ArrayRef) -> ArrowResult<StringViewArray> {
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_time_format(Some("%H:%M:%S%.f"));
    let (shown, ahead) = match values.data_type() {
        DataType::Timestamp(_, Some(zone)) => {
            let clocks = in_zones(values, |_| Some(zone.as_ref()));
            let clocks = clocks.map_err(|error| ArrowError::ExternalError(error.into()))?;
            let ahead = seconds_between(values, &clocks)?;
            (clocks, Some(ahead))
        }
        _ => (values.clone(), None),
    };
    let formatter = ArrayFormatter::try_new(shown.as_ref(), &options)?;
    let text = |row| -> ArrowResult<String> {
        let time = formatter.value(row).try_to_string()?;
        let time = if time.contains('.') { time.trim_end_matches('0') } else { &time };
        Ok(format!("{time}{}", ahead.as_ref().map_or(String::new(), |ahead| offset_text(ahead[row]))))
    };
    (0..values.len()).map(|row| values.is_valid(row).then(|| text(row)).transpose()).collect()
}

/// Returns how far clocks are ahead of points in time; of NULL anything.
fn seconds_between(moments: &ArrayRef, clocks: &ArrayRef) -> ArrowResult<Vec<i64>> {
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

/// Returns how far clocks are from UTC, as `+02`. Minutes are written where there are any, and
/// seconds, which are from the time before there were zones.
fn offset_text(seconds: i64) -> String {
    let (sign, ahead) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    let (hours, minutes, seconds) = (ahead / 3600, ahead / 60 % 60, ahead % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Returns a point in time with seconds, which may be left out.
fn time_text(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let Some((before, after)) = text.split_once(':') else { return text.into() };
    let minutes = digits(after);
    let hours = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    if minutes != 2 || !(1..=2).contains(&hours) || after[minutes..].starts_with([':', '.']) {
        return text.into();
    }
    let (date, hour) = before.split_at(before.len() - hours);
    format!("{date}{hour:0>2}:{}:00{}", &after[..minutes], &after[minutes..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_left_out() {
        for (text, with_seconds) in [
            ("2020-01-02 10:30", "2020-01-02 10:30:00"),
            (" 2020-01-02T9:30+02:00 ", "2020-01-02T09:30:00+02:00"),
            ("2020-01-02 10:30:05", "2020-01-02 10:30:05"),
            ("2020-01-02 10:30 Europe/Amsterdam", "2020-01-02 10:30:00 Europe/Amsterdam"),
            ("2020-01-02", "2020-01-02"),
            ("10:3", "10:3"),
            ("é:30", "é:30"),
        ] {
            assert_eq!(time_text(text), with_seconds);
        }
    }
}
