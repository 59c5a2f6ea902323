//! VALUES of an INSERT. DataFusion plans them in the types of the table's columns, and refuses a NULL of
//! one that has none before there is a row: it knows only the place of the value. The table refuses it with
//! the name of its column.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, Values};
use std::sync::Arc;

/// Returns what an INSERT gives, with VALUES that may be NULL.
///
/// # Errors
/// Those of DataFusion.
pub fn with_nullable_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    nullable(plan).map(|plan| plan.data)
}

fn nullable(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Values(Values { schema, values }) => {
            let fields = schema
                .iter()
                .map(|(of, field)| (of.cloned(), Arc::new(field.as_ref().clone().with_nullable(true))))
                .collect();
            let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
            Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
        }
        // VALUES that are part of a query have types of their own.
        other if other.inputs().len() == 1 => {
            let plan = other.map_children(nullable)?;
            match plan.transformed {
                true => plan.map_data(LogicalPlan::recompute_schema),
                false => Ok(plan),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::with_nullable_values;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::error::Result;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use std::sync::Arc;

    #[test]
    fn values_of_a_column_without_nulls_may_be_null() -> Result<()> {
        let fields = vec![Field::new("a", DataType::Int32, false), Field::new("b", DataType::Int32, true)];
        let table = Arc::new(DFSchema::try_from(Schema::new(fields))?);
        let row = vec![lit(ScalarValue::Int32(None)), lit(2_i32)];
        let plan = LogicalPlanBuilder::values_with_schema(vec![row], &table)?
            .project([col("column1").alias("a"), col("column2").alias("b")])?
            .build()?;
        let is_nullable = |place: usize| plan.schema().field(place).is_nullable();
        assert!(!is_nullable(0) && is_nullable(1));
        let names: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let plan = with_nullable_values(plan)?;
        assert!(plan.schema().fields().iter().all(|field| field.is_nullable()));
        assert!(plan.schema().fields().iter().map(|field| field.name()).eq(&names));
        Ok(())
    }
}
