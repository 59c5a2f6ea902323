//! Refuses subqueries that use the query around them in unsupported ways. DataFusion would compute
//! them within the subquery, or fail while it runs.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use hypostyle_error::{OF_QUERY_AROUND, external};
use hypostyle_expr::walk::any_node;
use hypostyle_types::{Error, ErrorKind};

/// Looks at the subqueries of a plan.
///
/// # Errors
/// `Unsupported` for an aggregate of columns of the query around, which is that query's; `Syntax`
/// (42P19) for a recursive query that is read in another place than FROM of its own step, or twice
/// there.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.aggr_expr.iter().try_for_each(refuse_outer_aggregate)?;
            }
            LogicalPlan::RecursiveQuery(query) => check_step(&query.name, &query.recursive_term)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Finds aggregates that belong to the query around theirs, because they name only its columns
/// (ISO/IEC 9075-2, 6.9).
fn refuse_outer_aggregate(expr: &Expr) -> Result<()> {
    expr.apply(|expr| {
        if let Expr::AggregateFunction(call) = expr
            && expr.contains_outer()
            && expr.column_refs().is_empty()
        {
            let message = format!(
                "{}{OF_QUERY_AROUND}, and is an aggregate of that query, which is not supported here; compute it there, \
                 in a subquery in FROM",
                call.func.name()
            );
            return Err(external(Error::unsupported(message)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Looks where the step of a recursive query reads what the step before has given.
fn check_step(name: &str, step: &LogicalPlan) -> Result<()> {
    let is_read =
        |node: &LogicalPlan| matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == name);
    let (mut in_from, mut in_subqueries) = (0, false);
    step.apply(|node| {
        if matches!(node, LogicalPlan::RecursiveQuery(inner) if inner.name == name) {
            return Ok(TreeNodeRecursion::Jump);
        }
        in_from += usize::from(is_read(node));
        node.apply_subqueries(|subquery| {
            in_subqueries |= any_node(subquery, is_read);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let why = match (in_from, in_subqueries) {
        (_, true) => "in a subquery of an expression",
        (0 | 1, false) => return Ok(()),
        _ => "more than once",
    };
    let message = format!("the recursive query \"{name}\" may not be read {why} by its own step");
    Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P19")))
}
