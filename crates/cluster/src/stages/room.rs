//! Looks for room for the rows that go to all tasks before they are kept for these: the operator that keeps
//! them takes memory of its node without asking whether there is some. A query that finds none runs without
//! stages, as after any failure before its first row.

use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use futures::future::ready;
use hypostyle_exec::passing::{Passing, passing};
use std::sync::Arc;

/// Returns an operator that gives the rows of another one as long as there is room for them.
pub(super) fn with_room(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    passing(input, Room)
}

/// Passes on rows for which there is room.
#[derive(Clone, Debug)]
struct Room;

impl Passing for Room {
    const NAME: &'static str = "RoomExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let found = MemoryConsumer::new(Self::NAME).register(context.memory_pool());
        let rows = input.execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.and_then(move |batch| {
            // Whoever keeps the batch takes as much, and gives it back.
            let room = found.try_grow(batch.get_array_memory_size());
            found.free();
            ready(room.map(|()| batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::error::DataFusionError;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use futures::StreamExt;
    use futures::executor::block_on;

    #[test]
    fn rows_without_room_are_an_error_and_others_take_none() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let input: Arc<dyn ExecutionPlan> =
            MemorySourceConfig::try_new_exec(&[vec![batch.clone(), batch.clone()]], batch.schema(), None)
                .unwrap();
        let read = |bytes: usize| {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool.clone()).build_arc().unwrap();
            let context = Arc::new(TaskContext::default().with_runtime(runtime));
            let rows = with_room(&input).execute(0, context).unwrap();
            let read: Vec<Result<RecordBatch>> = block_on(rows.collect());
            assert_eq!(pool.reserved(), 0);
            read
        };
        assert_eq!(read(12_000).into_iter().map(Result::unwrap).collect::<Vec<_>>(), [batch.clone(), batch]);
        let found = read(4000);
        assert!(matches!(found.first(), Some(Err(DataFusionError::ResourcesExhausted(_)))), "{found:?}");
    }
}
