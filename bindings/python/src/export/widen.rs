//! Converts to Arrow layouts that readers of fewer Arrow types understand.
//!
//! Polars 2.1 reads every Arrow decimal as a 128-bit one, so that narrower ones become other
//! numbers. It reads no 256-bit decimals, and has no intervals. pyarrow 26 computes with 128 and
//! 256 bits only. Polars' own strings are views, so building them here, in parallel, saves it a
//! pass.

use super::parallel;
use arrow::array::types::IntervalMonthDayNanoType;
use arrow::array::types::{Decimal32Type, Decimal64Type, DecimalType, Int32Type, Int64Type};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, LargeStringArray, StringViewArray};
use arrow::array::{PrimitiveArray, StructArray, make_array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit};
use arrow::error::ArrowError;
use std::sync::Arc;

const POLARS_PRECISION_MAX: u8 = 38;
/// The longest string that a view holds in itself.
const INLINE_BYTES_MAX: usize = 12;

pub fn readable(array: &ArrayRef, field: &Field, threads: usize) -> Result<(ArrayRef, FieldRef), ArrowError> {
    let array = match array.data_type() {
        DataType::LargeUtf8 => views(array.as_string(), threads)?,
        DataType::Decimal32(precision, scale) => widen::<Decimal32Type>(array, *precision, *scale, threads)?,
        DataType::Decimal64(precision, scale) => widen::<Decimal64Type>(array, *precision, *scale, threads)?,
        DataType::Dictionary(codes, strings) => unsigned_codes(array, codes, strings),
        data_type => {
            let target = readable_type(data_type);
            if target == *data_type {
                array.clone()
            } else if let (DataType::Interval(_), DataType::Struct(fields)) = (data_type, &target) {
                interval_struct(array.as_primitive(), fields)
            } else {
                cast_with_options(array, &target, &CastOptions { safe: false, ..CastOptions::default() })?
            }
        }
    };
    // The metadata is dropped: JSON becomes text and a UUID its 16 bytes.
    let field = Field::new(field.name(), array.data_type().clone(), field.is_nullable());
    Ok((array, Arc::new(field)))
}

fn readable_type(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| {
        Arc::new(Field::new(field.name(), readable_type(field.data_type()), field.is_nullable()))
    };
    match data_type {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal256(precision, scale) => {
            DataType::Decimal128((*precision).min(POLARS_PRECISION_MAX), *scale)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => DataType::Struct(Fields::from(vec![
            Field::new("months", DataType::Int32, true),
            Field::new("days", DataType::Int32, true),
            Field::new("nanoseconds", DataType::Int64, true),
        ])),
        // Polars has zones by name and offsets of whole hours. For others it gets the same instants
        // in UTC.
        DataType::Timestamp(unit, Some(zone)) if zone.starts_with(['+', '-']) && !zone.ends_with(":00") => {
            DataType::Timestamp(*unit, Some("UTC".into()))
        }
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(item(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        DataType::Map(entries, sorted) => DataType::Map(item(entries), *sorted),
        other => other.clone(),
    }
}

fn widen<T: DecimalType>(
    array: &ArrayRef,
    precision: u8,
    scale: i8,
    threads: usize,
) -> Result<ArrayRef, ArrowError>
where
    T::Native: Into<i128>,
{
    let narrow: &PrimitiveArray<T> = array.as_primitive();
    let values = narrow.values();
    let wide = parallel::collect(values.len(), threads, |row| -> i128 { values[row].into() });
    let wide = Decimal128Array::try_new(wide.into(), narrow.nulls().cloned())?;
    Ok(Arc::new(wide.with_precision_and_scale(precision, scale)?))
}

/// Returns the same dictionary with unsigned codes, which Polars takes over without reading each of
/// them. The −1 under a NULL becomes the largest code, and stays under its NULL.
fn unsigned_codes(array: &ArrayRef, codes: &DataType, strings: &DataType) -> ArrayRef {
    let codes = match codes {
        DataType::Int8 => DataType::UInt8,
        DataType::Int16 => DataType::UInt16,
        DataType::Int32 => DataType::UInt32,
        _ => return array.clone(),
    };
    let data_type = DataType::Dictionary(Box::new(codes), Box::new(strings.clone()));
    let data = array.to_data().into_builder().data_type(data_type);
    // SAFETY: the codes have the same width and, except under a NULL, are indexes into the same
    // dictionary.
    make_array(unsafe { data.build_unchecked() })
}

fn interval_struct(array: &PrimitiveArray<IntervalMonthDayNanoType>, fields: &Fields) -> ArrayRef {
    let months: PrimitiveArray<Int32Type> = array.unary(|interval| interval.months);
    let days: PrimitiveArray<Int32Type> = array.unary(|interval| interval.days);
    let nanoseconds: PrimitiveArray<Int64Type> = array.unary(|interval| interval.nanoseconds);
    let columns: Vec<ArrayRef> = vec![Arc::new(months), Arc::new(days), Arc::new(nanoseconds)];
    Arc::new(StructArray::new(fields.clone(), columns, array.nulls().cloned()))
}

/// Returns views over the heap of a string array. A heap that 32-bit offsets cannot address is left
/// unchanged.
fn views(array: &LargeStringArray, threads: usize) -> Result<ArrayRef, ArrowError> {
    let heap = array.values();
    if i32::try_from(heap.len()).is_err() {
        return Ok(Arc::new(array.clone()));
    }
    let offsets = array.value_offsets();
    let views = parallel::collect(array.len(), threads, |row| {
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        view(heap.get(start..end).unwrap_or_default(), start)
    });
    let views = ScalarBuffer::from(views);
    let buffers = [heap.clone()];
    // SAFETY: each view was created from a range of this heap that the string array holds as valid
    // UTF-8.
    let strings = unsafe { StringViewArray::new_unchecked(views, buffers, array.nulls().cloned()) };
    Ok(Arc::new(strings))
}

/// Returns the 16 bytes of a view: length, then the whole string, or its first four bytes, buffer
/// 0, offset.
#[inline]
fn view(string: &[u8], offset: usize) -> u128 {
    let mut bytes = [0u8; 16];
    bytes[..4].copy_from_slice(&(string.len() as u32).to_le_bytes());
    if string.len() <= INLINE_BYTES_MAX {
        bytes[4..4 + string.len()].copy_from_slice(string);
    } else {
        bytes[4..8].copy_from_slice(&string[..4]);
        bytes[12..].copy_from_slice(&(offset as u32).to_le_bytes());
    }
    u128::from_le_bytes(bytes)
}
