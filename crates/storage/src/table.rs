//! A table of a snapshot.

use crate::column::{ColumnData, GenerationFiles, convert};
use hypostyle_format::TableEntry;
use hypostyle_io::Store;
use hypostyle_types::{Error, ErrorKind, Result, TableId, did_you_mean};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory of a table's files; removed with the last snapshot that has the table.
#[derive(Debug)]
pub(crate) struct TableFiles {
    store: Arc<Store>,
    directory: String,
    dropped: AtomicBool,
}

impl TableFiles {
    pub fn new(store: Arc<Store>, table: TableId) -> Arc<Self> {
        let directory = format!("columns/{table}");
        Arc::new(Self { store, directory, dropped: AtomicBool::new(false) })
    }

    pub fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

impl Drop for TableFiles {
    fn drop(&mut self) {
        if self.dropped.load(Ordering::Acquire)
            && let Err(error) = self.store.remove_directory(&self.directory)
        {
            tracing::warn!(%error, "the files of a dropped table stay behind");
        }
    }
}

/// A table as one snapshot sees it.
#[derive(Debug)]
pub struct TableData {
    entry: TableEntry,
    columns: Vec<Arc<ColumnData>>,
    pub(crate) files: Arc<TableFiles>,
}

impl TableData {
    /// `previous` is the same table in the snapshot before: what has not changed is shared with it.
    pub(crate) fn new(store: &Arc<Store>, entry: &TableEntry, previous: Option<&Self>) -> Self {
        let files = match previous {
            Some(previous) => previous.files.clone(),
            None => TableFiles::new(store.clone(), entry.id),
        };
        let columns = entry
            .columns
            .iter()
            .map(|column| {
                let before = previous
                    .and_then(|table| table.columns.iter().find(|before| before.entry().id == column.id));
                let same_generation =
                    before.filter(|before| before.entry().generation.number == column.generation.number);
                match (before, same_generation) {
                    (Some(before), _) if before.entry() == column => before.clone(),
                    (_, Some(before)) => Arc::new(ColumnData::new(column.clone(), before.files.clone())),
                    (old, None) => {
                        if let Some(old) = old {
                            old.files.mark_obsolete();
                        }
                        let number = column.generation.number;
                        let files = GenerationFiles::new(store.clone(), entry.id, column.id, number);
                        Arc::new(ColumnData::new(column.clone(), files))
                    }
                }
            })
            .collect();
        Self { entry: entry.clone(), columns, files }
    }

    pub fn entry(&self) -> &TableEntry {
        &self.entry
    }

    pub fn rows(&self) -> u64 {
        self.entry.rows
    }

    pub fn columns(&self) -> &[Arc<ColumnData>] {
        &self.columns
    }

    /// The column of a name, with a suggestion in the error when there is none.
    pub fn column(&self, name: &str) -> Result<&Arc<ColumnData>> {
        self.columns.iter().find(|column| column.entry().name == name).ok_or_else(|| {
            let names = self.columns.iter().map(|column| column.entry().name.as_str());
            Error::new(
                ErrorKind::UnknownName,
                format!(
                    "table \"{}\" has no column \"{name}\"{}",
                    self.entry.name,
                    did_you_mean(name, names)
                ),
            )
            .with_sqlstate("42703")
        })
    }
}

/// Converts one column's array and checks NOT NULL.
pub(crate) fn accept(
    array: &arrow_array::ArrayRef,
    column: &hypostyle_format::ColumnEntry,
    table: &str,
    first_row: u64,
) -> Result<arrow_array::ArrayRef> {
    let converted = convert(array, &column.name, &column.logical_type, first_row)?;
    if !column.nullable
        && let Some(nulls) = converted.logical_nulls()
        && let Some(row) = nulls.iter().position(|valid| !valid)
    {
        return Err(Error::new(
            ErrorKind::Constraint,
            format!(
                "column \"{}\" of table \"{table}\" is NOT NULL, but row {} is NULL",
                column.name,
                first_row + row as u64
            ),
        )
        .with_sqlstate("23502"));
    }
    Ok(converted)
}
