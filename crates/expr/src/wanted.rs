//! Checks whether somebody still waits for the plan that a thread makes.

use datafusion::error::DataFusionError;
use hypostyle_types::Error;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Says whether the plan of this thread has been abandoned.
    static GIVEN_UP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Has [`check_wanted`] fail on this thread as soon as the flag is set.
pub fn watch(given_up: Arc<AtomicBool>) {
    GIVEN_UP.set(Some(given_up));
}

/// Ends planning that nobody waits for any more. Our own code that planning runs calls it, such as
/// rules.
///
/// # Errors
/// `Interrupted` on a thread whose plan nobody waits for any more.
pub fn check_wanted() -> datafusion::error::Result<()> {
    let given_up = GIVEN_UP
        .with_borrow(|given_up| given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::Relaxed)));
    match given_up {
        true => Err(DataFusionError::External(Box::new(Error::interrupted()))),
        false => Ok(()),
    }
}
