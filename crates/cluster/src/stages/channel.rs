//! How the tasks of a query's stages reach each other: by requests of nodes, as all else between them.

use super::measure::{TaskMeasure, Tasks};
use super::{rows, sample};
use crate::codec;
use crate::coordinate::gone;
use crate::message::{Request, SharedOut, StageTask, TaskName, TaskRows};
use crate::node::Node;
use crate::peers::Answer;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, WorkerChannel, WorkerResolver,
    WorkerToCoordinatorMsg,
};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use http::HeaderMap;
use hypostyle_error::external;
use hypostyle_placement::NodeId;
use hypostyle_types::{Error, ErrorKind};
use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

/// Stack of a thread that waits for another node: a node of the same process plans on it.
const STACK_BYTES: usize = 16 << 20;

/// The partitions that rows are shared out among, at most: those of all tasks of a stage.
const SHARED_OUT_MAX: usize = 1 << 14;

/// Returns what stands for a node where an address is wanted.
pub(super) fn url_of(node: NodeId) -> Result<Url> {
    Url::parse(&format!("hypostyle://{node}")).map_err(|error| DataFusionError::External(Box::new(error)))
}

fn node_of(url: &Url) -> Result<NodeId> {
    let node = url.host_str().and_then(|host| Uuid::parse_str(host).ok());
    node.map(NodeId).ok_or_else(|| DataFusionError::Internal(format!("{url} stands for no node")))
}

/// Returns the name of a task.
fn name_of(key: TaskKey) -> TaskName {
    TaskName { query: key.query_id, stage: key.stage_id, task: key.task_number }
}

/// Rows that another node was asked for.
pub(super) struct Asked {
    answered: oneshot::Receiver<hypostyle_types::Result<SendableRecordBatchStream>>,
    /// Dropped with the rows: the other node ends its work then.
    wanted: Arc<()>,
}

/// Asks another node for rows, on a thread that waits for them.
///
/// # Errors
/// `Io` if there are no threads.
pub(super) fn ask(node: &Arc<Node>, of: NodeId, request: Request) -> Result<Asked> {
    let (answer, answered) = oneshot::channel();
    let wanted = Arc::new(());
    let (node, as_long_as) = (node.clone(), Arc::downgrade(&wanted));
    let work = move || {
        // Whoever has asked may be gone.
        let _gone = answer.send(answer_of(&node, of, request, as_long_as));
    };
    let started = thread::Builder::new().name("hypostyle-stage".into()).stack_size(STACK_BYTES).spawn(work);
    let started = started.map_err(|error| Error::from_io(&error, "cannot ask other nodes for rows"));
    started.map(drop).map_err(external)?;
    Ok(Asked { answered, wanted })
}

fn answer_of(
    node: &Node,
    of: NodeId,
    request: Request,
    wanted: Weak<()>,
) -> hypostyle_types::Result<SendableRecordBatchStream> {
    let catalog = node.known_catalog()?;
    let member = catalog.node(of).ok_or_else(|| gone(of))?;
    node.peers.call_while(member, &node.addressed(member, request)?, wanted).and_then(Answer::rows)
}

impl Asked {
    /// Waits for the answer.
    ///
    /// # Errors
    /// What the node has answered in its place.
    pub async fn rows(self) -> Result<SendableRecordBatchStream> {
        let Self { answered, wanted } = self;
        let answer = answered.await;
        let answer = answer.map_err(|_| DataFusionError::Internal("a request to a node ended".into()))?;
        let rows = answer.map_err(external)?;
        let schema = rows.schema();
        let rows = rows.map(move |batch| {
            let _as_long_as = &wanted;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The nodes that the tasks of a query may run on.
pub(super) struct Nodes(pub Arc<Vec<NodeId>>);

impl WorkerResolver for Nodes {
    fn get_urls(&self) -> Result<Vec<Url>> {
        self.0.iter().copied().map(url_of).collect()
    }
}

/// What the node that was asked for a query is told of its tasks.
#[derive(Clone)]
pub(super) struct Told {
    /// What they fail by.
    pub failures: UnboundedSender<DataFusionError>,
    /// What they measure.
    pub tasks: Arc<Tasks>,
    /// How long they may take to end by themselves, once all rows of the query have come.
    pub patience: Duration,
}

/// What a session reaches other nodes by.
#[derive(Clone)]
pub(super) struct Channels {
    node: Weak<Node>,
    settings: Arc<Vec<(String, String)>>,
    /// `None` on the nodes that run tasks.
    query: Option<Told>,
}

impl Channels {
    pub fn new(node: &Arc<Node>, settings: Vec<(String, String)>, query: Option<Told>) -> Self {
        Self { node: Arc::downgrade(node), settings: Arc::new(settings), query }
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let closed = || DataFusionError::Internal("a node that is gone".into());
        let node = self.node.upgrade().ok_or_else(closed)?;
        let (settings, query) = (self.settings.clone(), self.query.clone());
        Ok(Box::new(Channel { node, to: node_of(url)?, settings, query }))
    }
}

/// Leads to the tasks of one node, which may be this one.
struct Channel {
    node: Arc<Node>,
    to: NodeId,
    settings: Arc<Vec<(String, String)>>,
    query: Option<Told>,
}

/// Rows that are asked for. A task gives none while it runs, what it has measured when it ends, and an error
/// when it breaks off.
type Runs = BoxFuture<'static, Result<SendableRecordBatchStream>>;

impl Channel {
    /// Asks the node for rows.
    fn ask(&self, request: Request) -> Result<Runs> {
        if self.to == self.node.id() {
            return Ok(ready(self.node.serve(request, None).and_then(Answer::rows).map_err(external)).boxed());
        }
        Ok(ask(&self.node, self.to, request)?.rows().boxed())
    }

    /// Asks for the rows of a task's partition.
    fn rows(&self, asked: TaskRows) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        if self.to == self.node.id() {
            return Ok(self.node.host().map_err(external)?.own_rows(asked));
        }
        self.ask(Request::Rows(Box::new(asked))).map(received)
    }

    /// Has the node begin a task. It runs until all its rows are taken, or what is returned is dropped.
    fn begin(&self, request: SetPlanRequest, context: &TaskContext) -> Result<Runs> {
        let MaybeEncoded::Decoded(plan) = request.plan else {
            return Err(DataFusionError::Internal("the plan of a task is bytes".into()));
        };
        let task = StageTask {
            name: name_of(request.task_key),
            tasks: request.task_count,
            plan: codec::encode(plan, &codec::functions(context.session_config())?)?,
            settings: self.settings.to_vec(),
            sample: sample::of_this_node()?,
        };
        self.ask(Request::Stage(Box::new(task)))
    }
}

/// Tells the query what a task fails by, and returns it.
fn told(query: Option<&Told>, error: DataFusionError) -> DataFusionError {
    let Some(query) = query else { return error };
    let error = Arc::new(error);
    // The query may have ended.
    let _ended = query.failures.send(DataFusionError::Shared(error.clone()));
    DataFusionError::Shared(error)
}

/// Returns the error of a task that is not running any more, although nobody has ended it.
fn broken_off() -> Error {
    Error::new(ErrorKind::Connection, "a node has ended a task of a query").with_sqlstate("08006")
}

/// Waits until a task has ended, and returns what it has measured.
///
/// # Errors
/// What it breaks off by.
async fn end_of(runs: Runs) -> Result<TaskMeasure> {
    let (mut running, mut measure) = (runs.await?, None);
    while let Some(batch) = running.next().await {
        measure = Some(TaskMeasure::unpacked(&batch?)?);
    }
    measure.ok_or_else(|| external(broken_off()))
}

#[async_trait]
impl WorkerChannel for Channel {
    async fn coordinator_channel(
        &mut self,
        _: HeaderMap,
        set_plan_request: SetPlanRequest,
        mut c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        _: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let name = name_of(set_plan_request.task_key);
        let runs = self.begin(set_plan_request, task_ctx);
        let runs = runs.map_err(|error| told(self.query.as_ref(), error))?;
        let query = self.query.clone();
        if let Some(query) = &query {
            query.tasks.run(name, self.to);
        }
        let runs = async move {
            let mut end = pin!(end_of(runs));
            // It ends with the query, and has nothing to tell the task until then.
            let ends = async { while c2w_stream.next().await.is_some() {} };
            let measure = tokio::select! {
                () = ends => None,
                measure = &mut end => Some(measure),
            };
            let measure = match measure {
                Some(Ok(measure)) => measure,
                Some(Err(error)) => return Some(Err(told(query.as_ref(), error))),
                // The call is cancelled if the task has rows that nobody wants; else its end is near.
                None => {
                    let patience = query.as_ref().filter(|query| query.tasks.are_read())?.patience;
                    timeout(patience, end).await.ok()?.ok()?
                }
            };
            if let Some(query) = &query {
                query.tasks.tell(name, measure);
            }
            None
        };
        Ok(stream::once(runs).filter_map(ready).boxed())
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        _: ExecutionPlanMetricsSet,
        _: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let by = shared_out(&request.producer_head)?;
        let name = name_of(request.task_key);
        // Each partition comes by itself: who waits for one of them is not kept by the others.
        let partitions = request.target_partition_start..request.target_partition_end;
        let rows = partitions.map(|partition| {
            let rows = self.rows(TaskRows { name, partition, by: by.clone() })?;
            Ok(match &self.query {
                Some(query) => read(rows, query.tasks.clone()),
                None => rows,
            })
        });
        rows.collect()
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: env!("CARGO_PKG_VERSION").into() })
    }
}

/// Notes when all rows of a partition have come to the node that was asked for the query.
fn read(
    rows: BoxStream<'static, Result<RecordBatch>>,
    tasks: Arc<Tasks>,
) -> BoxStream<'static, Result<RecordBatch>> {
    tasks.read();
    let end = stream::once(async move {
        tasks.have_read();
        None
    });
    rows.chain(end.filter_map(ready)).boxed()
}

/// Returns the rows of a partition as they come.
fn received(asked: Runs) -> BoxStream<'static, Result<RecordBatch>> {
    let packed = stream::once(asked).try_flatten();
    packed
        .map(|packed| rows::unpack(&packed?))
        .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
}

/// Returns how a task shares out its rows.
///
/// # Errors
/// `NotImplemented` for other keys than columns, which the check of a plan has not let through.
fn shared_out(head: &ProducerHead) -> Result<Option<SharedOut>> {
    let refused = || DataFusionError::NotImplemented("rows of tasks are shared out by columns".into());
    let (keys, partitions) = match head {
        ProducerHead::None => return Ok(None),
        ProducerHead::BroadcastExec { output_partitions } => {
            return Ok(Some(SharedOut { columns: Vec::new(), partitions: *output_partitions }));
        }
        ProducerHead::RepartitionExec {
            partitioning: MaybeEncoded::Decoded(Partitioning::Hash(keys, partitions)),
        } => (keys, *partitions),
        _ => return Err(refused()),
    };
    let column = |key: &Arc<dyn PhysicalExpr>| {
        let column = key.downcast_ref::<Column>().ok_or_else(refused)?;
        Ok((column.name().to_string(), column.index()))
    };
    let columns = keys.iter().map(column).collect::<Result<_>>()?;
    Ok(Some(SharedOut { columns, partitions }))
}

/// Returns what has a task share out its rows so.
///
/// # Errors
/// `Connection` (08P01) for more partitions than tasks have, and for none: each of them takes memory.
pub(super) fn head_of(by: Option<SharedOut>) -> Result<ProducerHead> {
    let Some(SharedOut { columns, partitions }) = by else { return Ok(ProducerHead::None) };
    if !(1..=SHARED_OUT_MAX).contains(&partitions) {
        let message = format!("a node wants rows in {partitions} partitions by {} columns", columns.len());
        return Err(external(Error::protocol(message)));
    }
    if columns.is_empty() {
        return Ok(ProducerHead::BroadcastExec { output_partitions: partitions });
    }
    let column =
        |(name, place): (String, usize)| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(&name, place)) };
    let keys = columns.into_iter().map(column).collect();
    Ok(ProducerHead::RepartitionExec {
        partitioning: MaybeEncoded::Decoded(Partitioning::Hash(keys, partitions)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_for_a_node() {
        let node = NodeId(Uuid::from_u128(0xfeed_0000_1234));
        let url = url_of(node).unwrap();
        assert_eq!(node_of(&url).unwrap(), node);
        assert_eq!(Url::parse(url.as_str()).unwrap(), url);
        node_of(&Url::parse("http://h:1").unwrap()).unwrap_err();
    }

    #[test]
    fn how_rows_are_shared_out_travels() {
        let by = SharedOut { columns: vec![("k".into(), 2), ("a b".into(), 0)], partitions: 6 };
        assert_eq!(shared_out(&head_of(Some(by.clone())).unwrap()).unwrap(), Some(by.clone()));
        assert_eq!(shared_out(&head_of(None).unwrap()).unwrap(), None);
        for partitions in [0, SHARED_OUT_MAX + 1, usize::MAX] {
            assert!(head_of(Some(SharedOut { partitions, ..by.clone() })).is_err(), "{partitions}");
        }
        let to_all = SharedOut { columns: Vec::new(), ..by };
        assert_eq!(shared_out(&head_of(Some(to_all.clone())).unwrap()).unwrap(), Some(to_all));
    }
}
