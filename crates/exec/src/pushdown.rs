//! Restricts how filters and projections move down a physical plan: filters of FilterExec, and those that
//! joins, aggregates and TopK create while they run.
//!
//! DataFusion 55 takes a column of such a filter for the first one of its name in the schema below.
//! A join of two tables with an `id` each has two. So no filter goes past a node with two columns
//! of one name.
//!
//! A filter of a semi join's key goes to its other side, too, where it is taken for one of the column
//! that has the key's name. So none goes past a semi join whose other side has another column, or
//! none that is a key, of this name.
//!
//! What the condition of a join without keys computes of one side's rows is computed below it, each row
//! once. A CASE over both sides is taken apart for that, and its results are computed for rows that its
//! conditions rule out. So such a CASE keeps them.

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CaseExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::remove_unnecessary_projections;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use hypostyle_expr::around_rule;
use std::collections::HashSet;
use std::sync::Arc;

/// A rule that pushes filters down, except past nodes where names do not tell columns apart.
#[derive(Debug)]
pub struct WhereNamesDiffer(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WhereNamesDiffer {
    around_rule!();

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.children().into_iter().all(names_differ) {
            return self.0.optimize(plan, config);
        }
        optimize_children(self, plan, config)
    }
}

/// Applies a rule to what is below a node, each child on its own.
fn optimize_children(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(|child| rule.optimize(child.clone(), config));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Says whether names tell columns apart in a node, and in each below it.
fn names_differ(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut names = HashSet::new();
    plan.schema().fields().iter().all(|field| names.insert(field.name().clone()))
        && plan.downcast_ref::<HashJoinExec>().is_none_or(keys_have_one_name)
        && plan.children().into_iter().all(names_differ)
}

/// Says whether each key of a semi join's rows is compared with the column of its name, if there is
/// one.
fn keys_have_one_name(join: &HashJoinExec) -> bool {
    let is_left = match join.join_type() {
        JoinType::LeftSemi => true,
        JoinType::RightSemi => false,
        _ => return true,
    };
    join.on().iter().all(|(left, right)| {
        let (key, other, schema) = match is_left {
            true => (left, right, join.right().schema()),
            false => (right, left, join.left().schema()),
        };
        let Some(key) = key.downcast_ref::<Column>() else { return true };
        match schema.column_with_name(key.name()) {
            Some((place, _)) => other.downcast_ref::<Column>().is_some_and(|other| other.index() == place),
            None => true,
        }
    })
}

/// A rule that moves projections down, except past joins whose condition has a CASE that guards what it
/// computes.
#[derive(Debug)]
pub struct GuardedStay(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for GuardedStay {
    around_rule!();

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_guarded = |node: &Arc<dyn ExecutionPlan>| {
            let join = node.downcast_ref::<NestedLoopJoinExec>();
            Ok(join.and_then(NestedLoopJoinExec::filter).is_some_and(has_case_of_both_sides))
        };
        match plan.exists(is_guarded)? {
            true => remove_unnecessary_projections(optimize_children(self, plan, config)?).data(),
            false => self.0.optimize(plan, config),
        }
    }
}

/// Says whether a join's condition has a CASE over columns of both sides.
fn has_case_of_both_sides(filter: &JoinFilter) -> bool {
    let of_both = filter.expression().exists(|expr| {
        if expr.downcast_ref::<CaseExpr>().is_none() {
            return Ok(false);
        }
        let columns = collect_columns(expr);
        let mut sides = columns.iter().filter_map(|column| filter.column_indices().get(column.index()));
        let first = sides.next().map(|place| place.side);
        Ok(sides.any(|place| Some(place.side) != first))
    });
    of_both.unwrap_or(false)
}
