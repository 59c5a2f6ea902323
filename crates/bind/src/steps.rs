//! The way from a statement's tree to its logical plan. The crate's documentation has it as a list.

use crate::expression::logical_types;
use crate::from::join_condition::project_conditions;
use crate::insert;
use crate::planner::planned;
use crate::query::bind_query;
use crate::subquery::levels;
use crate::subquery::quantified::without_quantifiers;
use crate::subquery::scalar_subquery::with_nullable_scalars;
use crate::values::values_subquery::project_subqueries;
use crate::with::{expansion, repeated_tables};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Analyze, Explain, Expr, LogicalPlan, PlanType, Prepare, Statement as PlanStatement, ToStringifiedPlan,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{DescribeAlias, Query, Statement};
use hypostyle_expr::walk::{any_node, has_expression};
use hypostyle_plan::computed_keys::subqueries_below;
use hypostyle_plan::subquery_shape::{with_columns_found, with_tables_found};
use hypostyle_plan::unordered::without_vain_orders;
use hypostyle_sql::build;
use std::sync::Arc;

/// Returns the logical plan of a statement: the names and types in it are those of the session's catalogs and
/// functions. Queries are bound here, also within other statements; what else a statement says is
/// DataFusion's to plan.
///
/// # Errors
/// Those of the binder of queries, of DataFusion's planner, and of the checks behind them.
pub async fn bind_statement(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
    match statement {
        DfStatement::Statement(inner) => match *inner {
            Statement::Query(query) => bind_rows(state, &query).await,
            Statement::Insert(insert) => checked(state, insert::bind(state, insert).await?),
            other => bind_other(state, DfStatement::Statement(Box::new(other))).await,
        },
        other => bind_other(state, other).await,
    }
}

async fn bind_rows(state: &SessionState, query: &Query) -> Result<LogicalPlan> {
    checked(state, bind_query(state, query).await?)
}

/// Returns the plan of a statement that is no query, and in which one may be.
async fn bind_other(state: &SessionState, mut statement: DfStatement) -> Result<LogicalPlan> {
    let Some(query) = query_within(&mut statement) else {
        return checked(state, planned(state, statement).await?);
    };
    // What is around a query is planned with other rows in its place.
    let query = std::mem::replace(query, Box::new(build::values(vec![vec![build::number(1)]])));
    let rows = bind_rows(state, &query).await?;
    with_rows(planned(state, statement).await?, rows)
}

/// Returns the query that is explained or prepared.
fn query_within(statement: &mut DfStatement) -> Option<&mut Box<Query>> {
    let inner = match statement {
        DfStatement::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(inner) => inner,
            _ => return None,
        },
        DfStatement::Statement(inner) => match inner.as_mut() {
            Statement::Explain { describe_alias: DescribeAlias::Explain, statement, .. }
            | Statement::Prepare { statement, .. } => statement,
            _ => return None,
        },
        _ => return None,
    };
    match inner.as_mut() {
        Statement::Query(query) => Some(query),
        _ => None,
    }
}

/// Returns the plan of a statement with a query's plan in the place of the rows in it.
fn with_rows(plan: LogicalPlan, rows: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Analyze(around) => Ok(LogicalPlan::Analyze(Analyze { input: Arc::new(rows), ..around })),
        LogicalPlan::Explain(around) => {
            let stringified_plans = vec![rows.to_stringified(PlanType::InitialLogicalPlan)];
            Ok(LogicalPlan::Explain(Explain { plan: Arc::new(rows), stringified_plans, ..around }))
        }
        LogicalPlan::Statement(PlanStatement::Prepare(around)) => {
            // A parameter may be of one type alone.
            let _types = rows.get_parameter_fields()?;
            let prepare = Prepare { input: Arc::new(rows), ..around };
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        _ => Err(DataFusionError::Internal("a query in a statement that has none".into())),
    }
}

/// Returns a plan that is bound in the form in which it is kept, if it can run.
fn checked(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = repeated_tables::computed_once_if_large(state, plan)?;
    let plan = logical_types::said_again(plan)?;
    expansion::check(&plan)?;
    levels::check(&plan)?;
    Ok(plan)
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
    subqueries_below(plan).and_then(with_columns_found).and_then(with_tables_found)
}

#[cfg(test)]
mod tests {
    use super::bind_statement;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::error::Result;
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;
    use hypostyle_error::from_datafusion;
    use hypostyle_sql::parse::{Extension, parse};
    use std::sync::Arc;

    /// Binds a statement over `t (a, b)` and `u (b, c)`.
    fn bound(sql: &str) -> Result<LogicalPlan> {
        let context = SessionContext::new();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for (table, names) in [("t", ["a", "b"]), ("u", ["b", "c"])] {
            let columns = names.map(|name| (name, number.clone()));
            context.register_batch(table, RecordBatch::try_from_iter(columns)?)?;
        }
        let statement = parse(sql, &Extension::NONE).unwrap();
        block_on(bind_statement(&context.state(), statement))
    }

    /// Returns the names of the columns of a plan.
    fn names_of(plan: &LogicalPlan) -> Vec<&str> {
        plan.schema().fields().iter().map(|field| field.name().as_str()).collect()
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
            assert_eq!(names_of(&bound(sql).unwrap()), names, "{sql}");
        }
        assert!(bound("SELECT * FROM v").is_err());
    }

    #[test]
    fn queries_within_other_statements_are_bound() {
        let LogicalPlan::Explain(explain) = bound("EXPLAIN SELECT * FROM t NATURAL JOIN u").unwrap() else {
            panic!("no EXPLAIN")
        };
        assert_eq!(names_of(&explain.plan), ["b", "a", "c"]);
        let LogicalPlan::Analyze(analyze) = bound("EXPLAIN ANALYZE SELECT COLUMNS('a') FROM t").unwrap()
        else {
            panic!("no EXPLAIN ANALYZE")
        };
        assert_eq!(names_of(&analyze.input), ["a"]);
        let prepared = bound("PREPARE p AS SELECT * EXCLUDE (a) FROM t WHERE a = $1").unwrap();
        assert_eq!(names_of(prepared.inputs()[0]), ["b"]);
        assert!(bound("EXPLAIN SELECT x FROM t").is_err());
    }

    #[test]
    fn an_insert_gives_all_columns_of_its_table() {
        let input = |sql: &str| match bound(sql).unwrap() {
            LogicalPlan::Dml(dml) => dml.input.as_ref().clone(),
            other => panic!("{sql}: {}", other.display_indent()),
        };
        for sql in [
            "INSERT INTO t SELECT * FROM u",
            "INSERT INTO t (b) SELECT c FROM u",
            "INSERT INTO t VALUES (1, 2)",
            "INSERT INTO t VALUES (1, (SELECT max(c) FROM u)), (2, 3)",
            "INSERT INTO t VALUES (1, 2), (3, 4) LIMIT 1",
        ] {
            assert_eq!(names_of(&input(sql)), ["a", "b"], "{sql}");
        }
        for (sql, sqlstate) in [
            ("INSERT INTO t SELECT b FROM u", "42601"),
            ("INSERT INTO t (z) SELECT b FROM u", "42703"),
            ("INSERT INTO t (a, a) SELECT b, c FROM u", "42701"),
            ("INSERT INTO t VALUES (sum(1), (SELECT 1))", "42803"),
        ] {
            assert_eq!(from_datafusion(bound(sql).unwrap_err()).sqlstate(), sqlstate, "{sql}");
        }
    }
}
