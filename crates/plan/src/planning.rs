//! Plans a statement: turns its syntax into a logical plan.

use crate::common_table::{computed_once, table_expressions};
use crate::lateral::{self, has_lateral};
use crate::missing_tables::first_missing;
use crate::name_repair::{Repair, may_repair, repairing, with_own_names};
use crate::{
    aliased_calls, captured_names, expansion, group_keys, hidden_keys, levels, logical_types, multiset,
    named_columns, natural_join, order_keys, percent_limit, repeated_tables, wide_select,
};
use datafusion::common::DFSchema;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use hypostyle_error::missing_table::of_missing_table;
use hypostyle_error::{
    external, is_about_the_text, may_be_of_names, unresolved_table, with_nearest_function,
};
use hypostyle_expr::operand::{alone_in_conditions, groups_twice_named};
use hypostyle_sql::cast_operand::{may_be_told_apart, told_apart};
use hypostyle_sql::parse::{explained, parse_as_written};
use hypostyle_sql::{derived_names, join_using};

/// What a plan is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It runs.
    Rows,
    /// Only the names of its columns are asked for. What is rewritten in a whole plan, and checked there,
    /// is left out: it takes the more time the more a plan reads, for each query that is asked.
    Names,
}

/// Returns the plan of a statement. One that is refused for its names is planned again in forms
/// that mean the same.
pub async fn plan_statement(
    state: &SessionState,
    statement: DfStatement,
) -> datafusion::error::Result<LogicalPlan> {
    plan_wanted(state, statement, Wanted::Rows).await
}

/// Returns the plan of a statement for what it is wanted for.
pub async fn plan_wanted(
    state: &SessionState,
    mut statement: DfStatement,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    write_names_out(state, &mut statement).await?;
    plan_written_out(state, statement, wanted).await
}

/// Names columns as they are written, writes what is to be asked for its columns, and gives relations names
/// that tell them from columns.
async fn write_names_out(state: &SessionState, statement: &mut DfStatement) -> datafusion::error::Result<()> {
    if let Some(statement) = explained(statement) {
        derived_names::rewrite(statement);
    }
    natural_join::rewrite(state, statement).await?;
    named_columns::rewrite(state, statement).await?;
    captured_names::rewrite(state, statement).await;
    order_keys::rewrite(state, statement).await;
    Ok(())
}

/// Returns the plan of a statement in which nothing is to be asked for its columns any more.
pub async fn plan_written_out(
    state: &SessionState,
    statement: DfStatement,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    let mut repair = Repair::of(statement);
    repair.complete_groups(state).await;
    plan_repaired(state, repair, wanted).await
}

/// Returns the plan of a query in which each GROUP BY has all keys that it needs.
pub async fn plan_grouped(
    state: &SessionState,
    mut statement: DfStatement,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    write_names_out(state, &mut statement).await?;
    plan_repaired(state, Repair::of_grouped(statement), wanted).await
}

async fn plan_repaired(
    state: &SessionState,
    mut repair: Repair,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    let mut plan = plan_moved(state, &repair, wanted).await;
    if plan.as_ref().is_err_and(is_about_the_text) && may_repair(state) {
        let state = repairing(state);
        plan = plan_once(&state, repair.statement(), wanted).await;
        while let Err(error) = &plan
            && let Some(mended) = repair.mended(&state, error).await
        {
            plan = plan_once(&state, mended, wanted).await;
        }
        // A key that an item of SELECT has for its name is a column all the same, if there is one.
        if plan.is_err()
            && let Some(grouped) = repair.grouped(&state).await
            && let Ok(completed) = plan_once(&state, grouped, wanted).await
        {
            plan = Ok(completed);
        }
    }
    if wanted == Wanted::Rows {
        if plan.as_ref().is_ok_and(group_keys::is_incomplete)
            && let Some(grouped) = repair.grouped(state).await
        {
            plan = plan_once(state, grouped, wanted).await;
        }
        plan = plan.and_then(group_keys::check);
    }
    match plan {
        Ok(plan) if repair.is_apart => with_own_names(plan),
        Ok(plan) => Ok(plan),
        Err(error) => Err(with_missing_table(state, &repair, error).await),
    }
}

/// Returns the error of a statement as the one of a table that is not there, if there is such a table.
async fn with_missing_table(
    state: &SessionState,
    repair: &Repair,
    error: DataFusionError,
) -> DataFusionError {
    if !matches!(error.find_root(), DataFusionError::Plan(_)) {
        return error;
    }
    let missing = first_missing(state, &repair.statement()).await;
    // WITH may define one of the name elsewhere.
    match missing.or_else(|| unresolved_table(&error)) {
        Some(name) => of_missing_table(error, name),
        None => error,
    }
}

/// Returns the plan of a statement with those aggregates in its subqueries computed around them that are of
/// the query around.
async fn plan_moved(
    state: &SessionState,
    repair: &Repair,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    if let Some(moved) = repair.over_groups(state)
        && let Ok(plan) = plan_once(state, moved, wanted).await
    {
        return Ok(plan);
    }
    // It also tells what is wrong.
    plan_once(state, repair.statement(), wanted).await
}

/// Returns the plan of a statement as it is, in which casts may stand beside what they cast, and subqueries
/// beside others.
async fn plan_once(
    state: &SessionState,
    mut statement: DfStatement,
    wanted: Wanted,
) -> datafusion::error::Result<LogicalPlan> {
    if let Some(statement) = explained(&mut statement) {
        aliased_calls::rewrite_in(statement, state);
        join_using::write_chains_out(statement).map_err(external)?;
    }
    let expressions = table_expressions(&statement);
    let written = may_be_told_apart(&statement).then(|| statement.clone());
    let has_lateral = has_lateral(&statement);
    let plan = to_plan(state, statement).await;
    let is_refused = written.is_some() && plan.as_ref().map_or_else(may_be_of_names, groups_twice_named);
    let plan = match written.filter(|_| is_refused).and_then(|written| told_apart(&written)) {
        Some(apart) => state.statement_to_plan(apart).await.and_then(alone_in_conditions).or(plan),
        None => plan,
    };
    if wanted == Wanted::Names {
        return plan;
    }
    let plan = plan?;
    captured_names::check(&plan)?;
    hidden_keys::check(&plan)?;
    let plan = repeated_tables::computed_once_if_large(state, plan)?;
    let plan = percent_limit::with_counts(multiset::with_numbers(plan)?)?;
    let plan = logical_types::said_again(plan)?;
    expansion::check(&plan)?;
    levels::check(&plan)?;
    let plan = if has_lateral { lateral::marked(plan)? } else { plan };
    computed_once(plan, &expressions)
}

/// Returns DataFusion's plan of a statement, whose lists may be wide.
async fn to_plan(state: &SessionState, statement: DfStatement) -> datafusion::error::Result<LogicalPlan> {
    if let Some(marked) = wide_select::marked(&statement)
        && let Ok(plan) = state.statement_to_plan(marked).await.and_then(wide_select::unmarked)
    {
        return Ok(plan);
    }
    // It also tells what is wrong.
    state.statement_to_plan(statement).await.map_err(|error| with_nearest_function(error, functions(state)))
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
pub fn planned(state: &SessionState, sql: &str, schema: &DFSchema) -> datafusion::error::Result<Expr> {
    let mut expr = parse_as_written(sql).map_err(external)?;
    aliased_calls::rewrite_in(&mut expr, state);
    let expr = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)
        .map_err(|error| with_nearest_function(error, functions(state)))?;
    logical_types::said_in_expression(expr, schema)
}
