//! Key sets against a map from rows of plain values.

use super::*;
use crate::NO_POSITION;
use crate::testing::{Datum, row, tables};
use arrow_array::{Array, Decimal128Array, Int64Array, StringArray};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

fn all(columns: &[ArrayRef]) -> Vec<Column<'_>> {
    columns.iter().map(|column| Column::all(column).unwrap()).collect()
}

fn set(columns: &[ArrayRef]) -> KeySet {
    let types: Vec<KeyType> = columns
        .iter()
        .map(|column| KeyType { data_type: column.data_type().clone(), with_null: true })
        .collect();
    KeySet::new("a test", &types).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn keys_are_numbered_in_order_of_appearance((one, other) in tables(1..7, 0..120)) {
        let mut set = set(&one);
        let mut model: HashMap<Vec<Option<Datum>>, u32> = HashMap::new();
        let mut ids = Vec::new();
        set.insert(&all(&one), &mut ids).unwrap();
        for (place, id) in ids.iter().enumerate() {
            let next = model.len() as u32;
            prop_assert_eq!(*model.entry(row(&one, place)).or_insert(next), *id);
        }
        prop_assert_eq!(set.len(), model.len());
        let keys = set.keys(Rows::Range(0, set.len() as u32)).unwrap();
        for id in 0..set.len() {
            prop_assert_eq!(model.get(&row(&keys, id)), Some(&(id as u32)));
        }
        set.find(&all(&other), &mut ids).unwrap();
        for (place, id) in ids.iter().enumerate() {
            prop_assert_eq!(model.get(&row(&other, place)).copied().unwrap_or(NO_POSITION), *id);
        }
        // A second batch continues the first one.
        set.insert(&all(&other), &mut ids).unwrap();
        for (place, id) in ids.iter().enumerate() {
            let next = model.len() as u32;
            prop_assert_eq!(*model.entry(row(&other, place)).or_insert(next), *id);
        }
        prop_assert!(set.bytes() >= set.bytes_for(set.len()) / 4);
    }
}

proptest! {
    #[test]
    fn strings_of_columns_that_stay_are_those_of_copied_ones(
        (one, other) in tables(1..4, 1..60),
        picked in proptest::collection::vec((0_usize..60, 0_usize..60), 1..80),
    ) {
        let (mut staying, mut copied) = (set(&one), set(&one));
        let (mut ids, mut same) = (Vec::new(), Vec::new());
        // Some rows of one table, of another one, and of both again.
        for (first, second) in picked {
            for (columns, place) in [(&one, first), (&other, second)] {
                let row = [(place % columns[0].len()) as u32];
                let some = columns.iter().map(|array| Column::new(array, Rows::List(&row)).unwrap());
                staying.insert(&some.collect::<Vec<_>>(), &mut ids).unwrap();
                let own: Vec<ArrayRef> =
                    columns.iter().map(|array| crate::gather::gather(array, Rows::List(&row)).unwrap()).collect();
                copied.insert(&all(&own), &mut same).unwrap();
                prop_assert_eq!(&ids, &same);
            }
        }
        let every = Rows::Range(0, staying.len() as u32);
        let (some, others) = (staying.keys(every).unwrap(), copied.keys(every).unwrap());
        for place in 0..staying.len() {
            prop_assert_eq!(row(&some, place), row(&others, place));
        }
    }
}

#[test]
fn bits_decide_the_width() {
    let bits = |types: &[(DataType, bool)]| {
        let types = types.iter().cloned();
        let types: Vec<_> = types.map(|(data_type, with_null)| KeyType { data_type, with_null }).collect();
        let packer = Packer::new("a test", &types).unwrap();
        (packer.bits(), packer.parts.len())
    };
    assert_eq!(bits(&[(DataType::Int64, false)]), (64, 1));
    assert_eq!(bits(&[(DataType::Int64, true)]), (65, 1));
    assert_eq!(bits(&[(DataType::Decimal128(38, 2), false)]), (128, 1));
    assert_eq!(bits(&[(DataType::Decimal128(38, 2), true)]), (32, 1));
    assert_eq!(bits(&[(DataType::Utf8, true), (DataType::Date32, false)]), (64, 2));
    // The first two have more than 128 bits, and the third does not fit beside them.
    let four =
        [(DataType::Int64, true), (DataType::Int64, true), (DataType::Utf8, true), (DataType::Int8, true)];
    assert_eq!(bits(&four), (32 + 32 + 9, 3));
}

#[test]
fn a_table_grows_and_is_sized_beforehand() {
    let keys: Vec<u64> = (0..100_000).map(|key: u64| key.wrapping_mul(1 << 40)).collect();
    let mut grown = table::Table::new();
    let mut sized = table::Table::new();
    sized.reserve(keys.len());
    let bytes = sized.bytes();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    grown.insert(&keys, &mut one).unwrap();
    sized.insert(&keys, &mut other).unwrap();
    assert_eq!(one, other);
    assert_eq!((sized.bytes(), bytes), (bytes, table::Table::<u64>::bytes_for(keys.len())));
    grown.find(&[keys[77], 3], &mut one);
    assert_eq!(one[keys.len()..], [77, NO_POSITION]);
}

#[test]
fn wide_decimals_and_strings_keep_their_values() {
    let decimals: ArrayRef = Arc::new(
        Decimal128Array::from(vec![Some(i128::MIN), None, Some(-1)]).with_precision_and_scale(38, 3).unwrap(),
    );
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("ä")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(i64::MAX), Some(0)]));
    let columns = [decimals, texts, numbers.clone(), numbers];
    let mut set = set(&columns);
    let mut ids = Vec::new();
    set.insert(&all(&columns), &mut ids).unwrap();
    let keys = set.keys(Rows::List(&[2, 0, 1])).unwrap();
    assert_eq!(keys[0].data_type(), columns[0].data_type());
    for (place, id) in [2, 0, 1].into_iter().enumerate() {
        assert_eq!(row(&keys, place), row(&columns, id));
    }
}

#[test]
fn columns_must_fit_the_keys() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let mut set = set(std::slice::from_ref(&numbers));
    let mut ids = Vec::new();
    assert!(set.insert(&all(&[texts]), &mut ids).is_err());
    assert!(set.insert(&all(&[numbers.clone(), numbers]), &mut ids).is_err());
    assert!(set.keys(Rows::Range(0, 1)).is_err());
}

#[test]
fn any_number_of_columns_is_packed() {
    // Rows 0 to 5 differ in the first column, the last one, or a column between them.
    for width in [1, 2, 3, 7, 63, 64, 65, 256, 257, 1_000, 4_000] {
        let values = |place: usize| -> ArrayRef {
            let value = |row: usize| match place {
                _ if place + 1 == width => Some(row as i64 % 2),
                0 => Some(row as i64 / 2),
                _ => (row != 4 || place != width / 2).then_some(place as i64),
            };
            Arc::new(Int64Array::from_iter((0..6).map(value)))
        };
        let columns: Vec<ArrayRef> = (0..width).map(values).collect();
        let mut set = set(&columns);
        let mut ids = Vec::new();
        set.insert(&all(&columns), &mut ids).unwrap();
        let expected: &[u32] = if width == 1 { &[0, 1, 0, 1, 0, 1] } else { &[0, 1, 2, 3, 4, 5] };
        assert_eq!(ids, expected, "{width} columns");
        set.find(&all(&columns), &mut ids).unwrap();
        assert_eq!(ids, expected, "{width} columns");
        let keys = set.keys(Rows::List(&[1, 0])).unwrap();
        for (column, key) in columns.iter().zip(&keys) {
            assert_eq!(
                column.slice(0, 2).as_ref(),
                crate::gather::gather(key, Rows::List(&[1, 0])).unwrap().as_ref()
            );
        }
    }
}
