//! SELECT: its clauses, in the order in which they are bound.

use crate::query::expression::{self, Names};
use crate::query::parts::Parts;
use crate::query::refusal::unsupported;
use crate::query::rows::Rows;
use crate::query::scope::Scope;
use crate::query::{from, group, order, star, unnest, window};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::sql::sqlparser::ast::{OrderBy, Select, WindowSpec};
use std::sync::Arc;

/// Binds a SELECT, and the ORDER BY of a query that it is.
///
/// # Errors
/// Those of its clauses.
pub fn bind(select: &Select, order: Option<&OrderBy>, scope: &Scope<'_>) -> Result<Rows> {
    check(select)?;
    let mut frame = from::bind(&select.from, scope)?;
    frame.may_group.set(true);
    let windows = window::named(&select.named_window)?;
    let (keys, mut parts, selection) = {
        let inner = scope.over(&frame);
        let (keys, parts) = parts_of(select, order, &inner, &windows)?;
        frame.may_group.set(false);
        let names = Names { items: &parts.items, ..Names::of(&inner) };
        let selection = select.selection.as_ref().map(|expr| expression::condition(expr, &names, "WHERE"));
        (keys, parts, selection.transpose()?)
    };
    if let Some(selection) = selection {
        frame.plan = filtered(frame.plan, selection)?;
    }
    let mut plan = group::bind(&frame, keys, &mut parts)?;
    if let Some(having) = parts.having.take() {
        plan = filtered(plan, having)?;
    }
    plan = window::bind(plan, &mut parts)?;
    if let Some(qualify) = parts.qualify.take() {
        plan = filtered(plan, qualify)?;
    }
    plan = unnest::bind(plan, &mut parts)?;
    order::project(plan, parts, select.distinct.as_ref())
}

/// Refuses clauses of other databases.
fn check(select: &Select) -> Result<()> {
    let clauses = [
        ("TOP", select.top.is_some()),
        ("LATERAL VIEW", !select.lateral_views.is_empty()),
        ("CLUSTER BY", !select.cluster_by.is_empty()),
        ("DISTRIBUTE BY", !select.distribute_by.is_empty()),
        ("SORT BY", !select.sort_by.is_empty()),
        ("CONNECT BY", !select.connect_by.is_empty()),
        ("PREWHERE", select.prewhere.is_some()),
        ("SELECT INTO", select.into.is_some()),
        ("EXCLUDE behind a list", select.exclude.is_some()),
    ];
    match clauses.into_iter().find(|(_, is_there)| *is_there) {
        Some((clause, _)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}

/// Binds the keys of GROUP BY, and what stands behind them.
fn parts_of(
    select: &Select,
    order: Option<&OrderBy>,
    scope: &Scope<'_>,
    windows: &[(String, WindowSpec)],
) -> Result<(Option<Vec<Expr>>, Parts)> {
    let items = star::items(select, &Names { windows, ..Names::of(scope) })?;
    let names = Names { scope, items: &items, around_first: false, windows };
    let keys = group::keys(&select.group_by, &names)?;
    let having = select.having.as_ref().map(|expr| expression::bind(expr, &names)).transpose()?;
    let qualify = select.qualify.as_ref().map(|expr| expression::bind(expr, &names)).transpose()?;
    let on = order::distinct_keys(select.distinct.as_ref(), &names)?;
    let order = order::keys(order, &names)?;
    Ok((keys, Parts { items, having, qualify, on, order }))
}

/// Returns the rows of a plan for which a condition holds.
///
/// # Errors
/// That of DataFusion for a condition that is no BOOLEAN.
pub fn filtered(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter)
}
