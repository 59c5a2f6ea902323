//! The keys of DISTINCT ON, in the order of ORDER BY. DataFusion takes numbers among them for values,
//! and wants the keys to be the first ones of ORDER BY one by one. In PostgreSQL a number is a place in
//! the SELECT list, and the first keys of ORDER BY are those of DISTINCT ON in any order, each as often
//! as it may be; some of them may be left out at the end. And the items by which SELECT DISTINCT is sorted.

use crate::identifier::fold;
use crate::walk::{checked, done, expressions_mut, walk_mut};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Distinct, Expr, Ident, ObjectNamePart, OrderByExpr, OrderByKind, OrderByOptions, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts the keys in the order of ORDER BY.
///
/// # Errors
/// `Syntax` (42P10) for a place that is not in the SELECT list.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    checked(walk_mut(statement, &mut Keys))
}

struct Keys;

impl VisitorMut for Keys {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        if let (Some(Distinct::Distinct), Some(order)) = (&select.distinct, &mut query.order_by)
            && let OrderByKind::Expressions(order) = &mut order.kind
        {
            in_places(order, select);
        }
        let Some(Distinct::On(keys)) = &mut select.distinct else { return ControlFlow::Continue(()) };
        let items = &select.projection;
        let mut known: Vec<Expr> = Vec::with_capacity(keys.len());
        for key in std::mem::take(keys) {
            done(check_place(&key, items))?;
            let key = if is_number(&key) { meant(&key, items) } else { key };
            if !known.iter().any(|other| meant(other, items) == meant(&key, items)) {
                known.push(key);
            }
        }
        *keys = known;
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(order) = &mut order.kind
            && let Some((in_order, ordered)) = in_order(keys, order, items)
        {
            (*keys, *order) = (in_order, ordered);
        }
        ControlFlow::Continue(())
    }
}

/// Puts the place of an item in the stead of the same expression whose columns ORDER BY names with their
/// table: DataFusion takes `-t.a` for another one than `-a`, and SELECT DISTINCT sorts by its items alone.
fn in_places(order: &mut [OrderByExpr], select: &Select) {
    let [TableWithJoins { relation: TableFactor::Table { name, alias, .. }, joins }] = select.from.as_slice()
    else {
        return;
    };
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    let Some(relation) = alias.as_ref().map(|alias| &alias.name).or(last).filter(|_| joins.is_empty()) else {
        return;
    };
    for key in order {
        let alone = without_table(&key.expr, relation);
        if alone == key.expr || matches!(alone, Expr::Identifier(_)) {
            continue;
        }
        let place = select.projection.iter().position(|item| match item {
            SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. } => {
                without_table(item, relation) == alone
            }
            _ => false,
        });
        if let Some(place) = place
            && select.projection.iter().take(place).all(is_plain)
        {
            key.expr = Expr::value(Value::Number((place + 1).to_string(), false));
        }
    }
}

/// Returns an expression whose columns are named without their table.
fn without_table(expr: &Expr, relation: &Ident) -> Expr {
    let mut alone = expr.clone();
    let _done = expressions_mut(&mut alone, &mut |part| {
        if let Expr::CompoundIdentifier(names) = &*part
            && let [table, column] = names.as_slice()
            && fold(table) == fold(relation)
        {
            *part = Expr::Identifier(column.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    alone
}

/// Returns the keys in the order of ORDER BY, and that order with all of them in front; `None`
/// where ORDER BY has another key between them.
fn in_order(
    keys: &[Expr],
    order: &[OrderByExpr],
    items: &[SelectItem],
) -> Option<(Vec<Expr>, Vec<OrderByExpr>)> {
    let mut left: Vec<&Expr> = keys.iter().collect();
    let (mut in_order, mut ordered, mut used) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = order.iter().peekable();
    while let Some(next) = rest.peek() {
        let key = meant(&next.expr, items);
        match left.iter().position(|other| meant(other, items) == key) {
            Some(place) => {
                // Both are written alike, so that they are planned alike.
                let written = match left.remove(place) {
                    same if *same == next.expr => same.clone(),
                    _ => key.clone(),
                };
                ordered.push(OrderByExpr { expr: written.clone(), ..(*next).clone() });
                in_order.push(written);
                used.push(key);
            }
            // What has come before orders nothing more.
            None if used.contains(&key) => {}
            None => break,
        }
        rest.next();
    }
    if rest.peek().is_some() && !left.is_empty() {
        return None;
    }
    for key in left {
        ordered.push(OrderByExpr { expr: key.clone(), options: OrderByOptions::default(), with_fill: None });
        in_order.push(key.clone());
    }
    ordered.extend(rest.cloned());
    Some((in_order, ordered))
}

fn is_number(expr: &Expr) -> bool {
    place_of(expr).is_some()
}

fn place_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Looks whether a key is a place that the SELECT list does not have. Behind a wildcard places are not
/// known.
fn check_place(key: &Expr, items: &[SelectItem]) -> Result<()> {
    let Some(place) = place_of(key) else { return Ok(()) };
    if (1..=items.len()).contains(&place) || !items.iter().all(is_plain) {
        return Ok(());
    }
    let message = format!("DISTINCT ON position {place} is not in the SELECT list");
    Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P10"))
}

fn is_plain(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// Returns what a key stands for: an item of the SELECT list, by its place or its name, or itself.
fn meant(key: &Expr, items: &[SelectItem]) -> Expr {
    if let Some(place) = place_of(key)
        && items.iter().take(place).all(is_plain)
        && let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            place.checked_sub(1).and_then(|place| items.get(place))
    {
        return expr.clone();
    }
    let name = match key {
        Expr::Nested(inner) => return meant(inner, items),
        Expr::Identifier(name) => fold(name),
        _ => return key.clone(),
    };
    let of_item = items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if fold(alias) == name => Some(expr),
        SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts))
            if parts.last().is_some_and(|part| fold(part) == name) =>
        {
            Some(expr)
        }
        _ => None,
    });
    of_item.unwrap_or(key).clone()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    #[test]
    fn keys_are_in_the_order_of_order_by() {
        let parsed = |sql: &str| parse_query(sql, &Extension::NONE).map(|query| query.to_string());
        for (written, meant) in [
            ("ON (a, a) a, b FROM t", "ON (a) a, b FROM t"),
            ("ON (2, 1) a, b FROM t ORDER BY 1, 2", "ON (a, b) a, b FROM t ORDER BY a, b"),
            ("ON (a, b) a, b FROM t ORDER BY b DESC, c", "ON (a, b) a, b FROM t ORDER BY b DESC, c"),
            ("ON (a, b) a, b FROM t ORDER BY b DESC", "ON (b, a) a, b FROM t ORDER BY b DESC, a"),
            ("ON (a) a, b FROM t ORDER BY a, a DESC, b", "ON (a) a, b FROM t ORDER BY a, b"),
            ("ON (c) t.a AS c FROM t ORDER BY 1", "ON (t.a) t.a AS c FROM t ORDER BY t.a"),
        ] {
            let [written, meant] = [written, meant].map(|rest| parsed(&format!("SELECT DISTINCT {rest}")));
            assert_eq!(written.unwrap(), meant.unwrap());
        }
        for place in ["0", "3"] {
            let error = parsed(&format!("SELECT DISTINCT ON ({place}) a, b FROM t")).unwrap_err();
            assert_eq!(error.sqlstate(), "42P10", "{error}");
        }
    }
}
