//! The types of unchanged columns of the catalogs, which PostgreSQL's clients know by heart.

use crate::pg_catalog::PG_CATALOG;
use crate::pg_catalog::rows::{SystemRelation, system_relation};
use crate::pg_catalog::standard::{INFORMATION_SCHEMA, standard_relation};
use crate::scope::SEARCH;
use datafusion::common::TableReference;
use hypostyle_pgtypes::types::by_name;

/// The types that values are told to be of, which are of other types here. What is of none of these
/// is told by its values: the names of functions, for one, are texts.
const TOLD: [&str; 12] =
    ["char", "float4", "int2", "int4", "name", "oid", "text", "xid", "_int2", "_name", "_oid", "_text"];

/// A column of a table, by the numbers that PostgreSQL's catalogs have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// 0 of what is computed, as its column.
    pub table: u32,
    pub column: i16,
    /// The number of its type, where that is not the one of its values' type.
    pub type_oid: Option<u32>,
}

/// Returns the number of the type of a relation's column, if it is not the one of its values.
fn column_type(relation: &SystemRelation, place: usize) -> Option<u32> {
    let name = relation.types.get(place).filter(|name| TOLD.contains(name))?;
    let (found, is_array) = by_name(name)?;
    Some(if is_array { found.array } else { found.oid })
}

fn relation_of(table: &TableReference) -> Option<&'static SystemRelation> {
    match table.schema() {
        Some(INFORMATION_SCHEMA) => standard_relation(table.table()),
        None | Some(PG_CATALOG | SEARCH) => system_relation(table.table()),
        Some(_) => None,
    }
}

/// The places of the columns that are the primary key of a relation of the catalogs.
pub fn primary_key(table: &TableReference) -> Option<Vec<usize>> {
    let relation = relation_of(table).filter(|relation| !relation.is_view)?;
    let key: &[&str] = match relation.name {
        "pg_attribute" => &["attrelid", "attnum"],
        "pg_index" => &["indexrelid"],
        _ => &["oid"],
    };
    let place = |wanted: &&str| relation.columns.iter().position(|(name, _)| name == wanted);
    key.iter().map(place).collect()
}

/// The columns by which the rows of a catalog of columns are ordered.
pub(super) fn columns_listed(table: &TableReference) -> Option<&'static [&'static str]> {
    match (relation_of(table)?.name, table.schema()) {
        ("pg_attribute", _) => Some(&["attrelid", "attnum"]),
        ("columns", Some(INFORMATION_SCHEMA)) => {
            Some(&["table_catalog", "table_schema", "table_name", "ordinal_position"])
        }
        _ => None,
    }
}

/// Returns the origin of a column that a relation of the catalogs has in a place.
pub fn catalog_column(table: &TableReference, place: usize) -> Option<Origin> {
    let relation = relation_of(table)?;
    relation.columns.get(place)?;
    Some(Origin {
        table: u32::try_from(relation.oid).ok()?,
        column: i16::try_from(place + 1).ok()?,
        type_oid: column_type(relation, place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_types_of_postgresql() {
        let told = |relation: &str, column: &str| {
            let relation = system_relation(relation).unwrap();
            let place = relation.columns.iter().position(|(name, _)| *name == column).unwrap();
            column_type(relation, place)
        };
        assert_eq!(told("pg_class", "oid"), Some(26));
        assert_eq!(told("pg_class", "relkind"), Some(18));
        assert_eq!(told("pg_class", "reloptions"), Some(1009));
        assert_eq!(told("pg_constraint", "conkey"), Some(1005));
        assert_eq!(told("pg_type", "typinput"), None);
        assert_eq!(told("pg_class", "relhasindex"), None);
    }
}
