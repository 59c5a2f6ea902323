//! Threads that plan. Planning is one uninterrupted computation: it neither waits nor checks
//! whether anyone still wants the plan, and it recurses as deep as the statement nests. So it runs
//! on a thread of its own, with a stack for the deepest statement that the gate accepts. The
//! waiting thread can stop waiting at any time, and the engine's threads continue with their work.
//!
//! An abandoned plan ends at the next place where our code checks for it
//! ([`hypostyle_expr::wanted`]), or when it is complete. Until then its thread counts. Small
//! queries are planned by their callers, in less time than it takes to wake a thread.

use futures::future::{AbortHandle, Abortable, Aborted};
use hypostyle_expr::wanted::watch;
use hypostyle_sql::gate::STACK_BYTES_MAX;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

/// Plans of one user that may have been given up and not have ended.
const GIVEN_UP_MAX: usize = 4;

/// The plans of an engine that were given up, each with its user.
#[derive(Default)]
pub(crate) struct Planners(Mutex<Vec<(Arc<str>, Weak<AtomicBool>)>>);

/// A plan that is being made.
pub(crate) struct Planned<T> {
    pub receiver: Receiver<Result<T>>,
    user: Arc<str>,
    given_up: Arc<AtomicBool>,
    abort: AbortHandle,
}

impl Planners {
    /// Runs a future of a user's on a thread of its own.
    ///
    /// # Errors
    /// `Busy` (53000) while too many plans of the user's were given up and go on; `OutOfMemory`
    /// without a thread.
    pub fn start<T: Send + 'static>(
        &self,
        handle: Handle,
        user: &str,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Planned<T>> {
        self.check(user)?;
        let (sender, receiver) = sync_channel(1);
        let (abort, registration) = AbortHandle::new_pair();
        let given_up = Arc::new(AtomicBool::new(false));
        let its = given_up.clone();
        let plan = move || {
            watch(its);
            let planned = handle.block_on(Abortable::new(future, registration));
            // The receiver is gone when the caller was interrupted: nobody wants the value.
            let _unwanted = sender.send(planned.unwrap_or_else(|Aborted| Err(Error::interrupted())));
        };
        std::thread::Builder::new()
            .name("hypostyle plan".into())
            .stack_size(STACK_BYTES_MAX)
            .spawn(plan)
            .map_err(|error| {
                Error::new(ErrorKind::OutOfMemory, format!("cannot start a thread to plan: {error}"))
            })?;
        Ok(Planned { receiver, user: user.into(), given_up, abort })
    }

    fn check(&self, user: &str) -> Result<()> {
        let mut given_up = self.0.lock();
        given_up.retain(|(_, plan)| plan.strong_count() > 0);
        if given_up.iter().filter(|(of, _)| **of == *user).count() < GIVEN_UP_MAX {
            return Ok(());
        }
        let message = format!(
            "{GIVEN_UP_MAX} statements of this user that were interrupted are still being planned; try again later"
        );
        Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53000"))
    }

    /// Has a plan end as soon as it can.
    pub fn give_up<T>(&self, planned: Planned<T>) {
        planned.given_up.store(true, Ordering::Relaxed);
        planned.abort.abort();
        self.0.lock().push((planned.user, Arc::downgrade(&planned.given_up)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_plan_that_was_given_up_counts_until_it_ends() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let planners = Planners::default();
        let start = |future| planners.start(runtime.handle().clone(), "one", future);
        let endless = || async {
            while hypostyle_expr::wanted::check_wanted().is_ok() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(200));
            Ok(())
        };
        let plans: Vec<_> = (0..GIVEN_UP_MAX).map(|_| start(endless()).unwrap()).collect();
        // Plans that somebody waits for do not count.
        let wanted = planners.start(runtime.handle().clone(), "one", async { Ok(7) }).unwrap();
        assert_eq!(wanted.receiver.recv().unwrap().unwrap(), 7);
        for plan in plans {
            planners.give_up(plan);
        }
        let refused = start(endless()).err().unwrap();
        assert_eq!((refused.kind(), refused.sqlstate()), (ErrorKind::Busy, "53000"));
        let another = planners.start(runtime.handle().clone(), "another", async { Ok(8) }).unwrap();
        assert_eq!(another.receiver.recv().unwrap().unwrap(), 8);
        let mut tries = 0;
        while let Err(error) = planners.start(runtime.handle().clone(), "one", async { Ok(()) }) {
            assert_eq!(error.sqlstate(), "53000");
            tries += 1;
            assert!(tries < 1000, "plans that were given up do not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
