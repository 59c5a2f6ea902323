//! The Arrow PyCapsule interface, in both directions.

use crate::error;
use crate::input::sound::Checker;
use crate::input::stream::{self, Batches, Chunks};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow::datatypes::{Field, FieldRef, Schema};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle::export_arrow_stream;
use pyo3::ffi::c_str;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::sync::Arc;

const SCHEMA: &CStr = c_str!("arrow_schema");
const ARRAY: &CStr = c_str!("arrow_array");
const STREAM: &CStr = c_str!("arrow_array_stream");

pub type Reader = Box<dyn RecordBatchReader + Send>;

pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| error::from_arrow(py, &error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Returns the pair of capsules of `__arrow_c_array__`.
pub fn export_array<'py>(py: Python<'py>, array: &ArrayRef, field: &Field) -> PyResult<Bound<'py, PyTuple>> {
    let schema = FFI_ArrowSchema::try_from(field).map_err(|error| error::from_arrow(py, &error))?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&array.to_data()), ARRAY)?;
    PyTuple::new(py, [schema, array])
}

pub fn export_stream(py: Python<'_>, reader: Reader) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, export_arrow_stream(reader), STREAM)
}

/// Returns a reader over the batches of an object that has the Arrow PyCapsule interface, or
/// `None`.
pub fn import_reader(data: &Bound<'_, PyAny>) -> PyResult<Option<Reader>> {
    let py = data.py();
    if data.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let batches = Batches::new(import_stream(data)?).map_err(|error| error::from_arrow(py, &error))?;
        return Ok(Some(Box::new(batches)));
    }
    if !data.hasattr(intern!(py, "__arrow_c_array__"))? {
        return Ok(None);
    }
    let (array, field) = import_array(data)?;
    let Some(rows) = array.as_any().downcast_ref::<StructArray>() else {
        return Err(error::invalid_input(
            py,
            format!(
                "an Arrow array of type {} is not a table; pass a struct array or a table",
                field.data_type()
            ),
        ));
    };
    if rows.null_count() > 0 {
        return Err(error::invalid_input(py, stream::NULL_ROW));
    }
    let batch = RecordBatch::from(rows);
    let schema = batch.schema();
    Ok(Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

/// Returns what checks an object's arrays; `None` for those that this module has made.
///
/// # Errors
/// `DataError` for an object of pyarrow's whose buffers are too short. Their lengths do not come
/// through the interface, so only pyarrow can tell.
fn checker_of(data: &Bound<'_, PyAny>) -> PyResult<Option<Checker>> {
    let py = data.py();
    let module = data.get_type().module()?;
    let module = module.to_str()?;
    if module == "hypostyle._native" || module == "hypostyle.result" {
        return Ok(None);
    }
    if module.starts_with("pyarrow.") && data.hasattr(intern!(py, "validate"))? {
        data.call_method0(intern!(py, "validate")).map_err(|found| {
            let problem = format!("damaged Arrow data: {}", found.value(py));
            error::invalid_input(py, problem)
        })?;
    }
    Ok(Some(Checker::default()))
}

/// Returns the rest of the stream that an object offers.
fn import_stream(data: &Bound<'_, PyAny>) -> PyResult<Chunks> {
    let py = data.py();
    let checker = checker_of(data)?;
    let capsule = data.call_method0(intern!(py, "__arrow_c_stream__"))?;
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds an initialized ArrowArrayStream. Moving out of it leaves
    // it released, as the interface requires.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    Chunks::open(stream, checker).map_err(|error| error::from_arrow(py, &error))
}

fn import_array(data: &Bound<'_, PyAny>) -> PyResult<(ArrayRef, FieldRef)> {
    let py = data.py();
    let mut checker = checker_of(data)?;
    let pair = data.call_method0(intern!(py, "__arrow_c_array__"))?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?;
    let array = array.pointer_checked(Some(ARRAY))?;
    // SAFETY: capsules of these names hold an initialized ArrowSchema and the ArrowArray that was
    // created for it. The array is moved out and left released; the schema is only read.
    let imported = unsafe {
        let schema: &FFI_ArrowSchema = schema.cast().as_ref();
        stream::import_pair(FFI_ArrowArray::from_raw(array.cast().as_ptr()), schema, checker.as_mut())
    };
    let (array, field) = imported.map_err(|error| error::from_arrow(py, &error))?;
    Ok((array, Arc::new(field)))
}

/// Returns the chunks of one column: an Arrow array, or a stream whose items are not tables.
pub fn import_chunks(data: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, FieldRef)> {
    let py = data.py();
    if data.hasattr(intern!(py, "__arrow_c_array__"))? {
        let (array, field) = import_array(data)?;
        return Ok((vec![array], field));
    }
    let chunks = import_stream(data)?;
    let field = chunks.field.clone();
    let chunks = py.detach(|| chunks.collect::<Result<_, _>>());
    Ok((chunks.map_err(|error| error::from_arrow(py, &error))?, field))
}
