//! Names of result columns that the query does not name: the text of their expressions, as written.
//!
//! DataFusion's own names show how it planned an expression, such as `Int64(1) + Int64(1)`, and it
//! refuses two columns of one name.

use crate::identifier::fold;
use sqlparser::ast::{
    Expr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};
use std::collections::HashMap;

/// The separator between a column's name and the number that tells it from others of that name. No
/// name of a client has it.
pub const APART: char = '\0';

/// Returns a column's name as the client is told it.
pub fn told_name(name: &str) -> &str {
    name.split(APART).next().unwrap_or_default()
}

/// Names the unnamed columns of a query's result, and makes names that occur twice differ.
pub fn name_columns(query: &mut Query) {
    name_apart(query, '_');
}

/// Names the unnamed columns of a result that somebody is told. Names that occur twice differ by what
/// [`told_name`] leaves out.
pub fn name_told_columns(query: &mut Query) {
    name_apart(query, APART);
}

fn name_apart(query: &mut Query, apart: char) {
    let Some(select) = first_select(&mut query.body) else { return };
    let named = name_items(&mut select.projection, apart);
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by {
        order_by_names(keys, &named);
    }
}

/// Writes keys of ORDER BY that are expressions of the result as its columns, which they mean. A number is a
/// place, also where a column is this number.
pub fn order_by_names(keys: &mut [OrderByExpr], named: &[(Expr, Ident)]) {
    let is_number =
        |key: &Expr| matches!(key, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    for key in keys.iter_mut().filter(|key| !is_number(&key.expr)) {
        if let Some((_, alias)) = named.iter().find(|(expression, _)| *expression == key.expr) {
            key.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// Returns the names that a query gives columns of its result, or takes from others.
pub fn names_given(query: &Query) -> Vec<String> {
    fn first(body: &SetExpr) -> Option<&Select> {
        match body {
            SetExpr::Select(select) => Some(select),
            SetExpr::SetOperation { left, .. } => first(left),
            SetExpr::Query(query) => first(&query.body),
            _ => None,
        }
    }
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    };
    first(&query.body).map_or_else(Vec::new, |select| select.projection.iter().filter_map(name).collect())
}

/// Returns the number of a query's columns, where its text tells: a function says which expressions
/// are one column.
pub fn width(body: &SetExpr, is_one: &dyn Fn(&Expr) -> bool) -> Option<usize> {
    match body {
        SetExpr::Select(select) if select.projection.is_empty() => None,
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_one(expr),
                _ => false,
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(&query.body, is_one),
        SetExpr::SetOperation { left, .. } => width(left, is_one),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

/// Returns the SELECT that gives a query's columns their names.
pub fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}

/// Names the items that have no name, where there is one for them.
pub(crate) fn name_unnamed(items: &mut [SelectItem], name: impl Fn(&Expr) -> Option<Ident>) {
    for item in items {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(alias) = name(expr)
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Names the items that will be rewritten as they are written.
pub(crate) fn name_as_written(items: &mut [SelectItem], is_rewritten: impl Fn(&Expr) -> bool) {
    name_unnamed(items, |expr| is_rewritten(expr).then(|| Ident::with_quote('"', expr.to_string())));
}

/// Returns the expressions that got a name, with it.
fn name_items(items: &mut [SelectItem], apart: char) -> Vec<(Expr, Ident)> {
    let mut taken = HashMap::new();
    let mut given = Vec::new();
    for item in items {
        let (name, named) = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => (name.value.clone(), true),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.last() {
                Some(name) => (name.value.clone(), true),
                None => continue,
            },
            SelectItem::UnnamedExpr(expression) => (expression.to_string(), false),
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = fold(alias);
                let unique = unique_name(&name, apart, &mut taken);
                if unique != name {
                    *alias = Ident::with_quote('"', unique);
                }
                continue;
            }
            _ => continue,
        };
        let unique = unique_name(&name, apart, &mut taken);
        if let SelectItem::UnnamedExpr(expr) = item
            && !(named && unique == name)
        {
            let alias = Ident::with_quote('"', unique);
            given.push((expr.clone(), alias.clone()));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    given
}

/// Returns a name, or the first of it with a number that is not taken. What is taken has the number
/// to try next.
fn unique_name(name: &str, apart: char, taken: &mut HashMap<String, usize>) -> String {
    let Some(mut number) = taken.get(name).copied() else {
        taken.insert(name.to_string(), 1);
        return name.to_string();
    };
    loop {
        let numbered = format!("{name}{apart}{number}");
        number += 1;
        if !taken.contains_key(&numbered) {
            taken.insert(name.to_string(), number);
            taken.insert(numbered.clone(), 1);
            return numbered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse, parse_query};
    use datafusion_sql::parser::Statement as DfStatement;
    use sqlparser::ast::Statement;

    fn named(sql: &str) -> String {
        let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).unwrap() else {
            panic!("not a query")
        };
        let Statement::Query(mut query) = *statement else { panic!("not a query") };
        name_columns(&mut query);
        query.to_string()
    }

    #[test]
    fn only_what_has_no_name_is_named() {
        assert_eq!(named("select a, t.b, c as d, * from t"), "SELECT a, t.b, c AS d, * FROM t");
        assert_eq!(
            named("select 1+1, sum( x ) from t"),
            r#"SELECT 1 + 1 AS "1 + 1", sum(x) AS "sum(x)" FROM t"#
        );
    }

    #[test]
    fn a_number_in_order_by_is_a_place() {
        assert_eq!(named("select a, 1 from t order by 1"), r#"SELECT a, 1 AS "1" FROM t ORDER BY 1"#);
        assert_eq!(
            named("select a, 1, b + 1 from t order by 1 desc, b + 1"),
            r#"SELECT a, 1 AS "1", b + 1 AS "b + 1" FROM t ORDER BY 1 DESC, "b + 1""#
        );
    }

    #[test]
    fn order_by_follows() {
        assert_eq!(
            named("select distinct upper(a) from t order by upper(a) desc"),
            r#"SELECT DISTINCT upper(a) AS "upper(a)" FROM t ORDER BY "upper(a)" DESC"#
        );
    }

    #[test]
    fn names_differ() {
        assert_eq!(named("select 1, 1, a, t.a"), r#"SELECT 1 AS "1", 1 AS "1_1", a, t.a AS "a_1""#);
        assert_eq!(named("select 1 union select 2"), r#"SELECT 1 AS "1" UNION SELECT 2"#);
    }

    #[test]
    fn names_that_are_told_are_those_that_are_written() {
        let mut query = parse_query("select 1 as a, 2 as a, a, 3 as b from t", &Extension::NONE).unwrap();
        name_told_columns(&mut query);
        let told: Vec<String> = names_given(&query).iter().map(|name| told_name(name).to_string()).collect();
        assert_eq!(told, ["a", "a", "a", "b"]);
        let names = names_given(&query);
        assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), names.len());
    }
}
