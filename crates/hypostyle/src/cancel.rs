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

    /// The sessions whose statements have this thread ask the program for a table.
    static ASKING: RefCell<Vec<RunningCalls>> = const { RefCell::new(Vec::new()) };
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

    /// Runs what asks the program for a table that a statement of the session needs. Calls of the session
    /// from there are refused: they would wait for the statement, which waits for the table.
    pub fn asking<T>(&self, work: impl FnOnce() -> T) -> T {
        ASKING.with_borrow_mut(|asking| asking.push(self.clone()));
        let _asked = Asked;
        work()
    }

    /// # Errors
    /// `InvalidInput` (HY010) for a call from within [`Self::asking`].
    pub(crate) fn check_not_asking(&self) -> Result<()> {
        let is_asking =
            ASKING.with_borrow(|asking| asking.iter().any(|calls| Arc::ptr_eq(&calls.0, &self.0)));
        match is_asking {
            true => Err(Error::invalid_input(
                "the connection waits for the table that it asks for here; call another connection",
            )
            .with_sqlstate("HY010")),
            false => Ok(()),
        }
    }

    /// Cancels the calls that run now, and none that come later.
    pub fn cancel(&self) {
        self.0.lock().iter().for_each(CancelMark::set);
    }
}

/// Ends [`RunningCalls::asking`], also when it panics.
struct Asked;

impl Drop for Asked {
    fn drop(&mut self) {
        ASKING.with_borrow_mut(|asking| asking.pop());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, DriverSession, OpenOptions, Parameters};

    #[test]
    fn a_session_is_not_called_from_where_it_asks_for_a_table() -> Result<()> {
        let session = DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?);
        let other = DriverSession::new(Database::in_memory(OpenOptions::default())?.connect()?);
        let ask = |asked: &DriverSession| {
            asked.execute(&CancelMark::default(), "SELECT 1", Parameters::None).map(drop)
        };
        let refused = session.calls().asking(|| ask(&session)).unwrap_err();
        assert_eq!(refused.sqlstate(), "HY010");
        session.calls().asking(|| ask(&other))?;
        ask(&session)
    }
}
