//! Filters against three-valued logic, one row at a time.

use super::*;
use crate::testing::{Datum, columns, datum, some_rows};
use crate::value::check_comparable;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{DictionaryArray, Float64Array, Int8Array, Int64Array, StringArray};
use proptest::prelude::*;
use std::sync::Arc;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// What a condition is for a row; `None` is NULL.
fn truth(condition: &Condition, columns: &[ArrayRef], row: usize) -> Option<bool> {
    match condition {
        Condition::Compare { column, comparison, constant } => {
            Some(comparison.holds(datum(&columns[*column], row)?.cmp(&datum(constant, 0)?)))
        }
        Condition::CompareColumns { left, comparison, right } => {
            Some(comparison.holds(datum(&columns[*left], row)?.cmp(&datum(&columns[*right], row)?)))
        }
        Condition::In { column, constants, negated } => {
            if constants.is_empty() {
                return Some(*negated);
            }
            let value = datum(&columns[*column], row)?;
            let constants: Vec<Option<Datum>> =
                (0..constants.len()).map(|row| datum(constants, row)).collect();
            match constants.contains(&Some(value)) {
                true => Some(!negated),
                false if constants.contains(&None) => None,
                false => Some(*negated),
            }
        }
        Condition::Like { .. } => unreachable!("patterns have tests of their own"),
        Condition::Null { column, negated } => Some(datum(&columns[*column], row).is_none() != *negated),
        Condition::All(conditions) => {
            let truths: Vec<_> = conditions.iter().map(|condition| truth(condition, columns, row)).collect();
            match (truths.contains(&Some(false)), truths.contains(&None)) {
                (true, _) => Some(false),
                (false, true) => None,
                (false, false) => Some(true),
            }
        }
        Condition::Any(conditions) => {
            let truths: Vec<_> = conditions.iter().map(|condition| truth(condition, columns, row)).collect();
            match (truths.contains(&Some(true)), truths.contains(&None)) {
                (true, _) => Some(true),
                (false, true) => None,
                (false, false) => Some(false),
            }
        }
    }
}

/// Returns rows of a column as plain constants.
fn constants(column: &ArrayRef, rows: &[usize]) -> ArrayRef {
    let rows: Vec<u32> = rows.iter().map(|row| (row % column.len()) as u32).collect();
    match column.as_any_dictionary_opt() {
        None => crate::gather::gather(column, Rows::List(&rows)).unwrap(),
        Some(dictionary) => {
            let codes = crate::value::codes(KERNEL, dictionary, Rows::List(&rows)).unwrap();
            crate::gather::gather_or_null(dictionary.values(), &codes).unwrap()
        }
    }
}

/// Makes a condition over columns that have a row at least; constants are values of the columns.
fn condition(columns: Vec<ArrayRef>) -> impl Strategy<Value = Condition> {
    let count = columns.len();
    let pairs: Vec<(usize, usize)> = (0..count)
        .flat_map(|left| (0..count).map(move |right| (left, right)))
        .filter(|(left, right)| {
            check_comparable(columns[*left].data_type(), columns[*right].data_type()).is_ok()
        })
        .collect();
    let (one, several) = (columns.clone(), columns);
    let comparison = prop::sample::select(COMPARISONS.to_vec());
    let leaf = prop_oneof![
        4 => (0..count, comparison.clone(), any::<usize>()).prop_map(move |(column, comparison, row)| {
            Condition::Compare { column, comparison, constant: constants(&one[column], &[row]) }
        }),
        1 => (prop::sample::select(pairs), comparison).prop_map(|((left, right), comparison)| {
            Condition::CompareColumns { left, comparison, right }
        }),
        2 => (0..count, prop::collection::vec(any::<usize>(), 0..4), any::<bool>()).prop_map(
            move |(column, rows, negated)| {
                Condition::In { column, constants: constants(&several[column], &rows), negated }
            }
        ),
        1 => (0..count, any::<bool>()).prop_map(|(column, negated)| Condition::Null { column, negated }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Condition::All),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Condition::Any),
            inner.prop_map(Condition::inverse),
        ]
    })
}

fn case() -> impl Strategy<Value = (Vec<ArrayRef>, Condition, Selection)> {
    columns(1..4, 1..150).prop_flat_map(|columns| {
        let rows = columns[0].len();
        (Just(columns.clone()), condition(columns), some_rows(rows))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn filters_are_conditions((columns, condition, rows) in case()) {
        let filter = Filter::new(&condition, &columns).unwrap();
        let rows = rows.rows();
        let expected: Vec<u32> =
            rows.iter().filter(|row| truth(&condition, &columns, *row as usize) == Some(true)).collect();
        let selected = filter.select(rows).unwrap();
        prop_assert_eq!(selected.rows().iter().collect::<Vec<_>>(), expected);
        let negated = Filter::new(&condition.clone().inverse(), &columns).unwrap();
        let expected: Vec<u32> =
            rows.iter().filter(|row| truth(&condition, &columns, *row as usize) == Some(false)).collect();
        prop_assert_eq!(negated.select(rows).unwrap().rows().iter().collect::<Vec<_>>(), expected);
    }
}

fn compare(column: usize, comparison: Comparison, constant: ArrayRef) -> Condition {
    Condition::Compare { column, comparison, constant }
}

#[test]
fn nan_is_greater_than_all_numbers() {
    let values = vec![1.0, f64::NAN, f64::INFINITY, -0.0, -f64::NAN];
    let columns: [ArrayRef; 1] = [Arc::new(Float64Array::from(values))];
    let constant = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
    let select = |comparison, value| {
        let filter = Filter::new(&compare(0, comparison, constant(value)), &columns).unwrap();
        filter.select(Rows::Range(0, 5)).unwrap().rows().iter().collect::<Vec<_>>()
    };
    assert_eq!(select(Comparison::Greater, f64::INFINITY), [1, 4]);
    assert_eq!(select(Comparison::Equal, f64::NAN), [1, 4]);
    assert_eq!(select(Comparison::Less, f64::NAN), [0, 2, 3]);
    assert_eq!(select(Comparison::Equal, 0.0), [3]);
}

#[test]
fn ranges_of_one_column_are_united() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let constant = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let condition = Condition::All(vec![
        compare(0, Comparison::GreaterOrEqual, constant(10)),
        Condition::All(vec![compare(0, Comparison::Less, constant(12))]),
    ]);
    let columns = [column];
    let filter = Filter::new(&condition, &columns).unwrap();
    assert_eq!(filter.leaves.len(), 1);
    assert_eq!(filter.select(Rows::Range(0, 100)).unwrap(), Selection::List(vec![10, 11]));
    assert_eq!(filter.select(Rows::Range(10, 12)).unwrap(), Selection::Range(10, 12));
}

#[test]
fn dictionaries_are_decided_by_value() {
    let keys = Int8Array::new(vec![0, -1, 1, 0].into(), Some(vec![true, false, true, true].into()));
    let array = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["x", "y"])));
    let columns: [ArrayRef; 1] = [Arc::new(array)];
    let x: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let condition =
        Condition::Any(vec![compare(0, Comparison::Equal, x), Condition::Null { column: 0, negated: false }]);
    let filter = Filter::new(&condition, &columns).unwrap();
    assert_eq!((filter.leaves.len(), filter.leaves[0].is_costly()), (1, false));
    assert_eq!(filter.select(Rows::Range(0, 4)).unwrap(), Selection::List(vec![0, 1, 3]));
}

#[test]
fn wrong_inputs_are_refused() {
    let columns: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec!["a"]))];
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let both = Condition::CompareColumns { left: 0, comparison: Comparison::Less, right: 1 };
    for condition in [
        compare(0, Comparison::Less, text.clone()),
        compare(0, Comparison::Less, none),
        compare(2, Comparison::Less, text.clone()),
        both,
    ] {
        assert!(Filter::new(&condition, &columns).is_err());
    }
    let filter = Filter::new(&compare(1, Comparison::Less, text), &columns[..]).unwrap();
    assert!(filter.select(Rows::Range(0, 2)).is_err());
    assert!(filter.mask(Rows::Range(0, 1), &mut [1, 1]).is_err());
}
