//! Columns that JOIN … USING merges (ISO/IEC 9075-2, 7.10). A name without its table stands for the
//! left value if that is not NULL, and otherwise for the right one. DataFusion takes it for the
//! left one, or for a column of several tables.

use crate::call::call;
use crate::identifier::fold;
use crate::plain::constraint_of_mut;
use crate::references::names_in;
use crate::walk::{Part, checked, done, walk_mut};
use hypostyle_types::{Error, Result};
use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SetExpr, Statement,
    TableFactor, TableWithJoins, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Writes merged columns as what they stand for.
///
/// # Errors
/// `Unsupported` for an outer join of which a table has no name.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Merging))
}

/// The expression for each merged column.
type Merged = HashMap<String, MergedColumn>;

#[derive(Clone)]
struct MergedColumn {
    value: Expr,
    is_left: bool,
    /// Says whether the values of both tables are the same. For others, `*` takes any.
    is_same: bool,
}

struct Merging;

impl VisitorMut for Merging {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let merged = match merged_in(&select.from) {
            Ok(merged) if merged.is_empty() => return ControlFlow::Continue(()),
            Ok(merged) => merged,
            Err(error) => return ControlFlow::Break(error),
        };
        let shown = outputs(select);
        write_select(select, &merged);
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                // A name alone is first looked for among the columns of the result.
                let is_shown = matches!(&key.expr, Expr::Identifier(name) if shown.as_ref().is_none_or(|shown| shown.contains(&fold(name))));
                if !is_shown {
                    write(&mut key.expr, &merged);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // This is a SELECT of a set operation; those of queries are rewritten already.
        match merged_in(&select.from) {
            Ok(merged) => {
                write_select(select, &merged);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Returns the names of a query's columns; `None` where there are all of a table's.
fn outputs(select: &Select) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => names.push(fold(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => names.push(fold(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => names.extend(parts.last().map(fold)),
            SelectItem::UnnamedExpr(_) => {}
            _ => return None,
        }
    }
    Some(names)
}

/// Returns what a merged column of some tables stands for.
pub fn merged_value(from: &[TableWithJoins], name: &str) -> Option<Expr> {
    merged_in(from).ok()?.remove(name).map(|column| column.value)
}

fn merged_in(from: &[TableWithJoins]) -> Result<Merged> {
    let mut merged = Merged::new();
    for tables in from {
        let mut left = called(&tables.relation);
        for (place, join) in tables.joins.iter().enumerate() {
            merge(join, &mut merged, left.as_ref().filter(|_| place == 0))?;
            if place == 0 {
                left = None;
            }
        }
    }
    Ok(merged)
}

/// Returns what a query calls a table.
pub fn called(table: &TableFactor) -> Option<Vec<Ident>> {
    let parts = |name: &ObjectName| name.0.iter().map(|part| part.as_ident().cloned()).collect();
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, alias: None, .. } => parts(name),
        _ => None,
    }
}

/// Returns the columns that a join merges, and whether each side has a value in all of its rows.
fn merging(operator: &JoinOperator) -> Option<(&[ObjectName], bool, bool)> {
    use JoinOperator as Kind;
    let (constraint, keeps_left, keeps_right) = match operator {
        Kind::Join(constraint) | Kind::Inner(constraint) => (constraint, true, true),
        Kind::Left(constraint) | Kind::LeftOuter(constraint) => (constraint, true, false),
        Kind::Right(constraint) | Kind::RightOuter(constraint) => (constraint, false, true),
        Kind::FullOuter(constraint) => (constraint, false, false),
        _ => return None,
    };
    match constraint {
        JoinConstraint::Using(columns) => Some((columns.as_slice(), keeps_left, keeps_right)),
        _ => None,
    }
}

/// Takes in the columns of one join; `left` is the only table on its left, if there is only one.
fn merge(join: &Join, merged: &mut Merged, left: Option<&Vec<Ident>>) -> Result<()> {
    let Some((columns, keeps_left, keeps_right)) = merging(&join.join_operator) else { return Ok(()) };
    for column in columns {
        let Some(name) = column.0.last().and_then(|part| part.as_ident()).filter(|_| column.0.len() == 1)
        else {
            continue;
        };
        let of =
            |table: &[Ident]| Expr::CompoundIdentifier(table.iter().cloned().chain([name.clone()]).collect());
        let before = merged.get(&fold(name)).cloned();
        let is_left = keeps_left && before.as_ref().is_none_or(|before| before.is_left);
        let is_same = keeps_left && keeps_right && before.as_ref().is_none_or(|before| before.is_same);
        let left = before.map(|before| before.value).or_else(|| left.map(|left| of(left)));
        let right = called(&join.relation).map(|right| of(&right));
        let value = match (left, right) {
            (Some(left), _) if keeps_left => left,
            (_, Some(right)) if keeps_right => right,
            (Some(left), Some(right)) => call("coalesce", vec![left, right]),
            _ if keeps_left => continue,
            _ => {
                return Err(Error::unsupported(format!(
                    "a RIGHT or FULL JOIN with USING ({name}) is of two tables with names; write ON, and coalesce"
                )));
            }
        };
        merged.insert(fold(name), MergedColumn { value, is_left, is_same });
    }
    Ok(())
}

/// Writes USING as ON where the planner would not find the column that is meant: where one is merged for
/// the third time, and is in several tables then; and where an outer join has made it of two columns, or
/// makes it now. Names of merged columns, and `*`, have been written out.
///
/// # Errors
/// `Unsupported` where the condition cannot be written.
pub fn write_chains_out(statement: &mut Statement) -> Result<()> {
    checked(walk_mut(statement, &mut Chains))
}

struct Chains;

impl VisitorMut for Chains {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let is_written = !select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        done(select.from.iter_mut().try_for_each(|tables| write_chain_out(tables, is_written)))
    }
}

/// Writes the conditions of some tables; those that are needed only, where `*` is not written out.
fn write_chain_out(tables: &mut TableWithJoins, is_written: bool) -> Result<()> {
    let mut merged = Merged::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut left = called(&tables.relation);
    for join in &mut tables.joins {
        let condition = condition_of(join, &merged, &mut times)?;
        if merge(join, &mut merged, left.take().as_ref()).is_err() {
            return Ok(());
        }
        let Some(Condition { expr, is_needed }) = condition else { continue };
        if !is_written {
            if is_needed {
                return Err(not_written());
            }
            continue;
        }
        if let Some(constraint) = constraint_of_mut(&mut join.join_operator) {
            *constraint = JoinConstraint::On(expr);
        }
    }
    Ok(())
}

/// The condition that USING stands for.
struct Condition {
    expr: Expr,
    /// Whether USING would mean another one to the planner.
    is_needed: bool,
}

fn not_written() -> Error {
    Error::unsupported(
        "several joins with USING, of which one is a RIGHT or FULL JOIN, are supported where they merge the same \
         columns of tables with names; write ON, and coalesce",
    )
}

/// Returns the condition that is to be written for USING, if it is.
fn condition_of(
    join: &Join,
    merged: &Merged,
    times: &mut HashMap<String, usize>,
) -> Result<Option<Condition>> {
    let Some((columns, keeps_left, _)) = merging(&join.join_operator) else { return Ok(None) };
    let right = called(&join.relation);
    let (mut is_third, mut is_needed) = (false, false);
    let mut conditions = Vec::with_capacity(columns.len());
    for column in columns {
        let [part] = column.0.as_slice() else { return Ok(None) };
        let Some(name) = part.as_ident() else { return Ok(None) };
        let before = times.entry(fold(name)).or_default();
        is_third |= *before >= 2;
        *before += 1;
        let ours = merged.get(&fold(name));
        is_needed |= ours.is_some_and(|ours| !keeps_left || !ours.is_left);
        let theirs = right.iter().flatten().cloned().chain([name.clone()]).collect();
        conditions.push(ours.filter(|_| right.is_some()).map(|ours| Expr::BinaryOp {
            left: Box::new(ours.value.clone()),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::CompoundIdentifier(theirs)),
        }));
    }
    if !is_third && !is_needed {
        return Ok(None);
    }
    let all: Option<Vec<Expr>> = conditions.into_iter().collect();
    let and = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    match all.and_then(|all| all.into_iter().reduce(and)) {
        Some(expr) => Ok(Some(Condition { expr, is_needed })),
        None if is_needed => Err(not_written()),
        None => Ok(None),
    }
}

fn write_select(select: &mut Select, merged: &Merged) {
    if merged.is_empty() {
        return;
    }
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let text = match &*expr {
                    Expr::Identifier(name) => name.clone(),
                    other => Ident::with_quote('"', other.to_string()),
                };
                if write(expr, merged) {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: text };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                write(expr, merged);
            }
            SelectItem::Wildcard(options) if options.opt_replace.is_none() => {
                let others = merged.iter().filter(|(_, column)| !column.is_same);
                let mut items: Vec<_> = others.map(|(name, column)| replaced(name, &column.value)).collect();
                items.sort_by(|one, other| one.column_name.value.cmp(&other.column_name.value));
                if !items.is_empty() {
                    options.opt_replace = Some(ReplaceSelectItem { items });
                }
            }
            _ => {}
        }
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        for key in keys {
            write(key, merged);
        }
    }
    if let Some(filter) = &mut select.selection {
        write(filter, merged);
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        for key in keys {
            write(key, merged);
        }
    }
    for filter in [&mut select.having, &mut select.qualify].into_iter().flatten() {
        write(filter, merged);
    }
}

fn replaced(name: &str, value: &Expr) -> Box<ReplaceSelectElement> {
    let column_name = Ident::with_quote('"', name);
    Box::new(ReplaceSelectElement { expr: value.clone(), column_name, as_keyword: true })
}

/// Writes the names in an expression, but not those in its subqueries, which are looked up there
/// first.
fn write(expr: &mut Expr, merged: &Merged) -> bool {
    let mut changed = false;
    names_in(expr, &mut |name, table| {
        let column = merged.get(&fold(name)).filter(|_| table.is_none())?;
        changed = true;
        Some(column.value.clone())
    });
    changed
}
