//! VALUES.

use crate::query::expression::{self, Names};
use crate::query::refusal::refused;
use crate::query::rows::Rows;
use crate::query::scope::Scope;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::Values;
use hypostyle_error::counted;
use hypostyle_expr::common_type::columns_of_doubles;

/// Binds rows of values.
///
/// # Errors
/// `Syntax` (42601) for a row of another length than the first; those of the values.
pub fn bind(values: &Values, scope: &Scope<'_>) -> Result<Rows> {
    let names = Names::of(scope);
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut rows = Vec::with_capacity(values.rows.len());
    for (place, row) in values.rows.iter().enumerate() {
        if row.content.len() != width {
            let (given, expected) = (counted(row.content.len(), "value"), counted(width, "column"));
            return Err(refused("42601", format!("row {} of VALUES has {given} for {expected}", place + 1)));
        }
        let row = row.content.iter().map(|value| expression::condition(value, &names, "VALUES"));
        rows.push(row.collect::<Result<Vec<_>>>()?);
    }
    columns_of_doubles(&mut rows)?;
    let plan = LogicalPlanBuilder::values(rows)?.build()?;
    let names = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    Ok(Rows { plan, names })
}
