//! The parts of lists, structures and maps, of their types and of their values.

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Returns the fields that a type's values have within them: elements, fields or entries.
pub fn parts(of: &DataType) -> &[FieldRef] {
    match of {
        DataType::List(part)
        | DataType::LargeList(part)
        | DataType::ListView(part)
        | DataType::LargeListView(part)
        | DataType::FixedSizeList(part, _)
        | DataType::Map(part, _) => std::slice::from_ref(part),
        DataType::Struct(fields) => fields,
        _ => &[],
    }
}

/// Returns how many values a row of some fields has, those of structures counted one by one, and one element
/// of each list. It is one where there are no fields.
pub fn leaves(fields: &[FieldRef]) -> usize {
    let of = |field: &FieldRef| match field.data_type().is_nested() {
        true => leaves(parts(field.data_type())),
        false => 1,
    };
    fields.iter().map(of).sum::<usize>().max(1)
}

/// Returns a type of lists, structures or maps with other parts; any other type as it is.
pub fn with_parts(of: &DataType, part: &mut dyn FnMut(&FieldRef) -> FieldRef) -> DataType {
    match of {
        DataType::List(of) => DataType::List(part(of)),
        DataType::LargeList(of) => DataType::LargeList(part(of)),
        DataType::ListView(of) => DataType::ListView(part(of)),
        DataType::LargeListView(of) => DataType::LargeListView(part(of)),
        DataType::FixedSizeList(of, length) => DataType::FixedSizeList(part(of), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::Map(of, sorted) => DataType::Map(part(of), *sorted),
        other => other.clone(),
    }
}

/// Returns values in the type of `wanted`, which differs from theirs in leaves only: values that have no
/// parts, which `leaf` makes.
///
/// # Errors
/// Those of `leaf`.
pub fn with_leaves(
    values: &ArrayRef,
    wanted: &Field,
    leaf: &dyn Fn(&ArrayRef, &Field) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    if values.data_type() == wanted.data_type() {
        return Ok(Arc::clone(values));
    }
    if !wanted.data_type().is_nested() {
        return leaf(values, wanted);
    }
    let data = values.to_data();
    let made = data.child_data().iter().zip(parts(wanted.data_type())).map(|(within, part)| {
        let made = with_leaves(&make_array(within.clone()), part, leaf)?;
        Ok(made.to_data())
    });
    let made = made.collect::<Result<Vec<_>, ArrowError>>()?;
    let data = data.into_builder().data_type(wanted.data_type().clone()).child_data(made);
    Ok(make_array(data.build()?))
}
