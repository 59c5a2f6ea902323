//! Shares work out to threads.

use crate::Result;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Has threads work on items, one after the other, and returns what they made of them, in any order. The
/// first error ends the work. Threads that cannot be started are done without.
pub(super) fn share<T: Send, R: Send>(
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
    fn an_error_ends_the_work() {
        let work = |item: u32| if item < 10 { Ok(item) } else { Err(Error::Ended) };
        assert!(matches!(share((0..1_000).collect(), 3, work), Err(Error::Ended)));
    }
}
