//! Aggregates in subqueries that belong to the query around them, because they name only columns of
//! its tables (ISO/IEC 9075-2, 6.9): `HAVING EXISTS (SELECT 1 FROM u WHERE u.id = max(t.a))`. DataFusion
//! computes them where they stand, or refuses them. The query around is written over another one that
//! gives its groups, with keys and aggregates as columns, which the subquery can name.

use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::join_using::called;
use hypostyle_sql::plain::relations_of;
use hypostyle_sql::walk::{Within, expressions_by_depth, walk, walk_mut};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What the groups are called.
const GROUPS: &str = "__groups";

/// Says whether a query within another one of a statement has aggregates: it costs less than a copy.
pub fn may_be_in(state: &SessionState, statement: &Statement) -> bool {
    let mut is_inner = |expr: &Expr, depth: usize| match expr {
        Expr::Function(function) if depth > 1 && is_aggregate(state, function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(Within::Seen),
    };
    expressions_by_depth(statement, &mut is_inner).is_break()
}

fn is_aggregate(state: &SessionState, function: &Function) -> bool {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    function.over.is_none() && state.aggregate_functions().contains_key(&fold(name))
}

/// Writes the queries of a statement that have such aggregates over their groups; whether there are
/// any.
pub fn moved_out(state: &SessionState, statement: &mut Statement) -> bool {
    let mut moving = Moving { state, changed: false };
    let _done = walk_mut(statement, &mut moving);
    moving.changed
}

struct Moving<'a> {
    state: &'a SessionState,
    changed: bool,
}

impl VisitorMut for Moving<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(moved) = over_groups(self.state, query) {
            *query = moved;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Returns a query over its own groups; `None` for one without aggregates in subqueries, and where
/// the groups are not of plain keys.
fn over_groups(state: &SessionState, query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return None };
    let is_plain =
        |key: &Expr| !matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) | Expr::Tuple(_));
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
    if !modifiers.is_empty() || !keys.iter().all(is_plain) || has_wildcard || !select.named_window.is_empty()
    {
        return None;
    }
    let mut finding =
        Finding { state, scopes: Scopes::new(&select.from), within: Vec::new(), own: Vec::new() };
    let _all = walk(&select.projection, &mut finding);
    let _all = walk(&select.having, &mut finding);
    if finding.within.is_empty() {
        return None;
    }
    let _all = walk(&query.order_by, &mut finding);
    let mut aggregates = finding.within;
    for own in finding.own {
        if !aggregates.contains(&own) {
            aggregates.push(own);
        }
    }
    let keys = keys.iter().map(|key| key_of(key, select)).collect::<Option<Vec<_>>>()?;
    Some(written(query, select, keys, aggregates))
}

/// Returns a key as it is computed, where GROUP BY names it by its place in the list.
fn key_of(key: &Expr, select: &Select) -> Option<Expr> {
    let Expr::Value(value) = key else { return Some(key.clone()) };
    let Value::Number(place, _) = &value.value else { return Some(key.clone()) };
    let place: usize = place.parse().ok()?;
    match select.projection.get(place.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    }
}

fn written(query: &Query, select: &Select, keys: Vec<Expr>, aggregates: Vec<Function>) -> Query {
    let named = |expr: Expr, name: String| SelectItem::ExprWithAlias { expr, alias: quoted(name) };
    let columns = (0..).zip(&keys).map(|(place, key)| named(key.clone(), key_name(place)));
    let values = (0..).zip(&aggregates);
    let values = values.map(|(place, call)| named(Expr::Function(call.clone()), aggregate_name(place)));
    let mut groups = select.clone();
    groups.projection = columns.chain(values).collect();
    groups.group_by = GroupByExpr::Expressions(keys.clone(), Vec::new());
    (groups.distinct, groups.having, groups.qualify) = (None, None, None);
    let of_groups = Query {
        body: Box::new(SetExpr::Select(Box::new(groups))),
        with: None,
        order_by: None,
        limit_clause: None,
        fetch: None,
        ..query.clone()
    };
    let alias = TableAlias { explicit: true, name: Ident::new(GROUPS), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(of_groups),
        alias: Some(alias),
        sample: None,
    };
    let mut outer = select.clone();
    let mut replacing = Replacing { scopes: Scopes::new(&select.from), keys, aggregates };
    for item in &mut outer.projection {
        let mut expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
            _ => continue,
        };
        let _done = walk_mut(&mut expr, &mut replacing);
        let alias = match &*item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.clone(),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if !parts.is_empty() => {
                parts[parts.len() - 1].clone()
            }
            other => quoted(other.to_string()),
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    let _done = walk_mut(&mut outer.having, &mut replacing);
    let _done = walk_mut(&mut outer.qualify, &mut replacing);
    outer.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    outer.selection = outer.having.take();
    outer.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    let mut query = Query { body: Box::new(SetExpr::Select(Box::new(outer))), ..query.clone() };
    if let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        // A name by itself is that of a column of the result.
        for key in keys.iter_mut().filter(|key| !matches!(key.expr, Expr::Identifier(_))) {
            let _done = walk_mut(&mut key.expr, &mut replacing);
        }
    }
    query
}

fn quoted(name: String) -> Ident {
    Ident::with_quote('"', name)
}

fn key_name(place: usize) -> String {
    format!("__key_{place}")
}

fn aggregate_name(place: usize) -> String {
    format!("__aggregate_{place}")
}

/// Returns a column of the groups.
fn column(name: String) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::new(GROUPS), quoted(name)])
}

/// The tables of a query, and those of the queries within it that the walk is in.
struct Scopes {
    tables: HashSet<String>,
    within: Vec<HashSet<String>>,
}

impl Scopes {
    fn new(from: &[TableWithJoins]) -> Self {
        Self { tables: names_of(from), within: Vec::new() }
    }

    fn enter(&mut self, query: &Query) {
        self.within.push(match query.body.as_ref() {
            SetExpr::Select(select) => names_of(&select.from),
            _ => HashSet::new(),
        });
    }

    /// Says whether a column is one of the query's tables: only its qualifier tells.
    fn owns(&self, parts: &[Ident]) -> bool {
        let [.., table, _] = parts else { return false };
        let table = fold(table);
        self.tables.contains(&table) && !self.within.iter().any(|scope| scope.contains(&table))
    }
}

/// Returns what tables are called, also those of joins in parentheses.
fn names_of(from: &[TableWithJoins]) -> HashSet<String> {
    let name = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::Pivot { alias: Some(alias), .. }
        | TableFactor::Unpivot { alias: Some(alias), .. } => Some(fold(&alias.name)),
        other => called(other).and_then(|parts| parts.last().map(fold)),
    };
    relations_of(from).into_iter().filter_map(name).collect()
}

/// Finds aggregates of a query: its own, and those within its subqueries.
struct Finding<'a> {
    state: &'a SessionState,
    scopes: Scopes,
    within: Vec<Function>,
    own: Vec<Function>,
}

impl Visitor for Finding<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.scopes.within.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if !is_aggregate(self.state, function) {
            return ControlFlow::Continue(());
        }
        if self.scopes.within.is_empty() {
            self.own.push(function.clone());
            return ControlFlow::Continue(());
        }
        let mut columns = Columns { scopes: &self.scopes, bound: Vec::new(), owned: 0, others: 0 };
        let _all = walk(expr, &mut columns);
        if columns.owned > 0 && columns.others == 0 && !self.within.contains(function) {
            self.within.push(function.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Counts the columns of an expression that are of the query's tables, and the others; but not those
/// of the queries within the expression.
struct Columns<'a> {
    scopes: &'a Scopes,
    bound: Vec<HashSet<String>>,
    owned: usize,
    others: usize,
}

impl Visitor for Columns<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match query.body.as_ref() {
            SetExpr::Select(select) => self.bound.push(names_of(&select.from)),
            _ => {
                self.others += 1;
                self.bound.push(HashSet::new());
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.bound.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_bound = |parts: &[Ident]| match parts {
            [.., table, _] => self.bound.iter().any(|tables| tables.contains(&fold(table))),
            _ => false,
        };
        match expr {
            Expr::CompoundIdentifier(parts) if is_bound(parts) => {}
            Expr::CompoundIdentifier(parts) if self.scopes.owns(parts) => self.owned += 1,
            Expr::CompoundIdentifier(_) | Expr::Identifier(_) => self.others += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Puts columns of the groups into the places of keys and aggregates.
struct Replacing {
    scopes: Scopes,
    keys: Vec<Expr>,
    aggregates: Vec<Function>,
}

impl Replacing {
    fn is_key(&self, expr: &Expr, key: &Expr) -> bool {
        let is_inner = !self.scopes.within.is_empty();
        match (expr, key) {
            (Expr::CompoundIdentifier(parts), key) if is_inner => {
                self.scopes.owns(parts) && is_same_column(expr, key)
            }
            (_, _) if is_inner => false,
            _ => expr == key || is_same_column(expr, key),
        }
    }
}

/// Says whether two columns have one name, of which one may be written without its table.
pub fn is_same_column(one: &Expr, other: &Expr) -> bool {
    let parts = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(vec![fold(name)]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(fold).collect()),
        _ => None,
    };
    let (Some(one), Some(other)) = (parts(one), parts(other)) else { return false };
    one.ends_with(&other) || other.ends_with(&one)
}

impl VisitorMut for Replacing {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.within.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = &*expr
            && let Some(place) = self.aggregates.iter().position(|known| known == function)
        {
            *expr = column(aggregate_name(place));
        } else if let Some(place) = self.keys.iter().position(|key| self.is_key(expr, key)) {
            *expr = column(key_name(place));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::{may_be_in, moved_out};
    use datafusion::prelude::SessionContext;
    use datafusion::sql::parser::Statement as DfStatement;
    use hypostyle_sql::parse::{Extension, parse};

    #[test]
    fn aggregates_are_of_the_query_whose_tables_they_name() {
        let state = SessionContext::new().state();
        for (sql, is_moved) in [
            ("SELECT i FROM t GROUP BY i HAVING EXISTS (SELECT 1 FROM u WHERE u.id = max(t.j))", true),
            ("SELECT (SELECT max(t.j) + 1) FROM t", true),
            ("SELECT (SELECT max(t.j) FROM u) FROM (t CROSS JOIN v)", true),
            // Those of the subquery's own tables, however they are joined or made.
            ("SELECT (SELECT max(u.id) FROM u) FROM t", false),
            ("SELECT (SELECT max(t.j) FROM t) FROM t", false),
            ("SELECT (SELECT max(t.j) FROM (u CROSS JOIN v AS t)) FROM t", false),
            ("SELECT (SELECT max(t.x) FROM unnest([1, 2]) AS t (x)) FROM t", false),
            ("SELECT (SELECT max(t.j + u.id) FROM u) FROM t", false),
            ("SELECT (SELECT max(j) FROM u) FROM t", false),
        ] {
            let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!("{sql}")
            };
            assert!(may_be_in(&state, &statement), "{sql}");
            assert_eq!(moved_out(&state, &mut statement), is_moved, "{sql}");
        }
        for sql in ["SELECT max(i) FROM t", "SELECT i FROM t WHERE i IN (SELECT id FROM u)", "SELECT 1"] {
            let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!("{sql}")
            };
            assert!(!may_be_in(&state, &statement), "{sql}");
        }
    }
}
