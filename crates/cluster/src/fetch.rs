//! The operator that fetches columns of the few rows that are left of a part's, by their places. PosDB
//! calls this late materialization.

use crate::change::by_fragment;
use crate::gather::{ATTEMPTS, GatherExec, Placing};
use crate::table::FragmentScanExec;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::interleave;
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionMapping;
use datafusion::physical_expr::{Distribution, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    execute_stream,
};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_expr::one_input;
use hypostyle_expr::sizes::bytes_of;
use hypostyle_types::TableId;
use roaring::RoaringTreemap;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Where the values of a column come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A column of the rows that were sent.
    Sent(usize),
    /// A column of the table.
    Table(usize),
}

/// What is fetched of rows, the last column of which is their places.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// Where the rows are: of one table.
    pub placing: Placing,
    /// The table.
    pub table: TableId,
    /// The columns of the table, and the places of its rows behind them.
    pub table_schema: SchemaRef,
    /// Where each column of the result comes from.
    pub origins: Vec<Origin>,
}

impl Fetching {
    /// Returns the columns of the table that are fetched.
    fn columns(&self) -> Vec<usize> {
        let fetched = self.origins.iter().filter_map(|origin| match origin {
            Origin::Table(column) => Some(*column),
            Origin::Sent(_) => None,
        });
        let mut columns: Vec<usize> = fetched.collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Returns the names of these columns.
    pub fn names(&self) -> String {
        let fields = self.table_schema.fields();
        let names = self.columns().into_iter().filter_map(|column| fields.get(column));
        names.map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the scan of these columns of the rows at some places, with the places.
    fn scan(&self, places: &RoaringTreemap) -> Result<FragmentScanExec> {
        let mut projection = self.columns();
        projection.push(self.table_schema.fields().len().saturating_sub(1));
        let scan = FragmentScanExec::try_new(self.table, self.table_schema.clone(), projection, None)?;
        Ok(scan.of_rows(places.clone()))
    }

    /// Returns what is known of the result: it is in the order of the input.
    fn properties(&self, input: &dyn ExecutionPlan, schema: &SchemaRef) -> PlanProperties {
        let before = input.schema();
        let column = |schema: &SchemaRef, place: usize| -> Option<Arc<dyn PhysicalExpr>> {
            Some(Arc::new(Column::new(schema.fields().get(place)?.name(), place)))
        };
        let sent = self.origins.iter().enumerate().filter_map(|(place, origin)| match origin {
            Origin::Sent(from) => {
                Some((column(&before, *from)?, vec![(column(schema, place)?, place)].into()))
            }
            Origin::Table(_) => None,
        });
        let sent: ProjectionMapping = sent.collect();
        PlanProperties::new(
            input.properties().eq_properties.project(&sent, schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
    }
}

/// Fetches columns of the rows of its input, which are few, from the nodes that have them.
#[derive(Clone, Debug)]
pub struct FetchExec {
    input: Arc<dyn ExecutionPlan>,
    fetching: Arc<Fetching>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FetchExec {
    /// Makes the operator. The result has the columns of `schema`.
    pub fn new(input: Arc<dyn ExecutionPlan>, fetching: Arc<Fetching>, schema: SchemaRef) -> Self {
        let properties = Arc::new(fetching.properties(input.as_ref(), &schema));
        Self { input, fetching, schema, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, self.fetching.clone(), self.schema.clone())
    }

    /// Returns the rows of the input with the columns that are fetched, and what is held for them.
    async fn rows(
        self,
        input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
    ) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let reservation = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let first: Vec<RecordBatch> = input.try_collect().await?;
        let mut places = RoaringTreemap::new();
        for batch in &first {
            places.extend(places_of(batch)?.values());
        }
        let fetched = self.fetched(&places, &context, &reservation).await?;
        let rows = first.iter().filter(|batch| batch.num_rows() > 0);
        let rows = rows.map(|batch| fetched.beside(batch, &self.fetching, &self.schema));
        Ok((rows.collect::<Result<_>>()?, reservation))
    }

    /// Fetches the rows at some places.
    async fn fetched(
        &self,
        places: &RoaringTreemap,
        context: &Arc<TaskContext>,
        reservation: &MemoryReservation,
    ) -> Result<Fetched> {
        let mut fetched = Fetched::default();
        if places.is_empty() {
            return Ok(fetched);
        }
        let (scan, placing) = (self.fetching.scan(places)?, self.fetching.placing.clone());
        let fragments: Vec<u32> = by_fragment(places).into_keys().collect();
        let gather = GatherExec::over(Arc::new(scan), placing, &fragments, context.session_config())?;
        let gather = Arc::new(gather);
        let measured = MetricBuilder::new(&self.metrics).global_counter("fetched_bytes");
        let mut rows = execute_stream(gather.clone(), context.clone())?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let bytes = batch.columns().iter().map(|column| bytes_of(column, 0..batch.num_rows()));
            let bytes = usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX);
            // They are copied once more, into the order of the input.
            reservation.try_grow(bytes.saturating_mul(2))?;
            measured.add(bytes);
            fetched.add(batch)?;
        }
        let attempts = gather.metrics().and_then(|metrics| metrics.sum_by_name(ATTEMPTS));
        let attempts = attempts.map_or(0, |attempts| attempts.as_usize());
        MetricBuilder::new(&self.metrics).global_counter(ATTEMPTS).add(attempts);
        Ok(fetched)
    }
}

/// Rows that were fetched.
#[derive(Default)]
struct Fetched {
    batches: Vec<RecordBatch>,
    /// The batch and the row in it of each place.
    rows: HashMap<u64, (usize, usize)>,
}

impl Fetched {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let number = self.batches.len();
        let places = places_of(&batch)?.values().iter().enumerate();
        self.rows.extend(places.map(|(row, place)| (*place, (number, row))));
        self.batches.push(batch);
        Ok(())
    }

    /// Returns rows with the columns that were fetched of them.
    fn beside(&self, sent: &RecordBatch, fetching: &Fetching, schema: &SchemaRef) -> Result<RecordBatch> {
        let row = |place: &u64| self.rows.get(place).copied().ok_or_else(|| lacks(fetching.table));
        let rows = places_of(sent)?.values().iter().map(row).collect::<Result<Vec<_>>>()?;
        let columns = fetching.columns();
        let column = |origin: &Origin| -> Result<ArrayRef> {
            match origin {
                Origin::Sent(column) => Ok(sent.columns().get(*column).ok_or_else(without_places)?.clone()),
                Origin::Table(column) => {
                    let place = columns.binary_search(column).map_err(|_| lacks(fetching.table))?;
                    let parts = self.batches.iter().filter_map(|batch| batch.columns().get(place));
                    let parts: Vec<&dyn Array> = parts.map(AsRef::as_ref).collect();
                    Ok(interleave(&parts, &rows)?)
                }
            }
        };
        let arrays = fetching.origins.iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(schema.clone(), arrays)?)
    }
}

/// Returns the places of rows, their last column.
fn places_of(rows: &RecordBatch) -> Result<&UInt64Array> {
    rows.columns().last().and_then(|last| last.as_primitive_opt::<UInt64Type>()).ok_or_else(without_places)
}

fn without_places() -> DataFusionError {
    DataFusionError::Internal("rows came without their places".into())
}

fn lacks(table: TableId) -> DataFusionError {
    DataFusionError::Internal(format!("a node has not sent all rows of table {table} that it was asked for"))
}

impl DisplayAs for FetchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.fetching.placing.table_names();
        write!(f, "FetchExec: table={table}, columns=[{}]", self.fetching.names())
    }
}

impl ExecutionPlan for FetchExec {
    fn name(&self) -> &'static str {
        "FetchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    one_input!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let measured = BaselineMetrics::new(&self.metrics, partition);
        let input = self.input.execute(partition, context.clone())?;
        let rows = stream::once(self.clone().rows(input, context));
        let rows = rows.map_ok(move |(batches, reservation)| {
            stream::iter(batches).map(move |batch| {
                let _as_long_as = &reservation;
                Ok(batch)
            })
        });
        let rows = rows.try_flatten().inspect_ok(move |batch| {
            let _counted = batch.record_output(&measured);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
