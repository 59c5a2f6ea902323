//! Texts as they are written beside an operator of arithmetic: they have the type of the other
//! operand, or the one that is wanted beside it, as in PostgreSQL: `x * '-10'`. DataFusion finds no
//! operator for them. And what has no type of its own beside `||` and a value that is no text, as in
//! `id || $1`: it is a text, of which DataFusion would make the type of the value. And NULL beside a
//! time, of whose type it would be everywhere, also where no operator takes two of them.

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
        let beside_times = (
            is_null(&left, schema).then(|| of_null(&op, &right, true, schema)).flatten(),
            is_null(&right, schema).then(|| of_null(&op, &left, false, schema)).flatten(),
        );
        match beside_times {
            (Some(wanted), _) => make(&mut left, wanted),
            (_, Some(wanted)) => make(&mut right, wanted),
            _ => {}
        }
        match (is_text(&left), is_text(&right)) {
            (true, false) => read(&mut left, &op, &right, schema),
            (false, true) => read(&mut right, &op, &left, schema),
            _ if op == BinaryOperator::StringConcat => match (is_open(&left), is_open(&right)) {
                (true, false) => make_text(&mut left, &right, schema),
                (false, true) => make_text(&mut right, &left, schema),
                _ => {}
            },
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Makes an operand one of a type.
fn make(operand: &mut Expr, wanted: DataType) {
    *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), wanted));
}

/// Says whether an operand is NULL of no type, and no parameter, which may get one.
fn is_null(operand: &Expr, schema: &DFSchema) -> bool {
    matches!(operand, Expr::Literal(..) | Expr::Column(_) | Expr::ScalarSubquery(_))
        && operand.get_type(schema).is_ok_and(|of| of.is_null())
}

/// Returns the type that NULL has beside a time and an operator, if there is one: that of the time where
/// two of these are operands, as in PostgreSQL.
fn of_null(op: &BinaryOperator, other: &Expr, is_left: bool, schema: &DFSchema) -> Option<DataType> {
    use BinaryOperator::{Divide, Minus, Multiply, Plus};
    let beside = other.get_type(schema).ok()?;
    match (op, &beside) {
        (Multiply, of) if *of == INTERVAL => Some(DataType::Float64),
        (Divide, of) if *of == INTERVAL && !is_left => Some(DataType::Float64),
        (Plus | Minus, of) if *of == INTERVAL => Some(INTERVAL),
        (Plus, DataType::Date32) => Some(DataType::Int32),
        (Plus, DataType::Timestamp(..) | DataType::Time64(_)) => Some(INTERVAL),
        (Minus, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_)) => Some(beside),
        _ => None,
    }
}

/// Says whether an operand is NULL, or a parameter of which no type is known.
fn is_open(operand: &Expr) -> bool {
    match operand {
        Expr::Literal(value, _) => value.data_type().is_null(),
        Expr::Placeholder(parameter) => parameter.field.is_none(),
        _ => false,
    }
}

/// Makes a text of what is joined with a number, a time or another value that is written as one.
fn make_text(open: &mut Expr, other: &Expr, schema: &DFSchema) {
    let beside = other.get_type(schema).unwrap_or(DataType::Null);
    if beside.is_numeric() || beside.is_temporal() || beside == DataType::Boolean {
        make(open, DataType::Utf8View);
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
