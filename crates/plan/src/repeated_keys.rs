//! Repeated keys of an order. They have no effect, but DataFusion leaves them out in some places
//! and counts them in others: `DISTINCT ON (a) … ORDER BY a, a` and `first_value(x ORDER BY a, a)`
//! panic.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

/// Leaves such keys out of the order within an aggregate.
pub fn within(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut aggregate) if has_repeated(&aggregate.params.order_by) => {
            leave_out(&mut aggregate.params.order_by);
            Ok(Transformed::yes(Expr::AggregateFunction(aggregate)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Leaves such keys out of the order of DISTINCT ON.
pub fn distinct_on(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(mut on)) if on.sort_expr.as_deref().is_some_and(has_repeated) => {
            if let Some(keys) = &mut on.sort_expr {
                leave_out(keys);
            }
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn has_repeated(keys: &[Sort]) -> bool {
    (1..keys.len()).any(|place| is_repeated(keys, place))
}

fn is_repeated(keys: &[Sort], place: usize) -> bool {
    keys[..place].iter().any(|before| before.expr == keys[place].expr)
}

fn leave_out(keys: &mut Vec<Sort>) {
    let kept = (0..keys.len()).filter(|place| !is_repeated(keys, *place));
    *keys = kept.map(|place| keys[place].clone()).collect();
}
