//! Names of columns that queries in FROM and WITH do not name: the texts of their expressions, as those of a
//! result have. DataFusion's own names show how it planned them, such as `Int64(1)`. A field has its own name
//! everywhere: DataFusion's is `t.s[x]`.

use crate::identifier::fold;
use crate::macros::expanded;
use crate::names::{name_as_written, name_unnamed};
use crate::parse::Text;
use crate::plain::{alias_of, relations_of};
use crate::walk::{expressions, walk_mut};
use sqlparser::ast::{
    Distinct, Expr, Function, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// What DataFusion itself calls as it is written.
const CALLED_SO: &str = "count(*)";

/// Names such columns, and those that ORDER BY means, which SELECT DISTINCT has by these names.
pub fn rewrite(statement: &mut Statement) {
    if let Statement::Query(query) = statement {
        each_select(&mut query.body, name_fields);
    }
    let _done = walk_mut(statement, &mut Names { each: name_columns, keys: name_keys });
}

/// Names columns of a result, of a table that is made of one, and of such queries, whose expressions the
/// passes write in another way, by what is written. The words tell whether there may be such queries, so that
/// most statements are walked through only once for their names: by [`rewrite`].
pub fn keep_written(text: &Text<'_>, statement: &mut Statement) {
    match statement {
        Statement::Query(query) => each_select(&mut query.body, name_rewritten),
        Statement::CreateTable(create) => {
            create.query.iter_mut().for_each(|query| each_select(&mut query.body, name_rewritten));
        }
        _ => {}
    }
    if text.may_have_inner_select() {
        let _done = walk_mut(statement, &mut Names { each: name_rewritten, keys: |_| {} });
    }
}

struct Names {
    /// Names the columns of a SELECT in FROM or WITH.
    each: fn(&mut Select),
    /// Writes the keys by which any query is sorted.
    keys: fn(&mut Query),
}

impl VisitorMut for Names {
    type Break = ();

    // A query is named before what is within it: otherwise its names would have those within it, each of them
    // twice.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if table.alias.columns.is_empty() {
                each_select(&mut table.query.body, self.each);
            }
        }
        (self.keys)(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = factor
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            each_select(&mut subquery.body, self.each);
        }
        ControlFlow::Continue(())
    }
}

fn each_select(body: &mut SetExpr, each: fn(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, each);
            each_select(right, each);
        }
        SetExpr::Query(query) => each_select(&mut query.body, each),
        _ => {}
    }
}

fn name_columns(select: &mut Select) {
    name_items(select, true);
}

fn name_fields(select: &mut Select) {
    name_items(select, false);
}

fn name_rewritten(select: &mut Select) {
    name_as_written(&mut select.projection, is_rewritten);
}

/// Says whether an expression has an interval, a collation, or a call that stands for something else, and is
/// one column.
fn is_rewritten(expr: &Expr) -> bool {
    let (mut is_one, mut some) = (true, false);
    let _all = expressions(expr, &mut |expr| {
        match expr {
            Expr::Interval(_) | Expr::Collate { .. } => some = true,
            Expr::Function(function) => {
                is_one &= !gives_several(function);
                some |= expanded(function).is_some();
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    is_one && some
}

fn name_items(select: &mut Select, by_text: bool) {
    let Select { projection, from, .. } = select;
    let relations: Vec<String> = relations_of(from.iter()).into_iter().filter_map(called).collect();
    name_unnamed(projection, |expr| wanted_name(expr, &relations, by_text));
}

/// Returns the name by which columns of a relation are qualified.
fn called(relation: &TableFactor) -> Option<String> {
    if let Some(alias) = alias_of(relation) {
        return Some(fold(&alias.name));
    }
    match relation {
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            name.0.last()?.as_ident().map(fold)
        }
        _ => None,
    }
}

/// Returns the name that a column is given, unless its own is known.
fn wanted_name(expr: &Expr, relations: &[String], by_text: bool) -> Option<Ident> {
    let quoted = |name: String| Ident::with_quote('"', name);
    match expr {
        Expr::Identifier(_) => None,
        Expr::CompoundIdentifier(parts) => {
            let relation = parts.iter().take(3).position(|part| relations.contains(&fold(part)));
            let is_field = relation.map_or(parts.len() > 1, |place| parts.len() > place + 2);
            parts.last().filter(|_| is_field).map(|field| quoted(field.value.clone()))
        }
        Expr::Nested(inner) if is_column(inner) => wanted_name(inner, relations, by_text),
        // A column that is cast keeps its name, as in PostgreSQL.
        Expr::Cast { expr: inner, .. } if by_text && let Some(name) = last_name(inner) => Some(name.clone()),
        _ if by_text => Some(expr.to_string()).filter(|name| name != CALLED_SO).map(quoted),
        _ => None,
    }
}

/// Says whether it is the name of a column, or of a field, in any parentheses.
fn is_column(expr: &Expr) -> bool {
    last_name(expr).is_some()
}

/// Returns the name of a column, or of a field, without what stands before it.
fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Nested(inner) => last_name(inner),
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// Names the columns that ORDER BY means by their places: beside aggregates, DataFusion finds one that is
/// computed only by the name that is given to it. And writes the keys of SELECT DISTINCT that are expressions
/// of its columns as these columns: DataFusion wants the columns that are named in a key to be among those of
/// the result.
fn name_keys(query: &mut Query) {
    name_places(query);
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    for key in keys {
        if let Some(alias) = only_alias(&select.projection, &key.expr) {
            key.expr = Expr::Identifier(alias);
        }
    }
}

fn name_places(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else { return };
    let places: Vec<usize> = keys.iter().filter_map(|key| place_of(&key.expr)).collect();
    // What becomes several columns moves the places of those behind it.
    if places.is_empty() || !select.projection.iter().all(is_one_column) {
        return;
    }
    let Select { projection, from, .. } = select.as_mut();
    let relations: Vec<String> = relations_of(from.iter()).into_iter().filter_map(called).collect();
    for place in places {
        let item = place.checked_sub(1).and_then(|place| projection.get_mut(place));
        if let Some(item) = item
            && let SelectItem::UnnamedExpr(expr) = item
            && let Some(alias) = wanted_name(expr, &relations, true)
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Returns the place of a column that a key means.
fn place_of(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Says whether an item is one column, and no wildcard.
pub fn is_one_column(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    expressions(expr, &mut |expr| match expr {
        Expr::Function(function) if gives_several(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_continue()
}

/// Says whether it is a call that may become several columns.
fn gives_several(function: &Function) -> bool {
    let name = function.name.to_string();
    ["columns", "unnest"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Returns the alias of the column that an expression computes, unless another column has it, too.
fn only_alias(items: &[SelectItem], key: &Expr) -> Option<Ident> {
    // A name means the column of the result that has it, and a number the place of one.
    if matches!(key, Expr::Identifier(_) | Expr::Nested(_)) || place_of(key).is_some() {
        return None;
    }
    let aliases = items.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, alias)),
        _ => None,
    });
    let (_, meant) = aliases.clone().find(|(expr, _)| *expr == key)?;
    let same = aliases.filter(|(_, alias)| fold(alias) == fold(meant)).count();
    (same == 1).then(|| meant.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    fn named(sql: &str) -> String {
        let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
            panic!("not a query")
        };
        rewrite(&mut statement);
        statement.to_string()
    }

    #[test]
    fn columns_of_queries_in_from_and_with_are_named_as_they_are_written() {
        for (sql, expected) in [
            (
                "SELECT * FROM (SELECT 1, a, t.a, b + 1 FROM t)",
                r#"SELECT * FROM (SELECT 1 AS "1", a, t.a, b + 1 AS "b + 1" FROM t)"#,
            ),
            (
                "WITH x AS (SELECT max(a) FROM t) SELECT * FROM x",
                r#"WITH x AS (SELECT max(a) AS "max(a)" FROM t) SELECT * FROM x"#,
            ),
            (
                "WITH x (m) AS (SELECT max(a) FROM t) SELECT * FROM x",
                "WITH x (m) AS (SELECT max(a) FROM t) SELECT * FROM x",
            ),
            ("SELECT * FROM (SELECT (a), count(*) FROM t)", "SELECT * FROM (SELECT (a), count(*) FROM t)"),
            ("SELECT a FROM (SELECT t.a::DATE FROM t)", "SELECT a FROM (SELECT t.a::DATE AS a FROM t)"),
            ("SELECT 1 + 1, (SELECT 2)", "SELECT 1 + 1, (SELECT 2)"),
        ] {
            assert_eq!(named(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_the_passes_write_in_another_way_is_called_as_it_was_written() {
        const KEEPING: Extension = Extension { as_written: keep_written, ..Extension::NONE };
        let DfStatement::Statement(statement) =
            parse("SELECT d + INTERVAL '1 day', a COLLATE NOCASE = 'x', d FROM t", &KEEPING).unwrap()
        else {
            panic!("not a query")
        };
        let written = statement.to_string();
        assert!(written.contains(r#" AS "d + INTERVAL '1 day'", "#), "{written}");
        assert!(written.contains(r#" AS "a COLLATE NOCASE = 'x'", d FROM t"#), "{written}");
        for sql in [
            "WITH x AS (SELECT d + INTERVAL '1 day' FROM t) FROM x",
            "SELECT * FROM (SELECT d + INTERVAL '1 day' FROM t)",
            "INSERT INTO u SELECT * FROM (SELECT d + INTERVAL '1 day' FROM t)",
        ] {
            let written = parse(sql, &KEEPING).unwrap().to_string();
            assert!(written.contains(r#" AS "d + INTERVAL '1 day'" FROM t"#), "{written}");
        }
    }

    #[test]
    fn fields_have_their_names_everywhere() {
        assert_eq!(named("SELECT s.x FROM t"), r#"SELECT s.x AS "x" FROM t"#);
        assert_eq!(
            named("SELECT t.x, u.y FROM t JOIN s.v AS u ON t.k = u.k"),
            "SELECT t.x, u.y FROM t JOIN s.v AS u ON t.k = u.k"
        );
        assert_eq!(named("SELECT main.t.x FROM main.t"), "SELECT main.t.x FROM main.t");
    }

    #[test]
    fn columns_that_an_order_means_by_their_places_are_named() {
        for (sql, expected) in [
            (
                "SELECT * FROM (SELECT a, max(b) FROM t GROUP BY a ORDER BY 2, 1) AS x (p, q)",
                r#"SELECT * FROM (SELECT a, max(b) AS "max(b)" FROM t GROUP BY a ORDER BY 2, 1) AS x (p, q)"#,
            ),
            (
                "SELECT * FROM (SELECT *, a + 1 FROM t ORDER BY 2) AS x (p, q)",
                "SELECT * FROM (SELECT *, a + 1 FROM t ORDER BY 2) AS x (p, q)",
            ),
            (
                "SELECT * FROM (SELECT a + 1, b FROM t ORDER BY a) AS x (p, q)",
                "SELECT * FROM (SELECT a + 1, b FROM t ORDER BY a) AS x (p, q)",
            ),
        ] {
            assert_eq!(named(sql), expected, "{sql}");
        }
    }

    #[test]
    fn keys_of_distinct_are_columns_of_the_result() {
        assert_eq!(
            named("SELECT DISTINCT upper(b) AS u, b AS c FROM t ORDER BY upper(b) DESC, b"),
            "SELECT DISTINCT upper(b) AS u, b AS c FROM t ORDER BY u DESC, b"
        );
        assert_eq!(
            named("SELECT * FROM (SELECT DISTINCT a + 1 FROM t ORDER BY a + 1)"),
            r#"SELECT * FROM (SELECT DISTINCT a + 1 AS "a + 1" FROM t ORDER BY "a + 1")"#
        );
        assert_eq!(
            named("SELECT DISTINCT a, 1 AS b FROM t ORDER BY 1 DESC"),
            "SELECT DISTINCT a, 1 AS b FROM t ORDER BY 1 DESC"
        );
        assert_eq!(
            named("SELECT upper(b) AS u FROM t ORDER BY upper(b)"),
            "SELECT upper(b) AS u FROM t ORDER BY upper(b)"
        );
    }
}
