//! Who reads which version, in this process and in others (format.md §8).
//!
//! A [`Pin`] keeps the files of a version. The oldest pin of a process stands in its file in
//! `readers/`, on which the process holds a lock: a file without a lock is of a dead process. A process that
//! cannot write such a file keeps the files of all versions, by a lock on `columns`.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::column::GenerationFiles;
use crate::index::file::{remove_of_generation, remove_of_table};
use crate::names::{is_reader, is_table_file, table_directory};
use hypostyle_io::{File, Lock, Store};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result, TableId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const DIRECTORY: &str = "readers";

/// Locked by who reads without a file in `readers/`.
const COLUMNS: &str = "columns";

/// Stands in a reader's file when it reads nothing.
const NONE: u64 = u64::MAX;

/// The readers of one open database in this process.
#[derive(Debug)]
pub(crate) struct Readers {
    store: Arc<Store>,
    slot: Option<Slot>,
    /// The lock in the place of a slot.
    _keeps_all: Option<Lock>,
    process: u32,
    pins: Mutex<BTreeMap<Version, usize>>,
    /// The garbage, with the published version that does without it.
    garbage: Mutex<Vec<(Version, Garbage)>>,
}

/// Files that no version from some version on has.
#[derive(Debug)]
pub(crate) enum Garbage {
    Table(TableId),
    Generation(Arc<GenerationFiles>),
}

impl Garbage {
    pub fn remove(&self, store: &Store) -> Result<()> {
        match self {
            Self::Table(id) => {
                remove_of_table(store, *id);
                store.remove_directory(&table_directory(*id), is_table_file)
            }
            Self::Generation(files) => {
                remove_of_generation(store, files.table, files.column, files.generation);
                files.remove()
            }
        }
    }
}

#[derive(Debug)]
struct Slot {
    file: File,
    name: String,
    _lock: Lock,
}

/// Keeps the files of a version from being removed.
#[derive(Debug)]
pub(crate) struct Pin {
    readers: Arc<Readers>,
    version: Version,
}

impl Readers {
    /// # Errors
    /// `ReadOnly`, `DiskFull` or `Io` when a writer cannot be registered; `Io` when a reader can neither be
    /// registered nor keep others from removing files.
    pub fn register(store: &Arc<Store>, is_writer: bool) -> Result<Arc<Self>> {
        let cannot = |error: Error| error.context("cannot register as a reader");
        let (mut slot, mut keeps_all) = (None, None);
        if store.path().is_some() {
            match Slot::new(store) {
                Ok(registered) => slot = Some(registered),
                Err(error) if is_writer => return Err(cannot(error)),
                // The directory or the disk is not for writing, or is full: no reason not to read.
                Err(_) => {
                    keeps_all = match store.lock_shared(COLUMNS) {
                        // There are no files to keep.
                        Err(error) if error.kind() == ErrorKind::NotFound => None,
                        locked => locked.map_err(cannot)?,
                    }
                }
            }
        }
        Ok(Arc::new(Self {
            store: store.clone(),
            slot,
            _keeps_all: keeps_all,
            process: std::process::id(),
            pins: Mutex::default(),
            garbage: Mutex::default(),
        }))
    }

    /// Pins a version. A writer may not have seen the pin in time: whoever pins looks afterwards whether a
    /// version was published that does without some of its files.
    pub fn pin(self: &Arc<Self>, version: Version) -> Result<Arc<Pin>> {
        let mut pins = self.pins.lock();
        let oldest = pins.first_key_value().map(|(version, _)| *version);
        if oldest.is_none_or(|oldest| version < oldest) {
            self.tell(version.0)?;
        }
        *pins.entry(version).or_default() += 1;
        Ok(Arc::new(Pin { readers: self.clone(), version }))
    }

    fn unpin(&self, version: Version) {
        let mut pins = self.pins.lock();
        let before = pins.first_key_value().map(|(version, _)| *version);
        if let Some(count) = pins.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&version);
            }
        }
        let after = pins.first_key_value().map(|(version, _)| *version);
        if before != after {
            if let Err(error) = self.tell(after.map_or(NONE, |version| version.0)) {
                tracing::warn!(%error, "files of an old version are kept for longer than needed");
            }
            drop(pins);
            self.collect_garbage();
        }
    }

    /// Removes files, now or when nobody reads a version before `version`, which is published, any more.
    pub fn discard(&self, version: Version, garbage: Vec<Garbage>) {
        if !garbage.is_empty() {
            self.garbage.lock().extend(garbage.into_iter().map(|garbage| (version, garbage)));
            self.collect_garbage();
        }
    }

    /// What cannot be removed is a leftover that a later checkpoint finds.
    fn collect_garbage(&self) {
        let mut waiting = self.garbage.lock();
        if waiting.is_empty() || !self.is_own_process() {
            return;
        }
        let oldest = match self.oldest() {
            Ok(oldest) => oldest,
            Err(error) => {
                tracing::warn!(%error, "superfluous files are kept: it is not known who reads them");
                return;
            }
        };
        let superfluous = |version: &Version| oldest.is_none_or(|oldest| *version <= oldest);
        waiting.retain(|(version, garbage)| {
            if superfluous(version)
                && let Err(error) = garbage.remove(&self.store)
            {
                tracing::warn!(%error, "superfluous files stay behind");
            }
            !superfluous(version)
        });
    }

    /// Whether nobody reads a version before `version`, which is published.
    pub fn all_read(&self, version: Version) -> Result<bool> {
        Ok(self.oldest()?.is_none_or(|oldest| version <= oldest))
    }

    /// False in a child of `fork()`, which must not speak for its parent.
    fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    fn tell(&self, oldest: u64) -> Result<()> {
        match &self.slot {
            Some(slot) if self.is_own_process() => slot.file.write_at(0, &oldest.to_le_bytes()),
            _ => Ok(()),
        }
    }

    /// The oldest version that anybody reads; `None` when nobody reads any. Removes the files of
    /// dead processes.
    fn oldest(&self) -> Result<Option<Version>> {
        if self.all_are_kept()? {
            return Ok(Some(Version(0)));
        }
        let mut oldest = self.pins.lock().first_key_value().map_or(NONE, |(version, _)| version.0);
        for name in self.others()? {
            let mut bytes = [0; 8];
            match self.store.open(&name).and_then(|file| file.read_at(0, &mut bytes)) {
                Ok(()) => oldest = oldest.min(u64::from_le_bytes(bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((oldest != NONE).then_some(Version(oldest)))
    }

    /// Whether no other process, and no other handle of this one, has the database open.
    pub fn alone(&self) -> Result<bool> {
        Ok(self.others()?.is_empty() && !self.all_are_kept()?)
    }

    /// Whether somebody reads a version that nobody else knows of.
    fn all_are_kept(&self) -> Result<bool> {
        if self.slot.is_none() {
            return Ok(false);
        }
        match self.store.try_lock(COLUMNS) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            locked => Ok(locked?.is_none()),
        }
    }

    /// The files of the others that are alive.
    fn others(&self) -> Result<Vec<String>> {
        let Some(slot) = &self.slot else { return Ok(Vec::new()) };
        let mut others = Vec::new();
        for name in self.store.list(DIRECTORY)?.into_iter().filter(|name| is_reader(name)) {
            let name = format!("{DIRECTORY}/{name}");
            if name == slot.name {
                continue;
            }
            match self.store.try_lock(&name) {
                // Or of a process that is about to lock it: that one makes another.
                Ok(Some(_dead)) => self.store.remove(&name)?,
                Ok(None) => others.push(name),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(others)
    }
}

impl Slot {
    fn new(store: &Store) -> Result<Self> {
        store.create_directory(DIRECTORY)?;
        loop {
            let name = format!("{DIRECTORY}/{}-{}", std::process::id(), Uuid::new_v4().simple());
            match Self::of_name(store, name) {
                // Another process took the file for that of a dead one before it was locked.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(Some(slot)) => return Ok(slot),
            }
        }
    }

    /// `None` when another process has locked the file.
    fn of_name(store: &Store, name: String) -> Result<Option<Self>> {
        let temporary = format!("{name}.new");
        let file = store.create(&temporary)?;
        file.write_at(0, &NONE.to_le_bytes())?;
        // Locked before it has a name under which it counts.
        let Some(lock) = store.try_lock(&temporary)? else { return Ok(None) };
        store.rename(&temporary, &name)?;
        Ok(Some(Self { file, name, _lock: lock }))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.collect_garbage();
        if self.is_own_process()
            && let Some(slot) = &self.slot
            && let Err(error) = self.store.remove(&slot.name)
        {
            tracing::warn!(%error, "the file of a reader stays behind; the next writer removes it");
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.readers.unpin(self.version);
    }
}
