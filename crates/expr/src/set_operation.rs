//! The types of INTERSECT and EXCEPT. DataFusion plans them as joins whose rows are those of the left
//! side, in the types that they have there; only the keys get a common type. In SQL the result has
//! the common type (ISO/IEC 9075-2, 7.17), as that of UNION has.

use crate::arithmetic::type_of;
use crate::common_type::exact_text;
use crate::comparison::is_text;
use crate::structures;
use crate::truth::{common_of_numbers, takes_no_text};
use crate::walk::unaliased;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, JoinType, LogicalPlan, Projection, SubqueryAlias, Union,
};
use std::sync::Arc;

/// Gives texts as they are written the type that the other branches of a set operation have in their place,
/// as PostgreSQL does, where DataFusion finds none for the two, or takes what it is for texts.
pub fn with_texts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(mut union) => {
            let mut changed = false;
            for place in 0..union.schema.fields().len() {
                let mut types = union.inputs.iter().map(|input| input.schema().field(place).data_type());
                let of = types.find(|of| takes_no_text(of)).cloned();
                let Some(of) = of.or_else(|| type_beside(&union.inputs, place)) else { continue };
                for input in &mut union.inputs {
                    changed |= read_text(input, place, &of)?;
                }
            }
            match changed {
                true => {
                    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)))
                }
                false => Ok(Transformed::no(LogicalPlan::Union(union))),
            }
        }
        LogicalPlan::Join(mut join) if is_set_operation(&join) => {
            let reads = |of: &DataType| takes_no_text(of) || of.is_numeric();
            let mut changed = false;
            for place in 0..join.on.len() {
                let [left, right] = [&join.left, &join.right]
                    .map(|side| side.schema().fields().get(place).map(|field| field.data_type().clone()));
                if let Some(of) = left.filter(reads) {
                    changed |= read_text(&mut join.right, place, &of)?;
                } else if let Some(of) = right.filter(reads) {
                    changed |= read_text(&mut join.left, place, &of)?;
                }
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Returns the type of a column's numbers, or of its points in time, if all branches that have no text as it
/// is written there have some.
fn type_beside(branches: &[Arc<LogicalPlan>], place: usize) -> Option<DataType> {
    let (texts, others): (Vec<&Arc<LogicalPlan>>, Vec<&Arc<LogicalPlan>>) =
        branches.iter().partition(|branch| has_text(branch, place));
    let types: Vec<DataType> =
        others.into_iter().map(|branch| branch.schema().field(place).data_type().clone()).collect();
    common_of_numbers(&types).or_else(|| common_point(&types)).filter(|_| !texts.is_empty())
}

/// Returns the type of points in time that are all of one type, or NULL.
fn common_point(types: &[DataType]) -> Option<DataType> {
    let mut types = types.iter().filter(|of| !of.is_null());
    let is_point =
        |of: &&DataType| matches!(of, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_));
    let first = types.next().filter(is_point)?;
    types.all(|of| of == first).then(|| first.clone())
}

fn has_text(branch: &LogicalPlan, place: usize) -> bool {
    match branch {
        LogicalPlan::Projection(Projection { expr, .. }) => {
            expr.get(place).is_some_and(|item| is_text(unaliased(item)))
        }
        LogicalPlan::Distinct(Distinct::All(input))
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => has_text(input, place),
        LogicalPlan::Aggregate(groups) if is_distinct(groups) => has_text(&groups.input, place),
        _ => false,
    }
}

/// Says whether groups are those of DISTINCT: their keys are the columns below.
fn is_distinct(groups: &Aggregate) -> bool {
    let columns = groups.input.schema().columns();
    let is_own = |(key, column): (&Expr, &Column)| matches!(key, Expr::Column(key) if key == column);
    groups.aggr_expr.is_empty()
        && groups.group_expr.len() == columns.len()
        && groups.group_expr.iter().zip(&columns).all(is_own)
}

/// Gives a type to the text in a branch's item, if it is one; whether it is.
fn read_text(branch: &mut Arc<LogicalPlan>, place: usize, of: &DataType) -> Result<bool> {
    let read = match &**branch {
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let Some(text) = expr.get(place).map(unaliased).filter(|item| is_text(item)) else {
                return Ok(false);
            };
            let (relation, field) = schema.qualified_field(place);
            let read = exact_text(text, of)
                .unwrap_or_else(|| Expr::Cast(Cast::new(Box::new(text.clone()), of.clone())));
            let mut items = expr.clone();
            items[place] = read.alias_qualified(relation.cloned(), field.name());
            LogicalPlan::Projection(Projection::try_new(items, input.clone())?)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let mut input = input.clone();
            if !read_text(&mut input, place, of)? {
                return Ok(false);
            }
            LogicalPlan::Distinct(Distinct::All(input))
        }
        LogicalPlan::Aggregate(groups) if is_distinct(groups) => {
            let mut input = groups.input.clone();
            if !read_text(&mut input, place, of)? {
                return Ok(false);
            }
            LogicalPlan::Aggregate(Aggregate::try_new(input, groups.group_expr.clone(), Vec::new())?)
        }
        // Sides of one name get others.
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let mut input = input.clone();
            if !read_text(&mut input, place, of)? {
                return Ok(false);
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.clone())?)
        }
        _ => return Ok(false),
    };
    *branch = Arc::new(read);
    Ok(true)
}

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

/// Says whether a join is a set operation: only those are planned as joins in which rows are kept and NULLs
/// are equal.
fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !join.null_aware
        && join.filter.is_none()
}

/// Returns the pairs of columns whose types differ, with their common types.
fn casts(join: &Join) -> Vec<(Column, Column, DataType)> {
    if !is_set_operation(join) {
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
