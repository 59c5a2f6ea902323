//! Which calls run on a connection: one statement at a time, and any number of fetches of rows.
//! Closing ends them.

use crate::poll;
use hypostyle::{Error, ErrorKind, Poll};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a thread waits for another's call before it checks for signals again.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// When a call that is to end is interrupted again: it may just have begun.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(400);

/// How long closing waits for calls that are interrupted. One that waits for a program's rows can
/// take longer, and ends by itself.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

thread_local! {
    /// The connections for whose statements this thread calls the program.
    static SERVED: RefCell<Vec<*const Turns>> = const { RefCell::new(Vec::new()) };
}

/// The calls of one connection.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The thread of the statement that runs.
    statement: Option<ThreadId>,
    /// The threads that fetch rows.
    fetches: Vec<ThreadId>,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for the turn of a statement, without being attached to the interpreter.
    ///
    /// # Errors
    /// `Closed`; `Interrupted` by a signal; `InvalidInput` (55006) when the connection's running
    /// statement has called the program, which now waits for it.
    pub fn statement(self: &Arc<Self>) -> Result<Statement, Error> {
        let own = thread::current().id();
        loop {
            let mut state = self.state();
            if self.is_closed() {
                return Err(Error::new(ErrorKind::Closed, "the connection is closed; connect again"));
            }
            if state.statement == Some(own) || self.is_served_here() {
                return Err(Error::invalid_input(
                    "the connection is running the statement that reads these rows: make them with another \
                     connection, such as its duplicate()",
                )
                .with_sqlstate("55006"));
            }
            if state.statement.is_none() {
                state.statement = Some(own);
                return Ok(Statement(self.clone()));
            }
            drop(self.changed.wait_timeout(state, SIGNAL_INTERVAL));
            if matches!(poll::poll(), Poll::Interrupt) {
                return Err(Error::new(
                    ErrorKind::Interrupted,
                    "interrupted while waiting for another statement",
                ));
            }
        }
    }

    /// Notes that this thread fetches rows.
    pub fn fetch(self: &Arc<Self>) -> Fetch {
        let own = thread::current().id();
        self.state().fetches.push(own);
        Fetch(self.clone(), own)
    }

    /// Notes that this thread calls the program for the connection's statement.
    pub fn serve(self: &Arc<Self>) -> Serving {
        SERVED.with_borrow_mut(|served| served.push(Arc::as_ptr(self)));
        Serving(self.clone())
    }

    /// Closes what a child of `fork()` has inherited: a lock may be held by a thread of the parent.
    pub fn forget(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn is_served_here(&self) -> bool {
        SERVED.with_borrow(|served| served.iter().any(|turns| std::ptr::eq(*turns, self)))
    }

    /// Lets no statement begin any more, and interrupts those that run until they have ended, or for
    /// a short time. A call of this thread ends when it goes on. Returns false when it was closed
    /// before.
    ///
    /// # Errors
    /// `Interrupted` by a signal; it is closed nevertheless.
    pub fn close(&self, interrupt: impl Fn()) -> Result<bool, Error> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let (own, begin) = (thread::current().id(), Instant::now());
        let mut interrupted: Option<Instant> = None;
        loop {
            let state = self.state();
            let calls = || state.fetches.iter().chain(&state.statement);
            if calls().next().is_none() {
                return Ok(true);
            }
            if interrupted.is_none_or(|last| last.elapsed() >= INTERRUPT_INTERVAL) {
                interrupt();
                interrupted = Some(Instant::now());
            }
            let others = calls().any(|thread| *thread != own) && !self.is_served_here();
            if !others || begin.elapsed() >= CLOSE_WITHIN {
                return Ok(true);
            }
            drop(self.changed.wait_timeout(state, SIGNAL_INTERVAL));
            if matches!(poll::poll(), Poll::Interrupt) {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted while closing"));
            }
        }
    }
}

/// The turn of a statement.
pub struct Statement(Arc<Turns>);

impl Drop for Statement {
    fn drop(&mut self) {
        self.0.state().statement = None;
        self.0.changed.notify_all();
    }
}

/// A thread fetches rows.
pub struct Fetch(Arc<Turns>, ThreadId);

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(place) = state.fetches.iter().position(|thread| *thread == self.1) {
            state.fetches.swap_remove(place);
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// A thread calls the program.
pub struct Serving(Arc<Turns>);

impl Drop for Serving {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.0);
        SERVED.with_borrow_mut(|served| {
            if let Some(place) = served.iter().rposition(|turns| std::ptr::eq(*turns, own)) {
                served.remove(place);
            }
        });
    }
}
