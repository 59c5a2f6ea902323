//! NATURAL JOIN (ISO/IEC 9075-2, 7.10): the join USING the columns that both sides have, in the order of the left one. Which they
//! are, the planner tells; it would join by them itself, but then take their names for those of several tables.

use super::parse_query;
use super::query::plan_statement;
use super::using;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr, Statement,
    TableFactor, TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut, With,
};
use hypostyle_types::Error;
use std::ops::ControlFlow;

/// Writes what NATURAL JOINs join by.
///
/// # Errors
/// A column that both sides have and one of them twice; those of planning a side; those of [`using::rewrite`].
pub(super) async fn rewrite(state: &SessionState, statement: &mut DfStatement) -> Result<()> {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return Box::pin(rewrite(state, &mut explain.statement)).await,
        _ => return Ok(()),
    };
    if Visit::visit(statement, &mut Any).is_continue() {
        return Ok(());
    }
    while let ControlFlow::Break(sides) = Visit::visit(statement, &mut First::new().map_err(external)?) {
        let (left, right) = match (columns(state, sides.left).await, columns(state, sides.right).await) {
            (Ok(left), Ok(right)) => (left, right),
            // A side that is no query by itself, of a recursive one or of columns around: the planner knows what it has.
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
        let _done = VisitMut::visit(statement, &mut Joining(by));
    }
    using::rewrite(statement).map_err(external)
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn named(column: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', column)])
}

/// The names of a query's columns.
async fn columns(state: &SessionState, query: Query) -> Result<Vec<String>> {
    let statement = DfStatement::Statement(Box::new(Statement::Query(Box::new(query))));
    let plan = Box::pin(plan_statement(state, statement)).await?;
    Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
}

/// A NATURAL JOIN: the tables on its left with their joins, the one on its right, and the join.
type Natural<'a> = (TableWithJoins, TableFactor, &'a mut JoinOperator);

/// The first one among tables. What is nested in its sides has its turn when it is planned.
fn natural_of(from: &mut [TableWithJoins]) -> Option<Natural<'_>> {
    from.iter_mut().find_map(natural_in)
}

fn natural_in(tables: &mut TableWithJoins) -> Option<Natural<'_>> {
    let is_natural =
        |join: &mut Join| matches!(constraint(&mut join.join_operator), Some(JoinConstraint::Natural));
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

fn constraint(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Whether there is any.
struct Any;

impl Visitor for Any {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let may_have = |tables: &TableWithJoins| {
            !tables.joins.is_empty() || matches!(tables.relation, TableFactor::NestedJoin { .. })
        };
        match select.from.iter().any(may_have) && natural_of(&mut select.from.clone()).is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Both sides of a NATURAL JOIN, as queries for all of their columns.
struct Sides {
    left: Query,
    right: Query,
    /// Whether the columns in common are those of the left one.
    keeps_left: bool,
}

/// Looks for the first.
struct First {
    /// A query for all columns of a table that it defines by WITH.
    of_all: Query,
    /// What the queries around define by WITH, and how many of them have been passed: those may be named.
    around: Vec<(Option<With>, usize)>,
}

impl First {
    fn new() -> hypostyle_types::Result<Self> {
        Ok(Self { of_all: parse_query("WITH a AS (SELECT 1) SELECT * FROM a")?, around: Vec::new() })
    }

    fn query(&self, tables: TableWithJoins) -> Query {
        let mut query = self.of_all.clone();
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = vec![tables];
        }
        let mut named: Vec<Cte> = Vec::new();
        let mut recursive = false;
        for (with, passed) in &self.around {
            for one in with.iter().flat_map(|with| &with.cte_tables[..*passed]) {
                named.retain(|other| other.alias.name != one.alias.name);
                named.push(one.clone());
            }
            recursive |= with.as_ref().is_some_and(|with| with.recursive);
        }
        match &mut query.with {
            Some(with) if !named.is_empty() => (with.cte_tables, with.recursive) = (named, recursive),
            with => *with = None,
        }
        query
    }
}

impl Visitor for First {
    type Break = Box<Sides>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Sides>> {
        self.around.push((query.with.clone(), 0));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Box<Sides>> {
        self.around.pop();
        // What WITH defines comes first in a query.
        if let Some((Some(with), passed)) = self.around.last_mut() {
            *passed = with.cte_tables.len().min(*passed + 1);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Box<Sides>> {
        match natural_of(&mut select.from.clone()) {
            Some((left, right, join)) => {
                let right = TableWithJoins { relation: right, joins: Vec::new() };
                let keeps_left = !matches!(
                    join,
                    JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
                );
                let (left, right) = (self.query(left), self.query(right));
                ControlFlow::Break(Box::new(Sides { left, right, keeps_left }))
            }
            None => ControlFlow::Continue(()),
        }
    }
}

/// Says what the first one joins by.
struct Joining(JoinConstraint);

impl VisitorMut for Joining {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match natural_of(&mut select.from) {
            Some((_, _, join)) => {
                if let Some(constraint) = constraint(join) {
                    *constraint = self.0.clone();
                }
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}
