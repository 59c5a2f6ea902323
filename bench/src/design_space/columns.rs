//! Arrow columns as the alternatives see them: words of 4 and 8 bytes, and strings.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, LargeStringArray, RecordBatch, make_array};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, SchemaRef};

use super::Result;

/// A column that is sent. Integers, dates and decimals are their bit patterns.
pub enum Column {
    Four(ScalarBuffer<u32>),
    Eight(ScalarBuffer<u64>),
    Text(LargeStringArray),
}

/// Returns the columns of a batch.
///
/// # Errors
/// An error for NULLs, which the alternatives cannot express, and for types that lineitem lacks.
pub fn columns(batch: &RecordBatch) -> Result<Vec<Column>> {
    batch.columns().iter().map(Column::new).collect()
}

impl Column {
    fn new(array: &ArrayRef) -> Result<Self> {
        let data_type = array.data_type();
        if array.null_count() > 0 {
            return Err(format!("a column of {data_type} has NULLs").into());
        }
        let data = array.to_data();
        match (data_type, data_type.primitive_width()) {
            (DataType::LargeUtf8, _) => Ok(Self::Text(array.as_string::<i64>().clone())),
            (_, Some(4)) => {
                Ok(Self::Four(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())))
            }
            (_, Some(8)) => {
                Ok(Self::Eight(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())))
            }
            _ => Err(format!("a column of {data_type} has no alternative").into()),
        }
    }
}

/// A column that is received.
pub enum ColumnBuilder {
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Text(TextBuilder),
}

/// Strings, one after the other.
pub struct TextBuilder {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl TextBuilder {
    pub fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, bytes: Vec::new() }
    }

    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as i64);
    }

    pub fn finish(self) -> Result<LargeStringArray> {
        let offsets = OffsetBuffer::new(self.offsets.into());
        Ok(LargeStringArray::try_new(offsets, self.bytes.into(), None)?)
    }
}

impl ColumnBuilder {
    pub fn new(data_type: &DataType, rows: usize) -> Result<Self> {
        match (data_type, data_type.primitive_width()) {
            (DataType::LargeUtf8, _) => Ok(Self::Text(TextBuilder::new(rows))),
            (_, Some(4)) => Ok(Self::Four(Vec::with_capacity(rows))),
            (_, Some(8)) => Ok(Self::Eight(Vec::with_capacity(rows))),
            _ => Err(format!("a column of {data_type} has no alternative").into()),
        }
    }

    fn finish(self, data_type: &DataType) -> Result<ArrayRef> {
        let (rows, buffer): (usize, Buffer) = match self {
            Self::Four(values) => (values.len(), values.into()),
            Self::Eight(values) => (values.len(), values.into()),
            Self::Text(text) => return Ok(Arc::new(text.finish()?)),
        };
        let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(buffer).build()?;
        Ok(make_array(data))
    }
}

/// Returns empty columns of a schema, with capacity for some rows.
pub fn builders(schema: &SchemaRef, rows: usize) -> Result<Vec<ColumnBuilder>> {
    schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type(), rows)).collect()
}

/// Returns the batch of received columns.
pub fn to_batch(schema: &SchemaRef, builders: Vec<ColumnBuilder>) -> Result<RecordBatch> {
    let columns = builders.into_iter().zip(schema.fields());
    let columns = columns.map(|(builder, field)| builder.finish(field.data_type()));
    Ok(RecordBatch::try_new(schema.clone(), columns.collect::<Result<_>>()?)?)
}
