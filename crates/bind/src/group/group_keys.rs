//! GROUP BY the primary key of a table: each of its columns has one value in a group then, and may
//! stand beside aggregates (ISO/IEC 9075-2, 7.12), as in PostgreSQL. DataFusion wants them all in
//! GROUP BY, which is where they are put here. In rows that an outer join adds, the key and the
//! columns are all NULL.

use crate::group::outer_aggregates::is_same_column;
use crate::scope::{Context, Scope, first_select};
use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, TableScan};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins, Value, Visitor,
    VisitorMut,
};
use hypostyle_error::column_name::unmarked_name;
use hypostyle_error::external;
use hypostyle_expr::walk::any_node;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::join_using::called;
use hypostyle_sql::plain::relations_of;
use hypostyle_sql::walk::{Within, expressions_by_depth, walk, walk_mut};
use hypostyle_types::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Adds the columns to GROUP BY that its keys decide and that are named elsewhere; whether there
/// are any.
pub async fn complete(scope: Scope<'_>, statement: &mut Statement) -> bool {
    let (mut done, mut changed) = (0, false);
    let Some(keys) = scope.state.config().get_extension::<PrimaryKeys>() else { return false };
    loop {
        let mut number = 0;
        let found = first_select(statement, |select, context| {
            number += 1;
            (number > done && plain_keys(select).is_some()).then(|| (number, asked(select, context)))
        });
        let Some((number, asked)) = found else { return changed };
        done = number;
        let mut tables = Vec::with_capacity(asked.len());
        for Asked { called, renamed, query } in asked {
            if let Ok(plan) = scope.plan_of(query).await {
                tables.extend(Keyed::new(called, &renamed, &plan, &keys));
            }
        }
        let mut completing =
            Completing { state: scope.state, number, tables, orders: Vec::new(), changed: false };
        let _done = walk_mut(statement, &mut completing);
        changed |= completing.changed;
    }
}

/// Says whether a statement names a column beside a GROUP BY that is none of its keys, as both are written:
/// the keys decide it, or it is a mistake. What only subqueries name is seen in the plan.
pub fn is_needed(state: &SessionState, statement: &Statement) -> bool {
    walk(statement, &mut Needing { state, orders: Vec::new() }).is_break()
}

/// Breaks at a SELECT beside whose GROUP BY other columns are named.
struct Needing<'a> {
    state: &'a SessionState,
    /// The ORDER BY of each query around that is one SELECT.
    orders: Vec<Option<OrderBy>>,
}

impl Visitor for Needing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let is_grouped =
            matches!(query.body.as_ref(), SetExpr::Select(select) if plain_keys(select).is_some());
        self.orders.push(query.order_by.as_ref().filter(|_| is_grouped).cloned());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.orders.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let Some(keys) = plain_keys(select) else { return ControlFlow::Continue(()) };
        let order = self.orders.last_mut().and_then(Option::take);
        let items = &select.projection;
        if items
            .iter()
            .any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }))
        {
            return ControlFlow::Break(());
        }
        let keys = keys_in(keys, items);
        let is_whole = |expr: &Expr| {
            is_aggregate(self.state, expr) || keys.iter().any(|key| *key == expr || is_same_column(key, expr))
        };
        // Breaks at a column that is none of the keys, and within none, nor in an aggregate or a subquery.
        let mut other = |expr: &Expr, depth: usize| match expr {
            expr if depth > 0 || is_whole(expr) => ControlFlow::Continue(Within::PassedOver),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(Within::Seen),
        };
        expressions_by_depth(items, &mut other)?;
        expressions_by_depth(&select.distinct, &mut other)?;
        expressions_by_depth(&select.having, &mut other)?;
        expressions_by_depth(&select.qualify, &mut other)?;
        expressions_by_depth(&select.named_window, &mut other)?;
        let Some(OrderByKind::Expressions(order)) = order.map(|order| order.kind) else {
            return ControlFlow::Continue(());
        };
        // A name by itself may be that of a column of the result.
        let is_shown = |expr: &Expr| {
            let is_alias = |name: &Ident| {
                items.iter().any(|item| {
                    matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == fold(name))
                })
            };
            matches!(expr, Expr::Identifier(name) if is_alias(name))
        };
        order
            .iter()
            .filter(|key| !is_shown(&key.expr))
            .try_for_each(|key| expressions_by_depth(&key.expr, &mut other))
    }
}

/// Returns the keys of a GROUP BY, those of grouping sets among them, as they are written, and as the items
/// of SELECT that they name or number.
fn keys_in<'a>(keys: &'a [Expr], items: &'a [SelectItem]) -> Vec<&'a Expr> {
    let mut found = Vec::new();
    let mut add = |key: &'a Expr| {
        let key = alone(key);
        found.push(key);
        let item = match key {
            Expr::Identifier(name) => items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if fold(alias) == fold(name) => Some(expr),
                _ => None,
            }),
            Expr::Value(number) => match &number.value {
                Value::Number(number, _) => {
                    let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                    place.and_then(|place| items.get(place)).and_then(|item| match item {
                        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                        _ => None,
                    })
                }
                _ => None,
            },
            _ => None,
        };
        found.extend(item.map(alone));
    };
    for key in keys {
        match key {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                sets.iter().flatten().for_each(&mut add);
            }
            Expr::Tuple(keys) => keys.iter().for_each(&mut add),
            key => add(key),
        }
    }
    found
}

/// Returns an expression without the parentheses around it.
fn alone(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => alone(inner),
        other => other,
    }
}

fn is_aggregate(state: &SessionState, expr: &Expr) -> bool {
    let Expr::Function(Function { name, over: None, .. }) = expr else { return false };
    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    name.is_some_and(|name| state.aggregate_functions().contains_key(&name))
}

/// Whether a subquery of a plan is about a column that is not among those around it, as one that is
/// in no GROUP BY: DataFusion looks for columns beside aggregates outside of subqueries only.
pub fn is_incomplete(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| lacking(node, |_| true).is_some())
}

/// Looks at what subqueries beside aggregates are about.
///
/// # Errors
/// `Syntax` (42803) for a column that is not in GROUP BY.
pub fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        found = lacking(node, |column| node.inputs().into_iter().any(|input| groups(input, column)));
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    let Some(column) = found else { return Ok(plan) };
    let name = unmarked_name(&column.name).to_string();
    let shown = column
        .relation
        .map_or_else(|| name.clone(), |table| format!("{}.{name}", unmarked_name(table.table())));
    let message = format!(
        "column \"{shown}\" is used in a subquery, and must be in GROUP BY around it or within an aggregate function"
    );
    Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42803").about(&name)))
}

/// The first column of those that subqueries of a node are about, and that its inputs have not, that
/// is sought.
fn lacking(node: &LogicalPlan, is_sought: impl Fn(&Column) -> bool) -> Option<Column> {
    let mut found = None;
    let is_here = |column: &Column| node.inputs().into_iter().any(|input| input.schema().has_column(column));
    let _all = node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let PlanExpr::ScalarSubquery(subquery)
            | PlanExpr::Exists(Exists { subquery, .. })
            | PlanExpr::InSubquery(InSubquery { subquery, .. }) = expr
            {
                let mut columns = subquery.outer_ref_columns.iter().filter_map(|outer| match outer {
                    PlanExpr::OuterReferenceColumn(_, column) => Some(column),
                    _ => None,
                });
                found = columns.find(|column| !is_here(column) && is_sought(column)).cloned();
            }
            Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found
}

/// Whether a plan shows groups of rows that have a column.
fn groups(plan: &LogicalPlan, column: &Column) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.input.schema().has_column(column),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => plan.inputs().into_iter().all(|input| groups(input, column)),
        _ => false,
    }
}

/// The keys of a GROUP BY, those of grouping sets among them, if there are any.
fn plain_keys(select: &Select) -> Option<&[Expr]> {
    match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if !keys.is_empty() && modifiers.is_empty() => Some(keys),
        _ => None,
    }
}

/// A table of a FROM that is to be looked at.
struct Asked {
    called: Vec<Ident>,
    /// Names that its columns are given.
    renamed: Vec<Ident>,
    /// All of it.
    query: Query,
}

fn asked(select: &Select, context: &Context) -> Vec<Asked> {
    let of_factor = |factor: &TableFactor| {
        let mut relation = factor.clone();
        let TableFactor::Table { alias, args: None, .. } = &mut relation else { return None };
        let renamed = alias.iter_mut().flat_map(|alias| std::mem::take(&mut alias.columns));
        let renamed = renamed.map(|column| column.name).collect();
        let query = context.all_of(vec![TableWithJoins { relation, joins: Vec::new() }]);
        Some(Asked { called: called(factor)?, renamed, query })
    };
    relations_of(&select.from).into_iter().filter_map(of_factor).collect()
}

/// A table with a primary key, in a query.
struct Keyed {
    /// What the query calls it.
    called: Vec<Ident>,
    columns: Vec<String>,
    /// The places of the key's columns.
    key: Vec<usize>,
}

impl Keyed {
    /// The table that a query reads all of; `None` for anything else, such as a view.
    fn new(called: Vec<Ident>, renamed: &[Ident], plan: &LogicalPlan, keys: &PrimaryKeys) -> Option<Self> {
        let LogicalPlan::Projection(all) = plan else { return None };
        let scan = match all.input.as_ref() {
            LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
            other => other,
        };
        let LogicalPlan::TableScan(scan) = scan else { return None };
        let key = keys.0(scan)?;
        let mut columns: Vec<String> =
            scan.projected_schema.fields().iter().map(|field| field.name().clone()).collect();
        for (column, name) in columns.iter_mut().zip(renamed) {
            *column = fold(name);
        }
        Some(Self { called, columns, key })
    }

    fn is_called(&self, name: &[Ident]) -> bool {
        let mut parts = name.iter().rev().zip(self.called.iter().rev());
        name.len() <= self.called.len() && parts.all(|(part, own)| fold(part) == fold(own))
    }
}

/// Tells the places of the columns of a table's primary key. The session's configuration has it, as an
/// extension: plans know no catalog.
pub struct PrimaryKeys(pub fn(&TableScan) -> Option<Vec<usize>>);

/// A column, by the places of its table and of itself.
type Place = (usize, usize);

/// The column of one of the tables that a name means.
fn named(tables: &[Keyed], name: &[Ident]) -> Option<Place> {
    let (column, table) = name.split_last()?;
    let column = fold(column);
    let tables = tables.iter().enumerate().filter(|(_, keyed)| keyed.is_called(table));
    let place = |keyed: &Keyed| keyed.columns.iter().position(|own| *own == column);
    tables.filter_map(|(of, keyed)| Some((of, place(keyed)?))).next()
}

/// The column that a key of GROUP BY is: by its own name, by the name that it has in the result, or
/// by its number there.
fn grouped_by(tables: &[Keyed], key: &Expr, items: &[SelectItem]) -> Option<Place> {
    match key {
        Expr::Nested(inner) => grouped_by(tables, inner, items),
        Expr::CompoundIdentifier(name) => named(tables, name),
        Expr::Identifier(name) => named(tables, std::slice::from_ref(name)).or_else(|| {
            let shown = items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if fold(alias) == fold(name) => Some(expr),
                _ => None,
            });
            column(tables, shown?)
        }),
        Expr::Value(number) => match &number.value {
            Value::Number(number, _) => {
                let place = number.parse::<usize>().ok()?.checked_sub(1)?;
                match items.get(place)? {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                        column(tables, expr)
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// The column that an expression is.
fn column(tables: &[Keyed], expr: &Expr) -> Option<Place> {
    match expr {
        Expr::Nested(inner) => column(tables, inner),
        Expr::Identifier(name) => named(tables, std::slice::from_ref(name)),
        Expr::CompoundIdentifier(name) => named(tables, name),
        _ => None,
    }
}

/// Completes the GROUP BY of the SELECT of a number, from the inside out.
struct Completing<'a> {
    state: &'a SessionState,
    number: usize,
    tables: Vec<Keyed>,
    /// The ORDER BY of each query around that is one SELECT.
    orders: Vec<Option<OrderBy>>,
    changed: bool,
}

impl VisitorMut for Completing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        self.orders.push(query.order_by.clone().filter(|_| is_select));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.orders.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.number -= 1;
        if self.number > 0 {
            return ControlFlow::Continue(());
        }
        let order = self.orders.pop().flatten();
        let added = self.decided(select, order.as_ref());
        self.changed = !added.is_empty();
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.extend(added);
        }
        ControlFlow::Break(())
    }
}

impl Completing<'_> {
    /// The columns that are named beside GROUP BY, are none of its keys, and are decided by these.
    fn decided(&self, select: &Select, order: Option<&OrderBy>) -> Vec<Expr> {
        let column = |key: &Expr| grouped_by(&self.tables, key, &select.projection);
        let (mut always, mut sometimes) = (BTreeSet::new(), BTreeSet::new());
        for key in plain_keys(select).unwrap_or_default() {
            match key {
                // NULL in the groups of some sets, whatever decides it.
                Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                    sometimes.extend(sets.iter().flatten().filter_map(column));
                }
                Expr::Tuple(keys) => always.extend(keys.iter().filter_map(column)),
                key => always.extend(column(key)),
            }
        }
        let is_decided =
            |table: usize| self.tables[table].key.iter().all(|column| always.contains(&(table, *column)));
        let mut names = Names { completing: self, aggregates: 0, found: BTreeSet::new() };
        names.of_wildcards(&select.projection);
        let _all = walk(&select.projection, &mut names);
        let _all = walk(&select.distinct, &mut names);
        let _all = walk(&select.having, &mut names);
        let _all = walk(&select.qualify, &mut names);
        let _all = walk(&select.named_window, &mut names);
        let _all = order.map(|order| walk(order, &mut names));
        let is_key = |place: &Place| always.contains(place) || sometimes.contains(place);
        let added = names.found.iter().filter(|place| is_decided(place.0) && !is_key(place));
        let written = |(table, column): &Place| {
            let Keyed { called, columns, .. } = &self.tables[*table];
            let name = Ident::with_quote('"', columns[*column].as_str());
            Expr::CompoundIdentifier(called.iter().cloned().chain([name]).collect())
        };
        added.map(written).collect()
    }
}

/// Collects columns outside of aggregates. Others than those that are meant do no harm: they are
/// decided by the keys, too.
struct Names<'a> {
    completing: &'a Completing<'a>,
    /// How many aggregates are around.
    aggregates: usize,
    found: BTreeSet<Place>,
}

impl Names<'_> {
    fn of_wildcards(&mut self, items: &[SelectItem]) {
        for item in items {
            let table: Vec<Ident> = match item {
                SelectItem::Wildcard(_) => Vec::new(),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect()
                }
                _ => continue,
            };
            for (place, keyed) in self.completing.tables.iter().enumerate() {
                if keyed.is_called(&table) {
                    self.found.extend((0..keyed.columns.len()).map(|column| (place, column)));
                }
            }
        }
    }

    fn is_aggregate(&self, expr: &Expr) -> bool {
        is_aggregate(self.completing.state, expr)
    }
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates += usize::from(self.is_aggregate(expr));
        let name = match expr {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(name) => name.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        if self.aggregates == 0 {
            // What is behind a column are fields of it.
            let starts = (1..=name.len()).filter_map(|end| named(&self.completing.tables, &name[..end]));
            self.found.extend(starts);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates -= usize::from(self.is_aggregate(expr));
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_needed;
    use datafusion::prelude::SessionContext;
    use datafusion::sql::parser::Statement as DfStatement;
    use hypostyle_sql::parse::{Extension, parse};

    #[test]
    fn others_than_the_keys_are_seen_as_they_are_written() {
        let state = SessionContext::new().state();
        let needs = |sql: &str| {
            let DfStatement::Statement(statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!("{sql}")
            };
            is_needed(&state, &statement)
        };
        for sql in [
            "SELECT a, count(*) FROM t GROUP BY a",
            "SELECT t.a, T.A + 1, max(b) AS n FROM t GROUP BY a HAVING min(c) > 1 ORDER BY n DESC, t.a",
            "SELECT a + b AS k, sum(c) OVER (ORDER BY a + b) FROM t GROUP BY k, c",
            "SELECT upper(b), count(*) FROM t GROUP BY 1 ORDER BY 1",
            "SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)",
            "SELECT a, b FROM t GROUP BY GROUPING SETS ((a, b), (a))",
            "SELECT a FROM t GROUP BY (a) ORDER BY count(b)",
            "SELECT a, (SELECT max(c) FROM u WHERE u.x = t.b) FROM t GROUP BY a",
            "SELECT b FROM (SELECT a AS b FROM t GROUP BY a) AS s WHERE c > 1",
            "SELECT a, b FROM t",
            "SELECT sum(a) FILTER (WHERE b > 1) FROM t",
        ] {
            assert!(!needs(sql), "{sql}");
        }
        for sql in [
            "SELECT a, b FROM t GROUP BY a",
            "SELECT * FROM t GROUP BY a",
            "SELECT u.a FROM t, u GROUP BY t.a",
            "SELECT a + 1 FROM t GROUP BY a + 2",
            "SELECT max(c) AS b FROM t GROUP BY a HAVING b > 1",
            "SELECT max(c) AS b FROM t GROUP BY a ORDER BY upper(b)",
            "SELECT a FROM t GROUP BY a ORDER BY b",
            "SELECT a, sum(a) OVER (PARTITION BY b) FROM t GROUP BY a",
            "SELECT 1 FROM u WHERE x IN (SELECT b FROM t GROUP BY a)",
            "INSERT INTO u SELECT a, b FROM t GROUP BY a",
        ] {
            assert!(needs(sql), "{sql}");
        }
    }
}
