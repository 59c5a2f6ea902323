//! The objects of a database, with the numbers by which PostgreSQL's catalogs refer to them.
//!
//! The number of a table is made from its id, which belongs to it for ever. An object without an id
//! gets a number from its name, and keeps it as long as it has that name. If two names would share
//! a number, the later one gets the next number.

use crate::scope::{OWN_DATABASE, SCHEMA_PUBLIC, Scope, TEMPORARY};
use hypostyle_storage::{
    Catalog, ConstraintEntry, ConstraintRule, SCHEMA_MAIN, SequenceEntry, Snapshot, TableEntry, ViewEntry,
};
use hypostyle_types::{ColumnId, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// The schemas that PostgreSQL numbers the same everywhere.
pub(super) const PG_CATALOG_OID: i64 = 11;
pub(super) const INFORMATION_SCHEMA_OID: i64 = 13_000;
const TEMPORARY_OID: i64 = 13_001;

/// The number of the role that owns everything.
pub(super) const OWNER_OID: i64 = 10;

/// Tables of the database, and those of the session.
const TABLES_FROM: i64 = 16_384;
const TEMPORARY_TABLES_FROM: i64 = 0x2000_0000;

/// Numbers made from names.
const NAMES_FROM: i64 = 0x4000_0000;
const NAMES_MASK: u64 = 0x3fff_ffff;

#[derive(Clone, Debug)]
pub(super) enum What {
    Table {
        entry: Arc<TableEntry>,
        rows: u64,
    },
    View(ViewEntry),
    Sequence(SequenceEntry),
    /// The index of a key, or one that was declared.
    Index {
        table: i64,
        columns: Vec<ColumnId>,
        unique: bool,
        primary: bool,
    },
}

/// An object with a row in `pg_class`.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub oid: i64,
    pub schema: i64,
    pub schema_name: String,
    pub name: String,
    pub temporary: bool,
    pub what: What,
}

impl Relation {
    pub fn comment(&self) -> &Option<String> {
        match &self.what {
            What::Table { entry, .. } => &entry.comment,
            What::View(view) => &view.comment,
            What::Sequence(sequence) => &sequence.comment,
            What::Index { .. } => &None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Constraint {
    pub oid: i64,
    pub table: i64,
    pub schema: i64,
    pub entry: ConstraintEntry,
    /// The index of a key, or of the one that is referred to.
    pub index: i64,
}

#[derive(Debug, Default)]
pub(super) struct Objects {
    pub schemas: Vec<(i64, String)>,
    /// The comments of schemas that have one.
    pub comments: Vec<(i64, String)>,
    pub relations: Vec<Relation>,
    pub constraints: Vec<Constraint>,
    taken: HashSet<i64>,
}

impl Objects {
    /// Returns those of the current database, and the session's temporary tables.
    pub fn of(scope: &Scope) -> Result<Self> {
        let mut objects = Self::default();
        objects.schemas.push((PG_CATALOG_OID, "pg_catalog".into()));
        objects.schemas.push((INFORMATION_SCHEMA_OID, "information_schema".into()));
        let current = scope.current_database()?;
        objects.add(current.snapshot.catalog(), &current.snapshot, false);
        if current.name != TEMPORARY
            && let Some(snapshot) = scope.snapshot_of(TEMPORARY)
        {
            objects.add(snapshot.catalog(), &snapshot, true);
        }
        Ok(objects)
    }

    /// Returns the same number for the same words.
    pub fn number(&mut self, words: &[&str]) -> i64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        let mut place = (hash ^ hash >> 32) & NAMES_MASK;
        while !self.taken.insert(NAMES_FROM + place as i64) {
            place = (place + 1) & NAMES_MASK;
        }
        NAMES_FROM + place as i64
    }

    fn add(&mut self, catalog: &Catalog, snapshot: &Snapshot, temporary: bool) {
        let base = if temporary { TEMPORARY_TABLES_FROM } else { TABLES_FROM };
        match temporary {
            true => self.schemas.push((TEMPORARY_OID, TEMPORARY.into())),
            false => self.add_schemas(catalog),
        }
        let add = |objects: &mut Self, oid, schema: &str, name: &str, what| {
            let (schema, schema_name) = objects.schema_of(schema, temporary);
            objects.relations.push(Relation { oid, schema, schema_name, name: name.into(), temporary, what });
        };
        let kind = if temporary { "temporary" } else { "" };
        for table in &catalog.tables {
            let oid = base + table.id.0 as i64;
            let rows = snapshot.table(&table.schema, &table.name).map_or(0, |data| data.rows());
            add(self, oid, &table.schema, &table.name, What::Table { entry: table.clone(), rows });
            for constraint in &table.constraints {
                if let Some(columns) = constraint.rule.key() {
                    let index = self.number(&["index", kind, &table.id.to_string(), &constraint.name]);
                    let primary = matches!(constraint.rule, ConstraintRule::PrimaryKey { .. });
                    let columns = columns.to_vec();
                    add(
                        self,
                        index,
                        &table.schema,
                        &constraint.name,
                        What::Index { table: oid, columns, unique: true, primary },
                    );
                }
            }
            for index in &table.indexes {
                let number = self.number(&["index", kind, &table.id.to_string(), &index.name]);
                let columns = index.columns.clone();
                let what = What::Index { table: oid, columns, unique: false, primary: false };
                add(self, number, &table.schema, &index.name, what);
            }
        }
        for view in &catalog.views {
            let oid = self.number(&["view", kind, &view.schema, &view.name]);
            add(self, oid, &view.schema, &view.name, What::View(view.clone()));
        }
        for sequence in &catalog.sequences {
            let oid = self.number(&["sequence", kind, &sequence.schema, &sequence.name]);
            add(self, oid, &sequence.schema, &sequence.name, What::Sequence(sequence.clone()));
        }
        self.add_constraints(catalog, base, temporary);
    }

    fn add_schemas(&mut self, catalog: &Catalog) {
        for schema in &catalog.schemas {
            let oid = self.number(&["schema", &schema.name]);
            self.schemas.push((oid, schema.name.clone()));
            self.comments.extend(schema.comment.clone().map(|comment| (oid, comment)));
        }
    }

    /// Returns the number and the name of a schema; that of a temporary relation is always the same.
    fn schema_of(&self, name: &str, temporary: bool) -> (i64, String) {
        if temporary {
            return (TEMPORARY_OID, TEMPORARY.to_string());
        }
        let found = self.schemas.iter().find(|(_, schema)| schema == name);
        found.cloned().unwrap_or((0, name.to_string()))
    }

    /// Adds the constraints of tables whose indexes are there; the numbers of tables begin at a base.
    fn add_constraints(&mut self, catalog: &Catalog, base: i64, temporary: bool) {
        let kind = if temporary { "temporary" } else { "" };
        for table in &catalog.tables {
            let oid = base + table.id.0 as i64;
            for constraint in &table.constraints {
                let number = self.number(&["constraint", kind, &table.id.to_string(), &constraint.name]);
                let index = match &constraint.rule {
                    ConstraintRule::ForeignKey { table, referred, .. } => {
                        self.index_of(base + table.0 as i64, referred)
                    }
                    rule => rule.key().map_or(0, |columns| self.index_of(oid, columns)),
                };
                let schema = self.schema_of(&table.schema, temporary).0;
                self.constraints.push(Constraint {
                    oid: number,
                    table: oid,
                    schema,
                    entry: constraint.clone(),
                    index,
                });
            }
        }
    }

    fn index_of(&self, table: i64, key: &[ColumnId]) -> i64 {
        let found = self.relations.iter().find(|relation| {
            matches!(&relation.what, What::Index { table: of, columns, unique: true, .. }
                if *of == table && columns == key)
        });
        found.map_or(0, |relation| relation.oid)
    }

    pub fn relation(&self, oid: i64) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }

    /// Returns the table that a constraint or a sequence refers to by its id.
    pub fn table(&self, oid: i64) -> Option<&Arc<TableEntry>> {
        match &self.relation(oid)?.what {
            What::Table { entry, .. } => Some(entry),
            _ => None,
        }
    }

    /// Returns the number of the table of a constraint's or a sequence's owner in the same
    /// database.
    pub fn oid_of_table(relation_oid: i64, id: u64) -> i64 {
        let base = if (TEMPORARY_TABLES_FROM..NAMES_FROM).contains(&relation_oid) {
            TEMPORARY_TABLES_FROM
        } else {
            TABLES_FROM
        };
        base + id as i64
    }

    /// Returns a relation by a name of one or two parts, in quotes where it needs them. Without a
    /// schema, it is one of the current schema or a temporary one.
    pub fn find(&self, scope: &Scope, name: &str) -> Option<&Relation> {
        let parts = parts_of(name);
        let of_schema = |schema: &str, name: &str| {
            self.relations.iter().find(|relation| relation.schema_name == schema && relation.name == name)
        };
        match parts.as_slice() {
            [name] => of_schema(TEMPORARY, name).or_else(|| of_schema(&scope.schema_of(name), name)),
            [schema, name] | [_, schema, name] => of_schema(self.known_schema(schema), name),
            _ => None,
        }
    }

    /// Returns the name that a schema has here: `public` is the one that each database has, unless
    /// there is one of that name.
    pub fn known_schema<'a>(&self, name: &'a str) -> &'a str {
        let is_another = name == SCHEMA_PUBLIC && !self.schemas.iter().any(|(_, known)| known == name);
        if is_another { SCHEMA_MAIN } else { name }
    }
}

/// Returns the parts of a name in PostgreSQL's form: in lower case where it is not in quotes.
pub(super) fn parts_of(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = name.trim().chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        let Some(part) = parts.last_mut() else { break };
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => part.push('"'),
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            other if quoted => part.push(other),
            blank if blank.is_whitespace() => {}
            other => part.extend(other.to_lowercase()),
        }
    }
    parts
}

/// Returns the number from which the tables of a snapshot are numbered, if it is one that the
/// catalogs show.
pub fn tables_from(snapshot: &Arc<Snapshot>, scope: &Scope) -> Option<i64> {
    let is = |other: &Arc<Snapshot>| Arc::ptr_eq(other, snapshot);
    if scope.current_database().is_ok_and(|current| is(&current.snapshot)) {
        return Some(TABLES_FROM);
    }
    scope.snapshot_of(TEMPORARY).is_some_and(|temporary| is(&temporary)).then_some(TEMPORARY_TABLES_FROM)
}

/// Returns the number of a column in its table, from 1.
pub fn attribute_number(column: ColumnId) -> i64 {
    i64::from(column.0) + 1
}

/// Returns a database's number.
pub(super) fn database_oid(name: &str) -> i64 {
    match name {
        OWN_DATABASE => 5,
        other => Objects::default().number(&["database", other]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        assert_eq!(parts_of("Main.\"A.b\"\"c\""), ["main", "A.b\"c"]);
        assert_eq!(parts_of("t"), ["t"]);
        assert_eq!(parts_of("\"main\" . \"a b\""), ["main", "a b"]);
    }

    #[test]
    fn numbers_are_the_same_for_the_same_names_and_never_shared() {
        let mut objects = Objects::default();
        let first = objects.number(&["view", "main", "v"]);
        assert_eq!(Objects::default().number(&["view", "main", "v"]), first);
        assert_ne!(objects.number(&["view", "main", "v"]), first);
        assert!(u32::try_from(first).is_ok());
    }
}
