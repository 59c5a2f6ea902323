//! Appending: streams, columns, and rows one by one.

use crate::call::{Slot, call, check_place, check_struct, give_handle, read_struct};
use crate::connecting::Connection;
use crate::handle::{Handle, Kind};
use crate::imported::{batch_of, rows_of};
use crate::layout::{self, BY_NAME, CREATE, Value, Values};
use crate::text::{bytes, misuse, optional, text};
use crate::value::scalar;
use crate::values::copied;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::{RecordBatchIterator, RecordBatchReader};
use hypostyle::{AppendOptions, AppendValue, CancelMark, DriverSession, Result};
use hypostyle_sync::Mutex;
use std::ffi::c_char;
use std::sync::Arc;

/// The columns that a table may have.
const COLUMNS_MAX: usize = 16_384;

/// `hypostyle_appender`.
pub struct Appender(Mutex<hypostyle::Appender>);

impl Kind for Appender {
    const MAGIC: u64 = 0x4859_504f_0000_0007;
    const NAME: &'static str = "appender";
}

fn append(
    session: &Arc<DriverSession>,
    table: &str,
    rows: Box<dyn RecordBatchReader + Send>,
    flags: u32,
) -> Result<u64> {
    let options = AppendOptions { create: flags & CREATE != 0, by_name: flags & BY_NAME != 0 };
    let mark = CancelMark::default();
    session.step(|| session.call(&mark, |connection| connection.append(table, rows, options)))
}

/// # Safety
/// `out` is NULL or a place for a number.
unsafe fn give_rows(out: *mut u64, rows: u64) {
    if !out.is_null() {
        // SAFETY: the caller promises this, at whatever address.
        unsafe { out.write_unaligned(rows) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_append(
    connection: *mut Handle<Connection>,
    table: *const c_char,
    length: usize,
    stream: *mut FFI_ArrowArrayStream,
    flags: u32,
    rows: *mut u64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is; it is taken also when the connection is none.
        let data = unsafe { rows_of(stream) }?;
        // SAFETY: the header says what they are.
        let (connection, table) = unsafe { (Handle::get(connection)?, text(table, length, "the table")?) };
        let appended = append(&connection.0, table, Box::new(data), flags)?;
        // SAFETY: the header says what it is.
        unsafe { give_rows(rows, appended) };
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_append_columns(
    connection: *mut Handle<Connection>,
    table: *const c_char,
    length: usize,
    names: *const *const c_char,
    values: *const Values,
    column_count: usize,
    flags: u32,
    rows: *mut u64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let (connection, table) = unsafe { (Handle::get(connection)?, text(table, length, "the table")?) };
        // SAFETY: the header says what they are.
        let batch = unsafe { batch_of_columns(names, values, column_count) }?;
        let schema = batch.schema();
        let data = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
        let appended = append(&connection.0, table, data, flags)?;
        // SAFETY: the header says what it is.
        unsafe { give_rows(rows, appended) };
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// # Safety
/// `names` and `values` are NULL or have `count` elements, which are what the header says.
unsafe fn batch_of_columns(
    names: *const *const c_char,
    values: *const Values,
    count: usize,
) -> Result<RecordBatch> {
    if names.is_null() || values.is_null() || count == 0 {
        return Err(misuse("there are no columns to append: names or values are NULL, or none"));
    }
    if count > COLUMNS_MAX {
        return Err(misuse(format!("{count} columns: a table has at most {COLUMNS_MAX}")));
    }
    // All elements of the array are as large as the first says.
    // SAFETY: the caller promises this.
    let stride = unsafe {
        check_struct(values)?;
        values.cast::<u32>().read() as usize
    };
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in 0..count {
        // SAFETY: there are as many names and values.
        let (name, values) = unsafe {
            (
                optional(names.add(column).read_unaligned(), "a name")?,
                read_struct(values.byte_add(stride * column))?,
            )
        };
        let name = name.ok_or_else(|| misuse(format!("the name of the column {column} is NULL")))?;
        // SAFETY: the caller promises this.
        let (field, array) = unsafe { copied(&values, name) }?;
        fields.push(field);
        arrays.push(array);
    }
    let rows = arrays.first().map_or(0, |array| array.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| misuse(format!("the columns are no rows: {error}")))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_open(
    connection: *mut Handle<Connection>,
    table: *const c_char,
    length: usize,
    appender: *mut *mut Handle<Appender>,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(appender, "the appender")?;
        // SAFETY: the header says what they are.
        let (connection, table) = unsafe { (Handle::get(connection)?, text(table, length, "the table")?) };
        let opened = hypostyle::Appender::open(connection.0.clone(), table)?;
        // SAFETY: it is a place.
        unsafe { give_handle(appender, Appender(Mutex::new(opened))) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_value(
    appender: *mut Handle<Appender>,
    value: *const Value,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let (appender, value) = unsafe { (Handle::get(appender)?, read_struct(value)?) };
        // SAFETY: the header says what its data is.
        let given = unsafe {
            match value.of {
                layout::NULL => AppendValue::Null,
                layout::BOOLEAN => AppendValue::Boolean(value.integer != 0),
                layout::INTEGER | layout::BIGINT => AppendValue::Integer(value.integer),
                layout::DOUBLE => AppendValue::Float(value.number),
                layout::VARCHAR if value.length == 0 && value.data.is_null() => AppendValue::Text(""),
                layout::VARCHAR => AppendValue::Text(text(value.data.cast(), value.length, "the value")?),
                layout::BLOB => AppendValue::Bytes(bytes(value.data.cast(), value.length, "the value")?),
                _ => AppendValue::Scalar(scalar(&value)?),
            }
        };
        appender.0.lock().value(given)
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_end_row(appender: *mut Handle<Appender>, error: Slot) -> i32 {
    // SAFETY: the header says what they are.
    unsafe { call(error, || Handle::get(appender)?.0.lock().end_row()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_arrow(
    appender: *mut Handle<Appender>,
    rows: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are; they are taken also when the appender is none.
        let batch = unsafe { batch_of(rows, schema) }?;
        // SAFETY: the header says what it is.
        unsafe { Handle::get(appender) }?.0.lock().batch(batch)
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_finish(
    appender: *mut Handle<Appender>,
    rows: *mut u64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let appended = unsafe { Handle::get(appender) }?.0.lock().finish()?;
        // SAFETY: the header says what it is.
        unsafe { give_rows(rows, appended) };
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_appender_free(appender: *mut *mut Handle<Appender>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(appender) };
}
