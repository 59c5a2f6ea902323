//! Values of a column at positions.

use crate::value::{Value, Values, array_of, fixed, nulls};
use crate::{NO_POSITION, Result, Rows};
use arrow_array::{Array, ArrayRef, UInt32Array, make_array, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_select::take::take;

const KERNEL: &str = "gather";

/// Returns the values of a column at some rows. A range is a slice of the same memory; dictionaries
/// keep their values and gather codes.
///
/// Takes any type. Takes time in proportion to the rows, and their bytes.
pub fn gather(array: &dyn Array, rows: Rows<'_>) -> Result<ArrayRef> {
    rows.check(array.len())?;
    let positions = match rows {
        Rows::Range(start, _) => return Ok(array.slice(start as usize, rows.len())),
        Rows::List(positions) => positions,
    };
    let valid = nulls(array).map(|nulls| {
        let valid = |place: usize| nulls.is_valid(positions[place] as usize);
        NullBuffer::new(BooleanBuffer::collect_bool(positions.len(), valid))
    });
    match Values::of(KERNEL, array) {
        Ok(values) => fixed!(values, values => {
            array_of(array.data_type(), picked(values, positions), valid)
        }, _ => other(array, positions)),
        Err(_) => other(array, positions),
    }
}

/// Returns the values of a column at some positions, and NULL for [`NO_POSITION`].
pub fn gather_or_null(array: &dyn Array, positions: &[u32]) -> Result<ArrayRef> {
    if !positions.contains(&NO_POSITION) {
        return gather(array, Rows::List(positions));
    }
    if array.is_empty() && positions.iter().all(|position| *position == NO_POSITION) {
        return Ok(new_null_array(array.data_type(), positions.len()));
    }
    let known = BooleanBuffer::collect_bool(positions.len(), |place| positions[place] != NO_POSITION);
    let existing: Vec<u32> =
        positions.iter().map(|position| if *position == NO_POSITION { 0 } else { *position }).collect();
    let gathered = gather(array, Rows::List(&existing))?;
    let nulls = NullBuffer::union(gathered.nulls(), Some(&NullBuffer::new(known)));
    Ok(make_array(gathered.to_data().into_builder().nulls(nulls).build()?))
}

fn picked<T: Value>(values: &[T], positions: &[u32]) -> Buffer {
    positions.iter().map(|position| values[*position as usize]).collect::<Vec<T>>().into()
}

fn other(array: &dyn Array, positions: &[u32]) -> Result<ArrayRef> {
    Ok(take(array, &UInt32Array::new(positions.to_vec().into(), None), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{column, datum, some_rows};
    use arrow_array::types::Int32Type;
    use arrow_array::{Int64Array, ListArray};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_are_those_at_the_positions(
            (array, rows) in (1..100_usize).prop_flat_map(|rows| (column(rows), some_rows(rows))),
            holes: u64,
        ) {
            let rows = rows.rows();
            let gathered = gather(&array, rows).unwrap();
            prop_assert_eq!(gathered.data_type(), array.data_type());
            let expected: Vec<_> = rows.iter().map(|row| datum(&array, row as usize)).collect();
            let found: Vec<_> = (0..gathered.len()).map(|row| datum(&gathered, row)).collect();
            prop_assert_eq!(found, expected);

            let hole = |place: usize| holes >> (place % 64) & 1 == 1;
            let positions: Vec<u32> =
                rows.iter().enumerate().map(|(place, row)| if hole(place) { NO_POSITION } else { row }).collect();
            let gathered = gather_or_null(&array, &positions).unwrap();
            prop_assert_eq!(gathered.len(), positions.len());
            for (place, position) in positions.iter().enumerate() {
                let expected = if hole(place) { None } else { datum(&array, *position as usize) };
                prop_assert_eq!(datum(&gathered, place), expected);
            }
        }
    }

    #[test]
    fn ranges_share_memory() {
        let array = Int64Array::from_iter_values(0..10);
        let gathered = gather(&array, Rows::Range(2, 5)).unwrap();
        let values = gathered.to_data().buffers()[0].as_ptr();
        assert_eq!(values, array.values().inner().as_ptr().wrapping_add(16));
    }

    #[test]
    fn any_type_is_taken_and_any_position_checked() {
        let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
        let array = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let gathered = gather(&array, Rows::List(&[2, 0, 1])).unwrap();
        assert_eq!((gathered.len(), gathered.is_null(2)), (3, true));
        assert!(gather(&array, Rows::List(&[3])).is_err());
        assert!(gather_or_null(&array, &[3, NO_POSITION]).is_err());
        assert_eq!(gather_or_null(&array.slice(0, 0), &[NO_POSITION; 2]).unwrap().null_count(), 2);
    }
}
