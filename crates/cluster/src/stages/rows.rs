//! Rows between tasks, as they travel: each batch is a stream of Arrow's own format in one binary value. So
//! they arrive in the very types that the plan says, also those that results do not have.

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

/// The name of the column that the batches are in.
const ROWS: &str = "__rows";

/// The bytes of a batch that is not cut into several ones.
const BATCH_BYTES: usize = 4 << 20;

/// What a batch takes beside its columns, and each column beside its values, about.
const BATCH_EXTRA_BYTES: usize = 512;
const COLUMN_EXTRA_BYTES: usize = 256;

/// The column that the batches are in.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(ROWS, DataType::LargeBinary, false)]))
}

/// Returns some rows as they travel.
pub(super) fn pack(batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    let pieces = batch.get_array_memory_size().div_ceil(BATCH_BYTES).clamp(1, rows.max(1));
    let length = rows.div_ceil(pieces).max(1);
    let starts = (0..rows).step_by(length);
    starts.map(|start| message(&batch.slice(start, length.min(rows - start)))).collect()
}

fn message(batch: &RecordBatch) -> Result<RecordBatch> {
    let batch = compact(batch)?;
    // Bytes that grow are copied each time.
    let values: usize = batch.columns().iter().map(values_bytes).sum();
    let room = BATCH_EXTRA_BYTES + batch.num_columns() * COLUMN_EXTRA_BYTES + values;
    let mut bytes = Vec::with_capacity(room);
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    value(bytes)
}

/// Returns the bytes of an array's values, which may be some of what it holds.
fn values_bytes(column: &ArrayRef) -> usize {
    column.to_data().get_slice_memory_size().unwrap_or_default()
}

/// Returns bytes in the column that batches are in.
pub(super) fn value(bytes: Vec<u8>) -> Result<RecordBatch> {
    let offsets = OffsetBuffer::from_lengths([bytes.len()]);
    let column: ArrayRef = Arc::new(LargeBinaryArray::try_new(offsets, Buffer::from_vec(bytes), None)?);
    Ok(RecordBatch::try_new(schema(), vec![column])?)
}

/// Returns how many bytes some rows have as they travel.
pub(super) fn bytes(packed: &[RecordBatch]) -> usize {
    let columns = packed.iter().filter_map(|batch| batch.columns().first()?.as_binary_opt::<i64>());
    columns.map(|column| column.value_data().len()).sum()
}

/// Returns the first bytes that have come.
///
/// # Errors
/// For what is no rows of a task, and for none.
pub(super) fn first_value(packed: &RecordBatch) -> Result<Vec<u8>> {
    let column = values(packed)?;
    let first = column.as_binary::<i64>().iter().next().flatten();
    first.map(<[u8]>::to_vec).ok_or_else(wrong)
}

fn wrong() -> DataFusionError {
    DataFusionError::Execution("a node sent other rows than those of a task".into())
}

/// Returns the column that batches are in.
fn values(packed: &RecordBatch) -> Result<ArrayRef> {
    let column = packed.columns().first().filter(|_| packed.num_columns() == 1).ok_or_else(wrong)?;
    Ok(cast(column, &DataType::LargeBinary)?)
}

/// Returns a batch without the texts that others have of the same buffers.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let compacted = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => column.clone(),
        }
    };
    let columns = batch.columns().iter().map(compacted).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Returns the rows that have come.
///
/// # Errors
/// For what is no rows of a task.
pub(super) fn unpack(packed: &RecordBatch) -> Result<Vec<RecordBatch>> {
    let column = values(packed)?;
    let (column, mut batches) = (column.as_binary::<i64>(), Vec::new());
    for (index, ends) in column.value_offsets().windows(2).enumerate() {
        let &[start, end] = ends else { return Err(wrong()) };
        if column.is_null(index) {
            return Err(wrong());
        }
        // The batches share these bytes, where they lie as the types want it.
        let at = |offset: i64| usize::try_from(offset).map_err(|_| wrong());
        let (start, end) = (at(start)?, at(end)?);
        let mut bytes = column.values().slice_with_length(start, end - start);
        let mut decoder = StreamDecoder::new();
        while !bytes.is_empty() {
            batches.extend(decoder.decode(&mut bytes)?);
        }
        decoder.finish()?;
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray, UInt8Array};

    #[test]
    fn batches_travel_in_their_types() {
        let texts =
            StringViewArray::from(vec![Some("a text that is longer than twelve bytes"), None, Some("b")]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("t", Arc::new(texts)),
            ("u", Arc::new(UInt8Array::from(vec![7, 8, 9]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for sent in [batch.clone(), batch.slice(1, 2)] {
            let packed = pack(&sent).unwrap();
            assert!(bytes(&packed) > 0);
            let found: Vec<RecordBatch> = packed.iter().flat_map(|packed| unpack(packed).unwrap()).collect();
            assert_eq!(found, [sent]);
        }
        assert!(pack(&batch.slice(0, 0)).unwrap().is_empty());
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let options = RecordBatchOptions::new().with_row_count(Some(5));
        let batch =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
        let found = unpack(&pack(&batch).unwrap()[0]).unwrap();
        assert_eq!(found[0].num_rows(), 5);
    }

    #[test]
    fn long_batches_are_cut() {
        let long = "x".repeat(1 << 20);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![long.as_str(); 9]));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let packed = pack(&batch).unwrap();
        assert!(packed.len() > 2, "{} pieces", packed.len());
        let rows: usize =
            packed.iter().flat_map(|packed| unpack(packed).unwrap()).map(|b| b.num_rows()).sum();
        assert_eq!(rows, 9);
    }
}
