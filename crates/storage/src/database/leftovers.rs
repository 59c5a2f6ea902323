//! Files in `columns/` that no version has, and what others have behind their committed bytes:
//! removed when nobody can read or write it any more (format.md §7).

use super::Database;
use crate::column::{GenerationFiles, committed_files};
use crate::index;
use crate::names::{
    deleted_file_name, is_table_file, is_unfinished, parse_file_name, table_directory, table_of_directory,
    version_of_catalog, version_of_log,
};
use crate::readers::Garbage;
use crate::rows::Uncommitted;
use crate::snapshot::Snapshot;
use hypostyle_format::Catalog;
use hypostyle_io::{File, Store};
use hypostyle_types::{ErrorKind, Result, TableId, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Removes what an unfinished commit or checkpoint left (format.md §7 rules 3 and 4). Nobody else
/// has the database open.
pub(super) fn remove_all(store: &Store, checkpoint: Version, catalog: &Catalog) -> Result<()> {
    for name in store.list("")? {
        if is_unfinished(&name) {
            store.remove(&name)?;
        }
    }
    remove_old_checkpoints(store, checkpoint)?;
    store.create_directory("columns")?;
    index::remove_stale(store, catalog);
    remove_files(store, catalog, |file, length| {
        // A file that is too short is for its readers to report.
        let file = store.open(file)?;
        if file.length()? > length { file.truncate(length) } else { Ok(()) }
    })
}

/// Removes the catalogs and logs of all checkpoints but the newest.
pub(super) fn remove_old_checkpoints(store: &Store, newest: Version) -> Result<()> {
    for name in store.list("")? {
        let version = version_of_catalog(&name).or_else(|| version_of_log(&name));
        if version.is_some_and(|version| version != newest) {
            store.remove(&name)?;
        }
    }
    Ok(())
}

/// Removes what a catalog does not name in `columns/`, of what has a name of the format; `kept`
/// gets what it names, and the committed bytes of each.
pub(crate) fn remove_files(
    store: &Store,
    catalog: &Catalog,
    kept: impl Fn(&str, u64) -> Result<()>,
) -> Result<()> {
    for directory in store.list("columns")? {
        let Some(id) = table_of_directory(&directory) else { continue };
        let path = table_directory(id);
        let Some(table) = catalog.table_by_id(id) else {
            store.remove_directory(&path, is_table_file)?;
            continue;
        };
        let committed = committed_files(table);
        let deleted = table.deleted.map(|deleted| deleted_file_name(table.id, deleted.version));
        for name in store.list(&path)? {
            let file = format!("{path}/{name}");
            match committed.get(&name) {
                None if Some(&file) == deleted.as_ref() => {}
                None if is_table_file(&name) => store.remove(&file)?,
                None => {}
                Some(length) => kept(&file, *length)?,
            }
        }
    }
    Ok(())
}

impl Database {
    /// Removes what processes that are gone have left, while others have the database open
    /// (format.md §7 rule 6).
    pub(crate) fn remove_leftovers(&self) -> Result<()> {
        let store = self.store();
        if store.path().is_none() {
            return Ok(());
        }
        let known = self.latest()?;
        index::remove_stale(store, known.catalog());
        let cuts = self.may_cut()?;
        for directory in store.list("columns")? {
            let Some(id) = table_of_directory(&directory) else { continue };
            let is_longer = cuts && !longer_files(store, &known, id)?.is_empty();
            if leftovers(store, &known, id)?.is_empty() && !is_longer {
                continue;
            }
            // With the lock nobody writes there, nor commits what was written.
            let _lock = match store.try_lock(&table_directory(id)) {
                Ok(Some(lock)) => lock,
                Ok(None) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let latest = self.latest()?;
            if cuts {
                cut(store, &latest, id)?;
            }
            let discarded = latest.discarded();
            let is_published = self.unpinned_snapshot()?.version() >= discarded;
            if is_published && self.readers().all_read(discarded)? {
                leftovers(store, &latest, id)?.iter().try_for_each(|garbage| garbage.remove(store))?;
            }
        }
        Ok(())
    }
}

impl Database {
    /// Tells those who look at rows that these are no more, and remembers that somebody looks.
    pub(crate) fn roll_back(&self, rows: &Uncommitted) {
        rows.roll_back();
        self.rolled_back().lock().extend(rows.others());
    }

    /// Removes what a transaction that is rolled back has written: behind the rows of tables, whose
    /// append locks are held, and columns of those tables that were to replace others. While
    /// somebody of this process may still look at them, it is left to a checkpoint.
    pub(crate) fn remove_rolled_back<'a>(
        &self,
        mut tables: impl Iterator<Item = &'a TableId>,
        columns: &[Arc<GenerationFiles>],
    ) -> Result<()> {
        if self.are_looked_at() {
            return Ok(());
        }
        let latest = self.latest()?;
        tables.try_for_each(|id| cut(self.store(), &latest, *id))?;
        columns.iter().try_for_each(|files| files.remove())
    }

    /// Whether somebody of this process may be reading rows that were rolled back.
    fn are_looked_at(&self) -> bool {
        let mut rolled_back = self.rolled_back().lock();
        rolled_back.retain(|seen| seen.strong_count() > 0);
        !rolled_back.is_empty()
    }

    /// Whether nobody can be reading rows that were rolled back: of other processes that is not
    /// known.
    fn may_cut(&self) -> Result<bool> {
        Ok(!self.are_looked_at() && self.readers().alone()?)
    }
}

/// A table's files that are longer than a version says, with that length.
fn longer_files(store: &Store, snapshot: &Snapshot, id: TableId) -> Result<Vec<(File, u64)>> {
    let Some(table) = snapshot.table_by_id(id) else { return Ok(Vec::new()) };
    let mut longer = Vec::new();
    for (name, length) in committed_files(table.entry()) {
        match store.open_pooled(&format!("{}/{name}", table_directory(id))) {
            Ok(file) if file.length()? > length => longer.push((file, length)),
            // One that is missing is for its readers to report.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(longer)
}

fn cut(store: &Store, snapshot: &Snapshot, id: TableId) -> Result<()> {
    longer_files(store, snapshot, id)?.iter().try_for_each(|(file, length)| file.truncate(*length))
}

/// What a table's directory has, but not the version that is given.
fn leftovers(store: &Arc<Store>, snapshot: &Snapshot, id: TableId) -> Result<Vec<Garbage>> {
    let Some(table) = snapshot.table_by_id(id) else { return Ok(vec![Garbage::Table(id)]) };
    let names = match store.list(&table_directory(id)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let mut found: BTreeSet<_> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    for column in &table.entry().columns {
        found.remove(&(column.id, column.generation.number));
    }
    let files = |(column, number)| GenerationFiles::new(store.clone(), id, column, number);
    Ok(found.into_iter().map(|generation| Garbage::Generation(files(generation))).collect())
}
