//! Structures with other fields than each other in a column of VALUES, as in `VALUES ({'a': 1}), ({'b':
//! 2})`: each gets the fields of all, NULL where it has none. So do those that are cast, as in `VALUES
//! ({'a': 1}::STRUCT(a INT)), ({'b': 2}::STRUCT(b INT))`. The planner wants one type. And texts as they are
//! written have the type of the others in their column, as in PostgreSQL: `VALUES (DATE '2025-01-01'),
//! ('2025-02-01')`, and beside numbers with a point all their digits.

use crate::identifier::fold;
use crate::walk::{checked, done, taken, walk_mut};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::{Error, Result};
use sqlparser::ast::{
    CastKind, DataType, DictionaryField, Expr, Ident, Query, SetExpr, Statement, StructField, UnaryOperator,
    Value, ValueWithSpan, Values, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::ControlFlow;

/// The fields that structures of a statement may get. Each is as large as one that is written, and rows that
/// have all other fields than each other would get as many as the square of their number.
const ADDED_MAX: usize = 500_000;

/// Completes such structures, and casts such texts.
///
/// # Errors
/// `Syntax` (54001) where structures lack too many fields.
pub fn complete(statement: &mut Statement) -> Result<()> {
    // The values of an INSERT get the types of its columns, each by itself.
    let is_insert = |statement: &Statement| match statement {
        Statement::Insert(insert) => {
            insert.source.as_ref().is_some_and(|source| matches!(source.body.as_ref(), SetExpr::Values(_)))
        }
        _ => false,
    };
    match is_insert(statement) {
        true => Ok(()),
        false => checked(walk_mut(statement, &mut Completing::default())),
    }
}

#[derive(Default)]
struct Completing {
    /// The fields that structures have got.
    added: usize,
}

impl VisitorMut for Completing {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        done(self.in_body(&mut query.body))
    }
}

impl Completing {
    fn in_body(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Values(Values { rows, .. }) => {
                let width = rows.iter().map(|row| row.len()).max().unwrap_or_default();
                for column in 0..width {
                    self.complete_all(rows.iter_mut().filter_map(|row| row.get_mut(column)).collect())?;
                    cast_texts(rows.iter_mut().filter_map(|row| row.get_mut(column)).collect());
                    exact_texts(rows.iter_mut().filter_map(|row| row.get_mut(column)).collect());
                }
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.in_body(left)?;
                self.in_body(right)
            }
            _ => Ok(()),
        }
    }

    /// Counts fields that structures are to get.
    fn add(&mut self, fields: usize) -> Result<()> {
        self.added = self.added.saturating_add(fields);
        match self.added <= ADDED_MAX {
            true => Ok(()),
            false => Err(too_complex(format!(
                "structures in a column of VALUES lack more than {ADDED_MAX} of the fields that others have; write \
                 them as JSON, or as maps"
            ))),
        }
    }

    /// Completes structures that are to have one type, and the elements of lists that are.
    fn complete_all(&mut self, values: Vec<&mut Expr>) -> Result<()> {
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
            self.complete_all(elements)?;
        }
        // What type a field has that is only in one without a cast is not known here.
        if structures.is_empty() {
            self.complete_casts(casts)?;
        }
        if structures.len() < 2 {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let is_new = |field: &&DictionaryField| seen.insert(field.key.value.clone());
        let all = structures.iter().flat_map(|fields| fields.iter());
        let keys: Vec<Ident> = all.filter(is_new).map(|field| field.key.clone()).collect();
        let given: usize = structures.iter().map(|fields| fields.len()).sum();
        self.add((structures.len() * keys.len()).saturating_sub(given))?;
        for fields in &mut structures {
            complete_one(fields, &keys);
        }
        for place in 0..keys.len() {
            let of_key = structures.iter_mut().filter_map(|fields| fields.get_mut(place));
            self.complete_all(of_key.map(|field| field.value.as_mut()).collect())?;
        }
        Ok(())
    }

    /// Casts what has been cast to a structure to one that has the fields of all, each in its own type where
    /// it has it.
    fn complete_casts(&mut self, casts: Vec<&mut Expr>) -> Result<()> {
        let (mut all, mut names): (Vec<StructField>, Vec<Option<String>>) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for field in casts.iter().filter_map(|cast| fields_of_cast(cast)).flatten() {
            let name = name_of(field);
            if seen.insert(name.clone()) {
                all.push(field.clone());
                names.push(name);
            }
        }
        for cast in casts {
            let Expr::Cast { data_type: DataType::Struct(own, brackets), .. } = &*cast else { continue };
            let own_names: Vec<Option<String>> = own.iter().map(name_of).collect();
            if own_names == names {
                continue;
            }
            self.add(all.len().saturating_sub(own.len()))?;
            let places = first_places(own_names.into_iter());
            let in_own = |name: &Option<String>| places.get(name).map(|place| own[*place].clone());
            let fields = all.iter().zip(&names);
            let fields = fields.map(|(field, name)| in_own(name).unwrap_or_else(|| field.clone())).collect();
            let data_type = DataType::Struct(fields, *brackets);
            let expr = Box::new(taken(cast));
            *cast = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
        }
        Ok(())
    }
}

/// Gives a structure the fields of all in their order.
fn complete_one(fields: &mut Vec<DictionaryField>, keys: &[Ident]) {
    let mut given: Vec<Option<DictionaryField>> = std::mem::take(fields).into_iter().map(Some).collect();
    let places = first_places(given.iter().flatten().map(|field| field.key.value.clone()));
    for key in keys {
        let own = places.get(&key.value).and_then(|place| given[*place].take());
        let null = || Box::new(Expr::Value(Value::Null.into()));
        fields.push(own.unwrap_or_else(|| DictionaryField { key: key.clone(), value: null() }));
    }
    // A field that comes twice is the planner's to refuse.
    fields.extend(given.into_iter().flatten());
}

/// Returns the place of each name, the first one of a name that comes twice.
fn first_places<T: Eq + Hash>(names: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut places = HashMap::new();
    for (place, name) in names.enumerate() {
        places.entry(name).or_insert(place);
    }
    places
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

/// Writes texts beside numbers, of which some have a point, as numbers: the planner would round them to as
/// many places as these have.
fn exact_texts(values: Vec<&mut Expr>) {
    let (mut texts, mut has_point) = (Vec::new(), false);
    for value in values {
        let value = plain(value);
        if matches!(value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })) {
            texts.push(value);
        } else if let Some(digits) = digits_of(value) {
            has_point |= digits.contains('.');
        } else if !matches!(value, Expr::Value(ValueWithSpan { value: Value::Null, .. })) {
            return;
        }
    }
    for text in texts.into_iter().filter(|_| has_point) {
        if let Some(number) = number_in(text) {
            *text = number;
        }
    }
}

/// Returns the digits of a number as it is written, without an exponent.
fn digits_of(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            Some(digits.as_str()).filter(|digits| is_exact(digits))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => digits_of(expr),
        _ => None,
    }
}

fn is_exact(digits: &str) -> bool {
    digits.bytes().any(|digit| digit.is_ascii_digit())
        && digits.bytes().all(|digit| digit.is_ascii_digit() || digit == b'.')
        && digits.matches('.').count() <= 1
}

/// Returns the number that a text shows.
fn number_in(text: &Expr) -> Option<Expr> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = text else { return None };
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = is_exact(digits).then(|| Expr::value(Value::Number(digits.to_string(), false)))?;
    Some(match text.starts_with('-') {
        true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) },
        false => number,
    })
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

    #[test]
    fn rows_of_very_many_fields_are_completed_or_refused() {
        let rows = |rows: Vec<Vec<usize>>| {
            let row = |keys: Vec<usize>| {
                let fields: Vec<String> = keys.iter().map(|key| format!("'k{key}': 1")).collect();
                format!("({{{}}})", fields.join(", "))
            };
            let rows: Vec<String> = rows.into_iter().map(row).collect();
            parse_query(&format!("SELECT * FROM (VALUES {})", rows.join(", ")), &Extension::NONE)
        };
        let (up, down) = ((0..5_000).collect::<Vec<_>>(), (0..5_000).rev().collect::<Vec<_>>());
        let completed = |given| rows(given).unwrap().to_string();
        assert_eq!(completed(vec![up.clone(), down]), completed(vec![up.clone(), up]));
        let of_one: Vec<Vec<usize>> = (0..2_000).map(|key| vec![key]).collect();
        assert_eq!(rows(of_one).unwrap_err().sqlstate(), "54001");
    }
}
