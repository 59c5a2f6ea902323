//! Texts as they are written in a statement.

use sqlparser::ast::{Expr, Value};

/// Returns the text of a literal that is one.
pub fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
