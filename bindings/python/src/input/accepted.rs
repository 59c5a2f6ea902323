//! Decides which Arrow fields of other producers are accepted, and as which types: those that can
//! be given back unchanged.

use arrow::array::timezone::Tz;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use hypostyle::check_arrow_schema;
use std::sync::Arc;

/// Returns the field of a schema, with its time zones by the names that every reader knows.
///
/// # Errors
/// `CDataInterface` with the name of the column that has an unknown type or time zone; `ExternalError`
/// for a schema that is not as the interface says.
pub fn field(schema: &FFI_ArrowSchema) -> Result<Field, ArrowError> {
    check_arrow_schema(schema).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    if schema.format() != ROWS {
        return renamed(&readable(schema)?);
    }
    let columns = schema.children().map(|child| renamed(&readable(child)?)).collect::<Result<Fields, _>>()?;
    Ok(Field::try_from(schema)?.with_data_type(DataType::Struct(columns)))
}

/// The format of a struct, which is that of the rows of a table.
const ROWS: &str = "+s";

fn readable(schema: &FFI_ArrowSchema) -> Result<Field, ArrowError> {
    Field::try_from(schema).map_err(|error| match schema.name().filter(|name| !name.is_empty()) {
        Some(name) => {
            let problem = format!("has the Arrow format \"{}\", which no SQL type holds", schema.format());
            refuse(name, &problem)
        }
        None => error,
    })
}

/// Returns the rows in types that queries compute with, in place of types that only files and other
/// libraries have.
///
/// # Errors
/// The errors of Arrow's casts.
pub fn computable(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let wanted = computable_field(field);
        columns.push(match wanted.data_type() == field.data_type() {
            true => column.clone(),
            false => cast_with_options(column, wanted.data_type(), &options)?,
        });
        fields.push(wanted);
    }
    let schema = Schema::new_with_metadata(fields, batch.schema_ref().metadata().clone());
    RecordBatch::try_new_with_options(
        Arc::new(schema),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
}

/// Returns the field in such types.
pub fn computable_field(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::ListView(item) => DataType::List(computable_field(item)),
        DataType::LargeListView(item) => DataType::LargeList(computable_field(item)),
        DataType::List(item) => DataType::List(computable_field(item)),
        DataType::LargeList(item) => DataType::LargeList(computable_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(computable_field(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(computable_field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(computable_field).collect()),
        other => other.clone(),
    };
    match data_type == *field.data_type() {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
    }
}

fn refuse(column: &str, problem: &str) -> ArrowError {
    ArrowError::CDataInterface(format!("column \"{column}\" {problem}"))
}

/// Returns the column with its time zones, also nested ones, by their usual names.
fn renamed(column: &Field) -> Result<Field, ArrowError> {
    let data_type = with_usual_zones(column.name(), column.data_type())?;
    Ok(column.clone().with_data_type(data_type))
}

fn with_usual_zones(column: &str, data_type: &DataType) -> Result<DataType, ArrowError> {
    let one = |item: &FieldRef| -> Result<FieldRef, ArrowError> {
        let data_type = with_usual_zones(column, item.data_type())?;
        Ok(Arc::new(item.as_ref().clone().with_data_type(data_type)))
    };
    Ok(match data_type {
        DataType::Timestamp(unit, Some(zone)) => DataType::Timestamp(*unit, Some(time_zone(column, zone)?)),
        DataType::List(item) => DataType::List(one(item)?),
        DataType::LargeList(item) => DataType::LargeList(one(item)?),
        DataType::ListView(item) => DataType::ListView(one(item)?),
        DataType::LargeListView(item) => DataType::LargeListView(one(item)?),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(one(item)?, *length),
        DataType::Map(entries, sorted) => DataType::Map(one(entries)?, *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(one).collect::<Result<Fields, _>>()?),
        DataType::Dictionary(keys, values) => {
            DataType::Dictionary(keys.clone(), Box::new(with_usual_zones(column, values)?))
        }
        other => other.clone(),
    })
}

/// Returns a zone by its name in the time zone database, or as an offset such as "+02:00".
fn time_zone(column: &str, name: &str) -> Result<Arc<str>, ArrowError> {
    let canonical = match name {
        "Z" | "z" => "UTC",
        _ => ["UTC", "GMT"]
            .into_iter()
            .filter_map(|prefix| name.strip_prefix(prefix))
            .find(|offset| offset.starts_with(['+', '-']))
            .unwrap_or(name),
    };
    if canonical.parse::<Tz>().is_err() {
        let problem = format!(
            "has the time zone \"{name}\", which is neither a name of the time zone database nor an offset \
             such as \"+02:00\""
        );
        return Err(refuse(column, &problem));
    }
    Ok(canonical.into())
}
