//! `COPY … TO`: CSV and JSON are written here, Parquet and Arrow by DataFusion's writers, to one
//! file.
//!
//! The target is either a new file that replaces the old one at the end, or a pipe.

use crate::nested::with_parts;
use crate::option::WriteOptions;
use crate::parquet_footer::name_uuids;
use crate::path::FileFormat;
use crate::rows::Lines;
use crate::sink::Registered;
use crate::target::Target;
use crate::uuid_column::{converter, has_uuids, with_bytes};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, TimeUnit, UInt64Type};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Column, DFSchema};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::arrow::ArrowFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormatFactory, format_as_file_type};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast};
use futures::StreamExt;
use hypostyle_error::from_datafusion;
use hypostyle_types::{Error, ErrorKind};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
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
    let names: Vec<&str> = rows.schema().fields().iter().map(|field| field.name().as_str()).collect();
    options.check_columns(&names).map_err(failed)?;
    let target = Target::find(path).map_err(failed)?;
    let target = Arc::new(target.open().await.map_err(failed)?);
    let columns = rows.schema().fields().clone();
    let (state, plan) = rows.into_parts();
    let registered = Registered::new(state.runtime_env(), &target, options.is_array).map_err(failed)?;
    let rows = DataFrame::new(state, plan);
    let written = match format {
        FileFormat::Csv | FileFormat::Json => write_lines(rows, &registered, format, options).await,
        FileFormat::Parquet | FileFormat::Arrow => write_to(rows, registered.url(), format, options).await,
    };
    let count =
        written.map_err(|error| failed(registered.failure().unwrap_or_else(|| of_writing(path, error))))?;
    registered.end().map_err(failed)?;
    if let Some(written) = target.beside().filter(|_| format == FileFormat::Parquet && has_uuids(&columns)) {
        name_uuids(written, &columns).map_err(failed)?;
    }
    target.finish().map_err(failed)?;
    Ok(count)
}

/// Returns an error of computing rows as it is; one of writing them with the file's name.
fn of_writing(path: &str, error: DataFusionError) -> Error {
    let error = from_datafusion(error);
    match error.kind() {
        ErrorKind::DiskFull | ErrorKind::Io => error.context(format!("cannot write \"{path}\"")),
        _ => error,
    }
}

/// Writes lines of text, which are made on several threads and written in the order of the rows.
async fn write_lines(
    rows: DataFrame,
    registered: &Registered,
    format: FileFormat,
    options: &WriteOptions,
) -> Result<u64> {
    let (state, plan) = rows.into_parts();
    let config = state.config();
    let threads = config.target_partitions().max(1);
    let zone: Arc<str> = config.options().execution.time_zone.as_deref().unwrap_or("UTC").into();
    let batches = DataFrame::new(state, plan).execute_stream().await?;
    let lines = Arc::new(Lines::new(format, options, batches.schema(), zone));
    let mut writer = options
        .compression
        .convert_async_writer_with_level(registered.writer(), options.compression_level)?;
    writer.write_all(&lines.start()).await?;
    let mut parts = batches
        .map(|batch| {
            let lines = Arc::clone(&lines);
            async move {
                let batch = batch?;
                let make = move || -> Result<_> { Ok((lines.of(&batch)?, batch.num_rows())) };
                let made = tokio::task::spawn_blocking(make).await;
                made.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
            }
        })
        .buffered(threads);
    let mut count = 0;
    while let Some(part) = parts.next().await {
        let (text, rows): (Vec<u8>, usize) = part?;
        writer.write_all(&text).await?;
        count += rows as u64;
    }
    writer.shutdown().await?;
    Ok(count)
}

async fn write_to(rows: DataFrame, url: &Url, format: FileFormat, options: &WriteOptions) -> Result<u64> {
    let (state, plan) = as_written(rows, format)?.into_parts();
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
        _ => Arc::new(ArrowFormatFactory::new()),
    })
}

/// Turns columns that a format has no form for into what it has: UUIDs into bytes, and in Parquet
/// intervals into text, and seconds into milliseconds.
fn as_written(rows: DataFrame, format: FileFormat) -> Result<DataFrame> {
    let expressions = columns(rows.schema(), format);
    if expressions.iter().all(|expression| matches!(expression, Expr::Column(_))) {
        return Ok(rows);
    }
    rows.select(expressions)
}

fn columns(schema: &DFSchema, format: FileFormat) -> Vec<Expr> {
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let of_bytes = with_bytes(field);
        let written = match format {
            FileFormat::Parquet => in_parquet(&of_bytes),
            _ => of_bytes.clone(),
        };
        if written == *field.data_type() {
            return column;
        }
        let made = match of_bytes == *field.data_type() {
            true => column,
            false => converter(true).call(vec![column]),
        };
        let made = if written == of_bytes { made } else { cast(made, written) };
        made.alias(field.name())
    });
    columns.collect()
}

/// Returns a type with text in the place of intervals, which Parquet has no form for, and
/// milliseconds in that of seconds, which it has none for either; also of those within it.
fn in_parquet(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Interval(_) => DataType::Utf8,
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        other => with_parts(other, &mut |part| {
            Arc::new(part.as_ref().clone().with_data_type(in_parquet(part.data_type())))
        }),
    }
}
