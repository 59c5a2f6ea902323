//! Types and single values, as C has them.

use crate::layout::*;
use crate::text::{bytes, misuse, text};
use hypostyle::{ColumnBound, Error, LogicalType, Parameters, Result, ScalarValue, TimeUnit};
use std::ffi::c_char;
use std::fmt::Display;

/// The digits of the largest DECIMAL that a value has room for.
const DIGITS_MAX: u8 = 38;

/// The microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Returns the number of a type, and its precision and scale.
pub fn type_of(logical_type: &LogicalType) -> (i32, i32, i32) {
    let simple = match logical_type {
        LogicalType::Boolean => BOOLEAN,
        LogicalType::TinyInt => TINYINT,
        LogicalType::SmallInt => SMALLINT,
        LogicalType::Integer => INTEGER,
        LogicalType::BigInt => BIGINT,
        LogicalType::UTinyInt => UTINYINT,
        LogicalType::USmallInt => USMALLINT,
        LogicalType::UInteger => UINTEGER,
        LogicalType::UBigInt => UBIGINT,
        LogicalType::Float => FLOAT,
        LogicalType::Double => DOUBLE,
        LogicalType::Decimal { precision, scale } => {
            return (DECIMAL, i32::from(*precision), i32::from(*scale));
        }
        LogicalType::Date => DATE,
        LogicalType::Time => return (TIME, 0, 6),
        LogicalType::Timestamp { unit, time_zone: None } => return (TIMESTAMP, 0, digits(*unit)),
        LogicalType::Timestamp { unit, time_zone: Some(_) } => return (TIMESTAMPTZ, 0, digits(*unit)),
        LogicalType::Interval => return (INTERVAL, 0, 9),
        LogicalType::Duration { unit } => return (DURATION, 0, digits(*unit)),
        LogicalType::Varchar => VARCHAR,
        LogicalType::Json => JSON,
        LogicalType::Blob => BLOB,
        LogicalType::Uuid => UUID,
        LogicalType::FixedBinary { .. } => FIXED_BINARY,
        LogicalType::List { .. } => LIST,
        LogicalType::Array { .. } => ARRAY,
        LogicalType::Struct { .. } => STRUCT,
        LogicalType::Map { .. } => MAP,
    };
    (simple, 0, 0)
}

fn digits(unit: TimeUnit) -> i32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Reads a value of the caller's.
///
/// # Errors
/// `InvalidInput` for a type that no value has, and for a number that its type has no room for.
///
/// # Safety
/// The value's data is NULL or points to as many bytes as its length says.
pub unsafe fn scalar(value: &Value) -> Result<ScalarValue> {
    let integer = value.integer;
    let fits = |name: &str| out_of_range(integer, name);
    Ok(match value.of {
        NULL => ScalarValue::Null,
        BOOLEAN => ScalarValue::Boolean(Some(integer != 0)),
        TINYINT => ScalarValue::Int8(Some(integer.try_into().map_err(|_| fits("TINYINT"))?)),
        SMALLINT => ScalarValue::Int16(Some(integer.try_into().map_err(|_| fits("SMALLINT"))?)),
        INTEGER => ScalarValue::Int32(Some(integer.try_into().map_err(|_| fits("INTEGER"))?)),
        BIGINT => ScalarValue::Int64(Some(integer)),
        UTINYINT => ScalarValue::UInt8(Some(integer.try_into().map_err(|_| fits("UTINYINT"))?)),
        USMALLINT => ScalarValue::UInt16(Some(integer.try_into().map_err(|_| fits("USMALLINT"))?)),
        UINTEGER => ScalarValue::UInt32(Some(integer.try_into().map_err(|_| fits("UINTEGER"))?)),
        UBIGINT => ScalarValue::UInt64(Some(integer as u64)),
        FLOAT => ScalarValue::Float32(Some(float(value.number)?)),
        DOUBLE => ScalarValue::Float64(Some(value.number)),
        DECIMAL => {
            let scale = i8::try_from(value.scale).ok().filter(|scale| (0..=DIGITS_MAX as i8).contains(scale));
            let scale = scale.ok_or_else(|| misuse(format!("a DECIMAL has no scale of {}", value.scale)))?;
            let whole = i128::from(value.high) << 64 | i128::from(integer as u64);
            if whole.unsigned_abs() >= 10_u128.pow(u32::from(DIGITS_MAX)) {
                return Err(out_of_range("a number of more than 38 digits", "DECIMAL"));
            }
            ScalarValue::Decimal128(Some(whole), DIGITS_MAX, scale)
        }
        DATE => ScalarValue::Date32(Some(integer.try_into().map_err(|_| fits("DATE"))?)),
        // The last one is 24:00, which PostgreSQL knows, and conditions may compare with.
        TIME if (0..=DAY).contains(&integer) => ScalarValue::Time64Microsecond(Some(integer)),
        TIME => {
            let message = format!("{integer} µs after midnight are no TIME of a day");
            return Err(Error::invalid_input(message).with_sqlstate("22008"));
        }
        TIMESTAMP => timestamp(integer, value.scale, None)?,
        TIMESTAMPTZ => timestamp(integer, value.scale, Some("UTC"))?,
        DURATION => match value.scale {
            0 => ScalarValue::DurationSecond(Some(integer)),
            3 => ScalarValue::DurationMillisecond(Some(integer)),
            6 => ScalarValue::DurationMicrosecond(Some(integer)),
            9 => ScalarValue::DurationNanosecond(Some(integer)),
            other => return Err(no_unit(other)),
        },
        INTERVAL => {
            let (months, days) = (value.high as i32, (value.high >> 32) as i32);
            ScalarValue::new_interval_mdn(months, days, integer)
        }
        VARCHAR | JSON => {
            let data = match value.length {
                0 if value.data.is_null() => "",
                // SAFETY: the caller promises this.
                _ => unsafe { text(value.data.cast::<c_char>(), value.length, "the value") }?,
            };
            ScalarValue::Utf8(Some(data.to_string()))
        }
        BLOB | FIXED_BINARY => {
            // SAFETY: the caller promises this.
            let data = unsafe { bytes(value.data.cast(), value.length, "the value") }?;
            ScalarValue::Binary(Some(data.to_vec()))
        }
        UUID => {
            // SAFETY: the caller promises this.
            let data = unsafe { bytes(value.data.cast(), value.length, "the value") }?;
            let uuid = data.try_into();
            Parameters::uuid(uuid.map_err(|_| misuse(format!("a UUID has 16 bytes, not {}", data.len())))?)
        }
        other => return Err(misuse(format!("no value has the type {other}"))),
    })
}

fn out_of_range(value: impl Display, name: &str) -> Error {
    Error::invalid_input(format!("{value} is out of range for {name}")).with_sqlstate("22003")
}

/// Returns the nearest FLOAT.
fn float(number: f64) -> Result<f32> {
    let nearest = number as f32;
    match nearest.is_infinite() && number.is_finite() {
        true => Err(out_of_range(number, "FLOAT")),
        false => Ok(nearest),
    }
}

fn timestamp(units: i64, digits: i32, zone: Option<&str>) -> Result<ScalarValue> {
    let zone = zone.map(Into::into);
    Ok(match digits {
        0 => ScalarValue::TimestampSecond(Some(units), zone),
        3 => ScalarValue::TimestampMillisecond(Some(units), zone),
        6 => ScalarValue::TimestampMicrosecond(Some(units), zone),
        9 => ScalarValue::TimestampNanosecond(Some(units), zone),
        other => return Err(no_unit(other)),
    })
}

fn no_unit(digits: i32) -> Error {
    misuse(format!("the scale of a time is 0, 3, 6 or 9, not {digits}"))
}

/// Returns an end of a column's range; its bytes stay with the bound.
pub fn bound(bound: &ColumnBound, logical_type: &LogicalType) -> Value {
    let (of, _, scale) = type_of(logical_type);
    let mut value = Value { of, scale, ..Value::NULL };
    match bound {
        ColumnBound::Integer(integer) => {
            value.integer = *integer as i64;
            // BIGINTs and the like have room in the first 64 bits.
            value.high = (*integer >> 64) as i64;
        }
        ColumnBound::Float(number) => value.number = *number,
        ColumnBound::Bytes(bytes) => (value.data, value.length) = (bytes.as_ptr().cast(), bytes.len()),
    }
    value
}
