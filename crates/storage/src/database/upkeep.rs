//! What a database does by itself when nobody changes it: rows of the log go into the column files, and
//! deleted rows and those that were rolled back out of them (docs/decisions/0024).
//!
//! A thread waits until no commit has come for a while. It stops what it does for whoever begins a
//! transaction, and works a small part of the time only. Readers never wait for it, and no transaction
//! is in conflict with it.

use super::Database;
use crate::table::TableData;
use hypostyle_io::yield_to_others;
use hypostyle_sync::{Condvar, Mutex, MutexGuard};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long no commit has come when the thread of a database that is in use begins.
pub const QUIET: Duration = Duration::from_secs(3);

/// A table is compacted when one in so many of its rows is deleted.
const DELETED_SHARE: u64 = 16;

/// The thread rests so many times as long as a compaction took.
const REST_TIMES: u32 = 20;

/// Tables in schemas with this name keep the positions of their rows (docs/cluster.md).
const FIXED_SCHEMA: &str = "hypostyle_cluster";

/// The thread of a database, and whom it must not be in the way of.
#[derive(Debug)]
pub(super) struct Upkeep {
    process: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How long no commit must come before the thread begins; `None` where it never does.
    quiet: Option<Duration>,
    due: Option<Instant>,
    /// No table is compacted before.
    rests_until: Option<Instant>,
    /// Transactions that are not over, but for the thread's own.
    transactions: usize,
    /// The thread commits what it has compacted: a transaction that began before would be in conflict.
    is_committing: bool,
    is_running: bool,
    is_stopped: bool,
    thread: Option<JoinHandle<()>>,
}

/// Counts a transaction as long as it lives.
#[derive(Debug)]
pub(crate) struct Begun(Arc<Upkeep>);

impl Drop for Begun {
    fn drop(&mut self) {
        // A child of `fork()` has its parent's transactions, but not its thread.
        if self.0.process == std::process::id() {
            self.0.state.lock().transactions -= 1;
        }
    }
}

impl Upkeep {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { process: std::process::id(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Notes that a transaction begins.
    fn begin(self: &Arc<Self>) -> Begun {
        let mut state = self.state.lock();
        state.transactions += 1;
        while state.is_committing {
            state = self.changed.wait(state);
        }
        drop(state);
        Begun(self.clone())
    }

    /// Says whether the thread has to stop what it does.
    fn is_in_the_way(&self) -> bool {
        let state = self.state.lock();
        state.is_stopped || state.transactions > 0
    }

    /// Ends the thread, and waits until it has ended.
    pub fn stop(&self) {
        if std::process::id() != self.process {
            return;
        }
        let mut state = self.state.lock();
        state.is_stopped = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic of it was reported where it happened.
            let _panicked = thread.join();
        }
    }

    /// Waits until there is something to do; false when there is no more.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            match state.due {
                _ if state.is_stopped => break,
                None => break,
                Some(due) if due <= Instant::now() => {
                    state.due = None;
                    return true;
                }
                Some(due) => (state, _) = self.changed.wait_until(state, due),
            }
        }
        state.is_running = false;
        false
    }

    fn run(&self, database: &Weak<Database>) {
        while self.wait() {
            let Some(database) = database.upgrade() else { return };
            match database.keep_tidy() {
                Ok(true) => {}
                Ok(false) => self.put_off(&mut self.state.lock()),
                Err(error) => tracing::warn!(%error, "a table is not brought back to its files"),
            }
        }
    }

    /// Has the thread look again after a while.
    fn put_off(&self, state: &mut MutexGuard<'_, State>) {
        let now = Instant::now();
        let after_rest = state.rests_until.unwrap_or(now);
        state.due = state.quiet.map(|quiet| (now + quiet).max(after_rest));
    }

    /// Lets no transaction begin until the guard is dropped; `None` when one has begun.
    fn commits(&self) -> Option<Committing<'_>> {
        let mut state = self.state.lock();
        if state.is_stopped || state.transactions > 0 {
            return None;
        }
        state.is_committing = true;
        Some(Committing(self))
    }
}

struct Committing<'a>(&'a Upkeep);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_committing = false;
        self.0.changed.notify_all();
    }
}

impl Database {
    /// Has a thread put rows of the log into the column files and compact tables, each time that no
    /// commit has come for so long; not any more where that is `None`.
    pub fn set_upkeep(&self, after: Option<Duration>) {
        self.upkeep.state.lock().quiet = after.filter(|_| !self.is_read_only());
    }

    /// Says whether a thread does so.
    pub fn has_upkeep(&self) -> bool {
        self.upkeep.state.lock().quiet.is_some()
    }

    /// Notes that a transaction begins, for as long as the value lives.
    pub(crate) fn begun(&self) -> Begun {
        self.upkeep.begin()
    }

    /// Notes that there will be something to do: rows were committed, or left behind.
    pub(crate) fn note_work(self: &Arc<Self>) {
        let mut state = self.upkeep.state.lock();
        if state.quiet.is_none() || state.is_stopped || self.upkeep.process != std::process::id() {
            return;
        }
        self.upkeep.put_off(&mut state);
        if state.is_running {
            return;
        }
        let (upkeep, database) = (self.upkeep.clone(), Arc::downgrade(self));
        let name = "hypostyle-upkeep".to_string();
        match std::thread::Builder::new().name(name).spawn(move || upkeep.run(&database)) {
            Ok(thread) => {
                state.is_running = true;
                state.thread = Some(thread);
            }
            Err(error) => tracing::warn!(%error, "no thread for bringing tables back to their files"),
        }
    }

    /// Puts rows of the log into the files, compacts tables, and removes rows that were rolled back while
    /// somebody looked at them. False when it is to be tried again.
    fn keep_tidy(self: &Arc<Self>) -> Result<bool> {
        if self.upkeep.is_in_the_way() {
            return Ok(false);
        }
        self.remove_left_behind()?;
        let snapshot = self.unpinned_snapshot()?;
        if snapshot.tables().any(|table| table.beyond_files().tail.rows() > 0) && !self.checkpoint()? {
            return Ok(false);
        }
        let wanted: Vec<TableId> =
            snapshot.tables().filter(|table| is_worn(table)).map(|table| table.entry().id).collect();
        drop(snapshot);
        for id in wanted {
            if self.upkeep.state.lock().rests_until.is_some_and(|until| until > Instant::now()) {
                return Ok(false);
            }
            let begun = Instant::now();
            let compacted = self.compact_alone(id);
            self.upkeep.state.lock().rests_until = Some(Instant::now() + REST_TIMES * begun.elapsed());
            match compacted {
                Ok(true) => {}
                // Somebody is in the way.
                Ok(false) => return Ok(false),
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Busy) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(!self.has_left_behind())
    }

    /// Compacts a table, unless a transaction begins meanwhile or another process has the database
    /// open: those could be in conflict with it.
    fn compact_alone(self: &Arc<Self>, id: TableId) -> Result<bool> {
        if !self.readers.alone()? {
            return Ok(true);
        }
        let mut transaction = self.begin_upkeep()?;
        let given_up = || Error::new(ErrorKind::Interrupted, "the compaction was given up");
        let compact = || {
            // It holds no lock that others wait for; a commit does.
            yield_to_others();
            transaction.compact(id, |_, _| match self.upkeep.is_in_the_way() {
                true => Err(given_up()),
                false => Ok(()),
            })
        };
        let compacted = std::thread::scope(|scope| scope.spawn(compact).join());
        match compacted.unwrap_or_else(|_| Err(Error::internal("the thread that compacts has panicked"))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
            Ok(0) => return Ok(true),
            Ok(_) => {}
        }
        let Some(_committing) = self.upkeep.commits() else { return Ok(false) };
        match self.readers.alone()? {
            true => transaction.commit().map(|_| true),
            false => Ok(true),
        }
    }
}

/// Says whether so many of a table's rows are deleted that it is compacted.
fn is_worn(table: &TableData) -> bool {
    let deleted = table.deleted().len();
    table.entry().schema != FIXED_SCHEMA && deleted > 0 && deleted * DELETED_SHARE >= table.positions()
}

impl Drop for Database {
    fn drop(&mut self) {
        self.upkeep.stop();
    }
}
