//! Files as tables.

use crate::arrow_table::ArrowTable;
use crate::chunk::{TextFormat, read};
use crate::csv::{CsvFormat, detect};
use crate::input::{Input, check_regular};
use crate::json::{Detected, JsonFormat, detect_layout, detect_schema};
use crate::known_files::State;
use crate::option::{JsonLayout, ReadOptions};
use crate::ordered::Ordered;
use crate::parquet_table::{ParquetTable, Partitions};
use crate::path::FileFormat;
use crate::reject::{Advice, Rejects};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use hypostyle_types::{Error, Result, did_you_mean};
use std::path::PathBuf;
use std::sync::Arc;

/// Gives a field of the Arrow type of a SQL type's name.
pub type ResolveType<'a> = &'a dyn Fn(&str) -> Result<Field>;

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
    if let FileFormat::Parquet | FileFormat::Arrow = format {
        check_regular(&files, format.name())?;
    }
    match format {
        FileFormat::Csv => {
            let files = Input::of(files, options)?;
            let format = csv_format(&files[0], options, resolve)?;
            Ok(Arc::new(TextTable::new(CsvOrJson::Csv(format), files, options)))
        }
        FileFormat::Json => {
            let files = Input::of(files, options)?;
            let format = json_format(&files[0], options, resolve)?;
            Ok(Arc::new(TextTable::new(CsvOrJson::Json(format), files, options)))
        }
        FileFormat::Parquet => Ok(Arc::new(ParquetTable::open(&files, Partitions::default())?)),
        FileFormat::Arrow => Ok(Arc::new(ArrowTable::open(files)?)),
    }
}

fn csv_format(first: &Input, options: &ReadOptions, resolve: ResolveType<'_>) -> Result<CsvFormat> {
    let detected = detect(first, options, &[])?;
    let columns = retype(detected.columns, options, resolve)?;
    let forms = columns.iter().zip(detected.forms).enumerate();
    let forms = forms.map(|(place, (column, form))| match is_given(place, column.name(), options) {
        true => form.of_given_type(),
        false => form,
    });
    Ok(CsvFormat {
        dialect: detected.dialect,
        header: detected.header,
        skip: options.skip,
        has_notes: detected.has_notes,
        header_names: detected.header_names,
        null_texts: options.null_texts.clone(),
        allow_quoted_nulls: options.allow_quoted_nulls,
        forms: forms.collect(),
        projection: (0..columns.len()).collect(),
        columns: Arc::new(Schema::new(columns)),
    })
}

fn json_format(first: &Input, options: &ReadOptions, resolve: ResolveType<'_>) -> Result<JsonFormat> {
    if options.names.is_empty() {
        let (layout, fields) = detected(first, options)?;
        let schema = Arc::new(Schema::new(retype(fields, options, resolve)?));
        let detected = Some(Arc::new(Detected::of(&schema, options)));
        let columns = schema.fields().iter().enumerate();
        let columns = columns.filter(|(place, column)| !is_given(*place, column.name(), options));
        let of_detected_type = Arc::new(columns.map(|(_, column)| column.name().clone()).collect());
        return Ok(JsonFormat { layout, schema, detected, of_detected_type, is_fitted: false });
    }
    let layout = detect_layout(first, options)?;
    let fields = options.names.iter().map(|name| Field::new(name, DataType::Utf8View, true)).collect();
    let schema = Arc::new(Schema::new(retype(fields, options, resolve)?));
    Ok(JsonFormat::of(layout, schema, true))
}

/// Returns the layout and the members of a JSON file, which the session may know.
fn detected(file: &Input, options: &ReadOptions) -> Result<(JsonLayout, Vec<Field>)> {
    let (state, known) = (State::of(file, options), options.reading.known());
    if let Some(found) = state.as_ref().and_then(|state| known.get(state)) {
        return Ok(found);
    }
    let layout = detect_layout(file, options)?;
    let fields = detect_schema(file, layout, options)?;
    if let Some(state) = state.filter(|before| State::of(file, options).as_ref() == Some(before)) {
        known.keep(state, layout, &fields);
    }
    Ok((layout, fields))
}

/// Says whether the options give a column its type.
fn is_given(place: usize, name: &str, options: &ReadOptions) -> bool {
    place < options.types_by_position.len() || options.types_by_name.iter().any(|(column, _)| column == name)
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
        give_type(column, &resolve(name)?);
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
        give_type(field, &resolve(type_name)?);
    }
    Ok(columns)
}

fn give_type(column: &mut Field, of: &Field) {
    column.set_data_type(of.data_type().clone());
    if !of.metadata().is_empty() {
        column.set_metadata(of.metadata().clone());
    }
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
    files: Vec<Input>,
    options: ReadOptions,
}

impl TextTable {
    fn new(format: CsvOrJson, files: Vec<Input>, options: &ReadOptions) -> Self {
        Self { schema: format.schema(), format, files, options: options.clone() }
    }

    fn start(&self, threads: usize) -> Result<Ordered> {
        let rejects = Arc::new(Rejects::new(&self.options, Advice::Function));
        match &self.format {
            CsvOrJson::Csv(format) => self.start_with(format.clone(), rejects, threads),
            CsvOrJson::Json(format) => self.start_with(format.clone(), rejects, threads),
        }
    }

    fn start_with<F: TextFormat>(&self, format: F, rejects: Arc<Rejects>, threads: usize) -> Result<Ordered> {
        let (schema, files) = (Arc::clone(&self.schema), self.files.clone());
        read(Arc::new(format), schema, files, &self.options, rejects, threads)
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
