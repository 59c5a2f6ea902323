//! Statements: a query with its parameters, or rows to ingest.

use crate::cancel::{Mark, OneStatement};
use crate::error::{Result, from_database, invalid_state, not_implemented};
use crate::export;
use crate::ingest::Ingest;
use crate::option;
use crate::partition;
use crate::query::Reader;
use crate::reader::Results;
use crate::session::{Session, caught};
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, constants as adbc};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema};
use hypostyle::{Executed, LogicalType, Parameters, StatementParameter, StatementRows};
use std::sync::Arc;

/// The option that says whether parameters are matched with columns by name, and not by order.
const BIND_BY_NAME: &str = "adbc.statement.bind_by_name";

const KNOWN: [&str; 6] = [
    adbc::ADBC_INGEST_OPTION_TARGET_TABLE,
    adbc::ADBC_INGEST_OPTION_TARGET_CATALOG,
    adbc::ADBC_INGEST_OPTION_TARGET_DB_SCHEMA,
    adbc::ADBC_INGEST_OPTION_MODE,
    adbc::ADBC_INGEST_OPTION_TEMPORARY,
    BIND_BY_NAME,
];

/// A statement. Bound data is for one execution.
pub struct Statement {
    session: Arc<Session>,
    mark: Mark,
    sql: Option<String>,
    ingest: Ingest,
    by_name: bool,
    bound: Option<Box<dyn RecordBatchReader + Send>>,
}

impl Statement {
    pub fn new(session: Arc<Session>) -> Self {
        let (mark, ingest) = (Mark::default(), Ingest::default());
        Self { session, mark, sql: None, ingest, by_name: false, bound: None }
    }

    /// Returns the query as the database's statement.
    fn query(&self) -> Result<hypostyle::Statement> {
        let sql = self.sql.as_deref();
        let sql = sql.ok_or_else(|| invalid_state("the statement has no query; set one first"))?;
        let statement = hypostyle::Statement::new(self.session.driver().clone(), sql);
        Ok(statement.with_mark(self.mark.clone()))
    }

    fn run(&mut self) -> Result<Executed> {
        check_open(&self.session)?;
        self.mark.clear();
        if let Some(table) = &self.ingest.table {
            let data = self.bound.take().ok_or_else(|| {
                invalid_state(format!("there are no rows to ingest into \"{table}\"; bind them first"))
            })?;
            let rows = self.ingest.run(table, &self.session, &self.mark, data)?;
            return Ok(Executed::Written(Some(rows)));
        }
        let statement = self.query()?;
        let executed = match self.bound.take() {
            Some(rows) => statement.execute_rows(rows, self.by_name),
            None => statement.execute(Parameters::None),
        };
        executed.map_err(from_database)
    }

    /// Returns the rows of an execution, or the number of rows that it has written.
    fn rows(&self, executed: Executed) -> std::result::Result<StatementRows, Option<i64>> {
        let (session, mark) = (self.session.driver().clone(), self.mark.clone());
        match executed {
            Executed::Once(result) if result.is_query() => Ok(StatementRows::of(session, mark, result)),
            Executed::Once(result) => Err(number(result.rows_affected())),
            Executed::Rows(rows) => Ok(rows),
            Executed::Written(rows) => Err(number(rows)),
        }
    }
}

fn number(rows: Option<u64>) -> Option<i64> {
    rows.and_then(|rows| i64::try_from(rows).ok())
}

impl Optionable for Statement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        if key.as_ref() == BIND_BY_NAME {
            self.by_name = option::boolean(BIND_BY_NAME, value)?;
            return Ok(());
        }
        match self.ingest.set(&key, &value) {
            Some(set) => set,
            None => Err(option::unknown("statement", key.as_ref(), &KNOWN)),
        }
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        if key.as_ref() == BIND_BY_NAME {
            return Ok(option::flag(self.by_name));
        }
        self.ingest.get(&key).ok_or_else(|| option::unset("statement", key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        option::to_number("statement", key.as_ref(), &self.get_option_string(key.clone())?)
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        self.get_option_int(key).map(|value| value as f64)
    }
}

impl adbc_core::Statement for Statement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Reader> {
        let executed = caught(|| self.run())?;
        let (rows, written) = match self.rows(executed) {
            Ok(rows) => (rows, None),
            Err(written) => (StatementRows::none(self.session.driver().clone(), self.mark.clone()), written),
        };
        let results = Results::new(rows);
        export::hand_over(written, results.failure());
        Ok(Box::new(results))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let executed = caught(|| self.run())?;
        match self.rows(executed) {
            Ok(rows) => rows.drain().map(|rows| number(Some(rows))).map_err(from_database),
            Err(written) => Ok(written),
        }
    }

    /// Plans the query, and at most begins it. Its rows are not computed, because nobody takes any.
    fn execute_schema(&mut self) -> Result<Schema> {
        check_open(&self.session)?;
        if self.ingest.table.is_some() {
            return Ok(Schema::empty());
        }
        let statement = self.query()?;
        let bound = self.bound.take();
        let schema = caught(|| statement.schema(bound, self.by_name).map_err(from_database))?;
        Ok(schema.as_ref().clone())
    }

    /// Begins nothing: the rows are computed when the partitions are read.
    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        check_open(&self.session)?;
        self.mark.clear();
        if self.ingest.table.is_some() || self.bound.take().is_some() {
            return Err(not_implemented(
                "partitions are those of a query without bound data: write the values in it",
            ));
        }
        let statement = self.query()?;
        caught(|| {
            let partitions = partition::of(&self.session, &self.mark, statement.sql())?;
            let schema = statement.schema(None, self.by_name).map_err(from_database)?;
            Ok(PartitionedResult { partitions, schema: schema.as_ref().clone(), rows_affected: -1 })
        })
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        check_open(&self.session)?;
        let parameters = self.query()?.parameters().map_err(from_database)?;
        let fields = parameters.into_iter().map(|StatementParameter { name, logical_type }| {
            let name = name.unwrap_or_default();
            match logical_type {
                Some(logical_type) => LogicalType::arrow_field(&logical_type, &name, true),
                None => Field::new(name, DataType::Null, true),
            }
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Does nothing: the database keeps parsed statements by their text, so there is no work before
    /// the first execution.
    fn prepare(&mut self) -> Result<()> {
        check_open(&self.session)?;
        self.query().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.sql = Some(query.as_ref().to_string());
        self.ingest = Ingest::default();
        self.bound = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(not_implemented("plans in Substrait are not supported; set a query in SQL"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(OneStatement(self.mark.clone()))
    }
}

/// Serves statements whose connection has been released.
fn check_open(session: &Session) -> Result<()> {
    match session.connection().is_killed() {
        true => Err(invalid_state("the connection is closed; connect again")),
        false => Ok(()),
    }
}
