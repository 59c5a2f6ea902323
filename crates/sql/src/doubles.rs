//! Numbers that are DOUBLEs as they are written: those with an exponent, as in DuckDB, and those
//! with more digits than a DECIMAL has. The planner makes a DECIMAL of its own precision and scale
//! of every number that is no integer.

use sqlparser::ast::{CastKind, DataType, Expr, Value, VisitorMut};
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

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if number_of(expr).is_some_and(is_double) {
            as_double(expr);
        }
        ControlFlow::Continue(())
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
