//! What DataFusion scans of Parquet files, with their rows in their order, and an error in the
//! place of a panic: its decoders may panic at what is damaged.

use crate::damage::not_that_format;
use crate::parquet_footer::Footer;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::errors::ParquetError;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use futures::{Stream, StreamExt};
use hypostyle_error::{external, from_datafusion};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A scan of files, each partition of which reads its own parts of them in their order.
#[derive(Debug)]
pub struct OrderedFiles(pub Arc<dyn DataSource>);

fn ordered(inner: Arc<dyn DataSource>) -> Arc<dyn DataSource> {
    Arc::new(OrderedFiles(inner))
}

impl OrderedFiles {
    /// Returns the files of a partition.
    fn files(&self, partition: usize) -> Vec<PathBuf> {
        let config = self.0.downcast_ref::<FileScanConfig>();
        let group = config.and_then(|config| config.file_groups.get(partition));
        let files = group.into_iter().flat_map(|group| group.iter());
        files.filter_map(|file| Some(file.extension::<Footer>()?.path.clone())).collect()
    }
}

impl DataSource for OrderedFiles {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let files = self.files(args.partition);
        let opened = catch_unwind(AssertUnwindSafe(|| self.0.open_with_args(args)));
        let inner = opened.unwrap_or_else(|_| Err(damaged(&files)))?;
        let schema = inner.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, Guarded { inner: Some(inner), files })))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        file_min_size: usize,
        ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(self.0.repartitioned(target_partitions, file_min_size, ordering)?.map(ordered))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.0.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.0.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.0.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.0.partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.0.with_fetch(limit).map(ordered)
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.0.metrics()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(self.0.try_swapping_with_projection(projection)?.map(ordered))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        options: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let FilterPushdownPropagation { filters, updated_node } =
            self.0.try_pushdown_filters(filters, options)?;
        Ok(FilterPushdownPropagation { filters, updated_node: updated_node.map(ordered) })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        Ok(self.0.try_pushdown_sort(order)?.map(ordered))
    }

    /// Returns none: a scan that does not keep the order would give the rows of another partition,
    /// or of the row groups that happen to have enough for LIMIT.
    fn with_preserve_order(&self, _: bool) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }
}

/// Rows of files, until the decoder panics.
struct Guarded {
    inner: Option<SendableRecordBatchStream>,
    files: Vec<PathBuf>,
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        match catch_unwind(AssertUnwindSafe(|| inner.poll_next_unpin(context))) {
            Ok(polled) => polled.map_err(|error| with_name(error, &self.files)),
            Err(_) => {
                self.inner = None;
                Poll::Ready(Some(Err(damaged(&self.files))))
            }
        }
    }
}

/// Returns an error of decoding with the file's name.
fn with_name(error: DataFusionError, files: &[PathBuf]) -> DataFusionError {
    let is_of_decoding = match error.find_root() {
        DataFusionError::ParquetError(inner) => !matches!(inner.as_ref(), ParquetError::External(_)),
        DataFusionError::ArrowError(inner, _) => matches!(inner.as_ref(), ArrowError::ParquetError(_)),
        _ => false,
    };
    match files.first() {
        Some(first) if is_of_decoding => {
            external(not_that_format(first, "Parquet", &from_datafusion(error).message()))
        }
        _ => error,
    }
}

fn damaged(files: &[PathBuf]) -> DataFusionError {
    let reason = match files.len() {
        0 | 1 => "it is damaged".to_string(),
        count => format!("it is damaged, or one of the {} behind it", count - 1),
    };
    let first = files.first().cloned().unwrap_or_default();
    external(not_that_format(&first, "Parquet", &reason))
}
