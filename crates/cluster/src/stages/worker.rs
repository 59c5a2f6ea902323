//! The tasks of queries' stages that a node runs for others, and for itself.

use super::channel::{Channels, head_of, url_of};
use super::head::within_memory;
use super::leaf::OnNode;
use super::measure::{Operator, Taken, Taker, TaskMeasure, measured, operators_of, spilled};
use super::room::with_room;
use super::{rows, sample};
use crate::codec;
use crate::message::{SharedOut, StageTask, TaskName, TaskRows};
use crate::node::Node;
use crate::part::Reader;
use crate::peers::not_here;
use crate::table::FragmentScanExec;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use datafusion_distributed::{
    BroadcastExec, CoordinatorToWorkerMsg, DistributedExt, DistributedTaskContext, ExecuteTaskRequest,
    MaybeEncoded, SetPlanRequest, TaskKey, Worker, WorkerQueryContext, WorkerSessionBuilder,
    WorkerToCoordinatorMsg,
};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryFutureExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue};
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::work::Work;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind};
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How long rows of a task may be asked for before its plan is there: a second more than a node waits for a
/// silent one. Whoever has planned the task knows by then that it has not begun. The query runs once more
/// without stages, and all of it should take 10 s at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a task waits for others to end that give rows to so many. Its query runs without stages then.
const GIVEN_PATIENCE: Duration = Duration::from_secs(1);

/// The header that tells whose session a task takes.
const TASK: &str = "hypostyle-task";

/// The tasks that a node runs.
#[derive(Default)]
pub struct Stages {
    worker: OnceLock<Worker>,
    sessions: Arc<Sessions>,
    running: Mutex<HashMap<TaskName, Arc<Begun>>>,
    /// Told when a task begins.
    begun: Notify,
    /// The partitions that rows of its tasks may be given to.
    given: Mutex<usize>,
    /// Told when these become fewer.
    fewer: Notify,
}

/// A task that runs.
struct Begun {
    /// What is computed for it.
    work: Arc<Work>,
    taken: Arc<Taken>,
    /// How many partitions it has where its rows are not shared out.
    partitions: usize,
}

impl Begun {
    /// Counts one who takes the rows of a partition, until what is returned is dropped.
    fn taker(&self, by: Option<&SharedOut>) -> Taker {
        self.taken.one_of(by.map_or(self.partitions, |by| by.partitions))
    }
}

/// The sessions of tasks that begin.
#[derive(Default)]
struct Sessions(Mutex<HashMap<String, SessionState>>);

/// Gives each task the session that was made for it.
struct Given(Arc<Sessions>);

#[async_trait]
impl WorkerSessionBuilder for Given {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { mut builder, headers } = context;
        let name = headers.get(TASK).and_then(|name| name.to_str().ok());
        let state = name.and_then(|name| self.0.0.lock().remove(name));
        let none = || DataFusionError::Internal("a task without a session".into());
        let (mut state, given) = (state.ok_or_else(none)?, builder.config().take().ok_or_else(none)?);
        let config = state.config_mut();
        if let Some(task) = given.get_extension::<DistributedTaskContext>() {
            config.set_extension(task);
        }
        Ok(state)
    }
}

impl Stages {
    fn worker(&self) -> &Worker {
        self.worker.get_or_init(|| Worker::from_session_builder(Given(self.sessions.clone())))
    }

    /// Begins a task in a session of its node that was made for it. It runs until all its rows are taken, but
    /// no longer than the rows are read that are returned: there are some only at its end, which tell what it
    /// has measured. A server keeps what it has sent last until more comes, so that nothing could tell in
    /// time that it has begun.
    pub fn held(
        self: &Arc<Self>,
        node: &Arc<Node>,
        task: StageTask,
        state: SessionState,
    ) -> SendableRecordBatchStream {
        let begun = begin(self.clone(), node.clone(), task, state);
        let measured = begun.and_then(|running| async move {
            let taken = running.begun.taken.clone();
            taken.all().await;
            running.end().await.packed()
        });
        Box::pin(RecordBatchStreamAdapter::new(rows::schema(), stream::once(measured)))
    }

    /// Returns the rows of a task's partition, for another node.
    pub fn sent(self: &Arc<Self>, asked: TaskRows) -> SendableRecordBatchStream {
        let packed = stream::once(partition(self.clone(), asked, None)).map_ok(|(begun, rows)| {
            let pack = move |batch: Result<RecordBatch>| {
                let batch = batch?;
                let packed = rows::pack(&batch)?;
                begun.taken.send(batch.num_rows(), &packed);
                Ok::<_, DataFusionError>(stream::iter(packed.into_iter().map(Ok::<_, DataFusionError>)))
            };
            rows.map(pack).try_flatten()
        });
        Box::pin(RecordBatchStreamAdapter::new(rows::schema(), packed.try_flatten()))
    }

    /// Returns the rows of a task's partition, for a task of this node.
    pub fn taken(self: &Arc<Self>, asked: TaskRows) -> BoxStream<'static, Result<RecordBatch>> {
        // Whoever never looks at the rows has taken them as well, once they are dropped.
        let begun = self.running.lock().get(&asked.name).cloned();
        let taker = begun.map(|begun| begun.taker(asked.by.as_ref()));
        stream::once(partition(self.clone(), asked, taker)).map_ok(|(_, rows)| rows).try_flatten().boxed()
    }

    /// Says whether rows may be given to more partitions, of so many in total, and counts these if they may.
    fn give(&self, count: usize, most: usize) -> bool {
        let mut given = self.given.lock();
        let all = given.saturating_add(count);
        let may = all <= most;
        if may {
            *given = all;
        }
        may
    }

    /// Waits until a task has its plan.
    async fn begun(&self, name: TaskName) -> Result<Arc<Begun>> {
        let waiting = async {
            loop {
                // Whoever begins from now on is heard.
                let begun = self.begun.notified();
                let running = self.running.lock().get(&name).cloned();
                if let Some(task) = running {
                    return task;
                }
                begun.await;
            }
        };
        let begun = tokio::time::timeout(PATIENCE, waiting).await;
        begun.map_err(|_| external(not_here("a node does not run a task of a query, or not any more")))
    }
}

/// The partitions that rows of a task may be given to, until this is dropped.
struct Places {
    stages: Arc<Stages>,
    count: usize,
}

impl Places {
    /// Takes places for a task, of so many that the node has, once there are enough.
    ///
    /// # Errors
    /// `Busy` (53300) if there are not after a while.
    async fn take(stages: &Arc<Stages>, count: usize, most: usize) -> Result<Self> {
        let busy = || {
            let message = format!("a node has no places for the rows of {count} partitions of a task");
            external(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"))
        };
        if count > most {
            return Err(busy());
        }
        let waiting = async {
            loop {
                // Whoever gives some back from now on is heard.
                let fewer = stages.fewer.notified();
                if stages.give(count, most) {
                    return Self { stages: stages.clone(), count };
                }
                fewer.await;
            }
        };
        tokio::time::timeout(GIVEN_PATIENCE, waiting).await.map_err(|_| busy())
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let mut given = self.stages.given.lock();
        *given = given.saturating_sub(self.count);
        drop(given);
        self.stages.fewer.notify_waiters();
    }
}

/// A task, until this is dropped.
struct Running {
    stages: Arc<Stages>,
    name: TaskName,
    begun: Arc<Begun>,
    operators: Vec<Operator>,
    _places: Places,
    /// The library waits for the end of it.
    end: Option<oneshot::Sender<()>>,
    /// Then it tells what the operators have measured.
    told: BoxStream<'static, Result<WorkerToCoordinatorMsg>>,
}

impl Running {
    /// Ends the task, all of whose rows are taken, and returns what it has measured.
    async fn end(mut self) -> TaskMeasure {
        drop(self.end.take());
        let (mut operators, mut bytes) = (Vec::new(), 0);
        while let Some(Ok(told)) = self.told.next().await {
            if let WorkerToCoordinatorMsg::TaskMetrics(metrics) = told {
                let metrics = metrics.pre_order_plan_metrics;
                operators = measured(&self.operators, &metrics);
                bytes += spilled(&metrics);
            }
        }
        self.begun.taken.measure(operators, bytes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stages.running.lock().remove(&self.name);
        self.begun.work.give_up();
    }
}

/// A session that waits for its task, until this is dropped.
struct Waiting<'a>(&'a Sessions, &'a str);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(self.1);
    }
}

async fn begin(
    stages: Arc<Stages>,
    node: Arc<Node>,
    task: StageTask,
    mut state: SessionState,
) -> Result<Running> {
    let StageTask { name, tasks, plan, settings, sample } = task;
    if sample != sample::of_this_node()? {
        return Err(external(not_here("a node shares rows out otherwise than the one that asks")));
    }
    let config = state.config_mut();
    for (name, value) in &settings {
        config.options_mut().set(name, value)?;
    }
    config.set_extension(Arc::new(Reader(Box::new(OnNode(Arc::downgrade(&node))))));
    config.set_distributed_channel_resolver(Channels::new(&node, settings, None));
    let meter = config.get_extension::<Meter>();
    let meter = meter.ok_or_else(|| DataFusionError::Internal("a session has no meter".into()))?;
    let plan = codec::decode(&plan, &state.task_ctx(), &no_scan)?;
    let plan = bounded(plan, state.config_options())?;
    let given = plan.output_partitioning().partition_count();
    let places = Places::take(&stages, given, node.given_max()).await?;
    let computed = unshared(&plan);
    let (partitions, operators) = (computed.output_partitioning().partition_count(), operators_of(computed));
    let key = format!("{}-{}-{}", name.query, name.stage, name.task);
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&key).map_err(|error| DataFusionError::External(Box::new(error)))?;
    headers.insert(TASK, value);
    let request = SetPlanRequest {
        task_key: key_of(name),
        task_count: tasks,
        plan: MaybeEncoded::Decoded(plan),
        work_unit_feed_declarations: Vec::new(),
        target_worker_url: url_of(node.id())?,
        query_start_time_ns: 0,
    };
    let (end, ended) = oneshot::channel::<()>();
    let nothing = stream::once(ended).filter_map(|_| ready(None::<Result<CoordinatorToWorkerMsg>>));
    stages.sessions.0.lock().insert(key.clone(), state);
    let told = {
        let _waiting = Waiting(&stages.sessions, &key);
        stages.worker().coordinator_channel(headers, request, nothing.boxed()).await?
    };
    let begun = Arc::new(Begun { work: Work::part(&meter), taken: Arc::default(), partitions });
    stages.running.lock().insert(name, begun.clone());
    stages.begun.notify_waiters();
    Ok(Running { stages, name, begun, operators, _places: places, end: Some(end), told })
}

fn key_of(name: TaskName) -> TaskKey {
    TaskKey { query_id: name.query, stage_id: name.stage, task_number: name.task }
}

fn no_scan(_: &FragmentScanExec) -> Result<Arc<dyn ExecutionPlan>> {
    Err(DataFusionError::Internal("a task of a stage reads tables in parts".into()))
}

/// Puts the operators into a plan that keep it within its memory, below the one that shares out its rows: a
/// task may put another one in its place.
fn bounded(plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let input = unshared(&plan);
    if Arc::ptr_eq(input, &plan) {
        return within_memory(plan, options);
    }
    let input = within_memory(input.clone(), options)?;
    let input = if plan.is::<BroadcastExec>() { with_room(&input) } else { input };
    plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Returns what is below the operator of a task that shares out its rows, if it has one.
fn unshared(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<RepartitionExec>() {
        Some(shared) => shared.input(),
        None => plan.downcast_ref::<BroadcastExec>().map_or(plan, BroadcastExec::input),
    }
}

/// Returns rows of a task, and behind them an error if it was ended meanwhile: a node that stops ends its
/// operators, and those may tell nobody.
fn or_broken_off(
    work: Arc<Work>,
    rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    let end = stream::once(async move {
        let ended = || external(not_here("a task of a query has ended while its rows were read"));
        work.is_given_up().then(|| Err(ended()))
    });
    rows.chain(end.filter_map(ready)).boxed()
}

/// Returns a task, and the rows of a partition of it, for one who may be counted already.
async fn partition(
    stages: Arc<Stages>,
    asked: TaskRows,
    taker: Option<Taker>,
) -> Result<(Arc<Begun>, BoxStream<'static, Result<RecordBatch>>)> {
    let TaskRows { name, partition, by } = asked;
    let begun = stages.begun(name).await?;
    let producer_head = head_of(by.clone())?;
    let taker = taker.unwrap_or_else(|| begun.taker(by.as_ref()));
    let request = ExecuteTaskRequest {
        task_key: key_of(name),
        target_partition_start: partition,
        target_partition_end: partition.saturating_add(1),
        producer_head,
    };
    // What all partitions share is computed for the task, whoever asks for one of them first.
    let executed = begun.work.charged(stages.worker().execute_task(request)).await;
    let (mut streams, _) = executed?;
    let none = || DataFusionError::Internal("a task without the partition that it was asked for".into());
    let mut rows = streams.pop().ok_or_else(none)?;
    let charged = begun.work.clone();
    let rows = stream::poll_fn(move |context| charged.charge(|| rows.poll_next_unpin(context)));
    let taken = begun.taken.clone();
    let rows = rows.inspect_ok(move |batch| taken.give(batch.num_rows()));
    // The task may end once nobody takes rows of it, but not before it is known that these were all.
    let last = stream::once(async move {
        drop(taker);
        None
    });
    let rows = or_broken_off(begun.work.clone(), rows).chain(last.filter_map(ready));
    Ok((begun, rows.boxed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use hypostyle_expr::meter::Ledger;

    #[test]
    fn rows_of_a_task_that_was_ended_are_not_all() {
        let work = Work::new(&Meter::new(&Ledger::new(1 << 30)));
        let read = || block_on(or_broken_off(work.clone(), stream::empty()).collect::<Vec<_>>());
        assert!(read().is_empty());
        work.give_up();
        assert!(matches!(read().as_slice(), [Err(_)]));
    }

    #[test]
    fn rows_are_given_to_so_many_partitions_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let stages = Arc::new(Stages::default());
        runtime.block_on(async {
            assert!(Places::take(&stages, 7, 6).await.is_err());
            let most = Places::take(&stages, 5, 6).await.unwrap();
            assert!(Places::take(&stages, 2, 6).await.is_err());
            let (taken, ()) = futures::join!(Places::take(&stages, 2, 6), async { drop(most) });
            assert!(taken.is_ok());
        });
        assert_eq!(*stages.given.lock(), 0);
    }
}
