//! Rows of values before subqueries with the same number of columns; the planner supports only one
//! column: `(a, b) IN (SELECT …)`, `(a, b) = ANY (SELECT …)`, `(a, b) <> ALL (SELECT …)`,
//! `(a, b) = (SELECT …)` (ISO/IEC 9075-2, 8.2, 8.4 and 8.9) and `SET (a, b) = (SELECT …)`. Also rows that
//! are compared with rows, or tested for NULL. The planner takes them for structures, in which a NULL is a
//! value like others, and which are no NULLs themselves.

use crate::names::{name_as_written, name_columns};
use crate::parse::{Extension, parse_query};
use crate::refused::check_columns;
use crate::walk::{self, Part, expressions, expressions_mut, walk_mut};
use hypostyle_types::{Error, Result};
use sqlparser::ast::{
    BinaryOperator, Delete, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
    UnaryOperator, Update, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// The bytes of a text that replaces one expression.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What the rows of a subquery are called.
pub const ROWS: &str = "__rows";

/// Puts expressions of single columns in the place of those of rows.
///
/// # Errors
/// `Unsupported` for a comparison of a row and a subquery that is neither = nor <>.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    if !has_rows(statement) {
        return Ok(());
    }
    walk::checked(walk_mut(statement, &mut Rows))
}

fn has_rows(node: &impl Part) -> bool {
    let found = expressions(node, &mut |expr| match expr {
        Expr::InSubquery { expr: row, .. } if values_of(row).is_some() => ControlFlow::Break(()),
        expr if is_denied_in(expr).is_some() => ControlFlow::Break(()),
        Expr::BinaryOp { left, right, .. } if compared(left, right).is_some() => ControlFlow::Break(()),
        Expr::BinaryOp { left, op, right } if pairs(left, right).is_some() && is_comparison(op) => {
            ControlFlow::Break(())
        }
        Expr::InList { expr, list, negated } if is_in_rows(expr, list, *negated) => ControlFlow::Break(()),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right)
            if pairs(left, right).is_some() =>
        {
            ControlFlow::Break(())
        }
        Expr::Between { expr, low, high, .. }
            if pairs(expr, low).is_some() && pairs(expr, high).is_some() =>
        {
            ControlFlow::Break(())
        }
        Expr::IsNull(row) | Expr::IsNotNull(row) if values_of(row).is_some() => ControlFlow::Break(()),
        Expr::Case { operand: Some(row), .. } if values_of(row).is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Writes `ROW(a, b)` as `(a, b)` where it is compared with a row or a subquery, or tested for NULL.
pub fn without_word(statement: &mut Statement) {
    let _all = expressions_mut(statement, &mut |expr| {
        match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                let (is_left, is_right) = (is_row(left), is_row(right));
                if is_left && (is_right || is_subquery(right)) || is_right && is_subquery(left) {
                    plain(left);
                    plain(right);
                }
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right)
                if is_row(left) && is_row(right) =>
            {
                plain(left);
                plain(right);
            }
            Expr::Between { expr: row, low, high, .. } if is_row(row) && is_row(low) && is_row(high) => {
                [row, low, high].into_iter().for_each(|row| plain(row));
            }
            Expr::InList { expr: row, list, .. } if is_row(row) && list.iter().all(is_row) => {
                plain(row);
                list.iter_mut().for_each(plain);
            }
            Expr::AnyOp { left: row, right, .. } | Expr::AllOp { left: row, right, .. }
                if is_subquery(right) =>
            {
                plain(row);
            }
            Expr::Case { operand: Some(row), conditions, .. }
                if is_row(row) && conditions.iter().all(|when| is_row(&when.condition)) =>
            {
                plain(row);
                conditions.iter_mut().for_each(|when| plain(&mut when.condition));
            }
            Expr::InSubquery { expr: row, .. } | Expr::IsNull(row) | Expr::IsNotNull(row) => plain(row),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_))
}

fn is_row(expr: &Expr) -> bool {
    values_of(expr).is_some() || called_row(expr).is_some()
}

fn plain(expr: &mut Expr) {
    if let Some(values) = called_row(expr) {
        *expr = Expr::Tuple(values);
    }
}

/// Returns the values of `ROW(a, b)`.
fn called_row(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(Function {
        name, args: FunctionArguments::List(list), over: None, filter: None, ..
    }) = expr
    else {
        return None;
    };
    let [ObjectNamePart::Identifier(Ident { value, quote_style: None, .. })] = name.0.as_slice() else {
        return None;
    };
    let is_row = value.eq_ignore_ascii_case("row") && list.args.len() > 1;
    if !is_row || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return None;
    }
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        match statement {
            Statement::Update(Update { selection: Some(filter), .. })
            | Statement::Delete(Delete { selection: Some(filter), .. }) => narrow(filter),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        name_as_written(&mut select.projection, has_rows);
        select.selection.as_mut().map_or(ControlFlow::Continue(()), narrow)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        say_in(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(told) = told(expr) {
            *expr = told;
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::InSubquery { expr: row, subquery, negated } => {
                let Some(values) = values_of(row) else { return ControlFlow::Continue(()) };
                checked(subquery, values)?;
                let negated = if *negated { "NOT " } else { "" };
                let (rows, equal) = (rows_of(subquery, values.len()), all_equal(values));
                // The result is unknown if the row is equal to no row, and if only NULLs keep it
                // from being equal to one. A subquery with others within it is written once: it would be
                // twice as long with each level.
                let text = match has_queries(subquery) {
                    true => format!(
                        "{negated}CASE (SELECT max(CASE WHEN {equal} THEN 2 WHEN ({equal}) IS NULL THEN 1 ELSE 0 END) \
                         FROM {rows}) WHEN 2 THEN true WHEN 1 THEN NULL ELSE false END"
                    ),
                    false => format!(
                        "{negated}CASE WHEN EXISTS (SELECT 1 FROM {rows} WHERE {equal}) THEN true \
                         WHEN EXISTS (SELECT 1 FROM {rows} WHERE ({equal}) IS NULL) THEN NULL ELSE false END"
                    ),
                };
                replace(expr, &text)
            }
            Expr::BinaryOp { left, op, right } if let Some(pairs) = pairs(left, right) => {
                if is_comparison(op) {
                    *expr = Expr::Nested(Box::new(in_order(pairs, op)));
                }
                ControlFlow::Continue(())
            }
            Expr::InList { expr: row, list, negated } if is_in_rows(row, list, *negated) => {
                let equal = list.iter().filter_map(|other| pairs(row, other)).map(all_pairs_equal).collect();
                let any = Box::new(Expr::Nested(Box::new(joined(equal, &BinaryOperator::Or))));
                *expr = match negated {
                    true => Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: any })),
                    false => *any,
                };
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op, right } => {
                let Some((values, subquery)) = compared(left, right) else {
                    return ControlFlow::Continue(());
                };
                checked(subquery, values)?;
                let (rows, equal) = (rows_of(subquery, values.len()), all_equal(values));
                let negated = match op {
                    BinaryOperator::Eq => "",
                    BinaryOperator::NotEq => "NOT ",
                    op => {
                        return ControlFlow::Break(Error::unsupported(format!(
                            "a row and a subquery can be compared by = and <>, not by {op}"
                        )));
                    }
                };
                replace(expr, &format!("(SELECT {negated}({equal}) FROM {rows})"))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Says whether a comparison of a row with all rows of a subquery is NOT IN, `None` if it is not IN either.
fn is_denied_in(expr: &Expr) -> Option<bool> {
    let (left, right, is_denied) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return None,
    };
    compared(left, right).filter(|_| matches!(right.as_ref(), Expr::Subquery(_))).map(|_| is_denied)
}

/// Writes `(a, b) = ANY (SELECT …)` with IN, and `(a, b) <> ALL (SELECT …)` with NOT IN.
fn say_in(expr: &mut Expr) {
    let Some(negated) = is_denied_in(expr) else { return };
    if let Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } = expr
        && let Expr::Subquery(subquery) = right.as_ref()
    {
        *expr = Expr::InSubquery { expr: left.clone(), subquery: subquery.clone(), negated };
    }
}

/// Returns an expression, in which the rows before further subqueries are replaced, too; it may
/// have got a name for that.
fn parsed(sql: &str) -> Result<Expr> {
    if let SetExpr::Select(select) = *parse_query(&format!("SELECT {sql}"), &Extension::NONE)?.body
        && let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            select.projection.into_iter().next()
    {
        return Ok(expr);
    }
    Err(Error::internal(format!("an expression was expected, not {sql}")))
}

/// Narrows a filter. In a filter, unknown has the effect of false, so IN needs no more than EXISTS.
fn narrow(filter: &mut Expr) -> ControlFlow<Error> {
    say_in(filter);
    match filter {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            narrow(left)?;
            narrow(right)
        }
        Expr::Nested(inner) => narrow(inner),
        Expr::InSubquery { expr: row, subquery, negated: false } => {
            let Some(values) = values_of(row) else { return ControlFlow::Continue(()) };
            let (rows, equal) = (rows_of(subquery, values.len()), all_equal(values));
            replace(filter, &format!("EXISTS (SELECT 1 FROM {rows} WHERE {equal})"))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Returns the values of a row: `(a, b)`.
pub fn values_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) if values.len() > 1 => Some(values),
        Expr::Nested(inner) => values_of(inner),
        _ => None,
    }
}

/// Returns the values of a row and the subquery that it is compared with, on whichever side.
fn compared<'a>(left: &'a Expr, right: &'a Expr) -> Option<(&'a [Expr], &'a Query)> {
    match (left, right) {
        (row, Expr::Subquery(subquery)) | (Expr::Subquery(subquery), row) => {
            values_of(row).map(|values| (values, subquery.as_ref()))
        }
        _ => None,
    }
}

/// A list with more rows than this is looked up at once, in which case not known is false.
const ROWS_MAX: usize = 16;

/// Returns the values of two rows of as many, side by side.
fn pairs<'a>(left: &'a Expr, right: &'a Expr) -> Option<Vec<(&'a Expr, &'a Expr)>> {
    let (left, right) = (values_of(left)?, values_of(right)?);
    (left.len() == right.len()).then(|| left.iter().zip(right).collect())
}

fn is_in_rows(row: &Expr, list: &[Expr], negated: bool) -> bool {
    (negated || list.len() <= ROWS_MAX)
        && !list.is_empty()
        && list.iter().all(|other| pairs(row, other).is_some())
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

fn comparison((left, right): (&Expr, &Expr), op: BinaryOperator) -> Expr {
    let side = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    Expr::Nested(Box::new(Expr::BinaryOp { left: side(left), op, right: side(right) }))
}

/// Returns a condition on two values in which NULL is a value like others.
fn told_apart((left, right): (&Expr, &Expr), condition: fn(Box<Expr>, Box<Expr>) -> Expr) -> Expr {
    let side = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    Expr::Nested(Box::new(condition(side(left), side(right))))
}

/// Returns what says whether a row lies between two others, differs from another one in which NULL is a
/// value, is NULL, or is that of a WHEN; `None` for other expressions.
fn told(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Between { expr: row, negated, low, high } => {
            let (low, high) = (pairs(row, low)?, pairs(row, high)?);
            let ends = vec![in_order(low, &BinaryOperator::GtEq), in_order(high, &BinaryOperator::LtEq)];
            let within = Expr::Nested(Box::new(joined(ends, &BinaryOperator::And)));
            Some(match negated {
                true => {
                    let denied = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(within) };
                    Expr::Nested(Box::new(denied))
                }
                false => within,
            })
        }
        Expr::IsDistinctFrom(left, right) => {
            let pairs = pairs(left, right)?.into_iter();
            let differ = pairs.map(|pair| told_apart(pair, Expr::IsDistinctFrom)).collect();
            Some(Expr::Nested(Box::new(joined(differ, &BinaryOperator::Or))))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            let pairs = pairs(left, right)?.into_iter();
            let same = pairs.map(|pair| told_apart(pair, Expr::IsNotDistinctFrom)).collect();
            Some(Expr::Nested(Box::new(joined(same, &BinaryOperator::And))))
        }
        Expr::Case { operand: Some(row), .. } if values_of(row).is_some() => by_conditions(expr),
        Expr::IsNull(row) => values_of(row).map(|values| each(values, Expr::IsNull)),
        Expr::IsNotNull(row) => values_of(row).map(|values| each(values, Expr::IsNotNull)),
        _ => None,
    }
}

/// Returns `CASE (a, b) WHEN (c, d) THEN …` with conditions; `None` where one of the others is no such row.
fn by_conditions(expr: &Expr) -> Option<Expr> {
    let mut searched = expr.clone();
    let Expr::Case { operand, conditions, .. } = &mut searched else { return None };
    let row = operand.take()?;
    for when in conditions {
        let equal = all_pairs_equal(pairs(&row, &when.condition)?);
        when.condition = equal;
    }
    Some(searched)
}

/// Returns a condition on all values of a row.
fn each(values: &[Expr], condition: fn(Box<Expr>) -> Expr) -> Expr {
    let of_value = |value: &Expr| condition(Box::new(Expr::Nested(Box::new(value.clone()))));
    Expr::Nested(Box::new(joined(values.iter().map(of_value).collect(), &BinaryOperator::And)))
}

fn all_pairs_equal(pairs: Vec<(&Expr, &Expr)>) -> Expr {
    let equal = pairs.into_iter().map(|pair| comparison(pair, BinaryOperator::Eq)).collect();
    Expr::Nested(Box::new(joined(equal, &BinaryOperator::And)))
}

/// Conditions in a tree that is no deeper than it must be.
fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    let later = conditions.split_off(conditions.len() / 2);
    match (conditions.pop(), later) {
        (None, mut one) => one.pop().unwrap_or_else(|| Expr::value(Value::Null)),
        (Some(last), later) => {
            conditions.push(last);
            let (left, right) = (joined(conditions, op), joined(later, op));
            Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
        }
    }
}

/// Returns rows as they are compared: by the first of their values that differ.
fn in_order(pairs: Vec<(&Expr, &Expr)>, op: &BinaryOperator) -> Expr {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let strict = match op {
        Eq => return all_pairs_equal(pairs),
        NotEq => {
            let differ = pairs.into_iter().map(|pair| comparison(pair, NotEq)).collect();
            return joined(differ, &Or);
        }
        Lt | LtEq => Lt,
        _ => Gt,
    };
    debug_assert!(matches!(op, Lt | LtEq | Gt | GtEq), "checked by is_comparison");
    let mut pairs = pairs.into_iter().rev();
    let last = pairs.next().map_or_else(|| Expr::value(Value::Null), |pair| comparison(pair, op.clone()));
    pairs.fold(last, |rest, pair| {
        let (before, equal) = (comparison(pair, strict.clone()), comparison(pair, Eq));
        let tied = Expr::BinaryOp { left: Box::new(equal), op: And, right: Box::new(rest) };
        let tied = Box::new(Expr::Nested(Box::new(tied)));
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(before), op: Or, right: tied }))
    })
}

/// Says whether a subquery has others in its expressions.
fn has_queries(subquery: &Query) -> bool {
    let found = expressions(subquery, &mut |expr| match expr {
        Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Says whether a query was written here, over the rows of a subquery: the other names in it are of
/// the query around.
pub fn is_of_rows(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    match select.from.as_slice() {
        [TableWithJoins { relation: TableFactor::Derived { alias: Some(alias), .. }, joins }] => {
            joins.is_empty() && alias.name.value == ROWS
        }
        _ => false,
    }
}

/// Returns a subquery as a table of so many columns.
fn rows_of(subquery: &Query, columns: usize) -> String {
    let names: Vec<String> = (0..columns).map(column).collect();
    let mut subquery = subquery.clone();
    name_columns(&mut subquery);
    format!("({subquery}) AS {ROWS} ({})", names.join(", "))
}

fn column(number: usize) -> String {
    format!("__column{number}")
}

fn all_equal(values: &[Expr]) -> String {
    let equal = values.iter().enumerate().map(|(number, value)| format!("({value}) = {}", column(number)));
    equal.collect::<Vec<_>>().join(" AND ")
}

/// Refuses a subquery of more or fewer columns than there are values beside it.
fn checked(subquery: &Query, values: &[Expr]) -> ControlFlow<Error> {
    check_columns(subquery, values.len()).map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

fn replace(expr: &mut Expr, text: &str) -> ControlFlow<Error> {
    // The text contains the subquery twice, and so everything that was replaced in it.
    if text.len() > TEXT_BYTES_MAX {
        return ControlFlow::Break(Error::unsupported("rows before subqueries are nested too deeply"));
    }
    match parsed(text) {
        // The parentheses separate it from the expression around it.
        Ok(parsed) => *expr = Expr::Nested(Box::new(parsed)),
        Err(error) => return ControlFlow::Break(error),
    }
    ControlFlow::Continue(())
}

/// Returns what a subquery gives for each of so many columns: of its one row, or NULL.
///
/// # Errors
/// Those of the parser.
pub fn columns_of(subquery: &Query, columns: usize) -> Result<Vec<Expr>> {
    let rows = rows_of(subquery, columns);
    (0..columns).map(|number| parsed(&format!("(SELECT {} FROM {rows})", column(number)))).collect()
}
