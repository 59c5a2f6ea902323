//! Literals of types whose text needs conversion: BYTEA in PostgreSQL's hexadecimal notation, and
//! INTERVALs in the forms of the standard. DataFusion takes their text unchanged.

use crate::interval_text::{in_words, read_with};
use crate::walk::expressions_mut;
use hypostyle_types::{Error, Result};
use sqlparser::ast::{DataType, DateTimeField, Expr, Interval, Value, VisitMut};
use std::ops::ControlFlow;

/// Words of a statement that may have such literals.
pub const SIGNS: [&str; 2] = ["BYTEA", "INTERVAL"];

/// # Errors
/// `InvalidInput` (22P02) for a text that is none.
pub fn rewrite<V: VisitMut>(statement: &mut V) -> Result<()> {
    let visited = expressions_mut(statement, &mut |expr| {
        if let Expr::Interval(interval) = expr {
            return match as_read(interval) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            };
        }
        let (data_type, text) = match &*expr {
            Expr::Cast { data_type, expr, .. } => match expr.as_ref() {
                Expr::Value(value) => (data_type, &value.value),
                _ => return ControlFlow::Continue(()),
            },
            Expr::TypedString(typed) => (&typed.data_type, &typed.value.value),
            _ => return ControlFlow::Continue(()),
        };
        let (DataType::Bytea, Value::SingleQuotedString(text)) = (data_type, text) else {
            return ControlFlow::Continue(());
        };
        let bytes = match hexadecimal(text) {
            Ok(Some(digits)) => Expr::value(Value::HexStringLiteral(digits.to_string())),
            Ok(None) => return ControlFlow::Continue(()),
            Err(error) => return ControlFlow::Break(error),
        };
        match expr {
            Expr::Cast { expr, .. } => **expr = bytes,
            other => *other = bytes,
        }
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Returns the digits of a BYTEA, if its text begins as one in hexadecimal notation does.
pub fn hexadecimal(text: &str) -> Result<Option<&str>> {
    match text.strip_prefix("\\x") {
        Some(digits) if digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            Ok(Some(digits))
        }
        Some(_) => Err(Error::invalid_input(format!(
            "'{text}' is not a BYTEA: after \\x come pairs of hexadecimal digits"
        ))
        .with_sqlstate("22P02")),
        None => Ok(None),
    }
}

/// Reads an interval as PostgreSQL does. It may have a unit behind it, or fields, as
/// `INTERVAL '1-2' YEAR TO MONTH`. Intervals with others are left to the planner.
///
/// # Errors
/// `InvalidInput` for a text that is none.
fn as_read(interval: &mut Interval) -> Result<()> {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    let Expr::Value(value) = interval.value.as_mut() else { return Ok(()) };
    let Value::SingleQuotedString(text) = &mut value.value else { return Ok(()) };
    let has_precision =
        interval.leading_precision.is_some() || interval.fractional_seconds_precision.is_some();
    if matches!((&interval.leading_field, &interval.last_field), (Some(Minute), Some(Second))) {
        text.insert_str(0, if text.starts_with('-') { "-0:" } else { "0:" });
        *text = text.replacen("-0:-", "-0:", 1);
    }
    let unit = match (&interval.leading_field, &interval.last_field) {
        _ if has_precision => return Ok(()),
        (None, None) => None,
        (Some(unit), None) => Some(unit.to_string()),
        (Some(Year), Some(Month))
        | (Some(Hour), Some(Minute | Second))
        | (Some(Minute), Some(Second))
        | (Some(Day), Some(Hour | Minute | Second))
            if text.contains([':', '-', ' ']) =>
        {
            None
        }
        _ => return Ok(()),
    };
    *text = in_words(read_with(text, unit.as_deref())?);
    (interval.leading_field, interval.last_field) = (None, None);
    Ok(())
}
