//! Converts NumPy arrays to Arrow arrays: the memory is shared if the layouts agree.

use crate::error;
use arrow::array::types::*;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Date32Array, LargeBinaryBuilder, LargeStringBuilder,
    PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// The value of NaT in NumPy's datetime64 and timedelta64.
const NOT_A_TIME: i64 = i64::MIN;
const BYTES_PER_CODE_POINT: usize = 4;

/// Copies a contiguous array of bytes.
pub fn bytes_of(values: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    PyBuffer::<u8>::get(values)?.to_vec(values.py())
}

/// Returns the array's memory, kept alive by the Python object that owns it.
fn share(values: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let py = values.py();
    let memory = PyBuffer::<u8>::get(values)?;
    if !memory.is_c_contiguous() {
        return Err(error::invalid_input(py, "the array's memory is not contiguous"));
    }
    let bytes = memory.len_bytes();
    match NonNull::new(memory.buf_ptr().cast::<u8>()) {
        Some(start) if bytes > 0 => {
            // SAFETY: the buffer view keeps the memory alive and in place until it is dropped.
            Ok(unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(AssertUnwindSafe(memory))) })
        }
        _ => Ok(Buffer::from_vec(Vec::<i64>::new())),
    }
}

/// Returns values of a type, whose alignment the memory must have.
fn scalars<T: ArrowPrimitiveType>(
    values: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<ScalarBuffer<T::Native>> {
    let buffer = share(values)?;
    if buffer.as_ptr().align_offset(align_of::<T::Native>()) != 0 {
        return Err(error::invalid_input(
            values.py(),
            format!("column \"{name}\": the array's memory is not aligned"),
        ));
    }
    Ok(ScalarBuffer::from(buffer))
}

fn primitive<T: ArrowPrimitiveType>(values: &Bound<'_, PyAny>, name: &str) -> PyResult<ArrayRef> {
    Ok(Arc::new(PrimitiveArray::<T>::new(scalars::<T>(values, name)?, None)))
}

/// Returns ticks with NULL where NumPy has NaT.
fn ticks<T: ArrowPrimitiveType<Native = i64>>(
    values: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<PrimitiveArray<T>> {
    let ticks = scalars::<T>(values, name)?;
    let nulls = values.py().detach(|| not_a_time(&ticks));
    Ok(PrimitiveArray::new(ticks, nulls))
}

fn not_a_time(ticks: &[i64]) -> Option<NullBuffer> {
    ticks
        .contains(&NOT_A_TIME)
        .then(|| NullBuffer::new(BooleanBuffer::collect_bool(ticks.len(), |row| ticks[row] != NOT_A_TIME)))
}

/// Returns an array of the bytes `values` of the NumPy dtype `dtype`, for example "f8", "M8[us]",
/// "U12".
pub fn array(
    values: &Bound<'_, PyAny>,
    name: &str,
    dtype: &str,
    time_zone: Option<&str>,
) -> PyResult<ArrayRef> {
    let py = values.py();
    Ok(match dtype {
        "b1" => {
            let bytes = share(values)?;
            Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0), None))
        }
        "i1" => primitive::<Int8Type>(values, name)?,
        "i2" => primitive::<Int16Type>(values, name)?,
        "i4" => primitive::<Int32Type>(values, name)?,
        "i8" => primitive::<Int64Type>(values, name)?,
        "u1" => primitive::<UInt8Type>(values, name)?,
        "u2" => primitive::<UInt16Type>(values, name)?,
        "u4" => primitive::<UInt32Type>(values, name)?,
        "u8" => primitive::<UInt64Type>(values, name)?,
        "f4" => primitive::<Float32Type>(values, name)?,
        "f8" => primitive::<Float64Type>(values, name)?,
        "M8[D]" => Arc::new(dates(py, name, &scalars::<Int64Type>(values, name)?)?),
        "M8[s]" => Arc::new(ticks::<TimestampSecondType>(values, name)?.with_timezone_opt(time_zone)),
        "M8[ms]" => Arc::new(ticks::<TimestampMillisecondType>(values, name)?.with_timezone_opt(time_zone)),
        "M8[us]" => Arc::new(ticks::<TimestampMicrosecondType>(values, name)?.with_timezone_opt(time_zone)),
        "M8[ns]" => Arc::new(ticks::<TimestampNanosecondType>(values, name)?.with_timezone_opt(time_zone)),
        "m8[s]" => Arc::new(ticks::<DurationSecondType>(values, name)?),
        "m8[ms]" => Arc::new(ticks::<DurationMillisecondType>(values, name)?),
        "m8[us]" => Arc::new(ticks::<DurationMicrosecondType>(values, name)?),
        "m8[ns]" => Arc::new(ticks::<DurationNanosecondType>(values, name)?),
        _ => match (dtype.get(..1), dtype.get(1..).and_then(|width| width.parse().ok())) {
            (Some("U"), Some(width)) => text(py, name, &share(values)?, width)?,
            (Some("S"), Some(width)) => bytes(&share(values)?, width),
            _ => {
                return Err(error::invalid_input(
                    py,
                    format!("column \"{name}\" has the NumPy dtype {dtype}, which no SQL type holds"),
                ));
            }
        },
    })
}

fn dates(py: Python<'_>, name: &str, days: &[i64]) -> PyResult<Date32Array> {
    let nulls = not_a_time(days);
    let narrow: Result<Vec<i32>, usize> = days
        .iter()
        .enumerate()
        .map(|(row, day)| match *day {
            NOT_A_TIME => Ok(i32::MIN),
            day => i32::try_from(day).map_err(|_| row),
        })
        .collect();
    let narrow = narrow.map_err(|row| {
        error::invalid_input(
            py,
            format!(
                "column \"{name}\", row {row}: a date {} days from 1970 is out of range for DATE",
                days[row]
            ),
        )
    })?;
    Ok(Date32Array::new(narrow.into(), nulls))
}

/// Reads fixed-width UTF-32, padded with NUL.
fn text(py: Python<'_>, name: &str, buffer: &Buffer, width: usize) -> PyResult<ArrayRef> {
    let row_bytes = width * BYTES_PER_CODE_POINT;
    let mut builder = LargeStringBuilder::new();
    let mut string = String::new();
    for (row, padded) in buffer.chunks_exact(row_bytes.max(1)).enumerate() {
        string.clear();
        let code_points = padded
            .chunks_exact(BYTES_PER_CODE_POINT)
            .map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        for code_point in code_points {
            string.push(char::from_u32(code_point).ok_or_else(|| {
                error::invalid_input(
                    py,
                    format!("column \"{name}\", row {row}: code point {code_point:#x} is not valid Unicode"),
                )
            })?);
        }
        builder.append_value(string.trim_end_matches('\0'));
    }
    Ok(Arc::new(builder.finish()))
}

/// Reads fixed-width bytes, padded with NUL.
fn bytes(buffer: &Buffer, width: usize) -> ArrayRef {
    let mut builder = LargeBinaryBuilder::new();
    for padded in buffer.chunks_exact(width.max(1)) {
        let length = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        builder.append_value(&padded[..length]);
    }
    Arc::new(builder.finish())
}
