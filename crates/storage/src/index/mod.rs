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
//! | `budget` | decides what is worth its bytes |
//! | `lookup` | looks up in an index for one snapshot |

mod budget;
mod build;
mod entry;
mod file;
mod lookup;
mod name;

use crate::snapshot::Snapshot;
use crate::verify::Verifier;
use budget::Wishes;
use build::Wanted;
use entry::Entry;
use hypostyle_format::Catalog;
use hypostyle_io::Store;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

pub(crate) use file::{remove_all, remove_of_generation, remove_of_table, remove_stale};
pub use lookup::{TableImprint, TableJoin, TableKeys, TableOrder, TableReverse};
pub(crate) use name::{INDEXES, Identity};
pub use name::{IndexKind, IndexSpec, ReferredKey};

/// The indexes of one open database in this process.
#[derive(Debug)]
pub(crate) struct Indexes {
    store: Arc<Store>,
    is_read_only: bool,
    /// Tells whether the files in the directory are this machine's own.
    verifier: Arc<Verifier>,
    /// Chosen anew by each process, so that nobody knows how keys are hashed.
    seed: u64,
    entries: Mutex<HashMap<Identity, Arc<Entry>>>,
    /// Files that are damaged, or over other rows, and cannot be removed.
    ignored: Mutex<HashSet<Identity>>,
    /// What some thread is building.
    building: Mutex<HashSet<Identity>>,
    wishes: Mutex<Wishes>,
    /// Wishes are heard for indexes that nobody has declared.
    is_automatic: AtomicBool,
    /// The last version that had not all files of the one before.
    newest: Mutex<Arc<Catalog>>,
}

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
    pub fn new(store: &Arc<Store>, is_read_only: bool, verifier: &Arc<Verifier>) -> Self {
        Self {
            store: store.clone(),
            is_read_only,
            verifier: verifier.clone(),
            seed: Uuid::new_v4().as_u64_pair().0,
            entries: Mutex::default(),
            ignored: Mutex::default(),
            building: Mutex::default(),
            wishes: Mutex::default(),
            is_automatic: AtomicBool::new(true),
            newest: Mutex::default(),
        }
    }

    pub fn is_automatic(&self) -> bool {
        self.is_automatic.load(Ordering::Relaxed)
    }

    pub fn set_automatic(&self, automatic: bool) {
        self.is_automatic.store(automatic, Ordering::Relaxed);
    }

    /// Tells whether indexes have files here: in a directory that this machine has written itself.
    /// What came from elsewhere may have been made to give wrong answers.
    fn has_files(&self) -> bool {
        self.store.path().is_some() && self.verifier.is_own()
    }

    /// Forgets what a new version does not have, so that its space can be given back.
    pub fn prune(&self, catalog: &Arc<Catalog>) {
        self.newest.lock().clone_from(catalog);
        self.entries.lock().retain(|identity, _| identity.is_current(catalog));
        self.ignored.lock().retain(|identity| identity.is_current(catalog));
        self.wishes.lock().prune(catalog);
    }

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

    /// Forgets an index of any generations, and removes its files.
    fn drop_index(&self, spec: &IndexSpec) -> Result<()> {
        self.entries.lock().retain(|identity, _| identity.spec != *spec);
        self.wishes.lock().forget(spec);
        if self.is_read_only || !self.has_files() {
            return Ok(());
        }
        let files = file::of_table(&self.store, spec.table)?;
        let same = files.iter().filter(|(identity, _)| identity.spec == *spec);
        same.map(|(identity, _)| identity.path()).try_for_each(|path| self.store.remove(&path))
    }

    /// Closes an index that is no good, and removes its file or never looks at it again.
    fn discard(&self, identity: &Identity) {
        self.entries.lock().remove(identity);
        match self.is_read_only {
            true => drop(self.ignored.lock().insert(identity.clone())),
            false => {
                if let Err(error) = self.store.remove(&identity.path()) {
                    tracing::warn!(%error, "an index that is no good stays behind");
                    self.ignored.lock().insert(identity.clone());
                }
            }
        }
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
    /// to go on, but not while an order is sorted.
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
    /// those that are damaged or tell of other rows, which are used no more.
    pub(crate) fn check_indexes(&self) -> Vec<(TableId, String, Error)> {
        let Some(indexes) = self.registry().filter(|indexes| indexes.has_files()) else { return Vec::new() };
        let mut damages = Vec::new();
        for table in self.tables().map(|table| table.entry().id) {
            let files = match file::of_table(&indexes.store, table) {
                Ok(files) => files,
                Err(error) => {
                    damages.push((table, INDEXES.to_string(), error));
                    continue;
                }
            };
            for (identity, _) in files.iter().filter(|(identity, _)| identity.is_current(self.catalog())) {
                match indexes.compare(identity, self) {
                    Ok(()) => {}
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
