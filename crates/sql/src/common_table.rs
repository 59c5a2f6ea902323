//! WITH before INSERT, UPDATE, DELETE and MERGE. Every query within the statement gets the WITH,
//! and its names become subqueries in FROM and USING.

use crate::build;
use crate::identifier::fold;
use crate::walk::walk_mut;
use sqlparser::ast::{
    Ident, Query, SelectItem, SetExpr, Statement, TableAlias, TableFactor, VisitorMut, With,
};
use std::ops::ControlFlow;

/// Puts a statement that writes in the place of a query that only names tables for it. One whose WITH has
/// such statements stays as it is: these run first.
pub fn distribute(statement: &mut Statement) {
    let query = match statement {
        Statement::Query(query) => query,
        Statement::Prepare { statement, .. } => return distribute(statement),
        _ => return,
    };
    let Some(with) = query.with.as_ref().filter(|_| !writes_within(query)) else { return };
    let Some(mut inner) = writing(query).cloned() else { return };
    let _done = visit(&mut inner, &mut Within { with: with.clone(), depth: 0 });
    *statement = inner;
}

/// Says whether a query has statements that write within its WITH.
pub fn writes_within(query: &Query) -> bool {
    query.with.iter().flat_map(|with| &with.cte_tables).any(|table| writing(&table.query).is_some())
}

/// Returns the statement that a query is by now whose WITH writes nothing.
pub fn main_of(query: Query) -> Statement {
    if let (None, Some(inner)) = (&query.with, writing(&query)) {
        return inner.clone();
    }
    let mut statement = Statement::Query(Box::new(query));
    distribute(&mut statement);
    statement
}

/// Visits a statement but for the table that it writes to, whose name nothing takes.
fn visit(statement: &mut Statement, within: &mut Within) -> ControlFlow<()> {
    match statement {
        Statement::Update(update) => {
            walk_mut(&mut update.from, within)?;
            walk_mut(&mut update.assignments, within)?;
            walk_mut(&mut update.selection, within)?;
            visit_returning(&mut update.returning, within)
        }
        Statement::Delete(delete) => {
            walk_mut(&mut delete.using, within)?;
            walk_mut(&mut delete.selection, within)?;
            visit_returning(&mut delete.returning, within)
        }
        Statement::Merge(merge) => {
            walk_mut(&mut merge.source, within)?;
            walk_mut(&mut merge.on, within)?;
            walk_mut(&mut merge.clauses, within)
        }
        Statement::Insert(insert) => {
            walk_mut(&mut insert.source, within)?;
            walk_mut(&mut insert.on, within)?;
            visit_returning(&mut insert.returning, within)
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Names the columns as they were written.
fn visit_returning(items: &mut Option<Vec<SelectItem>>, within: &mut Within) -> ControlFlow<()> {
    for item in items.iter_mut().flatten() {
        let written = item.to_string();
        walk_mut(item, within)?;
        if let SelectItem::UnnamedExpr(expr) = item
            && expr.to_string() != written
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', written) };
        }
    }
    ControlFlow::Continue(())
}

/// Returns the statement that stands in the place of a query.
pub fn writing(query: &Query) -> Option<&Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

struct Within {
    with: With,
    /// Queries around; those that have none around get the WITH.
    depth: usize,
}

impl Within {
    /// Returns the definitions of a query, whose own names take precedence over those around it.
    fn with_before(&self, own: Option<With>) -> With {
        let mut with = self.with.clone();
        if let Some(own) = own {
            let is_own = |name: &str| own.cte_tables.iter().any(|table| fold(&table.alias.name) == name);
            with.cte_tables.retain(|table| !is_own(&fold(&table.alias.name)));
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        with
    }
}

impl VisitorMut for Within {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            query.with = Some(self.with_before(query.with.take()));
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let named = part.as_ident().filter(|name| {
            let name = fold(name);
            self.depth == 0 && self.with.cte_tables.iter().any(|table| fold(&table.alias.name) == name)
        });
        let Some(named) = named else { return ControlFlow::Continue(()) };
        let subquery = Box::new(Query {
            with: Some(self.with.clone()),
            ..build::all_rows(build::table(named.clone(), None))
        });
        let own = TableAlias { explicit: true, name: named.clone(), columns: Vec::new(), at: None };
        let alias = Some(alias.take().unwrap_or(own));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        ControlFlow::Continue(())
    }
}
