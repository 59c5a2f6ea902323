//! The order of JSON, as PostgreSQL's JSONB has it: objects are greater than arrays, these than truths,
//! numbers, texts and null; of two objects, and of two arrays, the one with more in it is greater. Values
//! are ordered by bytes that are made of them.

use super::call::is_json;
use super::text::{DEPTH_MAX, Kind, elements, kind, sorted_members, unquoted};
use crate::impl_portable;
use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryBuilder, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use hypostyle_error::external;
use hypostyle_types::check_json_text;
use std::sync::{Arc, LazyLock};

/// Says whether an expression gives JSON.
pub(crate) fn gives_json(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of.is_string())
        && expr.to_field(schema).is_ok_and(|(_, field)| is_json(&field))
}

/// Returns the bytes by which JSON is ordered.
pub(crate) fn json_key(expr: Expr) -> Expr {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(JsonKey::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(KEY.clone(), vec![expr]))
}

/// Compares JSON by its order, and by what it says where it is equal. Beside it a text as it is written is
/// JSON, too, and where the order counts all texts are: what a query gives may have forgotten that it is.
///
/// # Errors
/// `InvalidInput` (22032) for a text in an order that is no JSON.
pub fn compared(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let (compared, is_in_order): (Vec<&mut Expr>, bool) = match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Lt | LtEq | Gt | GtEq, right }) => {
            (vec![left.as_mut(), right.as_mut()], true)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom, right }) => {
            (vec![left.as_mut(), right.as_mut()], false)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            (vec![expr.as_mut(), low.as_mut(), high.as_mut()], true)
        }
        Expr::InList(InList { expr, list, .. }) => {
            (std::iter::once(expr.as_mut()).chain(list).collect(), false)
        }
        _ => return Ok(Transformed::no(expression)),
    };
    let (values, others): (Vec<_>, Vec<_>) = compared.into_iter().partition(|expr| gives_json(expr, schema));
    let is_read = |expr: &Expr| match as_written(expr) {
        Some(text) => is_in_order || check_json_text(text).is_ok(),
        None => is_in_order && expr.get_type(schema).is_ok_and(|of| of.is_string()),
    };
    if values.is_empty() || !others.iter().all(|expr| is_null(expr) || is_read(expr)) {
        return Ok(Transformed::no(expression));
    }
    for text in others.iter().filter_map(|expr| as_written(expr)) {
        check_json_text(text).map_err(external)?;
    }
    values.into_iter().chain(others).for_each(|expr| *expr = json_key(std::mem::take(expr)));
    Ok(Transformed::yes(expression))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// Returns a text as it is written.
fn as_written(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, None) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Bytes that are in the order of JSON, and the same for equal values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonKey {
    signature: Signature,
}

impl Default for JsonKey {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(JsonKey, "json_key");

impl ScalarUDFImpl for JsonKey {
    fn name(&self) -> &str {
        "json_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let values = arrays.first().ok_or_else(|| internal_datafusion_err!("a key is of one value"))?;
        Ok(ColumnarValue::Array(json_keys(values)?))
    }
}

/// Returns the bytes by which texts are ordered that are JSON.
pub(crate) fn json_keys(values: &ArrayRef) -> Result<ArrayRef> {
    if values.data_type().is_null() {
        return Ok(new_null_array(&DataType::LargeBinary, values.len()));
    }
    let texts = cast(values, &DataType::Utf8View)?;
    let mut keys = LargeBinaryBuilder::with_capacity(texts.len(), 0);
    let mut key = Vec::new();
    for text in texts.as_string_view() {
        key.clear();
        if let Some(text) = text {
            write_key(text.trim(), &mut key);
        }
        keys.append_option(text.map(|_| &key));
    }
    Ok(Arc::new(keys.finish()))
}

/// Writes the key of a value. An empty array that is in no other value is less than all others, as in
/// PostgreSQL.
fn write_key(text: &str, key: &mut Vec<u8>) {
    match kind(text) {
        Some(Kind::Array) if elements(text).next().is_none() => key.push(0),
        _ => write_within(text, 0, key),
    }
}

fn write_within(text: &str, depth: usize, key: &mut Vec<u8>) {
    match kind(text) {
        _ if depth > DEPTH_MAX => write_text(text, key),
        Some(Kind::Null) | None => key.push(1),
        Some(Kind::Text) => {
            key.push(2);
            write_text(&unquoted(text), key);
        }
        Some(Kind::Number) => {
            key.push(3);
            write_number(text, key);
        }
        Some(Kind::Boolean) => key.extend([4, u8::from(text.starts_with('t'))]),
        Some(Kind::Array) => {
            let elements: Vec<&str> = elements(text).collect();
            key.push(5);
            key.extend((elements.len() as u64).to_be_bytes());
            elements.into_iter().for_each(|element| write_within(element, depth + 1, key));
        }
        Some(Kind::Object) => {
            let members = sorted_members(text);
            key.push(6);
            key.extend((members.len() as u64).to_be_bytes());
            for (name, value) in members {
                write_text(&name, key);
                write_within(value, depth + 1, key);
            }
        }
    }
}

/// Writes a text so that a shorter one that another one begins with is less.
fn write_text(text: &str, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(1);
        }
    }
    key.extend([0, 0]);
}

/// Writes a number by its sign, the place of its first digit, and its digits; of negative ones all of this is
/// turned round.
fn write_number(text: &str, key: &mut Vec<u8>) {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit).collect();
    let first = digits.iter().position(|digit| *digit != b'0');
    let last = digits.iter().rposition(|digit| *digit != b'0');
    let (Some(first), Some(last)) = (first, last) else {
        key.push(1);
        return;
    };
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    let exponent: i64 =
        exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let place = exponent.saturating_add(whole.len() as i64 - first as i64);
    // Bytes are compared without signs.
    let place = (place ^ i64::MIN).to_be_bytes();
    let turned = if is_negative { u8::MAX } else { 0 };
    key.push(if is_negative { 0 } else { 2 });
    let ended = digits[first..=last].iter().chain(&[0]);
    key.extend(place.iter().chain(ended).map(|byte| byte ^ turned));
}

#[cfg(test)]
mod tests {
    use super::write_key;

    fn key(text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        write_key(text, &mut key);
        key
    }

    #[test]
    fn values_are_in_the_order_of_jsonb() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"\\u0000\"",
            "\"B\"",
            "\"a\"",
            "\"a\\u0000\"",
            "\"ab\"",
            "\"b\"",
            "-1e9223372036854775807",
            "-10",
            "-2.5",
            "-2",
            "-0.5",
            "-0.05",
            "0",
            "1e-9223372036854775808",
            "0.05",
            "0.5",
            "1",
            "1.25",
            "1.5",
            "2",
            "10",
            "1e2",
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            "1e99999",
            "false",
            "true",
            "[null]",
            "[1]",
            "[2]",
            "[10]",
            "[[]]",
            "[{}]",
            "[1, 2]",
            "[1, 10]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"a\": 10}",
            "{\"b\": 1}",
            "{\"b\": 1, \"d\": 1}",
            "{\"aa\": 1, \"c\": 1}",
        ];
        for pair in ascending.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn equal_values_have_one_key() {
        for (one, other) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0.0", "0"),
            ("0.1", "10E-2"),
            ("0.010", "1e-2"),
            ("12.50", "1.25e+1"),
            ("[1.0, \"\\u0041\"]", "[1,\"A\"]"),
            ("{\"b\":1, \"a\":2, \"b\":3}", "{\"a\": 2, \"b\": 3.0}"),
        ] {
            assert_eq!(key(one), key(other), "{one} {other}");
        }
    }

    #[test]
    fn damaged_texts_have_keys() {
        for text in ["", "-", "1e", "{", "[", "{\"a\"", "[1,", "e5", ".", "\""] {
            let _made = key(text);
        }
    }
}
