//! SUMMARIZE: one row of statistics for each column.
//!
//! One aggregate query reads the table once and gives one wide row, in which every column has the
//! same number of fields. [`unpivot`] turns that row into a table. A field that a type has no value
//! for is NULL.

use crate::session::{Outcome, Parameters};
use crate::statement::queries::Queries;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal32Array, Int64Array, Int64Builder, RecordBatch, StringArray,
    StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType as SqlType, ExactNumberInfo, Expr, Query, Value,
};
use hypostyle_expr::cast::texts_of_far_years;
use hypostyle_sql::build;
use hypostyle_sql::call::call;
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;

/// A column's name, Arrow type and SQL type.
type Column = (String, DataType, String);

/// The slots of one column in the wide row.
const SLOTS: usize = 9;
const MIN: usize = 0;
const MAX: usize = 1;
const UNIQUE: usize = 2;
const AVERAGE: usize = 3;
const DEVIATION: usize = 4;
const QUANTILES: [usize; 3] = [5, 6, 7];
const NON_NULL: usize = 8;

/// Returns one row for each column of a query.
pub(super) fn summarize(queries: &dyn Queries, query: Query) -> Result<Outcome> {
    let plan = queries.plan(build::rows_of(query.clone()), &Parameters::None)?;
    let columns = plan.schema().fields().iter().map(|field| {
        let name = LogicalType::from_arrow(field)?.to_string();
        Ok((field.name().clone(), field.data_type().clone(), name))
    });
    let columns = columns.collect::<Result<Vec<Column>>>()?;
    let summary = summary_of(query, &columns);
    let (_, batches) = queries.rows(summary, &Parameters::None)?;
    let Some(wide) = batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(Error::internal("a summary is one row"));
    };
    Ok(Outcome::batch(unpivot(wide, &columns)?))
}

/// The statistics that can be computed over a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    /// Quantiles are taken of the ticks and turned back.
    Moment,
    Text,
    /// Only NULLs are counted.
    Opaque,
}

fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Dictionary(_, value) => class(value),
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => Class::Moment,
        DataType::Timestamp(_, _) => Class::Moment,
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        other if other.is_numeric() => Class::Number,
        _ => Class::Opaque,
    }
}

/// Returns the aggregates over a query, whose columns it names by their places: their own names may be
/// alike.
fn summary_of(query: Query, columns: &[Column]) -> Query {
    let name = |index: usize| format!("c{index}");
    let mut slots = vec![build::item_named(build::count_rows(), "rows")];
    for (index, (_, data_type, _)) in columns.iter().enumerate() {
        let values = statistics(&build::column(&name(index)), data_type);
        let of_slot = |(slot, value): (usize, Expr)| build::item_named(value, &format!("c{index}_{slot}"));
        slots.extend((0..SLOTS).zip(values).map(of_slot));
    }
    let names = (0..columns.len()).map(|index| build::name(&name(index))).collect();
    build::select(slots, vec![build::derived_as(query, build::name("summarized"), names)])
}

fn statistics(column: &Expr, data_type: &DataType) -> [Expr; SLOTS] {
    let double = |of: Expr| build::cast(of, SqlType::Double(ExactNumberInfo::None));
    let text = |of: Expr| build::cast(of, SqlType::Varchar(None));
    let mut slots: [Expr; SLOTS] = std::array::from_fn(|_| text(build::null()));
    slots[NON_NULL] = call("count", vec![column.clone()]);
    let class = class(data_type);
    if class == Class::Opaque {
        return slots;
    }
    let plain = match data_type {
        DataType::Dictionary(_, _) => text(column.clone()),
        _ => column.clone(),
    };
    slots[MIN] = build::min(plain.clone());
    slots[MAX] = build::max(plain.clone());
    let counted = if data_type.is_floating() { text(column.clone()) } else { plain };
    slots[UNIQUE] = call("approx_distinct", vec![counted]);
    let ticks = match class {
        Class::Number => double(column.clone()),
        Class::Moment => double(call("arrow_cast", vec![column.clone(), build::text("Int64")])),
        _ => return slots,
    };
    if class == Class::Number {
        slots[AVERAGE] = call("avg", vec![ticks.clone()]);
        slots[DEVIATION] = call("stddev", vec![ticks.clone()]);
    }
    // An estimate is computed from means, which infinite values do not have.
    let finite = data_type.is_floating().then(|| {
        let size = call("abs", vec![ticks.clone()]);
        build::binary(size, BinaryOperator::Lt, double(build::text("inf")))
    });
    for (slot, share) in QUANTILES.into_iter().zip(["0.25", "0.5", "0.75"]) {
        let share = Expr::value(Value::Number(share.into(), false));
        slots[slot] = call("approx_percentile_cont", vec![ticks.clone(), share]);
        if let Expr::Function(function) = &mut slots[slot] {
            function.filter = finite.clone().map(Box::new);
        }
    }
    slots
}

/// Returns the wide row as a table with one row for each column.
///
/// # Errors
/// `Internal` when the row is not that of [`summary_of`] for these columns.
fn unpivot(wide: &RecordBatch, columns: &[Column]) -> Result<RecordBatch> {
    if wide.num_rows() != 1 || wide.num_columns() != 1 + SLOTS * columns.len() {
        return Err(Error::internal("the statistics do not fit the columns"));
    }
    let rows = integer(wide.column(0))?.unwrap_or(0);
    let mut texts: [StringBuilder; 7] = std::array::from_fn(|_| StringBuilder::new());
    let (mut unique, mut counts, mut null_hundredths) =
        (Int64Builder::new(), Int64Builder::new(), Vec::new());
    for (index, (_, data_type, _)) in columns.iter().enumerate() {
        let slot = |slot: usize| wide.column(1 + index * SLOTS + slot);
        let non_null = integer(slot(NON_NULL))?.unwrap_or(0);
        let quantile = |which: usize| quantile_text(slot(QUANTILES[which]), data_type);
        let values = [
            text(slot(MIN))?,
            text(slot(MAX))?,
            text(slot(AVERAGE))?,
            text(slot(DEVIATION))?,
            quantile(0)?,
            quantile(1)?,
            quantile(2)?,
        ];
        texts.iter_mut().zip(values).for_each(|(builder, value)| builder.append_option(value));
        // The estimate may exceed what it estimates.
        unique.append_option(integer(slot(UNIQUE))?.map(|estimate| estimate.min(non_null)));
        counts.append_value(rows);
        let share = (rows - non_null) as f64 * 10_000.0 / rows as f64;
        null_hundredths.push((rows > 0).then(|| share.round() as i32));
    }
    let null_percentage = Decimal32Array::from(null_hundredths)
        .with_precision_and_scale(9, 2)
        .map_err(|error| Error::internal(error.to_string()))?;
    let [min, max, average, deviation, q25, q50, q75] = texts.map(|mut builder| builder.finish());
    let named: Vec<(&str, ArrayRef)> = vec![
        ("column_name", Arc::new(StringArray::from_iter_values(columns.iter().map(|column| &column.0)))),
        ("column_type", Arc::new(StringArray::from_iter_values(columns.iter().map(|column| &column.2)))),
        ("min", Arc::new(min)),
        ("max", Arc::new(max)),
        ("approx_unique", Arc::new(unique.finish())),
        ("avg", Arc::new(average)),
        ("std", Arc::new(deviation)),
        ("q25", Arc::new(q25)),
        ("q50", Arc::new(q50)),
        ("q75", Arc::new(q75)),
        ("count", Arc::new(counts.finish())),
        ("null_percentage", Arc::new(null_percentage)),
    ];
    let fields = named.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, named.into_iter().map(|(_, array)| array).collect())
        .map_err(|error| Error::internal(error.to_string()))
}

fn integer(value: &ArrayRef) -> Result<Option<i64>> {
    let value = cast(value, &DataType::Int64).map_err(|error| Error::internal(error.to_string()))?;
    Ok(value.is_valid(0).then(|| value.as_primitive::<Int64Type>().value(0)))
}

fn text(value: &ArrayRef) -> Result<Option<String>> {
    let internal = |error: ArrowError| Error::internal(error.to_string());
    if let Some(texts) = texts_of_far_years(value).map_err(internal)? {
        return Ok(texts.is_valid(0).then(|| texts.value(0).to_string()));
    }
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    let formatter = ArrayFormatter::try_new(value, &options).map_err(internal)?;
    Ok(value.is_valid(0).then(|| formatter.value(0).to_string()))
}

/// Returns a quantile as a value of the column's type.
fn quantile_text(value: &ArrayRef, data_type: &DataType) -> Result<Option<String>> {
    let whole = data_type.is_integer() || class(data_type) == Class::Moment;
    let Some(quantile) = value.as_primitive_opt::<Float64Type>().filter(|_| whole && value.is_valid(0))
    else {
        return text(value);
    };
    let ticks: ArrayRef = Arc::new(Int64Array::from(vec![quantile.value(0).round() as i64]));
    let back = match data_type {
        // Days have 32 bits; Arrow does not convert 64 bits to them directly.
        DataType::Date32 | DataType::Time32(_) => {
            cast(&ticks, &DataType::Int32).and_then(|ticks| cast(&ticks, data_type))
        }
        _ => cast(&ticks, data_type),
    };
    text(&back.map_err(|error| Error::internal(error.to_string()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::dialect::parse_query;
    use arrow::compute::concat_batches;
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    async fn summary(query: &str) -> RecordBatch {
        let context = SessionContext::new();
        let frame = context.sql(query).await.unwrap();
        let columns: Vec<Column> = (frame.schema().fields().iter())
            .map(|field| (field.name().clone(), field.data_type().clone(), "T".to_string()))
            .collect();
        let sql = summary_of(parse_query(query).unwrap(), &columns).to_string();
        let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
        unpivot(&concat_batches(&batches[0].schema(), &batches).unwrap(), &columns).unwrap()
    }

    #[tokio::test]
    async fn every_type_has_its_row() {
        let table = summary(
            "SELECT column1 AS \"i\"\"1\", CAST(column1 AS DECIMAL(9,2)) AS d, CAST(column2 AS DATE) AS day, \
             CAST(column2 AS TIMESTAMP) AS t, column3 AS s, column1 > 2 AS b, [column1] AS l, \
             CAST(column1 AS DOUBLE) / 2 AS f, arrow_cast(column3, 'Dictionary(Int8, Utf8)') AS k \
             FROM (VALUES (1, '2024-01-01', 'x'), (2, '2024-01-02', 'y'), (3, '2024-01-03', NULL), (4, NULL, 'x'))",
        )
        .await;
        let shown = pretty_format_batches(std::slice::from_ref(&table)).unwrap().to_string();
        let cell = |name: &str, row: usize| {
            let column = table.column_by_name(name).unwrap();
            text(&column.slice(row, 1)).unwrap().unwrap_or("NULL".into())
        };
        assert_eq!(
            (cell("column_name", 0), cell("min", 0), cell("max", 0)),
            ("i\"1".into(), "1".into(), "4".into())
        );
        assert_eq!((cell("avg", 0), cell("approx_unique", 0)), ("2.5".into(), "4".into()));
        assert_eq!((cell("min", 1), cell("max", 1)), ("1.00".into(), "4.00".into()), "{shown}");
        assert_eq!(
            (cell("q50", 2), cell("null_percentage", 2)),
            ("2024-01-02".into(), "25.00".into()),
            "{shown}"
        );
        assert_eq!(
            (cell("max", 3), cell("avg", 3)),
            ("2024-01-03 00:00:00".into(), "NULL".into()),
            "{shown}"
        );
        assert_eq!(
            (cell("min", 4), cell("q25", 4), cell("approx_unique", 4)),
            ("x".into(), "NULL".into(), "2".into())
        );
        assert_eq!((cell("min", 5), cell("max", 5)), ("false".into(), "true".into()));
        assert_eq!(
            (cell("min", 6), cell("approx_unique", 6), cell("count", 6)),
            ("NULL".into(), "NULL".into(), "4".into())
        );
        assert_eq!((cell("max", 7), cell("max", 8)), ("2.0".into(), "y".into()));
    }

    #[tokio::test]
    async fn an_empty_table_has_no_statistics() {
        let table = summary("SELECT 1 AS a, 'x' AS b WHERE false").await;
        assert_eq!(table.num_rows(), 2);
        assert_eq!(table.column_by_name("null_percentage").unwrap().null_count(), 2);
        assert_eq!(table.column_by_name("min").unwrap().null_count(), 2);
    }
}
