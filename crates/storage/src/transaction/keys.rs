//! Keys of rows as numbers: equal keys have equal numbers.
//!
//! Different keys may, very rarely, have the same number: that is a conflict too many, and never one
//! too few.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use arrow_buffer::{ToByteSlice, i256};
use arrow_schema::{DataType, IntervalUnit};
use hypostyle_types::LogicalType;
use xxhash_rust::xxh3::xxh3_64;

const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

/// How the values of two columns are compared, of which one refers to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The values as they are: both are of one type.
    Same,
    /// Integers and decimals of several types: by their value.
    Exact,
    /// Floating point numbers of two types, as those of the longer one.
    Float,
    /// The values are compared in another way: all are taken for equal.
    Any,
}

impl Form {
    pub fn of(one: &LogicalType, other: &LogicalType) -> Self {
        let is_float = |of: &LogicalType| matches!(of, LogicalType::Float | LogicalType::Double);
        let is_exact = |of: &LogicalType| of.arrow_type().is_numeric() && !is_float(of);
        match (one, other) {
            (LogicalType::Timestamp { unit: one, .. }, LogicalType::Timestamp { unit: other, .. })
                if one == other =>
            {
                Self::Same
            }
            _ if one == other => Self::Same,
            _ if is_exact(one) && is_exact(other) => Self::Exact,
            _ if is_float(one) && is_float(other) => Self::Float,
            _ => Self::Any,
        }
    }
}

/// The keys of some rows, by their columns. Rows with a NULL among them have none.
pub(super) fn keys_of(columns: &[ArrayRef], forms: &[Form]) -> Vec<u64> {
    let rows = columns.first().map_or(0, |column| column.len());
    let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
    let mut bytes = Vec::new();
    let mut keys = Vec::with_capacity(rows);
    for row in (0..rows).filter(|row| nulls.iter().all(|nulls| nulls.is_valid(*row))) {
        bytes.clear();
        for (column, form) in columns.iter().zip(forms) {
            push_as(column, *form, row, &mut bytes);
        }
        keys.push(xxh3_64(&bytes));
    }
    keys
}

fn push_as(array: &ArrayRef, form: Form, row: usize, bytes: &mut Vec<u8>) {
    match form {
        Form::Same => push(array, row, bytes),
        Form::Exact => {
            if let Some((value, scale)) = exact(array, row) {
                bytes.extend(value.to_le_bytes());
                bytes.extend(scale.to_le_bytes());
            }
        }
        Form::Float => {
            let value = match array.data_type() {
                DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)),
                _ => array.as_primitive::<Float64Type>().value(row),
            };
            push_float(value, bytes);
        }
        Form::Any => {}
    }
}

/// Zero has two signs, and what is no number has many forms: both are equal to themselves.
fn push_float(value: f64, bytes: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    bytes.extend(value.to_bits().to_le_bytes());
}

fn push_length(length: usize, bytes: &mut Vec<u8>) {
    bytes.extend((length as u64).to_le_bytes());
}

fn push_all(array: &ArrayRef, bytes: &mut Vec<u8>) {
    push_length(array.len(), bytes);
    (0..array.len()).for_each(|row| push(array, row, bytes));
}

/// A value, such that equal ones give the same bytes, and none gives the beginning of another's.
fn push(array: &ArrayRef, row: usize, bytes: &mut Vec<u8>) {
    let is_valid = array.is_valid(row);
    bytes.push(u8::from(is_valid));
    if !is_valid {
        return;
    }
    let array = array.as_ref();
    match array.data_type() {
        DataType::Float32 => return push_float(array.as_primitive::<Float32Type>().value(row).into(), bytes),
        DataType::Float64 => return push_float(array.as_primitive::<Float64Type>().value(row), bytes),
        // A month is compared as 30 days.
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let days = i128::from(value.months) * 30 + i128::from(value.days);
            let nanoseconds = days * DAY_NANOSECONDS + i128::from(value.nanoseconds);
            return bytes.extend(nanoseconds.to_le_bytes());
        }
        _ => {}
    }
    downcast_primitive_array!(
        array => bytes.extend_from_slice(array.value(row).to_byte_slice()),
        DataType::Boolean => bytes.push(u8::from(array.as_boolean().value(row))),
        DataType::LargeUtf8 => {
            let text = array.as_string::<i64>().value(row);
            push_length(text.len(), bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
        DataType::LargeBinary => {
            let value = array.as_binary::<i64>().value(row);
            push_length(value.len(), bytes);
            bytes.extend_from_slice(value);
        }
        DataType::FixedSizeBinary(_) => bytes.extend_from_slice(array.as_fixed_size_binary().value(row)),
        DataType::LargeList(_) => push_all(&array.as_list::<i64>().value(row), bytes),
        DataType::FixedSizeList(_, _) => push_all(&array.as_fixed_size_list().value(row), bytes),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().for_each(|column| push(column, row, bytes));
        }
        // No key is of another type; all values of it would be equal.
        _ => {}
    );
}

/// An integer or decimal as the shortest number and its scale.
fn exact(array: &ArrayRef, row: usize) -> Option<(i256, i32)> {
    let array = array.as_ref();
    let integer = |value: i128| (i256::from_i128(value), 0);
    let (mut value, mut scale) = match array.data_type() {
        DataType::Int8 => integer(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => integer(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt8 => integer(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => integer(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Decimal32(_, scale) => {
            (integer(array.as_primitive::<Decimal32Type>().value(row).into()).0, i32::from(*scale))
        }
        DataType::Decimal64(_, scale) => {
            (integer(array.as_primitive::<Decimal64Type>().value(row).into()).0, i32::from(*scale))
        }
        DataType::Decimal128(_, scale) => {
            (integer(array.as_primitive::<Decimal128Type>().value(row)).0, i32::from(*scale))
        }
        DataType::Decimal256(_, scale) => {
            (array.as_primitive::<Decimal256Type>().value(row), i32::from(*scale))
        }
        _ => return None,
    };
    if value == i256::ZERO {
        return Some((value, 0));
    }
    let ten = i256::from_i128(10);
    while value.wrapping_rem(ten) == i256::ZERO {
        value = value.wrapping_div(ten);
        scale -= 1;
    }
    Some((value, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int64Builder, LargeListBuilder};
    use arrow_array::*;
    use arrow_buffer::IntervalMonthDayNano;
    use hypostyle_types::TimeUnit;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn same(array: impl Array + 'static) -> Vec<u64> {
        keys_of(&[Arc::new(array)], &[Form::Same])
    }

    fn exact_keys(array: impl Array + 'static) -> Vec<u64> {
        keys_of(&[Arc::new(array)], &[Form::Exact])
    }

    fn are_all_equal(keys: &[u64]) -> bool {
        keys.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn are_all_different(keys: &[u64]) -> bool {
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == keys.len()
    }

    #[test]
    fn values_that_are_equal_have_one_key() {
        assert!(are_all_equal(&same(Float64Array::from(vec![0.0, -0.0]))));
        assert!(are_all_equal(&same(Float32Array::from(vec![
            f32::NAN,
            -f32::NAN,
            f32::from_bits(0x7fc0_0001)
        ]))));
        let month = IntervalMonthDayNano::new;
        assert!(are_all_equal(&same(IntervalMonthDayNanoArray::from(vec![
            month(1, 0, 0),
            month(0, 30, 0),
            month(0, 29, DAY_NANOSECONDS as i64)
        ]))));
        let floats = [
            keys_of(&[Arc::new(Float32Array::from(vec![0.5])) as ArrayRef], &[Form::Float]),
            keys_of(&[Arc::new(Float64Array::from(vec![0.5])) as ArrayRef], &[Form::Float]),
        ];
        assert_eq!(floats[0], floats[1]);
    }

    #[test]
    fn numbers_of_all_exact_types_are_compared_by_value() {
        let keys = [
            exact_keys(Int8Array::from(vec![70])),
            exact_keys(UInt64Array::from(vec![70])),
            exact_keys(Decimal32Array::from(vec![7000]).with_precision_and_scale(5, 2).unwrap()),
            exact_keys(Decimal64Array::from(vec![70_000]).with_precision_and_scale(15, 3).unwrap()),
            exact_keys(Decimal128Array::from(vec![700]).with_precision_and_scale(30, 1).unwrap()),
            exact_keys(
                Decimal256Array::from(vec![i256::from_i128(70)]).with_precision_and_scale(60, 0).unwrap(),
            ),
        ];
        assert!(are_all_equal(&keys.concat()));
        let zeros = [
            exact_keys(Int64Array::from(vec![0])),
            exact_keys(Decimal128Array::from(vec![0]).with_precision_and_scale(30, 9).unwrap()),
        ];
        assert!(are_all_equal(&zeros.concat()));
        let different = [
            exact_keys(Int64Array::from(vec![7, -7, 70, i64::MAX])),
            exact_keys(UInt64Array::from(vec![u64::MAX])),
            exact_keys(Decimal128Array::from(vec![7]).with_precision_and_scale(30, 2).unwrap()),
        ];
        assert!(are_all_different(&different.concat()));
    }

    #[test]
    fn values_that_differ_have_different_keys_and_nulls_have_none() {
        assert!(are_all_different(&same(Int64Array::from_iter_values(-1000..1000))));
        assert!(are_all_different(&same(LargeStringArray::from(vec!["", "a", "A", "a ", "b", "ab"]))));
        assert!(are_all_different(&same(BooleanArray::from(vec![true, false]))));
        assert_eq!(same(Int64Array::from(vec![Some(1), None, Some(2)])).len(), 2);
        let pair = |one: Vec<Option<&str>>, other: Vec<Option<&str>>| {
            let columns: [ArrayRef; 2] =
                [Arc::new(LargeStringArray::from(one)), Arc::new(LargeStringArray::from(other))];
            keys_of(&columns, &[Form::Same; 2])
        };
        let keys = pair(
            vec![Some("a"), Some("ab"), Some(""), None, Some("a")],
            vec![Some("bc"), Some("c"), Some("abc"), Some("a"), None],
        );
        assert!(keys.len() == 3 && are_all_different(&keys));
        let mut lists = LargeListBuilder::new(Int64Builder::new());
        for list in [vec![], vec![Some(1)], vec![Some(1), None], vec![None], vec![Some(1), Some(0)]] {
            lists.append_value(list);
        }
        assert!(are_all_different(&same(lists.finish())));
    }

    #[test]
    fn forms_follow_from_the_types() {
        let timestamp =
            |unit, zone: Option<&str>| LogicalType::Timestamp { unit, time_zone: zone.map(Into::into) };
        let decimal = LogicalType::Decimal { precision: 10, scale: 2 };
        for (one, other, form) in [
            (LogicalType::Integer, LogicalType::Integer, Form::Same),
            (LogicalType::Integer, LogicalType::UBigInt, Form::Exact),
            (LogicalType::Integer, decimal.clone(), Form::Exact),
            (LogicalType::Float, LogicalType::Double, Form::Float),
            (LogicalType::Double, decimal, Form::Any),
            (timestamp(TimeUnit::Second, None), timestamp(TimeUnit::Nanosecond, None), Form::Any),
            (timestamp(TimeUnit::Second, Some("UTC")), timestamp(TimeUnit::Second, Some("CET")), Form::Same),
        ] {
            assert_eq!((Form::of(&one, &other), Form::of(&other, &one)), (form, form), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_if_the_rows_are(
            rows in proptest::collection::vec(("[ab]{0,3}", proptest::option::of(-2i32..2)), 0..30),
        ) {
            let columns: [ArrayRef; 2] = [
                Arc::new(LargeStringArray::from_iter_values(rows.iter().map(|(text, _)| text))),
                Arc::new(Int32Array::from_iter(rows.iter().map(|(_, number)| *number))),
            ];
            let keys = keys_of(&columns, &[Form::Same; 2]);
            let whole: Vec<_> = rows.iter().filter(|(_, number)| number.is_some()).collect();
            prop_assert_eq!(keys.len(), whole.len());
            for (key, row) in keys.iter().zip(&whole) {
                for (other_key, other) in keys.iter().zip(&whole) {
                    prop_assert_eq!(key == other_key, row == other);
                }
            }
        }
    }
}
