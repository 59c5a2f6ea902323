//! One column between the database and Python: an Arrow array with its field.

use crate::capsule;
use crate::error;
use crate::export::buffer::WritableBuffer;
use crate::export::object::Converter;
use crate::export::{numpy, string_dtype, widen};
use crate::inherited::Owned;
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::compute::kernels::nullif::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use hypostyle::QueryResult;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

/// The dtype, the values, the mask, and the number of values per row.
type NumpyParts = (&'static str, WritableBuffer, Option<WritableBuffer>, usize);

#[pyclass(frozen, module = "hypostyle._native")]
pub struct Column {
    pub array: ArrayRef,
    pub field: FieldRef,
    /// Says that the array is a mapping of a stored column, so that the elements under NULL have
    /// the consumer's own missing value (NaN, NaT, -1). In a computed array they have any value.
    pub stored: bool,
    pub threads: usize,
    /// The result and the index of the column, if the array is a mapping.
    source: Option<(Arc<Owned<QueryResult>>, usize)>,
}

impl Column {
    pub fn new(array: ArrayRef, field: FieldRef, stored: bool, threads: usize) -> Self {
        Self { array, field, stored, threads, source: None }
    }

    /// Returns a column of a result whose rows may not have been read yet.
    pub fn of_result(
        result: &Arc<Owned<QueryResult>>,
        index: usize,
        array: ArrayRef,
        threads: usize,
    ) -> Self {
        let field = result.schema().field(index).clone().with_data_type(array.data_type().clone());
        let stored = result.is_stored();
        let source = stored.then(|| (result.clone(), index));
        Self { array, field: Arc::new(field), stored, threads, source }
    }

    /// Checks all rows before they are read here, because a mapping may have damaged bytes.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let Some((result, index)) = &self.source else { return Ok(()) };
        py.detach(|| result.verify_column(*index, 0..self.array.len() as u64))
            .map_err(|error| error::to_exception(py, error))
    }

    fn with_array(&self, array: ArrayRef) -> Self {
        let field = self.field.as_ref().clone().with_data_type(array.data_type().clone());
        Self::new(array, Arc::new(field), false, self.threads)
    }
}

#[pymethods]
impl Column {
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    #[getter]
    fn null_count(&self) -> usize {
        self.array.logical_null_count()
    }

    /// Returns the kind by which the Python half chooses a conversion.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_of(&self.field)
    }

    #[getter]
    fn time_zone(&self) -> Option<String> {
        match self.array.data_type() {
            DataType::Timestamp(_, zone) => zone.as_ref().map(|zone| zone.to_string()),
            _ => None,
        }
    }

    /// Returns "s", "ms", "us" or "ns" for a timestamp, time or duration.
    #[getter]
    fn unit(&self) -> Option<&'static str> {
        match self.array.data_type() {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) | DataType::Time64(unit) => {
                Some(unit_name(*unit))
            }
            _ => None,
        }
    }

    /// Returns the precision and scale of a decimal of 32 or 64 bits.
    #[getter]
    fn narrow_decimal(&self) -> Option<(u8, i8)> {
        match self.array.data_type() {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                Some((*precision, *scale))
            }
            _ => None,
        }
    }

    /// Returns the values as Python objects.
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.verify(py)?;
        let mut converter = Converter::new(py, self.array.clone(), &self.field)?;
        let list = PyList::empty(py);
        for start in (0..self.array.len()).step_by(OBJECTS_PER_BLOCK) {
            for value in converter.convert(start..self.array.len().min(start + OBJECTS_PER_BLOCK))? {
                list.append(value)?;
            }
            py.check_signals()?;
        }
        Ok(list)
    }

    /// Returns `(dtype, values, mask or None, width)`: memory for `np.frombuffer`. `mask` has a
    /// byte per row, 1 where the value is NULL, and is given only for types without a missing value
    /// of their own. `width` is the number of values per row. Returns `None` for types that have no
    /// fixed-width dtype in NumPy. `scaled` gives a decimal's integers instead of its values.
    fn numpy(&self, py: Python<'_>, scaled: bool) -> PyResult<Option<NumpyParts>> {
        let is_converted =
            matches!(self.kind(), "boolean" | "date" | "interval") || self.kind() == "decimal" && !scaled;
        if is_converted {
            self.verify(py)?;
        }
        let parts = py
            .detach(|| numpy::parts(&self.array, self.stored, self.threads, scaled))
            .map_err(|error| error::from_arrow(py, &error))?;
        Ok(parts.map(|parts| {
            (parts.dtype, WritableBuffer(parts.values), parts.mask.map(WritableBuffer), parts.width)
        }))
    }

    /// Returns `(dtype, values)` with the midnights at which dates begin, NaT under NULL. Returns
    /// `None` for other types.
    fn midnights(&self, py: Python<'_>) -> PyResult<Option<(&'static str, WritableBuffer)>> {
        self.verify(py)?;
        let midnights = py.detach(|| numpy::midnights(&self.array, self.threads));
        Ok(midnights.map(|parts| (parts.dtype, WritableBuffer(parts.values))))
    }

    /// Returns `(dtype of the codes, codes, categories)` of a dictionary; the code is -1 where the
    /// value is NULL.
    fn dictionary(&self, py: Python<'_>) -> PyResult<(&'static str, WritableBuffer, Self)> {
        self.verify(py)?;
        let (dtype, codes, categories) = py
            .detach(|| numpy::dictionary(&self.array, self.stored))
            .map_err(|error| error::from_arrow(py, &error))?;
        Ok((dtype, WritableBuffer(codes), self.with_array(categories)))
    }

    /// Packs the strings into a new NumPy StringDType array, given by its memory, item size and
    /// dtype object.
    fn pack_strings(
        &self,
        py: Python<'_>,
        address: usize,
        item_bytes: usize,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.verify(py)?;
        string_dtype::pack(py, &self.array, address, item_bytes, dtype)
    }

    /// Returns strings as LargeUtf8 and binary values as LargeBinary, which are the layouts that
    /// pandas takes.
    fn plain(&self, py: Python<'_>) -> PyResult<Self> {
        let target = match self.array.data_type() {
            DataType::Utf8 | DataType::Utf8View | DataType::Dictionary(..) => DataType::LargeUtf8,
            DataType::Binary | DataType::BinaryView => DataType::LargeBinary,
            _ => self.array.data_type().clone(),
        };
        let array = if *self.array.data_type() == target {
            self.array.clone()
        } else {
            self.verify(py)?;
            py.detach(|| cast(&self.array, &target)).map_err(|error| error::from_arrow(py, &error))?
        };
        let field = Field::new(self.field.name(), target, self.field.is_nullable());
        Ok(Self::new(array, Arc::new(field), self.stored, self.threads))
    }

    /// Returns the column in a layout that readers of fewer Arrow types understand.
    fn widely_readable(&self, py: Python<'_>) -> PyResult<Self> {
        if !self.array.data_type().is_primitive() {
            self.verify(py)?;
        }
        let (array, field) = py
            .detach(|| widen::readable(&self.array, &self.field, self.threads))
            .map_err(|error| error::from_arrow(py, &error))?;
        Ok(Self::new(array, field, false, self.threads))
    }

    /// Returns the column with NULL in the rows whose `mask` byte is not 0.
    fn masked(&self, py: Python<'_>, mask: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mask = crate::input::numpy::bytes_of(mask)?;
        if mask.len() != self.array.len() {
            return Err(error::invalid_input(
                py,
                format!(
                    "column \"{}\": the mask has {} rows, but the values have {}",
                    self.field.name(),
                    mask.len(),
                    self.array.len()
                ),
            ));
        }
        let masked = BooleanArray::from_iter(mask.iter().map(|masked| Some(*masked != 0)));
        let array = nullif(&self.array, &masked).map_err(|error| error::from_arrow(py, &error))?;
        let field = self.field.as_ref().clone().with_nullable(true);
        Ok(Self::new(array, Arc::new(field), false, self.threads))
    }

    /// Returns groups of `length` values as lists of that fixed length: the rows of a 2-D array.
    fn grouped(&self, py: Python<'_>, length: i32) -> PyResult<Self> {
        let item = Arc::new(Field::new("item", self.array.data_type().clone(), true));
        let array = arrow::array::FixedSizeListArray::try_new(item, length, self.array.clone(), None)
            .map_err(|error| error::from_arrow(py, &error))?;
        Ok(self.with_array(Arc::new(array)))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface allows a producer that cannot cast to ignore the request.
        let _ = requested_schema;
        capsule::export_array(py, &self.array, &self.field)
    }
}

/// Returns the kind of a column's values, by which the Python half chooses a conversion.
pub fn kind_of(field: &Field) -> &'static str {
    let extension = field.metadata().get("ARROW:extension:name").map(String::as_str);
    match field.data_type() {
        DataType::Boolean => "boolean",
        data_type if data_type.is_integer() => "integer",
        data_type if data_type.is_floating() => "float",
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => "decimal",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Duration(_) => "duration",
        DataType::Interval(_) => "interval",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
        DataType::Dictionary(_, values) if values.is_string() => "dictionary",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary",
        DataType::FixedSizeBinary(16) if extension == Some("arrow.uuid") => "uuid",
        DataType::FixedSizeBinary(_) => "binary",
        DataType::FixedSizeList(item, _) if item.data_type().is_numeric() => "vector",
        DataType::Null => "null",
        _ => "nested",
    }
}

/// The number of values that become objects between two checks for signals.
const OBJECTS_PER_BLOCK: usize = 16_384;

pub fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
