//! Threads that encode chunks while others are being sent.

use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in order; they end with the pool.
pub struct Pool {
    jobs: Mutex<Sender<Job>>,
    threads: usize,
}

/// The value of a job that may not have run yet.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// # Errors
    /// `Internal` when the job panicked.
    pub fn wait(self) -> Result<T> {
        self.0.recv().map_err(|_| Error::internal("a chunk could not be encoded; please report it"))
    }
}

impl Pool {
    /// Starts as many threads as there are cores.
    ///
    /// # Errors
    /// `Io` when a thread cannot be started.
    pub fn new() -> Result<Arc<Self>> {
        Self::of(hypostyle_sync::cores())
    }

    fn of(threads: usize) -> Result<Arc<Self>> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let receiver = receiver.clone();
            let work = move || {
                loop {
                    let Ok(job) = receiver.lock().recv() else { return };
                    // A job that panics drops its sender, which the waiting thread notices.
                    let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                }
            };
            std::thread::Builder::new()
                .name("hypostyle-encode".into())
                .spawn(work)
                .map_err(|error| Error::from_io(&error, "cannot start a thread"))?;
        }
        Ok(Arc::new(Self { jobs: Mutex::new(sender), threads }))
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let (sender, receiver): (SyncSender<T>, _) = sync_channel(1);
        let job = Box::new(move || {
            // Nobody waits for the value if its statement has failed.
            let _unwanted = sender.send(job());
        });
        // The threads live as long as the pool.
        let _sent = self.jobs.lock().send(job);
        Pending(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_and_a_panic_is_an_error_of_its_job_only() {
        let pool = Pool::of(2).unwrap();
        let pending: Vec<_> = (0..100).map(|number| pool.run(move || number * 2)).collect();
        let panicked = pool.run(|| -> u8 { panic!("a test panics on purpose") });
        let values: Vec<i32> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
        assert_eq!(values, (0..100).map(|number| number * 2).collect::<Vec<_>>());
        assert!(panicked.wait().is_err());
        assert_eq!(pool.run(|| 1).wait().unwrap(), 1);
    }
}
