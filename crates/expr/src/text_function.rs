//! Functions that DataFusion has under the same names, with another meaning of some arguments.

use crate::builtin::described;
use crate::pattern::{ESCAPE, WHOLE_PATTERN, as_replacement, check_pattern};
use crate::searching::searching;
use crate::wrapped::{as_within, equal_by};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Like, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::{external, with_pattern};
use hypostyle_types::Error;
use std::ops::Range;
use std::sync::Arc;

/// A conversion of an argument.
type Change = fn(&ArrayRef) -> Result<ArrayRef>;

/// The functions, and which of their arguments change.
const FUNCTIONS: [(&str, Range<usize>, Change); 4] = [
    ("array_resize", 1..2, at_least_none),
    ("lpad", 1..2, not_negative),
    ("rpad", 1..2, not_negative),
    ("regexp_replace", 2..3, with_groups),
];

/// Times, intervals, bytes, lists, structures and maps that `format` writes are written as casts to text
/// write them, points in time in the session's time zone; the function itself gets texts of Arrow's.
pub fn formatted_values(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expression
        && func.name() == "format"
    {
        let is_of_cast = |of: DataType| of.is_temporal() || of.is_nested() || of.is_binary();
        let is_cast = |of: &Expr| of.get_type(schema).is_ok_and(is_of_cast);
        for argument in args.iter_mut().filter(|argument| is_cast(argument)) {
            *argument = Expr::Cast(Cast::new(Box::new(std::mem::take(argument)), DataType::Utf8View));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

pub(crate) fn register(context: &SessionContext) {
    for (name, places, change) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Changed { inner, places, change }));
        }
    }
    context.register_udf(searching());
    for name in STRICT {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Strict { inner }));
        }
    }
}

/// Refuses LIKE with a pattern that ends in its escape character: here if it is a constant, else when
/// it is known. NULL is a text there: a number beside it is refused as it is beside other texts.
pub fn with_whole_pattern(mut expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch};
    let (text, pattern) = match &mut expression {
        Expr::Like(Like { expr, pattern, escape_char: None | Some(ESCAPE), .. }) => (expr, pattern),
        Expr::BinaryExpr(BinaryExpr {
            op: LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch,
            left,
            right,
        }) => (left, right),
        _ => return Ok(Transformed::no(expression)),
    };
    let changed = is_made_text(text) | is_made_text(pattern);
    match pattern.as_ref() {
        Expr::Literal(value, _) => {
            if let Some(Some(text)) = value.try_as_str() {
                check_pattern(text)?;
            }
        }
        Expr::ScalarFunction(call) if call.func.name() == WHOLE_PATTERN => {}
        _ => {
            if let Some(function) = described(WHOLE_PATTERN) {
                **pattern = function.call(vec![std::mem::take(&mut **pattern)]);
                return Ok(Transformed::yes(expression));
            }
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Makes NULL that of a text; whether it was one.
fn is_made_text(expr: &mut Expr) -> bool {
    let is_null = matches!(expr, Expr::Literal(ScalarValue::Null, _));
    if is_null {
        *expr = Expr::Literal(ScalarValue::Utf8(None), None);
    }
    is_null
}

/// Functions that give something for some arguments that are NULL.
const STRICT: [&str; 2] = ["regexp_count", "regexp_like"];

/// One of [`STRICT`]: NULL where an argument is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Strict {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Strict {
    as_within!(name, aliases, signature, coerce_types, return_type, return_field_from_args);

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_null =
            |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(value) if value.is_null());
        if args.args.iter().any(is_null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        }
        let nulls = args.args.iter().fold(None, |nulls, value| match value {
            ColumnarValue::Array(values) => {
                NullBuffer::union(nulls.as_ref(), values.logical_nulls().as_ref())
            }
            ColumnarValue::Scalar(_) => nulls,
        });
        let found = self.inner.invoke_with_args(args).map_err(with_pattern)?;
        match (nulls.filter(|nulls| nulls.null_count() > 0), found) {
            (Some(nulls), ColumnarValue::Array(found)) if found.len() == nulls.len() => {
                Ok(ColumnarValue::Array(nullif(&found, &BooleanArray::new(!nulls.inner(), None))?))
            }
            (_, found) => Ok(found),
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

/// Writes replacements as the library of regular expressions reads them.
fn with_groups(texts: &ArrayRef) -> Result<ArrayRef> {
    let plain = cast(texts, &DataType::Utf8)?;
    let plain = plain.as_string::<i32>().iter().map(|text| text.map(as_replacement));
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
