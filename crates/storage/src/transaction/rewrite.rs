//! Tables whose files are written anew: altered, converted and compacted ones.

use super::Transaction;
use super::append::APPEND_ROWS;
use super::conflict::conflict;
use super::definition::{NewColumn, empty_generation, new_column_entry};
use super::staged::Replaced;
use crate::column::{ColumnData, ColumnWriter, files_of, finish_columns, open_columns};
use crate::parallel::in_parallel;
use crate::rows::Rows;
use crate::table::{TableData, accept};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{ArrowError, Field, Schema};
use arrow_select::filter::{filter, filter_record_batch};
use arrow_select::take::take;
use hypostyle_format::{Change, ColumnEntry, TableEntry};
use hypostyle_types::{Error, LogicalType, Result, TableId};
use roaring::RoaringTreemap;
use std::ops::Range;
use std::sync::Arc;

impl Transaction {
    /// All that this transaction sees of a table, in its column files.
    ///
    /// # Errors
    /// `Conflict` when another transaction is writing them, or has done so since the base.
    fn move_to_files(&mut self, id: TableId) -> Result<Arc<TableEntry>> {
        self.database.check_writable()?;
        let name = self.entry(id)?.name.clone();
        self.end_statement()?;
        self.staged.tables.entry(id).or_default();
        let reads_own = std::mem::replace(&mut self.reads_own, true);
        let opened = self.open_files(id).and_then(|()| self.end_statement());
        self.reads_own = reads_own;
        opened?;
        let in_files = self.staged.tables.get(&id).and_then(|staged| staged.in_files.as_ref());
        let in_files = in_files.ok_or_else(|| conflict(&name, "is being changed by another transaction"))?;
        Ok(in_files.entry.clone())
    }

    fn replace(&mut self, id: TableId, entry: TableEntry, how: Replaced) -> Result<()> {
        let old = self.entry(id)?;
        let renamed = (&old.schema, &old.name) != (&entry.schema, &entry.name);
        let change = Change::ReplaceTable { table: entry.clone(), absorbed: 0, compacted: false };
        // Not all of these are among the changes of definitions, but all of them change some.
        self.staged.define(&change)?;
        if let Some(in_files) = self.staged.tables.get_mut(&id).and_then(|staged| staged.in_files.as_mut()) {
            if renamed {
                // In its turn: what is created later may have the old name, and what was dropped
                // earlier had the new.
                let (table, absorbed) = (entry.clone(), in_files.untold());
                self.staged.changes.push(Change::ReplaceTable { table, absorbed, compacted: false });
                in_files.renamed = true;
            }
            in_files.entry = Arc::new(entry);
            in_files.replaced = Some(how);
        }
        Ok(())
    }

    /// Changes the definition of a table, but not the values of its columns.
    ///
    /// # Errors
    /// Those of `change`; `AlreadyExists`; `Conflict` when another transaction is writing the
    /// table.
    pub fn alter_table(
        &mut self,
        id: TableId,
        change: impl FnOnce(&mut TableEntry) -> Result<()>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        change(&mut entry)?;
        self.replace(id, entry, Replaced::Altered)
    }

    /// Adds a column with the values that `compute` makes of pieces of the rows, which have their
    /// columns at rest if `reads_rows`. Deleted rows get no value.
    pub fn add_column(
        &mut self,
        id: TableId,
        column: NewColumn,
        reads_rows: bool,
        mut compute: impl FnMut(&RecordBatch) -> Result<ArrayRef>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        let new = new_column_entry(column, entry.next_column_id);
        entry.next_column_id = entry.next_column_id.next();
        let data = TableData::new(self.database.store(), &Arc::new(entry.clone()), &Rows::default(), None);
        let deleted = self.deleted(id);
        let pieces = pieces(entry.rows).map(|rows| {
            let columns = if reads_rows { data.columns() } else { &[] };
            let arrays =
                columns.iter().map(|column| column_piece(column, &rows)).collect::<Result<Vec<_>>>()?;
            let count = (rows.end - rows.start) as usize;
            let live = live(&rows, &deleted);
            let failed = |error| Error::internal(format!("cannot compute a column: {error}"));
            let fields: Vec<Field> =
                columns.iter().map(|column| column.field().with_nullable(true)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let mut piece =
                RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
                    .map_err(failed)?;
            let all = live.false_count() == 0;
            if !all {
                piece = filter_record_batch(&piece, &live).map_err(failed)?;
            }
            let values = accept(&compute(&piece)?, &new, &entry.name, rows.start)?;
            if all { Ok(values) } else { at_places(&values, &live).map_err(failed) }
        });
        let written = self.write_column(id, new.clone(), pieces)?;
        entry.columns.push(written);
        self.replace(id, entry, Replaced::Altered)
    }

    /// Gives a column another type, and the values that `convert` makes of pieces of its array at
    /// rest.
    pub fn convert_column(
        &mut self,
        id: TableId,
        column: &str,
        logical_type: LogicalType,
        mut convert: impl FnMut(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let mut entry = self.move_to_files(id)?.as_ref().clone();
        let data = TableData::new(self.database.store(), &Arc::new(entry.clone()), &Rows::default(), None);
        let old = data.column(column)?;
        let generation = empty_generation(old.entry().generation.number.next(), &logical_type);
        let new = ColumnEntry { logical_type, generation, ..old.entry().clone() };
        let deleted = self.deleted(id);
        let pieces = pieces(entry.rows).map(|rows| {
            let piece = column_piece(old, &rows)?;
            let live = live(&rows, &deleted);
            if live.false_count() == 0 {
                return accept(&convert(&piece)?, &new, &entry.name, rows.start);
            }
            // What a deleted row had need not be a value of the type.
            let failed = |error| Error::internal(format!("cannot convert a column: {error}"));
            let values = convert(&filter(&piece, &live).map_err(failed)?)?;
            at_places(&accept(&values, &new, &entry.name, rows.start)?, &live).map_err(failed)
        });
        let written = self.write_column(id, new.clone(), pieces)?;
        for column in entry.columns.iter_mut().filter(|column| column.id == written.id) {
            *column = written.clone();
        }
        self.replace(id, entry, Replaced::Altered)
    }

    /// Writes the files of a new generation of a column.
    fn write_column(
        &mut self,
        id: TableId,
        mut column: ColumnEntry,
        pieces: impl Iterator<Item = Result<ArrayRef>>,
    ) -> Result<ColumnEntry> {
        let files = files_of(self.database.store(), id, &column);
        self.made.push(files.clone());
        let mut writer = ColumnWriter::open(&column, files)?;
        for piece in pieces {
            writer.append(&piece?)?;
        }
        column.generation = writer.finish()?;
        self.sync(id, &[writer])?;
        Ok(column)
    }

    /// Writes the files of a table anew without its deleted rows. Returns how many those were.
    /// `proceed` is told now and then how many rows of how many are done, and may end the work with
    /// its error.
    ///
    /// # Errors
    /// `Conflict` when another transaction is writing the table; `DiskFull`, `Io`; those of
    /// `proceed`.
    pub fn compact(&mut self, id: TableId, mut proceed: impl FnMut(u64, u64) -> Result<()>) -> Result<u64> {
        let before = self.base.table_by_id(id).cloned();
        let Some(before) = before.filter(|before| !before.is_in_files()) else { return Ok(0) };
        let entry = self.move_to_files(id)?;
        if before.deleted().is_empty() {
            return Ok(0);
        }
        let data = TableData::new(self.database.store(), &entry, &Rows::default(), Some(&before));
        let mut compacted = entry.as_ref().clone();
        for column in &mut compacted.columns {
            column.generation = empty_generation(column.generation.number.next(), &column.logical_type);
        }
        let files = compacted.columns.iter().map(|column| files_of(self.database.store(), id, column));
        self.made.extend(files);
        let mut writers = open_columns(self.database.store(), &compacted)?;
        for rows in pieces(entry.rows) {
            proceed(rows.start, entry.rows)?;
            let kept: BooleanArray = rows.clone().map(|row| Some(!before.deleted().contains(row))).collect();
            let work = writers.iter_mut().zip(data.columns()).collect();
            in_parallel(work, self.threads, |(writer, column): (&mut ColumnWriter, &Arc<ColumnData>)| {
                let piece = filter(&column_piece(column, &rows)?, &kept)
                    .map_err(|error| Error::internal(format!("cannot compact rows: {error}")))?;
                writer.append(&piece)
            })?;
        }
        let generations = finish_columns(&mut writers, &compacted)?;
        for (column, generation) in compacted.columns.iter_mut().zip(generations) {
            column.generation = generation.generation;
        }
        compacted.rows = before.rows();
        self.sync(id, &writers)?;
        self.replace(id, compacted, Replaced::Compacted)?;
        Ok(before.deleted().len())
    }
}

/// Ranges of at most [`APPEND_ROWS`] rows.
fn pieces(rows: u64) -> impl Iterator<Item = Range<u64>> {
    (0..rows).step_by(APPEND_ROWS).map(move |start| start..rows.min(start + APPEND_ROWS as u64))
}

/// Some rows of a column at rest.
fn column_piece(column: &ColumnData, rows: &Range<u64>) -> Result<ArrayRef> {
    column.verify_rows(rows.clone())?;
    Ok(column.array()?.slice(rows.start as usize, (rows.end - rows.start) as usize))
}

/// Which of the rows are not deleted.
fn live(rows: &Range<u64>, deleted: &RoaringTreemap) -> BooleanArray {
    rows.clone().map(|row| Some(!deleted.contains(row))).collect()
}

/// The values of the live rows at their places among all; NULL at the others'.
fn at_places(values: &ArrayRef, live: &BooleanArray) -> std::result::Result<ArrayRef, ArrowError> {
    let mut next = 0;
    let place = |live: bool| {
        next += u32::from(live);
        live.then(|| next - 1)
    };
    let places: UInt32Array = live.values().iter().map(place).collect();
    take(values, &places, None)
}
