//! Scalar subqueries that may have no row, and are NULL then. If the subquery's column is never
//! NULL, DataFusion assumes the same of the value, and folds `IS NULL` and coalesce of it. What is
//! computed may turn out never to be NULL when it is simplified.

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Subquery};
use hypostyle_expr::walk::{any_node, has_expression, map_expressions};
use hypostyle_plan::unnest::single_value;
use std::sync::Arc;

/// Returns the plan with scalar subqueries whose values may be NULL unless there always is a row.
pub fn with_nullable_scalars(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(subquery) if is_to_be_nullable(subquery));
    if !any_node(&plan, |node| has_expression(node, is_one)) {
        return Ok(plan);
    }
    let nullable = plan.transform_up_with_subqueries(|node| {
        let node = map_expressions(node, |expr| match expr {
            Expr::ScalarSubquery(subquery) if is_to_be_nullable(&subquery) => {
                single_row(subquery).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        })?;
        // Expressions above it may be NULL, too.
        node.map_data(LogicalPlan::recompute_schema)
    });
    Ok(nullable?.data)
}

fn is_to_be_nullable(subquery: &Subquery) -> bool {
    subquery.outer_ref_columns.is_empty()
        && !always_has_a_row(&subquery.subquery)
        && !is_stored(&subquery.subquery, 0)
}

/// Says whether a column of a plan is one of a table that may be NULL.
fn is_stored(plan: &LogicalPlan, place: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => plan.schema().field(place).is_nullable(),
        LogicalPlan::Projection(projection) => match projection.expr[place].clone().unalias() {
            Expr::Column(column) => projection
                .input
                .schema()
                .index_of_column(&column)
                .is_ok_and(|place| is_stored(&projection.input, place)),
            _ => false,
        },
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            plan.inputs().iter().all(|input| is_stored(input, place))
        }
        _ => false,
    }
}

fn always_has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_) => {
            plan.inputs().into_iter().all(always_has_a_row)
        }
        _ => false,
    }
}

/// Returns the one row of a subquery, or NULL.
fn single_row(Subquery { subquery, outer_ref_columns, spans }: Subquery) -> Result<Expr> {
    let value = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    let single = Aggregate::try_new(subquery, Vec::new(), vec![single_value(value)])?;
    let subquery = Arc::new(LogicalPlan::Aggregate(single));
    Ok(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }))
}
