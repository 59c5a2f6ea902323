//! What the steps have in common: the scope of a statement, and a SELECT within its surrounding queries.
//! The columns of its inputs can be found by binding a query of its own.

use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Query, Select, SelectItem, Statement, TableWithJoins, Visitor, VisitorMut, With,
};
use futures::future::BoxFuture;
use hypostyle_sql::build;
use hypostyle_sql::walk::{walk, walk_mut};
use std::ops::ControlFlow;

/// The largest number of queries of a statement that a step asks for their columns, where each of them may be
/// within the next.
pub const ASKED_MAX: usize = 32;

/// What a plan is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It runs.
    Rows,
    /// Only the names of its columns are asked for. What is rewritten in a whole plan, and checked there,
    /// is left out: it takes the more time the more a plan reads, for each query that is asked.
    Names,
}

/// Which steps remain for a query that is bound to be asked for its columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    All,
    /// Nothing in it is to be asked for its columns any more.
    AfterNames,
    /// All but the keys of GROUP BY, which have been completed around it and before it.
    AllButKeys,
}

/// Binds a query that a step asks for its columns, by the steps that remain for it.
pub type Binder =
    for<'a> fn(&'a SessionState, DfStatement, Remaining, Wanted) -> BoxFuture<'a, Result<LogicalPlan>>;

/// Where a statement is bound: the session's catalogs, functions and settings, and how a query of its own is
/// bound that a step has to ask for its columns.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub state: &'a SessionState,
    binder: Binder,
}

// The futures of the binder are of a type that does not say of what they are made: that would contain itself
// in several ways, and the compiler would follow each of them wherever a future has to be `Send`.
impl<'a> Scope<'a> {
    pub fn new(state: &'a SessionState, binder: Binder) -> Self {
        Self { state, binder }
    }

    /// Returns the same scope with another state.
    pub fn with_state<'b>(&self, state: &'b SessionState) -> Scope<'b> {
        Scope { state, binder: self.binder }
    }

    /// Returns the columns of a query, whose names are those of its result.
    ///
    /// # Errors
    /// Those of binding it.
    pub async fn schema_of(self, query: Query) -> Result<DFSchemaRef> {
        let plan = (self.binder)(self.state, statement_of(query), Remaining::All, Wanted::Names).await?;
        Ok(plan.schema().clone())
    }

    /// Returns the plan of a query, where the keys of the GROUP BYs around and before it have been completed.
    ///
    /// # Errors
    /// Those of binding it.
    pub async fn plan_of(self, query: Query) -> Result<LogicalPlan> {
        (self.binder)(self.state, statement_of(query), Remaining::AllButKeys, Wanted::Rows).await
    }

    /// Returns the columns of a query in which only its own SELECT is left to be written out.
    ///
    /// # Errors
    /// Those of binding it.
    pub async fn schema_as_it_is(self, query: Query) -> Result<DFSchemaRef> {
        let plan =
            (self.binder)(self.state, statement_of(query), Remaining::AfterNames, Wanted::Names).await?;
        Ok(plan.schema().clone())
    }

    /// Returns the plan of such a query.
    ///
    /// # Errors
    /// Those of binding it.
    pub async fn plan_as_it_is(self, query: Query) -> Result<LogicalPlan> {
        (self.binder)(self.state, statement_of(query), Remaining::AfterNames, Wanted::Rows).await
    }
}

/// The definitions around a SELECT: those by WITH of the queries around, and how many of them have been
/// passed, which may be named.
#[derive(Default)]
pub struct Context {
    around: Vec<(Option<With>, usize)>,
}

impl Context {
    /// Returns a query of its own for items of some tables.
    pub fn query(&self, items: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Query {
        self.defined(build::select_where(items, from, None))
    }

    /// Returns a query of its own for all columns of some tables.
    pub fn all_of(&self, from: Vec<TableWithJoins>) -> Query {
        self.query(vec![build::every_column()], from)
    }

    /// Returns a query with the definitions around it in front of its own.
    pub fn defined(&self, mut query: Query) -> Query {
        let mut named: Vec<Cte> = Vec::new();
        let mut recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for (with, passed) in &self.around {
            for one in with.iter().flat_map(|with| &with.cte_tables[..*passed]) {
                named.retain(|other| other.alias.name != one.alias.name);
                named.push(one.clone());
            }
            recursive |= with.as_ref().is_some_and(|with| with.recursive);
        }
        for one in query.with.iter().flat_map(|with| &with.cte_tables) {
            named.retain(|other| other.alias.name != one.alias.name);
            named.push(one.clone());
        }
        let with = With { with_token: AttachedToken::empty(), recursive, cte_tables: named };
        query.with = Some(with).filter(|with| !with.cte_tables.is_empty());
        query
    }
}

/// Goes through the queries of a statement with what is around them.
struct Around<S, Q> {
    context: Context,
    of_select: S,
    of_query: Q,
}

impl<B, S, Q> Visitor for Around<S, Q>
where
    S: FnMut(&Select, &Context) -> Option<B>,
    Q: FnMut(&Query, &Context) -> Option<B>,
{
    type Break = B;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.context.around.push((query.with.clone(), 0));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.context.around.pop();
        let found = (self.of_query)(query, &self.context);
        // The definitions of WITH come first in a query.
        if let Some((Some(with), passed)) = self.context.around.last_mut() {
            *passed = with.cte_tables.len().min(*passed + 1);
        }
        found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<B> {
        (self.of_select)(select, &self.context).map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// Returns what the first SELECT gives, from the inside out, that gives something.
pub fn first_select<B>(
    statement: &Statement,
    of_select: impl FnMut(&Select, &Context) -> Option<B>,
) -> Option<B> {
    first(statement, of_select, |_, _| None)
}

/// Returns what the first query gives, from the inside out, that gives something.
pub fn first_query<B>(
    statement: &Statement,
    of_query: impl FnMut(&Query, &Context) -> Option<B>,
) -> Option<B> {
    first(statement, |_, _| None, of_query)
}

fn first<B>(
    statement: &Statement,
    of_select: impl FnMut(&Select, &Context) -> Option<B>,
    of_query: impl FnMut(&Query, &Context) -> Option<B>,
) -> Option<B> {
    walk(statement, &mut Around { context: Context::default(), of_select, of_query }).break_value()
}

/// Changes the SELECT of a number, from the inside out, and returns what that gives.
pub fn change_select<B>(
    statement: &mut Statement,
    number: usize,
    change: impl FnMut(&mut Select) -> B,
) -> Option<B> {
    walk_mut(statement, &mut Numbered { number, change }).break_value()
}

/// See [`change_select`].
struct Numbered<F> {
    number: usize,
    change: F,
}

impl<B, F: FnMut(&mut Select) -> B> VisitorMut for Numbered<F> {
    type Break = B;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.number -= 1;
        match self.number {
            0 => ControlFlow::Break((self.change)(select)),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn statement_of(query: Query) -> DfStatement {
    DfStatement::Statement(Box::new(Statement::Query(Box::new(query))))
}
