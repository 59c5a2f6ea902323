//! Columns that are renamed, and tables, in the queries of views over them: they keep their columns, and the
//! names of these.

use crate::build;
use crate::identifier::fold;
use crate::names::name_unnamed;
use crate::plain::{alias_of, relations_of};
use crate::references::names_in;
use crate::walk::{expressions_mut, walk, walk_mut};
use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, OrderBy, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Calls a table's column by its new name where a query names it, as far as its text tells: in a SELECT that
/// has the table in FROM, and in subqueries with the table before the name. Says whether there was such a
/// place. A query that names something else so already, or has the table's name for a query of WITH, stays as
/// it is.
pub fn rename(query: &mut Query, is_table: &dyn Fn(&ObjectName) -> bool, old: &str, new: &str) -> bool {
    if walk(&*query, &mut Taken { is_table, new }).is_break() {
        return false;
    }
    let mut renaming = Renaming { is_table, old, new, changed: false };
    let _done = walk_mut(query, &mut renaming);
    renaming.changed
}

/// Calls a table by its new name where a query names it, and has it known there under the old one. Says
/// whether there was such a place. A query that has one of the names for a query of WITH stays as it is.
pub fn rename_table(query: &mut Query, is_table: &dyn Fn(&ObjectName) -> bool, new: &str) -> bool {
    let is_new = |name: &ObjectName| {
        name.0.last().and_then(|part| part.as_ident()).is_some_and(|part| fold(part) == new)
    };
    let is_either = |name: &ObjectName| is_table(name) || is_new(name);
    if walk(&*query, &mut Defined(&is_either)).is_break() {
        return false;
    }
    let mut renaming = RenamingTable { is_table, new, changed: false };
    let _done = walk_mut(query, &mut renaming);
    renaming.changed
}

/// Looks for a query of WITH of some name.
struct Defined<'a>(&'a dyn Fn(&ObjectName) -> bool);

impl Visitor for Defined<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let mut with = query.with.iter().flat_map(|with| &with.cte_tables);
        let is_defined = with.any(|table| (self.0)(&ObjectName::from(table.alias.name.clone())));
        if is_defined { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct RenamingTable<'a> {
    is_table: &'a dyn Fn(&ObjectName) -> bool,
    new: &'a str,
    changed: bool,
}

impl VisitorMut for RenamingTable<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && (self.is_table)(name)
            && let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut()
        {
            let old = std::mem::replace(last, build::name(self.new));
            alias.get_or_insert_with(|| build::called(old, Vec::new()));
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Looks for the new name, and for a query of WITH that is called as the table.
struct Taken<'a> {
    is_table: &'a dyn Fn(&ObjectName) -> bool,
    new: &'a str,
}

impl Visitor for Taken<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        Defined(self.is_table).pre_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let is_new = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == self.new);
        if select.projection.iter().any(is_new) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_new = match expr {
            Expr::Identifier(name) => fold(name) == self.new,
            Expr::CompoundIdentifier(parts) => parts.iter().any(|part| fold(part) == self.new),
            _ => false,
        };
        if is_new { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Renaming<'a> {
    is_table: &'a dyn Fn(&ObjectName) -> bool,
    old: &'a str,
    new: &'a str,
    changed: bool,
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let called = self.called(&select.from);
        if called.is_empty() {
            return ControlFlow::Continue(());
        }
        name_unnamed(&mut select.projection, |expr| {
            self.is_column(expr, &called).then(|| build::name(self.old))
        });
        let _done = expressions_mut(select, &mut |expr| self.rename_qualified(expr, &called));
        names_in(select, &mut |name, table| self.renamed(name, table));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order) = &mut query.order_by
        {
            let called = self.called(&select.from);
            self.rename_in_order(order, &called, select);
        }
        ControlFlow::Continue(())
    }
}

impl Renaming<'_> {
    /// Returns the names by which the table is called in FROM.
    fn called(&self, from: &[TableWithJoins]) -> Vec<String> {
        let name = |relation: &TableFactor| match relation {
            TableFactor::Table { name, args: None, .. } if (self.is_table)(name) => {
                let alias = alias_of(relation).map(|alias| fold(&alias.name));
                alias.or_else(|| name.0.last()?.as_ident().map(fold))
            }
            _ => None,
        };
        relations_of(from).into_iter().filter_map(name).collect()
    }

    /// Says whether an expression is nothing but the column.
    fn is_column(&self, expr: &Expr, called: &[String]) -> bool {
        match expr {
            Expr::Identifier(name) => fold(name) == self.old,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] => fold(name) == self.old && called.contains(&fold(table)),
                _ => false,
            },
            _ => false,
        }
    }

    fn renamed(&mut self, name: &Ident, table: Option<&Ident>) -> Option<Expr> {
        let is_it = table.is_none() && fold(name) == self.old;
        self.changed |= is_it;
        is_it.then(|| build::column(self.new))
    }

    fn rename_qualified(&mut self, expr: &mut Expr, called: &[String]) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            // A schema may stand before the table, and fields behind the column.
            let table = parts.iter().position(|part| called.contains(&fold(part)));
            if let Some(column) = table.and_then(|table| parts.get_mut(table + 1))
                && fold(column) == self.old
            {
                *column = build::name(self.new);
                self.changed = true;
            }
        }
        ControlFlow::Continue(())
    }

    fn rename_in_order(&mut self, order: &mut OrderBy, called: &[String], select: &Select) {
        if called.is_empty() {
            return;
        }
        let _done = expressions_mut(order, &mut |expr| self.rename_qualified(expr, called));
        // An item of this name comes before the column.
        let is_old = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == self.old);
        if !select.projection.iter().any(is_old) {
            names_in(order, &mut |name, table| self.renamed(name, table));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{rename, rename_table};
    use crate::parse::{Extension, parse_query};

    fn renamed(sql: &str) -> Option<String> {
        let mut query = parse_query(sql, &Extension::NONE).unwrap();
        rename(&mut query, &|name| name.to_string() == "t", "w", "x").then(|| query.to_string())
    }

    #[test]
    fn the_column_is_called_otherwise_and_the_items_are_not() {
        for (sql, meant) in [
            ("SELECT v, w FROM t WHERE w > 1", r#"SELECT v, "x" AS "w" FROM t WHERE "x" > 1"#),
            ("SELECT a.w, a.w + 1 AS n FROM t AS a", r#"SELECT a."x" AS "w", a."x" + 1 AS n FROM t AS a"#),
            ("SELECT u.w FROM t, u WHERE t.w = u.w", r#"SELECT u.w FROM t, u WHERE t."x" = u.w"#),
            ("SELECT v FROM t ORDER BY w", r#"SELECT v FROM t ORDER BY "x""#),
            ("SELECT v AS w FROM t ORDER BY w, t.w", r#"SELECT v AS w FROM t ORDER BY w, t."x""#),
            (
                "SELECT v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.w = t.w) UNION SELECT w FROM t GROUP BY w",
                "SELECT v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.w = t.\"x\") UNION \
                 SELECT \"x\" AS \"w\" FROM t GROUP BY \"x\"",
            ),
        ] {
            assert_eq!(renamed(sql).as_deref(), Some(meant), "{sql}");
        }
    }

    #[test]
    fn a_table_is_known_by_its_old_name() {
        let renamed = |sql: &str| {
            let mut query = parse_query(sql, &Extension::NONE).unwrap();
            rename_table(&mut query, &|name| name.to_string() == "t", "n").then(|| query.to_string())
        };
        assert_eq!(
            renamed(
                "SELECT t.v, (SELECT max(a.v) FROM t AS a WHERE a.w = t.w) AS m FROM t JOIN s.t AS u ON true"
            ),
            Some(
                "SELECT t.v, (SELECT max(a.v) FROM \"n\" AS a WHERE a.w = t.w) AS m FROM \"n\" AS t \
                 JOIN s.t AS u ON true"
                    .into()
            )
        );
        assert_eq!(renamed("SELECT v FROM u"), None);
        assert_eq!(renamed("WITH n AS (SELECT 1 AS v) SELECT n.v FROM n, t"), None);
    }

    #[test]
    fn what_may_mean_something_else_stays() {
        for sql in [
            "SELECT w FROM u",
            "SELECT v FROM t",
            "SELECT w, v AS x FROM t",
            "SELECT w, u.x FROM t, u",
            "WITH t AS (SELECT 1 AS w) SELECT w FROM t",
        ] {
            assert_eq!(renamed(sql), None, "{sql}");
        }
    }
}
