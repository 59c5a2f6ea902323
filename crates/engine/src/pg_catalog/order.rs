//! The order in which columns are listed where a query says nothing of it: PostgreSQL promises
//! none, but gives them as they lie, one after the other, and its clients take them so.

use super::column_type::columns_listed;
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use std::sync::Arc;

/// A query for rows of a catalog of columns, joined with others or not, in the order of these
/// columns.
pub(crate) fn in_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, schema, .. }) = &plan else { return Ok(plan) };
    let Some((table, keys)) = listed(input, None) else { return Ok(plan) };
    let key = |name: &&str| Expr::Column(Column::new(Some(table.clone()), *name)).sort(true, false);
    let sorted =
        LogicalPlanBuilder::from(input.clone()).sort(keys.iter().map(key).collect::<Vec<_>>())?.build()?;
    let (expr, schema) = (expr.clone(), schema.clone());
    Projection::try_new_with_schema(expr, Arc::new(sorted), schema).map(LogicalPlan::Projection)
}

/// What a plan calls the first catalog of columns whose rows it gives, and the names of those that
/// order them.
fn listed(
    plan: &LogicalPlan,
    called: Option<&TableReference>,
) -> Option<(TableReference, &'static [&'static str])> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let keys = columns_listed(&scan.table_name)?;
            Some((called.unwrap_or(&scan.table_name).clone(), keys))
        }
        LogicalPlan::SubqueryAlias(alias) if matches!(*alias.input, LogicalPlan::TableScan(_)) => {
            listed(&alias.input, Some(&alias.alias))
        }
        LogicalPlan::Filter(filter) => listed(&filter.input, None),
        LogicalPlan::Join(join) => listed(&join.left, None).or_else(|| listed(&join.right, None)),
        _ => None,
    }
}
