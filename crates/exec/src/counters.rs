//! The progress of a statement.

use std::sync::atomic::AtomicU64;

/// Rows that scans and appends have gone through, and are to go through.
#[derive(Debug, Default)]
pub struct Counters {
    pub done: AtomicU64,
    pub total: AtomicU64,
}
