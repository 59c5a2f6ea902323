//! Keys of an order that come again. They order nothing, but DataFusion leaves them out in some
//! places and counts them in others: `DISTINCT ON (a) … ORDER BY a, a` and `first_value(x ORDER BY
//! a, a)` panic. And constants in the order of a window, with which some plans are refused.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Sort, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Distinct, Expr, LogicalPlan, Projection, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use hypostyle_expr::walk::{contains, unaliased};
use std::sync::Arc;

/// Leaves such keys out of the order within an aggregate.
pub fn shorten_aggregate_orders(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut aggregate) if has_repeated(&aggregate.params.order_by) => {
            leave_out(&mut aggregate.params.order_by);
            Ok(Transformed::yes(Expr::AggregateFunction(aggregate)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Leaves keys out that have turned out to come again when expressions were simplified.
#[derive(Debug)]
pub struct RepeatedKeys;

impl OptimizerRule for RepeatedKeys {
    fn name(&self) -> &str {
        "repeated_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        if !aggregate.aggr_expr.iter().any(|expr| contains(expr, repeats)) {
            return Ok(Transformed::no(plan));
        }
        let preserver = NamePreserver::new_for_projection();
        plan.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let left = expr.transform(|expr| match repeats(&expr) {
                true => shorten_aggregate_orders(expr, &DFSchema::empty()),
                false => Ok(Transformed::no(expr)),
            })?;
            Ok(left.update_data(|expr| name.restore(expr)))
        })
    }
}

fn repeats(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(aggregate) if has_repeated(&aggregate.params.order_by))
}

/// Leaves constants out of the order of a window. Where nothing is left, all rows of a partition
/// are equal.
pub fn constants_of_window(mut expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
    let WindowFunctionParams { order_by, window_frame, .. } = &mut call.params;
    let constants = order_by.iter().filter(|key| is_constant(&key.expr)).count();
    let is_plain = window_frame.start_bound.is_unbounded()
        && matches!(window_frame.end_bound, WindowFrameBound::CurrentRow);
    let is_left = match window_frame.units {
        WindowFrameUnits::Rows => true,
        WindowFrameUnits::Range => is_plain,
        WindowFrameUnits::Groups => constants < order_by.len(),
    };
    if constants == 0 || !is_left {
        return Ok(Transformed::no(expr));
    }
    order_by.retain(|key| !is_constant(&key.expr));
    if order_by.is_empty() && window_frame.units == WindowFrameUnits::Range {
        *window_frame = WindowFrame::new(None);
    }
    Ok(Transformed::yes(expr))
}

/// Computes windows once that have turned out to be the same, as two whose orders had different
/// constants: DataFusion would make a column of what they have in common, which is a window.
pub fn windows_once(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
    Ok(match once(window)? {
        Some(once) => Transformed::yes(once),
        None => Transformed::no(plan),
    })
}

/// Returns the windows of a node that neither another one of it is nor one below; `None` where there
/// is nothing to leave out.
fn once(window: &Window) -> Result<Option<LogicalPlan>> {
    let mut known: Vec<(&Expr, Column)> = Vec::new();
    let mut below = &window.input;
    while let LogicalPlan::Window(lower) = below.as_ref() {
        known.extend(named(lower));
        below = &lower.input;
    }
    let mut outputs: Vec<Expr> = window.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut calls = Vec::new();
    for ((call, column), expr) in named(window).zip(&window.window_expr) {
        match known.iter().find(|(known, _)| *known == call && !call.is_volatile()) {
            Some((_, same)) => {
                outputs.push(Expr::Column(same.clone()).alias_qualified(column.relation, column.name));
            }
            None => {
                known.push((call, column.clone()));
                outputs.push(Expr::Column(column));
                calls.push(expr.clone());
            }
        }
    }
    if calls.len() == window.window_expr.len() {
        return Ok(None);
    }
    let below = match calls.is_empty() {
        true => window.input.clone(),
        false => Arc::new(LogicalPlan::Window(Window::try_new(calls, window.input.clone())?)),
    };
    Ok(Some(LogicalPlan::Projection(Projection::try_new(outputs, below)?)))
}

/// Returns the calls of a node, without the names that they have kept, and their columns.
fn named(window: &Window) -> impl Iterator<Item = (&Expr, Column)> {
    let columns = window.schema.columns().split_off(window.input.schema().fields().len());
    window.window_expr.iter().map(unaliased).zip(columns)
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) | Expr::Not(expr) => is_constant(expr),
        _ => false,
    }
}

/// Leaves such keys out of DISTINCT ON and of its order, which begins with the same keys; and those
/// that are constants, beside which DataFusion mistakes the others.
pub fn distinct_on(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(Distinct::On(mut on)) = plan else { return Ok(Transformed::no(plan)) };
    let keys: Vec<&Expr> = on.on_expr.iter().map(unaliased).collect();
    let is_left_out = |place: usize| {
        is_constant(keys[place]) && keys.iter().any(|key| !is_constant(key))
            || keys[..place].contains(&keys[place])
    };
    let left_out: Vec<usize> = (0..keys.len()).filter(|place| is_left_out(*place)).collect();
    let mut changed = !left_out.is_empty();
    for place in left_out.into_iter().rev() {
        on.on_expr.remove(place);
        if let Some(keys) = &mut on.sort_expr {
            keys.remove(place);
        }
    }
    if let Some(keys) = on.sort_expr.as_mut().filter(|keys| has_repeated(keys)) {
        leave_out(keys);
        changed = true;
    }
    Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed))
}

fn has_repeated(keys: &[Sort]) -> bool {
    (1..keys.len()).any(|place| is_repeated(keys, place))
}

fn is_repeated(keys: &[Sort], place: usize) -> bool {
    keys[..place].iter().any(|before| unaliased(&before.expr) == unaliased(&keys[place].expr))
}

fn leave_out(keys: &mut Vec<Sort>) {
    let kept = (0..keys.len()).filter(|place| !is_repeated(keys, *place));
    *keys = kept.map(|place| keys[place].clone()).collect();
}
