//! Reads the values of key columns from Arrow arrays, in whichever of them they lie.

use super::value::{Datum, Kind, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor, ArrayRef};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use hypostyle_types::{Error, Result, parse_uuid};

/// What is done with the values of a column. A generic method, so that each type has its own loop.
pub(super) trait Visitor {
    /// Is called once, with the number of rows and the function that returns a row's value.
    fn visit<'a>(&mut self, rows: usize, at: impl Fn(usize) -> Result<Datum<'a>>) -> Result<()>;
}

/// Shows the values of a column to a visitor.
///
/// # Errors
/// `Unsupported` if the array cannot have values of that kind.
pub(super) fn read(array: &ArrayRef, kind: Kind, visitor: &mut impl Visitor) -> Result<()> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return read_plain(array, kind, visitor);
    };
    let keys =
        if dictionary.values().is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    // No values: each key is NULL, as there is none that it could be the number of.
    let nulls = dictionary.keys().nulls();
    read_plain(dictionary.values(), kind, &mut Coded { keys: &keys, nulls, visitor })
}

/// Shows the values of a dictionary in the order of the rows.
struct Coded<'a, V> {
    keys: &'a [usize],
    nulls: Option<&'a NullBuffer>,
    visitor: &'a mut V,
}

impl<V: Visitor> Visitor for Coded<'_, V> {
    fn visit<'a>(&mut self, values: usize, at: impl Fn(usize) -> Result<Datum<'a>>) -> Result<()> {
        let (keys, nulls) = (self.keys, self.nulls);
        self.visitor.visit(keys.len(), |row| {
            let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
            match keys.get(row) {
                Some(&key) if !is_null && key < values => at(key),
                _ => Ok(Datum::Null),
            }
        })
    }
}

fn read_plain(array: &ArrayRef, kind: Kind, visitor: &mut impl Visitor) -> Result<()> {
    let data_type = array.data_type();
    match kind {
        Kind::Exact => read_exact(array, visitor),
        Kind::Float => read_float(array, visitor),
        Kind::Boolean if *data_type == DataType::Boolean => {
            values(array.as_boolean(), visitor, |value| Ok(Datum::Boolean(value)))
        }
        Kind::Date | Kind::Time | Kind::Duration | Kind::Timestamp | Kind::Instant => {
            read_moment(array, kind, visitor)
        }
        Kind::Text => read_text(array, visitor, |text| Ok(Datum::Text(text))),
        Kind::Bytes => read_bytes(array, visitor),
        Kind::Uuid if *data_type == DataType::FixedSizeBinary(16) => {
            values(array.as_fixed_size_binary(), visitor, |bytes| {
                Ok(Datum::Uuid(u128::from_be_bytes(bytes.try_into().unwrap_or_default())))
            })
        }
        Kind::Uuid => read_text(array, visitor, |text| Ok(Datum::Uuid(parse_uuid(text)?.as_u128()))),
        Kind::Boolean => Err(mismatch(array, kind)),
    }
}

fn mismatch(array: &dyn Array, kind: Kind) -> Error {
    Error::unsupported(format!(
        "an array of type {} cannot be read as a partition key of kind {kind:?}: cast it to the column's type",
        array.data_type()
    ))
}

/// Shows the values of an array of any type that has an accessor.
fn values<'a, A: ArrayAccessor + 'a>(
    array: A,
    visitor: &mut impl Visitor,
    datum: impl Fn(A::Item) -> Result<Datum<'a>>,
) -> Result<()> {
    let nulls = array.nulls();
    visitor.visit(array.len(), |row| match nulls {
        Some(nulls) if nulls.is_null(row) => Ok(Datum::Null),
        _ => datum(array.value(row)),
    })
}

fn numbers<T: ArrowPrimitiveType>(
    array: &dyn Array,
    visitor: &mut impl Visitor,
    datum: impl Fn(T::Native) -> Datum<'static>,
) -> Result<()> {
    values(array.as_primitive::<T>(), visitor, |value| Ok(datum(value)))
}

fn read_exact(array: &ArrayRef, visitor: &mut impl Visitor) -> Result<()> {
    let scale = match array.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => u8::try_from(*scale).map_err(|_| mismatch(array, Kind::Exact))?,
        _ => 0,
    };
    match array.data_type() {
        DataType::Int8 => numbers::<Int8Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::Int16 => numbers::<Int16Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::Int32 => numbers::<Int32Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::Int64 => numbers::<Int64Type>(array, visitor, Datum::Integer),
        DataType::UInt8 => numbers::<UInt8Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::UInt16 => numbers::<UInt16Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::UInt32 => numbers::<UInt32Type>(array, visitor, |n| Datum::Integer(n.into())),
        DataType::UInt64 => numbers::<UInt64Type>(array, visitor, |n| Datum::decimal(n.into(), 0)),
        DataType::Decimal32(..) => {
            numbers::<Decimal32Type>(array, visitor, |n| Datum::decimal(n.into(), scale))
        }
        DataType::Decimal64(..) => {
            numbers::<Decimal64Type>(array, visitor, |n| Datum::decimal(n.into(), scale))
        }
        DataType::Decimal128(..) => numbers::<Decimal128Type>(array, visitor, |n| Datum::decimal(n, scale)),
        DataType::Decimal256(..) => {
            numbers::<Decimal256Type>(array, visitor, |n: i256| Datum::exact(n, scale))
        }
        _ => Err(mismatch(array, Kind::Exact)),
    }
}

fn read_float(array: &ArrayRef, visitor: &mut impl Visitor) -> Result<()> {
    match array.data_type() {
        DataType::Float16 => numbers::<Float16Type>(array, visitor, |n| Datum::float(n.to_f64())),
        DataType::Float32 => numbers::<Float32Type>(array, visitor, |n| Datum::float(n.into())),
        DataType::Float64 => numbers::<Float64Type>(array, visitor, Datum::float),
        _ => Err(mismatch(array, Kind::Float)),
    }
}

fn read_text<'a>(
    array: &'a ArrayRef,
    visitor: &mut impl Visitor,
    datum: impl Fn(&'a str) -> Result<Datum<'a>>,
) -> Result<()> {
    match array.data_type() {
        DataType::Utf8 => values(array.as_string::<i32>(), visitor, datum),
        DataType::LargeUtf8 => values(array.as_string::<i64>(), visitor, datum),
        DataType::Utf8View => values(array.as_string_view(), visitor, datum),
        _ => Err(mismatch(array, Kind::Text)),
    }
}

fn read_bytes(array: &ArrayRef, visitor: &mut impl Visitor) -> Result<()> {
    match array.data_type() {
        DataType::Binary => values(array.as_binary::<i32>(), visitor, |bytes| Ok(Datum::Bytes(bytes))),
        DataType::LargeBinary => values(array.as_binary::<i64>(), visitor, |bytes| Ok(Datum::Bytes(bytes))),
        DataType::BinaryView => values(array.as_binary_view(), visitor, |bytes| Ok(Datum::Bytes(bytes))),
        DataType::FixedSizeBinary(_) => {
            values(array.as_fixed_size_binary(), visitor, |bytes| Ok(Datum::Bytes(bytes)))
        }
        _ => Err(mismatch(array, Kind::Bytes)),
    }
}

const DAY_MILLISECONDS: i64 = 86_400_000;

/// Reads dates, times, timestamps and durations: in nanoseconds, whichever unit the array has.
fn read_moment(array: &ArrayRef, kind: Kind, visitor: &mut impl Visitor) -> Result<()> {
    let timestamp = |n: i64, factor: i128| match kind {
        Kind::Instant => Datum::Instant(i128::from(n) * factor),
        _ => Datum::Timestamp(i128::from(n) * factor),
    };
    match (kind, array.data_type()) {
        (Kind::Date, DataType::Date32) => numbers::<Date32Type>(array, visitor, |n| Datum::Date(n.into())),
        (Kind::Date, DataType::Date64) => {
            numbers::<Date64Type>(array, visitor, |n| Datum::Date(n.div_euclid(DAY_MILLISECONDS)))
        }
        (Kind::Time, DataType::Time32(TimeUnit::Second)) => {
            numbers::<Time32SecondType>(array, visitor, |n| Datum::Time(i64::from(n) * 1_000_000_000))
        }
        (Kind::Time, DataType::Time32(_)) => {
            numbers::<Time32MillisecondType>(array, visitor, |n| Datum::Time(i64::from(n) * 1_000_000))
        }
        (Kind::Time, DataType::Time64(TimeUnit::Microsecond)) => {
            numbers::<Time64MicrosecondType>(array, visitor, |n| Datum::Time(n.wrapping_mul(1_000)))
        }
        (Kind::Time, DataType::Time64(_)) => numbers::<Time64NanosecondType>(array, visitor, Datum::Time),
        (Kind::Timestamp, DataType::Timestamp(unit, None))
        | (Kind::Instant, DataType::Timestamp(unit, Some(_))) => match unit {
            TimeUnit::Second => {
                numbers::<TimestampSecondType>(array, visitor, |n| timestamp(n, 1_000_000_000))
            }
            TimeUnit::Millisecond => {
                numbers::<TimestampMillisecondType>(array, visitor, |n| timestamp(n, 1_000_000))
            }
            TimeUnit::Microsecond => {
                numbers::<TimestampMicrosecondType>(array, visitor, |n| timestamp(n, 1_000))
            }
            TimeUnit::Nanosecond => numbers::<TimestampNanosecondType>(array, visitor, |n| timestamp(n, 1)),
        },
        (Kind::Duration, DataType::Duration(unit)) => read_duration(array, *unit, visitor),
        _ => Err(mismatch(array, kind)),
    }
}

fn read_duration(array: &ArrayRef, unit: TimeUnit, visitor: &mut impl Visitor) -> Result<()> {
    let duration = |n: i64, factor: i128| Datum::Duration(i128::from(n) * factor);
    match unit {
        TimeUnit::Second => numbers::<DurationSecondType>(array, visitor, |n| duration(n, 1_000_000_000)),
        TimeUnit::Millisecond => {
            numbers::<DurationMillisecondType>(array, visitor, |n| duration(n, 1_000_000))
        }
        TimeUnit::Microsecond => numbers::<DurationMicrosecondType>(array, visitor, |n| duration(n, 1_000)),
        TimeUnit::Nanosecond => numbers::<DurationNanosecondType>(array, visitor, |n| duration(n, 1)),
    }
}

/// Returns the values of a column; `None` for NULL.
///
/// # Errors
/// `Unsupported` if the array cannot have values of that kind.
pub fn values_of(array: &ArrayRef, kind: Kind) -> Result<Vec<Option<Value>>> {
    struct Kept(Vec<Option<Value>>);
    impl Visitor for Kept {
        fn visit<'a>(&mut self, rows: usize, at: impl Fn(usize) -> Result<Datum<'a>>) -> Result<()> {
            self.0 = (0..rows).map(|row| at(row).map(|value| value.to_value())).collect::<Result<_>>()?;
            Ok(())
        }
    }
    let mut kept = Kept(Vec::new());
    read(array, kind, &mut kept)?;
    Ok(kept.0)
}
