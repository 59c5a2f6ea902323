//! Aliases that name fewer columns than there are, as in `FROM t AS r (p, q)`: the others keep their
//! names, as in PostgreSQL. DataFusion wants a name for each.

use crate::scope::{Context, Scope, first_query, first_select};
use datafusion::sql::sqlparser::ast::{
    Ident, Query, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    VisitorMut,
};
use hypostyle_sql::plain::alias_of_mut;
use hypostyle_sql::row_values::ROWS;
use hypostyle_sql::walk::walk_mut;
use std::ops::ControlFlow;

/// Names all columns of the tables and of the queries of WITH that have names for some; whether
/// there are any.
pub async fn complete(scope: Scope<'_>, statement: &mut Statement) -> bool {
    let of_queries = complete_each(scope, statement, queries_of_with, Names::of_with).await;
    let of_tables = complete_each(scope, statement, queries_of_tables, Names::of_tables).await;
    of_queries || of_tables
}

/// What is asked for the columns of each alias of a query or a SELECT, in order.
type Asked = Vec<Option<Query>>;

async fn complete_each(
    scope: Scope<'_>,
    statement: &mut Statement,
    first_asked: fn(&Statement, usize) -> Option<(usize, Asked)>,
    of: fn(usize, Vec<Vec<Ident>>) -> Names,
) -> bool {
    let (mut done, mut changed) = (0, false);
    while let Some((number, asked)) = first_asked(statement, done) {
        done = number;
        let mut names = Vec::with_capacity(asked.len());
        for query in asked {
            let schema = match query {
                Some(query) => scope.schema_of(query).await.ok(),
                None => None,
            };
            let name = |name: &String| Ident::with_quote('"', name);
            names.push(schema.map_or_else(Vec::new, |schema| {
                schema.fields().iter().map(|field| name(field.name())).collect()
            }));
        }
        let mut names = of(number, names);
        let _done = walk_mut(statement, &mut names);
        changed |= names.changed;
    }
    changed
}

fn queries_of_tables(statement: &Statement, done: usize) -> Option<(usize, Asked)> {
    let mut number = 0;
    let asked = |select: &Select, context: &Context| {
        number += 1;
        let mut from = select.from.clone();
        let mut asked = Vec::new();
        each_factor(&mut from, &mut |factor| {
            let named =
                alias_of_mut(factor).is_some_and(|alias| !std::mem::take(&mut alias.columns).is_empty());
            let tables = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
            asked.push(named.then(|| context.all_of(vec![tables])));
        });
        (number > done && asked.iter().any(Option::is_some)).then_some((number, asked))
    };
    first_select(statement, asked)
}

fn queries_of_with(statement: &Statement, done: usize) -> Option<(usize, Asked)> {
    let mut number = 0;
    let asked = |query: &Query, context: &Context| {
        number += 1;
        let with = query.with.as_ref().filter(|_| number > done)?;
        let asked = with.cte_tables.iter().enumerate().map(|(place, cte)| {
            let mut body = cte.query.as_ref().clone();
            // The columns of a recursive query have the names of its first part.
            if let SetExpr::SetOperation { left, .. } = body.body.as_ref()
                && with.recursive
            {
                body.body = left.clone();
            }
            // Its own definitions go before those around it.
            if let (None, Some(with)) = (&body.with, &query.with) {
                let mut with = with.clone();
                with.cte_tables.truncate(place);
                body.with = Some(with).filter(|with| !with.cte_tables.is_empty());
            }
            (!cte.alias.columns.is_empty()).then(|| context.defined(body))
        });
        let asked: Asked = asked.collect();
        asked.iter().any(Option::is_some).then_some((number, asked))
    };
    first_query(statement, asked)
}

/// Goes through the tables of a FROM, but not through those within subqueries.
fn each_factor(from: &mut [TableWithJoins], each: &mut dyn FnMut(&mut TableFactor)) {
    for tables in from {
        let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut tables.relation).chain(joined) {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                each_factor(std::slice::from_mut(table_with_joins), each);
            }
            each(factor);
        }
    }
}

/// Completes the aliases in the query or the SELECT of a number, from the inside out.
struct Names {
    queries: Option<usize>,
    selects: Option<usize>,
    /// The columns of each alias; none where nothing is known.
    columns: Vec<Vec<Ident>>,
    changed: bool,
}

impl Names {
    fn of_with(number: usize, columns: Vec<Vec<Ident>>) -> Self {
        Self { queries: Some(number), selects: None, columns, changed: false }
    }

    fn of_tables(number: usize, columns: Vec<Vec<Ident>>) -> Self {
        Self { queries: None, selects: Some(number), columns, changed: false }
    }

    fn complete(&mut self, place: usize, alias: Option<&mut TableAlias>) {
        let (Some(alias), Some(columns)) = (alias, self.columns.get(place)) else { return };
        // A row is compared with one of as many values.
        if alias.name.value == ROWS {
            return;
        }
        let more = columns.get(alias.columns.len()..).unwrap_or_default();
        if !alias.columns.is_empty() && !more.is_empty() {
            let named = more.iter().map(|name| TableAliasColumnDef { name: name.clone(), data_type: None });
            alias.columns.extend(named);
            self.changed = true;
        }
    }
}

/// Counts down, and says whether it is the one that is meant.
fn is_it(number: &mut Option<usize>) -> bool {
    let Some(left) = number else { return false };
    *left -= 1;
    *left == 0
}

impl VisitorMut for Names {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !is_it(&mut self.queries) {
            return ControlFlow::Continue(());
        }
        for (place, cte) in query.with.iter_mut().flat_map(|with| &mut with.cte_tables).enumerate() {
            self.complete(place, Some(&mut cte.alias));
        }
        ControlFlow::Break(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !is_it(&mut self.selects) {
            return ControlFlow::Continue(());
        }
        let mut place = 0;
        each_factor(&mut select.from, &mut |factor| {
            self.complete(place, alias_of_mut(factor));
            place += 1;
        });
        ControlFlow::Break(())
    }
}
