//! BACKUP DATABASE: a snapshot copied into a database of its own, while others read and write.
//!
//! Column files only grow, so a second backup into the same directory copies what has come since the first. What
//! was copied is looked at through the catalog of the backup, and replaced in one step at the end: a backup that is
//! interrupted leaves the one before.

use crate::column::{committed_files, table_directory};
use crate::database::{Database, SHARED, SUPERBLOCK, catalog_name, check_superblock, log_name};
use crate::rows::{encode_deleted_file, encode_positions, encode_rows, positions_before};
use crate::snapshot::{Snapshot, deleted_file_name};
use hypostyle_format::{Catalog, Change, Commit, DeletedEntry, TableEntry};
use hypostyle_io::Store;
use hypostyle_types::{Error, ErrorKind, Result, Version};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Tells that nobody but BACKUP has written to the directory: the checksum of the catalog and the log as they were left.
const MARKER: &str = "backup";

/// Bytes copied between two looks at the progress.
const COPY_BYTES: usize = 4 << 20;

/// What is written again at the end of what a backup has: the last byte of a bitmap may have more bits now.
const OVERLAP_BYTES: u64 = 8;

/// How far a backup is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    pub done: u64,
    pub total: u64,
}

/// A file of the backup, and how much of it is there.
struct Part {
    name: String,
    from: u64,
    to: u64,
}

impl Database {
    /// Copies what is committed now into a directory: a new one, or one that has an older backup of this database.
    /// `progress` may stop it by returning false. Returns the bytes that were copied.
    ///
    /// # Errors
    /// `InvalidInput` when the directory is something else, or was written to since; `Interrupted`; `DiskFull`, `Io`.
    pub fn backup(&self, target: &Path, mut progress: impl FnMut(BackupProgress) -> bool) -> Result<u64> {
        if !self.is_read_only() {
            self.checkpoint()?;
        }
        let snapshot = self.snapshot()?;
        let store = Store::directory(target, false);
        store.create_directory("columns")?;
        let superblock = self.store().open(SUPERBLOCK)?.read_all()?;
        let before = previous(&store, target, &superblock)?;

        let parts = parts(&snapshot, before.as_ref());
        let mut state = BackupProgress { done: 0, total: parts.iter().map(|part| part.to - part.from).sum() };
        let mut buffer = vec![0; COPY_BYTES];
        for table in snapshot.tables() {
            store.create_directory(&table_directory(table.entry().id))?;
        }
        for part in &parts {
            let (source, copy) = (self.store().open(&part.name)?, store.open_or_create(&part.name)?);
            let mut at = part.from;
            while at < part.to {
                let piece = &mut buffer[..COPY_BYTES.min((part.to - at) as usize)];
                source.read_at(at, piece)?;
                copy.write_at(at, piece)?;
                at += piece.len() as u64;
                state.done += piece.len() as u64;
                if !progress(state) {
                    return Err(Error::new(ErrorKind::Interrupted, "the backup was interrupted"));
                }
            }
            copy.sync()?;
        }
        for table in snapshot.tables() {
            store.sync_directory(&table_directory(table.entry().id))?;
        }
        store.sync_directory("columns")?;
        let (catalog, log) = encode(&store, &snapshot)?;
        let file = store.create(&log_name(snapshot.version()))?;
        file.write_at(0, &log)?;
        file.sync()?;
        // Whether the catalog is the old one or the new one, it is known.
        let known = store.open(MARKER).and_then(|marker| marker.read_all()).unwrap_or_default();
        let new = mark(&catalog, &log).into_bytes();
        store.replace(MARKER, &[known, new.clone()].concat())?;
        store.replace(&catalog_name(snapshot.version()), &catalog)?;
        if before.is_none() {
            store.replace(SUPERBLOCK, &superblock)?;
        }
        store.replace(MARKER, &new)?;
        remove_others(&store, &snapshot)?;
        Ok(state.done)
    }
}

/// The catalog of the backup that is there.
fn previous(store: &Store, target: &Path, superblock: &[u8]) -> Result<Option<Catalog>> {
    let names = store.list("")?;
    if names.iter().all(|name| name == "columns") && store.list("columns")?.is_empty() {
        return Ok(None);
    }
    let refuse = |why: &str| {
        Error::invalid_input(format!(
            "cannot back up to \"{}\": {why}; choose another directory",
            target.display()
        ))
    };
    if !names.iter().any(|name| name == SUPERBLOCK) {
        // What an interrupted first backup left is begun again.
        return match names.iter().all(|name| {
            ["columns", MARKER].contains(&name.as_str())
                || name.ends_with(".new")
                || ["catalog-", "log-"].iter().any(|prefix| name.starts_with(prefix))
        }) {
            true => Ok(None),
            false => Err(refuse("it is not empty")),
        };
    }
    if store.open(SUPERBLOCK)?.read_all()? != superblock {
        return Err(refuse("it has another database"));
    }
    check_superblock(store, crate::OpenMode::ReadWrite)?;
    let versions = names.iter().filter_map(|name| name.strip_prefix("catalog-")?.parse().ok());
    let version = versions.max().map(Version).ok_or_else(|| refuse("its catalog is missing"))?;
    let catalog = store.open(&catalog_name(version))?.read_all()?;
    let log = store.open(&log_name(version)).and_then(|log| log.read_all()).unwrap_or_default();
    let known = store.open(MARKER).and_then(|marker| marker.read_all()).unwrap_or_default();
    let same = String::from_utf8_lossy(&known).contains(&mark(&catalog, &log));
    let open = names.iter().any(|name| name == "readers") && !store.list("readers")?.is_empty();
    if !same || open || names.iter().any(|name| name == SHARED) && store.try_lock(SHARED)?.is_none() {
        return Err(refuse("it was written to, or is open, since the last backup"));
    }
    Catalog::decode_checkpoint(&catalog).map(Some)
}

fn mark(catalog: &[u8], log: &[u8]) -> String {
    format!("{:016x} {:016x}\n", xxh3_64(catalog), xxh3_64(log))
}

/// What must be copied.
fn parts(snapshot: &Snapshot, before: Option<&Catalog>) -> Vec<Part> {
    let mut parts = Vec::new();
    for table in snapshot.tables() {
        let entry = table.entry();
        let had: HashMap<String, u64> = before
            .and_then(|catalog| catalog.table_by_id(entry.id))
            .map(|before| committed_files(before))
            .unwrap_or_default();
        for (name, to) in committed_files(entry) {
            let from = had.get(&name).map_or(0, |had| had.saturating_sub(OVERLAP_BYTES)).min(to);
            parts.push(Part { name: format!("{}/{name}", table_directory(entry.id)), from, to });
        }
    }
    parts
}

/// The catalog of the copied files, and a log with the rows that only the log has.
fn encode(store: &Store, snapshot: &Snapshot) -> Result<(Vec<u8>, Vec<u8>)> {
    let version = snapshot.version();
    let mut catalog = snapshot.catalog().clone();
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
    Ok((catalog.encode_checkpoint()?, log))
}

/// Removes what the backup before had and this one has not.
fn remove_others(store: &Store, snapshot: &Snapshot) -> Result<()> {
    let version = snapshot.version();
    for name in store.list("")? {
        let old = ["catalog-", "log-"].iter().any(|prefix| name.starts_with(prefix));
        if old && name != catalog_name(version) && name != log_name(version) {
            store.remove(&name)?;
        }
    }
    for directory in store.list("columns")? {
        let table =
            directory.parse().ok().map(hypostyle_types::TableId).and_then(|id| snapshot.table_by_id(id));
        let path = format!("columns/{directory}");
        let Some(table) = table else {
            store.remove_directory(&path)?;
            continue;
        };
        let kept = committed_files(table.entry());
        let deleted = deleted_file_name(table.entry().id, version);
        for name in store.list(&path)? {
            let file = format!("{path}/{name}");
            if !kept.contains_key(&name) && file != deleted {
                store.remove(&file)?;
            }
        }
    }
    Ok(())
}
