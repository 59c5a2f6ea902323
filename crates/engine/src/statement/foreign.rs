//! Rows that are inserted into tables of databases of other systems. Their server takes them in a
//! transaction of its own, all or none.

use crate::session::{Outcome, Parameters, Rows, Session};
use crate::statement::insert::refuse_foreign;
use crate::statement::refusal::refuse;
use crate::statement::result::for_caller;
use arrow::array::{RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Insert, Statement};
use hypostyle_catalog::scope::Name;
use hypostyle_foreign::{AttachedDatabase, Wanted};
use hypostyle_sql::identifier::last_of;
use hypostyle_sql::insert_clauses::{is_by_name, take_overriding};
use hypostyle_types::{Error, Result};
use std::sync::Arc;

impl Session {
    /// Runs INSERT INTO a table of another system's database. The rows are sent while they are
    /// computed.
    ///
    /// # Errors
    /// `TransactionState` inside a transaction, which could not take the rows back; those of the query
    /// and of the server.
    pub(super) fn insert_into_foreign(
        &self,
        attached: &AttachedDatabase,
        table: &Name,
        insert: &Insert,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let mut insert = insert.clone();
        let overriding = take_overriding(&mut insert.partitioned);
        refuse(overriding, "OVERRIDING SYSTEM VALUE for a table of another system")?;
        let is_by_name = is_by_name(insert.partitioned.as_deref());
        if is_by_name {
            insert.partitioned = None;
        }
        refuse_foreign(&insert)?;
        let has_conflict = insert.on.is_some() || insert.or.is_some() || insert.replace_into;
        refuse(has_conflict, "ON CONFLICT for a table of another system")?;
        refuse(insert.returning.is_some(), "RETURNING from a table of another system")?;
        let Some(source) = &insert.source else {
            return Err(Error::unsupported("DEFAULT VALUES for a table of another system are not supported"));
        };
        let names = insert.columns.iter().map(last_of).collect::<Result<Vec<_>>>()?;
        let query = DfStatement::Statement(Box::new(Statement::Query(source.clone())));
        let outcome = self.planner().query_for_result(query, parameters).and_then(for_caller)?;
        // Without other names, the columns have those of the query.
        let rows = Selected::new(self, outcome, &names)?;
        let by_name = is_by_name || !names.is_empty();
        let count = self.append_to_foreign(attached, table, Box::new(rows), false, by_name)?;
        Ok(Outcome::Done { rows_affected: Some(count) })
    }

    /// Appends rows to a table of another system's database, and returns their number.
    ///
    /// # Errors
    /// As [`Self::insert_into_foreign`].
    pub(super) fn append_to_foreign(
        &self,
        attached: &AttachedDatabase,
        table: &Name,
        rows: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
    ) -> Result<u64> {
        self.identity.privileges.check_write()?;
        self.refuse_in_transaction("INSERT into a table of another system")?;
        let session = self.handle()?;
        let wanted: Wanted = Arc::new(move || session.check_interrupt().is_ok());
        let table = hypostyle_foreign::Name { schema: table.schema.clone(), name: table.name.clone() };
        let appended = attached.database().append(&table, rows, create, by_name, &wanted);
        // The server is told of an interrupt, and only the session knows why.
        appended.map_err(|error| self.check_interrupt().err().unwrap_or(error))
    }
}

/// The rows of a query, which are computed while they are taken.
struct Selected {
    session: Arc<Session>,
    schema: SchemaRef,
    source: Source,
}

enum Source {
    Coming(Rows),
    Known(std::vec::IntoIter<RecordBatch>),
}

impl Selected {
    /// Takes the rows of an outcome, with other names of the columns unless there are none.
    ///
    /// # Errors
    /// `InvalidInput` (42601) for another number of columns.
    fn new(session: &Session, outcome: Outcome, names: &[String]) -> Result<Self> {
        let (schema, source) = match outcome {
            Outcome::Stream { schema, stream } => (schema, Source::Coming(session.rows(stream))),
            other => {
                let (schema, batches) = session.collect_rows(other)?;
                (schema, Source::Known(batches.into_iter()))
            }
        };
        let (given, named) = (schema.fields().len(), names.len());
        if named > 0 && given != named {
            let message = format!("INSERT names {named} columns, and its query has {given}");
            return Err(Error::invalid_input(message).with_sqlstate("42601"));
        }
        let fields = schema.fields().iter().enumerate().map(|(place, field)| {
            let name = names.get(place).unwrap_or(field.name());
            field.as_ref().clone().with_name(name).with_nullable(true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        Ok(Self { session: session.handle()?, schema, source })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match &mut self.source {
            Source::Coming(rows) => self.session.next_batch(rows)?,
            Source::Known(batches) => batches.next(),
        };
        let Some(batch) = batch else { return Ok(None) };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), batch.columns().to_vec(), &options)
            .map(Some)
            .map_err(|error| Error::internal(format!("rows are not as their query was planned: {error}")))
    }
}

impl Iterator for Selected {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Selected {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
