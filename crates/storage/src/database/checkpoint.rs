//! Checkpoints: the log goes into the column files and a new catalog file (format.md §7).

use super::Database;
use super::commit::{LOG_RESERVE, Visible};
use super::leftovers::remove_old_checkpoints;
use super::view::{Position, View};
use crate::column::{finish_columns, open_columns, sync_columns};
use crate::names::{catalog_name, deleted_file_name, log_name, table_directory};
use crate::rows::encode_deleted_file;
use crate::snapshot::{Snapshot, State};
use crate::table::TableData;
use hypostyle_format::{Change, Commit, DeletedEntry, Shared};
use hypostyle_io::{File, Waiting};
use hypostyle_types::{Result, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Database {
    /// Puts the log into the column files and a new catalog file, and removes what processes that
    /// are gone have left. False when another transaction is writing the files of a table with rows
    /// in the log: the next checkpoint tries again.
    ///
    /// # Errors
    /// `DiskFull` or `Io`; the database is then as it was.
    pub fn checkpoint(&self) -> Result<bool> {
        self.check_writable()?;
        self.checkpoint_log(Version(u64::MAX))
    }

    /// [`Self::checkpoint`], unless another one has left the log behind: all that find it too long come here.
    pub(super) fn checkpoint_log(&self, log: Version) -> Result<bool> {
        let is_done = self.write_checkpoint(log)?;
        if let Err(error) = self.remove_leftovers() {
            tracing::warn!(%error, "superfluous files stay behind");
        }
        Ok(is_done)
    }

    fn write_checkpoint(&self, log: Version) -> Result<bool> {
        // A commit whose sync is under way would be published here, although that may fail.
        let end = Position { checkpoint: log, offset: u64::MAX };
        let mut waiting = Waiting::begin();
        let Some(turn) = self.turn_to_sync(end, &mut waiting)? else { return Ok(true) };
        let mut committer = self.committer(&mut waiting)?;
        let _lock = self.commit_lock(&mut waiting)?;
        let mut shared = self.catch_up(&mut committer.view)?;
        if shared.written == 0 || shared.checkpoint > log {
            return Ok(true);
        }
        let before = committer.view.snapshot.clone();
        let mut append_locks = Vec::new();
        let mut commit = Commit::default();
        let tables: Vec<_> = before.tables().filter(|table| table.beyond_files().tail.rows() > 0).collect();
        // All of them before any work: while one table is loaded, each commit comes here.
        for table in &tables {
            match self.try_append_lock(table.entry().id)? {
                Some(lock) => append_locks.push(lock),
                None => return Ok(false),
            }
        }
        for table in tables {
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
        committer.view.log.sync().inspect_err(|_| self.refuse_commits())?;
        let state = committer.view.snapshot.state();
        let version = state.catalog.version;
        let (state, log, stale) = self.write_state(state)?;
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
        committer.view = View { snapshot, log, position };
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

    /// Writes a state into a catalog file, and an empty log to follow it; the state as it was written,
    /// that log, and the files that the state does without.
    fn write_state(&self, state: State) -> Result<(State, File, Vec<String>)> {
        let version = state.catalog.version;
        let (mut state, stale) = self.write_deleted_files(state)?;
        for table in &mut Arc::make_mut(&mut state.catalog).tables {
            let deleted = state.rows.get(&table.id).and_then(|rows| rows.deleted_file);
            if table.deleted != deleted {
                Arc::make_mut(table).deleted = deleted;
            }
        }
        let log = self.store.create(&log_name(version))?;
        if self.store.path().is_some() {
            log.write_at(0, &[0; LOG_RESERVE as usize])?;
        }
        self.store.replace(&catalog_name(version), &state.catalog.encode_checkpoint()?)?;
        Ok((state, log, stale))
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
            // One of this name may belong to a catalog that is in place, but not yet in use.
            let temporary = format!("{name}.new");
            let file = self.store.create(&temporary)?;
            file.write_at(0, &encode_deleted_file(&rows.deleted)?)?;
            file.sync()?;
            self.store.rename(&temporary, &name)?;
            self.store.sync_directory(&directory)?;
            rows.deleted_file = Some(DeletedEntry { version, rows: rows.deleted.len() });
        }
        Ok((state, stale))
    }
}
