//! Structures with other fields than each other in a column of VALUES, as in `VALUES ({'a': 1}), ({'b':
//! 2})`: each gets the fields of all, NULL where it has none. The planner wants one type.

use crate::walk::walk_mut;
use sqlparser::ast::{DictionaryField, Expr, Ident, Query, SetExpr, Statement, Value, Values, VisitorMut};
use std::ops::ControlFlow;

/// Completes such structures.
pub fn complete(statement: &mut Statement) {
    // The values of an INSERT get the types of its columns, each by itself.
    let is_insert = |statement: &Statement| match statement {
        Statement::Insert(insert) => {
            insert.source.as_ref().is_some_and(|source| matches!(source.body.as_ref(), SetExpr::Values(_)))
        }
        _ => false,
    };
    if !is_insert(statement) {
        let _done: ControlFlow<()> = walk_mut(statement, &mut Completing);
    }
}

struct Completing;

impl VisitorMut for Completing {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Values(Values { rows, .. }) => {
            let width = rows.iter().map(|row| row.len()).max().unwrap_or_default();
            for column in 0..width {
                complete_all(rows.iter_mut().filter_map(|row| row.get_mut(column)).collect());
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

/// Completes structures that are to have one type, and the elements of lists that are.
fn complete_all(values: Vec<&mut Expr>) {
    let (mut structures, mut elements) = (Vec::new(), Vec::new());
    for value in values {
        match plain(value) {
            Expr::Dictionary(fields) => structures.push(fields),
            Expr::Array(array) => elements.extend(array.elem.iter_mut()),
            _ => {}
        }
    }
    if !elements.is_empty() {
        complete_all(elements);
    }
    if structures.len() < 2 {
        return;
    }
    let mut keys: Vec<Ident> = Vec::new();
    for field in structures.iter().flat_map(|fields| fields.iter()) {
        if keys.iter().all(|key| key.value != field.key.value) {
            keys.push(field.key.clone());
        }
    }
    for fields in &mut structures {
        let mut given = std::mem::take(*fields);
        for key in &keys {
            let place = given.iter().position(|field| field.key.value == key.value);
            let null = || Box::new(Expr::Value(Value::Null.into()));
            fields.push(match place {
                Some(place) => given.remove(place),
                None => DictionaryField { key: key.clone(), value: null() },
            });
        }
        // A field that comes twice is the planner's to refuse.
        fields.append(&mut given);
    }
    for place in 0..keys.len() {
        let of_key = structures.iter_mut().filter_map(|fields| fields.get_mut(place));
        complete_all(of_key.map(|field| field.value.as_mut()).collect());
    }
}

fn plain(value: &mut Expr) -> &mut Expr {
    match value {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    #[test]
    fn structures_of_a_column_have_the_fields_of_all() {
        for (given, completed) in [
            ("({'a': 1}), ({'b': 2})", "({'a': 1, 'b': NULL}), ({'a': NULL, 'b': 2})"),
            (
                "({'a': 1, 'b': 2}), (NULL), (({'b': 3}))",
                "({'a': 1, 'b': 2}), (NULL), (({'a': NULL, 'b': 3}))",
            ),
            (
                "({'a': {'x': 1}}), ({'a': {'y': 2}})",
                "({'a': {'x': 1, 'y': NULL}}), ({'a': {'x': NULL, 'y': 2}})",
            ),
            ("([{'a': 1}]), ([{'b': 2}])", "([{'a': 1, 'b': NULL}]), ([{'a': NULL, 'b': 2}])"),
            ("({'b': 1, 'a': 2}), ({'a': 3, 'b': 4})", "({'b': 1, 'a': 2}), ({'b': 4, 'a': 3})"),
            ("({'a': 1}, 2), ({'a': 3}, 4)", "({'a': 1}, 2), ({'a': 3}, 4)"),
        ] {
            let query = parse_query(&format!("SELECT * FROM (VALUES {given})"), &Extension::NONE).unwrap();
            assert_eq!(query.to_string(), format!("SELECT * FROM (VALUES {completed})"));
        }
    }
}
