//! The cost of sending a result: EXPLAIN ANALYZE of a session whose client is remote.

use crate::scan::for_result;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use hypostyle_error::external;
use hypostyle_expr::one_input;
use hypostyle_sync::Mutex;
use std::fmt;
use std::sync::Arc;

/// Sends results, for the program around the engine.
pub trait Transfer: Send + Sync {
    /// Begins a result of this schema. A stored result is only columns of a table.
    ///
    /// # Errors
    /// That rows of such a schema cannot be sent.
    fn begin(&self, schema: SchemaRef, is_stored: bool) -> hypostyle_types::Result<Box<dyn TransferTrial>>;
}

/// One result that is prepared and not sent.
pub trait TransferTrial: Send {
    /// # Errors
    /// Those of encoding.
    fn rows(&mut self, rows: RecordBatch) -> hypostyle_types::Result<()>;

    /// Returns what it came to, for a line of the plan.
    fn report(self: Box<Self>) -> String;
}

/// A session's transfer among the extensions of its configuration.
pub struct SessionTransfer(pub Arc<dyn Transfer>);

/// Returns the plan of an EXPLAIN ANALYZE with the transfer on top of what is analyzed; other plans
/// as they are.
pub fn with_transfer(
    plan: Arc<dyn ExecutionPlan>,
    transfer: &Arc<dyn Transfer>,
    is_stored: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() else { return Ok(plan) };
    let mut input = for_result(analyze.input().clone())?;
    if input.output_partitioning().partition_count() > 1 {
        input = Arc::new(CoalescePartitionsExec::new(input));
    }
    let (report, transfer) = (Arc::default(), transfer.clone());
    let transfer = Arc::new(TransferExec { input, transfer, is_stored, report });
    plan.replace_children(vec![transfer], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Gives its input to a [`TransferTrial`] and passes it on.
struct TransferExec {
    input: Arc<dyn ExecutionPlan>,
    transfer: Arc<dyn Transfer>,
    is_stored: bool,
    /// The result of the transfer, once it is over.
    report: Arc<Mutex<String>>,
}

impl TransferExec {
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let (transfer, report) = (self.transfer.clone(), self.report.clone());
        Self { input, transfer, is_stored: self.is_stored, report }
    }
}

impl fmt::Debug for TransferExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for TransferExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferExec: {}", *self.report.lock())
    }
}

impl ExecutionPlan for TransferExec {
    fn name(&self) -> &'static str {
        "TransferExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let trial = self.transfer.begin(schema.clone(), self.is_stored).map_err(external)?;
        let input = self.input.execute(partition, context)?;
        let report = self.report.clone();
        let passed =
            stream::try_unfold((input, trial, report), |(mut input, mut trial, report)| async move {
                match input.next().await.transpose()? {
                    Some(rows) => {
                        trial.rows(rows.clone()).map_err(external)?;
                        Ok(Some((rows, (input, trial, report))))
                    }
                    None => {
                        *report.lock() = trial.report();
                        Ok(None)
                    }
                }
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, passed)))
    }
}
