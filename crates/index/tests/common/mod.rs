//! Columns to be indexed, and what a reader without any index finds.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal64Array, Decimal128Array, DictionaryArray, Int8Array, Int32Array,
    Int64Array, LargeStringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::BooleanBuffer;
use hypostyle_index::{NO_ROW, Visible};
use proptest::prelude::*;
use std::sync::Arc;

/// A type that keys may have.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    Int8,
    Int32,
    Int64,
    UInt64,
    Date,
    Timestamp,
    Decimal,
    WideDecimal,
    Text,
    TextView,
    Dictionary,
}

pub const TYPES: [Type; 11] = [
    Type::Int8,
    Type::Int32,
    Type::Int64,
    Type::UInt64,
    Type::Date,
    Type::Timestamp,
    Type::Decimal,
    Type::WideDecimal,
    Type::Text,
    Type::TextView,
    Type::Dictionary,
];

/// An array of a type with these numbers, in the order of which the values are.
pub fn array(values: &[Option<i64>], of: Type) -> ArrayRef {
    let text = |value: &Option<i64>| value.map(|value| format!("{:020}", i128::from(value) + (1 << 64)));
    let texts = || values.iter().map(text);
    match of {
        Type::Int8 => {
            Arc::new(Int8Array::from_iter(values.iter().map(|value| value.map(|value| value as i8))))
        }
        Type::Int32 => {
            Arc::new(Int32Array::from_iter(values.iter().map(|value| value.map(|value| value as i32))))
        }
        Type::Int64 => Arc::new(Int64Array::from(values.to_vec())),
        Type::UInt64 => {
            let unsigned = |value: &Option<i64>| value.map(|value| value as u64 ^ 1 << 63);
            Arc::new(UInt64Array::from_iter(values.iter().map(unsigned)))
        }
        Type::Date => {
            Arc::new(Date32Array::from_iter(values.iter().map(|value| value.map(|value| value as i32))))
        }
        Type::Timestamp => Arc::new(TimestampMicrosecondArray::from(values.to_vec())),
        Type::Decimal => {
            let values = values.iter().map(|value| value.map(|value| value % 1_000_000_000));
            Arc::new(Decimal64Array::from_iter(values).with_precision_and_scale(18, 2).unwrap())
        }
        Type::WideDecimal => {
            let wide = |value: &Option<i64>| value.map(|value| i128::from(value) * (1 << 40));
            let values = Decimal128Array::from_iter(values.iter().map(wide));
            Arc::new(values.with_precision_and_scale(38, 4).unwrap())
        }
        Type::Text => Arc::new(LargeStringArray::from_iter(texts())),
        Type::TextView => Arc::new(StringViewArray::from_iter(texts())),
        Type::Dictionary => {
            let texts: Vec<Option<String>> = texts().collect();
            let array: DictionaryArray<arrow_array::types::Int32Type> =
                texts.iter().map(Option::as_deref).collect();
            Arc::new(array)
        }
    }
}

/// The values that fit every type, some of which are NULL, in one of the shapes that tables have.
pub fn values() -> impl Strategy<Value = Vec<Option<i64>>> {
    let some = |range: std::ops::Range<i64>| prop::collection::vec(range.prop_map(Some), 0..120);
    prop_oneof![
        // Affine, ascending with gaps, and any order; with or without duplicates and NULLs.
        (-100..20_i64, 0..100_i64).prop_map(|(first, rows)| (first..first + rows).map(Some).collect()),
        prop::collection::btree_set(-128..128_i64, 0..120)
            .prop_map(|values| values.into_iter().map(Some).collect()),
        prop::collection::btree_set(-128..128_i64, 0..120)
            .prop_map(|values| values.into_iter().map(Some).collect::<Vec<_>>())
            .prop_shuffle(),
        some(-128..128),
        some(-3..3),
        prop::collection::vec(prop::option::weighted(0.8, -100..100_i64), 0..120),
    ]
}

/// Rows before an end, without some that are deleted.
pub fn visible(rows: usize) -> impl Strategy<Value = Visible> {
    let deleted = prop::collection::vec(prop::bool::weighted(0.3), rows);
    (0..=rows, prop::option::of(deleted)).prop_map(|(end, deleted)| match deleted {
        Some(deleted) => Visible::without(end as u32, BooleanBuffer::from(deleted)),
        None => Visible::before(end as u32),
    })
}

/// The last visible row whose key is the one of another row.
pub fn last_row(columns: &[Vec<Option<i64>>], key: &[Option<i64>], visible: &Visible) -> u32 {
    if key.iter().any(Option::is_none) {
        return NO_ROW;
    }
    let rows = columns[0].len() as u32;
    let is_key = |row: &u32| columns.iter().zip(key).all(|(column, value)| column[*row as usize] == *value);
    (0..rows).rev().find(|row| visible.is_visible(*row) && is_key(row)).unwrap_or(NO_ROW)
}

/// Columns in a type each.
pub fn arrays(columns: &[Vec<Option<i64>>], types: &[Type]) -> Vec<ArrayRef> {
    columns.iter().zip(types.iter().cycle()).map(|(column, of)| array(column, *of)).collect()
}

/// Arrays from one row to another.
pub fn slice(arrays: &[ArrayRef], from: usize, to: usize) -> Vec<ArrayRef> {
    arrays.iter().map(|array| array.slice(from, to - from)).collect()
}
