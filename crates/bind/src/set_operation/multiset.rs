//! EXCEPT ALL and INTERSECT ALL, which count equal rows (ISO/IEC 9075-2, 7.17): of m rows on the
//! left and n on the right, m − n or the lesser of both remain. DataFusion plans them as a join
//! that has or has not found a row, as without ALL.
//!
//! The equal rows of each side are numbered, and the numbers are compared, too: the third row of
//! one side is equal to the third of the other.

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection};
use std::sync::Arc;

/// Returns a join that stands for a multiset as one that counts.
///
/// # Errors
/// Those of DataFusion.
pub fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let [(left, one), (right, other)] = [numbered(&join.left)?, numbered(&join.right)?];
    let mut on = join.on;
    on.push((one, other));
    let joined = Join::try_new(
        left,
        right,
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, joined)?))
}

/// Returns the rows of a plan with numbers among those that are equal, and the numbers' column.
fn numbered(plan: &Arc<LogicalPlan>) -> Result<(Arc<LogicalPlan>, Expr)> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?;
    let numbered = LogicalPlanBuilder::from(plan.as_ref().clone()).window([number])?.build()?;
    let last = numbered.schema().fields().len() - 1;
    let number = Column::from(numbered.schema().qualified_field(last));
    Ok((Arc::new(numbered), Expr::Column(number)))
}
