//! The steps from a statement's tree to its logical plan, in their order. The crate's documentation names
//! them.

use crate::asking::asks_for_columns;
use crate::expression::{aliased_calls, logical_types};
use crate::from::join_condition::project_conditions;
use crate::from::lateral::{self, has_lateral};
use crate::from::missing_tables::first_missing;
use crate::from::{captured_names, natural_join};
use crate::group::group_keys;
use crate::name_repair::{Repair, may_repair, repairing, with_own_names};
use crate::order::{hidden_keys, order_by_all, order_keys, percent_limit};
use crate::scope::{Remaining, Scope, Wanted};
use crate::select::{named_columns, wide_select};
use crate::set_operation::{key_names, multiset, union_structures};
use crate::subquery::levels;
use crate::subquery::quantified::without_quantifiers;
use crate::subquery::scalar_subquery::with_nullable_scalars;
use crate::values::values_subquery::project_subqueries;
use crate::with::common_table::{computed_once, table_expressions};
use crate::with::{expansion, repeated_tables};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use futures::future::BoxFuture;
use hypostyle_error::missing_table::of_missing_table;
use hypostyle_error::{
    external, is_about_the_text, may_be_of_names, unresolved_table, with_nearest_function,
};
use hypostyle_expr::operand::{alone_in_conditions, groups_twice_named};
use hypostyle_expr::walk::{any_node, has_expression};
use hypostyle_plan::computed_keys::subqueries_below;
use hypostyle_plan::subquery_shape::with_tables_found;
use hypostyle_plan::unordered::without_vain_orders;
use hypostyle_sql::cast_operand::{may_be_told_apart, told_apart};
use hypostyle_sql::parse::{explained, parse_as_written};
use hypostyle_sql::{derived_names, join_using};

/// Returns the logical plan of a statement: the names and types in it are those of the session's catalogs and
/// functions. One that is refused for its names is planned again in forms that mean the same.
///
/// # Errors
/// Those of the steps, and of DataFusion's planner.
pub async fn bind_statement(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
    bind_wanted(Scope::new(state, binder), statement, Wanted::Rows).await
}

/// Binds a query that a step asks for its columns.
fn binder(
    state: &SessionState,
    statement: DfStatement,
    remaining: Remaining,
    wanted: Wanted,
) -> BoxFuture<'_, Result<LogicalPlan>> {
    let scope = Scope::new(state, binder);
    match remaining {
        Remaining::All => Box::pin(bind_wanted(scope, statement, wanted)),
        Remaining::AfterNames => Box::pin(bind_written_out(scope, statement, wanted)),
        Remaining::AllButKeys => Box::pin(bind_grouped(scope, statement, wanted)),
    }
}

/// Returns the plan of a statement for what it is wanted for.
async fn bind_wanted(scope: Scope<'_>, mut statement: DfStatement, wanted: Wanted) -> Result<LogicalPlan> {
    write_names_out(scope, &mut statement).await?;
    bind_written_out(scope, statement, wanted).await
}

/// Names columns as they are written, writes what is to be asked for its columns, and gives relations names
/// that tell them from columns.
async fn write_names_out(scope: Scope<'_>, statement: &mut DfStatement) -> Result<()> {
    if let Some(statement) = explained(statement) {
        derived_names::rewrite(statement);
    }
    let asks = explained(statement).is_some_and(|statement| asks_for_columns(statement));
    if asks {
        natural_join::rewrite(scope, statement).await?;
        named_columns::rewrite(scope, statement).await?;
        if let Some(statement) = explained(statement) {
            order_by_all::rewrite(scope, statement).await?;
            key_names::check(scope, statement).await?;
        }
    }
    // What a relation is called decides what a key names.
    let are_renamed = captured_names::rewrite(scope.state, statement).await;
    if asks || are_renamed {
        order_keys::rewrite(scope, statement).await;
    }
    Ok(())
}

/// Returns the plan of a statement in which nothing is to be asked for its columns any more.
async fn bind_written_out(scope: Scope<'_>, statement: DfStatement, wanted: Wanted) -> Result<LogicalPlan> {
    let mut repair = Repair::new(statement);
    repair.complete_groups(scope).await;
    bind_repaired(scope, repair, wanted).await
}

/// Returns the plan of a query in which each GROUP BY has all keys that it needs.
async fn bind_grouped(scope: Scope<'_>, mut statement: DfStatement, wanted: Wanted) -> Result<LogicalPlan> {
    write_names_out(scope, &mut statement).await?;
    bind_repaired(scope, Repair::of_grouped(statement), wanted).await
}

async fn bind_repaired(scope: Scope<'_>, mut repair: Repair, wanted: Wanted) -> Result<LogicalPlan> {
    let state = scope.state;
    let mut plan = bind_moved(state, &repair, wanted).await;
    if plan.as_ref().is_err_and(is_about_the_text) && may_repair(state) {
        let state = repairing(state);
        let scope = scope.with_state(&state);
        plan = bind_once(&state, repair.statement(), wanted).await;
        while let Err(error) = &plan
            && let Some(mended) = repair.mended(scope, error).await
        {
            plan = bind_once(&state, mended, wanted).await;
        }
        // A key that an item of SELECT has for its name is a column all the same, if there is one.
        if plan.is_err()
            && let Some(grouped) = repair.grouped(scope).await
            && let Ok(completed) = bind_once(&state, grouped, wanted).await
        {
            plan = Ok(completed);
        }
    }
    if wanted == Wanted::Rows {
        if plan.as_ref().is_ok_and(group_keys::is_incomplete)
            && let Some(grouped) = repair.grouped(scope).await
        {
            plan = bind_once(state, grouped, wanted).await;
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
async fn bind_moved(state: &SessionState, repair: &Repair, wanted: Wanted) -> Result<LogicalPlan> {
    if let Some(moved) = repair.over_groups(state)
        && let Ok(plan) = bind_once(state, moved, wanted).await
    {
        return Ok(plan);
    }
    // It also tells what is wrong.
    bind_once(state, repair.statement(), wanted).await
}

/// Returns the plan of a statement as it is, in which casts may stand beside what they cast, and subqueries
/// beside others.
async fn bind_once(state: &SessionState, mut statement: DfStatement, wanted: Wanted) -> Result<LogicalPlan> {
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
    let plan = union_structures::with_texts(plan?)?;
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
async fn to_plan(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
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
pub fn bind_expression(state: &SessionState, sql: &str, schema: &DFSchema) -> Result<Expr> {
    let mut expr = parse_as_written(sql).map_err(external)?;
    aliased_calls::rewrite_in(&mut expr, state);
    let expr = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)
        .map_err(|error| with_nearest_function(error, functions(state)))?;
    logical_types::said_in_expression(expr, schema)
}

/// Returns the plan of a query, in which parameters have their values, in the forms that optimizing expects:
/// without quantified comparisons, and with subqueries only where they are evaluated. Most plans have no
/// subqueries, and some are long.
///
/// # Errors
/// Those of DataFusion.
pub fn in_own_forms(plan: LogicalPlan) -> Result<LogicalPlan> {
    use Expr::{Exists, InSubquery, ScalarSubquery, SetComparison};
    let is_one =
        |expr: &Expr| matches!(expr, Exists(_) | InSubquery(_) | ScalarSubquery(_) | SetComparison(_));
    if !any_node(&plan, |node| has_expression(node, is_one)) {
        return Ok(plan);
    }
    let plan = without_quantifiers(plan).and_then(with_nullable_scalars).and_then(without_vain_orders)?;
    let plan = project_subqueries(plan).and_then(project_conditions)?;
    subqueries_below(plan).and_then(with_tables_found)
}

#[cfg(test)]
mod tests {
    use super::bind_statement;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::error::Result;
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;
    use hypostyle_sql::parse::{Extension, parse};
    use std::sync::Arc;

    /// Returns the names of the columns that a query gives, over `t (a, b)` and `u (b, c)`.
    fn columns(sql: &str) -> Result<Vec<String>> {
        let context = SessionContext::new();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for (table, names) in [("t", ["a", "b"]), ("u", ["b", "c"])] {
            let columns = names.map(|name| (name, number.clone()));
            context.register_batch(table, RecordBatch::try_from_iter(columns)?)?;
        }
        let statement = parse(sql, &Extension::NONE).unwrap();
        let plan = block_on(bind_statement(&context.state(), statement))?;
        Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    #[test]
    fn clauses_that_ask_for_columns_give_those_that_are_meant() {
        for (sql, names) in [
            ("SELECT * FROM t NATURAL JOIN u", vec!["b", "a", "c"]),
            ("SELECT COLUMNS('a|c') FROM t, u", vec!["a", "c"]),
            ("SELECT * EXCLUDE (a) FROM t ORDER BY ALL", vec!["b"]),
            ("SELECT a + 1 AS b FROM t ORDER BY b + a", vec!["b"]),
            ("SELECT * FROM t AS x (p)", vec!["p", "b"]),
            ("WITH s AS (SELECT c AS b FROM u) SELECT * FROM s NATURAL JOIN t", vec!["b", "a"]),
        ] {
            assert_eq!(columns(sql).unwrap(), names, "{sql}");
        }
        assert!(columns("SELECT * FROM v").is_err());
    }
}
