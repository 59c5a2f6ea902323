//! An operator that passes on rows of its input, in a way of its own.

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use hypostyle_expr::one_input;
use std::fmt;
use std::sync::Arc;

/// A way of passing on rows: all or some of them, in the same order.
pub trait Passing: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name of the operator in plans.
    const NAME: &'static str;

    /// Begins to pass on the rows of one partition.
    ///
    /// # Errors
    /// Those of the input.
    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

#[derive(Debug)]
struct PassingExec<P> {
    input: Arc<dyn ExecutionPlan>,
    how: P,
}

/// Returns an operator over another one.
pub fn passing<P: Passing>(input: &Arc<dyn ExecutionPlan>, how: P) -> Arc<dyn ExecutionPlan> {
    Arc::new(PassingExec { input: input.clone(), how })
}

/// Returns an operator with such operators between it and its inputs.
///
/// # Errors
/// Those of an operator that cannot have others below it.
pub fn passing_below<P: Passing>(plan: &Arc<dyn ExecutionPlan>, how: &P) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter().map(|input| passing(input, how.clone())).collect();
    plan.clone().replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

impl<P: Passing> PassingExec<P> {
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, how: self.how.clone() }
    }
}

impl<P: Passing> DisplayAs for PassingExec<P> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: Passing> ExecutionPlan for PassingExec<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.how.pass(&self.input, partition, context)
    }
}
