//! `sniff_csv(…)`: what is found out of a CSV file, as a row.

use crate::convert::type_name;
use crate::csv::detect::{Detected, detect};
use crate::csv::form::{Form, Parts};
use crate::input::Input;
use crate::option::ReadOptions;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringViewArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// Returns a row about a file.
///
/// # Errors
/// Those of detection.
pub fn sniffed(file: &Input, options: &ReadOptions) -> Result<RecordBatch> {
    let found = detect(file, options, &[])?;
    let character = |byte: Option<u8>| byte.map(|byte| char::from(byte).to_string()).unwrap_or_default();
    let dialect = &found.dialect;
    let (escape, quote) = (dialect.escape.or(dialect.quote), dialect.quote);
    let (date, timestamp) = (pattern(&found, false, options), pattern(&found, true, options));
    let texts = [
        ("Delimiter", Some(character(Some(dialect.delimiter)))),
        ("Quote", Some(character(quote))),
        ("Escape", Some(character(escape))),
        ("Comment", Some(character(dialect.comment))),
        ("DateFormat", date.clone()),
        ("TimestampFormat", timestamp),
        ("Prompt", Some(prompt(file, &found, options, date.as_deref()))),
    ];
    let texts = texts.map(|(name, text)| (name, Arc::new(StringViewArray::from_iter([text])) as ArrayRef));
    let skipped: ArrayRef = Arc::new(Int64Array::from(vec![i64::try_from(options.skip).unwrap_or(i64::MAX)]));
    let header: ArrayRef = Arc::new(BooleanArray::from(vec![found.header]));
    let others = [("SkipRows", skipped), ("HasHeader", header), ("Columns", columns(&found)?)];
    let [delimiter, quote, escape, comment, date, timestamp, prompt] = texts;
    let [skipped, header, columns] = others;
    let all = [delimiter, quote, escape, comment, skipped, header, columns, date, timestamp, prompt];
    let fields = all.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, all.into_iter().map(|(_, column)| column).collect())
        .map_err(|error| internal(&error))
}

fn internal(error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("cannot tell what a CSV file is: {error}"))
}

/// Returns the names and the types of all columns, as one list.
fn columns(found: &Detected) -> Result<ArrayRef> {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let fields = Fields::from(vec![text("name"), text("type")]);
    let names = StringViewArray::from_iter_values(found.columns.iter().map(|field| field.name()));
    let types = StringViewArray::from_iter_values(found.columns.iter().map(type_name));
    let pairs = StructArray::try_new(fields.clone(), vec![Arc::new(names), Arc::new(types)], None)
        .map_err(|error| internal(&error))?;
    let (item, ends) = (Field::new("item", DataType::Struct(fields), true), [found.columns.len()]);
    let list = ListArray::try_new(Arc::new(item), OffsetBuffer::from_lengths(ends), Arc::new(pairs), None);
    Ok(Arc::new(list.map_err(|error| internal(&error))?))
}

/// Returns the pattern of the file's dates, or of its points in time, if it is not SQL's.
fn pattern(found: &Detected, with_time: bool, options: &ReadOptions) -> Option<String> {
    let given = if with_time { &options.given.timestamp } else { &options.given.date };
    let forms = found.columns.iter().zip(&found.forms);
    let mut of_kind = forms.filter(|(field, _)| match field.data_type() {
        DataType::Timestamp(..) => with_time,
        DataType::Date32 => !with_time,
        _ => false,
    });
    given.clone().or_else(|| {
        of_kind.find_map(|(_, form)| match form {
            Form::Ordered(parts, separator) => {
                let order = match parts {
                    Parts::YearMonthDay => ["%Y", "%m", "%d"],
                    Parts::DayMonthYear => ["%d", "%m", "%Y"],
                    Parts::MonthDayYear => ["%m", "%d", "%Y"],
                };
                let date = order.join(&char::from(*separator).to_string());
                Some(if with_time { format!("{date} %H:%M:%S") } else { date })
            }
            _ => None,
        })
    })
}

/// Returns a query that reads the file in this way, whatever is found out later.
fn prompt(file: &Input, found: &Detected, options: &ReadOptions, date: Option<&str>) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let character =
        |byte: Option<u8>| text(&byte.map(|byte| char::from(byte).to_string()).unwrap_or_default());
    let dialect = &found.dialect;
    let mut arguments = vec![
        text(&file.path().to_string_lossy()),
        format!("header => {}", found.header),
        format!("delim => {}", character(Some(dialect.delimiter))),
        format!("quote => {}", character(dialect.quote)),
    ];
    arguments.extend(dialect.escape.map(|escape| format!("escape => {}", character(Some(escape)))));
    arguments.extend(dialect.comment.map(|comment| format!("comment => {}", character(Some(comment)))));
    if options.skip > 0 {
        arguments.push(format!("skip => {}", options.skip));
    }
    arguments.extend(date.map(|pattern| format!("dateformat => {}", text(pattern))));
    let column = |field: &Field| format!("{}: {}", text(field.name()), text(&type_name(field)));
    let columns: Vec<String> = found.columns.iter().map(column).collect();
    arguments.push(format!("columns => {{{}}}", columns.join(", ")));
    format!("FROM read_csv({});", arguments.join(", "))
}
