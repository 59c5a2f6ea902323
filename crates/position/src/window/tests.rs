//! Window functions against loops over each row's partition.

use super::*;
use crate::gather::gather_or_null;
use crate::order::{SortKey, sort};
use crate::testing::{Datum, columns, datum, row};
use arrow_array::Float64Array;
use proptest::prelude::*;

/// Sorted rows, their partitions and peers, and for each row the places of its partition up to
/// itself and up to its last peer.
struct Case {
    sorted: Vec<u32>,
    partitions: Runs,
    peers: Runs,
    before: Vec<std::ops::Range<usize>>,
    with_peers: Vec<std::ops::Range<usize>>,
}

fn case(columns: &[ArrayRef]) -> Case {
    let keys: Vec<SortKey> = columns[..2]
        .iter()
        .map(|array| SortKey { array: array.clone(), descending: false, nulls_first: false })
        .collect();
    let rows = columns[0].len();
    let sorted = sort(&keys, Rows::Range(0, rows as u32)).unwrap();
    let partitions = Runs::new(&columns[..1], &sorted, None).unwrap();
    let peers = Runs::new(&columns[1..2], &sorted, Some(&partitions)).unwrap();
    let own = |place: usize, count: usize| row(&columns[..count], sorted[place] as usize);
    let first = |place: usize| (0..=place).find(|first| own(*first, 1) == own(place, 1)).unwrap();
    let last = |place: usize| (place..rows).rev().find(|last| own(*last, 2) == own(place, 2)).unwrap();
    let before = (0..rows).map(|place| first(place)..place + 1).collect();
    let with_peers = (0..rows).map(|place| first(place)..last(place) + 1).collect();
    Case { sorted, partitions, peers, before, with_peers }
}

fn data(array: &dyn Array) -> Vec<Option<Datum>> {
    (0..array.len()).map(|row| datum(array, row)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn ranks_and_neighbours(columns in columns(3..4, 0..80), offset in -4..5_i64) {
        let case = case(&columns);
        let numbers: Vec<u64> = case.before.iter().map(|places| places.len() as u64).collect();
        prop_assert_eq!(row_number(&case.partitions), numbers);
        let key = |place: usize| row(&columns[..2], case.sorted[place] as usize);
        let ranks = case.before.iter().map(|places| {
            places.clone().filter(|place| key(*place) != key(places.end - 1)).count() as u64 + 1
        });
        prop_assert_eq!(rank(&case.partitions, &case.peers), ranks.collect::<Vec<_>>());
        let dense = case.before.iter().map(|places| {
            let changes = places.clone().skip(1).filter(|place| key(*place) != key(*place - 1));
            changes.count() as u64 + 1
        });
        prop_assert_eq!(dense_rank(&case.partitions, &case.peers), dense.collect::<Vec<_>>());
        let last: Vec<u32> = case.with_peers.iter().map(|places| places.end as u32 - 1).collect();
        prop_assert_eq!(case.peers.last_places(), last);
        let ids = case.partitions.ids();
        let lagged: Vec<u32> = (0..ids.len() as i64)
            .map(|place| match usize::try_from(place - offset).ok().filter(|other| *other < ids.len()) {
                Some(other) if ids[other] == ids[place as usize] => case.sorted[other],
                _ => NO_POSITION,
            })
            .collect();
        prop_assert_eq!(lag(&case.sorted, &case.partitions, offset).unwrap(), lagged);
        let scattered = scattered(&ids, &case.sorted).unwrap();
        for (place, position) in case.sorted.iter().enumerate() {
            prop_assert_eq!(scattered[*position as usize], ids[place]);
        }
    }

    #[test]
    fn running_results(columns in columns(3..4, 0..80)) {
        let case = case(&columns);
        let array = &columns[2];
        let values: Vec<Vec<Datum>> = case
            .before
            .iter()
            .map(|places| places.clone().filter_map(|place| datum(array, case.sorted[place] as usize)).collect())
            .collect();
        let counts: Vec<i64> = values.iter().map(|own| own.len() as i64).collect();
        prop_assert_eq!(running_count(array, &case.sorted, &case.partitions).unwrap(), counts);
        for greatest in [false, true] {
            let found = running_extreme(array, &case.sorted, &case.partitions, greatest).unwrap();
            let expected: Vec<_> = values
                .iter()
                .map(|own| if greatest { own.iter().max().cloned() } else { own.iter().min().cloned() })
                .collect();
            prop_assert_eq!(data(&gather_or_null(array, &found).unwrap()), expected);
        }
        if array.data_type().is_integer() {
            let result = DataType::Decimal128(38, 0);
            let found = running_sum(array, &case.sorted, &case.partitions, &result).unwrap();
            let sum = |own: &Vec<Datum>| {
                let parts = own.iter().map(|value| if let Datum::Integer(value) = value { *value } else { 0 });
                (!own.is_empty()).then(|| Datum::Integer(parts.sum()))
            };
            prop_assert_eq!(data(&found), values.iter().map(sum).collect::<Vec<_>>());
        }
    }
}

#[test]
fn floats_are_added_in_order() {
    let array = Float64Array::from(vec![Some(1.5), None, Some(2.0), Some(4.0)]);
    let keys: [ArrayRef; 1] = [std::sync::Arc::new(Float64Array::from(vec![0.0, -0.0, 0.0, f64::NAN]))];
    let sorted = [1, 0, 2, 3];
    let partitions = Runs::new(&keys, &sorted, None).unwrap();
    assert_eq!((partitions.len(), partitions.rows()), (2, 4));
    let found = running_sum(&array, &sorted, &partitions, &DataType::Float64).unwrap();
    let expected = [None, Some(1.5), Some(3.5), Some(4.0)].map(|sum| sum.map(Datum::Float));
    assert_eq!(data(&found), expected);
}

#[test]
fn wrong_inputs_are_refused() {
    let array = Float64Array::from(vec![1.0]);
    let partitions = Runs::new(&[], &[0], None).unwrap();
    assert!(Runs::new(&[], &[0, 0], Some(&partitions)).is_err());
    assert!(Runs::new(&[std::sync::Arc::new(array.clone())], &[1], None).is_err());
    assert!(lag(&[0, 0], &partitions, 1).is_err());
    assert!(running_count(&array, &[1], &partitions).is_err());
    assert!(running_sum(&array, &[0], &partitions, &DataType::Int64).is_err());
    assert!(scattered(&[1], &[1]).is_err());
}
