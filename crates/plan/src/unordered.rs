//! EXISTS and IN of rows that are sorted, which changes nothing: DataFusion makes no join of such a subquery.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, Subquery, SubqueryAlias};
use hypostyle_expr::walk::{any_node, has_expression, map_expressions};
use std::sync::Arc;

/// Returns the plan in which such subqueries have no order.
///
/// # Errors
/// Those of DataFusion.
pub fn without_vain_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |expr: &Expr| match expr {
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => {
            is_sorted(&subquery.subquery)
        }
        _ => false,
    };
    if !any_node(&plan, |node| has_expression(node, is_one)) {
        return Ok(plan);
    }
    let unordered = plan.transform_up_with_subqueries(|node| {
        map_expressions(node, |expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                Ok(Transformed::yes(Expr::Exists(Exists { subquery: unsorted(subquery)?, negated })))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let subquery = unsorted(subquery)?;
                Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
            }
            other => Ok(Transformed::no(other)),
        })
    });
    Ok(unordered?.data)
}

/// Says whether rows are sorted, and all of them given.
fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(sort) => sort.fetch.is_none(),
        LogicalPlan::Projection(projection) => is_sorted(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_sorted(&alias.input),
        _ => false,
    }
}

fn unsorted(Subquery { subquery, outer_ref_columns, spans }: Subquery) -> Result<Subquery> {
    Ok(Subquery { subquery: unsorted_rows(subquery)?, outer_ref_columns, spans })
}

fn unsorted_rows(plan: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    if !is_sorted(&plan) {
        return Ok(plan);
    }
    Ok(match Arc::unwrap_or_clone(plan) {
        LogicalPlan::Sort(Sort { input, .. }) => unsorted_rows(input)?,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let input = unsorted_rows(input)?;
            Arc::new(LogicalPlan::Projection(Projection::try_new(expr, input)?))
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let input = unsorted_rows(input)?;
            Arc::new(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias)?))
        }
        other => Arc::new(other),
    })
}
