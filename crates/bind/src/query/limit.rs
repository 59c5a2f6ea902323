//! LIMIT, OFFSET and FETCH. Those of a percentage, of a subquery and with ties count rows
//! (`order::percent_limit`).

use crate::order::percent_limit;
use crate::query::expression::{self, Names};
use crate::query::refusal::unsupported;
use crate::query::rows::Rows;
use crate::query::scope::Scope;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, LimitClause, Query};

/// Returns those rows of a query that its limits leave.
///
/// # Errors
/// `Unsupported` for clauses of other databases; those of the expressions.
pub fn bind(rows: Rows, query: &Query, scope: &Scope<'_>) -> Result<Rows> {
    if !query.pipe_operators.is_empty() {
        return Err(unsupported("|>"));
    }
    let (skip, fetch) = match &query.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
            if !limit_by.is_empty() {
                return Err(unsupported("LIMIT … BY"));
            }
            (offset.as_ref().map(|offset| &offset.value), limit.as_ref())
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(offset), Some(limit)),
    };
    let fetch = match &query.fetch {
        None => fetch,
        Some(fetch) if fetch.with_ties || fetch.percent => return Err(unsupported("this form of FETCH")),
        Some(fetch) => fetch.quantity.as_ref(),
    };
    if skip.is_none() && fetch.is_none() {
        return Ok(rows);
    }
    let skip = number(skip, scope, "OFFSET")?;
    let fetch = number(fetch, scope, "LIMIT")?;
    let Rows { plan, names } = rows;
    let limited = LogicalPlanBuilder::from(plan).limit_by_expr(skip, fetch)?.build()?;
    Ok(Rows { plan: percent_limit::with_count(limited)?, names })
}

/// Binds a number of rows, which no column of the query tells.
fn number(expr: Option<&SqlExpr>, scope: &Scope<'_>, clause: &str) -> Result<Option<Expr>> {
    expr.map(|expr| expression::condition(expr, &Names::of(scope), clause)).transpose()
}
