//! Cancelling: sets a mark that the database's poll hook checks, on the thread that waits.
//!
//! A thread may be in several calls at once, if the rows that a statement takes are another
//! statement's result. Cancelling any of them ends the innermost, and so all of them.

use crate::error::{Result, cancelled};
use adbc_core::CancelHandle;
use hypostyle::{Poll, PollHook};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The marks of the calls that this thread is in.
    static CALLS: RefCell<Vec<Mark>> = const { RefCell::new(Vec::new()) };
}

/// Says whether a statement has to end.
#[derive(Clone, Default)]
pub struct Mark(Arc<AtomicBool>);

impl Mark {
    /// Clears the mark, because another execution begins, which nobody has cancelled.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) { Err(cancelled()) } else { Ok(()) }
    }
}

impl CancelHandle for Mark {
    fn try_cancel(&self) -> Result<()> {
        self.set();
        Ok(())
    }
}

/// The running calls of a connection, on any thread.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Mark>>>);

impl Calls {
    pub fn enter(&self, mark: &Mark) -> Call<'_> {
        locked(&self.0).push(mark.clone());
        CALLS.with_borrow_mut(|calls| calls.push(mark.clone()));
        Call { calls: self, mark: mark.clone() }
    }
}

impl CancelHandle for Calls {
    /// Cancels the calls that run now, and none that come later.
    fn try_cancel(&self) -> Result<()> {
        locked(&self.0).iter().for_each(Mark::set);
        Ok(())
    }
}

/// A running call; it ends when this value is dropped.
pub struct Call<'a> {
    calls: &'a Calls,
    mark: Mark,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(|calls| calls.pop());
        let mut calls = locked(&self.calls.0);
        if let Some(place) = calls.iter().rposition(|mark| Arc::ptr_eq(&mark.0, &self.mark.0)) {
            calls.remove(place);
        }
    }
}

/// Returns a hook that checks the marks of the thread that waits for the database.
pub fn poll_hook() -> PollHook {
    Arc::new(|_| {
        let cancelled = CALLS.with_borrow(|calls| calls.iter().any(|mark| mark.check().is_err()));
        if cancelled { Poll::Interrupt } else { Poll::Continue }
    })
}

/// Locks a mutex. A thread that panicked meanwhile has left nothing half done, because no lock is
/// held over a call of the database.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
