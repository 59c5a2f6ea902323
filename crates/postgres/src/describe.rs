//! What a server says of statements and tables.

use crate::address::Numeric;
use crate::columns::find_digits;
use crate::link::Link;
use crate::message::check_text;
use crate::query::{describe, schema};
use crate::statement::{quoted_text, split};
use crate::types::{Described, relation_columns, shapes};
use arrow_schema::{Field, Schema};
use hypostyle_client::{Description, Gives, TableEntry};
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The relations that programs see: tables, partitioned and foreign ones, views and stored views.
const TABLES: &str = "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
    AND NOT pg_catalog.pg_is_other_temp_schema(n.oid) ORDER BY n.nspname, c.relname";

/// A table that rows are appended to.
pub struct Table {
    /// The name as SQL has it, with its schema where that is needed.
    pub name: String,
    pub columns: Vec<TableColumn>,
}

pub struct TableColumn {
    pub described: Described,
    /// Says whether the server computes its values.
    pub is_generated: bool,
}

/// Describes one statement before it runs.
///
/// # Errors
/// Those of the server.
pub fn describe_statement(
    link: &mut Link,
    sql: &str,
    is_standard: bool,
    numeric: Numeric,
) -> Result<Description> {
    check_text(sql, "the statement")?;
    let statements = split(sql, is_standard);
    let [statement] = statements.as_slice() else {
        let message = format!("one statement is described, and the text has {}", statements.len());
        return Err(Error::new(ErrorKind::Syntax, message));
    };
    let prepared = describe(link, statement.text, &[])
        .map_err(|error| crate::query::moved(error, statement.before, 0))?;
    let mut parameters: Vec<Described> = prepared
        .parameters
        .iter()
        .zip(1..)
        .map(|(oid, number): (&u32, u32)| Described {
            name: format!("${number}"),
            table: 0,
            number: 0,
            oid: *oid,
            modifier: -1,
            dimensions: 0,
            is_nullable: true,
        })
        .collect();
    let (parameters, _) = schema(link, &mut parameters, numeric)?;
    let gives = if prepared.columns.is_some() { Gives::Rows } else { Gives::Nothing };
    let mut columns = prepared.columns.unwrap_or_default();
    if numeric == Numeric::Auto {
        find_digits(link, *statement, &prepared.parameters, &mut columns)?;
    }
    let (columns, _) = schema(link, &mut columns, numeric)?;
    Ok(Description { query: 0, gives, parameters, columns })
}

/// Returns all tables and views, in order of schema and name. The number of rows is not known: the
/// server has an estimate only.
///
/// # Errors
/// Those of the server.
pub fn tables(link: &mut Link, numeric: Numeric) -> Result<Vec<TableEntry>> {
    let relations = link.select(TABLES)?;
    let condition = "EXISTS (SELECT 1 FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'f', 'v', 'm') \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast'))";
    let mut columns = relation_columns(link, condition)?;
    let mut tables = Vec::with_capacity(relations.len());
    for relation in relations {
        let [Some(oid), Some(schema), Some(name), Some(kind)] = relation.as_slice() else {
            return Err(Error::protocol("a row of the catalog is not as it was asked for"));
        };
        let columns = columns.remove(&oid.parse().unwrap_or_default()).unwrap_or_default();
        let shapes = shapes(link, &columns, numeric)?;
        let fields: Vec<Field> = columns
            .iter()
            .zip(&shapes)
            .map(|(column, shape)| shape.field(&column.name, column.is_nullable))
            .collect();
        tables.push(TableEntry {
            schema: schema.clone(),
            name: name.clone(),
            is_view: matches!(kind.as_str(), "v" | "m"),
            rows: None,
            columns: Arc::new(Schema::new(fields)),
        });
    }
    Ok(tables)
}

/// Returns the table of a name as SQL has it, if there is one.
///
/// # Errors
/// `Syntax` for a name that is none; those of the server.
pub fn table(link: &mut Link, name: &str) -> Result<Option<Table>> {
    check_text(name, "the name of the table")?;
    let regclass = format!("pg_catalog.to_regclass({})", quoted_text(name));
    let rows = link.select(&format!(
        "SELECT {regclass}::pg_catalog.text, a.attname, a.atttypid, a.atttypmod, a.attndims, \
         a.attgenerated <> '' OR a.attidentity = 'a' FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = {regclass}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attnum"
    ))?;
    let mut table = Table { name: String::new(), columns: Vec::new() };
    for row in rows {
        let [Some(full), Some(name), Some(oid), Some(modifier), Some(dimensions), Some(generated)] =
            row.as_slice()
        else {
            return Err(Error::protocol("a row of the catalog is not as it was asked for"));
        };
        table.name.clone_from(full);
        let described = Described {
            name: name.clone(),
            table: 0,
            number: 0,
            oid: oid.parse().unwrap_or_default(),
            modifier: modifier.parse().unwrap_or(-1),
            dimensions: dimensions.parse().unwrap_or_default(),
            is_nullable: true,
        };
        table.columns.push(TableColumn { described, is_generated: generated == "t" });
    }
    Ok((!table.name.is_empty()).then_some(table))
}
