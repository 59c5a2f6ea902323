//! Groups against a map from rows of plain values.

use super::*;
use crate::testing::{Datum, column_of, columns, datum, row, some_rows};
use crate::{Error, NO_POSITION};
use arrow_array::types::Int8Type;
use arrow_array::{Array, BooleanArray, Date32Array, DictionaryArray, Int8Array, Int64Array, StringArray};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Checks that ids tell rows with different keys apart, and no others, and that their keys are
/// right.
fn check(groups: &mut dyn Groups, keys: &[ArrayRef], rows: Rows<'_>) -> Result<(), TestCaseError> {
    let read: Vec<Column<'_>> = keys.iter().map(|key| Column::new(key, rows).unwrap()).collect();
    let mut ids = Vec::new();
    groups.ids(&read, &mut ids).unwrap();
    prop_assert_eq!(ids.len(), rows.len());
    let mut by_key: HashMap<Vec<Option<Datum>>, u32> = HashMap::new();
    let mut by_id = HashMap::new();
    for (id, place) in ids.iter().zip(rows.iter()) {
        let key = row(keys, place as usize);
        prop_assert!((*id as usize) < groups.len());
        prop_assert_eq!(by_key.entry(key.clone()).or_insert(*id), id);
        prop_assert_eq!(&*by_id.entry(*id).or_insert(key.clone()), &key);
    }
    let found = groups.keys(Rows::List(&ids)).unwrap();
    for (place, position) in rows.iter().enumerate() {
        prop_assert_eq!(row(&found, place), row(keys, position as usize));
    }
    Ok(())
}

/// Returns the least and the greatest value of a column, unless it has none.
fn bounds(array: &ArrayRef) -> Option<ArrayRef> {
    let valid: Vec<u32> = (0..array.len() as u32).filter(|row| array.is_valid(*row as usize)).collect();
    let key = |descending| crate::order::SortKey { array: array.clone(), descending, nulls_first: false };
    let least = *crate::order::sort(&[key(false)], Rows::List(&valid)).unwrap().first()?;
    let greatest = *crate::order::sort(&[key(true)], Rows::List(&valid)).unwrap().first()?;
    Some(crate::gather::gather(array, Rows::List(&[least, greatest])).unwrap())
}

/// Makes one of the domains that a column may have, if it is small.
fn domain(array: &ArrayRef) -> Option<Domain> {
    let nullable = array.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0);
    if let DataType::Dictionary(..) = array.data_type() {
        return Some(
            Domain::of_dictionary(arrow_array::cast::AsArray::as_any_dictionary(array).values(), nullable)
                .unwrap(),
        );
    }
    let bounds = bounds(array)?;
    Domain::between(&bounds, nullable).ok()
}

use arrow_schema::DataType;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn dense_groups_are_groups(
        (keys, rows) in columns(1..2, 1..150).prop_flat_map(|keys| {
            let rows = keys[0].len();
            (Just(keys), some_rows(rows))
        }),
    ) {
        if let Some(Ok(mut groups)) = bounds(&keys[0]).map(|bounds| DenseGroups::new(&bounds)) {
            check(&mut groups, &keys, rows.rows())?;
        }
    }

    #[test]
    fn hash_groups_are_groups(
        (keys, rows) in columns(1..5, 1..150).prop_flat_map(|keys| {
            let rows = keys[0].len();
            (Just(keys), some_rows(rows))
        }),
    ) {
        let types: Vec<_> = keys.iter().map(|key| (key.data_type().clone(), true)).collect();
        let mut groups = HashGroups::new(&types).unwrap();
        check(&mut groups, &keys, rows.rows())?;
        check(&mut groups, &keys, Rows::Range(0, keys[0].len() as u32))?;
    }

    #[test]
    fn domain_groups_are_groups(
        seeds in prop::collection::vec((any::<u64>(), prop::bool::weighted(0.8)), 1..150),
        kinds in prop::collection::vec(prop::sample::select(vec![0_usize, 4, 14, 19, 20, 21, 22]), 1..4),
        turn in 0..64_u32,
    ) {
        let turned = |by: usize| -> Vec<(u64, bool)> {
            seeds.iter().map(|(seed, valid)| (seed.rotate_left(turn * by as u32), *valid)).collect()
        };
        let keys: Vec<ArrayRef> =
            kinds.iter().enumerate().map(|(place, kind)| column_of(*kind, &turned(place))).collect();
        let Some(domains) = keys.iter().map(domain).collect::<Option<Vec<_>>>() else { return Ok(()) };
        let Ok(mut groups) = DomainGroups::new(domains) else { return Ok(()) };
        check(&mut groups, &keys, Rows::Range(0, seeds.len() as u32))?;
        let reversed: Vec<u32> = (0..seeds.len() as u32).rev().collect();
        check(&mut groups, &keys, Rows::List(&reversed))?;
    }
}

#[test]
fn expressions_are_decided_once_for_each_value() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(10), Some(13), None, Some(12)]));
    let bounds: ArrayRef = Arc::new(Date32Array::from(vec![10, 13]));
    let domain = Domain::between(&bounds, true).unwrap();
    assert_eq!(domain.values().len(), 5);
    // Whether the day is even; NULL counts as odd here.
    let results: ArrayRef = Arc::new(BooleanArray::from_iter((0..5).map(|place| {
        datum(domain.values(), place)
            .map_or(Some(false), |day| Some(day != Datum::Integer(11) && day != Datum::Integer(13)))
    })));
    let mut groups = DomainGroups::new(vec![domain.decided(&results).unwrap()]).unwrap();
    let mut ids = Vec::new();
    groups.ids(&[Column::all(&dates).unwrap()], &mut ids).unwrap();
    assert_eq!((groups.len(), ids[0] == ids[3], ids[1] == ids[2], ids[0] == ids[1]), (2, true, true, false));
    let keys = groups.keys(Rows::List(&ids[..2])).unwrap();
    assert_eq!((datum(&keys[0], 0), datum(&keys[0], 1)), (Some(Datum::Integer(1)), Some(Datum::Integer(0))));
}

#[test]
fn what_is_outside_of_a_domain_is_an_error() {
    let bounds: ArrayRef = Arc::new(Int64Array::from(vec![5, 7]));
    let mut groups = DomainGroups::new(vec![Domain::between(&bounds, false).unwrap()]).unwrap();
    let mut ids = Vec::new();
    for values in [vec![Some(4)], vec![Some(8)], vec![Some(i64::MIN)], vec![None]] {
        let array = Int64Array::from(values);
        assert!(matches!(groups.ids(&[Column::all(&array).unwrap()], &mut ids), Err(Error::OutsideDomain)));
    }
    let dictionary = |values: Vec<&str>, codes: Vec<i8>| -> ArrayRef {
        Arc::new(DictionaryArray::<Int8Type>::new(
            Int8Array::from(codes),
            Arc::new(StringArray::from(values)),
        ))
    };
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let mut groups = DomainGroups::new(vec![Domain::of_dictionary(&values, false).unwrap()]).unwrap();
    // Another dictionary with the same values in another order is of the domain, a new value is
    // not.
    let other = dictionary(vec!["c", "b", "a"], vec![2, 1]);
    groups.ids(&[Column::all(&other).unwrap()], &mut ids).unwrap();
    assert_eq!(ids, [0, 1]);
    let new = dictionary(vec!["c", "b", "a"], vec![2, 0]);
    assert!(groups.ids(&[Column::all(&new).unwrap()], &mut ids).is_err());
}

#[test]
fn domains_have_limits() {
    let bounds = |low, high| -> ArrayRef { Arc::new(Int64Array::from(vec![low, high])) };
    assert!(Domain::between(&bounds(0, 65_535), false).is_ok());
    assert!(Domain::between(&bounds(0, 65_536), false).is_err());
    assert!(Domain::between(&bounds(i64::MIN, i64::MAX), false).is_err());
    assert!(Domain::between(&bounds(1, 0), false).is_err());
    let domains = |nullable| (0..2).map(|_| Domain::between(&bounds(0, 255), nullable).unwrap()).collect();
    assert_eq!(DomainGroups::new(domains(false)).unwrap().len(), 65_536);
    assert!(DomainGroups::new(domains(true)).is_err());
}

#[test]
fn rows_are_groups() {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let mut groups = RowGroups::new(vec![names.clone()]).unwrap();
    let mut ids = Vec::new();
    let rows = Rows::List(&[2, NO_POSITION, 0]);
    groups.ids(&[Column { array: &names, rows }], &mut ids).unwrap();
    assert_eq!((groups.len(), &ids[..]), (4, &[2, 3, 0][..]));
    let keys = groups.keys(Rows::List(&ids)).unwrap();
    let texts: Vec<_> = (0..3).map(|place| datum(&keys[0], place)).collect();
    assert_eq!(texts, [Some(Datum::Text(b"c".into())), None, Some(Datum::Text(b"a".into()))]);
    assert!(groups.ids(&[Column { array: &names, rows: Rows::List(&[4]) }], &mut ids).is_err());
}

#[test]
fn dense_groups_refuse_what_lies_outside_of_their_bounds() {
    let bounds: ArrayRef = Arc::new(Int64Array::from(vec![-3, 5]));
    let mut groups = DenseGroups::new(&bounds).unwrap();
    let mut ids = Vec::new();
    let inside = Int64Array::from(vec![Some(5), None, Some(-3), Some(5)]);
    groups.ids(&[Column::all(&inside).unwrap()], &mut ids).unwrap();
    assert_eq!((ids.as_slice(), groups.len()), ([0, 1, 2, 0].as_slice(), 3));
    for outside in [-4, 6, i64::MIN] {
        let array = Int64Array::from(vec![outside]);
        let error = groups.ids(&[Column::all(&array).unwrap()], &mut ids).unwrap_err();
        assert!(matches!(error, Error::OutsideDomain), "{error}");
    }
    let far: ArrayRef = Arc::new(Int64Array::from(vec![0, 1 << 40]));
    assert!(DenseGroups::new(&far).is_err());
}
