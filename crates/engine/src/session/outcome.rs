//! What a statement gives, and what is told of it before it runs.

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::execution::SendableRecordBatchStream;
use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_storage::{ColumnData, ColumnEntry, LivePiece, LivePlace, NodeFiles, Snapshot, TableData};
use hypostyle_types::{Error, LogicalType, Result};
use std::ops::Range;
use std::sync::Arc;

/// Stored columns as a result: nothing was computed, and next to nothing is copied.
#[derive(Debug)]
pub struct StoredResult {
    schema: SchemaRef,
    columns: Columns,
    /// The rows of the result among those of the table that are not deleted.
    rows: Range<u64>,
    /// Keeps the columns' files.
    snapshot: Arc<Snapshot>,
    threads: usize,
}

/// A stored result that is in files but for some rows.
#[derive(Clone, Debug)]
pub struct StoredPieces {
    /// The files of each column, in the preorder of its nodes.
    pub files: Vec<Vec<NodeFiles>>,
    pub pieces: Vec<LivePlace>,
    /// The rows that are not in the files, in order.
    pub others: Vec<RecordBatch>,
}

/// Where the columns of a stored result lie.
#[derive(Debug)]
enum Columns {
    /// They are in files that have the rows of the table and no others.
    Files(Vec<Arc<ColumnData>>),
    /// They are in files with deleted rows among them, and in the log. Columns are known by their places.
    Table(Arc<TableData>, Vec<usize>),
}

/// The outcome of a statement.
pub enum Outcome {
    Stored(StoredResult),
    Stream {
        schema: SchemaRef,
        stream: SendableRecordBatchStream,
    },
    /// Rows, and how many the statement has written, if it has: RETURNING.
    Batches {
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        rows_affected: Option<u64>,
    },
    Done {
        rows_affected: Option<u64>,
    },
}

/// The outcome of a statement that gives nothing, not even a number of rows.
pub(crate) const DONE: Outcome = Outcome::Done { rows_affected: None };

impl Outcome {
    /// Returns one batch as a whole result.
    pub(crate) fn batch(batch: RecordBatch) -> Self {
        Self::Batches { schema: batch.schema(), batches: vec![batch], rows_affected: None }
    }
}

impl StoredResult {
    /// Returns columns of a table, by their places, as they lie in its files and in the log. What
    /// cannot be handed out so is gathered in memory.
    pub(crate) fn open(
        table: &Arc<TableData>,
        snapshot: Arc<Snapshot>,
        columns: Vec<(String, usize)>,
        rows: Range<u64>,
        threads: usize,
    ) -> Result<Self> {
        let (names, places): (Vec<String>, Vec<usize>) = columns.into_iter().unzip();
        let (columns, rows) = if table.is_in_files() {
            (Columns::Files(places.iter().map(|place| table.columns()[*place].clone()).collect()), rows)
        } else if table.is_handed_out() {
            (Columns::Table(table.clone(), places), rows)
        } else {
            let gathered = table.gather(&places, rows.clone(), threads)?;
            (Columns::Files(gathered), 0..rows.end - rows.start)
        };
        let named = |(name, field): (&String, Result<Field>)| Ok(field?.with_name(name));
        let fields = (0..names.len()).map(|index| columns.field(index));
        let fields = names.iter().zip(fields).map(named).collect::<Result<Vec<_>>>()?;
        Ok(Self { schema: Arc::new(Schema::new(fields)), columns, rows, snapshot, threads })
    }

    /// Returns the Arrow schema of the columns at rest.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the result with other names of its columns.
    pub(crate) fn renamed(mut self, name: impl Fn(&str) -> &str) -> Self {
        let renamed = |field: &FieldRef| match name(field.name()) {
            same if same == field.name() => field.clone(),
            other => Arc::new(field.as_ref().clone().with_name(other)),
        };
        self.schema = Arc::new(Schema::new(self.schema.fields().iter().map(renamed).collect::<Vec<_>>()));
        self
    }

    pub fn rows(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// Returns the name of each column, with what it is in its table.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &ColumnEntry)> {
        let fields = self.schema.fields().iter().map(|field| field.name().as_str());
        fields.enumerate().map(|(index, name)| (name, self.columns.stored(index).entry()))
    }

    /// Returns the rows, over mappings that are shared by all who ask. There are several batches
    /// where deleted rows lie between them.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn batches(&self) -> Result<Vec<RecordBatch>> {
        let pieces = match &self.columns {
            Columns::Files(columns) => {
                let (offset, length) = (self.rows.start as usize, self.rows() as usize);
                let arrays = columns.iter().map(|column| Ok(column.array()?.slice(offset, length)));
                vec![(self.rows() as usize, arrays.collect::<Result<Vec<_>>>()?)]
            }
            Columns::Table(table, places) => table.live_pieces(places, &self.rows, self.threads)?,
        };
        self.batches_of(pieces)
    }

    fn batches_of(&self, pieces: Vec<LivePiece>) -> Result<Vec<RecordBatch>> {
        let batch = |(rows, arrays)| {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
                .map_err(|error| Error::internal(format!("stored columns do not fit their schema: {error}")))
        };
        pieces.into_iter().map(batch).collect()
    }

    /// Returns one column over memory or copy-on-write mappings that belong to the caller.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn private_column(&self, index: usize) -> Result<ArrayRef> {
        match &self.columns {
            Columns::Files(columns) => {
                let array = columns[index].private_array()?;
                Ok(array.slice(self.rows.start as usize, self.rows() as usize))
            }
            Columns::Table(table, places) => table.live_private(places[index], &self.rows),
        }
    }

    /// Returns a column whose files have the rows of the result, one behind the other, and which of its
    /// rows those are; `None` where other rows are among them or behind.
    pub fn in_files(&self, index: usize) -> Option<(&Arc<ColumnData>, Range<u64>)> {
        match &self.columns {
            Columns::Files(columns) => Some((columns.get(index)?, self.rows.clone())),
            Columns::Table(..) => None,
        }
    }

    /// Returns the files of each column and the first of their rows that is the result's; `None` where
    /// the rows are not all in files, one behind the other.
    pub fn files(&self) -> Option<Result<(u64, Vec<Vec<NodeFiles>>)>> {
        let Columns::Files(columns) = &self.columns else { return None };
        let files = columns.iter().map(|column| column.files()).collect::<Result<_>>();
        Some(files.map(|files| (self.rows.start, files)))
    }

    /// Returns where rows lie that are not all in files, one behind the other, and those that are in
    /// none; `None` where columns are in no files.
    ///
    /// # Errors
    /// `Corrupt` when what is read is damaged.
    pub fn pieces(&self) -> Result<Option<StoredPieces>> {
        let Columns::Table(table, places) = &self.columns else { return Ok(None) };
        let Some(others) = table.live_others(places, &self.rows, self.threads)? else { return Ok(None) };
        let files = places.iter().map(|place| table.columns()[*place].files()).collect::<Result<_>>()?;
        let others = self.batches_of(others)?;
        Ok(Some(StoredPieces { files, pieces: table.live_places(&self.rows), others }))
    }

    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> u64 {
        let bytes = |index| {
            let column = self.columns.stored(index);
            let share = if column.rows() == 0 { 0.0 } else { self.rows() as f64 / column.rows() as f64 };
            (column.bytes() as f64 * share) as u64
        };
        (0..self.columns.len()).map(bytes).sum()
    }

    /// Verifies columns before they are handed out unread: now, or soon, according to the
    /// database's options. `proceed` is called before each block that is verified.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block; the errors of `proceed`.
    pub fn hand_out(&self, columns: Range<usize>, mut proceed: impl FnMut() -> Result<()>) -> Result<()> {
        let positions = self.columns.positions(&self.rows);
        for index in columns {
            let column = self.columns.stored(index);
            let rows = positions.start.min(column.rows())..positions.end.min(column.rows());
            self.snapshot.hand_out(column, rows, &mut proceed)?;
        }
        Ok(())
    }

    /// Checks the checksums and the structure of rows of the result, for those who read them here:
    /// a mapping is handed over unread.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.verify_column(column, rows.clone()))
    }

    /// Verifies one column as [`Self::verify_rows`] does.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_column(&self, column: usize, rows: Range<u64>) -> Result<()> {
        let rows = self.rows.start + rows.start..self.rows.start + rows.end.min(self.rows());
        match &self.columns {
            Columns::Files(columns) => columns[column].verify_rows(rows),
            Columns::Table(table, places) => {
                table.verify_positions(places[column], &table.live_positions(&rows))
            }
        }
    }
}

impl Columns {
    fn len(&self) -> usize {
        match self {
            Self::Files(columns) => columns.len(),
            Self::Table(_, places) => places.len(),
        }
    }

    /// Returns the files of a column.
    fn stored(&self, index: usize) -> &Arc<ColumnData> {
        match self {
            Self::Files(columns) => &columns[index],
            Self::Table(table, places) => &table.columns()[places[index]],
        }
    }

    fn field(&self, index: usize) -> Result<Field> {
        match self {
            Self::Files(columns) => Ok(columns[index].field()),
            Self::Table(table, places) => table.live_field(places[index]),
        }
    }

    /// Returns the positions from the first to the last of some rows.
    fn positions(&self, rows: &Range<u64>) -> Range<u64> {
        match self {
            Self::Files(_) => rows.clone(),
            Self::Table(table, _) => table.live_positions(rows),
        }
    }
}

/// A column of a result: its name, its type, and whether NULL may be in it.
pub type DescribedColumn = (String, LogicalType, bool);

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Gives {
    Rows(Vec<DescribedColumn>),
    Nothing,
    /// Only running the statement tells.
    Unknown,
}

/// A statement that has not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// `None` where nothing in the statement tells the type.
    pub parameters: Vec<Option<LogicalType>>,
    pub gives: Gives,
    /// The origins of its columns, for a client of PostgreSQL's protocol.
    pub origins: Vec<Option<Origin>>,
    /// It is a query for tables alone: only definitions and settings change its description.
    pub follows_definitions: bool,
}
