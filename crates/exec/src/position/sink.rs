//! What is made of the rows of a flow.

use super::execution::Execution;
use super::flow::{Expression, Flow, Universe};
use super::ready::ReadyFlow;
use super::stop::Stopped;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr_common::sort_expr::LexOrdering;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A flow and what is made of its rows.
pub(super) trait Pipeline: fmt::Debug + Send + Sync {
    fn universe(&self) -> &Arc<Universe>;

    /// Returns the same over other tables; `None` if its results cannot be put together.
    fn over(&self, _: Arc<Universe>) -> Option<Arc<dyn Pipeline>> {
        None
    }

    fn flow(&self) -> &Flow;

    /// Returns the expressions that it evaluates itself.
    fn outputs(&self) -> Vec<Expression>;

    /// Returns the keys of its groups, which are the first columns of the result.
    fn keys(&self) -> &[Expression] {
        &[]
    }

    /// Returns the expressions that it evaluates for rows of the result alone.
    fn late(&self) -> Vec<Expression> {
        Vec::new()
    }

    /// Returns the order in which the rows of the result are.
    fn order(&self) -> Option<&LexOrdering> {
        None
    }

    /// Tells whether the result has some of the rows only, which may be others whose keys are the same.
    fn is_cut(&self) -> bool {
        false
    }

    /// Returns the rows of the result. What stops it after the first one is an error.
    fn run<'a>(
        &'a self,
        execution: &'a Arc<Execution>,
        flow: &'a Arc<ReadyFlow>,
    ) -> BoxFuture<'a, Stopped<SendableRecordBatchStream>>;

    /// Writes what EXPLAIN says of it before the flow.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}
