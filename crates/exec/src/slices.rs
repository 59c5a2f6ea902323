//! Computes projections for fewer rows at once where their results are long: batches are counted in
//! rows, and a few thousand rows of long texts are more than an array can have.

use crate::node_rule::node_rule;
use crate::yielding::watched;
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_datafusion_err;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::at_once::{may_be_large, within};
use hypostyle_expr::meter::Meter;
use std::fmt;
use std::sync::Arc;

/// The bytes of functions' results that are computed at once, for more than one row.
const BYTES_AT_ONCE: u64 = 16 << 20;

/// Puts a [`SlicedExec`] in the place of projections with functions whose results may be large.
#[derive(Debug)]
pub struct Slices;

node_rule!(Slices: "Slices", sliced);

/// Puts a [`SlicedExec`] in the place of a projection whose results may be large.
fn sliced(plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let items = plan.downcast_ref::<ProjectionExec>().map(ProjectionExec::expr).unwrap_or_default();
    Ok(match items.iter().any(|item| may_be_large(&item.expr)) {
        true => Transformed::yes(Arc::new(SlicedExec::over(plan)) as Arc<dyn ExecutionPlan>),
        false => Transformed::no(plan),
    })
}

/// A projection that is computed for all rows of a batch, or for as few as are not too much.
#[derive(Debug)]
struct SlicedExec {
    projection: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl SlicedExec {
    fn over(projection: Arc<dyn ExecutionPlan>) -> Self {
        Self { projection, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn projection(&self) -> Result<&ProjectionExec> {
        let projection = self.projection.downcast_ref::<ProjectionExec>();
        projection.ok_or_else(|| internal_datafusion_err!("{} is over no projection", self.name()))
    }
}

impl DisplayAs for SlicedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.projection.fmt_as(t, f)
    }
}

impl ExecutionPlan for SlicedExec {
    fn name(&self) -> &'static str {
        "ProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::over(self.projection.clone().replace_children(children, options)?)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let projection = self.projection()?;
        let computed = Computed {
            schema: projection.schema(),
            expressions: projection.expr().iter().map(|item| item.expr.clone()).collect(),
        };
        let meter = context.session_config().get_extension::<Meter>();
        // Some batches wait behind each other, on each thread.
        let limit = meter.as_ref().map_or(u64::MAX, |meter| meter.batch_limit() / 16);
        let bytes = limit.clamp(BYTES_AT_ONCE >> 4, BYTES_AT_ONCE);
        let (input, schema) = (projection.input().execute(partition, context)?, projection.schema());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = input.map(move |batch| {
            let (batch, computed) = (Some(batch?), computed.clone());
            let mut rest = Rest { rows_at_once: usize::MAX, bytes, batch, computed };
            let metrics = metrics.clone();
            let slices = std::iter::from_fn(move || {
                let timer = metrics.elapsed_compute().timer();
                let slice = rest.next();
                timer.done();
                if let Some(Ok(slice)) = &slice {
                    metrics.record_output(slice.num_rows());
                }
                slice
            });
            Ok::<_, DataFusionError>(stream::iter(slices))
        });
        Ok(watched(batches.try_flatten(), schema, meter))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns the values of an expression for all rows of a batch. If they are short, functions within it
/// compute as few rows at once as are not too much.
///
/// # Errors
/// Those of the expression.
pub fn evaluated(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ColumnarValue> {
    let all = batch.num_rows();
    if all < 2 || !may_be_large(expression) || !is_short(&expression.data_type(&batch.schema())?) {
        return expression.evaluate(batch);
    }
    let (mut start, mut rows) = (0, all);
    let mut parts = Vec::new();
    while start < all {
        let count = rows.min(all - start);
        let slice = batch.slice(start, count);
        match within_if_several(count, BYTES_AT_ONCE, || expression.evaluate(&slice))? {
            Some(values) if count == all => return Ok(values),
            Some(values) => {
                parts.push(values.into_array(count)?);
                start += count;
            }
            None => rows = count / 2,
        }
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(ColumnarValue::Array(concat(&parts)?))
}

/// Runs something that calls functions for some rows; returns `None` where they would give more than so many
/// bytes, and there are fewer rows to try. For one row they may give more: those in a function of a list's
/// elements are called for all of these.
fn within_if_several<T>(rows: usize, bytes: u64, run: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    match rows {
        0 | 1 => run().map(Some),
        _ => within(bytes, run),
    }
}

/// Says whether values of a type are all as long as each other.
fn is_short(of: &DataType) -> bool {
    of.primitive_width().is_some() || *of == DataType::Boolean
}

/// What is computed of rows.
#[derive(Clone)]
struct Computed {
    expressions: Arc<[Arc<dyn PhysicalExpr>]>,
    schema: SchemaRef,
}

impl Computed {
    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.expressions.iter().map(|expression| expression.evaluate(batch)?.into_array(rows));
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// The rows of a batch that are not yet computed.
struct Rest {
    /// No more were little enough at the last trial.
    rows_at_once: usize,
    /// What functions may give at once.
    bytes: u64,
    batch: Option<RecordBatch>,
    computed: Computed,
}

impl Rest {
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.batch.take()?;
        let mut rows = batch.num_rows().min(self.rows_at_once);
        loop {
            match within_if_several(rows, self.bytes, || self.computed.of(&batch.slice(0, rows))) {
                Ok(None) => rows /= 2,
                Ok(Some(slice)) => {
                    if rows < batch.num_rows() {
                        self.rows_at_once = rows;
                        self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
                    }
                    return Some(Ok(slice));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
