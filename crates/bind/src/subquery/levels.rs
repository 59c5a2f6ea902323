//! Refuses subqueries that use the query around them in unsupported ways. DataFusion would compute
//! them within the subquery, or fail while it runs.

use crate::with::common_table::step_of;
use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};
use hypostyle_error::external;
use hypostyle_expr::walk::{any_node, has_expression};
use hypostyle_types::{Error, ErrorKind};

/// Looks at the subqueries of a plan.
///
/// # Errors
/// `Unsupported` for a volatile function in a subquery of ON; `Syntax` (42P19) for a recursive query that is
/// read in another place than FROM of its own step, twice there, or by an aggregate, which would never end.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Join(join) => refuse_volatile_condition(join)?,
            LogicalPlan::RecursiveQuery(query) => check_step(&query.name, &query.recursive_term)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Returns the subqueries in an expression.
fn subqueries_in(expr: &Expr) -> Result<Vec<Subquery>> {
    let mut found = Vec::new();
    expr.apply(|expr| {
        match expr {
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => found.push(subquery.clone()),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Returns the columns of queries around a subquery that are named in it, or in those within it.
fn free_columns(subquery: &Subquery) -> Result<Vec<Column>> {
    let (mut named, mut schemas) = (Vec::new(), Vec::new());
    subquery.subquery.apply_with_subqueries(|node| {
        schemas.push(node.schema().clone());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    named.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    named.retain(|column| !schemas.iter().any(|schema| schema.has_column(column)));
    Ok(named)
}

/// Finds volatile functions in a subquery of a join's condition about its rows. They would be called
/// for each row of one side, not for each pair of rows.
fn refuse_volatile_condition(join: &Join) -> Result<()> {
    let conditions = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
    for condition in conditions {
        for subquery in subqueries_in(condition)? {
            let is_volatile = |node: &LogicalPlan| has_expression(node, Expr::is_volatile_node);
            if any_node(&subquery.subquery, is_volatile) && !free_columns(&subquery)?.is_empty() {
                let message = "a volatile function is not supported in a subquery of ON that names columns of the \
                               joined tables; compute it in a subquery in FROM";
                return Err(external(Error::unsupported(message)));
            }
        }
    }
    Ok(())
}

/// Looks where the step of a recursive query reads what the step before has given.
fn check_step(name: &str, step: &LogicalPlan) -> Result<()> {
    let is_read = |node: &LogicalPlan| step_of(node).is_some_and(|read| read == name);
    let (mut in_from, mut in_subqueries, mut in_aggregate) = (0, false, false);
    step.apply(|node| {
        if matches!(node, LogicalPlan::RecursiveQuery(inner) if inner.name == name) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let LogicalPlan::Aggregate(aggregate) = node {
            in_aggregate |= !aggregate.aggr_expr.is_empty() && is_read_beside(&aggregate.input, &is_read);
        }
        in_from += usize::from(is_read(node));
        node.apply_subqueries(|subquery| {
            in_subqueries |= any_node(subquery, is_read);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let refused = |why: &str| format!("the recursive query \"{name}\" may not be read {why} by its own step");
    let message = match (in_from, in_subqueries, in_aggregate) {
        (_, true, _) => refused("in a subquery of an expression"),
        (2.., ..) => refused("more than once"),
        (.., true) => format!(
            "the step of the recursive query \"{name}\" has an aggregate; compute it in the query that reads \"{name}\""
        ),
        _ => return Ok(()),
    };
    Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P19")))
}

/// Says whether a query reads a relation itself, and not a query in its FROM: that one has its own columns.
fn is_read_beside(plan: &LogicalPlan, is_read: &impl Fn(&LogicalPlan) -> bool) -> bool {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().any(|input| is_read_beside(input, is_read))
        }
        other => is_read(other),
    }
}
