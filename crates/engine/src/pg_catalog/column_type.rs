//! What PostgreSQL's clients are told of a column that is one of the catalogs as it is: they know the types of these by heart.

use super::PG_CATALOG;
use super::rows::{SystemRelation, system_relation};
use super::types::by_name;
use crate::catalog::SEARCH;
use crate::information_schema::{INFORMATION_SCHEMA, standard_relation};
use crate::origin::Origin;
use datafusion::common::TableReference;

/// The types that values are told to be of, which are of other types here. What is of none of these is told by its values:
/// the names of functions, for one, are texts.
const TOLD: [&str; 12] =
    ["char", "float4", "int2", "int4", "name", "oid", "text", "xid", "_int2", "_name", "_oid", "_text"];

/// The number of the type of a relation's column, if it is not the one of its values.
fn column_type(relation: &SystemRelation, place: usize) -> Option<u32> {
    let name = relation.types.get(place).filter(|name| TOLD.contains(name))?;
    let (found, is_array) = by_name(name)?;
    Some(if is_array { found.array } else { found.oid })
}

fn relation_of(table: &TableReference) -> Option<&'static SystemRelation> {
    match table.schema() {
        Some(INFORMATION_SCHEMA) => standard_relation(table.table()),
        None | Some(PG_CATALOG) => system_relation(table.table()),
        Some(schema) if schema.starts_with(SEARCH) => system_relation(table.table()),
        Some(_) => None,
    }
}

/// The places of the columns that are the primary key of a relation of the catalogs.
pub(crate) fn primary_key(table: &TableReference) -> Option<Vec<usize>> {
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

/// The origin of a column that a relation of the catalogs has in a place.
pub(crate) fn catalog_column(table: &TableReference, place: usize) -> Option<Origin> {
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
