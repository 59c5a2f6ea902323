//! The progress of a statement: the thread that waits for the statement reports it, and any thread
//! may ask for it.

use hypostyle_sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The age after which a report is out of date.
const NEWS_TIME: Duration = Duration::from_millis(50);

/// The progress of the running statement, or of the last one at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The rows that were processed, or that have come from the server.
    pub rows_done: u64,
    /// The total of these rows, if it is known; after a successful end all are done.
    pub rows_total: Option<u64>,
    /// Says whether the rows are those of a result that comes from the server.
    pub is_transfer: bool,
    /// The time since the statement began.
    pub elapsed: Duration,
    /// The remaining time at the speed until now, if the total is known.
    pub remaining: Option<Duration>,
    /// True until the last row has come, or the statement has failed, or nobody wants more rows.
    pub is_running: bool,
}

impl Progress {
    /// Returns the progress of a statement that has processed some rows.
    pub fn computing(rows_done: u64, rows_total: Option<u64>, elapsed: Duration) -> Self {
        let count = Count { done: rows_done, total: rows_total };
        let remaining = count.remaining(elapsed);
        Self { rows_done, rows_total, is_transfer: false, elapsed, remaining, is_running: true }
    }

    /// Returns a number between 0 and 1, if the total is known.
    pub fn fraction(&self) -> Option<f64> {
        self.rows_total.map(|total| match total {
            0 => 1.0,
            total => (self.rows_done as f64 / total as f64).min(1.0),
        })
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    done: u64,
    total: Option<u64>,
}

impl Count {
    fn is_partial(self) -> bool {
        self.total.is_some_and(|total| self.done < total)
    }

    /// Returns the remaining time. It is also `None` for a time that no clock can represent,
    /// because the numbers may come from a server.
    fn remaining(self, elapsed: Duration) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.done);
        match self.done {
            0 => (left == 0).then_some(Duration::ZERO),
            done => Duration::try_from_secs_f64(elapsed.as_secs_f64() * left as f64 / done as f64).ok(),
        }
    }
}

/// The state of one statement.
struct State {
    number: u64,
    began: Instant,
    /// The time of the last report.
    told: Instant,
    computed: Count,
    /// The rows of the result that have come, and the time at which the wait for them began.
    received: Option<(Instant, Count)>,
    /// The time after which the statement ended, and whether it succeeded.
    end: Option<(Duration, bool)>,
}

impl State {
    fn progress(&self) -> Progress {
        let elapsed = self.end.map_or_else(|| self.began.elapsed(), |(elapsed, _)| elapsed);
        let mut progress = match self.received {
            Some((since, count)) if self.is_transferred(count) => Progress {
                rows_done: count.done,
                rows_total: count.total,
                is_transfer: true,
                elapsed,
                remaining: count.remaining(since.elapsed()),
                is_running: true,
            },
            _ => Progress::computing(self.computed.done, self.computed.total, elapsed),
        };
        if let Some((_, well)) = self.end {
            progress.is_running = false;
            progress.remaining = well.then_some(Duration::ZERO);
            if well {
                // The end of the rows was not reported.
                progress.rows_done = progress.rows_done.max(progress.rows_total.unwrap_or(0));
                progress.rows_total = Some(progress.rows_done);
            }
        }
        progress
    }

    /// Says whether received rows tell more than processed rows. For a result that is sent while it
    /// is computed, the number of rows is unknown, but not how much is left to process.
    fn is_transferred(&self, received: Count) -> bool {
        let ended_well = self.end.is_some_and(|(_, well)| well);
        received.total.is_some() || ended_well || (received.done > 0 && !self.computed.is_partial())
    }
}

/// The progress of the statements of a connection.
#[derive(Default)]
pub struct Meter(Mutex<Option<State>>);

impl Meter {
    /// Begins a statement.
    pub fn begin(self: &Arc<Self>) -> Running {
        let mut state = self.0.lock();
        let (number, now) = (state.as_ref().map_or(0, |last| last.number + 1), Instant::now());
        *state = Some(State {
            number,
            began: now,
            told: now,
            computed: Count::default(),
            received: None,
            end: None,
        });
        Running { meter: self.clone(), number }
    }

    /// Records that the running statement has processed some rows.
    pub fn computed(&self, done: u64, total: Option<u64>) {
        if let Some(state) = self.0.lock().as_mut() {
            state.told = Instant::now();
            state.computed = Count { done, total };
        }
    }

    /// Returns the progress, or `None` before the first statement.
    pub fn progress(&self) -> Option<Progress> {
        self.0.lock().as_ref().map(State::progress)
    }
}

/// A statement that has begun. If it is dropped before its end, it has failed, or nobody wants more
/// rows.
pub struct Running {
    meter: Arc<Meter>,
    number: u64,
}

impl Running {
    /// Records that the result is about to come, with a number of rows if that is known.
    pub fn expect(&self, rows: Option<u64>) {
        self.change(|state| state.received = Some((Instant::now(), Count { done: 0, total: rows })));
    }

    /// Records that more rows have come.
    pub fn receive(&self, rows: u64) {
        self.change(|state| {
            if let Some((_, count)) = &mut state.received {
                count.done = count.done.saturating_add(rows);
            }
        });
    }

    pub fn end(&self) {
        self.change(|state| state.end = Some((state.began.elapsed(), true)));
    }

    pub fn fail(&self) {
        self.change(|state| state.end = Some((state.began.elapsed(), false)));
    }

    /// Says whether nothing has been reported for a while.
    pub fn is_silent(&self) -> bool {
        let state = self.meter.0.lock();
        state.as_ref().is_some_and(|state| state.number == self.number && state.told.elapsed() > NEWS_TIME)
    }

    /// Changes the state, unless the statement has ended or another one has begun.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.meter.0.lock();
        if let Some(state) = state.as_mut().filter(|state| state.number == self.number && state.end.is_none())
        {
            change(state);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.fail();
    }
}
