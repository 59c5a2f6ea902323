//! Arrow data of the program's: moved here, and checked, because what reads it later believes its
//! lengths and offsets.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use hypostyle::{Error, Result, caught, check_arrow_array, check_arrow_schema, panicked, sound_arrow_rows};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The error for a row without values.
const NULL_ROW: &str = "a row is NULL as a whole; make its values NULL";

/// The rows of a stream, each batch of which is checked.
pub struct StreamRows {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl StreamRows {
    /// Takes a stream.
    ///
    /// # Errors
    /// `InvalidInput` for one that was released, and for a schema that is none of rows.
    ///
    /// # Safety
    /// `stream` follows Arrow's C stream interface as far as its pointers go.
    pub unsafe fn open(mut stream: FFI_ArrowArrayStream) -> Result<Self> {
        let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
            return Err(Error::invalid_input("the stream of rows was released"));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the caller promises this; both are places.
        if unsafe { get_schema(&raw mut stream, &raw mut schema) } != 0 {
            return Err(Error::invalid_input(failure(&mut stream, "the stream gives no schema")));
        }
        check_arrow_schema(&schema)?;
        let schema = caught(|| Schema::try_from(&schema).map_err(refused))?;
        Ok(Self { stream, schema: Arc::new(schema) })
    }

    fn read(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        let Some(get_next) = self.stream.get_next else {
            return Err(ArrowError::CDataInterface("the stream of rows was released".into()));
        };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: who has opened it promises this; both are places.
        if unsafe { get_next(&raw mut self.stream, &raw mut array) } != 0 {
            return Err(ArrowError::CDataInterface(failure(&mut self.stream, "the stream of rows failed")));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: as above; it was made for this schema.
        let rows = unsafe { rows_of(array, DataType::Struct(self.schema.fields().clone())) };
        let rows = rows.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        if rows.null_count() > 0 {
            return Err(ArrowError::ExternalError(Box::new(Error::invalid_input(NULL_ROW))));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options).map(Some)
    }
}

impl Iterator for StreamRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // What asks for rows may be C, which a panic must not reach.
        let read = catch_unwind(AssertUnwindSafe(|| self.read()));
        let read =
            read.unwrap_or_else(|panic| Err(ArrowError::ExternalError(Box::new(panicked(panic.as_ref())))));
        read.transpose()
    }
}

impl RecordBatchReader for StreamRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Takes a struct array as a batch.
///
/// # Errors
/// `InvalidInput` for one that is no struct or has rows that are NULL, and for damaged data.
///
/// # Safety
/// Both follow Arrow's C data interface as far as their pointers go, and belong together.
pub unsafe fn batch_of(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<RecordBatch> {
    check_arrow_schema(schema)?;
    let data_type = caught(|| DataType::try_from(schema).map_err(refused))?;
    if !matches!(data_type, DataType::Struct(_)) {
        return Err(Error::invalid_input(format!("rows are a struct of columns, not {data_type}")));
    }
    // SAFETY: the caller promises this.
    let rows = unsafe { rows_of(array, data_type) }?;
    match rows.null_count() {
        0 => Ok(RecordBatch::from(rows)),
        _ => Err(Error::invalid_input(NULL_ROW)),
    }
}

/// # Safety
/// The array follows Arrow's C data interface as far as its pointers go, and was made for a struct of
/// this type.
unsafe fn rows_of(array: FFI_ArrowArray, data_type: DataType) -> Result<StructArray> {
    check_arrow_array(&array, &data_type)?;
    caught(|| {
        // SAFETY: the caller promises this, and the numbers in it have been checked.
        let data = unsafe { from_ffi_and_data_type(array, data_type) }.map_err(refused)?;
        Ok(StructArray::from(sound_arrow_rows(&data)?))
    })
}

fn refused(error: ArrowError) -> Error {
    match error {
        ArrowError::CDataInterface(message) => Error::invalid_input(message),
        error => Error::invalid_input(error.to_string()),
    }
}

/// Returns the producer's text about its failure, or else the given one.
fn failure(stream: &mut FFI_ArrowArrayStream, otherwise: &str) -> String {
    let said = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: this is the function of a stream that is not released, whose text is copied at once.
        let text = unsafe { get_last_error(stream) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    said.unwrap_or_else(|| otherwise.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int32Array, RecordBatchIterator};
    use arrow_schema::Field;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10));
        let field = Arc::new(Field::new("n", DataType::Int32, true));
        let inner: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![numbers], None));
        RecordBatch::try_from_iter([("inner", inner)]).unwrap()
    }

    fn stream(batches: Vec<std::result::Result<RecordBatch, ArrowError>>) -> FFI_ArrowArrayStream {
        let rows = RecordBatchIterator::new(batches, batch().schema());
        FFI_ArrowArrayStream::new(Box::new(rows))
    }

    #[test]
    fn streams_give_their_rows_and_their_errors() {
        let broken = ArrowError::ComputeError("the rows are broken".into());
        // SAFETY: it is a stream.
        let mut rows = unsafe { StreamRows::open(stream(vec![Ok(batch()), Err(broken)])) }.unwrap();
        assert_eq!(rows.schema(), batch().schema());
        assert_eq!(rows.next().unwrap().unwrap(), batch());
        assert!(rows.next().unwrap().unwrap_err().to_string().contains("the rows are broken"));
        assert!(rows.next().is_none());
        // SAFETY: it is an empty stream.
        assert!(unsafe { StreamRows::open(FFI_ArrowArrayStream::empty()) }.is_err());
    }

    #[test]
    fn an_offset_of_rows_holds_at_every_level() {
        let rows = StructArray::from(batch());
        let schema = FFI_ArrowSchema::try_from(rows.data_type()).unwrap();
        let mut given = FFI_ArrowArray::new(&rows.to_data());
        (given.offset, given.length) = (1, 2);
        // SAFETY: both come from one array, which has these rows.
        assert_eq!(unsafe { batch_of(given, &schema) }.unwrap(), batch().slice(1, 2));
    }

    #[test]
    fn negative_lengths_are_refused() {
        let rows = StructArray::from(batch());
        let schema = FFI_ArrowSchema::try_from(rows.data_type()).unwrap();
        let mut given = FFI_ArrowArray::new(&rows.to_data());
        given.length = -1;
        // SAFETY: both come from one array; the length is refused.
        let error = unsafe { batch_of(given, &schema) }.unwrap_err();
        assert!(error.message().contains("-1 rows"), "{error}");
    }
}
