//! Literals of types whose text needs conversion: BYTEA in PostgreSQL's hexadecimal notation, and
//! those of [`time_literal`]. DataFusion takes their text unchanged. And NULLs in VALUES beside literals
//! of types that DataFusion takes for texts.

use crate::time_literal;
use crate::walk::{Part, checked, done, expressions_mut, taken, walk_mut};
use hypostyle_types::Result;
use sqlparser::ast::{CastKind, DataType, Expr, Query, SetExpr, TypedString, Value, VisitorMut};
use std::ops::ControlFlow;

/// Words of a statement that may have such literals, beside those of [`time_literal`].
pub const SIGNS: [&str; 4] = ["BYTEA", "JSON", "JSONB", "UUID"];

/// # Errors
/// Those of [`time_literal::rewrite`].
pub fn rewrite<P: Part>(statement: &mut P) -> Result<()> {
    let visited = expressions_mut(statement, &mut |expr| {
        done(time_literal::rewrite(expr))?;
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
        // A cast reads the others, or refuses them.
        let Some(digits) = hexadecimal(text) else { return ControlFlow::Continue(()) };
        let bytes = Expr::value(Value::HexStringLiteral(digits.to_string()));
        match expr {
            Expr::Cast { expr, .. } => **expr = bytes,
            other => *other = bytes,
        }
        ControlFlow::Continue(())
    });
    let _done = walk_mut(statement, &mut NullsOfTypes);
    checked(visited)
}

/// Gives NULLs of VALUES the type that another row casts to, where that is UUID or JSON: DataFusion
/// takes these for texts that say what they are, beside NULLs that do not.
struct NullsOfTypes;

impl VisitorMut for NullsOfTypes {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        with_types(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn with_types(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            with_types(left);
            with_types(right);
        }
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.len());
            for place in 0..width {
                let found = values.rows.iter().filter_map(|row| row.get(place)).find_map(said_type);
                if let Some(data_type) = found.cloned() {
                    for value in values.rows.iter_mut().filter_map(|row| row.get_mut(place)) {
                        with_type(value, &data_type);
                    }
                }
            }
        }
        _ => {}
    }
}

fn said_type(value: &Expr) -> Option<&DataType> {
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = value else {
        return None;
    };
    matches!(data_type, DataType::Uuid | DataType::JSON | DataType::JSONB).then_some(data_type)
}

fn with_type(value: &mut Expr, data_type: &DataType) {
    let is_untyped =
        |of: &Value| matches!(of, Value::Null | Value::SingleQuotedString(_) | Value::Placeholder(_));
    if matches!(value, Expr::Value(of) if is_untyped(&of.value)) {
        *value = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(taken(value)),
            data_type: data_type.clone(),
            array: false,
            format: None,
        };
    }
}

/// Returns the digits of a BYTEA, if its text is one in hexadecimal notation.
fn hexadecimal(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("\\x")?;
    (digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(digits)
}
