//! Handles signals while a statement runs.
//!
//! The database calls [`poll`] about every 50 ms on the thread that waits for it. Python's signal
//! handlers run there. An exception that one raises is kept for that thread until the statement has
//! ended.

use hypostyle::Poll;
use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs pending signal handlers. On any thread but the main one Python does nothing here.
pub fn poll() -> Poll {
    match Python::try_attach(|py| py.check_signals()) {
        Some(Err(raised)) => {
            RAISED.set(Some(raised));
            Poll::Interrupt
        }
        Some(Ok(())) | None => Poll::Continue,
    }
}

/// Takes the exception that a signal handler raised on this thread.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}
