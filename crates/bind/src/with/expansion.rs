//! The size of a plan once it is expanded. A common table expression or a view that is read twice
//! stands in the plan twice, with everything that it reads. A condition on a computed column is
//! evaluated below the computation, with a copy for each time that the column is named. Both double
//! with every level, in a statement that grows by a line.

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use hypostyle_error::complexity::too_complex;
use std::collections::HashMap;

/// Nodes of a plan that is written out, and those of a condition.
const NODES_MAX: usize = 50_000;
const CONDITION_MAX: u64 = 1_000_000;

/// Plans with fewer projections have no condition of so many nodes.
const PROJECTIONS_MIN: usize = 3;

/// Looks whether a plan is of a size that can be worked on.
///
/// # Errors
/// `Syntax` (54001) when it is not.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    let (mut nodes, mut projections, mut filters) = (0, 0, 0);
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        match node {
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => projections += 1,
            LogicalPlan::Filter(_) => filters += 1,
            _ => {}
        }
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > NODES_MAX {
        return Err(refused(format!(
            "with all that its views and common table expressions read, it has more than {NODES_MAX} steps; store \
             some of them in a table"
        )));
    }
    if filters > 0 && projections >= PROJECTIONS_MIN {
        weights(plan)?;
    }
    Ok(())
}

fn refused(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(too_complex(message)))
}

/// Returns for each column of a plan the number of nodes that compute it, down to the nodes where
/// no condition goes.
fn weights(plan: &LogicalPlan) -> Result<Vec<u64>> {
    plan.apply_subqueries(|subquery| weights(subquery).map(|_| TreeNodeRecursion::Continue))?;
    let inputs = plan.inputs().into_iter().map(weights).collect::<Result<Vec<_>>>()?;
    let width = plan.schema().fields().len();
    let whole = |inputs: Vec<Vec<u64>>| inputs.into_iter().flatten().collect::<Vec<_>>();
    let found: Result<Vec<u64>> = match plan {
        LogicalPlan::Projection(projection) => {
            let columns = Columns::new(&projection.input, whole(inputs));
            projection.expr.iter().map(|expr| columns.weight(expr)).collect()
        }
        LogicalPlan::Aggregate(aggregate) => {
            let columns = Columns::new(&aggregate.input, whole(inputs));
            aggregate.group_expr.iter().map(|expr| columns.weight(expr)).collect()
        }
        LogicalPlan::Filter(filter) => {
            let columns = Columns::new(&filter.input, whole(inputs));
            if columns.weight(&filter.predicate)? > CONDITION_MAX {
                return Err(refused(format!(
                    "a condition on computed columns has more than {CONDITION_MAX} operators once all is written out that they \
                     are computed by; store some of the columns in a table"
                )));
            }
            return Ok(columns.weights);
        }
        LogicalPlan::Union(_) => {
            let most = |column| inputs.iter().filter_map(|input| input.get(column)).max().copied();
            Ok((0..width).map(|column| most(column).unwrap_or(1)).collect())
        }
        _ => Ok(whole(inputs)),
    };
    let mut found = found?;
    found.resize(width, 1);
    Ok(found)
}

/// The columns of a plan.
struct Columns {
    places: HashMap<Column, usize>,
    weights: Vec<u64>,
}

impl Columns {
    fn new(plan: &LogicalPlan, weights: Vec<u64>) -> Self {
        Self { places: plan.schema().columns().into_iter().zip(0..).collect(), weights }
    }

    fn weight(&self, expr: &Expr) -> Result<u64> {
        let mut total = 0_u64;
        expr.apply(|expr| {
            let weight = match expr {
                Expr::Column(column) => self.places.get(column).and_then(|place| self.weights.get(*place)),
                _ => None,
            };
            total = total.saturating_add(weight.copied().unwrap_or(1));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(total)
    }
}
