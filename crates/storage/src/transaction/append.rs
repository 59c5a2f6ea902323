//! Rows that are appended: few wait in memory for the log, many go to the column files.

use super::Transaction;
use super::staged::StagedTable;
use crate::column::ColumnWriter;
use crate::parallel::{PARALLEL_CELLS_MIN, in_parallel};
use crate::rows::row_schema;
use crate::table::accept;
use crate::text::check_text;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use hypostyle_format::{ColumnEntry, TableEntry};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// Rows converted and encoded at a time: bounds the memory of an append.
pub(super) const APPEND_ROWS: usize = 256 * 1024;

/// More bytes of rows than this go to the column files instead of the log.
pub(super) const LOG_ROWS_BYTES_MAX: usize = 256 << 10;

/// More rows than this do not wait in memory for column files that another transaction is writing.
const WAITING_ROWS_BYTES_MAX: usize = 256 << 20;

impl Transaction {
    /// Appends rows; the batch's columns are the table's, in order.
    ///
    /// # Errors
    /// `InvalidInput` or `Constraint` naming column, row and value; `DiskFull`, `Io`. The statement
    /// must then be undone, by [`Self::roll_back_to`] or by dropping the transaction.
    pub fn append(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.changed.entry(table).or_default().inserted = true;
        self.append_updated(table, batch)
    }

    /// [`Self::append`] of rows that [`Self::delete_updated`] has deleted, with other values.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub fn append_updated(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        self.database.check_writable()?;
        let entry = self.entry(table)?;
        if batch.num_columns() != entry.columns.len() {
            return Err(Error::invalid_input(format!(
                "table \"{}\" has {} columns, but the data has {}",
                entry.name,
                entry.columns.len(),
                batch.num_columns()
            )));
        }
        for (column, array) in entry.columns.iter().zip(batch.columns()) {
            check_text(array).map_err(|error| error.context(format!("column \"{}\"", column.name)))?;
        }
        let first = self.base.table_by_id(table).map_or(0, |base| base.positions()) + self.own_rows(table);
        self.changed.entry(table).or_default().first_new.get_or_insert(first);
        for start in (0..batch.num_rows()).step_by(APPEND_ROWS) {
            self.append_piece(&entry, &batch.slice(start, APPEND_ROWS.min(batch.num_rows() - start)))?;
        }
        Ok(())
    }

    pub(super) fn entry(&self, id: TableId) -> Result<Arc<TableEntry>> {
        let entry = self.staged.catalog.table_by_id(id).cloned();
        entry.ok_or_else(|| {
            Error::new(
                ErrorKind::Conflict,
                "a table was dropped by another transaction meanwhile; run it again",
            )
        })
    }

    fn append_piece(&mut self, entry: &Arc<TableEntry>, batch: &RecordBatch) -> Result<()> {
        self.database.take_memory(|| slice_bytes(batch.columns()) as u64)?;
        let first_row = self.own_rows(entry.id);
        let work: Vec<(&ColumnEntry, &ArrayRef)> = entry.columns.iter().zip(batch.columns()).collect();
        let threads = if batch.num_rows() * work.len() < PARALLEL_CELLS_MIN { 1 } else { self.threads };
        if let Some(writers) = self.writers.get_mut(&entry.id) {
            let work = writers.iter_mut().zip(work).collect();
            in_parallel(work, threads, |(writer, (column, array)): (&mut ColumnWriter, (_, _))| {
                writer.append(&accept(array, column, &entry.name, first_row)?)
            })?;
            let staged = self.staged.tables.get_mut(&entry.id);
            if let Some(in_files) = staged.and_then(|staged| staged.in_files.as_mut()) {
                in_files.rows += batch.num_rows() as u64;
            }
            return Ok(());
        }
        let accepted = Mutex::new(vec![None; work.len()]);
        in_parallel(work.into_iter().enumerate().collect(), threads, |(index, (column, array))| {
            let array = accept(array, column, &entry.name, first_row)?;
            let plain = cast(&array, &column.logical_type.arrow_type())
                .map_err(|error| Error::internal(format!("cannot stage rows: {error}")))?;
            accepted.lock()[index] = Some(plain);
            Ok(())
        })?;
        let arrays: Vec<ArrayRef> = accepted.into_inner().into_iter().flatten().collect();
        let bytes = slice_bytes(&arrays);
        // A definition that has changed in this transaction has its own rows in the files.
        let base = self.base.table_by_id(entry.id).filter(|base| Arc::ptr_eq(base.shared_entry(), entry));
        let schema = row_schema(entry, base.map(|base| &base.beyond_files().tail));
        let rows = RecordBatch::try_new(schema, arrays)
            .map_err(|error| Error::internal(format!("cannot stage rows: {error}")))?;
        let staged = self.staged.tables.entry(entry.id).or_default();
        staged.rows.push(rows)?;
        staged.bytes += bytes;
        if staged.bytes <= LOG_ROWS_BYTES_MAX {
            return Ok(());
        }
        self.open_files(entry.id)?;
        let waiting = self.staged.tables.get(&entry.id).map_or(0, |staged| staged.bytes);
        if waiting > WAITING_ROWS_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "table \"{}\" is being loaded by another transaction, and {} MiB of rows wait for its end; \
                     roll back and try again",
                    entry.name,
                    waiting >> 20
                ),
            ));
        }
        Ok(())
    }

    /// Own rows of a table, the deleted ones included.
    pub(super) fn own_rows(&self, id: TableId) -> u64 {
        self.staged.tables.get(&id).map_or(0, StagedTable::own_rows)
    }
}

/// Bytes of some arrays' rows.
fn slice_bytes(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
