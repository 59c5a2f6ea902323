//! Rows of one partition that are shared out among threads in the order in which they come.

use arrow::record_batch::RecordBatch;
use datafusion::common::internal_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use hypostyle_expr::one_input;
use hypostyle_sync::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Batches that are computed together if they have come: many small results of a filter are no use.
const PIECE_BATCHES: usize = 8;

/// Has the operators over it compute pieces of its input's rows, of which each is a partition of its own.
#[derive(Debug)]
pub(super) struct DealExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// The pieces that have come and were not asked for.
    pieces: Mutex<HashMap<usize, Vec<RecordBatch>>>,
    next: AtomicUsize,
}

/// Returns what deals out the rows that a chain of operators computes something of.
pub(super) fn dealer_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&DealExec> {
    match (plan.downcast_ref::<DealExec>(), plan.children().as_slice()) {
        (Some(dealer), _) => Some(dealer),
        (None, [input]) => dealer_of(input),
        _ => None,
    }
}

impl DealExec {
    /// Deals out the rows of a partition to so many at once.
    pub fn over(input: Arc<dyn ExecutionPlan>, partitions: usize) -> Self {
        let properties = Arc::new(PlanProperties::new(
            input.equivalence_properties().clone(),
            Partitioning::RoundRobinBatch(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        ));
        Self { input, properties, pieces: Mutex::default(), next: AtomicUsize::new(0) }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::over(input, self.properties.output_partitioning().partition_count())
    }

    /// Reads the input and returns, in its order, what the operators of `chain` make of each piece.
    ///
    /// # Errors
    /// Those of the input.
    pub fn deal(
        &self,
        chain: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<impl Stream<Item = Result<impl Future<Output = Result<Vec<RecordBatch>>> + use<>>> + use<>>
    {
        let input = spawn_buffered(self.input.execute(0, context.clone())?, PIECE_BATCHES);
        let (chain, context) = (chain.clone(), context.clone());
        Ok(input.ready_chunks(PIECE_BATCHES).map(move |batches| {
            let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
            let made = made_of(batches, &chain, context.clone())?;
            let task = SpawnedTask::spawn(made.try_collect::<Vec<_>>());
            Ok(async move {
                task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
            })
        }))
    }
}

/// Returns what operators over a [`DealExec`] make of some rows.
fn made_of(
    batches: Vec<RecordBatch>,
    chain: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let dealer = dealer_of(chain).ok_or_else(|| internal_datafusion_err!("nobody deals out rows"))?;
    let piece = dealer.next.fetch_add(1, Ordering::Relaxed);
    dealer.pieces.lock().insert(piece, batches);
    chain.execute(piece, context)
}

impl DisplayAs for DealExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DealExec")
    }
}

impl ExecutionPlan for DealExec {
    fn name(&self) -> &'static str {
        "DealExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    one_input!();

    fn execute(&self, piece: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.pieces.lock().remove(&piece);
        let batches = batches.ok_or_else(|| internal_datafusion_err!("rows are dealt out to nobody"))?;
        let rows = stream::iter(batches.into_iter().map(Ok));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
