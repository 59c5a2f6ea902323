//! Values that come from the client: parameters and the fields of COPY, in text or in PostgreSQL's
//! binary format.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::documents::from_json;
use super::message::Body;
use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryBuilder, IntervalMonthDayNanoArray, LargeBinaryArray,
    LargeListArray, StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, i256};
use arrow::util::display::FormatOptions;
use bytes::Bytes;
use hypostyle::postgres::{self as pg, PostgresType};
use hypostyle::{Parameters, ScalarValue};
use hypostyle_pgtypes::calendar::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use hypostyle_types::{DAY_MICROSECONDS, Error, LogicalType, Result, check_json_text};
use std::sync::Arc;

const UUID_BYTES: u8 = 16;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_DIGITS_MAX: usize = 76;

/// Groups of four digits, and places behind the point, of which no number has more.
const NUMERIC_GROUPS: i32 = 20;
const NUMERIC_PLACES: u16 = 80;

/// What is told of a text that PostgreSQL does not take.
pub(super) const HAS_ZERO: &str = "invalid byte sequence for encoding \"UTF8\": 0x00";

/// Digits that 128 bits have, and those that any DOUBLE keeps.
const NARROW_DIGITS_MAX: usize = 38;
const DOUBLE_DIGITS: usize = 15;

/// The type that a parameter of a type of PostgreSQL has here.
fn logical_type(scalar: PostgresType) -> LogicalType {
    use LogicalType::*;
    match scalar.oid {
        oid if oid == pg::BOOL.oid => Boolean,
        oid if oid == pg::INT2.oid => SmallInt,
        oid if oid == pg::INT4.oid => Integer,
        // An object's number, too.
        oid if oid == pg::INT8.oid || scalar.name == "oid" => BigInt,
        oid if oid == pg::FLOAT4.oid => Float,
        oid if oid == pg::FLOAT8.oid => Double,
        oid if oid == pg::BYTEA.oid => Blob,
        oid if oid == pg::DATE.oid => Date,
        oid if oid == pg::TIME.oid => Time,
        oid if oid == pg::TIMESTAMP.oid => LogicalType::timestamp(),
        oid if oid == pg::TIMESTAMPTZ.oid => LogicalType::timestamp_with_time_zone(),
        oid if oid == pg::INTERVAL.oid => Interval,
        // As far as its values do not say: a number's own digits decide on its precision.
        oid if oid == pg::NUMERIC.oid => Decimal { precision: 38, scale: 10 },
        _ => Varchar,
    }
}

/// The type that values of a parameter have whose type the client tells; `None` for one that it leaves open.
pub(super) fn type_of_parameter(oid: u32) -> Option<DataType> {
    let (scalar, is_array) = pg::by_oid(oid)?;
    if scalar == pg::UUID && !is_array {
        return Some(LogicalType::Uuid.arrow_type());
    }
    if is_json(scalar) && !is_array {
        return Some(Parameters::json_type());
    }
    Some(of_parameter(scalar, is_array).arrow_type())
}

fn of_parameter(scalar: PostgresType, is_array: bool) -> LogicalType {
    match is_array {
        true => LogicalType::List { element: Box::new(logical_type(scalar)) },
        false => logical_type(scalar),
    }
}

/// The value of a parameter, of a session with a time zone.
///
/// # Errors
/// `22P02` for a text, `22P03` for bytes that are no value of the type.
pub(super) fn parameter(value: Option<&Bytes>, oid: u32, binary: bool, zone: &str) -> Result<ScalarValue> {
    let (scalar, is_array) = pg::by_oid(oid).unwrap_or((pg::TEXT, false));
    let of = of_parameter(scalar, is_array);
    if scalar == pg::UUID && !is_array {
        return uuid_parameter(value, binary);
    }
    if is_json(scalar) && !is_array {
        return json_parameter(value, scalar, binary);
    }
    let Some(value) = value else {
        return match oid {
            // NULL takes the type of what is around it.
            0 => Ok(ScalarValue::Null),
            _ => ScalarValue::try_from(&of.arrow_type()).map_err(|error| Error::internal(error.to_string())),
        };
    };
    if binary {
        return match is_array {
            true => binary_array(value.clone(), scalar),
            false => binary_scalar(value.clone(), scalar),
        };
    }
    let text = utf8(value)?;
    if scalar == pg::NUMERIC {
        return if is_array { numeric_list(text) } else { numeric(text) };
    }
    if let Some(value) = plain(text, &of) {
        return Ok(value);
    }
    let array = from_text(&StringArray::from(vec![text]), &of, zone)?;
    ScalarValue::try_from_array(&array, 0).map_err(|error| Error::internal(error.to_string()))
}

/// Returns values for which no array has to be made: texts, and whole numbers as they are mostly written.
fn plain(text: &str, of: &LogicalType) -> Option<ScalarValue> {
    Some(match of {
        LogicalType::Varchar => ScalarValue::LargeUtf8(Some(text.into())),
        LogicalType::SmallInt => ScalarValue::Int16(Some(text.parse().ok()?)),
        LogicalType::Integer => ScalarValue::Int32(Some(text.parse().ok()?)),
        LogicalType::BigInt => ScalarValue::Int64(Some(text.parse().ok()?)),
        _ => return None,
    })
}

/// The value of a parameter that is shown as JSON: a structure, a map, or a list of such.
///
/// # Errors
/// `22P02` for a text that is no JSON of the type; those of [`from_text`] for what is within.
pub(super) fn nested_parameter(value: Option<&Bytes>, of: &LogicalType, zone: &str) -> Result<ScalarValue> {
    // NULL takes the type of what is around it.
    let Some(bytes) = value else { return Ok(ScalarValue::Null) };
    let array = from_text(&StringArray::from(vec![utf8(bytes)?]), of, zone)?;
    ScalarValue::try_from_array(&array, 0).map_err(internal)
}

/// A parameter that is a UUID, and stays one.
fn uuid_parameter(value: Option<&Bytes>, binary: bool) -> Result<ScalarValue> {
    let bytes = match value {
        None => None,
        Some(bytes) if binary && bytes.len() == usize::from(UUID_BYTES) => Some(bytes.to_vec()),
        Some(bytes) if binary => return Err(wrong_bytes(pg::UUID, bytes)),
        Some(text) => Some(uuid(utf8(text)?)?),
    };
    Ok(ScalarValue::FixedSizeBinary(UUID_BYTES.into(), bytes))
}

fn is_json(scalar: PostgresType) -> bool {
    matches!(scalar.name, "json" | "jsonb")
}

/// A parameter that is JSON, and no text that shows it. JSONB is written in one way, so that it is equal to
/// what is cast to it.
fn json_parameter(value: Option<&Bytes>, scalar: PostgresType, binary: bool) -> Result<ScalarValue> {
    let text = match value {
        None => None,
        // A version comes before the text.
        Some(bytes) if binary && scalar.name == "jsonb" => {
            Some(utf8(bytes.strip_prefix(&[1]).ok_or_else(|| wrong_bytes(scalar, bytes))?)?)
        }
        Some(bytes) => Some(utf8(bytes)?),
    };
    match text.filter(|text| scalar.name == "jsonb" && check_json_text(text).is_ok()) {
        Some(text) => Ok(Parameters::json(Some(&pg::normalised(text)))),
        // Where it is used, it is told what is no JSON.
        None => Ok(Parameters::json(text)),
    }
}

/// # Errors
/// `22021` for what is no UTF-8, and for a text with a zero, which PostgreSQL's texts do not have.
fn utf8(bytes: &[u8]) -> Result<&str> {
    let wrong = |why: String| Error::invalid_input(why).with_sqlstate("22021");
    let text = std::str::from_utf8(bytes).map_err(|error| wrong(format!("a text is not UTF-8: {error}")))?;
    match bytes.contains(&0) {
        true => Err(wrong(HAS_ZERO.into())),
        false => Ok(text),
    }
}

fn not_a(what: &str, text: &str) -> Error {
    Error::invalid_input(format!("invalid input for type {what}: \"{text}\"")).with_sqlstate("22P02")
}

/// Texts in PostgreSQL's form as values of a type, times without a time zone being of this one.
///
/// # Errors
/// `22P02` or `22007` naming a text that is no value of it.
pub(super) fn from_text(texts: &StringArray, of: &LogicalType, zone: &str) -> Result<ArrayRef> {
    let is_nested =
        matches!(of, LogicalType::List { .. } | LogicalType::Array { .. }) && !pg::shown(of).is_array;
    let each = || (0..texts.len()).map(|row| texts.is_valid(row).then(|| texts.value(row)));
    match of {
        _ if is_nested => from_json(texts, of, zone),
        LogicalType::Boolean => {
            let values =
                each().map(|text| text.map(boolean).transpose()).collect::<Result<BooleanArray>>()?;
            Ok(Arc::new(values))
        }
        LogicalType::Blob | LogicalType::FixedBinary { .. } => {
            let values = each().map(|text| text.map(bytes).transpose()).collect::<Result<Vec<_>>>()?;
            let values: LargeBinaryArray = values.into_iter().collect();
            cast(&(Arc::new(values) as ArrayRef), &of.arrow_type())
        }
        LogicalType::Uuid => {
            let mut values = FixedSizeBinaryBuilder::new(UUID_BYTES.into());
            for text in each() {
                match text {
                    Some(text) => values.append_value(uuid(text)?).map_err(internal)?,
                    None => values.append_null(),
                }
            }
            Ok(Arc::new(values.finish()))
        }
        LogicalType::List { element } | LogicalType::Array { element, .. } => {
            let lists = lists(texts, element, zone)?;
            cast(&lists, &of.arrow_type())
        }
        LogicalType::Struct { .. } | LogicalType::Map { .. } => from_json(texts, of, zone),
        LogicalType::Interval | LogicalType::Duration { .. } => {
            let values = each().map(|text| text.map(interval).transpose());
            let values = values.collect::<Result<IntervalMonthDayNanoArray>>()?;
            cast(&(Arc::new(values) as ArrayRef), &of.arrow_type())
        }
        LogicalType::Integer
        | LogicalType::BigInt
        | LogicalType::SmallInt
        | LogicalType::TinyInt
        | LogicalType::UTinyInt
        | LogicalType::USmallInt
        | LogicalType::UInteger
        | LogicalType::UBigInt
        | LogicalType::Decimal { .. }
        | LogicalType::Float
        | LogicalType::Double => {
            // Blanks around a number are nothing.
            let trimmed: StringArray = each().map(|text| text.map(str::trim)).collect();
            pg::of_texts(&(Arc::new(trimmed) as ArrayRef), of, zone)
        }
        LogicalType::Date | LogicalType::Time | LogicalType::Timestamp { .. } => {
            let is_infinite =
                |text: &str| text.trim().trim_start_matches('-').eq_ignore_ascii_case("infinity");
            if each().flatten().any(is_infinite) {
                return Err(infinite());
            }
            let texts: ArrayRef = Arc::new(texts.clone());
            pg::of_texts(&texts, of, zone)
        }
        _ => cast(&(Arc::new(texts.clone()) as ArrayRef), &of.arrow_type()),
    }
}

fn infinite() -> Error {
    Error::unsupported("there are no infinite dates and times; write NULL, or one that is far away")
}

pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    cast_with_options(array, to, &options)
        .map_err(|error| Error::invalid_input(error.to_string()).with_sqlstate("22P02"))
}

pub(super) fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

fn boolean(text: &str) -> Result<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Ok(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Ok(false),
        _ => Err(not_a("boolean", text)),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// `\x…`, or the older form with `\ooo` for what is not printable.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let wrong = || not_a("bytea", text);
    if let Some(digits) = text.strip_prefix("\\x") {
        return hexadecimal(digits).ok_or_else(wrong);
    }
    let mut rest = text.as_bytes();
    let mut found = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => {
                found.push(b'\\');
                rest = after;
            }
            (b'\\', [one @ b'0'..=b'3', two @ b'0'..=b'7', three @ b'0'..=b'7', after @ ..]) => {
                found.push((one - b'0') << 6 | (two - b'0') << 3 | (three - b'0'));
                rest = after;
            }
            (b'\\', _) => return Err(wrong()),
            _ => found.push(*byte),
        }
    }
    Ok(found)
}

fn uuid(text: &str) -> Result<Vec<u8>> {
    let digits: String = text.trim().trim_matches(['{', '}']).chars().filter(|c| *c != '-').collect();
    hexadecimal(&digits)
        .filter(|bytes| bytes.len() == usize::from(UUID_BYTES))
        .ok_or_else(|| not_a("uuid", text))
}

/// An interval in PostgreSQL's form: numbers with units, and a time: `1 year -2 mons 3 days 04:05:06.7`.
fn interval(text: &str) -> Result<IntervalMonthDayNano> {
    let wrong = || not_a("interval", text);
    let (mut months, mut days, mut nanoseconds) = (0_f64, 0_f64, 0_i64);
    let mut words = text.split_whitespace().peekable();
    if words.peek().is_none() {
        return Err(wrong());
    }
    while let Some(word) = words.next() {
        if word.contains(':') {
            nanoseconds =
                nanoseconds.checked_add(time_nanoseconds(word).ok_or_else(wrong)?).ok_or_else(wrong)?;
            continue;
        }
        // The unit may stand right behind its number.
        let end = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
        let number: f64 = word[..end].parse().map_err(|_| wrong())?;
        let unit = if end < word.len() { &word[end..] } else { words.next().unwrap_or("seconds") };
        let unit = unit.to_ascii_lowercase();
        // What is less than a month becomes days, and what is less than a day time.
        let (more_months, more_days, seconds) = match unit.trim_end_matches('s') {
            "year" | "yr" | "y" => ((number * 12.0).round(), 0.0, 0.0),
            "month" | "mon" => (number.trunc(), number.fract() * 30.0, 0.0),
            "week" | "w" => (0.0, number * 7.0, 0.0),
            "day" | "d" => (0.0, number, 0.0),
            "hour" | "hr" | "h" => (0.0, 0.0, number * 3600.0),
            "minute" | "min" | "m" => (0.0, 0.0, number * 60.0),
            "second" | "sec" | "" => (0.0, 0.0, number),
            "millisecond" | "msec" => (0.0, 0.0, number * 1e-3),
            "microsecond" | "usec" | "u" => (0.0, 0.0, number * 1e-6),
            _ => return Err(wrong()),
        };
        // Tenths have no end in binary.
        let more_days = (more_days * 1e6).round() / 1e6;
        months += more_months;
        days += more_days.trunc();
        let more = ((more_days.fract() * 86_400.0 + seconds) * 1e9).round();
        nanoseconds = whole(more).and_then(|more| nanoseconds.checked_add(more)).ok_or_else(wrong)?;
    }
    let is_small = |count: &i32| count.unsigned_abs() < i32::MAX.unsigned_abs();
    let small = |value| whole(value).and_then(|count| i32::try_from(count).ok()).filter(is_small);
    let count = |value| small(value).ok_or_else(wrong);
    Ok(IntervalMonthDayNano::new(count(months)?, count(days)?, nanoseconds))
}

/// A number without what is behind its point, if it is one and not too great.
#[expect(clippy::cast_possible_truncation, reason = "the bounds have been looked at")]
fn whole(value: f64) -> Option<i64> {
    (value.abs() < i64::MAX as f64).then_some(value as i64)
}

/// `[-]h:mm[:ss[.fraction]]`
fn time_nanoseconds(word: &str) -> Option<i64> {
    let (sign, word) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = word.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().map_or(Some(0.0), |seconds| seconds.parse().ok())?;
    let nanoseconds = whole((seconds * 1e9).round())?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let whole = minutes.checked_mul(60_000_000_000)?;
    parts.next().is_none().then_some(sign * whole.checked_add(nanoseconds)?)
}

/// A number with exactly the digits that it is written with.
fn numeric(text: &str) -> Result<ScalarValue> {
    let trimmed = text.trim();
    let wrong = || not_a("numeric", text);
    let double = || trimmed.parse().map(|number| ScalarValue::Float64(Some(number))).map_err(|_| wrong());
    if trimmed.trim_start_matches(['-', '+']).starts_with(|first: char| first.is_ascii_alphabetic()) {
        return double();
    }
    let (mantissa, exponent) = trimmed.split_once(['e', 'E']).unwrap_or((trimmed, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
    let (sign, number) = match mantissa.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let digits = all.trim_start_matches('0');
    // How many digits are behind the point; below zero, how many zeros are before it.
    let places = i64::try_from(fraction.len()).map_err(internal)?.saturating_sub(exponent);
    let zeros = if digits.is_empty() { 0 } else { usize::try_from(-places.min(0)).unwrap_or(usize::MAX) };
    let scale = usize::try_from(places.max(0)).unwrap_or(usize::MAX);
    let count = digits.len().saturating_add(zeros).max(scale).max(1);
    if count > NUMERIC_DIGITS_MAX {
        // A DOUBLE has all of so few digits.
        return match exponent != 0 && digits.len() <= DOUBLE_DIGITS {
            true => double(),
            false => Err(Error::invalid_input(format!(
                "a numeric has at most {NUMERIC_DIGITS_MAX} digits here, not {count}"
            ))
            .with_sqlstate("22003")),
        };
    }
    let (precision, scale) = (u8::try_from(count).map_err(internal)?, i8::try_from(scale).map_err(internal)?);
    // Without a digit it is zero.
    let unscaled = format!("{sign}0{digits}{}", "0".repeat(zeros));
    match count <= NARROW_DIGITS_MAX {
        true => Ok(ScalarValue::Decimal128(Some(unscaled.parse().map_err(internal)?), precision, scale)),
        false => {
            let wide = i256::from_string(&unscaled).ok_or_else(wrong)?;
            Ok(ScalarValue::Decimal256(Some(wide), precision, scale))
        }
    }
}

/// A list of numbers, each with the digits that it is written with.
fn numeric_list(text: &str) -> Result<ScalarValue> {
    if pg::is_array_of_arrays(text) {
        return Err(several_dimensions());
    }
    let elements = pg::split_elements(text).ok_or_else(|| not_a("an array", text))?;
    let values = elements.iter().map(|element| match element {
        Some(text) => numeric(text),
        None => Ok(ScalarValue::Null),
    });
    list_of(values.collect::<Result<_>>()?, pg::NUMERIC)
}

/// A list of values of a type.
fn list_of(values: Vec<ScalarValue>, scalar: PostgresType) -> Result<ScalarValue> {
    let first = values.iter().map(ScalarValue::data_type).find(|of| *of != DataType::Null);
    let of = match first {
        None => logical_type(scalar).arrow_type(),
        Some(_) if scalar == pg::NUMERIC => type_of_numerics(&values)?,
        Some(of) => of,
    };
    let values =
        values.into_iter().map(|value| value.cast_to(&of).map_err(internal)).collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &of)))
}

/// The type that has all digits of some numbers, of which each has as many as it is written with.
///
/// # Errors
/// `22003` if there is none.
fn type_of_numerics(values: &[ScalarValue]) -> Result<DataType> {
    let (mut whole, mut scale, mut has_double) = (0, 0, false);
    for value in values {
        match value.data_type() {
            DataType::Decimal128(precision, places) | DataType::Decimal256(precision, places) => {
                let places = places.unsigned_abs();
                whole = precision.saturating_sub(places).max(whole);
                scale = places.max(scale);
            }
            DataType::Float64 => has_double = true,
            _ => {}
        }
    }
    let digits = usize::from(whole) + usize::from(scale);
    let most = if has_double { DOUBLE_DIGITS } else { NUMERIC_DIGITS_MAX };
    if digits > most {
        let message = format!("the numbers of a numeric[] have at most {most} digits here, not {digits}");
        return Err(Error::invalid_input(message).with_sqlstate("22003"));
    }
    if has_double {
        return Ok(DataType::Float64);
    }
    let (precision, places) =
        (u8::try_from(digits).map_err(internal)?, i8::try_from(scale).map_err(internal)?);
    Ok(match digits <= NARROW_DIGITS_MAX {
        true => DataType::Decimal128(precision, places),
        false => DataType::Decimal256(precision, places),
    })
}

/// Texts of arrays: `{1,NULL,"a b"}`.
fn lists(texts: &StringArray, element: &LogicalType, zone: &str) -> Result<ArrayRef> {
    let mut elements: Vec<Option<String>> = Vec::new();
    let mut lengths = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        let before = elements.len();
        if texts.is_valid(row) {
            let text = texts.value(row);
            if *element == LogicalType::Varchar && pg::is_array_of_arrays(text) {
                return Err(several_dimensions());
            }
            elements.extend(pg::split_elements(text).ok_or_else(|| not_a("an array", text))?);
        }
        lengths.push(elements.len() - before);
    }
    let values = from_text(&StringArray::from(elements), element, zone)?;
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let nulls: Option<NullBuffer> = texts.nulls().cloned();
    let lists = LargeListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls);
    Ok(Arc::new(lists.map_err(internal)?))
}

fn several_dimensions() -> Error {
    Error::unsupported("an array of more than one dimension; give nested lists as JSON")
}

fn wrong_bytes(scalar: PostgresType, bytes: &[u8]) -> Error {
    Error::invalid_input(format!("{} bytes are no binary value of type {}", bytes.len(), scalar.sql))
        .with_sqlstate("22P03")
}

/// A value in PostgreSQL's binary format.
pub(super) fn binary_scalar(value: Bytes, scalar: PostgresType) -> Result<ScalarValue> {
    let wrong = || wrong_bytes(scalar, &value);
    fn fixed<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
        value.try_into().ok()
    }
    let i64_of = || fixed(&value).map(i64::from_be_bytes).ok_or_else(wrong);
    let text_of = |bytes: &[u8]| utf8(bytes).map(|text| ScalarValue::LargeUtf8(Some(text.into())));
    Ok(match scalar.oid {
        oid if oid == pg::BOOL.oid => {
            ScalarValue::Boolean(Some(fixed::<1>(&value).ok_or_else(wrong)?[0] != 0))
        }
        oid if oid == pg::INT2.oid => {
            ScalarValue::Int16(Some(fixed(&value).map(i16::from_be_bytes).ok_or_else(wrong)?))
        }
        oid if oid == pg::INT4.oid => {
            ScalarValue::Int32(Some(fixed(&value).map(i32::from_be_bytes).ok_or_else(wrong)?))
        }
        oid if oid == pg::INT8.oid => ScalarValue::Int64(Some(i64_of()?)),
        _ if scalar.name == "oid" => {
            ScalarValue::Int64(Some(fixed(&value).map(u32::from_be_bytes).ok_or_else(wrong)?.into()))
        }
        oid if oid == pg::FLOAT4.oid => {
            ScalarValue::Float32(Some(fixed(&value).map(f32::from_be_bytes).ok_or_else(wrong)?))
        }
        oid if oid == pg::FLOAT8.oid => {
            ScalarValue::Float64(Some(fixed(&value).map(f64::from_be_bytes).ok_or_else(wrong)?))
        }
        oid if oid == pg::NUMERIC.oid => numeric(&numeric_text(value.clone()).ok_or_else(wrong)?)?,
        oid if oid == pg::BYTEA.oid => ScalarValue::LargeBinary(Some(value.to_vec())),
        oid if oid == pg::DATE.oid => {
            let given = fixed(&value).map(i32::from_be_bytes);
            if given.is_some_and(|days| [i32::MIN, i32::MAX].contains(&days)) {
                return Err(infinite());
            }
            let days = given.and_then(|days| days.checked_add(EPOCH_DAYS));
            ScalarValue::Date32(Some(days.ok_or_else(wrong)?))
        }
        oid if oid == pg::TIME.oid => {
            let microseconds = i64_of()?;
            if microseconds == DAY_MICROSECONDS {
                return Err(Error::invalid_input("a TIME ends before 24:00:00").with_sqlstate("22008"));
            }
            let microseconds = Some(microseconds).filter(|time| (0..DAY_MICROSECONDS).contains(time));
            ScalarValue::Time64Microsecond(Some(microseconds.ok_or_else(wrong)?))
        }
        oid if oid == pg::TIMESTAMP.oid || oid == pg::TIMESTAMPTZ.oid => {
            let zone = (oid == pg::TIMESTAMPTZ.oid).then(|| "UTC".into());
            let given = i64_of()?;
            if [i64::MIN, i64::MAX].contains(&given) {
                return Err(infinite());
            }
            let microseconds = given.checked_add(EPOCH_MICROSECONDS).ok_or_else(wrong)?;
            ScalarValue::TimestampMicrosecond(Some(microseconds), zone)
        }
        oid if oid == pg::INTERVAL.oid => {
            let whole: [u8; 16] = fixed(&value).ok_or_else(wrong)?;
            let mut body = Body(Bytes::copy_from_slice(&whole));
            let high = i64::from(body.u32()? as i32) << 32;
            let microseconds = high | i64::from(body.u32()?);
            let (days, months) = (body.u32()? as i32, body.u32()? as i32);
            let nanoseconds = microseconds.checked_mul(1000).ok_or_else(wrong)?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanoseconds)))
        }
        oid if oid == pg::UUID.oid => {
            if value.len() != usize::from(UUID_BYTES) {
                return Err(wrong());
            }
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
            ScalarValue::LargeUtf8(Some(parts.join("-")))
        }
        // A version comes before the text.
        _ if scalar.name == "jsonb" => text_of(value.strip_prefix(&[1]).ok_or_else(wrong)?)?,
        _ => text_of(&value)?,
    })
}

/// The number in groups of four digits as text.
fn numeric_text(value: Bytes) -> Option<String> {
    let mut body = Body(value);
    let mut next = || body.i16().ok();
    let (count, weight, sign, scale) = (next()? as u16, next()?, next()? as u16, next()? as u16);
    if sign & 0x8000 != 0 {
        return Some(
            if sign == 0xc000 {
                "NaN"
            } else if sign == 0xd000 {
                "inf"
            } else {
                "-inf"
            }
            .into(),
        );
    }
    if sign != 0 && sign != NUMERIC_NEGATIVE {
        return None;
    }
    // More than four digits are of no group.
    let digits = |group: i16| u16::try_from(group).ok().filter(|group| *group < 10_000);
    let groups: Vec<u16> = (0..count).map(|_| next().and_then(digits)).collect::<Option<_>>()?;
    // Eight bytes may say that a number has a hundred thousand digits. Groups of zeros at the beginning say
    // nothing, and a number with more than so many groups or places is told to be too long as it is.
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    let groups = groups.get(zeros..)?;
    let weight = match groups.is_empty() {
        true => 0,
        false => i32::from(weight) - i32::try_from(zeros).ok()?,
    };
    let (weight, scale) = (weight.min(NUMERIC_GROUPS), scale.min(NUMERIC_PLACES));
    let group = |place: i32| usize::try_from(place).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let whole: String = (0..=weight).map(|place| format!("{:04}", group(place))).collect();
    let places = i32::from(scale.div_ceil(4));
    let fraction: String = (1..=places).map(|place| format!("{:04}", group(weight + place))).collect();
    let fraction = fraction.get(..usize::from(scale))?;
    let minus = if sign == NUMERIC_NEGATIVE { "-" } else { "" };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { format!("{minus}{whole}") } else { format!("{minus}{whole}.{fraction}") })
}

/// An array of one dimension in PostgreSQL's binary format.
pub(super) fn binary_array(value: Bytes, scalar: PostgresType) -> Result<ScalarValue> {
    let mut body = Body(value.clone());
    let dimensions = body.u32()?;
    let _has_null = body.u32()?;
    let element = body.u32()?;
    let scalar = pg::by_oid(element).map_or(scalar, |(found, _)| found);
    if dimensions > 1 {
        return Err(several_dimensions());
    }
    let mut values = Vec::new();
    if dimensions == 1 {
        let count = body.u32()?;
        let _lower_bound = body.u32()?;
        for _ in 0..count {
            values.push(match body.value()? {
                Some(bytes) => binary_scalar(bytes, scalar)?,
                None => ScalarValue::Null,
            });
        }
    }
    match body.0.is_empty() {
        true => list_of(values, scalar),
        false => Err(wrong_bytes(scalar, &value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    fn of_text(text: &'static str, oid: u32) -> Result<ScalarValue> {
        parameter(Some(&Bytes::from_static(text.as_bytes())), oid, false, "UTC")
    }

    #[test]
    fn texts_are_values_of_their_types() {
        assert_eq!(of_text(" 42 ", 23).unwrap(), ScalarValue::Int32(Some(42)));
        assert_eq!(of_text("t", 16).unwrap(), ScalarValue::Boolean(Some(true)));
        assert_eq!(of_text("-1.50", 1700).unwrap(), ScalarValue::Decimal128(Some(-150), 3, 2));
        assert_eq!(of_text("\\x00ff", 17).unwrap(), ScalarValue::LargeBinary(Some(vec![0, 255])));
        assert_eq!(of_text("a", 0).unwrap(), ScalarValue::LargeUtf8(Some("a".into())));
        assert_eq!(parameter(None, 23, true, "UTC").unwrap(), ScalarValue::Int32(None));
        let end_of_day = Bytes::copy_from_slice(&DAY_MICROSECONDS.to_be_bytes());
        assert_eq!(parameter(Some(&end_of_day), 1083, true, "UTC").unwrap_err().sqlstate(), "22008");
        assert_eq!(of_text("24:00:00", 1083).unwrap_err().sqlstate(), "22008");
        assert_eq!(of_text("{{a},{b}}", 1009).unwrap_err().sqlstate(), "0A000");
        for (text, oid) in [("a\0b", 25), ("\0", 0), ("1\0", 23), ("{\"a\0\"}", 1009), ("\"\0\"", 3802)] {
            assert_eq!(of_text(text, oid).unwrap_err().sqlstate(), "22021", "{text:?}");
        }
        let zero = Bytes::from_static(b"a\0");
        assert_eq!(parameter(Some(&zero), 25, true, "UTC").unwrap_err().sqlstate(), "22021");
        assert!(parameter(Some(&zero), 17, true, "UTC").is_ok());
        assert_eq!(of_text("[1]", 114).unwrap(), Parameters::json(Some("[1]")));
        assert_eq!(
            parameter(Some(&Bytes::from_static(b"\x01{}")), 3802, true, "UTC").unwrap(),
            Parameters::json(Some("{}"))
        );
        assert_eq!(parameter(None, 3802, true, "UTC").unwrap().data_type(), Parameters::json_type());
        let one_way = Parameters::json(Some(r#"{"b": 1, "aa": [1.5]}"#));
        assert_eq!(of_text(r#"{"aa":[15e-1],"b":2, "b":1.0}"#, 3802).unwrap(), one_way);
        assert_eq!(of_text("{", 3802).unwrap(), Parameters::json(Some("{")));
        let documents = |array: ScalarValue| format!("{:?}", array.to_array().unwrap());
        let text = documents(of_text(r#"{"{\"a\": 1}","null",7}"#, 199).unwrap());
        assert!(
            ["{\"a\": 1}", "null", "7"].iter().all(|document| text.contains(&format!("{document:?}"))),
            "{text}"
        );
        let element = LogicalType::List { element: Box::new(LogicalType::Json) };
        let column = StringArray::from(vec![r#"{"{\"a\": 1}",NULL}"#]);
        let lists = from_text(&column, &element, "UTC").unwrap();
        assert_eq!((lists.len(), lists.as_list::<i64>().values().null_count()), (1, 1));
        for (text, oid) in
            [("x", 23), ("maybe", 16), ("1..2", 1700), ("\\xf", 17), ("{1,", 1007), ("{{}", 1007)]
        {
            assert!(of_text(text, oid).is_err(), "{text}");
        }
    }

    #[test]
    fn numerics_keep_their_digits() {
        let narrow = |value, precision, scale| ScalarValue::Decimal128(Some(value), precision, scale);
        for (text, value) in [
            ("1e30", narrow(10_i128.pow(30), 31, 0)),
            ("1.5e-7", narrow(15, 8, 8)),
            ("-1234567890123456789.25E+2", narrow(-123_456_789_012_345_678_925, 21, 0)),
            ("+12.50e0", narrow(1250, 4, 2)),
            ("0.00", narrow(0, 2, 2)),
            ("0e99", narrow(0, 1, 0)),
            (".5", narrow(5, 1, 1)),
            ("7.", narrow(7, 1, 0)),
            ("00012", narrow(12, 2, 0)),
            ("1e50", ScalarValue::Decimal256(i256::from_string(&format!("1{}", "0".repeat(50))), 51, 0)),
            // DECIMALs do not reach there, and DOUBLEs have the digits.
            ("1.25e300", ScalarValue::Float64(Some(1.25e300))),
            ("-Infinity", ScalarValue::Float64(Some(f64::NEG_INFINITY))),
        ] {
            assert_eq!(of_text(text, 1700).unwrap(), value, "{text}");
        }
        let long = "9".repeat(77);
        let exact = "1234567890123456789e300";
        for (text, sqlstate) in [
            (long.as_str(), "22003"),
            (exact, "22003"),
            ("", "22P02"),
            (".", "22P02"),
            ("e5", "22P02"),
            ("1e", "22P02"),
            ("1e1.5", "22P02"),
            ("1-5", "22P02"),
            ("--1", "22P02"),
        ] {
            assert_eq!(numeric(text).unwrap_err().sqlstate(), sqlstate, "{text}");
        }
        // 1e30 in groups: the first has a weight, and the others are zeros.
        let groups = Bytes::from_static(&[0, 1, 0, 7, 0, 0, 0, 0, 0, 100]);
        assert_eq!(parameter(Some(&groups), 1700, true, "UTC").unwrap(), narrow(10_i128.pow(30), 31, 0));
        // Zeros at the beginning say nothing, and what is too long is not written out before it is refused.
        let of = |groups: &[u8]| parameter(Some(&Bytes::copy_from_slice(groups)), 1700, true, "UTC");
        assert_eq!(of(&[0, 0, 0x7f, 0xff, 0, 0, 0, 0]).unwrap(), narrow(0, 1, 0));
        assert_eq!(of(&[0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]).unwrap(), narrow(7, 1, 0));
        for long in [[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 1]] {
            assert_eq!(of(&long).unwrap_err().sqlstate(), "22003", "{long:?}");
        }
        let five_digits = Bytes::from_static(&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]);
        assert_eq!(parameter(Some(&five_digits), 1700, true, "UTC").unwrap_err().sqlstate(), "22P03");
    }

    #[test]
    fn lists_of_numerics_keep_all_digits() {
        let list = |of: DataType, values: &[ScalarValue]| {
            ScalarValue::List(ScalarValue::new_list_nullable(values, &of))
        };
        let narrow = |value| ScalarValue::Decimal128(value, 4, 2);
        let expected =
            list(DataType::Decimal128(4, 2), &[narrow(Some(150)), narrow(None), narrow(Some(-2225))]);
        assert_eq!(of_text("{1.5,NULL,-22.25}", 1231).unwrap(), expected);
        assert_eq!(of_text("{}", 1231).unwrap(), list(DataType::Decimal128(38, 10), &[]));
        let doubles = [1e300, 1.5].map(|value| ScalarValue::Float64(Some(value)));
        assert_eq!(of_text("{1e300,1.5}", 1231).unwrap(), list(DataType::Float64, &doubles));
        let wide = of_text("{9999999999999999999999999999999999999999,0.5}", 1231).unwrap();
        assert!(matches!(wide, ScalarValue::List(list) if list.value_type() == DataType::Decimal256(41, 1)));
        for (text, sqlstate) in [
            ("{NaN,1234567890123456.5}", "22003"),
            ("{1e70,1e-70}", "22003"),
            ("{1,x}", "22P02"),
            ("{1,", "22P02"),
            ("{{1},{2}}", "0A000"),
        ] {
            assert_eq!(of_text(text, 1231).unwrap_err().sqlstate(), sqlstate, "{text}");
        }
        let null = parameter(None, 1231, false, "UTC").unwrap();
        assert!(null.is_null() && Some(null.data_type()) == type_of_parameter(1231));
        // 1.5 and 2.25
        let binary = Bytes::from_static(
            b"\0\0\0\x01\0\0\0\0\0\0\x06\xa4\0\0\0\x02\0\0\0\x01\
              \0\0\0\x0c\0\x02\0\0\0\0\0\x01\0\x01\x13\x88\0\0\0\x0c\0\x02\0\0\0\0\0\x02\0\x02\x09\xc4",
        );
        let three = |value| ScalarValue::Decimal128(Some(value), 3, 2);
        let expected = list(DataType::Decimal128(3, 2), &[three(150), three(225)]);
        assert_eq!(parameter(Some(&binary), 1231, true, "UTC").unwrap(), expected);
    }

    #[test]
    fn numbers_that_a_column_has_not_are_out_of_its_range() {
        let decimal = LogicalType::Decimal { precision: 5, scale: 2 };
        let wide = LogicalType::Decimal { precision: 76, scale: 0 };
        let long = "1".repeat(300);
        for (text, of) in [
            ("1000", &decimal),
            ("1e3", &decimal),
            ("999.995", &decimal),
            ("1e65536", &decimal),
            (long.as_str(), &wide),
            ("3000000000", &LogicalType::Integer),
            ("-1", &LogicalType::UBigInt),
            ("18446744073709551616", &LogicalType::UBigInt),
        ] {
            let texts = StringArray::from(vec!["1", text]);
            assert_eq!(from_text(&texts, of, "UTC").unwrap_err().sqlstate(), "22003", "{text}");
        }
        let read = from_text(&StringArray::from(vec![" 1.5e1 ", "-0.125"]), &decimal, "UTC").unwrap();
        let read = cast(&read, &DataType::Utf8).unwrap();
        assert_eq!(read.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["15.00", "-0.13"]);
        let error = from_text(&StringArray::from(vec!["x"]), &decimal, "UTC").unwrap_err();
        assert_eq!(error.sqlstate(), "22P02");
    }

    #[test]
    fn intervals_have_units_and_a_time() {
        let of =
            |months, days, seconds: i64| IntervalMonthDayNano::new(months, days, seconds * 1_000_000_000);
        for (text, expected) in [
            ("1 day 0:00:02", of(0, 1, 2)),
            ("1 year -2 mons +3 days -04:05:06", of(10, 3, -14_706)),
            ("90 minutes", of(0, 0, 5400)),
            ("1h", of(0, 0, 3600)),
            ("1.5 days", of(0, 1, 43_200)),
            ("-1.5 months 0.1 weeks", of(-1, -15, 60_480)),
        ] {
            assert_eq!(interval(text).unwrap(), expected, "{text}");
        }
        for wrong in [
            "",
            "soon",
            "1 parsec",
            "1:2:3:4",
            "0:0:1e300",
            "0:0:nan",
            "1e12 months",
            "nan days",
            "2147483648 days",
            "-2147483648 days",
        ] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        for known in pg::TYPES {
            for length in 0..20 {
                for fill in [0, 1, 0x7f, 0xff] {
                    let value = Bytes::from(vec![fill; length]);
                    let _any = parameter(Some(&value), known.oid, true, "UTC");
                    let _any = parameter(Some(&value), known.array, true, "UTC");
                }
            }
        }
        let numeric = Bytes::from_static(&[0, 2, 0, 0, 0x40, 0, 0, 3, 0, 12, 0x0d, 0x7a]);
        assert_eq!(
            parameter(Some(&numeric), 1700, true, "UTC").unwrap(),
            ScalarValue::Decimal128(Some(-12345), 5, 3)
        );
    }
}
