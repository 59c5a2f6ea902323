//! The last line of EXPLAIN ANALYZE: how many rows there were, and how long all of it took.

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::common::human_readable_duration;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use hypostyle_expr::one_input;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Returns the plan of an EXPLAIN ANALYZE with a line for the total; other plans as they are.
pub fn with_total(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<AnalyzeExec>() {
        Some(analyze) => Arc::new(TotalExec { analyzed: analyze.input().clone(), input: plan.clone() }),
        None => plan,
    }
}

/// Adds the total to the rows of [`AnalyzeExec`].
#[derive(Debug)]
struct TotalExec {
    input: Arc<dyn ExecutionPlan>,
    /// The plan that runs.
    analyzed: Arc<dyn ExecutionPlan>,
}

impl TotalExec {
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let analyzed = input.downcast_ref::<AnalyzeExec>().map(AnalyzeExec::input).cloned();
        Self { analyzed: analyzed.unwrap_or_else(|| self.analyzed.clone()), input }
    }
}

impl DisplayAs for TotalExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotalExec")
    }
}

impl ExecutionPlan for TotalExec {
    fn name(&self) -> &'static str {
        "TotalExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (begun, schema) = (Instant::now(), self.schema());
        let rows = self.input.execute(partition, context)?;
        let (analyzed, total_schema) = (self.analyzed.clone(), schema.clone());
        let total = stream::once(async move {
            let rows = analyzed.metrics().and_then(|metrics| metrics.output_rows());
            let rows = rows.map_or(String::new(), |rows| format!("{rows} rows in "));
            let time = human_readable_duration(begun.elapsed().as_nanos() as u64);
            let (kind, total) = (StringArray::from(vec!["Total"]), StringArray::from(vec![rows + &time]));
            Ok(RecordBatch::try_new(total_schema, vec![Arc::new(kind), Arc::new(total)])?)
        });
        let all = rows.chain(total);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}
