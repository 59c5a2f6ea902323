//! One expression under several names beside grouping sets: `SELECT g AS a, g AS b … GROUP BY a,
//! ROLLUP (b)` has two keys, and `b` alone is NULL in the groups of all its values. A plan tells
//! keys by their expressions. So each of these but the first becomes a call that gives the same value.

use crate::call::call;
use crate::identifier::fold;
use crate::walk::walk_mut;
use sqlparser::ast::{Expr, GroupByExpr, Ident, Select, SelectItem, Statement, Value, VisitorMut};
use std::ops::ControlFlow;

/// The name of a function that users never call. It gives its first argument; the second one makes
/// it differ from others.
pub const NAME: &str = "__key";

/// Tells keys of one expression apart that have several names, or places in the SELECT list.
pub fn tell_apart(statement: &mut Statement) {
    let _done: ControlFlow<()> = walk_mut(statement, &mut Twins);
}

struct Twins;

impl VisitorMut for Twins {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return ControlFlow::Continue(()) };
        let is_set = |key: &Expr| matches!(key, Expr::Cube(_) | Expr::Rollup(_) | Expr::GroupingSets(_));
        if !keys.iter().any(is_set) {
            return ControlFlow::Continue(());
        }
        let mut places = Vec::new();
        keys.iter().for_each(|key| places_of(key, &select.projection, &mut places));
        places.sort_unstable();
        places.dedup();
        let mut known: Vec<Expr> = Vec::new();
        for place in places {
            let Some(expr) = expr_of(&select.projection[place]).map(plain).cloned() else { continue };
            match known.contains(&expr) {
                true => make_own(&mut select.projection[place], place),
                false => known.push(expr),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Collects the places of the items that a key stands for.
fn places_of(key: &Expr, items: &[SelectItem], places: &mut Vec<usize>) {
    match key {
        Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().for_each(|key| places_of(key, items, places));
        }
        Expr::Tuple(keys) => keys.iter().for_each(|key| places_of(key, items, places)),
        Expr::Nested(key) => places_of(key, items, places),
        key => places.extend(place_of(key, items)),
    }
}

/// Returns the place of the item that a key names, by its number, its alias or its expression.
fn place_of(key: &Expr, items: &[SelectItem]) -> Option<usize> {
    if let Expr::Value(value) = key
        && let Value::Number(number, _) = &value.value
    {
        // Behind a wildcard the numbers of items are not known.
        let place = number.parse::<usize>().ok()?.checked_sub(1)?;
        let is_known = items.iter().take(place + 1).all(|item| expr_of(item).is_some());
        return (is_known && place < items.len()).then_some(place);
    }
    let has_name = |item: &SelectItem| match (item, key) {
        (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => fold(alias) == fold(name),
        _ => false,
    };
    let is_it = |item: &SelectItem| expr_of(item).is_some_and(|expr| plain(expr) == key);
    items.iter().position(has_name).or_else(|| items.iter().position(is_it))
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

/// Makes an item differ from all others; its column keeps its name.
fn make_own(item: &mut SelectItem, place: usize) {
    let (expr, alias) = match &*item {
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.clone()),
        SelectItem::UnnamedExpr(expr) => {
            let name = match expr {
                Expr::Identifier(name) => fold(name),
                Expr::CompoundIdentifier(parts) => parts.last().map(fold).unwrap_or_default(),
                other => other.to_string(),
            };
            (expr.clone(), Ident::with_quote('"', name))
        }
        _ => return,
    };
    let number = Expr::Value(Value::SingleQuotedString(place.to_string()).into());
    *item = SelectItem::ExprWithAlias { expr: call(NAME, vec![expr, number]), alias };
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    #[test]
    fn keys_are_told_apart_where_sets_name_one_expression_twice() {
        for (group, is_apart) in [
            ("a, ROLLUP (b)", true),
            ("1, ROLLUP (2)", true),
            ("g, CUBE (b)", true),
            ("GROUPING SETS ((a, c), (b))", true),
            ("ROLLUP (b)", false),
            ("ROLLUP (g, a)", false),
            ("a, b", false),
        ] {
            let sql = format!("SELECT g AS a, g AS b, g + 1 AS c FROM t GROUP BY {group}");
            let written = parse_query(&sql, &Extension::NONE).unwrap().to_string();
            assert_eq!(written.contains("__key(g, '1') AS b"), is_apart, "{written}");
        }
    }
}
