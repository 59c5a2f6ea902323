//! The writers of all columns of a table.

use super::files::GenerationFiles;
use super::writer::ColumnWriter;
use crate::names::table_directory;
use crate::parallel::in_parallel;
use hypostyle_format::{ColumnEntry, ColumnGeneration, TableEntry};
use hypostyle_io::Store;
use hypostyle_types::{Result, TableId};
use std::sync::Arc;

/// Files synced at a time.
const SYNCS_AT_ONCE: usize = 4;

/// Writers behind the rows of a table's column files.
pub(crate) fn open_columns(store: &Arc<Store>, table: &TableEntry) -> Result<Vec<ColumnWriter>> {
    let open = |column: &ColumnEntry| ColumnWriter::open(column, files_of(store, table.id, column));
    table.columns.iter().map(open).collect()
}

/// The files of a column's generation.
pub(crate) fn files_of(store: &Arc<Store>, table: TableId, column: &ColumnEntry) -> Arc<GenerationFiles> {
    GenerationFiles::new(store.clone(), table, column.id, column.generation.number)
}

/// Writes what is pending; not yet durable.
pub(crate) fn finish_columns(
    columns: &mut [ColumnWriter],
    table: &TableEntry,
) -> Result<Vec<ColumnGeneration>> {
    let finished = columns.iter_mut().zip(&table.columns);
    finished
        .map(|(writer, column)| Ok(ColumnGeneration { column: column.id, generation: writer.finish()? }))
        .collect()
}

/// Makes finished columns durable.
pub(crate) fn sync_columns(store: &Store, id: TableId, columns: &[ColumnWriter]) -> Result<()> {
    // A device takes several syncs at once better than one after the other.
    in_parallel(columns.iter().collect(), SYNCS_AT_ONCE, ColumnWriter::sync)?;
    store.sync_directory("columns")?;
    store.sync_directory(&table_directory(id))
}
