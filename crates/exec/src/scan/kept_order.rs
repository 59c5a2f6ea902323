//! Keeps ORDER BY of subqueries that others only select from, and of what is computed once for several
//! places. DataFusion leaves a sort out if no operator above it asks for its order.

use super::in_order::{is_computed_once, keeps_order};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use hypostyle_expr::one_input;
use std::fmt;
use std::sync::Arc;

/// Puts a [`KeptOrderExec`] over each sort whose order is that of the result, or of rows that are computed
/// once.
#[derive(Debug)]
pub struct KeepOrders;

impl PhysicalOptimizerRule for KeepOrders {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // The order of the result as a whole is asked for by DataFusion.
        kept(plan, Place::Result)
    }

    fn name(&self) -> &'static str {
        "KeepOrders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Where an operator is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It gives the result.
    Result,
    /// Its rows are passed on in their order.
    Below,
    /// Nobody sees the order of its rows.
    Elsewhere,
}

/// Returns the plan with what keeps the sorts whose order is seen.
fn kept(plan: Arc<dyn ExecutionPlan>, place: Place) -> Result<Arc<dyn ExecutionPlan>> {
    if place == Place::Below
        && let Some(order) = plan.downcast_ref::<SortExec>().map(|sort| sort.expr().clone())
    {
        let input = over_kept(plan, Place::Elsewhere)?;
        return Ok(Arc::new(KeptOrderExec { input, order: OrderingRequirements::from(order) }));
    }
    let passes_on = keeps_order(&plan)
        || plan.is::<UnionExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<OutputRequirementExec>();
    let place = match place {
        // All that read them have them in one order.
        _ if is_computed_once(&plan) => Place::Below,
        Place::Result if plan.is::<OutputRequirementExec>() => Place::Result,
        Place::Result | Place::Below if passes_on => Place::Below,
        _ => Place::Elsewhere,
    };
    over_kept(plan, place)
}

/// Returns the plan with inputs that are in a place.
fn over_kept(plan: Arc<dyn ExecutionPlan>, place: Place) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter().map(|input| kept(input.clone(), place));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    if inputs.iter().zip(plan.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(plan);
    }
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Passes on rows, and asks for their order.
#[derive(Debug)]
pub(super) struct KeptOrderExec {
    pub input: Arc<dyn ExecutionPlan>,
    order: OrderingRequirements,
}

impl KeptOrderExec {
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, order: self.order.clone() }
    }
}

impl DisplayAs for KeptOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptOrderExec")
    }
}

impl ExecutionPlan for KeptOrderExec {
    fn name(&self) -> &'static str {
        "KeptOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(self.order.clone())]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
