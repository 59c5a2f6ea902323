//! LIMIT with a percentage, as `LIMIT 10%` of DuckDB, which DataFusion does not know. Parsing makes a call of
//! it. The rows are numbered in the order of the query and counted here, and those up to so many percent of
//! their number pass: they are computed once.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_all_window;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SortExpr, cast, lit,
};
use hypostyle_sql::samples::PERCENT_OF_ROWS;
use std::sync::Arc;

/// The columns of all rows' number, and of each row's.
const ROWS: &str = "__rows_of_limit";
const ROW: &str = "__row_of_limit";

/// Has the limits of a plan as it was parsed that have percentages count the rows.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn with_counts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Limit(limit) if share(limit).is_some());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    let counted = plan.transform_up_with_subqueries(|node| {
        let counted = match &node {
            LogicalPlan::Limit(limit) => share(limit).map(|share| counted(limit, share)),
            _ => None,
        };
        counted.map_or_else(|| Ok(Transformed::no(node)), |counted| counted.map(Transformed::yes))
    })?;
    Ok(counted.data)
}

/// Returns the call that stands for a percentage, if a limit has one.
fn share(limit: &Limit) -> Option<&ScalarFunction> {
    match limit.fetch.as_deref() {
        Some(Expr::ScalarFunction(call)) if call.func.name() == PERCENT_OF_ROWS => Some(call),
        _ => None,
    }
}

fn counted(limit: &Limit, share: &ScalarFunction) -> Result<LogicalPlan> {
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
    let number = match is_sorted {
        true => row_number().order_by(order).build()?,
        false => row_number(),
    };
    let numbered = LogicalPlanBuilder::from(rows.clone())
        .window([count_all_window().alias(ROWS)])?
        .window([number.alias(ROW)])?;
    let of = |name: &str| cast(Expr::Column(Column::new_unqualified(name)), DataType::Int64);
    let mut share = share.clone();
    share.args.push(of(ROWS));
    let skipped =
        limit.skip.as_deref().map_or_else(|| lit(0_i64), |skip| cast(skip.clone(), DataType::Int64));
    let last = coalesce(vec![skipped, lit(0_i64)]) + Expr::ScalarFunction(share);
    let passed = numbered.filter(of(ROW).lt_eq(last))?;
    let in_order = match is_sorted {
        true => passed.sort([Expr::Column(Column::new_unqualified(ROW)).sort(true, false)])?,
        false => passed,
    };
    let behind = match &limit.skip {
        Some(skip) => in_order.limit_by_expr(Some(skip.as_ref().clone()), None)?,
        None => in_order,
    };
    Ok(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(behind.build()?))?))
}
