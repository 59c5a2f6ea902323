//! ORDER BY, DISTINCT and DISTINCT ON: keys by place, by name and by expression, and the projection of a
//! SELECT, in which keys that are no items are computed beside these.

use crate::query::expression::{self, Names, name_in, number_in};
use crate::query::frame::{Frame, Seen};
use crate::query::parts::{By, Item, Key, Parts, column_of, is_literal, replaced, told_apart};
use crate::query::refusal::{refused, unsupported};
use crate::query::rows::Rows;
use crate::query::scope::Scope;
use crate::query::subquery::each_subquery;
use datafusion::common::Column;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, Projection, Sort, SortExpr};
use datafusion::sql::planner::ParserOptions;
use datafusion::sql::sqlparser::ast::{
    Distinct as SqlDistinct, Expr as SqlExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_sql::identifier::fold;
use std::sync::Arc;

/// Binds the keys of a query whose items have names.
///
/// # Errors
/// `Syntax` (42P10) for a place that no item has; those of the expressions.
pub fn keys(order: Option<&OrderBy>, names: &Names<'_>) -> Result<Vec<Key>> {
    let Some(OrderBy { kind, interpolate }) = order else { return Ok(Vec::new()) };
    if interpolate.is_some() {
        return Err(unsupported("INTERPOLATE"));
    }
    match kind {
        OrderByKind::All(options) => Ok(all(options, names)),
        OrderByKind::Expressions(keys) => match keys.as_slice() {
            [OrderByExpr { expr: SqlExpr::Identifier(name), options, .. }] if means_all(name, names) => {
                Ok(all(options, names))
            }
            keys => keys.iter().map(|one| key(one, names)).collect(),
        },
    }
}

/// Says whether a name is the word ALL.
fn means_all(name: &Ident, names: &Names<'_>) -> bool {
    name.quote_style.is_none() && fold(name) == "all" && names.items.iter().all(|item| item.name != "all")
}

fn all(options: &OrderByOptions, names: &Names<'_>) -> Vec<Key> {
    (0..names.items.len()).map(|place| key_of(By::Item(place), options, names)).collect()
}

fn key_of(by: By, options: &OrderByOptions, names: &Names<'_>) -> Key {
    let ascending = options.asc.unwrap_or(true);
    let state = names.scope.tables.state;
    let nulls_first = options.nulls_first.unwrap_or_else(|| {
        let options = ParserOptions::from(&state.config_options().sql_parser);
        options.default_null_ordering.nulls_first(ascending)
    });
    Key { by, ascending, nulls_first }
}

fn key(key: &OrderByExpr, names: &Names<'_>) -> Result<Key> {
    if key.with_fill.is_some() {
        return Err(unsupported("WITH FILL"));
    }
    let what = match item_in(&key.expr, names, "ORDER BY")? {
        Some(place) => By::Item(place),
        None => {
            let expr = expression::bind(&key.expr, names)?;
            match names.items.iter().position(|item| item.expr == expr) {
                Some(place) => By::Item(place),
                None => By::Expr(expr),
            }
        }
    };
    Ok(key_of(what, &key.options, names))
}

/// Returns the place of the item that a key is by its place or by its name.
fn item_in(key: &SqlExpr, names: &Names<'_>, clause: &str) -> Result<Option<usize>> {
    if let Some(number) = number_in(key) {
        let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
        return match place.filter(|place| *place < names.items.len()) {
            Some(place) => Ok(Some(place)),
            None => {
                let message = format!("{clause} position {number} is not in the SELECT list");
                Err(refused("42P10", message))
            }
        };
    }
    let Some([name]) = name_in(key) else { return Ok(None) };
    let folded = fold(name);
    let mut named = names.items.iter().enumerate().filter(|(_, item)| item.name == folded);
    let Some((place, first)) = named.next() else { return Ok(alike(name, names.items)) };
    if !named.any(|(_, other)| other.expr != first.expr) {
        return Ok(Some(place));
    }
    // A column that a join has merged is what the name means beside those that it is merged of.
    let merged = names.scope.frame().and_then(|frame| frame.merged(name));
    let of_merged = merged.and_then(|merged| names.items.iter().position(|item| item.expr == merged.expr));
    match of_merged.or_else(|| cast_alone(&folded, names.items)) {
        Some(place) => Ok(Some(place)),
        None => {
            let message = format!("{clause} \"{folded}\" is the name of several items of SELECT");
            Err(refused("42702", message))
        }
    }
}

/// Returns the place of an item that all others of its name only cast, as `a` beside `a::TEXT`.
fn cast_alone(name: &str, items: &[Item]) -> Option<usize> {
    let named = || items.iter().enumerate().filter(|(_, item)| item.name == name);
    let is_cast_of = |of: &Expr, expr: &Expr| match expr {
        Expr::Cast(cast) => *cast.expr == *of,
        Expr::TryCast(cast) => *cast.expr == *of,
        other => other == of,
    };
    let mut alone = named().filter(|(_, one)| named().all(|(_, other)| is_cast_of(&one.expr, &other.expr)));
    alone.next().map(|(place, _)| place)
}

/// Returns the only item whose name differs in capitals from one without quotes.
fn alike(name: &Ident, items: &[Item]) -> Option<usize> {
    let folded = fold(name);
    let is_alike = |(_, item): &(usize, &Item)| item.name.to_lowercase() == folded;
    let mut alike = items.iter().enumerate().filter(is_alike);
    match (alike.next(), alike.next()) {
        (Some((place, _)), None) if name.quote_style.is_none() => Some(place),
        _ => None,
    }
}

/// Binds the keys of DISTINCT ON.
///
/// # Errors
/// Those of [`keys`].
pub fn distinct_keys(distinct: Option<&SqlDistinct>, names: &Names<'_>) -> Result<Vec<Expr>> {
    let Some(SqlDistinct::On(written)) = distinct else { return Ok(Vec::new()) };
    let mut keys: Vec<Expr> = Vec::with_capacity(written.len());
    for key in written {
        let key = match item_in(key, names, "DISTINCT ON")? {
            Some(place) => names.items[place].expr.clone(),
            None => expression::bind(key, names)?,
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Returns the rows of a SELECT, in their order.
///
/// # Errors
/// `Syntax` (42P10) for a key that DISTINCT does not have; those of DataFusion.
pub fn project(plan: LogicalPlan, parts: Parts, distinct: Option<&SqlDistinct>) -> Result<Rows> {
    let Parts { items, on, order, .. } = parts;
    let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    let outputs = told_apart(items.iter().map(|item| (item.name.clone(), item.expr.clone())));
    if !on.is_empty() {
        let plan = distinct_on(plan, on, &items, outputs, order)?;
        return Ok(Rows { plan, names });
    }
    let is_distinct = matches!(distinct, Some(SqlDistinct::Distinct));
    let shown = outputs.len();
    let (outputs, keys) = with_keys(&items, outputs, order, is_distinct)?;
    let width = outputs.len();
    let mut plan = LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(plan))?);
    if is_distinct {
        plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
    }
    if !keys.is_empty() {
        plan = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(plan), fetch: None });
    }
    if width > shown {
        let columns = plan.schema().columns().into_iter().take(shown).map(Expr::Column);
        plan = LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(plan))?);
    }
    Ok(Rows { plan, names })
}

/// Returns keys over the items, with those behind the items that are none of them.
fn with_keys(
    items: &[Item],
    mut outputs: Vec<Expr>,
    order: Vec<Key>,
    is_distinct: bool,
) -> Result<(Vec<Expr>, Vec<SortExpr>)> {
    if order.is_empty() {
        return Ok((outputs, Vec::new()));
    }
    let columns: Vec<Column> = outputs.iter().map(column_of).collect();
    let pairs = items.iter().zip(&columns).filter(|(item, _)| !is_literal(&item.expr));
    let pairs: Vec<(Expr, Expr)> =
        pairs.map(|(item, column)| (item.expr.clone(), Expr::Column(column.clone()))).collect();
    let mut keys = Vec::with_capacity(order.len());
    for Key { by, ascending, nulls_first } in order {
        let key = match by {
            By::Item(place) => Expr::Column(columns[place].clone()),
            By::Expr(expr) => {
                let over = replaced(expr.clone(), &pairs)?;
                if is_over(&over, &columns)? {
                    over
                } else if is_distinct {
                    return Err(no_item());
                } else {
                    let hidden = hidden_item(expr, &columns, outputs.len());
                    let key = Expr::Column(column_of(&hidden));
                    if !outputs.contains(&hidden) {
                        outputs.push(hidden);
                    }
                    key
                }
            }
        };
        keys.push(key.sort(ascending, nulls_first));
    }
    Ok((outputs, keys))
}

/// Returns a key that is computed behind items, at a place. A column keeps its name, if no item has it.
fn hidden_item(key: Expr, items: &[Column], place: usize) -> Expr {
    match key {
        Expr::Column(column) if items.iter().all(|item| item.name != column.name) => Expr::Column(column),
        other => other.alias(format!("key{ONE_OF}{place}")),
    }
}

fn no_item() -> DataFusionError {
    refused("42P10", "for SELECT DISTINCT, the expressions of ORDER BY must appear in select list")
}

/// Says whether an expression is of some columns alone, and has no subqueries.
fn is_over(expr: &Expr, columns: &[Column]) -> Result<bool> {
    let mut has_subquery = false;
    each_subquery(expr, &mut |_| {
        has_subquery = true;
        Ok(())
    })?;
    Ok(!has_subquery && expr.column_refs().into_iter().all(|column| columns.contains(column)))
}

/// Returns keys as those of the rows that items are computed of.
fn sorts(keys: Vec<Key>, items: &[Item]) -> Vec<SortExpr> {
    let sort = |Key { by, ascending, nulls_first }: Key| {
        let expr = match by {
            By::Item(place) => items[place].expr.clone(),
            By::Expr(expr) => expr,
        };
        expr.sort(ascending, nulls_first)
    };
    keys.into_iter().map(sort).collect()
}

/// Returns the first rows of equal keys in an order. The order begins with these keys, in any order, each as
/// often as it may be.
fn distinct_on(
    plan: LogicalPlan,
    mut on: Vec<Expr>,
    items: &[Item],
    outputs: Vec<Expr>,
    order: Vec<Key>,
) -> Result<LogicalPlan> {
    let (mut first, mut behind): (Vec<SortExpr>, Vec<SortExpr>) = (Vec::new(), Vec::new());
    for sort in sorts(order, items) {
        let is_known = first.iter().any(|known| known.expr == sort.expr);
        match (first.len() < on.len(), on.contains(&sort.expr)) {
            _ if is_known => {}
            (true, true) => first.push(sort),
            (true, false) => {
                return Err(refused("42P10", "DISTINCT ON must match initial ORDER BY expressions"));
            }
            (false, _) => behind.push(sort),
        }
    }
    let sort = match first.is_empty() {
        true => None,
        false => {
            // Keys that are left out at the end are in whatever order.
            on.retain(|key| first.iter().all(|sort| sort.expr != *key));
            first.extend(on.drain(..).map(|key| key.sort(true, false)));
            on = first.iter().map(|sort| sort.expr.clone()).collect();
            Some(first.into_iter().chain(behind).collect())
        }
    };
    Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on, outputs, sort, Arc::new(plan))?)))
}

/// Orders the result of a query that is no SELECT: its keys name columns of the result.
///
/// # Errors
/// Those of [`keys`].
pub fn of_result(rows: Rows, order: Option<&OrderBy>, scope: &Scope<'_>) -> Result<Rows> {
    if order.is_none() {
        return Ok(rows);
    }
    let Rows { plan, names } = rows;
    let of_column = |(name, column): (&String, Column)| {
        let place = plan.schema().index_of_column(&column)?;
        let field = plan.schema().field(place).clone();
        Ok::<_, DataFusionError>(Seen { name: name.clone(), expr: Expr::Column(column), field })
    };
    let columns = names.iter().zip(plan.schema().columns()).map(of_column).collect::<Result<Vec<_>>>()?;
    let items: Vec<Item> =
        columns.iter().map(|seen| Item { name: seen.name.clone(), expr: seen.expr.clone() }).collect();
    let frame = Frame::new(plan, columns, Vec::new());
    let expr = {
        let outermost = Scope::new(scope.tables);
        let inner = outermost.over(&frame);
        let names = Names { items: &items, around_first: false, ..Names::of(&inner) };
        let keys = keys(order, &names)?;
        sorts(keys, &items)
    };
    let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(frame.plan), fetch: None });
    Ok(Rows { plan, names })
}
