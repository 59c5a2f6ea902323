//! Orders against a stable sort of plain values.

use super::*;
use crate::fold::Ids;
use crate::testing::{columns, datum, some_rows};
use arrow_array::{Int32Array, Int64Array, StringArray};
use proptest::prelude::*;
use std::sync::Arc;

fn keys(count: std::ops::Range<usize>, rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<SortKey>> {
    columns(count, rows).prop_flat_map(|columns| {
        let flags = prop::collection::vec((any::<bool>(), any::<bool>()), columns.len());
        (Just(columns), flags).prop_map(|(columns, flags)| {
            let key = |(array, (descending, nulls_first))| SortKey { array, descending, nulls_first };
            columns.into_iter().zip(flags).map(key).collect()
        })
    })
}

fn compare(keys: &[SortKey], one: u32, other: u32) -> Ordering {
    for key in keys {
        let order = match (datum(&key.array, one as usize), datum(&key.array, other as usize)) {
            (Some(one), Some(other)) if key.descending => other.cmp(&one),
            (Some(one), Some(other)) => one.cmp(&other),
            (one, other) if key.nulls_first => one.is_some().cmp(&other.is_some()),
            (one, other) => one.is_none().cmp(&other.is_none()),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn sorted(keys: &[SortKey], rows: Rows<'_>) -> Vec<u32> {
    let mut rows: Vec<u32> = rows.iter().collect();
    rows.sort_by(|one, other| compare(keys, *one, *other));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rows_are_sorted(
        (keys, rows) in keys(1..6, 1..150).prop_flat_map(|keys| {
            let rows = keys[0].array.len();
            (Just(keys), some_rows(rows))
        }),
        limit in 0..20_usize,
    ) {
        let rows = rows.rows();
        prop_assert_eq!(sort(&keys, rows).unwrap(), sorted(&keys, rows));
        // The first rows do not depend on the order in which rows come, or on how they are shared
        // out.
        let mut once: Vec<u32> = rows.iter().collect();
        once.sort_unstable();
        once.dedup();
        let expected: Vec<u32> = sorted(&keys, Rows::List(&once)).into_iter().take(limit).collect();
        let (mut one, mut other) = (Top::new(&keys, limit).unwrap(), Top::new(&keys, limit).unwrap());
        let half = once.len() / 2;
        other.push(Rows::List(&once[..half])).unwrap();
        once[half..].reverse();
        one.push(Rows::List(&once[half..])).unwrap();
        one.merge(other.pause()).unwrap();
        let one = Top::resume(&keys, limit, one.pause()).unwrap();
        prop_assert_eq!(one.finish().unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn many_rows_are_sorted_by_radix(
        keys in keys(1..4, 1_500..2_500),
        seed: u64,
        spread in 0..64_u32,
        limit in 1..50_usize,
    ) {
        let rows = keys[0].array.len() as u32;
        let random = (0..rows as u64).map(|row| ((row ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> spread) as i64);
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(random));
        for with_number in [vec![], vec![SortKey { array, descending: seed % 2 == 0, nulls_first: false }]] {
            let keys: Vec<SortKey> = with_number.into_iter().chain(keys.clone()).collect();
            let expected = sorted(&keys, Rows::Range(0, rows));
            prop_assert_eq!(&sort(&keys, Rows::Range(0, rows)).unwrap(), &expected);
            let mut top = Top::new(&keys, limit).unwrap();
            for start in (0..rows).step_by(700) {
                top.push(Rows::Range(start, rows.min(start + 700))).unwrap();
            }
            prop_assert_eq!(&top.finish().unwrap()[..], &expected[..limit]);
        }
    }
}

#[test]
fn strings_with_a_common_beginning_are_told_apart() {
    let texts: Vec<String> =
        (0..3_000).map(|row: u64| format!("https://example.org/{:016}", row * 7_919 % 3_001)).collect();
    let array: ArrayRef = Arc::new(StringArray::from(texts));
    let keys = [SortKey { array, descending: true, nulls_first: false }];
    assert_eq!(sort(&keys, Rows::Range(0, 3_000)).unwrap(), sorted(&keys, Rows::Range(0, 3_000)));
}

#[test]
fn rows_without_keys_stay_as_they_are() {
    assert_eq!(sort(&[], Rows::List(&[2, 0])).unwrap(), [2, 0]);
    assert!(Top::new(&[], 1).is_err());
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let keys = [SortKey { array, descending: false, nulls_first: false }];
    assert_eq!(sort(&keys, Rows::Range(0, 0)).unwrap(), [0; 0]);
    assert!(sort(&keys, Rows::List(&[1])).is_err());
    assert!(Top::new(&keys, 1).unwrap().push(Rows::List(&[1])).is_err());
}

#[test]
fn threads_sort_as_one_does() {
    let rows = 70_000_u32;
    let random = |row: u32, of: u64| (u64::from(row) ^ of).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let numbers = |bits: u32, of: u64| -> ArrayRef {
        let number = |row| (row % 17 != 0).then(|| (random(row, of) >> (44 - bits)) as i64);
        Arc::new(Int64Array::from_iter((0..rows).map(number)))
    };
    let texts = (0..rows).map(|row| format!("a common beginning {}", random(row, 5) % 50_000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let key =
        |array: &ArrayRef, descending| SortKey { array: array.clone(), descending, nulls_first: descending };
    let (few, many, all) = (numbers(1, 1), numbers(17, 2), numbers(44, 3));
    // One of them is larger than all others by far, so that the others have one first digit.
    let skewed =
        (0..rows).map(|row| if row == 7 { i64::MAX / 2 } else { (random(row, 9) % 1_000_000) as i64 });
    let skewed: ArrayRef = Arc::new(Int64Array::from_iter_values(skewed));
    for keys in [
        vec![key(&few, false)],
        vec![key(&many, true), key(&few, false)],
        vec![key(&all, false), key(&many, true), key(&skewed, false)],
        vec![key(&skewed, true)],
        vec![key(&few, true), key(&texts, false), key(&all, false)],
    ] {
        let of =
            |threads| sort_with(&keys, Rows::Range(0, rows), &Work { threads, go_on: &|| Ok(()) }).unwrap();
        let (found, by_one) = (of(3), of(1));
        assert!(found == by_one);
        let is_before = |one: u32, other: u32| compare(&keys, one, other).then(one.cmp(&other)).is_lt();
        assert!(found.windows(2).all(|pair| is_before(pair[0], pair[1])));
        assert_eq!(found.len(), rows as usize);
        let ended = Work { threads: 2, go_on: &|| Err(Error::Ended) };
        assert!(matches!(sort_with(&keys, Rows::Range(0, rows), &ended), Err(Error::Ended)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn first_rows_of_groups(
        (keys, rows) in keys(1..4, 1..80).prop_flat_map(|keys| {
            let rows = keys[0].array.len();
            (Just(keys), some_rows(rows))
        }),
        groups in 1..6_u32,
    ) {
        let rows: Vec<u32> = rows.rows().iter().collect();
        let ids: Vec<u32> = rows.iter().map(|row| row.wrapping_mul(7) % groups).collect();
        let (mut one, mut other) = (Firsts::default(), Firsts::default());
        one.grow(groups as usize);
        other.grow(groups as usize);
        let half = rows.len() / 2;
        one.push(&keys, Rows::List(&rows[half..]), Ids::Each(&ids[half..])).unwrap();
        other.push(&keys, Rows::List(&rows[..half]), Ids::Each(&ids[..half])).unwrap();
        one.merge(&keys, &other, &(0..groups).collect::<Vec<_>>()).unwrap();
        for group in 0..groups {
            let of_group = rows.iter().zip(&ids).filter(|(_, id)| **id == group).map(|(row, _)| *row);
            let first = of_group.min_by(|one, other| compare(&keys, *one, *other).then(one.cmp(other)));
            prop_assert_eq!(one.rows()[group as usize], first.unwrap_or(crate::NO_POSITION));
        }
    }
}
