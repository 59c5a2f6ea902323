//! Rows that are deleted, or replaced by others.

use super::Transaction;
use hypostyle_types::{ColumnId, Error, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;

impl Transaction {
    /// Deletes rows, by their positions in [`Self::snapshot`]; those that are deleted already are
    /// left out.
    ///
    /// # Errors
    /// `ReadOnly`; `Internal` for a position past the end.
    pub fn delete(&mut self, id: TableId, positions: &RoaringTreemap) -> Result<u64> {
        let new = self.delete_staged(id, positions)?;
        if !new.is_empty() {
            let changed = self.changed.entry(id).or_default();
            changed.deleted = true;
            changed.removed |= &new;
        }
        Ok(new.len())
    }

    /// [`Self::delete`] of rows that [`Self::append_updated`] appends again, with other values in
    /// the assigned columns.
    ///
    /// # Errors
    /// Those of [`Self::delete`].
    pub fn delete_updated(
        &mut self,
        id: TableId,
        positions: &RoaringTreemap,
        assigned: &BTreeSet<ColumnId>,
    ) -> Result<u64> {
        let new = self.delete_staged(id, positions)?;
        if !new.is_empty() {
            let changed = self.changed.entry(id).or_default();
            changed.assigned.extend(assigned);
            changed.removed |= &new;
        }
        Ok(new.len())
    }

    /// Returns the positions of those that were not deleted before.
    fn delete_staged(&mut self, id: TableId, positions: &RoaringTreemap) -> Result<RoaringTreemap> {
        self.database.check_writable()?;
        self.end_statement()?;
        let base = self.base.table_by_id(id);
        let end = base.map_or(0, |table| table.positions()) + self.own_rows(id);
        if positions.max().is_some_and(|last| last >= end) {
            return Err(Error::internal("a row past the end of its table is to be deleted"));
        }
        let staged = self.staged.tables.entry(id).or_default();
        let mut new = positions - &staged.deleted;
        if let Some(base) = base {
            new -= base.deleted();
        }
        staged.deleted |= &new;
        Ok(new)
    }

    /// Deleted rows of a table, by others and by this transaction.
    pub(super) fn deleted(&self, id: TableId) -> RoaringTreemap {
        let mut deleted = self.base.table_by_id(id).map(|table| table.deleted().clone()).unwrap_or_default();
        if let Some(staged) = self.staged.tables.get(&id) {
            deleted |= &staged.deleted;
        }
        deleted
    }
}
