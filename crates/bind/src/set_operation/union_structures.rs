//! Structures with other fields in the branches of a UNION in FROM get their common type before the
//! query around names their fields, and texts as they are written that of the values in the other branches
//! before it computes with them. Elsewhere they get it later.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{SetExpr, TableFactor};
use hypostyle_expr::walk::any_node;
use hypostyle_expr::{set_operation, structures};

/// Plans such subqueries.
#[derive(Debug)]
pub struct InFrom;

impl RelationPlanner for InFrom {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Derived { subquery, alias, .. } = &mut relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let is_union = matches!(subquery.body.as_ref(), SetExpr::SetOperation { .. });
        // Without its alias it comes here again, and is left to the planner.
        let Some(alias) = alias.take_if(|_| is_union) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = with_common_types(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

fn with_common_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    in_unions(plan, |union| structures::of_relations(union)?.transform_data(set_operation::with_texts))
}

/// Gives texts as they are written in the branches of a UNION the type of the values in the others: the
/// columns of a view have the types that its plan says.
///
/// # Errors
/// Those of DataFusion.
pub(crate) fn with_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    match any_node(&plan, |node| matches!(node, LogicalPlan::Union(_))) {
        true => in_unions(plan, set_operation::with_texts),
        false => Ok(plan),
    }
}

fn in_unions(
    plan: LogicalPlan,
    rewrite: impl Fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up(|node| {
        let node = match &node {
            LogicalPlan::Union(_) => rewrite(node)?,
            _ => Transformed::no(node),
        };
        changed |= node.transformed;
        if changed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })?;
    Ok(plan.data)
}
