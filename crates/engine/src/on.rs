//! Subqueries in the conditions of joins, where DataFusion evaluates none but scalar ones that depend on nothing: a filter
//! behind an inner join has them, and a projection of one side for an outer one.

use crate::unnest::references;
use crate::walk::{any_node, contains};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery};
use std::sync::Arc;

/// The plan with joins whose conditions have no such subqueries.
///
/// # Errors
/// `NotImplemented` for an outer join with a subquery that depends on both sides.
pub(crate) fn project_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(Join { filter: Some(filter), .. }) if is_to_be_moved(filter));
    if !any_node(&plan, is_one) {
        return Ok(plan);
    }
    let mut made = 0;
    let moved = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(is_to_be_moved) => {
            moved(join, &mut made).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(moved?.data)
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(test) => Some(&test.subquery),
        _ => None,
    }
}

fn is_to_be_moved(condition: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => subquery_of(other).is_some(),
    };
    contains(condition, is_one)
}

fn moved(join: Join, made: &mut usize) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let mut sides = [(left, Vec::new()), (right, Vec::new())];
    let (mut kept, mut behind) = (Vec::new(), Vec::new());
    for condition in filter.map(split_conjunction_owned).unwrap_or_default() {
        if !is_to_be_moved(&condition) {
            kept.push(condition);
        } else if join_type == JoinType::Inner {
            behind.push(condition);
        } else {
            let depends = |(side, _): &(Arc<LogicalPlan>, _)| depends_on(&condition, side.schema());
            let side = match [depends(&sides[0]), depends(&sides[1])] {
                [true, true] => {
                    let why = "a subquery in ON of an outer join that depends on both sides";
                    return Err(DataFusionError::NotImplemented(why.into()));
                }
                [_, right] => usize::from(right),
            };
            let name = format!("__on_{made}");
            *made += 1;
            kept.push(Expr::Column(Column::from_name(&name)));
            sides[side].1.push(condition.alias(name));
        }
    }
    let [left, right] = sides.map(|(side, computed)| {
        if computed.is_empty() {
            return Ok(side);
        }
        let own = side.schema().columns().into_iter().map(Expr::Column).chain(computed);
        let own: Vec<Expr> = own.collect();
        LogicalPlanBuilder::from(side).project(own)?.build().map(Arc::new)
    });
    let (kept, behind) = (conjunction(kept), conjunction(behind));
    let joined =
        Join::try_new(left?, right?, on, kept, join_type, join_constraint, null_equality, null_aware)?;
    let joined = LogicalPlanBuilder::from(LogicalPlan::Join(joined));
    match behind {
        Some(behind) => joined.filter(behind)?.build(),
        None => joined.project(columns)?.build(),
    }
}

/// Whether a condition, or a subquery of it, names columns of a schema.
fn depends_on(condition: &Expr, schema: &DFSchema) -> bool {
    let is_of = |expr: &Expr| match (expr, subquery_of(expr)) {
        (Expr::Column(column), _) => schema.has_column(column),
        (_, Some(subquery)) => !references(&subquery.subquery, schema).is_empty(),
        _ => false,
    };
    condition.exists(|expr| Ok(is_of(expr))).unwrap_or(true)
}
