//! `COPY … TO`: DataFusion's writers write rows to one file.
//!
//! The target is either a new file that replaces the old one at the end, or a pipe.

use crate::option::WriteOptions;
use crate::path::FileFormat;
use crate::sink::Registered;
use crate::target::Target;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use arrow::json::{EncoderOptions, writer::make_encoder};
use datafusion::common::config::{CsvOptions, JsonOptions, TableParquetOptions};
use datafusion::common::{Column, DFSchema};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::arrow::ArrowFormatFactory;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormatFactory, format_as_file_type};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlanBuilder, ScalarFunctionImplementation, Volatility, cast, create_udf,
};
use hypostyle_error::from_datafusion;
use hypostyle_types::{Error, ErrorKind, LogicalType};
use std::collections::HashMap;
use std::sync::Arc;
use url::Url;

type Result<T, E = DataFusionError> = std::result::Result<T, E>;

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Writes rows to one file and returns how many.
///
/// # Errors
/// Those of computing the rows; those of finding and writing the file.
pub async fn write(rows: DataFrame, path: &str, format: FileFormat, options: &WriteOptions) -> Result<u64> {
    let target = Target::find(path).map_err(failed)?;
    let target = Arc::new(target.open().await.map_err(failed)?);
    let (state, plan) = rows.into_parts();
    let registered = Registered::new(state.runtime_env(), &target, options.is_array).map_err(failed)?;
    let rows = DataFrame::new(state, plan);
    let count = write_to(rows, registered.url(), format, options)
        .await
        .map_err(|error| failed(registered.failure().unwrap_or_else(|| of_writing(path, error))))?;
    registered.end().map_err(failed)?;
    target.finish().map_err(failed)?;
    Ok(count)
}

/// Returns an error of computing rows as it is; one of writing them with the file's name.
fn of_writing(path: &str, error: DataFusionError) -> Error {
    let error = from_datafusion(error);
    match error.kind() {
        ErrorKind::DiskFull | ErrorKind::Io => error.context(format!("cannot write \"{path}\"")),
        // This is everything that DataFusion reports about the last bytes.
        ErrorKind::Internal if error.message().contains("finalizing writes") => {
            let message = format!("cannot finish \"{path}\": its file system fails, or is full");
            Error::new(ErrorKind::Io, message)
        }
        _ => error,
    }
}

async fn write_to(rows: DataFrame, url: &Url, format: FileFormat, options: &WriteOptions) -> Result<u64> {
    let rows = if format == FileFormat::Arrow { rows } else { as_text(rows, format)? };
    let (state, plan) = rows.into_parts();
    let settings = HashMap::from([("single_file_output".to_string(), "true".to_string())]);
    let file_type = format_as_file_type(writer(format, options)?);
    let plan =
        LogicalPlanBuilder::copy_to(plan, url.to_string(), file_type, settings, Vec::new())?.build()?;
    let counts = DataFrame::new(state, plan).collect().await?;
    let count = counts.first().and_then(|batch| batch.column(0).as_primitive_opt::<UInt64Type>());
    match count {
        Some(count) if count.len() == 1 => Ok(count.value(0)),
        _ => Err(failed(Error::internal("the writer has not told how many rows it wrote"))),
    }
}

fn writer(format: FileFormat, options: &WriteOptions) -> Result<Arc<dyn FileFormatFactory>> {
    Ok(match format {
        FileFormat::Csv => {
            let csv = CsvOptions {
                has_header: Some(options.header),
                delimiter: options.delimiter,
                quote: options.quote,
                escape: options.escape,
                double_quote: Some(options.escape.is_none()),
                compression: options.compression.into(),
                compression_level: options.compression_level,
                date_format: options.date_format.clone(),
                // A blank replaces ISO 8601's T, as SQL writes timestamps.
                timestamp_format: Some(
                    options.timestamp_format.clone().unwrap_or_else(|| "%Y-%m-%d %H:%M:%S%.f".into()),
                ),
                timestamp_tz_format: Some(
                    options.timestamp_format.clone().unwrap_or_else(|| "%Y-%m-%d %H:%M:%S%.f%:z".into()),
                ),
                null_value: Some(options.null_text.clone()),
                ..CsvOptions::default()
            };
            Arc::new(CsvFormatFactory::new_with_options(csv))
        }
        FileFormat::Json => {
            let json = JsonOptions {
                compression: options.compression.into(),
                compression_level: options.compression_level,
                ..JsonOptions::default()
            };
            Arc::new(JsonFormatFactory::new_with_options(json))
        }
        FileFormat::Parquet => {
            let mut parquet = TableParquetOptions::default();
            let default_level = match options.page_compression.as_str() {
                "zstd" => Some(3),
                "gzip" => Some(6),
                "brotli" => Some(4),
                _ => None,
            };
            let level = default_level.map(|level| options.compression_level.unwrap_or(level));
            let codec = level.map_or_else(
                || options.page_compression.clone(),
                |level| format!("{}({level})", options.page_compression),
            );
            parquet.global.compression = Some(codec);
            if let Some(rows) = options.row_group_rows {
                parquet.global.max_row_group_size = rows;
            }
            Arc::new(ParquetFormatFactory::new_with_options(parquet))
        }
        FileFormat::Arrow => Arc::new(ArrowFormatFactory::new()),
    })
}

/// Turns columns that a format has no form for into text: intervals in Parquet, UUIDs in the
/// others, and in CSV nested values.
fn as_text(rows: DataFrame, format: FileFormat) -> Result<DataFrame> {
    let expressions = columns(rows.schema(), format);
    if expressions.iter().all(|expression| matches!(expression, Expr::Column(_))) {
        return Ok(rows);
    }
    rows.select(expressions)
}

fn columns(schema: &DFSchema, format: FileFormat) -> Vec<Expr> {
    schema
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            if format == FileFormat::Parquet {
                let written = without_intervals(field.data_type());
                return match written == *field.data_type() {
                    true => column,
                    false => cast(column, written).alias(field.name()),
                };
            }
            let uuid = LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Uuid);
            let nested = format == FileFormat::Csv && field.data_type().is_nested();
            let text: fn(&ArrayRef, &FieldRef) -> Result<ArrayRef> = match (uuid, nested) {
                (true, _) => uuid_text,
                (_, true) => json_text,
                _ => return column,
            };
            let captured = Arc::clone(field);
            let body: ScalarFunctionImplementation = Arc::new(move |arguments: &[ColumnarValue]| {
                let rows = ColumnarValue::values_to_arrays(arguments)?;
                Ok(ColumnarValue::Array(text(&rows[0], &captured)?))
            });
            let input = vec![field.data_type().clone()];
            let function = create_udf("text", input, DataType::Utf8, Volatility::Immutable, body);
            function.call(vec![column]).alias(field.name())
        })
        .collect()
}

/// Returns a type with text in the place of intervals, also of those within it.
fn without_intervals(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| {
        Arc::new(field.as_ref().clone().with_data_type(without_intervals(field.data_type())))
    };
    match data_type {
        DataType::Interval(_) => DataType::Utf8,
        DataType::List(element) => DataType::List(of(element)),
        DataType::LargeList(element) => DataType::LargeList(of(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(of(element), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        DataType::Map(entries, sorted) => DataType::Map(of(entries), *sorted),
        other => other.clone(),
    }
}

fn uuid_text(values: &ArrayRef, _: &FieldRef) -> Result<ArrayRef> {
    let mut builder = StringBuilder::with_capacity(values.len(), values.len() * 36);
    for value in values.as_fixed_size_binary() {
        let uuid = value.and_then(|bytes| uuid::Uuid::from_slice(bytes).ok());
        builder.append_option(uuid.map(|uuid| uuid.hyphenated().to_string()));
    }
    Ok(Arc::new(builder.finish()))
}

fn json_text(values: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let field: FieldRef = Arc::new(Field::new(field.name(), values.data_type().clone(), true));
    let options = EncoderOptions::default();
    let mut encoder = make_encoder(&field, values.as_ref(), &options)?;
    let mut builder = StringBuilder::with_capacity(values.len(), values.len() * 16);
    let mut text = Vec::new();
    for row in 0..values.len() {
        if encoder.is_null(row) {
            builder.append_null();
            continue;
        }
        text.clear();
        encoder.encode(row, &mut text);
        let text = std::str::from_utf8(&text)
            .map_err(|error| failed(Error::internal(format!("JSON that is not UTF-8: {error}"))))?;
        builder.append_value(text);
    }
    Ok(Arc::new(builder.finish()))
}
