//! Parts of an optimized plan that are there several times: a common table expression or a view that
//! is read twice, a subquery that is written twice. Their rows are computed once.
//!
//! Parts are equal when nothing of them differs: where filters or columns were pushed into one of them
//! and not into the other, each computes its own.

use crate::computed_once::read_often_if_it_fits;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use hypostyle_expr::walk::has_expression;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Tells whether two tables are one, with the same rows.
pub type SameTable = fn(&dyn TableProvider, &dyn TableProvider) -> bool;

/// Returns the plan in which equal parts are computed once.
///
/// # Errors
/// Those of DataFusion.
pub fn computed_once(plan: LogicalPlan, is_same: SameTable) -> Result<LogicalPlan> {
    let mut costly = Vec::new();
    plan.apply_with_subqueries(|node| {
        if is_costly(node) {
            costly.push(node.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if costly.len() < 2 {
        return Ok(plan);
    }
    let mut parts: HashMap<u64, Vec<&LogicalPlan>> = HashMap::new();
    for node in &costly {
        parts.entry(hash_of(node)).or_default().push(node);
    }
    let mut common: Vec<(LogicalPlan, LogicalPlan)> = Vec::new();
    for alike in parts.values().filter(|alike| alike.len() > 1) {
        for (place, part) in alike.iter().enumerate() {
            let is_known = common.iter().any(|(known, _)| known == *part);
            let has_other = alike[place + 1..].iter().any(|other| is_one_part(part, other, is_same));
            if !is_known && has_other {
                common.push(((*part).clone(), read_often_if_it_fits((*part).clone())));
            }
        }
    }
    if common.is_empty() {
        return Ok(plan);
    }
    plan.transform_down_with_subqueries(|node| {
        let found = common.iter().find(|(part, _)| is_costly(&node) && is_one_part(part, &node, is_same));
        Ok(match found {
            Some((_, shared)) => Transformed::new(shared.clone(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// Says whether the rows of a node take longer to compute than to keep.
fn is_costly(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_))
}

fn hash_of(plan: &LogicalPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    hasher.finish()
}

/// Says whether two parts are equal, and have the same rows each time.
fn is_one_part(part: &LogicalPlan, other: &LogicalPlan, is_same: SameTable) -> bool {
    if part != other {
        return false;
    }
    let (Some(tables), Some(others)) = (tables_of(part), tables_of(other)) else { return false };
    let provider = |scan: &TableScan| source_as_provider(&scan.source).ok();
    tables.len() == others.len()
        && tables.iter().zip(&others).all(|(table, other)| {
            provider(table)
                .zip(provider(other))
                .is_some_and(|(table, other)| is_same(table.as_ref(), other.as_ref()))
        })
}

/// Returns the tables that a part reads; `None` where its rows may be others each time, or depend on
/// what it stands in.
fn tables_of(part: &LogicalPlan) -> Option<Vec<&TableScan>> {
    let mut tables = Vec::new();
    let mut is_constant = true;
    let visited = part.apply(|node| {
        let is_other = |expr: &Expr| {
            expr.is_volatile_node()
                || matches!(
                    expr,
                    Expr::OuterReferenceColumn(..)
                        | Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                )
        };
        match node {
            LogicalPlan::TableScan(scan) => tables.push(scan),
            LogicalPlan::Extension(_) | LogicalPlan::RecursiveQuery(_) | LogicalPlan::Subquery(_) => {
                is_constant = false;
            }
            _ => {}
        }
        is_constant &= !has_expression(node, is_other);
        Ok(if is_constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    (is_constant && visited.is_ok() && !tables.is_empty()).then_some(tables)
}
