//! Converts Arrow arrays to memory that NumPy reads: shared if the layouts agree, otherwise
//! converted once.

use super::parallel;
use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::array::{StringArray, downcast_dictionary_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowNativeType, DECIMAL64_MAX_PRECISION, DataType, TimeUnit};
use arrow::error::ArrowError;
use std::collections::HashMap;

/// The largest power of ten, and the largest integer, that f64 holds exactly. Below both, one
/// division gives the correctly rounded value.
const EXACT_SCALE_MAX: i8 = 22;
const EXACT_INTEGER_MAX: f64 = (1u64 << 53) as f64;
/// The value of NaT in NumPy's datetime64 and timedelta64.
const NOT_A_TIME: i64 = i64::MIN;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROSECONDS_PER_DAY: i64 = SECONDS_PER_DAY * 1_000_000;

pub struct Parts {
    pub dtype: &'static str,
    pub values: Buffer,
    /// A byte per row, 1 where the value is NULL.
    pub mask: Option<Buffer>,
    /// The number of values per row.
    pub width: usize,
}

impl Parts {
    fn new(dtype: &'static str, values: Buffer) -> Self {
        Self { dtype, values, mask: None, width: 1 }
    }

    fn masked(mut self, nulls: Option<&NullBuffer>, threads: usize) -> Self {
        self.mask = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| {
            Buffer::from_vec(parallel::collect(nulls.len(), threads, |row| u8::from(nulls.is_null(row))))
        });
        self
    }
}

/// Returns the memory and dtype of a column, or `None` for types without a fixed-width dtype.
pub fn parts(
    array: &ArrayRef,
    stored: bool,
    threads: usize,
    scaled: bool,
) -> Result<Option<Parts>, ArrowError> {
    let integer = |dtype, values| Some(Parts::new(dtype, values).masked(array.nulls(), threads));
    Ok(match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean().values().clone();
            let bytes = parallel::collect(bits.len(), threads, |row| u8::from(bits.value(row)));
            integer("?", Buffer::from_vec(bytes))
        }
        DataType::Int8 => integer("i1", values::<Int8Type>(array)),
        DataType::Int16 => integer("i2", values::<Int16Type>(array)),
        DataType::Int32 => integer("i4", values::<Int32Type>(array)),
        DataType::Int64 => integer("i8", values::<Int64Type>(array)),
        DataType::UInt8 => integer("u1", values::<UInt8Type>(array)),
        DataType::UInt16 => integer("u2", values::<UInt16Type>(array)),
        DataType::UInt32 => integer("u4", values::<UInt32Type>(array)),
        DataType::UInt64 => integer("u8", values::<UInt64Type>(array)),
        DataType::Float32 => Some(Parts::new("f4", filled::<Float32Type>(array, stored, threads, f32::NAN))),
        DataType::Float64 => Some(Parts::new("f8", filled::<Float64Type>(array, stored, threads, f64::NAN))),
        DataType::Timestamp(unit, _) => {
            let (dtype, values) = match unit {
                TimeUnit::Second => ("M8[s]", ticks::<TimestampSecondType>(array, stored, threads)),
                TimeUnit::Millisecond => {
                    ("M8[ms]", ticks::<TimestampMillisecondType>(array, stored, threads))
                }
                TimeUnit::Microsecond => {
                    ("M8[us]", ticks::<TimestampMicrosecondType>(array, stored, threads))
                }
                TimeUnit::Nanosecond => ("M8[ns]", ticks::<TimestampNanosecondType>(array, stored, threads)),
            };
            Some(Parts::new(dtype, values))
        }
        DataType::Duration(unit) => {
            let (dtype, values) = match unit {
                TimeUnit::Second => ("m8[s]", ticks::<DurationSecondType>(array, false, threads)),
                TimeUnit::Millisecond => ("m8[ms]", ticks::<DurationMillisecondType>(array, false, threads)),
                TimeUnit::Microsecond => ("m8[us]", ticks::<DurationMicrosecondType>(array, false, threads)),
                TimeUnit::Nanosecond => ("m8[ns]", ticks::<DurationNanosecondType>(array, false, threads)),
            };
            Some(Parts::new(dtype, values))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Some(Parts::new("m8[us]", ticks::<Time64MicrosecondType>(array, false, threads)))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            Some(Parts::new("m8[ns]", ticks::<Time64NanosecondType>(array, false, threads)))
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            let wide = parallel::map(days.values(), days.nulls(), NOT_A_TIME, threads, i64::from);
            Some(Parts::new("M8[D]", Buffer::from_vec(wide)))
        }
        DataType::Decimal32(_, scale) => match scaled {
            true => integer("i4", values::<Decimal32Type>(array)),
            false => Some(decimals::<Decimal32Type>(array, *scale, threads, |value| i64::from(value) as f64)),
        },
        DataType::Decimal64(_, scale) => match scaled {
            true => integer("i8", values::<Decimal64Type>(array)),
            false => Some(decimals::<Decimal64Type>(array, *scale, threads, |value| value as f64)),
        },
        DataType::Decimal128(precision, _) if scaled && *precision <= DECIMAL64_MAX_PRECISION => {
            let wide = array.as_primitive::<Decimal128Type>().values();
            integer("i8", Buffer::from_vec(parallel::collect(wide.len(), threads, |row| wide[row] as i64)))
        }
        DataType::Decimal128(_, scale) if !scaled => {
            Some(decimals::<Decimal128Type>(array, *scale, threads, |value| value as f64))
        }
        DataType::Decimal256(_, scale) if !scaled => {
            // It goes through text unless it is a small integer, see `decimals`.
            Some(decimals::<Decimal256Type>(array, *scale, threads, |value| {
                value.to_i128().map_or(f64::INFINITY, |value| value as f64)
            }))
        }
        DataType::FixedSizeList(_, length) if array.null_count() == 0 => {
            let lists = array.as_fixed_size_list();
            let items = lists.values();
            // A list's items may begin before its first row if the array is a slice.
            let used = items.slice(lists.value_offset(0) as usize, lists.len() * *length as usize);
            if used.null_count() > 0 {
                return Ok(None);
            }
            parts(&used, stored, threads, scaled)?.map(|parts| Parts { width: *length as usize, ..parts })
        }
        _ => None,
    })
}

/// Returns the midnights at which dates begin, for pandas, which has no dates. The unit is pandas'
/// usual one, or the coarsest if a date is too far away. Returns `None` for other types.
pub fn midnights(array: &ArrayRef, threads: usize) -> Option<Parts> {
    let days = array.as_primitive_opt::<Date32Type>()?;
    let is_near = |day: i32| i64::from(day).abs() <= i64::MAX / MICROSECONDS_PER_DAY;
    let are_near = match days.null_count() {
        0 => days.values().iter().fold(true, |near, day| near & is_near(*day)),
        _ => days.iter().flatten().all(is_near),
    };
    let (dtype, per_day) =
        if are_near { ("M8[us]", MICROSECONDS_PER_DAY) } else { ("M8[s]", SECONDS_PER_DAY) };
    // The value under a NULL may be too far away; it is ignored.
    let midnight = |day| i64::from(day).wrapping_mul(per_day);
    let ticks = parallel::map(days.values(), days.nulls(), NOT_A_TIME, threads, midnight);
    Some(Parts::new(dtype, Buffer::from_vec(ticks)))
}

fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> Buffer {
    array.as_primitive::<T>().values().inner().clone()
}

/// Returns the values with `missing` under NULL, without a copy if it is there already.
fn filled<T: ArrowPrimitiveType>(array: &ArrayRef, stored: bool, threads: usize, missing: T::Native) -> Buffer
where
    T::Native: Default,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    match array.nulls().filter(|nulls| nulls.null_count() > 0 && !stored) {
        None => array.values().inner().clone(),
        Some(nulls) => {
            let values = array.values();
            Buffer::from_vec(parallel::collect(values.len(), threads, |row| {
                if nulls.is_null(row) { missing } else { values[row] }
            }))
        }
    }
}

/// Returns `filled` with NaT.
fn ticks<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, stored: bool, threads: usize) -> Buffer {
    filled::<T>(array, stored, threads, NOT_A_TIME)
}

fn decimals<T: DecimalType>(
    array: &ArrayRef,
    scale: i8,
    threads: usize,
    to_f64: impl Fn(T::Native) -> f64 + Sync,
) -> Parts {
    let array: &PrimitiveArray<T> = array.as_primitive();
    let divisor = 10f64.powi(i32::from(scale));
    let exact_scale = (0..=EXACT_SCALE_MAX).contains(&scale);
    let converted = parallel::map(array.values(), array.nulls(), f64::NAN, threads, |decimal| {
        let value = to_f64(decimal);
        // The largest value itself is left out, because larger integers round to it.
        if exact_scale && value.abs() < EXACT_INTEGER_MAX {
            return value / divisor;
        }
        // The text of a decimal is always valid.
        T::format_decimal(decimal, T::MAX_PRECISION, scale).parse().unwrap_or(f64::NAN)
    });
    Parts::new("f8", Buffer::from_vec(converted))
}

/// Returns the codes and distinct values of a dictionary of strings, -1 under NULL. No value occurs
/// twice, and none is NULL.
pub fn dictionary(array: &ArrayRef, stored: bool) -> Result<(&'static str, Buffer, ArrayRef), ArrowError> {
    let invalid = || ArrowError::InvalidArgumentError("not a dictionary".into());
    let dictionary = array.as_any_dictionary_opt().ok_or_else(invalid)?;
    if stored {
        let keys = dictionary.keys();
        let values = dictionary.values().clone();
        match keys.data_type() {
            DataType::Int8 => {
                return Ok(("i1", keys.as_primitive::<Int8Type>().values().inner().clone(), values));
            }
            DataType::Int16 => {
                return Ok(("i2", keys.as_primitive::<Int16Type>().values().inner().clone(), values));
            }
            DataType::Int32 => {
                return Ok(("i4", keys.as_primitive::<Int32Type>().values().inner().clone(), values));
            }
            _ => {}
        }
    }
    let distinct = cast(dictionary.values(), &DataType::Utf8)?;
    let distinct = distinct.as_string::<i32>();
    let mut code_of: HashMap<Option<&str>, i32> = HashMap::from([(None, -1)]);
    let mut categories: Vec<&str> = Vec::new();
    let new_codes: Vec<i32> = distinct
        .iter()
        .map(|value| {
            *code_of.entry(value).or_insert_with(|| {
                categories.extend(value);
                categories.len() as i32 - 1
            })
        })
        .collect();
    let codes: Vec<i32> = downcast_dictionary_array!(
        array => array.keys().iter().map(|key| key.map_or(-1, |key| new_codes[key.as_usize()])).collect(),
        _ => return Err(invalid())
    );
    let categories = cast(&StringArray::from(categories), &DataType::LargeUtf8)?;
    Ok(("i4", Buffer::from_vec(codes), categories))
}
