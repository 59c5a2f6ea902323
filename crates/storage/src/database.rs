//! Opening a database, publishing its versions to the processes that have it open, recovery and
//! checkpoints (format.md §1, §7, §8).

use crate::column::{GenerationFiles, table_directory};
use crate::leftovers;
use crate::readers::{Garbage, Readers};
use crate::rows::encode_deleted_file;
use crate::snapshot::{Snapshot, State, deleted_file_name};
use crate::table::TableData;
use crate::transaction::{Transaction, finish_columns, open_columns, sync_columns};
use arrow_array::RecordBatch;
use hypostyle_format::{
    Catalog, Change, Commit, DeletedEntry, LogReader, SHARED_BYTES, SUPERBLOCK_BYTES, Shared, Superblock,
};
use hypostyle_io::{File, Lock, LockFile, LockFileGuard, Observer, Store, boot_id};
use hypostyle_types::{Error, ErrorKind, Generation, Result, TableId, Version};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

pub(crate) const SUPERBLOCK: &str = "HYPOSTYLE";
pub(crate) const SHARED: &str = "shared";

/// A log longer than this is folded into a checkpoint.
const LOG_BYTES_MAX: u64 = 2 << 20;

/// The log grows by this many zero bytes at a time: overwriting them makes a sync cheaper than growing
/// the file does.
const LOG_ROOM: u64 = 256 << 10;

/// Syncs of other processes that one waits for in the hope that they serve it, before it queues for its own.
const TURNS_OF_OTHERS: usize = 4;

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
    /// Watches what happens on disk; for tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl From<OpenMode> for StorageOptions {
    fn from(mode: OpenMode) -> Self {
        Self { mode, allow_network_filesystem: false, observer: None }
    }
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
    committer: Mutex<Committer>,
    /// Locked only by who has `committer`; `None` in memory.
    lock_file: Option<LockFile>,
    /// Locked only by who has the turn to sync; `None` in memory.
    sync_lock: Option<LockFile>,
    syncing: Mutex<Syncing>,
    /// A version that is known to be durable.
    durable: AtomicU64,
    synchronous: Mutex<Synchronous>,
    closed: AtomicBool,
    /// Whether what this process has written is durable, or visible, is not known: it commits no more.
    failed: AtomicBool,
    next_table: AtomicU64,
}

/// When a commit is for readers to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visible {
    /// When it is durable, or at once if it need not be.
    WhenDone,
    /// With what comes behind it in the log, be it a checkpoint.
    WithNext,
}

/// A place in the log of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    checkpoint: Version,
    offset: u64,
}

/// How far this process knows the log to be durable and published.
#[derive(Debug)]
struct Syncing {
    reached: Position,
    /// A thread has the turn, or waits for other processes to end theirs.
    has_turn: bool,
    /// Who waits for the turn to end: each is woken once, when it is served or next.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    position: Position,
    woken: Arc<Condvar>,
}

/// The turn to sync the log, of one thread in all processes. Those that wait for it find, most often, that another
/// has synced what they have written.
struct SyncTurn<'a> {
    database: &'a Database,
    lock: Option<LockFileGuard<'a>>,
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        // First, because the next thread of this process takes it by the same descriptor.
        self.lock = None;
        let mut syncing = self.database.syncing.lock();
        syncing.has_turn = false;
        let next = syncing.waiting.pop_front();
        drop(syncing);
        if let Some(Waiting { woken, .. }) = next {
            woken.notify_one();
        }
    }
}

impl SyncTurn<'_> {
    /// Tells how far the log is durable.
    fn tell(&self, reached: Position) {
        let mut syncing = self.database.syncing.lock();
        syncing.reached = reached;
        let (served, waiting): (VecDeque<_>, VecDeque<_>) =
            syncing.waiting.drain(..).partition(|waiting| waiting.position <= reached);
        syncing.waiting = waiting;
        drop(syncing);
        for Waiting { woken, .. } in served {
            woken.notify_one();
        }
    }
}

impl Position {
    /// Of a log that a checkpoint has left behind, everything is durable.
    fn durable(shared: &Shared) -> Self {
        Self { checkpoint: shared.checkpoint, offset: shared.synced }
    }
}

/// A state, and the place in the log that it comes from.
#[derive(Clone, Debug)]
struct View {
    snapshot: Arc<Snapshot>,
    log: Option<File>,
    position: Position,
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
        Self::recover(store, OpenMode::ReadWrite)
    }

    /// Opens a directory; in read-write mode, one that is missing or empty becomes a new database.
    ///
    /// # Errors
    /// `NotFound` when there is none to read; `InvalidInput` when it is not a database; `Version`,
    /// `Corrupt`, `Unsupported` on a network file system, `Io`.
    pub fn open(path: &Path, options: impl Into<StorageOptions>) -> Result<Arc<Self>> {
        let StorageOptions { mode, allow_network_filesystem, observer } = options.into();
        let store = Store::directory(path, mode == OpenMode::ReadOnly).observed(observer);
        let missing = match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && mode == OpenMode::ReadWrite => {
                store.create_directory("")?;
                true
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
            Ok(_) => false,
        };
        if let Some(kind) = store.network_file_system().filter(|_| !allow_network_filesystem) {
            return Err(Error::unsupported(format!(
                "\"{}\" is on a network file system ({kind}), whose locks and mappings cannot be relied on; \
                 copy the database to a local disk, or set allow_network_filesystem at your own risk",
                path.display()
            )));
        }
        let names = store.list("")?;
        if !names.iter().any(|name| name == SUPERBLOCK) {
            let unfinished = |name: &String| {
                name.ends_with(".new")
                    || ["catalog-", "log-"].iter().any(|prefix| name.starts_with(prefix))
                    || ["columns", SHARED, "readers"].contains(&name.as_str())
            };
            if mode == OpenMode::ReadOnly || !(missing || names.iter().all(unfinished)) {
                return Err(Error::invalid_input(format!(
                    "\"{}\" is not a Hypostyle database: it has no file {SUPERBLOCK}{}",
                    path.display(),
                    match mode {
                        OpenMode::ReadWrite => "; a new database needs a new or empty directory",
                        OpenMode::ReadOnly => "",
                    }
                )));
            }
            // Of several that find none, the first makes it.
            let making = store.lock_file("")?;
            let _lock = making.as_ref().map(LockFile::lock).transpose()?;
            if !store.list("")?.iter().any(|name| name == SUPERBLOCK) {
                create_files(&store)?;
            }
        }
        Self::recover(store, mode).map_err(|error| error.context(format!("database \"{}\"", path.display())))
    }

    fn recover(store: Store, mode: OpenMode) -> Result<Arc<Self>> {
        check_superblock(&store, mode)?;
        let store = Arc::new(store);
        let boot = boot_id();
        let writable = mode == OpenMode::ReadWrite;
        let shared = OnceLock::new();
        let (mut lock_file, mut sync_lock) = (None, None);
        if writable {
            let _empty = shared.set(store.open_or_create(SHARED)?);
            lock_file = store.lock_file(SHARED)?;
            sync_lock = store.lock_file(SUPERBLOCK)?;
        }
        let readers = Readers::register(&store, writable)?;
        let (view, durable) = match lock_file.as_ref() {
            _ if !writable => (view_of_reader(&store, &shared, boot)?, Version(0)),
            lock_file => {
                let _lock = lock_file.map(LockFile::lock).transpose()?;
                recover_as_writer(&store, &shared, boot, &readers)?
            }
        };
        let position = view.position;
        let committer = Committer { view: view.clone(), unpublished: VecDeque::new(), room: position };
        Ok(Arc::new(Self {
            mode,
            shared,
            boot,
            process: std::process::id(),
            readers,
            next_table: AtomicU64::new(view.snapshot.catalog().next_table_id.0),
            head: RwLock::new(view),
            committer: Mutex::new(committer),
            lock_file,
            sync_lock,
            syncing: Mutex::new(Syncing { reached: position, has_turn: false, waiting: VecDeque::new() }),
            durable: AtomicU64::new(durable.0),
            synchronous: Mutex::default(),
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            store,
        }))
    }

    pub fn path(&self) -> Option<&Path> {
        self.store.path()
    }

    /// Ends the use of the database through this handle; snapshots and results stay readable.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
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
            let (pin, first) = self.readers.pin(view.snapshot.version())?;
            // A committer that looked at the pins before this one was there has published by now.
            if !first || self.refresh()?.position == view.position {
                return Ok(Arc::new(view.snapshot.pinned(Some(pin))));
            }
        }
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
        let file = self.shared.get().ok_or_else(|| Error::internal("a writer without shared state"))?;
        file.write_at(0, &shared.encode())
    }

    /// Begins a transaction that reads what is committed now.
    ///
    /// # Errors
    /// As [`Self::snapshot`]; `Closed` after [`Self::close`].
    pub fn begin(self: &Arc<Self>, threads: usize) -> Result<Transaction> {
        self.begin_at(self.snapshot()?, threads)
    }

    /// Begins a transaction that reads a snapshot of this database.
    ///
    /// # Errors
    /// `Closed` after [`Self::close`].
    pub fn begin_at(self: &Arc<Self>, snapshot: Arc<Snapshot>, threads: usize) -> Result<Transaction> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is closed; open it again"));
        }
        Ok(Transaction::new(self.clone(), snapshot, threads))
    }

    /// # Errors
    /// `Closed` in a child of `fork()`, which shares the locks of its parent.
    pub(crate) fn check_process(&self) -> Result<()> {
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

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// A table id that nobody else uses, with its directory and the append lock of it.
    pub(crate) fn allocate_table(&self, next: TableId) -> Result<(TableId, Lock)> {
        self.next_table.fetch_max(next.0, Ordering::Relaxed);
        loop {
            let id = TableId(self.next_table.fetch_add(1, Ordering::Relaxed));
            // Who looks for leftovers may have the lock.
            if self.store.create_new_directory(&table_directory(id))?
                && let Some(lock) = self.try_append_lock(id)?
            {
                return Ok((id, lock));
            }
        }
    }

    /// Removes the files of a table that was not committed, unless nobody knows whether it was. What stays is a
    /// leftover that a writer removes when it opens the database.
    pub(crate) fn abandon_table(&self, id: TableId) {
        if !self.failed.load(Ordering::Acquire)
            && let Err(error) = self.store.remove_directory(&table_directory(id))
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

    fn commit_lock(&self) -> Result<Option<LockFileGuard<'_>>> {
        self.lock_file.as_ref().map(LockFile::lock).transpose()
    }

    /// Everything that has been written, published or not; for who holds an append lock.
    pub(crate) fn latest(&self) -> Result<Arc<Snapshot>> {
        let mut committer = self.committer.lock();
        let _lock = self.commit_lock()?;
        self.catch_up(&mut committer.view)?;
        Ok(committer.view.snapshot.clone())
    }

    /// Takes in everything that is written; under the commit lock.
    fn catch_up(&self, view: &mut View) -> Result<Shared> {
        let shared = self.read_shared()?.ok_or_else(shared_is_damaged)?;
        if shared.sync_failed || self.failed.load(Ordering::Acquire) {
            return Err(refused());
        }
        // What readers have taken in need not be read again.
        let head = self.head.read();
        if head.position > view.position {
            *view = head.clone();
        }
        drop(head);
        advance(&self.store, view, Position { checkpoint: shared.checkpoint, offset: shared.written })?;
        // A process that was killed while it wrote a frame has written its beginning, or even all of it. Nobody
        // may overwrite column files that it names as long as it may come back after a restart.
        let log = view.log()?;
        let mut next = [0; 8];
        if log.read_up_to(shared.written, &mut next)? > 0 && next != [0; 8] {
            clear_unfinished(log, shared.written).inspect_err(|_| self.refuse_commits())?;
        }
        Ok(shared)
    }

    /// Commits what `build` makes of the latest state, with the rows of its inserts; it runs while nobody else can
    /// commit. Returns the version of this commit: others may have been published by then.
    ///
    /// # Errors
    /// Those of `build`; `DiskFull` or `Io`: nothing is then visible, now or after reopening. But when it is
    /// not known what is durable, and the machine restarts, the commit may be there, whole.
    pub(crate) fn commit_with(
        &self,
        build: impl FnOnce(&Snapshot) -> Result<(Commit, Vec<RecordBatch>)>,
    ) -> Result<Arc<Snapshot>> {
        self.check_writable()?;
        let written = {
            let mut committer = self.committer.lock();
            let _lock = self.commit_lock()?;
            let mut shared = self.catch_up(&mut committer.view)?;
            match build(&committer.view.snapshot) {
                Ok((commit, inserted)) => {
                    let visible = Visible::WhenDone;
                    let (garbage, waits) =
                        self.write_commit(&mut committer, &mut shared, commit, inserted, visible)?;
                    Ok((committer.view.clone(), garbage, waits))
                }
                Err(error) => {
                    let is_hidden = shared.published < shared.written;
                    Err((error, is_hidden.then(|| committer.view.clone())))
                }
            }
        };
        let (view, garbage, waits) = match written {
            Ok(written) => written,
            Err((error, hidden)) => {
                // Who tries again must see what this one conflicts with; its writer may be slow, or gone.
                if let Some(view) = hidden.filter(|_| error.kind() == ErrorKind::Conflict) {
                    self.make_durable(&view)?;
                }
                return Err(error);
            }
        };
        if waits {
            self.make_durable(&view)?;
        }
        let View { snapshot, position, .. } = view;
        self.readers.discard(snapshot.version(), garbage);
        if position.offset > LOG_BYTES_MAX {
            // The commit is durable whatever becomes of the checkpoint.
            if let Err(error) = self.checkpoint_log(position.checkpoint) {
                tracing::warn!(%error, "the checkpoint is put off");
            }
        }
        Ok(snapshot)
    }

    /// Writes a change that nobody waits for: it becomes durable and visible with the next commit, whose frame comes
    /// behind it in the log.
    ///
    /// # Errors
    /// Those of `build`; `DiskFull` or `Io`: the change is then not made.
    pub(crate) fn log_change(&self, build: impl FnOnce(&Catalog) -> Result<Change>) -> Result<()> {
        self.check_writable()?;
        let mut committer = self.committer.lock();
        let position = {
            let _lock = self.commit_lock()?;
            let mut shared = self.catch_up(&mut committer.view)?;
            let changes = vec![build(committer.view.snapshot.catalog())?];
            let commit = Commit { changes, ..Commit::default() };
            self.write_commit(&mut committer, &mut shared, commit, Vec::new(), Visible::WithNext)?;
            // Who publishes it reads it in the log: there may be many of them before a commit.
            committer.unpublished.pop_back();
            committer.view.position
        };
        drop(committer);
        if position.offset > LOG_BYTES_MAX
            && let Err(error) = self.checkpoint()
        {
            tracing::warn!(%error, "the checkpoint is put off");
        }
        Ok(())
    }

    /// Writes a commit at the end of the log, under the commit lock, and publishes it unless it must be durable first.
    /// The files that it makes superfluous, and whether it must.
    fn write_commit(
        &self,
        committer: &mut Committer,
        shared: &mut Shared,
        mut commit: Commit,
        inserted: Vec<RecordBatch>,
        visible: Visible,
    ) -> Result<(Vec<Garbage>, bool)> {
        commit.durable = Version(self.durable.load(Ordering::Acquire)).max(shared.checkpoint);
        let before = committer.view.snapshot.clone();
        let mut state = before.state();
        state.apply(&commit, inserted)?;
        let version = state.catalog.version;
        let snapshot = Arc::new(Snapshot::new(&self.store, &state, Some(&before)));
        let mut frame = commit.encode(version)?;
        let frame_bytes = frame.len() as u64;
        let log = committer.view.log()?.clone();
        let end = shared.written;
        let needed = Position { checkpoint: shared.checkpoint, offset: end + frame_bytes };
        if committer.room.checkpoint != needed.checkpoint || committer.room < needed {
            committer.room = Position { offset: log.length()?, ..needed };
        }
        if committer.room < needed {
            let room = needed.offset.next_multiple_of(LOG_ROOM);
            frame.resize((room - end) as usize, 0);
            committer.room.offset = room;
        }
        let garbage = garbage(&self.store, &before, &snapshot);
        shared.written = needed.offset;
        let mut waits = false;
        if visible == Visible::WhenDone {
            // A commit that is lost must not have taken files with it; and what follows one that may still fail is
            // visible after it.
            waits = self.store.path().is_some()
                && (self.synchronous() == Synchronous::Full || !garbage.is_empty() || shared.commit_waits);
            match waits {
                true => shared.commit_waits = true,
                false => shared.published = shared.written,
            }
        }
        if let Err(error) = log.write_at(end, &frame).and_then(|()| self.write_shared(shared)) {
            committer.room.offset = end;
            // What there is of the frame must never become a commit.
            if clear_unfinished(&log, end).is_err() {
                self.refuse_commits();
            }
            return Err(error);
        }
        committer.view = View { snapshot, log: Some(log), position: needed };
        committer.unpublished.push_back(committer.view.clone());
        self.take_in(committer, Position { offset: shared.published, ..needed });
        Ok((garbage, waits))
    }

    /// Waits until the log is durable and published up to a view's position. One syncs for all who have written by
    /// then, also in other processes.
    fn make_durable(&self, view: &View) -> Result<()> {
        if let Some(turn) = self.turn_to_sync(view.position)? {
            // Told before the next one has its turn: a second sync would succeed, and say nothing of what the first
            // one has lost.
            let reached = self.sync_log(view).inspect_err(|_| {
                let _committer = self.committer.lock();
                let _lock = self.commit_lock();
                self.refuse_commits();
            })?;
            turn.tell(reached);
        }
        self.durable.fetch_max(view.snapshot.version().0, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the log durable and publishes it, unless another process has done so; how far.
    fn sync_log(&self, view: &View) -> Result<Position> {
        let shared = self.read_shared()?.ok_or_else(shared_is_damaged)?;
        let known = Position::durable(&shared);
        if known >= view.position {
            self.take_in(&mut self.committer.lock(), known);
            return Ok(known);
        }
        if shared.sync_failed || self.failed.load(Ordering::Acquire) {
            return Err(refused());
        }
        view.log()?.sync().inspect_err(|_| self.failed.store(true, Ordering::Release))?;
        let reached = Position { offset: shared.written, ..known };
        self.publish(reached)?;
        Ok(reached)
    }

    /// `None` when the log is durable up to a position, by then.
    fn turn_to_sync(&self, position: Position) -> Result<Option<SyncTurn<'_>>> {
        let mut syncing = self.syncing.lock();
        while syncing.has_turn && syncing.reached < position {
            let woken = Arc::new(Condvar::new());
            syncing.waiting.push_back(Waiting { position, woken: woken.clone() });
            woken.wait(&mut syncing);
        }
        if syncing.reached >= position {
            return Ok(None);
        }
        syncing.has_turn = true;
        drop(syncing);
        let mut turn = SyncTurn { database: self, lock: None };
        turn.lock = self.lock_turn(position)?;
        Ok(Some(turn))
    }

    /// Keeps other processes out of the turn; `None` when one of them has made the log durable up to the position.
    fn lock_turn(&self, position: Position) -> Result<Option<LockFileGuard<'_>>> {
        let Some(file) = &self.sync_lock else { return Ok(None) };
        for _ in 0..TURNS_OF_OTHERS {
            if let Some(lock) = file.try_lock()? {
                return Ok(Some(lock));
            }
            file.wait()?;
            if Position::durable(&self.read_shared()?.ok_or_else(shared_is_damaged)?) >= position {
                return Ok(None);
            }
        }
        file.lock().map(Some)
    }

    /// Nobody may commit until all have closed the database (format.md §7 rule 5); under the commit lock.
    fn refuse_commits(&self) {
        self.failed.store(true, Ordering::Release);
        let told = self.read_shared().and_then(|shared| match shared {
            Some(shared) => self.write_shared(&Shared { sync_failed: true, ..shared }),
            None => Err(shared_is_damaged()),
        });
        if let Err(error) = told {
            tracing::error!(%error, "the failure of a commit could not be told to other processes");
        }
    }

    /// Lets readers take in the log up to a position, up to which it is durable.
    fn publish(&self, position: Position) -> Result<()> {
        let mut committer = self.committer.lock();
        let _lock = self.commit_lock()?;
        let mut shared = self.read_shared()?.ok_or_else(shared_is_damaged)?;
        // Something before it may be lost.
        if shared.sync_failed {
            return Err(refused());
        }
        shared.synced = position.offset;
        shared.published = shared.published.max(position.offset);
        shared.commit_waits &= shared.published < shared.written;
        self.write_shared(&shared)?;
        self.take_in(&mut committer, position);
        Ok(())
    }

    /// Takes in own versions, which are published.
    fn take_in(&self, committer: &mut Committer, published: Position) {
        while let Some(view) = committer.unpublished.pop_front_if(|view| view.position <= published) {
            let mut head = self.head.write();
            if head.position < view.position {
                *head = view;
            }
        }
    }

    /// Puts the log into the column files and a new catalog file, and removes what processes that are gone have left.
    /// False when another transaction is writing the files of a table with rows in the log: the next checkpoint tries
    /// again.
    ///
    /// # Errors
    /// `DiskFull` or `Io`; the database is then as it was.
    pub fn checkpoint(&self) -> Result<bool> {
        self.check_writable()?;
        self.checkpoint_log(Version(u64::MAX))
    }

    /// [`Self::checkpoint`], unless another one has left the log behind: all that find it too long come here.
    fn checkpoint_log(&self, log: Version) -> Result<bool> {
        let is_done = self.write_checkpoint(log)?;
        if let Err(error) = self.remove_leftovers() {
            tracing::warn!(%error, "superfluous files stay behind");
        }
        Ok(is_done)
    }

    fn write_checkpoint(&self, log: Version) -> Result<bool> {
        // A commit whose sync is under way would be published here, although that may fail.
        let end = Position { checkpoint: log, offset: u64::MAX };
        let Some(turn) = self.turn_to_sync(end)? else { return Ok(true) };
        let mut committer = self.committer.lock();
        let _lock = self.commit_lock()?;
        let mut shared = self.catch_up(&mut committer.view)?;
        if shared.written == 0 || shared.checkpoint > log {
            return Ok(true);
        }
        let before = committer.view.snapshot.clone();
        let mut append_locks = Vec::new();
        let mut commit = Commit::default();
        for table in before.tables().filter(|table| table.beyond_files().tail.rows() > 0) {
            let id = table.entry().id;
            match self.try_append_lock(id)? {
                Some(lock) => append_locks.push(lock),
                None => return Ok(false),
            }
            let absorbed = self.write_tail(table);
            let name = &table.entry().name;
            commit.changes.push(absorbed.map_err(|error| error.context(format!("table \"{name}\"")))?);
        }
        let garbage = match commit.changes.is_empty() {
            true => Vec::new(),
            false => {
                let visible = Visible::WithNext;
                self.write_commit(&mut committer, &mut shared, commit, Vec::new(), visible)?.0
            }
        };
        committer.view.log()?.sync().inspect_err(|_| self.refuse_commits())?;
        let state = committer.view.snapshot.state();
        let version = state.catalog.version;
        let (mut state, stale) = self.write_deleted_files(state)?;
        for table in &mut Arc::make_mut(&mut state.catalog).tables {
            let deleted = state.rows.get(&table.id).and_then(|rows| rows.deleted_file);
            if table.deleted != deleted {
                Arc::make_mut(table).deleted = deleted;
            }
        }
        let log = self.store.create(&log_name(version))?;
        self.store.replace(&catalog_name(version), &state.catalog.encode_checkpoint()?)?;
        let position = Position { checkpoint: version, offset: 0 };
        self.write_shared(&Shared {
            checkpoint: version,
            written: 0,
            published: 0,
            synced: 0,
            commit_waits: false,
            ..shared
        })?;
        let snapshot = Arc::new(Snapshot::new(&self.store, &state, Some(&committer.view.snapshot)));
        committer.view = View { snapshot, log: Some(log), position };
        committer.unpublished.clear();
        *self.head.write() = committer.view.clone();
        turn.tell(position);
        self.durable.fetch_max(version.0, Ordering::AcqRel);
        // What stays is a leftover that a writer removes when it opens the database.
        let stale = stale.iter().try_for_each(|name| self.store.remove(name));
        if let Err(error) = stale.and_then(|()| remove_old_checkpoints(&self.store, version)) {
            tracing::warn!(%error, "files of an older checkpoint stay behind");
        }
        self.readers.discard(version, garbage);
        Ok(true)
    }

    /// Puts the rows that only the log has of a table behind those of its column files, durably.
    fn write_tail(&self, table: &TableData) -> Result<Change> {
        let (entry, tail) = (table.entry(), &table.beyond_files().tail);
        let mut columns = open_columns(&self.store, entry)?;
        for batch in tail.batches() {
            for (column, array) in columns.iter_mut().zip(batch.columns()) {
                column.append(array)?;
            }
        }
        let generations = finish_columns(&mut columns, entry)?;
        sync_columns(&self.store, entry.id, &columns)?;
        let (rows, absorbed) = (table.rows_in_files() + tail.rows(), tail.rows());
        Ok(Change::Append { id: entry.id, rows, absorbed, generations })
    }

    /// Gives every table whose deleted rows are in no file one; the state with them, and the files that
    /// they stand for.
    fn write_deleted_files(&self, mut state: State) -> Result<(State, Vec<String>)> {
        let version = state.catalog.version;
        let mut stale = Vec::new();
        for (id, rows) in &mut state.rows {
            let had_file = state.catalog.table_by_id(*id).is_some_and(|table| table.deleted.is_some());
            if rows.deleted.is_empty() && !had_file {
                continue;
            }
            let directory = table_directory(*id);
            let files = self.store.list(&directory)?.into_iter().map(|file| format!("{directory}/{file}"));
            let mut old: Vec<String> =
                files.filter(|file| file.starts_with(&format!("{directory}/deleted-"))).collect();
            // A checkpoint of another process may have replaced the file that this one knows.
            let known = rows.deleted_file.map(|file| deleted_file_name(*id, file.version));
            if known.is_some_and(|known| old.contains(&known)) {
                continue;
            }
            if rows.deleted.is_empty() {
                stale.append(&mut old);
                continue;
            }
            let name = deleted_file_name(*id, version);
            // A checkpoint of this version that was not finished has left it.
            old.retain(|file| *file != name);
            stale.append(&mut old);
            let file = self.store.create(&name)?;
            file.write_at(0, &encode_deleted_file(&rows.deleted)?)?;
            file.sync()?;
            self.store.sync_directory(&directory)?;
            rows.deleted_file = Some(DeletedEntry { version, rows: rows.deleted.len() });
        }
        Ok((state, stale))
    }
}

impl View {
    fn log(&self) -> Result<&File> {
        self.log.as_ref().ok_or_else(|| Error::internal("a writer without a log"))
    }
}

fn refused() -> Error {
    Error::new(
        ErrorKind::Io,
        "an earlier commit could not be made durable; close the database in every process and open it again",
    )
}

/// The error for a file that is missing although nobody may have removed it.
pub(crate) fn lost(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::corrupt(format!("{}; restore it from a backup", error.message())),
        _ => error,
    }
}

fn shared_is_damaged() -> Error {
    Error::corrupt(
        "the file \"shared\" was damaged while the database is open; close the database everywhere",
    )
}

fn create_files(store: &Store) -> Result<()> {
    let catalog = Catalog::default();
    // The directory itself may be new.
    store.sync_directory("..")?;
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

/// `None` when there is no whole one, after some patience with a process that is writing it.
fn read_shared(store: &Store, shared: &OnceLock<File>) -> Result<Option<Shared>> {
    let file = match shared.get() {
        Some(file) => file,
        None => match store.open(SHARED) {
            Ok(file) => shared.get_or_init(|| file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; SHARED_BYTES];
        if file.read_up_to(0, &mut bytes)? < SHARED_BYTES {
            return Ok(None);
        }
        if let Some(shared) = Shared::decode(&bytes) {
            return Ok(Some(shared));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// The checkpoint whose log is in use, as who opens the database now finds it, and how much of the log is published.
pub(crate) fn checkpoint_in_use(store: &Store) -> Result<(Version, Option<u64>)> {
    let boot = boot_id();
    let known = read_shared(store, &OnceLock::new())?.filter(|shared| shared.boot == boot);
    if let Some(shared) = known {
        return Ok((shared.checkpoint, Some(shared.published)));
    }
    let versions = store.list("")?.into_iter().filter_map(|name| name.strip_prefix("catalog-")?.parse().ok());
    let newest = versions.max().ok_or_else(|| Error::corrupt("the catalog is missing"))?;
    Ok((Version(newest), None))
}

/// Looks whether all frames of a log are whole.
pub(crate) fn check_log(store: &Store, checkpoint: Version, end: Option<u64>) -> Result<()> {
    let log = match store.open(&log_name(checkpoint)) {
        Err(error) if error.kind() == ErrorKind::NotFound && end.unwrap_or(0) == 0 => return Ok(()),
        log => log.map_err(lost)?,
    };
    let mut bytes = log.read_all()?;
    bytes.truncate(end.unwrap_or(u64::MAX) as usize);
    let mut reader = LogReader::new(&bytes, checkpoint);
    while reader.next_commit()?.is_some() {}
    match end {
        Some(end) if end != reader.offset() as u64 => Err(Error::corrupt(format!(
            "the log is damaged at byte {}: {end} bytes of it were committed; restore it from a backup",
            reader.offset()
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn read_catalog(store: &Store, checkpoint: Version) -> Result<Catalog> {
    let name = catalog_name(checkpoint);
    Catalog::decode_checkpoint(&store.open(&name)?.read_all()?)
        .map_err(|error| error.context(format!("file \"{name}\"")))
}

/// The view of a checkpoint and its log, up to an offset or as far as it is whole.
fn load(store: &Arc<Store>, checkpoint: Version, end: Option<u64>) -> Result<View> {
    let (state, incomplete) = State::of_checkpoint(store, read_catalog(store, checkpoint)?)?;
    let log = match store.open(&log_name(checkpoint)) {
        Ok(log) => Some(log),
        Err(error) if error.kind() == ErrorKind::NotFound && end.unwrap_or(0) == 0 => None,
        Err(error) => return Err(error),
    };
    let snapshot = Arc::new(Snapshot::new(store, &state, None));
    let mut view = View { snapshot, log, position: Position { checkpoint, offset: 0 } };
    read_on(store, &mut view, end)?;
    let exists = |id| view.snapshot.table_by_id(id).is_some();
    match incomplete.into_iter().find(|(id, _)| exists(*id)) {
        Some((_, error)) => Err(error),
        None => Ok(view),
    }
}

/// Applies the commits of the log from where the view is.
fn read_on(store: &Arc<Store>, view: &mut View, end: Option<u64>) -> Result<()> {
    let Some(log) = &view.log else { return Ok(()) };
    let start = view.position.offset;
    let end_of_file = log.length()?;
    let until = end.unwrap_or(end_of_file);
    if until == start {
        return Ok(());
    }
    if until > end_of_file {
        return Err(Error::corrupt(format!("the log ends before byte {until}")));
    }
    let mut bytes = vec![0; until.saturating_sub(start) as usize];
    log.read_at(start, &mut bytes)?;
    let mut state = view.snapshot.state();
    let mut reader = LogReader::new(&bytes, state.catalog.version);
    while let Some(commit) = reader.next_commit()? {
        let version = state.catalog.version.next();
        state.apply(&commit, Vec::new()).map_err(|error| error.context(format!("version {version}")))?;
    }
    let reached = start + reader.offset() as u64;
    if end.is_some_and(|end| end != reached) {
        return Err(Error::corrupt(format!("the log ends at byte {reached} instead of {until}")));
    }
    view.snapshot = Arc::new(Snapshot::new(store, &state, Some(&view.snapshot)));
    view.position.offset = reached;
    Ok(())
}

/// Brings a view to a position that another process, or another part of this one, has reached.
///
/// # Errors
/// `NotFound` when a checkpoint has removed the log meanwhile.
fn advance(store: &Arc<Store>, view: &mut View, target: Position) -> Result<()> {
    if view.position >= target {
        return Ok(());
    }
    if view.log.is_none() {
        // A writer has made the one that was missing; and removed it, if it went on to another checkpoint.
        view.log = match store.open(&log_name(view.position.checkpoint)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
    }
    if view.position.checkpoint != target.checkpoint {
        // The old log leads to the new checkpoint, unless there was another one between.
        let mut old = view.clone();
        read_on(store, &mut old, None)?;
        if old.snapshot.version() != target.checkpoint {
            let loaded = load(store, target.checkpoint, Some(target.offset))?;
            let mut state = loaded.snapshot.state();
            state.remember(&view.snapshot, target.checkpoint);
            *view = View { snapshot: Arc::new(Snapshot::new(store, &state, Some(&view.snapshot))), ..loaded };
            return Ok(());
        }
        let state = old.snapshot.state().at_checkpoint(read_catalog(store, target.checkpoint)?);
        *view = View {
            snapshot: Arc::new(Snapshot::new(store, &state, Some(&old.snapshot))),
            log: Some(store.open(&log_name(target.checkpoint))?),
            position: Position { checkpoint: target.checkpoint, offset: 0 },
        };
    }
    read_on(store, view, Some(target.offset))
}

fn view_of_reader(store: &Arc<Store>, shared: &OnceLock<File>, boot: [u8; 16]) -> Result<View> {
    let mut tried = None;
    for _ in 0..ATTEMPTS {
        let known = read_shared(store, shared)?.filter(|shared| shared.boot == boot);
        let published = known.map(|shared| (shared.checkpoint, shared.published));
        let view = match published {
            Some((checkpoint, published)) => load(store, checkpoint, Some(published)),
            None => load_newest(store),
        };
        match view {
            // Something newer has been published meanwhile, and the file removed.
            Err(error)
                if error.kind() == ErrorKind::NotFound && tried.replace(published) != Some(published) => {}
            view => return view.map_err(lost),
        }
    }
    Err(Error::new(ErrorKind::Busy, "the database changes faster than it can be read"))
}

/// Opens the log for writing, under the commit lock. Also the version that is known to be durable.
fn recover_as_writer(
    store: &Arc<Store>,
    shared: &OnceLock<File>,
    boot: [u8; 16],
    readers: &Readers,
) -> Result<(View, Version)> {
    let alone = readers.alone()?;
    let known = read_shared(store, shared)?.filter(|shared| shared.boot == boot);
    let view = match known {
        // What was not published when a sync failed may or may not be on the disk.
        Some(shared) if !alone || shared.sync_failed => {
            load(store, shared.checkpoint, Some(shared.published))
        }
        Some(shared) => load(store, shared.checkpoint, Some(shared.written)),
        None => load_newest(store),
    };
    let mut view = view.map_err(lost)?;
    if let Some(shared) = known.filter(|_| !alone) {
        // What the others have published need not be durable.
        return Ok((view, shared.checkpoint));
    }
    let checkpoint = view.position.checkpoint;
    let log = match view.log.take() {
        Some(log) => log,
        None => store.create(&log_name(checkpoint))?,
    };
    let end = view.position.offset;
    clear_unfinished(&log, end)?;
    log.sync()?;
    store.sync_directory("")?;
    view.log = Some(log);
    let file = shared.get().ok_or_else(|| Error::internal("a writer without shared state"))?;
    let (written, published, synced) = (end, end, end);
    let told =
        Shared { checkpoint, written, published, synced, sync_failed: false, commit_waits: false, boot };
    file.write_at(0, &told.encode())?;
    if alone {
        leftovers::remove_all(store, checkpoint, view.snapshot.catalog())?;
    }
    let durable = view.snapshot.version();
    Ok((view, durable))
}

/// Puts zeros behind the end of the log, durably: what is left of commits that were not finished must never be
/// taken for one that follows.
fn clear_unfinished(log: &File, end: u64) -> Result<()> {
    let mut rest = vec![0; log.length()?.saturating_sub(end) as usize];
    log.read_at(end, &mut rest)?;
    if rest.iter().any(|byte| *byte != 0) {
        rest.fill(0);
        log.write_at(end, &rest)?;
        log.sync()?;
    }
    Ok(())
}

/// The checkpoint whose log leads furthest, the newer of two that lead as far: who wrote the newest may have died
/// before others knew, and they went on with the log of the one before (format.md §7 rule 3).
fn load_newest(store: &Arc<Store>) -> Result<View> {
    let names = store.list("")?;
    let mut checkpoints: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix("catalog-")?.parse().ok()).collect();
    checkpoints.sort();
    let mut newest: Option<View> = None;
    let mut missing = Error::corrupt("the catalog is missing");
    for checkpoint in checkpoints {
        match load(store, Version(checkpoint), None) {
            Ok(view) => {
                let behind = |newest: &View| newest.snapshot.version() > view.snapshot.version();
                if !newest.as_ref().is_some_and(behind) {
                    newest = Some(view);
                }
            }
            // One that is not in use may have lost files.
            Err(error) if error.kind() == ErrorKind::NotFound => missing = error,
            Err(error) => return Err(error),
        }
    }
    newest.ok_or(missing)
}

pub(crate) fn catalog_name(version: Version) -> String {
    format!("catalog-{:020}", version.0)
}

pub(crate) fn log_name(version: Version) -> String {
    format!("log-{:020}", version.0)
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

pub(crate) fn remove_old_checkpoints(store: &Store, newest: Version) -> Result<()> {
    for name in store.list("")? {
        let old = ["catalog-", "log-"].iter().any(|prefix| {
            let number = name.strip_prefix(prefix).and_then(|number| number.parse().ok());
            number.is_some_and(|number: u64| number != newest.0)
        });
        if old {
            store.remove(&name)?;
        }
    }
    Ok(())
}
