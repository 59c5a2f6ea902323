//! The last step of a recursive query, which a plan may read: it has other rows each time.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use hypostyle_expr::walk::any_node;
use std::any::Any;

/// Returns the names of the recursive queries in a plan.
fn steps_of(plan: &LogicalPlan) -> Vec<String> {
    let mut names = Vec::new();
    let _never_fails = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            names.push(query.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// Says whether a plan within a recursive query reads its last step, and so has other rows in each.
pub fn reads_step(plan: &LogicalPlan, steps: &[String]) -> bool {
    let own = steps_of(plan);
    let is_step = |name: &str| steps.iter().any(|step| step == name) && !own.iter().any(|own| own == name);
    any_node(plan, |node| step_of(node).is_some_and(|name| is_step(&name)))
}

/// Returns the name of the recursive query whose last step a plan is. Names of tables tell it not: another
/// table may have the same one, and what quotes keep is folded there.
pub fn step_of(plan: &LogicalPlan) -> Option<String> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let table = source_as_provider(&scan.source).ok()?;
    let step = (table.as_ref() as &dyn Any).downcast_ref::<CteWorkTable>()?;
    Some(step.name().to_string())
}
