//! Threads that are kept for what a node sends to others: to start one takes longer than to send a row.

use crate::coordinate::start_thread;
use hypostyle_sync::Mutex;
use hypostyle_types::Result;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::time::Duration;

/// How long a thread waits for more work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most threads that wait for work.
const WAITING_MAX: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

/// The threads, of which those that wait end with this.
#[derive(Default)]
pub(crate) struct Helpers(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// The threads that wait, by numbers of their waits.
    threads: Vec<(u64, Sender<Work>)>,
    is_over: bool,
}

impl Helpers {
    /// Has a thread do some work: one that waits, or a new one.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub fn run(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = self.0.lock().threads.pop();
        let work: Work = Box::new(work);
        let Some((_, thread)) = thread else { return self.start(name, work) };
        match thread.send(work) {
            Ok(()) => Ok(()),
            Err(SendError(work)) => self.start(name, work),
        }
    }

    fn start(&self, name: &str, work: Work) -> Result<()> {
        let waiting = self.0.clone();
        start_thread(name, move || {
            work();
            while let Some(work) = next(&waiting) {
                work();
            }
        })
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_over = true;
        waiting.threads.clear();
    }
}

/// Waits for more work; `None` if there is none for some time, or the threads are to end.
fn next(waiting: &Mutex<Waiting>) -> Option<Work> {
    let (number, works): (u64, Receiver<Work>) = {
        let mut waiting = waiting.lock();
        if waiting.is_over || waiting.threads.len() >= WAITING_MAX {
            return None;
        }
        let (sender, works) = channel();
        let number = waiting.next;
        waiting.next += 1;
        waiting.threads.push((number, sender));
        (number, works)
    };
    match works.recv_timeout(PATIENCE) {
        Ok(work) => Some(work),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            let mut waiting = waiting.lock();
            let before = waiting.threads.len();
            waiting.threads.retain(|(other, _)| *other != number);
            let is_taken = waiting.threads.len() == before;
            drop(waiting);
            // Who has taken it is about to send.
            if is_taken { works.recv().ok() } else { None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{self, ThreadId};
    use std::time::Instant;

    /// Returns the thread that does some work.
    fn worker(helpers: &Helpers) -> ThreadId {
        let (sender, done) = channel();
        helpers.run("hypostyle-test", move || sender.send(thread::current().id()).unwrap()).unwrap();
        done.recv().unwrap()
    }

    fn until_waiting(helpers: &Helpers, count: usize) {
        let since = Instant::now();
        while helpers.0.lock().threads.len() != count {
            assert!(since.elapsed() < Duration::from_secs(60), "{count} threads do not wait");
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_waits_does_the_next_work_until_all_end() {
        let helpers = Helpers::default();
        let first = worker(&helpers);
        until_waiting(&helpers, 1);
        assert_eq!(worker(&helpers), first);
        until_waiting(&helpers, 1);
        // Two at a time, of which one ends in a panic.
        let (sender, goes_on) = channel::<()>();
        helpers.run("hypostyle-test", move || _ = goes_on.recv()).unwrap();
        assert_ne!(worker(&helpers), first);
        until_waiting(&helpers, 1);
        drop(sender);
        until_waiting(&helpers, 2);
        helpers.run("hypostyle-test", || panic!("a test panics on purpose")).unwrap();
        until_waiting(&helpers, 1);
        let waiting = helpers.0.clone();
        drop(helpers);
        let since = Instant::now();
        while Arc::strong_count(&waiting) > 1 {
            assert!(since.elapsed() < PATIENCE, "threads wait that nobody gives work to");
            thread::yield_now();
        }
        assert!(next(&waiting).is_none());
    }
}
