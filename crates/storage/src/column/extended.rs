//! Columns with rows behind those of their files: those of the log.

use super::ColumnData;
use super::reader::{files_of_none, node_files};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use hypostyle_mapped::{NodeFiles, extended};
use hypostyle_types::Result;

impl ColumnData {
    /// Returns all rows as one array, with others behind them ([`extended`]). Returns `None` where the files
    /// have no rows, and where a dictionary's codes do not suffice for new values.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn array_with(&self, behind: &ArrayRef) -> Result<Option<ArrayRef>> {
        self.extended(behind, false)
    }

    /// Returns [`Self::array_with`] over mappings and memory of its own: the caller may write into its
    /// buffers and nobody else sees it.
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises.
    pub fn private_array_with(&self, behind: &ArrayRef) -> Result<Option<ArrayRef>> {
        self.extended(behind, true)
    }

    fn extended(&self, behind: &ArrayRef, is_private: bool) -> Result<Option<ArrayRef>> {
        let stored = if is_private { self.private_array()? } else { self.array()? };
        if stored.is_empty() {
            return Ok(None);
        }
        let values = stored.as_any_dictionary_opt().map(|dictionary| dictionary.values());
        if values.is_some() {
            self.verify_dictionary_once()?;
        }
        extended(stored.data_type(), &self.extensible_files()?, values, behind, is_private)
    }

    /// Returns the files of the nodes. One of no elements may have none.
    fn extensible_files(&self) -> Result<Vec<NodeFiles>> {
        let nodes = self.layout().iter().zip(&self.entry().generation.nodes).enumerate();
        nodes
            .map(|(number, (shape, entry))| match entry.length {
                0 => Ok(files_of_none(&shape.buffers)),
                _ => node_files(&self.files, number, shape, entry),
            })
            .collect()
    }
}
