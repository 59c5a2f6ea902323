//! Literals of types whose text is not what they are: UUIDs, in any of their notations, and BYTEA in PostgreSQL's hexadecimal
//! one. DataFusion casts their text as it is written.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Value, VisitMut, visit_expressions_mut};
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;
use uuid::Uuid;

/// # Errors
/// `InvalidInput` (22P02) for a text that is none.
pub(super) fn rewrite<V: VisitMut>(statement: &mut V) -> Result<()> {
    let visited = visit_expressions_mut(statement, |expr| {
        let (data_type, text) = match &*expr {
            Expr::Cast { data_type, expr, .. } => match expr.as_ref() {
                Expr::Value(value) => (data_type, &value.value),
                _ => return ControlFlow::Continue(()),
            },
            Expr::TypedString(typed) => (&typed.data_type, &typed.value.value),
            _ => return ControlFlow::Continue(()),
        };
        let Value::SingleQuotedString(text) = text else { return ControlFlow::Continue(()) };
        let value = match literal(data_type, text) {
            Ok(Some(value)) => value,
            Ok(None) => return ControlFlow::Continue(()),
            Err(error) => return ControlFlow::Break(error),
        };
        match expr {
            Expr::Cast { expr, .. } => **expr = Expr::value(value),
            Expr::TypedString(typed) if typed.data_type == DataType::Uuid => typed.value.value = value,
            other => *other = Expr::value(value),
        }
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn literal(data_type: &DataType, text: &str) -> Result<Option<Value>> {
    let wrong = |what| Error::invalid_input(format!("'{text}' is not {what}")).with_sqlstate("22P02");
    match data_type {
        DataType::Uuid => {
            let uuid = Uuid::try_parse(text.trim().trim_matches(['{', '}'])).map_err(|_| wrong("a UUID"))?;
            Ok(Some(Value::SingleQuotedString(uuid.hyphenated().to_string())))
        }
        DataType::Bytea => match text.strip_prefix("\\x") {
            Some(digits)
                if digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) =>
            {
                Ok(Some(Value::HexStringLiteral(digits.to_string())))
            }
            Some(_) => Err(wrong("a BYTEA: after \\x come pairs of hexadecimal digits")),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}
