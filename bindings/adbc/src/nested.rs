//! Builds lists of structs in the schemas that ADBC prescribes.

use crate::error::{Result, internal};
use adbc_core::error::Error;
use arrow_array::{ArrayRef, ListArray, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use std::sync::Arc;

/// Returns the type of a member of a struct.
pub fn member<'a>(of: &'a DataType, name: &str) -> Result<&'a DataType> {
    let DataType::Struct(fields) = of else { return Err(internal(format!("{of} is no struct"))) };
    let found = fields.iter().find(|field| field.name() == name);
    found.map(|field| field.data_type()).ok_or_else(|| internal(format!("no member \"{name}\" in {of}")))
}

/// Builds lists. `build` makes one array of all their elements, one after the other.
pub fn lists<T>(
    data_type: &DataType,
    lists: Vec<Option<Vec<T>>>,
    build: impl FnOnce(Vec<T>) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let DataType::List(field) = data_type else { return Err(internal(format!("{data_type} is no list"))) };
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
    let nulls: NullBuffer = lists.iter().map(Option::is_some).collect();
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    let elements = build(lists.into_iter().flatten().flatten().collect())?;
    Ok(Arc::new(ListArray::try_new(field.clone(), offsets, elements, nulls).map_err(Error::from)?))
}

pub fn structs(data_type: &DataType, members: Vec<ArrayRef>) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else {
        return Err(internal(format!("{data_type} is no struct")));
    };
    Ok(Arc::new(StructArray::try_new(fields.clone(), members, None).map_err(Error::from)?))
}

/// Builds a member that is text.
pub fn texts<T>(rows: &[T], value: impl Fn(&T) -> Option<&str>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}
