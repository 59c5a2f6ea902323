//! The standard library's locks, which a panic of who has one does not poison.
//!
//! A thread that waits for one is in no list of the process. The lists of parking_lot have the waiting
//! threads of all locks, also in a child of `fork()`, where those threads are gone and their memory is
//! that of others: a child that waits for another lock then hangs or dies.

#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::{self, OnceLock, PoisonError, TryLockError};
pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// Returns how many threads run at once, as it was when somebody has asked first. To ask the system reads
/// files of control groups each time, which takes longer than what a small statement does with the answer.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// A value for one thread at a time, with which a thread may wait for a [`Condvar`].
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// Access to the value of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    value: sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value if no other thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { mutex: self, value: unless_taken(self.0.try_lock())? })
    }

    /// Says whether a thread has the value.
    pub fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    /// Waits for the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, value: self.0.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Runs a function while others may have the value.
    pub fn unlocked<R>(self, run: impl FnOnce() -> R) -> (Self, R) {
        let mutex = self.mutex;
        drop(self);
        let result = run();
        (mutex.lock(), result)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A value for one thread that changes it at a time, or for several that do not.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no other thread changes the value.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread has the value.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what a lock gives that is not waited for.
fn unless_taken<G>(locked: Result<G, TryLockError<G>>) -> Option<G> {
    match locked {
        Ok(value) => Some(value),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Where threads wait to be notified.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits until it is notified, or for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { mutex, value } = guard;
        MutexGuard { mutex, value: self.0.wait(value).unwrap_or_else(PoisonError::into_inner) }
    }

    /// Waits until it is notified, or for no reason, or until a moment. Says whether the moment was
    /// reached.
    pub fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, moment: Instant) -> (MutexGuard<'a, T>, bool) {
        let MutexGuard { mutex, value } = guard;
        let left = moment.saturating_duration_since(Instant::now());
        let (value, waited) = self.0.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { mutex, value }, waited.timed_out())
    }
}

/// A value for one thread at a time, for which threads wait until a moment.
#[derive(Debug, Default)]
pub struct TimedMutex<T> {
    is_taken: sync::Mutex<bool>,
    freed: sync::Condvar,
    /// Locked only by who has set `is_taken`.
    value: sync::Mutex<T>,
}

/// Access to the value of a [`TimedMutex`].
#[derive(Debug)]
pub struct TimedMutexGuard<'a, T> {
    value: sync::MutexGuard<'a, T>,
    // Behind the value, which is free before others are told.
    _turn: Turn<'a, T>,
}

#[derive(Debug)]
struct Turn<'a, T>(&'a TimedMutex<T>);

impl<T> TimedMutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            is_taken: sync::Mutex::new(false),
            freed: sync::Condvar::new(),
            value: sync::Mutex::new(value),
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the value.
    pub fn lock(&self) -> TimedMutexGuard<'_, T> {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            is_taken = self.freed.wait(is_taken).unwrap_or_else(PoisonError::into_inner);
        }
        self.take(is_taken)
    }

    /// Returns the value if no other thread has it.
    pub fn try_lock(&self) -> Option<TimedMutexGuard<'_, T>> {
        self.try_lock_until(Instant::now())
    }

    /// Waits for the value until a moment.
    pub fn try_lock_until(&self, moment: Instant) -> Option<TimedMutexGuard<'_, T>> {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            is_taken = self.freed.wait_timeout(is_taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(self.take(is_taken))
    }

    fn take(&self, mut is_taken: sync::MutexGuard<'_, bool>) -> TimedMutexGuard<'_, T> {
        *is_taken = true;
        drop(is_taken);
        let turn = Turn(self);
        TimedMutexGuard { value: self.value.lock().unwrap_or_else(PoisonError::into_inner), _turn: turn }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.freed.notify_one();
    }
}

impl<T> Deref for TimedMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TimedMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let (plain, timed) = (Mutex::new(0), TimedMutex::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *timed.try_lock_until(Instant::now() + LONG).unwrap() += 1;
                        let mut value = plain.lock();
                        *value += 1;
                        (value, ()) = value.unlocked(thread::yield_now);
                        *value += 1;
                    }
                });
            }
        });
        assert_eq!((*plain.lock(), *timed.try_lock_until(Instant::now()).unwrap()), (8000, 4000));
    }

    #[test]
    fn a_wait_ends_with_its_moment_or_when_it_is_told() {
        let (timed, plain, told) = (TimedMutex::new(1), Mutex::new(false), Condvar::new());
        let held = timed.try_lock_until(Instant::now()).unwrap();
        assert!(timed.try_lock_until(Instant::now() + Duration::from_millis(5)).is_none());
        let (mut guard, late) = told.wait_until(plain.lock(), Instant::now() + Duration::from_millis(5));
        assert!(late);
        thread::scope(|scope| {
            scope.spawn(|| {
                *plain.lock() = true;
                told.notify_all();
            });
            while !*guard {
                let late;
                (guard, late) = told.wait_until(guard, Instant::now() + LONG);
                assert!(!late);
            }
            scope.spawn(|| assert_eq!(*timed.try_lock_until(Instant::now() + LONG).unwrap(), 1));
            drop(held);
            drop(guard);
        });
        // A panic poisons neither.
        let panicked = thread::scope(|scope| {
            let panics = || {
                let _held = (plain.lock(), timed.try_lock_until(Instant::now() + LONG).unwrap());
                panic!("a test panics on purpose");
            };
            scope.spawn(panics).join().is_err()
        });
        assert!(panicked && *plain.lock() && timed.try_lock_until(Instant::now()).is_some());
    }
}
