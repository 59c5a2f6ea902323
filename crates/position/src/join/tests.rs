//! Joins against a loop over all pairs.

use super::*;
use crate::testing::{Datum, row, tables};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use proptest::prelude::*;

fn all(columns: &[ArrayRef]) -> Vec<Column<'_>> {
    columns.iter().map(|column| Column::all(column).unwrap()).collect()
}

/// Makes the table of some columns, whose rows come in two pieces and have positions from 1,000 on.
fn table(columns: &[ArrayRef], nulls_equal: bool) -> JoinTable {
    let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
    let mut builder = JoinBuilder::new(&types, nulls_equal).unwrap();
    let rows = columns[0].len() as u32;
    builder.reserve(rows as usize);
    for (start, end) in [(0, rows / 2), (rows / 2, rows)] {
        let keys: Vec<Column<'_>> =
            columns.iter().map(|column| Column::new(column, Rows::Range(start, end)).unwrap()).collect();
        builder.push(&keys, Rows::Range(start + 1_000, end + 1_000)).unwrap();
    }
    builder.finish()
}

fn key(columns: &[ArrayRef], place: usize) -> Option<Vec<Datum>> {
    row(columns, place).into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn partners_are_those_of_all_pairs(
        (build, probe) in tables(1..5, 1..60),
        limit in 1..20_usize,
        nulls_equal: bool,
    ) {
        let table = table(&build, nulls_equal);
        let rows = probe[0].len();
        let partners: Vec<Vec<u32>> = (0..rows)
            .map(|place| {
                let own = row(&probe, place);
                let has_key = nulls_equal || own.iter().all(Option::is_some);
                let is_partner = |other: &usize| has_key && own == row(&build, *other);
                (0..build[0].len()).filter(is_partner).map(|row| row as u32 + 1_000).collect()
            })
            .collect();
        for outer in [false, true] {
            let mut found = table.probe(&all(&probe)).unwrap();
            let mut pairs = Pairs::default();
            let mut together: Vec<Vec<u32>> = vec![Vec::new(); rows];
            loop {
                let more = found.next_pairs(outer, limit, &mut pairs);
                prop_assert!(pairs.places.len() <= limit && pairs.places.len() == pairs.partners.len());
                prop_assert!(pairs.places.is_sorted());
                for (place, partner) in pairs.places.iter().zip(&pairs.partners) {
                    together[*place as usize].push(*partner);
                }
                if !more {
                    break;
                }
            }
            let expected: Vec<Vec<u32>> = partners
                .iter()
                .map(|own| if outer && own.is_empty() { vec![NO_POSITION] } else { own.clone() })
                .collect();
            prop_assert_eq!(together, expected);
        }
        let found = table.probe(&all(&probe)).unwrap();
        let first: Vec<u32> = partners.iter().map(|own| own.first().copied().unwrap_or(NO_POSITION)).collect();
        prop_assert_eq!(found.first_partners(), first);
        let semi: Vec<u8> = partners.iter().map(|own| u8::from(!own.is_empty())).collect();
        prop_assert_eq!(found.mask(false), semi.clone());
        prop_assert_eq!(found.mask(true), semi.into_iter().map(|byte| 1 - byte).collect::<Vec<_>>());
        let most = (0..rows).map(|place| partners[place].len()).max();
        prop_assert!(!table.is_unique() || most <= Some(1));
        prop_assert!(table.keys() <= build[0].len());
    }

    #[test]
    fn marks_are_three_valued((build, probe) in tables(1..2, 0..40)) {
        let table = table(&build, false);
        let marks = table.probe(&all(&probe)).unwrap().marks().unwrap();
        let set: Vec<_> = (0..build[0].len()).map(|place| key(&build, place)).collect();
        for place in 0..probe[0].len() {
            let own = key(&probe, place);
            let expected = match &own {
                _ if set.is_empty() => Some(false),
                None => None,
                Some(_) if set.contains(&own) => Some(true),
                Some(_) if set.contains(&None) => None,
                Some(_) => Some(false),
            };
            let found = marks.is_valid(place).then(|| marks.value(place));
            prop_assert_eq!(found, expected);
        }
    }
}

use arrow_array::Array;

#[test]
fn memory_is_announced() {
    let keys = Int64Array::from_iter_values(0..10_000);
    let mut builder = JoinBuilder::new(&[DataType::Int64], false).unwrap();
    let announced = builder.bytes_for(keys.len());
    builder.reserve(keys.len());
    builder.push(&[Column::all(&keys).unwrap()], Rows::Range(0, 10_000)).unwrap();
    let table = builder.finish();
    assert!(table.is_unique());
    assert!((announced / 3..=announced).contains(&table.bytes()), "{announced} {}", table.bytes());
}

#[test]
fn wrong_inputs_are_refused() {
    let numbers = Int64Array::from(vec![Some(1), None]);
    let texts = StringArray::from(vec!["a", "b"]);
    let (numbers, texts) = (Column::all(&numbers).unwrap(), Column::all(&texts).unwrap());
    let mut builder = JoinBuilder::new(&[DataType::Int64, DataType::Utf8], false).unwrap();
    assert!(builder.push(&[numbers], Rows::Range(0, 2)).is_err());
    assert!(builder.push(&[texts, numbers], Rows::Range(0, 2)).is_err());
    assert!(builder.push(&[numbers, texts], Rows::Range(0, 1)).is_err());
    builder.push(&[numbers, texts], Rows::Range(0, 2)).unwrap();
    let table = builder.finish();
    assert!(table.probe(&[numbers]).is_err());
    assert!(table.probe(&[numbers, texts]).unwrap().marks().is_err(), "a key is NULL in part");
}
