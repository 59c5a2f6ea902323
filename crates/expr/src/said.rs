//! What fields say of their values: that texts are UUIDs or JSON, also within lists, structures and maps.

use crate::nested_type::element;
use arrow::datatypes::{DataType, Field, FieldRef};
use hypostyle_types::LogicalType;
use std::sync::Arc;

/// Says whether values of a type may be UUIDs or JSON, which their field says then.
pub fn may_be_said_of(of: &DataType) -> bool {
    of.is_string() || *of == UUID_BYTES
}

/// UUIDs as they are stored.
pub(crate) const UUID_BYTES: DataType = DataType::FixedSizeBinary(16);

/// Returns a field that says of its values what another one says of its own, as far as both are of one
/// shape.
pub fn as_said(said: &Field, field: &Field) -> Field {
    with_leaves(said, field, &|said, field| {
        let of = match *field.data_type() == UUID_BYTES && is(said, &LogicalType::Uuid) {
            true => DataType::Utf8View,
            false => field.data_type().clone(),
        };
        field.clone().with_data_type(of).with_metadata(said.metadata().clone())
    })
}

/// Returns a field that says of its values what another one says of its own, too. UUIDs in the form of
/// bytes stay what they are.
pub fn also_said(said: &Field, field: &Field) -> Field {
    with_leaves(said, field, &|said, field| {
        let is_known = |field: &Field| is(field, &LogicalType::Uuid) || is(field, &LogicalType::Json);
        match is_known(said) && !is_known(field) {
            true => as_said(said, field),
            false => field.clone(),
        }
    })
}

/// Returns a field whose leaves are made of those of two.
fn with_leaves(said: &Field, field: &Field, leaf: &dyn Fn(&Field, &Field) -> Field) -> Field {
    let within = |said: &FieldRef, field: &FieldRef| Arc::new(with_leaves(said, field, leaf));
    let data_type = match (said.data_type(), field.data_type()) {
        (own, of) if may_be_said_of(own) && may_be_said_of(of) => return leaf(said, field),
        (own, DataType::List(of)) if let Some(own) = element(own) => DataType::List(within(own, of)),
        (own, DataType::LargeList(of)) if let Some(own) = element(own) => {
            DataType::LargeList(within(own, of))
        }
        (own, DataType::FixedSizeList(of, size)) if let Some(own) = element(own) => {
            DataType::FixedSizeList(within(own, of), *size)
        }
        (DataType::Struct(own), DataType::Struct(fields)) if own.len() == fields.len() => {
            DataType::Struct(own.iter().zip(fields).map(|(own, field)| within(own, field)).collect())
        }
        (DataType::Map(own, _), DataType::Map(entries, is_sorted)) => {
            DataType::Map(within(own, entries), *is_sorted)
        }
        _ => return field.clone(),
    };
    field.clone().with_data_type(data_type)
}

fn is(field: &Field, of: &LogicalType) -> bool {
    LogicalType::from_arrow(field).is_ok_and(|found| found == *of)
}

/// Returns a field as it is in plans, where UUIDs are text, also within lists, structures and maps.
pub fn in_plans(field: &Field) -> Field {
    as_said(field, field)
}
