//! Keys of inner joins that are computed from several tables. DataFusion's `eliminate_cross_join` puts
//! the tables of a tree of joins in another order, in which such a key may be that of no join, and then
//! forgets it. Where it may, the key is a condition instead, which the rule keeps.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Comes before `eliminate_cross_join`.
#[derive(Debug)]
pub struct CompositeKeys;

impl OptimizerRule for CompositeKeys {
    fn name(&self) -> &str {
        "composite_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if may_lose_keys(&join) => Ok(with_conditions(join)),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn inner(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => Some(join),
        _ => None,
    }
}

/// Says whether the tables of a join may be joined in another order than as they are written: that is
/// theirs only where each of them has a key with those before it.
fn may_lose_keys(join: &Join) -> bool {
    fn is_in_order(join: &Join) -> bool {
        !join.on.is_empty() && inner(&join.right).is_none() && inner(&join.left).is_none_or(is_in_order)
    }
    join.join_type == JoinType::Inner && !join.on.is_empty() && !is_in_order(join)
}

/// Returns the schemas of the tables that a tree of inner joins has.
fn tables<'a>(plan: &'a LogicalPlan, found: &mut Vec<&'a DFSchemaRef>) {
    match inner(plan) {
        Some(join) => {
            tables(&join.left, found);
            tables(&join.right, found);
        }
        None => found.push(plan.schema()),
    }
}

fn with_conditions(mut join: Join) -> Transformed<LogicalPlan> {
    let mut of = Vec::new();
    tables(&join.left, &mut of);
    tables(&join.right, &mut of);
    let is_of_several = |key: &Expr| {
        let columns = key.column_refs();
        let has = |table: &&&DFSchemaRef| columns.iter().any(|column| table.has_column(column));
        of.iter().filter(has).count() > 1
    };
    let (composite, plain): (Vec<_>, Vec<_>) = std::mem::take(&mut join.on)
        .into_iter()
        .partition(|(left, right)| is_of_several(left) || is_of_several(right));
    join.on = plain;
    if composite.is_empty() {
        return Transformed::no(LogicalPlan::Join(join));
    }
    let op = match join.null_equality {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let conditions = composite
        .into_iter()
        .map(|(left, right)| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))));
    join.filter = conjunction(join.filter.take().into_iter().chain(conditions));
    Transformed::yes(LogicalPlan::Join(join))
}
