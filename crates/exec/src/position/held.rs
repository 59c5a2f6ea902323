//! Rows that are held in memory, within what a query may have.

use super::stop::{Stop, Stopped};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{StreamExt, stream};
use std::sync::Arc;

/// Returns the rows of batches in pieces, with what holds their memory.
pub(super) fn in_pieces(
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    reservation: MemoryReservation,
    context: &TaskContext,
) -> SendableRecordBatchStream {
    let rows = context.session_config().batch_size().max(1);
    let pieces = batches.into_iter().flat_map(move |batch| {
        let count = batch.num_rows();
        (0..count).step_by(rows).map(move |start| Ok(batch.slice(start, rows.min(count - start))))
    });
    let pieces = pieces.inspect(move |_| {
        let _held = &reservation;
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(pieces)))
}

/// Resizes a reservation, or stops the pipeline.
pub(super) fn hold(reservation: &MemoryReservation, bytes: usize) -> Stopped<()> {
    reservation.try_resize(bytes).map_err(|_| Stop::Unfit("memory does not suffice".into()))
}

/// Adds to a reservation, or stops the pipeline.
pub(super) fn grow(reservation: &MemoryReservation, bytes: usize) -> Stopped<()> {
    hold(reservation, reservation.size().saturating_add(bytes))
}

/// Returns all rows of an operator.
pub(super) async fn collect(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Stopped<(Vec<RecordBatch>, MemoryReservation)> {
    let consumer = MemoryConsumer::new("PosJoinExec");
    let reservation = consumer.register(context.memory_pool());
    let mut rows = execute_stream(plan.clone(), context.clone()).map_err(Stop::Error)?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(Stop::Error)?;
        // They are put together into one array for each column.
        grow(&reservation, batch.get_array_memory_size() * 2)?;
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
    }
    Ok((batches, reservation))
}
