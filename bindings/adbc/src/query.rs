//! What the driver asks the database itself, and in which shape it gives the answers.

use crate::cancel::Mark;
use crate::error::{Result, internal, with_sqlstate};
use crate::session::Session;
use adbc_core::error::{Error, Status};
use arrow_array::{Array, RecordBatch, RecordBatchReader, StringArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use hypostyle::Parameters;

/// Rows that are given out.
pub type Reader = Box<dyn RecordBatchReader + Send + 'static>;

/// The place of a table: catalog, schema and name.
pub type Place = (String, String, String);

/// The schema that each catalog of ours has.
pub const MAIN: &str = "main";

/// A name as SQL takes it, whatever is in it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The catalog and the schema of names that have none.
pub fn current(session: &Session) -> Result<(String, String)> {
    let sql = "SELECT current_database(), current_schema()";
    let rows = texts(session, sql, Parameters::None)?;
    match rows.into_iter().next().as_deref() {
        Some([Some(catalog), Some(schema)]) => Ok((catalog.clone(), schema.clone())),
        Some([Some(_), None]) => Err(with_sqlstate(
            "no schema is selected, because the search path names none that exists",
            Status::NotFound,
            "3F000",
        )),
        _ => Err(internal("a session without a current database")),
    }
}

/// The schema of a catalog that is named without one.
pub fn first_schema(session: &Session) -> Result<String> {
    match session.connection().is_postgres() {
        true => current(session).map(|(_, schema)| schema),
        false => Ok(MAIN.into()),
    }
}

/// All rows of a query, as text.
pub fn texts(session: &Session, sql: &str, parameters: Parameters) -> Result<Vec<Vec<Option<String>>>> {
    let mark = Mark::default();
    let result = session.execute(&mark, sql, parameters)?;
    let batches = session.call(&mark, |_| result.record_batches())?;
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
        let columns: Vec<&StringArray> =
            columns.iter().filter_map(|column| column.as_any().downcast_ref()).collect();
        let value = |column: &&StringArray, row| column.is_valid(row).then(|| column.value(row).to_string());
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| value(column, row)).collect()),
        );
    }
    Ok(rows)
}

/// The texts of a row of which none is NULL.
pub fn whole<const N: usize>(row: Vec<Option<String>>) -> Option<[String; N]> {
    row.into_iter().collect::<Option<Vec<String>>>()?.try_into().ok()
}

/// One batch as a whole result.
pub fn one_batch(batch: RecordBatch) -> Reader {
    let schema = batch.schema();
    Box::new(arrow_array::RecordBatchIterator::new([Ok(batch)], schema))
}
