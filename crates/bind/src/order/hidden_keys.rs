//! Columns that ORDER BY names, and that the result has not. The planner looks for them in the queries
//! below, also beyond a set operation within: it adds the column to those of its sides that have one.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, Union};
use hypostyle_error::external;
use hypostyle_types::{Error, ErrorKind};

/// Looks whether the sides of each UNION of a plan as it was parsed have its columns.
///
/// # Errors
/// `UnknownName` (42703) where one has more, or fewer.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::Union(union) if !is_whole(union) => {
            let message = "ORDER BY names a column that is none of the query's: a set operation within has it on one \
                           side only";
            Err(external(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703")))
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

fn is_whole(union: &Union) -> bool {
    let columns = union.schema.fields().len();
    union.inputs.iter().all(|input| input.schema().fields().len() == columns)
}
