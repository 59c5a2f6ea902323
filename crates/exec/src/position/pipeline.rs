//! The operator that runs a pipeline in place of the operators that it was compiled from.

use super::build::Built;
use super::execution::Execution;
use super::flow::{Flow, Restriction, Step, Universe};
use super::indexed::{describe, describe_join};
use super::parts::PartsExec;
use super::ready::{ReadyFlow, Wanted};
use super::restrict::with_wanted;
use super::rule::{Positions, Rules};
use super::shared::SharedSides;
use super::sink::Pipeline;
use super::stop::{Stop, Stopped};
use super::verify;
use crate::position::Mode;
use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    execute_stream,
};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::no_expressions;
use hypostyle_sync::Mutex;
use std::fmt;
use std::sync::Arc;

/// Runs a pipeline.
#[derive(Clone, Debug)]
pub(super) struct PipelineExec {
    name: &'static str,
    pipeline: Arc<dyn Pipeline>,
    /// The operators that the pipeline stands for, which do the work where it cannot.
    replaced: Arc<dyn ExecutionPlan>,
    /// The operators whose rows are collected.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The rules that make these operators ready to run.
    rules: Rules,
    mode: Mode,
    /// Which keys a join above can ask for, and those that it asks for.
    restriction: Option<Arc<Restriction>>,
    wanted: Option<Arc<Built>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PipelineExec {
    pub fn new(
        name: &'static str,
        pipeline: Arc<dyn Pipeline>,
        replaced: Arc<dyn ExecutionPlan>,
        Positions { rules }: &Positions,
        mode: Mode,
    ) -> Self {
        let rules = *rules;
        let mut equivalence = EquivalenceProperties::new(replaced.schema());
        if let Some(order) = pipeline.order() {
            equivalence.add_ordering(order.iter().cloned());
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            name,
            inputs: pipeline.universe().inputs.clone(),
            pipeline,
            replaced,
            rules,
            mode,
            restriction: None,
            wanted: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns how many keys its groups have.
    pub fn keys(&self) -> usize {
        self.pipeline.keys().len()
    }

    /// Returns the rows of its largest table.
    pub fn rows(&self) -> u64 {
        self.pipeline.flow().rows
    }

    /// Returns the operator that a join can ask for the groups of some keys.
    pub fn restricted(&self, restriction: &Arc<Restriction>) -> Self {
        Self { restriction: Some(restriction.clone()), ..self.clone() }
    }

    /// Says whether a join asks for keys by a restriction.
    pub fn is_restricted_by(&self, restriction: &Arc<Restriction>) -> bool {
        self.restriction.as_ref().is_some_and(|own| Arc::ptr_eq(own, restriction))
    }

    /// Returns the operator that computes only the groups of some keys.
    pub fn wanting(&self, keys: &Arc<Built>) -> Self {
        Self { wanted: Some(keys.clone()), ..self.clone() }
    }

    /// Returns the keys that are asked for, and the expressions that give them here.
    fn wanted(&self) -> Option<Wanted> {
        let restriction = self.restriction.as_ref()?;
        let keys = restriction.keys.iter().map(|key| self.pipeline.keys().get(*key).cloned());
        Some(Wanted { keys: keys.collect::<Option<_>>()?, built: self.wanted.clone()? })
    }

    /// Returns the result of the pipeline.
    async fn by_position(
        &self,
        context: &Arc<TaskContext>,
    ) -> Stopped<(SendableRecordBatchStream, Arc<Execution>)> {
        let universe = self.pipeline.universe();
        let runs = universe.runs().ok_or_else(|| Stop::Unfit("parts do not belong together".into()))?;
        if runs == 1 {
            return self.run(&self.pipeline, None, context).await;
        }
        let shared = Arc::new(SharedSides::default());
        let (mut results, mut last) = (Vec::with_capacity(runs), None);
        for run in 0..runs {
            let pipeline = self.pipeline.over(Arc::new(universe.of_run(run)));
            let pipeline = pipeline.ok_or_else(|| Stop::Unfit("it has one result".into()))?;
            let (rows, execution) = self.run(&pipeline, Some(shared.clone()), context).await?;
            results.push(rows);
            last = Some(execution);
        }
        let last = last.ok_or_else(|| Stop::Unfit("there are no parts".into()))?;
        let rows = stream::iter(results).flatten();
        Ok((Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)), last))
    }

    /// Returns the result of one run.
    async fn run(
        &self,
        pipeline: &Arc<dyn Pipeline>,
        shared: Option<Arc<SharedSides<Built>>>,
        context: &Arc<TaskContext>,
    ) -> Stopped<(SendableRecordBatchStream, Arc<Execution>)> {
        let (universe, flow) = (pipeline.universe(), pipeline.flow());
        let (outputs, late) = (pipeline.outputs(), pipeline.late());
        let mut execution =
            Execution::new(universe, flow, &outputs, &late, (self.inputs.clone(), with_wanted), context)?;
        execution.kept = (self.mode == Mode::Verify).then(Mutex::default);
        execution.shared = shared;
        let steps = Arc::new(execution.measurements.clone());
        MetricBuilder::new(&self.metrics).build(MetricValue::Custom { name: "steps".into(), value: steps });
        let execution = Arc::new(execution);
        let ready = Arc::new(ReadyFlow::make(&execution, flow, self.wanted()).await?);
        let rows = pipeline.run(&execution, &ready).await?;
        // What the inputs' rows take is held until all have gone out.
        let schema = rows.schema();
        let held = execution.clone();
        let rows = rows.inspect(move |_| {
            let _held = &held;
        });
        Ok((Box::pin(RecordBatchStreamAdapter::new(schema, rows)), execution))
    }

    /// Returns the operators that the pipeline stands for, over the rows that it has collected of others:
    /// these might come in another order the second time.
    fn over_kept(&self, execution: &Execution) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = self.replaced.clone();
        for (input, batches) in execution.kept.iter().flat_map(|kept| kept.lock().clone()) {
            let Some(input) = self.pipeline.universe().inputs.get(input) else { continue };
            let rows: Arc<dyn ExecutionPlan> =
                MemorySourceConfig::try_new_exec(&[batches], input.schema(), None)?;
            plan = plan
                .transform_down(|node| match Arc::ptr_eq(&node, input) {
                    true => Ok(Transformed::yes(rows.clone())),
                    false => Ok(Transformed::no(node)),
                })
                .data()?;
        }
        Ok(plan)
    }

    /// Returns the rows of operators that the pipeline stands for.
    fn by_operators(
        &self,
        mut plan: Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let options = context.session_config().options();
        plan = PartsExec::replaced(plan)?;
        for rule in (self.rules)() {
            plan = rule.optimize(plan, options)?;
        }
        // The pipeline's inputs are operators of this plan, too, and may have run.
        execute_stream(reset_plan_states(plan)?, context.clone())
    }

    async fn start(self: Arc<Self>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let found = {
            let _timer = metrics.elapsed_compute().timer();
            self.by_position(&context).await
        };
        let schema = self.schema();
        match found {
            Ok((mut rows, execution)) => {
                // Some of the groups that operators compute are not wanted: whoever wants the others
                // compares what becomes of them.
                if self.mode == Mode::Verify && self.wanted().is_none() {
                    let found: Vec<RecordBatch> = rows.try_collect().await?;
                    let operators = self.by_operators(self.over_kept(&execution)?, &context)?;
                    let expected: Vec<RecordBatch> = operators.try_collect().await?;
                    let uncertain = execution.uncertain.lock().clone();
                    let (order, is_cut) = (self.pipeline.order(), self.pipeline.is_cut());
                    let given = verify::Given { order, is_cut, uncertain: &uncertain };
                    verify::compare(&found, &expected, &given, &self.to_string())?;
                    rows = Box::pin(RecordBatchStreamAdapter::new(
                        schema.clone(),
                        stream::iter(found.into_iter().map(Ok)),
                    ));
                }
                let counted = rows.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => {
                let name = format!("left_to_operators ({})", stop.reason());
                MetricBuilder::new(&self.metrics).counter(name, 0).add(1);
                self.by_operators(self.replaced.clone(), &context)
            }
        }
    }
}

impl fmt::Display for PipelineExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        self.pipeline.describe(f)?;
        f.write_str(", rows=[")?;
        write_flow(f, self.pipeline.universe(), self.pipeline.flow())?;
        f.write_str("]")
    }
}

fn write_flow(f: &mut fmt::Formatter<'_>, universe: &Universe, flow: &Flow) -> fmt::Result {
    f.write_str(universe.name(flow.slot))?;
    let indexes = describe(universe, flow).unwrap_or_default();
    if !indexes.is_empty() {
        write!(f, " [{}]", indexes.join(", "))?;
    }
    for step in &flow.steps {
        match step {
            Step::Filter(condition) => write!(f, " where {condition}")?,
            Step::Join(join) => {
                write!(f, " {} ", join.kind.name())?;
                let nested = !join.build.is_plain();
                if nested {
                    f.write_str("(")?;
                }
                write_flow(f, universe, &join.build)?;
                if nested {
                    f.write_str(")")?;
                }
                let keys = join.keys.iter().map(|(probe, build)| format!("{probe} = {build}"));
                let conditions: Vec<String> =
                    keys.chain(join.conditions.iter().map(ToString::to_string)).collect();
                write!(f, " on {}", conditions.join(" and "))?;
                if let Ok(Some(by)) = describe_join(universe, join) {
                    write!(f, " by {by}")?;
                }
            }
        }
    }
    for mark in &flow.marks {
        f.write_str(if mark.anti { " not marked by (" } else { " marked by (" })?;
        write_flow(f, universe, &mark.other)?;
        let keys = mark.keys.iter().map(|(own, other)| format!("{own} = {other}"));
        let conditions: Vec<String> = keys.chain(mark.conditions.iter().map(ToString::to_string)).collect();
        write!(f, ") on {}", conditions.join(" and "))?;
    }
    Ok(())
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &str {
        self.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::UnspecifiedDistribution; self.inputs.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return internal_err!("{} has {} inputs", self.name, self.inputs.len());
        }
        let mut changed = self.as_ref().clone();
        changed.inputs = children;
        changed.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(changed))
    }

    // Its expressions are over numbered columns, which no other operator has.
    no_expressions!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("{} has one partition", self.name);
        }
        let schema = self.schema();
        let running = Arc::new(self.clone()).start(context);
        let rows = stream::once(running).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
