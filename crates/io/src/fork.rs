//! What happens to threads when the process forks.
//!
//! A child of `fork()` has only the thread that forked. What the others were about to do never
//! happens there: a lock that one of them holds stays locked, and a list of waiting threads has
//! entries in memory that the C library gives to the child's next threads. So whoever keeps threads
//! registers them here, and they stand still, outside all locks and lists, while the process forks.
//! In the parent they go on. In the child they are gone, and nothing is registered.
//!
//! This is state of the process, as its threads are.

use hypostyle_types::{Error, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Threads that can stand still.
pub trait Threads: Send + Sync {
    /// Has the threads stand still, as far as they do so in a short time. They go on when the value
    /// is dropped.
    fn stand_still(&self) -> Box<dyn Any>;
}

type Known = Vec<Weak<dyn Threads>>;

static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
static HANDLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What stands still while this thread forks.
    static STILL: RefCell<Option<Still>> = const { RefCell::new(None) };
}

struct Still {
    threads: Vec<Box<dyn Any>>,
    /// Nobody else has this lock when the process forks.
    known: MutexGuard<'static, Known>,
}

unsafe extern "C" {
    /// POSIX. The functions are called before a fork by the thread that forks, and after it by the
    /// same thread, in the parent and in the child.
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Starts threads that stand still while the process forks, for as long as the value exists. The
/// process does not fork meanwhile.
///
/// # Errors
/// Those of starting them; `Io` when the system cannot tell of forks.
pub fn start_threads<T: Threads + 'static>(start: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
    let mut known = lock();
    if !HANDLED.load(Ordering::Acquire) {
        // SAFETY: the functions live as long as the process, and take part in no unwinding.
        let failed = unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        if failed != 0 {
            let error = io::Error::from_raw_os_error(failed);
            return Err(Error::from_io(&error, "cannot handle forks of the process"));
        }
        HANDLED.store(true, Ordering::Release);
    }
    let threads = start()?;
    known.retain(|threads| threads.strong_count() > 0);
    let weak: Weak<dyn Threads> = Arc::downgrade(&(threads.clone() as Arc<dyn Threads>));
    known.push(weak);
    Ok(threads)
}

fn lock() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before() {
    let known = lock();
    let threads = known.iter().filter_map(Weak::upgrade).map(|threads| threads.stand_still()).collect();
    let still = Still { threads, known };
    // A thread that is ending has no such place, and forks without.
    let _ending = STILL.try_with(|place| place.replace(Some(still)));
}

extern "C" fn in_parent() {
    drop(STILL.try_with(RefCell::take));
}

extern "C" fn in_child() {
    if let Ok(Some(mut still)) = STILL.try_with(RefCell::take) {
        // There is nobody to go on.
        still.threads.into_iter().for_each(std::mem::forget);
        still.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counted(Arc<AtomicUsize>);

    struct GoesOn(Arc<AtomicUsize>);

    impl Drop for GoesOn {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Threads for Counted {
        fn stand_still(&self) -> Box<dyn Any> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::new(GoesOn(self.0.clone()))
        }
    }

    #[test]
    fn threads_stand_still_while_the_process_forks_and_are_forgotten_in_the_child() {
        let threads = start_threads(|| Ok(Arc::new(Counted::default()))).unwrap();
        let still = threads.0.clone();
        before();
        assert_eq!(still.load(Ordering::SeqCst), 1);
        assert!(KNOWN.try_lock().is_err());
        in_parent();
        assert_eq!(still.load(Ordering::SeqCst), 0);
        before();
        in_child();
        assert_eq!(still.load(Ordering::SeqCst), 1);
        assert!(lock().is_empty());
        // The next ones are registered, and those that have ended are not asked.
        drop(start_threads(|| Ok(Arc::new(Counted::default()))).unwrap());
        before();
        in_parent();
        assert!(start_threads(|| Err::<Arc<Counted>, _>(Error::internal("none"))).is_err());
    }
}
