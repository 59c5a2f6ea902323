//! Functions of lists that DataFusion supports for some kinds of lists only. Functions of lists of
//! numbers accept lists of lists, and fail inside. Functions of several lists accept a stored one,
//! whose offsets are wide, beside a literal, and fail, too. So does one of several texts.

use crate::arguments::refused;
use crate::json::is_json;
use crate::nested_type::element;
use crate::sizes::length_of_list;
use crate::value_keys::{is_list_or_structure, lists_in_order};
use crate::wrapped::as_within;
use arrow::array::{Array, AsArray, new_null_array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion::prelude::SessionContext;
use hypostyle_error::type_name::type_name;
use std::sync::Arc;

/// Functions of lists of numbers.
const OF_NUMBERS: [&str; 10] = [
    "array_add",
    "array_avg",
    "array_distance",
    "array_normalize",
    "array_product",
    "array_scale",
    "array_subtract",
    "array_sum",
    "cosine_distance",
    "inner_product",
];

/// Functions of several lists.
const OF_SEVERAL: [&str; 2] = ["array_concat", "map"];

/// Functions of several texts.
const OF_TEXTS: [&str; 1] = ["levenshtein"];

pub(super) fn register(context: &SessionContext) {
    if let Ok(inner) = context.udf("array_sort") {
        context.register_udf(ScalarUDF::from(Sorted { inner }));
    }
    for name in OF_NUMBERS.into_iter().chain(OF_SEVERAL).chain(OF_TEXTS) {
        if let Ok(inner) = context.udf(name) {
            let signature = Signature::user_defined(inner.signature().volatility);
            context.register_udf(ScalarUDF::from(Alike { inner, signature }));
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

fn has_wide(of: &DataType) -> bool {
    matches!(of, DataType::LargeList(_)) || element(of).is_some_and(|field| has_wide(field.data_type()))
}

/// Returns a list whose offsets are wide, and those within it.
fn wide(of: &DataType) -> DataType {
    match element(of) {
        Some(field) => {
            let within = field.as_ref().clone().with_data_type(wide(field.data_type()));
            DataType::LargeList(Arc::new(within))
        }
        None => of.clone(),
    }
}

impl ScalarUDFImpl for Alike {
    as_within!(name, aliases, return_type, return_field_from_args);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if OF_NUMBERS.contains(&self.name()) {
            let is_number = |of: &DataType| of.is_numeric() || of.is_null();
            let other =
                types.iter().find(|of| element(of).is_some_and(|field| !is_number(field.data_type())));
            if let Some(other) = other {
                return Err(refused(format!("{}() is of numbers, not of {}", self.name(), type_name(other))));
            }
        }
        let widest = types.iter().any(has_wide);
        let alike = types.iter().map(|of| match of {
            of if (of.is_string() || of.is_null()) && OF_TEXTS.contains(&self.name()) => DataType::LargeUtf8,
            of if widest => wide(of),
            of => of.clone(),
        });
        let fields: Vec<FieldRef> = alike.map(|of| Arc::new(Field::new("", of, true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // map() reads a constant beside a column as the only row.
        if args.args.iter().any(|value| matches!(value, ColumnarValue::Array(_))) {
            for value in &mut args.args {
                *value = ColumnarValue::Array(value.to_array(args.number_rows)?);
            }
        }
        if self.name() == "map" {
            check_pairs(&args.args)?;
        }
        self.inner.invoke_with_args(args)
    }
}

/// Checks that there are as many values as keys in each row: DataFusion counts those of all rows.
fn check_pairs(args: &[ColumnarValue]) -> Result<()> {
    let [keys, values] = args else { return Ok(()) };
    let [keys, values] = [keys.to_array(1)?, values.to_array(1)?];
    for row in 0..keys.len().min(values.len()) {
        let [of_keys, of_values] = [&keys, &values].map(|lists| length_of_list(lists.as_ref(), row));
        if let (Some(of_keys), Some(of_values)) = (of_keys, of_values)
            && of_keys != of_values
            && keys.is_valid(row)
            && values.is_valid(row)
        {
            let message =
                format!("map() takes as many values as keys, not {of_keys} keys and {of_values} values");
            return Err(refused(message));
        }
    }
    Ok(())
}

/// `array_sort` of lists whose elements are lists, structures or JSON, too: by the order of these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sorted {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Sorted {
    as_within!(name, aliases, signature, return_type, return_field_from_args);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.args.first().map(ColumnarValue::data_type);
        let is_nested = of.as_ref().and_then(element).is_some_and(|of| is_list_or_structure(of.data_type()));
        let said = args.arg_fields.first().and_then(|field| element(field.data_type()));
        let is_json = said.is_some_and(|of| is_json(of));
        if !is_nested && !is_json {
            return self.inner.invoke_with_args(args);
        }
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [lists, words @ ..] = arrays.as_slice() else { return self.inner.invoke_with_args(args) };
        if lists.is_empty() || words.iter().any(|words| words.is_null(0)) {
            return Ok(ColumnarValue::Array(new_null_array(lists.data_type(), lists.len())));
        }
        let said = |place: usize| words.get(place).map(|words| array_value_to_string(words, 0)).transpose();
        let (order, nulls) = (said(0)?.unwrap_or_default(), said(1)?.unwrap_or_default());
        let options = match (order.to_uppercase().as_str(), nulls.to_uppercase().as_str()) {
            (order @ ("ASC" | "DESC"), nulls @ ("NULLS FIRST" | "NULLS LAST")) => {
                SortOptions { descending: order == "DESC", nulls_first: nulls == "NULLS FIRST" }
            }
            // It says what is wrong about them.
            _ => return self.inner.invoke_with_args(args),
        };
        let sorted = match lists.as_list_opt::<i32>() {
            Some(lists) => lists_in_order(lists, is_json, options)?,
            None => lists_in_order(lists.as_list::<i64>(), is_json, options)?,
        };
        // The field of a list says of its elements that they are JSON.
        Ok(match (sorted.as_list_opt::<i32>(), sorted.as_list_opt::<i64>()) {
            (Some(list), _) if is_scalar => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.clone()))),
            (_, Some(list)) if is_scalar => {
                ColumnarValue::Scalar(ScalarValue::LargeList(Arc::new(list.clone())))
            }
            _ => ColumnarValue::Array(sorted),
        })
    }
}
