//! Subqueries in the conditions of joins, where DataFusion evaluates only scalar ones that depend
//! on nothing. A subquery of an inner join moves to a filter behind it, and one of an outer join to
//! a projection of one side. A subquery that depends on both sides becomes a condition of pairs of
//! rows, by whose numbers the sides are joined.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery, lit};
use hypostyle_expr::walk::{any_node, contains};
use hypostyle_plan::computed_once::read_often;
use hypostyle_plan::unnest::references;
use std::sync::Arc;

/// Returns the plan with joins whose conditions have no such subqueries.
///
/// # Errors
/// Those of DataFusion.
pub fn project_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
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
    if join.join_type != JoinType::Inner && depends_on_both(&join) {
        return numbered(join, made)?.project(columns)?.build();
    }
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let mut sides = [(left, Vec::new()), (right, Vec::new())];
    let (mut kept, mut behind) = (Vec::new(), Vec::new());
    for condition in filter.map(split_conjunction_owned).unwrap_or_default() {
        if !is_to_be_moved(&condition) {
            kept.push(condition);
        } else if join_type == JoinType::Inner {
            behind.push(condition);
        } else {
            let side = usize::from(depends_on(&condition, sides[1].0.schema()));
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

/// Says whether one of the conditions to be moved depends on both sides.
fn depends_on_both(join: &Join) -> bool {
    let sides = [join.left.schema(), join.right.schema()];
    join.filter.iter().flat_map(split_conjunction).any(|condition| {
        is_to_be_moved(condition) && sides.iter().all(|schema| depends_on(condition, schema))
    })
}

/// Returns an outer join by the numbers of rows that match: an inner join with the condition behind
/// it gives them, and the sides are computed once.
fn numbered(join: Join, made: &mut usize) -> Result<LogicalPlanBuilder> {
    let Join { left, right, on, filter, join_type, .. } = join;
    if !matches!(join_type, JoinType::Left | JoinType::Right | JoinType::Full) {
        return Err(DataFusionError::NotImplemented("a subquery in ON that depends on both sides".into()));
    }
    let mut side = |plan: &LogicalPlan| {
        let name = format!("__row_{made}");
        *made += 1;
        let number = row_number().alias(&name);
        let rows = LogicalPlanBuilder::from(plan.clone()).window([number])?.build()?;
        Ok::<_, DataFusionError>((LogicalPlanBuilder::from(read_often(rows)), name))
    };
    let ((left, left_row), (right, right_row)) = (side(&left)?, side(&right)?);
    let keys = on.into_iter().map(|(one, other)| one.eq(other));
    let (behind, kept): (Vec<_>, Vec<_>) =
        keys.chain(filter.into_iter().flat_map(split_conjunction_owned)).partition(is_to_be_moved);
    let pairs = left.clone().join_on(right.clone().build()?, JoinType::Inner, kept)?;
    let pairs = pairs.filter(conjunction(behind).unwrap_or(lit(true)))?;
    let names = [&left_row, &right_row].map(|row| format!("{row}_of_pair"));
    let numbers = [(&left_row, &names[0]), (&right_row, &names[1])];
    let pairs = pairs.project(numbers.map(|(row, name)| Expr::Column(Column::from_name(row)).alias(name)))?;
    let is_row = |row: &String, name: &String| {
        Expr::Column(Column::from_name(row)).eq(Expr::Column(Column::from_name(name)))
    };
    let keeps = |side: JoinType| match join_type == side || join_type == JoinType::Full {
        true => JoinType::Left,
        false => JoinType::Inner,
    };
    let with_left = left.join_on(pairs.build()?, keeps(JoinType::Left), [is_row(&left_row, &names[0])])?;
    let of_right = match join_type {
        JoinType::Left => JoinType::Left,
        JoinType::Right => JoinType::Right,
        _ => JoinType::Full,
    };
    with_left.join_on(right.build()?, of_right, [is_row(&right_row, &names[1])])
}

/// Says whether a condition, or a subquery of it, names columns of a schema.
fn depends_on(condition: &Expr, schema: &DFSchema) -> bool {
    let is_of = |expr: &Expr| match (expr, subquery_of(expr)) {
        (Expr::Column(column), _) => schema.has_column(column),
        (_, Some(subquery)) => !references(&subquery.subquery, schema).is_empty(),
        _ => false,
    };
    condition.exists(|expr| Ok(is_of(expr))).unwrap_or(true)
}
