//! `ARRAY(SELECT …)` as an aggregate of the subquery's rows, in the order that the subquery gives
//! them.

use crate::identifier::fold;
use sqlparser::ast::{Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value};

const ITEM: &str = "array_item";

/// Returns the text of the subquery that gives the array.
pub fn array_of(query: &Query) -> String {
    let mut query = query.clone();
    let keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.clone(),
        _ => Vec::new(),
    };
    let mut columns = vec![ITEM.to_string()];
    let keys: Option<Vec<String>> =
        keys.iter().map(|key| written(key, &mut query.body, &mut columns)).collect();
    let order = match keys {
        Some(keys) if !keys.is_empty() => format!(" ORDER BY {}", keys.join(", ")),
        _ => String::new(),
    };
    if !order.is_empty() && query.limit_clause.is_none() && query.fetch.is_none() {
        query.order_by = None;
    }
    let columns = columns.join(", ");
    format!("(SELECT coalesce(array_agg({ITEM}{order}), []) FROM ({query}) AS array_items({columns}))")
}

/// Returns a key for rows outside of the subquery, which gives what it is of as another column;
/// `None` where it cannot.
fn written(key: &OrderByExpr, body: &mut SetExpr, columns: &mut Vec<String>) -> Option<String> {
    let name = match body {
        _ if is_first(&key.expr) => ITEM.to_string(),
        SetExpr::Select(select) if is_item(select, &key.expr) => ITEM.to_string(),
        SetExpr::Select(select) if select.distinct.is_none() => {
            let name = format!("key{}", columns.len());
            let alias = Ident::new(name.as_str());
            select.projection.push(SelectItem::ExprWithAlias { expr: key.expr.clone(), alias });
            columns.push(name.clone());
            name
        }
        _ => return None,
    };
    Some(format!("{name}{}", key.options))
}

/// Says whether it is ORDER BY 1.
fn is_first(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if number == "1"))
}

/// Says whether a key is the column that the subquery gives.
fn is_item(select: &Select, key: &Expr) -> bool {
    match select.projection.first() {
        Some(SelectItem::UnnamedExpr(expr)) => expr == key,
        Some(SelectItem::ExprWithAlias { expr, alias }) => {
            expr == key || matches!(key, Expr::Identifier(name) if fold(name) == fold(alias))
        }
        _ => false,
    }
}
