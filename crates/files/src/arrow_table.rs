//! Arrow IPC files as a table. Batches are decoded on several threads, and come in file order.

use crate::arrow_lengths::{self, Known};
use crate::damage::{not_that_format, unless_damaged};
use crate::file_column::{fields, merged};
use crate::ordered::{Emit, Ordered};
use crate::path::open_plain;
use crate::room::Room;
use crate::uuid_column::{as_text, is_of_text};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, new_null_array};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileDecoder, FileReader, StreamReader};
use arrow::ipc::{Block, root_as_footer};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use hypostyle_expr::nan::one;
use hypostyle_expr::said::in_plans;
use hypostyle_expr::typed::in_type;
use hypostyle_types::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a batch that goes on; files have batches of any length.
const BATCH_ROWS: usize = 8_192;

const BATCH: &str = "batch";

/// Batches that wait for the one before them.
const WAITING_BATCHES: usize = 8;

/// Returns the batches of an Arrow IPC file, of either kind.
///
/// # Errors
/// `NotFound`, `Io`; `InvalidInput` when the file is not Arrow IPC; `OutOfMemory` for
/// batches that there is no room for.
pub fn arrow_reader(path: &Path, room: Room) -> Result<Box<dyn RecordBatchReader + Send>> {
    reader_of(path, None, room)
}

/// Returns the batches of a file with some of its columns. A file is of the kind that its bytes
/// say, and never tried as the other one.
fn reader_of(
    path: &Path,
    projection: Option<Vec<usize>>,
    room: Room,
) -> Result<Box<dyn RecordBatchReader + Send>> {
    let file = open_plain(path)?;
    let Known { is_stream, batch_bytes } = arrow_lengths::check(&file, path)?;
    room.check(path, BATCH, batch_bytes)?;
    let damaged = |error: ArrowError| not_that_format(path, "Arrow", &error);
    unless_damaged(path, "Arrow", || {
        let mut file = BufReader::new(file);
        file.rewind()
            .map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
        Ok(match is_stream {
            true => Box::new(StreamReader::try_new(file, projection).map_err(damaged)?) as _,
            false => Box::new(FileReader::try_new(file, projection).map_err(damaged)?) as _,
        })
    })
}

/// Returns the columns of a file, of which nothing else is read.
fn schema_of(path: &Path) -> Result<SchemaRef> {
    let file = open_plain(path)?;
    if arrow_lengths::check(&file, path)?.is_stream {
        // It reads the schema only.
        return Ok(arrow_reader(path, Room(u64::MAX))?.schema());
    }
    let damaged = |error: &dyn std::fmt::Display| not_that_format(path, "Arrow", error);
    unless_damaged(path, "Arrow", || {
        let bytes = arrow_lengths::footer(&file).map_err(|why| damaged(&why))?;
        let footer = root_as_footer(&bytes).map_err(|error| damaged(&error))?;
        let schema = footer.schema().ok_or_else(|| damaged(&"its footer has no schema"))?;
        Ok(Arc::new(arrow::ipc::convert::fb_to_schema(schema)))
    })
}

/// A table over Arrow files, in the order in which they are named.
#[derive(Clone, Debug)]
pub struct ArrowTable {
    files: Vec<PathBuf>,
    schema: SchemaRef,
}

impl ArrowTable {
    /// Opens files, whose columns are brought together by their names.
    ///
    /// # Errors
    /// As [`arrow_reader`]; `InvalidInput` for files that do not fit each other.
    pub fn open(files: Vec<PathBuf>) -> Result<Self> {
        let columns = files.iter().map(|file| {
            let own = fields(schema_of(file)?.fields());
            Ok((file.as_path(), own.iter().map(in_plans).collect()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(merged(&columns)?);
        Ok(Self { files, schema })
    }

    fn start(&self, threads: usize, room: Room) -> Result<Ordered> {
        let jobs = Jobs {
            files: self.files.clone().into_iter(),
            opened: None,
            schema: Arc::clone(&self.schema),
            room,
        };
        Ordered::start(Arc::clone(&self.schema), threads, WAITING_BATCHES, jobs, decode)
    }
}

/// A file with a footer, and what is read of it.
struct Opened {
    path: PathBuf,
    file: File,
    decoder: FileDecoder,
    columns: Columns,
}

/// How a table's columns come from those of a file.
#[derive(Clone)]
struct Columns {
    schema: SchemaRef,
    /// The places of the columns that are read, in the file.
    read: Vec<usize>,
    /// The place of each column of the table among those that are read.
    places: Vec<Option<usize>>,
}

impl Columns {
    fn of(schema: &SchemaRef, own: &Schema) -> Self {
        let own = fields(own.fields());
        let own: HashMap<&str, usize> =
            own.iter().enumerate().map(|(place, of)| (of.name().as_str(), place)).collect();
        let found: Vec<Option<usize>> =
            schema.fields().iter().map(|field| own.get(field.name().as_str()).copied()).collect();
        let mut read: Vec<usize> = found.iter().flatten().copied().collect();
        read.sort_unstable();
        read.dedup();
        let places =
            found.iter().map(|place| place.and_then(|place| read.binary_search(&place).ok())).collect();
        Self { schema: Arc::clone(schema), read, places }
    }

    /// Returns the rows of a batch of the file with the columns of the table.
    fn fit(&self, path: &Path, batch: &RecordBatch) -> Result<RecordBatch> {
        let fields = self.schema.fields().iter().zip(&self.places);
        let columns = fields.map(|(field, place)| match place {
            Some(place) => fitting(path, batch.column(*place), field),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| not_that_format(path, "Arrow", &error))
    }
}

fn fitting(path: &Path, column: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    if column.data_type() == field.data_type() {
        return Ok(one(Arc::clone(column)));
    }
    let fitted = match column.data_type() {
        DataType::FixedSizeBinary(16) if is_of_text(field) => as_text(column, field),
        of if of.is_nested() => in_type(column, field.data_type()),
        _ => cast(column, field.data_type()),
    };
    fitted.map(one).map_err(|error| {
        let name = field.name();
        not_that_format(path, "Arrow", &format!("the column \"{name}\": {error}"))
    })
}

/// What a thread decodes at once.
enum Job {
    Batch(Arc<Opened>, Block),
    /// A stream, which can only be read from front to back.
    Stream(PathBuf, SchemaRef, Room),
}

/// The parts of files, which are opened when they come.
struct Jobs {
    files: std::vec::IntoIter<PathBuf>,
    opened: Option<(Arc<Opened>, std::vec::IntoIter<Block>)>,
    schema: SchemaRef,
    room: Room,
}

impl Iterator for Jobs {
    type Item = Result<Job>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((opened, blocks)) = &mut self.opened
                && let Some(block) = blocks.next()
            {
                return Some(Ok(Job::Batch(Arc::clone(opened), block)));
            }
            let path = self.files.next()?;
            match open(&path, &self.schema, self.room) {
                Ok(Some((opened, blocks))) => {
                    self.opened = Some((Arc::new(opened), blocks.into_iter()));
                }
                Ok(None) => return Some(Ok(Job::Stream(path, Arc::clone(&self.schema), self.room))),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Opens a file and reads its dictionaries; `None` for a stream.
fn open(path: &Path, schema: &SchemaRef, room: Room) -> Result<Option<(Opened, Vec<Block>)>> {
    let file = open_plain(path)?;
    let known = arrow_lengths::check(&file, path)?;
    room.check(path, BATCH, known.batch_bytes)?;
    if known.is_stream {
        return Ok(None);
    }
    let damaged = |error: &dyn std::fmt::Display| not_that_format(path, "Arrow", error);
    unless_damaged(path, "Arrow", || {
        let bytes = arrow_lengths::footer(&file).map_err(|why| damaged(&why))?;
        let footer = root_as_footer(&bytes).map_err(|error| damaged(&error))?;
        let own = footer.schema().ok_or_else(|| damaged(&"its footer has no schema"))?;
        let own = Arc::new(arrow::ipc::convert::fb_to_schema(own));
        let columns = Columns::of(schema, &own);
        let mut decoder =
            FileDecoder::new(Arc::clone(&own), footer.version()).with_projection(columns.read.clone());
        for block in footer.dictionaries().iter().flatten() {
            let bytes = read_block(&file, path, block)?;
            decoder.read_dictionary(block, &bytes).map_err(|error| damaged(&error))?;
        }
        let blocks = footer.recordBatches().iter().flatten().copied().collect();
        let path = path.to_path_buf();
        Ok(Some((Opened { path, file, decoder, columns }, blocks)))
    })
}

/// Reads a block, whose lengths have been checked.
fn read_block(file: &File, path: &Path, block: &Block) -> Result<Buffer> {
    let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength());
    let length = length.and_then(|length| usize::try_from(length).ok());
    let (Some(length), Ok(at)) = (length, u64::try_from(block.offset())) else {
        return Err(not_that_format(path, "Arrow", &"a block has a negative length"));
    };
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)
        .map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
    Ok(Buffer::from_vec(bytes))
}

fn decode(job: Job, emit: &mut Emit<'_>) -> Result<()> {
    match job {
        Job::Batch(of, block) => {
            let batch = unless_damaged(&of.path, "Arrow", || {
                let bytes = read_block(&of.file, &of.path, &block)?;
                let batch = of.decoder.read_record_batch(&block, &bytes);
                let batch = batch.map_err(|error| not_that_format(&of.path, "Arrow", &error))?;
                batch.map(|batch| of.columns.fit(&of.path, &batch)).transpose()
            })?;
            if let Some(batch) = batch {
                emit_in_pieces(&batch, emit);
            }
        }
        Job::Stream(path, schema, room) => {
            let own = schema_of(&path)?;
            let columns = Columns::of(&schema, &own);
            let mut reader = reader_of(&path, Some(columns.read.clone()), room)?;
            loop {
                let batch = unless_damaged(&path, "Arrow", || {
                    let batch = reader.next().transpose();
                    let batch = batch.map_err(|error| not_that_format(&path, "Arrow", &error))?;
                    batch.map(|batch| columns.fit(&path, &batch)).transpose()
                })?;
                if !batch.is_some_and(|batch| emit_in_pieces(&batch, emit)) {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Passes rows on; false when nobody wants more.
fn emit_in_pieces(batch: &RecordBatch, emit: &mut Emit<'_>) -> bool {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).all(|at| emit(batch.slice(at, BATCH_ROWS.min(rows - at))))
}

#[async_trait]
impl TableProvider for ArrowTable {
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
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let table = Self { files: self.files.clone(), schema: Arc::clone(&schema) };
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(table)], None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

impl PartitionStream for ArrowTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        match self.start(context.session_config().target_partitions(), Room::of(context.memory_pool())) {
            Ok(rows) => rows.into_stream(),
            Err(error) => {
                let error = futures::stream::iter([Err(DataFusionError::External(Box::new(error)))]);
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use arrow::datatypes::Field;

    #[test]
    fn columns_are_found_by_their_own_names() {
        let twice = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
            Field::new("a", DataType::Int64, true),
        ]);
        let table = Arc::new(Schema::new(vec![
            Field::new("a_1", DataType::Int64, true),
            Field::new("none", DataType::Utf8View, true),
            Field::new("f", DataType::Float64, true),
        ]));
        let columns = Columns::of(&table, &twice);
        assert_eq!(
            (columns.read.as_slice(), columns.places.as_slice()),
            (&[1, 2][..], &[Some(1), None, Some(0)][..])
        );
        let read = twice.project(&columns.read).unwrap();
        let given: [ArrayRef; 2] =
            [Arc::new(Float64Array::from(vec![-f64::NAN])), Arc::new(Int64Array::from(vec![7]))];
        let batch = RecordBatch::try_new(Arc::new(read), given.to_vec()).unwrap();
        let fitted = columns.fit(Path::new("x.arrow"), &batch).unwrap();
        assert_eq!(fitted.column(0).as_ref(), &Int64Array::from(vec![7]) as &dyn arrow::array::Array);
        assert_eq!(fitted.column(1).null_count(), 1);
        assert_eq!(
            fitted.column(2).as_ref(),
            &Float64Array::from(vec![f64::NAN]) as &dyn arrow::array::Array
        );
    }
}
