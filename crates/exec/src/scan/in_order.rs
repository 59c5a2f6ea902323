//! Returns rows in the order of their partitions, which is the order of the table. DataFusion
//! returns rows of any partition that has some first. If a result, or the input of LIMIT, is only
//! selected from a table, order costs little: the table is scanned in small pieces, and a few of
//! them are computed ahead of the one that is read.
//!
//! Rows that come from one partition, as those of a file, of a data frame or of ORDER BY in a subquery,
//! are shared out among threads batch by batch for what is computed of them, and collected again in
//! the order in which they came.

use crate::scan::ScanExec;
use crate::scan::deal::{DealExec, dealer_of};
use crate::scan::kept_order::KeptOrderExec;
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::one_input;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Rows that a piece of a table has, and the batches of them that wait to be read: all of a piece.
const PIECE_ROWS: u64 = 65_536;
const PIECE_BATCHES: usize = 8;

/// Puts an [`InOrderExec`] in the place of what collects the partitions of a result, or of what
/// LIMIT cuts.
#[derive(Debug)]
pub struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = collected(plan.transform_up(without_empty_sorts).data()?, true)?;
        // Code that runs the plan collects the rest of the partitions.
        match plan.output_partitioning().partition_count() > 1 && is_in_order(&plan) {
            true => Ok(Arc::new(InOrderExec::over(in_pieces(&plan)?, None))),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "InOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Takes out sorts of rows without columns, which have no order that anybody sees: DataFusion's
/// would make rows of nothing.
fn without_empty_sorts(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if !plan.schema().fields().is_empty() {
        return Ok(Transformed::no(plan));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let (input, is_shared) = (sort.input().clone(), sort.preserve_partitioning());
        let limited: Arc<dyn ExecutionPlan> = match (sort.fetch(), is_shared) {
            (None, _) => input,
            (Some(rows), true) => Arc::new(LocalLimitExec::new(input, rows)),
            (fetch, false) => Arc::new(GlobalLimitExec::new(input, 0, fetch)),
        };
        return Ok(Transformed::yes(limited));
    }
    let merge = plan.downcast_ref::<SortPreservingMergeExec>();
    let merged =
        merge.map(|merge| CoalescePartitionsExec::new(merge.input().clone()).with_fetch(merge.fetch()));
    let merged = merged.map(|merged| Transformed::yes(Arc::new(merged) as Arc<dyn ExecutionPlan>));
    Ok(merged.unwrap_or_else(|| Transformed::no(plan)))
}

/// Says whether rows are computed once, for all that read them, which then have one order.
pub(super) fn is_computed_once(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.name() == "ComputedOnceExec"
}

/// Returns the plan, of whose rows the order is `wanted` or not.
fn collected(plan: Arc<dyn ExecutionPlan>, wanted: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(kept) = plan.downcast_ref::<KeptOrderExec>() {
        // The rules that might leave the sort out have run.
        return collected(kept.input.clone(), wanted);
    }
    let collector = plan.downcast_ref::<CoalescePartitionsExec>();
    let fetch = collector.and_then(CoalescePartitionsExec::fetch);
    let limits = fetch.is_some() || plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>();
    let wanted = limits || wanted;
    if wanted && let Some(dealt) = dealt(&plan)? {
        return Ok(Arc::new(InOrderExec { is_dealt: true, ..InOrderExec::over(dealt, None) }));
    }
    let collects = collector.is_some() || plan.is::<DataSinkExec>();
    let is_once = is_computed_once(&plan);
    let passed_on = limits || is_once || wanted && (keeps_order(&plan) || plan.is::<UnionExec>() || collects);
    let mut changed = false;
    let mut inputs = Vec::new();
    for input in plan.children() {
        let found = collected(input.clone(), passed_on)?;
        let is_whole = !is_once || found.output_partitioning().partition_count() == 1 || !is_in_order(&found);
        let found: Arc<dyn ExecutionPlan> = match is_whole {
            true => found,
            false => Arc::new(InOrderExec::over(in_pieces(&found)?, None)),
        };
        changed |= !Arc::ptr_eq(&found, input);
        inputs.push(found);
    }
    if let ([input], Some(_), true) = (inputs.as_slice(), collector, wanted)
        && is_in_order(input)
    {
        return match (input.output_partitioning().partition_count(), fetch) {
            (1, None) => Ok(inputs.remove(0)),
            _ => Ok(Arc::new(InOrderExec::over(in_pieces(input)?, fetch))),
        };
    }
    match changed {
        true => plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)),
        false => Ok(plan),
    }
}

/// Returns a plan that computes something of rows that DataFusion shares out among threads, with a
/// [`DealExec`] in the place of what shares them out; `None` if their order is nobody's.
fn dealt(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(shared) = plan.downcast_ref::<RepartitionExec>() {
        if !is_of_one(shared) || !has_order(shared.input()) {
            return Ok(None);
        }
        let count = shared.partitioning().partition_count();
        let input = collected(shared.input().clone(), true)?;
        return Ok(Some(Arc::new(DealExec::over(input, count))));
    }
    let children = plan.children();
    let ([input], true) = (children.as_slice(), keeps_order(plan)) else { return Ok(None) };
    let Some(input) = dealt(input)? else { return Ok(None) };
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.clone().replace_children(vec![input], changed).map(Some)
}

/// Says whether somebody has put rows in order, which are sorted or of a source, and nothing that cannot
/// be replaced takes them out of it.
fn has_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = plan.children();
    let is_shared = plan.downcast_ref::<RepartitionExec>().is_some_and(is_of_one);
    let passes_on = is_shared
        || inputs.is_empty()
        || keeps_order(plan)
        || plan.is::<UnionExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<CoalescePartitionsExec>()
        || is_computed_once(plan);
    let is_sorted = plan.output_partitioning().partition_count() == 1 && plan.output_ordering().is_some();
    is_sorted || passes_on && inputs.into_iter().all(has_order)
}

/// Says whether rows of one partition are shared out.
fn is_of_one(shared: &RepartitionExec) -> bool {
    matches!(shared.partitioning(), Partitioning::RoundRobinBatch(_))
        && shared.input().output_partitioning().partition_count() == 1
}

/// Says whether rows leave each partition as they came, and none of another one.
pub(super) fn keeps_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<LocalLimitExec>()
}

/// Says whether the partitions of a plan are in the order of the tables' rows.
fn is_in_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = plan.children();
    let is_one = plan.output_partitioning().partition_count() == 1;
    let is_whole = is_one && (plan.is::<GlobalLimitExec>() || is_computed_once(plan));
    let passes_on = inputs.is_empty() || keeps_order(plan) || plan.is::<UnionExec>() || is_whole;
    let is_sorted = is_one && plan.output_ordering().is_some();
    plan.is::<InOrderExec>() || is_sorted || passes_on && inputs.into_iter().all(is_in_order)
}

/// Returns the plan with smaller partitions of the tables.
fn in_pieces(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(Arc::new(scan.in_pieces(PIECE_ROWS)));
    }
    let inputs = plan.children();
    if inputs.is_empty() || !(keeps_order(plan) || plan.is::<UnionExec>()) {
        return Ok(plan.clone());
    }
    let inputs = inputs.into_iter().map(in_pieces).collect::<Result<Vec<_>>>()?;
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.clone().replace_children(inputs, changed)
}

/// The partitions of its input, one after the other.
#[derive(Debug)]
pub struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    /// Pieces of a [`DealExec`] are the partitions.
    is_dealt: bool,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn over(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let properties = CoalescePartitionsExec::new(input.clone()).properties().clone();
        Self { input, fetch, is_dealt: false, properties }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { is_dealt: self.is_dealt, ..Self::over(input, self.fetch) }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InOrderExec")?;
        self.fetch.map_or(Ok(()), |fetch| write!(f, ": fetch={fetch}"))
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &'static str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    one_input!();

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let count = self.input.properties().output_partitioning().partition_count();
        let at_once = context.session_config().target_partitions().max(1) + 1;
        if self.is_dealt
            && let Some(dealer) = dealer_of(&self.input)
        {
            let rows = dealer.deal(&self.input, &context)?.try_buffered(at_once);
            let rows = rows.map_ok(|batches| stream::iter(batches).map(Ok)).try_flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)));
        }
        let ahead =
            Ahead { input: self.input.clone(), context, next: 0, count, at_once, running: VecDeque::new() };
        let rows = stream::try_unfold((ahead, self.fetch), next_of);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Returns the next batch, with what comes after it, of which so many rows are wanted.
async fn next_of(
    (mut ahead, left): (Ahead, Option<usize>),
) -> Result<Option<(RecordBatch, (Ahead, Option<usize>))>> {
    if left == Some(0) {
        return Ok(None);
    }
    let Some(batch) = ahead.next().await? else { return Ok(None) };
    let taken = left.map_or(batch.num_rows(), |left| left.min(batch.num_rows()));
    Ok(Some((batch.slice(0, taken), (ahead, left.map(|left| left - taken)))))
}

/// Partitions that run ahead of the one that is read.
struct Ahead {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// The first that does not run yet, and how many there are.
    next: usize,
    count: usize,
    at_once: usize,
    running: VecDeque<SendableRecordBatchStream>,
}

impl Ahead {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.running.len() < self.at_once && self.next < self.count {
                let partition = self.input.execute(self.next, self.context.clone())?;
                self.running.push_back(spawn_buffered(partition, PIECE_BATCHES));
                self.next += 1;
            }
            let Some(first) = self.running.front_mut() else { return Ok(None) };
            match first.next().await {
                Some(batch) => return batch.map(Some),
                None => drop(self.running.pop_front()),
            }
        }
    }
}
