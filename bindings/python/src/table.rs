//! A table of several columns that can be read as an Arrow stream.

use crate::capsule;
use crate::column::Column;
use crate::error;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

#[pyclass(frozen, module = "hypostyle._native")]
pub struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    #[new]
    fn new(py: Python<'_>, columns: Vec<Bound<'_, Column>>) -> PyResult<Self> {
        let rows = columns.first().map_or(0, |column| column.get().array.len());
        for column in &columns {
            let column = column.get();
            if column.array.len() != rows {
                return Err(error::invalid_input(
                    py,
                    format!(
                        "column \"{}\" has {} rows, but column \"{}\" has {rows}",
                        column.field.name(),
                        column.array.len(),
                        columns[0].get().field.name(),
                    ),
                ));
            }
        }
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) =
            columns.iter().map(|column| (column.get().field.clone(), column.get().array.clone())).unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|error| error::from_arrow(py, &error))?;
        Ok(Self { batch })
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer that cannot cast to ignore the request.
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        capsule::export_stream(py, Box::new(reader))
    }
}
