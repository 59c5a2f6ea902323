//! Memory of one session's statement, and of what it holds beside its plans, as a part of what all may have.

use crate::error::from_datafusion;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use hypostyle_storage::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that is held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(MemoryReservation);

impl Held {
    pub fn new(what: impl Into<String>, pool: &Arc<dyn MemoryPool>) -> Self {
        Self(MemoryConsumer::new(what).register(pool))
    }

    /// What is held is so much, whether there was room for it or not.
    pub fn settle(&self, bytes: u64) {
        self.0.resize(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

impl Budget for Held {
    fn take(&self, bytes: u64) -> hypostyle_types::Result<()> {
        self.0.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(from_datafusion)
    }
}

/// A pool within another one, that lets no more than `limit` bytes be reserved. A session runs one statement at a
/// time, so that a pool for each session is one for each statement.
#[derive(Debug)]
pub(crate) struct QueryPool {
    shared: Arc<dyn MemoryPool>,
    limit: usize,
    reserved: AtomicUsize,
}

impl QueryPool {
    pub fn new(shared: Arc<dyn MemoryPool>, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { shared, limit, reserved: AtomicUsize::new(0) }
    }
}

impl std::fmt::Display for QueryPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes for this statement", self.reserved(), self.limit)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &'static str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let fits = |reserved: usize| reserved.checked_add(additional).filter(|sum| *sum <= self.limit);
        if let Err(reserved) = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs {additional} bytes more than the {reserved} that the statement has, and it may have {}; \
                 raise query_memory_limit",
                reservation.consumer().name(),
                self.limit
            )));
        }
        let grown = self.shared.try_grow(reservation, additional);
        if grown.is_err() {
            self.reserved.fetch_sub(additional, Ordering::Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}
