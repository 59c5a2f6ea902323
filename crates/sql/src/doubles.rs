//! Numbers that are DOUBLEs as they are written: those with an exponent, as in DuckDB, and those
//! with more digits than a DECIMAL has. The planner makes a DECIMAL of its own precision and scale
//! of every number that is no integer.

use sqlparser::ast::{CastKind, DataType, Expr, Query, SetExpr, UnaryOperator, Value, VisitorMut};
use std::ops::ControlFlow;

/// Digits of a DECIMAL.
const DECIMAL_DIGITS: usize = 38;

/// Whether a number is a DOUBLE.
pub fn is_double(number: &str) -> bool {
    if number.contains(['e', 'E']) {
        return true;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    whole.trim_start_matches('0').len() + fraction.len() > DECIMAL_DIGITS
}

/// Writes the DOUBLEs that it comes by as casts.
pub struct Doubles;

impl VisitorMut for Doubles {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        rows_of_doubles(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if number_of(expr).is_some_and(is_double) {
            as_double(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Makes a column of VALUES one of DOUBLEs that has both them and DECIMALs: their common type would
/// be a DECIMAL.
fn rows_of_doubles(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => {
            let width = values.rows.iter().map(|row| row.len()).max().unwrap_or_default();
            for place in 0..width {
                if values.rows.iter().any(|row| row.get(place).is_some_and(shows_double)) {
                    let column = values.rows.iter_mut().filter_map(|row| row.get_mut(place));
                    column.map(unsigned).filter(|value| number_of(value).is_some()).for_each(as_double);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            rows_of_doubles(left);
            rows_of_doubles(right);
        }
        _ => {}
    }
}

/// Whether a value is a DOUBLE by what is written.
fn shows_double(value: &Expr) -> bool {
    match value {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => shows_double(expr),
        Expr::Nested(expr) => shows_double(expr),
        Expr::Cast { data_type, .. } => matches!(
            data_type,
            DataType::Double(_)
                | DataType::DoublePrecision
                | DataType::Float(_)
                | DataType::Float4
                | DataType::Float8
                | DataType::Real
        ),
        other => number_of(other).is_some_and(is_double),
    }
}

/// A value without the sign before it.
fn unsigned(value: &mut Expr) -> &mut Expr {
    match value {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => unsigned(expr),
        other => other,
    }
}

fn number_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number),
            _ => None,
        },
        _ => None,
    }
}

fn as_double(number: &mut Expr) {
    let Some(text) = number_of(number).map(str::to_string) else { return };
    let expr = Box::new(Expr::value(Value::SingleQuotedString(text)));
    let data_type = DataType::DoublePrecision;
    *number = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, explained, parse};
    use crate::walk::walk_mut;

    #[test]
    fn numbers_with_exponents_are_doubles() {
        for (sql, written) in [
            (
                "SELECT 1.5, 1e5, -2E-3",
                "SELECT 1.5, CAST('1e5' AS DOUBLE PRECISION), -CAST('2E-3' AS DOUBLE PRECISION)",
            ),
            (
                "VALUES (1e5, 0.5), (-2.5, 0.25)",
                "VALUES (CAST('1e5' AS DOUBLE PRECISION), 0.5), (-CAST('2.5' AS DOUBLE PRECISION), 0.25)",
            ),
            (
                "SELECT 12345678901234567890.1234567890123456789",
                "SELECT CAST('12345678901234567890.1234567890123456789' AS DOUBLE PRECISION)",
            ),
            (
                "SELECT 0001234567890123456789.1234567890123456789",
                "SELECT 0001234567890123456789.1234567890123456789",
            ),
        ] {
            let mut statement = parse(sql, &Extension::NONE).unwrap();
            let _done = walk_mut(explained(&mut statement).unwrap(), &mut Doubles);
            assert_eq!(statement.to_string(), written);
        }
    }
}
