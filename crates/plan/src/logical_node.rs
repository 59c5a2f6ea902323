//! What logical nodes of this crate, and the operators that they become, have in common.

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use std::sync::Arc;

/// The methods of a logical node, within its `impl UserDefinedLogicalNodeCore`, without expressions and with
/// one field `input`, of which `with_input` makes the same one over another input.
macro_rules! node_of_one_input {
    ($name:literal) => {
        fn name(&self) -> &str {
            $name
        }

        fn inputs(&self) -> Vec<&datafusion::logical_expr::LogicalPlan> {
            vec![&self.input]
        }

        fn expressions(&self) -> Vec<datafusion::logical_expr::Expr> {
            Vec::new()
        }

        fn fmt_for_explain(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str($name)
        }

        fn with_exprs_and_inputs(
            &self,
            _: Vec<datafusion::logical_expr::Expr>,
            mut inputs: Vec<datafusion::logical_expr::LogicalPlan>,
        ) -> datafusion::error::Result<Self> {
            match (inputs.pop(), inputs.is_empty()) {
                (Some(input), true) => self.with_input(input),
                _ => datafusion::common::internal_err!("{} has one input", $name),
            }
        }
    };
}

/// Shows logical nodes by their names alone.
macro_rules! shown_by_name {
    ($($node:ty),+) => {
        $(impl std::fmt::Debug for $node {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(datafusion::logical_expr::UserDefinedLogicalNodeCore::name(self))
            }
        })+
    };
}

pub(crate) use {node_of_one_input, shown_by_name};

/// Returns the properties of an operator that gives all its rows at its end, in one partition.
pub(crate) fn at_once(schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}
