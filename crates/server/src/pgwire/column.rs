//! The columns of a result, as PostgreSQL's clients are told of them.

use hypostyle::postgres::{Shown, shown};
use hypostyle::{ColumnDescription, LogicalType};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub name: String,
    pub shown: Shown,
    pub oid: u32,
    pub bytes: i16,
    pub modifier: i32,
}

impl Column {
    pub fn new(name: impl Into<String>, logical_type: &LogicalType) -> Self {
        let shown = shown(logical_type);
        Self { name: name.into(), oid: shown.oid(), bytes: shown.bytes(), modifier: shown.modifier, shown }
    }

    pub fn all(columns: &[ColumnDescription]) -> Vec<Self> {
        columns.iter().map(|column| Self::new(column.name.clone(), &column.logical_type)).collect()
    }
}
