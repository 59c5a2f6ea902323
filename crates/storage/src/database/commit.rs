//! Commits: their frames in the log, one sync for all that wait, and when readers see them
//! (format.md §7, §8).

use super::view::{Position, View, advance, clear_unfinished, shared_is_damaged};
use super::{Committer, Database, Synchronous, garbage};
use crate::readers::Garbage;
use crate::snapshot::Snapshot;
use arrow_array::RecordBatch;
use hypostyle_format::{Catalog, Change, Commit, Shared};
use hypostyle_io::{LockFileGuard, Patience, Waiting};
use hypostyle_sync::Condvar;
use hypostyle_types::{Error, ErrorKind, Result, Version};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A log longer than this is folded into a checkpoint.
const LOG_BYTES_MAX: u64 = 2 << 20;

/// The log grows by this many zero bytes at a time: overwriting them makes a sync cheaper than growing
/// the file does.
const LOG_ROOM: u64 = 256 << 10;

/// Zeros at the end of the log that only commits which give back disk space may use: on a full disk
/// the log does not grow.
pub(super) const LOG_RESERVE: u64 = 64 << 10;

/// Syncs of other processes that one waits for in the hope that they serve it, before it queues for its own.
const TURNS_OF_OTHERS: usize = 4;

/// Who syncs waits for others only where that takes longer than what they do between two commits.
const WORTH_GATHERING: Duration = Duration::from_micros(250);

/// Nobody waits longer than this for others, nor longer than half a sync takes.
const GATHERING_MAX: Duration = Duration::from_millis(2);

/// When a commit is for readers to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    /// When it is durable, or at once if it need not be.
    WhenDone,
    /// It becomes visible with what comes behind it in the log, be it a checkpoint.
    WithNext,
}

/// How far this process knows the log to be durable and published.
#[derive(Debug)]
pub(super) struct Syncing {
    pub reached: Position,
    /// A thread has the turn, or waits for other processes to end theirs.
    pub has_turn: bool,
    /// Who waits for the turn to end: each is woken once, when it is served or next.
    pub waiting: VecDeque<Queued>,
    /// Threads that the last sync has served, and that waited for the next one.
    pub committing: usize,
    /// How long the last sync took.
    pub time: Duration,
    /// Who has the turn waits for others to write their commits.
    pub gathers: bool,
}

#[derive(Debug)]
pub(super) struct Queued {
    position: Position,
    woken: Arc<Condvar>,
}

/// The turn to sync the log, of one thread in all processes. Those that wait for it find, most
/// often, that another has synced what they have written.
pub(super) struct SyncTurn<'a> {
    database: &'a Database,
    lock: Option<LockFileGuard<'a>>,
}

impl Syncing {
    pub fn new(reached: Position) -> Self {
        let (has_turn, waiting, committing) = (false, VecDeque::new(), 1);
        Self { reached, has_turn, waiting, committing, time: Duration::ZERO, gathers: false }
    }

    /// Whether somebody still waits to be woken.
    fn has(&self, woken: &Arc<Condvar>) -> bool {
        self.waiting.iter().any(|waiting| Arc::ptr_eq(&waiting.woken, woken))
    }

    /// Removes one that waits no more. If the turn was to be its, the next one has it.
    fn leave(&mut self, woken: &Arc<Condvar>) {
        if self.has(woken) {
            self.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.woken, woken));
        } else if !self.has_turn
            && let Some(next) = self.waiting.pop_front()
        {
            next.woken.notify_one();
        }
    }
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        // First, because the next thread of this process takes it by the same descriptor.
        self.lock = None;
        let mut syncing = self.database.syncing.lock();
        syncing.has_turn = false;
        let next = syncing.waiting.pop_front();
        drop(syncing);
        if let Some(Queued { woken, .. }) = next {
            woken.notify_one();
        }
    }
}

impl SyncTurn<'_> {
    /// Waits a little for the commits of those who have committed together before: they come soon,
    /// and one sync is then for all.
    fn gather(&self) {
        let mut syncing = self.database.syncing.lock();
        let Syncing { time, committing, .. } = *syncing;
        if time < WORTH_GATHERING {
            return;
        }
        let deadline = Instant::now() + (time / 2).min(GATHERING_MAX);
        syncing.gathers = true;
        while syncing.waiting.len() + 1 < committing {
            let is_late;
            (syncing, is_late) = self.database.gathered.wait_until(syncing, deadline);
            if is_late {
                break;
            }
        }
        syncing.gathers = false;
    }

    /// Tells how far the log is durable.
    pub fn tell(&self, reached: Position) {
        let mut syncing = self.database.syncing.lock();
        syncing.reached = reached;
        syncing.committing = syncing.waiting.len() + 1;
        let (served, waiting): (VecDeque<_>, VecDeque<_>) =
            syncing.waiting.drain(..).partition(|waiting| waiting.position <= reached);
        syncing.waiting = waiting;
        drop(syncing);
        for Queued { woken, .. } in served {
            woken.notify_one();
        }
    }
}

impl Database {
    /// Everything that has been written, published or not; for who holds an append lock.
    pub(crate) fn latest(&self) -> Result<Arc<Snapshot>> {
        let mut waiting = Waiting::begin();
        let mut committer = self.committer(&mut waiting)?;
        let _lock = self.commit_lock(&mut waiting)?;
        self.catch_up(&mut committer.view)?;
        Ok(committer.view.snapshot.clone())
    }

    /// Takes in everything that is written; under the commit lock.
    pub(super) fn catch_up(&self, view: &mut View) -> Result<Shared> {
        let shared = self.read_shared()?.ok_or_else(shared_is_damaged)?;
        if shared.sync_failed || self.failed.load(Ordering::Acquire) {
            return Err(refused());
        }
        // Who opens the database now shares nothing with this process.
        if self.store.path().is_some() && self.shared_file()?.is_removed()? {
            return Err(Error::new(
                ErrorKind::NotFound,
                "files of the database were removed while it is open: nothing can be committed any more; close it \
                 everywhere, and restore it from a backup if it does not open again",
            ));
        }
        // What readers have taken in need not be read again.
        let head = self.head.read();
        if head.position > view.position {
            *view = head.clone();
        }
        drop(head);
        advance(&self.store, view, Position { checkpoint: shared.checkpoint, offset: shared.written })?;
        // A process that was killed while it wrote a frame has written its beginning, or even all
        // of it. Nobody may overwrite column files that it names as long as it may come back after
        // a restart.
        let log = &view.log;
        let mut next = [0; 8];
        if log.read_up_to(shared.written, &mut next)? > 0 && next != [0; 8] {
            clear_unfinished(log, shared.written).inspect_err(|_| self.refuse_commits())?;
        }
        Ok(shared)
    }

    /// Commits what `build` makes of the latest state, with the rows of its inserts; it runs while
    /// nobody else can commit. Returns the version of this commit: others may have been published
    /// by then.
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
            let mut waiting = Waiting::begin();
            let mut committer = self.committer(&mut waiting)?;
            let _lock = self.commit_lock(&mut waiting)?;
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
                let hidden = hidden.filter(|_| error.kind() == ErrorKind::Conflict);
                return match hidden.map_or(Ok(()), |view| self.make_durable(&view)) {
                    // The other commit takes too long: it is a conflict all the same.
                    Err(waited) if waited.kind() != ErrorKind::Busy => Err(waited),
                    _ => Err(error),
                };
            }
        };
        if waits {
            self.make_durable(&view).map_err(|error| self.not_undone(error))?;
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

    /// Writes a change that nobody waits for: it becomes durable and visible with the next commit,
    /// whose frame comes behind it in the log.
    ///
    /// # Errors
    /// Those of `build`; `DiskFull` or `Io`: the change is then not made.
    pub(crate) fn log_change(&self, build: impl FnOnce(&Catalog) -> Result<Change>) -> Result<()> {
        self.check_writable()?;
        let mut waiting = Waiting::begin();
        let mut committer = self.committer(&mut waiting)?;
        let position = {
            let _lock = self.commit_lock(&mut waiting)?;
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

    /// Writes a commit at the end of the log, under the commit lock, and publishes it unless it
    /// must be durable first. The files that it makes superfluous, and whether it must.
    pub(super) fn write_commit(
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
        let log = committer.view.log.clone();
        let end = shared.written;
        let needed = Position { checkpoint: shared.checkpoint, offset: end + frame_bytes };
        let reserve = if commit.changes.iter().all(gives_back) { 0 } else { LOG_RESERVE };
        let wanted = Position { offset: needed.offset + reserve, ..needed };
        if committer.room.checkpoint != wanted.checkpoint || committer.room < wanted {
            committer.room = Position { offset: log.length()?, ..needed };
        }
        if committer.room < wanted {
            let room = wanted.offset.next_multiple_of(LOG_ROOM);
            frame.resize((room - end) as usize, 0);
            committer.room.offset = room;
        }
        let garbage = garbage(&self.store, &before, &snapshot);
        shared.written = needed.offset;
        let takes_files = self.store.path().is_some() && !garbage.is_empty();
        let mut waits = false;
        if visible == Visible::WhenDone {
            // A commit that is lost must not have taken files with it; and what follows one that
            // may still fail is visible after it.
            let is_full = self.store.path().is_some() && self.synchronous() == Synchronous::Full;
            waits = is_full || takes_files || shared.commit_waits;
            match waits {
                true => shared.commit_waits = true,
                false => shared.published = shared.written,
            }
        } else if takes_files {
            // Should this process end before it syncs, the next commit does.
            shared.commit_waits = true;
        }
        if let Err(error) = log.write_at(end, &frame).and_then(|()| self.write_shared(shared)) {
            committer.room.offset = end;
            // What there is of the frame must never become a commit.
            if clear_unfinished(&log, end).is_err() {
                self.refuse_commits();
            }
            return Err(error);
        }
        if !garbage.is_empty() {
            self.indexes.prune(snapshot.shared_catalog());
        }
        committer.view = View { snapshot, log, position: needed };
        committer.unpublished.push_back(committer.view.clone());
        self.take_in(committer, Position { offset: shared.published, ..needed });
        Ok((garbage, waits))
    }

    /// Waits until the log is durable and published up to a view's position. One syncs for all who
    /// have written by then, also in other processes.
    fn make_durable(&self, view: &View) -> Result<()> {
        let mut waiting = Waiting::to_the_end();
        let turn = self.turn_to_sync(view.position, &mut waiting).inspect_err(|error| {
            if error.kind() != ErrorKind::Busy {
                self.failed.store(true, Ordering::Release);
            }
        });
        if let Some(turn) = turn? {
            let reached = match self.sync_log(view, &mut waiting) {
                // It is not the sync that failed: who has the lock, or comes after him, publishes
                // what is durable.
                Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
                reached => reached,
            };
            // Told before the next one has its turn: a second sync would succeed, and say nothing
            // of what the first one has lost.
            let reached = reached.inspect_err(|_| {
                // However little patience there is: without the lock, what is told may be written over.
                let _patient = Patience::of(None).hold();
                let mut waiting = Waiting::to_the_end();
                let _committer = self.committer(&mut waiting);
                let _lock = self.commit_lock(&mut waiting);
                self.refuse_commits();
            })?;
            turn.tell(reached);
        }
        self.durable.fetch_max(view.snapshot.version().0, Ordering::AcqRel);
        Ok(())
    }

    /// The error for a commit that is written and was not seen to become durable. Whoever cannot
    /// tell whether it is does not undo it: this process commits no more.
    fn not_undone(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Busy {
            return error;
        }
        self.failed.store(true, Ordering::Release);
        error.context(
            "the commit is written, but not known to be durable; close the database in this process, \
             and open it again to see",
        )
    }

    /// Makes the log durable and publishes it, unless another process has done so; how far.
    fn sync_log(&self, view: &View, waiting: &mut Waiting) -> Result<Position> {
        let shared = self.read_shared()?.ok_or_else(shared_is_damaged)?;
        let known = Position::durable(&shared);
        if known >= view.position {
            self.take_in(&mut *self.committer(waiting)?, known);
            return Ok(known);
        }
        if shared.sync_failed || self.failed.load(Ordering::Acquire) {
            return Err(refused());
        }
        let start = Instant::now();
        view.log.sync().inspect_err(|_| self.failed.store(true, Ordering::Release))?;
        self.syncing.lock().time = start.elapsed();
        let reached = Position { offset: shared.written, ..known };
        self.publish(reached, waiting)?;
        Ok(reached)
    }

    /// `None` when the log is durable up to a position, by then.
    pub(super) fn turn_to_sync(
        &self,
        position: Position,
        waiting: &mut Waiting,
    ) -> Result<Option<SyncTurn<'_>>> {
        let mut syncing = self.syncing.lock();
        while syncing.has_turn && syncing.reached < position {
            let woken = Arc::new(Condvar::new());
            syncing.waiting.push_back(Queued { position, woken: woken.clone() });
            if syncing.gathers && syncing.waiting.len() + 1 >= syncing.committing {
                self.gathered.notify_one();
            }
            while syncing.has(&woken) {
                let is_late;
                (syncing, is_late) = woken.wait_until(syncing, waiting.next_look());
                if is_late && syncing.has(&woken) {
                    let holder = || self.holder(self.sync_lock.as_ref());
                    let checked;
                    (syncing, checked) = syncing.unlocked(|| waiting.check(holder));
                    checked.inspect_err(|_| syncing.leave(&woken))?;
                }
            }
        }
        if syncing.reached >= position {
            return Ok(None);
        }
        syncing.has_turn = true;
        drop(syncing);
        let mut turn = SyncTurn { database: self, lock: None };
        turn.gather();
        turn.lock = self.lock_turn(position, waiting)?;
        Ok(Some(turn))
    }

    /// Keeps other processes out of the turn; `None` when one of them has made the log durable up
    /// to the position.
    fn lock_turn(&self, position: Position, waiting: &mut Waiting) -> Result<Option<LockFileGuard<'_>>> {
        let Some(file) = &self.sync_lock else { return Ok(None) };
        for _ in 0..TURNS_OF_OTHERS {
            if let Some(lock) = file.try_lock()? {
                return Ok(Some(lock));
            }
            file.wait(waiting)?;
            if Position::durable(&self.read_shared()?.ok_or_else(shared_is_damaged)?) >= position {
                return Ok(None);
            }
        }
        file.lock(waiting).map(Some)
    }

    /// Nobody may commit until all have closed the database (format.md §7 rule 5); under the commit lock.
    pub(super) fn refuse_commits(&self) {
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
    fn publish(&self, position: Position, waiting: &mut Waiting) -> Result<()> {
        let mut committer = self.committer(waiting)?;
        let _lock = self.commit_lock(waiting)?;
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
}

/// Whether a change makes files superfluous, or rows that VACUUM can remove.
fn gives_back(change: &Change) -> bool {
    matches!(change, Change::DropSchema(_) | Change::DropTable { .. } | Change::Delete { .. })
}

fn refused() -> Error {
    Error::new(
        ErrorKind::Io,
        "an earlier commit could not be made durable; close the database in every process and open it again",
    )
}
