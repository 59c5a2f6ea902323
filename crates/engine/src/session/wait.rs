//! How the caller's thread waits for what the engine's threads compute.

use super::Session;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Future, FutureExt, StreamExt};
use hypostyle_error::from_datafusion;
use hypostyle_expr::work::Work;
use hypostyle_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Batches that may wait between the engine's threads and the caller's.
const BATCHES_IN_FLIGHT: usize = 4;

/// The answer of a poll hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    Continue,
    Interrupt,
}

/// The progress of the running statement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub rows_done: u64,
    pub rows_total: Option<u64>,
    pub elapsed: Duration,
}

impl Progress {
    /// Returns a number between 0 and 1, if the total is known.
    pub fn fraction(&self) -> Option<f64> {
        let total = self.rows_total.filter(|total| *total > 0)?;
        Some((self.rows_done as f64 / total as f64).min(1.0))
    }
}

/// The rows of a statement, computed as they are asked for.
pub struct Rows {
    stream: Arc<tokio::sync::Mutex<SendableRecordBatchStream>>,
    /// The transaction in which the statement was run.
    transaction: Option<u64>,
}

/// Called by the thread that waits for a statement, every 50 ms.
pub type PollHook = Arc<dyn Fn(&Progress) -> Poll + Send + Sync>;

/// Waits for what the engine's threads compute: a session, or what stands for one in tests.
pub(crate) trait Waits {
    /// Runs a future that plans on a thread of its own and waits for it. What the future leaves to
    /// the engine's threads goes on there.
    ///
    /// # Errors
    /// The future's; `Interrupted`; `Busy` (53000) when too many plans were given up and go on;
    /// `Internal` when it panics.
    fn wait_apart<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T>;

    /// Runs a future on this thread as far as it goes without waiting, and the rest apart from it.
    fn wait_here<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T>;
}

impl Session {
    /// Calls the poll hook and honours interrupts; for loops on the caller's thread.
    pub fn check_interrupt(&self) -> Result<()> {
        let total = self.counters.total.load(Ordering::Relaxed);
        let progress = Progress {
            rows_done: self.counters.done.load(Ordering::Relaxed),
            rows_total: (total > 0).then_some(total),
            elapsed: self.run.lock().elapsed(),
        };
        let hook = self.poll.read().clone();
        if hook.is_some_and(|hook| hook(&progress) == Poll::Interrupt) {
            self.interrupt();
        }
        self.check_not_ended()?;
        if self.is_interrupted() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Receives with the poll hook running; `None` when the sender is gone.
    fn receive<T>(&self, receiver: &Receiver<T>) -> Result<Option<T>> {
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(value) => return Ok(Some(value)),
                Err(RecvTimeoutError::Timeout) => self.check_interrupt()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Runs a future on the engine's threads and waits for it.
    ///
    /// # Errors
    /// The future's; `Interrupted`; `Internal` when it panics.
    pub fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = sync_channel(1);
        let work = Work::new(&self.meter);
        let task = self.engine.runtime.spawn(work.charged(async move {
            // The receiver is gone when the caller was interrupted: nobody wants the value.
            let _unwanted = sender.send(future.await);
        }))?;
        match self.receive(&receiver) {
            Ok(Some(result)) => result,
            Ok(None) => Err(Error::internal("the query panicked; please report it")),
            Err(interrupted) => {
                work.give_up();
                task.abort();
                Err(interrupted)
            }
        }
    }

    /// Drives a stream on the engine's threads and hands each batch to `each` on this one. The poll
    /// hook runs, even if no batch makes this thread wait.
    pub(crate) fn for_each(
        &self,
        mut stream: SendableRecordBatchStream,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let (sender, receiver) = sync_channel(BATCHES_IN_FLIGHT);
        let (work, meter) = (Work::new(&self.meter), self.meter.clone());
        let task = self.engine.runtime.spawn(work.charged(async move {
            while let Some(batch) = stream.next().await {
                let batch = batch.map(Some).map_err(from_datafusion);
                let batch = batch.and_then(|batch| meter.check().map(|()| batch));
                if tokio::task::block_in_place(|| sender.send(batch)).is_err() {
                    return;
                }
            }
            let _unwanted = tokio::task::block_in_place(|| sender.send(Ok(None)));
        }))?;
        let mut looked = Instant::now();
        let mut take = |batch| {
            if looked.elapsed() >= POLL_INTERVAL {
                looked = Instant::now();
                self.check_interrupt()?;
            }
            each(batch)
        };
        let result = loop {
            match self.receive(&receiver) {
                Ok(Some(Ok(Some(batch)))) => {
                    if let Err(error) = take(batch) {
                        break Err(error);
                    }
                }
                // The end is announced, so that a panic is not taken for it.
                Ok(Some(Ok(None))) => break Ok(()),
                Ok(Some(Err(error))) | Err(error) => break Err(error),
                Ok(None) => break Err(Error::internal("the query panicked; please report it")),
            }
        };
        if result.is_err() {
            work.give_up();
            task.abort();
        }
        result
    }

    /// Returns the rows of a statement that has just been started.
    pub fn rows(&self, stream: SendableRecordBatchStream) -> Rows {
        let transaction = self.transaction.lock().as_ref().map(|explicit| explicit.number);
        Rows { stream: Arc::new(tokio::sync::Mutex::new(stream)), transaction }
    }

    /// Waits for the next rows. An error aborts the transaction that they are of, if it is still
    /// open.
    pub fn next_batch(&self, rows: &Rows) -> Result<Option<RecordBatch>> {
        // Threads compute the rows, and a child of fork() does not have them.
        self.engine.database.check_process()?;
        self.check_not_ended()?;
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let stream = rows.stream.clone();
        let meter = self.meter.clone();
        let next = self.wait(async move {
            let batch = stream.lock().await.next().await.transpose().map_err(from_datafusion)?;
            meter.check()?;
            batch.iter().for_each(|batch| meter.hand_over(batch));
            Ok(batch)
        });
        self.fetches.fetch_sub(1, Ordering::Relaxed);
        next.inspect_err(|error| {
            if let Some(explicit) = self.transaction.lock().as_mut()
                && rows.transaction == Some(explicit.number)
            {
                explicit.abort(error.message());
            }
        })
    }

    /// Drives a stream to its end.
    pub fn collect(&self, stream: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        self.for_each(stream, |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok(batches)
    }
}

impl Waits for Session {
    fn wait_apart<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = Work::new(&self.meter);
        let future = work.charged(future);
        let planned =
            self.engine.planners.start(self.engine.runtime.handle()?, &self.identity.user, future)?;
        match self.receive(&planned.receiver) {
            Ok(Some(result)) => result,
            Ok(None) => Err(Error::internal("the query panicked; please report it")),
            Err(interrupted) => {
                work.give_up();
                self.engine.planners.give_up(planned);
                Err(interrupted)
            }
        }
    }

    fn wait_here<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut future = Box::pin(future);
        let first = catch_unwind(AssertUnwindSafe(|| self.meter.charge(|| (&mut future).now_or_never())));
        match first {
            Ok(Some(result)) => result,
            Ok(None) => self.wait_apart(future),
            Err(_) => Err(Error::internal("the query panicked; please report it")),
        }
    }
}
