//! SELECT: its clauses in the order in which they are bound, and what its columns are called.

use crate::query::expression::{self, Item, Names};
use crate::query::order::{By, Key};
use crate::query::refusal::unsupported;
use crate::query::scope::Scope;
use crate::query::{Rows, from, group, order, star, unnest, window};
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::sql::sqlparser::ast::{OrderBy, Select, WindowSpec};
use hypostyle_error::column_name::ONE_OF;
use std::collections::HashSet;
use std::sync::Arc;

/// The expressions of a SELECT that stand behind its groups.
#[derive(Debug, Default)]
pub struct Parts {
    pub items: Vec<Item>,
    pub having: Option<Expr>,
    pub qualify: Option<Expr>,
    /// The keys of DISTINCT ON.
    pub on: Vec<Expr>,
    pub order: Vec<Key>,
}

impl Parts {
    pub fn each(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.order.iter().filter_map(|key| match &key.by {
            By::Expr(expr) => Some(expr),
            By::Item(_) => None,
        });
        let items = self.items.iter().map(|item| &item.expr);
        items.chain(&self.having).chain(&self.qualify).chain(&self.on).chain(keys)
    }

    /// Puts others in the place of all expressions.
    ///
    /// # Errors
    /// Those of the function.
    pub fn map(&mut self, mut other: impl FnMut(Expr) -> Result<Expr>) -> Result<()> {
        let keys = self.order.iter_mut().filter_map(|key| match &mut key.by {
            By::Expr(expr) => Some(expr),
            By::Item(_) => None,
        });
        let items = self.items.iter_mut().map(|item| &mut item.expr);
        let all = items.chain(&mut self.having).chain(&mut self.qualify).chain(&mut self.on).chain(keys);
        for expr in all {
            *expr = other(std::mem::take(expr))?;
        }
        Ok(())
    }
}

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

/// Returns expressions as columns of names that differ. One that is a column of its name stays this column.
pub fn told_apart(items: impl IntoIterator<Item = (String, Expr)>) -> Vec<Expr> {
    let mut taken = HashSet::new();
    let told = items.into_iter().enumerate().map(|(place, (name, expr))| {
        let own = match taken.insert(name.clone()) {
            true => name,
            false => format!("{name}{ONE_OF}{place}"),
        };
        match expr {
            Expr::Column(column) if column.name == own => Expr::Column(column),
            // The name by which a function was called is none that the column has.
            Expr::Alias(Alias { expr, relation: None, metadata: None, .. }) => expr.alias(own),
            other => other.alias(own),
        }
    });
    told.collect()
}

/// Returns the column that such an expression is in the plan that has it.
pub fn column_of(told: &Expr) -> Column {
    match told {
        Expr::Column(column) => column.clone(),
        Expr::Alias(alias) => Column::new(alias.relation.clone(), &alias.name),
        other => Column::new_unqualified(other.schema_name().to_string()),
    }
}
