//! `.import` loads a file of this machine into a table. The engine knows the file's format by its
//! extension.
//!
//! A database in this process loads the file by itself. For a server, a database in memory reads
//! the file here, and its rows are appended while they are read.

use crate::token::quote_name;
use hypostyle::arrow::array::RecordBatch;
use hypostyle::arrow::error::ArrowError;
use hypostyle::arrow::record_batch::RecordBatchIterator;
use hypostyle::{AppendOptions, ColumnDescription, Connection, Error, QueryResult, Result, TableDescription};

/// Refuses a file whose name has no ending: the engine would take it for a table.
///
/// # Errors
/// `NotFound` if there is none; `Io` for one that cannot be looked at; else `InvalidInput`.
pub fn check(file: &str) -> Result<()> {
    let name = file.rsplit('/').next().unwrap_or(file);
    if name.contains(['.', '*', '?', '[', '{']) || file.starts_with("~/") {
        return Ok(());
    }
    std::fs::metadata(file).map_err(|error| Error::from_io(&error, format!("cannot read \"{file}\"")))?;
    Err(Error::invalid_input(format!(
        "cannot tell the format of \"{file}\" from its name; give it an ending, such as .csv, or use COPY or read_csv"
    )))
}

/// Returns a `COPY` into an existing table, or a `CREATE TABLE … AS` for a new one.
///
/// # Errors
/// An error if the tables cannot be listed.
pub fn statement(connection: &Connection, file: &str, table: &str) -> Result<String> {
    let exists = find(connection, table)?.is_some();
    Ok(load_statement(file, table, exists))
}

fn find(connection: &Connection, table: &str) -> Result<Option<TableDescription>> {
    let is_it =
        |known: &TableDescription| known.name == table || format!("{}.{}", known.schema, known.name) == table;
    Ok(connection.tables()?.into_iter().find(is_it))
}

/// Appends a file that `local` reads, in one transaction, and returns the number of rows. A table
/// that does not exist is created.
///
/// # Errors
/// The errors of reading the file and of appending; `InvalidInput` when the file lacks columns of
/// the table.
pub fn append(connection: &Connection, local: &Connection, file: &str, table: &str) -> Result<u64> {
    let name: Vec<String> = table.split('.').map(quote_name).collect();
    let found = find(connection, table)?;
    let rows = match &found {
        None => local.execute(&format!("SELECT * FROM {}", literal(file)))?,
        Some(target) => {
            let source = source_of_texts(file);
            let columns = local.execute(&format!("SELECT * FROM {source} LIMIT 0"))?;
            local.execute(&select_for(target, columns.columns(), &source, file)?)?
        }
    };
    append_rows(connection, &name.join("."), rows, found.is_none())
}

/// Appends the rows of a result while they come, and returns their number. `create` makes the table.
///
/// # Errors
/// The errors of the query and of appending.
pub fn append_rows(connection: &Connection, table: &str, rows: QueryResult, create: bool) -> Result<u64> {
    let options = AppendOptions { create, by_name: true };
    let schema = rows.schema();
    connection.append(table, Box::new(RecordBatchIterator::new(Batches(rows), schema)), options)
}

/// Returns a file as a source whose text stays text: the types are known, so nothing is guessed.
fn source_of_texts(file: &str) -> String {
    let lower = file.to_ascii_lowercase();
    let is_csv = [".csv", ".tsv"].iter().any(|ending| lower.contains(ending));
    match is_csv {
        true => format!("read_csv({}, all_varchar => true)", literal(file)),
        false => literal(file),
    }
}

/// Returns the columns of a file in the form of a table: by name if all names are there, or else by
/// position.
fn select_for(
    target: &TableDescription,
    columns: &[ColumnDescription],
    source: &str,
    file: &str,
) -> Result<String> {
    let place = |name: &str| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    let by_name: Option<Vec<usize>> = target.columns.iter().map(|column| place(&column.name)).collect();
    let places = match by_name {
        Some(places) => places,
        None if columns.len() == target.columns.len() => (0..columns.len()).collect(),
        None => {
            return Err(Error::invalid_input(format!(
                "{file}: {} columns, but table \"{}\" has {}; its rows go by name or by place",
                columns.len(),
                target.name,
                target.columns.len()
            )));
        }
    };
    let items = places.iter().zip(&target.columns).map(|(place, column)| {
        let (read, name) = (&columns[*place], quote_name(&column.name));
        let value = quote_name(&read.name);
        match read.logical_type == column.logical_type {
            true => format!("{value} AS {name}"),
            false => format!("CAST({value} AS {}) AS {name}", column.logical_type),
        }
    });
    Ok(format!("SELECT {} FROM {source}", items.collect::<Vec<_>>().join(", ")))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Reads the batches of a result as they come.
struct Batches(QueryResult);

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

fn load_statement(file: &str, table: &str, exists: bool) -> String {
    let name: Vec<String> = table.split('.').map(quote_name).collect();
    let (name, file) = (name.join("."), literal(file));
    match exists {
        true => format!("COPY {name} FROM {file}"),
        false => format!("CREATE TABLE {name} AS SELECT * FROM {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_are_quoted() {
        assert_eq!(
            load_statement("it's.csv.gz", "raw.Order", false),
            "CREATE TABLE raw.\"Order\" AS SELECT * FROM 'it''s.csv.gz'"
        );
        assert_eq!(load_statement("a.ndjson", "t", true), "COPY t FROM 'a.ndjson'");
    }
}
