//! UUIDs, which are text in plans, and in files the 16 bytes that others expect of the name
//! arrow.uuid.

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_error::external;
use hypostyle_types::{LogicalType, parse_uuid};
use std::sync::Arc;
use uuid::Uuid;

const BYTES: i32 = 16;

/// Says whether a field is of UUIDs, in the form of bytes.
pub fn is_of_bytes(field: &Field) -> bool {
    field.data_type() == &DataType::FixedSizeBinary(BYTES) && is_of_uuids(field)
}

/// Says whether a field is of UUIDs, in the form of text.
pub fn is_of_text(field: &Field) -> bool {
    field.data_type().is_string() && is_of_uuids(field)
}

fn is_of_uuids(field: &Field) -> bool {
    LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Uuid)
}

/// Returns the function that makes bytes of text, or text of bytes.
pub fn converter(to_bytes: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Converter { to_bytes, signature }))
}

/// Returns the text of UUIDs.
pub fn text(values: &ArrayRef) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut buffer = Uuid::encode_buffer();
    for value in values.as_fixed_size_binary() {
        let uuid = value.and_then(|bytes| Uuid::from_slice(bytes).ok());
        builder.append_option(uuid.map(|uuid| &*uuid.hyphenated().encode_lower(&mut buffer)));
    }
    Arc::new(builder.finish())
}

fn bytes(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(values, &DataType::Utf8View)?;
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES);
    for text in texts.as_string_view() {
        match text {
            Some(text) => builder.append_value(parse_uuid(text).map_err(external)?.as_bytes())?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The function that makes bytes of a UUID's text, or text of its bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Converter {
    to_bytes: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Converter {
    fn name(&self) -> &str {
        if self.to_bytes { "uuid_bytes" } else { "uuid_text" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.to_bytes { DataType::FixedSizeBinary(BYTES) } else { DataType::Utf8View })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let field = field.ok_or_else(|| exec_datafusion_err!("{} is of one column", self.name()))?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(self.return_type(&[])?)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let made = if self.to_bytes { bytes(&values[0])? } else { text(&values[0]) };
        Ok(ColumnarValue::Array(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn text_and_bytes_are_the_same_values() {
        let texts = ["67e55044-10b1-426f-9247-bb680e5fe0c8", "ffffffff-ffff-ffff-ffff-ffffffffffff"];
        let given: ArrayRef = Arc::new(StringArray::from(vec![Some(texts[0]), None, Some(texts[1])]));
        let made = text(&bytes(&given).unwrap());
        let made: Vec<Option<&str>> = made.as_string_view().iter().collect();
        assert_eq!(made, [Some(texts[0]), None, Some(texts[1])]);
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["no"]));
        assert!(bytes(&wrong).is_err());
    }
}
