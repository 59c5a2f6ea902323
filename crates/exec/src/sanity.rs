//! The check of a plan before it runs: each operator gets its rows as it needs them.
//!
//! DataFusion's check asks for the order of each expression that rows are sorted by, and gets none where
//! a function within it does not tell its bounds and an operator is above: `ORDER BY length(s) > 3, s` was
//! refused, although the rows are sorted by these very expressions, and sorted once more before. Here it
//! is enough that the expressions are the same.

use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::InvariantLevel;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildSatisfactionOptions, ExecutionPlan, ExecutionPlanProperties, displayable,
};
use std::sync::Arc;

/// Checks plans, and leaves out sorts of rows that are sorted.
#[derive(Debug)]
pub(crate) struct Sanity;

impl PhysicalOptimizerRule for Sanity {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(sorted_once).data()?;
        plan.apply(|plan| check(plan).map(|()| TreeNodeRecursion::Continue))?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "sanity"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a sort's input if that is the same sort.
fn sorted_once(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_again = |sort: &SortExec| {
        let below = sort.input().downcast_ref::<SortExec>();
        below.is_some_and(|below| {
            below.expr() == sort.expr()
                && below.preserve_partitioning() == sort.preserve_partitioning()
                && (sort.fetch().is_none() || sort.fetch() == below.fetch())
        })
    };
    match plan.downcast_ref::<SortExec>() {
        Some(sort) if is_again(sort) => Ok(Transformed::yes(sort.input().clone())),
        _ => Ok(Transformed::no(plan)),
    }
}

fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let distributions = plan.input_distribution_requirements();
    let options = ChildSatisfactionOptions::new().with_allow_subset(true);
    for (place, (child, required)) in
        plan.children().into_iter().zip(plan.required_input_ordering()).enumerate()
    {
        if let Some(required) = required
            && !is_sorted(child, required.into_single())?
        {
            return plan_err!(
                "rows do not come in the order that is needed:\n{}",
                displayable(plan.as_ref()).indent(false)
            );
        }
        if !distributions.child_satisfaction(place, child.as_ref(), options)?.is_satisfied() {
            return plan_err!(
                "rows are not distributed as is needed:\n{}",
                displayable(plan.as_ref()).indent(false)
            );
        }
    }
    plan.check_invariants(InvariantLevel::Executable)
}

fn is_sorted(child: &Arc<dyn ExecutionPlan>, required: LexRequirement) -> Result<bool> {
    if child.output_ordering().is_some_and(|ordering| begins_with(ordering, &required)) {
        return Ok(true);
    }
    child.equivalence_properties().ordering_satisfy_requirement(required)
}

fn begins_with(ordering: &LexOrdering, required: &LexRequirement) -> bool {
    ordering.len() >= required.len()
        && ordering.iter().zip(required.iter()).all(|(one, required)| {
            one.expr.eq(&required.expr) && required.options.is_none_or(|options| options == one.options)
        })
}
