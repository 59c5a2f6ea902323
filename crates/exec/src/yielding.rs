//! Plans that yield their thread. A join may compute for hours between two rows of its scans, and
//! only a scan yields by itself. An interrupted task is dropped only when it yields.

use crate::node_rule::node_rule;
use crate::passing::{Passing, passing, passing_below};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, stream};
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A thread is let go so often.
const YIELD_TIME: Duration = Duration::from_millis(5);

/// The rows of the first piece that a nested loop is given.
const FIRST_PIECE: usize = 64;

/// Puts a `YieldExec` over joins that make many rows of few, and over what a nested loop reads.
#[derive(Debug)]
pub struct Yielding;

node_rule!(Yielding: "Yielding", yielding);

/// Puts a `YieldExec` over a join, and over what a nested loop reads.
fn yielding(plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    // A row of the scans may become millions of a hash join's, and billions of one above that.
    if plan.is::<CrossJoinExec>() || plan.is::<HashJoinExec>() || plan.is::<SortMergeJoinExec>() {
        return Ok(Transformed::yes(passing(&plan, Yields::Behind)));
    }
    if !plan.is::<NestedLoopJoinExec>() {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(passing(&passing_below(&plan, &Yields::InPieces)?, Yields::Behind)))
}

/// Lets go of the thread now and then.
#[derive(Clone, Debug)]
enum Yields {
    /// It does so behind a batch.
    Behind,
    /// It does so behind as many rows as a nested loop joins in a short time: that joins what it is given
    /// with all rows of its other side before it asks for more.
    InPieces,
}

impl Passing for Yields {
    const NAME: &'static str = "YieldExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context.clone())?;
        let schema = input.schema();
        let meter = context.session_config().get_extension::<Meter>();
        Ok(match self {
            Self::Behind => watched(input, schema, meter),
            Self::InPieces => watched(in_pieces(input), schema, meter),
        })
    }
}

/// Returns batches in pieces of as many rows as whoever takes them works on for about [`YIELD_TIME`].
fn in_pieces(batches: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> + Send {
    struct Pieces {
        batches: SendableRecordBatchStream,
        rest: Option<RecordBatch>,
        rows: usize,
        given: Option<Instant>,
    }
    let pieces = Pieces { batches, rest: None, rows: FIRST_PIECE, given: None };
    stream::unfold(pieces, |mut pieces| async move {
        if let Some(taken) = pieces.given.take().map(|given| given.elapsed()) {
            if taken > YIELD_TIME {
                pieces.rows = (pieces.rows / 2).max(1);
            } else if taken < YIELD_TIME / 4 {
                pieces.rows = pieces.rows.saturating_mul(2);
            }
        }
        let batch = match pieces.rest.take() {
            Some(rest) => rest,
            None => match pieces.batches.next().await? {
                Ok(batch) => batch,
                failed => return Some((failed, pieces)),
            },
        };
        let rows = pieces.rows.min(batch.num_rows());
        if rows < batch.num_rows() {
            pieces.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        pieces.given = Some(Instant::now());
        Some((Ok(batch.slice(0, rows)), pieces))
    })
}

/// Returns batches behind each of which the limits of their statement are checked, and the thread
/// is let go when it has been held for long.
pub fn watched(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    schema: SchemaRef,
    meter: Option<Arc<Meter>>,
) -> SendableRecordBatchStream {
    let mut last = Instant::now();
    let passed = batches.then(move |batch| {
        let checked = meter.as_ref().map_or(Ok(()), |meter| meter.check()).map_err(external);
        let is_due = last.elapsed() > YIELD_TIME;
        if is_due {
            last = Instant::now();
        }
        async move {
            if is_due {
                tokio::task::yield_now().await;
            }
            checked.and(batch)
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, passed))
}
