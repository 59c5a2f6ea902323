//! The columns of a result, as PostgreSQL's clients are told of them.

use hypostyle::postgres::{Origin, Shown, VECTOR, by_oid, shown, told_name};
use hypostyle::{ColumnDescription, LogicalType, QueryResult, StatementDescription};

const INT2VECTOR_OID: u32 = 22;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
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
        let name = told_name(name).to_string();
        Self { name, shown, oid, bytes, modifier, table: 0, number: 0, is_vector: false }
    }

    /// Those of a statement that has not run, if it gives rows.
    pub fn all_described(statement: &StatementDescription) -> Option<Vec<Self>> {
        Some(Self::all(statement.columns.as_deref()?, &statement.origins))
    }

    /// Says whether another column looks the same to a client, whichever table it is of.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.name.as_str(), self.oid, self.modifier) == (other.name.as_str(), other.oid, other.modifier)
    }

    fn all(columns: &[ColumnDescription], origins: &[Option<Origin>]) -> Vec<Self> {
        let mut all: Vec<Self> =
            columns.iter().map(|column| Self::new(&column.name, &column.logical_type)).collect();
        if origins.len() == all.len() {
            for (column, origin) in all.iter_mut().zip(origins) {
                column.set_origin(*origin);
            }
        }
        all
    }

    /// Those of a result, whose fields tell of vectors.
    pub fn of_result(result: &QueryResult) -> Vec<Self> {
        let mut columns = Self::all(result.columns(), result.origins());
        for (column, field) in columns.iter_mut().zip(result.schema().fields()) {
            if column.shown.is_array && field.metadata().contains_key(VECTOR) {
                (column.oid, column.is_vector) = (INT2VECTOR_OID, true);
            }
        }
        columns
    }

    fn set_origin(&mut self, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        (self.table, self.number) = (origin.table, origin.column);
        if let Some((scalar, is_array)) = origin.type_oid.and_then(by_oid)
            && is_array == self.shown.is_array
        {
            self.shown = Shown { scalar, is_array, modifier: -1 };
            (self.oid, self.bytes, self.modifier) = (self.shown.oid(), self.shown.bytes(), -1);
        }
    }
}
