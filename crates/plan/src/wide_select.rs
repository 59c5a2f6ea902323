//! Plans `SELECT` of very many columns in a time that grows with their number. For each item of a
//! list, DataFusion's planner writes the names of all items before it, in case one of them unnests
//! something. Here the rows are planned without the list, whose items are planned one by one.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ExprWithAlias, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, Value, WildcardAdditionalOptions,
};
use std::collections::HashSet;

/// Shorter lists are planned by DataFusion.
const WIDE: usize = 256;

/// The name of what stands for the list.
const STAND_IN: &str = "the list";

/// Returns the plan of a query of one relation with a list that is wide, or is all of the relation's
/// columns; `None` where DataFusion is to plan it, which also tells what is wrong.
pub async fn planned(state: &SessionState, statement: &DfStatement) -> Option<LogicalPlan> {
    let DfStatement::Statement(written) = statement else { return None };
    let Statement::Query(query) = written.as_ref() else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    if !is_plain(query, select) {
        return None;
    }
    let mut rows = query.as_ref().clone();
    if let SetExpr::Select(select) = rows.body.as_mut() {
        let one = SqlExpr::value(Value::Number("1".into(), false));
        select.projection =
            vec![SelectItem::ExprWithAlias { expr: one, alias: Ident::with_quote('"', STAND_IN) }];
    }
    let rows = DfStatement::Statement(Box::new(Statement::Query(Box::new(rows))));
    let LogicalPlan::Projection(stand_in) = state.statement_to_plan(rows).await.ok()? else { return None };
    let is_stand_in = stand_in.schema.fields().len() == 1 && stand_in.schema.field(0).name() == STAND_IN;
    let input = is_stand_in.then_some(stand_in.input)?;
    let items = match select.projection.as_slice() {
        [SelectItem::Wildcard(_)] => input.schema().columns().into_iter().map(Expr::Column).collect(),
        items => items_of(state, items, input.schema())?,
    };
    LogicalPlanBuilder::from(input).project(items).and_then(LogicalPlanBuilder::build).ok()
}

/// Says whether a query only selects a list from the rows of one relation.
fn is_plain(query: &Query, select: &Select) -> bool {
    let is_of_rows = query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.pipe_operators.is_empty();
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers) if keys.is_empty() && modifiers.is_empty());
    let selects = select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.exclude.is_none()
        && select.named_window.is_empty();
    let [from] = select.from.as_slice() else { return false };
    let is_one = from.joins.is_empty();
    let is_wanted = match select.projection.as_slice() {
        [SelectItem::Wildcard(options)] => {
            *options == WildcardAdditionalOptions::default()
                && matches!(from.relation, TableFactor::Table { args: None, .. })
        }
        items => items.len() >= WIDE,
    };
    is_of_rows && is_ungrouped && selects && is_one && is_wanted
}

/// Returns the items of a list; `None` if one of them is more than an expression of a row.
fn items_of(state: &SessionState, items: &[SelectItem], schema: &DFSchema) -> Option<Vec<Expr>> {
    let mut names = HashSet::new();
    if !schema.fields().iter().all(|field| names.insert(field.name())) {
        return None;
    }
    let item = |item: &SelectItem| {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr.clone(), None),
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias.clone())),
            _ => return None,
        };
        let planned = state.create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias }, schema).ok()?;
        is_of_a_row(&planned).ok()?.then(|| without_own_name(planned))
    };
    items.iter().map(item).collect()
}

fn is_of_a_row(expr: &Expr) -> Result<bool> {
    let mut is_of_a_row = true;
    expr.apply(|part| {
        is_of_a_row &= !matches!(
            part,
            Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        );
        Ok(if is_of_a_row { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_of_a_row)
}

/// A column that is named as it is called needs no other name.
fn without_own_name(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(Alias { expr, name, .. }) if matches!(expr.as_ref(), Expr::Column(Column { name: own, .. }) if *own == name) => {
            *expr
        }
        other => other,
    }
}
