//! `#>` and `#>>` of JSON with a computed path, such as a parameter: a list of texts, or its text.
//! Constant paths become steps, which the functions for JSON take.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_sql::json_path::{JSON, TEXT};
use hypostyle_sql::text_list::split_elements;
use hypostyle_types::LogicalType;
use serde_json::Value;
use std::sync::Arc;

pub(crate) fn register(context: &SessionContext) {
    for (name, as_text) in [(JSON, false), (TEXT, true)] {
        let signature = Signature::any(2, Volatility::Immutable);
        context.register_udf(ScalarUDF::from(AtPath { name, as_text, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AtPath {
    name: &'static str,
    as_text: bool,
    signature: Signature,
}

impl ScalarUDFImpl for AtPath {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_json =
            |field: &FieldRef| LogicalType::from_arrow(field).is_ok_and(|of| of == LogicalType::Json);
        if arguments.arg_fields.get(1).is_some_and(is_json) {
            return plan_err!("a path into JSON is a list of texts, as in data #>> '{{a,0,b}}'");
        }
        let field = Field::new(self.name, DataType::Utf8, true);
        let metadata = match self.as_text {
            true => Default::default(),
            false => LogicalType::Json.arrow_field("", true).metadata().clone(),
        };
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [json, path] = arrays.as_slice() else {
            return datafusion::common::internal_err!("{} takes a value and a path", self.name);
        };
        let json = cast(json, &DataType::Utf8)?;
        let json = json.as_string::<i32>();
        let paths = paths(path)?;
        let found = (0..rows.min(json.len())).map(|row| {
            let path = paths[row].as_ref().filter(|_| json.is_valid(row))?;
            let value: Value = serde_json::from_str(json.value(row)).ok()?;
            at(&value, path).and_then(|value| shown(value, self.as_text))
        });
        let found: ArrayRef = Arc::new(found.collect::<StringArray>());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

/// Returns the steps of each path; `None` for NULL, and for one with a NULL in it.
fn paths(paths: &ArrayRef) -> Result<Vec<Option<Vec<String>>>> {
    if paths.data_type().is_string() {
        let paths = cast(paths, &DataType::Utf8)?;
        let split =
            |text: Option<&str>| -> Option<Vec<String>> { split_elements(text?)?.into_iter().collect() };
        return Ok(paths.as_string::<i32>().iter().map(split).collect());
    }
    let lists = cast(paths, &DataType::new_list(DataType::Utf8, true))?;
    let lists = lists.as_list::<i32>();
    let steps = |list: Option<ArrayRef>| -> Option<Vec<String>> {
        list?.as_string::<i32>().iter().map(|step| step.map(str::to_string)).collect()
    };
    Ok(lists.iter().map(steps).collect())
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => {
            let place: i64 = step.parse().ok()?;
            // A negative index counts from the end.
            let place = if place < 0 { place.checked_add(elements.len() as i64)? } else { place };
            elements.get(usize::try_from(place).ok()?)
        }
        _ => None,
    })
}

fn shown(value: &Value, as_text: bool) -> Option<String> {
    match value {
        Value::Null if as_text => None,
        Value::String(text) if as_text => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_through_objects_and_arrays() {
        let value: Value = serde_json::from_str(r#"{"a": [1, {"b": "x"}], "n": null}"#).unwrap();
        let found = |path: &[&str], as_text| {
            let path: Vec<String> = path.iter().map(ToString::to_string).collect();
            at(&value, &path).and_then(|found| shown(found, as_text))
        };
        assert_eq!(found(&["a", "1", "b"], true).as_deref(), Some("x"));
        assert_eq!(found(&["a", "-1", "b"], false).as_deref(), Some("\"x\""));
        assert_eq!(found(&["n"], true), None);
        assert_eq!(found(&["n"], false).as_deref(), Some("null"));
        assert_eq!(found(&["a", "b"], true), None);
    }
}
