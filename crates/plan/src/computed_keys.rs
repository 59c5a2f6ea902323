//! Keys of windows, and of the order within aggregates, that are computed, such as `PARTITION BY
//! abs(n) > 1`: a projection below makes columns of them. DataFusion derives the order of what is
//! computed from that of its parts, and where it knows nothing of a part, which a function gives,
//! it does not see that rows are sorted by the whole. So do correlated subqueries in ORDER BY and in
//! windows, which DataFusion takes in a projection, and not there; and EXISTS and IN in windows, and all of
//! these in DISTINCT ON and in the order within aggregates.

use crate::subquery_shape::is_test;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, Projection, Sort, SortExpr, Window,
};
use hypostyle_expr::walk::{any_node, contains, has_expression};
use std::sync::Arc;

/// A key, and the name of its column.
type Named = (Expr, String);

/// Computes such keys below windows that follow each other, below an aggregate, and below a sort; `made` of
/// them have been given names in the plan.
pub fn compute_below(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Window(_) => below_windows(plan, made),
        LogicalPlan::Aggregate(aggregate) => below_aggregate(aggregate, made),
        LogicalPlan::Sort(sort) => below_sort(sort, made),
        other => Ok(Transformed::no(other)),
    }
}

/// Returns the plan in which EXISTS and IN of windows, and subqueries of DISTINCT ON and of the order within
/// aggregates, are computed below them.
///
/// # Errors
/// Those of DataFusion.
pub fn subqueries_below(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |node: &LogicalPlan| match node {
        LogicalPlan::Window(_) => has_expression(node, is_test),
        LogicalPlan::Distinct(Distinct::On(_)) => has_expression(node, is_test_or_value),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.iter().flat_map(keys_of).any(|key| contains(key, is_test_or_value))
        }
        _ => false,
    };
    if !any_node(&plan, is_one) {
        return Ok(plan);
    }
    let mut made = 0;
    let moved = plan.transform_down_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Distinct(Distinct::On(on)) => return below_distinct_on(on, &mut made),
            LogicalPlan::Aggregate(aggregate) => return below_ordered(aggregate, &mut made),
            other => other,
        };
        let windows = windows_of(&node);
        let Some(innermost) = windows.last() else { return Ok(Transformed::no(node)) };
        let calls = windows.iter().flat_map(|window| &window.window_expr);
        let tests = subqueries(calls, innermost.input.schema(), &mut made, is_test)?;
        let computed = over_columns(&node, &windows, &[], &tests)?;
        Ok(computed.map_or_else(|| Transformed::no(node), Transformed::yes))
    });
    Ok(moved?.data)
}

fn below_ordered(aggregate: Aggregate, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let keys = aggregate.aggr_expr.iter().flat_map(keys_of);
    let found = subqueries(keys, aggregate.input.schema(), made, is_test_or_value)?;
    if found.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let preserver = NamePreserver::new_for_projection();
    let calls = aggr_expr.into_iter().map(|call| -> Result<Expr> {
        let name = preserver.save(&call);
        Ok(name.restore(without_subqueries(call, &found)?))
    });
    let calls = calls.collect::<Result<_>>()?;
    let aggregate = Aggregate::try_new(Arc::new(with_keys(&input, &found)?), group_expr, calls)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

fn below_distinct_on(on: DistinctOn, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let order = on.sort_expr.iter().flatten().map(|key| &key.expr);
    let exprs = on.on_expr.iter().chain(&on.select_expr).chain(order);
    let found = subqueries(exprs, on.input.schema(), made, is_test_or_value)?;
    if found.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
    let preserver = NamePreserver::new_for_projection();
    let keys = on_expr.into_iter().map(|key| without_subqueries(key, &found)).collect::<Result<_>>()?;
    let items = select_expr.into_iter().map(|item| -> Result<Expr> {
        let name = preserver.save(&item);
        Ok(name.restore(without_subqueries(item, &found)?))
    });
    let items = items.collect::<Result<_>>()?;
    let sorted = |SortExpr { expr, asc, nulls_first }: SortExpr| -> Result<SortExpr> {
        Ok(SortExpr { expr: without_subqueries(expr, &found)?, asc, nulls_first })
    };
    let order = sort_expr.map(|keys| keys.into_iter().map(sorted).collect::<Result<_>>()).transpose()?;
    let on = DistinctOn::try_new(keys, items, order, Arc::new(with_keys(&input, &found)?))?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}

/// Returns the windows that follow each other, from the outermost on.
fn windows_of(mut plan: &LogicalPlan) -> Vec<&Window> {
    let mut windows = Vec::new();
    while let LogicalPlan::Window(window) = plan {
        windows.push(window);
        plan = window.input.as_ref();
    }
    windows
}

fn below_windows(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let windows = windows_of(&plan);
    let Some(innermost) = windows.last() else { return Ok(Transformed::no(plan)) };
    let schema = innermost.input.schema();
    let keys = named(windows.iter().flat_map(|window| &window.window_expr), schema, made);
    let calls = windows.iter().flat_map(|window| &window.window_expr);
    let values = subqueries(calls, schema, made, is_correlated_value)?;
    let computed = over_columns(&plan, &windows, &keys, &values)?;
    Ok(computed.map_or_else(|| Transformed::no(plan), Transformed::yes))
}

/// Returns a plan whose outermost nodes are some windows, over columns for keys and for subqueries; `None`
/// where there are neither.
fn over_columns(
    plan: &LogicalPlan,
    windows: &[&Window],
    keys: &[Named],
    subqueries: &[Named],
) -> Result<Option<LogicalPlan>> {
    let computed = [keys, subqueries].concat();
    let Some(innermost) = windows.last().filter(|_| !computed.is_empty()) else { return Ok(None) };
    let mut rows = with_keys(&innermost.input, &computed)?;
    for window in windows.iter().rev() {
        let exprs = window.window_expr.iter().map(|expr| -> Result<Expr> {
            let expr = by_columns(expr, keys)?;
            let name = NamePreserver::new_for_projection().save(&expr);
            Ok(name.restore(without_subqueries(expr, subqueries)?))
        });
        let exprs = exprs.collect::<Result<_>>()?;
        rows = LogicalPlan::Window(Window::try_new(exprs, Arc::new(rows))?);
    }
    let own = columns_of(plan).collect();
    Ok(Some(LogicalPlan::Projection(Projection::try_new(own, Arc::new(rows))?)))
}

fn below_aggregate(aggregate: Aggregate, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let keys = named(&aggregate.aggr_expr, aggregate.input.schema(), made);
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let rows = with_keys(&aggregate.input, &keys)?;
    let exprs = aggregate.aggr_expr.iter().map(|expr| by_columns(expr, &keys)).collect::<Result<_>>()?;
    let aggregate = Aggregate::try_new(Arc::new(rows), aggregate.group_expr, exprs)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

fn below_sort(mut sort: Sort, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let keys = sort.expr.iter().map(|key| &key.expr);
    let subqueries = subqueries(keys, sort.input.schema(), made, is_correlated_value)?;
    if subqueries.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let own = columns_of(&sort.input).collect();
    sort.input = Arc::new(with_keys(&sort.input, &subqueries)?);
    for key in &mut sort.expr {
        key.expr = without_subqueries(std::mem::take(&mut key.expr), &subqueries)?;
    }
    let sort = Arc::new(LogicalPlan::Sort(sort));
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(own, sort)?)))
}

fn is_correlated_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(query) if !query.outer_ref_columns.is_empty())
}

fn is_test_or_value(expr: &Expr) -> bool {
    is_test(expr) || is_correlated_value(expr)
}

/// The subqueries of a kind in some expressions, each once.
fn subqueries<'a>(
    exprs: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
    made: &mut usize,
    is_one: fn(&Expr) -> bool,
) -> Result<Vec<Named>> {
    let mut found: Vec<Named> = Vec::new();
    for expr in exprs {
        expr.apply(|part| {
            if is_one(part) && found.iter().all(|(known, _)| known != part) {
                found.push((part.clone(), unused("__subquery", std::slice::from_ref(schema), made)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

/// Returns an expression with columns in the place of subqueries.
fn without_subqueries(expr: Expr, subqueries: &[Named]) -> Result<Expr> {
    let replaced = expr.transform_down(|part| {
        Ok(match subqueries.iter().find(|(known, _)| *known == part) {
            Some((_, name)) => Transformed::yes(Expr::Column(Column::new_unqualified(name))),
            None => Transformed::no(part),
        })
    })?;
    Ok(replaced.data)
}

/// The computed keys of some calls, each once.
fn named<'a>(calls: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema, made: &mut usize) -> Vec<Named> {
    let mut keys: Vec<Named> = Vec::new();
    for key in calls.into_iter().flat_map(keys_of) {
        if is_computed(key, schema) && keys.iter().all(|(known, _)| known != key) {
            keys.push((key.clone(), unused("__sort_key", std::slice::from_ref(schema), made)));
        }
    }
    keys
}

/// Returns a name that no column of some schemas has.
pub fn unused(beginning: &str, schemas: &[DFSchema], made: &mut usize) -> String {
    loop {
        *made += 1;
        let name = format!("{beginning}_{made}");
        if !schemas.iter().any(|schema| schema.has_column_with_unqualified_name(&name)) {
            return name;
        }
    }
}

/// Returns rows with columns for keys.
fn with_keys(rows: &Arc<LogicalPlan>, keys: &[Named]) -> Result<LogicalPlan> {
    let computed = keys.iter().map(|(key, name)| key.clone().alias(name));
    let columns = columns_of(rows).chain(computed).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, rows.clone())?))
}

fn columns_of(plan: &LogicalPlan) -> impl Iterator<Item = Expr> {
    plan.schema().columns().into_iter().map(Expr::Column)
}

fn keys_of(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Alias(alias) => keys_of(&alias.expr),
        Expr::WindowFunction(call) => {
            let WindowFunctionParams { partition_by, order_by, .. } = &call.params;
            partition_by.iter().chain(order_by.iter().map(|key| &key.expr)).collect()
        }
        Expr::AggregateFunction(call) => call.params.order_by.iter().map(|key| &key.expr).collect(),
        _ => Vec::new(),
    }
}

/// Says whether a key is computed by a function of columns of a schema.
fn is_computed(key: &Expr, schema: &DFSchema) -> bool {
    contains(key, |expr| matches!(expr, Expr::ScalarFunction(_)))
        && key.column_refs().into_iter().all(|column| schema.has_column(column))
}

/// Returns a call with columns in the place of its keys.
fn by_columns(expr: &Expr, keys: &[Named]) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(expr);
    let column = |key: &mut Expr| {
        if let Some((_, name)) = keys.iter().find(|(known, _)| known == key) {
            *key = Expr::Column(Column::new_unqualified(name));
        }
    };
    let replaced = expr.clone().transform_down(|expr| match expr {
        Expr::WindowFunction(mut call) => {
            let WindowFunction { params: WindowFunctionParams { partition_by, order_by, .. }, .. } =
                call.as_mut();
            partition_by.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)).for_each(column);
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        Expr::AggregateFunction(mut call) => {
            let AggregateFunctionParams { args, order_by, .. } = &mut call.params;
            // What is DISTINCT is ordered by itself.
            args.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)).for_each(column);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(name.restore(replaced.data))
}
