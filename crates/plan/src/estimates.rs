//! What is estimated of conditions while a query is planned. DataFusion finds the bounds of columns behind a
//! filter by calculating with them, and gives the query up where this goes wrong: for `ts::DATE <= d`, the
//! bounds of `ts` become wider than they were. An estimate is not worth a query: it is planned without.

use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator, binary_expr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use hypostyle_expr::walk::contains;
use std::sync::Arc;

/// Returns the physical plan of a query, without estimates of conditions where these fail.
///
/// # Errors
/// Those of planning it.
pub async fn create_physical_plan(
    planner: &DefaultPhysicalPlanner,
    plan: &LogicalPlan,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let error = match planner.create_physical_plan(plan, session).await {
        Err(error) if matches!(error.find_root(), DataFusionError::Internal(_)) => error,
        other => return other,
    };
    let plain = without_estimates(plan.clone())?;
    if !plain.transformed {
        return Err(error);
    }
    planner.create_physical_plan(&plain.data, session).await.map_err(|_| error)
}

/// Writes one part of each condition in a form of which DataFusion estimates nothing, nor of what is beside
/// it. A row passes if it is true.
fn without_estimates(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
        let mut parts = split_conjunction_owned(filter.predicate.clone());
        let place = parts.iter().position(|part| contains(part, calculates)).unwrap_or_default();
        if let Some(part) = parts.get_mut(place) {
            *part = binary_expr(std::mem::take(part), Operator::IsNotDistinctFrom, lit(true));
        }
        let predicate = conjunction(parts).unwrap_or(filter.predicate);
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    })
}

fn calculates(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) => true,
        Expr::BinaryExpr(binary) => {
            matches!(
                binary.op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
            )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, table_scan};

    #[test]
    fn what_calculates_is_not_estimated() {
        let fields = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)];
        let scan = table_scan(Some("t"), &Schema::new(fields), None).unwrap();
        let condition = col("b").gt(lit(1)).and(cast(col("a"), DataType::Int64).lt(lit(5_i64)));
        let plan = scan.filter(condition).unwrap().build().unwrap();
        let plain = without_estimates(plan).unwrap();
        assert!(plain.transformed);
        let LogicalPlan::Filter(filter) = &plain.data else { panic!("no filter") };
        let expected = col("t.b").gt(lit(1)).and(binary_expr(
            cast(col("t.a"), DataType::Int64).lt(lit(5_i64)),
            Operator::IsNotDistinctFrom,
            lit(true),
        ));
        assert_eq!(filter.predicate, expected);
        let scan = LogicalPlanBuilder::from(filter.input.as_ref().clone()).build().unwrap();
        assert!(!without_estimates(scan).unwrap().transformed);
    }
}
