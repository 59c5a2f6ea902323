//! Quantified comparisons, `x > ALL (SELECT …)` and `x = ANY (SELECT …)` (ISO/IEC 9075-2, 8.9), in terms of IN and EXISTS, which are
//! evaluated wherever a subquery may stand.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr, lit, when,
};
use std::sync::Arc;

/// The plan without quantified comparisons.
///
/// # Errors
/// Those of a comparison that cannot be planned.
pub(crate) fn without_quantifiers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_one = |expr: &Expr| Ok(matches!(expr, Expr::SetComparison(_)));
    let has_one =
        |node: &LogicalPlan| node.expressions().iter().any(|expr| expr.exists(is_one).unwrap_or(false));
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= has_one(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let preserver = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let expr = expr.transform_up(|expr| match expr {
                Expr::SetComparison(comparison) => rewritten(comparison, &schema).map(Transformed::yes),
                other => Ok(Transformed::no(other)),
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(rewritten?.data)
}

/// A comparison with the rows of a subquery, for rows of a schema.
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
    let given = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    let test = binary_expr(compared.data, op, given);
    let exists = |condition: Expr| {
        let rows = LogicalPlanBuilder::from(subquery.as_ref().clone()).filter(condition)?.build()?;
        let (outer_ref_columns, spans) = (outer_ref_columns.clone(), spans.clone());
        let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans };
        Ok::<_, datafusion::error::DataFusionError>(Expr::Exists(Exists { subquery, negated: false }))
    };
    let decides = if is_any { test.clone() } else { Expr::Not(Box::new(test.clone())) };
    let (decided, unknown) = (exists(decides)?, exists(test.is_null())?);
    when(decided, lit(is_any)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(!is_any))
}
