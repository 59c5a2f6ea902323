//! Names within the expressions of ORDER BY. `ORDER BY b` is by the item of SELECT of this name, and
//! `ORDER BY b + 0` by the column, if there is one (PostgreSQL, DuckDB). DataFusion takes the item in both,
//! and refuses `ORDER BY t.b` beside an item `b`. In subqueries it finds only columns that are items,
//! too, and it has no plan for EXISTS. Such keys are computed beside the items, where a name means a column
//! first, and are left out of the result.

use crate::scope::{Scope, first_query};
use datafusion::common::DFSchema;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, Statement, TableFactor, Visitor, VisitorMut,
    WildcardAdditionalOptions,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::{alias_of, relations_of};
use hypostyle_sql::references::names_in;
use hypostyle_sql::walk::{expressions, walk, walk_mut};
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::vec::IntoIter;

/// Writes such keys so that their names mean columns.
pub async fn rewrite(scope: Scope<'_>, statement: &mut DfStatement) {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return Box::pin(rewrite(scope, &mut explain.statement)).await,
        _ => return,
    };
    if !is_needed(statement) {
        return;
    }
    let _done = walk_mut(statement, &mut Repeated);
    let mut numbers = Vec::new();
    for Keyed { number, asked } in keyed_queries(statement) {
        let are_columns = match asked {
            None => true,
            // What is asked may be no query by itself: it may use a recursive query or outer columns.
            Some(Asked { names, query }) => {
                let columns = scope.schema_as_it_is(query).await;
                columns.is_ok_and(|columns| names.iter().any(|name| has(&columns, name)))
            }
        };
        if are_columns {
            numbers.push(number);
        }
    }
    if !numbers.is_empty() {
        let _done = walk_mut(statement, &mut Apart { number: 0, chosen: numbers.into_iter().peekable() });
    }
}

/// A query that has such keys, by its number from the inside out.
struct Keyed {
    number: usize,
    /// What tells whether the names are columns, unless that is certain.
    asked: Option<Asked>,
}

/// Names in keys, and a query for the columns of the relations that may have them.
struct Asked {
    names: Vec<Ident>,
    query: Query,
}

/// Returns all such queries of a statement, in their order.
fn keyed_queries(statement: &Statement) -> Vec<Keyed> {
    let (mut found, mut number) = (Vec::new(), 0);
    let _all: Option<()> = first_query(statement, |query, context| {
        number += 1;
        // DISTINCT would take such keys for columns of its own.
        let shared = Shared::recognize(query).filter(|shared| !shared.is_distinct)?;
        let asked = (!shared.is_certain).then(|| {
            let all = build::select_where(vec![build::every_column()], shared.select.from.clone(), None);
            let mut all = context.defined(Query { with: query.with.clone(), ..all });
            // The names of columns do not depend on it, and keys within are as they are written.
            let _done = walk_mut(&mut all, &mut WithoutOrder);
            Asked { names: shared.names, query: all }
        });
        found.push(Keyed { number, asked });
        None
    });
    found
}

struct WithoutOrder;

impl VisitorMut for WithoutOrder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        query.order_by = None;
        ControlFlow::Continue(())
    }
}

/// Says whether a key of a statement has a subquery, or a name that an item has, too: another query may be
/// bound for it.
fn is_needed(statement: &Statement) -> bool {
    walk(statement, &mut Any).is_break()
}

/// Says the same of a query, but not of those within it.
pub fn is_needed_by(query: &Query) -> bool {
    Shared::recognize(query).is_some()
}

struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if is_needed_by(query) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn has(columns: &DFSchema, name: &Ident) -> bool {
    columns.fields().iter().any(|field| match name.quote_style {
        Some(_) => field.name() == &name.value,
        None => field.name().eq_ignore_ascii_case(&name.value),
    })
}

/// A SELECT whose ORDER BY has subqueries, or expressions with names of its items.
struct Shared<'a> {
    select: &'a Select,
    names: Vec<Ident>,
    /// Whether no columns need to be known: a table stands before a name, or there is a subquery.
    is_certain: bool,
    is_distinct: bool,
}

impl<'a> Shared<'a> {
    fn recognize(query: &'a Query) -> Option<Self> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else { return None };
        // It would take the keys for its own.
        if matches!(select.group_by, GroupByExpr::All(_)) {
            return None;
        }
        let is_distinct = match &select.distinct {
            None | Some(Distinct::All) => false,
            Some(Distinct::Distinct) => true,
            Some(Distinct::On(_)) => return None,
        };
        if select.from.is_empty() {
            return None;
        }
        let mut shared = Self { select, names: Vec::new(), is_certain: false, is_distinct };
        for key in keys {
            shared.add(&key.expr);
        }
        (shared.is_certain || !shared.names.is_empty()).then_some(shared)
    }

    fn add(&mut self, key: &Expr) {
        if matches!(written(key), Expr::Identifier(_) | Expr::Value(_)) {
            return;
        }
        let items = &self.select.projection;
        self.is_certain |= has_subquery(key, self.select);
        let (names, is_certain) = (&mut self.names, &mut self.is_certain);
        names_in(&mut key.clone(), &mut |name, table| {
            match table {
                None if is_item(items, name) => names.push(name.clone()),
                Some(table) if hides(items, table, name) && !is_item(items, table) => *is_certain = true,
                _ => {}
            }
            None
        });
    }
}

/// Says whether a key has a subquery that DataFusion does not plan there: EXISTS, or one that names a column
/// which is no item. A name of an item would not be found beside the items.
fn has_subquery(key: &Expr, select: &Select) -> bool {
    let relations: Vec<String> = relations_of(&select.from).into_iter().filter_map(called).collect();
    let is_hidden = |table: &Ident, column: &Ident| {
        relations.contains(&fold(table)) && !is_selected(&select.projection, column)
    };
    let (mut exists, mut has_query, mut has_hidden) = (false, false, false);
    let named = expressions(key, &mut |expr| {
        match expr {
            Expr::Identifier(name) if is_item(&select.projection, name) => return ControlFlow::Break(()),
            Expr::Exists { .. } => exists = true,
            Expr::Subquery(_) | Expr::InSubquery { .. } => has_query = true,
            Expr::CompoundIdentifier(parts) => {
                has_hidden |= matches!(parts.as_slice(), [.., table, column] if is_hidden(table, column));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    named.is_continue() && (exists || has_query && has_hidden)
}

/// Returns the name by which a query knows a relation.
fn called(relation: &TableFactor) -> Option<String> {
    match (alias_of(relation), relation) {
        (Some(alias), _) => Some(fold(&alias.name)),
        (None, TableFactor::Table { name, .. }) => name.0.last()?.as_ident().map(fold),
        _ => None,
    }
}

/// Says whether a column is an item, be it among all columns of a table.
fn is_selected(items: &[SelectItem], column: &Ident) -> bool {
    items.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            column_named(expr).is_some_and(|name| fold(name) == fold(column))
        }
        _ => true,
    })
}

/// Says whether an item has a name that is not that of the column which it is.
fn is_item(items: &[SelectItem], name: &Ident) -> bool {
    let name = fold(name);
    items.iter().any(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            fold(alias) == name && column_named(expr).is_none_or(|column| fold(column) != name)
        }
        _ => false,
    })
}

/// Says whether an item has the name of a table's column, and is another one: a column of another table, too,
/// where it has been given its own name.
fn hides(items: &[SelectItem], table: &Ident, name: &Ident) -> bool {
    let (table, name) = (fold(table), fold(name));
    items.iter().any(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if fold(alias) == name => match written(expr) {
            Expr::Identifier(column) => fold(column) != name,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., of, column] => fold(column) != name || fold(of) != table,
                _ => true,
            },
            _ => true,
        },
        _ => false,
    })
}

/// Returns the name of what is a column alone.
fn column_named(expr: &Expr) -> Option<&Ident> {
    match written(expr) {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// Returns an expression without the parentheses around it.
fn written(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => written(inner),
        other => other,
    }
}

/// Takes the names of items for keys that are written as these: `SELECT sum(x) AS x … ORDER BY sum(x)`. The
/// name of an item means this one, also where another item is the column of this name.
struct Repeated;

impl VisitorMut for Repeated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_shared = Shared::recognize(query).is_some();
        if is_shared
            && let SetExpr::Select(select) = query.body.as_ref()
            && let Some(keys) = keys_of(&mut query.order_by)
        {
            for key in keys {
                if !is_of_result(&key.expr, &select.projection)
                    && let Some(alias) = repeated(&select.projection, &key.expr)
                {
                    key.expr = Expr::Identifier(alias.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn keys_of(order: &mut Option<OrderBy>) -> Option<&mut Vec<OrderByExpr>> {
    match &mut order.as_mut()?.kind {
        OrderByKind::Expressions(keys) => Some(keys),
        OrderByKind::All(_) => None,
    }
}

/// Returns the name of the item that a key repeats, if it is that of no other.
fn repeated<'a>(items: &'a [SelectItem], key: &Expr) -> Option<&'a Ident> {
    let aliases = || {
        items.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((expr, alias)),
            _ => None,
        })
    };
    let (_, alias) = aliases().find(|(expr, _)| written(expr) == written(key))?;
    (aliases().filter(|(_, other)| fold(other) == fold(alias)).count() == 1).then_some(alias)
}

/// Computes the keys of some queries, which are told by their numbers from the inside out, beside their
/// items.
struct Apart {
    number: usize,
    /// The numbers that are left, in their order.
    chosen: Peekable<IntoIter<usize>>,
}

impl VisitorMut for Apart {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.number += 1;
        if self.chosen.next_if_eq(&self.number).is_some() {
            compute_beside(query);
        }
        if self.chosen.peek().is_none() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn compute_beside(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(keys) = keys_of(&mut query.order_by) else { return };
    let mut hidden = Vec::new();
    for key in keys {
        if is_of_result(&key.expr, &select.projection) {
            continue;
        }
        let name = build::name(&format!("key{ONE_OF}{}", hidden.len()));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        hidden.push(ObjectName::from(vec![name]));
    }
    let items = WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(hidden)),
        ..WildcardAdditionalOptions::default()
    };
    let body = std::mem::replace(query.body.as_mut(), *build::values(Vec::new()).body);
    let inner = build::derived(build::query(body), build::name(&format!("ordered{ONE_OF}")));
    *query.body = *build::select(vec![SelectItem::Wildcard(items)], vec![inner]).body;
}

/// Says whether a key is the place or the name of an item.
fn is_of_result(key: &Expr, items: &[SelectItem]) -> bool {
    let name = match written(key) {
        Expr::Value(_) => return true,
        Expr::Identifier(name) => fold(name),
        _ => return false,
    };
    items.iter().any(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => fold(alias) == name,
        SelectItem::UnnamedExpr(expr) => column_named(expr).is_some_and(|column| fold(column) == name),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::scope::{Remaining, Scope, Wanted};
    use datafusion::error::Result;
    use datafusion::execution::context::SessionState;
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;
    use datafusion::sql::parser::Statement as DfStatement;
    use futures::executor::block_on;
    use futures::future::BoxFuture;
    use hypostyle_sql::parse::{Extension, parse};

    fn planned(
        state: &SessionState,
        statement: DfStatement,
        _: Remaining,
        _: Wanted,
    ) -> BoxFuture<'_, Result<LogicalPlan>> {
        Box::pin(state.statement_to_plan(statement))
    }

    #[test]
    fn keys_are_computed_apart_in_each_query_whose_names_mean_columns() {
        const COLUMN: &str = "SELECT -a AS a FROM (SELECT 1 AS a) AS t ORDER BY a + 0";
        const ITEM: &str = "SELECT -a AS b FROM (SELECT 1 AS a) AS t ORDER BY b + 0";
        let state = SessionContext::new().state();
        for (sql, apart) in [
            (COLUMN.to_string(), 1),
            (ITEM.to_string(), 0),
            ("SELECT a AS b FROM (SELECT 1 AS a, 2 AS b) AS t ORDER BY t.b".to_string(), 1),
            (
                "SELECT u.a AS a FROM (SELECT 1 AS a) AS t, (SELECT 2 AS a) AS u ORDER BY -t.a, a"
                    .to_string(),
                1,
            ),
            (
                "SELECT u.a AS a FROM (SELECT 1 AS a) AS t, (SELECT 2 AS a) AS u ORDER BY -u.a, a"
                    .to_string(),
                0,
            ),
            ("SELECT -t.a AS a FROM (SELECT 1 AS a) AS t GROUP BY t.a ORDER BY abs(t.a), a".to_string(), 1),
            ("WITH t AS (SELECT 1 AS a ORDER BY 1) SELECT -a AS a FROM t ORDER BY a + 0".to_string(), 1),
            (format!("SELECT * FROM ({COLUMN}) AS u, ({ITEM}) AS v, ({COLUMN}) AS w"), 2),
            (format!("SELECT -a AS a FROM ({COLUMN} LIMIT 1) AS u ORDER BY a + 0"), 2),
            (format!("SELECT -a AS c FROM ({COLUMN} LIMIT 1) AS u ORDER BY c + 0"), 1),
        ] {
            let mut statement = parse(&sql, &Extension::NONE).unwrap();
            block_on(rewrite(Scope::new(&state, planned), &mut statement));
            assert_eq!(statement.to_string().matches("EXCLUDE").count(), apart, "{sql}");
        }
    }
}
