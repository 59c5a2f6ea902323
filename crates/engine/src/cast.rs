//! CAST as SQL has it. Arrow's cuts 1.5 to 1, takes dates for numbers of days, and reads only one of the forms in which times
//! and intervals are written; these casts, in plans and of new rows, are made here.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use hypostyle_types::{Error, LogicalType};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// Casts that are not Arrow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Of numbers with a fraction to whole ones: DECIMALs to the nearest, halves away from zero; floating-point numbers to
    /// the nearest, halves to the even one (as in PostgreSQL and DuckDB).
    Rounded,
    /// Of text to a time or an interval, in PostgreSQL's forms too.
    Read,
    /// Between points in time and numbers.
    Refused,
}

fn special(from: &DataType, to: &DataType) -> Option<Special> {
    let is_time = |of: &DataType| {
        matches!(
            of,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Interval(_)
        )
    };
    let is_number = |of: &DataType| of.is_numeric() || *of == DataType::Boolean;
    match (from, to) {
        (DataType::Float32 | DataType::Float64, to) if to.is_integer() => Some(Special::Rounded),
        (from, to) if from.is_decimal() && to.is_integer() => Some(Special::Rounded),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Timestamp(..))
        | (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Interval(_)) => {
            Some(Special::Read)
        }
        (from, to) if is_time(from) && is_number(to) || is_number(from) && is_time(to) => {
            Some(Special::Refused)
        }
        _ => None,
    }
}

/// The values in another type; `safe` makes NULLs of those that it does not have.
///
/// # Errors
/// `CastError` or `ParseError` for a value that the type does not have, `ExternalError` for types that are not cast.
pub(crate) fn cast(
    values: &ArrayRef,
    to: &DataType,
    safe: bool,
) -> std::result::Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe, ..CastOptions::default() };
    match special(values.data_type(), to) {
        None => cast_with_options(values, to, &options),
        Some(Special::Rounded) => cast_with_options(&rounded(values)?, to, &options),
        Some(Special::Refused) => {
            Err(ArrowError::ExternalError(Box::new(cannot_cast(values.data_type(), to))))
        }
        Some(Special::Read) => {
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            // Most texts are in the form that Arrow reads.
            cast_with_options(values, to, &strict).or_else(|_| {
                let interval = matches!(to, DataType::Interval(_));
                let text = cast_with_options(values, &DataType::Utf8, &strict)?;
                let text = text.as_string::<i32>().iter();
                let text: StringArray = text
                    .map(|text| text.map(|text| if interval { interval_text(text) } else { time_text(text) }))
                    .collect();
                cast_with_options(&text, to, &options)
            })
        }
    }
}

fn rounded(values: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Ok(Arc::new(values.unary::<_, Float32Type>(f32::round_ties_even)))
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Ok(Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even)))
        }
        DataType::Decimal256(precision, 1..) => {
            arrow::compute::cast(values, &DataType::Decimal256(*precision, 0))
        }
        DataType::Decimal32(precision, 1..)
        | DataType::Decimal64(precision, 1..)
        | DataType::Decimal128(precision, 1..) => {
            arrow::compute::cast(values, &DataType::Decimal128(*precision, 0))
        }
        _ => Ok(values.clone()),
    }
}

/// The name of a type in SQL.
pub(crate) fn type_name(data_type: &DataType) -> String {
    LogicalType::from_arrow(&Field::new("", data_type.clone(), true))
        .map_or_else(|_| data_type.to_string(), |known| known.to_string())
}

fn cannot_cast(from: &DataType, to: &DataType) -> Error {
    let hint = match (from, to) {
        (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), to) if to.is_numeric() => {
            "; write EXTRACT(EPOCH FROM …), or subtract two of them"
        }
        (from, DataType::Timestamp(..)) if from.is_numeric() => "; write to_timestamp(seconds)",
        _ => "",
    };
    Error::invalid_input(format!("cannot cast {} to {}{hint}", type_name(from), type_name(to)))
        .with_sqlstate("42846")
}

/// A point in time with seconds, which may be left out.
fn time_text(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let Some((before, after)) = text.split_once(':') else { return text.into() };
    let minutes = digits(after);
    let hours = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    if minutes != 2 || !(1..=2).contains(&hours) || after[minutes..].starts_with([':', '.']) {
        return text.into();
    }
    let (date, hour) = before.split_at(before.len() - hours);
    format!("{date}{hour:0>2}:{}:00{}", &after[..minutes], &after[minutes..]).into()
}

/// An interval in words: of `1 day 04:05:06.7` and of `1-2`, which are years and months.
pub(crate) fn interval_text(text: &str) -> Cow<'_, str> {
    if !text.contains([':', '-']) {
        return text.into();
    }
    let mut words = String::new();
    for word in text.split_whitespace() {
        let separator = if words.is_empty() { "" } else { " " };
        words.push_str(separator);
        match clock(word).or_else(|| years_and_months(word)) {
            Some(in_words) => words.push_str(&in_words),
            None => words.push_str(word),
        }
    }
    words.into()
}

/// The sign of a number, and the rest.
fn signed(word: &str) -> (&str, &str) {
    match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn clock(word: &str) -> Option<String> {
    let (sign, word) = signed(word);
    let parts: Vec<&str> = word.split(':').collect();
    let (last, whole) = parts.split_last()?;
    let (seconds, fraction) = last.split_once('.').unwrap_or((last, "0"));
    if !(1..=2).contains(&whole.len())
        || !whole.iter().chain([&seconds, &fraction]).all(|part| is_number(part))
    {
        return None;
    }
    let mut words = String::new();
    for (part, unit) in parts.iter().zip(["hours", "minutes", "seconds"]) {
        let separator = if words.is_empty() { "" } else { " " };
        write!(words, "{separator}{sign}{part} {unit}").ok()?;
    }
    // `04:05.5` would be no hours and minutes.
    (parts.len() == 3 || !last.contains('.')).then_some(words)
}

fn years_and_months(word: &str) -> Option<String> {
    let (sign, word) = signed(word);
    let (years, months) = word.split_once('-')?;
    (is_number(years) && is_number(months)).then(|| format!("{sign}{years} years {sign}{months} months"))
}

/// A value in another type.
///
/// # Errors
/// As [`cast`].
pub(crate) fn cast_scalar(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    match special(&value.data_type(), to) {
        None => value.cast_to(to),
        Some(_) => ScalarValue::try_from_array(&cast(&value.to_array()?, to, false)?, 0),
    }
}

/// Casts that are not Arrow's, after the types are coerced; of literals at once.
///
/// # Errors
/// `InvalidInput` (42846) for types that are not cast.
pub(crate) fn as_in_sql(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (expr, field, safe) = match &expression {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return Ok(Transformed::no(expression)),
    };
    // An expression whose type cannot be told is one that planning refuses.
    let Ok(from) = expr.get_type(schema) else { return Ok(Transformed::no(expression)) };
    match special(&from, field.data_type()) {
        None => return Ok(Transformed::no(expression)),
        Some(Special::Refused) => {
            return Err(DataFusionError::External(Box::new(cannot_cast(&from, field.data_type()))));
        }
        Some(Special::Rounded | Special::Read) => {}
    }
    if let Expr::Literal(value, metadata) = expr.as_ref()
        && let Ok(value) = cast_scalar(value, field.data_type())
    {
        return Ok(Transformed::yes(Expr::Literal(value, metadata.clone())));
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ScalarUDF::from(SqlCast { field: field.clone(), safe, signature });
    let call = ScalarFunction::new_udf(Arc::new(function), vec![expr.as_ref().clone()]);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlCast {
    field: FieldRef,
    safe: bool,
    signature: Signature,
}

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        if self.safe { "try_cast" } else { "cast" }
    }

    /// As that of a cast, which is its operand's.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [of] => Ok(of.schema_name().to_string()),
            _ => Err(plan_datafusion_err!("a cast is of one value")),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(self.field.as_ref().clone().with_name(self.name()).with_nullable(nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = self.field.data_type();
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(cast(values, to, self.safe)?)),
            [ColumnarValue::Scalar(value)] => {
                let value = cast(&value.to_array()?, to, self.safe)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
            _ => Err(plan_datafusion_err!("a cast is of one value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{interval_text, time_text};

    #[test]
    fn seconds_may_be_left_out() {
        for (text, with_seconds) in [
            ("2020-01-02 10:30", "2020-01-02 10:30:00"),
            (" 2020-01-02T9:30+02:00 ", "2020-01-02T09:30:00+02:00"),
            ("2020-01-02 10:30:05", "2020-01-02 10:30:05"),
            ("2020-01-02 10:30 Europe/Amsterdam", "2020-01-02 10:30:00 Europe/Amsterdam"),
            ("2020-01-02", "2020-01-02"),
            ("10:3", "10:3"),
            ("é:30", "é:30"),
        ] {
            assert_eq!(time_text(text), with_seconds);
        }
    }

    #[test]
    fn intervals_have_words() {
        for (text, words) in [
            ("04:05:06.7", "04 hours 05 minutes 06.7 seconds"),
            ("1 day -04:05", "1 day -04 hours -05 minutes"),
            ("-1-2", "-1 years -2 months"),
            ("1-2 3 days 1:00:00", "1 years 2 months 3 days 1 hours 00 minutes 00 seconds"),
            ("3 days", "3 days"),
            ("1:2:3:4", "1:2:3:4"),
            ("a-b", "a-b"),
        ] {
            assert_eq!(interval_text(text), words);
        }
    }
}
