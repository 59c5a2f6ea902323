//! GROUP BY: its keys and sets, and what may stand beside them (ISO/IEC 9075-2, 7.12): aggregates, the keys
//! themselves, and columns of a table whose primary key is among these.

use crate::query::expression::{self, Names, number_in};
use crate::query::frame::{Frame, Relation};
use crate::query::parts::{Parts, is_literal, replaced};
use crate::query::refusal::{internal, refused, unsupported};
use crate::query::subquery::each_subquery;
use crate::query::unnest;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs, grouping_set_to_exprlist};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Subquery, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, GroupByExpr, GroupByWithModifier};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_error::external;
use hypostyle_plan::unnest::references;
use hypostyle_types::{Error, ErrorKind};
use std::collections::HashSet;
use std::sync::Arc;

/// Keys of a CUBE of which one stands twice: it is written out, as twice as many sets with each.
const TWINS_OF_CUBE_MAX: usize = 12;

/// Binds the keys of GROUP BY; `None` where there is none.
///
/// # Errors
/// `Syntax` (42P10, 42803) for a place that no item has, or an aggregate; those of the expressions.
pub fn keys(group_by: &GroupByExpr, names: &Names<'_>) -> Result<Option<Vec<Expr>>> {
    let (written, modifiers) = match group_by {
        GroupByExpr::All(modifiers) => {
            let items = names.items.iter().map(|item| &item.expr);
            let keys = items.filter(|expr| !is_computed(expr) && !is_literal(expr)).cloned();
            return with_modifiers(keys.collect(), modifiers).map(Some);
        }
        GroupByExpr::Expressions(written, modifiers) if written.is_empty() && modifiers.is_empty() => {
            return Ok(None);
        }
        GroupByExpr::Expressions(written, modifiers) => (written, modifiers),
    };
    let mut keys = Vec::with_capacity(written.len());
    for expr in written {
        match expr {
            SqlExpr::Rollup(sets) => {
                keys.push(Expr::GroupingSet(rollup(single(sets_of(sets, names)?)?)));
            }
            SqlExpr::Cube(sets) => {
                keys.push(Expr::GroupingSet(cube(single(sets_of(sets, names)?)?)?));
            }
            SqlExpr::GroupingSets(sets) => {
                keys.push(Expr::GroupingSet(GroupingSet::GroupingSets(sets_of(sets, names)?)));
            }
            SqlExpr::Tuple(exprs) => {
                for expr in exprs {
                    keys.push(key(expr, names)?);
                }
            }
            expr => keys.push(key(expr, names)?),
        }
    }
    with_modifiers(once(&keys), modifiers).map(Some)
}

/// Says whether an expression has an aggregate or a window function.
fn is_computed(expr: &Expr) -> bool {
    !find_aggregate_exprs(std::iter::once(expr)).is_empty()
        || !find_window_exprs(std::iter::once(expr)).is_empty()
}

fn with_modifiers(keys: Vec<Expr>, modifiers: &[GroupByWithModifier]) -> Result<Vec<Expr>> {
    match modifiers {
        [] => Ok(keys),
        [GroupByWithModifier::Rollup] => Ok(vec![Expr::GroupingSet(rollup(keys))]),
        [GroupByWithModifier::Cube] => Ok(vec![Expr::GroupingSet(cube(keys)?)]),
        _ => Err(unsupported("this clause behind GROUP BY")),
    }
}

/// Binds the keys of sets. Those in parentheses are several of one set.
fn sets_of(sets: &[Vec<SqlExpr>], names: &Names<'_>) -> Result<Vec<Vec<Expr>>> {
    let mut bound = Vec::with_capacity(sets.len());
    for set in sets {
        let mut keys = Vec::with_capacity(set.len());
        for expr in set {
            match expr {
                SqlExpr::Tuple(exprs) => {
                    for expr in exprs {
                        keys.push(key(expr, names)?);
                    }
                }
                SqlExpr::Rollup(_) | SqlExpr::Cube(_) | SqlExpr::GroupingSets(_) => {
                    return Err(unsupported("a grouping set within another one"));
                }
                expr => keys.push(key(expr, names)?),
            }
        }
        bound.push(keys);
    }
    Ok(bound)
}

/// Returns keys without those that stand before them.
fn once(keys: &[Expr]) -> Vec<Expr> {
    let mut once: Vec<Expr> = Vec::with_capacity(keys.len());
    for key in keys {
        if !once.contains(key) {
            once.push(key.clone());
        }
    }
    once
}

/// Returns the sets of a ROLLUP. One that has a key twice is written out: each set has it once.
fn rollup(keys: Vec<Expr>) -> GroupingSet {
    match once(&keys).len() == keys.len() {
        true => GroupingSet::Rollup(keys),
        false => {
            GroupingSet::GroupingSets((0..=keys.len()).rev().map(|count| once(&keys[..count])).collect())
        }
    }
}

/// Returns the sets of a CUBE, as those of a ROLLUP.
fn cube(keys: Vec<Expr>) -> Result<GroupingSet> {
    if once(&keys).len() == keys.len() {
        return Ok(GroupingSet::Cube(keys));
    }
    if keys.len() > TWINS_OF_CUBE_MAX {
        return Err(unsupported("so large a CUBE with a key that stands twice"));
    }
    let set = |chosen: u32| {
        let of_set = keys.iter().enumerate().filter(|(place, _)| chosen & (1 << place) != 0);
        once(&of_set.map(|(_, key)| key.clone()).collect::<Vec<_>>())
    };
    Ok(GroupingSet::GroupingSets((0..1_u32 << keys.len()).rev().map(set).collect()))
}

/// Returns the keys of ROLLUP and CUBE. Lists among them have been written out as sets.
fn single(sets: Vec<Vec<Expr>>) -> Result<Vec<Expr>> {
    match sets.iter().all(|set| set.len() == 1) {
        true => Ok(sets.into_iter().flatten().collect()),
        false => Err(unsupported("so large a ROLLUP or CUBE of lists")),
    }
}

/// Binds a key: a number is the place of an item.
fn key(expr: &SqlExpr, names: &Names<'_>) -> Result<Expr> {
    let key = match number_in(expr) {
        Some(number) => {
            let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            let item = place.and_then(|place| names.items.get(place)).ok_or_else(|| {
                refused("42P10", format!("GROUP BY position {number} is not in the SELECT list"))
            })?;
            item.expr.clone()
        }
        None => expression::bind(expr, names)?,
    };
    if !find_window_exprs(std::iter::once(&key)).is_empty() {
        return Err(refused("42P20", "window functions are not allowed in GROUP BY"));
    }
    match is_computed(&key) {
        true => Err(refused("42803", "aggregates are not allowed in GROUP BY")),
        false => Ok(key),
    }
}

/// Makes the groups of a SELECT that has any. What is computed by them becomes columns in its parts.
///
/// # Errors
/// `Syntax` (42803) for a column that is neither a key nor decided by some; those of DataFusion.
pub fn bind(frame: &Frame, keys: Option<Vec<Expr>>, parts: &mut Parts) -> Result<LogicalPlan> {
    let moved = frame.aggregates.take();
    let is_one = parts.having.is_some() || !moved.is_empty();
    if keys.is_none() && !is_one && find_aggregate_exprs(parts.each()).is_empty() {
        return Ok(frame.plan.clone());
    }
    let (rows, mut keys) = unnest::among_keys(frame.plan.clone(), keys.unwrap_or_default(), parts)?;
    let rows = Arc::new(rows);
    let mut aggregates = find_aggregate_exprs(parts.each());
    aggregates.iter().chain(moved.iter().map(|(call, _)| call)).try_for_each(refuse_nested)?;
    if keys.is_empty() && aggregates.is_empty() && moved.is_empty() {
        // All rows are one group, of which nothing is asked.
        aggregates.push(count(lit(1_i64)));
    }
    let groups = Groups::of(&rows, &keys, &aggregates, &moved)?;
    parts.map(|expr| match groups.literals.iter().find(|(of, _)| *of == expr) {
        Some((_, column)) => Ok(column.clone()),
        None => replaced(expr, &groups.pairs),
    })?;
    let computed = groups.seen_within(frame)?;
    if !computed.is_empty() {
        parts.map(|expr| in_subqueries(expr, &computed))?;
    }
    let others = others_than(parts, frame, groups.plan.schema())?;
    if others.is_empty() {
        return Ok(groups.plan);
    }
    let more = decided(frame, &keys, others)?;
    keys.extend(more.into_iter().map(Expr::Column));
    Ok(Groups::of(&rows, &keys, &aggregates, &moved)?.plan)
}

/// Refuses an aggregate of an aggregate, or of a window function.
fn refuse_nested(aggregate: &Expr) -> Result<()> {
    let within: Vec<&Expr> = match aggregate {
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            let order = params.order_by.iter().map(|key| &key.expr);
            params.args.iter().chain(params.filter.as_deref()).chain(order).collect()
        }
        _ => Vec::new(),
    };
    if !find_aggregate_exprs(within.iter().copied()).is_empty() {
        return Err(refused(
            "42803",
            "aggregates cannot be nested; compute the inner one in a subquery in FROM",
        ));
    }
    if !find_window_exprs(within).is_empty() {
        let message = "aggregates cannot be of window functions; compute these in a subquery in FROM";
        return Err(refused("42803", message));
    }
    Ok(())
}

/// Groups, and the columns that they have for keys and aggregates.
struct Groups {
    plan: LogicalPlan,
    pairs: Vec<(Expr, Expr)>,
    /// Keys of sets that are literals, which the same literals within expressions are not.
    literals: Vec<(Expr, Expr)>,
}

impl Groups {
    fn of(
        rows: &Arc<LogicalPlan>,
        keys: &[Expr],
        aggregates: &[Expr],
        moved: &[(Expr, String)],
    ) -> Result<Self> {
        let has_sets = keys.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
        let mut taken = HashSet::new();
        // DataFusion calls some alike that differ, as a value and what it is cast to.
        let mut named = |(expr, place): (&Expr, usize)| {
            let name = expr.schema_name().to_string();
            match taken.insert(name.clone()) {
                true => expr.clone(),
                false => expr.clone().alias(format!("{name}{ONE_OF}{place}")),
            }
        };
        let own_keys = match has_sets {
            true => keys.to_vec(),
            // Keys that are added behind them leave the names as they are.
            false => keys.iter().zip(aggregates.len()..).map(&mut named).collect(),
        };
        let calls: Vec<Expr> = aggregates.iter().zip(0..).map(&mut named).collect();
        let moved = moved.iter().map(|(call, name)| call.clone().alias(name));
        let all = calls.iter().cloned().chain(moved).collect::<Vec<_>>();
        let computed = all.len();
        let aggregate = Aggregate::try_new(rows.clone(), own_keys, all)?;
        let schema = aggregate.schema.clone();
        let column = |place: usize| Expr::Column(Column::from(schema.qualified_field(place)));
        let sources: Vec<Expr> = match has_sets {
            true => grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect(),
            false => keys.to_vec(),
        };
        let first = schema.fields().len() - computed;
        let mut pairs: Vec<(Expr, Expr)> = Vec::with_capacity(sources.len() + calls.len());
        let mut literals = Vec::new();
        for (place, key) in sources.into_iter().enumerate() {
            match is_literal(&key) {
                true => literals.push((key, column(place))),
                false => pairs.push((key, column(place))),
            }
        }
        // A literal is the same in each group, but NULL where its key is in no set.
        literals.retain(|_| has_sets);
        for (place, call) in aggregates.iter().enumerate() {
            pairs.push((call.clone(), column(first + place)));
        }
        Ok(Self { plan: LogicalPlan::Aggregate(aggregate), pairs, literals })
    }
}

impl Groups {
    /// Returns the keys that are computed, as one that a FULL JOIN merges, and their columns, as subqueries
    /// name them.
    fn seen_within(&self, frame: &Frame) -> Result<Vec<(Expr, Expr)>> {
        let is_computed = |key: &Expr| {
            !matches!(key, Expr::Column(_) | Expr::AggregateFunction(_)) && !key.column_refs().is_empty()
        };
        let schema = self.plan.schema();
        let seen = |(key, column): &(Expr, Expr)| {
            let Expr::Column(column) = column else { return Err(internal("a key that is no column")) };
            let (_, field) = schema.qualified_field_from_column(column)?;
            let column = Expr::OuterReferenceColumn(field.clone(), column.clone());
            Ok((frame.outer(key.clone())?, column))
        };
        self.pairs.iter().filter(|(key, _)| is_computed(key)).map(seen).collect()
    }
}

/// Returns an expression in whose subqueries others stand in the place of some.
fn in_subqueries(expr: Expr, pairs: &[(Expr, Expr)]) -> Result<Expr> {
    let within = |subquery: Subquery| {
        let plan = Arc::unwrap_or_clone(subquery.subquery);
        let plan = plan.transform_down_with_subqueries(|node| {
            node.map_expressions(|expr| Ok(Transformed::yes(replaced(expr, pairs)?)))
        })?;
        let plan = plan.data;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok::<_, DataFusionError>(Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery })
    };
    let changed = expr.transform_down(|part| {
        Ok(Transformed::yes(match part {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(within(subquery)?),
            Expr::Exists(exists) => {
                Expr::Exists(Exists { subquery: within(exists.subquery)?, negated: exists.negated })
            }
            Expr::InSubquery(of) => Expr::InSubquery(InSubquery { subquery: within(of.subquery)?, ..of }),
            Expr::SetComparison(of) => {
                Expr::SetComparison(SetComparison { subquery: within(of.subquery)?, ..of })
            }
            other => return Ok(Transformed::no(other)),
        }))
    });
    changed.data()
}

/// A column of the rows that the groups have not.
struct Other {
    column: Column,
    is_in_subquery: bool,
}

/// Returns the columns of the rows that the parts name beside groups.
fn others_than(parts: &Parts, frame: &Frame, groups: &DFSchema) -> Result<Vec<Other>> {
    let mut found: Vec<Other> = Vec::new();
    let mut add = |column: Column, is_in_subquery: bool| {
        if !groups.has_column(&column) && found.iter().all(|other| other.column != column) {
            found.push(Other { column, is_in_subquery });
        }
    };
    let rows = frame.plan.schema();
    for expr in parts.each() {
        let mut named: Vec<&Column> = expr.column_refs().into_iter().collect();
        named.sort();
        named.into_iter().for_each(|column| add(column.clone(), false));
        each_subquery(expr, &mut |subquery| {
            references(subquery, rows).into_iter().for_each(|column| add(column, true));
            Ok(())
        })?;
    }
    Ok(found)
}

/// Returns the columns that keys decide: each row of a table has one value of its primary key.
fn decided(frame: &Frame, keys: &[Expr], others: Vec<Other>) -> Result<Vec<Column>> {
    let is_decided = |column: &Column| {
        let is_of = |relation: &&Relation| {
            let has = |own: &Expr| matches!(own, Expr::Column(own) if own == column);
            relation.columns.iter().any(|seen| has(&seen.expr))
        };
        let is_key =
            |column: &Column| keys.iter().any(|key| matches!(key, Expr::Column(own) if own == column));
        let mut relations = frame.relations.iter().filter(is_of);
        relations.any(|relation| !relation.key.is_empty() && relation.key.iter().all(is_key))
    };
    let others = others.into_iter().map(|other| match is_decided(&other.column) {
        true => Ok(other.column),
        false => Err(not_grouped(frame, &other)),
    });
    others.collect()
}

fn not_grouped(frame: &Frame, other: &Other) -> DataFusionError {
    let shown = frame.written(&other.column);
    let message = match other.is_in_subquery {
        true => format!(
            "column \"{shown}\" is used in a subquery, and must be in GROUP BY around it or within an aggregate function"
        ),
        false => format!("column \"{shown}\" must be in GROUP BY or within an aggregate function"),
    };
    let name = shown.rsplit('.').next().unwrap_or(&shown);
    external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42803").about(name))
}
