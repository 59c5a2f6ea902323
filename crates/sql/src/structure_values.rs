//! Structures with other fields than each other in a column of VALUES, as in `VALUES ({'a': 1}), ({'b':
//! 2})`: each gets the fields of all, NULL where it has none. So do those that are cast, as in `VALUES
//! ({'a': 1}::STRUCT(a INT)), ({'b': 2}::STRUCT(b INT))`. The planner wants one type. And texts as they are
//! written have the type of the others in their column, as in PostgreSQL: `VALUES (DATE '2025-01-01'),
//! ('2025-02-01')`.

use crate::identifier::fold;
use crate::walk::{taken, walk_mut};
use sqlparser::ast::{
    CastKind, DataType, DictionaryField, Expr, Ident, Query, SetExpr, Statement, StructField, Value,
    ValueWithSpan, Values, VisitorMut,
};
use std::ops::ControlFlow;

/// Completes such structures, and casts such texts.
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
                cast_texts(rows.iter_mut().filter_map(|row| row.get_mut(column)).collect());
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

/// Casts texts to the type that the other values of a column are said to have, if it is one that takes no
/// text of itself.
fn cast_texts(values: Vec<&mut Expr>) {
    let (mut texts, mut wanted) = (Vec::new(), None);
    for value in values {
        let value = plain(value);
        if matches!(value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })) {
            texts.push(value);
        } else if let Some(of) = said_type(value) {
            // Which of two types is the wider one is the planner's to say.
            if wanted.as_ref().is_some_and(|known| *known != of) {
                return;
            }
            wanted = Some(of);
        }
    }
    let Some(data_type) = wanted else { return };
    for text in texts {
        let expr = Box::new(taken(text));
        let data_type = data_type.clone();
        *text = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
    }
}

/// Returns the type that a value is said to have.
fn said_type(value: &Expr) -> Option<DataType> {
    let of = match value {
        Expr::Cast { data_type, .. } => data_type.clone(),
        Expr::TypedString(typed) => typed.data_type.clone(),
        Expr::Interval(_) => DataType::Interval { fields: None, precision: None },
        Expr::Value(ValueWithSpan { value: Value::Boolean(_), .. }) => DataType::Boolean,
        _ => return None,
    };
    let is_one = matches!(
        of,
        DataType::Array(_)
            | DataType::Blob(_)
            | DataType::Boolean
            | DataType::Bytea
            | DataType::Date
            | DataType::Interval { .. }
            | DataType::Time(..)
            | DataType::Timestamp(..)
    );
    is_one.then_some(of)
}

/// Completes structures that are to have one type, and the elements of lists that are.
fn complete_all(values: Vec<&mut Expr>) {
    let (mut structures, mut elements, mut casts) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        match plain(value) {
            cast if fields_of_cast(cast).is_some() => casts.push(cast),
            Expr::Dictionary(fields) => structures.push(fields),
            Expr::Array(array) => elements.extend(array.elem.iter_mut()),
            _ => {}
        }
    }
    if !elements.is_empty() {
        complete_all(elements);
    }
    // What type a field has that is only in one without a cast is not known here.
    if structures.is_empty() {
        complete_casts(casts);
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

/// Returns the fields of the type of structures that a value is cast to, all of which have names.
fn fields_of_cast(value: &Expr) -> Option<&[StructField]> {
    match value {
        Expr::Cast { data_type: DataType::Struct(fields, _), .. }
            if fields.iter().all(|field| field.field_name.is_some()) =>
        {
            Some(fields)
        }
        _ => None,
    }
}

fn name_of(field: &StructField) -> Option<String> {
    field.field_name.as_ref().map(fold)
}

/// Casts what has been cast to a structure to one that has the fields of all, each in its own type where it
/// has it.
fn complete_casts(casts: Vec<&mut Expr>) {
    let mut all: Vec<StructField> = Vec::new();
    for field in casts.iter().filter_map(|cast| fields_of_cast(cast)).flatten() {
        if all.iter().all(|known| name_of(known) != name_of(field)) {
            all.push(field.clone());
        }
    }
    for cast in casts {
        let Expr::Cast { data_type: DataType::Struct(own, brackets), .. } = &*cast else { continue };
        if own.len() == all.len() && own.iter().zip(&all).all(|(own, of)| name_of(own) == name_of(of)) {
            continue;
        }
        let in_own = |field: &StructField| own.iter().find(|own| name_of(own) == name_of(field)).cloned();
        let fields = all.iter().map(|field| in_own(field).unwrap_or_else(|| field.clone())).collect();
        let data_type = DataType::Struct(fields, *brackets);
        let expr = Box::new(taken(cast));
        *cast = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
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
            ("(true), ('f'), (NULL)", "(true), (CAST('f' AS BOOLEAN)), (NULL)"),
            ("(1, '2'), ('3', 4)", "(1, '2'), ('3', 4)"),
            (
                "(CAST(x AS STRUCT(a INT))), (CAST(y AS STRUCT(a INT)))",
                "(CAST(x AS STRUCT(a INT))), (CAST(y AS STRUCT(a INT)))",
            ),
            (
                "(CAST(x AS STRUCT(a INT))), (NULL), (CAST(y AS STRUCT(b TEXT, a BIGINT)))",
                "(CAST(CAST(x AS STRUCT(a INT)) AS STRUCT(a INT, b TEXT))), (NULL), \
                 (CAST(CAST(y AS STRUCT(b TEXT, a BIGINT)) AS STRUCT(a BIGINT, b TEXT)))",
            ),
        ] {
            let query = parse_query(&format!("SELECT * FROM (VALUES {given})"), &Extension::NONE).unwrap();
            assert_eq!(query.to_string(), format!("SELECT * FROM (VALUES {completed})"));
        }
    }
}
