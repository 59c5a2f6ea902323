//! The place of a text in another one.

use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::unicode::strpos;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Returns `strpos`, to take the place of DataFusion's.
pub(crate) fn searching() -> ScalarUDF {
    ScalarUDF::from(Searching { inner: strpos() })
}

/// `strpos`. Where the text that is sought is no constant beside a column, DataFusion compares it at each
/// place: for two long texts that takes days.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Searching {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Searching {
    as_within!(name, aliases, signature, coerce_types, return_type, return_field_from_args);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |place: usize| matches!(args.args.get(place), Some(ColumnarValue::Scalar(_)));
        let (is_one_text, is_one_sought) = (is_scalar(0), is_scalar(1));
        if args.args.len() != 2 || (is_one_sought && !is_one_text) {
            return self.inner.invoke_with_args(args);
        }
        let is_one = is_one_text && is_one_sought;
        let texts = |value: &ColumnarValue| -> Result<ArrayRef> {
            let values = match value {
                ColumnarValue::Array(values) => values.clone(),
                ColumnarValue::Scalar(value) => value.to_array()?,
            };
            Ok(cast(&values, &DataType::LargeUtf8)?)
        };
        let (within, sought) = (texts(&args.args[0])?, texts(&args.args[1])?);
        let (within, sought) = (within.as_string::<i64>(), sought.as_string::<i64>());
        let place = |row: usize| {
            let at = if is_one_text { 0 } else { row };
            if within.is_null(at) || sought.is_null(row) {
                return None;
            }
            let text = within.value(at);
            Some(text.find(sought.value(row)).map_or(0, |found| text[..found].chars().count() as i64 + 1))
        };
        let rows = if is_one { 1 } else { args.number_rows };
        let places: Int64Array = (0..rows).map(place).collect();
        let places = cast(&places, args.return_field.data_type())?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&places, 0)?),
            false => ColumnarValue::Array(places),
        })
    }
}
