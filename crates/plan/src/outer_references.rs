//! The columns that a subquery refers to from outside of it, and what is LATERAL.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Says whether an input of a node is LATERAL. Subqueries of expressions are nodes of the same
/// kind, but no inputs.
pub fn is_lateral(node: &LogicalPlan) -> bool {
    node.inputs().into_iter().any(|input| matches!(input, LogicalPlan::Subquery(_)))
}

/// Returns the columns of a schema that a subquery refers to from outside.
pub fn references(plan: &LogicalPlan, schema: &DFSchema) -> Vec<Column> {
    let mut found = Vec::new();
    collect(plan, &|column| schema.has_column(column), &[], &[], &mut found);
    found
}

/// Says whether a plan refers to any columns from outside.
pub fn is_dependent(plan: &LogicalPlan) -> bool {
    let mut found = Vec::new();
    collect(plan, &|_| true, &[], &[], &mut found);
    !found.is_empty()
}

/// Says whether subqueries in the expressions of a subquery refer to columns from outside of it, and not of
/// the rows right around them.
pub fn has_distant_references(subquery: &LogicalPlan) -> bool {
    let mut found = Vec::new();
    let visited = subquery.apply(|node| {
        let inputs = node.inputs();
        let around: Vec<&DFSchema> = inputs.iter().map(|input| input.schema().as_ref()).collect();
        node.apply_subqueries(|inner| {
            collect(inner, &|_| true, &around, &[], &mut found);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    visited.is_err() || !found.is_empty()
}

/// Returns the columns of a schema that what is LATERAL within the tables beside it refers to.
pub fn references_beside(plan: &LogicalPlan, schema: &DFSchema) -> Vec<Column> {
    let mut found = Vec::new();
    collect_beside(plan, schema, &[], &mut found);
    found
}

fn collect_beside(plan: &LogicalPlan, schema: &DFSchema, beside: &[&DFSchema], found: &mut Vec<Column>) {
    match plan {
        LogicalPlan::Subquery(subquery) => {
            collect(&subquery.subquery, &|column| schema.has_column(column), beside, &[], found);
        }
        LogicalPlan::Join(join) => {
            collect_beside(&join.left, schema, beside, found);
            let beside = [beside, &[join.left.schema().as_ref()]].concat();
            collect_beside(&join.right, schema, &beside, found);
        }
        _ => plan.inputs().into_iter().for_each(|input| collect_beside(input, schema, beside, found)),
    }
}

/// Schemas that are `nearer` go before what is sought; those of tables `beside` do so for what is
/// LATERAL.
fn collect(
    plan: &LogicalPlan,
    is_sought: &dyn Fn(&Column) -> bool,
    nearer: &[&DFSchema],
    beside: &[&DFSchema],
    found: &mut Vec<Column>,
) {
    if let LogicalPlan::Subquery(subquery) = plan {
        let nearer = [nearer, beside].concat();
        return collect(&subquery.subquery, is_sought, &nearer, &[], found);
    }
    let inputs = plan.inputs();
    let around = inputs.iter().map(|input| input.schema().as_ref());
    let around: Vec<&DFSchema> = nearer.iter().copied().chain(around).collect();
    let _all = plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            match expr {
                Expr::OuterReferenceColumn(_, column) => {
                    let is_nearer = nearer.iter().any(|schema| schema.has_column(column));
                    if is_sought(column) && !is_nearer && !found.contains(column) {
                        found.push(column.clone());
                    }
                }
                Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. }) => {
                    collect(&subquery.subquery, is_sought, &around, &[], found);
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
    match plan {
        LogicalPlan::Join(join) => {
            collect(&join.left, is_sought, nearer, beside, found);
            let beside = [beside, &[join.left.schema().as_ref()]].concat();
            collect(&join.right, is_sought, nearer, &beside, found);
        }
        _ => inputs.into_iter().for_each(|input| collect(input, is_sought, nearer, beside, found)),
    }
}
