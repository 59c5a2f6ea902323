//! The parts of a query that read tables, as leaves of its stages: each task reads the shares of some nodes,
//! its own first of all.

use super::channel::{OnNode, ask};
use crate::codec::no_plan;
use crate::gather::{GatherExec, as_planned};
use crate::message::{Request, Task};
use crate::node::Node;
use crate::peers::Answer;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties,
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, DistributedLeafExec,
    ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler,
};
use datafusion_proto::protobuf;
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_error::external;
use hypostyle_expr::{no_expressions, no_inputs};
use hypostyle_placement::NodeId;
use prost::Message;
use std::fmt;
use std::sync::Arc;

/// What one node reads for a task; `None` for a partition without rows.
type Share = Option<(NodeId, Task)>;

/// Reads the shares of some nodes, each as a partition. It may run on any node: a share is read where it is.
#[derive(Clone, Debug)]
pub(crate) struct PartExec {
    shares: Arc<Vec<Share>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

/// A [`PartExec`] as it travels.
#[derive(Clone, PartialEq, Message)]
struct PartMessage {
    #[prost(message, optional, tag = "1")]
    schema: Option<protobuf::Schema>,
    /// The shares, as JSON.
    #[prost(bytes = "vec", tag = "2")]
    shares: Vec<u8>,
}

impl PartExec {
    fn new(shares: Vec<Share>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { shares: Arc::new(shares), schema, properties: Arc::new(properties) }
    }

    /// Returns the node that its task should run on.
    pub(super) fn home(&self) -> Option<NodeId> {
        self.shares.iter().flatten().next().map(|(node, _)| *node)
    }

    /// Returns the operator as bytes.
    ///
    /// # Errors
    /// For columns that cannot be told.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let shares = crate::message::encode(&*self.shares).map_err(external)?;
        let schema = Some(self.schema.as_ref().try_into()?);
        Ok(PartMessage { schema, shares }.encode_to_vec())
    }

    /// Returns the operator from bytes.
    ///
    /// # Errors
    /// For bytes that are none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let message = PartMessage::decode(bytes).map_err(|error| no_plan(&error.to_string()))?;
        let schema: Schema =
            message.schema.as_ref().ok_or_else(|| no_plan("a part without columns"))?.try_into()?;
        let shares = crate::message::decode(&message.shares).map_err(external)?;
        Ok(Self::new(shares, Arc::new(schema)))
    }
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shares.iter().flatten();
        let shares = shares.map(|(node, task)| format!("{node}: {} fragments", task.parts.len()));
        write!(f, "PartExec: [{}]", shares.collect::<Vec<_>>().join("; "))
    }
}

impl ExecutionPlan for PartExec {
    fn name(&self) -> &'static str {
        "PartExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let share = self.shares.get(partition).cloned();
        let share = share.ok_or_else(|| DataFusionError::Internal(format!("no share {partition}")))?;
        let Some((of, task)) = share else {
            return Ok(Box::pin(EmptyRecordBatchStream::new(self.schema.clone())));
        };
        let node = OnNode::of(&context)?;
        let schema = self.schema.clone();
        let rows = stream::once(rows_of(node, of, task)).try_flatten();
        let rows = rows.map(move |batch| as_planned(batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
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
        let leaf = parts(gather, event.task_count).and_then(|parts| {
            let leaf = DistributedLeafExec::try_new(event.plan.clone(), parts)?;
            Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)))
        });
        Some(leaf)
    }
}

/// Returns what each of some tasks reads. One alone reads all, in the order of the partitions of the part.
fn parts(gather: &GatherExec, tasks: usize) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let (all, tasks) = (gather.tasks().map_err(external)?, tasks.max(1));
    let partitions = all.len().div_ceil(tasks).max(1);
    let part = |task: usize| -> Arc<dyn ExecutionPlan> {
        let own = all.iter().skip(task).step_by(tasks).cloned().map(Some);
        let mut own: Vec<Share> = own.collect();
        own.resize_with(partitions, || None);
        Arc::new(PartExec::new(own, gather.schema()))
    };
    Ok((0..tasks).map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use hypostyle_placement::Epoch;
    use uuid::Uuid;

    #[test]
    fn a_part_travels() {
        let task = Task {
            plan: vec![1, 2, 3],
            epoch: Epoch(4),
            parts: vec![Vec::new(), Vec::new()],
            replicated: Vec::new(),
            settings: vec![("a".into(), "b".into())],
        };
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let node = NodeId(Uuid::from_u128(7));
        let part = PartExec::new(vec![Some((node, task)), None], schema);
        let arrived = PartExec::from_bytes(&part.to_bytes().unwrap()).unwrap();
        assert_eq!(format!("{:?}", arrived.shares), format!("{:?}", part.shares));
        assert_eq!((arrived.schema(), arrived.home()), (part.schema(), Some(node)));
        PartExec::from_bytes(b"\x0a").unwrap_err();
    }
}
