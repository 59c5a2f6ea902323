//! Own rows in the column files, behind the committed ones.

use super::Transaction;
use super::staged::InFiles;
use crate::column::{ColumnWriter, committed_files, finish_columns, open_columns, sync_columns};
use crate::database::Synchronous;
use crate::names::table_directory;
use crate::parallel::in_parallel;
use arrow_array::{ArrayRef, RecordBatch};
use hypostyle_format::{ColumnEntry, TableEntry};
use hypostyle_types::{Result, TableId};
use std::sync::Arc;

impl Transaction {
    /// Moves staged rows to the column files, if nobody else is writing them and their rows are
    /// those that the transaction sees.
    pub(super) fn open_files(&mut self, id: TableId) -> Result<()> {
        if !self.locks.contains_key(&id) {
            match self.database.try_append_lock(id)? {
                Some(lock) => drop(self.locks.insert(id, lock)),
                None => return Ok(()),
            }
        }
        let (entry, absorbed) = match self.files_to_append_to(id)? {
            Some(found) => found,
            None => return Ok(()),
        };
        let threads = self.threads;
        let Some(staged) = self.staged.tables.get_mut(&id) else { return Ok(()) };
        let absorbed_rows = absorbed.iter().map(|batch| batch.num_rows() as u64).sum();
        let mut columns = open_columns(self.database.store(), &entry)?;
        for batch in absorbed.iter().chain(staged.rows.batches()) {
            let work = columns.iter_mut().zip(batch.columns()).collect();
            in_parallel(work, threads, |(writer, array): (&mut ColumnWriter, &ArrayRef)| {
                writer.append(array)
            })?;
        }
        let rows = std::mem::take(&mut staged.rows).rows();
        staged.bytes = 0;
        match &mut staged.in_files {
            Some(in_files) => in_files.rows += rows,
            none => {
                let (before, absorbed) = (entry.rows, absorbed_rows);
                *none = Some(InFiles { before, absorbed, rows, replaced: None, renamed: false, entry });
            }
        }
        self.writers.insert(id, columns);
        Ok(())
    }

    /// The table as its files are now, and the rows of the log that come first in them.
    fn files_to_append_to(&self, id: TableId) -> Result<Option<(Arc<TableEntry>, Vec<RecordBatch>)>> {
        let staged = self.staged.tables.get(&id);
        if let Some(in_files) = staged.and_then(|staged| staged.in_files.as_ref()) {
            return Ok(Some((in_files.entry.clone(), Vec::new())));
        }
        let Some(base) = self.base.table_by_id(id) else {
            return Ok(self.staged.catalog.table_by_id(id).map(|new| (new.clone(), Vec::new())));
        };
        let latest = self.database.latest()?;
        let Some(now) = latest.table_by_id(id) else { return Ok(None) };
        if now.beyond_files().moved > self.base.version() {
            return Ok(None);
        }
        // What others have committed since the base must not come between what this transaction
        // sees.
        let own = self.reads_own || !base.entry().constraints.is_empty();
        let changed = !now.is_unchanged_since(base, self.base.version());
        let seen = if own && changed { base } else { now };
        let same = seen.rows_in_files() == now.rows_in_files();
        let batches = seen.beyond_files().tail.batches().to_vec();
        Ok(same.then(|| (now.shared_entry().clone(), batches)))
    }

    /// Closes the column files that rows were written to, as at the end of a statement: who writes to many
    /// tables has not all of them open.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn close_files(&mut self) -> Result<()> {
        self.end_statement()
    }

    /// Ends writing to column files, so that what was written can be read.
    pub(super) fn end_statement(&mut self) -> Result<()> {
        for (id, mut columns) in std::mem::take(&mut self.writers) {
            let Some(in_files) = self.staged.tables.get_mut(&id).and_then(|staged| staged.in_files.as_mut())
            else {
                continue;
            };
            let generations = finish_columns(&mut columns, &in_files.entry)?;
            let entry = Arc::make_mut(&mut in_files.entry);
            for (column, generation) in entry.columns.iter_mut().zip(generations) {
                column.generation = generation.generation;
            }
            entry.rows = entry.columns[0].generation.nodes[0].length;
            self.sync(id, &columns)?;
        }
        Ok(())
    }

    /// Makes finished columns durable, unless nothing is to be.
    pub(super) fn sync(&mut self, id: TableId, columns: &[ColumnWriter]) -> Result<()> {
        match self.database.synchronous() {
            Synchronous::Off => {
                self.unsynced = true;
                Ok(())
            }
            Synchronous::Full | Synchronous::Normal => sync_columns(self.database.store(), id, columns),
        }
    }

    /// Whether more than rows loaded in bulk would be lost with what was written to column files: a
    /// table that was there is altered or compacted, its columns have got files of another
    /// generation, or rows have moved there that only the log had.
    pub(super) fn stands_in_for_others(&self) -> bool {
        self.staged.tables.iter().any(|(id, staged)| {
            let (Some(before), Some(now)) = (self.base.table_by_id(*id), &staged.in_files) else {
                return false;
            };
            let generation = |column: &ColumnEntry| column.generation.number;
            now.replaced.is_some()
                || now.rows == 0
                || before.entry().columns.iter().any(|column| {
                    let now = now.entry.column_by_id(column.id);
                    now.is_none_or(|now| generation(now) != generation(column))
                })
        })
    }

    /// Makes durable what was written while nothing was to be.
    pub(super) fn sync_late(&self) -> Result<()> {
        let store = self.database.store();
        for (id, staged) in &self.staged.tables {
            let Some(in_files) = &staged.in_files else { continue };
            for (name, bytes) in committed_files(&in_files.entry) {
                if bytes == 0 {
                    continue;
                }
                store.open(&format!("{}/{name}", table_directory(*id)))?.sync()?;
            }
            sync_columns(store, *id, &[])?;
        }
        Ok(())
    }
}
