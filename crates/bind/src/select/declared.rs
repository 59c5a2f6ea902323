//! Columns of a query whose types somebody has declared: those of tables, and what is cast.

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, JoinType, LogicalPlan, Subquery};

/// Says whether a column of a plan is one of a table, or is cast to its type. The plan is one as
/// written.
pub fn is_declared(mut plan: &LogicalPlan, mut place: usize) -> bool {
    loop {
        (plan, place) = match plan {
            LogicalPlan::TableScan(_) => return true,
            LogicalPlan::Projection(projection) => {
                return projection.expr.get(place).is_some_and(|expr| is_given(expr, &projection.input));
            }
            LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) => {
                return group_expr.get(place).is_some_and(|expr| is_given(expr, input));
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                return on.select_expr.get(place).is_some_and(|expr| is_given(expr, &on.input));
            }
            LogicalPlan::Union(union) => {
                return union.inputs.iter().all(|input| is_declared(input, place));
            }
            other => match passed_on(other, place) {
                Some(source) => source,
                None => return false,
            },
        };
    }
}

/// Returns the input of an operator that a column comes from as it is, and its place there; `None`
/// where the operator computes it.
pub fn passed_on(plan: &LogicalPlan, place: usize) -> Option<(&LogicalPlan, usize)> {
    Some(match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => (input, place),
        LogicalPlan::SubqueryAlias(alias) => (&alias.input, place),
        LogicalPlan::Subquery(Subquery { subquery, .. }) => (subquery, place),
        LogicalPlan::Filter(filter) => (&filter.input, place),
        LogicalPlan::Sort(sort) => (&sort.input, place),
        LogicalPlan::Limit(limit) => (&limit.input, place),
        LogicalPlan::Window(window) if place < window.input.schema().fields().len() => (&window.input, place),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (&join.right, place),
                _ if place < left => (&join.left, place),
                _ => (&join.right, place - left),
            }
        }
        _ => return None,
    })
}

fn is_given(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Column(column) => {
            input.schema().maybe_index_of_column(column).is_some_and(|place| is_declared(input, place))
        }
        Expr::Alias(alias) => is_given(&alias.expr, input),
        Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::ScalarFunction(ScalarFunction { func, .. }) => matches!(func.name(), "cast" | "try_cast"),
        _ => false,
    }
}
