//! The indexes of a database: what is open, wished for and being built.

use super::entry::Entry;
use super::file;
use super::name::{Identity, IndexSpec};
use super::wishes::Wishes;
use crate::verify::Verifier;
use hypostyle_format::Catalog;
use hypostyle_io::Store;
use hypostyle_sync::Mutex;
use hypostyle_types::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// The indexes of one open database in this process.
#[derive(Debug)]
pub(crate) struct Indexes {
    pub(super) store: Arc<Store>,
    pub(super) is_read_only: bool,
    /// Tells whether the files in the directory are this machine's own.
    verifier: Arc<Verifier>,
    /// Chosen anew by each process, so that nobody knows how keys are hashed.
    pub(super) seed: u64,
    pub(super) entries: Mutex<HashMap<Identity, Arc<Entry>>>,
    /// Files that are damaged, or over other rows, and cannot be removed.
    pub(super) ignored: Mutex<HashSet<Identity>>,
    /// What some thread is building.
    pub(super) building: Mutex<HashSet<Identity>>,
    pub(super) wishes: Mutex<Wishes>,
    /// Wishes are heard for indexes that nobody has declared.
    is_automatic: AtomicBool,
    /// The last version that had not all files of the one before.
    pub(super) newest: Mutex<Arc<Catalog>>,
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
    pub(super) fn has_files(&self) -> bool {
        self.store.path().is_some() && self.verifier.is_own()
    }

    /// Forgets what a new version does not have, so that its space can be given back.
    pub fn prune(&self, catalog: &Arc<Catalog>) {
        self.newest.lock().clone_from(catalog);
        self.entries.lock().retain(|identity, _| identity.is_current(catalog));
        self.ignored.lock().retain(|identity| identity.is_current(catalog));
        self.wishes.lock().prune(catalog);
    }

    /// Forgets an index of any generations, and removes its files.
    pub(super) fn drop_index(&self, spec: &IndexSpec) -> Result<()> {
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
    pub(super) fn discard(&self, identity: &Identity) {
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
