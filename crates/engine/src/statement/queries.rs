//! The queries by which a statement finds what it writes, and whether it may.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::dialect::as_statement;
use crate::statement::result::Purpose;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use hypostyle_storage::Transaction;
use hypostyle_types::{Error, LogicalType, Result};

/// Answers the queries of a statement: the session that runs it, or what stands for one in tests.
pub(super) trait Queries {
    /// Starts a statement that is planned, whose rows are wanted later.
    fn start_statement(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome>;

    /// Starts what is planned.
    fn start_plan(&self, plan: LogicalPlan, purpose: Purpose) -> Result<Outcome>;

    /// Runs a statement as if it were the caller's.
    fn result(&self, statement: Statement, parameters: &Parameters) -> Result<Outcome>;

    /// Returns the columns and the rows of what was started.
    fn collected(&self, started: Outcome) -> Result<(SchemaRef, Vec<RecordBatch>)>;

    /// Hands on the rows of a query that was started, which are never all in memory.
    fn each_of(&self, started: Outcome, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()>;

    fn plan_statement(&self, statement: DfStatement, parameters: &Parameters) -> Result<LogicalPlan>;

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

    fn plan(&self, query: Query, parameters: &Parameters) -> Result<LogicalPlan> {
        self.plan_statement(as_statement(query), parameters)
    }

    /// Starts a query, whose rows are wanted later.
    fn start(&self, query: Query, parameters: &Parameters) -> Result<Outcome> {
        self.start_statement(as_statement(query), parameters)
    }

    /// Returns the columns and the rows of a query.
    fn rows(&self, query: Query, parameters: &Parameters) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        self.collected(self.start(query, parameters)?)
    }

    /// Hands on the rows of a query.
    fn each(
        &self,
        query: Query,
        parameters: &Parameters,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.each_of(self.start(query, parameters)?, each)
    }

    /// Returns the outcome with all its rows.
    fn computed(&self, outcome: Outcome) -> Result<Outcome> {
        match outcome {
            stream @ Outcome::Stream { .. } => {
                let (schema, batches) = self.collected(stream)?;
                Ok(Outcome::Batches { schema, batches, rows_affected: None })
            }
            other => Ok(other),
        }
    }

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

/// Changes databases for a statement: in the open transaction, or in one that ends with the change.
pub(super) trait Transactions: Queries {
    /// Changes a database; the change is made once.
    fn change(&self, database: &str, change: &mut dyn FnMut(&mut Transaction) -> Result<()>) -> Result<()>;

    /// Says whether BEGIN has opened a transaction that is not over.
    fn is_open(&self) -> bool;

    /// Shows the statement what has been committed by now, or what its transaction sees.
    fn renew(&self) -> Result<()>;

    /// Makes the database of temporary tables, unless it is there.
    fn make_temporary(&self) -> Result<()>;
}

impl dyn Transactions + '_ {
    /// Changes a database, and returns what the change does.
    pub fn write<T>(&self, database: &str, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let (mut change, mut made) = (Some(change), None);
        self.change(database, &mut |writer| {
            let change = change.take().ok_or_else(|| Error::internal("a change that was made already"))?;
            made = Some(change(writer)?);
            Ok(())
        })?;
        made.ok_or_else(|| Error::internal("a change that was not made"))
    }
}

impl Transactions for Session {
    fn change(&self, database: &str, change: &mut dyn FnMut(&mut Transaction) -> Result<()>) -> Result<()> {
        self.write(database, change)
    }

    fn is_open(&self) -> bool {
        self.is_in_transaction()
    }

    fn renew(&self) -> Result<()> {
        self.refresh()
    }

    fn make_temporary(&self) -> Result<()> {
        self.make_temporary()
    }
}

impl Queries for Session {
    fn start_statement(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        self.planner().query(statement, parameters)
    }

    fn start_plan(&self, plan: LogicalPlan, purpose: Purpose) -> Result<Outcome> {
        self.planner().start_query(plan, purpose)
    }

    fn result(&self, statement: Statement, parameters: &Parameters) -> Result<Outcome> {
        self.execute_parsed(DfStatement::Statement(Box::new(statement)), parameters)
    }

    fn collected(&self, started: Outcome) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        self.collect_rows(started)
    }

    fn each_of(&self, started: Outcome, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        self.each_batch(started, each)
    }

    fn plan_statement(&self, statement: DfStatement, parameters: &Parameters) -> Result<LogicalPlan> {
        self.planner().plan(statement, parameters)
    }

    fn plan_as_written(&self, statement: Statement) -> Result<LogicalPlan> {
        self.planner().plan_as_written(statement)
    }

    fn columns(&self, query: Query, parameters: &Parameters) -> Result<Vec<(String, LogicalType, bool)>> {
        Self::describe(&self.planner().query(as_statement(query), parameters)?)
    }

    fn columns_in(&self, database: &str, query: Query) -> Result<Vec<(String, LogicalType, bool)>> {
        Self::describe(&self.planner().query_from(database, as_statement(query))?)
    }

    fn proceed(&self) -> Result<()> {
        self.check_interrupt()
    }
}
