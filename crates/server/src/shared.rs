//! Answers that are found once for all who ask at the same time.

use hypostyle_types::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// An answer, and when it was found.
type Found = (Instant, Result<()>);

/// The last answer to a question that takes a thread. However many ask, one thread
/// looks for it.
#[derive(Default)]
pub(crate) struct Shared(Arc<Mutex<Option<Found>>>);

impl Shared {
    /// Returns an answer that is not older than a time, or was found while the caller has waited.
    ///
    /// # Errors
    /// Those that are the answer; `Internal` if nobody has found one.
    pub async fn answer(
        &self,
        kept_for: Duration,
        find: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let since = Instant::now();
        let mut known = self.0.clone().lock_owned().await;
        let is_new = |when: &Instant| *when >= since || when.elapsed() < kept_for;
        if let Some((_, found)) = known.as_ref().filter(|(when, _)| is_new(when)) {
            return found.clone();
        }
        // The lock is held by who looks, so that nobody else does when the caller breaks off.
        let finding = tokio::task::spawn_blocking(move || {
            let found = find();
            *known = Some((Instant::now(), found.clone()));
            found
        });
        finding.await.unwrap_or_else(|error| Err(Error::internal(format!("no answer was found: {error}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn many_who_ask_at_once_take_one_thread_for_one_answer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (shared, asked) = (Arc::new(Shared::default()), Arc::new(AtomicUsize::new(0)));
        let ask = |kept_for: Duration, find: Box<dyn FnOnce() + Send>| {
            let (shared, asked) = (shared.clone(), asked.clone());
            runtime.spawn(async move {
                let found = shared.answer(kept_for, move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    find();
                    Err(Error::internal("it is not"))
                });
                found.await.unwrap_err().message().to_string()
            })
        };
        let (go_on, wait) = channel::<()>();
        let first = ask(Duration::ZERO, Box::new(move || wait.recv().unwrap()));
        let others: Vec<_> = (0..30).map(|_| ask(Duration::ZERO, Box::new(|| {}))).collect();
        runtime.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            // Whoever breaks off takes the answer from nobody.
            first.abort();
            go_on.send(()).unwrap();
            for other in others {
                assert_eq!(other.await.unwrap(), "it is not");
            }
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            // It is kept for as long as the caller says.
            ask(Duration::from_secs(3600), Box::new(|| {})).await.unwrap();
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            ask(Duration::ZERO, Box::new(|| {})).await.unwrap();
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        });
    }
}
