//! Window functions against loops over each row's partition.

use super::*;
use crate::gather::gather_or_null;
use crate::order::{SortKey, sort};
use crate::testing::{Datum, columns, datum, row};
use arrow_array::Float64Array;
use arrow_schema::DataType;
use proptest::prelude::*;

const WORK: Work<'_> = Work { threads: 3, ..Work::ALONE };

/// Returns the sum of the rows of its partition that are not behind a row.
fn running_sum(array: &dyn Array, sorted: &[u32], partitions: &Runs, result: &DataType) -> Result<ArrayRef> {
    let frames = Frames::new(partitions, partitions, Bound::Partition, Bound::Row(0), &WORK)?;
    frames.sum(array, sorted, partitions, result, &WORK)
}

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
    let partitions = Runs::new(&columns[..1], &sorted, None, &WORK).unwrap();
    let peers = Runs::new(&columns[1..2], &sorted, Some(&partitions), &WORK).unwrap();
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
        prop_assert_eq!(rank(&case.partitions, &case.peers, &WORK).unwrap(), ranks.collect::<Vec<_>>());
        let dense = case.before.iter().map(|places| {
            let changes = places.clone().skip(1).filter(|place| key(*place) != key(*place - 1));
            changes.count() as u64 + 1
        });
        prop_assert_eq!(dense_rank(&case.partitions, &case.peers, &WORK).unwrap(), dense.collect::<Vec<_>>());
        let last: Vec<u32> = case.with_peers.iter().map(|places| places.end as u32 - 1).collect();
        prop_assert_eq!(case.peers.last_places(&WORK).unwrap(), last);
        let ids = case.partitions.ids(&WORK).unwrap();
        let lagged: Vec<u32> = (0..ids.len() as i64)
            .map(|place| match usize::try_from(place - offset).ok().filter(|other| *other < ids.len()) {
                Some(other) if ids[other] == ids[place as usize] => case.sorted[other],
                _ => NO_POSITION,
            })
            .collect();
        prop_assert_eq!(lag(&case.sorted, &case.partitions, offset).unwrap(), lagged);
        let scattered = scattered(&ids, &case.sorted, &WORK).unwrap();
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
    let partitions = Runs::new(&keys, &sorted, None, &WORK).unwrap();
    assert_eq!((partitions.len(), partitions.rows()), (2, 4));
    let found = running_sum(&array, &sorted, &partitions, &DataType::Float64).unwrap();
    let expected = [None, Some(1.5), Some(3.5), Some(4.0)].map(|sum| sum.map(Datum::Float));
    assert_eq!(data(&found), expected);
}

#[test]
fn wrong_inputs_are_refused() {
    let array = Float64Array::from(vec![1.0]);
    let partitions = Runs::new(&[], &[0], None, &WORK).unwrap();
    assert!(Runs::new(&[], &[0, 0], Some(&partitions), &WORK).is_err());
    assert!(Runs::new(&[std::sync::Arc::new(array.clone())], &[1], None, &WORK).is_err());
    assert!(lag(&[0, 0], &partitions, 1).is_err());
    let frames = Frames::new(&partitions, &partitions, Bound::Partition, Bound::Partition, &WORK).unwrap();
    assert!(frames.count(&array, &[1]).is_err() && frames.last(&[0, 0]).is_err());
    assert!(
        Frames::new(
            &partitions,
            &Runs::new(&[], &[0, 0], None, &WORK).unwrap(),
            Bound::Row(0),
            Bound::Row(0),
            &WORK
        )
        .is_err()
    );
    assert!(running_sum(&array, &[0], &partitions, &DataType::Int64).is_err());
    assert!(scattered(&[1], &[1], &WORK).is_err());
}

/// A bound, and the place where it begins or ends a frame.
fn bounds() -> impl Strategy<Value = (Bound, Bound)> {
    let bound = || prop_oneof![Just(Bound::Partition), Just(Bound::Peers), (-4..5_i64).prop_map(Bound::Row)];
    (bound(), bound())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn functions_over_frames(columns in columns(3..4, 0..60), (start, end) in bounds(), number in 0..4_u64) {
        let case = case(&columns);
        let rows = case.sorted.len();
        let key = |place: usize, count: usize| row(&columns[..count], case.sorted[place] as usize);
        let array = &columns[2];
        let frames = Frames::new(&case.partitions, &case.peers, start, end, &WORK).unwrap();
        // The places of each frame, found by looking at all rows.
        let expected: Vec<Vec<usize>> = (0..rows)
            .map(|place| {
                let is_in = |other: &usize| {
                    let distance = *other as i64 - place as i64;
                    let is_peer = key(*other, 2) == key(place, 2);
                    let from = match start {
                        Bound::Partition => true,
                        Bound::Peers => distance >= 0 || is_peer,
                        Bound::Row(offset) => distance >= offset,
                    };
                    let to = match end {
                        Bound::Partition => true,
                        Bound::Peers => distance <= 0 || is_peer,
                        Bound::Row(offset) => distance <= offset,
                    };
                    key(*other, 1) == key(place, 1) && from && to
                };
                (0..rows).filter(is_in).collect()
            })
            .collect();
        let position = |place: Option<&usize>| place.map_or(NO_POSITION, |place| case.sorted[*place]);
        let nth: Vec<u32> = expected.iter().map(|own| position(own.get(number as usize))).collect();
        prop_assert_eq!(frames.from_first(&case.sorted, number).unwrap(), nth);
        let last: Vec<u32> = expected.iter().map(|own| position(own.last())).collect();
        prop_assert_eq!(frames.last(&case.sorted).unwrap(), last);
        let values: Vec<Vec<Datum>> = expected
            .iter()
            .map(|own| own.iter().filter_map(|place| datum(array, case.sorted[*place] as usize)).collect())
            .collect();
        let counts: Vec<i64> = values.iter().map(|own| own.len() as i64).collect();
        prop_assert_eq!(frames.count(array, &case.sorted).unwrap(), counts);
        let sizes: Vec<i64> = expected.iter().map(|own| own.len() as i64).collect();
        prop_assert_eq!(frames.sizes(), sizes);
        for greatest in [false, true] {
            let found = frames.extreme(array, &case.sorted, greatest).unwrap();
            let expected: Vec<_> = values
                .iter()
                .map(|own| if greatest { own.iter().max().cloned() } else { own.iter().min().cloned() })
                .collect();
            prop_assert_eq!(data(&gather_or_null(array, &found).unwrap()), expected);
        }
        if array.data_type().is_integer() {
            let result = DataType::Decimal128(38, 0);
            let found = frames.sum(array, &case.sorted, &case.partitions, &result, &WORK).unwrap();
            let sum = |own: &Vec<Datum>| {
                let parts = own.iter().map(|value| if let Datum::Integer(value) = value { *value } else { 0 });
                (!own.is_empty()).then(|| Datum::Integer(parts.sum()))
            };
            prop_assert_eq!(data(&found), values.iter().map(sum).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shares_of_partitions(columns in columns(2..3, 0..60), buckets in 1..9_u64) {
        let case = case(&columns);
        let tiles = ntile(&case.partitions, buckets);
        let (percents, shares) =
            (percent_rank(&case.partitions, &case.peers, &WORK).unwrap(), cume_dist(&case.partitions, &case.peers, &WORK).unwrap());
        let ranks = rank(&case.partitions, &case.peers, &WORK).unwrap();
        for partition in case.partitions.iter() {
            let rows = partition.len();
            let own = &tiles[partition.clone()];
            prop_assert!(own.is_sorted() && own.first() == Some(&1));
            let sizes: Vec<usize> =
                (1..=buckets).map(|tile| own.iter().filter(|own| **own == tile).count()).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), rows);
            prop_assert!(sizes.windows(2).all(|pair| pair[0] == pair[1] || pair[0] == pair[1] + 1));
            prop_assert!(sizes[0] - sizes[sizes.len() - 1] <= 1);
            for place in partition.clone() {
                let others = if rows > 1 { (rows - 1) as f64 } else { 1.0 };
                prop_assert_eq!(percents[place], (ranks[place] - 1) as f64 / others);
                let not_behind = (case.with_peers[place].end - partition.start) as f64;
                prop_assert_eq!(shares[place], not_behind / rows as f64);
            }
        }
    }
}

#[test]
fn floats_of_a_frame_are_added_in_order_or_refused() {
    let array = Float64Array::from(vec![Some(1e300), None, Some(-1e300), Some(0.5)]);
    let sorted = [3, 2, 1, 0];
    let partitions = Runs::new(&[], &sorted, None, &WORK).unwrap();
    let of = |start, end| {
        let frames = Frames::new(&partitions, &partitions, start, end, &WORK).unwrap();
        frames.sum(&array, &sorted, &partitions, &DataType::Float64, &WORK)
    };
    let sums = of(Bound::Partition, Bound::Row(-1)).unwrap();
    let expected = [None, Some(0.5), Some(-1e300), Some(-1e300)].map(|sum| sum.map(Datum::Float));
    assert_eq!(data(&sums), expected);
    assert!(of(Bound::Row(-1), Bound::Row(0)).is_err());
}

#[test]
fn sums_of_frames_that_are_too_large_are_refused() {
    let array = arrow_array::Int64Array::from(vec![i64::MAX, 1, -1, 5]);
    let sorted = [0, 1, 2, 3];
    let partitions = Runs::new(&[], &sorted, None, &WORK).unwrap();
    let of = |start, end| {
        let frames = Frames::new(&partitions, &partitions, start, end, &WORK).unwrap();
        frames.sum(&array, &sorted, &partitions, &DataType::Int64, &WORK)
    };
    assert!(matches!(of(Bound::Partition, Bound::Row(0)), Err(Error::Overflow(_))));
    let sums = of(Bound::Row(2), Bound::Row(3)).unwrap();
    assert_eq!(data(&sums), [Some(4), Some(5), None, None].map(|sum| sum.map(Datum::Integer)));
}
