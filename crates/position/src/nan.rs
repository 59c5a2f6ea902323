//! NaN, of which there is one, as in PostgreSQL: values that are looked for by their bits, compared or hashed
//! have no other one, whatever sign and digits a processor, a program or a text gave it.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::DataType;
use std::sync::Arc;

/// Says whether values of a type are floats, or have some within them.
pub fn is_of_floats(of: &DataType) -> bool {
    match of {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => is_of_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_of_floats(field.data_type())),
        DataType::Dictionary(_, values) => is_of_floats(values),
        other => other.is_floating(),
    }
}

/// Returns the values with one NaN, also of those within them; few have another one.
pub fn one(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let halves = values.as_primitive::<Float16Type>();
            let is_other = |value: &Half| value.is_nan() & (value.to_bits() != Half::NAN.to_bits());
            match halves.values().iter().any(is_other) {
                true => {
                    Arc::new(halves.unary::<_, Float16Type>(|of| if of.is_nan() { Half::NAN } else { of }))
                }
                false => values,
            }
        }
        DataType::Float64 => {
            let doubles = values.as_primitive::<Float64Type>();
            let is_other = |value: &f64| value.is_nan() & (value.to_bits() != f64::NAN.to_bits());
            match doubles.values().iter().fold(false, |found, value| found | is_other(value)) {
                true => {
                    Arc::new(doubles.unary::<_, Float64Type>(|of| if of.is_nan() { f64::NAN } else { of }))
                }
                false => values,
            }
        }
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>();
            let is_other = |value: &f32| value.is_nan() & (value.to_bits() != f32::NAN.to_bits());
            match floats.values().iter().fold(false, |found, value| found | is_other(value)) {
                true => {
                    Arc::new(floats.unary::<_, Float32Type>(|of| if of.is_nan() { f32::NAN } else { of }))
                }
                false => values,
            }
        }
        nested if is_of_floats(nested) => one_within(&values).unwrap_or(values),
        _ => values,
    }
}

/// Returns nested values with one NaN within them; `None` if they have no other one.
fn one_within(values: &ArrayRef) -> Option<ArrayRef> {
    let data = values.to_data();
    let mut has_other = false;
    let made = data.child_data().iter().map(|within| {
        let within = make_array(within.clone());
        let made = one(within.clone());
        has_other |= !Arc::ptr_eq(&within, &made);
        made.to_data()
    });
    let made = made.collect();
    has_other.then(|| data.into_builder().child_data(made).build().ok().map(make_array)).flatten()
}

#[cfg(test)]
mod tests {
    use super::one;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use arrow_array::{Array, ArrayRef, Float64Array, ListArray};
    use std::sync::Arc;

    #[test]
    fn nans_become_one() {
        let other = f64::from_bits(f64::NAN.to_bits() | 1);
        let values: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(-f64::NAN),
            Some(f64::NAN),
            None,
            Some(-1.0),
            Some(other),
        ]));
        let made = one(values);
        let bits: Vec<Option<u64>> =
            made.as_primitive::<Float64Type>().iter().map(|of| of.map(f64::to_bits)).collect();
        let nan = Some(f64::NAN.to_bits());
        assert_eq!(bits, [nan, nan, None, Some((-1.0_f64).to_bits()), nan]);
        let rows = [Some(vec![Some(1.0), Some(-f64::NAN)]), None, Some(vec![None, Some(-f64::NAN)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows));
        for lists in [lists.clone(), lists.slice(1, 2)] {
            let made = one(lists);
            let within = made.as_list::<i32>().values().as_primitive::<Float64Type>().clone();
            let signed = within.iter().flatten().filter(|value| value.is_sign_negative()).count();
            assert_eq!((signed, made.null_count()), (0, 1));
        }
    }
}
