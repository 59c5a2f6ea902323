//! Arrow data of the caller's, which `hypostyle_adbc` takes and checks.

use crate::text::misuse;
use arrow::array::RecordBatch;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle::Result;
use hypostyle_adbc::imported::{self, StreamRows};

/// Takes a stream.
///
/// # Errors
/// `InvalidInput` for NULL, for one that was released, and for a schema that is none of rows.
///
/// # Safety
/// `stream` is NULL or points to a stream that follows Arrow's C stream interface.
pub unsafe fn rows_of(stream: *mut FFI_ArrowArrayStream) -> Result<StreamRows> {
    // SAFETY: the caller promises this, and its address is one of its type.
    let is_there =
        stream.is_aligned() && unsafe { stream.as_ref() }.is_some_and(|stream| stream.release.is_some());
    if !is_there {
        return Err(misuse("the stream of rows is NULL, or was released"));
    }
    // SAFETY: as above; the stream is moved.
    let rows = unsafe { StreamRows::open(FFI_ArrowArrayStream::from_raw(stream)) };
    rows.map_err(|error| misuse(format!("the stream of rows: {}", error.message())))
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
    // SAFETY: the caller promises that they belong together.
    let batch = unsafe { imported::batch_of(array, &schema) };
    batch.map_err(|error| misuse(format!("the array of rows: {}", error.message())))
}
