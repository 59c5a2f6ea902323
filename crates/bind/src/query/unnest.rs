//! UNNEST in a SELECT list and among keys: lists become rows behind the windows, or before the groups.

use crate::query::parts::{Parts, replaced};
use crate::query::refusal::{refused, unsupported};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullHandling, UnnestOptions};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Unnest;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection};
use hypostyle_error::column_name::ONE_OF;
use std::sync::Arc;

/// Unnests the lists of a SELECT, whose elements become columns in its parts.
///
/// # Errors
/// `Unsupported` for a structure within an expression; those of DataFusion.
pub fn bind(mut plan: LogicalPlan, parts: &mut Parts) -> Result<LogicalPlan> {
    loop {
        let found = innermost(parts.each())?;
        if found.is_empty() {
            return Ok(plan);
        }
        let (below, pairs) = unnested(plan, &found)?;
        plan = below;
        parts.map(|expr| replaced(expr, &pairs))?;
    }
}

/// Unnests the lists among keys of GROUP BY.
///
/// # Errors
/// Those of [`bind`].
pub fn among_keys(
    mut plan: LogicalPlan,
    mut keys: Vec<Expr>,
    parts: &mut Parts,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    loop {
        let found = innermost(keys.iter())?;
        if found.is_empty() {
            return Ok((plan, keys));
        }
        let (below, pairs) = unnested(plan, &found)?;
        plan = below;
        keys = keys.into_iter().map(|key| replaced(key, &pairs)).collect::<Result<_>>()?;
        parts.map(|expr| replaced(expr, &pairs))?;
    }
}

/// Returns what unnests a list that unnests nothing itself, each once.
fn innermost<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Result<Vec<Unnest>> {
    let mut found: Vec<Unnest> = Vec::new();
    for expr in exprs {
        expr.apply(|part| {
            if let Expr::Unnest(unnest) = part
                && !unnest.expr.exists(|inner| Ok(matches!(inner, Expr::Unnest(_))))?
                && !found.contains(unnest)
            {
                found.push(unnest.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

/// Returns a plan with the elements of lists as further columns, and these in pairs with what unnests.
fn unnested(plan: LogicalPlan, found: &[Unnest]) -> Result<(LogicalPlan, Vec<(Expr, Expr)>)> {
    let keeps_empty = found.iter().any(|unnest| unnest.outer);
    if keeps_empty && !found.iter().all(|unnest| unnest.outer) {
        let message =
            "unnest(…) and unnest_outer(…) cannot be in one list; write one of them in a subquery in FROM";
        return Err(refused("0A000", message));
    }
    let mut items: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let (mut columns, mut pairs) = (Vec::new(), Vec::new());
    for unnest in found {
        if matches!(unnest.expr.get_type(plan.schema())?, DataType::Struct(_)) {
            return Err(unsupported("UNNEST of a structure within another expression"));
        }
        let name = format!("unnest{ONE_OF}{}", items.len());
        items.push(unnest.expr.as_ref().clone().alias(&name));
        pairs.push((Expr::Unnest(unnest.clone()), Expr::Column(Column::from_name(&name))));
        columns.push(Column::from_name(name));
    }
    let handling = if keeps_empty { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
    let options = UnnestOptions::new().with_null_handling(handling);
    let lists = LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?);
    let plan = LogicalPlanBuilder::from(lists).unnest_columns_with_options(columns, options)?.build()?;
    Ok((plan, pairs))
}
