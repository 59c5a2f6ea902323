//! Results as streams of record batches, which are computed or fetched on request.

use crate::cancel::{Mark, locked};
use crate::error::{Result, from_database, internal};
use crate::parameters::Rows;
use crate::session::{Session, caught};
use adbc_core::error::Error;
use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use hypostyle::QueryResult;
use std::sync::{Arc, Mutex};

/// The reason why a stream has ended early: Arrow's streams have no field for a status and an
/// SQLSTATE.
#[derive(Clone, Default)]
pub struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub fn get(&self) -> Option<Error> {
        locked(&self.0).clone()
    }
}

pub struct Results {
    session: Arc<Session>,
    mark: Mark,
    failure: Failure,
    schema: SchemaRef,
    source: Source,
}

enum Source {
    One(QueryResult),
    /// Runs a query for each row of parameters, one after the other.
    Many {
        sql: String,
        rows: Box<Rows>,
        current: QueryResult,
    },
    Kept(std::vec::IntoIter<RecordBatch>),
    Nothing,
}

impl Results {
    pub fn of(session: Arc<Session>, mark: Mark, result: QueryResult) -> Self {
        let schema = result.schema();
        Self { session, mark, failure: Failure::default(), schema, source: Source::One(result) }
    }

    /// Returns the first result and those of the other rows.
    pub fn of_many(session: Arc<Session>, mark: Mark, current: QueryResult, sql: String, rows: Rows) -> Self {
        let schema = current.schema();
        let source = Source::Many { sql, rows: Box::new(rows), current };
        Self { session, mark, failure: Failure::default(), schema, source }
    }

    /// Returns batches of this schema.
    pub fn kept(session: Arc<Session>, mark: Mark, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let source = Source::Kept(batches.into_iter());
        Self { session, mark, failure: Failure::default(), schema, source }
    }

    pub fn empty(session: Arc<Session>, mark: Mark) -> Self {
        Self::kept(session, mark, Arc::new(Schema::empty()), Vec::new())
    }

    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Reads to the end, and returns the number of rows.
    pub fn drain(mut self) -> Result<i64> {
        let mut rows = 0;
        while let Some(batch) = self.advance()? {
            rows += batch.num_rows() as i64;
        }
        Ok(rows)
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let (session, mark) = (&self.session, &self.mark);
        match &mut self.source {
            Source::One(result) => session.call(mark, |_| result.next_batch()),
            Source::Kept(batches) => Ok(batches.next()),
            Source::Nothing => Ok(None),
            Source::Many { sql, rows, current } => loop {
                if let Some(batch) = session.call(mark, |_| current.next_batch())? {
                    return conform(&batch, &self.schema).map(Some);
                }
                let Some(parameters) = rows.next()? else { return Ok(None) };
                *current = session.step(|| session.execute(mark, sql, parameters))?;
            },
        }
    }
}

impl Iterator for Results {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match caught(|| self.advance()) {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                self.source = Source::Nothing;
                None
            }
            Err(error) => {
                self.source = Source::Nothing;
                *locked(&self.failure.0) = Some(error.clone());
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for Results {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Returns the same rows in the types of the stream.
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    if batch.num_columns() != schema.fields().len() {
        return Err(internal(format!(
            "a result of {} columns follows one of {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
        .map_err(|error| {
            let message = format!("the results for two rows of parameters differ in their types: {error}");
            from_database(hypostyle::Error::invalid_input(message))
        })
}
