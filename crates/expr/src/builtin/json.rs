//! Values as JSON.

use crate::builtin::{Described, Kind, refused};
use crate::cast::cast as cast_as_sql;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::error::Result;
use hypostyle_types::LogicalType;
use hypostyle_types::check_json_text;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["to_json", "to_jsonb", "row_to_json", "array_to_json"],
        &[Kind::Any],
        |_| Ok(DataType::LargeUtf8),
        |args, rows| {
            texts(rows, |row, out| {
                let is_some = args[0].is_valid(row) && !args[0].data_type().is_null();
                if is_some {
                    write(&args[0], &Field::new("", args[0].data_type().clone(), true), row, out)?;
                }
                Ok(is_some)
            })
        },
    )
    .json(),
    Described::new(
        &["json_build_object", "jsonb_build_object", "json_object"],
        &[Kind::Any],
        |_| Ok(DataType::LargeUtf8),
        object,
    )
    .optional(1)
    .more()
    .json(),
    Described::new(
        &["json_build_array", "jsonb_build_array", "json_array"],
        &[Kind::Any],
        |_| Ok(DataType::LargeUtf8),
        |args, rows| {
            texts(rows, |row, out| {
                out.push('[');
                for (place, values) in args.iter().enumerate() {
                    if place > 0 {
                        out.push_str(", ");
                    }
                    write(values, &Field::new("", values.data_type().clone(), true), row, out)?;
                }
                out.push(']');
                Ok(true)
            })
        },
    )
    .optional(1)
    .more()
    .json(),
    Described::new(
        &["json_valid"],
        &[Kind::Text],
        |_| Ok(DataType::Boolean),
        |args, _| {
            let valid = args[0].as_string::<i32>().iter();
            let valid: BooleanArray =
                valid.map(|text| text.map(|text| check_json_text(text).is_ok())).collect();
            Ok(Arc::new(valid))
        },
    ),
    Described::new(
        &["json_typeof", "jsonb_typeof"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let kinds = args[0].as_string::<i32>().iter();
            let kinds: StringArray = kinds.map(|text| text.and_then(kind)).collect();
            Ok(Arc::new(kinds))
        },
    ),
];

/// Returns what a JSON text is, as PostgreSQL calls it.
fn kind(text: &str) -> Option<&'static str> {
    Some(match text.trim_start().chars().next()? {
        '{' => "object",
        '[' => "array",
        '"' => "string",
        't' | 'f' => "boolean",
        'n' => "null",
        _ => "number",
    })
}

/// Texts of rows that are written one after the other; NULL where nothing is.
fn texts(rows: usize, mut write: impl FnMut(usize, &mut String) -> Result<bool>) -> Result<ArrayRef> {
    let mut text = String::new();
    let texts = (0..rows).map(|row| {
        text.clear();
        Ok(write(row, &mut text)?.then(|| text.clone()))
    });
    Ok(Arc::new(texts.collect::<Result<LargeStringArray>>()?))
}

fn object(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    if args.len() % 2 == 1 {
        return Err(refused("json_build_object() takes pairs of a name and a value"));
    }
    let text_field = Field::new("", DataType::Utf8, true);
    let names = args.iter().step_by(2).map(|names| cast_as_sql(names, &text_field, false));
    let names = names.collect::<std::result::Result<Vec<_>, _>>()?;
    texts(rows, |row, out| {
        out.push('{');
        for (place, (names, values)) in names.iter().zip(args.iter().skip(1).step_by(2)).enumerate() {
            if names.is_null(row) {
                return Err(refused("a name in json_build_object() is NULL"));
            }
            if place > 0 {
                out.push_str(", ");
            }
            quote(names.as_string::<i32>().value(row), out);
            out.push_str(" : ");
            write(values, &Field::new("", values.data_type().clone(), true), row, out)?;
        }
        out.push('}');
        Ok(true)
    })
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::String(text.to_string()).to_string());
}

/// Writes one value.
fn write(values: &ArrayRef, field: &Field, row: usize, out: &mut String) -> Result<()> {
    if values.is_null(row) || values.data_type().is_null() {
        out.push_str("null");
        return Ok(());
    }
    let elements = |elements: ArrayRef, field: &Field, out: &mut String| -> Result<()> {
        out.push('[');
        for at in 0..elements.len() {
            if at > 0 {
                out.push(',');
            }
            write(&elements, field, at, out)?;
        }
        out.push(']');
        Ok(())
    };
    match values.data_type() {
        DataType::List(field) => elements(values.as_list::<i32>().value(row), field, out),
        DataType::LargeList(field) => elements(values.as_list::<i64>().value(row), field, out),
        DataType::FixedSizeList(field, _) => elements(values.as_fixed_size_list().value(row), field, out),
        DataType::Struct(fields) => {
            out.push('{');
            for (place, (field, column)) in fields.iter().zip(values.as_struct().columns()).enumerate() {
                if place > 0 {
                    out.push(',');
                }
                quote(field.name(), out);
                out.push(':');
                write(column, field, row, out)?;
            }
            out.push('}');
            Ok(())
        }
        DataType::Map(..) => {
            let entries = values.as_map().value(row);
            let names = cast_as_sql(entries.column(0), &Field::new("", DataType::Utf8, true), false)?;
            out.push('{');
            for at in 0..entries.len() {
                if at > 0 {
                    out.push(',');
                }
                quote(names.as_string::<i32>().value(at), out);
                out.push(':');
                write(entries.column(1), entries.fields()[1].as_ref(), at, out)?;
            }
            out.push('}');
            Ok(())
        }
        of => {
            let text = cast_as_sql(&values.slice(row, 1), &Field::new("", DataType::Utf8, true), false)?;
            let text = text.as_string::<i32>().value(0);
            let is_finite = match of {
                DataType::Float64 => values.as_primitive::<Float64Type>().value(row).is_finite(),
                DataType::Float32 => !text.contains(['n', 'N']),
                _ => true,
            };
            let is_json = LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Json);
            match of {
                DataType::Boolean => out.push_str(text),
                of if of.is_numeric() && is_finite => out.push_str(text),
                _ if is_json => out.push_str(text),
                // The format is ISO 8601.
                DataType::Timestamp(..) => quote(&text.replacen(' ', "T", 1), out),
                _ => quote(text, out),
            }
            Ok(())
        }
    }
}
