//! The parts of a query that read tables, as leaves of its stages (`stages`): each task reads the
//! shares of some nodes, its own first of all. What reads a share is the session's: this is what plans have.

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties,
};
use datafusion_proto::protobuf;
use futures::TryStreamExt;
use hypostyle_expr::{no_expressions, no_inputs};
use hypostyle_placement::NodeId;
use prost::Message;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// What one node reads for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The node.
    pub node: NodeId,
    /// How many fragments it reads.
    pub fragments: usize,
    /// What it is asked, as JSON.
    pub task: Arc<[u8]>,
}

/// Reads shares where they are.
pub(crate) trait Reads: Send + Sync {
    /// Begins to read a share, in the types of a schema.
    ///
    /// # Errors
    /// For what is no share.
    fn read(&self, share: Share, schema: SchemaRef) -> Result<SendableRecordBatchStream>;
}

/// What reads the shares of a session's plans, among its extensions.
pub(crate) struct Reader(pub Box<dyn Reads>);

/// Reads the shares of some nodes, each as a partition; one of `None` has no rows. It may run on any node.
#[derive(Clone, Debug)]
pub(crate) struct PartExec {
    shares: Vec<Option<Share>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// A [`PartExec`] as it travels.
#[derive(Clone, PartialEq, Message)]
struct PartMessage {
    #[prost(message, optional, tag = "1")]
    schema: Option<protobuf::Schema>,
    #[prost(message, repeated, tag = "2")]
    shares: Vec<ShareMessage>,
}

/// A [`Share`] as it travels; one of no node has no rows.
#[derive(Clone, PartialEq, Message)]
struct ShareMessage {
    #[prost(bytes = "vec", tag = "1")]
    node: Vec<u8>,
    #[prost(uint64, tag = "2")]
    fragments: u64,
    #[prost(bytes = "vec", tag = "3")]
    task: Vec<u8>,
}

impl PartExec {
    pub fn new(shares: Vec<Option<Share>>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { shares, schema, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the node that its task should run on.
    pub fn home(&self) -> Option<NodeId> {
        self.shares.iter().flatten().next().map(|share| share.node)
    }

    /// Returns the operator as bytes.
    ///
    /// # Errors
    /// For columns that cannot be told.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let message = |share: &Option<Share>| match share {
            Some(share) => ShareMessage {
                node: share.node.0.as_bytes().to_vec(),
                fragments: share.fragments as u64,
                task: share.task.to_vec(),
            },
            None => ShareMessage::default(),
        };
        let shares = self.shares.iter().map(message).collect();
        Ok(PartMessage { schema: Some(self.schema.as_ref().try_into()?), shares }.encode_to_vec())
    }

    /// Returns the operator from bytes.
    ///
    /// # Errors
    /// For bytes that are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let message = PartMessage::decode(bytes).map_err(|_| no_part())?;
        let schema: Schema = message.schema.as_ref().ok_or_else(no_part)?.try_into()?;
        let share = |message: ShareMessage| {
            if message.node.is_empty() {
                return Ok(None);
            }
            let node = NodeId(Uuid::from_slice(&message.node).map_err(|_| no_part())?);
            let fragments = usize::try_from(message.fragments).map_err(|_| no_part())?;
            Ok(Some(Share { node, fragments, task: message.task.into() }))
        };
        let shares = message.shares.into_iter().map(share).collect::<Result<_>>()?;
        Ok(Self::new(shares, Arc::new(schema)))
    }
}

fn no_part() -> DataFusionError {
    DataFusionError::Plan("what another node sent is no part of a plan".into())
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shares.iter().flatten();
        let shares = shares.map(|share| format!("{}: {} fragments", share.node, share.fragments));
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
        let Some(share) = share else {
            return Ok(Box::pin(EmptyRecordBatchStream::new(self.schema.clone())));
        };
        let reader = context.session_config().get_extension::<Reader>();
        let reader = reader.ok_or_else(|| DataFusionError::Internal("a part that nobody reads".into()))?;
        let rows = reader.0.read(share, self.schema.clone())?;
        let read = MetricBuilder::new(&self.metrics).output_rows(partition);
        let rows = rows.inspect_ok(move |batch| read.add(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn a_part_travels() {
        let node = NodeId(Uuid::from_u128(7));
        let share = Share { node, fragments: 3, task: Arc::from(&b"{}"[..]) };
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let part = PartExec::new(vec![Some(share), None], schema);
        let arrived = PartExec::from_bytes(&part.to_bytes().unwrap()).unwrap();
        assert_eq!(arrived.shares, part.shares);
        assert_eq!((arrived.schema(), arrived.home()), (part.schema(), Some(node)));
        PartExec::from_bytes(b"\x0a").unwrap_err();
    }
}
