//! Results row by row.

use crate::call::{Slot, answer, call, check_place, give};
use crate::handle::Handle;
use crate::results::QueryRows;
use crate::text::misuse;
use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, LargeStringBuilder, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle::{Error, LogicalType, QueryResult, Result, interval_texts};
use std::ffi::{c_char, c_void};
use std::ptr;

const STYLE: FormatOptions<'static> = FormatOptions::new()
    // Within a list or a structure; a value that is NULL has no text.
    .with_null("NULL")
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));

/// A place in a result.
#[derive(Default)]
pub struct Cursor {
    batch: Option<RecordBatch>,
    /// The row of the batch; before the first step there is none.
    row: usize,
    /// The texts and the bytes of the row that C was given, by column; NUL follows texts.
    texts: Vec<Option<Box<[u8]>>>,
    bytes: Vec<Option<Box<[u8]>>>,
}

impl Cursor {
    fn step(&mut self, rows: &QueryRows) -> Result<bool> {
        self.forget_row();
        if let Some(batch) = &self.batch {
            self.row += 1;
            if self.row < batch.num_rows() {
                return Ok(true);
            }
        }
        self.row = 0;
        self.fetch(rows).map(|count| count > 0)
    }

    /// Goes to the next batch, of whose rows none is the current one, and returns their number; 0 behind
    /// the last.
    fn step_batch(&mut self, rows: &QueryRows) -> Result<usize> {
        self.forget_row();
        let count = self.fetch(rows)?;
        self.row = count;
        Ok(count)
    }

    fn forget_row(&mut self) {
        self.texts.clear();
        self.bytes.clear();
    }

    fn fetch(&mut self, rows: &QueryRows) -> Result<usize> {
        loop {
            self.batch = None;
            match rows.call(QueryResult::next_batch)? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => return Ok(self.batch.insert(batch).num_rows()),
                None => return Ok(0),
            }
        }
    }

    /// Returns a column of the current batch.
    pub fn column(&self, column: usize) -> Result<&ArrayRef> {
        let batch = self.batch.as_ref().ok_or_else(|| misuse("there are no rows; step to some"))?;
        batch.columns().get(column).ok_or_else(|| {
            misuse(format!("no column {column}: the result has {} columns", batch.num_columns()))
        })
    }

    /// Returns one value of the row, through its dictionary, or `None` for NULL.
    fn value(&self, column: usize) -> Result<Option<ArrayRef>> {
        let array = self.column(column)?;
        if self.row >= array.len() {
            return Err(misuse("there is no row; step to one"));
        }
        if array.is_null(self.row) || *array.data_type() == DataType::Null {
            return Ok(None);
        }
        let value = array.slice(self.row, 1);
        Ok(Some(match value.data_type() {
            DataType::Dictionary(_, of) => cast(&value, of).map_err(unreadable)?,
            _ => value,
        })
        // A value of a dictionary may be NULL itself.
        .filter(|value| value.is_valid(0)))
    }
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("the value cannot be read: {error}")).with_sqlstate("22018")
}

fn not_as(logical_type: &LogicalType, what: &str) -> Error {
    Error::invalid_input(format!("a {logical_type} is not read as {what}")).with_sqlstate("22018")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_step(
    result: *mut Handle<QueryRows>,
    has_row: *mut i32,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(has_row, "has_row")?;
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let found = rows.cursor.lock().step(rows)?;
        // SAFETY: it is a place.
        unsafe { give(has_row, i32::from(found), "has_row") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_step_batch(
    result: *mut Handle<QueryRows>,
    count: *mut u64,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(count, "the number of rows")?;
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let found = rows.cursor.lock().step_batch(rows)?;
        // SAFETY: it is a place.
        unsafe { give(count, found as u64, "the number of rows") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_row_is_null(result: *const Handle<QueryRows>, column: usize) -> i32 {
    answer(-1, || {
        // SAFETY: the header says what it is.
        let value = unsafe { Handle::get(result) }.ok()?.cursor.lock().value(column).ok()?;
        Some(i32::from(value.is_none()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_row_int64(
    result: *const Handle<QueryRows>,
    column: usize,
    value: *mut i64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let found = rows.cursor.lock().value(column)?;
        let integer = match found {
            Some(found) => integer(&found, &rows.result.columns()[column].logical_type)?,
            None => 0,
        };
        // SAFETY: the header says what it is.
        unsafe { give(value, integer, "the value") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

fn integer(value: &ArrayRef, of: &LogicalType) -> Result<i64> {
    let is_integer = match value.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale == 0,
        DataType::Boolean
        | DataType::Date32
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => true,
        data_type => data_type.is_integer(),
    };
    if !is_integer {
        return Err(not_as(of, "an integer"));
    }
    let found = match value.data_type() {
        // Days are kept as they are.
        DataType::Date32 => cast(value, &DataType::Int32).and_then(|days| cast(&days, &DataType::Int64)),
        _ => cast(value, &DataType::Int64),
    };
    let found = found.map_err(unreadable)?;
    match found.is_valid(0) {
        true => Ok(found.as_primitive::<Int64Type>().value(0)),
        false => Err(Error::invalid_input(format!("a value of {of} is out of range for 64 bits"))
            .with_sqlstate("22003")),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_row_double(
    result: *const Handle<QueryRows>,
    column: usize,
    value: *mut f64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let found = rows.cursor.lock().value(column)?;
        let number = match found {
            Some(found) if found.data_type().is_numeric() => {
                let number = cast(&found, &DataType::Float64).map_err(unreadable)?;
                number.as_primitive::<Float64Type>().value(0)
            }
            Some(_) => return Err(not_as(&rows.result.columns()[column].logical_type, "a number")),
            None => f64::NAN,
        };
        // SAFETY: the header says what it is.
        unsafe { give(value, number, "the value") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_row_text(
    result: *const Handle<QueryRows>,
    column: usize,
    text: *mut *const c_char,
    length: *mut usize,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(length, "the text's length")?;
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let mut cursor = rows.cursor.lock();
        let (start, bytes) = match cursor.value(column)? {
            None => (ptr::null(), 0),
            Some(value) => {
                let mut shown = text_of(&value, &rows.result.columns()[column].logical_type)?.into_bytes();
                let bytes = shown.len();
                shown.push(0);
                let columns = rows.result.columns().len();
                cursor.texts.resize_with(columns, || None);
                let kept = cursor.texts[column].get_or_insert_with(|| shown.into_boxed_slice());
                (kept.as_ptr().cast(), bytes)
            }
        };
        // SAFETY: the header says what they are.
        unsafe {
            give(text, start, "the text")?;
            give(length, bytes, "the text's length")
        }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// Returns the texts of an array of lists or structures, each as [`text_of`] gives it.
pub fn texts_of(array: &dyn Array) -> Result<LargeStringArray> {
    let formatter = ArrayFormatter::try_new(array, &STYLE).map_err(unreadable)?;
    let mut texts = LargeStringBuilder::with_capacity(array.len(), 0);
    for row in 0..array.len() {
        match array.is_null(row) {
            true => texts.append_null(),
            false => texts.append_value(formatter.value(row).try_to_string().map_err(unreadable)?),
        }
    }
    Ok(texts.finish())
}

/// Returns a value as text.
fn text_of(value: &ArrayRef, of: &LogicalType) -> Result<String> {
    match value.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let value = cast(value, &DataType::LargeUtf8).map_err(unreadable)?;
            Ok(value.as_string::<i64>().value(0).to_string())
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            let texts = interval_texts(value.as_ref()).map_err(unreadable)?;
            Ok(texts.value(0).to_string())
        }
        DataType::FixedSizeBinary(16) if *of == LogicalType::Uuid => {
            let mut text = String::with_capacity(36);
            for (index, byte) in value.as_fixed_size_binary().value(0).iter().enumerate() {
                let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
                text.push_str(&format!("{dash}{byte:02x}"));
            }
            Ok(text)
        }
        _ => {
            let formatter = ArrayFormatter::try_new(value.as_ref(), &STYLE).map_err(unreadable)?;
            formatter.value(0).try_to_string().map_err(unreadable)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_row_bytes(
    result: *const Handle<QueryRows>,
    column: usize,
    bytes: *mut *const c_void,
    length: *mut usize,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(length, "the length")?;
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let mut cursor = rows.cursor.lock();
        let (start, count) = match cursor.value(column)? {
            None => (ptr::null(), 0),
            Some(value) => {
                let found = bytes_of(&value, &rows.result.columns()[column].logical_type)?;
                let columns = rows.result.columns().len();
                cursor.bytes.resize_with(columns, || None);
                let kept = cursor.bytes[column].get_or_insert_with(|| found.into());
                (kept.as_ptr().cast(), kept.len())
            }
        };
        // SAFETY: the header says what they are.
        unsafe {
            give(bytes, start, "the bytes")?;
            give(length, count, "the length")
        }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

fn bytes_of<'a>(value: &'a ArrayRef, of: &LogicalType) -> Result<&'a [u8]> {
    Ok(match value.data_type() {
        DataType::LargeUtf8 => value.as_string::<i64>().value(0).as_bytes(),
        DataType::Utf8 => value.as_string::<i32>().value(0).as_bytes(),
        DataType::Utf8View => value.as_string_view().value(0).as_bytes(),
        DataType::LargeBinary => value.as_binary::<i64>().value(0),
        DataType::Binary => value.as_binary::<i32>().value(0),
        DataType::BinaryView => value.as_binary_view().value(0),
        DataType::FixedSizeBinary(_) => value.as_fixed_size_binary().value(0),
        _ => return Err(not_as(of, "bytes")),
    })
}
