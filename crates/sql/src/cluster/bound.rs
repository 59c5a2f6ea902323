//! The bounds of ranges.

use super::Bound;
use crate::cursor::Cursor;
use crate::reading::parse_as_written;
use hypostyle_types::Result;
use sqlparser::ast::{Expr, UnaryOperator, Value};

/// Reads a bound in its parentheses: a literal, or MAXVALUE.
///
/// # Errors
/// `Syntax` at its place in the text.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Bound> {
    cursor.expect_symbol("(")?;
    let start = cursor.start();
    if cursor.take("MAXVALUE") {
        cursor.expect_symbol(")")?;
        return Ok(Bound::MaxValue);
    }
    let mut depth = 0_usize;
    loop {
        match cursor.peek() {
            Some(token) if token.is_symbol("(") => depth += 1,
            Some(token) if token.is_symbol(")") && depth == 0 => break,
            Some(token) if token.is_symbol(")") => depth -= 1,
            Some(_) => {}
            None => return Err(cursor.unexpected(")")),
        }
        cursor.next();
    }
    let written = cursor.text_between(start, cursor.start());
    cursor.expect_symbol(")")?;
    let wrong = |why: &str| cursor.wrong(start, format!("a bound is a literal or MAXVALUE; {why}"));
    let bound = parse_as_written(written).map_err(|error| wrong(error.message()))?;
    match &bound {
        Expr::Value(value) if value.value == Value::Null => Err(wrong("NULL is in the fragment of MAXVALUE")),
        literal if is_literal(literal) => Ok(Bound::Value(Box::new(bound))),
        other => Err(wrong(&format!("{other} is none"))),
    }
}

/// Says whether an expression is one value as it is written, with a sign or a type.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_) | Value::Null),
        Expr::TypedString(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr }
        | Expr::Cast { expr, .. }
        | Expr::Nested(expr) => is_literal(expr),
        _ => false,
    }
}
