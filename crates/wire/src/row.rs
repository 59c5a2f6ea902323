//! One row of parameters, which comes with a query (protocol.md §4).

use crate::decode::{decode, to_batch};
use crate::encode::encode_alone;
use crate::integers::NoColumns;
use crate::sink::{FRAME_ALIGNMENT, Settings, Sink};
use crate::source::{Source, decoded_bytes_max};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hypostyle_types::Result;
use std::sync::Arc;

/// One row of parameters (protocol.md §4): its head and its payload.
pub fn encode_row(batch: &RecordBatch) -> Result<(Vec<u8>, Vec<u8>)> {
    let schema = crate::canonical_schema(&batch.schema())?;
    let mut sink = Sink::new(Settings::PLAIN);
    for (array, field) in batch.columns().iter().zip(schema.fields()) {
        encode_alone(&mut sink, array, parameter_type(field))?;
    }
    let (head, payload) = sink.finish();
    Ok((head.finish(), payload.iter().flat_map(|piece| piece.iter().copied()).collect()))
}

/// A parameter is never a dictionary: there is none before its query.
fn parameter_type(field: &Field) -> &DataType {
    match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The row that `encode_row` wrote. Dictionaries are among their values' types.
pub fn decode_row(schema: SchemaRef, head: &[u8], payload: &[u8]) -> Result<RecordBatch> {
    let limit = decoded_bytes_max(head.len() + payload.len());
    let mut source = Source::new(head, Buffer::from(payload), FRAME_ALIGNMENT, limit);
    let mut columns = Vec::with_capacity(schema.fields().len());
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let data_type = parameter_type(field);
        columns.push(decode(&mut source, data_type, 1, &NoColumns)?);
        fields.push(field.as_ref().clone().with_data_type(data_type.clone()));
    }
    source.end()?;
    to_batch(Arc::new(Schema::new(fields)), columns, 1)
}
