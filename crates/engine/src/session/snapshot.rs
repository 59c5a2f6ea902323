//! The beginning of a call: its snapshots, counts and clock.

use super::{LOCK_TIMEOUT, Session};
use hypostyle_catalog::kept::Meaning;
use hypostyle_catalog::scope::{Named, OWN_DATABASE, TEMPORARY};
use hypostyle_foreign::AttachedDatabase;
use hypostyle_storage::{Database, Patience, Patient, SCHEMA_MAIN};
use hypostyle_sync::MutexGuard;
use hypostyle_types::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A call of a session that is running. Between calls a session keeps no files of old versions, but
/// for those of its transaction and its results.
pub(crate) struct Running<'a> {
    session: &'a Session,
    _one_at_a_time: MutexGuard<'a, ()>,
    _patience: Patient,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.session.end_if_killed();
        self.session.scope.unpin();
        self.session.scope.end_readings();
        self.session.settle_temporary();
    }
}

impl Session {
    /// Begins a call of the session, which runs one at a time.
    pub(crate) fn enter(&self) -> Running<'_> {
        let _one_at_a_time = self.running.lock();
        Running { session: self, _one_at_a_time, _patience: self.patience().hold() }
    }

    /// Returns how long statements wait for the locks of other processes.
    fn patience(&self) -> Patience {
        let session = self.this.clone();
        Patience::of(self.settings.time(LOCK_TIMEOUT))
            .unless(move || session.upgrade().map_or(Ok(()), |session| session.check_interrupt()))
    }

    /// Begins a statement: forgets old interrupts and counts, and takes the newest snapshots.
    pub(crate) fn start(&self) -> Result<()> {
        self.start_counting()?;
        self.refresh()
    }

    /// Starts a call as [`Self::start`] does, for one that takes no snapshots.
    pub(crate) fn start_counting(&self) -> Result<()> {
        self.check_killed()?;
        self.scope.callers.lock().clear();
        self.scope.end_readings();
        self.meter.begin();
        self.clock.set(self.transaction.lock().as_ref().map(|explicit| explicit.begun));
        self.counters.done.store(0, Ordering::Relaxed);
        self.counters.total.store(0, Ordering::Relaxed);
        self.run.lock().restart();
        Ok(())
    }

    /// Goes on with a result that was left open: older interrupts are forgotten, and its time
    /// begins anew.
    ///
    /// # Errors
    /// `Closed` after KILL.
    pub fn go_on(&self) -> Result<()> {
        self.check_killed()?;
        self.meter.interrupted.store(false, Ordering::Release);
        self.run.lock().restart();
        Ok(())
    }

    /// Returns what the names of statements mean now.
    ///
    /// # Errors
    /// `Closed` after KILL.
    pub fn meaning(&self) -> Result<Meaning> {
        let _running = self.enter();
        self.start_unpinned()?;
        Ok(Meaning::of(&self.scope))
    }

    /// Says whether all names surely mean what they did.
    ///
    /// # Errors
    /// `Closed` after KILL.
    pub fn still_means(&self, meaning: &Meaning) -> Result<bool> {
        let _running = self.enter();
        self.start_unpinned()?;
        // Tables of other systems change without our knowing.
        let is_own = self.scope.foreign_databases.read().is_empty();
        Ok(is_own && meaning.is_that_of(&self.scope))
    }

    /// Starts a statement as [`Self::start`] does, for a statement that reads no rows.
    pub(crate) fn start_unpinned(&self) -> Result<()> {
        if self.is_in_transaction() {
            return self.start();
        }
        self.start_counting()?;
        self.scope.read_only.store(false, Ordering::Relaxed);
        self.take_attached()?;
        self.freshen_node();
        let _together = self.engine.node().map(|node| node.together());
        self.scope.pin_cluster(self.engine.node());
        for named in self.scope.databases.write().iter_mut() {
            named.snapshot = named.database.unpinned_snapshot()?;
        }
        self.scope.renew_search();
        Ok(())
    }

    /// Shows the session what has been committed, or what its transaction sees.
    pub(crate) fn refresh(&self) -> Result<()> {
        if !self.is_in_transaction() {
            self.freshen_node();
        }
        let mut transaction = self.transaction.lock();
        let read_only = transaction.as_ref().is_some_and(|explicit| explicit.read_only);
        self.scope.read_only.store(read_only, Ordering::Relaxed);
        if transaction.is_none() {
            self.take_attached()?;
        }
        let _together = self.engine.node().map(|node| node.together());
        if transaction.is_none() {
            self.scope.pin_cluster(self.engine.node());
        }
        for named in self.scope.databases.write().iter_mut() {
            named.snapshot = match transaction.as_mut().and_then(|explicit| explicit.part(&named.name)) {
                Some(transaction) => transaction.snapshot()?,
                None => named.database.snapshot()?,
            };
        }
        self.scope.renew_search();
        Ok(())
    }

    /// Has a node that was away learn what it has missed. Its own session works for who does that.
    fn freshen_node(&self) {
        if let Some(node) = self.engine.node().filter(|_| !self.is_of_node) {
            node.freshen();
        }
    }

    /// Tells what memory the temporary tables take by now.
    pub(super) fn settle_temporary(&self) {
        let Some(memory) = self.temporary.get() else { return };
        let database = self.scope.database(TEMPORARY);
        if let Ok(bytes) = database.and_then(|named| named.database.memory_bytes()) {
            memory.settle(bytes);
        }
    }

    /// Takes over what sessions have attached and detached.
    fn take_attached(&self) -> Result<()> {
        let attached = self.engine.attached.read();
        if self.attached_changes.load(Ordering::Relaxed) == attached.changes {
            return Ok(());
        }
        let named = |(name, database): &(String, Arc<Database>)| {
            Ok(Named {
                name: name.clone(),
                database: database.clone(),
                snapshot: database.unpinned_snapshot()?,
            })
        };
        let now = attached.databases.iter().map(named).collect::<Result<Vec<_>>>()?;
        {
            let mut databases = self.scope.databases.write();
            databases.retain(|named| [OWN_DATABASE, TEMPORARY].contains(&named.name.as_str()));
            databases.extend(now);
        }
        let foreign =
            attached.foreign.iter().map(|database| Arc::new(AttachedDatabase::new(database.clone())));
        *self.scope.foreign_databases.write() = foreign.collect();
        if self.scope.current_database().is_err() {
            self.scope.set_current(OWN_DATABASE, SCHEMA_MAIN);
        }
        self.attached_changes.store(attached.changes, Ordering::Relaxed);
        Ok(())
    }
}
