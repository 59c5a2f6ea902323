//! Key indexes against a search through all rows.

use crate::common::{TYPES, Type, array, arrays, last_row, slice, values, visible};
use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_buffer::BooleanBuffer;
use hypostyle_index::{KeyExtension, KeyIndex, KeyLookup, NO_ROW, Visible};
use proptest::prelude::*;
use std::sync::Arc;

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn kind_of(column: ArrayRef) -> &'static str {
    KeyIndex::build(&[column], 1).unwrap().kind()
}

#[test]
fn the_values_choose_the_kind() {
    assert_eq!(kind_of(numbers(5..100)), "affine");
    assert_eq!(kind_of(numbers([7])), "affine");
    assert_eq!(kind_of(numbers([i64::MAX - 1, i64::MAX])), "affine");
    assert_eq!(kind_of(numbers((0..100).map(|row| row / 8 * 32 + row % 8))), "rank");
    assert_eq!(kind_of(numbers((0..100).rev())), "dense");
    assert_eq!(kind_of(numbers((0..100).map(|row| row / 2))), "dense");
    assert_eq!(kind_of(numbers((0..100).map(|row| row * 1000))), "hash");
    assert_eq!(kind_of(numbers([i64::MIN, 0, i64::MAX])), "hash");
    assert_eq!(kind_of(array(&[Some(1), Some(2)], Type::Text)), "hash");
    assert_eq!(kind_of(array(&[Some(1), None, Some(2)], Type::Int64)), "dense");
    assert_eq!(kind_of(array(&[None, None], Type::Int64)), "hash");
    assert_eq!(kind_of(numbers([])), "hash");
    let two = KeyIndex::build(&[numbers(0..9), numbers(0..9)], 1).unwrap();
    assert_eq!((two.kind(), two.rows(), two.types().len()), ("hash", 9, 2));
}

#[test]
fn what_cannot_be_a_key_has_no_index() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    assert!(KeyIndex::build(&[floats], 1).is_none());
    assert!(KeyIndex::build(&[numbers(0..2), numbers(0..3)], 1).is_none());
    assert!(KeyIndex::build(&[], 1).is_none());
}

#[test]
fn a_lookup_refuses_what_it_cannot_answer() {
    let column = [numbers([1, 5, 9])];
    let index = Arc::new(KeyIndex::build(&column, 1).unwrap());
    assert!(KeyLookup::new(index.clone(), &[numbers([1, 5])]).is_err());
    assert!(KeyLookup::new(index.clone(), &[array(&[Some(1); 3], Type::Date)]).is_err());
    let lookup = KeyLookup::new(index, &column).unwrap();
    let mut found = Vec::new();
    // There is a row that the index does not know.
    assert!(lookup.find(&column, &Visible::before(4), &mut found).is_err());
    assert!(lookup.find(&[array(&[Some(1)], Type::Text)], &Visible::before(3), &mut found).is_err());
    let gap = KeyLookup::new(Arc::new(KeyIndex::build(&[numbers([1])], 1).unwrap()), &column).unwrap();
    let extension = Arc::new(KeyExtension::build(&gap, &[vec![numbers([2])]], 1).unwrap());
    assert!(lookup.clone().extend(extension).is_err());
    assert!(found.is_empty());
}

#[test]
fn integers_of_any_width_are_compared() {
    let column = [numbers([3, 70, 900])];
    let lookup = KeyLookup::new(Arc::new(KeyIndex::build(&column, 1).unwrap()), &column).unwrap();
    for of in [Type::Int8, Type::Int32, Type::Int64] {
        let mut found = Vec::new();
        lookup.find(&[array(&[Some(70), None, Some(4)], of)], &Visible::before(3), &mut found).unwrap();
        assert_eq!(found, [1, NO_ROW, NO_ROW]);
    }
}

#[test]
fn updates_of_one_row_make_a_chain() {
    // Each version of the row but one is deleted; the one is where a snapshot sees it.
    for column in [numbers([7; 300]), array(&[Some(7); 300], Type::Text)] {
        let index = Arc::new(KeyIndex::build(std::slice::from_ref(&column), 3).unwrap());
        assert!(!index.is_unique());
        let lookup = KeyLookup::new(index, std::slice::from_ref(&column)).unwrap();
        for version in [0, 1, 150, 299] {
            let deleted = BooleanBuffer::collect_bool(300, |row| row != version);
            let mut found = vec![5];
            let visible = Visible::without(300, deleted);
            lookup.find(&[column.slice(0, 1)], &visible, &mut found).unwrap();
            assert_eq!(found, [5, version as u32]);
        }
    }
}

proptest! {
    #[test]
    fn keys_are_found_as_by_a_search(
        (values, visible) in values().prop_flat_map(|values| (visible(values.len()), Just(values)).prop_map(|(visible, values)| (values, visible))),
        probes in prop::collection::vec(prop::option::weighted(0.9, -128..128_i64), 0..60),
        of in prop::sample::select(TYPES.to_vec()),
        seed: u64,
    ) {
        let column = [array(&values, of)];
        for index in [KeyIndex::build(&column, seed), KeyIndex::build_hash(&column, seed)] {
            let lookup = KeyLookup::new(Arc::new(index.unwrap()), &column).unwrap();
            let mut found = Vec::new();
            lookup.find(&[array(&probes, of)], &visible, &mut found).unwrap();
            let columns = [values.clone()];
            let expected: Vec<u32> = probes.iter().map(|key| last_row(&columns, &[*key], &visible)).collect();
            prop_assert_eq!(found, expected);
            for key in &probes {
                let rows = (0_u32..).zip(&values).filter(|(row, value)| visible.is_visible(*row) && *value == key);
                let expected: Vec<u32> = rows.filter(|(_, value)| value.is_some()).map(|(row, _)| row).collect();
                prop_assert_eq!(lookup.find_all(&[array(&[*key], of)], &visible).unwrap(), expected);
            }
            let mut distinct: Vec<i64> = values.iter().flatten().copied().collect();
            let keys = distinct.len();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(lookup.is_unique(), distinct.len() == keys);
        }
    }

    #[test]
    fn composite_keys_are_found_with_extensions(
        rows in prop::collection::vec((prop::option::weighted(0.9, -4..4_i64), prop::option::weighted(0.9, -4..4_i64)), 0..90),
        cuts in prop::collection::vec(0..91_usize, 3),
        probes in prop::collection::vec((-4..4_i64, prop::option::weighted(0.9, -4..4_i64)), 0..40),
        types in prop::collection::vec(prop::sample::select(TYPES.to_vec()), 1..3),
        deleted in prop::option::of(prop::collection::vec(prop::bool::weighted(0.5), 90)),
        end in 0..91_usize,
        seed: u64,
    ) {
        let mut columns = [Vec::new(), Vec::new()];
        for (one, other) in &rows {
            columns[0].push(*one);
            columns[1].push(*other);
        }
        let all = arrays(&columns, &types);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(rows.len())).collect();
        cuts.sort();
        let index = KeyIndex::build(&slice(&all, 0, cuts[0]), seed).unwrap();
        let mut lookup = KeyLookup::new(Arc::new(index), &all).unwrap();
        let pieces = [slice(&all, cuts[0], cuts[1]), slice(&all, cuts[1], cuts[2])];
        let extension = KeyExtension::build(&lookup, &pieces, seed).unwrap();
        lookup.extend(Arc::new(extension)).unwrap();
        let last = KeyExtension::build(&lookup, &[slice(&all, cuts[2], rows.len())], !seed).unwrap();
        lookup.extend(Arc::new(last)).unwrap();
        prop_assert_eq!(lookup.rows() as usize, rows.len());
        let end = end.min(rows.len()) as u32;
        let visible = match deleted {
            Some(deleted) => Visible::without(end, BooleanBuffer::from(deleted)),
            None => Visible::before(end),
        };
        let keys = [probes.iter().map(|(key, _)| Some(*key)).collect(), probes.iter().map(|(_, key)| *key).collect()];
        let mut found = Vec::new();
        lookup.find(&arrays(&keys, &types), &visible, &mut found).unwrap();
        let expected: Vec<u32> =
            probes.iter().map(|(one, other)| last_row(&columns, &[Some(*one), *other], &visible)).collect();
        prop_assert_eq!(found, expected);
        for (one, other) in &probes {
            let is_row = |(_, key): &(u32, &(Option<i64>, Option<i64>))| *key == &(Some(*one), *other) && other.is_some();
            let rows = (0_u32..).zip(&rows).filter(is_row).map(|(row, _)| row);
            let expected: Vec<u32> = rows.filter(|row| visible.is_visible(*row)).collect();
            let key = arrays(&[vec![Some(*one)], vec![*other]], &types);
            prop_assert_eq!(lookup.find_all(&key, &visible).unwrap(), expected);
        }
        let mut distinct: Vec<_> = rows.iter().filter(|(one, other)| one.is_some() && other.is_some()).collect();
        let keys = distinct.len();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(lookup.is_unique(), distinct.len() == keys);
    }
}
