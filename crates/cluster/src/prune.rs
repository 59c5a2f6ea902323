//! Finds the fragments that a part of a plan needs: those that can have rows for which the conditions of
//! its scans are true.

use crate::change::by_fragment;
use crate::table::FragmentScanExec;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr};
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_placement::catalog::Table;
use hypostyle_placement::partition::{CONSTANTS_MAX, Condition, Kind, Limit, Partitioning, Value, values_of};
use std::sync::Arc;

type Expression = Arc<dyn PhysicalExpr>;

/// Says of each fragment number whether a plan needs it, which reads these tables together: one of them
/// has rows there, and a scan of it can want some. Without all others, the plan has the same rows.
///
/// # Errors
/// None; those of a walk over a plan.
pub(crate) fn needed(plan: &Arc<dyn ExecutionPlan>, tables: &[&Table]) -> Result<Vec<bool>> {
    let mut needed = vec![false; tables.first().map_or(0, |table| table.fragments.len())];
    for table in tables {
        let mut wanted: Option<Vec<bool>> = None;
        plan.apply(|node| {
            if let Some(scan) = node.downcast_ref::<FragmentScanExec>()
                && scan.table == table.id
            {
                let found = of_scan(scan, &table.partitioning);
                match &mut wanted {
                    Some(wanted) => add(wanted, &found),
                    None => wanted = Some(found),
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let wanted = wanted.unwrap_or_else(|| vec![true; needed.len()]);
        let with_rows = table.fragments.iter().zip(wanted);
        let with_rows: Vec<bool> = with_rows.map(|(fragment, is)| is && fragment.rows > 0).collect();
        add(&mut needed, &with_rows);
    }
    Ok(needed)
}

fn of_scan(scan: &FragmentScanExec, partitioning: &Partitioning) -> Vec<bool> {
    let mut wanted = match &scan.predicate {
        Some(predicate) => matching(predicate, partitioning),
        None => partitioning.matching(&[]),
    };
    if let Some(places) = &scan.rows {
        let with_rows = by_fragment(places);
        wanted.iter_mut().zip(0..).for_each(|(is, number)| *is &= with_rows.contains_key(&number));
    }
    wanted
}

fn add(all: &mut [bool], more: &[bool]) {
    all.iter_mut().zip(more).for_each(|(is, also)| *is |= also);
}

/// Says of each fragment whether it can have rows for which an expression is true.
fn matching(expression: &Expression, partitioning: &Partitioning) -> Vec<bool> {
    let (mut conditions, mut alternatives) = (Vec::new(), Vec::new());
    for part in operands(expression, Operator::And) {
        match condition(part, partitioning) {
            Some(condition) => conditions.push(condition),
            None => alternatives.push(operands(part, Operator::Or)),
        }
    }
    let mut all = partitioning.matching(&conditions);
    for alternatives in alternatives.into_iter().filter(|alternatives| alternatives.len() > 1) {
        let mut any = vec![false; all.len()];
        for alternative in alternatives {
            add(&mut any, &matching(alternative, partitioning));
        }
        all.iter_mut().zip(any).for_each(|(is, also)| *is &= also);
    }
    all
}

/// Returns what a tree of one operator combines.
fn operands(expression: &Expression, operator: Operator) -> Vec<&Expression> {
    let (mut left, mut found) = (vec![expression], Vec::new());
    while let Some(next) = left.pop() {
        match next.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == operator) {
            Some(binary) => left.extend([binary.right(), binary.left()]),
            None => found.push(next),
        }
    }
    found
}

/// Returns what an expression says about a column of the partition key alone, if it is that.
fn condition(expression: &Expression, partitioning: &Partitioning) -> Option<Condition> {
    if let Some(list) = expression.downcast_ref::<InListExpr>() {
        let (column, kind) = key(list.expr(), partitioning)?;
        if list.negated() || list.list().len() > CONSTANTS_MAX {
            return None;
        }
        let values = list.list().iter().map(|item| constant(item, kind)).collect::<Option<Vec<_>>>()?;
        // Nothing equals NULL.
        return Some(Condition::In { column, values: values.into_iter().flatten().collect() });
    }
    if let Some(null) = expression.downcast_ref::<IsNullExpr>() {
        return key(null.arg(), partitioning).map(|(column, _)| Condition::IsNull { column });
    }
    if let Some(not) = expression.downcast_ref::<NotExpr>() {
        return is_truth(not.arg(), false, partitioning);
    }
    if expression.is::<Column>() {
        return is_truth(expression, true, partitioning);
    }
    let binary = expression.downcast_ref::<BinaryExpr>()?;
    match binary.op() {
        Operator::Or => one_of_several(&operands(expression, Operator::Or), partitioning),
        operator => match key(binary.left(), partitioning) {
            Some(found) => comparison(found, *operator, binary.right()),
            None => comparison(key(binary.right(), partitioning)?, operator.swap()?, binary.left()),
        },
    }
}

/// Returns the condition that a key of truth values has one of them.
fn is_truth(expression: &Expression, truth: bool, partitioning: &Partitioning) -> Option<Condition> {
    let (column, kind) = key(expression, partitioning)?;
    (kind == Kind::Boolean).then(|| Condition::In { column, values: vec![Value::Boolean(truth)] })
}

/// Returns one condition for several on a column of which one is to be true: IN of few values becomes
/// that.
fn one_of_several(expressions: &[&Expression], partitioning: &Partitioning) -> Option<Condition> {
    let (mut all, mut of) = (Vec::new(), None);
    for expression in expressions {
        let Condition::In { column, values } = condition(expression, partitioning)? else { return None };
        if of.is_some_and(|other| other != column) || all.len() + values.len() > CONSTANTS_MAX {
            return None;
        }
        of = Some(column);
        all.extend(values);
    }
    of.map(|column| Condition::In { column, values: all })
}

fn comparison((column, kind): (usize, Kind), operator: Operator, with: &Expression) -> Option<Condition> {
    let value = constant(with, kind)?;
    // The two zeros are one key, whichever of them a comparison finds less.
    let excluding =
        |value| if kind == Kind::Float { Limit::Including(value) } else { Limit::Excluding(value) };
    let range = |lower, upper| Condition::Range { column, lower, upper };
    Some(match (operator, value) {
        (Operator::IsNotDistinctFrom, None) => Condition::IsNull { column },
        (Operator::Eq | Operator::IsNotDistinctFrom, Some(value)) => {
            Condition::In { column, values: vec![value] }
        }
        (Operator::Lt, Some(value)) => range(Limit::None, excluding(value)),
        (Operator::LtEq, Some(value)) => range(Limit::None, Limit::Including(value)),
        (Operator::Gt, Some(value)) => range(excluding(value), Limit::None),
        (Operator::GtEq, Some(value)) => range(Limit::Including(value), Limit::None),
        (Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq, None) => {
            Condition::In { column, values: Vec::new() }
        }
        _ => return None,
    })
}

/// Returns the place in the partition key of the column that an expression is, and its kind.
fn key(expression: &Expression, partitioning: &Partitioning) -> Option<(usize, Kind)> {
    let index = expression.downcast_ref::<Column>()?.index();
    let place = partitioning.columns().iter().position(|key| key.column.0 as usize == index)?;
    partitioning.columns().get(place).map(|key| (place, key.kind))
}

/// Returns the value of a constant of some kind, which may be NULL; `None` for whatever else there is.
fn constant(expression: &Expression, kind: Kind) -> Option<Option<Value>> {
    let value = expression.downcast_ref::<Literal>()?.value();
    if value.is_null() {
        return Some(None);
    }
    let found = values_of(&value.to_array().ok()?, kind).ok()?.pop()?;
    // UUIDs are text in plans, and compared as such.
    match (&found, value.try_as_str().flatten()) {
        (Some(Value::Uuid(number)), Some(text)) if uuid::Uuid::from_u128(*number).to_string() != text => None,
        _ => Some(found),
    }
}
