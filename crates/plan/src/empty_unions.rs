//! A UNION ALL of which one input is left, because the others have no rows: its columns keep the names of the
//! union. DataFusion looks for these names below, where the columns may have others: those of VALUES have.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule for the other nodes.
#[derive(Debug, Default)]
pub struct NamesStay(PropagateEmptyRelation);

impl OptimizerRule for NamesStay {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let left = match &plan {
            LogicalPlan::Union(union) => only_input(union).map(|input| named_as(union, input)),
            _ => None,
        };
        match left {
            Some(projection) => Ok(Transformed::yes(LogicalPlan::Projection(projection?))),
            None => self.0.rewrite(plan, config),
        }
    }
}

/// Returns the input that is left, if its columns have other names than those of the union.
fn only_input(union: &Union) -> Option<&Arc<LogicalPlan>> {
    let mut full = union.inputs.iter().filter(|input| !is_empty(input));
    let input = full.next()?;
    let is_left = full.next().is_none() && union.inputs.len() > 1;
    (is_left && input.schema().columns() != union.schema.columns()).then_some(input)
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row)
}

fn named_as(union: &Union, input: &Arc<LogicalPlan>) -> Result<Projection> {
    let shown = union.schema.columns();
    let columns = input.schema().columns().into_iter().zip(shown).map(|(own, shown)| {
        if own == shown {
            Expr::Column(own)
        } else {
            Expr::Column(own).alias_qualified(shown.relation, shown.name)
        }
    });
    Projection::try_new_with_schema(columns.collect(), input.clone(), union.schema.clone())
}
