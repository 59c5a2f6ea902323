//! Arrow streams of other producers. They are made uniform where the interface leaves a choice.

use super::accepted;
use super::sound::{Checker, rows_of};
use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray, make_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle::{Error, check_arrow_array, check_arrow_buffers};
use std::ffi::CStr;
use std::sync::Arc;

/// The arrays of a stream, which are the rows of a table or the chunks of a column.
pub struct Chunks {
    stream: FFI_ArrowArrayStream,
    pub field: FieldRef,
    /// Absent for arrays of this module's own.
    checker: Option<Checker>,
}

impl Chunks {
    /// # Errors
    /// `CDataInterface` when the stream gives no schema, or one with a type that no SQL type can
    /// hold.
    pub fn open(mut stream: FFI_ArrowArrayStream, checker: Option<Checker>) -> Result<Self, ArrowError> {
        let get_schema = stream.get_schema.ok_or_else(released)?;
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: this is the callback of an unreleased stream, called with the stream and a
        // writable place.
        if unsafe { get_schema(&mut stream, &mut schema) } != 0 {
            return Err(failure(&mut stream, "the stream gives no schema"));
        }
        let field = Arc::new(accepted::field(&schema)?);
        Ok(Self { stream, field, checker })
    }

    fn read(&mut self) -> Result<Option<ArrayRef>, ArrowError> {
        let get_next = self.stream.get_next.ok_or_else(released)?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as in `open`.
        if unsafe { get_next(&mut self.stream, &mut array) } != 0 {
            return Err(failure(&mut self.stream, "the stream failed while it was read"));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: the array was just produced for this field.
        unsafe { import(array, self.field.data_type(), self.checker.as_mut()) }.map(Some)
    }
}

impl Iterator for Chunks {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// The error for a row without values.
pub const NULL_ROW: &str = "a row is NULL as a whole; make its values NULL";

/// The batches of a stream of rows.
pub struct Batches {
    chunks: Chunks,
    schema: SchemaRef,
}

impl Batches {
    /// # Errors
    /// `CDataInterface` when the stream is not one of rows.
    pub fn new(chunks: Chunks) -> Result<Self, ArrowError> {
        let DataType::Struct(fields) = chunks.field.data_type() else {
            let message = format!("a stream of {} is not a table", chunks.field.data_type());
            return Err(ArrowError::CDataInterface(message));
        };
        let schema = Schema::new_with_metadata(fields.clone(), chunks.field.metadata().clone());
        Ok(Self { chunks, schema: Arc::new(schema) })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = |rows: &StructArray| {
            if rows.null_count() > 0 {
                return Err(external(Error::invalid_input(NULL_ROW)));
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options)
        };
        self.chunks.next().map(|rows| batch(rows?.as_struct()))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Imports the array and field of a pair of the interface's structures.
///
/// # Safety
/// `array` was produced for `schema`.
pub unsafe fn import_pair(
    array: FFI_ArrowArray,
    schema: &FFI_ArrowSchema,
    checker: Option<&mut Checker>,
) -> Result<(ArrayRef, Field), ArrowError> {
    let field = accepted::field(schema)?;
    // SAFETY: the caller promises it, and an accepted field has the layout of the producer's.
    let array = unsafe { import(array, field.data_type(), checker) }?;
    Ok((array, field))
}

/// # Safety
/// `array` was produced for a type of the layout of `data_type`.
unsafe fn import(
    mut array: FFI_ArrowArray,
    data_type: &DataType,
    checker: Option<&mut Checker>,
) -> Result<ArrayRef, ArrowError> {
    check_arrow_array(&array, data_type).map_err(external)?;
    // SAFETY: the caller promises this, and the numbers of parts have been checked.
    unsafe { drop_buffers_of_nulls(&mut array, data_type) };
    // SAFETY: the caller promises this.
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
    check_arrow_buffers(&data).map_err(external)?;
    let sound = rows_of(&data, 0, data.len()).and_then(|data| {
        checker.map_or(Ok(()), |checker| checker.check(&data))?;
        Ok(data)
    });
    sound.map(make_array).map_err(external)
}

/// Returns an error of the database as one of Arrow's.
fn external(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// Drops the buffers of columns of type Null. They should have none, but Polars gives them one.
///
/// # Safety
/// `array` was produced for a type of the layout of `data_type`.
unsafe fn drop_buffers_of_nulls(array: &mut FFI_ArrowArray, data_type: &DataType) {
    if *data_type == DataType::Null {
        array.n_buffers = 0;
        return;
    }
    let children: Vec<&DataType> = match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        _ => return,
    };
    for (index, child) in children.into_iter().enumerate().take(array.n_children.max(0) as usize) {
        // SAFETY: an array has pointers to as many children as it counts, each with one owner.
        unsafe { drop_buffers_of_nulls(&mut **array.children.add(index), child) };
    }
}

fn released() -> ArrowError {
    ArrowError::CDataInterface("the stream is already released".into())
}

/// Returns the producer's text about its failure, or else the given text.
fn failure(stream: &mut FFI_ArrowArrayStream, otherwise: &str) -> ArrowError {
    let said = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: this is the callback of an unreleased stream whose last call failed; its text is
        // copied at once.
        let text = unsafe { get_last_error(stream) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    ArrowError::CDataInterface(said.unwrap_or_else(|| otherwise.to_string()))
}
