//! NATURAL JOIN (ISO/IEC 9075-2, 7.10): the join USING the columns that both sides have, in the
//! order of the left one. The planner finds these columns. It would join by them itself, but would
//! then find their names ambiguous.

use crate::scope::{Scope, first_select};
use datafusion::error::Result;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, Statement, TableFactor,
    TableWithJoins, Value, Visitor, VisitorMut,
};
use hypostyle_error::external;
use hypostyle_sql::join_using;
use hypostyle_sql::plain::{constraint_of, constraint_of_mut};
use hypostyle_sql::walk::{walk, walk_mut};
use hypostyle_types::Error;
use std::ops::ControlFlow;

/// Writes what NATURAL JOINs join by.
///
/// # Errors
/// A column that both sides have and one of them twice; those of planning a side; those of
/// [`join_using::rewrite`].
pub async fn rewrite(scope: Scope<'_>, statement: &mut DfStatement) -> Result<()> {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return Box::pin(rewrite(scope, &mut explain.statement)).await,
        _ => return Ok(()),
    };
    if walk(statement, &mut Any).is_continue() {
        return Ok(());
    }
    while let Some(sides) = first_sides(statement) {
        let (left, right) = match (columns(scope, sides.left).await, columns(scope, sides.right).await) {
            (Ok(left), Ok(right)) => (left, right),
            // A side may be no query by itself: it may use a recursive query or outer columns. The
            // planner knows its columns.
            _ if sides.keeps_left => break,
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let common: Vec<&String> = left.iter().filter(|name| right.contains(name)).collect();
        let is_twice = |name: &String| {
            [&left, &right].iter().any(|side| side.iter().filter(|other| *other == name).count() > 1)
        };
        if let Some(name) = common.iter().find(|name| is_twice(name)) {
            let message = format!("NATURAL JOIN by the column \"{name}\", which one side has twice");
            return Err(external(Error::invalid_input(message).with_sqlstate("42702")));
        }
        let by = match common.is_empty() {
            true => JoinConstraint::On(Expr::Value(Value::Boolean(true).into())),
            false => JoinConstraint::Using(common.into_iter().map(|name| named(name)).collect()),
        };
        let _done = walk_mut(statement, &mut Joining(by));
    }
    join_using::rewrite(statement).map_err(external)
}

fn named(column: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', column)])
}

/// Returns the names of a query's columns.
async fn columns(scope: Scope<'_>, query: Query) -> Result<Vec<String>> {
    let schema = scope.schema_of(query).await?;
    Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
}

/// A NATURAL JOIN: the tables on its left with their joins, the one on its right, and the join.
type Natural<'a> = (TableWithJoins, TableFactor, &'a mut JoinOperator);

/// Returns the first one among tables. What is nested in its sides has its turn when it is planned.
fn natural_of(from: &mut [TableWithJoins]) -> Option<Natural<'_>> {
    from.iter_mut().find_map(natural_in)
}

fn natural_in(tables: &mut TableWithJoins) -> Option<Natural<'_>> {
    let is_natural =
        |join: &mut Join| matches!(constraint_of_mut(&mut join.join_operator), Some(JoinConstraint::Natural));
    let place = tables.joins.iter_mut().position(is_natural);
    if let Some(place) = place {
        let left =
            TableWithJoins { relation: tables.relation.clone(), joins: tables.joins[..place].to_vec() };
        let join = &mut tables.joins[place];
        return Some((left, join.relation.clone(), &mut join.join_operator));
    }
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    [&mut tables.relation].into_iter().chain(joined).find_map(|table| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => natural_in(table_with_joins),
        _ => None,
    })
}

/// Says whether a SELECT itself has one.
pub fn is_in(select: &Select) -> bool {
    select.from.iter().any(is_among)
}

fn is_among(tables: &TableWithJoins) -> bool {
    let is_natural =
        |join: &Join| matches!(constraint_of(&join.join_operator), Some(JoinConstraint::Natural));
    let mut relations =
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    tables.joins.iter().any(is_natural)
        || relations.any(|relation| {
            matches!(relation, TableFactor::NestedJoin { table_with_joins, .. } if is_among(table_with_joins))
        })
}

/// Finds out whether there is any.
struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if is_in(select) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Both sides of a NATURAL JOIN, as queries for all of their columns.
struct Sides {
    left: Query,
    right: Query,
    /// Says whether the common columns are those of the left side.
    keeps_left: bool,
}

/// Returns the first one of a statement.
fn first_sides(statement: &Statement) -> Option<Sides> {
    first_select(statement, |select, context| {
        let mut from = select.from.clone();
        let (left, right, join) = natural_of(&mut from)?;
        let right = TableWithJoins { relation: right, joins: Vec::new() };
        let keeps_left = !matches!(
            join,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
        );
        Some(Sides { left: context.all_of(vec![left]), right: context.all_of(vec![right]), keeps_left })
    })
}

/// Says what the first one joins by.
struct Joining(JoinConstraint);

impl VisitorMut for Joining {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match natural_of(&mut select.from) {
            Some((_, _, join)) => {
                if let Some(constraint) = constraint_of_mut(join) {
                    *constraint = self.0.clone();
                }
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}
