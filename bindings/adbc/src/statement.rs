//! Statements: a query with its parameters, or rows to ingest.

use crate::cancel::Mark;
use crate::error::{Result, invalid_state, not_implemented};
use crate::export;
use crate::ingest::Ingest;
use crate::option;
use crate::parameters::{RowInsert, Rows, Scanned};
use crate::query::Reader;
use crate::reader::{Results, conform};
use crate::session::{Session, caught};
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, constants as adbc};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema};
use hypostyle::{LogicalType, Parameters, QueryResult, ScalarValue, StatementDescription};
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

/// The result of an execution.
enum Ran {
    Rows(Box<Results>),
    /// The number of rows that were written, if it is known.
    Written(Option<i64>),
}

impl Ran {
    fn rows(results: Results) -> Self {
        Self::Rows(Box::new(results))
    }
}

impl Statement {
    pub fn new(session: Arc<Session>) -> Self {
        let (mark, ingest) = (Mark::default(), Ingest::default());
        Self { session, mark, sql: None, ingest, by_name: false, bound: None }
    }

    fn sql(&self) -> Result<&str> {
        self.sql.as_deref().ok_or_else(|| invalid_state("the statement has no query; set one first"))
    }

    fn run(&mut self) -> Result<Ran> {
        check_open(&self.session)?;
        self.mark.clear();
        if let Some(table) = &self.ingest.table {
            let data = self.bound.take().ok_or_else(|| {
                invalid_state(format!("there are no rows to ingest into \"{table}\"; bind them first"))
            })?;
            let rows = self.ingest.run(table, &self.session, &self.mark, data)?;
            return Ok(Ran::Written(i64::try_from(rows).ok()));
        }
        let sql = self.sql()?.to_string();
        let Some(bound) = self.bound.take() else { return self.once(&sql, Parameters::None) };
        let scanned = Scanned::of(&sql);
        let mut rows = Rows::new(bound, &scanned, self.by_name)?;
        let Some(first) = rows.next()? else { return self.for_no_row(&sql, &scanned, &rows) };
        if !rows.more()? {
            return self.once(&sql, first);
        }
        if reads_only(&sql, &scanned) {
            let result = self.session.step(|| self.session.execute(&self.mark, &sql, first))?;
            let (session, mark) = (self.session.clone(), self.mark.clone());
            return Ok(Ran::rows(Results::of_many(session, mark, result, sql, rows)));
        }
        match scanned.row_insert(&sql).filter(|insert| insert.parameters == rows.width()) {
            Some(insert) => self.insert_rows(&insert, first, rows),
            None => self.for_each_row(&sql, first, rows),
        }
    }

    fn once(&self, sql: &str, parameters: Parameters) -> Result<Ran> {
        let result = self.session.step(|| self.session.execute(&self.mark, sql, parameters))?;
        Ok(match result.is_query() {
            true => Ran::rows(Results::of(self.session.clone(), self.mark.clone(), result)),
            false => Ran::Written(written(&result)),
        })
    }

    /// Runs [`Self::for_each_row`] for an INSERT that can take several rows at once.
    fn insert_rows(&self, insert: &RowInsert<'_>, first: Parameters, mut rows: Rows) -> Result<Ran> {
        let at_once = insert.rows_at_once();
        let of_many = insert.of_rows(at_once);
        self.session.atomically(|| {
            let (mut sum, mut next) = (Some(0), Some(first));
            while next.is_some() {
                let (mut values, mut count) = (Vec::new(), 0);
                while let Some(Parameters::Positional(row)) = next.take() {
                    values.extend(row);
                    count += 1;
                    next = rows.next()?;
                    if count == at_once {
                        break;
                    }
                }
                let of_rest = (count < at_once).then(|| insert.of_rows(count));
                let sql = of_rest.as_deref().unwrap_or(&of_many);
                let result = self.session.execute(&self.mark, sql, Parameters::Positional(values))?;
                sum = sum.zip(written(&result)).map(|(sum, rows)| sum + rows);
            }
            Ok(Ran::Written(sum))
        })
    }

    /// Executes a statement that writes for all rows. It takes effect for all of them or none.
    fn for_each_row(&self, sql: &str, first: Parameters, mut rows: Rows) -> Result<Ran> {
        let (session, mark) = (&self.session, &self.mark);
        session.atomically(|| {
            let (mut sum, mut schema, mut batches) = (Some(0), None, Vec::new());
            let mut next = Some(first);
            while let Some(parameters) = next {
                let result = session.execute(mark, sql, parameters)?;
                if result.is_query() {
                    let schema = schema.get_or_insert_with(|| result.schema());
                    for batch in session.call(mark, |_| result.record_batches())? {
                        batches.push(conform(&batch, schema)?);
                    }
                }
                sum = sum.zip(written(&result)).map(|(sum, rows)| sum + rows);
                next = rows.next()?;
            }
            Ok(match schema {
                Some(schema) => Ran::rows(Results::kept(session.clone(), mark.clone(), schema, batches)),
                None => Ran::Written(sum),
            })
        })
    }

    /// Handles bound data without rows: nothing is executed, but a query has its columns.
    fn for_no_row(&self, sql: &str, scanned: &Scanned, rows: &Rows) -> Result<Ran> {
        if !reads_only(sql, scanned) {
            return Ok(Ran::Written(Some(0)));
        }
        let nulls = rows.nulls()?;
        let result = self.session.step(|| self.session.execute(&self.mark, sql, nulls))?;
        Ok(Ran::rows(Results::kept(self.session.clone(), self.mark.clone(), result.schema(), Vec::new())))
    }

    /// Returns the database's description of the statement.
    fn describe(&self, sql: &str) -> Result<StatementDescription> {
        self.session.call(&Mark::default(), |connection| connection.describe(sql))
    }

    /// Returns parameters for a statement of which only the columns are needed.
    fn example(&mut self, sql: &str, scanned: &Scanned) -> Result<Parameters> {
        if let Some(bound) = self.bound.take() {
            let mut rows = Rows::new(bound, scanned, self.by_name)?;
            return match rows.next()? {
                Some(first) => Ok(first),
                None => rows.nulls(),
            };
        }
        let names = scanned.names();
        if names.is_empty() {
            return Ok(Parameters::None);
        }
        let mut types = self.describe(&scanned.numbered(sql))?.parameters.into_iter();
        let nulls = names.into_iter().map(|name| {
            let data_type =
                types.next().flatten().map_or(DataType::Null, |logical_type| logical_type.arrow_type());
            (name, ScalarValue::try_from(&data_type).unwrap_or(ScalarValue::Null))
        });
        Ok(match scanned.has_names() {
            true => Parameters::Named(nulls.collect()),
            false => Parameters::Positional(nulls.map(|(_, null)| null).collect()),
        })
    }
}

/// Says whether it is one statement that changes nothing.
fn reads_only(sql: &str, scanned: &Scanned) -> bool {
    scanned.only_reads() && hypostyle::split_statements(sql).len() == 1
}

fn written(result: &QueryResult) -> Option<i64> {
    result.rows_affected().and_then(|rows| i64::try_from(rows).ok())
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
        let (results, written) = match caught(|| self.run())? {
            Ran::Rows(results) => (*results, None),
            Ran::Written(rows) => (Results::empty(self.session.clone(), self.mark.clone()), rows),
        };
        export::hand_over(written, results.failure());
        Ok(Box::new(results))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        match caught(|| self.run())? {
            Ran::Rows(results) => results.drain().map(Some),
            Ran::Written(rows) => Ok(rows),
        }
    }

    /// Plans the query, and at most begins it. Its rows are not computed, because nobody takes any.
    fn execute_schema(&mut self) -> Result<Schema> {
        check_open(&self.session)?;
        self.mark.clear();
        if self.ingest.table.is_some() {
            return Ok(Schema::empty());
        }
        let sql = self.sql()?.to_string();
        let scanned = Scanned::of(&sql);
        if reads_only(&sql, &scanned) {
            let parameters = self.example(&sql, &scanned)?;
            let result = self.session.step(|| self.session.execute(&self.mark, &sql, parameters))?;
            return Ok(result.schema().as_ref().clone());
        }
        if hypostyle::split_statements(&sql).len() > 1 {
            return Err(not_implemented("the columns of several statements are not told; execute them"));
        }
        let StatementDescription { columns, runs_to_tell, .. } = self.describe(&scanned.numbered(&sql))?;
        if runs_to_tell {
            return Err(not_implemented("only running this statement tells its columns; execute it"));
        }
        let field = |column: hypostyle::ColumnDescription| {
            column.logical_type.arrow_field(&column.name, column.nullable)
        };
        Ok(Schema::new(columns.unwrap_or_default().into_iter().map(field).collect::<Vec<_>>()))
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(not_implemented("results are not partitioned; execute the statement"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        check_open(&self.session)?;
        let sql = self.sql()?;
        let scanned = Scanned::of(sql);
        let names = scanned.names();
        let types = match names.is_empty() {
            true => Vec::new(),
            false => self.describe(&scanned.numbered(sql))?.parameters,
        };
        let mut types = types.into_iter();
        let fields = names.iter().map(|name| {
            let name = if scanned.has_names() { name } else { "" };
            match types.next().flatten() {
                Some(logical_type) => LogicalType::arrow_field(&logical_type, name, true),
                None => Field::new(name, DataType::Null, true),
            }
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Does nothing: the database keeps parsed statements by their text, so there is no work before
    /// the first execution.
    fn prepare(&mut self) -> Result<()> {
        check_open(&self.session)?;
        self.sql().map(drop)
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
        Box::new(self.mark.clone())
    }
}

/// Serves statements whose connection has been released.
fn check_open(session: &Session) -> Result<()> {
    match session.connection().is_killed() {
        true => Err(invalid_state("the connection is closed; connect again")),
        false => Ok(()),
    }
}
