//! The queries by which a statement finds what it writes, and whether it may.

use crate::session::{Parameters, Session};
use crate::statement::dialect::as_statement;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use hypostyle_bind::bind_statement;
use hypostyle_catalog::planning_error::planning_error;
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

    fn plan(&self, query: Query, parameters: &Parameters) -> Result<LogicalPlan>;

    /// Returns the plan of a statement whose parameters have no values.
    fn plan_as_written(&self, statement: Statement) -> Result<LogicalPlan>;

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

    fn plan(&self, query: Query, parameters: &Parameters) -> Result<LogicalPlan> {
        self.plan(as_statement(query), parameters)
    }

    fn plan_as_written(&self, statement: Statement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let statement = DfStatement::Statement(Box::new(statement));
        let snapshot = self.scope.current_database()?.snapshot;
        let may_be_small = self.may_be_small(&statement);
        let planned = async move {
            bind_statement(&state, statement).await.map_err(|error| planning_error(error, &snapshot))
        };
        if may_be_small { self.wait_here(planned) } else { self.wait_apart(planned) }
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
