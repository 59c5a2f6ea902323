//! What functions may give together for the rows that are computed at once.
//!
//! An operator that can compute fewer rows at a time asks with [`within`]. A function whose result is
//! known beforehand to be more then gives nothing, and the operator tries again with fewer rows.

use crate::amplifier::Bounded;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The bytes that may still be given, while somebody asks.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether more would have been given.
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that calls functions for some rows; returns `None` where they would give more than
/// so many bytes.
///
/// # Errors
/// Those of what is run.
pub fn within<T>(bytes: u64, run: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let outer = (LEFT.replace(Some(bytes)), EXCEEDED.replace(false));
    let result = run();
    LEFT.set(outer.0);
    match EXCEEDED.replace(outer.1) {
        true => Ok(None),
        false => result.map(Some),
    }
}

/// Takes the bytes of a result for several rows off what may be given, and says whether there were
/// as many.
pub(crate) fn take(bytes: u64) -> bool {
    let Some(left) = LEFT.get() else { return true };
    let is_enough = bytes <= left;
    LEFT.set(Some(left.saturating_sub(bytes)));
    if !is_enough {
        EXCEEDED.set(true);
    }
    is_enough
}

/// Says whether an expression has a function whose results may be large. If rows are computed again, a
/// sequence may leave out numbers, as it may anyway.
pub fn may_be_large(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_large = |expression: &Arc<dyn PhysicalExpr>| {
        let call = expression.downcast_ref::<ScalarFunctionExpr>();
        Ok(call.is_some_and(|call| (call.fun().inner().as_ref() as &dyn std::any::Any).is::<Bounded>()))
    };
    expression.exists(is_large).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::exec_err;

    #[test]
    fn what_is_given_is_counted_until_it_is_too_much() {
        assert!(take(u64::MAX));
        let run = |sizes: &'static [u64]| {
            within(10, move || match sizes.iter().all(|size| take(*size)) {
                true => Ok(sizes.len()),
                false => exec_err!("too much"),
            })
        };
        assert_eq!(run(&[4, 6]).unwrap(), Some(2));
        assert_eq!(run(&[4, 7]).unwrap(), None);
        assert!(take(u64::MAX));
        let nested = within(5, || Ok((run(&[11])?, take(5))));
        assert_eq!(nested.unwrap(), Some((None, true)));
        assert!(within(1, || -> Result<()> { exec_err!("other") }).is_err());
    }
}
