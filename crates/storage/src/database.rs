//! Opening a database, its published snapshot, recovery and checkpoints (format.md §1, §7).

use crate::column::{check_shape, committed_files};
use crate::table::TableData;
use crate::transaction::WriteTransaction;
use hypostyle_format::{Catalog, SUPERBLOCK_BYTES, Superblock, TableEntry, read_log};
use hypostyle_io::{File, Lock, Store};
use hypostyle_types::{Error, ErrorKind, Result, TableId, Version};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const SUPERBLOCK: &str = "HYPOSTYLE";

/// A log longer than this is folded into a checkpoint.
const LOG_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    ReadOnly,
    ReadWrite,
}

/// A published state of the database; it never changes.
#[derive(Debug)]
pub struct Snapshot {
    catalog: Catalog,
    tables: HashMap<TableId, Arc<TableData>>,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Store>, catalog: Catalog, previous: Option<&Self>) -> Self {
        let tables = catalog
            .tables
            .iter()
            .map(|entry| {
                let before = previous.and_then(|snapshot| snapshot.tables.get(&entry.id));
                let data = match before {
                    Some(before) if before.entry() == entry => before.clone(),
                    _ => Arc::new(TableData::new(store, entry, before.map(Arc::as_ref))),
                };
                (entry.id, data)
            })
            .collect();
        Self { catalog, tables }
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn version(&self) -> Version {
        self.catalog.version
    }

    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableData>> {
        self.catalog.table(schema, name).and_then(|entry: &TableEntry| self.tables.get(&entry.id))
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableData>> {
        self.tables.get(&id)
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableData>> {
        self.catalog.tables.iter().filter_map(|entry| self.tables.get(&entry.id))
    }
}

/// An open database: on disk or in memory.
#[derive(Debug)]
pub struct Database {
    store: Arc<Store>,
    mode: OpenMode,
    published: RwLock<Arc<Snapshot>>,
    writer: Mutex<Writer>,
    lock: Mutex<Option<Lock>>,
}

/// What only the one writing transaction touches.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Option<File>,
    log_bytes: u64,
    /// The database was closed.
    closed: bool,
    /// A sync of the log failed: nobody knows what is durable (format.md §7 rule 5).
    poisoned: bool,
}

impl Database {
    /// A new database in memory; it goes with the last handle and result.
    pub fn in_memory() -> Result<Arc<Self>> {
        Self::create(Store::memory())
    }

    /// Opens a directory; in read-write mode, one that is missing or empty becomes a new database.
    ///
    /// # Errors
    /// `NotFound` when there is none to read; `InvalidInput` when it is not a database; `Version`,
    /// `Corrupt`, `Busy`, `Io`.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Arc<Self>> {
        let store = Store::directory(path, mode == OpenMode::ReadOnly);
        match path.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && mode == OpenMode::ReadWrite => {
                store.create_directory("")?;
                return Self::create(store);
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
            Ok(_) => {}
        }
        let names = store.list("")?;
        if names.iter().any(|name| name == SUPERBLOCK) {
            return Self::recover(store, mode)
                .map_err(|error| error.context(format!("database \"{}\"", path.display())));
        }
        let unfinished =
            |name: &String| name.ends_with(".new") || name.starts_with("log-") || name == "columns";
        let ours = names.iter().all(|name| unfinished(name) || name.starts_with("catalog-"));
        if mode == OpenMode::ReadWrite && ours {
            return Self::create(store);
        }
        Err(Error::invalid_input(format!(
            "\"{}\" is not a Hypostyle database: it has no file {SUPERBLOCK}{}",
            path.display(),
            if mode == OpenMode::ReadWrite { "; a new database needs a new or empty directory" } else { "" }
        )))
    }

    fn create(store: Store) -> Result<Arc<Self>> {
        let catalog = Catalog::default();
        store.create_directory("columns")?;
        let log = store.create(&log_name(catalog.version))?;
        store.replace(&catalog_name(catalog.version), &catalog.encode_checkpoint()?)?;
        // The superblock comes last: with it, the database exists.
        store.replace(SUPERBLOCK, &Superblock::new(Uuid::new_v4()).encode())?;
        let lock = store.lock(SUPERBLOCK, true)?;
        Ok(Self::assemble(
            store,
            OpenMode::ReadWrite,
            catalog,
            lock,
            Writer { log: Some(log), log_bytes: 0, closed: false, poisoned: false },
        ))
    }

    fn assemble(
        store: Store,
        mode: OpenMode,
        catalog: Catalog,
        lock: Option<Lock>,
        writer: Writer,
    ) -> Arc<Self> {
        let store = Arc::new(store);
        let snapshot = Snapshot::new(&store, catalog, None);
        Arc::new(Self {
            store,
            mode,
            published: RwLock::new(Arc::new(snapshot)),
            writer: Mutex::new(writer),
            lock: Mutex::new(lock),
        })
    }

    fn recover(store: Store, mode: OpenMode) -> Result<Arc<Self>> {
        let file = store.open(SUPERBLOCK)?;
        let mut bytes = vec![0; (file.length()? as usize).min(SUPERBLOCK_BYTES)];
        file.read_at(0, &mut bytes)?;
        let superblock = Superblock::decode(&bytes)?;
        if superblock.read_only && mode == OpenMode::ReadWrite {
            return Err(Error::new(
                ErrorKind::Version,
                "a newer Hypostyle wrote this database; this release can only read it: open it with read_only",
            ));
        }
        let lock = store.lock(SUPERBLOCK, mode == OpenMode::ReadWrite)?;
        let names = store.list("")?;
        let newest = names
            .iter()
            .filter_map(|name| name.strip_prefix("catalog-")?.parse().ok().map(Version))
            .max()
            .ok_or_else(|| Error::corrupt("the catalog is missing"))?;
        let bytes = store.open(&catalog_name(newest))?.read_all()?;
        let mut catalog = Catalog::decode_checkpoint(&bytes)?;
        let (log_bytes, log) = if names.contains(&log_name(newest)) {
            let log = store.open(&log_name(newest))?;
            let end = read_log(&log.read_all()?, &mut catalog)?;
            if end.torn && mode == OpenMode::ReadWrite {
                log.truncate(end.offset as u64)?;
                log.sync()?;
            }
            (end.offset as u64, Some(log))
        } else {
            (0, None)
        };
        catalog.tables.iter().try_for_each(check_shape)?;
        if mode == OpenMode::ReadWrite {
            remove_leftovers(&store, &names, newest, &catalog)?;
        }
        let log = match (log, mode) {
            (None, OpenMode::ReadWrite) => Some(store.create(&log_name(newest))?),
            (log, _) => log,
        };
        Ok(Self::assemble(
            store,
            mode,
            catalog,
            lock,
            Writer { log, log_bytes, closed: false, poisoned: false },
        ))
    }

    pub fn path(&self) -> Option<&Path> {
        self.store.path()
    }

    /// Lets go of the lock, once a running commit is done; snapshots stay readable.
    pub fn close(&self) {
        self.writer.lock().closed = true;
        *self.lock.lock() = None;
    }

    pub fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }

    /// What has been committed up to now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.read().clone()
    }

    /// Starts writing; waits until no other transaction of this database does. `threads` encode
    /// columns in parallel.
    ///
    /// # Errors
    /// `ReadOnly`; `Io` after a failed sync.
    pub fn begin_write(self: &Arc<Self>, threads: usize) -> Result<WriteTransaction<'_>> {
        if self.is_read_only() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the database is open read-only; open it without read_only to write",
            ));
        }
        let writer = self.writer.lock();
        if writer.closed {
            return Err(Error::new(ErrorKind::Closed, "the database is closed; open it again"));
        }
        if writer.poisoned {
            return Err(Error::new(
                ErrorKind::Io,
                "an earlier write could not be made durable; reopen the database before writing again",
            ));
        }
        Ok(WriteTransaction::new(self, writer, threads))
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Logs a commit and publishes its catalog.
    pub(crate) fn publish(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        frame: &[u8],
        catalog: Catalog,
    ) -> Result<Arc<Snapshot>> {
        let Some(log) = writer.log.clone() else {
            return Err(Error::internal("a database open for writing has no log"));
        };
        log.write_at(writer.log_bytes, frame)?;
        if let Err(error) = log.sync() {
            writer.poisoned = true;
            return Err(error);
        }
        writer.log_bytes += frame.len() as u64;
        let previous = self.snapshot();
        let snapshot = Arc::new(Snapshot::new(&self.store, catalog, Some(&previous)));
        for table in previous.tables() {
            if snapshot.table_by_id(table.entry().id).is_none() {
                table.files.mark_dropped();
            }
        }
        *self.published.write() = snapshot.clone();
        if writer.log_bytes > LOG_BYTES_MAX {
            // The commit is durable whatever becomes of the checkpoint.
            if let Err(error) = self.checkpoint(writer, &snapshot) {
                tracing::warn!(%error, "the checkpoint is put off");
            }
        }
        Ok(snapshot)
    }

    fn checkpoint(&self, writer: &mut Writer, snapshot: &Snapshot) -> Result<()> {
        let version = snapshot.version();
        let log = self.store.create(&log_name(version))?;
        self.store.replace(&catalog_name(version), &snapshot.catalog().encode_checkpoint()?)?;
        writer.log = Some(log);
        writer.log_bytes = 0;
        for name in self.store.list("")? {
            let old = |prefix: &str| {
                name.strip_prefix(prefix)
                    .and_then(|number| number.parse().ok())
                    .is_some_and(|old: u64| old < version.0)
            };
            if old("catalog-") || old("log-") {
                self.store.remove(&name)?;
            }
        }
        Ok(())
    }
}

fn catalog_name(version: Version) -> String {
    format!("catalog-{:020}", version.0)
}

fn log_name(version: Version) -> String {
    format!("log-{:020}", version.0)
}

/// Removes what an unfinished commit or checkpoint left (format.md §7 rules 3 and 4). Nobody else has the
/// database open.
fn remove_leftovers(store: &Store, names: &[String], newest: Version, catalog: &Catalog) -> Result<()> {
    for name in names {
        let stale = |prefix: &str| name.starts_with(prefix) && *name != format!("{prefix}{:020}", newest.0);
        if name.ends_with(".new") || stale("catalog-") || stale("log-") {
            store.remove(name)?;
        }
    }
    store.create_directory("columns")?;
    for directory in store.list("columns")? {
        let table =
            directory.parse().ok().and_then(|id| catalog.tables.iter().find(|table| table.id == TableId(id)));
        let path = format!("columns/{directory}");
        let Some(table) = table else {
            store.remove_directory(&path)?;
            continue;
        };
        let committed = committed_files(table);
        for name in store.list(&path)? {
            let file = format!("{path}/{name}");
            match committed.get(&name) {
                None => store.remove(&file)?,
                // A file that is too short is for its readers to report.
                Some(length) => {
                    let file = store.open(&file)?;
                    if file.length()? > *length {
                        file.truncate(*length)?;
                    }
                }
            }
        }
    }
    Ok(())
}
