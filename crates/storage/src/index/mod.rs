//! Automatic indexes: made when a query has wished for them twice, kept in files that all processes
//! share, and never believed further than they can be checked (format.md §10).
//!
//! An index is a cache. It covers the first rows of the column files of certain generations, of
//! which committed bytes never change, so that it serves every snapshot that has these generations
//! and at least as many rows. Whoever looks up gets rows of his own snapshot only: deleted rows are
//! refused, and rows behind those that are covered, in the files or in the log, are found through
//! extensions in memory.
//!
//! | module | does |
//! |---|---|
//! | `name` | names indexes and their files |
//! | `file` | reads, writes and removes the files |
//! | `entry` | what this process has open of an index, with the extensions for later rows |
//! | `build` | builds an index, or opens one that is there |
//! | `wishes` | counts what was wished for |
//! | `budget` | decides what is worth its bytes |
//! | `registry` | what there is of all of these in this process |
//! | `lookup` | looks up in an index for one snapshot |

mod budget;
mod build;
mod entry;
pub(crate) mod file;
mod lookup;
mod name;
pub(crate) mod registry;
mod wishes;

use crate::snapshot::Snapshot;
use build::Wanted;
use entry::Entry;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

pub(crate) use file::{remove_all, remove_stale};
pub use lookup::{TableImprint, TableJoin, TableKeys, TableOrder, TableReverse};
pub(crate) use name::{INDEXES, Identity};
pub use name::{IndexKind, IndexSpec, ReferredKey};
use registry::Indexes;

/// What `SHOW INDEXES` tells of an index.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    pub spec: IndexSpec,
    /// How it finds what it finds; empty for a file that this process has not opened.
    pub method: &'static str,
    /// The rows that it covers; `None` for a file that this process has not opened.
    pub rows: Option<u32>,
    pub bytes: u64,
    /// It has a file, and is not only in the memory of this process.
    pub is_stored: bool,
    /// It was asked for, and is kept whatever it is worth.
    pub is_declared: bool,
    /// Lookups of this process.
    pub uses: u64,
}

impl Indexes {
    /// Keeps an index open, unless only a snapshot that is about to end has its files.
    fn keep(&self, identity: &Identity, entry: Entry, snapshot: &Snapshot) -> Arc<Entry> {
        let entry = Arc::new(entry);
        let newest = self.newest.lock();
        if newest.version <= snapshot.version() || identity.is_current(&newest) {
            self.entries.lock().insert(identity.clone(), entry.clone());
        }
        entry
    }

    /// Lists what this process has open, and the files that it has not.
    fn list(&self, snapshot: &Snapshot) -> Result<Vec<IndexInfo>> {
        let mut found: Vec<IndexInfo> = Vec::new();
        let entries = self.entries.lock().clone();
        let declared = |spec: &IndexSpec| {
            let table = snapshot.table_by_id(spec.table);
            table.is_some_and(|table| self.is_declared(spec, table))
        };
        for (identity, entry) in &entries {
            found.push(IndexInfo {
                spec: identity.spec.clone(),
                method: entry.stored().index.kind().1,
                rows: Some(entry.stored().covered.rows),
                bytes: entry.bytes(),
                is_stored: entry.is_stored(),
                is_declared: declared(&identity.spec),
                uses: entry.uses(),
            });
        }
        if self.has_files() {
            for table in snapshot.tables() {
                let files = file::of_table(&self.store, table.entry().id)?;
                let is_new = |identity: &Identity| {
                    !entries.contains_key(identity) && identity.is_current(snapshot.catalog())
                };
                found.extend(files.into_iter().filter(|(identity, _)| is_new(identity)).map(
                    |(identity, bytes)| IndexInfo {
                        is_declared: declared(&identity.spec),
                        spec: identity.spec,
                        method: "",
                        rows: None,
                        bytes,
                        is_stored: true,
                        uses: 0,
                    },
                ));
            }
        }
        found.sort_by_key(|info| {
            (info.spec.table, info.spec.kind.name(), info.spec.columns.clone(), info.is_stored)
        });
        Ok(found)
    }
}

impl Snapshot {
    /// Counts a wish for an index, and tells whether it shall be built now: somebody has wished for
    /// it before, there is none that covers most rows, and it was not found to be too large.
    pub fn wish_index(&self, spec: &IndexSpec) -> bool {
        self.registry().is_some_and(|indexes| indexes.wish(spec, self))
    }

    /// Builds an index over the rows that are in the files of this snapshot, and what it needs.
    /// False when it cannot be, is too large for what it is worth, or another thread is building it.
    /// An index that is declared is built whatever it takes. `proceed` is asked now and then whether
    /// to go on.
    ///
    /// # Errors
    /// `Corrupt` naming the column and the block when the rows are damaged; `Io`; those of `proceed`.
    pub fn build_index(&self, spec: &IndexSpec, mut proceed: impl FnMut() -> Result<()>) -> Result<bool> {
        self.registry().map_or(Ok(false), |indexes| indexes.build(spec, self, Wanted::Any, &mut proceed))
    }

    /// Builds the index of a key unless several rows have one, for whom it would be no use.
    ///
    /// # Errors
    /// As [`Self::build_index`].
    pub fn build_unique_index(
        &self,
        spec: &IndexSpec,
        mut proceed: impl FnMut() -> Result<()>,
    ) -> Result<bool> {
        self.registry().map_or(Ok(false), |indexes| indexes.build(spec, self, Wanted::Unique, &mut proceed))
    }

    /// Lists the indexes of this snapshot's tables.
    ///
    /// # Errors
    /// `Io`.
    pub fn indexes(&self) -> Result<Vec<IndexInfo>> {
        self.registry().map_or(Ok(Vec::new()), |indexes| indexes.list(self))
    }

    /// Says that an index was asked for which no definition tells of: this process keeps it whatever
    /// it is worth.
    #[doc(hidden)]
    pub fn declare_index(&self, spec: &IndexSpec) {
        if let Some(indexes) = self.registry() {
            indexes.wishes.lock().declare(spec);
        }
    }

    /// Removes an index, also one that is declared.
    ///
    /// # Errors
    /// `Io`.
    pub fn drop_index(&self, spec: &IndexSpec) -> Result<()> {
        self.registry().map_or(Ok(()), |indexes| indexes.drop_index(spec))
    }

    /// Compares every index file of this snapshot's tables with the rows that it covers, and lists
    /// those that are damaged or tell of other rows, which are used no more. `goes_on` is asked now and
    /// then, and may end it.
    pub(crate) fn check_indexes(&self, goes_on: &mut dyn FnMut() -> bool) -> Vec<(TableId, String, Error)> {
        let Some(indexes) = self.registry().filter(|indexes| indexes.has_files()) else { return Vec::new() };
        let mut damages = Vec::new();
        let mut proceed = || match goes_on() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Interrupted, "the check was ended")),
        };
        for table in self.tables().map(|table| table.entry().id) {
            let files = match file::of_table(&indexes.store, table) {
                Ok(files) => files,
                Err(error) => {
                    damages.push((table, INDEXES.to_string(), error));
                    continue;
                }
            };
            for (identity, _) in files.iter().filter(|(identity, _)| identity.is_current(self.catalog())) {
                match indexes.compare(identity, self, &mut proceed) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => return damages,
                    // It was removed meanwhile, as any index may be.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => {
                        if error.kind() == ErrorKind::Corrupt {
                            indexes.discard(identity);
                        }
                        damages.push((table, identity.file_name(), error));
                    }
                }
            }
        }
        damages
    }
}
