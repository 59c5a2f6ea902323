//! Binds queries: a walk over the syntax tree with scopes of our own, in which each name is looked up once.
//!
//! A query becomes a plan and the names of its columns (`rows`). Only expressions without names are left to
//! DataFusion's planner (`expression`): each name and each subquery of one is bound here, and stands in it as
//! a column of its own. docs/decisions/0037 has the design.
//!
//! [`bind_query`] binds those of a session, for `steps` and `insert`. A query is bound in the order of its
//! clauses: `with`, then `select` or `set_operation` with `order`, then `limit`. `select` has the order of
//! those within it. `scope`, `frame`, `rows` and `parts` have the types that the files of clauses share.

mod columns;
mod expression;
mod frame;
mod from;
mod group;
mod join;
mod limit;
mod order;
mod parts;
mod refusal;
mod rows;
pub mod scope;
mod select;
mod set_operation;
mod star;
mod subquery;
#[cfg(test)]
mod tests;
mod unnest;
mod values;
mod window;
mod with;

use crate::query::rows::Rows;
use crate::query::scope::{Scope, Tables};
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::sql::sqlparser::ast::{Query, SetExpr};
use hypostyle_error::external;
use hypostyle_sql::set_orders::check_keys;
use std::collections::HashSet;
use std::sync::Arc;

/// Binds a query of a session.
///
/// # Errors
/// Those of [`bind`], and of the session's catalogs.
pub async fn bind_query(state: &SessionState, query: &Query) -> Result<LogicalPlan> {
    let tables = Tables::read(state, query, bound).await?;
    bind(query, &Scope::new(&tables))
}

/// Binds a query at a place of a statement. The plan's columns have the names that the query gives them, also
/// where several have one.
///
/// # Errors
/// `UnknownName` for what there is not, `Syntax` for what means nothing, and those of DataFusion.
pub fn bind(query: &Query, scope: &Scope<'_>) -> Result<LogicalPlan> {
    let Rows { plan, names } = scope.rows(query)?;
    if plan.schema().fields().iter().map(|field| field.name()).eq(&names) {
        return Ok(plan);
    }
    // Equal names may stand beside each other only in different relations.
    let differ = names.iter().collect::<HashSet<_>>().len() == names.len();
    let columns = plan.schema().columns().into_iter().zip(names).enumerate();
    let named = columns.map(|(place, (column, name))| {
        let relation = (!differ).then(|| TableReference::bare(place.to_string()));
        Expr::Column(column).alias_qualified(relation, name)
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(plan))?))
}

/// Binds the parts of a query in their order, at a place of its own.
fn bound(query: &Query, scope: &Scope<'_>) -> Result<Rows> {
    let scope = with::defined(query.with.as_ref(), scope)?;
    let rows = match query.body.as_ref() {
        SetExpr::Table(table) => {
            let all = set_operation::of_table(table)?;
            scope.rows(&Query { order_by: query.order_by.clone(), ..all })?
        }
        SetExpr::Select(select) => select::bind(select, query.order_by.as_ref(), &scope)?,
        body => {
            let rows = set_operation::bind(body, &scope)?;
            if matches!(body, SetExpr::SetOperation { .. } | SetExpr::Query(_)) {
                check_keys(query, &rows.names).map_err(external)?;
            }
            order::of_result(rows, query.order_by.as_ref(), &scope)?
        }
    };
    limit::bind(rows, query, &scope)
}
