//! What DataFusion 55 says wrongly of the rows of operators: that a column is constant, and that
//! rows are in an order.
//!
//! A column that is constant below an outer join or below grouping sets has NULLs above it. For
//! DataFusion it still has one value, so that rows are not sorted by it, and groups are given out
//! before they are complete. The constants of a join's right side are forgotten instead: an order that
//! went below the join is not found above it any more.

use crate::node_rule::node_rule;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use hypostyle_expr::one_input;
use std::fmt;
use std::sync::Arc;

/// Hides constants where NULLs come to them. It comes when it is known which side of a join is the
/// left one, and before anything is sorted.
#[derive(Debug)]
pub struct Constants;

node_rule!(Constants: "Constants", without_constants);

/// Hides constants of an operator where NULLs come to them.
fn without_constants(
    plan: Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let has_sets = !aggregate.group_expr().is_single();
        let is_claimed = has_sets && !plan.equivalence_properties().eq_group().is_empty();
        return Ok(match is_claimed {
            // What is equal below is not where a set leaves out one of both.
            true => Transformed::yes(Arc::new(UnclaimedExec::over(plan, false)) as _),
            false => Transformed::no(plan),
        });
    }
    if !adds_nulls_on_the_left(&plan) {
        return Ok(Transformed::no(plan));
    }
    let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
    match inputs.first_mut() {
        Some(left) if !left.equivalence_properties().constants().is_empty() => {
            *left = Arc::new(UnclaimedExec::over(left.clone(), true));
        }
        _ => return Ok(Transformed::no(plan)),
    }
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(inputs, changed).map(Transformed::yes)
}

fn adds_nulls_on_the_left(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let join_type = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        return false;
    };
    matches!(join_type, JoinType::Right | JoinType::Full)
}

/// Passes on all rows, of which it does not say what is constant.
#[derive(Debug)]
struct UnclaimedExec {
    input: Arc<dyn ExecutionPlan>,
    keeps_order: bool,
    properties: Arc<PlanProperties>,
}

impl UnclaimedExec {
    fn over(input: Arc<dyn ExecutionPlan>, keeps_order: bool) -> Self {
        let mut equivalence = EquivalenceProperties::new(input.schema());
        if keeps_order {
            equivalence.add_orderings(input.equivalence_properties().oeq_class().iter().cloned());
        }
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(equivalence);
        Self { input, keeps_order, properties: Arc::new(properties) }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::over(input, self.keeps_order)
    }
}

impl DisplayAs for UnclaimedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for UnclaimedExec {
    fn name(&self) -> &'static str {
        "UnclaimedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.keeps_order]
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

/// Sorts what an operator needs in an order that its input does not tell any more.
#[derive(Debug)]
pub struct Orders;

node_rule!(Orders: "Orders", with_orders);

/// Sorts the inputs of an operator that do not tell the order that it needs.
fn with_orders(
    plan: Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut changed = false;
    let mut inputs = Vec::with_capacity(plan.children().len());
    for (input, order) in plan.children().into_iter().zip(plan.required_input_ordering()) {
        let lacking = match order.map(|order| order.into_single()) {
            Some(order) if !input.equivalence_properties().ordering_satisfy_requirement(order.clone())? => {
                LexOrdering::new(order.into_iter().map(Into::into))
            }
            _ => None,
        };
        changed |= lacking.is_some();
        inputs.push(match lacking {
            Some(order) => sorted(input, order),
            None => input.clone(),
        });
    }
    if !changed {
        return Ok(Transformed::no(plan));
    }
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(inputs, changed).map(Transformed::yes)
}

fn sorted(input: &Arc<dyn ExecutionPlan>, order: LexOrdering) -> Arc<dyn ExecutionPlan> {
    let is_in_parts = input.output_partitioning().partition_count() > 1;
    Arc::new(SortExec::new(order, input.clone()).with_preserve_partitioning(is_in_parts))
}
