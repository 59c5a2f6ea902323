//! `COPY … FROM`: files read with the types and columns of a table.

use crate::arrow_table::arrow_reader;
use crate::chunk::{batches_of, read};
use crate::convert::type_name;
use crate::csv::{CsvFormat, detect};
use crate::damage::{not_that_format, unless_damaged};
use crate::input::{Input, Reading, check_regular};
use crate::json::{JsonFormat, detect_layout};
use crate::option::ReadOptions;
use crate::ordered::{Emit, Ordered};
use crate::parquet_footer::Footer;
use crate::parquet_reader::{ROW_GROUP, check_pages};
use crate::path::{FileFormat, expand};
use crate::reject::{Advice, Rejects, shown};
use crate::room::Room;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionContext;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::file::metadata::RowGroupMetaData;
use hypostyle_expr::cast::cast;
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parquet row groups that are decoded at once, each of which may be held in memory.
const ROW_GROUPS_MAX: usize = 4;

/// Batches that one row group may have waiting: about a million rows.
const ROW_GROUP_BATCHES: usize = 128;

/// Values of the batches that one row group may have waiting.
const VALUES_WAITING: usize = 16 << 20;

/// Returns how many rows a batch has, and how many batches of one row group may wait.
fn rows_and_batches(target: &Schema) -> (usize, usize) {
    batches_of(target.fields(), VALUES_WAITING, ROW_GROUP_BATCHES)
}

/// The input of COPY FROM.
pub struct CopySource {
    /// Rows of the target's schema, in file order.
    pub rows: SendableRecordBatchStream,
    /// The rows left out; complete when `rows` is at its end.
    pub rejects: Arc<Rejects>,
}

/// Reads files with the column types of `target`: CSV by position, or by name where its header has
/// all names; the other formats by name, with NULL for what they do not have.
///
/// # Errors
/// `NotFound`, `Io`, or `InvalidInput` with the place of the first value that does not fit. Those
/// found while reading come with the rows.
pub async fn read_for_copy(
    context: &SessionContext,
    path: &str,
    format: FileFormat,
    options: &ReadOptions,
    target: SchemaRef,
) -> Result<CopySource> {
    let config = context.copied_config();
    let files = expand(&[path.to_string()])?;
    let threads = config.target_partitions();
    let options = ReadOptions { reading: Reading::of(&config), ..options.clone() };
    let rows = target;
    let runtime = context.runtime_env();
    let rooms = (Room::of(&runtime.memory_pool), Room::whole(&runtime.memory_pool));
    // What is read here may come from a pipe that has no data yet.
    let started =
        tokio::task::spawn_blocking(move || start(files, format, &options, &rows, (threads, rooms))).await;
    started.unwrap_or_else(|error| Err(Error::internal(format!("cannot look at the file: {error}"))))
}

fn start(
    files: Vec<PathBuf>,
    format: FileFormat,
    options: &ReadOptions,
    target: &Schema,
    (threads, rooms): (usize, (Room, Room)),
) -> Result<CopySource> {
    if let FileFormat::Parquet | FileFormat::Arrow = format {
        check_regular(&files, format.name())?;
    }
    let rejects = Arc::new(Rejects::new(options, Advice::Copy));
    let target = nullable(target);
    let kept = Arc::clone(&rejects);
    let rows = match format {
        FileFormat::Csv => {
            let files = Input::of(files, options)?;
            let Some(format) = csv_for(&files[0], options, &target)? else {
                return Ok(CopySource { rows: nothing(target), rejects });
            };
            read(Arc::new(format), target, files, options, rejects, threads)?
        }
        FileFormat::Json => {
            let files = Input::of(files, options)?;
            let layout = detect_layout(&files[0], options)?;
            let format = JsonFormat::of(layout, Arc::clone(&target), true);
            read(Arc::new(format), target, files, options, rejects, threads)?
        }
        FileFormat::Parquet => read_parquet(files, target, threads.min(ROW_GROUPS_MAX), rooms)?,
        FileFormat::Arrow => read_arrow(files, target, threads.min(ROW_GROUPS_MAX), rooms.0)?,
    };
    Ok(CopySource { rows: rows.into_stream(), rejects: kept })
}

/// Returns the schema with all columns nullable: the table reports NULLs in columns that refuse
/// them.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn nothing(schema: SchemaRef) -> SendableRecordBatchStream {
    Box::pin(datafusion::physical_plan::EmptyRecordBatchStream::new(schema))
}

/// Returns how to read CSV files into `target`; `None` for an empty file.
fn csv_for(first: &Input, options: &ReadOptions, target: &Schema) -> Result<Option<CsvFormat>> {
    let names: Vec<&str> = target.fields().iter().map(|field| field.name().as_str()).collect();
    let mut start = [0];
    let is_empty =
        first.sample(options)?.read(&mut start).map_err(|error| Input::damaged(first.path(), &error))? == 0;
    if is_empty {
        return Ok(None);
    }
    let detected = detect(first, options, &names)?;
    let header = detected.header_names.clone().unwrap_or_default();
    let place = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    let by_name: Option<Vec<usize>> = names.iter().map(|name| place(name)).collect();
    let in_order = || (0..names.len()).collect();
    let projection = match by_name {
        Some(projection) => projection,
        None if detected.columns.len() == names.len() => in_order(),
        None => {
            return Err(Error::invalid_input(format!(
                "{}: {} columns, but {} are to be filled ({}); name the file's columns in the COPY",
                first.path().display(),
                detected.columns.len(),
                names.len(),
                shown(&names.join(", ")),
            )));
        }
    };
    let (mut columns, mut forms) = (detected.columns, detected.forms);
    for (index, field) in projection.iter().zip(target.fields()) {
        columns[*index] = field.as_ref().clone();
        forms[*index] = std::mem::take(&mut forms[*index]).of_given_type();
    }
    Ok(Some(CsvFormat {
        dialect: detected.dialect,
        header: detected.header,
        skip: options.skip,
        has_notes: detected.has_notes,
        header_names: detected.header_names,
        null_texts: options.null_texts.clone(),
        allow_quoted_nulls: options.allow_quoted_nulls,
        forms,
        columns: Arc::new(Schema::new(columns)),
        projection,
    }))
}

/// One row group of a file and the number of its first row.
type RowGroup = (Footer, usize, u64);

/// `rooms`: what a page may become, and the pages of all columns that are decompressed at once.
fn read_parquet(
    files: Vec<PathBuf>,
    target: SchemaRef,
    threads: usize,
    rooms: (Room, Room),
) -> Result<Ordered> {
    let mut jobs: Vec<Result<RowGroup>> = Vec::new();
    for file in files {
        let footer = Footer::read(&file)?;
        check_names(&file, footer.fields(), &target)?;
        let mut first = 1;
        for (index, group) in footer.metadata.row_groups().iter().enumerate() {
            jobs.push(Ok((footer.clone(), index, first)));
            first += group.num_rows() as u64;
        }
    }
    let schema = Arc::clone(&target);
    let decode = move |(footer, group, mut row): RowGroup, emit: &mut Emit<'_>| {
        let file = &footer.path;
        let mut reader = unless_damaged(file, "Parquet", || row_group(&footer, group, &target, rooms))?;
        loop {
            let batch = unless_damaged(file, "Parquet", || {
                let batch = reader.next().transpose();
                batch.map_err(|error| not_that_format(file, "Parquet", &error))
            })?;
            let Some(batch) = batch else { return Ok(()) };
            if !emit(fit(file, row, &batch, &target)?) {
                return Ok(());
            }
            row += batch.num_rows() as u64;
        }
    };
    let (_, batches) = rows_and_batches(&schema);
    Ordered::start(schema, threads, batches, jobs.into_iter(), decode)
}

/// Returns the rows of a row group, with the columns that the target has.
fn row_group(
    footer: &Footer,
    group: usize,
    target: &Schema,
    (room, whole): (Room, Room),
) -> Result<ParquetRecordBatchReader> {
    let damaged = |error: &dyn std::fmt::Display| not_that_format(&footer.path, "Parquet", error);
    let (file, now) = footer.open()?;
    let mut all = 0_u64;
    for column in now.metadata.row_groups().get(group).map_or(&[][..], RowGroupMetaData::columns) {
        let (begin, bytes) = column.byte_range();
        let largest = check_pages(&file, &footer.path, begin..begin + bytes, room)?;
        let root = column.column_path().parts().first();
        if root.is_some_and(|root| find(target.fields(), root).is_some()) {
            all = all.saturating_add(largest);
        }
    }
    whole.check(&footer.path, ROW_GROUP, all)?;
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(&now.metadata), Default::default());
    let metadata = metadata.map_err(|error| damaged(&error))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let wanted: Vec<usize> = (builder.schema().fields().iter().enumerate())
        .filter(|(_, field)| find(target.fields(), field.name()).is_some())
        .map(|(index, _)| index)
        .collect();
    let mask = datafusion::parquet::arrow::ProjectionMask::roots(builder.parquet_schema(), wanted);
    let (rows, _) = rows_and_batches(target);
    let reader = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(rows);
    reader.build().map_err(|error| damaged(&error))
}

fn read_arrow(files: Vec<PathBuf>, target: SchemaRef, threads: usize, room: Room) -> Result<Ordered> {
    let schema = Arc::clone(&target);
    let decode = move |file: PathBuf, emit: &mut Emit<'_>| {
        let mut reader = arrow_reader(&file, room)?;
        check_names(&file, reader.schema().fields(), &target)?;
        let mut row = 1;
        loop {
            let batch = unless_damaged(&file, "Arrow", || {
                let batch = reader.next().transpose();
                batch.map_err(|error| not_that_format(&file, "Arrow", &error))
            })?;
            let Some(batch) = batch else { return Ok(()) };
            if !emit(fit(&file, row, &batch, &target)?) {
                return Ok(());
            }
            row += batch.num_rows() as u64;
        }
    };
    let (_, batches) = rows_and_batches(&schema);
    Ordered::start(schema, threads, batches, files.into_iter().map(Ok), decode)
}

fn find(fields: &Fields, name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))
}

/// Refuses a file none of whose columns is wanted: its rows would all be NULL.
fn check_names(file: &Path, fields: &Fields, target: &Schema) -> Result<()> {
    if target.fields().iter().any(|field| find(fields, field.name()).is_some()) {
        return Ok(());
    }
    let columns: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let wanted: Vec<&str> = target.fields().iter().map(|field| field.name().as_str()).collect();
    let suggestion =
        wanted.first().map_or_else(String::new, |name| did_you_mean(name, columns.iter().copied()));
    Err(Error::new(
        ErrorKind::UnknownName,
        format!(
            "{}: none of the columns {} is there{suggestion}; it has {}",
            file.display(),
            wanted.join(", "),
            columns.join(", ")
        ),
    ))
}

/// Returns the columns of `target`, by name, converted to its types.
fn fit(file: &Path, first_row: u64, batch: &RecordBatch, target: &SchemaRef) -> Result<RecordBatch> {
    let columns = target.fields().iter().map(|field| match find(batch.schema().fields(), field.name()) {
        None => Ok(arrow::array::new_null_array(field.data_type(), batch.num_rows())),
        Some(index) => convert(batch.column(index), field)
            .ok_or_else(|| misfit(file, first_row, (index, batch.column(index)), field)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(Arc::clone(target), columns)
        .map_err(|error| Error::internal(format!("{}: {error}", file.display())))
}

fn convert(column: &ArrayRef, field: &Field) -> Option<ArrayRef> {
    cast(column, field, false).ok()
}

/// Finds the first value of a column that does not convert.
fn misfit(file: &Path, first_row: u64, (index, column): (usize, &ArrayRef), field: &Field) -> Error {
    let row = (0..column.len()).find(|row| convert(&column.slice(*row, 1), field).is_none()).unwrap_or(0);
    let value = array_value_to_string(column, row).unwrap_or_default();
    Error::invalid_input(format!(
        "{}, row {}, column {} (\"{}\"): cannot read {} as {}",
        file.display(),
        first_row + row as u64,
        index + 1,
        field.name(),
        shown(&value),
        type_name(field),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;
    use arrow::array::StringArray;
    use arrow::datatypes::DataType;
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::basic::Compression;
    use datafusion::parquet::file::properties::WriterProperties;

    #[test]
    fn pages_of_the_wanted_columns_have_to_fit_together() {
        let directory = TestDirectory::new("copied-pages");
        let schema = |columns: usize| {
            let fields = (0..columns).map(|column| Field::new(format!("c{column}"), DataType::Utf8, true));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(3_000_000)]));
        let rows = RecordBatch::try_new(schema(8), vec![long; 8]).unwrap();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let path = directory.write("a.parquet", file);
        let read = |columns: usize, whole: u64| -> Result<usize> {
            let rooms = (Room(u64::MAX), Room(whole));
            let rows = read_parquet(vec![path.clone().into()], schema(columns), 1, rooms)?;
            rows.map(|batch| batch.map(|batch| batch.num_rows())).sum()
        };
        assert_eq!(read(2, 20 << 20).unwrap(), 1);
        assert_eq!(read(8, 64 << 20).unwrap(), 1);
        let error = read(8, 20 << 20).unwrap_err();
        assert!(error.message().contains("has a row group that becomes 24"), "{error}");
    }
}
