//! Variables of lambdas stand behind the columns of a batch, by their number. Projections that are merged
//! give an expression the columns of another input, of which there may be more, and leave the numbers of
//! variables as they are: those would be numbers of columns.

use crate::node_rule::node_rule;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::LambdaVariable;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// More columns than an input has.
const BEHIND_ALL: usize = 1 << 20;

/// Puts the variables of lambdas behind the columns of any input, before anything is moved. Lambdas leave out
/// the numbers between, and keep the order.
#[derive(Debug)]
pub struct LambdaPlaces;

node_rule!(LambdaPlaces: "LambdaPlaces", in_place);

fn in_place(plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mut is_moved = false;
        let mut items = Vec::with_capacity(projection.expr().len());
        for item in projection.expr() {
            let expr = behind_all(item.expr.clone())?;
            is_moved |= expr.transformed;
            items.push(ProjectionExpr { expr: expr.data, alias: item.alias.clone() });
        }
        if !is_moved {
            return Ok(Transformed::no(plan));
        }
        let input = projection.input().clone();
        let moved = ProjectionExec::try_new_with_schema_metadata(items, input, &plan.schema())?;
        return Ok(Transformed::yes(Arc::new(moved)));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = behind_all(filter.predicate().clone())?;
        if predicate.transformed {
            let moved = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
            return Ok(Transformed::yes(Arc::new(moved)));
        }
    }
    Ok(Transformed::no(plan))
}

fn behind_all(expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    expr.transform_down(|expr| {
        let moved = match expr.downcast_ref::<LambdaVariable>() {
            Some(variable) if variable.index() < BEHIND_ALL => {
                LambdaVariable::new(variable.index() + BEHIND_ALL, variable.field().clone())
            }
            _ => return Ok(Transformed::no(expr)),
        };
        Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
    })
}
