//! An open database: opening, and what all its parts share (format.md §1). `commit` writes and syncs the log,
//! `checkpoint` folds it into the column files, `view` reads both, `leftovers` removes what no version has.

mod checkpoint;
mod commit;
mod leftovers;
mod sequence;
mod upkeep;
mod view;

use crate::column::GenerationFiles;
use crate::index::registry::Indexes;
use crate::known_keys::KeptKeys;
use crate::names::{
    MARKER, SHARED, SUPERBLOCK, catalog_name, is_table_file, is_unfinished, log_name, lost, table_directory,
};
use crate::origin::record_new;
use crate::readers::{Garbage, Readers};
use crate::snapshot::Snapshot;
use crate::verify::{Verifier, Verify};
use commit::Syncing;
use hypostyle_format::{Catalog, SUPERBLOCK_BYTES, Shared, Superblock};
use hypostyle_io::{File, Lock, LockFile, LockFileGuard, Observer, Patience, Store, Waiting, boot_id};
use hypostyle_sync::{Condvar, Mutex, RwLock, TimedMutex, TimedMutexGuard};
use hypostyle_types::{Error, ErrorKind, Generation, Result, TableId, Version};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use upkeep::Upkeep;
use uuid::Uuid;
use view::{Position, View, advance, read_shared, recover_as_writer, view_of_reader};

pub(crate) use leftovers::remove_files;
pub(crate) use upkeep::Begun;
pub use upkeep::QUIET;
pub(crate) use view::{check_log, checkpoint_in_use, read_catalog};

/// Times to try again what another process has changed meanwhile.
const ATTEMPTS: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    ReadOnly,
    ReadWrite,
}

/// What a commit waits for before it returns (docs/transactions.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Everything is on the disk.
    #[default]
    Full,
    /// The rows of bulk appends are; the log is at the next checkpoint.
    Normal,
    /// Nothing is.
    Off,
}

#[derive(Clone, Debug)]
pub struct StorageOptions {
    pub mode: OpenMode,
    /// Open a database on a network file system, whose locks and mappings cannot be relied on.
    pub allow_network_filesystem: bool,
    /// How long opening waits for the locks of others; as its thread does otherwise when absent.
    pub patience: Option<Patience>,
    /// When columns are verified that are handed out as they lie.
    pub verify: Verify,
    /// Watches what happens on disk; for tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl From<OpenMode> for StorageOptions {
    fn from(mode: OpenMode) -> Self {
        Self { mode, allow_network_filesystem: false, patience: None, verify: Verify::Auto, observer: None }
    }
}

/// Whoever owns the memory that a database in memory may take.
pub trait Budget: std::fmt::Debug + Send + Sync {
    /// Asked before rows are added that take so many bytes.
    ///
    /// # Errors
    /// When there is no room for them: nothing is then added.
    fn take(&self, bytes: u64) -> Result<()>;
}

/// An open database: on disk or in memory.
#[derive(Debug)]
pub struct Database {
    store: Arc<Store>,
    mode: OpenMode,
    /// A reader may come before the first writer has made it.
    shared: OnceLock<File>,
    boot: [u8; 16],
    process: u32,
    readers: Arc<Readers>,
    /// What is published, as far as this process has taken it in.
    head: RwLock<View>,
    committer: TimedMutex<Committer>,
    /// Locked only by who has `committer`; `None` in memory.
    lock_file: Option<LockFile>,
    /// Locked only by who has the turn to sync; `None` in memory.
    sync_lock: Option<LockFile>,
    syncing: Mutex<Syncing>,
    /// Tells who has the turn to sync that all whom it waits for have written.
    gathered: Condvar,
    /// A version that is known to be durable.
    durable: AtomicU64,
    synchronous: Mutex<Synchronous>,
    closed: AtomicBool,
    /// Whether what this process has written is durable, or visible, is not known: it commits no more.
    failed: AtomicBool,
    next_table: AtomicU64,
    /// Who may still look at rows in column files that were rolled back.
    rolled_back: Mutex<Vec<Weak<AtomicBool>>>,
    /// Tables with rows behind the committed ones that were looked at when they were rolled back.
    left_behind: Mutex<Vec<TableId>>,
    budget: OnceLock<Arc<dyn Budget>>,
    verifier: Arc<Verifier>,
    indexes: Arc<Indexes>,
    kept_keys: Mutex<KeptKeys>,
    upkeep: Arc<Upkeep>,
}

/// What one thread of a process works with at a time; the commit lock keeps out other processes.
#[derive(Debug)]
struct Committer {
    /// Everything written, published or not.
    view: View,
    /// Own versions that are written but not published.
    unpublished: VecDeque<View>,
    /// The log of a checkpoint is at least so long.
    room: Position,
}

impl Database {
    /// A new database in memory; it goes with the last handle and result.
    pub fn in_memory() -> Result<Arc<Self>> {
        let store = Store::memory();
        create_files(&store)?;
        Self::recover(store, OpenMode::ReadWrite, Verify::Never)
    }

    /// [`Self::in_memory`], whose rows take no more memory than they are given.
    pub fn in_memory_within(budget: Arc<dyn Budget>) -> Result<Arc<Self>> {
        let database = Self::in_memory()?;
        let _new = database.budget.set(budget);
        Ok(database)
    }

    /// Bytes of a database in memory.
    ///
    /// # Errors
    /// Those of asking for the length of a file.
    pub fn memory_bytes(&self) -> Result<u64> {
        self.store.memory_bytes()
    }

    /// Asks whoever gives this database its memory, if somebody does.
    pub(crate) fn take_memory(&self, bytes: impl FnOnce() -> u64) -> Result<()> {
        self.budget.get().map_or(Ok(()), |budget| budget.take(bytes()))
    }

    /// Opens a directory; in read-write mode, one that is missing or empty becomes a new database.
    ///
    /// # Errors
    /// `NotFound` when there is none to read; `InvalidInput` when it is not a database; `Version`,
    /// `Corrupt`, `Unsupported` on a network file system, `Busy` when somebody has its locks for
    /// too long, `Io`.
    pub fn open(path: &Path, options: impl Into<StorageOptions>) -> Result<Arc<Self>> {
        let StorageOptions { mode, allow_network_filesystem, patience, verify, observer } = options.into();
        let _patient = patience.map(Patience::hold);
        let (store, missing) = match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && mode == OpenMode::ReadWrite => {
                (Store::new_directory(path, observer)?, true)
            }
            Err(error) => {
                return Err(Error::from_io(
                    &error,
                    format_args!("cannot open the database \"{}\"", path.display()),
                ));
            }
            Ok(metadata) if !metadata.is_dir() => {
                return Err(Error::invalid_input(format!(
                    "\"{}\" is a file; a Hypostyle database is a directory",
                    path.display()
                )));
            }
            Ok(_) => (Store::directory(path, mode == OpenMode::ReadOnly, observer)?, false),
        };
        if let Some(who) = store.is_writable_by()? {
            tracing::warn!(
                "{who} may write to the directory \"{}\", and so replace what is in the database; chmod it to 700",
                path.display()
            );
        }
        if let Some(kind) = store.network_file_system().filter(|_| !allow_network_filesystem) {
            return Err(Error::unsupported(format!(
                "\"{}\" is on a network file system ({kind}), whose locks and mappings cannot be relied on; \
                 copy the database to a local disk, or set allow_network_filesystem at your own risk",
                path.display()
            )));
        }
        if !store.list("")?.iter().any(|name| name == SUPERBLOCK) {
            check_is_unfinished(&store, path, mode, missing)?;
            // Of several that find none, the first makes it.
            let making = store.lock_file("")?;
            let mut waiting = Waiting::begin();
            let _lock = making.as_ref().map(|making| making.lock(&mut waiting)).transpose()?;
            if !store.list("")?.iter().any(|name| name == SUPERBLOCK) {
                check_is_unfinished(&store, path, mode, missing)?;
                create_files(&store)?;
                record_new(&store);
            }
        }
        Self::recover(store, mode, verify)
            .map_err(|error| error.context(format!("database \"{}\"", path.display())))
    }

    fn recover(store: Store, mode: OpenMode, verify: Verify) -> Result<Arc<Self>> {
        check_superblock(&store, mode)?;
        let store = Arc::new(store);
        let boot = boot_id();
        let writable = mode == OpenMode::ReadWrite;
        let shared = OnceLock::new();
        let (mut lock_file, mut sync_lock) = (None, None);
        if writable {
            // Copies of a database may be without it while it is empty.
            store.create_directory("columns")?;
            let _empty = shared.set(store.open_or_create(SHARED)?);
            lock_file = store.lock_file(SHARED)?;
            sync_lock = store.lock_file(SUPERBLOCK)?;
        }
        let readers = Readers::register(&store, writable)?;
        let (view, durable) = match lock_file.as_ref() {
            _ if !writable => (view_of_reader(&store, &shared, boot)?, Version(0)),
            lock_file => {
                let mut waiting = Waiting::begin();
                let _lock = lock_file.map(|file| file.lock(&mut waiting)).transpose()?;
                recover_as_writer(&store, &shared, boot, &readers)?
            }
        };
        let verifier = Arc::new(Verifier::new(verify, &store));
        let indexes = Arc::new(Indexes::new(&store, !writable, &verifier));
        let position = view.position;
        let committer = Committer { view: view.clone(), unpublished: VecDeque::new(), room: position };
        Ok(Arc::new(Self {
            mode,
            shared,
            boot,
            process: std::process::id(),
            readers,
            next_table: AtomicU64::new(view.snapshot.catalog().next_table_id.0),
            rolled_back: Mutex::default(),
            left_behind: Mutex::default(),
            budget: OnceLock::new(),
            head: RwLock::new(view),
            committer: TimedMutex::new(committer),
            lock_file,
            sync_lock,
            syncing: Mutex::new(Syncing::new(position)),
            gathered: Condvar::new(),
            durable: AtomicU64::new(durable.0),
            synchronous: Mutex::default(),
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            verifier,
            indexes,
            kept_keys: Mutex::default(),
            upkeep: Upkeep::new(),
            store,
        }))
    }

    pub fn path(&self) -> Option<&Path> {
        self.store.path()
    }

    /// Ends the use of the database through this handle; snapshots and results stay readable.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.upkeep.stop();
    }

    pub fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }

    pub fn synchronous(&self) -> Synchronous {
        *self.synchronous.lock()
    }

    pub fn set_synchronous(&self, synchronous: Synchronous) {
        *self.synchronous.lock() = synchronous;
    }

    /// Whether indexes are built that queries have wished for and nobody has declared.
    pub fn has_automatic_indexes(&self) -> bool {
        self.indexes.is_automatic()
    }

    pub fn set_automatic_indexes(&self, automatic: bool) {
        self.indexes.set_automatic(automatic);
    }

    /// [`Self::snapshot`] for its definitions and for appending: its files may be removed at any time.
    pub fn unpinned_snapshot(&self) -> Result<Arc<Snapshot>> {
        self.check_process()?;
        Ok(self.refresh()?.snapshot)
    }

    /// What has been committed up to now, by this process or another.
    ///
    /// # Errors
    /// `Corrupt` or `Io` when what others have committed cannot be read; `Closed` in a child of `fork()`.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.check_process()?;
        loop {
            let view = self.refresh()?;
            if let Some(pinned) = self.pinned(&view)? {
                return Ok(pinned);
            }
        }
    }

    /// Pins what was published a moment ago; `None` when files of it may have been removed before. That
    /// others of this process have pinned the same tells nothing: they may have to let go of it.
    fn pinned(&self, view: &View) -> Result<Option<Arc<Snapshot>>> {
        let version = view.snapshot.version();
        let pin = self.readers.pin(version)?;
        // A committer that looked at the pins before this one was there has published by now.
        if self.refresh()?.snapshot.discarded() > version {
            return Ok(None);
        }
        let snapshot = view.snapshot.pinned(Some(pin)).verified_by(self.verifier.clone());
        Ok(Some(Arc::new(snapshot.indexed_by(self.indexes.clone()))))
    }

    /// Whether the directory is the one that this machine has written, and not a copy of it or one
    /// that came from elsewhere. A database in memory is.
    pub fn is_own(&self) -> bool {
        self.verifier.is_own()
    }

    /// Takes a directory that came from elsewhere for this machine's own, now that
    /// [`Snapshot::check`] has found all of it to be sound.
    ///
    /// # Errors
    /// `ReadOnly`, `DiskFull`, `Io`.
    pub fn adopt(&self) -> Result<()> {
        self.check_writable()?;
        if !self.is_own() {
            // Nobody has compared them with the columns.
            crate::index::remove_all(&self.store)?;
        }
        self.verifier.adopt(&self.store)
    }

    /// Waits until all that was handed out unread is verified.
    pub fn wait_for_verification(&self) {
        self.verifier.wait();
    }

    /// Takes in what others have published.
    fn refresh(&self) -> Result<View> {
        let mut tried = None;
        for _ in 0..ATTEMPTS {
            let published = match self.read_shared()? {
                Some(shared) => Position { checkpoint: shared.checkpoint, offset: shared.published },
                None => return Ok(self.head.read().clone()),
            };
            if self.head.read().position >= published {
                return Ok(self.head.read().clone());
            }
            let mut head = self.head.write();
            let before = head.snapshot.clone();
            match advance(&self.store, &mut head, published) {
                Ok(()) => {
                    let view = head.clone();
                    drop(head);
                    self.indexes.prune(view.snapshot.shared_catalog());
                    if !self.is_read_only() {
                        // Who has committed it may be gone before it can remove them.
                        let garbage = garbage(&self.store, &before, &view.snapshot);
                        self.readers.discard(view.snapshot.version(), garbage);
                    }
                    return Ok(view);
                }
                // Something newer has been published meanwhile, and the file removed.
                Err(error)
                    if error.kind() == ErrorKind::NotFound && tried.replace(published) != Some(published) => {
                }
                Err(error) => return Err(lost(error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, "the database changes faster than it can be read"))
    }

    fn read_shared(&self) -> Result<Option<Shared>> {
        Ok(read_shared(&self.store, &self.shared)?.filter(|shared| shared.boot == self.boot))
    }

    fn write_shared(&self, shared: &Shared) -> Result<()> {
        self.shared_file()?.write_at(0, &shared.encode())
    }

    fn shared_file(&self) -> Result<&File> {
        self.shared.get().ok_or_else(|| Error::internal("a writer without shared state"))
    }

    /// # Errors
    /// `Closed` after [`Self::close`].
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed; open it again"));
        }
        Ok(())
    }

    /// # Errors
    /// `Closed` in a child of `fork()`, which shares the locks of its parent.
    pub fn check_process(&self) -> Result<()> {
        if std::process::id() != self.process {
            return Err(Error::new(
                ErrorKind::Closed,
                "the database was opened before fork(); open it again in the child process",
            ));
        }
        Ok(())
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_process()?;
        if self.is_read_only() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the database is open read-only; open it without read_only to write",
            ));
        }
        Ok(())
    }

    /// What one thread of this process works with at a time.
    fn committer(&self, waiting: &mut Waiting) -> Result<TimedMutexGuard<'_, Committer>> {
        loop {
            if let Some(committer) = self.committer.try_lock_until(waiting.next_look()) {
                return Ok(committer);
            }
            waiting.check(|| self.holder(self.lock_file.as_ref()))?;
        }
    }

    fn commit_lock(&self, waiting: &mut Waiting) -> Result<Option<LockFileGuard<'_>>> {
        self.lock_file.as_ref().map(|file| file.lock(waiting)).transpose()
    }

    /// Whom other threads of this process wait for, too.
    fn holder(&self, lock: Option<&LockFile>) -> String {
        let place = self.path().map_or_else(String::new, |path| format!(" of \"{}\"", path.display()));
        let holder = lock.map_or_else(|| "another thread".to_string(), LockFile::holder);
        format!("{holder} has the lock to commit{place}")
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn kept_keys(&self) -> &Mutex<KeptKeys> {
        &self.kept_keys
    }

    pub(crate) fn rolled_back(&self) -> &Mutex<Vec<Weak<AtomicBool>>> {
        &self.rolled_back
    }

    pub(crate) fn left_behind(&self) -> &Mutex<Vec<TableId>> {
        &self.left_behind
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// A table id that nobody else uses, with its directory and the append lock of it.
    pub(crate) fn allocate_table(&self, next: TableId) -> Result<(TableId, Lock)> {
        self.next_table.fetch_max(next.0, Ordering::Relaxed);
        loop {
            let id = TableId(self.next_table.fetch_add(1, Ordering::Relaxed));
            // Who looks for leftovers may have the lock, or may have removed the directory: then another
            // may have taken the id, and have committed before the lock was had.
            if self.store.create_new_directory(&table_directory(id))?
                && let Some(lock) = self.try_append_lock(id)?
                && id >= self.latest()?.catalog().next_table_id
            {
                return Ok((id, lock));
            }
        }
    }

    /// Removes the files of a table that was not committed, unless nobody knows whether it was.
    /// What stays is a leftover that a writer removes when it opens the database.
    pub(crate) fn abandon_table(&self, id: TableId) {
        if !self.failed.load(Ordering::Acquire)
            && let Err(error) = self.store.remove_directory(&table_directory(id), is_table_file)
        {
            tracing::warn!(%error, "the files of a table that was never committed stay behind");
        }
    }

    /// Takes the append lock of a table; `None` when someone has it.
    pub(crate) fn try_append_lock(&self, id: TableId) -> Result<Option<Lock>> {
        let directory = table_directory(id);
        loop {
            // Mostly it is there.
            self.store.create_new_directory(&directory)?;
            match self.store.try_lock(&directory) {
                // It was removed as a leftover.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                locked => return locked,
            }
        }
    }
}

/// Looks whether a directory without a superblock is empty, or has only what [`create_files`]
/// writes before it.
///
/// # Errors
/// `Corrupt` for a database that has lost its superblock; `InvalidInput` for another directory, and
/// for one to read.
fn check_is_unfinished(store: &Store, path: &Path, mode: OpenMode, missing: bool) -> Result<()> {
    let names = store.list("")?;
    let has = |name: &str| names.iter().any(|there| there == name);
    if has(SUPERBLOCK) {
        return Ok(());
    }
    let first = Catalog::default().version;
    let (first_catalog, first_log) = (catalog_name(first), log_name(first));
    let begun = names
        .iter()
        .all(|name| is_unfinished(name) || ["columns", &first_catalog, &first_log].contains(&name.as_str()));
    let is_empty = |file: &str| Ok(!has(file) || store.open(file)?.length()? == 0);
    let is_unfinished =
        begun && is_empty(&first_log)? && (!has("columns") || store.list("columns")?.is_empty());
    if has(MARKER) {
        return Err(Error::invalid_input(format!(
            "\"{}\" has a backup that was not finished; back up to it again",
            path.display()
        )));
    }
    if !is_unfinished && has("columns") && names.iter().any(|name| name.starts_with("catalog-")) {
        return Err(Error::corrupt(format!(
            "the file \"{}\" is missing; restore it from a backup",
            path.join(SUPERBLOCK).display()
        )));
    }
    if mode == OpenMode::ReadOnly || !(missing || is_unfinished) {
        return Err(Error::invalid_input(format!(
            "\"{}\" is not a Hypostyle database: it has no file {SUPERBLOCK}{}",
            path.display(),
            match mode {
                OpenMode::ReadWrite => "; a new database needs a new or empty directory",
                OpenMode::ReadOnly => "",
            }
        )));
    }
    Ok(())
}

fn create_files(store: &Store) -> Result<()> {
    let catalog = Catalog::default();
    // The directory itself may be new.
    store.sync_above()?;
    store.create_directory("columns")?;
    store.create(&log_name(catalog.version))?;
    store.replace(&catalog_name(catalog.version), &catalog.encode_checkpoint()?)?;
    // The superblock comes last: with it, the database exists.
    store.replace(SUPERBLOCK, &Superblock::new(Uuid::new_v4()).encode())
}

pub(crate) fn check_superblock(store: &Store, mode: OpenMode) -> Result<()> {
    let file = store.open(SUPERBLOCK)?;
    let mut bytes = vec![0; (file.length()? as usize).min(SUPERBLOCK_BYTES)];
    file.read_at(0, &mut bytes)?;
    if Superblock::decode(&bytes)?.read_only && mode == OpenMode::ReadWrite {
        return Err(Error::new(
            ErrorKind::Version,
            "a newer Hypostyle wrote this database; this release can only read it: open it with read_only",
        ));
    }
    Ok(())
}

/// The files of one version that the next one does not have.
fn garbage(store: &Arc<Store>, before: &Snapshot, after: &Snapshot) -> Vec<Garbage> {
    let mut garbage = Vec::new();
    for table in before.tables() {
        let id = table.entry().id;
        let Some(kept) = after.table_by_id(id) else {
            garbage.push(Garbage::Table(id));
            continue;
        };
        if Arc::ptr_eq(table, kept) {
            continue;
        }
        for column in &table.entry().columns {
            let now = kept.entry().columns.iter().find(|now| now.id == column.id);
            let first = column.generation.number.0;
            // Generations between were never committed.
            let end = now.map_or(first + 1, |now| now.generation.number.0);
            for number in first..end {
                let files = GenerationFiles::new(store.clone(), id, column.id, Generation(number));
                garbage.push(Garbage::Generation(files));
            }
        }
    }
    garbage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::NewColumn;
    use hypostyle_types::LogicalType;

    #[test]
    fn what_was_removed_is_not_read_because_another_thread_is_about_to_look() {
        let database = Database::in_memory().unwrap();
        let create = |name: &str| {
            let mut transaction = database.begin(1).unwrap();
            let column = NewColumn::new("a", LogicalType::Integer, true);
            let id = transaction.create_table("main", name, vec![column]).unwrap();
            transaction.commit().unwrap();
            id
        };
        let id = create("t");
        let view = database.refresh().unwrap();
        // A commit that takes no files away is no reason to begin anew.
        create("u");
        assert!(database.pinned(&view).unwrap().is_some());
        let mut transaction = database.begin(1).unwrap();
        transaction.drop_table(id).unwrap();
        transaction.commit().unwrap();
        // Another thread has come as far, and has not looked again.
        let _other = database.readers.pin(view.snapshot.version()).unwrap();
        assert!(database.pinned(&view).unwrap().is_none());
        assert!(database.snapshot().unwrap().table_by_id(id).is_none());
    }
}
