//! BACKUP DATABASE: a snapshot copied into a database of its own, while others read and write.
//!
//! Column files only grow, so a second backup into the same directory copies what has come since
//! the first, if by the checksums of both it has the beginning of the same columns: after a
//! restore, or after commits were lost, it may not. What differs is copied into a generation of its
//! own, and the catalog of a backup has a higher version than the one before: no file that the old
//! catalog names is changed before the new one is there, so that a backup that is interrupted
//! leaves the one before.

use crate::column::{ColumnData, GenerationFiles, committed_files_of_column};
use crate::database::{Database, check_superblock, remove_files};
use crate::names::{
    MARKER, ORIGIN, SHARED, SUPERBLOCK, catalog_name, deleted_file_name, is_reader, is_table_file,
    is_unfinished, log_name, table_directory, table_of_directory, version_of_catalog, version_of_log,
};
use crate::rows::{encode_deleted_file, encode_positions, encode_rows, positions_before};
use crate::snapshot::Snapshot;
use hypostyle_format::{Catalog, Change, ColumnEntry, Commit, DeletedEntry, TableEntry};
use hypostyle_io::{Lock, Store};
use hypostyle_types::{Error, ErrorKind, Generation, Result, TableId};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes copied between two looks at the progress.
const COPY_BYTES: u64 = 4 << 20;

/// What is written again at the end of what a backup has: the last byte of a bitmap may have more bits now.
const OVERLAP_BYTES: u64 = 8;

/// Copies begin at a multiple of this: file systems share whole blocks.
const ALIGNMENT: u64 = 4096;

/// How far a backup is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    pub done: u64,
    pub total: u64,
}

/// A part of a file that must be copied.
struct Part {
    source: String,
    copy: String,
    is_new: bool,
    from: u64,
    to: u64,
}

/// The backup that is there, and the lock that keeps others from opening it for writing.
struct Previous {
    catalog: Catalog,
    _lock: Lock,
}

impl Database {
    /// Copies what is committed now into a directory: a new one, or one that has an older backup of
    /// this database. `progress` may stop it by returning false. Returns the bytes that were
    /// copied.
    ///
    /// # Errors
    /// `InvalidInput` when the directory is something else, within a database, or was written to
    /// since; `Busy` when another backup writes to it; `Interrupted`; `DiskFull`, `Io`.
    pub fn backup(&self, target: &Path, progress: impl FnMut(BackupProgress) -> bool) -> Result<u64> {
        let newest = || {
            if !self.is_read_only() {
                self.checkpoint()?;
            }
            self.snapshot()
        };
        self.back_up(target, newest, progress)
    }

    /// Copies a snapshot of this database into a directory, as [`Self::backup`] does.
    ///
    /// # Errors
    /// Those of [`Self::backup`].
    pub fn backup_of(
        &self,
        snapshot: &Arc<Snapshot>,
        target: &Path,
        progress: impl FnMut(BackupProgress) -> bool,
    ) -> Result<u64> {
        self.back_up(target, || Ok(snapshot.clone()), progress)
    }

    fn back_up(
        &self,
        target: &Path,
        snapshot: impl FnOnce() -> Result<Arc<Snapshot>>,
        mut progress: impl FnMut(BackupProgress) -> bool,
    ) -> Result<u64> {
        check_outside(target)?;
        make_above(target).map_err(|error| {
            Error::from_io(&error, format_args!("cannot make the directory of \"{}\"", target.display()))
        })?;
        let store = Arc::new(Store::new_directory(target, self.store().observer())?);
        let Some(_lock) = store.try_lock("")? else {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("another backup to \"{}\" is under way", target.display()),
            ));
        };
        let superblock = self.store().open(SUPERBLOCK)?.read_all()?;
        let before = previous(&store, target, &superblock)?;
        // Whoever opens it verifies what is copied now.
        store.remove(ORIGIN)?;
        if before.is_none() {
            begin(&store)?;
        }
        let snapshot = snapshot()?;
        let (catalog, parts) = plan(&store, &snapshot, before.as_ref().map(|before| &before.catalog))?;

        let mut state = BackupProgress { done: 0, total: parts.iter().map(|part| part.to - part.from).sum() };
        for table in &catalog.tables {
            store.create_directory(&table_directory(table.id))?;
        }
        for part in &parts {
            let source = self.store().open(&part.source)?;
            let copy = if part.is_new { store.create(&part.copy)? } else { store.open(&part.copy)? };
            let mut at = part.from;
            while at < part.to {
                let bytes = COPY_BYTES.min(part.to - at);
                copy.copy_at(&source, at, bytes)?;
                at += bytes;
                state.done += bytes;
                if !progress(state) {
                    return Err(Error::new(ErrorKind::Interrupted, "the backup was interrupted"));
                }
            }
            copy.sync()?;
        }
        for table in &catalog.tables {
            store.sync_directory(&table_directory(table.id))?;
        }
        store.sync_directory("columns")?;
        let (catalog, log) = with_rows_beyond_files(&store, &snapshot, catalog)?;
        let version = catalog.version;
        let encoded = catalog.encode_checkpoint()?;
        let file = store.create(&log_name(version))?;
        file.write_at(0, &log)?;
        file.sync()?;
        // Whether the catalog is the old one or the new one, it is known.
        let known = store.open(MARKER)?.read_all()?;
        let new = mark(&encoded, &log).into_bytes();
        store.replace(MARKER, &[known, new.clone()].concat())?;
        store.replace(&catalog_name(version), &encoded)?;
        if before.is_none() {
            store.replace(SUPERBLOCK, &superblock)?;
        }
        store.replace(MARKER, &new)?;
        remove_others(&store, &catalog)?;
        Ok(state.done)
    }
}

/// Looks whether a backup may make a directory.
///
/// # Errors
/// `InvalidInput` if it is there, or within a database.
pub fn check_new_backup(target: &Path) -> Result<()> {
    match target.symlink_metadata() {
        Ok(_) => Err(refusal(target, "it exists already")),
        Err(_) => check_outside(target),
    }
}

/// Makes the directory that a backup gets into, which the nodes of a cluster have in common. That which it
/// is in has to be there: a disk that is not mounted is no place for a backup.
fn make_above(target: &Path) -> std::io::Result<()> {
    let above = target.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
    match above.map(std::fs::create_dir) {
        // Another node was first.
        Some(Err(error)) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Some(made) => made,
        None => Ok(()),
    }
}

fn check_outside(target: &Path) -> Result<()> {
    let absolute = std::path::absolute(target).unwrap_or_else(|_| target.into());
    match absolute.ancestors().skip(1).any(|directory| directory.join(SUPERBLOCK).is_file()) {
        true => Err(refusal(target, "it is within a database")),
        false => Ok(()),
    }
}

fn refusal(target: &Path, why: &str) -> Error {
    let target = target.display();
    Error::invalid_input(format!("cannot back up to \"{target}\": {why}; choose another directory"))
}

/// The backup that is there.
fn previous(store: &Store, target: &Path, superblock: &[u8]) -> Result<Option<Previous>> {
    let names = store.list("")?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let refuse = |why: &str| refusal(target, why);
    if !has(SUPERBLOCK) {
        let of_first_backup = |name: &String| {
            ["columns", MARKER].contains(&name.as_str())
                || is_unfinished(name)
                || version_of_catalog(name).is_some()
                || version_of_log(name).is_some()
        };
        // What an interrupted first backup left is begun again.
        let unfinished = has(MARKER) && names.iter().all(of_first_backup);
        return match unfinished || names.iter().all(|name| *name == format!("{MARKER}.new")) {
            true => Ok(None),
            false => Err(refuse("it is not empty")),
        };
    }
    if store.open(SUPERBLOCK)?.read_all()? != superblock {
        return Err(refuse("it has another database"));
    }
    check_superblock(store, crate::OpenMode::ReadWrite)?;
    let shared = store.open_or_create(SHARED)?;
    let lock = match store.try_lock(SHARED)? {
        Some(lock) if !is_open(store)? => lock,
        _ => return Err(refuse("it is open")),
    };
    let version = names.iter().filter_map(|name| version_of_catalog(name)).max();
    let version = version.ok_or_else(|| refuse("its catalog is missing"))?;
    let catalog = store.open(&catalog_name(version))?.read_all()?;
    let log = store.open(&log_name(version)).and_then(|log| log.read_all()).unwrap_or_default();
    let known = store.open(MARKER).and_then(|marker| marker.read_all()).unwrap_or_default();
    if !String::from_utf8_lossy(&known).contains(&mark(&catalog, &log)) {
        return Err(refuse("it was written to since the last backup"));
    }
    // Who has had it open told there which catalog is in use.
    shared.truncate(0)?;
    Ok(Some(Previous { catalog: Catalog::decode_checkpoint(&catalog)?, _lock: lock }))
}

/// Whether a process that is alive has the backup open.
fn is_open(store: &Store) -> Result<bool> {
    // Who cannot make a file in `readers` has that lock.
    if matches!(unless_missing(store.try_lock("columns"))?, Some(None)) {
        return Ok(true);
    }
    let names = unless_missing(store.list("readers"))?.unwrap_or_default();
    for name in names.into_iter().filter(|name| is_reader(name)) {
        if matches!(unless_missing(store.try_lock(&format!("readers/{name}")))?, Some(None)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `None` of what is not there.
fn unless_missing<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// A first backup: nothing of an unfinished one stays. With the marker, nobody makes a new database
/// of the directory.
fn begin(store: &Store) -> Result<()> {
    // The directory itself may be new.
    store.sync_above()?;
    store.replace(MARKER, b"")?;
    for name in store.list("")? {
        match name.as_str() {
            MARKER => {}
            "columns" => {
                for table in store.list(&name)?.iter().filter_map(|table| table_of_directory(table)) {
                    store.remove_directory(&table_directory(table), is_table_file)?;
                }
            }
            _ => store.remove(&name)?,
        }
    }
    store.create_directory("columns")?;
    store.sync_directory("")
}

fn mark(catalog: &[u8], log: &[u8]) -> String {
    format!("{:016x} {:016x}\n", xxh3_64(catalog), xxh3_64(log))
}

/// The catalog of the backup but for what its log has, and what must be copied.
fn plan(store: &Arc<Store>, snapshot: &Snapshot, before: Option<&Catalog>) -> Result<(Catalog, Vec<Part>)> {
    let mut catalog = snapshot.catalog().clone();
    if let Some(before) = before {
        // Its log leads to the next one: who has read that must not take this one for the same.
        catalog.version = catalog.version.max(before.version.next().next());
    }
    let mut parts = Vec::new();
    for entry in &mut catalog.tables {
        let Some(table) = snapshot.table_by_id(entry.id) else { continue };
        let before = before.and_then(|catalog| catalog.table_by_id(entry.id));
        for (index, column) in table.columns().iter().enumerate() {
            let before = before.and_then(|table| table.column_by_id(column.entry().id));
            let (number, of_column) = plan_column(store, entry.id, column, before)?;
            if number != column.entry().generation.number {
                Arc::make_mut(entry).columns[index].generation.number = number;
            }
            parts.extend(of_column);
        }
    }
    Ok((catalog, parts))
}

/// The generation that a column is in the backup, and what must be copied into its files.
fn plan_column(
    store: &Arc<Store>,
    table: TableId,
    column: &ColumnData,
    before: Option<&ColumnEntry>,
) -> Result<(Generation, Vec<Part>)> {
    let mut copy = column.entry().clone();
    let mut had = HashMap::new();
    if let Some(before) = before {
        let number = before.generation.number;
        if has_beginning(store, table, column, before)? {
            copy.generation.number = number;
            if copy.generation == before.generation {
                return Ok((number, Vec::new()));
            }
            had.extend(committed_files_of_column(before));
        } else {
            copy.generation.number = copy.generation.number.max(number.next());
        }
    }
    let directory = table_directory(table);
    let files = committed_files_of_column(column.entry()).into_iter().zip(committed_files_of_column(&copy));
    let parts = files.map(|((source, to), (copy, _))| {
        let had = had.get(&copy).copied().unwrap_or(0);
        Part {
            source: format!("{directory}/{source}"),
            copy: format!("{directory}/{copy}"),
            is_new: had == 0,
            from: had.saturating_sub(OVERLAP_BYTES) / ALIGNMENT * ALIGNMENT,
            to,
        }
    });
    Ok((copy.generation.number, parts.collect()))
}

/// Whether the backup before has the first rows of a column.
fn has_beginning(
    store: &Arc<Store>,
    table: TableId,
    column: &ColumnData,
    before: &ColumnEntry,
) -> Result<bool> {
    for (name, bytes) in committed_files_of_column(before) {
        match store.open(&format!("{}/{name}", table_directory(table))) {
            Ok(file) if file.length()? >= bytes => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(false),
        }
    }
    let files = GenerationFiles::new(store.clone(), table, before.id, before.generation.number);
    column.begins_with(before, &files)
}

/// The catalog with its files of deleted rows, and a log with the rows that only the log has.
fn with_rows_beyond_files(
    store: &Store,
    snapshot: &Snapshot,
    mut catalog: Catalog,
) -> Result<(Catalog, Vec<u8>)> {
    let version = catalog.version;
    let mut commit = Commit { durable: version, ..Commit::default() };
    for entry in &mut catalog.tables {
        let Some(table) = snapshot.table_by_id(entry.id) else { continue };
        let deleted = table.deleted();
        // Positions of the log's rows are not there before those rows are.
        let in_files = positions_before(deleted, entry.rows);
        let in_log = deleted - &in_files;
        let file = (!in_files.is_empty()).then_some(DeletedEntry { version, rows: in_files.len() });
        if file.is_some() {
            let file = store.create(&deleted_file_name(entry.id, version))?;
            file.write_at(0, &encode_deleted_file(&in_files)?)?;
            file.sync()?;
            store.sync_directory(&table_directory(entry.id))?;
        }
        if entry.deleted != file {
            let entry: &mut TableEntry = Arc::make_mut(entry);
            entry.deleted = file;
        }
        for batch in table.beyond_files().tail.batches() {
            let bytes = encode_rows(batch)?;
            let rows = batch.num_rows() as u64;
            commit.changes.push(Change::Insert { id: entry.id, rows, bytes: bytes.len() as u64 });
            commit.attachments.push(bytes);
        }
        if !in_log.is_empty() {
            let bytes = encode_positions(&in_log)?;
            commit.changes.push(Change::Delete {
                id: entry.id,
                rows: in_log.len(),
                bytes: bytes.len() as u64,
            });
            commit.attachments.push(bytes);
        }
    }
    let log = if commit.changes.is_empty() { Vec::new() } else { commit.encode(version.next())? };
    Ok((catalog, log))
}

/// Removes what the backup before had and this one has not. Whoever has come while it was written may
/// read the one before: all of that stays then, and goes with a later backup, or when the database is
/// opened for writing.
fn remove_others(store: &Store, catalog: &Catalog) -> Result<()> {
    if is_open(store)? {
        return Ok(());
    }
    let version = catalog.version;
    for name in store.list("")? {
        let old = version_of_catalog(&name).or_else(|| version_of_log(&name)).is_some();
        if old && name != catalog_name(version) && name != log_name(version) {
            store.remove(&name)?;
        }
    }
    remove_files(store, catalog, |_, _| Ok(()))
}
