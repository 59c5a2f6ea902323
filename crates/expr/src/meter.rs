//! Counts what statements have allocated, and decides which one fails when it is too much.
//!
//! Operators reserve what they hold in a pool, but not all memory that a computation uses. If the
//! process counts its allocations (`hypostyle_memory`), each session's statement is charged with
//! its own, on all threads. Between batches, and before a function that may give a large result, a
//! statement checks whether the process exceeds its memory limit and [`allowance`]. Then the
//! statement that has most fails, and no other.

use crate::work::{self, ChargingTasks, Work};
use arrow::record_batch::RecordBatch;
use datafusion::common::runtime::set_join_set_tracer;
use hypostyle_memory::Account;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The largest size of one value, as in PostgreSQL. A value may always have this many bytes,
/// however little memory there is.
const VALUE_BYTES_MAX: u64 = 1 << 30;
const VALUE_BYTES_MIN: u64 = 1 << 20;

/// Nobody asks for room for less.
pub const SMALL_BYTES: u64 = 1 << 20;

/// It is looked this often, at most, for freed memory that the process keeps.
const TIDY_EVERY: Duration = Duration::from_millis(100);

/// Returns what a process may take beyond its limit for what is there without statements, and for
/// what operators need for a moment.
fn allowance(limit: u64) -> u64 {
    const LEAST: u64 = 64 << 20;
    LEAST.max(limit / 4)
}

/// The memory of an engine's statements.
#[derive(Debug, Default)]
pub struct Ledger {
    limit: AtomicU64,
    /// What is being allocated at present, for as long as it is not known to be.
    promised: AtomicU64,
    meters: Mutex<Vec<Weak<Meter>>>,
    /// When it was looked last for freed memory that the process keeps.
    tidied: Mutex<Option<Instant>>,
}

/// Room for what is allocated while this lives.
#[derive(Debug)]
pub struct Room<'a> {
    ledger: &'a Ledger,
    bytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.ledger.promised.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Self> {
        // This fails if another engine of the process has set it; the value is the same.
        let _is_set = set_join_set_tracer(&ChargingTasks);
        let ledger = Self::default();
        ledger.set_limit(limit);
        Arc::new(ledger)
    }

    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Gives back freed memory that the process keeps, if it is more than it may take beyond its
    /// limit.
    fn tidy(&self) {
        let Some(mut tidied) = self.tidied.try_lock() else { return };
        let now = Instant::now();
        if tidied.is_none_or(|before| now - before > TIDY_EVERY) {
            *tidied = Some(now);
            hypostyle_memory::give_back(allowance(self.limit()));
        }
    }

    /// Returns what the process may have at most.
    fn bound(&self) -> u64 {
        self.limit().saturating_add(allowance(self.limit()))
    }

    /// Returns what all statements are charged with, and what the one is that has most.
    fn charged(&self) -> (u64, u64) {
        let meters = self.meters.lock();
        let bytes = meters.iter().filter_map(Weak::upgrade).map(|meter| meter.account.bytes());
        bytes.fold((0, 0), |(all, most), bytes| (all + bytes, most.max(bytes)))
    }
}

/// The memory of one session's statement.
pub struct Meter {
    ledger: Arc<Ledger>,
    account: Account,
    /// Asks the statement to end.
    pub interrupted: AtomicBool,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({} bytes)", self.account.bytes())
    }
}

impl Meter {
    pub fn new(ledger: &Arc<Ledger>) -> Arc<Self> {
        let (account, interrupted) = (Account::default(), AtomicBool::new(false));
        let meter = Arc::new(Self { ledger: ledger.clone(), account, interrupted });
        let mut meters = ledger.meters.lock();
        meters.retain(|meter| meter.strong_count() > 0);
        meters.push(Arc::downgrade(&meter));
        drop(meters);
        meter
    }

    /// Begins another statement.
    pub fn begin(&self) {
        self.interrupted.store(false, Ordering::Release);
        self.account.clear();
        self.ledger.tidy();
    }

    /// Runs something for the statement on this thread.
    pub fn charge<T>(self: &Arc<Self>, run: impl FnOnce() -> T) -> T {
        Work::new(self).charge(run)
    }

    /// What is allocated in `run` is this statement's.
    pub(crate) fn account<T>(&self, run: impl FnOnce() -> T) -> T {
        self.account.charge(run)
    }

    /// Stops charging rows that now belong to the caller, who frees them at any time.
    pub fn hand_over(&self, batch: &RecordBatch) {
        self.account.hand_over(batch.get_array_memory_size() as u64);
    }

    /// Returns the bytes that one value may have.
    pub fn value_limit(&self) -> u64 {
        (self.ledger.limit() / 8).clamp(VALUE_BYTES_MIN, VALUE_BYTES_MAX)
    }

    /// Returns the bytes that a function may make of one batch of rows.
    pub fn batch_limit(&self) -> u64 {
        (self.ledger.limit() / 4).max(2 * VALUE_BYTES_MIN)
    }

    /// Checks that the statement may continue.
    ///
    /// # Errors
    /// `Interrupted`, and `OutOfMemory` for the statement that has most of too much.
    pub fn check(&self) -> Result<()> {
        self.check_interrupt()?;
        let Some(total) = hypostyle_memory::total().filter(|total| *total > self.ledger.bound()) else {
            return Ok(());
        };
        let (all, most) = self.ledger.charged();
        // A statement cannot give back memory that belongs to others.
        match self.account.bytes() >= most && all >= self.ledger.limit() / 2 {
            true => Err(self.exhausted(total, "")),
            false => Ok(()),
        }
    }

    /// Checks that the statement may allocate `bytes` at once.
    ///
    /// # Errors
    /// `Interrupted`, and `OutOfMemory` when there is no room for them.
    pub fn check_room(&self, bytes: u64, what: &str) -> Result<()> {
        self.check_interrupt()?;
        let needed = |total: &u64| total.saturating_add(bytes) > self.ledger.bound();
        let Some(total) = hypostyle_memory::total().filter(needed).filter(|_| bytes >= SMALL_BYTES) else {
            return Ok(());
        };
        match self.ledger.charged().0.saturating_add(bytes) >= self.ledger.limit() / 2 {
            true => Err(self.exhausted(total, &format!(": {what} needs {bytes} bytes more"))),
            false => Ok(()),
        }
    }

    /// Keeps room for `bytes` that others, who ask at the same time, do not get.
    ///
    /// # Errors
    /// `Interrupted`, and `OutOfMemory` when there is no room for them.
    pub fn room(&self, bytes: u64, what: &str) -> Result<Room<'_>> {
        let before = self.ledger.promised.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { ledger: &self.ledger, bytes };
        self.check_room(before.saturating_add(bytes), what)?;
        Ok(room)
    }

    /// The session may run another statement already while a thread still works for one that was given up.
    fn check_interrupt(&self) -> Result<()> {
        match self.interrupted.load(Ordering::Acquire) || work::is_given_up() {
            true => Err(Error::interrupted()),
            false => Ok(()),
        }
    }

    fn exhausted(&self, total: u64, what: &str) -> Error {
        let message = format!(
            "the memory is exhausted{what}: the process has {total} bytes, of which this statement has about {}, and memory_limit \
             is {}; raise memory_limit or make the query smaller",
            self.account.bytes(),
            self.ledger.limit()
        );
        Error::new(ErrorKind::OutOfMemory, message)
    }
}
