//! Join and reverse indexes, imprints and orders against a search through all rows.

use crate::common::{TYPES, Type, array, last_row, values, visible};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, LargeStringArray};
use arrow_buffer::BooleanBuffer;
use hypostyle_index::{
    IMPRINT_ROWS, Imprint, JoinIndex, JoinLookup, KeyExtension, KeyIndex, KeyLookup, OrderIndex, OrderLookup,
    ReverseIndex, ReverseLookup, Visible,
};
use proptest::prelude::*;
use std::ops::Bound;
use std::sync::Arc;

proptest! {
    /// An index is built at one time; rows of both tables come and go until it is read.
    #[test]
    fn rows_that_are_referred_to_are_followed_at_any_time(
        keys in prop::collection::vec(prop::option::weighted(0.9, 0..40_i64), 1..80),
        references in prop::collection::vec(prop::option::weighted(0.9, 0..40_i64), 0..80),
        cuts in prop::array::uniform2(0..80_usize),
        read in visible(80),
        readers in visible(80),
        is_text: bool,
    ) {
        let of = if is_text { Type::Text } else { Type::Int64 };
        let (key, reference) = ([array(&keys, of)], [array(&references, of)]);
        let cut = cuts[0].min(keys.len());
        let index = KeyIndex::build(&[key[0].slice(0, cut)], 5).unwrap();
        let lookup = KeyLookup::new(Arc::new(index), &key).unwrap();
        let known = cuts[1].min(references.len());
        let join = Arc::new(JoinIndex::build(&lookup, &[reference[0].slice(0, known)]).unwrap());
        let mut grown = lookup;
        let rest = KeyExtension::build(&grown, &[vec![key[0].slice(cut, keys.len() - cut)]], 9).unwrap();
        grown.extend(Arc::new(rest)).unwrap();
        let read = Visible::without(read.end().min(keys.len() as u32), deleted(&read));
        // The last rows are in a piece of their own.
        let middle = known.max(references.len() / 2);
        let pieces = [vec![reference[0].slice(0, middle)], vec![reference[0].slice(middle, references.len() - middle)]];
        let join_lookup = JoinLookup::new(join.clone(), &pieces, grown).unwrap();
        prop_assert_eq!(join_lookup.rows() as usize, references.len());
        let expected: Vec<u32> =
            references.iter().map(|value| last_row(std::slice::from_ref(&keys), &[*value], &read)).collect();
        let mut found = vec![3];
        let rows: Vec<u32> = (0..references.len() as u32).rev().collect();
        join_lookup.follow(&rows, &read, &mut found).unwrap();
        found[1..].reverse();
        // A key that several visible rows have is none.
        let is_unique = is_unique_among(&keys, &read);
        if is_unique {
            prop_assert_eq!(&found[1..], &expected);
            if let Some(all) = join_lookup.all(&read) {
                prop_assert_eq!(all, &expected);
            }
        }
        let reverse = Arc::new(ReverseIndex::build(&join));
        if let Some(mut reverse) = ReverseLookup::new(reverse, join_lookup.keys(), &read) {
            reverse.extend(&found[1 + known..]);
            let readers = Visible::without(readers.end().min(references.len() as u32), deleted(&readers));
            let referenced: Vec<u32> = (0..read.end()).filter(|row| read.is_visible(*row)).collect();
            let (mut places, mut rows) = (Vec::new(), Vec::new());
            reverse.expand(&referenced, &readers, &mut places, &mut rows).unwrap();
            let mut pairs = Vec::new();
            for (place, id) in (0..).zip(&referenced) {
                for (row, found) in (0..).zip(&expected) {
                    if found == id && readers.is_visible(row) {
                        pairs.push((place, row));
                    }
                }
            }
            prop_assert_eq!(places.into_iter().zip(rows).collect::<Vec<_>>(), pairs);
        }
    }

    #[test]
    fn an_order_finds_ranges_as_a_search_does(
        (values, visible) in values().prop_flat_map(|values| (visible(values.len()), Just(values)).prop_map(|(visible, values)| (values, visible))),
        cut in 0..120_usize,
        low in (0..3, prop::option::weighted(0.95, -128..128_i64)),
        high in (0..3, prop::option::weighted(0.95, -128..128_i64)),
        of in prop::sample::select(TYPES.to_vec()),
    ) {
        let all = array(&values, of);
        let cut = cut.min(values.len());
        let first = OrderIndex::build(&all.slice(0, cut)).unwrap();
        let mut lookup = OrderLookup::new(Arc::new(first), &all).unwrap();
        let rest = all.slice(cut, values.len() - cut);
        lookup.extend(Arc::new(OrderIndex::build(&rest).unwrap()), &rest).unwrap();
        let (low_array, high_array) = (array(&[low.1], of), array(&[high.1], of));
        let mut found = Vec::new();
        lookup.range(bound(low.0, &low_array), bound(high.0, &high_array), &visible, &mut found).unwrap();
        let lies_within = |value: i64| {
            let is_above = match (low.0, low.1) {
                (0, _) => true,
                (1, Some(low)) => low <= value,
                (_, low) => low.is_some_and(|low| low < value),
            };
            let is_below = match (high.0, high.1) {
                (0, _) => true,
                (1, Some(high)) => value <= high,
                (_, high) => high.is_some_and(|high| value < high),
            };
            is_above && is_below
        };
        let of_rows = |rows: std::ops::Range<usize>| {
            let is_found = |row: &u32| visible.is_visible(*row) && values[*row as usize].is_some_and(lies_within);
            let mut rows: Vec<u32> = (rows.start as u32..rows.end as u32).filter(is_found).collect();
            rows.sort_by_key(|row| values[*row as usize]);
            rows
        };
        let null_bound = (low.0 > 0 && low.1.is_none()) || (high.0 > 0 && high.1.is_none());
        let expected = if null_bound { Vec::new() } else { [of_rows(0..cut), of_rows(cut..values.len())].concat() };
        prop_assert_eq!(found, expected);
    }
}

/// The bits of a reader.
fn deleted(visible: &Visible) -> BooleanBuffer {
    BooleanBuffer::collect_bool(80, |row| (row as u32) < visible.end() && !visible.is_visible(row as u32))
}

fn is_unique_among(keys: &[Option<i64>], visible: &Visible) -> bool {
    let rows = (0..keys.len()).filter(|row| visible.is_visible(*row as u32));
    let mut seen: Vec<i64> = rows.filter_map(|row| keys[row]).collect();
    let count = seen.len();
    seen.sort();
    seen.dedup();
    seen.len() == count
}

fn bound(kind: i32, value: &ArrayRef) -> Bound<&ArrayRef> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(value),
        _ => Bound::Excluded(value),
    }
}

fn one(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

#[test]
fn an_imprint_leaves_out_no_run_that_has_a_value() {
    let rows = 5 * IMPRINT_ROWS as i64 + 100;
    for scatter in [1, 7919, 104_729] {
        let values: Vec<i64> = (0..rows).map(|row| row * scatter % 20_011).collect();
        let column: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let imprint = Imprint::build(&column).unwrap();
        assert_eq!(imprint.rows(), rows as u32);
        let mut left_out = 0;
        for low in (0..20_011).step_by(97) {
            let high = low + 40;
            let mask = imprint.range(Some(&one(low)), Some(&one(high))).unwrap();
            // Some more have come since.
            let runs = imprint.may_have(mask, rows as u32 + 5000);
            assert_eq!(runs.len(), 8);
            for (run, values) in values.chunks(IMPRINT_ROWS as usize).enumerate() {
                let has = values.iter().any(|value| (low..=high).contains(value));
                assert!(runs.value(run) || !has, "{low} in run {run}");
            }
            assert!(runs.value(5) && runs.value(6) && runs.value(7));
            left_out += runs.len() - runs.count_set_bits();
            let equal = imprint.may_have(imprint.values(&one(low)).unwrap(), rows as u32);
            for (run, values) in values.chunks(IMPRINT_ROWS as usize).enumerate() {
                assert!(equal.value(run) || !values.contains(&low));
            }
        }
        assert_eq!(left_out > 500, scatter == 1, "{left_out} runs are left out");
    }
}

#[test]
fn an_imprint_knows_bounds_that_are_open_empty_or_null() {
    let column: ArrayRef = Arc::new(LargeStringArray::from(vec![Some("b"), None, Some("d"), Some("f")]));
    let imprint = Imprint::build(&column).unwrap();
    let text = |text: Option<&str>| Arc::new(LargeStringArray::from(vec![text])) as ArrayRef;
    let has = |low: Option<&str>, high: Option<&str>| {
        let (low, high) = (low.map(|low| text(Some(low))), high.map(|high| text(Some(high))));
        imprint.may_have(imprint.range(low.as_ref(), high.as_ref()).unwrap(), 4).value(0)
    };
    assert!(has(None, None) && has(Some("c"), Some("e")) && has(None, Some("b")) && has(Some("f"), None));
    assert!(!has(Some("e"), Some("c")));
    assert_eq!(imprint.range(Some(&text(None)), None).unwrap(), 0);
    assert_eq!(imprint.values(&text(None)).unwrap(), 0);
    assert!(imprint.range(Some(&one(1)), None).is_err());
    let few: ArrayRef = Arc::new(Int64Array::from(vec![5; 9]));
    let imprint = Imprint::build(&few).unwrap();
    assert!(imprint.may_have(imprint.values(&one(5)).unwrap(), 9).value(0));
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert_eq!(Imprint::build(&none).unwrap().may_have(u64::MAX, 0).len(), 0);
}

#[test]
fn floats_are_ordered_with_one_zero_and_nan_last() {
    let values = vec![f64::NAN, 1.5, -0.0, f64::NEG_INFINITY, 0.0, -2.0, f64::INFINITY];
    let column: ArrayRef = Arc::new(Float64Array::from(values));
    let lookup = OrderLookup::new(Arc::new(OrderIndex::build(&column).unwrap()), &column).unwrap();
    let range = |low: Bound<f64>, high: Bound<f64>| {
        let array = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let (low, high) = (low.map(array), high.map(array));
        let mut found = Vec::new();
        lookup.range(low.as_ref(), high.as_ref(), &Visible::before(7), &mut found).unwrap();
        found
    };
    assert_eq!(range(Bound::Unbounded, Bound::Unbounded), [3, 5, 2, 4, 1, 6, 0]);
    assert_eq!(range(Bound::Included(0.0), Bound::Included(-0.0)), [2, 4]);
    assert_eq!(range(Bound::Excluded(0.0), Bound::Unbounded), [1, 6, 0]);
    assert_eq!(range(Bound::Included(2.0), Bound::Included(1.0)), [] as [u32; 0]);
}

#[test]
fn an_order_refuses_rows_and_bounds_that_are_not_its_own() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![3, 1]));
    let index = Arc::new(OrderIndex::build(&column).unwrap());
    assert!(OrderLookup::new(index.clone(), &column.slice(0, 1)).is_err());
    let lookup = OrderLookup::new(index, &column).unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let mut found = Vec::new();
    assert!(lookup.range(everything.0, everything.1, &Visible::before(3), &mut found).is_err());
    let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["a"]));
    let wrong = lookup.range(Bound::Included(&text), Bound::Unbounded, &Visible::before(2), &mut found);
    assert!(wrong.is_err() && found.is_empty());
}
