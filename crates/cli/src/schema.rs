//! `.schema` shows the statements that would create the tables and views again.

use crate::token::quote_name;
use hypostyle::arrow::array::AsArray;
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::DataType;
use hypostyle::{Connection, Error, ErrorKind, Result};

/// Returns the CREATE statements of every table, or of the one of that name.
///
/// # Errors
/// `UnknownName` if there is none; `Unsupported` for PostgreSQL, which does not tell them.
pub fn create_statements(connection: &Connection, name: Option<&str>) -> Result<String> {
    if connection.is_postgres() {
        return Err(Error::unsupported(
            "PostgreSQL does not tell the statements that made its tables: run pg_dump --schema-only",
        ));
    }
    let mut tables = connection.tables()?;
    if let Some(name) = name {
        tables.retain(|table| {
            table.name.eq_ignore_ascii_case(name)
                || format!("{}.{}", table.schema, table.name).eq_ignore_ascii_case(name)
        });
        if tables.is_empty() {
            return Err(Error::new(
                ErrorKind::UnknownName,
                format!("no table or view \"{name}\"; see .tables"),
            ));
        }
    }
    let mut text = String::new();
    for table in &tables {
        let name = format!("{}.{}", quote_name(&table.schema), quote_name(&table.name));
        let result = connection.execute(&format!("SHOW CREATE TABLE {name}"))?;
        for batch in result.record_batches()? {
            let statements = cast(batch.column(1), &DataType::Utf8)
                .map_err(|error| Error::internal(format!("a definition is not text: {error}")))?;
            for statement in statements.as_string::<i32>().iter().flatten() {
                text.push_str(statement.trim().trim_end_matches(';'));
                text.push_str(";\n");
            }
        }
    }
    Ok(text)
}
