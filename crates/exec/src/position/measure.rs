//! What EXPLAIN ANALYZE tells of the steps of a pipeline: the rows that each has let pass, and its
//! time.

use super::flow::{Expression, Kind};
use datafusion::common::human_readable_duration;
use datafusion::physical_plan::metrics::CustomMetricValue;
use hypostyle_sync::Mutex;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What EXPLAIN ANALYZE calls a step. It is written only there, because every query has steps.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Fixed(&'static str),
    /// The reading of a table, and the conditions that it decides.
    Table(String, Vec<Expression>),
    /// The rows that an index has found.
    Index(String),
    Where(Expression),
    Join {
        kind: Kind,
        table: String,
        by: &'static str,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.write_str(name),
            Self::Table(table, conditions) => {
                f.write_str(table)?;
                for (place, condition) in conditions.iter().enumerate() {
                    write!(f, " {} {condition}", if place == 0 { "where" } else { "and" })?;
                }
                Ok(())
            }
            Self::Index(name) => f.write_str(name),
            Self::Where(condition) => write!(f, "where {condition}"),
            Self::Join { kind, table, by } => write!(f, "{} {table} by {by}", kind.name()),
        }
    }
}

/// A step, and what all workers together have measured of it.
#[derive(Debug)]
struct Measured {
    name: Name,
    rows: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Measured {
    fn new(name: Name) -> Self {
        Self { name, rows: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }

    fn add(&self, rows: u64, nanoseconds: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, nanoseconds] = [&self.rows, &self.nanoseconds].map(|value| value.load(Ordering::Relaxed));
        write!(f, "{}: {rows} rows, {}", self.name, human_readable_duration(nanoseconds))
    }
}

/// The steps of one flow, in the order in which rows go through them: the reading of the table comes
/// first, and what becomes of the rows last.
#[derive(Debug)]
pub(super) struct Steps(Vec<Measured>);

/// All that a pipeline has measured, in the order in which it began.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurements(Arc<Mutex<Vec<Arc<Steps>>>>);

impl Measurements {
    /// Adds the steps of a flow.
    pub fn flow(&self, names: impl Iterator<Item = Name>) -> Arc<Steps> {
        let steps = Arc::new(Steps(names.map(Measured::new).collect()));
        self.0.lock().push(steps.clone());
        steps
    }

    /// Adds something that is done once.
    pub fn once(&self, name: &'static str, rows: usize, time: Duration) {
        let measured = Measured::new(Name::Fixed(name));
        measured.add(rows as u64, time.as_nanos() as u64);
        self.0.lock().push(Arc::new(Steps(vec![measured])));
    }
}

impl fmt::Display for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, flow) in self.0.lock().iter().enumerate() {
            f.write_str(if place > 0 { " | " } else { "" })?;
            for (place, step) in flow.0.iter().enumerate() {
                write!(f, "{}{step}", if place > 0 { " → " } else { "" })?;
            }
        }
        f.write_str("]")
    }
}

impl CustomMetricValue for Measurements {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>() {
            let flows = other.0.lock().clone();
            self.0.lock().extend(flows);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }
}

/// A worker's stopwatch: at each moment one step of its flow runs.
pub(super) struct Stopwatch {
    steps: Arc<Steps>,
    /// The step that runs and since when, while one does.
    running: Cell<Option<(usize, Instant)>>,
    /// The rows and the time of each step, which other workers do not see yet.
    own: RefCell<Vec<(u64, Duration)>>,
}

impl Stopwatch {
    pub fn new(steps: &Arc<Steps>) -> Self {
        let own = vec![(0, Duration::ZERO); steps.0.len()];
        Self { steps: steps.clone(), running: Cell::new(None), own: RefCell::new(own) }
    }

    /// Lets a step run in place of the one that did.
    pub fn enter(&self, step: usize) {
        let now = Instant::now();
        self.end(now);
        self.running.set(Some((step, now)));
    }

    /// Lets a step run that comes last.
    pub fn enter_last(&self) {
        self.enter(self.steps.0.len().saturating_sub(1));
    }

    /// Counts rows that the running step has let pass.
    pub fn count(&self, rows: usize) {
        if let Some((step, _)) = self.running.get()
            && let Some((count, _)) = self.own.borrow_mut().get_mut(step)
        {
            *count += rows as u64;
        }
    }

    /// Lets no step run.
    pub fn stop(&self) {
        self.end(Instant::now());
        self.running.set(None);
    }

    fn end(&self, now: Instant) {
        if let Some((step, since)) = self.running.get()
            && let Some((_, time)) = self.own.borrow_mut().get_mut(step)
        {
            *time += now - since;
        }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.stop();
        for (step, (rows, time)) in self.steps.0.iter().zip(self.own.get_mut()) {
            step.add(*rows, time.as_nanos() as u64);
        }
    }
}
