//! Converts text to values, for the types that Arrow's text readers do not support.

use crate::nested::{with_leaves, with_parts};
use crate::raw::{Place, Raw};
use crate::uuid_column::is_of_text;
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, FixedSizeBinaryBuilder, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use hypostyle_expr::cast::cast as cast_as_sql;
use hypostyle_types::LogicalType;
use std::sync::Arc;

/// Returns a field as Arrow's JSON reader makes it from JSON: with text in the place of the types that it
/// does not read, also of those within others. It reads DECIMALs, but makes other numbers of long ones and of
/// large exponents. Of dates and points in time it does not read years before the first.
pub fn carrier(field: &Field, reads_times: bool) -> Field {
    field.clone().with_data_type(match field.data_type() {
        DataType::Interval(_) | DataType::Dictionary(_, _) | DataType::FixedSizeBinary(_) => DataType::Utf8,
        DataType::Date32 | DataType::Timestamp(..) if !reads_times => DataType::Utf8,
        data_type if data_type.is_binary() || data_type.is_decimal() => DataType::Utf8,
        _ if is_of_text(field) => DataType::Utf8,
        data_type => with_parts(data_type, &mut |part| Arc::new(carrier(part, reads_times))),
    })
}

/// Says whether a text in JSON may be of a year before the first, as COPY writes it.
pub fn has_early_years(json: &[u8]) -> bool {
    json.windows(4).any(|text| text == b" BC\"")
}

/// Returns values that Arrow's JSON reader has made of a [`carrier`], as the field has them.
///
/// # Errors
/// As [`from_text`].
pub fn of_carrier(values: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    with_leaves(values, field, &|texts, field| from_text(texts.as_string(), field))
}

/// Returns values as [`of_carrier`] does for a field whose type was detected: whole numbers are no others.
///
/// # Errors
/// As [`from_text`]; where a cast would round.
pub fn of_detected(values: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    with_leaves(values, field, &|texts, field| {
        let texts: &StringArray = texts.as_string();
        let of_whole = matches!(field.data_type(), DataType::Decimal128(_, 0));
        match texts.iter().flatten().find(|text| of_whole && !is_whole(text)) {
            Some(text) => Err(ArrowError::JsonError(format!("{text} is no whole number"))),
            None => from_text(texts, field),
        }
    })
}

/// Says whether a number as SQL writes it has nothing behind its point, or a text is no number.
pub fn is_whole(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let Ok(exponent) = exponent.parse::<i64>() else { return true };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    let zeros = digits().rev().take_while(|digit| *digit == b'0').count();
    // What is behind the last digit that is no zero.
    let places = (fraction.len() as i64 - zeros as i64).saturating_sub(exponent);
    places <= 0 || !digits().any(|digit| matches!(digit, b'1'..=b'9'))
}

/// Returns the SQL name of a field's type.
pub fn type_name(field: &Field) -> String {
    LogicalType::from_arrow(field).map_or_else(|_| field.data_type().to_string(), |known| known.to_string())
}

/// Converts texts to the type of `field`.
///
/// # Errors
/// When a text is no value of that type, or the type cannot be written as text.
pub fn from_text(texts: &StringArray, field: &Field) -> Result<ArrayRef, ArrowError> {
    let logical_type = LogicalType::from_arrow(field).ok();
    match field.data_type() {
        DataType::FixedSizeBinary(16) if logical_type == Some(LogicalType::Uuid) => {
            fixed_binary(texts, 16, |text| {
                Some(hypostyle_types::parse_uuid(text).ok()?.into_bytes().to_vec())
            })
        }
        DataType::FixedSizeBinary(bytes) => fixed_binary(texts, *bytes, from_hexadecimal),
        data_type if data_type.is_binary() => {
            let mut builder = BinaryViewBuilder::with_capacity(texts.len());
            for text in texts {
                builder.append_option(text.map(|text| required(text, from_hexadecimal)).transpose()?);
            }
            cast(&builder.finish(), data_type)
        }
        data_type if data_type.is_nested() => from_json(texts, field),
        data_type if is_of_text(field) => {
            let written =
                |text| required(text, |text| Some(hypostyle_types::parse_uuid(text).ok()?.to_string()));
            let written = texts.iter().map(|text| text.map(written).transpose());
            cast(&written.collect::<Result<StringArray, _>>()?, data_type)
        }
        data_type if logical_type == Some(LogicalType::Json) => {
            for text in texts.iter().flatten() {
                serde_json::from_str::<serde_json::Value>(text)
                    .map_err(|error| ArrowError::JsonError(format!("'{text}' is not JSON: {error}")))?;
            }
            cast(texts, data_type)
        }
        _ => cast_as_sql(&(Arc::new(texts.clone()) as ArrayRef), field, false),
    }
}

fn fixed_binary(
    texts: &StringArray,
    bytes: i32,
    read: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<ArrayRef, ArrowError> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), bytes);
    for text in texts {
        match text {
            Some(text) => builder.append_value(required(text, &read)?)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn required<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, ArrowError> {
    read(text).ok_or_else(|| ArrowError::ParseError(format!("cannot read '{text}'")))
}

/// Reads two hexadecimal digits for each byte, after an optional `\x`, as exports write them.
fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Lists, structs and maps stand in a text as JSON, as COPY TO writes them.
fn from_json(texts: &StringArray, field: &Field) -> Result<ArrayRef, ArrowError> {
    if texts.is_empty() {
        return Ok(arrow::array::new_empty_array(field.data_type()));
    }
    let reads_times = !texts.iter().flatten().any(|text| has_early_years(text.as_bytes()));
    let carrier = Arc::new(carrier(field, reads_times).with_nullable(true));
    // Numbers of a carrier are texts.
    let mut decoder = arrow::json::ReaderBuilder::new_with_field(carrier)
        .with_coerce_primitive(true)
        .with_batch_size(texts.len())
        .build_decoder()?;
    let (place, mut rewritten) = (Place::of(field), String::new());
    for text in texts {
        let text = text.unwrap_or("null");
        if let Place::Nowhere = place {
            decoder.decode(text.as_bytes())?;
        } else {
            rewritten.clear();
            let written = Raw::of(text.as_bytes()).and_then(|value| place.write(value, &mut rewritten));
            written.map_err(|error| ArrowError::JsonError(error.to_string()))?;
            decoder.decode(rewritten.as_bytes())?;
        }
        decoder.decode(b"\n")?;
    }
    match decoder.flush()? {
        Some(batch) if batch.num_rows() == texts.len() => of_carrier(batch.column(0), field),
        _ => Err(ArrowError::JsonError("each text has to be one JSON value".into())),
    }
}
