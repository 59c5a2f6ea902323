//! There is one NaN. Files and data frames may have others, with a sign, which operators would tell
//! apart: such rows are changed where they come in.

use crate::node_rule::node_rule;
use crate::passing::{Passing, passing};
use crate::scan::ScanExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use hypostyle_expr::nan::{has_floats, with_one_nan};
use std::sync::Arc;

/// Puts an operator that changes NaNs over what reads floating-point numbers from elsewhere. Scans of
/// tables do so by themselves.
#[derive(Debug)]
pub struct OneNan;

node_rule!(OneNan: "OneNan", over_foreign);

/// Puts an operator that changes NaNs over one that reads them from elsewhere.
fn over_foreign(
    plan: Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_foreign = plan.children().is_empty() && !plan.is::<ScanExec>();
    Ok(match is_foreign && has_floats(&plan.schema()) {
        true => Transformed::yes(passing(&plan, Changes)),
        false => Transformed::no(plan),
    })
}

#[derive(Clone, Debug)]
struct Changes;

impl Passing for Changes {
    const NAME: &'static str = "OneNanExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context)?;
        let schema = input.schema();
        let changed = input.map(|batch| batch.and_then(with_one_nan));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, changed)))
    }
}
