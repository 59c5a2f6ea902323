//! The queries by which a statement finds what it writes, and whether it may.

use crate::session::{Parameters, Session};
use crate::statement::dialect::as_statement;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::Query;
use hypostyle_types::{LogicalType, Result};

/// Answers the queries of a statement: the session that runs it, or what stands for one in tests.
pub(super) trait Queries {
    /// Returns the columns and the rows of a query.
    fn rows(&self, query: Query, parameters: &Parameters) -> Result<(SchemaRef, Vec<RecordBatch>)>;

    /// Hands on the rows of a query, which are never all in memory.
    fn each(
        &self,
        query: Query,
        parameters: &Parameters,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()>;

    /// Returns the columns of a query: their names, their types, and whether they may be NULL.
    fn columns(&self, query: Query, parameters: &Parameters) -> Result<Vec<(String, LogicalType, bool)>>;

    /// Returns the same of a query whose names are those of a database's definitions.
    fn columns_in(&self, database: &str, query: Query) -> Result<Vec<(String, LogicalType, bool)>>;

    /// Asked now and then.
    ///
    /// # Errors
    /// The one with which the statement is to end.
    fn proceed(&self) -> Result<()>;

    /// Returns the first row that a query gives.
    fn first_row(&self, query: Query) -> Result<Option<RecordBatch>> {
        let (_, batches) = self.rows(query, &Parameters::None)?;
        Ok(batches.into_iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.slice(0, 1)))
    }

    fn rows_of_query(&self, query: Query) -> Result<Vec<RecordBatch>> {
        let (_, mut batches) = self.rows(query, &Parameters::None)?;
        batches.retain(|batch| batch.num_rows() > 0);
        Ok(batches)
    }
}

impl Queries for Session {
    fn rows(&self, query: Query, parameters: &Parameters) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        self.collect_rows(self.query(as_statement(query), parameters)?)
    }

    fn each(
        &self,
        query: Query,
        parameters: &Parameters,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.each_batch(self.query(as_statement(query), parameters)?, each)
    }

    fn columns(&self, query: Query, parameters: &Parameters) -> Result<Vec<(String, LogicalType, bool)>> {
        Self::describe(&self.query(as_statement(query), parameters)?)
    }

    fn columns_in(&self, database: &str, query: Query) -> Result<Vec<(String, LogicalType, bool)>> {
        Self::describe(&self.query_from(database, as_statement(query))?)
    }

    fn proceed(&self) -> Result<()> {
        self.check_interrupt()
    }
}
