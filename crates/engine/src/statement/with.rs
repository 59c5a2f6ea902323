//! WITH before INSERT, UPDATE, DELETE and MERGE: every query within the statement gets it, and what it names stands in
//! FROM and USING as a subquery.

use super::ddl::fold;
use super::parse_query;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, SelectItem, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut, With,
};
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;

/// Puts a statement that writes in the place of a query that only names tables for it.
///
/// # Errors
/// `Unsupported` for a statement that writes within WITH.
pub(super) fn distribute(statement: &mut Statement) -> Result<()> {
    let query = match statement {
        Statement::Query(query) => query,
        Statement::Prepare { statement, .. } => return distribute(statement),
        _ => return Ok(()),
    };
    let Some(with) = &query.with else { return Ok(()) };
    if with.cte_tables.iter().any(|table| writing(&table.query).is_some()) {
        return Err(Error::unsupported(
            "a statement that writes is not supported within WITH; run it by itself, in the same transaction",
        ));
    }
    let Some(mut inner) = writing(query).cloned() else { return Ok(()) };
    if let ControlFlow::Break(error) = visit(&mut inner, &mut Within { with: with.clone(), depth: 0 }) {
        return Err(error);
    }
    *statement = inner;
    Ok(())
}

/// Visits a statement but for the table that it writes to, whose name nothing takes.
fn visit(statement: &mut Statement, within: &mut Within) -> ControlFlow<Error> {
    match statement {
        Statement::Update(update) => {
            update.from.visit(within)?;
            update.assignments.visit(within)?;
            update.selection.visit(within)?;
            visit_returning(&mut update.returning, within)
        }
        Statement::Delete(delete) => {
            delete.using.visit(within)?;
            delete.selection.visit(within)?;
            visit_returning(&mut delete.returning, within)
        }
        Statement::Merge(merge) => {
            merge.source.visit(within)?;
            merge.on.visit(within)?;
            merge.clauses.visit(within)
        }
        Statement::Insert(insert) => {
            insert.source.visit(within)?;
            insert.on.visit(within)?;
            visit_returning(&mut insert.returning, within)
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Columns are named as they were written.
fn visit_returning(items: &mut Option<Vec<SelectItem>>, within: &mut Within) -> ControlFlow<Error> {
    for item in items.iter_mut().flatten() {
        let written = item.to_string();
        item.visit(within)?;
        if let SelectItem::UnnamedExpr(expr) = item
            && expr.to_string() != written
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', written) };
        }
    }
    ControlFlow::Continue(())
}

/// The statement that stands in the place of a query.
fn writing(query: &Query) -> Option<&Statement> {
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
    /// A query's own names go before those around it.
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
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if self.depth == 0 {
            query.with = Some(self.with_before(query.with.take()));
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let named = part.as_ident().filter(|name| {
            let name = fold(name);
            self.depth == 0 && self.with.cte_tables.iter().any(|table| fold(&table.alias.name) == name)
        });
        let Some(named) = named else { return ControlFlow::Continue(()) };
        let mut subquery = match parse_query(&format!("SELECT * FROM {named}")) {
            Ok(query) => Box::new(query),
            Err(error) => return ControlFlow::Break(error),
        };
        subquery.with = Some(self.with.clone());
        let own = TableAlias { explicit: true, name: named.clone(), columns: Vec::new(), at: None };
        let alias = Some(alias.take().unwrap_or(own));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        ControlFlow::Continue(())
    }
}
