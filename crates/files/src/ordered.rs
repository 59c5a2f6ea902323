//! Batches that several threads produce, returned in the order of the jobs.
//!
//! Each thread takes the next job from one shared iterator, so that jobs may be parts of a file
//! that can only be read from front to back. It puts its batches into a bounded channel of that
//! job. The consumer empties the channels in job order. Memory is bounded by the channel depth
//! times twice the number of threads.
//!
//! Invariant: the end is always announced. A channel that closes without its end mark means that a
//! thread died, which is an error and never a short result.

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::StreamExt;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// Takes a batch; false when nobody wants more.
pub type Emit<'a> = dyn FnMut(RecordBatch) -> bool + 'a;

/// A batch, an error that ends everything, or the end mark of one job.
type Message = Option<Result<RecordBatch>>;

/// The batches of all jobs, in job order; dropping it stops the threads.
pub struct Ordered {
    schema: SchemaRef,
    jobs: Receiver<Option<Receiver<Message>>>,
    current: Option<Receiver<Message>>,
    finished: bool,
    at_end: Option<AtEnd>,
}

/// Calls a function when it is dropped.
struct AtEnd(Box<dyn Fn() + Send + Sync>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Ordered {
    /// Starts `threads` threads that run `work` on each of `jobs`.
    ///
    /// # Errors
    /// `OutOfMemory` when the operating system gives no thread.
    pub fn start<J, I, W>(schema: SchemaRef, threads: usize, depth: usize, jobs: I, work: W) -> Result<Self>
    where
        J: Send + 'static,
        I: Iterator<Item = Result<J>> + Send + 'static,
        W: Fn(J, &mut Emit<'_>) -> Result<()> + Send + Sync + 'static,
    {
        let threads = threads.max(1);
        let (announce, announced) = sync_channel(threads);
        let queue = Arc::new(Mutex::new(Queue { jobs, announce, depth: depth.max(1), exhausted: false }));
        let work = Arc::new(work);
        for index in 0..threads {
            let (queue, work) = (Arc::clone(&queue), Arc::clone(&work));
            std::thread::Builder::new()
                .name(format!("hypostyle-read-{index}"))
                .spawn(move || {
                    while let Some((job, sender)) = take(&queue) {
                        let outcome = work(job, &mut |batch| sender.send(Some(Ok(batch))).is_ok());
                        // The receiver is gone when the consumer has stopped: there is nothing to
                        // report.
                        let _ = sender.send(outcome.err().map(Err));
                    }
                })
                .map_err(|error| {
                    Error::new(ErrorKind::OutOfMemory, format!("cannot start a reading thread: {error}"))
                })?;
        }
        Ok(Self { schema, jobs: announced, current: None, finished: false, at_end: None })
    }

    /// Has a function called when nobody waits for the batches any more.
    #[must_use]
    pub fn at_end(self, call: impl Fn() + Send + Sync + 'static) -> Self {
        Self { at_end: Some(AtEnd(Box::new(call))), ..self }
    }

    /// Returns the same batches for DataFusion, waited for on a thread that may block.
    pub fn into_stream(mut self) -> SendableRecordBatchStream {
        // The thread below may wait for a batch when the stream is dropped.
        let at_end = self.at_end.take();
        let schema = Arc::clone(&self.schema);
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            for batch in self {
                let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)));
                if sender.blocking_send(batch).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let batches = builder.build().inspect(move |_| {
            let _kept = &at_end;
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// Returns the same batches for whoever reads Arrow.
    pub fn into_reader(self) -> OrderedReader {
        OrderedReader(self)
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(current) = &self.current else {
                match self.jobs.recv() {
                    Ok(Some(job)) => self.current = Some(job),
                    Ok(None) => return Ok(None),
                    Err(_) => return Err(thread_died()),
                }
                continue;
            };
            match current.recv() {
                Ok(Some(batch)) => return batch.map(Some),
                Ok(None) => self.current = None,
                Err(_) => return Err(thread_died()),
            }
        }
    }
}

impl Iterator for Ordered {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let item = self.advance().transpose();
        self.finished = !matches!(item, Some(Ok(_)));
        item
    }
}

/// [`Ordered`] as an Arrow reader.
pub struct OrderedReader(Ordered);

impl Iterator for OrderedReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for OrderedReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }
}

struct Queue<I> {
    jobs: I,
    announce: SyncSender<Option<Receiver<Message>>>,
    depth: usize,
    exhausted: bool,
}

/// Returns the next job and where its batches go; `None` when there is none or nobody listens.
fn take<J, I: Iterator<Item = Result<J>>>(queue: &Mutex<Queue<I>>) -> Option<(J, SyncSender<Message>)> {
    // A poisoned lock means that reading panicked; the consumer sees the channel close.
    let mut queue = queue.lock().ok()?;
    if queue.exhausted {
        return None;
    }
    let Some(job) = queue.jobs.next() else {
        queue.exhausted = true;
        let _ = queue.announce.send(None);
        return None;
    };
    let (sender, receiver) = sync_channel(queue.depth);
    queue.exhausted = job.is_err() || queue.announce.send(Some(receiver)).is_err();
    match job {
        Ok(job) if !queue.exhausted => Some((job, sender)),
        Ok(_) => None,
        Err(error) => {
            let (sender, receiver) = sync_channel(1);
            let _ = sender.send(Some(Err(error)));
            let _ = queue.announce.send(Some(receiver));
            None
        }
    }
}

fn thread_died() -> Error {
    Error::internal("a reading thread stopped before its work was complete")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use std::time::Duration;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
    }

    fn batch(value: i64) -> RecordBatch {
        RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![value]))]).unwrap()
    }

    #[test]
    fn batches_come_in_job_order_however_long_each_job_takes() {
        let work = |job: i64, emit: &mut Emit<'_>| {
            std::thread::sleep(Duration::from_millis((5 - job % 5) as u64));
            (0..3).all(|part| emit(batch(job * 3 + part)));
            Ok(())
        };
        let ordered = Ordered::start(schema(), 4, 2, (0..20).map(Ok), work).unwrap();
        let values: Vec<i64> =
            ordered.map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().value(0)).collect();
        assert_eq!(values, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_and_a_panic_end_the_stream_with_an_error() {
        let failing = |job: i64, emit: &mut Emit<'_>| {
            emit(batch(job));
            if job == 3 { Err(Error::invalid_input("no three")) } else { Ok(()) }
        };
        let mut ordered = Ordered::start(schema(), 2, 1, (0..9).map(Ok), failing).unwrap();
        assert_eq!(ordered.by_ref().take_while(|item| item.is_ok()).count(), 4);
        assert!(ordered.next().is_none());

        let panicking =
            |job: i64, _: &mut Emit<'_>| if job == 1 { panic!("expected by the test") } else { Ok(()) };
        let last = Ordered::start(schema(), 1, 1, (0..3).map(Ok), panicking).unwrap().last();
        assert_eq!(last.unwrap().unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn an_error_of_the_job_source_comes_after_the_jobs_before_it() {
        let jobs = (0..4).map(|job| if job == 2 { Err(Error::invalid_input("torn")) } else { Ok(job) });
        let work = |job: i64, emit: &mut Emit<'_>| {
            emit(batch(job));
            Ok(())
        };
        let items: Vec<_> = Ordered::start(schema(), 2, 1, jobs, work).unwrap().collect();
        assert_eq!(items.len(), 3);
        assert_eq!(items[2].as_ref().unwrap_err().message(), "torn");
    }
}
