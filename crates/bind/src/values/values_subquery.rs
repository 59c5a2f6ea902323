//! VALUES with subqueries, which DataFusion does not evaluate there: they move to a projection over
//! the other values.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Values, lit};
use hypostyle_expr::walk::any_node;
use hypostyle_plan::unnest::has_subquery;

/// Returns the plan with projections in the place of VALUES that have subqueries.
pub fn project_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| matches!(node, LogicalPlan::Values(values) if is_computed(values))) {
        return Ok(plan);
    }
    let projected = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if is_computed(&values) => project(values).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    });
    Ok(projected?.data)
}

fn is_computed(values: &Values) -> bool {
    values.values.iter().flatten().any(has_subquery)
}

/// Returns the rows, in their order: each has its number as a further value, by which it gets what
/// subqueries give.
fn project(Values { schema, mut values }: Values) -> Result<LogicalPlan> {
    let mut computed = vec![Vec::new(); schema.fields().len()];
    for (number, row) in (0_u64..).zip(&mut values) {
        for ((value, field), computed) in row.iter_mut().zip(schema.fields()).zip(&mut computed) {
            if has_subquery(value) {
                let null = lit(ScalarValue::try_from(field.data_type())?);
                computed.push((Box::new(lit(number)), Box::new(std::mem::replace(value, null))));
            }
        }
        row.push(lit(number));
    }
    let rows = LogicalPlanBuilder::values(values)?;
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = &columns[schema.fields().len()];
    let items = columns.iter().zip(computed).zip(schema.fields()).map(|((column, computed), field)| {
        if computed.is_empty() {
            return column.clone();
        }
        let case = Case::new(Some(Box::new(number.clone())), computed, Some(Box::new(column.clone())));
        Expr::Case(case).alias(field.name())
    });
    rows.project(items.collect::<Vec<_>>())?.build()
}
