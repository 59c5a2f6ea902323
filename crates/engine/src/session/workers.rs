//! The threads of an engine. They stand still while the process forks: a thread of tokio that waits
//! for work is in a list of waiting threads of the process, from which the child could not take it.

use futures::Future;
use hypostyle_storage::fork::{Threads, start_threads};
use hypostyle_types::{Error, Result};
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Stack of a worker thread: expressions recurse as deep as the gate lets statements nest. What is
/// not used takes no memory.
const STACK_BYTES: usize = 64 << 20;

/// How long a fork waits for threads that compute. They are in no list meanwhile, and find something
/// to do before they would wait. On busy cores a thread also takes its time from being woken to
/// standing still.
const STILL_WITHIN: Duration = Duration::from_secs(2);

/// How long a fork waits for threads that have nothing to do: in a list, they must not be left there.
const AWAKE_WITHIN: Duration = Duration::from_secs(30);

/// How often a fork looks at what it waits for, beside being told.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The threads beside the workers that are made to stand still, which is more than there ever are.
const OTHERS_MAX: usize = 64;

/// The worker threads. They are not waited for at the end: an operator that computes for long sees
/// only between two batches that nobody wants its rows any more.
pub(super) struct Workers {
    runtime: Option<Runtime>,
    process: u32,
    /// Registered as long as the runtime is.
    halt: Option<Arc<Halt>>,
}

impl Workers {
    /// Starts the threads.
    pub(super) fn start(threads: usize) -> Result<Self> {
        let mut runtime = None;
        let halt = start_threads(|| {
            let alive = Arc::new(AtomicUsize::new(0));
            let (started, stopped) = (alive.clone(), alive.clone());
            let parked = Arc::new(AtomicUsize::new(0));
            let (parks, wakes) = (parked.clone(), parked.clone());
            let built = Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("hypostyle")
                .thread_stack_size(STACK_BYTES)
                .enable_time()
                .on_thread_start(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                })
                .on_thread_stop(move || {
                    stopped.fetch_sub(1, Ordering::Relaxed);
                })
                .on_thread_park(move || {
                    parks.fetch_add(1, Ordering::SeqCst);
                })
                .on_thread_unpark(move || {
                    wakes.fetch_sub(1, Ordering::SeqCst);
                })
                .build()
                .map_err(|error| Error::from_io(&error, "cannot start the worker threads"))?;
            let handle = runtime.insert(built).handle().clone();
            Ok(Arc::new(Halt { handle, workers: threads, alive, parked }))
        })?;
        Ok(Self { runtime, process: std::process::id(), halt: Some(halt) })
    }

    pub(super) fn spawn<F: Future<Output: Send> + Send + 'static>(
        &self,
        future: F,
    ) -> Result<JoinHandle<F::Output>> {
        Ok(self.runtime()?.spawn(future))
    }

    pub(super) fn handle(&self) -> Result<Handle> {
        Ok(self.runtime()?.handle().clone())
    }

    /// Returns the runtime, which has threads only in the process that started it.
    fn runtime(&self) -> Result<&Runtime> {
        let runtime = self.runtime.as_ref().filter(|_| self.process == std::process::id());
        runtime.ok_or_else(|| Error::internal("the worker threads have ended"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.halt = None;
        match self.runtime.take() {
            Some(runtime) if self.process == std::process::id() => runtime.shutdown_background(),
            // In a child of `fork()` the threads do not exist, and would be waited for in vain.
            other => std::mem::forget(other),
        }
    }
}

/// How the threads of a runtime stand still.
struct Halt {
    handle: Handle,
    workers: usize,
    /// The threads of the runtime, with those that run what blocks.
    alive: Arc<AtomicUsize>,
    /// The workers that wait for something to do.
    parked: Arc<AtomicUsize>,
}

impl Threads for Halt {
    fn stand_still(&self) -> Box<dyn Any> {
        let gate = Arc::new(Gate::default());
        let others = self.alive.load(Ordering::Relaxed).saturating_sub(self.workers).min(OTHERS_MAX);
        for _ in 0..self.workers {
            let visit = Visit(gate.clone());
            // Each thread stays at the gate, so that the next one has the next visit.
            drop(self.handle.spawn(async move { visit.stay() }));
        }
        for _ in 0..others {
            let visit = Visit(gate.clone());
            drop(self.handle.spawn_blocking(move || visit.stay()));
        }
        gate.wait_for(self.workers + others, || self.parked.load(Ordering::SeqCst) > 0);
        Box::new(Opening(gate))
    }
}

/// Where threads stand still. It belongs to the standard library, which has no list of who waits.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: usize,
    is_open: bool,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so many threads: a short time, and longer while some of them are still waiting for
    /// something to do.
    fn wait_for(&self, threads: usize, some_wait: impl Fn() -> bool) {
        let begin = Instant::now();
        let mut state = self.state();
        while state.arrived < threads {
            let elapsed = begin.elapsed();
            if elapsed >= AWAKE_WITHIN || (elapsed >= STILL_WITHIN && !some_wait()) {
                return;
            }
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn arrive(&self) {
        self.state().arrived += 1;
        self.changed.notify_all();
    }
}

/// Opens a gate when it is dropped.
struct Opening(Arc<Gate>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.state().is_open = true;
        self.0.changed.notify_all();
    }
}

/// A task that stays at a gate. One that a runtime has dropped, because it ends, counts as well.
struct Visit(Arc<Gate>);

impl Visit {
    fn stay(self) {
        self.0.arrive();
        let mut state = self.0.state();
        while !state.is_open {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.arrive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn idle_threads_stand_still_and_go_on() {
        let workers = Workers::start(3).unwrap();
        // There are threads beside the workers after this.
        let (sender, receiver) = channel();
        let blocking = sender.clone();
        workers
            .spawn(async move {
                tokio::task::block_in_place(|| blocking.send(()).unwrap());
            })
            .unwrap();
        receiver.recv_timeout(LONG).unwrap();
        let still = workers.halt.as_ref().unwrap().stand_still();
        for _ in 0..10 {
            let sender = sender.clone();
            workers.spawn(async move { sender.send(()).unwrap() }).unwrap();
        }
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        drop(still);
        for _ in 0..10 {
            receiver.recv_timeout(LONG).unwrap();
        }
    }

    #[test]
    fn a_thread_that_computes_is_not_waited_for() {
        let workers = Workers::start(1).unwrap();
        let (sender, receiver) = channel();
        let (go_on, goes_on) = channel::<()>();
        workers
            .spawn(async move {
                sender.send(()).unwrap();
                goes_on.recv_timeout(LONG).unwrap();
                sender.send(()).unwrap();
            })
            .unwrap();
        receiver.recv_timeout(LONG).unwrap();
        let still = workers.halt.as_ref().unwrap().stand_still();
        go_on.send(()).unwrap();
        receiver.recv_timeout(LONG).unwrap();
        drop(still);
        // A runtime that has ended is not waited for, either.
        let halt = workers.halt.clone().unwrap();
        drop(workers);
        drop(halt.stand_still());
    }
}
