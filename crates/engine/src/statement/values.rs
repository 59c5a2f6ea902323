//! INSERT … VALUES of literals, parameters and casts of them, which needs no plan: storing a row
//! takes less time than planning. Statements that are not that simple, or do not fit, are left to
//! the planner.

use crate::session::statement_cache::{GivenValue, ValuesInsert};
use crate::session::{Outcome, Parameters, Session, as_text, planned};
use crate::statement::insert::refuse_foreign;
use crate::statement::refusal::refuse_given;
use arrow::array::ArrayRef;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, SetExpr, Statement, TableObject, TimezoneInfo,
    UnaryOperator, Value,
};
use hypostyle_catalog::sequence_default::sequence_of_default;
use hypostyle_exec::scan::{engine_field, engine_type};
use hypostyle_expr::cast::{cast_scalar, exact_double};
use hypostyle_expr::common_type::exact_decimal;
use hypostyle_expr::time_zone::{cast_within, is_zoned};
use hypostyle_expr::types::logical_type;
use hypostyle_sql::doubles::is_double;
use hypostyle_sql::identifier::{last_of, parts_of};
use hypostyle_storage::{ColumnEntry, TableData};
use hypostyle_types::Result;
use std::borrow::Cow;
use std::sync::Arc;

impl ValuesInsert {
    /// Returns `None` for any other statement.
    pub fn of(statement: &DfStatement) -> Option<Self> {
        let DfStatement::Statement(statement) = statement else { return None };
        let Statement::Insert(insert) = statement.as_ref() else { return None };
        let TableObject::TableName(table) = &insert.table else { return None };
        let plain = insert.on.is_none()
            && insert.or.is_none()
            && insert.returning.is_none()
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
        Some(Self { table, columns, rows, parameters })
    }

    /// Returns the values in the engine's types, and for each column of the table where they are;
    /// `None` when the planner must look at them.
    fn rows(
        &self,
        table: &TableData,
        parameters: &Parameters,
        zone: &Arc<str>,
    ) -> Option<(RecordBatch, Vec<Option<usize>>)> {
        let given: &[ScalarValue] = match parameters {
            Parameters::None => &[],
            Parameters::Positional(values) => values,
            Parameters::Named(_) => return None,
        };
        if given.len() != self.parameters {
            return None;
        }
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
        let simple = |(column, place): (&ColumnEntry, &Option<usize>)| match place {
            Some(_) => refuse_given("", column).is_ok(),
            // The planner handles expressions.
            None => {
                column.generated.is_none()
                    && column.default.as_deref().is_none_or(|sql| sequence_of_default(sql).is_some())
            }
        };
        if self.rows.iter().any(|row| row.len() != width) || !columns.iter().zip(&places).all(simple) {
            return None;
        }
        let mut given_fields = Vec::with_capacity(width);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(width);
        let mut found = Vec::with_capacity(places.len());
        for (column, place) in table.columns().iter().zip(places) {
            found.push(place.map(|_| arrays.len()));
            let Some(place) = place else { continue };
            let field = engine_field(table, column).with_nullable(true);
            let values = self.rows.iter().map(|row| {
                let value = value_of(&row[place], given, zone)?;
                match is_zoned(value.data_type(), field.data_type(), zone) {
                    true => None,
                    false => cast_to(&value, &field),
                }
            });
            let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
            // The planner gives all rows of a column one type before it casts them to the column's.
            let same = self.rows.windows(2).all(|pair| same_type(place, &pair[0], &pair[1], given));
            arrays.push(ScalarValue::iter_to_array(values).ok().filter(|_| same)?);
            given_fields.push(field);
        }
        Some((RecordBatch::try_new(Arc::new(Schema::new(given_fields)), arrays).ok()?, found))
    }
}

/// Returns a value as it is written; `None` if it is not one of the type that it is cast to.
fn value_of<'a>(
    value: &'a GivenValue,
    given: &'a [ScalarValue],
    zone: &Arc<str>,
) -> Option<Cow<'a, ScalarValue>> {
    match value {
        GivenValue::Literal(value) => Some(Cow::Borrowed(value)),
        GivenValue::Parameter(number) => {
            let value = &given[*number];
            Some(as_text(value).map_or(Cow::Borrowed(value), Cow::Owned))
        }
        GivenValue::Cast(value, field) => {
            let value = value_of(value, given, zone)?;
            let cast = match is_zoned(value.data_type(), field.data_type(), zone) {
                true => {
                    let cast = cast_within(&value.to_array().ok()?, field, zone).ok()?;
                    ScalarValue::try_from_array(&cast, 0).ok()?
                }
                false => cast_to(&value, field)?,
            };
            Some(Cow::Owned(cast))
        }
    }
}

/// Casts a value without arrays, if it is one of the usual casts.
fn cast_to(value: &ScalarValue, field: &Field) -> Option<ScalarValue> {
    match (value, field.data_type()) {
        (ScalarValue::Int64(Some(number)), DataType::Int32) => {
            i32::try_from(*number).ok().map(|number| ScalarValue::Int32(Some(number)))
        }
        (ScalarValue::Utf8(text), DataType::Utf8View) => Some(ScalarValue::Utf8View(text.clone())),
        (ScalarValue::Decimal128(Some(number), _, scale), DataType::Float64)
            if let Some(double) = exact_double(*number, *scale) =>
        {
            Some(ScalarValue::Float64(Some(double)))
        }
        (value, data_type) if value.data_type() == *data_type => Some(value.clone()),
        _ => cast_scalar(value, field).ok(),
    }
}

fn same_type(place: usize, one: &[GivenValue], other: &[GivenValue], given: &[ScalarValue]) -> bool {
    let data_type = |row: &[GivenValue]| match &row[place] {
        GivenValue::Literal(value) => value.data_type(),
        GivenValue::Parameter(number) => planned(&given[*number]).value.data_type(),
        GivenValue::Cast(_, field) => field.data_type().clone(),
    };
    match (data_type(one), data_type(other)) {
        // Any number of them has a common type that is exact, but for those that have too many
        // digits for one.
        (DataType::Decimal128(one, of_one), DataType::Decimal128(other, of_other)) => {
            one.max(other) + of_one.max(of_other).unsigned_abs() <= DECIMAL128_MAX_PRECISION
        }
        (one, other) => one == other,
    }
}

fn given(value: &Expr, parameters: &mut usize) -> Option<GivenValue> {
    let literal = |value| Some(GivenValue::Literal(value));
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number_of(number).and_then(literal),
            Value::SingleQuotedString(text) => literal(ScalarValue::Utf8(Some(text.clone()))),
            Value::Boolean(value) => literal(ScalarValue::Boolean(Some(*value))),
            Value::Null => literal(ScalarValue::Null),
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok().filter(|number| *number > 0)?;
                *parameters = number.max(*parameters);
                Some(GivenValue::Parameter(number - 1))
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => match number_of(number)? {
                    ScalarValue::Int64(Some(number)) => literal(ScalarValue::Int64(Some(-number))),
                    ScalarValue::Float64(Some(number)) => literal(ScalarValue::Float64(Some(-number))),
                    ScalarValue::Decimal128(Some(number), precision, scale) => {
                        literal(ScalarValue::Decimal128(Some(-number), precision, scale))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        },
        Expr::Nested(inner) => given(inner, parameters),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => {
            let field = cast_field(data_type)?;
            given(expr, parameters).map(|value| GivenValue::Cast(Box::new(value), field))
        }
        Expr::TypedString(typed) => {
            let Value::SingleQuotedString(text) = &typed.value.value else { return None };
            let text = GivenValue::Literal(ScalarValue::Utf8(Some(text.clone())));
            cast_field(&typed.data_type).map(|field| GivenValue::Cast(Box::new(text), field))
        }
        _ => None,
    }
}

/// Returns the type of a cast; `None` for those that the planner must look at.
fn cast_field(data_type: &SqlType) -> Option<Field> {
    let is_plain = match data_type {
        SqlType::Boolean
        | SqlType::Bool
        | SqlType::TinyInt(None)
        | SqlType::SmallInt(None)
        | SqlType::Int2(None)
        | SqlType::Int(None)
        | SqlType::Integer(None)
        | SqlType::Int4(None)
        | SqlType::BigInt(None)
        | SqlType::Int8(None)
        | SqlType::Real
        | SqlType::Float4
        | SqlType::Double(_)
        | SqlType::DoublePrecision
        | SqlType::Float8
        | SqlType::Text
        | SqlType::Varchar(None)
        | SqlType::CharacterVarying(None)
        | SqlType::Bytea
        | SqlType::Date
        | SqlType::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | SqlType::Timestamp(None, _)
        | SqlType::Interval { fields: None, precision: None }
        | SqlType::Uuid
        | SqlType::JSON
        | SqlType::JSONB => true,
        SqlType::Decimal(info) | SqlType::Numeric(info) => *info != ExactNumberInfo::None,
        _ => false,
    };
    let logical_type = is_plain.then(|| logical_type(data_type).ok())??;
    Some(logical_type.mark(Field::new("", engine_type(&logical_type), true)))
}

/// Returns the types that the planner gives to numbers.
fn number_of(number: &str) -> Option<ScalarValue> {
    match number.parse::<i64>() {
        Ok(number) => Some(ScalarValue::Int64(Some(number))),
        Err(_) if is_double(number) => number.parse().ok().map(|number| ScalarValue::Float64(Some(number))),
        Err(_) if number.contains('.') => exact_decimal(number),
        Err(_) => None,
    }
}

impl Session {
    /// Stores the rows; `None` when the planner must look at the statement.
    pub(crate) fn insert_values(
        &self,
        insert: &ValuesInsert,
        parameters: &Parameters,
    ) -> Result<Option<Outcome>> {
        let name = self.scope.resolve(&insert.table, None)?;
        let mut table = self.table_data(&name);
        if table.as_ref().is_some_and(|table| !table.entry().constraints.is_empty()) {
            // The checks of these types read files.
            self.start()?;
            table = self.table_data(&name);
        }
        let Some(table) = table.filter(|table| table.entry().query.is_none()) else { return Ok(None) };
        let Some((given, places)) = insert.rows(&table, parameters, &self.time_zone()) else {
            return Ok(None);
        };
        let id = table.entry().id;
        let snapshot = self.snapshot_of(&name.database)?;
        let completion = self.completion(&name.database, snapshot.catalog(), table.entry(), &places);
        let rows = completion?.complete(&given)?;
        self.write(&name.database, |writer| writer.append(id, &rows))?;
        Ok(Some(Outcome::Done { rows_affected: Some(rows.num_rows() as u64) }))
    }
}
