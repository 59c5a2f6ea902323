//! Functions that DataFusion has under the same names, with another meaning of some arguments.

use crate::pattern::with_percents;
use crate::wrapped::{as_within, equal_by};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::ops::Range;
use std::sync::Arc;

/// A conversion of an argument.
type Change = fn(&ArrayRef) -> Result<ArrayRef>;

/// The functions, and which of their arguments change.
const FUNCTIONS: [(&str, Range<usize>, Change); 7] = [
    ("array_resize", 1..2, at_least_none),
    ("lpad", 1..2, not_negative),
    ("rpad", 1..2, not_negative),
    ("regexp_replace", 2..3, with_dollars),
    ("to_char", 1..2, with_percents),
    ("to_date", 1..usize::MAX, with_percents),
    ("to_timestamp", 1..usize::MAX, with_percents),
];

pub(crate) fn register(context: &SessionContext) {
    for (name, places, change) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Changed { inner, places, change }));
        }
    }
}

/// Lengths below 0 are 0; DataFusion panics.
fn not_negative(lengths: &ArrayRef) -> Result<ArrayRef> {
    let numbers = cast(lengths, &DataType::Int64)?;
    let numbers: Int64Array = numbers.as_primitive::<Int64Type>().unary(|length| length.max(0));
    Ok(cast(&numbers, lengths.data_type())?)
}

/// Lists have no fewer elements than none.
fn at_least_none(lengths: &ArrayRef) -> Result<ArrayRef> {
    let numbers = cast(lengths, &DataType::Int64)?;
    match numbers.as_primitive::<Int64Type>().iter().flatten().find(|length| *length < 0) {
        None => Ok(lengths.clone()),
        Some(length) => {
            let message = format!("a list has 0 elements or more, not {length}");
            Err(external(Error::invalid_input(message).with_sqlstate("22023")))
        }
    }
}

/// Escapes `$` in a replacement, where it is itself: groups are called `\1`.
fn with_dollars(texts: &ArrayRef) -> Result<ArrayRef> {
    let plain = cast(texts, &DataType::Utf8)?;
    let plain = plain.as_string::<i32>().iter().map(|text| text.map(|text| text.replace('$', "$$")));
    Ok(cast(&plain.collect::<StringArray>(), texts.data_type())?)
}

#[derive(Debug)]
pub(crate) struct Changed {
    inner: Arc<ScalarUDF>,
    places: Range<usize>,
    change: Change,
}

// The function decides what is changed.
equal_by!(Changed: inner);

impl ScalarUDFImpl for Changed {
    as_within!(name, aliases, signature, coerce_types, return_type, return_field_from_args);

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let changed = args.args.iter_mut().take(self.places.end).skip(self.places.start);
        for argument in changed.filter(|argument| !argument.data_type().is_null()) {
            *argument = match &*argument {
                ColumnarValue::Array(values) => ColumnarValue::Array((self.change)(values)?),
                ColumnarValue::Scalar(value) => {
                    let changed = (self.change)(&value.to_array()?)?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&changed, 0)?)
                }
            };
        }
        self.inner.invoke_with_args(args)
    }
}
