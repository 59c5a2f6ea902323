//! What the flows of a pipeline share while it runs.

use super::build::Built;
use super::evaluate::Columns;
use super::flow::{Expression, Flow, Restriction, Source, Universe};
use super::held;
use super::measure::Measurements;
use super::shared::SharedSides;
use super::stop::{Stop, Stopped};
use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use hypostyle_position::order::{SortKey, sort_with};
use hypostyle_position::{Rows, Work};
use hypostyle_sync::Mutex;
use std::sync::{Arc, OnceLock};

/// Rows of inputs, by the places of these.
pub(super) type Kept = Vec<(usize, Vec<RecordBatch>)>;

/// Returns an operator whose aggregate computes only the groups of some keys.
type Restrict = fn(&Arc<dyn ExecutionPlan>, &Arc<Restriction>, &Arc<Built>) -> Result<Arc<dyn ExecutionPlan>>;

/// What all flows of a pipeline share while it runs.
pub(super) struct Execution {
    pub columns: Columns,
    pub context: Arc<TaskContext>,
    pub threads: usize,
    /// The operators whose rows are collected.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    restrict: Restrict,
    /// How many rows of an input have been collected, and what holds their memory.
    collected: Vec<OnceLock<(usize, MemoryReservation)>>,
    /// The keys that aggregates among the inputs are asked for.
    wanted: Mutex<Vec<(Arc<Restriction>, Arc<Built>)>>,
    /// The rows of inputs, kept to compare what operators make of them.
    pub kept: Option<Mutex<Kept>>,
    /// The columns of the result that depend on how rows are ordered whose keys are equal.
    pub uncertain: Mutex<Vec<usize>>,
    /// What the runs of the pipeline over other parts of its tables share.
    pub shared: Option<Arc<SharedSides<Built>>>,
    pub meter: Option<Arc<Meter>>,
    pub measurements: Measurements,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Execution({} threads)", self.threads)
    }
}

impl Execution {
    /// Opens the columns that flows and expressions read, of inputs that have been collected.
    pub fn new(
        universe: &Arc<Universe>,
        flow: &Flow,
        outputs: &[Expression],
        late: &[Expression],
        (inputs, restrict): (Vec<Arc<dyn ExecutionPlan>>, Restrict),
        context: &Arc<TaskContext>,
    ) -> Stopped<Self> {
        let read = |expressions: &[Expression]| {
            let mut read = vec![false; universe.columns.len()];
            for column in expressions.iter().flat_map(collect_columns) {
                if let Some(read) = read.get_mut(column.index()) {
                    *read = true;
                }
            }
            read
        };
        let mut early = outputs.to_vec();
        flow.visit(&mut |expression| early.push(expression.clone()));
        let (early, mut late) = (read(&early), read(late));
        let needed = early.iter().zip(&late).map(|(early, late)| *early || *late).collect();
        late.iter_mut().zip(&early).for_each(|(late, early)| *late &= !early);
        Ok(Self {
            columns: Columns::open(universe, needed, &late)?,
            context: context.clone(),
            threads: context.session_config().target_partitions(),
            collected: inputs.iter().map(|_| OnceLock::new()).collect(),
            inputs,
            restrict,
            wanted: Mutex::default(),
            kept: None,
            shared: None,
            uncertain: Mutex::default(),
            meter: context.session_config().get_extension::<Meter>(),
            measurements: Measurements::default(),
        })
    }

    /// Collects the rows of a slot that is an input, unless that is done.
    pub async fn collect_input(&self, slot: usize) -> Stopped<()> {
        let Some(Source::Input { input, schema }) = self.universe().sources.get(slot) else { return Ok(()) };
        let (Some(plan), Some(collected)) = (self.inputs.get(*input), self.collected.get(*input)) else {
            return Err(Stop::Unfit("an input is missing".into()));
        };
        if collected.get().is_none() {
            let mut plan = plan.clone();
            let wanted = self.wanted.lock().clone();
            for (restriction, keys) in &wanted {
                plan = (self.restrict)(&plan, restriction, keys).map_err(Stop::Error)?;
            }
            let (batches, reservation) = held::collect(&plan, &self.context).await?;
            self.columns.open_rows(slot, schema, &batches)?;
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            if let Some(kept) = &self.kept {
                kept.lock().push((*input, batches));
            }
            collected.get_or_init(|| (rows, reservation));
        }
        Ok(())
    }

    pub fn reservation(&self, name: &str) -> MemoryReservation {
        MemoryConsumer::new(name).register(self.context.memory_pool())
    }

    /// Asks an aggregate among the inputs for the groups of some keys.
    pub fn want(&self, restriction: &Arc<Restriction>, keys: Arc<Built>) {
        self.wanted.lock().push((restriction.clone(), keys));
    }

    /// Returns how many rows of an input have been collected.
    pub fn collected_rows(&self, input: usize) -> usize {
        self.collected.get(input).and_then(OnceLock::get).map_or(0, |(rows, _)| *rows)
    }

    pub fn universe(&self) -> &Universe {
        &self.columns.universe
    }

    /// Returns rows in the order of some keys.
    pub fn sorted(&self, keys: &[SortKey], rows: Rows<'_>) -> Stopped<Vec<u32>> {
        self.shared_out(|work| sort_with(keys, rows, work))
    }

    /// Has threads share the work of a kernel, which ends if the statement is interrupted.
    pub fn shared_out<T>(
        &self,
        kernel: impl FnOnce(&Work<'_>) -> hypostyle_position::Result<T>,
    ) -> Stopped<T> {
        let go_on = || self.check().map_err(|_| hypostyle_position::Error::Ended);
        let made = kernel(&Work { threads: self.threads, go_on: &go_on });
        if let Err(hypostyle_position::Error::Ended) = made {
            self.check()?;
        }
        Ok(made?)
    }

    /// Does work that takes long on a thread of its own. Nothing waits for its end if the statement is
    /// interrupted.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Stopped<T> + Send + 'static,
    ) -> Stopped<T> {
        let this = self.clone();
        let task = SpawnedTask::spawn_blocking(move || work(&this));
        task.join_unwind()
            .await
            .map_err(|error| Stop::Error(DataFusionError::ExecutionJoin(Box::new(error))))?
    }

    pub fn check(&self) -> Stopped<()> {
        match &self.meter {
            Some(meter) => meter.check().map_err(|error| Stop::Error(external(error))),
            None => Ok(()),
        }
    }
}
