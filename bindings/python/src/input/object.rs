//! Converts Python objects to columns: one type is found for all values, never from a sample.

use super::value::Value;
use crate::error;
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeListArray, LargeStringArray,
    NullArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, FieldRef, i256};
use hypostyle::{LogicalType, Parameters, ScalarValue};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

const DECIMAL128_DIGITS_MAX: usize = 38;
const DECIMAL_DIGITS_MAX: usize = 76;

/// The fields that the dicts of a column may have, those of dicts within them included. Each is a column of
/// its own, and who plans a query looks at all of them many times.
const FIELDS_MAX: usize = 4_096;

/// The places, rows times keys, that dicts of any keys may have.
const PLACES_MAX: usize = 1 << 25;

/// The places that they may have for each value that is given: the others are NULL, and take time and
/// memory all the same.
const PLACES_PER_VALUE_MAX: usize = 16;

/// The type that all values seen so far fit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Type {
    Null,
    Boolean,
    Integer { min: i128, max: i128 },
    Float,
    Decimal { whole_digits: usize, scale: usize },
    Text,
    Binary,
    Date,
    Timestamp { zoned: bool, finest: bool },
    Time,
    Interval,
    Uuid,
    List,
    Struct,
}

/// Returns an Arrow column of the objects.
///
/// # Errors
/// `DataError` with the column, the row and the value, when an object fits no SQL type or not that
/// of the others.
pub fn column(name: &str, objects: &Bound<'_, PyAny>, nan_is_null: bool) -> PyResult<(ArrayRef, Field)> {
    let py = objects.py();
    let mut values = Vec::with_capacity(objects.len().unwrap_or(0));
    for (row, object) in objects.try_iter()?.enumerate() {
        let value = Value::new(&object?, nan_is_null)
            .map_err(|problem| refused(py, problem, &format!("column \"{name}\", row {row}")))?;
        values.push(value);
    }
    py.detach(|| whole(name, values)).map_err(|problem| error::invalid_input(py, problem))
}

/// Returns the error for an object that is no value. What a signal handler has raised stays as it is, unless
/// it is an `Exception`.
fn refused(py: Python<'_>, problem: PyErr, place: &str) -> PyErr {
    match problem.is_instance_of::<PyException>(py) {
        true => error::invalid_input(py, format!("{place}: {}", problem.value(py))),
        false => problem,
    }
}

/// Converts one object to a value of a statement. It keeps the GIL, because letting another thread
/// have it costs more.
///
/// # Errors
/// `DataError` with the name of the parameter when the object fits no SQL type.
pub fn scalar(name: &str, object: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let place = format!("parameter \"{name}\"");
    let value = Value::new(object, false).map_err(|problem| refused(object.py(), problem, &place))?;
    Ok(match value {
        Value::Null => ScalarValue::Null,
        Value::Boolean(value) => ScalarValue::Boolean(Some(value)),
        Value::Float(value) => ScalarValue::Float64(Some(value)),
        // The planner treats string literals in the same way.
        Value::Text(text) => ScalarValue::Utf8(Some(text)),
        Value::Uuid(bytes) => Parameters::uuid(bytes),
        Value::Integer(value) if let Ok(value) = i64::try_from(value) => ScalarValue::Int64(Some(value)),
        value => {
            let (array, _) = whole(name, vec![value]).map_err(|problem| {
                error::invalid_input(object.py(), problem.replacen("column", "parameter", 1))
            })?;
            ScalarValue::try_from_array(&array, 0)
                .map_err(|problem| error::invalid_input(object.py(), format!("{place}: {problem}")))?
        }
    })
}

impl Type {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(_) => Self::Boolean,
            Value::Integer(value) => Self::Integer { min: *value, max: *value },
            Value::Float(_) => Self::Float,
            Value::Decimal { digits, scale, .. } => {
                Self::Decimal { whole_digits: digits - scale, scale: *scale }
            }
            Value::Text(_) => Self::Text,
            Value::Binary(_) => Self::Binary,
            Value::Date(_) => Self::Date,
            Value::Timestamp { nanoseconds, zoned } => {
                Self::Timestamp { zoned: *zoned, finest: nanoseconds % 1_000 != 0 }
            }
            Value::Time(_) => Self::Time,
            Value::Interval(_) => Self::Interval,
            Value::Uuid(_) => Self::Uuid,
            Value::List(_) => Self::List,
            Value::Struct(_) => Self::Struct,
        }
    }

    fn join(self, other: Self) -> Option<Self> {
        use Type::{Decimal, Float, Integer, Null, Timestamp};
        Some(match (self, other) {
            (one, Null) | (Null, one) => one,
            (Integer { min: a, max: b }, Integer { min: c, max: d }) => {
                Integer { min: a.min(c), max: b.max(d) }
            }
            (Integer { .. }, Float) | (Float, Integer { .. }) => Float,
            (Integer { min, max }, decimal @ Decimal { .. })
            | (decimal @ Decimal { .. }, Integer { min, max }) => {
                let whole_digits = digits(min).max(digits(max));
                return Decimal { whole_digits, scale: 0 }.join(decimal);
            }
            (Decimal { whole_digits: a, scale: b }, Decimal { whole_digits: c, scale: d }) => {
                Decimal { whole_digits: a.max(c), scale: b.max(d) }
            }
            (Timestamp { zoned: a, finest: b }, Timestamp { zoned: c, finest: d }) if a == c => {
                Timestamp { zoned: a, finest: b || d }
            }
            (one, other) if one == other => one,
            _ => return None,
        })
    }
}

fn digits(value: i128) -> usize {
    value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn infer(name: &str, values: &[Value]) -> Result<Type, String> {
    let mut joined = Type::Null;
    let mut named = "NULL";
    for (row, value) in values.iter().enumerate() {
        joined = joined.join(Type::of(value)).ok_or_else(|| {
            format!(
                "column \"{name}\", row {row}: the value is a {}, but the rows before are {named}",
                value.type_name()
            )
        })?;
        if joined != Type::Null && named == "NULL" {
            named = value.type_name();
        }
    }
    Ok(joined)
}

/// Takes the value out of a variant, or `None` for NULL; `infer` has let no other variant through.
macro_rules! pick {
    ($values:expr, $($variant:pat => $value:expr),+) => {
        $values.into_iter().map(|value| match value { $($variant => Some($value),)+ _ => None })
    };
}

/// Builds a whole column.
fn whole(name: &str, values: Vec<Value>) -> Result<(ArrayRef, Field), String> {
    let mut fields_left = FIELDS_MAX;
    build(name, values, &mut fields_left)
}

/// Builds the column of some values, whose dicts may have so many fields more.
fn build(name: &str, values: Vec<Value>, fields_left: &mut usize) -> Result<(ArrayRef, Field), String> {
    let joined = infer(name, &values)?;
    let array: ArrayRef = match joined {
        Type::Null => Arc::new(NullArray::new(values.len())),
        Type::Boolean => Arc::new(pick!(values, Value::Boolean(value) => value).collect::<BooleanArray>()),
        Type::Integer { min, max } => integers(name, values, min, max)?,
        Type::Float => Arc::new(
            pick!(values, Value::Float(value) => value, Value::Integer(value) => value as f64)
                .collect::<Float64Array>(),
        ),
        Type::Decimal { whole_digits, scale } => decimals(name, values, whole_digits, scale)?,
        Type::Text => Arc::new(pick!(values, Value::Text(value) => value).collect::<LargeStringArray>()),
        Type::Binary => Arc::new(pick!(values, Value::Binary(value) => value).collect::<LargeBinaryArray>()),
        Type::Date => Arc::new(pick!(values, Value::Date(value) => value).collect::<Date32Array>()),
        Type::Time => {
            Arc::new(pick!(values, Value::Time(value) => value).collect::<Time64MicrosecondArray>())
        }
        Type::Timestamp { zoned, finest } => timestamps(name, values, zoned, finest)?,
        Type::Interval => {
            Arc::new(pick!(values, Value::Interval(value) => value).collect::<IntervalMonthDayNanoArray>())
        }
        Type::Uuid => {
            let uuids = pick!(values, Value::Uuid(value) => value);
            let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16)
                .map_err(|error| format!("column \"{name}\": {error}"))?;
            return Ok((Arc::new(uuids), LogicalType::Uuid.arrow_field(name, true)));
        }
        Type::List => lists(name, values, fields_left)?,
        Type::Struct => structs(name, values, fields_left)?,
    };
    let field = Field::new(name, array.data_type().clone(), true);
    Ok((array, field))
}

fn integers(name: &str, values: Vec<Value>, min: i128, max: i128) -> Result<ArrayRef, String> {
    if i64::try_from(min).is_ok() && i64::try_from(max).is_ok() {
        return Ok(Arc::new(pick!(values, Value::Integer(value) => value as i64).collect::<Int64Array>()));
    }
    if u64::try_from(min).is_ok() && u64::try_from(max).is_ok() {
        return Ok(Arc::new(pick!(values, Value::Integer(value) => value as u64).collect::<UInt64Array>()));
    }
    decimals(name, values, digits(min).max(digits(max)), 0)
}

fn decimals(name: &str, values: Vec<Value>, whole_digits: usize, scale: usize) -> Result<ArrayRef, String> {
    let precision = (whole_digits + scale).max(1);
    if precision > DECIMAL_DIGITS_MAX {
        return Err(format!(
            "column \"{name}\": {whole_digits} digits before the point and {scale} after it, together more \
             than the {DECIMAL_DIGITS_MAX} of DECIMAL"
        ));
    }
    let ten = i256::from_i128(10);
    let at_scale = |unscaled: i256, own: usize| unscaled.wrapping_mul(ten.wrapping_pow((scale - own) as u32));
    let unscaled = pick!(values,
        Value::Decimal { unscaled, scale: own, .. } => at_scale(unscaled, own),
        Value::Integer(value) => at_scale(i256::from_i128(value), 0));
    let wrong = |error: arrow::error::ArrowError| format!("column \"{name}\": {error}");
    let (precision, scale) = (precision as u8, scale as i8);
    if usize::from(precision) <= DECIMAL128_DIGITS_MAX {
        let array: Decimal128Array = unscaled.map(|value| value.and_then(i256::to_i128)).collect();
        return Ok(Arc::new(array.with_precision_and_scale(precision, scale).map_err(wrong)?));
    }
    let array: Decimal256Array = unscaled.collect();
    Ok(Arc::new(array.with_precision_and_scale(precision, scale).map_err(wrong)?))
}

fn timestamps(name: &str, values: Vec<Value>, zoned: bool, finest: bool) -> Result<ArrayRef, String> {
    let zone = zoned.then_some("UTC");
    if !finest {
        let microseconds =
            pick!(values, Value::Timestamp { nanoseconds, .. } => (nanoseconds / 1_000) as i64);
        return Ok(Arc::new(microseconds.collect::<TimestampMicrosecondArray>().with_timezone_opt(zone)));
    }
    let ticks = values
        .into_iter()
        .enumerate()
        .map(|(row, value)| match value {
            Value::Timestamp { nanoseconds, .. } => i64::try_from(nanoseconds).map(Some).map_err(|_| {
                format!("column \"{name}\", row {row}: the timestamp is out of range for nanoseconds")
            }),
            _ => Ok(None),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(TimestampNanosecondArray::from(ticks).with_timezone_opt(zone)))
}

fn lists(name: &str, values: Vec<Value>, fields_left: &mut usize) -> Result<ArrayRef, String> {
    let nulls = NullBuffer::from_iter(values.iter().map(|value| !matches!(value, Value::Null)));
    let lengths = values.iter().map(|value| if let Value::List(items) = value { items.len() } else { 0 });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let items =
        values.into_iter().flat_map(|value| if let Value::List(items) = value { items } else { vec![] });
    let (items, field) = build(name, items.collect(), fields_left)?;
    let list = LargeListArray::try_new(Arc::new(field.with_name("item")), offsets, items, Some(nulls));
    Ok(Arc::new(list.map_err(|error| format!("column \"{name}\": {error}"))?))
}

/// Builds structs with their members in the order in which they are first seen, and NULL where a
/// row lacks one.
fn structs(name: &str, values: Vec<Value>, fields_left: &mut usize) -> Result<ArrayRef, String> {
    let rows = values.len();
    let nulls = NullBuffer::from_iter(values.iter().map(|value| !matches!(value, Value::Null)));
    let members = members(name, values, fields_left)?;
    let mut fields: Vec<FieldRef> = Vec::with_capacity(members.len());
    let mut arrays = Vec::with_capacity(members.len());
    for (member, given) in members {
        let mut column = Vec::with_capacity(rows);
        for (row, value) in given {
            column.resize_with(row, || Value::Null);
            column.push(value);
        }
        column.resize_with(rows, || Value::Null);
        let (array, field) = build(&format!("{name}.{member}"), column, fields_left)?;
        fields.push(Arc::new(field.with_name(member)));
        arrays.push(array);
    }
    let structs = StructArray::try_new_with_length(fields.into(), arrays, Some(nulls), rows);
    Ok(Arc::new(structs.map_err(|error| format!("column \"{name}\": {error}"))?))
}

/// The values of members by their names, each with its row: rows may have quite different ones.
type Members = Vec<(String, Vec<(usize, Value)>)>;

/// Takes the members out of structs.
fn members(name: &str, values: Vec<Value>, fields_left: &mut usize) -> Result<Members, String> {
    let (rows, mut given) = (values.len(), 0_usize);
    let mut members = Members::new();
    let mut index_of: HashMap<String, usize> = HashMap::new();
    for (row, value) in values.into_iter().enumerate() {
        let Value::Struct(row_members) = value else { continue };
        given += row_members.len();
        for (member, value) in row_members {
            let index = *index_of.entry(member).or_insert_with_key(|member| {
                members.push((member.clone(), Vec::new()));
                members.len() - 1
            });
            members[index].1.push((row, value));
        }
        if members.len() > *fields_left {
            return Err(format!(
                "column \"{name}\", row {row}: dicts with more than {FIELDS_MAX} different keys, each of which \
                 is a field of a STRUCT; give them as JSON texts"
            ));
        }
    }
    *fields_left -= members.len();
    let places = rows.saturating_mul(members.len());
    if places > PLACES_MAX.max(given.saturating_mul(PLACES_PER_VALUE_MAX)) {
        return Err(format!(
            "column \"{name}\": {rows} dicts with {} different keys have only {given} values; give them as \
             JSON texts",
            members.len()
        ));
    }
    Ok(members)
}
