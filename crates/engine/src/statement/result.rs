//! Converts a query's rows to their final types: types that only the engine's operators need do not
//! leave it.

use crate::session::outcome::Outcome;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::for_result;
use hypostyle_expr::cast::cast;
use hypostyle_expr::said::also_said;
use hypostyle_expr::typed::in_type;
use hypostyle_sql::names::told_name;
use hypostyle_types::{LogicalType, Result};
use std::sync::Arc;

/// The purpose of a query's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// More work, in the types of plans.
    Work,
    /// Whoever asked the session.
    Result,
}

impl Purpose {
    /// Returns the plan that gives rows of the right types.
    pub fn plan(self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match self {
            Self::Work => Ok(plan),
            Self::Result => for_result(plan).map_err(from_datafusion),
        }
    }
}

/// Returns the outcome in the types that stored columns have in results, and that a server's
/// clients get, whatever the operators computed in: text, bytes and lists with offsets of 64 bits,
/// UUIDs as bytes.
///
/// # Errors
/// `InvalidInput` for a UUID's text that is none, which may come from the other side of a UNION.
pub(super) fn for_caller(outcome: Outcome) -> Result<Outcome> {
    match outcome {
        Outcome::Stored(stored) => Ok(Outcome::Stored(stored.renamed(told_name))),
        Outcome::Stream { schema: given, stream } => {
            let schema = result_schema(&given);
            if schema == given {
                return Ok(Outcome::Stream { schema, stream });
            }
            let wanted = schema.clone();
            let converted = stream.map(move |batch| Ok(converted(&batch?, &wanted)?));
            let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), converted));
            Ok(Outcome::Stream { schema, stream })
        }
        Outcome::Batches { schema: given, batches, rows_affected } => {
            let schema = result_schema(&given);
            if schema == given {
                return Ok(Outcome::Batches { schema, batches, rows_affected });
            }
            let batches = batches.iter().map(|batch| converted(batch, &schema));
            let batches = batches.collect::<std::result::Result<_, _>>();
            let batches = batches.map_err(|error| from_datafusion(error.into()))?;
            Ok(Outcome::Batches { schema, batches, rows_affected })
        }
        other => Ok(other),
    }
}

/// Returns the outcome of a query whose fields say what the query's own plan says of its columns: a plan
/// that is optimized may have lost it.
pub(super) fn as_planned(outcome: Outcome, planned: &Schema) -> Result<Outcome> {
    let said = |given: &SchemaRef| -> Option<SchemaRef> {
        if given.fields().len() != planned.fields().len() {
            return None;
        }
        let fields = planned.fields().iter().zip(given.fields()).map(|(said, field)| also_said(said, field));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), given.metadata().clone());
        (schema != **given).then(|| Arc::new(schema))
    };
    match outcome {
        Outcome::Stream { schema: given, stream } => {
            let Some(schema) = said(&given) else { return Ok(Outcome::Stream { schema: given, stream }) };
            let wanted = schema.clone();
            let stream = stream.map(move |batch| Ok(relabelled(&batch?, &wanted)?));
            let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream));
            Ok(Outcome::Stream { schema, stream })
        }
        Outcome::Batches { schema: given, batches, rows_affected } => {
            let Some(schema) = said(&given) else {
                return Ok(Outcome::Batches { schema: given, batches, rows_affected });
            };
            let batches = batches.iter().map(|batch| relabelled(batch, &schema));
            let batches = batches.collect::<std::result::Result<_, _>>();
            let batches = batches.map_err(|error| from_datafusion(error.into()))?;
            Ok(Outcome::Batches { schema, batches, rows_affected })
        }
        other => Ok(other),
    }
}

fn relabelled(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| in_type(array, field.data_type()));
    let columns = columns.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

fn result_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| told(result_field(field))).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns a field under the name that the caller is told.
fn told(field: FieldRef) -> FieldRef {
    match told_name(field.name()) {
        name if name.len() == field.name().len() => field,
        name => Arc::new(field.as_ref().clone().with_name(name)),
    }
}

fn result_field(field: &FieldRef) -> FieldRef {
    let data_type = match is_of_uuids(field) {
        true => LogicalType::Uuid.arrow_type(),
        false => result_type(field.data_type()),
    };
    match data_type == *field.data_type() {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
    }
}

/// Says whether a field is of UUIDs in the form of text.
fn is_of_uuids(field: &Field) -> bool {
    field.data_type().is_string()
        && LogicalType::from_arrow(field).is_ok_and(|logical_type| logical_type == LogicalType::Uuid)
}

fn result_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::Utf8View => DataType::LargeUtf8,
        DataType::Binary | DataType::BinaryView => DataType::LargeBinary,
        DataType::List(element) | DataType::LargeList(element) => DataType::LargeList(result_field(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(result_field(element), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(result_field).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(result_field(entries), *is_sorted),
        other => other.clone(),
    }
}

fn converted(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| match field.data_type() {
        wanted if array.data_type() == wanted => Ok(array.clone()),
        wanted if array.data_type().is_string() && wanted.is_string() => arrow::compute::cast(array, wanted),
        _ => cast(array, field, false),
    });
    let columns = columns.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
