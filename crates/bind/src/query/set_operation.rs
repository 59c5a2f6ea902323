//! UNION, INTERSECT and EXCEPT, with ALL and BY NAME, and what stands for one of their sides.

use crate::query::refusal::{refused, unsupported};
use crate::query::rows::Rows;
use crate::query::scope::Scope;
use crate::query::{select, values};
use crate::set_operation::{multiset, union_structures};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, Table};
use hypostyle_error::column_name::unmarked_name;
use hypostyle_expr::set_operation::with_texts;
use hypostyle_sql::build;

/// Binds the body of a query.
///
/// # Errors
/// `Syntax` (42601) for sides of other numbers of columns; `Unsupported` for a statement that writes; those
/// of the sides.
pub fn bind(body: &SetExpr, scope: &Scope<'_>) -> Result<Rows> {
    // A chain stands in the tree as deep as it is long.
    let (mut first, mut behind) = (body, Vec::new());
    while let SetExpr::SetOperation { left, op, set_quantifier, right } = first {
        behind.push((*op, *set_quantifier, right));
        first = left.as_ref();
    }
    let mut all = side(first, scope)?;
    for (operator, quantifier, right) in behind.into_iter().rev() {
        all = combined(operator, quantifier, all, bind(right, scope)?)?;
    }
    Ok(all)
}

/// Binds what is no set operation.
fn side(body: &SetExpr, scope: &Scope<'_>) -> Result<Rows> {
    match body {
        SetExpr::Select(select) => select::bind(select, None, scope),
        SetExpr::Query(query) => scope.rows(query),
        SetExpr::Values(values) => values::bind(values, scope),
        SetExpr::Table(table) => scope.rows(&of_table(table)?),
        SetExpr::SetOperation { .. } => bind(body, scope),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            Err(unsupported("a statement that writes in this place"))
        }
    }
}

/// Returns `TABLE t` as a query of all of its columns.
///
/// # Errors
/// `Unsupported` for one without a name.
pub fn of_table(table: &Table) -> Result<Query> {
    let Some(name) = &table.table_name else { return Err(unsupported("TABLE without a name")) };
    let parts = table.schema_name.iter().chain([name]).map(|part| build::name(part)).collect::<Vec<_>>();
    Ok(build::all_rows(build::table(parts, None)))
}

/// Returns the rows of both sides of a set operation that are left.
///
/// # Errors
/// `Syntax` (42601) for other numbers of columns; those of DataFusion.
fn combined(operator: SetOperator, quantifier: SetQuantifier, left: Rows, right: Rows) -> Result<Rows> {
    use SetQuantifier::{All, AllByName, ByName, Distinct, DistinctByName, None};
    let is_by_name = matches!(quantifier, ByName | AllByName | DistinctByName);
    if !is_by_name && left.names.len() != right.names.len() {
        let (left, right) = (left.names.len(), right.names.len());
        let message = format!("{operator} queries have different number of columns: {left} and {right}");
        return Err(refused("42601", message));
    }
    let Rows { plan: one, names } = left;
    let other = right.plan;
    let plan = match (operator, quantifier) {
        (SetOperator::Union, All) => united(LogicalPlanBuilder::from(one).union(other)?)?,
        (SetOperator::Union, Distinct | None) => distinct(LogicalPlanBuilder::from(one).union(other)?)?,
        (SetOperator::Union, AllByName) => united(LogicalPlanBuilder::from(one).union_by_name(other)?)?,
        (SetOperator::Union, ByName | DistinctByName) => {
            distinct(LogicalPlanBuilder::from(one).union_by_name(other)?)?
        }
        (SetOperator::Intersect, All) => counted(LogicalPlanBuilder::intersect(one, other, true)?)?,
        (SetOperator::Intersect, Distinct | None) => LogicalPlanBuilder::intersect(one, other, false)?,
        (SetOperator::Except, All) => counted(LogicalPlanBuilder::except(one, other, true)?)?,
        (SetOperator::Except, Distinct | None) => LogicalPlanBuilder::except(one, other, false)?,
        (operator, quantifier) => return Err(unsupported(format!("{operator} {quantifier}"))),
    };
    let names = if is_by_name { names_of(plan.schema()) } else { names };
    Ok(Rows { plan, names })
}

fn names_of(schema: &DFSchema) -> Vec<String> {
    schema.fields().iter().map(|field| unmarked_name(field.name()).to_string()).collect()
}

/// Returns a union in which texts as they are written have the type of the values of the other side, and
/// structures the fields of all sides.
fn united(union: LogicalPlanBuilder) -> Result<LogicalPlan> {
    let plan = with_texts(union.build()?)?.data;
    let is_nested =
        |side: &LogicalPlan| side.schema().fields().iter().any(|field| field.data_type().is_nested());
    let has_nested = plan.inputs().into_iter().any(is_nested);
    if has_nested { union_structures::with_common_types(plan) } else { Ok(plan) }
}

fn distinct(union: LogicalPlanBuilder) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(united(union)?).distinct()?.build()
}

/// Returns a set operation that counts equal rows.
fn counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => multiset::counted(join),
        other => Ok(other),
    }
}
