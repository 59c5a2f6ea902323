//! Bytes as texts and texts as bytes: `encode` and `decode`.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::byte_text::{base64, escaped, hexadecimal, of_base64, of_digits, read};
use arrow::array::{ArrayRef, AsArray, LargeBinaryArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use hypostyle_error::external;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["encode"], &[Kind::Any, Kind::Text], |_| Ok(DataType::Utf8), encoded),
    Described::new(&["to_base64", "base64"], &[Kind::Any], |_| Ok(DataType::Utf8), in_base64),
    Described::new(&["decode"], &[Kind::Text, Kind::Text], |_| Ok(DataType::LargeBinary), decoded),
    Described::new(&["from_base64"], &[Kind::Text], |_| Ok(DataType::LargeBinary), of_text_in_base64),
];

/// Returns bytes, or those of texts.
fn bytes(values: &ArrayRef) -> Result<LargeBinaryArray> {
    Ok(cast(values, &DataType::LargeBinary)?.as_binary::<i64>().clone())
}

fn unknown(code: &str) -> datafusion::error::DataFusionError {
    refused(format!("\"{code}\" is no code; write 'hex', 'base64' or 'escape'"))
}

fn encoded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let pairs = bytes(&args[0])?;
    let pairs = pairs.iter().zip(args[1].as_string::<i32>());
    let texts = pairs.map(|pair| {
        let (Some(bytes), Some(code)) = pair else { return Ok(None) };
        Ok(Some(match code.to_ascii_lowercase().as_str() {
            "hex" => hexadecimal(bytes),
            // Lines end after 76 characters, as in PostgreSQL.
            "base64" => base64(bytes, true),
            "base64pad" => base64(bytes, false),
            "escape" => escaped(bytes),
            _ => return Err(unknown(code)),
        }))
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn in_base64(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let texts =
        bytes(&args[0])?.iter().map(|bytes| bytes.map(|bytes| base64(bytes, false))).collect::<StringArray>();
    Ok(Arc::new(texts))
}

fn decoded(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let pairs = args[0].as_string::<i32>().iter().zip(args[1].as_string::<i32>());
    let bytes = pairs.map(|pair| {
        let (Some(text), Some(code)) = pair else { return Ok(None) };
        decode(text, code).map(Some)
    });
    Ok(Arc::new(bytes.collect::<Result<LargeBinaryArray>>()?))
}

fn of_text_in_base64(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let bytes =
        args[0].as_string::<i32>().iter().map(|text| text.map(|text| decode(text, "base64")).transpose());
    Ok(Arc::new(bytes.collect::<Result<LargeBinaryArray>>()?))
}

fn decode(text: &str, code: &str) -> Result<Vec<u8>> {
    let found = match code.to_ascii_lowercase().as_str() {
        "hex" => of_digits(text),
        "base64" | "base64pad" => of_base64(text),
        "escape" => return read(text).map_err(external),
        _ => return Err(unknown(code)),
    };
    found.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        refused(format!("'{shown}' is no text of the code '{code}'"))
    })
}
