//! Prepared statements: their kind, their parameters and columns before they run, and executions
//! with one row of values or with many.

use crate::bound::{BoundRows, misuse};
use crate::cancel::CancelMark;
use crate::placeholder::{RowInsert, Scanned};
use crate::{ColumnDescription, DriverSession, QueryResult, StatementDescription, StatementKind, caught};
use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use hypostyle_engine::{Parameters, split_statements};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::{Arc, OnceLock};

/// A parameter of a statement.
///
/// ```
/// # use hypostyle::{Database, DriverSession, LogicalType, OpenOptions, Statement};
/// # use std::sync::Arc;
/// let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
/// let parameters = Statement::new(session, "SELECT $rate::DOUBLE").parameters()?;
/// assert_eq!(parameters[0].name.as_deref(), Some("rate"));
/// assert_eq!(parameters[0].logical_type, Some(LogicalType::Double));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StatementParameter {
    /// Its name, unless it is written as `?` or `$1`.
    pub name: Option<String>,
    /// Its type, if something in the statement determines it.
    pub logical_type: Option<LogicalType>,
}

/// The outcome of an execution.
///
/// ```
/// # use hypostyle::{Database, DriverSession, Executed, OpenOptions, Parameters, Statement};
/// # use std::sync::Arc;
/// let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
/// match Statement::new(session, "SELECT 1").execute(Parameters::None)? {
///     Executed::Once(result) => assert_eq!(result.row_count()?, 1),
///     Executed::Rows(_) | Executed::Written(_) => unreachable!("one row of values gives one result"),
/// }
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub enum Executed {
    /// The result of one execution, which may have no rows.
    Once(QueryResult),
    /// The rows of several executions, one after the other.
    Rows(StatementRows),
    /// The number of rows that several executions have written, if it is known.
    Written(Option<u64>),
}

/// A statement of one session, which is executed as often as one wants.
///
/// The database keeps parsed statements by their text, so that making one asks nothing.
///
/// ```
/// use hypostyle::{Database, DriverSession, Executed, OpenOptions, Parameters, ScalarValue, Statement};
/// use std::sync::Arc;
///
/// let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
/// let statement = Statement::new(session, "SELECT ? + 1 AS b");
/// assert_eq!(statement.parameter_names().len(), 1);
/// let one = Parameters::Positional(vec![ScalarValue::Int32(Some(1))]);
/// assert!(matches!(statement.execute(one)?, Executed::Once(_)));
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct Statement {
    session: Arc<DriverSession>,
    mark: CancelMark,
    sql: String,
    scanned: Scanned,
    /// The names of the parameters, which each execution looks at.
    names: Vec<String>,
    has_names: bool,
    /// How many statements the text has, once something has asked.
    statements: OnceLock<usize>,
}

impl Statement {
    pub fn new(session: Arc<DriverSession>, sql: impl Into<String>) -> Self {
        let sql = sql.into();
        let scanned = Scanned::of(&sql);
        let (names, has_names) = (scanned.names(), scanned.has_names());
        let mark = CancelMark::default();
        Self { session, mark, sql, scanned, names, has_names, statements: OnceLock::new() }
    }

    /// Returns the same statement with another mark, which cancels it.
    #[must_use]
    pub fn with_mark(mut self, mark: CancelMark) -> Self {
        self.mark = mark;
        self
    }

    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the mark that cancels its executions.
    pub fn mark(&self) -> &CancelMark {
        &self.mark
    }

    /// Says by its words what the statement does.
    ///
    /// ```
    /// # use hypostyle::{Database, DriverSession, OpenOptions, Statement, StatementKind};
    /// # use std::sync::Arc;
    /// let session = DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?);
    /// let statement = Statement::new(Arc::new(session), "-- a comment\nDELETE FROM t");
    /// assert_eq!(statement.kind(), StatementKind::Delete);
    /// # Ok::<(), hypostyle::Error>(())
    /// ```
    pub fn kind(&self) -> StatementKind {
        match self.statements() {
            0 | 1 => self.scanned.kind(),
            _ => StatementKind::Other,
        }
    }

    /// Returns the names of the parameters, each once and in order. The names of `?` and `$1` are
    /// their numbers.
    pub fn parameter_names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Says whether parameters have names that are not numbers.
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// Returns the parameters with what the database knows of their types.
    ///
    /// # Errors
    /// The errors of [`crate::Connection::describe`].
    pub fn parameters(&self) -> Result<Vec<StatementParameter>> {
        let types = if self.names.is_empty() { Vec::new() } else { self.describe()?.parameters };
        let mut types = types.into_iter();
        let parameter = |name: &String| StatementParameter {
            name: self.has_names.then(|| name.clone()),
            logical_type: types.next().flatten(),
        };
        Ok(self.names.iter().map(parameter).collect())
    }

    /// Returns the columns of its result; none if it has no rows. It may plan the query, but
    /// computes no rows.
    ///
    /// # Errors
    /// The errors of [`crate::Connection::describe`]; `Unsupported` when only running the statement
    /// tells its columns.
    pub fn columns(&self) -> Result<Vec<ColumnDescription>> {
        if self.statements() > 1 {
            return Err(Error::unsupported("the columns of several statements are not told; execute them"));
        }
        let StatementDescription { columns, runs_to_tell, .. } = self.describe()?;
        match runs_to_tell {
            true => Err(Error::unsupported("only running this statement tells its columns; execute it")),
            false => Ok(columns.unwrap_or_default()),
        }
    }

    /// Returns the schema of its result as Arrow has it, for the first row of values of a stream if
    /// one is given. A query is begun to tell it, and no rows are computed.
    ///
    /// # Errors
    /// Those of [`Self::columns`], or of beginning the query.
    pub fn schema(
        &self,
        bound: Option<Box<dyn RecordBatchReader + Send>>,
        by_name: bool,
    ) -> Result<SchemaRef> {
        self.mark.clear();
        if self.reads_only() {
            let parameters = self.example(bound, by_name)?;
            let result = self.session.step(|| self.session.execute(&self.mark, &self.sql, parameters))?;
            return Ok(result.schema());
        }
        let field = |column: ColumnDescription| {
            LogicalType::arrow_field(&column.logical_type, &column.name, column.nullable)
        };
        let fields: Vec<Field> = self.columns()?.into_iter().map(field).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Executes it with one row of values, or with none.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn execute(&self, parameters: Parameters) -> Result<Executed> {
        self.mark.clear();
        self.once(parameters)
    }

    /// Executes it for each row of a stream: changes take effect for all rows or none. Columns are
    /// matched with parameters by name, or else by order.
    ///
    /// # Errors
    /// Those of the statement and of the stream; `InvalidInput` (HY024) for columns that do not fit
    /// the parameters.
    pub fn execute_rows(&self, rows: Box<dyn RecordBatchReader + Send>, by_name: bool) -> Result<Executed> {
        self.mark.clear();
        let mut rows = BoundRows::new(rows, &self.scanned, by_name)?;
        let Some(first) = rows.next()? else { return self.for_no_row(&rows) };
        if !rows.more()? {
            return self.once(first);
        }
        if self.reads_only() {
            let current = self.session.step(|| self.session.execute(&self.mark, &self.sql, first))?;
            let source = Source::Many { sql: self.sql.clone(), rows: Box::new(rows), current };
            return Ok(Executed::Rows(self.rows(nullable(&source.schema()), source)));
        }
        let insert = self.scanned.row_insert(&self.sql);
        match insert.filter(|insert| insert.parameters == rows.width()) {
            Some(insert) => self.insert_rows(&insert, first, rows),
            None => self.for_each_row(first, rows),
        }
    }

    fn once(&self, parameters: Parameters) -> Result<Executed> {
        let result = self.session.step(|| self.session.execute(&self.mark, &self.sql, parameters))?;
        Ok(Executed::Once(result))
    }

    fn rows(&self, schema: SchemaRef, source: Source) -> StatementRows {
        let (session, mark) = (self.session.clone(), self.mark.clone());
        StatementRows { session, mark, failure: Arc::default(), schema, source }
    }

    /// Runs [`Self::for_each_row`] for an INSERT that can take several rows at once.
    fn insert_rows(
        &self,
        insert: &RowInsert<'_>,
        first: Parameters,
        mut rows: BoundRows,
    ) -> Result<Executed> {
        let at_once = insert.rows_at_once();
        let of_many = insert.of_rows(at_once);
        self.session.atomically(|| {
            let (mut written, mut next) = (Written::default(), Some(first));
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
                written.take(self, &result)?;
            }
            Ok(written.executed(self))
        })
    }

    /// Executes a statement that writes for all rows. It takes effect for all of them or none.
    fn for_each_row(&self, first: Parameters, mut rows: BoundRows) -> Result<Executed> {
        self.session.atomically(|| {
            let (mut written, mut next) = (Written::default(), Some(first));
            while let Some(parameters) = next {
                let result = self.session.execute(&self.mark, &self.sql, parameters)?;
                written.take(self, &result)?;
                next = rows.next()?;
            }
            Ok(written.executed(self))
        })
    }

    /// Handles bound data without rows: nothing is executed, but a query has its columns.
    fn for_no_row(&self, rows: &BoundRows) -> Result<Executed> {
        if !self.reads_only() {
            return Ok(Executed::Written(Some(0)));
        }
        let nulls = rows.nulls()?;
        let result = self.session.step(|| self.session.execute(&self.mark, &self.sql, nulls))?;
        Ok(Executed::Rows(self.rows(result.schema(), Source::Nothing)))
    }

    /// Says whether it is one statement that changes nothing.
    fn reads_only(&self) -> bool {
        self.scanned.only_reads() && self.statements() == 1
    }

    /// Counts the statements of the text. Drivers ask at each execution what it does.
    fn statements(&self) -> usize {
        *self.statements.get_or_init(|| split_statements(&self.sql).len())
    }

    /// Returns the database's description of the statement.
    fn describe(&self) -> Result<StatementDescription> {
        let sql = self.scanned.numbered(&self.sql);
        self.session.call(&CancelMark::default(), |connection| connection.describe(&sql))
    }

    /// Returns parameters for an execution of which only the columns are needed.
    fn example(&self, bound: Option<Box<dyn RecordBatchReader + Send>>, by_name: bool) -> Result<Parameters> {
        if let Some(bound) = bound {
            let mut rows = BoundRows::new(bound, &self.scanned, by_name)?;
            return match rows.next()? {
                Some(first) => Ok(first),
                None => rows.nulls(),
            };
        }
        if self.names.is_empty() {
            return Ok(Parameters::None);
        }
        let mut types = self.describe()?.parameters.into_iter();
        let nulls = self.names.iter().map(|name| {
            let data_type =
                types.next().flatten().map_or(DataType::Null, |logical_type| logical_type.arrow_type());
            (name.clone(), ScalarValue::try_from(&data_type).unwrap_or(ScalarValue::Null))
        });
        Ok(match self.has_names {
            true => Parameters::Named(nulls.collect()),
            false => Parameters::Positional(nulls.map(|(_, null)| null).collect()),
        })
    }

    /// Returns parameters with the names that the statement has for them.
    ///
    /// # Errors
    /// `InvalidInput` (HY024) for another number of values than of parameters.
    pub fn parameters_of(&self, values: Vec<ScalarValue>) -> Result<Parameters> {
        if values.len() != self.names.len() {
            return Err(misuse(format!(
                "the statement has {} parameters, but {} values are bound",
                self.names.len(),
                values.len()
            )));
        }
        Ok(match (self.names.is_empty(), self.has_names) {
            (true, _) => Parameters::None,
            (false, true) => Parameters::Named(self.names.iter().cloned().zip(values).collect()),
            (false, false) => Parameters::Positional(values),
        })
    }
}

/// What executions of a statement that writes have come to.
struct Written {
    /// The rows that were written, if all executions have told it.
    sum: Option<u64>,
    /// The rows that they have given, of the types of the first ones.
    schema: Option<SchemaRef>,
    batches: Vec<RecordBatch>,
}

impl Default for Written {
    fn default() -> Self {
        Self { sum: Some(0), schema: None, batches: Vec::new() }
    }
}

impl Written {
    fn take(&mut self, statement: &Statement, result: &QueryResult) -> Result<()> {
        if result.is_query() {
            let schema = self.schema.get_or_insert_with(|| nullable(&result.schema()));
            for batch in statement.session.call(&statement.mark, |_| result.record_batches())? {
                self.batches.push(conform(&batch, schema)?);
            }
        }
        self.sum = self.sum.zip(result.rows_affected()).map(|(sum, rows)| sum + rows);
        Ok(())
    }

    fn executed(self, statement: &Statement) -> Executed {
        match self.schema {
            Some(schema) => Executed::Rows(statement.rows(schema, Source::Kept(self.batches.into_iter()))),
            None => Executed::Written(self.sum),
        }
    }
}

/// The rows of an execution for several rows of values. A query runs for the next row of values when
/// its rows are asked for.
///
/// ```
/// # use hypostyle::{Database, DriverSession, Executed, OpenOptions, Statement};
/// # use hypostyle::arrow::array::{ArrayRef, Int64Array};
/// # use hypostyle::arrow::record_batch::{RecordBatch, RecordBatchIterator};
/// # use std::sync::Arc;
/// let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
/// let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
/// let rows = RecordBatch::try_from_iter([("a", values)]).expect("one column has one length");
/// let schema = rows.schema();
/// let rows = Box::new(RecordBatchIterator::new([Ok(rows)], schema));
/// let Executed::Rows(mut rows) = Statement::new(session, "SELECT ?").execute_rows(rows, false)? else {
///     unreachable!("two rows of values give two results")
/// };
/// let mut count = 0;
/// while let Some(batch) = rows.next_batch()? {
///     count += batch.num_rows();
/// }
/// assert_eq!(count, 2);
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct StatementRows {
    session: Arc<DriverSession>,
    mark: CancelMark,
    failure: Arc<Mutex<Option<Error>>>,
    schema: SchemaRef,
    source: Source,
}

enum Source {
    One(QueryResult),
    /// Runs a query for each row of parameters, one after the other.
    Many {
        sql: String,
        rows: Box<BoundRows>,
        current: QueryResult,
    },
    Kept(std::vec::IntoIter<RecordBatch>),
    Nothing,
}

impl Source {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::One(result) | Self::Many { current: result, .. } => result.schema(),
            Self::Kept(_) | Self::Nothing => Arc::new(Schema::empty()),
        }
    }
}

impl StatementRows {
    /// Returns the rows of one result; `mark` cancels reading them.
    pub fn of(session: Arc<DriverSession>, mark: CancelMark, result: QueryResult) -> Self {
        let source = Source::One(result);
        Self { session, mark, failure: Arc::default(), schema: source.schema(), source }
    }

    /// Returns no rows without columns.
    pub fn none(session: Arc<DriverSession>, mark: CancelMark) -> Self {
        let source = Source::Nothing;
        Self { session, mark, failure: Arc::default(), schema: source.schema(), source }
    }

    /// Returns the place of the reason for which reading ended early, which an Arrow stream has no
    /// field for.
    pub fn failure(&self) -> Arc<Mutex<Option<Error>>> {
        self.failure.clone()
    }

    /// Reads to the end, and returns the number of rows.
    ///
    /// # Errors
    /// Those of [`Self::next_batch`].
    pub fn drain(mut self) -> Result<u64> {
        let mut rows = 0;
        while let Some(batch) = self.next_batch()? {
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    /// Returns the next rows, in the types of the schema. No rows come after an error.
    ///
    /// # Errors
    /// Those of the statement and of the stream of values; `Interrupted`.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = caught(|| self.advance());
        if !matches!(next, Ok(Some(_))) {
            self.source = Source::Nothing;
        }
        next
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

impl Iterator for StatementRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_batch() {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                *self.failure.lock() = Some(error.clone());
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for StatementRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Returns a schema in which NULL is allowed everywhere. That of the first result need not do so: a value was
/// bound where NULL is bound for a later one.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(nullable_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn nullable_field(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(nullable_field(item)),
        DataType::LargeList(item) => DataType::LargeList(nullable_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(nullable_field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nullable_field).collect()),
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(true))
}

/// Returns the same rows in the types of the stream.
fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::internal(format!(
            "a result of {} columns follows one of {}",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .collect::<std::result::Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
        .map_err(|error| {
            Error::invalid_input(format!(
                "the results for two rows of parameters differ in their types: {error}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, OpenOptions};
    use arrow::array::{
        Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatchIterator, StringArray,
    };
    use arrow::datatypes::Int64Type;
    use arrow::util::display::array_value_to_string;

    #[test]
    fn each_execution_has_the_types_of_its_own_values() -> Result<()> {
        let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
        let statement = Statement::new(session, "SELECT typeof(?) AS t");
        for (value, expected) in [
            (ScalarValue::Int32(Some(1)), "INTEGER"),
            (ScalarValue::from("x"), "VARCHAR"),
            (ScalarValue::Int64(Some(1)), "BIGINT"),
            (ScalarValue::Decimal128(Some(125), 5, 2), "DECIMAL(5,2)"),
            (ScalarValue::TimestampMicrosecond(Some(0), None), "TIMESTAMP"),
            (ScalarValue::Int32(Some(1)), "INTEGER"),
        ] {
            let executed = statement.execute(Parameters::Positional(vec![value]))?;
            let Executed::Once(result) = executed else { unreachable!("one row of values gives one result") };
            let told =
                result.record_batches()?.first().map(|batch| array_value_to_string(batch.column(0), 0));
            assert_eq!(told.and_then(std::result::Result::ok).as_deref(), Some(expected));
        }
        Ok(())
    }

    #[test]
    fn returning_gives_the_rows_in_the_order_of_their_values() -> Result<()> {
        let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
        let create = "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, a BIGINT)";
        session.execute(&CancelMark::default(), create, Parameters::None).map(drop)?;
        // More than are inserted at once, and a rest.
        let numbers: Vec<i64> = (0..250).rev().collect();
        let expected: Vec<i64> = numbers.iter().map(|number| number + 1).collect();
        let values: ArrayRef = Arc::new(Int64Array::from(numbers));
        for sql in
            ["INSERT INTO t (a) VALUES (?) RETURNING a + 1", "INSERT INTO t (a) SELECT ? RETURNING a + 1"]
        {
            let rows =
                RecordBatch::try_from_iter([("a", values.clone())]).expect("one column has one length");
            let schema = rows.schema();
            let bound = Box::new(RecordBatchIterator::new([Ok(rows)], schema));
            let Executed::Rows(mut result) =
                Statement::new(session.clone(), sql).execute_rows(bound, false)?
            else {
                unreachable!("RETURNING gives rows")
            };
            let mut found = Vec::new();
            while let Some(batch) = result.next_batch()? {
                found.extend(batch.column(0).as_primitive::<Int64Type>().values().iter().copied());
            }
            assert_eq!(found, expected, "{sql}");
        }
        Ok(())
    }

    #[test]
    fn null_may_be_bound_behind_a_value() -> Result<()> {
        let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
        session.execute(&CancelMark::default(), "CREATE TABLE t (a DOUBLE)", Parameters::None).map(drop)?;
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None, Some(2.5)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, None]));
        let rows = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).expect("columns of three rows");
        let bound = |rows: RecordBatch| {
            let schema = rows.schema();
            Box::new(RecordBatchIterator::new([Ok(rows)], schema))
        };
        for sql in ["SELECT ? AS a, ? AS b", "SELECT [?] AS a, {'b': ?} AS b"] {
            let statement = Statement::new(session.clone(), sql);
            let Executed::Rows(result) = statement.execute_rows(bound(rows.clone()), false)? else {
                unreachable!("three rows of values give three results")
            };
            assert_eq!(result.drain()?, 3, "{sql}");
        }
        let sql = "INSERT INTO t SELECT ? RETURNING a";
        let numbers = rows.project(&[0]).expect("it has a column");
        let Executed::Rows(mut result) = Statement::new(session, sql).execute_rows(bound(numbers), false)?
        else {
            unreachable!("RETURNING gives rows")
        };
        let mut nulls = 0;
        while let Some(batch) = result.next_batch()? {
            nulls += batch.column(0).null_count();
        }
        assert_eq!(nulls, 1);
        Ok(())
    }
}
