//! INSERT … VALUES of literals, parameters, `now()`, DEFAULT and casts of them, which needs no plan:
//! storing a row takes less time than planning. Statements that are not that simple, or do not fit, are
//! left to the planner.

use crate::session::given_value::{GivenValue, cast_to, given, is_decimal};
use crate::session::statement_cache::ValuesInsert;
use crate::session::{Outcome, Parameters, as_text, planned};
use crate::statement::insert::refuse_foreign;
use crate::statement::refusal::refuse_given;
use crate::statement::returning::Returning;
use crate::statement::target::Target;
use crate::statement::versions::{Did, with_versions};
use crate::statement::writer::Dml;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement, TableObject};
use hypostyle_exec::scan::engine_field;
use hypostyle_expr::time_zone::{cast_within, is_zoned};
use hypostyle_sql::identifier::{last_of, parts_of};
use hypostyle_sql::parse::parse_as_written;
use hypostyle_storage::{ColumnEntry, TableData};
use hypostyle_types::{Error, LogicalType, Result};
use std::borrow::Cow;
use std::sync::Arc;

impl ValuesInsert {
    /// Returns `None` for any other statement.
    pub fn recognize(statement: &DfStatement) -> Option<Self> {
        let DfStatement::Statement(statement) = statement else { return None };
        let Statement::Insert(insert) = statement.as_ref() else { return None };
        let TableObject::TableName(table) = &insert.table else { return None };
        let plain = insert.on.is_none()
            && insert.or.is_none()
            && insert.table_alias.is_none()
            && !insert.replace_into
            && refuse_foreign(insert).is_ok();
        let query = insert.source.as_ref().filter(|query| {
            query.with.is_none()
                && query.order_by.is_none()
                && query.limit_clause.is_none()
                && query.fetch.is_none()
        })?;
        let SetExpr::Values(values) = query.body.as_ref() else { return None };
        let table = parts_of(table).ok().filter(|_| plain)?;
        let mut parameters = 0;
        let rows =
            values.rows.iter().map(|row| row.iter().map(|value| given(value, &mut parameters)).collect());
        let rows: Vec<Vec<GivenValue>> = rows.collect::<Option<_>>()?;
        let columns = insert.columns.iter().map(|column| last_of(column).ok()).collect::<Option<_>>()?;
        let returning = insert.returning.clone().unwrap_or_default();
        Some(Self { table, columns, rows, parameters, returning })
    }

    /// Returns where the values of a column come from, whose place in the rows is given if they have
    /// one; `None` when the planner must look at them.
    fn source(&self, column: &ColumnEntry, place: Option<usize>) -> Option<Source> {
        if let Some(place) = place {
            let defaults = self.rows.iter().filter(|row| matches!(row[place], GivenValue::Default)).count();
            if defaults == 0 {
                return refuse_given("", column).ok().map(|()| Source::Rows(place));
            }
            if defaults < self.rows.len() {
                return None;
            }
        }
        match column.default.as_deref() {
            None => Some(Source::Completion),
            Some(sql) => {
                let value = given(&parse_as_written(sql).ok()?, &mut 0);
                Some(value.map_or(Source::Completion, Source::Default))
            }
        }
    }

    /// Returns the values in the engine's types, and for each column of the table where they are;
    /// `None` when the planner must look at them.
    fn rows(
        &self,
        table: &TableData,
        parameters: &Parameters,
        now: &ScalarValue,
        zone: &Arc<str>,
    ) -> Option<(RecordBatch, Vec<Option<usize>>)> {
        let meaning = self.meaning(parameters, now, zone)?;
        let columns = &table.entry().columns;
        let places: Vec<Option<usize>> = match self.columns.is_empty() {
            true => (0..columns.len()).map(Some).collect(),
            false => {
                let place = |name: &str| self.columns.iter().position(|column| column == name);
                let places: Vec<_> = columns.iter().map(|column| place(&column.name)).collect();
                let given = places.iter().flatten().count();
                // The column does not exist, or is named twice.
                if given < self.columns.len() {
                    return None;
                }
                places
            }
        };
        let width = if self.columns.is_empty() { places.len() } else { self.columns.len() };
        if self.rows.iter().any(|row| row.len() != width) {
            return None;
        }
        let mut given_fields = Vec::with_capacity(width);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(width);
        let mut found = Vec::with_capacity(places.len());
        for (column, place) in table.columns().iter().zip(places) {
            let source = self.source(column.entry(), place)?;
            found.push((!matches!(source, Source::Completion)).then_some(arrays.len()));
            let field = engine_field(table, column).with_nullable(true);
            let array = match &source {
                Source::Rows(place) => {
                    let values = self.rows.iter().map(|row| in_column(&row[*place], meaning, &field));
                    let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
                    // The planner gives all rows of a column one type before it casts them to the column's.
                    let types = self.rows.iter().map(|row| type_of(&row[*place], meaning.parameters));
                    ScalarValue::iter_to_array(values).ok().filter(|_| have_one_type(types))?
                }
                Source::Default(value) => {
                    in_column(value, meaning, &field)?.to_array_of_size(self.rows.len()).ok()?
                }
                Source::Completion => continue,
            };
            arrays.push(array);
            given_fields.push(field);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        let schema = Arc::new(Schema::new(given_fields));
        Some((RecordBatch::try_new_with_options(schema, arrays, &options).ok()?, found))
    }
}

impl ValuesInsert {
    /// Returns what the values mean beside those that are given for the parameters; `None` when these are
    /// named, or are not as many as there are parameters.
    fn meaning<'a>(
        &self,
        parameters: &'a Parameters,
        now: &'a ScalarValue,
        zone: &'a Arc<str>,
    ) -> Option<Meaning<'a>> {
        let parameters: &[ScalarValue] = match parameters {
            Parameters::None => &[],
            Parameters::Positional(values) => values,
            Parameters::Named(_) => return None,
        };
        (parameters.len() == self.parameters).then_some(Meaning { parameters, now, zone })
    }

    /// Returns the only column of which a value is not of its type.
    fn misfit<'a>(
        &self,
        table: &'a TableData,
        parameters: &Parameters,
        now: &ScalarValue,
        zone: &Arc<str>,
    ) -> Option<&'a ColumnEntry> {
        let meaning = self.meaning(parameters, now, zone)?;
        let mut misfits = table.columns().iter().enumerate().filter(|(number, column)| {
            let place = match self.columns.is_empty() {
                true => Some(*number),
                false => self.columns.iter().position(|name| *name == column.entry().name),
            };
            let field = engine_field(table, column).with_nullable(true);
            let is_misfit = |value: &GivenValue| {
                value_of(value, meaning).is_some_and(|value| {
                    let may_mean_another =
                        value.data_type().is_string() && is_zoned(value.data_type(), field.data_type(), zone);
                    !may_mean_another && cast_in_zone(&value, &field, zone).is_none()
                })
            };
            place.is_some_and(|place| self.rows.iter().filter_map(|row| row.get(place)).any(is_misfit))
        });
        match (misfits.next(), misfits.next()) {
            (Some((_, column)), None) => Some(column.entry()),
            _ => None,
        }
    }
}

/// Where the values of a column come from.
enum Source {
    /// A place in each row.
    Rows(usize),
    /// Its default, which is as simple as what rows have.
    Default(GivenValue),
    /// What makes rows whole: NULLs, the next values of a sequence, or values that are computed.
    Completion,
}

/// What values of a statement mean.
#[derive(Clone, Copy)]
struct Meaning<'a> {
    parameters: &'a [ScalarValue],
    now: &'a ScalarValue,
    zone: &'a Arc<str>,
}

/// Returns a value in the type of a column.
fn in_column(value: &GivenValue, meaning: Meaning<'_>, field: &Field) -> Option<ScalarValue> {
    let value = value_of(value, meaning)?;
    // The planner may take a text for one of another zone.
    if value.data_type().is_string() && is_zoned(value.data_type(), field.data_type(), meaning.zone) {
        return None;
    }
    cast_in_zone(&value, field, meaning.zone)
}

/// Returns a value as it is written; `None` if it is not one of the type that it is cast to.
fn value_of<'a>(value: &'a GivenValue, meaning: Meaning<'a>) -> Option<Cow<'a, ScalarValue>> {
    match value {
        GivenValue::Literal(value) => Some(Cow::Borrowed(value)),
        GivenValue::Parameter(number) => {
            let value = &meaning.parameters[*number];
            Some(as_text(value).map_or(Cow::Borrowed(value), Cow::Owned))
        }
        GivenValue::Default => None,
        GivenValue::Now => Some(Cow::Borrowed(meaning.now)),
        GivenValue::Cast(value, field) => {
            cast_in_zone(value_of(value, meaning)?.as_ref(), field, meaning.zone).map(Cow::Owned)
        }
    }
}

/// Casts a value as the planner does: what clocks show in the session's zone.
fn cast_in_zone(value: &ScalarValue, field: &Field, zone: &Arc<str>) -> Option<ScalarValue> {
    match is_zoned(value.data_type(), field.data_type(), zone) {
        true => {
            let cast = cast_within(&value.to_array().ok()?, field, zone).ok()?;
            ScalarValue::try_from_array(&cast, 0).ok()
        }
        false => cast_to(value, field),
    }
}

/// Returns the type that the planner finds for a value.
fn type_of(value: &GivenValue, given: &[ScalarValue]) -> DataType {
    match value {
        GivenValue::Literal(value) => value.data_type(),
        GivenValue::Parameter(number) => planned(&given[*number]).value.data_type(),
        GivenValue::Default => DataType::Null,
        GivenValue::Now => LogicalType::timestamp_with_time_zone().arrow_type(),
        GivenValue::Cast(_, field) => field.data_type().clone(),
    }
}

/// Says whether values of these types are what they are by themselves in a column of VALUES. NULLs have
/// any type, and decimals a common one that is exact.
fn have_one_type(types: impl Iterator<Item = DataType>) -> bool {
    let mut types = types.filter(|of| !of.is_null());
    let Some(first) = types.next() else { return true };
    types.all(|other| other == first || is_decimal(&first) && is_decimal(&other))
}

impl Dml<'_> {
    /// Has the error of a value that is not of its column's type tell which column that is.
    pub fn told_of_column(&self, error: Error, insert: &ValuesInsert, parameters: &Parameters) -> Error {
        if !error.sqlstate().starts_with("22") || error.message().starts_with("column ") {
            return error;
        }
        let name = self.databases.scope.resolve(&insert.table, None).ok();
        let Some(table) = name.and_then(|name| self.databases.names().table_data(&name)) else {
            return error;
        };
        match insert.misfit(
            &table,
            parameters,
            &self.writer.compiler.clock.now(),
            &self.writer.compiler.time_zone(),
        ) {
            Some(column) => {
                let (name, logical_type) = (&column.name, &column.logical_type);
                error.context(format!(
                    "column \"{name}\" of table \"{}\" is {logical_type}",
                    table.entry().name
                ))
            }
            None => error,
        }
    }

    /// Stores the rows; `None` when the planner must look at the statement.
    pub fn insert_values(&self, insert: &ValuesInsert, parameters: &Parameters) -> Result<Option<Outcome>> {
        let name = self.databases.scope.resolve(&insert.table, None)?;
        let mut table = self.databases.names().table_data(&name);
        let has_checks = table.as_ref().is_some_and(|table| !table.entry().constraints.is_empty());
        if has_checks || !insert.returning.is_empty() {
            // The checks of these types, and what is returned, may read files.
            self.databases.refresh()?;
            table = self.databases.names().table_data(&name);
        }
        let Some(table) = table.filter(|table| table.entry().query.is_none()) else { return Ok(None) };
        let now = self.writer.compiler.clock.now();
        let Some((given, places)) = insert.rows(&table, parameters, &now, &self.writer.compiler.time_zone())
        else {
            return Ok(None);
        };
        let id = table.entry().id;
        let snapshot = self.databases.names().snapshot_of(&name.database)?;
        let completion =
            self.writer.compiler.completion(&name.database, snapshot.catalog(), table.entry(), &places);
        let rows = completion?.complete(&given)?;
        let count = rows.num_rows() as u64;
        if insert.returning.is_empty() {
            self.databases.write(&name.database, |writer| writer.append(id, &rows))?;
            return Ok(Some(Outcome::Done { rows_affected: Some(count) }));
        }
        let target = Target::new(self.databases.scope, &name.database, &snapshot, &table, &name.name);
        let returning = Returning::of_target(&target, insert.returning.clone());
        let returned = self.writer.in_types_of(&target, &rows)?;
        let returned = match returning.has_versions() {
            true => with_versions(&target, &returned, Did::Insert)?,
            false => returned,
        };
        self.write_returning(&target, Some(returning), parameters, |writer| {
            writer.append(id, &rows)?;
            Ok((vec![returned], count))
        })
        .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::test_options::OPTIONS;
    use crate::session::{Engine, Session};
    use crate::statement::dialect::parse;
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;

    #[test]
    fn what_needs_no_plan_gets_none() {
        let engine = Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap();
        let session = Session::new(engine, Identity::default()).unwrap();
        let table = "CREATE TABLE t (a INTEGER DEFAULT 7, f FLOAT, d DECIMAL(38,10), at TIMESTAMP DEFAULT now(), \
                     day DATE DEFAULT CURRENT_DATE, s VARCHAR DEFAULT 'none', r DOUBLE DEFAULT random() * 2, \
                     g INTEGER GENERATED ALWAYS AS (a + 1) STORED, UNIQUE (a, s))";
        session.execute(table, &Parameters::None).unwrap();
        let is_short = |sql: &str, values: Vec<ScalarValue>| {
            let parameters = match values.is_empty() {
                true => Parameters::None,
                false => Parameters::Positional(values),
            };
            let Some(insert) = ValuesInsert::recognize(&parse(sql).unwrap()) else { return false };
            let stored =
                || session.dml().insert_values(&insert, &parameters).map(|outcome| outcome.is_some());
            session.in_transaction(sql, stored).unwrap()
        };
        for sql in [
            "INSERT INTO t (f) VALUES (1.5::float)",
            "INSERT INTO t (a, s) VALUES (DEFAULT, 'x'), (DEFAULT, 'y') RETURNING a",
            "INSERT INTO t (a, at, day) VALUES (1, now(), current_date), (2, CURRENT_TIMESTAMP, CURRENT_DATE)",
            "INSERT INTO t (a, d) VALUES (3, 1.5), (4, NULL), (5, 12345678901234567890.12345) RETURNING *",
            "INSERT INTO t (a, f) VALUES (6, CAST('2' AS REAL)) RETURNING a + 1 AS next, s",
        ] {
            assert!(is_short(sql, Vec::new()), "{sql}");
        }
        let wide = |number: i128| ScalarValue::Decimal128(Some(number), 38, 10);
        for values in [
            vec![wide(1), wide(2)],
            vec![wide(3), ScalarValue::Null],
            vec![wide(4), ScalarValue::Decimal128(Some(1), 2, 1)],
        ] {
            assert!(is_short("INSERT INTO t (a, d) VALUES (NULL, $1), (NULL, $2)", values));
        }
        for sql in [
            "INSERT INTO t (a) VALUES (10 + 1)",
            "INSERT INTO t (a, s) VALUES (11, DEFAULT), (12, 'x')",
            "INSERT INTO t (a, f) VALUES (13, random())",
            "INSERT INTO t (s) VALUES (1), ('x')",
            "INSERT INTO t (a) SELECT 14",
            "INSERT INTO t (a) VALUES (15) ON CONFLICT DO NOTHING",
        ] {
            assert!(!is_short(sql, Vec::new()), "{sql}");
        }
    }
}
