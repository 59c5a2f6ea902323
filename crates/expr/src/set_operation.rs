//! The types of INTERSECT and EXCEPT. DataFusion plans them as joins whose rows are those of the left
//! side, in the types that they have there; only the keys get a common type. In SQL the result has
//! the common type (ISO/IEC 9075-2, 7.17), as that of UNION has.

use crate::arithmetic::type_of;
use crate::structures;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection};
use std::sync::Arc;

/// Gives the columns of both sides their common types.
pub fn in_common_types(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    let casts = casts(&join);
    if casts.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (left, right): (Vec<_>, Vec<_>) =
        casts.into_iter().map(|(left, right, of)| ((left, of.clone()), (right, of))).unzip();
    join.left = cast(join.left, &left)?;
    join.right = cast(join.right, &right)?;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// Returns the pairs of columns whose types differ, with their common types.
fn casts(join: &Join) -> Vec<(Column, Column, DataType)> {
    // Only set operations are planned as joins in which rows are kept and NULLs are equal.
    let is_set_operation = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !join.null_aware
        && join.filter.is_none();
    if !is_set_operation {
        return Vec::new();
    }
    let pair = |(left, right): &(Expr, Expr)| {
        let (Expr::Column(one), Expr::Column(other)) = (left, right) else { return None };
        let of =
            common(&type_of(left, join.left.schema()).ok()?, &type_of(right, join.right.schema()).ok()?)?;
        Some((one.clone(), other.clone(), of))
    };
    join.on.iter().filter_map(pair).collect()
}

/// Returns the common type of two that differ; `None` where it is not for us to say.
fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    if one == other {
        return None;
    }
    let structures = structures::common(&[one.clone(), other.clone()]);
    if structures.is_some() {
        return structures;
    }
    let is_mixed = |one: &DataType, other: &DataType| one.is_decimal() && other.is_floating();
    if is_mixed(one, other) || is_mixed(other, one) {
        return Some(DataType::Float64);
    }
    let is_point =
        |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _));
    if is_point(one) && is_point(other) {
        let zone = [one, other].into_iter().find_map(|of| match of {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        });
        return Some(DataType::Timestamp(TimeUnit::Microsecond, zone));
    }
    let are_numbers = one.is_numeric() && other.is_numeric();
    (are_numbers || one.is_null() || other.is_null()).then(|| type_union_coercion(one, other)).flatten()
}

/// Returns the same columns, some of them in other types.
fn cast(plan: Arc<LogicalPlan>, casts: &[(Column, DataType)]) -> Result<Arc<LogicalPlan>> {
    let item = |column: Column| match casts.iter().find(|(of, _)| *of == column) {
        Some((_, of)) => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            Expr::Cast(Cast::new(Box::new(Expr::Column(column)), of.clone())).alias_qualified(relation, name)
        }
        None => Expr::Column(column),
    };
    let items = plan.schema().columns().into_iter().map(item).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, plan)?)))
}
