//! The files of indexes (format.md §10): caches, which may be missing, stale or damaged at any time.
//!
//! Nothing is synced: a file that a crash has left without its bytes fails its checksum, and is
//! built again when somebody wants it.

use super::name::{INDEXES, Identity, index_directory, is_index_file, is_unfinished, temporary};
use crate::names::table_of_directory;
use arrow_buffer::Buffer;
use hypostyle_format::Catalog;
use hypostyle_index::Stored;
use hypostyle_io::Store;
use hypostyle_types::{ColumnId, Error, ErrorKind, Generation, Result, TableId};

/// No index has more bytes than these for each row that it covers or refers to, beside its header.
const ROW_BYTES_MAX: u64 = 64;
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Reads the file of an index over at most so many rows; `None` when there is none.
///
/// # Errors
/// `Corrupt` for a file that is damaged or longer than such an index can be; `Version`, `Io`.
pub(super) fn read(store: &Store, identity: &Identity, rows: u64) -> Result<Option<Stored>> {
    let file = match store.open(&identity.path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let length = file.length()?;
    // Before all of it is read for its checksum.
    if length > HEADER_BYTES_MAX.saturating_add(ROW_BYTES_MAX.saturating_mul(rows)) {
        return Err(Error::corrupt(format!("\"{}\" is longer than an index can be", file.name())));
    }
    let bytes = Buffer::from(bytes::Bytes::from_owner(file.map(length)?));
    let stored = Stored::decode(&bytes).map_err(|error| error.context(format!("\"{}\"", file.name())))?;
    match is_of(&stored, identity) {
        true => Ok(Some(stored)),
        false => Err(Error::corrupt(format!("\"{}\" has another index than its name says", file.name()))),
    }
}

/// Tells whether an index is the one that the name of its file says.
fn is_of(stored: &Stored, identity: &Identity) -> bool {
    let covered = |covered: &hypostyle_index::Covered| {
        let columns: Vec<_> = covered.columns.iter().map(|column| column.column).collect();
        let generations: Vec<_> = covered.columns.iter().map(|column| column.generation).collect();
        (covered.table, columns, generations)
    };
    let spec = &identity.spec;
    let own = (spec.table, spec.columns.clone(), identity.generations.clone());
    let referred = spec.referred().map(|key| (key.table, key.columns, identity.referred.clone()));
    stored.index.kind().0 == spec.kind.name()
        && covered(&stored.covered) == own
        && stored.referenced.as_ref().map(covered) == referred
}

/// Writes the file of an index, in the place of one that is there. False when another process or
/// thread is writing or removing indexes of the table.
///
/// # Errors
/// `ReadOnly`, `DiskFull`, `Io`; nothing is left then but what the next one replaces.
pub(super) fn write(store: &Store, identity: &Identity, stored: &Stored) -> Result<bool> {
    let directory = index_directory(identity.spec.table);
    store.create_directory(INDEXES)?;
    store.create_directory(&directory)?;
    let _lock = match store.try_lock(&directory) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(false),
        // The table was dropped.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let path = identity.path();
    let unfinished = temporary(&path);
    let written = write_pieces(store, &unfinished, stored).and_then(|()| store.rename(&unfinished, &path));
    if written.is_err()
        && let Err(error) = store.remove(&unfinished)
    {
        tracing::warn!(%error, "an index that was not finished stays behind");
    }
    written.map(|()| true)
}

fn write_pieces(store: &Store, path: &str, stored: &Stored) -> Result<()> {
    let encoded = stored.encode();
    let file = store.create(path)?;
    encoded
        .pieces()
        .filter(|(_, piece)| !piece.is_empty())
        .try_for_each(|(at, piece)| file.write_at(at, piece))
}

/// Returns the names of what is in a directory; none when it is not there.
fn list(store: &Store, directory: &str) -> Result<Vec<String>> {
    match store.list(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Returns the finished indexes of a table and the bytes of their files.
pub(super) fn of_table(store: &Store, table: TableId) -> Result<Vec<(Identity, u64)>> {
    let names = list(store, &index_directory(table))?;
    let mut found = Vec::new();
    for identity in names.iter().filter_map(|name| Identity::parse(table, name)) {
        match store.open(&identity.path()).and_then(|file| file.length()) {
            Ok(length) => found.push((identity, length)),
            Err(error) if [ErrorKind::NotFound, ErrorKind::Corrupt].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the tables that have a directory for their indexes.
pub(super) fn tables(store: &Store) -> Result<Vec<TableId>> {
    Ok(list(store, INDEXES)?.iter().filter_map(|name| table_of_directory(name)).collect())
}

/// Removes the indexes of a table that is dropped. What stays is stale, and removed later.
pub(crate) fn remove_of_table(store: &Store, table: TableId) {
    warn(remove_table(store, table));
}

/// Removes the indexes of a table that are over a generation of one of its columns. What stays is
/// stale, and removed later.
pub(crate) fn remove_of_generation(store: &Store, table: TableId, column: ColumnId, generation: Generation) {
    let remove = || {
        let names = list(store, &index_directory(table))?;
        names
            .iter()
            .filter_map(|name| Identity::parse(table, name))
            .filter(|identity| identity.has(table, column, generation))
            .try_for_each(|identity| store.remove(&identity.path()))
    };
    warn(remove());
}

/// Removes the indexes over what a catalog does not have, and what was never finished. What cannot
/// be removed is not looked at either.
pub(crate) fn remove_stale(store: &Store, catalog: &Catalog) {
    let remove = || tables(store)?.into_iter().try_for_each(|table| remove_stale_of(store, table, catalog));
    warn(remove());
}

/// Removes all indexes.
///
/// # Errors
/// `Io`, when some stay.
pub(crate) fn remove_all(store: &Store) -> Result<()> {
    tables(store)?.into_iter().try_for_each(|table| remove_table(store, table))
}

fn remove_table(store: &Store, table: TableId) -> Result<()> {
    match tables(store)?.contains(&table) {
        true => store.remove_directory(&index_directory(table), is_index_file),
        false => Ok(()),
    }
}

fn remove_stale_of(store: &Store, table: TableId, catalog: &Catalog) -> Result<()> {
    if catalog.table_by_id(table).is_none() {
        return remove_table(store, table);
    }
    let directory = index_directory(table);
    let is_stale = |name: &String| match Identity::parse(table, name) {
        Some(identity) => !identity.is_current(catalog),
        None => is_unfinished(name) && is_index_file(name),
    };
    let stale: Vec<String> = list(store, &directory)?.into_iter().filter(is_stale).collect();
    if stale.is_empty() {
        return Ok(());
    }
    // Who has it may be writing one.
    let _lock = match store.try_lock(&directory) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    stale.iter().try_for_each(|name| store.remove(&format!("{directory}/{name}")))
}

fn warn(removed: Result<()>) {
    if let Err(error) = removed {
        tracing::warn!(%error, "indexes that nobody needs stay behind");
    }
}
