//! The memory of one session's statement, and of its data beside the plans, as a part of the memory
//! of all sessions.

use hypostyle_error::from_datafusion;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use hypostyle_storage::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that is held for as long as this lives.
#[derive(Debug)]
pub struct Held(MemoryReservation);

impl Held {
    pub fn new(what: impl Into<String>, pool: &Arc<dyn MemoryPool>) -> Self {
        Self(MemoryConsumer::new(what).register(pool))
    }

    /// Returns how much is held.
    pub fn bytes(&self) -> u64 {
        self.0.size() as u64
    }

    /// Sets the size of the held memory, whether there is room for it or not.
    pub fn settle(&self, bytes: u64) {
        self.0.resize(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

impl Budget for Held {
    fn take(&self, bytes: u64) -> hypostyle_types::Result<()> {
        self.0.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(from_datafusion)
    }
}

/// The memory of a token while its statement is parsed and planned. It was measured, and includes
/// statements that the engine runs on its own.
const TOKEN_BYTES: u64 = 1 << 10;
const TOKENS_FREE: usize = 4 << 10;

/// Returns the memory to parse and plan a text in, which is held until the statement has begun.
///
/// # Errors
/// `OutOfMemory` when there is not so much.
pub fn for_text(sql: &str, pool: &Arc<dyn MemoryPool>) -> hypostyle_types::Result<Option<Held>> {
    // A token has at least one byte.
    let tokens = if sql.len() <= TOKENS_FREE { 0 } else { tokens_at_most(sql) };
    if tokens <= TOKENS_FREE {
        return Ok(None);
    }
    let held = Held::new("parsing and planning the statement", pool);
    held.take(tokens as u64 * TOKEN_BYTES)?;
    Ok(Some(held))
}

/// Returns the memory of a statement that is kept as it was parsed.
///
/// # Errors
/// `OutOfMemory` when there is not so much.
pub fn for_kept(what: &str, sql: &str, pool: &Arc<dyn MemoryPool>) -> hypostyle_types::Result<Held> {
    let held = Held::new(what, pool);
    held.take(tokens_at_most(sql) as u64 * TOKEN_BYTES)?;
    Ok(held)
}

/// Returns the tokens of a text but for space, or more.
fn tokens_at_most(sql: &str) -> usize {
    let (mut tokens, mut within_word, mut quote) = (0, false, None);
    for byte in sql.bytes() {
        if quote.is_some() {
            if quote == Some(byte) {
                quote = None;
            }
            continue;
        }
        let is_word = byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_.$".contains(&byte);
        if !(byte.is_ascii_whitespace() || is_word && within_word) {
            tokens += 1;
        }
        within_word = is_word;
        if b"'\"`".contains(&byte) {
            quote = Some(byte);
        }
    }
    tokens
}

/// A pool within another one, that lets no more than `limit` bytes be reserved. A session runs one
/// statement at a time, so that a pool for each session is one for each statement.
#[derive(Debug)]
pub struct QueryPool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn tokens_are_counted_and_what_is_quoted_is_one() {
        for (sql, tokens) in [
            ("", 0),
            ("SELECT 1", 2),
            ("select a.b+1.5, 'it, (is) text' from \"t, u\"", 8),
            ("VALUES (1),(2) , (30)", 12),
        ] {
            assert_eq!(tokens_at_most(sql), tokens, "{sql}");
        }
    }

    #[test]
    fn long_texts_need_memory_and_long_values_do_not() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(32 << 20));
        assert!(for_text("SELECT 1", &pool).unwrap().is_none());
        assert!(for_text(&format!("SELECT '{}'", "x, ".repeat(1 << 20)), &pool).unwrap().is_none());
        let of_rows = |rows: usize| format!("VALUES {}(1)", "(1), ".repeat(rows));
        let held = for_text(&of_rows(5_000), &pool).unwrap();
        assert_eq!(pool.reserved(), (5_000 * 4 + 4) * 1024);
        drop(held);
        assert_eq!(pool.reserved(), 0);
        let error = for_text(&of_rows(10_000), &pool).unwrap_err();
        assert_eq!(error.sqlstate(), "53200", "{error}");
    }
}
