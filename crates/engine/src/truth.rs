//! Texts as they are written beside a BOOLEAN, which are BOOLEANs then, as in PostgreSQL:
//! `is_sold = 'f'`. DataFusion finds no common type for the two.

use crate::comparison::{is_text, operands};
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans comparisons of a BOOLEAN with a text, whose types are asked for before a plan is
/// rewritten.
#[derive(Debug)]
pub(crate) struct Truths;

impl ExprPlanner for Truths {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship};
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship | And | Or) {
            read_texts(vec![&mut left, &mut right], schema);
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The same of what else compares, and of the results of a CASE.
pub(crate) fn beside_texts(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = operands(&mut expression).is_some_and(|compared| read_texts(compared, schema));
    if let Expr::Case(Case { when_then_expr, else_expr, .. }) = &mut expression {
        let results = when_then_expr.iter_mut().map(|(_, result)| result).chain(else_expr);
        changed |= read_texts(results.map(Box::as_mut).collect(), schema);
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Reads the texts among expressions of one type as BOOLEANs, if another one of them is a BOOLEAN;
/// whether there were any.
fn read_texts(mut alike: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_boolean =
        |expr: &Expr| !is_text(expr) && expr.get_type(schema).is_ok_and(|of| of == DataType::Boolean);
    if !alike.iter().any(|expr| is_text(expr)) || !alike.iter().any(|expr| is_boolean(expr)) {
        return false;
    }
    for expr in alike.iter_mut().filter(|expr| is_text(expr)) {
        **expr = Expr::Cast(Cast::new(Box::new(std::mem::take(*expr)), DataType::Boolean));
    }
    true
}
