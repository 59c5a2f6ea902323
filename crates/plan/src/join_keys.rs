//! Keys of joins that are computed of tables that share names of columns. DataFusion computes such
//! keys beside the columns of a side, and may call the whole side by one name, under which the
//! columns of one name cannot be told apart. Here they are computed under names of their own.

use crate::computed_keys::unused;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// Comes behind the rules that make keys.
#[derive(Debug)]
pub struct JoinKeys;

impl OptimizerRule for JoinKeys {
    fn name(&self) -> &str {
        "join_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        let is_column = |key: &Expr| matches!(key, Expr::Column(_));
        let are_columns = join.on.iter().all(|(left, right)| is_column(left) && is_column(right));
        if are_columns || ![&join.left, &join.right].iter().any(|side| has_namesakes(side.schema())) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let shown = join.schema.columns().into_iter().map(Expr::Column).collect();
        let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
        let schemas = [join.left.schema().as_ref().clone(), join.right.schema().as_ref().clone()];
        let mut made = 0;
        let (left, left_keys) = with_columns(&join.left, left_keys, &schemas, &mut made)?;
        let (right, right_keys) = with_columns(&join.right, right_keys, &schemas, &mut made)?;
        let on = left_keys.into_iter().zip(right_keys).collect();
        let joined = LogicalPlan::Join(Join { left, right, on, ..join }).recompute_schema()?;
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(joined))?)))
    }
}

/// Says whether columns of different tables have one name.
fn has_namesakes(schema: &DFSchema) -> bool {
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name().as_str()))
}

/// Returns a side with columns for its computed keys, and the keys as columns.
fn with_columns(
    side: &Arc<LogicalPlan>,
    keys: Vec<Expr>,
    schemas: &[DFSchema],
    made: &mut usize,
) -> Result<(Arc<LogicalPlan>, Vec<Expr>)> {
    let mut items: Vec<Expr> = side.schema().columns().into_iter().map(Expr::Column).collect();
    let before = items.len();
    let keys = keys
        .into_iter()
        .map(|key| match key {
            Expr::Column(_) => key,
            computed => {
                let name = unused("__join_key", schemas, made);
                items.push(computed.alias(&name));
                Expr::Column(Column::new_unqualified(name))
            }
        })
        .collect();
    match items.len() == before {
        true => Ok((side.clone(), keys)),
        false => Ok((Arc::new(LogicalPlan::Projection(Projection::try_new(items, side.clone())?)), keys)),
    }
}
