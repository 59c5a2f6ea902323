//! What PostgreSQL's clients are told of a column that is one of the catalogs as it is: they know the types of these by heart.

use super::PG_CATALOG;
use super::rows::system_relation;
use crate::catalog::SEARCH;
use crate::origin::Origin;
use datafusion::common::TableReference;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The columns that PostgreSQL has in another type than clients are told of values of their kind: a relation a line, with
/// columns and the numbers of their types.
const COLUMN_TYPES: &str = include_str!("column_types.txt");

/// The type of a relation's column, if it is not the one of its values.
fn column_type(relation: &str, column: &str) -> Option<u32> {
    static PARSED: OnceLock<HashMap<(&str, &str), u32>> = OnceLock::new();
    let parsed = PARSED.get_or_init(|| {
        let columns = |line: &'static str| {
            let (relation, columns) = line.split_once(' ').unwrap_or((line, ""));
            columns.split(' ').filter_map(move |column| {
                let (column, oid) = column.split_once(':')?;
                Some(((relation, column), oid.parse().ok()?))
            })
        };
        COLUMN_TYPES.lines().flat_map(columns).collect()
    });
    parsed.get(&(relation, column)).copied()
}

/// The origin of a column that a relation of the schema has in a place.
pub(crate) fn catalog_column(table: &TableReference, place: usize) -> Option<Origin> {
    let is_named = |schema: &str| schema == PG_CATALOG || schema.starts_with(SEARCH);
    let relation = system_relation(table.table()).filter(|_| table.schema().is_none_or(is_named))?;
    let (name, _) = relation.columns.get(place)?;
    Some(Origin {
        table: u32::try_from(relation.oid).ok()?,
        column: i16::try_from(place + 1).ok()?,
        type_oid: column_type(relation.name, name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg_catalog::rows::system_relations;

    #[test]
    fn types_are_of_columns_that_there_are() {
        let known = |relation: &str, column: &str| {
            let relation = system_relations().iter().find(|known| known.name == relation);
            relation.is_some_and(|relation| relation.columns.iter().any(|(name, _)| *name == column))
        };
        for line in COLUMN_TYPES.lines() {
            let mut words = line.split(' ');
            let relation = words.next().unwrap();
            for word in words {
                let (column, oid) = word.split_once(':').unwrap();
                assert!(known(relation, column) && oid.parse::<u32>().is_ok(), "{relation}.{column}");
            }
        }
        assert_eq!(column_type("pg_class", "oid"), Some(26));
    }
}
