//! Converts Python's arrays and objects to Arrow columns, for appends, parameters and
//! `FROM variable`.

pub mod accepted;
pub mod numpy;
mod object;
pub mod parameter;
pub mod sound;
pub mod stream;
mod value;

use crate::capsule;
use crate::column::Column;
use crate::error;
use crate::export::string_dtype;
use arrow::array::types::Int32Type;
use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, new_empty_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field};
use pyo3::prelude::*;
use std::sync::Arc;

fn column(name: &str, array: ArrayRef) -> Column {
    let field = Field::new(name, array.data_type().clone(), true);
    Column::new(array, Arc::new(field), false, 1)
}

/// Returns a column over the bytes of a contiguous, aligned, native-endian NumPy array of the given
/// dtype.
#[pyfunction]
#[pyo3(signature = (name, dtype, values, time_zone=None))]
pub fn column_from_numpy(
    name: &str,
    dtype: &str,
    values: &Bound<'_, PyAny>,
    time_zone: Option<&str>,
) -> PyResult<Column> {
    Ok(column(name, numpy::array(values, name, dtype, time_zone)?))
}

/// Returns a column of a contiguous NumPy StringDType array, given by its memory.
#[pyfunction]
pub fn column_from_strings(
    py: Python<'_>,
    name: &str,
    rows: usize,
    address: usize,
    item_bytes: usize,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<Column> {
    Ok(column(name, Arc::new(string_dtype::unpack(py, rows, address, item_bytes, dtype)?)))
}

/// Returns a column of Python objects, whose type is determined by reading all of them.
#[pyfunction]
pub fn column_from_objects(name: &str, values: &Bound<'_, PyAny>, nan_is_null: bool) -> PyResult<Column> {
    let (array, field) = object::column(name, values, nan_is_null)?;
    Ok(Column::new(array, Arc::new(field), false, 1))
}

/// Returns a column of an Arrow array or chunked array.
#[pyfunction]
pub fn column_from_arrow(py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<Column> {
    let (chunks, field) = capsule::import_chunks(data)?;
    let array = match chunks.as_slice() {
        [] => new_empty_array(field.data_type()),
        [chunk] => chunk.clone(),
        _ => {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            py.detach(|| concat(&chunks)).map_err(|error| error::from_arrow(py, &error))?
        }
    };
    Ok(Column::new(array, Arc::new(field.as_ref().clone().with_name(name)), false, 1))
}

/// Returns a dictionary column of integer codes and their categories; a negative code is NULL.
#[pyfunction]
pub fn column_from_codes(
    py: Python<'_>,
    name: &str,
    codes: &Bound<'_, Column>,
    categories: &Bound<'_, Column>,
) -> PyResult<Column> {
    let build = || {
        let codes = cast(&codes.get().array, &DataType::Int32)?;
        let codes =
            codes.as_primitive::<Int32Type>().iter().map(|code| code.filter(|code| *code >= 0)).collect();
        DictionaryArray::<Int32Type>::try_new(codes, categories.get().array.clone())
    };
    let array = build().map_err(|error| error::from_arrow(py, &error))?;
    Ok(column(name, Arc::new(array)))
}
