//! LIMIT with a percentage, as `LIMIT 10%` of DuckDB, LIMIT and OFFSET with a subquery, and FETCH FIRST
//! with ties, which DataFusion does not know. Parsing makes calls of them. The rows are numbered in the order
//! of the query and counted here, and those up to so many percent of their number, or between the numbers,
//! pass: they are computed once.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_all_window;
use datafusion::functions_window::rank::rank;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SortExpr, cast, lit,
};
use hypostyle_sql::samples::{PERCENT_OF_ROWS, ROWS_OF_LIMIT, ROWS_OF_OFFSET, ROWS_WITH_TIES};
use std::sync::Arc;

/// The columns of all rows' number, of each row's, and of that of the first row that is equal to it.
const ROWS: &str = "__rows_of_limit";
const ROW: &str = "__row_of_limit";
const RANK: &str = "__rank_of_limit";

/// Has a limit count the rows where calls stand for what it has.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn with_count(plan: LogicalPlan) -> Result<LogicalPlan> {
    match &plan {
        LogicalPlan::Limit(limit) if is_counted(limit) => counted(limit),
        _ => Ok(plan),
    }
}

/// Whether calls stand for what a limit has.
fn is_counted(limit: &Limit) -> bool {
    let fetch = limit.fetch.as_deref();
    called(fetch, PERCENT_OF_ROWS).is_some()
        || called(fetch, ROWS_OF_LIMIT).is_some()
        || called(fetch, ROWS_WITH_TIES).is_some()
        || called(limit.skip.as_deref(), ROWS_OF_OFFSET).is_some()
}

/// Returns the call of a function that an expression is.
fn called<'a>(expr: Option<&'a Expr>, name: &str) -> Option<&'a ScalarFunction> {
    match expr {
        Some(Expr::ScalarFunction(call)) if call.func.name() == name => Some(call),
        _ => None,
    }
}

/// Returns rows with the number of each in an order, and with what else a limit asks for.
fn numbered(limit: &Limit, rows: &LogicalPlan, order: &[SortExpr]) -> Result<LogicalPlanBuilder> {
    let in_order = |place: Expr| match order.is_empty() {
        true => Ok(place),
        false => place.order_by(order.to_vec()).build(),
    };
    let is_wanted = |name| called(limit.fetch.as_deref(), name).is_some();
    let rows = LogicalPlanBuilder::from(rows.clone());
    let rows = match is_wanted(PERCENT_OF_ROWS) {
        true => rows.window([count_all_window().alias(ROWS)])?,
        false => rows,
    };
    let numbered = rows.window([in_order(row_number())?.alias(ROW)])?;
    match is_wanted(ROWS_WITH_TIES) {
        true => numbered.window([in_order(rank())?.alias(RANK)]),
        false => Ok(numbered),
    }
}

fn counted(limit: &Limit) -> Result<LogicalPlan> {
    let columns =
        |plan: &LogicalPlan| plan.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let input = limit.input.as_ref();
    // What is above a sort chooses its columns.
    let above = match input {
        LogicalPlan::Projection(of) => of.input.as_ref(),
        other => other,
    };
    let (outputs, order, rows): (Vec<Expr>, Vec<SortExpr>, &LogicalPlan) = match (input, above) {
        (LogicalPlan::Projection(of), LogicalPlan::Sort(sort)) => {
            (of.expr.clone(), sort.expr.clone(), sort.input.as_ref())
        }
        (LogicalPlan::Sort(sort), _) => {
            (columns(sort.input.as_ref()), sort.expr.clone(), sort.input.as_ref())
        }
        (other, _) => (columns(other), Vec::new(), other),
    };
    let is_sorted = !order.is_empty();
    let share = called(limit.fetch.as_deref(), PERCENT_OF_ROWS);
    let has_ties = called(limit.fetch.as_deref(), ROWS_WITH_TIES).is_some();
    let numbered = numbered(limit, rows, &order)?;
    let of = |name: &str| cast(Expr::Column(Column::new_unqualified(name)), DataType::Int64);
    let skipped =
        limit.skip.as_deref().map_or_else(|| lit(0_i64), |skip| cast(skip.clone(), DataType::Int64));
    let skipped = coalesce(vec![skipped, lit(0_i64)]);
    // A subquery is no number of a limit of DataFusion.
    let is_offset_called = called(limit.skip.as_deref(), ROWS_OF_OFFSET).is_some();
    let skips_here = is_offset_called || (share.is_none() && limit.skip.is_some());
    let passed = if skips_here { numbered.filter(of(ROW).gt(skipped.clone()))? } else { numbered };
    let passed = match (share, limit.fetch.as_deref()) {
        (Some(share), _) => {
            let mut share = share.clone();
            share.args.push(of(ROWS));
            passed.filter(of(ROW).lt_eq(skipped + Expr::ScalarFunction(share)))?
        }
        // No number is so great: NULL is as no LIMIT.
        (None, Some(fetch)) => {
            let fetch = coalesce(vec![cast(fetch.clone(), DataType::Int64), lit(i64::MAX)]);
            match has_ties {
                // No row is one of none, also if it is equal to the last one that was skipped.
                true => passed.filter((of(RANK) - skipped).lt_eq(fetch.clone()).and(fetch.gt(lit(0_i64))))?,
                false => passed.filter((of(ROW) - skipped).lt_eq(fetch))?,
            }
        }
        (None, None) => passed,
    };
    let in_order = match is_sorted {
        true => passed.sort([Expr::Column(Column::new_unqualified(ROW)).sort(true, false)])?,
        false => passed,
    };
    let behind = match &limit.skip {
        Some(skip) if !skips_here => in_order.limit_by_expr(Some(skip.as_ref().clone()), None)?,
        _ => in_order,
    };
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(behind.build()?))?))
}
