//! The files of a generation of a column (format.md §1, §3).

use crate::names::{Role, file_name, lost, parse_file_name, table_directory};
use hypostyle_io::{File, Store};
use hypostyle_types::{ColumnId, ErrorKind, Generation, Result, TableId};
use std::sync::Arc;

/// The files of one generation of a column.
#[derive(Debug)]
pub(crate) struct GenerationFiles {
    pub store: Arc<Store>,
    pub table: TableId,
    pub column: ColumnId,
    pub generation: Generation,
}

impl GenerationFiles {
    pub fn new(store: Arc<Store>, table: TableId, column: ColumnId, generation: Generation) -> Arc<Self> {
        Arc::new(Self { store, table, column, generation })
    }

    fn name(&self, node: usize, role: Role) -> String {
        let file = file_name(self.column, self.generation, node, role);
        format!("{}/{file}", table_directory(self.table))
    }

    /// # Errors
    /// `Corrupt` for a file that is missing; `Io`.
    pub fn open(&self, node: usize, role: Role) -> Result<File> {
        self.open_named(node, role).map_err(lost)
    }

    /// # Errors
    /// `NotFound` for a file that is missing, which may have been removed; `Io`.
    pub fn open_named(&self, node: usize, role: Role) -> Result<File> {
        self.store.open(&self.name(node, role))
    }

    pub fn create(&self, node: usize, role: Role) -> Result<File> {
        self.store.create(&self.name(node, role))
    }

    /// [`Self::open`] for who writes to the files of many columns at the same time.
    pub fn open_to_append(&self, node: usize, role: Role) -> Result<File> {
        self.store.open_pooled(&self.name(node, role)).map_err(lost)
    }

    /// [`Self::create`] for who writes to the files of many columns at the same time.
    pub fn create_to_append(&self, node: usize, role: Role) -> Result<File> {
        self.store.create_pooled(&self.name(node, role))
    }

    /// Unlinks all of them.
    pub fn remove(&self) -> Result<()> {
        let directory = table_directory(self.table);
        let ours = |name: &String| parse_file_name(name) == Some((self.column, self.generation));
        let names = match self.store.list(&directory) {
            // The table was dropped.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        names
            .iter()
            .filter(|name| ours(name))
            .try_for_each(|name| self.store.remove(&format!("{directory}/{name}")))
    }
}
