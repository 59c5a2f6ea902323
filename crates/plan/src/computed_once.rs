//! Parts of plans whose rows are computed once, wherever and however often a plan reads them: the nodes of
//! logical plans that say so, and the operator that they become.

use crate::logical_node::{at_once, node_of_one_input, shown_by_name};
use crate::outer_references::is_dependent;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, execute_stream,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::future::{self, BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::no_expressions;
use hypostyle_sync::Mutex;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Returns a part of a plan that is read more than once, and has the same rows each time.
pub fn read_often(plan: LogicalPlan) -> LogicalPlan {
    let node = Arc::new(Shared { input: plan, rows: Arc::default(), is_needed: true });
    LogicalPlan::Extension(Extension { node })
}

/// Returns the same of a part that can be computed in each place, too, if memory does not suffice.
pub fn read_often_if_it_fits(plan: LogicalPlan) -> LogicalPlan {
    let node = Arc::new(Shared { input: plan, rows: Arc::default(), is_needed: false });
    LogicalPlan::Extension(Extension { node })
}

/// Returns what gives its rows to all places of a plan that have it.
///
/// # Errors
/// Those of DataFusion's analyzer.
pub fn computed_apart(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    if is_dependent(&plan) {
        return Ok(read_often(plan));
    }
    // The plan's columns must be those that it returns when it runs.
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let node = Arc::new(Apart { plan, rows: Arc::default(), planned: Arc::default() });
    Ok(LogicalPlan::Extension(Extension { node }))
}

pub fn is_computed_once(node: &LogicalPlan) -> bool {
    let LogicalPlan::Extension(extension) = node else { return false };
    extension.node.as_any().is::<Shared>() || extension.node.as_any().is::<Apart>()
}

/// All rows of a plan, and the memory that they take.
type Collected = Result<Arc<(Vec<RecordBatch>, MemoryReservation)>, Arc<DataFusionError>>;

/// The source of the rows, once they are read. All readers drive it: one of them may not be polled
/// before another one has the rows.
#[derive(Default)]
struct Rows(Mutex<Option<future::Shared<BoxFuture<'static, Collected>>>>);

/// A part of a plan that has the same rows in each place.
#[derive(Clone)]
struct Shared {
    input: LogicalPlan,
    rows: Arc<Rows>,
    /// The rows would be others in each place.
    is_needed: bool,
}

impl Shared {
    fn identity(&self) -> (&LogicalPlan, *const Rows) {
        (&self.input, Arc::as_ptr(&self.rows))
    }

    fn with_input(&self, input: LogicalPlan) -> Result<Self> {
        Ok(Self { input, ..self.clone() })
    }
}

shown_by_name!(Shared, Apart);

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.identity().partial_cmp(&other.identity())
    }
}

impl UserDefinedLogicalNodeCore for Shared {
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    node_of_one_input!("ComputedOnce");
}

/// [`Shared`], planned by itself and once: a plan that has it in many places grows by nothing for
/// each, and nothing within it can be left out for one of them.
#[derive(Clone)]
struct Apart {
    plan: LogicalPlan,
    rows: Arc<Rows>,
    planned: Arc<OnceCell<Arc<dyn ExecutionPlan>>>,
}

impl PartialEq for Apart {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }
}

impl Eq for Apart {}

impl Hash for Apart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.rows).hash(state);
    }
}

impl PartialOrd for Apart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Arc::as_ptr(&self.rows).partial_cmp(&Arc::as_ptr(&other.rows))
    }
}

impl UserDefinedLogicalNodeCore for Apart {
    fn name(&self) -> &str {
        "ComputedApart"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", UserDefinedLogicalNodeCore::name(self), self.plan.display())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.is_empty() {
            true => Ok(self.clone()),
            false => Err(DataFusionError::Internal("what is computed apart has no input".into())),
        }
    }
}

fn of_one_input() -> DataFusionError {
    DataFusionError::Internal("what is computed once has one input".into())
}

/// Plans these nodes.
pub(crate) struct SharedParts;

#[async_trait]
impl ExtensionPlanner for SharedParts {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(Apart { plan, rows, planned }) = node.as_any().downcast_ref() {
            let input = planned.get_or_try_init(|| session.create_physical_plan(plan)).await?.clone();
            return Ok(Some(Arc::new(SharedExec { is_apart: true, ..SharedExec::new(input, rows.clone()) })));
        }
        let (Some(Shared { rows, is_needed, .. }), [input]) = (node.as_any().downcast_ref(), inputs) else {
            return Ok(None);
        };
        let shared = SharedExec::new(input.clone(), rows.clone());
        Ok(Some(Arc::new(SharedExec { is_needed: *is_needed, ..shared })))
    }
}

/// Runs its input unless another one of the same rows has.
struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<Rows>,
    properties: Arc<PlanProperties>,
    /// Says that the input is an [`Apart`]: it is planned already, and not to be changed for the
    /// place that this is in.
    is_apart: bool,
    /// Says that the input is not to run again where its rows do not fit into memory.
    is_needed: bool,
}

impl SharedExec {
    fn new(input: Arc<dyn ExecutionPlan>, rows: Arc<Rows>) -> Self {
        let properties = at_once(input.schema());
        Self { input, rows, properties, is_apart: false, is_needed: true }
    }
}

impl fmt::Debug for SharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ComputedOnceExec")
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "ComputedOnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.is_apart { Vec::new() } else { vec![&self.input] }
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.is_apart && children.is_empty() {
            return Ok(self);
        }
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                let shared = Self::new(input, self.rows.clone());
                Ok(Arc::new(Self { is_needed: self.is_needed, ..shared }))
            }
            _ => Err(of_one_input()),
        }
    }

    no_expressions!();

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.rows.0.lock();
        let collected = || collected(self.input.clone(), context.clone()).boxed().shared();
        let rows = rows.get_or_insert_with(collected).clone();
        let again = (!self.is_needed).then(|| self.input.clone());
        let batches = async move {
            match (rows.await, again) {
                (Ok(rows), _) => Ok(stream::iter(rows.0.clone().into_iter().map(Ok)).boxed()),
                (Err(error), Some(input)) if is_of_memory(&error) => {
                    Ok(execute_stream(reset_plan_states(input)?, context)?.boxed())
                }
                (Err(error), _) => Err(DataFusionError::Shared(error)),
            }
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }
}

fn is_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

async fn collected(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Collected {
    let memory = MemoryConsumer::new("ComputedOnceExec").register(context.memory_pool());
    let mut stream = execute_stream(input, context)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await.transpose()? {
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Arc::new((batches, memory)))
}
