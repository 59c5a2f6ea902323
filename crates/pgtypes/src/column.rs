//! A column of a result, as PostgreSQL's clients are told of it.

use crate::types::{Shown, by_oid, shown};
use hypostyle_types::LogicalType;

const INT2VECTOR_OID: u32 = 22;

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub shown: Shown,
    pub oid: u32,
    pub bytes: i16,
    pub modifier: i32,
    /// The numbers of the table and of its column that it is; 0 for what is computed.
    pub table: u32,
    pub number: i16,
    /// Its arrays are written as vectors.
    pub is_vector: bool,
}

impl Column {
    pub fn new(name: &str, logical_type: &LogicalType) -> Self {
        let shown = shown(logical_type);
        let (oid, bytes, modifier) = (shown.oid(), shown.bytes(), shown.modifier);
        let name = name.to_string();
        Self { name, shown, oid, bytes, modifier, table: 0, number: 0, is_vector: false }
    }

    /// Says whether another column looks the same to a client, whichever table it is of.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.name.as_str(), self.oid, self.modifier) == (other.name.as_str(), other.oid, other.modifier)
    }

    /// Shows it as another type of PostgreSQL, if both are arrays or none is.
    pub fn show_as(&mut self, oid: u32) {
        if let Some((scalar, is_array)) = by_oid(oid)
            && is_array == self.shown.is_array
        {
            self.shown = Shown { scalar, is_array, modifier: -1 };
            (self.oid, self.bytes, self.modifier) = (self.shown.oid(), self.shown.bytes(), -1);
        }
    }

    /// Writes its arrays as vectors of small numbers, with blanks between them.
    pub fn show_as_vector(&mut self) {
        if self.shown.is_array {
            (self.oid, self.is_vector) = (INT2VECTOR_OID, true);
        }
    }
}
