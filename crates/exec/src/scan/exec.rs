//! The scan operator: a range of rows for each partition, filtered by position before the rows that
//! pass are gathered; slices of the mapped columns where all do.

use crate::counters::Counters;
use crate::scan::filter::{Conjunct, Filter, OpenColumn, Selection, Trial, has_nested_keys, read};
use crate::scan::in_order::InOrderExec;
use crate::scan::statistics::table_statistics;
use crate::scan::view::result_field;
use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, RecordBatchOptions, make_array};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, apply_expression_roots,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, all_alias_free_columns};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream;
use hypostyle_error::external;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::nan::with_one_nan;
use hypostyle_expr::no_inputs;
use hypostyle_storage::{Snapshot, TableData, in_window};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Partitions are cut at multiples of this many rows.
const CUT_ROWS: u64 = 8192;

/// The windows after which a scan that finds no rows lets others have its thread.
const WINDOWS_PER_TURN: usize = 64;

#[derive(Clone, Debug)]
pub struct ScanExec {
    table: Arc<TableData>,
    /// Keeps the table's files.
    snapshot: Arc<Snapshot>,
    /// The schema of the whole table, and perhaps its rows' positions.
    table_schema: SchemaRef,
    projection: Vec<usize>,
    /// Nothing but the result reads the columns: they keep their stored types.
    for_result: bool,
    conjuncts: Vec<Conjunct>,
    /// Row ranges of each partition.
    partitions: Arc<[Vec<Range<u64>>]>,
    rows: u64,
    /// Read by the optimizer only, which not every query meets.
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Opened by the first partition that runs.
    opened: Arc<OnceLock<Arc<Opened>>>,
}

/// What a scan reads.
pub struct PlainScan<'a> {
    pub table: &'a Arc<TableData>,
    pub snapshot: &'a Arc<Snapshot>,
    /// The places of the columns in the table.
    pub projection: &'a [usize],
    /// The positions of the rows.
    pub ranges: Vec<Range<u64>>,
}

/// Returns a plan whose columns keep their stored types where it does nothing but pick rows and
/// columns of a table. What it gives is for a result: no operator may be put on top of it.
///
/// # Errors
/// Those of a projection that does not fit its input.
pub fn for_result(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let any = plan.as_ref() as &dyn Any;
    if let Some(scan) = any.downcast_ref::<ScanExec>() {
        return Ok(Arc::new(scan.for_result()));
    }
    if let Some(projection) = any.downcast_ref::<ProjectionExec>() {
        if !projection.expr().iter().all(|item| item.expr.downcast_ref::<Column>().is_some()) {
            return Ok(plan);
        }
        let input = for_result(projection.input().clone())?;
        return Ok(Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), input)?));
    }
    let passes_rows_on = any.is::<CoalescePartitionsExec>()
        || any.is::<InOrderExec>()
        || any.is::<CooperativeExec>()
        || any.is::<GlobalLimitExec>()
        || any.is::<LocalLimitExec>();
    match plan.children().as_slice() {
        [input] if passes_rows_on => {
            let input = for_result(Arc::clone(input))?;
            let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(vec![input], changed)
        }
        _ => Ok(plan),
    }
}

/// The state that the partitions of a scan share while they run.
#[derive(Debug)]
struct Opened {
    /// The columns that the scan needs, by their places in the table.
    columns: Vec<Option<OpenColumn>>,
    filter: Filter,
}

impl ScanExec {
    pub fn new(
        table: Arc<TableData>,
        snapshot: Arc<Snapshot>,
        table_schema: &SchemaRef,
        projection: Vec<usize>,
        ranges: Vec<Range<u64>>,
        partitions: usize,
    ) -> Self {
        let positions = ranges.iter().map(|range| range.end - range.start).sum();
        let partitions = share(ranges, positions, partitions).into();
        Self::over(table, snapshot, table_schema.clone(), projection, Vec::new(), partitions)
    }

    fn over(
        table: Arc<TableData>,
        snapshot: Arc<Snapshot>,
        table_schema: SchemaRef,
        projection: Vec<usize>,
        conjuncts: Vec<Conjunct>,
        partitions: Arc<[Vec<Range<u64>>]>,
    ) -> Self {
        let rows = partitions.iter().map(|ranges| live_rows(&table, ranges)).sum();
        let fields: Vec<Field> = projection.iter().map(|index| table_schema.field(*index).clone()).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(Schema::new(fields))),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            snapshot,
            table_schema,
            projection,
            for_result: false,
            conjuncts,
            partitions,
            rows,
            statistics: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            opened: Arc::default(),
        }
    }

    fn with(&self, projection: Vec<usize>, conjuncts: Vec<Conjunct>) -> Self {
        let (table, schema) = (self.table.clone(), self.table_schema.clone());
        Self::over(table, self.snapshot.clone(), schema, projection, conjuncts, self.partitions.clone())
    }

    /// Returns the scan with conditions, over columns of the table, that its rows must pass.
    pub fn filtered(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let mut conjuncts = self.conjuncts.clone();
        for filter in filters {
            conjuncts.push(Conjunct::new(filter.clone(), &self.table_schema)?);
        }
        Ok(self.with(self.projection.clone(), conjuncts))
    }

    /// Returns what is read by a scan without conditions of stored columns only; `None` for others.
    pub fn plain(&self) -> Option<PlainScan<'_>> {
        let reads_columns = self.projection.iter().all(|index| *index < self.table.columns().len());
        let is_plain = reads_columns && self.conjuncts.is_empty() && !self.for_result;
        is_plain.then(|| PlainScan {
            table: &self.table,
            snapshot: &self.snapshot,
            projection: &self.projection,
            ranges: self.partitions.iter().flatten().cloned().collect(),
        })
    }

    /// Returns the scan in partitions of so many rows.
    pub fn in_pieces(&self, rows: u64) -> Self {
        let mut scan = self.with(self.projection.clone(), self.conjuncts.clone());
        let ranges: Vec<Range<u64>> = self.partitions.iter().flatten().cloned().collect();
        let positions: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        scan.partitions = share(ranges, positions, positions.div_ceil(rows).max(1) as usize).into();
        let partitioning = Partitioning::UnknownPartitioning(scan.partitions.len());
        scan.properties = Arc::new(scan.properties.as_ref().clone().with_partitioning(partitioning));
        scan
    }

    /// Returns the scan whose columns keep their stored types.
    fn for_result(&self) -> Self {
        let mut scan = self.with(self.projection.clone(), self.conjuncts.clone());
        let fields = self.projection.iter().map(|index| match self.table.columns().get(*index) {
            Some(column) => result_field(&self.table, column),
            None => self.table_schema.field(*index).clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = self.properties.as_ref().clone();
        scan.properties = Arc::new(properties.with_eq_properties(EquivalenceProperties::new(schema)));
        scan.for_result = true;
        scan
    }

    fn statistics(&self) -> &Arc<Statistics> {
        self.statistics.get_or_init(|| {
            let schema = self.properties.eq_properties.schema();
            let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
            let mut statistics = table_statistics(&self.table, &self.projection, &fields);
            if self.rows != self.table.rows() || !self.conjuncts.is_empty() {
                statistics = statistics.to_inexact();
            }
            statistics.num_rows = match self.conjuncts.is_empty() {
                true => Precision::Exact(self.rows as usize),
                false => Precision::Inexact(self.rows as usize),
            };
            Arc::new(statistics)
        })
    }

    fn open(&self) -> Result<Arc<Opened>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.clone());
        }
        let mut columns: Vec<Option<OpenColumn>> = vec![None; self.table.columns().len()];
        let needed = self.projection.iter().chain(self.conjuncts.iter().flat_map(Conjunct::columns));
        for index in needed {
            // The column behind the table's columns is the position.
            if columns.get(*index).is_some_and(Option::is_none) {
                columns[*index] = Some(OpenColumn::open(&self.table, *index)?);
            }
        }
        let filter = Filter::new(&self.conjuncts, &columns)?;
        Ok(self.opened.get_or_init(|| Arc::new(Opened { columns, filter })).clone())
    }
}

/// The state of one partition, which goes through its windows.
struct Partition {
    opened: Arc<Opened>,
    /// Keeps the files, which the plan, that may be gone, has pinned till then.
    _snapshot: Arc<Snapshot>,
    table: Arc<TableData>,
    projection: Vec<usize>,
    for_result: bool,
    schema: SchemaRef,
    windows: Box<dyn Iterator<Item = Range<u64>> + Send>,
    trials: Vec<Trial>,
    coalescer: BatchCoalescer,
    ended: bool,
    metrics: BaselineMetrics,
    counters: Option<Arc<Counters>>,
    meter: Option<Arc<Meter>>,
}

impl Partition {
    /// Returns the next batch; `None` at the end.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        if let Some(meter) = &self.meter {
            meter.check().map_err(external)?;
        }
        let mut windows = 0;
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                self.metrics.record_output(batch.num_rows());
                // A result is what is stored.
                let batch = if self.for_result { batch } else { with_one_nan(batch)? };
                return Ok(Some((batch, self)));
            }
            if self.ended {
                return Ok(None);
            }
            let compute = self.metrics.elapsed_compute().clone();
            let _timer = compute.timer();
            let Some(rows) = self.windows.next() else {
                self.ended = true;
                self.coalescer.finish_buffered_batch()?;
                continue;
            };
            self.check_not_rolled_back()?;
            let (opened, deleted) = (&self.opened, self.table.deleted());
            let selection = opened.filter.select(&opened.columns, &rows, deleted, &mut self.trials)?;
            if let Some(counters) = &self.counters {
                counters.done.fetch_add(rows.end - rows.start, Ordering::Relaxed);
            }
            let selected = selection.rows();
            if selected > 0 {
                let batch = self.gather(&rows, selection, selected)?;
                if batch.num_columns() == 0 {
                    self.metrics.record_output(selected);
                    return Ok(Some((batch, self)));
                }
                self.coalescer.push_batch(batch)?;
            }
            windows += 1;
            if windows % WINDOWS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Arrays of their own, before the bytes under them may be overwritten.
    fn copied(&self, arrays: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let copies = arrays.iter().map(copied).collect::<Result<_>>()?;
        self.check_not_rolled_back()?;
        Ok(copies)
    }

    fn check_not_rolled_back(&self) -> Result<()> {
        let checked = self.table.check_not_rolled_back();
        checked.map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn gather(&self, rows: &Range<u64>, selection: Selection, selected: usize) -> Result<RecordBatch> {
        let pick = selection.pick(self.projection.len());
        let arrays = self
            .projection
            .iter()
            .map(|index| match self.opened.columns.get(*index) {
                Some(Some(column)) if self.for_result => column.read_for_result(rows, &pick),
                _ => read(&self.opened.columns, *index, rows, &pick),
            })
            .collect::<Result<Vec<_>>>()?;
        let arrays = match self.table.is_uncommitted() {
            true => self.copied(arrays)?,
            false => arrays.iter().map(in_window).collect(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(selected));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

/// Returns an array that shares nothing with the one it is made of.
fn copied(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => {
            let whole = match array.as_any_dictionary_opt() {
                Some(dictionary) => dictionary.with_values(copied(dictionary.values())?),
                None => array.clone(),
            };
            let data = whole.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len())?;
            make_array(copy.freeze())
        }
    })
}

/// Returns rows of some ranges that are not deleted.
fn live_rows(table: &TableData, ranges: &[Range<u64>]) -> u64 {
    let deleted = table.deleted();
    ranges.iter().map(|range| range.end - range.start - deleted.range_cardinality(range.clone())).sum()
}

/// Cuts ranges into partitions of about equal rows, each contiguous in row order.
fn share(ranges: Vec<Range<u64>>, rows: u64, partitions: usize) -> Vec<Vec<Range<u64>>> {
    let wanted = rows.div_ceil(partitions.max(1) as u64).next_multiple_of(CUT_ROWS).max(CUT_ROWS);
    let mut shares = vec![Vec::new()];
    let mut room = wanted;
    for mut range in ranges {
        while !range.is_empty() {
            if room == 0 {
                shares.push(Vec::new());
                room = wanted;
            }
            let end = range.end.min(range.start + room);
            room -= end - range.start;
            if let Some(last) = shares.last_mut() {
                last.push(range.start..end);
            }
            range.start = end;
        }
    }
    shares
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.table.entry();
        let columns: Vec<&str> =
            self.projection.iter().map(|index| self.table_schema.field(*index).name().as_str()).collect();
        write!(
            f,
            "ScanExec: table={}, columns=[{}], rows={} of {}, partitions={}",
            entry.name,
            columns.join(", "),
            self.rows,
            self.table.rows(),
            self.partitions.len()
        )?;
        let filters: Vec<String> = self.conjuncts.iter().map(ToString::to_string).collect();
        if filters.is_empty() { Ok(()) } else { write!(f, ", filter={}", filters.join(" AND ")) }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.conjuncts.iter().map(Conjunct::expression), f)
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let (mut filters, mut verdicts) = (Vec::new(), Vec::new());
        for pushed in &pushed.parent_filters {
            let is_taken = !has_nested_keys(&pushed.filter);
            verdicts.push(if is_taken { PushedDown::Yes } else { PushedDown::No });
            filters.extend(is_taken.then(|| pushed.filter.clone()));
        }
        let taken = FilterPushdownPropagation::with_parent_pushdown_result(verdicts);
        Ok(match filters.is_empty() {
            true => taken,
            false => taken.with_updated_node(Arc::new(self.filtered(&filters)?)),
        })
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !all_alias_free_columns(projection.expr()) {
            return Ok(None);
        }
        let columns = projection.expr().iter().filter_map(|kept| kept.expr.downcast_ref::<Column>());
        let kept = columns.map(|column| self.projection[column.index()]).collect();
        Ok(Some(Arc::new(self.with(kept, self.conjuncts.clone()))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.statistics().clone()),
            Some(partition) => {
                let ranges = self.partitions.get(partition).map(Vec::as_slice).unwrap_or_default();
                let rows = live_rows(&self.table, ranges);
                let mut statistics = self.statistics().as_ref().clone().to_inexact();
                statistics.num_rows = Precision::Exact(rows as usize);
                Ok(Arc::new(statistics))
            }
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let opened = self.open()?;
        let schema = self.schema();
        let batch_rows = context.session_config().batch_size().max(1);
        let windows = self.partitions[partition].clone().into_iter().flat_map(move |range| {
            let starts = (range.start..range.end).step_by(batch_rows);
            starts.map(move |start| start..range.end.min(start + batch_rows as u64))
        });
        let partition = Partition {
            _snapshot: self.snapshot.clone(),
            table: self.table.clone(),
            projection: self.projection.clone(),
            for_result: self.for_result,
            schema: schema.clone(),
            windows: Box::new(windows),
            trials: opened.filter.trials(),
            // Larger batches pass as they are.
            coalescer: BatchCoalescer::new(schema.clone(), batch_rows)
                .with_biggest_coalesce_batch_size(Some(batch_rows / 2)),
            ended: false,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            counters: context.session_config().get_extension::<Counters>(),
            meter: context.session_config().get_extension::<Meter>(),
            opened,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(partition, Partition::next))))
    }
}
