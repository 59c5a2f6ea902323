//! DataFusion's planner: of statements that are no queries, and of expressions of one relation.

use crate::expression::{aliased_calls, logical_types};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use hypostyle_error::{external, with_nearest_function};
use hypostyle_sql::parse::{explained, parse_as_written};

/// Returns DataFusion's plan of a statement.
///
/// # Errors
/// Those of the planner.
pub async fn planned(state: &SessionState, mut statement: DfStatement) -> Result<LogicalPlan> {
    if let Some(statement) = explained(&mut statement) {
        aliased_calls::rewrite_in(statement, state);
    }
    let plan = state.statement_to_plan(statement).await;
    plan.map_err(|error| with_nearest_function(error, functions(state)))
}

/// Returns the names of all functions of a session.
fn functions(state: &SessionState) -> impl Iterator<Item = &str> {
    (state.scalar_functions().keys())
        .chain(state.higher_order_functions().keys())
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys())
        .map(String::as_str)
}

/// The expression that a text of one is, over columns of a schema. A definition is the text of what a
/// statement had, which is parsed by the same table of operators: it is the same tree again.
///
/// # Errors
/// Those of the parser and the planner.
pub fn bind_expression(state: &SessionState, sql: &str, schema: &DFSchema) -> Result<Expr> {
    let mut expr = parse_as_written(sql).map_err(external)?;
    aliased_calls::rewrite_in(&mut expr, state);
    let expr = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)
        .map_err(|error| with_nearest_function(error, functions(state)))?;
    logical_types::said_in_expression(expr, schema)
}
