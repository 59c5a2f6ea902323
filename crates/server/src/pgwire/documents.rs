//! Structures, maps and lists of lists that come as JSON, in the forms in which they are sent.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::decode::{cast, from_text, internal};
use arrow::array::{ArrayRef, LargeListArray, MapArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use hypostyle::postgres::{elements, members, unquoted};
use hypostyle_types::{Error, LogicalType, Result, StructField, check_json_text};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// JSON as values of a type, times without a time zone being of this one.
///
/// # Errors
/// `22P02` for a text that is no JSON of the type; `22P05` for a text with a zero; those of [`from_text`] for
/// what is within.
pub(super) fn from_json(texts: &StringArray, of: &LogicalType, zone: &str) -> Result<ArrayRef> {
    for text in texts.iter().flatten() {
        check_json_text(text).map_err(|error| not_of(of, &error))?;
    }
    values(texts.iter().collect(), of, zone)
}

fn not_of(of: &LogicalType, why: &dyn std::fmt::Display) -> Error {
    Error::invalid_input(format!("not JSON of a {of}: {why}")).with_sqlstate("22P02")
}

/// Returns what JSON values are, of which null is NULL.
fn values(texts: Vec<Option<&str>>, of: &LogicalType, zone: &str) -> Result<ArrayRef> {
    let begins = match of {
        LogicalType::Struct { .. } | LogicalType::Map { .. } => "{",
        LogicalType::List { .. } | LogicalType::Array { .. } => "[",
        _ => "",
    };
    let some = texts.into_iter().map(|text| text.map(str::trim).filter(|text| *text != "null"));
    let texts: Vec<Option<&str>> = some.collect();
    if let Some(other) = texts.iter().flatten().find(|text| !text.starts_with(begins)) {
        return Err(not_of(of, other));
    }
    match of {
        LogicalType::Struct { fields } => structures(&texts, fields, of, zone),
        LogicalType::Map { key, value } => maps(&texts, (key, value), of, zone),
        LogicalType::List { element } | LogicalType::Array { element, .. } => {
            lists(&texts, element, of, zone)
        }
        LogicalType::Json => from_text(&StringArray::from(texts), of, zone),
        _ => {
            let plain = texts.into_iter().map(|text| text.map(text_of).transpose());
            let plain = plain.collect::<Result<StringArray>>()?;
            cast(&from_text(&plain, of, zone)?, &of.arrow_type())
        }
    }
}

/// Returns the text that a JSON value is.
///
/// # Errors
/// `22P05` for one with a zero, which PostgreSQL's texts do not have, however it is written.
fn text_of(value: &str) -> Result<Cow<'_, str>> {
    let text = unquoted(value);
    match text.contains('\0') {
        true => Err(Error::invalid_input("unsupported Unicode escape sequence: \\u0000 is of no text")
            .with_sqlstate("22P05")),
        false => Ok(text),
    }
}

fn nulls(texts: &[Option<&str>]) -> Option<NullBuffer> {
    Some(texts.iter().map(Option::is_some).collect())
}

/// Returns the members of an object by their names: of several the last one, as in PostgreSQL.
fn named(object: Option<&str>) -> HashMap<Cow<'_, str>, &str> {
    let all = object.map(members).into_iter().flatten();
    all.map(|(name, value)| (unquoted(name), value)).collect()
}

fn structures(
    texts: &[Option<&str>],
    fields: &[StructField],
    of: &LogicalType,
    zone: &str,
) -> Result<ArrayRef> {
    let DataType::Struct(of_fields) = of.arrow_type() else {
        return Err(Error::internal("a structure that is none"));
    };
    let objects: Vec<HashMap<Cow<'_, str>, &str>> = texts.iter().map(|text| named(*text)).collect();
    let columns = fields.iter().map(|field| {
        let of_field = objects.iter().map(|object| object.get(field.name.as_str()).copied()).collect();
        values(of_field, &field.logical_type, zone)
    });
    let columns = columns.collect::<Result<_>>()?;
    let structures = StructArray::try_new_with_length(of_fields, columns, nulls(texts), texts.len());
    Ok(Arc::new(structures.map_err(internal)?))
}

fn maps(
    texts: &[Option<&str>],
    (key, value): (&LogicalType, &LogicalType),
    of: &LogicalType,
    zone: &str,
) -> Result<ArrayRef> {
    let DataType::Map(entries, is_sorted) = of.arrow_type() else {
        return Err(Error::internal("a map that is none"));
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("a map without keys and values"));
    };
    let (mut keys, mut all) = (Vec::new(), Vec::new());
    let lengths = texts.iter().map(|text| {
        let before = keys.len();
        for (name, value) in text.map(members).into_iter().flatten() {
            keys.push(Some(text_of(name)?));
            all.push(Some(value));
        }
        Ok(keys.len() - before)
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Result<Vec<_>>>()?);
    let keys = cast(&from_text(&keys.into_iter().collect(), key, zone)?, &key.arrow_type())?;
    let columns = vec![keys, values(all, value, zone)?];
    let pairs = StructArray::try_new(fields.clone(), columns, None).map_err(internal)?;
    let maps = MapArray::try_new(entries.clone(), offsets, pairs, nulls(texts), is_sorted);
    Ok(Arc::new(maps.map_err(internal)?))
}

fn lists(texts: &[Option<&str>], element: &LogicalType, of: &LogicalType, zone: &str) -> Result<ArrayRef> {
    let mut all = Vec::new();
    let lengths = texts.iter().map(|text| {
        let before = all.len();
        all.extend(text.map(elements).into_iter().flatten().map(Some));
        all.len() - before
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let field = Arc::new(element.arrow_field("item", true));
    let lists = LargeListArray::try_new(field, offsets, values(all, element, zone)?, nulls(texts));
    cast(&(Arc::new(lists.map_err(internal)?) as ArrayRef), &of.arrow_type())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_pgtypes::{Cells, Column, Style};

    fn field(name: &str, logical_type: LogicalType) -> StructField {
        StructField { name: name.into(), logical_type }
    }

    /// Returns JSON as it is sent once it has been read.
    fn sent(texts: Vec<Option<&str>>, of: &LogicalType) -> Vec<Option<String>> {
        let array = from_json(&StringArray::from(texts), of, "Asia/Kolkata").unwrap();
        assert_eq!(*array.data_type(), of.arrow_type());
        let style = Style::from("Asia/Kolkata".parse::<arrow::array::timezone::Tz>().unwrap());
        let cells = Cells::new(&array, &Column::new("c", of), style).unwrap();
        let text = |row| {
            let mut text = bytes::BytesMut::new();
            cells.text(row, &mut text);
            String::from_utf8(text.to_vec()).unwrap()
        };
        (0..array.len()).map(|row| (!cells.is_null(row)).then(|| text(row))).collect()
    }

    #[test]
    fn what_is_sent_can_be_read_again() {
        let list = |of: LogicalType| LogicalType::List { element: Box::new(of) };
        let of = LogicalType::Struct {
            fields: vec![
                field("d", LogicalType::Date),
                field("t", LogicalType::timestamp()),
                field("z", LogicalType::timestamp_with_time_zone()),
                field("i", LogicalType::Interval),
                field("u", LogicalType::Uuid),
                field("j", LogicalType::Json),
                field("b", LogicalType::Blob),
                field("f", LogicalType::Double),
                field("n", LogicalType::decimal(38, 20).unwrap()),
                field("o", LogicalType::Boolean),
                field("l", list(list(LogicalType::Date))),
                field(
                    "m",
                    LogicalType::Map {
                        key: Box::new(LogicalType::Date),
                        value: Box::new(LogicalType::Varchar),
                    },
                ),
                field("s", LogicalType::Struct { fields: vec![field("x\"", LogicalType::Varchar)] }),
            ],
        };
        let full = concat!(
            r#"{"d":"0044-03-15 BC","t":"12000-01-01T00:00:00.5","z":"10000-01-01T05:30:00+05:30","#,
            r#""i":"1 mon -02:00:00","#,
            r#""u":"07070707-0707-0707-0707-070707070707","j":{"a": [1, {"b": "}"}]},"b":"\\x00ff","f":"NaN","#,
            r#""n":123456789012345678.12345678901234567890,"o":true,"l":[["10000-01-01",null],null,[]],"#,
            r#""m":{"2024-01-05":"a\nb","10000-01-01":null},"s":{"x\"":"null"}}"#
        );
        let none = concat!(
            r#"{"d":null,"t":null,"z":null,"i":null,"u":null,"j":null,"b":null,"f":null,"n":null,"o":null,"#,
            r#""l":null,"m":null,"s":null}"#
        );
        let texts = vec![Some(full), None, Some(none), Some(" null "), Some(r#"{"other": [{}]}"#)];
        let expected = [Some(full), None, Some(none), None, Some(none)];
        assert_eq!(sent(texts, &of), expected.map(|text| text.map(String::from)));
        assert!(sent(Vec::new(), &of).is_empty());
        // A time without a zone is of the session's.
        let of = LogicalType::Struct { fields: vec![field("z", LogicalType::timestamp_with_time_zone())] };
        let zoned = r#"{"z":"2024-01-05T10:00:00+05:30"}"#;
        assert_eq!(sent(vec![Some(r#"{"z": "2024-01-05 10:00"}"#)], &of), [Some(zoned.to_string())]);
    }

    #[test]
    fn what_is_no_json_of_a_type_is_refused() {
        let of = LogicalType::Struct { fields: vec![field("a", LogicalType::Integer)] };
        for text in ["", "{", "[1]", "1", "{\"a\": 1} 2", "{\"a\": \"x\"}", "{\"a\": [1]}"] {
            let refused = from_json(&StringArray::from(vec![text]), &of, "UTC").unwrap_err();
            assert_eq!(refused.sqlstate(), "22P02", "{text}: {refused}");
        }
        // No text has a zero, however it is written.
        let text = || Box::new(LogicalType::Varchar);
        let in_structure = LogicalType::Struct { fields: vec![field("a", LogicalType::Varchar)] };
        let in_map = LogicalType::Map { key: text(), value: text() };
        for (of, zero) in [
            (&in_structure, r#"{"a": "x\u0000"}"#),
            (&in_map, r#"{"a": "\u0000"}"#),
            (&in_map, r#"{"\u0000": "a"}"#),
        ] {
            let refused = from_json(&StringArray::from(vec![zero]), of, "UTC").unwrap_err();
            assert_eq!(refused.sqlstate(), "22P05", "{zero}: {refused}");
        }
    }
}
