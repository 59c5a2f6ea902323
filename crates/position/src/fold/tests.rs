//! Folds against plain loops over each group's values.

use super::*;
use crate::Selection;
use crate::testing::{Datum, column, datum, plain, some_rows};
use arrow_array::{Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array};
use arrow_schema::DataType;
use proptest::prelude::*;

/// A column, rows of it, and the group of each row.
fn case() -> impl Strategy<Value = (ArrayRef, Selection, Vec<u32>, usize)> {
    (1..150_usize, prop::sample::select(vec![1_usize, 3, 40, 300])).prop_flat_map(|(rows, groups)| {
        let ids = prop::collection::vec(0..groups as u32, 2 * rows);
        (column(rows), some_rows(rows), ids).prop_map(move |(array, rows, mut ids)| {
            ids.truncate(rows.len());
            (array, rows, ids, groups)
        })
    })
}

/// Folds in two threads' states, each with a part of the rows, and merges them.
fn folded(
    make: &dyn Fn() -> Box<dyn Fold>,
    column: Column<'_>,
    ids: &[u32],
    groups: usize,
) -> Result<ArrayRef> {
    let (mut one, mut other) = (make(), make());
    one.grow(groups);
    other.grow(groups);
    let half = ids.len() / 2;
    let part =
        |places: std::ops::Range<usize>| Column { array: column.array, rows: column.rows.part(places) };
    one.fold(Ids::Each(&ids[..half]), Some(part(0..half)))?;
    other.fold(Ids::Each(&ids[half..]), Some(part(half..ids.len())))?;
    // The other thread may have its ids in another order.
    let reversed: Vec<u32> = (0..groups as u32).rev().collect();
    let mut turned = make();
    turned.grow(groups);
    turned.merge(other.as_ref(), Ids::Each(&reversed))?;
    one.merge(turned.as_ref(), Ids::Each(&reversed))?;
    assert!(one.bytes() > 0);
    one.finish()
}

/// Returns the values of each group that are not NULL.
fn values(column: Column<'_>, ids: &[u32], groups: usize) -> Vec<Vec<Datum>> {
    let mut values = vec![Vec::new(); groups];
    for (id, row) in ids.iter().zip(column.rows.iter()) {
        values[*id as usize].extend(datum(column.array, row as usize));
    }
    values
}

fn data(array: &dyn Array) -> Vec<Option<Datum>> {
    (0..array.len()).map(|row| datum(array, row)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn counts_and_extremes((array, rows, ids, groups) in case()) {
        let column = Column { array: &array, rows: rows.rows() };
        let expected = values(column, &ids, groups);
        let counts = folded(&count, column, &ids, groups).unwrap();
        let lengths: Vec<_> = expected.iter().map(|own| Some(Datum::Integer(own.len() as i128))).collect();
        prop_assert_eq!(data(&counts), lengths);
        let seen = folded(&exists, column, &ids, groups).unwrap();
        let some: Vec<_> = expected.iter().map(|own| Some(Datum::Integer((!own.is_empty()).into()))).collect();
        prop_assert_eq!(data(&seen), some);
        let least = folded(&|| minimum(array.data_type()).unwrap(), column, &ids, groups).unwrap();
        prop_assert_eq!(data(&least), expected.iter().map(|own| own.iter().min().cloned()).collect::<Vec<_>>());
        prop_assert_eq!(least.data_type(), &plain(&array));
        let greatest = folded(&|| maximum(array.data_type()).unwrap(), column, &ids, groups).unwrap();
        prop_assert_eq!(data(&greatest), expected.iter().map(|own| own.iter().max().cloned()).collect::<Vec<_>>());
        let mut positions = vec![None; groups];
        for (id, row) in ids.iter().zip(column.rows.iter()) {
            let position: &mut Option<u32> = &mut positions[*id as usize];
            *position = Some(position.map_or(row, |position| position.min(row)));
        }
        let first = folded(&first, column, &ids, groups).unwrap();
        let positions: Vec<_> = positions.iter().map(|row| row.map(|row| Datum::Integer(row.into()))).collect();
        prop_assert_eq!(data(&first), positions);
    }

    #[test]
    fn sums_are_exact((array, rows, ids, groups) in case(), to_integers: bool) {
        let column = Column { array: &array, rows: rows.rows() };
        let result = match array.data_type() {
            data_type if data_type.is_integer() && to_integers => DataType::Int64,
            data_type if data_type.is_integer() => DataType::Decimal128(38, 0),
            DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            _ => return Ok(()),
        };
        let limit = if to_integers && result == DataType::Int64 { i128::from(i64::MAX) } else { 10_i128.pow(38) - 1 };
        let expected: Vec<Option<i128>> = values(column, &ids, groups)
            .into_iter()
            .map(|own| {
                // In 64 bits more than the widest value, so that nothing is lost.
                let parts = own.iter().map(|value| if let Datum::Integer(value) = value { *value } else { 0 });
                let (high, low) = parts.fold((0, 0), |(high, low), value| (high + (value >> 64), low + (value & u128::from(u64::MAX) as i128)));
                let total: Option<i128> = (high + (low >> 64)).checked_mul(1 << 64).map(|high| high + (low & u128::from(u64::MAX) as i128));
                (!own.is_empty()).then_some(total.unwrap_or(i128::MAX))
            })
            .collect();
        let found = folded(&|| sum(array.data_type(), &result, true).unwrap(), column, &ids, groups);
        let fits = |sum: &i128| (-limit - i128::from(result == DataType::Int64)..=limit).contains(sum);
        match found {
            Ok(sums) => {
                let expected: Vec<_> = expected.into_iter().map(|sum| sum.map(Datum::Integer)).collect();
                prop_assert_eq!(data(&sums), expected);
            }
            Err(Error::Overflow(_)) => {
                // Sums of 128-bit values may also overflow on the way.
                let wide = matches!(array.data_type(), DataType::Decimal128(..));
                prop_assert!(wide || !expected.iter().flatten().all(fits));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn sums_of_floats_are_sums(numbers in prop::collection::vec((-1e6..1e6, 0..7_u32, any::<bool>()), 0..200)) {
        let array = Float64Array::from_iter(numbers.iter().map(|(number, _, valid)| valid.then_some(*number)));
        let ids: Vec<u32> = numbers.iter().map(|(_, id, _)| *id).collect();
        let make = || sum(&DataType::Float64, &DataType::Float64, true).unwrap();
        let found = folded(&make, Column::all(&array).unwrap(), &ids, 7).unwrap();
        for (id, own) in values(Column::all(&array).unwrap(), &ids, 7).into_iter().enumerate() {
            let sum: f64 = own.iter().map(|value| if let Datum::Float(value) = value { *value } else { 0.0 }).sum();
            match datum(&found, id) {
                Some(Datum::Float(found)) => prop_assert!((found - sum).abs() < 1e-6),
                other => prop_assert!(own.is_empty() && other.is_none()),
            }
        }
    }

    #[test]
    fn runs_of_rows_are_folded_as_lists(
        array in column(400),
        gone in prop::collection::btree_set(0..400_u32, 0..12),
        turned: bool,
    ) {
        let mut list: Vec<u32> = (0..400).filter(|row| !gone.contains(row)).collect();
        if turned {
            list.rotate_left(150);
        }
        let column = Column { array: &array, rows: Rows::List(&list) };
        let ids = Ids::One { id: 1, rows: list.len() };
        let of = array.data_type();
        let folds = || [Ok(count()), minimum(of), maximum(of), sum(of, &DataType::Int64, true)];
        for (one, other) in folds().into_iter().zip(folds()) {
            // Most types have no sum.
            let (Ok(mut one), Ok(mut other)) = (one, other) else { continue };
            one.grow(3);
            other.grow(3);
            let outcomes = (fold_column(one.as_mut(), ids, column), other.fold(ids, Some(column)));
            prop_assert_eq!(outcomes.0.is_ok(), outcomes.1.is_ok());
            if let (Ok(one), Ok(other)) = (one.finish(), other.finish()) {
                prop_assert_eq!(data(&one), data(&other));
            }
        }
        let short = Ids::One { id: 1, rows: list.len() - 1 };
        let mut rows = count();
        rows.grow(3);
        prop_assert!(fold_column(rows.as_mut(), short, column).is_err());
    }

    #[test]
    fn one_group_is_as_many((array, rows, ids, _) in case()) {
        let column = Column { array: &array, rows: rows.rows() };
        let same = vec![0; ids.len()];
        let mut makers: Vec<Box<dyn Fn() -> Box<dyn Fold>>> = vec![Box::new(count), Box::new(exists), Box::new(first)];
        let data_type = array.data_type().clone();
        makers.push(Box::new({ let data_type = data_type.clone(); move || minimum(&data_type).unwrap() }));
        makers.push(Box::new({ let data_type = data_type.clone(); move || maximum(&data_type).unwrap() }));
        if data_type.is_integer() {
            makers.push(Box::new(move || sum(&data_type, &DataType::Decimal128(38, 0), true).unwrap()));
        }
        for make in makers {
            let (mut one, mut each) = (make(), make());
            one.grow(1);
            each.grow(1);
            one.fold(Ids::One { id: 0, rows: ids.len() }, Some(column)).unwrap();
            each.fold(Ids::Each(&same), Some(column)).unwrap();
            prop_assert_eq!(data(&one.finish().unwrap()), data(&each.finish().unwrap()));
        }
    }
}

#[test]
fn narrow_sums_move_to_128_bits() {
    let values = Int64Array::from(vec![i64::MAX / 100_000; 50_000]);
    let mut fold = sum(&DataType::Int64, &DataType::Decimal128(38, 0), false).unwrap();
    fold.grow(1);
    for _ in 0..5 {
        fold.fold(Ids::One { id: 0, rows: 50_000 }, Some(Column::all(&values).unwrap())).unwrap();
    }
    let expected = i128::from(i64::MAX / 100_000) * 250_000;
    assert_eq!(datum(&fold.finish().unwrap(), 0), Some(Datum::Integer(expected)));
}

#[test]
fn sums_that_do_not_fit_are_errors() {
    let check = |array: &dyn Array, result: DataType| {
        let mut fold = sum(array.data_type(), &result, true).unwrap();
        fold.grow(1);
        let folded = fold.fold(Ids::One { id: 0, rows: array.len() }, Some(Column::all(array).unwrap()));
        matches!(folded.and_then(|()| fold.finish()), Err(Error::Overflow(_)))
    };
    let large = Int64Array::from(vec![i64::MAX, 1]);
    assert!(check(&large, DataType::Int64) && !check(&large, DataType::UInt64));
    assert!(check(&Int64Array::from(vec![-1]), DataType::UInt64));
    let wide = Decimal128Array::from(vec![i128::MAX, 1]);
    assert!(check(&wide, wide.data_type().clone()));
    let nines = Decimal64Array::from(vec![999, 1]).with_precision_and_scale(3, 0).unwrap();
    assert!(check(&nines, DataType::Decimal64(3, 0)) && !check(&nines, DataType::Decimal64(4, 0)));
}

#[test]
fn groups_that_grow_keep_their_states() {
    let values = Int32Array::from(vec![5, 6, 7]);
    let column = Some(Column::all(&values).unwrap());
    let sum = || sum(&DataType::Int32, &DataType::Int64, true).unwrap();
    let makers: [&dyn Fn() -> Box<dyn Fold>; 3] = [&count, &sum, &|| maximum(&DataType::Int32).unwrap()];
    for make in makers {
        let mut fold = make();
        fold.grow(2);
        fold.fold(Ids::Each(&[0, 1, 1]), column).unwrap();
        let before = data(&fold.finish().unwrap());
        fold.grow(1_000);
        fold.grow(10);
        fold.fold(Ids::Each(&[999, 998, 999]), column).unwrap();
        let after = data(&fold.finish().unwrap());
        assert_eq!((after.len(), &after[..2]), (1_000, &before[..]));
        assert_eq!(after[999].is_some(), after[998].is_some());
    }
}

#[test]
fn zeros_have_an_order_of_their_own() {
    for values in [vec![0.0, -0.0], vec![-0.0, 0.0]] {
        let array = Float64Array::from(values);
        let mut fold = minimum(&DataType::Float64).unwrap();
        fold.grow(1);
        fold.fold(Ids::One { id: 0, rows: 2 }, Some(Column::all(&array).unwrap())).unwrap();
        let Some(Datum::Float(least)) = datum(&fold.finish().unwrap(), 0) else { panic!("NULL") };
        assert!(least.is_sign_negative());
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let array = Int64Array::from(vec![Some(1), None]);
    let column = Some(Column::all(&array).unwrap());
    let mut fold = sum(&DataType::Int64, &DataType::Int64, false).unwrap();
    fold.grow(1);
    assert!(fold.fold(Ids::Each(&[0, 0]), column).is_err(), "there is a NULL");
    let mut fold = minimum(&DataType::Int32).unwrap();
    fold.grow(1);
    assert!(fold.fold(Ids::Each(&[0, 0]), column).is_err(), "the type is another");
    let mut fold = count();
    fold.grow(1);
    assert!(fold.fold(Ids::Each(&[0, 1]), column).is_err(), "an id has no state");
    assert!(fold.fold(Ids::Each(&[0]), column).is_err(), "a row has no id");
    assert!(first().fold(Ids::Each(&[]), None).is_err(), "there is no column");
    assert!(fold.merge(exists().as_ref(), Ids::Each(&[])).is_err(), "the folds differ");
    let (mut one, other) = (minimum(&DataType::Int32).unwrap(), maximum(&DataType::Int32).unwrap());
    assert!(one.merge(other.as_ref(), Ids::Each(&[])).is_err(), "the directions differ");
    assert!(sum(&DataType::Utf8, &DataType::Int64, true).is_err());
    assert!(sum(&DataType::Decimal64(9, 2), &DataType::Decimal128(38, 3), true).is_err());
}
