//! Runs a query in stages; if that fails before its first row, as queries run without them.

use super::channel::{Channels, Told};
use super::measure::Tasks;
use super::plan::{PARTITIONS_MAX, configured};
use crate::gather::of_node;
use crate::node::Node;
use crate::peers::is_elsewhere;
use crate::task::settings;
use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_error::{external, from_datafusion};
use hypostyle_expr::one_input;
use hypostyle_placement::NodeId;
use hypostyle_types::{Error, ErrorKind};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The name of the measure of how often a query has run without stages after all.
const WITHOUT: &str = "without_stages";

/// How long the tasks of a query may take to end by themselves, once all its rows have come, and how long if
/// somebody wants to know what they have measured. One of which nobody has asked for rows, because others
/// were enough, does not end by itself.
const END_PATIENCE: Duration = Duration::from_millis(200);
const MEASURE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a query in stages.
#[derive(Clone)]
pub(super) struct StagesExec {
    /// The stages, as their crate runs them.
    input: Arc<dyn ExecutionPlan>,
    /// The query without stages.
    gathered: Arc<dyn ExecutionPlan>,
    node: Arc<Node>,
    /// The names of the nodes that run tasks, and their numbers.
    names: Arc<Vec<String>>,
    nodes: Arc<Vec<NodeId>>,
    /// What the query is expected to cost in stages, and without them.
    costs: Arc<str>,
    /// What the tasks tell when it runs.
    tasks: Arc<Tasks>,
    /// How long they may take to end by themselves.
    patience: Duration,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for StagesExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagesExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl StagesExec {
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        gathered: Arc<dyn ExecutionPlan>,
        node: Arc<Node>,
        nodes: Arc<Vec<NodeId>>,
        costs: String,
    ) -> Self {
        let catalog = node.catalog();
        let name = |id: &NodeId| catalog.as_ref().map_or_else(|| id.to_string(), |all| all.node_name(*id));
        let names = Arc::new(nodes.iter().map(name).collect());
        let (tasks, metrics) = (Arc::default(), ExecutionPlanMetricsSet::new());
        let (costs, patience) = (costs.into(), END_PATIENCE);
        Self { input, gathered, node, names, nodes, costs, tasks, patience, metrics }
    }

    /// Returns a query in stages that waits for what its tasks have measured.
    pub fn measured(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match plan.downcast_ref::<Self>() {
            Some(stages) => Arc::new(Self { patience: MEASURE_PATIENCE, ..stages.clone() }),
            None => plan,
        }
    }

    fn name_of(&self, node: NodeId) -> String {
        let mut named = self.nodes.iter().zip(self.names.iter());
        named.find(|(id, _)| **id == node).map_or_else(|| node.to_string(), |(_, name)| name.clone())
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, ..self.clone() }
    }

    /// Runs the query in stages, or without them if they fail before their first row, for whatever reason: an
    /// error of the query itself comes again.
    async fn rows(self, context: Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        match self.staged(&context).await {
            Ok(rows) => Ok(rows),
            Err(error) => {
                tracing::debug!(%error, "a query runs without stages");
                MetricBuilder::new(&self.metrics).global_counter(WITHOUT).add(1);
                Ok(execute_stream(self.gathered, context)?.boxed())
            }
        }
    }

    /// Runs the query in stages, and waits for its first row.
    async fn staged(&self, context: &Arc<TaskContext>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let (failures, failed) = unbounded_channel();
        let config = context.session_config().clone();
        self.tasks.begin();
        let told = Told { failures, tasks: self.tasks.clone(), patience: self.patience };
        let channels = Channels::new(&self.node, settings(config.options()), Some(told));
        let config = configured(config, &self.nodes, channels, PARTITIONS_MAX)?;
        let context = TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            context.runtime_env(),
        );
        let mut running = Running { rows: self.input.execute(0, Arc::new(context))?, failed };
        let Some(first) = running.next().await.transpose()? else { return Ok(stream::empty().boxed()) };
        let others = stream::unfold(running, |mut running| async move {
            let next = running.next().await?;
            Some((next.map_err(broken_off), running))
        });
        Ok(stream::iter([Ok(first)]).chain(others).boxed())
    }
}

/// The rows of a query that runs in stages, and what one of its tasks fails by.
struct Running {
    rows: SendableRecordBatchStream,
    failed: UnboundedReceiver<DataFusionError>,
}

impl Running {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let Self { rows, failed } = self;
        tokio::select! {
            biased;
            row = rows.next() => row,
            Some(error) = failed.recv() => Some(Err(error)),
        }
    }
}

/// Returns the error of a query that has given rows: another node cannot go on where one is lost.
fn broken_off(error: DataFusionError) -> DataFusionError {
    // A task that has lost another one tells it as its own error.
    let is_of_nodes = |error: &Error| error.kind() == ErrorKind::Connection && error.sqlstate() != "08P01";
    // So is that of one that asks for the rows of a lost one once more.
    let is_asked_twice = |error: &Error| error.message().contains("was already consumed");
    let is_lost = |error: &Error| is_elsewhere(error) || is_of_nodes(error) || is_asked_twice(error);
    if !of_node(&error).is_some_and(is_lost) {
        return error;
    }
    let message =
        format!("a node was lost while it gave rows; run the query again ({})", from_datafusion(error));
    external(Error::new(ErrorKind::Connection, message).with_sqlstate("08006"))
}

impl DisplayAs for StagesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagesExec: nodes=[{}], {}", self.names.join(", "), self.costs)?;
        // There are none before it has run.
        self.tasks.texts(&|node| self.name_of(node)).iter().try_for_each(|stage| write!(f, ", {stage}"))
    }
}

impl ExecutionPlan for StagesExec {
    fn name(&self) -> &'static str {
        "StagesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return Err(DataFusionError::Internal(format!("stages have no partition {partition}")));
        }
        let rows = stream::once(self.clone().rows(context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let Some(total) = self.tasks.total() else { return Some(metrics) };
        for (name, value) in [
            ("sent_rows", total.sent_rows),
            ("sent_bytes", total.sent_bytes),
            ("spilled_bytes", total.spilled_bytes),
        ] {
            let count = Count::new();
            count.add(usize::try_from(value).unwrap_or(usize::MAX));
            let value = MetricValue::Count { name: Cow::Borrowed(name), count };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
        Some(metrics)
    }
}
