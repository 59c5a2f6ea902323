//! Lists of threads that wait, for the locks of the crate `parking_lot`, which is used by tokio and
//! DataFusion.
//!
//! The functions are those of the crate of the same name, and mean the same. What is different is what a
//! child of `fork()` has of them. It has only the thread that forked. Whoever else was in a list never
//! wakes up there, and its memory is given to the child's next threads: with nodes in the memory of the
//! threads, the child dies as soon as it walks through such a list. Here each process has lists of its own,
//! and what is in them belongs to nobody's stack.
//!
//! A thread waits at a key, which is the address of a lock. Keys are shared out among buckets.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bits of a key's hash choose its bucket.
const BUCKET_BITS: u32 = 7;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// Spreads addresses, which are multiples of eight: the golden ratio of 64 bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fairness is asked for once in so long, on average: the thread that waits longest gets the lock then.
const FAIR_INTERVAL: Duration = Duration::from_micros(500);

/// How a thread has been woken up, for the lock that it waits for.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct UnparkToken(pub usize);

/// What a thread waits for, for the lock that wakes it up.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct ParkToken(pub usize);

pub const DEFAULT_UNPARK_TOKEN: UnparkToken = UnparkToken(0);
pub const DEFAULT_PARK_TOKEN: ParkToken = ParkToken(0);

/// How waiting has ended.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum ParkResult {
    /// Another thread has woken it up, with a token.
    Unparked(UnparkToken),
    /// It has not begun: the lock had changed.
    Invalid,
    /// Its time was over.
    TimedOut,
}

impl ParkResult {
    /// Says whether another thread has woken it up.
    #[inline]
    pub fn is_unparked(self) -> bool {
        matches!(self, Self::Unparked(_))
    }
}

/// What happened to the threads at a key.
#[derive(Copy, Clone, Default, Eq, PartialEq, Debug)]
pub struct UnparkResult {
    /// So many were woken up.
    pub unparked_threads: usize,
    /// So many wait at the other key now.
    pub requeued_threads: usize,
    /// Others wait at the key. Tells nothing if none was woken up.
    pub have_more_threads: bool,
    /// The lock should be given to the thread that was woken up, and not to whoever takes it first.
    pub be_fair: bool,
    _more: (),
}

/// What [`unpark_requeue`] does.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum RequeueOp {
    /// Nothing.
    Abort,
    /// The first thread is woken up, and the others wait at the other key.
    UnparkOneRequeueRest,
    /// All wait at the other key.
    RequeueAll,
    /// The first one is woken up.
    UnparkOne,
    /// The first one waits at the other key.
    RequeueOne,
}

/// What [`unpark_filter`] does with a thread.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum FilterOp {
    /// It is woken up.
    Unpark,
    /// It goes on waiting.
    Skip,
    /// It goes on waiting, and so do all behind it.
    Stop,
}

/// What a thread waits by.
struct Parker {
    /// Where it waits. Changes while the buckets of both keys are locked.
    key: AtomicUsize,
    /// How it was woken up.
    token: Mutex<Option<UnparkToken>>,
    woken: Condvar,
}

impl Parker {
    fn new() -> Arc<Self> {
        Arc::new(Self { key: AtomicUsize::new(0), token: Mutex::new(None), woken: Condvar::new() })
    }

    /// Waits to be woken up, or until a time.
    fn wait(&self, until: Option<Instant>) -> Option<UnparkToken> {
        let mut token = locked(&self.token);
        loop {
            if token.is_some() {
                return *token;
            }
            token = match until {
                None => self.woken.wait(token).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.woken.wait_timeout(token, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// A thread in a list.
struct Waiting {
    key: usize,
    token: ParkToken,
    parker: Arc<Parker>,
}

impl Waiting {
    /// Says how it is woken up; it has to be told when no bucket is locked any more.
    fn woken(self, token: UnparkToken) -> Arc<Parker> {
        *locked(&self.parker.token) = Some(token);
        self.parker
    }
}

/// The threads that wait at some keys, those first that have waited longest.
struct Bucket {
    queue: VecDeque<Waiting>,
    fair_at: Instant,
    seed: u32,
}

impl Bucket {
    fn has(&self, key: usize) -> bool {
        self.queue.iter().any(|waiting| waiting.key == key)
    }

    /// Says whether the lock that is unlocked should be fair.
    fn is_fair(&mut self) -> bool {
        let now = Instant::now();
        if now <= self.fair_at {
            return false;
        }
        // Numbers that are random enough: xorshift.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        self.fair_at = now + FAIR_INTERVAL * 2 * (self.seed & 0xff) / 0xff;
        true
    }
}

/// The lists of a process.
struct Table {
    process: u32,
    buckets: [Mutex<Bucket>; BUCKETS],
}

/// The lists of this process, or of the one that it was forked from.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Returns the lists of this process. Those of another one, which are left to it, may be locked for ever
/// here.
fn table() -> &'static Table {
    let process = std::process::id();
    loop {
        let known = TABLE.load(Ordering::Acquire);
        // SAFETY: a table is never freed, and never changed but for what its locks guard.
        if let Some(table) = unsafe { known.as_ref() }
            && table.process == process
        {
            return table;
        }
        let bucket = |number: usize| {
            let seed = number as u32 + 1;
            Mutex::new(Bucket { queue: VecDeque::new(), fair_at: Instant::now(), seed })
        };
        let made = Box::into_raw(Box::new(Table { process, buckets: std::array::from_fn(bucket) }));
        if TABLE.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has got it.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

type Locked = MutexGuard<'static, Bucket>;

impl Table {
    fn lock(&'static self, key: usize) -> Locked {
        locked(&self.buckets[place(key)])
    }

    /// Locks the buckets of two keys, in their order; the second one is `None` if it is the first.
    fn lock_both(&'static self, from: usize, to: usize) -> (Locked, Option<Locked>) {
        match place(from).cmp(&place(to)) {
            std::cmp::Ordering::Equal => (self.lock(from), None),
            std::cmp::Ordering::Less => {
                let from = self.lock(from);
                (from, Some(self.lock(to)))
            }
            std::cmp::Ordering::Greater => {
                let to = self.lock(to);
                (self.lock(from), Some(to))
            }
        }
    }

    /// Locks the bucket of the key at which a thread waits, which may change until then.
    fn lock_of(&'static self, parker: &Parker) -> (usize, Locked) {
        loop {
            let key = parker.key.load(Ordering::Relaxed);
            let bucket = self.lock(key);
            if parker.key.load(Ordering::Relaxed) == key {
                return (key, bucket);
            }
        }
    }
}

fn place(key: usize) -> usize {
    ((key as u64).wrapping_mul(SPREAD) >> (u64::BITS - BUCKET_BITS)) as usize
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// What this thread waits by next.
    static OWN: Cell<Option<Arc<Parker>>> = const { Cell::new(None) };
}

/// Waits at a key until another thread wakes this one up, or until a time.
///
/// `validate` runs while the threads at the key cannot change, and says whether there is anything to wait
/// for. `before_sleep` runs behind it. `timed_out` is given the key at which the thread has waited last,
/// and whether nobody else waits there, and runs while the threads at that key cannot change.
///
/// # Safety
/// The key is an address of the caller's, and `validate` and `timed_out` neither panic nor call functions
/// of this crate.
pub unsafe fn park(
    key: usize,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
    timed_out: impl FnOnce(usize, bool),
    park_token: ParkToken,
    timeout: Option<Instant>,
) -> ParkResult {
    // A thread that ends has nothing of its own any more.
    let parker = OWN.try_with(Cell::take).ok().flatten().unwrap_or_else(Parker::new);
    let result = wait(&parker, key, validate, before_sleep, timed_out, park_token, timeout);
    let _ending = OWN.try_with(|own| own.set(Some(parker)));
    result
}

fn wait(
    parker: &Arc<Parker>,
    key: usize,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
    timed_out: impl FnOnce(usize, bool),
    park_token: ParkToken,
    timeout: Option<Instant>,
) -> ParkResult {
    let table = table();
    let mut bucket = table.lock(key);
    if !validate() {
        return ParkResult::Invalid;
    }
    parker.key.store(key, Ordering::Relaxed);
    *locked(&parker.token) = None;
    bucket.queue.push_back(Waiting { key, token: park_token, parker: parker.clone() });
    drop(bucket);
    before_sleep();
    if let Some(token) = parker.wait(timeout) {
        return ParkResult::Unparked(token);
    }
    let (key, mut bucket) = table.lock_of(parker);
    // It may have been woken up meanwhile.
    if let Some(token) = *locked(&parker.token) {
        return ParkResult::Unparked(token);
    }
    bucket.queue.retain(|waiting| !Arc::ptr_eq(&waiting.parker, parker));
    timed_out(key, !bucket.has(key));
    ParkResult::TimedOut
}

/// Wakes up the thread that has waited longest at a key. `callback` is told what happens, and runs while
/// the threads at the key cannot change; the thread is given the token that it returns.
///
/// # Safety
/// As [`park`].
pub unsafe fn unpark_one(key: usize, callback: impl FnOnce(UnparkResult) -> UnparkToken) -> UnparkResult {
    let mut bucket = table().lock(key);
    let mut result = UnparkResult::default();
    let first = bucket.queue.iter().position(|waiting| waiting.key == key);
    let first = first.and_then(|first| bucket.queue.remove(first));
    if first.is_some() {
        result.unparked_threads = 1;
        result.have_more_threads = bucket.has(key);
        result.be_fair = bucket.is_fair();
    }
    let token = callback(result);
    let parker = first.map(|first| first.woken(token));
    drop(bucket);
    if let Some(parker) = parker {
        parker.woken.notify_one();
    }
    result
}

/// Wakes up all threads at a key, and returns how many these were.
///
/// # Safety
/// As [`park`].
pub unsafe fn unpark_all(key: usize, unpark_token: UnparkToken) -> usize {
    let mut bucket = table().lock(key);
    let (at_key, others): (VecDeque<_>, _) =
        std::mem::take(&mut bucket.queue).into_iter().partition(|waiting| waiting.key == key);
    bucket.queue = others;
    let parkers: Vec<_> = at_key.into_iter().map(|waiting| waiting.woken(unpark_token)).collect();
    drop(bucket);
    parkers.iter().for_each(|parker| parker.woken.notify_one());
    parkers.len()
}

/// Wakes up a thread at a key, and has threads wait at another one, as `validate` says. `callback` is told
/// what happens; both run while the threads at the keys cannot change.
///
/// # Safety
/// As [`park`], for both keys.
pub unsafe fn unpark_requeue(
    key_from: usize,
    key_to: usize,
    validate: impl FnOnce() -> RequeueOp,
    callback: impl FnOnce(RequeueOp, UnparkResult) -> UnparkToken,
) -> UnparkResult {
    let (mut from, mut to) = table().lock_both(key_from, key_to);
    let mut result = UnparkResult::default();
    let op = validate();
    if op == RequeueOp::Abort {
        return result;
    }
    let wakes = matches!(op, RequeueOp::UnparkOneRequeueRest | RequeueOp::UnparkOne);
    let is_of_one = matches!(op, RequeueOp::UnparkOne | RequeueOp::RequeueOne);
    let (mut first, mut moved) = (None, VecDeque::new());
    for mut waiting in std::mem::take(&mut from.queue) {
        let is_taken = waiting.key == key_from && !(is_of_one && (first.is_some() || !moved.is_empty()));
        if !is_taken {
            result.have_more_threads |= waiting.key == key_from;
            from.queue.push_back(waiting);
        } else if wakes && first.is_none() {
            first = Some(waiting);
        } else {
            waiting.key = key_to;
            waiting.parker.key.store(key_to, Ordering::Relaxed);
            moved.push_back(waiting);
        }
    }
    result.requeued_threads = moved.len();
    to.as_mut().unwrap_or(&mut from).queue.append(&mut moved);
    if first.is_some() {
        result.unparked_threads = 1;
        result.be_fair = from.is_fair();
    }
    let token = callback(op, result);
    let parker = first.map(|first| first.woken(token));
    drop((from, to));
    if let Some(parker) = parker {
        parker.woken.notify_one();
    }
    result
}

/// Wakes up those threads at a key that `filter` chooses by their tokens, from the one on that has waited
/// longest. `callback` is told what happens; both run while the threads at the key cannot change.
///
/// # Safety
/// As [`park`].
pub unsafe fn unpark_filter(
    key: usize,
    mut filter: impl FnMut(ParkToken) -> FilterOp,
    callback: impl FnOnce(UnparkResult) -> UnparkToken,
) -> UnparkResult {
    let mut bucket = table().lock(key);
    let mut result = UnparkResult::default();
    let (mut chosen, mut has_stopped) = (Vec::new(), false);
    for waiting in std::mem::take(&mut bucket.queue) {
        if waiting.key == key && !has_stopped {
            match filter(waiting.token) {
                FilterOp::Unpark => {
                    chosen.push(waiting);
                    continue;
                }
                FilterOp::Skip => {}
                FilterOp::Stop => has_stopped = true,
            }
            result.have_more_threads = true;
        }
        bucket.queue.push_back(waiting);
    }
    result.unparked_threads = chosen.len();
    if !chosen.is_empty() {
        result.be_fair = bucket.is_fair();
    }
    let token = callback(result);
    let parkers: Vec<_> = chosen.into_iter().map(|waiting| waiting.woken(token)).collect();
    drop(bucket);
    parkers.iter().for_each(|parker| parker.woken.notify_one());
    result
}

/// Waits for a lock that is held for a short time, longer at each turn.
#[derive(Default)]
pub struct SpinWait {
    turns: u32,
}

impl SpinWait {
    /// So many turns are better than waiting in a list.
    const TURNS_MAX: u32 = 10;
    /// Those that do not give the processor to other threads.
    const SHORT_TURNS: u32 = 3;

    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub fn reset(&mut self) {
        self.turns = 0;
    }

    /// Waits for a turn, and says whether there may be another one.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if self.turns >= Self::TURNS_MAX {
            return false;
        }
        self.turns += 1;
        match self.turns <= Self::SHORT_TURNS {
            true => relax(self.turns),
            false => std::thread::yield_now(),
        }
        true
    }

    /// Waits for a turn, and keeps the processor.
    #[inline]
    pub fn spin_no_yield(&mut self) {
        self.turns = (self.turns + 1).min(Self::TURNS_MAX);
        relax(self.turns);
    }
}

#[inline]
fn relax(turn: u32) {
    for _ in 0..1_u32 << turn {
        std::hint::spin_loop();
    }
}

/// Which thread has which lock: nobody looks.
pub mod deadlock {
    /// # Safety
    /// None is needed.
    #[inline]
    pub unsafe fn acquire_resource(_key: usize) {}

    /// # Safety
    /// None is needed.
    #[inline]
    pub unsafe fn release_resource(_key: usize) {}
}
