//! Values of COPY in the binary format.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use crate::pgwire::decode::{binary_array, binary_scalar, from_text};
use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use bytes::Bytes;
use hypostyle::ScalarValue;
use hypostyle_pgtypes::Column;
use hypostyle_types::{Error, LogicalType, Result};

/// What the data begins with.
pub(super) const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The values of a column.
pub(super) fn from_values(values: &[Option<Bytes>], of: &LogicalType) -> Result<ArrayRef> {
    let column = Column::new("", of);
    let values = values.iter().map(|value| match value {
        None => Ok(ScalarValue::Null),
        Some(bytes) if column.shown.is_array => binary_array(bytes.clone(), column.shown.scalar),
        Some(bytes) => binary_scalar(bytes.clone(), column.shown.scalar),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let wrong = |error: String| Error::invalid_input(error).with_sqlstate("22P03");
    let exact = values.iter().map(ScalarValue::data_type).find(|found| !found.is_null());
    let Some(exact) = exact else { return Ok(arrow::array::new_null_array(&of.arrow_type(), values.len())) };
    // Texts are parsed, and numbers of several scales are brought to the column's.
    if matches!(exact, arrow::datatypes::DataType::LargeUtf8) || column.shown.scalar.name == "numeric" {
        let texts: StringArray =
            values.iter().map(|value| (!value.is_null()).then(|| value.to_string())).collect();
        return from_text(&texts, of, "UTC");
    }
    let nulls = ScalarValue::try_from(&exact).map_err(|error| wrong(error.to_string()))?;
    let values = values.into_iter().map(|value| if value.is_null() { nulls.clone() } else { value });
    let array = ScalarValue::iter_to_array(values).map_err(|error| wrong(error.to_string()))?;
    // What the column does not hold is no NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let to = of.arrow_type();
    let sqlstate = if to.is_integer() { "22003" } else { "22P03" };
    cast_with_options(&array, &to, &options).map_err(|error| wrong(error.to_string()).with_sqlstate(sqlstate))
}
