//! Prints single values: as text for people and CSV, and as JSON.
//!
//! Arrow's own formatter prints the plain types, but those of them for which it allocates. They, and the
//! others, are here: intervals as in PostgreSQL, UUID and JSON by their extension names, nested values as
//! JSON in every format, maps with keys that are not text, and dictionary codes under NULL, which may be
//! invalid.

use super::quick::{self, WriteValue, push};
use hypostyle::arrow::array::{Array, AsArray, OffsetSizeTrait, RecordBatch};
use hypostyle::arrow::buffer::NullBuffer;
use hypostyle::arrow::datatypes::{DataType, Field};
use hypostyle::arrow::error::ArrowError;
use hypostyle::arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle::{Error, Result};
use std::fmt::Write;

const EXTENSION_NAME: &str = "ARROW:extension:name";
const SQL_STYLE: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
/// The style of times: RFC 3339, which programs read.
const JSON_STYLE: FormatOptions<'static> = FormatOptions::new();

/// The values of one column of a batch.
pub struct Values<'a> {
    name: &'a str,
    nulls: Option<NullBuffer>,
    write: WriteValue<'a>,
}

impl<'a> Values<'a> {
    /// Returns the values as text for people and CSV.
    pub fn text(field: &'a Field, array: &'a dyn Array) -> Result<Self> {
        Self::new(field, array, text_writer(field, array))
    }

    /// Returns [`Self::text`] of all columns of a batch.
    pub fn of_batch(batch: &'a RecordBatch) -> Result<Vec<Self>> {
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        columns.map(|(field, array)| Self::text(field, array.as_ref())).collect()
    }

    /// Returns the values as JSON. NULL and numbers that JSON lacks are `null`.
    pub fn json(field: &'a Field, array: &'a dyn Array) -> Result<Self> {
        Self::new(field, array, json_writer(field, array))
    }

    fn new(
        field: &'a Field,
        array: &'a dyn Array,
        write: Result<WriteValue<'a>, ArrowError>,
    ) -> Result<Self> {
        let write = write.map_err(|error| {
            Error::unsupported(format!(
                "cannot print column \"{}\" of type {}: {error}",
                field.name(),
                array.data_type()
            ))
        })?;
        Ok(Self { name: field.name(), nulls: array.logical_nulls(), write })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value of a row that is not NULL.
    pub fn write(&self, row: usize, out: &mut String) -> Result<()> {
        (self.write)(row, out).map_err(|error| {
            Error::invalid_input(format!("cannot print a value of column \"{}\": {error}", self.name))
        })
    }
}

/// Says whether values of this type read better when their last digits are aligned.
pub fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn text_writer<'a>(field: &'a Field, array: &'a dyn Array) -> Result<WriteValue<'a>, ArrowError> {
    match array.data_type() {
        data_type if data_type.is_nested() => json_writer(field, array),
        DataType::Dictionary(_, _) => through_dictionary(field, array, text_writer),
        DataType::FixedSizeBinary(16) if extension(field) == Some("arrow.uuid") => {
            let array = array.as_fixed_size_binary();
            Ok(Box::new(move |row, out| write_uuid(array.value(row), out)))
        }
        // As PostgreSQL and `to_json` write bytes.
        data_type if data_type.is_binary() => {
            let digits = formatted(array, &SQL_STYLE)?;
            Ok(Box::new(move |row, out| {
                out.push_str("\\x");
                digits(row, out)
            }))
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            let texts = hypostyle::interval_texts(array)?;
            Ok(Box::new(move |row, out| push(out, texts.value(row))))
        }
        _ => formatted(array, &SQL_STYLE),
    }
}

fn json_writer<'a>(field: &'a Field, array: &'a dyn Array) -> Result<WriteValue<'a>, ArrowError> {
    match array.data_type() {
        DataType::List(element) => {
            let list = array.as_list::<i32>();
            json_list(element, list.values(), move |row| span(list.value_offsets(), row))
        }
        DataType::LargeList(element) => {
            let list = array.as_list::<i64>();
            json_list(element, list.values(), move |row| span(list.value_offsets(), row))
        }
        DataType::FixedSizeList(element, length) => {
            let length = *length as usize;
            let first = array.as_fixed_size_list().value_offset(0) as usize;
            json_list(element, array.as_fixed_size_list().values(), move |row| {
                (first + row * length, first + (row + 1) * length)
            })
        }
        DataType::Struct(fields) => {
            json_struct(fields.iter().map(AsRef::as_ref), array.as_struct().columns())
        }
        DataType::Map(_, _) => json_map(array),
        DataType::Dictionary(_, _) => through_dictionary(field, array, json_writer),
        DataType::Null => Ok(Box::new(|_, out| push(out, "null"))),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            if extension(field) == Some("arrow.json") =>
        {
            json_document(array)
        }
        data_type if data_type.is_floating() => json_float(array),
        data_type if data_type.is_numeric() || *data_type == DataType::Boolean => {
            formatted(array, &JSON_STYLE)
        }
        DataType::Interval(_) => quoted(text_writer(field, array)?),
        data_type if data_type.is_binary() => quoted(text_writer(field, array)?),
        _ => quoted(formatted(array, &JSON_STYLE)?),
    }
}

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(EXTENSION_NAME).map(String::as_str)
}

fn formatted<'a>(array: &'a dyn Array, style: &FormatOptions<'a>) -> Result<WriteValue<'a>, ArrowError> {
    if let Some(texts) = hypostyle::texts_of_far_years(array)? {
        return Ok(Box::new(move |row, out| push(out, texts.value(row))));
    }
    if let Some(write) = quick::writer(array, style) {
        return Ok(write);
    }
    let formatter = ArrayFormatter::try_new(array, style)?;
    Ok(Box::new(move |row, out| formatter.value(row).write(out)))
}

/// Looks each code up. Codes under NULL are never looked up.
fn through_dictionary<'a>(
    field: &'a Field,
    array: &'a dyn Array,
    writer: impl Fn(&'a Field, &'a dyn Array) -> Result<WriteValue<'a>, ArrowError>,
) -> Result<WriteValue<'a>, ArrowError> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().is_empty() {
        return Ok(Box::new(|_, _| Ok(())));
    }
    // The outer field has the extension name, whatever type carries the values.
    let write = writer(field, dictionary.values().as_ref())?;
    let codes = dictionary.normalized_keys();
    Ok(Box::new(move |row, out| write(codes[row], out)))
}

fn write_uuid(bytes: &[u8], out: &mut String) -> Result<(), ArrowError> {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(out, "{dash}{byte:02x}").map_err(|error| ArrowError::CastError(error.to_string()))?;
    }
    Ok(())
}

fn quoted(write: WriteValue<'_>) -> Result<WriteValue<'_>, ArrowError> {
    Ok(Box::new(move |row, out| {
        let mut text = String::new();
        write(row, &mut text)?;
        push_json_string(&text, out)
    }))
}

fn push_json_string(text: &str, out: &mut String) -> Result<(), ArrowError> {
    let text = serde_json::to_string(text).map_err(|error| ArrowError::JsonError(error.to_string()))?;
    push(out, &text)
}

/// Writes floats. JSON has neither NaN nor infinities.
fn json_float<'a>(array: &'a dyn Array) -> Result<WriteValue<'a>, ArrowError> {
    let write = formatted(array, &JSON_STYLE)?;
    Ok(Box::new(move |row, out| {
        let start = out.len();
        write(row, out)?;
        if !out.ends_with(|c: char| c.is_ascii_digit()) {
            out.truncate(start);
            out.push_str("null");
        }
        Ok(())
    }))
}

/// Writes a document as it is, on one line. Text in a JSON column that is not JSON becomes a JSON
/// string.
fn json_document<'a>(array: &'a dyn Array) -> Result<WriteValue<'a>, ArrowError> {
    let write = formatted(array, &JSON_STYLE)?;
    Ok(Box::new(move |row, out| {
        let mut text = String::new();
        write(row, &mut text)?;
        match serde_json::from_str::<serde_json::Value>(&text) {
            // Inside JSON strings a line end is always escaped, so these are only space.
            Ok(_) => push(out, &text.replace(['\n', '\r'], " ")),
            Err(_) => push_json_string(&text, out),
        }
    }))
}

fn span<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> (usize, usize) {
    (offsets[row].as_usize(), offsets[row + 1].as_usize())
}

/// A value inside another; it is `null` if it is missing.
struct Member<'a>(Values<'a>);

impl<'a> Member<'a> {
    fn new(field: &'a Field, array: &'a dyn Array) -> Result<Self, ArrowError> {
        let write = json_writer(field, array)?;
        Ok(Self(Values { name: field.name(), nulls: array.logical_nulls(), write }))
    }

    fn write(&self, row: usize, out: &mut String) -> Result<(), ArrowError> {
        if self.0.is_null(row) { push(out, "null") } else { (self.0.write)(row, out) }
    }
}

fn json_list<'a>(
    element: &'a Field,
    values: &'a dyn Array,
    span: impl Fn(usize) -> (usize, usize) + 'a,
) -> Result<WriteValue<'a>, ArrowError> {
    let member = Member::new(element, values)?;
    Ok(Box::new(move |row, out| {
        let (start, end) = span(row);
        out.push('[');
        for index in start..end {
            if index > start {
                out.push(',');
            }
            member.write(index, out)?;
        }
        push(out, "]")
    }))
}

fn json_struct<'a>(
    fields: impl Iterator<Item = &'a Field>,
    columns: &'a [hypostyle::arrow::array::ArrayRef],
) -> Result<WriteValue<'a>, ArrowError> {
    let members = fields
        .zip(columns)
        .map(|(field, column)| {
            let mut key = String::new();
            push_json_string(field.name(), &mut key)?;
            Ok((key, Member::new(field, column.as_ref())?))
        })
        .collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(Box::new(move |row, out| {
        out.push('{');
        for (index, (key, member)) in members.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            out.extend([comma, key, ":"]);
            member.write(row, out)?;
        }
        push(out, "}")
    }))
}

/// Writes a map as an object. Keys that are not text are written as the text that they print as.
fn json_map<'a>(array: &'a dyn Array) -> Result<WriteValue<'a>, ArrowError> {
    let map = array.as_map();
    let fields = map.entries().fields();
    let keys = quoted(text_writer(&fields[0], map.keys().as_ref())?)?;
    let values = Member::new(&fields[1], map.values().as_ref())?;
    Ok(Box::new(move |row, out| {
        let (start, end) = span(map.value_offsets(), row);
        out.push('{');
        for index in start..end {
            if index > start {
                out.push(',');
            }
            keys(index, out)?;
            out.push(':');
            values.write(index, out)?;
        }
        push(out, "}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::example;

    #[test]
    fn every_type_has_a_text_and_a_json() {
        for (field, array, text, json) in example::every_type() {
            for (values, expected) in [
                (Values::text(&field, array.as_ref()).unwrap(), text),
                (Values::json(&field, array.as_ref()).unwrap(), json),
            ] {
                assert!(values.is_null(1), "{}", field.name());
                if values.is_null(0) {
                    continue;
                }
                let mut out = String::new();
                values.write(0, &mut out).unwrap();
                assert_eq!(out, expected, "{}", field.name());
            }
        }
    }

    #[test]
    fn slices_of_nested_values_start_where_the_slice_does() {
        for (field, array, _, _) in example::every_type() {
            let doubled = hypostyle::arrow::compute::concat(&[array.as_ref(), array.as_ref()]).unwrap();
            let slice = doubled.slice(2, 2);
            let (whole, part) = (Values::json(&field, array.as_ref()), Values::json(&field, slice.as_ref()));
            let (mut expected, mut out) = (String::new(), String::new());
            whole.unwrap().write(0, &mut expected).unwrap();
            part.unwrap().write(0, &mut out).unwrap();
            assert_eq!(out, expected, "{}", field.name());
        }
    }

    #[test]
    fn text_that_is_no_json_stays_text() {
        let array = hypostyle::arrow::array::StringArray::from(vec!["{oops"]);
        let field = Field::new("c", DataType::Utf8, true)
            .with_metadata([(EXTENSION_NAME.to_string(), "arrow.json".to_string())].into());
        let mut out = String::new();
        Values::json(&field, &array).unwrap().write(0, &mut out).unwrap();
        assert_eq!(out, "\"{oops\"");
    }
}
