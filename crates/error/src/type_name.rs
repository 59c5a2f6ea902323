//! The names of Arrow's types in SQL.

use arrow::datatypes::{DataType, Field};
use hypostyle_types::LogicalType;

/// Returns the name of a type in SQL.
pub fn type_name(data_type: &DataType) -> String {
    LogicalType::from_arrow(&Field::new("", data_type.clone(), true))
        .map_or_else(|_| data_type.to_string(), |known| known.to_string())
}
