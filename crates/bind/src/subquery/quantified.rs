//! Quantified comparisons, `x > ALL (SELECT …)` and `x = ANY (SELECT …)` (ISO/IEC 9075-2, 8.9), in
//! terms of IN and EXISTS, which are evaluated wherever a subquery may stand.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr, lit, when,
};
use hypostyle_expr::walk::{any_node, has_expression, map_expressions, schema_below};
use std::sync::Arc;

/// Returns the plan without quantified comparisons.
///
/// # Errors
/// Those of a comparison that cannot be planned.
pub fn without_quantifiers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |expr: &Expr| matches!(expr, Expr::SetComparison(_));
    if !any_node(&plan, |node| has_expression(node, is_one)) {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let schema = schema_below(&node);
        map_expressions(node, |expr| match expr {
            Expr::SetComparison(comparison) => rewritten(comparison, &schema).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
    });
    Ok(rewritten?.data)
}

/// Returns a comparison with the rows of a subquery, for rows of a schema.
fn rewritten(comparison: SetComparison, schema: &DFSchema) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    let is_any = quantifier == SetQuantifier::Any;
    if op == if is_any { Operator::Eq } else { Operator::NotEq } {
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated: !is_any }));
    }
    let Subquery { subquery, mut outer_ref_columns, spans } = subquery;
    let compared = expr.transform(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            let outer = Expr::OuterReferenceColumn(field, column);
            if !outer_ref_columns.contains(&outer) {
                outer_ref_columns.push(outer.clone());
            }
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let (subquery, given) = renamed(&subquery)?;
    let test = binary_expr(compared.data, op, given);
    let exists = |condition: Expr| {
        let rows = LogicalPlanBuilder::from(subquery.clone()).filter(condition)?.build()?;
        let (outer_ref_columns, spans) = (outer_ref_columns.clone(), spans.clone());
        let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans };
        Ok::<_, datafusion::error::DataFusionError>(Expr::Exists(Exists { subquery, negated: false }))
    };
    let decides = if is_any { test.clone() } else { Expr::Not(Box::new(test.clone())) };
    let (decided, unknown) = (exists(decides)?, exists(test.is_null())?);
    when(decided, lit(is_any)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(!is_any))
}

/// The name of the values of a quantified comparison's subquery.
const ROWS: &str = "__quantified";
const VALUE: &str = "__value";

/// Returns a subquery's only column, and its rows with it under a name of its own: what it is
/// compared with may be a column of the same table.
fn renamed(subquery: &LogicalPlan) -> Result<(LogicalPlan, Expr)> {
    let value = Expr::Column(Column::from(subquery.schema().qualified_field(0))).alias(VALUE);
    let rows = LogicalPlanBuilder::from(subquery.clone()).project([value])?.alias(ROWS)?.build()?;
    Ok((rows, Expr::Column(Column::new(Some(ROWS), VALUE))))
}
