//! The columns of a result, as PostgreSQL's clients are told of them.

use hypostyle::postgres::{Shown, VECTOR, shown};
use hypostyle::{ColumnDescription, LogicalType, QueryResult};

const INT2VECTOR_OID: u32 = 22;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub name: String,
    pub shown: Shown,
    pub oid: u32,
    pub bytes: i16,
    pub modifier: i32,
    /// Its arrays are written as vectors.
    pub is_vector: bool,
}

impl Column {
    pub fn new(name: impl Into<String>, logical_type: &LogicalType) -> Self {
        let shown = shown(logical_type);
        let (oid, bytes, modifier) = (shown.oid(), shown.bytes(), shown.modifier);
        Self { name: name.into(), shown, oid, bytes, modifier, is_vector: false }
    }

    pub fn all(columns: &[ColumnDescription]) -> Vec<Self> {
        columns.iter().map(|column| Self::new(column.name.clone(), &column.logical_type)).collect()
    }

    /// Those of a result, whose fields tell of vectors.
    pub fn of_result(result: &QueryResult) -> Vec<Self> {
        let mut columns = Self::all(result.columns());
        for (column, field) in columns.iter_mut().zip(result.schema().fields()) {
            if column.shown.is_array && field.metadata().contains_key(VECTOR) {
                (column.oid, column.is_vector) = (INT2VECTOR_OID, true);
            }
        }
        columns
    }
}
