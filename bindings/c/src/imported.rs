//! Arrow data of the caller's: moved here, and checked, because kernels read what lengths and
//! offsets say.

use crate::text::misuse;
use arrow::array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use hypostyle::{Error, ErrorKind, Result, caught};

/// Rows of the caller's, each batch of which is checked.
pub struct Checked(ArrowArrayStreamReader);

impl Iterator for Checked {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| {
            let batch = batch?;
            batch.columns().iter().try_for_each(|column| column.to_data().validate_full())?;
            Ok(batch)
        })
    }
}

impl RecordBatchReader for Checked {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Runs what reads Arrow's structs. Arrow's own code takes for granted what its interface asks for, such as a
/// format of each schema, and panics where it is not so.
fn imported<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(work).map_err(|error| match error.kind() {
        ErrorKind::Internal => misuse("the rows are not as Arrow's C data interface says"),
        _ => error,
    })
}

/// Takes a stream.
///
/// # Errors
/// `InvalidInput` for NULL, for one that was released, and for a schema that is none of rows.
///
/// # Safety
/// `stream` is NULL or points to a stream that follows Arrow's C stream interface.
pub unsafe fn rows_of(stream: *mut FFI_ArrowArrayStream) -> Result<Checked> {
    // SAFETY: the caller promises this, and its address is one of its type.
    let is_there =
        stream.is_aligned() && unsafe { stream.as_ref() }.is_some_and(|stream| stream.release.is_some());
    if !is_there {
        return Err(misuse("the stream of rows is NULL, or was released"));
    }
    imported(|| {
        // SAFETY: as above; the stream is moved.
        let rows = unsafe { ArrowArrayStreamReader::from_raw(stream) };
        rows.map(Checked).map_err(|error| misuse(format!("the stream of rows: {error}")))
    })
}

/// Takes a struct array as a batch.
///
/// # Errors
/// `InvalidInput` for NULL, for one that was released or that is no struct, and for damaged data.
///
/// # Safety
/// Both are NULL or follow Arrow's C data interface, and belong together.
pub unsafe fn batch_of(array: *mut FFI_ArrowArray, schema: *mut FFI_ArrowSchema) -> Result<RecordBatch> {
    let is_there = !array.is_null() && !schema.is_null() && array.is_aligned() && schema.is_aligned();
    if !is_there {
        return Err(misuse("the array of rows or its schema is NULL"));
    }
    // SAFETY: neither is NULL, and both are moved.
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array), FFI_ArrowSchema::from_raw(schema)) };
    if array.is_released() || schema.release.is_none() {
        return Err(misuse("the array of rows or its schema was released"));
    }
    let wrong = |error: ArrowError| misuse(format!("the array of rows: {error}"));
    // SAFETY: the caller promises that they belong together.
    let data = imported(|| unsafe { from_ffi(array, &schema) }.map_err(wrong))?;
    data.validate_full().map_err(wrong)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(misuse(format!("rows are a struct of columns, not {}", data.data_type())));
    }
    let rows = StructArray::from(data);
    match rows.null_count() {
        0 => Ok(RecordBatch::from(rows)),
        _ => Err(Error::invalid_input("a row is NULL as a whole; make its values NULL")),
    }
}
