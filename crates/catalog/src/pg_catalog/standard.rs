//! The relations of `information_schema`, which `pg_catalog` lists, too.

use crate::pg_catalog::rows::{SystemRelation, parse_relations};
use std::sync::OnceLock;

pub const INFORMATION_SCHEMA: &str = "information_schema";

/// The relations, in the same form as those of `pg_catalog`.
const RELATIONS: &str = include_str!("../information_schema.txt");

/// Returns all relations of the schema, by name.
pub fn standard_relations() -> &'static [SystemRelation] {
    static PARSED: OnceLock<Vec<SystemRelation>> = OnceLock::new();
    PARSED.get_or_init(|| parse_relations(RELATIONS))
}

/// Returns one of them.
pub fn standard_relation(name: &str) -> Option<&'static SystemRelation> {
    standard_relations().iter().find(|relation| relation.name == name)
}
