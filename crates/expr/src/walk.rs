//! Walks through plans that several rewrites share. Plans are inspected before they are copied,
//! because most have nothing to rewrite.

use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use std::sync::Arc;

/// Says whether a node of the plan, or of a subquery in it, is one that is sought.
pub fn any_node(plan: &LogicalPlan, is_one: impl Fn(&LogicalPlan) -> bool) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        found |= is_one(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found && visited.is_ok()
}

/// Says whether an expression of a node, or a part of one, is sought.
pub fn has_expression(node: &LogicalPlan, is_one: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let visited = node.apply_expressions(|expr| {
        found |= contains(expr, &is_one);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found && visited.is_ok()
}

/// Says whether an expression, or a part of it, is sought.
pub fn contains(expr: &Expr, is_one: impl Fn(&Expr) -> bool) -> bool {
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)
}

/// Returns an expression without the names that it has.
pub fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Returns the schema of a node's inputs, which its expressions are over. That of one input is shared: a
/// copy takes a time for each column of the table.
pub fn schema_below(node: &LogicalPlan) -> DFSchemaRef {
    match node.inputs().as_slice() {
        [input] => input.schema().clone(),
        inputs => Arc::new(merge_schema(inputs)),
    }
}

/// Rewrites the expressions of one node, each from its leaves up; the columns that they make keep
/// their names.
pub fn map_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let preserver = NamePreserver::new(&node);
    node.map_expressions(|expr| named(&preserver, expr, &mut |expr: Expr| expr.transform_up(&mut rewrite)))
}

/// Rewrites an expression whose column keeps its name. The columns of grouping sets are those of their keys:
/// a name for all of them would be that of no column.
pub fn named(
    preserver: &NamePreserver,
    expr: Expr,
    rewrite: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut one = |expr: Expr| -> Result<Transformed<Expr>> {
        let name = preserver.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    match expr {
        Expr::GroupingSet(_) => expr.map_children(one),
        expr => one(expr),
    }
}

/// Returns what an expression of GROUP BY groups by: itself, or the keys of its grouping sets.
pub fn keys_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::GroupingSet(GroupingSet::Rollup(keys) | GroupingSet::Cube(keys)) => keys.iter_mut().collect(),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().collect(),
        other => vec![other],
    }
}
