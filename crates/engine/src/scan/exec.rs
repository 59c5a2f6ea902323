//! The scan operator: slices of the mapped columns, a range of rows for each partition.

use super::statistics::table_statistics;
use super::view::EngineColumn;
use crate::session::Counters;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream;
use hypostyle_storage::TableData;
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Partitions are cut at multiples of this many rows.
const CUT_ROWS: u64 = 8192;

#[derive(Debug)]
pub(crate) struct ScanExec {
    table: Arc<TableData>,
    projection: Vec<usize>,
    /// Row ranges of each partition.
    partitions: Vec<Vec<Range<u64>>>,
    rows: u64,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The projected columns, opened by the first partition that runs.
    columns: Mutex<Option<Arc<[EngineColumn]>>>,
}

impl ScanExec {
    pub fn new(
        table: Arc<TableData>,
        schema: &SchemaRef,
        projection: Vec<usize>,
        ranges: Vec<Range<u64>>,
        partitions: usize,
    ) -> Self {
        let schema: SchemaRef = Arc::new(arrow::datatypes::Schema::new(
            projection.iter().map(|index| schema.field(*index).clone()).collect::<Vec<_>>(),
        ));
        let rows = ranges.iter().map(|range| range.end - range.start).sum();
        let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let mut statistics = table_statistics(&table, &projection, &fields);
        if rows != table.rows() {
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Exact(rows as usize);
        }
        let partitions = share(ranges, rows, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            projection,
            partitions,
            rows,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            columns: Mutex::new(None),
        }
    }

    fn open(&self) -> hypostyle_types::Result<Arc<[EngineColumn]>> {
        let mut columns = self.columns.lock();
        if let Some(columns) = columns.as_ref() {
            return Ok(columns.clone());
        }
        let opened: Arc<[EngineColumn]> = self
            .projection
            .iter()
            .map(|index| EngineColumn::open(&self.table.columns()[*index]))
            .collect::<hypostyle_types::Result<_>>()?;
        Ok(columns.insert(opened).clone())
    }
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
            self.projection.iter().map(|index| entry.columns[*index].name.as_str()).collect();
        write!(
            f,
            "ScanExec: table={}, columns=[{}], rows={} of {}, partitions={}",
            entry.name,
            columns.join(", "),
            self.rows,
            entry.rows,
            self.partitions.len()
        )
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
            None => Ok(self.statistics.clone()),
            Some(partition) => {
                let ranges = self.partitions.get(partition).map(Vec::as_slice).unwrap_or_default();
                let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                let mut statistics = self.statistics.as_ref().clone().to_inexact();
                statistics.num_rows = Precision::Exact(rows as usize);
                Ok(Arc::new(statistics))
            }
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let columns = self.open().map_err(|error| DataFusionError::External(Box::new(error)))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = context.session_config().batch_size() as u64;
        let counters = context.session_config().get_extension::<Counters>();
        let schema = self.schema();
        let stored: Vec<_> =
            self.projection.iter().map(|index| self.table.columns()[*index].clone()).collect();
        let batches = self.partitions[partition].clone().into_iter().flat_map(move |range| {
            let starts = (range.start..range.end).step_by(batch_rows as usize);
            starts.map(move |start| start..range.end.min(start + batch_rows))
        });
        let batches = {
            let schema = schema.clone();
            batches.map(move |rows| {
                let timer = metrics.elapsed_compute().timer();
                let arrays = columns
                    .iter()
                    .zip(&stored)
                    .map(|(column, stored)| {
                        stored
                            .verify_rows(rows.clone())
                            .map_err(|error| DataFusionError::External(Box::new(error)))?;
                        column.slice(rows.start as usize, (rows.end - rows.start) as usize)
                    })
                    .collect::<Result<Vec<_>>>()?;
                let options =
                    RecordBatchOptions::new().with_row_count(Some((rows.end - rows.start) as usize));
                let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
                timer.done();
                metrics.record_output(batch.num_rows());
                if let Some(counters) = &counters {
                    counters.done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                }
                Ok(batch)
            })
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }
}
