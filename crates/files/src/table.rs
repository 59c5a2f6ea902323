//! Files as tables.

use crate::arrow_lengths;
use crate::chunk::{TextFormat, read};
use crate::csv::{CsvFormat, detect};
use crate::json::{JsonFormat, detect_layout, detect_schema};
use crate::option::ReadOptions;
use crate::ordered::Ordered;
use crate::path::{FileFormat, open_plain};
use crate::reject::Rejects;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat as DataFusionFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::parquet::{ParquetFormat, transform_schema_to_view};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use hypostyle_types::{Error, Result, did_you_mean};
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HINT: &str = "; give the column another type with types => {'name': 'VARCHAR'}, or leave such rows out \
                    with ignore_errors => true";

/// Gives the Arrow type of a SQL type's name.
pub type ResolveType<'a> = &'a dyn Fn(&str) -> Result<DataType>;

/// Returns the table that some files of one format hold.
///
/// # Errors
/// `NotFound`, `Io` and `InvalidInput` as the files give cause; `InvalidInput` for options that do
/// not fit.
pub fn open_table(
    files: Vec<PathBuf>,
    format: FileFormat,
    options: &ReadOptions,
    resolve: ResolveType<'_>,
) -> Result<Arc<dyn TableProvider>> {
    match format {
        FileFormat::Csv => {
            let format = csv_format(&files[0], options, resolve)?;
            Ok(Arc::new(TextTable::new(CsvOrJson::Csv(format), files, options)))
        }
        FileFormat::Json => {
            let format = json_format(&files[0], options, resolve)?;
            Ok(Arc::new(TextTable::new(CsvOrJson::Json(format), files, options)))
        }
        FileFormat::Parquet => listing(&files, Arc::new(ParquetFormat::default()), parquet_schema),
        FileFormat::Arrow => listing(&files, Arc::new(ArrowFormat), arrow_schema),
    }
}

fn csv_format(first: &Path, options: &ReadOptions, resolve: ResolveType<'_>) -> Result<CsvFormat> {
    let detected = detect(first, options, &[])?;
    let columns = retype(detected.columns, options, resolve)?;
    Ok(CsvFormat {
        dialect: detected.dialect,
        header: detected.header,
        skip: options.skip,
        header_names: detected.header_names,
        null_texts: options.null_texts.clone(),
        projection: (0..columns.len()).collect(),
        columns: Arc::new(Schema::new(columns)),
    })
}

fn json_format(first: &Path, options: &ReadOptions, resolve: ResolveType<'_>) -> Result<JsonFormat> {
    let layout = detect_layout(first, options)?;
    let fields = if options.names.is_empty() {
        detect_schema(first, layout, options)?
    } else {
        options.names.iter().map(|name| Field::new(name, DataType::Utf8View, true)).collect()
    };
    Ok(JsonFormat { layout, schema: Arc::new(Schema::new(retype(fields, options, resolve)?)) })
}

/// Gives columns the types that the options ask for.
fn retype(mut columns: Vec<Field>, options: &ReadOptions, resolve: ResolveType<'_>) -> Result<Vec<Field>> {
    let given = options.types_by_position.len().max(options.names.len());
    if given > columns.len() {
        return Err(Error::invalid_input(format!(
            "{given} columns are named, but the file has {}",
            columns.len()
        )));
    }
    for (column, name) in columns.iter_mut().zip(&options.types_by_position) {
        column.set_data_type(resolve(name)?);
    }
    for (column, type_name) in &options.types_by_name {
        let known: Vec<String> = columns.iter().map(|field| field.name().clone()).collect();
        let Some(field) = columns.iter_mut().find(|field| field.name() == column) else {
            let suggestion = did_you_mean(column, known.iter().map(String::as_str));
            return Err(Error::invalid_input(format!(
                "types names the column \"{column}\", which the file does not have{suggestion}; it has {}",
                known.join(", ")
            )));
        };
        field.set_data_type(resolve(type_name)?);
    }
    Ok(columns)
}

/// Either kind of text file.
#[derive(Clone, Debug)]
enum CsvOrJson {
    Csv(CsvFormat),
    Json(JsonFormat),
}

impl CsvOrJson {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Csv(format) => format.schema(),
            Self::Json(format) => Arc::clone(&format.schema),
        }
    }

    fn project(&self, projection: &[usize]) -> Self {
        match self {
            Self::Csv(format) => {
                let projection = projection.iter().map(|index| format.projection[*index]).collect();
                Self::Csv(CsvFormat { projection, ..format.clone() })
            }
            Self::Json(format) => {
                let fields: Vec<_> =
                    projection.iter().map(|index| Arc::clone(&format.schema.fields()[*index])).collect();
                Self::Json(JsonFormat { schema: Arc::new(Schema::new(fields)), ..format.clone() })
            }
        }
    }
}

/// A table over CSV or JSON files, read in file order on several threads.
#[derive(Clone, Debug)]
struct TextTable {
    format: CsvOrJson,
    schema: SchemaRef,
    files: Vec<PathBuf>,
    options: ReadOptions,
}

impl TextTable {
    fn new(format: CsvOrJson, files: Vec<PathBuf>, options: &ReadOptions) -> Self {
        Self { schema: format.schema(), format, files, options: options.clone() }
    }

    fn start(&self, threads: usize) -> Result<Ordered> {
        let rejects = Arc::new(Rejects::new(&self.options, HINT));
        match &self.format {
            CsvOrJson::Csv(format) => self.start_with(format.clone(), rejects, threads),
            CsvOrJson::Json(format) => self.start_with(format.clone(), rejects, threads),
        }
    }

    fn start_with<F: TextFormat>(&self, format: F, rejects: Arc<Rejects>, threads: usize) -> Result<Ordered> {
        let (schema, files) = (Arc::clone(&self.schema), self.files.clone());
        read(Arc::new(format), schema, files, self.options.compression, rejects, threads)
    }
}

#[async_trait]
impl TableProvider for TextTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let format = match projection {
            Some(projection) => self.format.project(projection),
            None => self.format.clone(),
        };
        let table = Self::new(format, self.files.clone(), &self.options);
        let schema = Arc::clone(&table.schema);
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(table)], None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

impl PartitionStream for TextTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        match self.start(context.session_config().target_partitions()) {
            Ok(rows) => rows.into_stream(),
            Err(error) => {
                let error = futures::stream::iter([Err(DataFusionError::External(Box::new(error)))]);
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), error))
            }
        }
    }
}

/// Returns a table over files that DataFusion scans itself, pruned and in parallel.
fn listing(
    files: &[PathBuf],
    format: Arc<dyn DataFusionFormat>,
    schema_of: impl Fn(&Path) -> Result<Schema>,
) -> Result<Arc<dyn TableProvider>> {
    let mut schema = schema_of(&files[0])?;
    let mut urls = Vec::with_capacity(files.len());
    for file in files {
        schema = Schema::try_merge([schema, schema_of(file)?]).map_err(|error| {
            let (file, first) = (file.display(), files[0].display());
            Error::invalid_input(format!(
                "the columns of \"{file}\" do not fit those of \"{first}\": {error}"
            ))
        })?;
        let absolute = std::path::absolute(file)
            .map_err(|error| Error::from_io(&error, format!("cannot find \"{}\"", file.display())))?;
        let url =
            url::Url::from_file_path(&absolute).ok().and_then(|url| ListingTableUrl::try_new(url, None).ok());
        urls.push(url.ok_or_else(|| Error::invalid_input(format!("\"{}\" is no path", absolute.display())))?);
    }
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(ListingOptions::new(format).with_file_extension(""))
        .with_schema(Arc::new(schema));
    let table = ListingTable::try_new(config)
        .map_err(|error| Error::invalid_input(format!("\"{}\": {error}", files[0].display())))?;
    Ok(Arc::new(table))
}

fn parquet_schema(path: &Path) -> Result<Schema> {
    let file = open_plain(path)?;
    let metadata = ArrowReaderMetadata::load(&file, Default::default())
        .map_err(|error| not_that_format(path, "Parquet", &error))?;
    // The reader makes views of texts without copying them.
    Ok(transform_schema_to_view(&Schema::new(metadata.schema().fields().clone())))
}

fn arrow_schema(path: &Path) -> Result<Schema> {
    let reader = arrow_reader(path)?;
    Ok(Schema::new(reader.schema().fields().clone()))
}

/// Returns the batches of an Arrow IPC file, of either kind.
///
/// # Errors
/// `NotFound`, `Io`, or `InvalidInput` when the file is not Arrow IPC.
pub fn arrow_reader(path: &Path) -> Result<Box<dyn arrow::array::RecordBatchReader + Send>> {
    use arrow::ipc::reader::{FileReader, StreamReader};
    let file = open_plain(path)?;
    arrow_lengths::check(&file, path)?;
    let mut file: BufReader<File> = BufReader::new(file);
    if let Ok(reader) = FileReader::try_new(&mut file, None) {
        drop(reader);
        file.rewind()
            .map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
        let reader =
            FileReader::try_new(file, None).map_err(|error| not_that_format(path, "Arrow", &error))?;
        return Ok(Box::new(reader));
    }
    file.rewind().map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
    let reader = StreamReader::try_new(file, None).map_err(|error| not_that_format(path, "Arrow", &error))?;
    Ok(Box::new(reader))
}

/// Returns an error for a file that is not what its name or its reader says.
pub fn not_that_format(path: &Path, format: &str, error: &dyn std::fmt::Display) -> Error {
    Error::invalid_input(format!("\"{}\" is not a readable {format} file: {error}", path.display()))
}
