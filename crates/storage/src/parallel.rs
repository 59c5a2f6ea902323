//! Work on several threads at a time.

use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};

/// Cells below which more threads cost more than they bring.
pub(crate) const PARALLEL_CELLS_MIN: usize = 64 * 1024;

/// Runs `task` over the items on up to `threads` threads; the first error in item order wins.
pub(crate) fn in_parallel<T: Send>(
    items: Vec<T>,
    threads: usize,
    task: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().try_for_each(task);
    }
    let workers = threads.min(items.len());
    let queue = Mutex::new(items.into_iter().enumerate());
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().next();
                    let Some((index, item)) = next else { return };
                    if let Err(error) = task(item) {
                        let mut failure = failure.lock();
                        if failure.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                            *failure = Some((index, error));
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), |(_, error)| Err(error))
}
