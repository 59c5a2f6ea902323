//! Files as rows, one for each: `read_text(…)` and `read_blob(…)`.

use crate::ordered::Ordered;
use crate::path::open_plain;
use crate::room::Room;
use arrow::array::{
    ArrayRef, Int64Array, LargeBinaryArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use hypostyle_types::{Error, Result};
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The rows that wait for their reader: each has a whole file.
const WAITING_ROWS: usize = 1;

const FILENAME: &str = "filename";
const CONTENT: &str = "content";
const SIZE: &str = "size";
const LAST_MODIFIED: &str = "last_modified";

/// A table of whole files.
#[derive(Clone, Debug)]
pub struct WholeFiles {
    files: Vec<PathBuf>,
    schema: SchemaRef,
}

impl WholeFiles {
    /// Returns the table of files, whose contents are texts or bytes.
    ///
    /// # Errors
    /// `Unsupported` for what is no regular file: a pipe might have no end.
    pub fn of(files: Vec<PathBuf>, are_texts: bool) -> Result<Self> {
        let is_other = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|found| !found.is_file());
        if let Some(other) = files.iter().find(is_other) {
            return Err(Error::unsupported(format!("\"{}\" is no regular file", other.display())));
        }
        let content = if are_texts { DataType::Utf8View } else { DataType::LargeBinary };
        let modified = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = vec![
            Field::new(FILENAME, DataType::Utf8View, true),
            Field::new(CONTENT, content, true),
            Field::new(SIZE, DataType::Int64, true),
            Field::new(LAST_MODIFIED, modified, true),
        ];
        Ok(Self { files, schema: Arc::new(Schema::new(fields)) })
    }

    fn start(&self, room: Room) -> Result<Ordered> {
        let schema = Arc::clone(&self.schema);
        let jobs = self.files.clone().into_iter().map(Ok);
        Ordered::start(Arc::clone(&self.schema), 1, WAITING_ROWS, jobs, move |path: PathBuf, emit| {
            emit(row(&path, &schema, room)?);
            Ok(())
        })
    }
}

/// Returns the row of a file: the columns that are asked for.
fn row(path: &Path, schema: &SchemaRef, room: Room) -> Result<RecordBatch> {
    let cannot =
        |error: &std::io::Error| Error::from_io(error, format!("cannot read \"{}\"", path.display()));
    let file = open_plain(path)?;
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    let mut size = metadata.len();
    let mut bytes = Vec::new();
    if schema.column_with_name(CONTENT).is_some() {
        room.check(path, "content", size)?;
        let expected = usize::try_from(size).unwrap_or_default();
        bytes.try_reserve_exact(expected).map_err(|_| out_of_room(path, room))?;
        // It may have become longer.
        let read = file.take(room.0.saturating_add(1)).read_to_end(&mut bytes);
        size = read.map_err(|error| cannot(&error))? as u64;
        room.check(path, "content", size)?;
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        columns.push(match field.name().as_str() {
            CONTENT => content(path, std::mem::take(&mut bytes), field.data_type())?,
            SIZE => Arc::new(Int64Array::from(vec![i64::try_from(size).ok()])),
            LAST_MODIFIED => {
                let moments = TimestampMicrosecondArray::from(vec![modified(&metadata)]);
                Arc::new(moments.with_timezone("UTC"))
            }
            _ => Arc::new(StringViewArray::from_iter_values([path.to_string_lossy()])),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("a row of a file has other columns: {error}")))
}

fn out_of_room(path: &Path, room: Room) -> Error {
    room.check(path, "content", u64::MAX)
        .err()
        .unwrap_or_else(|| Error::internal("a file is larger than any room"))
}

fn content(path: &Path, bytes: Vec<u8>, of: &DataType) -> Result<ArrayRef> {
    if *of == DataType::LargeBinary {
        let offsets = OffsetBuffer::<i64>::from_lengths([bytes.len()]);
        let content = LargeBinaryArray::try_new(offsets, Buffer::from_vec(bytes), None);
        let content = content.map_err(|error| Error::internal(format!("a content of a file: {error}")))?;
        return Ok(Arc::new(content));
    }
    let offsets = OffsetBuffer::<i32>::from_lengths([bytes.len()]);
    let text = StringArray::try_new(offsets, Buffer::from_vec(bytes), None).map_err(|_| {
        let message = format!("\"{}\" is no text in UTF-8; read_blob reads it as it is", path.display());
        Error::invalid_input(message).with_sqlstate("22021")
    })?;
    Ok(Arc::new(StringViewArray::from(&text)))
}

/// Returns the microseconds since 1970 at which a file was changed.
fn modified(metadata: &Metadata) -> Option<i64> {
    let moment = metadata.modified().ok()?;
    match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok(),
        Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|before| -before),
    }
}

#[async_trait]
impl TableProvider for WholeFiles {
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
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let table = Self { files: self.files.clone(), schema: Arc::clone(&schema) };
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(table)], None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

impl PartitionStream for WholeFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        match self.start(Room::of(context.memory_pool())) {
            Ok(rows) => rows.into_stream(),
            Err(error) => {
                let error = futures::stream::iter([Err(DataFusionError::External(Box::new(error)))]);
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), error))
            }
        }
    }
}
