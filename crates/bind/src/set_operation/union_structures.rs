//! Structures with other fields in the branches of a UNION get their common type before a query around
//! names their fields.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use hypostyle_expr::structures;

/// Gives the structures of unions in a plan their common types.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn with_common_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up(|node| {
        let node = match &node {
            LogicalPlan::Union(_) => structures::of_relations(node)?,
            _ => Transformed::no(node),
        };
        changed |= node.transformed;
        if changed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })?;
    Ok(plan.data)
}
