//! Outer joins whose rows without a partner no join above lets pass.
//!
//! `a LEFT JOIN b ON … JOIN c ON b.x = c.x` keeps rows of `a` without a partner, whose `b.x` is NULL,
//! and the second join leaves them out: the first one is an inner join. DataFusion finds this for
//! conditions of WHERE that are right above the outer join.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Comes behind the rule for conditions.
#[derive(Debug)]
pub struct NullRejection;

impl OptimizerRule for NullRejection {
    fn name(&self) -> &str {
        "null_rejection"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        let (of_left, of_right) = match (join.null_equality, join.join_type) {
            (NullEquality::NullEqualsNothing, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi) => {
                join.on.iter().map(|(left, right)| (strict(left), strict(right))).unzip()
            }
            // Rows of the other side alone are left out where they find nobody.
            (NullEquality::NullEqualsNothing, JoinType::Left) => {
                (Vec::new(), join.on.iter().map(|(_, right)| strict(right)).collect())
            }
            (NullEquality::NullEqualsNothing, JoinType::Right) => {
                (join.on.iter().map(|(left, _)| strict(left)).collect(), Vec::new())
            }
            _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
        };
        let (left, right) =
            (without_nulls(&join.left, &known(of_left))?, without_nulls(&join.right, &known(of_right))?);
        if left.is_none() && right.is_none() {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        with_sides(&join, join.join_type, left, right).map(Transformed::yes)
    }
}

fn known(columns: Vec<Option<&Column>>) -> Vec<Column> {
    columns.into_iter().flatten().cloned().collect()
}

/// Returns the column without whose value a key has none.
fn strict(key: &Expr) -> Option<&Column> {
    match key {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => strict(&cast.expr),
        _ => None,
    }
}

fn with_sides(
    join: &Join,
    join_type: JoinType,
    left: Option<LogicalPlan>,
    right: Option<LogicalPlan>,
) -> Result<LogicalPlan> {
    let side = |changed: Option<LogicalPlan>, old: &Arc<LogicalPlan>| changed.map_or(old.clone(), Arc::new);
    let (left, right) = (side(left, &join.left), side(right, &join.right));
    LogicalPlan::Join(Join { left, right, join_type, ..join.clone() }).recompute_schema()
}

/// Returns a plan that need not give rows in which one of some columns is NULL; `None` where it is the
/// plan itself.
fn without_nulls(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    if columns.is_empty() {
        return Ok(None);
    }
    match plan {
        LogicalPlan::Join(join) => join_without_nulls(join, columns),
        LogicalPlan::Filter(_) => with_input(plan, columns),
        LogicalPlan::SubqueryAlias(alias) => {
            let places = columns.iter().filter_map(|column| alias.schema.maybe_index_of_column(column));
            let inner = places.map(|place| alias.input.schema().qualified_field(place).into());
            with_input(plan, &inner.collect::<Vec<_>>())
        }
        LogicalPlan::Projection(projection) => {
            let places = columns.iter().filter_map(|column| projection.schema.maybe_index_of_column(column));
            let inner = places.filter_map(|place| match projection.expr.get(place)? {
                Expr::Alias(alias) => strict(&alias.expr),
                expr => strict(expr),
            });
            with_input(plan, &inner.cloned().collect::<Vec<_>>())
        }
        _ => Ok(None),
    }
}

fn with_input(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return Ok(None) };
    match without_nulls(input, columns)? {
        Some(input) => plan.with_new_exprs(plan.expressions(), vec![input]).map(Some),
        None => Ok(None),
    }
}

fn join_without_nulls(join: &Join, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let of = |side: &LogicalPlan| -> Vec<Column> {
        columns.iter().filter(|column| side.schema().has_column(column)).cloned().collect()
    };
    let (mut of_left, mut of_right) = (of(&join.left), of(&join.right));
    let join_type = match (join.join_type, of_left.is_empty(), of_right.is_empty()) {
        (JoinType::Left, _, false) | (JoinType::Right, false, _) | (JoinType::Full, false, false) => {
            JoinType::Inner
        }
        (JoinType::Full, false, true) => JoinType::Left,
        (JoinType::Full, true, false) => JoinType::Right,
        (join_type, ..) => join_type,
    };
    // A row of a side that is kept without a partner must stay.
    match join_type {
        JoinType::Inner => {}
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => of_right.clear(),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => of_left.clear(),
        _ => return Ok(None),
    }
    let (left, right) = (without_nulls(&join.left, &of_left)?, without_nulls(&join.right, &of_right)?);
    match join_type == join.join_type && left.is_none() && right.is_none() {
        true => Ok(None),
        false => with_sides(join, join_type, left, right).map(Some),
    }
}
