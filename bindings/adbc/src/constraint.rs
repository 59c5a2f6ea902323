//! Keys, foreign keys and checks of tables.
//!
//! `pg_catalog` has those of the current catalog and of temporary tables. Those of other attached
//! databases are not known.

use crate::error::Result;
use crate::nested::{self, lists, member, structs};
use crate::query::{MAIN, Place, current, texts, whole};
use crate::session::Session;
use adbc_core::schemas::{CONSTRAINT_SCHEMA, USAGE_SCHEMA};
use arrow_array::ArrayRef;
use hypostyle::Parameters;
use std::collections::HashMap;

const TEMPORARY: &str = "temp";

#[derive(Clone)]
pub struct Constraint {
    name: String,
    kind: &'static str,
    columns: Vec<String>,
    /// The columns that a foreign key refers to.
    usage: Option<Vec<Usage>>,
}

#[derive(Clone)]
struct Usage {
    table: Place,
    column: String,
}

/// The constraints of the catalogs in which they are known.
pub struct Constraints {
    catalogs: [String; 2],
    tables: HashMap<Place, Vec<Constraint>>,
}

impl Constraints {
    /// Returns the constraints of a table or a view. Returns `None` if they are not known.
    pub fn of(&self, place: &Place, is_table: bool) -> Option<Vec<Constraint>> {
        if !is_table {
            return Some(Vec::new());
        }
        self.catalogs.contains(&place.0).then(|| self.tables.get(place).cloned().unwrap_or_default())
    }
}

const TABLES: &str = "SELECT c.oid, n.nspname, c.relname, c.relpersistence FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')";

const COLUMNS: &str = "SELECT attrelid, attnum, attname FROM pg_catalog.pg_attribute WHERE attnum > 0";

const CONSTRAINTS: &str = "SELECT conrelid, conname, contype, coalesce(array_to_string(conkey, ','), ''), confrelid, \
    coalesce(array_to_string(confkey, ','), '') FROM pg_catalog.pg_constraint ORDER BY conname";

pub fn constraints(session: &Session) -> Result<Constraints> {
    let rows = |sql| texts(session, sql, Parameters::None);
    let is_postgres = session.connection().is_postgres();
    let (catalog, _) = current(session)?;
    let mut places: HashMap<String, Place> = HashMap::new();
    for [oid, schema, table, persistence] in rows(TABLES)?.into_iter().filter_map(whole) {
        let (catalog, schema) = match persistence.as_str() {
            "t" if !is_postgres => (TEMPORARY.into(), MAIN.into()),
            _ => (catalog.clone(), schema),
        };
        places.insert(oid, (catalog, schema, table));
    }
    let columns = rows(COLUMNS)?.into_iter().filter_map(whole);
    let columns: HashMap<(String, String), String> =
        columns.map(|[table, number, name]: [String; 3]| ((table, number), name)).collect();
    let names = |table: &str, numbers: &str| -> Vec<String> {
        let numbers = numbers.split(',').filter(|number| !number.is_empty());
        numbers.filter_map(|number| columns.get(&(table.into(), number.into())).cloned()).collect()
    };
    let mut tables: HashMap<Place, Vec<Constraint>> = HashMap::new();
    for [table, name, kind, key, target, target_key] in rows(CONSTRAINTS)?.into_iter().filter_map(whole) {
        let kind = match kind.as_str() {
            "p" => "PRIMARY KEY",
            "u" => "UNIQUE",
            "f" => "FOREIGN KEY",
            "c" => "CHECK",
            _ => continue,
        };
        let Some(place) = places.get(&table) else { continue };
        let usage = places.get(&target).filter(|_| kind == "FOREIGN KEY").map(|of| {
            let usage = |column| Usage { table: of.clone(), column };
            names(&target, &target_key).into_iter().map(usage).collect()
        });
        let constraint = Constraint { name, kind, columns: names(&table, &key), usage };
        tables.entry(place.clone()).or_default().push(constraint);
    }
    Ok(Constraints { catalogs: [catalog, TEMPORARY.into()], tables })
}

/// Returns the members of ADBC's struct of a constraint.
pub fn members(constraints: Vec<Constraint>) -> Result<Vec<ArrayRef>> {
    let names = nested::texts(&constraints, |constraint| Some(&constraint.name));
    let kinds = nested::texts(&constraints, |constraint| Some(constraint.kind));
    let (columns, usage) =
        constraints.into_iter().map(|constraint| (Some(constraint.columns), constraint.usage)).unzip();
    let columns =
        lists(member(&CONSTRAINT_SCHEMA, "constraint_column_names")?, columns, |names: Vec<String>| {
            Ok(nested::texts(&names, |name| Some(name)))
        })?;
    let usage = lists(member(&CONSTRAINT_SCHEMA, "constraint_column_usage")?, usage, |usage: Vec<Usage>| {
        structs(
            &USAGE_SCHEMA,
            vec![
                nested::texts(&usage, |usage| Some(&usage.table.0)),
                nested::texts(&usage, |usage| Some(&usage.table.1)),
                nested::texts(&usage, |usage| Some(&usage.table.2)),
                nested::texts(&usage, |usage| Some(&usage.column)),
            ],
        )
    })?;
    Ok(vec![names, kinds, columns, usage])
}
