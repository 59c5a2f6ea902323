//! What threads compute for statements: whose it is, and whether somebody still wants it.
//!
//! A statement is computed by tasks on many threads. A task that is not wanted any more is dropped when it
//! yields; until then it may compute for long. So each thread knows for whom it works, and a long computation
//! asks by [`check`] whether it is to go on.

use crate::meter::Meter;
use crate::regular::Compiled;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::runtime::JoinSetTracer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use hypostyle_sync::Mutex;
use hypostyle_types::Result;
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// What is computed for one caller, on all threads.
#[derive(Debug)]
pub struct Work {
    meter: Arc<Meter>,
    given_up: AtomicBool,
    /// The work that waits for this one: the one that it is a part of, or that has waited for its rows last.
    waiting: Mutex<Option<Arc<Work>>>,
    pub(crate) expressions: Compiled,
}

impl Work {
    pub fn new(meter: &Arc<Meter>) -> Arc<Self> {
        Self::awaited(meter, None)
    }

    /// Returns a work of another session that ends with the work of this thread.
    pub fn part(meter: &Arc<Meter>) -> Arc<Self> {
        Self::awaited(meter, current())
    }

    fn awaited(meter: &Arc<Meter>, waiting: Option<Arc<Self>>) -> Arc<Self> {
        let (meter, given_up, waiting) = (meter.clone(), AtomicBool::new(false), Mutex::new(waiting));
        Arc::new(Self { meter, given_up, waiting, expressions: Compiled::default() })
    }

    /// Has all threads that work for it end with an error, as soon as they look.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Says whether nobody wants it any more.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
            || self.waiting.lock().as_ref().is_some_and(|waiting| waiting.is_given_up())
    }

    /// Runs something for it on this thread.
    pub fn charge<T>(self: &Arc<Self>, run: impl FnOnce() -> T) -> T {
        CHARGED.with(|charged| charged.borrow_mut().push(self.clone()));
        let _outer = Outer;
        self.meter.account(run)
    }

    /// Returns a future whose polls are charged.
    pub fn charged<F: Future>(self: &Arc<Self>, future: F) -> Charged<F> {
        Charged { work: self.clone(), future: Box::pin(future) }
    }

    /// Begins a work that gives rows, and ends when they are dropped.
    ///
    /// # Errors
    /// Those of `begin`.
    pub fn rows<E>(
        meter: &Arc<Meter>,
        begin: impl FnOnce() -> std::result::Result<SendableRecordBatchStream, E>,
    ) -> std::result::Result<SendableRecordBatchStream, E> {
        let work = Self::new(meter);
        let rows = work.charge(begin)?;
        Ok(Box::pin(Rows { work, rows }))
    }
}

thread_local! {
    /// The work of this thread, behind those that wait for it on this thread.
    static CHARGED: RefCell<Vec<Arc<Work>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the work of this thread.
pub(crate) fn current() -> Option<Arc<Work>> {
    CHARGED.with(|charged| charged.borrow().last().cloned())
}

/// Says whether nobody wants what this thread computes.
pub(crate) fn is_given_up() -> bool {
    CHARGED.with(|charged| charged.borrow().iter().any(|work| work.is_given_up()))
}

/// Checks that the statement for which this thread works may continue. A thread that works for none may.
///
/// # Errors
/// See [`Meter::check`].
pub fn check() -> Result<()> {
    current().map_or(Ok(()), |work| work.meter.check())
}

/// Has the thread work, at the end, for whom it worked before.
struct Outer;

impl Drop for Outer {
    fn drop(&mut self) {
        // A work that ends may charge others while it is dropped.
        let _ended = CHARGED.with(|charged| charged.borrow_mut().pop());
    }
}

/// See [`Work::charged`].
pub struct Charged<F> {
    work: Arc<Work>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Charged<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { work, future } = self.get_mut();
        work.charge(|| future.as_mut().poll(context))
    }
}

/// See [`Work::rows`].
struct Rows {
    work: Arc<Work>,
    rows: SendableRecordBatchStream,
}

impl Stream for Rows {
    type Item = datafusion::error::Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { work, rows } = self.get_mut();
        // It waits behind a poll that gives no row, too: threads that work for the rows hear from it if
        // nobody takes them any more, before these are dropped.
        *work.waiting.lock() = current();
        work.charge(|| rows.poll_next_unpin(context))
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.work.give_up();
    }
}

/// Has the tasks that operators start work for whom their starter works.
pub(crate) struct ChargingTasks;

impl JoinSetTracer for ChargingTasks {
    fn trace_future(
        &self,
        future: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(work) => work.charged(future).boxed(),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(work) => Box::new(move || work.charge(block)),
            None => block,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Work, check};
    use crate::meter::{Ledger, Meter};
    use arrow::datatypes::Schema;
    use datafusion::error::{DataFusionError, Result};
    use datafusion::execution::SendableRecordBatchStream;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, StreamExt, stream};
    use hypostyle_types::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Returns rows that check at each poll whether they are wanted; the third poll runs `meanwhile`.
    fn rows(meter: &Arc<Meter>, meanwhile: impl Fn() + Send + 'static) -> Result<SendableRecordBatchStream> {
        let checks = stream::iter(0..4).map(move |poll| {
            if poll == 2 {
                meanwhile();
            }
            Err(check().map_or_else(
                |error| DataFusionError::External(Box::new(error)),
                |()| DataFusionError::Internal("it is wanted".into()),
            ))
        });
        let schema = Arc::new(Schema::empty());
        Work::rows(meter, || Ok(Box::pin(RecordBatchStreamAdapter::new(schema, checks)) as _))
    }

    fn is_wanted(polled: Option<Result<arrow::record_batch::RecordBatch>>) -> bool {
        matches!(polled, Some(Err(DataFusionError::Internal(_))))
    }

    #[test]
    fn rows_hear_that_their_taker_gives_up_although_the_session_goes_on() -> Result<()> {
        let meter = Meter::new(&Ledger::new(1 << 30));
        let taker = Work::new(&meter);
        let (other, next) = (taker.clone(), meter.clone());
        let mut rows = rows(&meter, move || {
            meter_interrupts(&next);
            other.give_up();
            // Another statement begins, which nobody has interrupted.
            next.begin();
        })?;
        let mut poll = || taker.charge(|| rows.next().now_or_never().flatten());
        assert!(is_wanted(poll()) && is_wanted(poll()));
        assert!(!is_wanted(poll()), "the taker has given up");
        assert!(Work::new(&meter).charge(check).is_ok(), "the next statement is wanted");
        Ok(())
    }

    #[test]
    fn what_is_computed_for_another_work_ends_with_whoever_waits_for_it() {
        let meter = Meter::new(&Ledger::new(1 << 30));
        let (asker, shared) = (Work::new(&meter), Work::new(&meter));
        let compute = || asker.charge(|| shared.charge(check));
        assert!(compute().is_ok());
        asker.give_up();
        assert_eq!(compute().map_err(|error| error.kind()), Err(ErrorKind::Interrupted));
        assert!(shared.charge(check).is_ok(), "others may want it");
    }

    #[test]
    fn a_part_of_a_work_ends_with_whoever_waits_for_its_rows() -> Result<()> {
        let (meter, other) = (Meter::new(&Ledger::new(1 << 30)), Meter::new(&Ledger::new(1 << 30)));
        let (taker, mut part) = (Work::new(&meter), None);
        let pending = RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), stream::pending());
        let mut rows = Work::rows(&meter, || {
            part = Some(Work::part(&other));
            Ok::<_, DataFusionError>(Box::pin(pending) as SendableRecordBatchStream)
        })?;
        let part = part.expect("it was begun");
        assert!(taker.charge(|| rows.next().now_or_never()).is_none());
        assert!(part.charge(check).is_ok());
        taker.give_up();
        assert_eq!(part.charge(check).map_err(|error| error.kind()), Err(ErrorKind::Interrupted));
        Ok(())
    }

    fn meter_interrupts(meter: &Meter) {
        meter.interrupted.store(true, Ordering::Release);
    }

    #[test]
    fn dropped_rows_end_their_work() {
        let meter = Meter::new(&Ledger::new(1 << 30));
        let mut kept = None;
        let begun = Work::rows(&meter, || {
            kept = super::current();
            let rows = stream::empty::<Result<arrow::record_batch::RecordBatch>>();
            Ok::<_, DataFusionError>(
                Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), rows)) as _
            )
        });
        let work = kept.expect("a work is charged");
        assert!(work.charge(check).is_ok());
        drop(begun);
        let ended = work.charge(check).map_err(|error| error.kind());
        assert_eq!(ended, Err(ErrorKind::Interrupted));
    }

    #[test]
    fn threads_without_work_go_on() {
        assert!(check().is_ok());
    }
}
