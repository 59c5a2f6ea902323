//! What becomes of a query's rows on their way out: types that only the engine's operators need do not leave it.

use crate::error::from_datafusion;
use crate::scan::for_result;
use crate::session::Outcome;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use hypostyle_storage::convert;
use hypostyle_types::{LogicalType, Result};
use std::sync::Arc;

/// What the rows of a query are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// More work, in the types of plans.
    Work,
    /// Whoever asked the session.
    Result,
}

impl Purpose {
    /// The plan that gives rows of the right types.
    pub fn plan(self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match self {
            Self::Work => Ok(plan),
            Self::Result => for_result(plan).map_err(from_datafusion),
        }
    }

    /// The outcome, with UUIDs in place of their text.
    ///
    /// # Errors
    /// `InvalidInput` for text that is none, which may come from the other side of a UNION.
    pub fn outcome(self, outcome: Outcome) -> Result<Outcome> {
        match outcome {
            Outcome::Stream { schema, stream } if self == Self::Result && has_uuids(&schema) => {
                let schema = with_uuids(&schema);
                let given = schema.clone();
                let converted = stream.map(move |batch| {
                    convert_batch(&batch?, &given).map_err(|error| DataFusionError::External(Box::new(error)))
                });
                let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), converted));
                Ok(Outcome::Stream { schema, stream })
            }
            Outcome::Batches { schema, batches } if self == Self::Result && has_uuids(&schema) => {
                let schema = with_uuids(&schema);
                let batches =
                    batches.iter().map(|batch| convert_batch(batch, &schema)).collect::<Result<_>>()?;
                Ok(Outcome::Batches { schema, batches })
            }
            other => Ok(other),
        }
    }
}

/// Whether a field is of UUIDs in the form of text.
fn is_of_uuids(field: &Field) -> bool {
    !matches!(field.data_type(), DataType::FixedSizeBinary(_))
        && LogicalType::from_arrow(field).is_ok_and(|logical_type| logical_type == LogicalType::Uuid)
}

fn has_uuids(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| is_of_uuids(field))
}

fn with_uuids(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match is_of_uuids(field) {
        true => Arc::new(field.as_ref().clone().with_data_type(LogicalType::Uuid.arrow_type())),
        false => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

fn convert_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| match array.data_type() == field.data_type() {
        true => Ok(array.clone()),
        false => convert(array, field.name(), &LogicalType::Uuid, 0),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| from_datafusion(error.into()))
}
