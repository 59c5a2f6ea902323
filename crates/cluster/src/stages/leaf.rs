//! Which tasks read a table, and how they do.

use super::channel::ask;
use crate::gather::{GatherExec, as_planned};
use crate::message::{Request, Task, decode, encode};
use crate::node::Node;
use crate::part::{PartExec, Reads, Share};
use crate::peers::Answer;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, DistributedLeafExec,
    ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler,
};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_error::external;
use hypostyle_expr::nan::with_one_nan;
use hypostyle_placement::NodeId;
use std::sync::{Arc, Weak};

/// Reads the shares of tasks on a node, which a session that is forgotten late does not keep.
pub(super) struct OnNode(pub Weak<Node>);

impl Reads for OnNode {
    fn read(&self, share: Share, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        let gone = || DataFusionError::Internal("a node that is gone".into());
        let node = self.0.upgrade().ok_or_else(gone)?;
        let task = decode(&share.task).map_err(external)?;
        let rows = stream::once(rows_of(node, share.node, task)).try_flatten();
        let of = schema.clone();
        // As without stages: a node may have made another NaN, which operators would tell apart.
        let rows = rows.map(move |batch| with_one_nan(as_planned(batch?, &of)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Reads a share where it is.
async fn rows_of(node: Arc<Node>, of: NodeId, task: Task) -> Result<SendableRecordBatchStream> {
    let request = Request::Run(Box::new(task));
    match of == node.id() {
        true => node.serve(request, None).and_then(Answer::rows).map_err(external),
        false => ask(&node, of, request)?.rows().await,
    }
}

/// Tells how many tasks read a table, and what each of them reads.
pub(super) struct Leaves;

#[async_trait]
impl DesiredTaskCountHandler for Leaves {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        let gather = event.plan.downcast_ref::<GatherExec>()?;
        Some(Ok(DesiredTaskCountEventResponse::desired(gather.asked().count())))
    }
}

impl ScaleUpLeafNodeHandler for Leaves {
    fn handle(&self, event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let gather = event.plan.downcast_ref::<GatherExec>()?;
        Some(parts(gather, event.task_count).and_then(|parts| {
            let leaf = DistributedLeafExec::try_new(event.plan.clone(), parts)?;
            Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)))
        }))
    }
}

/// Returns what each of some tasks reads. One alone reads all, in the order of the partitions of the part.
fn parts(gather: &GatherExec, tasks: usize) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let share = |(node, task): (NodeId, Task)| {
        let fragments = task.parts.len();
        Ok(Some(Share { node, fragments, task: encode(&task)?.into() }))
    };
    let all = gather
        .tasks()
        .and_then(|all| all.into_iter().map(share).collect::<hypostyle_types::Result<Vec<Option<Share>>>>());
    let (all, tasks) = (all.map_err(external)?, tasks.max(1));
    let partitions = all.len().div_ceil(tasks).max(1);
    let part = |task: usize| -> Arc<dyn ExecutionPlan> {
        let mut own: Vec<Option<Share>> = all.iter().skip(task).step_by(tasks).cloned().collect();
        own.resize(partitions, None);
        Arc::new(PartExec::new(own, gather.schema()))
    };
    Ok((0..tasks).map(part).collect())
}
