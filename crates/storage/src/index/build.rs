//! Building indexes, and opening those that are there.

use super::entry::{Entry, arrays, arrays_unless, rows_in_files};
use super::file;
use super::name::{Identity, IndexKind, IndexSpec};
use super::registry::Indexes;
use crate::snapshot::Snapshot;
use crate::table::TableData;
use hypostyle_index::{
    Content, Covered, Imprint, Index, JoinIndex, KeyIndex, KeyLookup, NO_ROW, OrderIndex, ReverseIndex,
    Stored,
};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// Which indexes of keys serve whoever wishes for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    /// Those of keys that each have one row.
    Unique,
}

/// Tells others that a thread builds an index, as long as it does.
struct Building<'a> {
    indexes: &'a Indexes,
    identity: Identity,
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.indexes.building.lock().remove(&self.identity);
    }
}

impl Indexes {
    /// Returns an index that is there and covers rows of a snapshot only. Never builds one.
    pub(super) fn entry(&self, spec: &IndexSpec, snapshot: &Snapshot) -> Option<Arc<Entry>> {
        let identity = Identity::of(spec, snapshot.catalog())?;
        let known = self.entries.lock().get(&identity).cloned();
        let entry = match known {
            Some(entry) => entry,
            None => self.open(&identity, snapshot)?,
        };
        let fits = |covered: &Covered| {
            let table = snapshot.table_by_id(covered.table);
            table.is_some_and(|table| {
                !table.is_uncommitted() && u64::from(covered.rows) <= table.rows_in_files()
            })
        };
        let stored = entry.stored();
        (fits(&stored.covered) && stored.referenced.as_ref().is_none_or(fits)).then_some(entry)
    }

    /// Tells whether an index serves later snapshots than one that has these rows of its table.
    pub(super) fn covers_more(&self, identity: &Identity, table: &TableData) -> bool {
        let entries = self.entries.lock();
        entries.get(identity).is_some_and(|entry| entry.rows() > table.rows_in_files())
    }

    /// Opens the file of an index, if there is one for the rows of a snapshot. One that is damaged,
    /// or over other rows, is removed.
    fn open(&self, identity: &Identity, snapshot: &Snapshot) -> Option<Arc<Entry>> {
        if !self.has_files() || self.ignored.lock().contains(identity) {
            return None;
        }
        let table = snapshot.table_by_id(identity.spec.table).filter(|table| !table.is_uncommitted())?;
        let opened = self.read(identity, snapshot).and_then(|stored| {
            let entry = stored.map(|stored| Entry::new(&identity.spec, stored, table, true));
            entry.transpose()
        });
        match opened {
            Ok(Some(entry)) => Some(self.keep(identity, entry, snapshot)),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(%error, "an index is not used");
                match error.kind() {
                    ErrorKind::Corrupt => self.discard(identity),
                    // Of another release, or not for this user to read.
                    _ => drop(self.ignored.lock().insert(identity.clone())),
                }
                None
            }
        }
    }

    /// Reads the file of an index; `None` when there is none, or it covers rows that the snapshot
    /// has not.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged or over other rows; `Io`.
    fn read(&self, identity: &Identity, snapshot: &Snapshot) -> Result<Option<Stored>> {
        let rows = |table: TableId| snapshot.table_by_id(table).map_or(0, |table| table.rows_in_files());
        let referred = identity.spec.referred().map_or(0, |key| rows(key.table));
        let most = rows(identity.spec.table).saturating_add(referred);
        let stored = match file::read(&self.store, identity, most) {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(None),
            Err(error) => return Err(error),
        };
        for covered in [Some(&stored.covered), stored.referenced.as_ref()].into_iter().flatten() {
            let Some(table) = snapshot.table_by_id(covered.table) else { return Ok(None) };
            if table.is_uncommitted() || u64::from(covered.rows) > table.rows_in_files() {
                return Ok(None);
            }
            if !self.is_over(covered, table)? {
                let path = identity.path();
                return Err(Error::corrupt(format!("\"{path}\" is over rows that the table has not")));
            }
        }
        Ok(Some(stored))
    }

    /// Tells whether the rows that an index was built over are the first ones of a table.
    fn is_over(&self, covered: &Covered, table: &TableData) -> Result<bool> {
        for content in &covered.columns {
            let column = table.columns().iter().find(|column| column.entry().id == content.column);
            let Some(column) = column else { return Ok(false) };
            let found = column.content(covered.rows.into(), content.dictionary)?;
            if found != Some(content.checksum) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds an index over the rows in the files of a snapshot, and the key index that it needs.
    pub(super) fn build(
        &self,
        spec: &IndexSpec,
        snapshot: &Snapshot,
        wanted: Wanted,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let Some(identity) = Identity::of(spec, snapshot.catalog()) else { return Ok(false) };
        let Some(table) = snapshot.table_by_id(spec.table) else { return Ok(false) };
        if self.entry(spec, snapshot).is_some_and(|entry| entry.rows() == table.rows_in_files()) {
            return Ok(true);
        }
        if self.covers_more(&identity, table) {
            return Ok(false);
        }
        if !self.building.lock().insert(identity.clone()) {
            return Ok(false);
        }
        let _building = Building { indexes: self, identity: identity.clone() };
        if let Some(key) = spec.referred()
            && self.entry(&key, snapshot).is_none()
            && !self.build(&key, snapshot, Wanted::Any, proceed)?
        {
            return Ok(false);
        }
        let Some(stored) = self.build_in_memory(spec, table, snapshot, proceed)? else {
            self.wishes.lock().refuse(spec, table.rows_in_files());
            return Ok(false);
        };
        let is_useless = match &stored.index {
            Index::Key(index) => wanted == Wanted::Unique && !index.is_unique(),
            _ => false,
        };
        if is_useless && !self.is_declared(spec, table) {
            self.wishes.lock().refuse(spec, table.rows_in_files());
            return Ok(false);
        }
        if !self.make_room(&identity, table, stored.index.bytes())? {
            return Ok(false);
        }
        let entry = match self.store_file(&identity, &stored, snapshot) {
            Some(stored) => Entry::new(spec, stored, table, true)?,
            None => Entry::new(spec, stored, table, false)?,
        };
        self.keep(&identity, entry, snapshot);
        Ok(true)
    }

    /// Builds an index in memory; `None` when there cannot be one of these columns, or what it
    /// needs is gone.
    fn build_in_memory(
        &self,
        spec: &IndexSpec,
        table: &TableData,
        snapshot: &Snapshot,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Stored>> {
        if !has_rows_for_index(table) {
            return Ok(None);
        }
        let Some(covered) = self.cover(table, spec, rows_in_files(table)?)? else { return Ok(None) };
        let (mut keys, mut referenced) = (None, None);
        if let Some(key) = spec.referred() {
            let Some(table) = snapshot.table_by_id(key.table) else { return Ok(None) };
            let Some(entry) = self.entry(&key, snapshot) else { return Ok(None) };
            let lookup = entry.keys_over_files(table, &key.columns, self.seed)?;
            referenced = self.cover(table, &key, lookup.rows())?;
            keys = Some(lookup);
        }
        if referenced.is_some() != keys.is_some() {
            return Ok(None);
        }
        let index = index_over(spec, table, covered.rows, keys.as_ref(), self.seed, proceed)?;
        Ok(index.map(|index| Stored { index, covered, referenced }))
    }

    /// Writes the file of an index, and maps it in the place of the memory that was built.
    fn store_file(&self, identity: &Identity, stored: &Stored, snapshot: &Snapshot) -> Option<Stored> {
        if self.is_read_only || !self.has_files() {
            return None;
        }
        match file::write(&self.store, identity, stored).and_then(|written| match written {
            true => self.read(identity, snapshot),
            false => Ok(None),
        }) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "an index is kept in memory only");
                None
            }
        }
    }

    /// Tells what the first rows of a table are; `None` where some columns have no checksums that
    /// an index could tell.
    fn cover(&self, table: &TableData, spec: &IndexSpec, rows: u32) -> Result<Option<Covered>> {
        let mut columns = Vec::with_capacity(spec.columns.len());
        for id in &spec.columns {
            let Some(column) = table.columns().iter().find(|column| column.entry().id == *id) else {
                return Ok(None);
            };
            let dictionary = column.distinct_count().unwrap_or(0);
            let checksum = match self.has_files() && !self.is_read_only {
                true => column.content(rows.into(), dictionary)?,
                // Nobody else reads what stays in the memory of this process.
                false => Some(0),
            };
            let Some(checksum) = checksum else { return Ok(None) };
            let generation = column.entry().generation.number;
            columns.push(Content { column: *id, generation, dictionary, checksum });
        }
        Ok(Some(Covered { table: table.entry().id, rows, columns }))
    }

    /// Compares the file of an index with one that is built anew.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, or is not that index; `NotFound` when it is gone; those of `proceed`.
    pub(super) fn compare(
        &self,
        identity: &Identity,
        snapshot: &Snapshot,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let spec = &identity.spec;
        let gone = || Error::new(ErrorKind::NotFound, "the index is gone, or covers later rows");
        let stored = self.read(identity, snapshot)?.ok_or_else(gone)?;
        let table = snapshot.table_by_id(spec.table).ok_or_else(gone)?;
        let keys = match (spec.referred(), &stored.referenced) {
            (Some(key), Some(covered)) => {
                let table = snapshot.table_by_id(key.table).ok_or_else(gone)?;
                let Some(Index::Key(index)) =
                    index_over(&key, table, covered.rows, None, self.seed, proceed)?
                else {
                    return Err(gone());
                };
                let columns = arrays(table, &key.columns, 0..covered.rows.into())?;
                Some(KeyLookup::new(index, &columns)?)
            }
            _ => None,
        };
        let seed = match &stored.index {
            Index::Key(index) => index.seed().unwrap_or(self.seed),
            _ => self.seed,
        };
        let built = index_over(spec, table, stored.covered.rows, keys.as_ref(), seed, proceed)?;
        match built.is_some_and(|built| built == stored.index) {
            true => Ok(()),
            false => Err(Error::corrupt(format!("\"{}\" is not the index of its rows", identity.path()))),
        }
    }
}

/// Builds an index over the first rows of a table; `None` when there cannot be one of its columns.
fn index_over(
    spec: &IndexSpec,
    table: &TableData,
    rows: u32,
    keys: Option<&KeyLookup>,
    seed: u64,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Index>> {
    let arrays = arrays_unless(table, &spec.columns, 0..rows.into(), proceed)?;
    let arrays: Vec<_> = arrays.iter().map(|array| array.slice(0, rows as usize)).collect();
    let Some(first) = arrays.first() else { return Ok(None) };
    let mut join = || {
        let keys = keys.ok_or_else(|| Error::internal("a join index without the key"))?;
        match keys.accepts(&arrays) {
            true => JoinIndex::build_unless(keys, &arrays, proceed).map(Some),
            false => Ok(None),
        }
    };
    Ok(match &spec.kind {
        IndexKind::Join(_) => join()?.map(|index| Index::Join(index.into())),
        IndexKind::Reverse(_) => join()?.map(|index| Index::Reverse(ReverseIndex::build(&index).into())),
        IndexKind::Key => {
            KeyIndex::build_unless(&arrays, seed, proceed)?.map(|index| Index::Key(index.into()))
        }
        IndexKind::Imprint => {
            Imprint::build_unless(first, proceed)?.map(|index| Index::Imprint(index.into()))
        }
        IndexKind::Order => OrderIndex::build_unless(first, proceed)?.map(|index| Index::Order(index.into())),
    })
}

/// Tells whether the rows in a table's files are committed, and as many as an index can cover.
fn has_rows_for_index(table: &TableData) -> bool {
    !table.is_uncommitted() && table.positions() < u64::from(NO_ROW)
}
