//! Queries that are bound: their plans and the names of their columns.

use crate::query::parts::told_apart;
use crate::query::refusal::refused;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::sql::sqlparser::ast::TableAlias;
use hypostyle_error::counted;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::row_values::ROWS;
use std::sync::Arc;

/// A query that is bound.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Its plan, whose columns have names that differ.
    pub plan: LogicalPlan,
    /// What its columns are called: some may have one name.
    pub names: Vec<String>,
}

/// Returns rows with the names that an alias gives the first of their columns; the others keep theirs.
///
/// # Errors
/// `Syntax` (42P10) for more names than there are columns.
pub fn named(rows: Rows, alias: &TableAlias) -> Result<Rows> {
    let Rows { plan, mut names } = rows;
    // A row is compared with one of as many values.
    let is_whole = alias.name.value == ROWS;
    if alias.columns.len() > names.len() || is_whole && alias.columns.len() < names.len() {
        let given = counted(alias.columns.len(), "name");
        let message = format!("an alias gives {given} to a table of {}", counted(names.len(), "column"));
        return Err(refused("42P10", message));
    }
    for (name, column) in names.iter_mut().zip(&alias.columns) {
        *name = fold(&column.name);
    }
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let items = told_apart(names.iter().cloned().zip(columns));
    let plan = match items.iter().all(|item| matches!(item, Expr::Column(_))) {
        true => plan,
        false => LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?),
    };
    Ok(Rows { plan, names })
}
