//! Texts as they are written beside an operator of arithmetic: they have the type of the other
//! operand, or the one that is wanted beside it, as in PostgreSQL: `x * '-10'`. DataFusion finds no
//! operator for them.

use crate::common_type::exact_decimal;
use crate::comparison::is_text;
use crate::interval::INTERVAL;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans such texts, whose types are asked for before a plan is rewritten.
#[derive(Debug)]
pub struct TextOperands;

impl ExprPlanner for TextOperands {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = expr;
        match (is_text(&left), is_text(&right)) {
            (true, false) => read(&mut left, &op, &right, schema),
            (false, true) => read(&mut right, &op, &left, schema),
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Gives a text the type that is wanted beside another operand, if there is one.
fn read(text: &mut Expr, op: &BinaryOperator, other: &Expr, schema: &DFSchema) {
    let beside = other.get_type(schema).unwrap_or(DataType::Null);
    let Some(wanted) = wanted(op, &beside) else { return };
    // A DECIMAL's own scale may be too small for the text.
    let exact = match &*text {
        Expr::Literal(value, _) if beside.is_decimal() => {
            value.try_as_str().flatten().and_then(exact_decimal)
        }
        _ => None,
    };
    *text = match exact {
        Some(exact) => Expr::Literal(exact, None),
        None => Expr::Cast(Cast::new(Box::new(std::mem::take(text)), wanted)),
    };
}

fn wanted(op: &BinaryOperator, beside: &DataType) -> Option<DataType> {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    let is_interval = *beside == INTERVAL;
    match op {
        Plus | Minus | Multiply | Divide | Modulo if beside.is_decimal() => Some(DataType::Float64),
        Plus | Minus | Multiply | Divide | Modulo if beside.is_numeric() => Some(beside.clone()),
        Multiply | Divide if is_interval => Some(DataType::Float64),
        Plus | Minus if is_interval => Some(INTERVAL),
        Plus if matches!(beside, DataType::Timestamp(..)) => Some(INTERVAL),
        // PostgreSQL does not know what a text is that is added to a date.
        Minus if *beside == DataType::Date32 => Some(DataType::Date32),
        _ => None,
    }
}
