//! Names and descriptors of a column generation's files (format.md §1, §3).

use hypostyle_io::{File, Store};
use hypostyle_types::{ColumnId, Generation, Result, TableId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory of a table's columns.
pub(crate) fn table_directory(table: TableId) -> String {
    format!("columns/{table}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Validity,
    Values,
    Offsets,
    Heap,
    DictionaryOffsets,
    DictionaryHeap,
    Blocks,
}

impl Role {
    fn suffix(self) -> &'static str {
        match self {
            Self::Validity => "validity",
            Self::Values => "values",
            Self::Offsets => "offsets",
            Self::Heap => "heap",
            Self::DictionaryOffsets => "dictionary_offsets",
            Self::DictionaryHeap => "dictionary_heap",
            Self::Blocks => "blocks",
        }
    }
}

/// The name of a file within the table's directory.
pub(crate) fn file_name(column: ColumnId, generation: Generation, node: usize, role: Role) -> String {
    format!("{column}-{generation}-{node}.{}", role.suffix())
}

/// The files of one generation of a column. When it is obsolete, dropping the last handle, and so
/// the last snapshot that could open them, unlinks them.
#[derive(Debug)]
pub(crate) struct GenerationFiles {
    pub store: Arc<Store>,
    pub table: TableId,
    pub column: ColumnId,
    pub generation: Generation,
    obsolete: AtomicBool,
}

impl GenerationFiles {
    pub fn new(store: Arc<Store>, table: TableId, column: ColumnId, generation: Generation) -> Arc<Self> {
        Arc::new(Self { store, table, column, generation, obsolete: AtomicBool::new(false) })
    }

    fn prefix(&self) -> String {
        format!("{}-{}-", self.column, self.generation)
    }

    fn name(&self, node: usize, role: Role) -> String {
        let file = file_name(self.column, self.generation, node, role);
        format!("{}/{file}", table_directory(self.table))
    }

    pub fn open(&self, node: usize, role: Role) -> Result<File> {
        self.store.open(&self.name(node, role))
    }

    pub fn create(&self, node: usize, role: Role) -> Result<File> {
        self.store.create(&self.name(node, role))
    }

    /// The files go when the last handle does.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether a file name of the table's directory is one of this generation's.
    pub fn owns(&self, file_name: &str) -> bool {
        file_name.starts_with(&self.prefix())
    }
}

impl Drop for GenerationFiles {
    fn drop(&mut self) {
        if !self.obsolete.load(Ordering::Acquire) {
            return;
        }
        // What cannot be removed now is a leftover that the next writer removes (format.md §7 rule 4).
        let directory = table_directory(self.table);
        for name in self.store.list(&directory).unwrap_or_default() {
            if self.owns(&name)
                && let Err(error) = self.store.remove(&format!("{directory}/{name}"))
            {
                tracing::warn!(%error, "a file of an old column generation stays behind");
            }
        }
    }
}
