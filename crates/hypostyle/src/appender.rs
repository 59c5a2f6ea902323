//! Appending rows that a program pushes: values, rows or batches, of which all or none are appended.
//!
//! Values wait in one builder for each column until they are a piece. The first piece begins a
//! transaction, or a savepoint in an open one. Rows that fit in one piece are appended by
//! themselves.

use crate::bound::misuse;
use crate::cancel::CancelMark;
use crate::driver_session::Together;
use crate::{AppendOptions, ColumnDescription, DriverSession, Parameters};
use arrow::array::{
    Array, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, LargeBinaryBuilder, LargeStringBuilder,
    RecordBatch, RecordBatchIterator, RecordBatchOptions, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use hypostyle_engine::identifier::{quoted, split_name};
use hypostyle_engine::lexer::{TokenKind, tokens};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::sync::Arc;

/// The rows and the bytes of text that make a piece.
const PIECE_ROWS: usize = 64 << 10;
const PIECE_BYTES: usize = 16 << 20;

/// A value for one column of a row.
///
/// ```
/// use hypostyle::AppendValue;
/// assert_ne!(AppendValue::Integer(1), AppendValue::Float(1.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AppendValue<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// A value of any type, such as DECIMAL or TIMESTAMP.
    Scalar(ScalarValue),
}

/// Appends rows to one table; all of them take effect at [`Self::finish`], or none. Other statements
/// of its session between its first and its last piece belong to its transaction.
///
/// ```
/// use hypostyle::{Appender, AppendValue, Database, DriverSession, OpenOptions};
/// use std::sync::Arc;
///
/// let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
/// session.connection().execute("CREATE TABLE t (a INTEGER, b VARCHAR)")?;
/// let mut appender = Appender::open(session.clone(), "t")?;
/// appender.row([AppendValue::Integer(1), AppendValue::Text("one")])?;
/// appender.row([AppendValue::Integer(2), AppendValue::Null])?;
/// assert_eq!(appender.finish()?, 2);
/// assert_eq!(session.connection().table("t")?.row_count()?, 2);
/// # Ok::<(), hypostyle::Error>(())
/// ```
pub struct Appender {
    session: Arc<DriverSession>,
    mark: CancelMark,
    table: String,
    columns: Vec<ColumnDescription>,
    builders: Vec<Builder>,
    /// The column of the next value.
    next: usize,
    rows: usize,
    bytes: usize,
    appended: u64,
    /// What the first piece has begun.
    scope: Option<Together>,
    /// Why it refuses everything; nothing is appended then.
    failed: Option<Error>,
    is_over: bool,
}

impl Appender {
    /// Begins to append rows to a table. Nothing is written, and no transaction is begun.
    ///
    /// # Errors
    /// `UnknownName`; `Syntax` for what is no name, in PostgreSQL; `Closed`.
    pub fn open(session: Arc<DriverSession>, table: &str) -> Result<Self> {
        let mark = CancelMark::default();
        let name = written(table, session.connection().is_postgres())?;
        let sql = format!("SELECT * FROM {name} LIMIT 0");
        let columns = session.execute(&mark, &sql, Parameters::None)?.columns().to_vec();
        let builders = columns.iter().map(|column| Builder::of(&column.logical_type)).collect();
        Ok(Self {
            session,
            mark,
            table: table.to_string(),
            columns,
            builders,
            next: 0,
            rows: 0,
            bytes: 0,
            appended: 0,
            scope: None,
            failed: None,
            is_over: false,
        })
    }

    /// Returns the columns of the table, in the order of a row's values.
    pub fn columns(&self) -> &[ColumnDescription] {
        &self.columns
    }

    /// Appends one value to the row that is being made.
    ///
    /// # Errors
    /// `InvalidInput` with the column and the value, which does not become part of the row.
    pub fn value(&mut self, value: AppendValue<'_>) -> Result<()> {
        self.check()?;
        let Some(column) = self.columns.get(self.next) else {
            return Err(misuse(format!(
                "table \"{}\" has {} columns, and the row has a value for each; end the row",
                self.table,
                self.columns.len()
            )));
        };
        let bytes = match &value {
            AppendValue::Text(text) => text.len(),
            AppendValue::Bytes(bytes) => bytes.len(),
            AppendValue::Scalar(_) => size_of::<ScalarValue>(),
            _ => size_of::<i64>(),
        };
        let refused = |error: Error| error.context(format!("column \"{}\"", column.name));
        self.builders[self.next].push(value, &column.logical_type).map_err(refused)?;
        self.bytes += bytes;
        self.next += 1;
        Ok(())
    }

    /// Ends a row. A full piece of rows is appended.
    ///
    /// # Errors
    /// `InvalidInput` (HY024) for a row without a value for each column; after an error of the
    /// database everything is refused, and nothing is appended.
    pub fn end_row(&mut self) -> Result<()> {
        self.check()?;
        if self.next != self.columns.len() {
            return Err(misuse(format!(
                "the row has {} values, but table \"{}\" has {} columns",
                self.next,
                self.table,
                self.columns.len()
            )));
        }
        self.next = 0;
        self.rows += 1;
        match self.rows >= PIECE_ROWS || self.bytes >= PIECE_BYTES {
            true => self.send_rows(),
            false => Ok(()),
        }
    }

    /// Appends a whole row. A row that is refused leaves nothing behind.
    ///
    /// # Errors
    /// Those of [`Self::value`] and [`Self::end_row`].
    pub fn row<'a>(&mut self, values: impl IntoIterator<Item = AppendValue<'a>>) -> Result<()> {
        let done = values.into_iter().try_for_each(|value| self.value(value)).and_then(|()| self.end_row());
        if done.is_err() && self.failed.is_none() {
            self.undo_row();
        }
        done
    }

    /// Takes back the values of the row that is being made.
    pub fn undo_row(&mut self) {
        for builder in &mut self.builders[..self.next] {
            builder.pop();
        }
        self.next = 0;
    }

    /// Appends a batch, whose columns are matched by name, behind the rows before it.
    ///
    /// # Errors
    /// Those of [`crate::Connection::append`]; everything is refused then, and nothing is appended.
    pub fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        self.check()?;
        if self.next != 0 {
            return Err(misuse("a row is begun; end it before a batch is appended"));
        }
        if self.rows > 0 {
            self.send_rows()?;
        }
        self.piece(batch, true)
    }

    /// Appends what waits, makes all rows take effect, and returns their number.
    ///
    /// # Errors
    /// Those of appending and of the commit; nothing is appended then.
    pub fn finish(&mut self) -> Result<u64> {
        self.check()?;
        if self.next != 0 {
            return Err(misuse("a row is begun; end it, or take it back, before the end"));
        }
        if self.scope.is_none() {
            // One piece takes effect by itself.
            let batch = self.take_rows()?;
            let session = self.session.clone();
            let appended = match batch {
                Some(batch) => session.step(|| self.append(batch, false)),
                None => Ok(0),
            };
            self.is_over = true;
            return appended.inspect(|rows| self.appended = *rows);
        }
        if self.rows > 0 {
            self.send_rows()?;
        }
        self.is_over = true;
        if !self.session.connection().is_in_transaction() {
            return Err(self.ended_meanwhile());
        }
        match self.scope.take() {
            Some(scope) => self.session.end_together(scope, true).map(|()| self.appended),
            None => Ok(self.appended),
        }
    }

    /// Ends without appending anything.
    ///
    /// # Errors
    /// Those of the rollback.
    pub fn abort(&mut self) -> Result<()> {
        self.is_over = true;
        match self.scope.take() {
            Some(scope) => self.session.end_together(scope, false),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.is_over => {
                Err(Error::new(ErrorKind::Closed, "the appender is finished; open another one"))
            }
            None => Ok(()),
        }
    }

    fn ended_meanwhile(&self) -> Error {
        let message =
            format!("the transaction of the rows for \"{}\" was ended before its appender", self.table);
        Error::new(ErrorKind::TransactionState, message)
    }

    /// Appends the rows that wait as a piece.
    fn send_rows(&mut self) -> Result<()> {
        match self.take_rows() {
            Ok(Some(batch)) => self.piece(batch, false),
            Ok(None) => Ok(()),
            Err(error) => self.fail(error),
        }
    }

    fn piece(&mut self, batch: RecordBatch, by_name: bool) -> Result<()> {
        if self.scope.is_some() && !self.session.connection().is_in_transaction() {
            self.scope = None;
            let error = self.ended_meanwhile();
            return self.fail(error);
        }
        if self.scope.is_none() {
            self.scope = Some(self.session.begin_together()?);
        }
        match self.append(batch, by_name) {
            Ok(rows) => {
                self.appended += rows;
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    fn append(&self, batch: RecordBatch, by_name: bool) -> Result<u64> {
        let schema = batch.schema();
        let rows = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
        let options = AppendOptions { create: false, by_name };
        self.session.call(&self.mark, |connection| connection.append(&self.table, rows, options))
    }

    fn fail(&mut self, error: Error) -> Result<()> {
        self.failed = Some(error.clone());
        if let Some(scope) = self.scope.take() {
            // The first error is reported.
            let _undone = self.session.end_together(scope, false);
        }
        Err(error)
    }

    fn take_rows(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows == 0 {
            return Ok(None);
        }
        let arrays =
            self.builders.iter_mut().map(|builder| builder.finish(rows)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<Field> = self
            .columns
            .iter()
            .zip(&arrays)
            .map(|(column, array)| {
                column.logical_type.mark(Field::new(&column.name, array.data_type().clone(), true))
            })
            .collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map(Some)
            .map_err(|error| Error::internal(format!("appended rows are no batch: {error}")))
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // Rows that nobody has finished are not appended.
        let _undone = self.abort();
    }
}

/// The values of one column that wait.
enum Builder {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Float(Float64Builder),
    Text(LargeStringBuilder),
    Bytes(LargeBinaryBuilder),
    /// Values of other types.
    Scalars(Vec<ScalarValue>),
}

impl Builder {
    fn of(logical_type: &LogicalType) -> Self {
        match logical_type {
            LogicalType::Boolean => Self::Boolean(BooleanBuilder::new()),
            LogicalType::TinyInt
            | LogicalType::SmallInt
            | LogicalType::Integer
            | LogicalType::BigInt
            | LogicalType::UTinyInt
            | LogicalType::USmallInt
            | LogicalType::UInteger => Self::Integer(Int64Builder::new()),
            LogicalType::Float | LogicalType::Double => Self::Float(Float64Builder::new()),
            LogicalType::Varchar | LogicalType::Json => Self::Text(LargeStringBuilder::new()),
            LogicalType::Blob => Self::Bytes(LargeBinaryBuilder::new()),
            _ => Self::Scalars(Vec::new()),
        }
    }

    fn push(&mut self, value: AppendValue<'_>, of: &LogicalType) -> Result<()> {
        match (self, value) {
            (Self::Boolean(builder), AppendValue::Null) => builder.append_null(),
            (Self::Integer(builder), AppendValue::Null) => builder.append_null(),
            (Self::Float(builder), AppendValue::Null) => builder.append_null(),
            (Self::Text(builder), AppendValue::Null) => builder.append_null(),
            (Self::Bytes(builder), AppendValue::Null) => builder.append_null(),
            (Self::Boolean(builder), AppendValue::Boolean(value)) => builder.append_value(value),
            (Self::Integer(builder), AppendValue::Integer(value)) => {
                check_range(value, of)?;
                builder.append_value(value);
            }
            (Self::Float(builder), AppendValue::Float(value)) => builder.append_value(value),
            (Self::Float(builder), AppendValue::Integer(value)) => builder.append_value(value as f64),
            (Self::Text(builder), AppendValue::Text(value)) => builder.append_value(value),
            (Self::Bytes(builder), AppendValue::Bytes(value)) => builder.append_value(value),
            (builder, value) => builder.push_scalar(scalar(value, of)?, of)?,
        }
        Ok(())
    }

    /// Appends a value that was converted to the column's type.
    fn push_scalar(&mut self, value: ScalarValue, of: &LogicalType) -> Result<()> {
        match (self, value) {
            (Self::Scalars(values), value) => values.push(value),
            (Self::Boolean(builder), ScalarValue::Boolean(value)) => builder.append_option(value),
            (Self::Float(builder), ScalarValue::Float32(value)) => {
                builder.append_option(value.map(f64::from))
            }
            (Self::Float(builder), ScalarValue::Float64(value)) => builder.append_option(value),
            (Self::Text(builder), ScalarValue::LargeUtf8(value)) => builder.append_option(value),
            (Self::Bytes(builder), ScalarValue::LargeBinary(value)) => builder.append_option(value),
            (Self::Integer(builder), value) => match value.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(value)) => builder.append_option(value),
                _ => return Err(does_not_fit(&value, of)),
            },
            (_, value) => return Err(does_not_fit(&value, of)),
        }
        Ok(())
    }

    /// Takes back the last value.
    fn pop(&mut self) {
        // The row before is kept by building the array without the last value.
        match self {
            Self::Boolean(builder) => {
                let array = builder.finish();
                builder.append_array(&array.slice(0, array.len() - 1));
            }
            Self::Integer(builder) => {
                let array = builder.finish();
                builder.append_array(&array.slice(0, array.len() - 1));
            }
            Self::Float(builder) => {
                let array = builder.finish();
                builder.append_array(&array.slice(0, array.len() - 1));
            }
            Self::Text(builder) => {
                let array = builder.finish();
                array.iter().take(array.len() - 1).for_each(|value| builder.append_option(value));
            }
            Self::Bytes(builder) => {
                let array = builder.finish();
                array.iter().take(array.len() - 1).for_each(|value| builder.append_option(value));
            }
            Self::Scalars(values) => drop(values.pop()),
        }
    }

    fn finish(&mut self, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Integer(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Bytes(builder) => Arc::new(builder.finish()),
            Self::Scalars(values) => {
                let values = std::mem::take(values);
                match values.is_empty() {
                    true => new_null_array(&DataType::Null, rows),
                    false => ScalarValue::iter_to_array(values)
                        .map_err(|error| Error::invalid_input(error.to_string()))?,
                }
            }
        })
    }
}

/// Returns a value in the type of its column.
fn scalar(value: AppendValue<'_>, of: &LogicalType) -> Result<ScalarValue> {
    let given = match value {
        AppendValue::Null => ScalarValue::Null,
        AppendValue::Boolean(value) => value.into(),
        AppendValue::Integer(value) => value.into(),
        AppendValue::Float(value) => value.into(),
        AppendValue::Text(value) => ScalarValue::LargeUtf8(Some(value.to_string())),
        AppendValue::Bytes(value) => ScalarValue::LargeBinary(Some(value.to_vec())),
        AppendValue::Scalar(value) => value,
    };
    let target = of.arrow_type();
    match (&given, of) {
        (ScalarValue::LargeUtf8(Some(text)), LogicalType::Uuid) => {
            let uuid = hypostyle_types::parse_uuid(text)?;
            Ok(Parameters::uuid(uuid.into_bytes()))
        }
        (ScalarValue::LargeBinary(Some(bytes)), LogicalType::Uuid) => match bytes.as_slice().try_into() {
            Ok(bytes) => Ok(Parameters::uuid(bytes)),
            Err(_) => Err(does_not_fit(&given, of)),
        },
        (ScalarValue::Float64(Some(value)), _) if target.is_integer() && value.fract() != 0.0 => {
            Err(does_not_fit(&given, of))
        }
        _ if given.data_type() == target => Ok(given),
        _ => match given.cast_to(&target) {
            Ok(value) if value.is_null() == given.is_null() => Ok(value),
            _ => Err(does_not_fit(&given, of)),
        },
    }
}

fn does_not_fit(value: &ScalarValue, of: &LogicalType) -> Error {
    Error::invalid_input(format!("the value {value} does not fit {of}")).with_sqlstate("22018")
}

fn check_range(value: i64, of: &LogicalType) -> Result<()> {
    let range = match of {
        LogicalType::TinyInt => i64::from(i8::MIN)..=i64::from(i8::MAX),
        LogicalType::SmallInt => i64::from(i16::MIN)..=i64::from(i16::MAX),
        LogicalType::Integer => i64::from(i32::MIN)..=i64::from(i32::MAX),
        LogicalType::UTinyInt => 0..=i64::from(u8::MAX),
        LogicalType::USmallInt => 0..=i64::from(u16::MAX),
        LogicalType::UInteger => 0..=i64::from(u32::MAX),
        _ => i64::MIN..=i64::MAX,
    };
    match range.contains(&value) {
        true => Ok(()),
        false => {
            Err(Error::invalid_input(format!("{value} is out of range for {of}")).with_sqlstate("22003"))
        }
    }
}

/// Returns the name of a table as a query has it. What the rows are appended to is found by the same name: by
/// its parts as they are, or, in PostgreSQL, by a name of SQL.
fn written(table: &str, is_postgres: bool) -> Result<String> {
    if !is_postgres {
        return Ok(split_name(table).iter().map(|part| quoted(part)).collect::<Vec<_>>().join("."));
    }
    let mut is_part = false;
    let are_parts = tokens(table).all(|token| {
        is_part = !is_part;
        match token.kind {
            TokenKind::Word => is_part,
            TokenKind::QuotedName => is_part && !token.is_open && token.text.starts_with('"'),
            _ => !is_part && token.is_symbol("."),
        }
    });
    match are_parts && is_part {
        true => Ok(table.to_string()),
        false => Err(Error::new(ErrorKind::Syntax, format!("\"{table}\" is no name of a table"))
            .with_sqlstate("42602")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, OpenOptions};

    #[test]
    fn a_table_is_named_as_for_append() -> Result<()> {
        let session = Arc::new(DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?));
        session.connection().execute("CREATE TABLE \"My Table\" (a INTEGER)")?;
        let mut appender = Appender::open(session.clone(), "main.My Table")?;
        appender.row([AppendValue::Integer(1)])?;
        assert_eq!(appender.finish()?, 1);
        for name in ["(SELECT 1)", "\"My Table\", \"My Table\" AS u", "my table", "t; SELECT 1"] {
            assert!(Appender::open(session.clone(), name).is_err(), "{name}");
        }
        Ok(())
    }

    #[test]
    fn the_name_of_a_table_is_no_code() {
        for (name, expected) in [
            ("t", "\"t\""),
            ("s.Big t", "\"s\".\"Big t\""),
            ("s.\"a.b\"", "\"s\".\"a.b\""),
            (r#""a.b"."c""d""#, r#""a.b"."c""d""#),
            ("t LIMIT 0; DROP TABLE t; --", "\"t LIMIT 0; DROP TABLE t; --\""),
        ] {
            assert_eq!(written(name, false).unwrap(), expected);
        }
        for name in ["t", "s . \"T; t\"", "größe"] {
            assert_eq!(written(name, true).unwrap(), name);
        }
        for name in ["t; DROP TABLE u", "t LIMIT 0", "", "s.", ".t", "`a; b`", "\"t", "'t'", "t -- so"] {
            assert_eq!(written(name, true).unwrap_err().sqlstate(), "42602", "{name}");
        }
    }

    #[test]
    fn values_become_those_of_their_column_or_are_refused() {
        let text = |text: &'static str| AppendValue::Text(text);
        for (value, of, fits) in [
            (text("2024-02-29"), LogicalType::Date, true),
            (text("2024-02-30"), LogicalType::Date, false),
            (text("12"), LogicalType::TinyInt, true),
            (text("1200"), LogicalType::TinyInt, false),
            (AppendValue::Float(2.0), LogicalType::TinyInt, true),
            (AppendValue::Float(2.5), LogicalType::TinyInt, false),
            (AppendValue::Float(f64::NAN), LogicalType::BigInt, false),
            (AppendValue::Integer(-1), LogicalType::UBigInt, false),
            (AppendValue::Integer(i64::MAX), LogicalType::UBigInt, true),
            (AppendValue::Bytes(&[1; 16]), LogicalType::Uuid, true),
            (AppendValue::Bytes(&[1; 15]), LogicalType::Uuid, false),
            (text("no uuid"), LogicalType::Uuid, false),
            (AppendValue::Integer(3), LogicalType::decimal(4, 2).unwrap(), true),
            (AppendValue::Integer(300), LogicalType::decimal(4, 2).unwrap(), false),
            (AppendValue::Null, LogicalType::Interval, true),
        ] {
            let mut builder = Builder::of(&of);
            let shown = format!("{value:?} as {of}");
            assert_eq!(builder.push(value, &of).is_ok(), fits, "{shown}");
            // A refused value is no part of the column.
            let length = builder.finish(1).unwrap().len();
            assert!(length == usize::from(fits) || matches!(builder, Builder::Scalars(_)), "{shown}");
        }
    }
}
