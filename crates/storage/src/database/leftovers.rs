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
use std::time::{Duration, Instant};

/// How long a query may take to end that was interrupted, or has failed.
const ENDING: Duration = Duration::from_millis(50);

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
            let is_longer = cuts && !surplus(store, &known, id)?.is_empty();
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
            // A transaction may have been rolled back while somebody looks at its rows, before the lock was
            // had, or another process may have come.
            if cuts && self.may_cut()? {
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
    /// somebody of this process may still look at them, it is left to the next transaction, or to the
    /// database's upkeep.
    pub(crate) fn remove_rolled_back<'a>(
        &self,
        tables: impl Iterator<Item = &'a TableId>,
        columns: &[Arc<GenerationFiles>],
    ) -> Result<()> {
        let tables: Vec<TableId> = tables.copied().collect();
        if tables.is_empty() && columns.is_empty() {
            return Ok(());
        }
        if self.are_looked_at_for_long() {
            self.left_behind().lock().extend(tables);
            return Ok(());
        }
        let latest = self.latest()?;
        tables.iter().try_for_each(|id| cut(self.store(), &latest, *id))?;
        columns.iter().try_for_each(|files| files.remove())
    }

    /// Removes what transactions have left behind that were rolled back while somebody looked at
    /// their rows. With another process it is left to a checkpoint: that may have written there
    /// since, and look at it.
    pub(crate) fn remove_left_behind(&self) -> Result<()> {
        if !self.has_left_behind() || self.are_looked_at() {
            return Ok(());
        }
        let tables = std::mem::take(&mut *self.left_behind().lock());
        if !self.may_cut()? {
            return Ok(());
        }
        let latest = self.latest()?;
        for id in tables {
            if latest.table_by_id(id).is_none() {
                continue;
            }
            // Whoever has the lock writes over what is there.
            let Some(_lock) = self.try_append_lock(id)? else { continue };
            // Somebody may look at what was rolled back before the lock was had.
            if !self.may_cut()? {
                self.left_behind().lock().push(id);
                continue;
            }
            let latest = self.latest()?;
            cut(self.store(), &latest, id)?;
        }
        Ok(())
    }

    pub(crate) fn has_left_behind(&self) -> bool {
        !self.left_behind().lock().is_empty()
    }

    /// Whether somebody looks at rows that were rolled back, and not only a query that is ending.
    fn are_looked_at_for_long(&self) -> bool {
        let end = Instant::now() + ENDING;
        while self.are_looked_at() {
            if Instant::now() >= end {
                return true;
            }
            std::thread::sleep(ENDING / 50);
        }
        false
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

/// A file that has more than a version says.
struct Surplus {
    path: String,
    file: File,
    /// Its bytes in that version; `None` when the version does without it.
    committed: Option<u64>,
}

/// The files of a table's columns that have more than a version says. With the append lock nothing
/// but that version, and older ones, is read of them, apart from what was rolled back.
fn surplus(store: &Store, snapshot: &Snapshot, id: TableId) -> Result<Vec<Surplus>> {
    let Some(table) = snapshot.table_by_id(id) else { return Ok(Vec::new()) };
    let (directory, committed) = (table_directory(id), committed_files(table.entry()));
    let names = match store.list(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    // A later generation was never committed.
    let is_present_or_later = |name: &String| {
        parse_file_name(name).is_some_and(|(column, generation)| {
            let known = table.entry().column_by_id(column);
            known.is_some_and(|known| known.generation.number <= generation)
        })
    };
    let mut found = Vec::new();
    for name in names.iter().filter(|name| is_present_or_later(name)) {
        let (path, committed) = (format!("{directory}/{name}"), committed.get(name).copied());
        match store.open_pooled(&path) {
            Ok(file) if committed.is_none() || file.length()? > committed.unwrap_or(0) => {
                found.push(Surplus { path, file, committed });
            }
            // One that is missing is for its readers to report.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn cut(store: &Store, snapshot: &Snapshot, id: TableId) -> Result<()> {
    surplus(store, snapshot, id)?.iter().try_for_each(|surplus| match surplus.committed {
        Some(length) => surplus.file.truncate(length),
        None => store.remove(&surplus.path),
    })
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
