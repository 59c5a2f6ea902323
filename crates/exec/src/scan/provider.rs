//! A table of a snapshot as a DataFusion table provider.

use crate::counters::Counters;
use crate::scan::exec::ScanExec;
use crate::scan::pruning::prune;
use crate::scan::view::engine_field;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{PhysicalExpr, conjunction as physical_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_error::column_name::POSITION;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_types::TableId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads one table as one snapshot has it. Writing goes through the statement layer, never here: DataFusion's
/// way to a table that is written loses filters.
#[derive(Clone, Debug)]
pub struct StoredTable {
    data: Arc<TableData>,
    snapshot: Arc<Snapshot>,
    schema: SchemaRef,
    defaults: HashMap<String, Expr>,
    /// Rows before this position are left out.
    first: u64,
    /// The table of a cluster that each node has all rows of.
    replicated: Option<TableId>,
}

impl StoredTable {
    pub fn new(data: Arc<TableData>, snapshot: Arc<Snapshot>, defaults: HashMap<String, Expr>) -> Self {
        let fields: Vec<_> = data.columns().iter().map(|column| engine_field(&data, column)).collect();
        Self { data, snapshot, schema: Arc::new(Schema::new(fields)), defaults, first: 0, replicated: None }
    }

    /// Returns a table of the same columns and defaults with other rows.
    pub fn with_rows(self, data: Arc<TableData>, snapshot: Arc<Snapshot>) -> Self {
        Self { data, snapshot, ..self }
    }

    /// Says that each node of a cluster has these rows.
    pub fn replicated_as(mut self, table: TableId) -> Self {
        self.replicated = Some(table);
        self
    }

    /// Returns the table of a cluster that this is the node's own replica of.
    pub fn replicated(&self) -> Option<TableId> {
        self.replicated
    }

    /// Returns the rows from a position on, with the position of each as the last column.
    pub fn with_positions(data: Arc<TableData>, snapshot: Arc<Snapshot>, first: u64) -> Self {
        let mut fields: Vec<_> = data.columns().iter().map(|column| engine_field(&data, column)).collect();
        fields.push(Field::new(POSITION, DataType::UInt64, false));
        Self {
            data,
            snapshot,
            schema: Arc::new(Schema::new(fields)),
            defaults: HashMap::new(),
            first,
            replicated: None,
        }
    }

    /// Keeps the files of [`Self::data`].
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns a scan of the rows that pass all filters, with some of the columns; `None` when more
    /// rows than `rows_max` would have to be looked at.
    pub fn filtered_scan(
        &self,
        projection: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        rows_max: u64,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, u64)>> {
        let predicate = (!filters.is_empty()).then(|| physical_conjunction(filters.clone()));
        let ranges = self.ranges(predicate.as_ref());
        let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if rows > rows_max {
            return Ok(None);
        }
        let (data, snapshot) = (self.data.clone(), self.snapshot.clone());
        let scan = ScanExec::new(data, snapshot, &self.schema, projection, ranges, 1);
        Ok(Some((Arc::new(scan.filtered(&filters)?), rows)))
    }

    /// Returns a scan of the rows that may pass a predicate, with some of the columns.
    pub fn scan_where(
        &self,
        projection: Vec<usize>,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        partitions: usize,
    ) -> Arc<dyn ExecutionPlan> {
        self.scan_of(self.ranges(predicate), projection, partitions)
    }

    fn scan_of(
        &self,
        ranges: Vec<std::ops::Range<u64>>,
        projection: Vec<usize>,
        partitions: usize,
    ) -> Arc<dyn ExecutionPlan> {
        let (data, snapshot) = (self.data.clone(), self.snapshot.clone());
        Arc::new(ScanExec::new(data, snapshot, &self.schema, projection, ranges, partitions))
    }

    /// Returns the positions that may have rows that pass.
    fn ranges(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Vec<std::ops::Range<u64>> {
        let mut ranges = prune(&self.data, &self.schema, predicate);
        ranges.retain_mut(|range| {
            range.start = range.start.max(self.first);
            !range.is_empty()
        });
        ranges
    }

    /// Says whether no rows are left out.
    pub fn has_all_rows(&self) -> bool {
        self.first == 0
    }

    pub fn data(&self) -> &Arc<TableData> {
        &self.data
    }
}

/// Says whether two tables are one, of which a scan gives the same rows.
pub fn is_same_table(one: &dyn TableProvider, other: &dyn TableProvider) -> bool {
    match (one.downcast_ref::<StoredTable>(), other.downcast_ref::<StoredTable>()) {
        (Some(one), Some(other)) => {
            Arc::ptr_eq(&one.data, &other.data)
                && Arc::ptr_eq(&one.snapshot, &other.snapshot)
                && one.schema == other.schema
                && one.first == other.first
        }
        _ => false,
    }
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Blocks are left out by their bounds; the rows that remain are filtered above the scan.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let predicate = match conjunction(filters.to_vec()) {
            Some(filter) => {
                let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
                Some(state.create_physical_expr(filter, &schema)?)
            }
            None => None,
        };
        let mut ranges = self.ranges(predicate.as_ref());
        if let Some(limit) = limit.filter(|_| filters.is_empty() && self.data.deleted().is_empty()) {
            keep_first(&mut ranges, limit as u64);
        }
        if let Some(counters) = state.config().get_extension::<Counters>() {
            let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            counters.total.fetch_add(rows, Ordering::Relaxed);
        }
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        Ok(self.scan_of(ranges, projection, state.config().target_partitions()))
    }
}

fn keep_first(ranges: &mut Vec<std::ops::Range<u64>>, mut rows: u64) {
    ranges.retain_mut(|range| {
        range.end = range.end.min(range.start + rows);
        rows -= range.end - range.start;
        !range.is_empty()
    });
}
