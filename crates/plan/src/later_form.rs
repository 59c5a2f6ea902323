//! How many queries of the process were planned in a later form only: another one was refused before, and a
//! whole optimization was in vain. What `subquery_shape` knows, and what is not nested, is none of them.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts a query that is planned in a later form.
pub fn count() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many have been counted.
pub fn counted() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
