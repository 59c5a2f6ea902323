//! Names and descriptors of a column generation's files (format.md §1, §3).

use crate::database::lost;
use hypostyle_io::{File, Store};
use hypostyle_types::{ColumnId, ErrorKind, Generation, Result, TableId};
use std::sync::Arc;

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
    const ALL: [Self; 7] = [
        Self::Validity,
        Self::Values,
        Self::Offsets,
        Self::Heap,
        Self::DictionaryOffsets,
        Self::DictionaryHeap,
        Self::Blocks,
    ];

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

/// Whose file has a name that [`file_name`] gives.
pub(crate) fn parse_file_name(name: &str) -> Option<(ColumnId, Generation)> {
    let (numbers, suffix) = name.split_once('.')?;
    let role = Role::ALL.into_iter().find(|role| role.suffix() == suffix)?;
    let mut numbers = numbers.split('-');
    let (column, generation, node) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (column, generation) = (ColumnId(column.parse().ok()?), Generation(generation.parse().ok()?));
    (file_name(column, generation, node.parse().ok()?, role) == name).then_some((column, generation))
}

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
