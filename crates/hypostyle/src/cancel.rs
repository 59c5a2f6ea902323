//! Cancelling: sets a mark that the database's poll hook checks, on the thread that waits.
//!
//! A thread may be in several calls at once, if the rows that a statement takes are another
//! statement's result. Cancelling any of them ends the innermost, and so all of them.

use crate::{Poll, PollHook};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The marks of the calls that this thread is in.
    static CALLS: RefCell<Vec<CancelMark>> = const { RefCell::new(Vec::new()) };
}

/// A mark that says whether a statement has to end; clones are the same mark.
///
/// ```
/// let mark = hypostyle::CancelMark::default();
/// mark.set();
/// assert_eq!(mark.check().unwrap_err().sqlstate(), "57014");
/// mark.clear();
/// assert!(mark.check().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelMark(Arc<AtomicBool>);

impl CancelMark {
    /// Clears the mark, because another execution begins, which nobody has cancelled.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Ends the calls that have this mark. Any thread may call it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// # Errors
    /// `Interrupted` when the mark is set.
    pub fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            true => Err(Error::new(hypostyle_types::ErrorKind::Interrupted, "the statement was cancelled")),
            false => Ok(()),
        }
    }
}

/// The calls of a session that run now, on any thread; clones are the same calls.
///
/// ```
/// // Nothing runs, so that nothing is cancelled.
/// hypostyle::RunningCalls::default().cancel();
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunningCalls(Arc<Mutex<Vec<CancelMark>>>);

impl RunningCalls {
    pub(crate) fn enter(&self, mark: &CancelMark) -> Call<'_> {
        self.0.lock().push(mark.clone());
        CALLS.with_borrow_mut(|calls| calls.push(mark.clone()));
        Call { calls: self, mark: mark.clone() }
    }

    /// Cancels the calls that run now, and none that come later.
    pub fn cancel(&self) {
        self.0.lock().iter().for_each(CancelMark::set);
    }
}

/// A running call; it ends when this value is dropped.
pub(crate) struct Call<'a> {
    calls: &'a RunningCalls,
    mark: CancelMark,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(|calls| calls.pop());
        let mut calls = self.calls.0.lock();
        if let Some(place) = calls.iter().rposition(|mark| Arc::ptr_eq(&mark.0, &self.mark.0)) {
            calls.remove(place);
        }
    }
}

/// Returns a hook that checks the marks of the thread that waits for the database, and then asks
/// another hook.
pub(crate) fn poll_hook(next: Option<PollHook>) -> PollHook {
    Arc::new(move |progress| {
        let cancelled = CALLS.with_borrow(|calls| calls.iter().any(|mark| mark.check().is_err()));
        match &next {
            _ if cancelled => Poll::Interrupt,
            Some(next) => next(progress),
            None => Poll::Continue,
        }
    })
}
