//! Structures, and lists of them or of lists, in the text that the server reads as composite types and as
//! arrays. Their binary forms would need the numbers of all types within.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_schema::{DataType, Field, FieldRef};
use bytes::BytesMut;
use hypostyle_pgtypes::{Cells, Column, IntervalStyle, Style};
use hypostyle_types::{Error, LogicalType, Result};

/// Returns the field of the elements, if values are lists.
pub fn element(values: &DataType) -> Option<&FieldRef> {
    match values {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => Some(field),
        _ => None,
    }
}

/// Says whether values are lists of lists.
pub fn are_deep(values: &DataType) -> bool {
    element(values).is_some_and(|field| element(field.data_type()).is_some())
}

/// Says whether values are structures, or lists that have some within or are lists of lists.
pub fn are_nested(values: &DataType) -> bool {
    match values {
        DataType::Struct(_) => true,
        list => are_deep(list) || element(list).is_some_and(|field| are_nested(field.data_type())),
    }
}

/// Returns the texts of structures or lists.
///
/// # Errors
/// `InvalidInput` for a value within that no type of PostgreSQL holds.
pub fn literals(array: &ArrayRef, name: &str) -> Result<LargeStringArray> {
    let field = Field::new(name, array.data_type().clone(), true);
    Ok(texts(array, &field)?.into_iter().collect())
}

fn texts(array: &ArrayRef, field: &Field) -> Result<Vec<Option<String>>> {
    match array.data_type() {
        DataType::Struct(fields) => {
            let members = array.as_struct();
            let columns = members.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| texts(column, field)).collect::<Result<Vec<_>>>()?;
            let text = |row: usize| {
                let values = columns.iter().map(|column| column.get(row).and_then(Option::as_deref));
                let values: Vec<String> = values.map(member).collect();
                members.is_valid(row).then(|| format!("({})", values.join(",")))
            };
            Ok((0..members.len()).map(text).collect())
        }
        list if let Some(of) = element(list) => {
            let is_deep = element(of.data_type()).is_some();
            let text = |row: usize| -> Result<Option<String>> {
                let Some(elements) = elements_of(array, row) else { return Ok(None) };
                let values = texts(&elements, of)?.into_iter().map(|value| match value {
                    Some(list) if is_deep => list,
                    value => quoted_element(value.as_deref()),
                });
                Ok(Some(format!("{{{}}}", values.collect::<Vec<_>>().join(","))))
            };
            (0..array.len()).map(text).collect()
        }
        _ => leaves(array, field),
    }
}

/// Returns the elements of the list in a row, unless it is NULL.
fn elements_of(array: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::List(_) => array.as_list_opt::<i32>().map(|lists| lists.value(row)),
        DataType::LargeList(_) => array.as_list_opt::<i64>().map(|lists| lists.value(row)),
        _ => array.as_fixed_size_list_opt().map(|lists| lists.value(row)),
    }
}

/// Returns the texts of values that are neither structures nor lists.
fn leaves(array: &ArrayRef, field: &Field) -> Result<Vec<Option<String>>> {
    let zone = "UTC".parse().map_err(|_| Error::internal("there is no UTC"))?;
    let style = Style { zone, intervals: IntervalStyle::Postgres, escapes_bytes: false };
    let cells = Cells::new(array, &Column::new(field.name(), &LogicalType::from_arrow(field)?), style)?;
    let mut value = BytesMut::new();
    let text = |row: usize| {
        if cells.is_null(row) {
            return Ok(None);
        }
        value.clear();
        cells.text(row, &mut value);
        let text = String::from_utf8(value.to_vec());
        text.map(Some).map_err(|_| Error::internal("a text of a value is not UTF-8"))
    };
    (0..array.len()).map(text).collect()
}

/// Returns a member of a composite type: nothing is NULL.
fn member(value: Option<&str>) -> String {
    let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    match value {
        None => String::new(),
        Some(value) if value.is_empty() || value.contains(is_special) || value.contains('\u{b}') => {
            format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\""))
        }
        Some(value) => value.into(),
    }
}

fn quoted_element(value: Option<&str>) -> String {
    match value {
        None => "NULL".into(),
        // Quotes are right around all values.
        Some(value) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, ListArray, StringArray, StructArray};
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use std::sync::Arc;

    fn pairs(texts: Vec<Option<&str>>) -> ArrayRef {
        let numbers = Int32Array::from_iter((0..texts.len() as i32).map(|n| (n > 0).then_some(n)));
        let nulls = NullBuffer::from_iter((0..texts.len()).map(|n| n != 2));
        Arc::new(StructArray::new(
            vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, true)].into(),
            vec![Arc::new(numbers) as ArrayRef, Arc::new(StringArray::from(texts)) as ArrayRef],
            Some(nulls),
        ))
    }

    fn lists(elements: ArrayRef, offsets: Vec<i32>) -> ArrayRef {
        let field = Arc::new(Field::new("item", elements.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::new(offsets.into()), elements, None))
    }

    fn shown(array: &ArrayRef) -> Vec<Option<String>> {
        assert!(are_nested(array.data_type()));
        literals(array, "c").unwrap().iter().map(|text| text.map(String::from)).collect()
    }

    #[test]
    fn structures_are_composite_types() {
        let values = pairs(vec![None, Some("a b"), Some("null"), Some(""), Some("\"\\(),"), Some("NULL")]);
        let expected = [
            Some("(,)"),
            Some("(1,\"a b\")"),
            None,
            Some("(3,\"\")"),
            Some("(4,\"\"\"\\\\(),\")"),
            Some("(5,NULL)"),
        ];
        assert_eq!(shown(&values), expected.map(|text| text.map(String::from)));
        assert_eq!(shown(&values.slice(1, 1)), [Some(String::from("(1,\"a b\")"))]);
    }

    #[test]
    fn lists_of_structures_and_of_lists_are_arrays() {
        let values = lists(pairs(vec![None, Some("a\"b"), Some("x")]), vec![0, 3, 3]);
        let expected = r#"{"(,)","(1,\"a\"\"b\")",NULL}"#;
        assert_eq!(shown(&values), [Some(String::from(expected)), Some(String::from("{}"))]);
        let numbers = vec![Some(vec![Some(1), None]), Some(vec![Some(3), Some(4)])];
        let inner = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(numbers)) as ArrayRef;
        assert!(!are_nested(inner.data_type()));
        let deep = lists(inner, vec![0, 2]);
        assert!(are_deep(deep.data_type()));
        assert_eq!(shown(&deep), [Some(String::from(r#"{{"1",NULL},{"3","4"}}"#))]);
    }
}
