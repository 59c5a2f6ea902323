//! Shows catalogs, schemas, tables, columns and constraints, as `get_objects` does.
//!
//! Everything is read from one state of the database, and filtered here. There is not much of it,
//! and ADBC's patterns differ from those of LIKE.

use crate::column::{self, Column};
use crate::constraint::{self, Constraint};
use crate::error::Result;
use crate::nested::{self, lists, member, structs};
use crate::pattern::passes;
use crate::postgres;
use crate::query::{Place, texts, whole};
use crate::session::Session;
use adbc_core::error::Error;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA,
    TABLE_SCHEMA,
};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use hypostyle::Parameters;
use std::sync::Arc;

const TABLE: &str = "table";
const VIEW: &str = "view";

const SCHEMAS: &str = "SELECT catalog_name, schema_name FROM information_schema.schemata \
    WHERE schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY catalog_name, schema_name";

const TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
    WHERE table_schema <> 'information_schema' ORDER BY table_name";

/// The objects that are asked for.
pub struct Filter<'a> {
    pub depth: ObjectDepth,
    pub catalog: Option<&'a str>,
    pub db_schema: Option<&'a str>,
    pub table_name: Option<&'a str>,
    pub table_type: Option<Vec<&'a str>>,
    pub column_name: Option<&'a str>,
}

struct Catalog {
    name: String,
    schemas: Option<Vec<DbSchema>>,
}

struct DbSchema {
    name: String,
    tables: Option<Vec<Table>>,
}

struct Table {
    name: String,
    kind: &'static str,
    columns: Option<Vec<Column>>,
    constraints: Option<Vec<Constraint>>,
}

pub fn table_types() -> Result<RecordBatch> {
    let types: ArrayRef = Arc::new(StringArray::from(vec![TABLE, VIEW]));
    RecordBatch::try_new(GET_TABLE_TYPES_SCHEMA.clone(), vec![types]).map_err(Error::from)
}

pub fn objects(session: &Session, filter: &Filter<'_>) -> Result<RecordBatch> {
    batch(session.consistently(|| catalogs(session, filter))?)
}

fn catalogs(session: &Session, filter: &Filter<'_>) -> Result<Vec<Catalog>> {
    let query = if session.connection().is_postgres() { postgres::SCHEMAS } else { SCHEMAS };
    let schemas = texts(session, query, Parameters::None)?;
    let with_schemas = filter.depth != ObjectDepth::Catalogs;
    let mut tables = match filter.depth {
        ObjectDepth::Catalogs | ObjectDepth::Schemas => None,
        _ => Some(tables(session, filter)?),
    };
    let mut catalogs: Vec<Catalog> = Vec::new();
    for [catalog, schema] in schemas.into_iter().filter_map(whole) {
        if !passes(filter.catalog, &catalog) {
            continue;
        }
        if catalogs.last().is_none_or(|last| last.name != catalog) {
            catalogs.push(Catalog { name: catalog.clone(), schemas: with_schemas.then(Vec::new) });
        }
        if passes(filter.db_schema, &schema)
            && let Some(schemas) = catalogs.last_mut().and_then(|last| last.schemas.as_mut())
        {
            let tables = tables.as_mut().map(|tables| {
                let here = tables.extract_if(.., |((in_catalog, in_schema, _), _)| {
                    *in_catalog == catalog && *in_schema == schema
                });
                here.map(|(_, table)| table).collect()
            });
            schemas.push(DbSchema { name: schema, tables });
        }
    }
    Ok(catalogs)
}

fn tables(session: &Session, filter: &Filter<'_>) -> Result<Vec<(Place, Table)>> {
    let query = if session.connection().is_postgres() { postgres::TABLES } else { TABLES };
    let rows = texts(session, query, Parameters::None)?;
    let with_columns = matches!(filter.depth, ObjectDepth::All | ObjectDepth::Columns);
    let mut columns = if with_columns { column::columns(session)? } else { Vec::new() };
    let constraints = if with_columns { Some(constraint::constraints(session)?) } else { None };
    let mut tables = Vec::new();
    for [catalog, schema, name, kind] in rows.into_iter().filter_map(whole) {
        let kind = if kind == "VIEW" { VIEW } else { TABLE };
        let wanted = passes(filter.catalog, &catalog)
            && passes(filter.db_schema, &schema)
            && passes(filter.table_name, &name)
            && filter.table_type.as_ref().is_none_or(|types| types.contains(&kind));
        if !wanted {
            continue;
        }
        let place = (catalog, schema, name.clone());
        let own = with_columns.then(|| {
            let own = columns.extract_if(.., |(of, _)| *of == place).map(|(_, column)| column);
            own.filter(|column| passes(filter.column_name, &column.name)).collect()
        });
        let constraints = constraints.as_ref().and_then(|known| known.of(&place, kind == TABLE));
        tables.push((place, Table { name, kind, columns: own, constraints }));
    }
    Ok(tables)
}

fn batch(catalogs: Vec<Catalog>) -> Result<RecordBatch> {
    let schema = GET_OBJECTS_SCHEMA.clone();
    let names = nested::texts(&catalogs, |catalog| Some(&catalog.name));
    let schemas = catalogs.into_iter().map(|catalog| catalog.schemas).collect();
    let schemas = lists(schema.field(1).data_type(), schemas, schema_structs)?;
    RecordBatch::try_new(schema, vec![names, schemas]).map_err(Error::from)
}

fn schema_structs(schemas: Vec<DbSchema>) -> Result<ArrayRef> {
    let data_type = &OBJECTS_DB_SCHEMA_SCHEMA;
    let names = nested::texts(&schemas, |schema| Some(&schema.name));
    let tables = schemas.into_iter().map(|schema| schema.tables).collect();
    structs(data_type, vec![names, lists(member(data_type, "db_schema_tables")?, tables, table_structs)?])
}

fn table_structs(tables: Vec<Table>) -> Result<ArrayRef> {
    let data_type = &TABLE_SCHEMA;
    let names = nested::texts(&tables, |table| Some(&table.name));
    let kinds = nested::texts(&tables, |table| Some(table.kind));
    let (columns, constraints) = tables.into_iter().map(|table| (table.columns, table.constraints)).unzip();
    let columns = lists(member(data_type, "table_columns")?, columns, |columns| {
        structs(&COLUMN_SCHEMA, column::members(&columns))
    })?;
    let constraints = lists(member(data_type, "table_constraints")?, constraints, |constraints| {
        structs(&CONSTRAINT_SCHEMA, constraint::members(constraints)?)
    })?;
    structs(data_type, vec![names, kinds, columns, constraints])
}
