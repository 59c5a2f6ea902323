//! Values of common types, written as Arrow writes them, but without a text of their own for each.

use hypostyle::arrow::array::{Array, AsArray};
use hypostyle::arrow::datatypes::{
    ArrowTimestampType, DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, DecimalType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use hypostyle::arrow::error::ArrowError;
use hypostyle::arrow::util::display::FormatOptions;
use hypostyle::calendar::{Date, date_of};
use std::fmt::Write;

const DAY_SECONDS: i64 = 86_400;

/// Appends the value of a row.
pub(super) type WriteValue<'a> = Box<dyn Fn(usize, &mut String) -> Result<(), ArrowError> + 'a>;

/// Returns what writes the values of an array in which no year has other than four digits, or None for types
/// that Arrow writes as well.
pub(super) fn writer<'a>(array: &'a dyn Array, style: &FormatOptions<'a>) -> Option<WriteValue<'a>> {
    match array.data_type() {
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            Some(Box::new(move |row, out| push(out, texts.value(row))))
        }
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            Some(Box::new(move |row, out| push(out, texts.value(row))))
        }
        DataType::Utf8View => {
            let texts = array.as_string_view();
            Some(Box::new(move |row, out| push(out, texts.value(row))))
        }
        DataType::Decimal32(precision, scale) => decimals::<Decimal32Type>(array, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimals::<Decimal64Type>(array, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimals::<Decimal128Type>(array, *precision, *scale),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            Some(Box::new(move |row, out| {
                push_date(i64::from(days.value(row)), out);
                Ok(())
            }))
        }
        DataType::Timestamp(unit, zone) => {
            let ahead = match (zone.as_deref(), style.timestamp_tz_format()) {
                (None, _) => "",
                (Some("UTC" | "+00:00"), Some(_)) => "+00:00",
                _ => return None,
            };
            let between = if style.timestamp_format().is_some() { ' ' } else { 'T' };
            Some(match unit {
                TimeUnit::Second => moments::<TimestampSecondType>(array, 1, between, ahead),
                TimeUnit::Millisecond => moments::<TimestampMillisecondType>(array, 1_000, between, ahead),
                TimeUnit::Microsecond => {
                    moments::<TimestampMicrosecondType>(array, 1_000_000, between, ahead)
                }
                TimeUnit::Nanosecond => {
                    moments::<TimestampNanosecondType>(array, 1_000_000_000, between, ahead)
                }
            })
        }
        _ => None,
    }
}

pub(super) fn push(out: &mut String, text: &str) -> Result<(), ArrowError> {
    out.push_str(text);
    Ok(())
}

fn decimals<'a, T: DecimalType>(array: &'a dyn Array, precision: u8, scale: i8) -> Option<WriteValue<'a>>
where
    T::Native: Into<i128>,
{
    let places = usize::try_from(scale).ok()?;
    let values = array.as_primitive::<T>();
    Some(Box::new(move |row, out| {
        let start = out.len();
        let value: i128 = values.value(row).into();
        let written = match i64::try_from(value) {
            Ok(value) => write!(out, "{value}"),
            Err(_) => write!(out, "{value}"),
        };
        written.map_err(|error| ArrowError::CastError(error.to_string()))?;
        let first = start + usize::from(out[start..].starts_with('-'));
        let digits = out.len() - first;
        if digits > usize::from(precision) {
            // Arrow has its way with those that their type does not have.
            out.truncate(start);
            out.push_str(&T::format_decimal(values.value(row), precision, scale));
        } else if digits <= places {
            out.insert_str(first, "0.");
            for _ in digits..places {
                out.insert(first + 2, '0');
            }
        } else if places > 0 {
            out.insert(out.len() - places, '.');
        }
        Ok(())
    }))
}

/// Returns what writes points in time, of so many ticks in a second, in UTC.
fn moments<'a, T: ArrowTimestampType>(
    array: &'a dyn Array,
    second: i64,
    between: char,
    ahead: &'static str,
) -> WriteValue<'a> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, out| {
        let ticks = values.value(row);
        let (seconds, fraction) = (ticks.div_euclid(second), ticks.rem_euclid(second));
        push_date(seconds.div_euclid(DAY_SECONDS), out);
        out.push(between);
        push_clock(seconds.rem_euclid(DAY_SECONDS), fraction * (1_000_000_000 / second), out);
        push(out, ahead)
    })
}

fn push_date(days: i64, out: &mut String) {
    let Date { year, month, day } = date_of(days);
    push_digits(year, 4, out);
    out.push('-');
    push_digits(month.into(), 2, out);
    out.push('-');
    push_digits(day.into(), 2, out);
}

fn push_clock(second: i64, nanoseconds: i64, out: &mut String) {
    push_digits(second / 3600, 2, out);
    out.push(':');
    push_digits(second / 60 % 60, 2, out);
    out.push(':');
    push_digits(second % 60, 2, out);
    let (fraction, digits) = match nanoseconds {
        0 => return,
        _ if nanoseconds % 1_000_000 == 0 => (nanoseconds / 1_000_000, 3),
        _ if nanoseconds % 1_000 == 0 => (nanoseconds / 1_000, 6),
        _ => (nanoseconds, 9),
    };
    out.push('.');
    push_digits(fraction, digits, out);
}

/// Appends the last digits of a number that is not negative.
fn push_digits(number: i64, digits: u32, out: &mut String) {
    for place in (0..digits).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + digit as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle::arrow::array::{
        ArrayRef, Date32Array, Decimal32Array, Decimal64Array, Decimal128Array, LargeStringArray,
        StringArray, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };
    use hypostyle::arrow::util::display::ArrayFormatter;
    use std::sync::Arc;

    const SQL_STYLE: FormatOptions<'static> = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    const JSON_STYLE: FormatOptions<'static> = FormatOptions::new();

    fn decimals_of_all_sizes() -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let small: [i32; 10] = [0, 1, -1, 9, -10, 99, 100, -12_345, 123_456_789, -999_999_999];
        // -10 has more digits than a precision of 1, and 9 digits are the most of the others.
        for (precision, scale) in [(9, 0), (9, 2), (9, 9), (1, 0), (1, 1), (3, 2), (5, -2)] {
            let values = Decimal32Array::from(small.to_vec());
            arrays.push(Arc::new(values.with_precision_and_scale(precision, scale).unwrap()));
        }
        let wide = small.map(i64::from).into_iter().chain([999_999_999_999_999_999]);
        let values = Decimal64Array::from_iter_values(wide);
        arrays.push(Arc::new(values.with_precision_and_scale(18, 4).unwrap()));
        for scale in [0, 2, 37, 38, -3] {
            let large = 10_i128.pow(38) - 1;
            let values = small.map(i128::from).into_iter().chain([large, -large]);
            let values = Decimal128Array::from_iter_values(values);
            arrays.push(Arc::new(values.with_precision_and_scale(38, scale).unwrap()));
        }
        arrays
    }

    fn times() -> Vec<ArrayRef> {
        let seconds: [i64; 10] =
            [0, 1, -1, 59, 3_600, 86_399, 86_400, 951_782_400, -62_135_510_400, 253_402_214_399];
        let parts: [i64; 6] = [0, 1, 10, 500_000, 999_999, 123_000];
        let all = || seconds.into_iter().flat_map(move |second| parts.map(|part| (second, part)));
        let micros =
            || TimestampMicrosecondArray::from_iter_values(all().map(|(s, part)| s * 1_000_000 + part));
        let millis = || all().map(|(s, part)| s * 1_000 + part / 1_000);
        let nanos = |seconds: &[i64]| {
            let of = |second: &i64| parts.map(|part| second * 1_000_000_000 + part * 1_000 + part % 7);
            TimestampNanosecondArray::from_iter_values(seconds.iter().flat_map(of))
        };
        vec![
            Arc::new(Date32Array::from(vec![0, -1, 11_016, 19_782, -719_161, 2_932_895])),
            Arc::new(TimestampSecondArray::from(seconds.to_vec())),
            Arc::new(TimestampMillisecondArray::from_iter_values(millis())),
            Arc::new(micros()),
            Arc::new(nanos(&seconds[..8])),
            Arc::new(micros().with_timezone("UTC")),
            Arc::new(micros().with_timezone("+00:00")),
        ]
    }

    #[test]
    fn values_are_written_as_arrow_writes_them() {
        let texts = vec!["", "a", "a much longer text, é漢\n"];
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(texts.clone())),
            Arc::new(LargeStringArray::from(texts.clone())),
            Arc::new(StringViewArray::from(texts)),
        ];
        arrays.extend(decimals_of_all_sizes());
        arrays.extend(times());
        for array in arrays {
            for style in [&SQL_STYLE, &JSON_STYLE] {
                let Some(write) = writer(array.as_ref(), style) else { continue };
                let formatter = ArrayFormatter::try_new(array.as_ref(), style).unwrap();
                for row in 0..array.len() {
                    let mut out = String::from("before ");
                    write(row, &mut out).unwrap();
                    assert_eq!(out, format!("before {}", formatter.value(row)), "{}", array.data_type());
                }
            }
        }
    }

    #[test]
    fn the_common_types_are_written_here() {
        for array in times() {
            assert!(writer(array.as_ref(), &SQL_STYLE).is_some(), "{}", array.data_type());
        }
        let rome = TimestampSecondArray::from(vec![0]).with_timezone("Europe/Rome");
        assert!(writer(&rome, &SQL_STYLE).is_none());
    }
}
