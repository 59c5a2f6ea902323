//! Shares work out to threads.

use crate::Result;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Tells whether work is to go on; an error ends it.
pub type Check<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// How work is done that takes long.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// How many threads share it.
    pub threads: usize,
    /// Is called between pieces of the work.
    pub go_on: Check<'a>,
}

impl Work<'static> {
    /// One thread does it, to its end.
    pub const ALONE: Self = Self { threads: 1, go_on: &|| Ok(()) };
}

/// The rows that a thread takes at a time; tests have few.
pub(crate) const PIECE_ROWS: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// Has threads fill a vector with a value for each row, in pieces.
pub(crate) fn filled<T: Clone + Default + Send>(
    rows: usize,
    work: &Work<'_>,
    fill: impl Fn(Range<usize>, &mut [T]) -> Result<()> + Sync,
) -> Result<Vec<T>> {
    let mut values = vec![T::default(); rows];
    let starts = (0..rows).step_by(PIECE_ROWS);
    let pieces = starts.zip(values.chunks_mut(PIECE_ROWS)).collect();
    share(pieces, work.threads, |(start, piece): (usize, &mut [T])| {
        (work.go_on)()?;
        fill(start..start + piece.len(), piece)
    })?;
    Ok(values)
}

/// Has threads work on items, one after the other, and returns what they made of them, in any order. The
/// first error ends the work. Threads that cannot be started are done without.
pub(crate) fn share<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.into_iter());
    let take = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || -> Result<Vec<R>> {
        let mut found = Vec::new();
        while let Some(item) = take() {
            found.push(work(item)?);
        }
        Ok(found)
    };
    scope(|scope| {
        let helpers = (1..threads).filter_map(|_| Builder::new().spawn_scoped(scope, run).ok());
        let helpers: Vec<_> = helpers.collect();
        let mut found = run();
        for helper in helpers {
            let others = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found = found.and_then(|mut found| {
                found.extend(others?);
                Ok(found)
            });
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn each_item_is_worked_on_once() {
        for threads in [0, 1, 3, 8] {
            let mut found = share((0..100).collect(), threads, |item: u32| Ok(item * 2)).unwrap();
            found.sort_unstable();
            assert_eq!(found, (0..100).map(|item| item * 2).collect::<Vec<_>>());
        }
        assert!(share(Vec::<u32>::new(), 4, Ok).unwrap().is_empty());
    }

    #[test]
    fn each_row_is_filled_once() {
        for rows in [0, 1, PIECE_ROWS, 3 * PIECE_ROWS + 5] {
            let work = Work { threads: 3, ..Work::ALONE };
            let found = filled(rows, &work, |places, values: &mut [usize]| {
                values.iter_mut().zip(places).for_each(|(value, place)| *value += place * 3);
                Ok(())
            });
            assert_eq!(found.unwrap(), (0..rows).map(|place| place * 3).collect::<Vec<_>>());
        }
        let ended = Work { threads: 2, go_on: &|| Err(Error::Ended) };
        assert!(matches!(filled::<u8>(1, &ended, |_, _| Ok(())), Err(Error::Ended)));
    }

    #[test]
    fn an_error_ends_the_work() {
        let work = |item: u32| if item < 10 { Ok(item) } else { Err(Error::Ended) };
        assert!(matches!(share((0..1_000).collect(), 3, work), Err(Error::Ended)));
    }
}
