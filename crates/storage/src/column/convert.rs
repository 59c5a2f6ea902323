//! Arrow arrays of a caller into arrays of a column's type: exactly, or not at all.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;
use uuid::Uuid;

/// Converts `array` for the column `name` of type `target`; `first_row` numbers its rows in messages.
/// Dictionary arrays of strings are left as they are for VARCHAR.
///
/// # Errors
/// `InvalidInput` naming the column, row and value when the types do not fit or a value is lost.
pub fn convert(array: &ArrayRef, name: &str, target: &LogicalType, first_row: u64) -> Result<ArrayRef> {
    let wanted = target.arrow_type();
    let source = array.data_type();
    let value_type = match source {
        DataType::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    if is_text(value_type) && *target == LogicalType::Varchar && source != value_type {
        return Ok(array.clone());
    }
    if !fits(value_type, target) {
        return Err(Error::invalid_input(format!(
            "column \"{name}\" is {target}, but the data is {source}; convert it first"
        ))
        .with_sqlstate("42804"));
    }
    if *target == LogicalType::Uuid && is_text(value_type) {
        return parse_uuids(array, name, first_row);
    }
    let converted = if source == &wanted {
        array.clone()
    } else {
        cast_exactly(array, name, &wanted, target, first_row)?
    };
    if *target == LogicalType::Json {
        check_json(&converted, name, first_row)?;
    }
    Ok(converted)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    )
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// Whether values of an Arrow type may become values of the SQL type.
fn fits(source: &DataType, target: &LogicalType) -> bool {
    use LogicalType::*;
    if *source == DataType::Null || *source == target.arrow_type() {
        return true;
    }
    match target {
        Boolean => *source == DataType::Boolean,
        TinyInt
        | SmallInt
        | Integer
        | BigInt
        | UTinyInt
        | USmallInt
        | UInteger
        | UBigInt
        | Float
        | Double
        | Decimal { .. } => is_number(source),
        Date => matches!(source, DataType::Date32 | DataType::Date64),
        Time => matches!(source, DataType::Time32(_) | DataType::Time64(_)),
        Timestamp { .. } => {
            matches!(source, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64)
        }
        Interval => matches!(source, DataType::Interval(_) | DataType::Duration(_)),
        Duration { .. } => matches!(source, DataType::Duration(_)),
        Varchar | Json => is_text(source),
        Uuid => is_text(source) || *source == DataType::FixedSizeBinary(16),
        Blob => is_binary(source),
        FixedBinary { .. } => is_binary(source),
        List { element } | Array { element, .. } => match source {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => fits(item.data_type(), element),
            _ => false,
        },
        Struct { fields } => match source {
            DataType::Struct(members) => {
                members.len() == fields.len()
                    && members
                        .iter()
                        .zip(fields)
                        .all(|(member, field)| fits(member.data_type(), &field.logical_type))
            }
            _ => false,
        },
        Map { key, value } => match source {
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(members) if members.len() == 2 => {
                    fits(members[0].data_type(), key) && fits(members[1].data_type(), value)
                }
                _ => false,
            },
            _ => false,
        },
    }
}

fn cast_exactly(
    array: &ArrayRef,
    name: &str,
    wanted: &DataType,
    target: &LogicalType,
    first_row: u64,
) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let unusable =
        |error| Error::invalid_input(format!("column \"{name}\": cannot convert to {target}: {error}"));
    let converted = cast_with_options(array, wanted, &options).map_err(unusable)?;
    let lost = if converted.null_count() != array.logical_null_count() {
        (0..array.len()).find(|row| converted.is_null(*row) && !is_null(array, *row))
    } else if loses_quietly(array.data_type(), wanted) {
        let back = cast_with_options(&converted, array.data_type(), &options).map_err(unusable)?;
        first_difference(array, &back)
    } else {
        None
    };
    match lost {
        None => Ok(converted),
        Some(row) => Err(Error::invalid_input(format!(
            "column \"{name}\", row {}: {} does not fit {target}",
            first_row + row as u64,
            display(array, row)
        ))
        .with_sqlstate("22003")),
    }
}

fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.logical_nulls().is_some_and(|nulls| nulls.is_null(row))
}

/// Casts that arrow carries out by dropping digits instead of failing. A float becomes a DECIMAL by
/// rounding, as in SQL: that is not a loss.
fn loses_quietly(from: &DataType, to: &DataType) -> bool {
    let decimal_scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    let unit = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, _)
        | DataType::Duration(unit)
        | DataType::Time64(unit)
        | DataType::Time32(unit) => Some(*unit),
        _ => None,
    };
    match (decimal_scale(from), decimal_scale(to)) {
        (Some(from), Some(to)) => return to < from,
        (Some(from), None) => return from > 0 && to.is_integer(),
        _ => {}
    }
    if let (Some(from), Some(to)) = (unit(from), unit(to)) {
        return from > to;
    }
    (from.is_floating() && to.is_integer()) || *from == DataType::Date64
}

fn first_difference(before: &ArrayRef, after: &ArrayRef) -> Option<usize> {
    if before.to_data() == after.to_data() {
        return None;
    }
    let differs = |row: usize| -> bool {
        match before.data_type() {
            DataType::Float32 => {
                before.as_primitive::<Float32Type>().value(row)
                    != after.as_primitive::<Float32Type>().value(row)
            }
            DataType::Float64 => {
                before.as_primitive::<Float64Type>().value(row)
                    != after.as_primitive::<Float64Type>().value(row)
            }
            DataType::Decimal128(_, _) => {
                before.as_primitive::<Decimal128Type>().value(row)
                    != after.as_primitive::<Decimal128Type>().value(row)
            }
            _ => before.slice(row, 1).to_data() != after.slice(row, 1).to_data(),
        }
    };
    (0..before.len()).find(|row| !is_null(before, *row) && differs(*row))
}

fn display(array: &ArrayRef, row: usize) -> String {
    match ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default()) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => "the value".to_string(),
    }
}

fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    cast_with_options(array, &DataType::LargeUtf8, &CastOptions::default())
        .map_err(|error| Error::invalid_input(format!("cannot read the text: {error}")))
}

fn parse_uuids(array: &ArrayRef, name: &str, first_row: u64) -> Result<ArrayRef> {
    let texts = texts(array)?;
    let mut parsed = Vec::with_capacity(texts.len());
    for (row, text) in texts.as_string::<i64>().iter().enumerate() {
        parsed.push(match text {
            None => None,
            Some(text) => Some(
                *Uuid::try_parse(text.trim())
                    .map_err(|_| {
                        Error::invalid_input(format!(
                            "column \"{name}\", row {}: '{text}' is not a UUID",
                            first_row + row as u64
                        ))
                        .with_sqlstate("22P02")
                    })?
                    .as_bytes(),
            ),
        });
    }
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(parsed.into_iter(), 16)
        .map_err(|error| Error::internal(format!("cannot build UUIDs: {error}")))?;
    Ok(Arc::new(array))
}

fn check_json(array: &ArrayRef, name: &str, first_row: u64) -> Result<()> {
    for (row, text) in array.as_string::<i64>().iter().enumerate() {
        if let Some(text) = text
            && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
        {
            let shown: String = text.chars().take(60).collect();
            return Err(Error::invalid_input(format!(
                "column \"{name}\", row {}: '{shown}' is not JSON: {error}",
                first_row + row as u64
            ))
            .with_sqlstate("22032"));
        }
    }
    Ok(())
}
