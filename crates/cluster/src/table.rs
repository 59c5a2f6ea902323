//! Tables of a cluster as DataFusion sees them, and the scan that stands for their fragments in a
//! plan until a node runs it.

use crate::gather::{GatherExec, Placing};
use crate::node::Node;
use crate::state;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, project_schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use hypostyle_error::column_name::POSITION;
use hypostyle_exec::scan::StoredTable;
use hypostyle_expr::{no_expressions, no_inputs};
use hypostyle_placement::catalog::{Catalog, Fragment};
use hypostyle_placement::partition::Partitioning as Scheme;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_types::TableId;
use roaring::RoaringTreemap;
use std::fmt;
use std::sync::Arc;

/// A partitioned table, as one catalog has it.
#[derive(Debug)]
pub struct PartitionedTable {
    pub(crate) node: Arc<Node>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) id: TableId,
    /// The table without rows that the node's own database has: its columns and defaults.
    shell: StoredTable,
    /// The places of the rows that it has, unless all are ([`crate::change`]).
    places: Option<Arc<RoaringTreemap>>,
}

impl PartitionedTable {
    /// Makes a table of the cluster of the node's own table of that name.
    pub fn new(node: Arc<Node>, catalog: Arc<Catalog>, id: TableId, shell: StoredTable) -> Self {
        Self { node, catalog, id, shell, places: None }
    }

    /// Returns the table of the rows at some places, which are its last column.
    #[must_use]
    pub fn at(self, places: Arc<RoaringTreemap>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Returns what stands for the table in a part of a plan.
    pub(crate) fn fragments(&self) -> Fragments {
        Fragments { id: self.id, schema: self.schema(), places: self.places.clone() }
    }

    /// The number of the table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Returns how many rows all fragments have.
    pub fn rows(&self) -> Option<u64> {
        let all = self.catalog.table(self.id).map(hypostyle_placement::catalog::Table::rows);
        self.places.as_ref().map(|places| places.len()).or(all)
    }

    /// The table without rows.
    pub fn shell(&self) -> &StoredTable {
        &self.shell
    }

    /// Returns what this node has of one fragment of the table, with the snapshot that it is of, if most of
    /// it is in files: what is known of its columns is about that of the others, unless rows are placed by
    /// ranges.
    pub fn own_fragment(&self) -> Option<(Arc<Snapshot>, Arc<TableData>)> {
        let table = self.catalog.table(self.id)?;
        if matches!(table.partitioning, Scheme::Range { .. }) {
            return None;
        }
        let is_own = |fragment: &Fragment| {
            let replica = fragment.replica(self.node.id());
            fragment.rows > 0 && replica.is_some_and(|replica| replica.in_sync)
        };
        let (id, _) = table.numbered().find(|(_, fragment)| is_own(fragment))?;
        let snapshot = self.node.database().snapshot().ok()?;
        let data = state::fragment(&snapshot, id).filter(|data| 2 * data.rows_in_files() >= data.rows())?;
        Some((snapshot, data))
    }
}

#[async_trait]
impl TableProvider for PartitionedTable {
    fn schema(&self) -> SchemaRef {
        self.shell.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.shell.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.shell.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.fragments().plan(state, projection, filters)?;
        let placing = Placing::new(self.node.clone(), self.catalog.clone(), vec![self.id]);
        GatherExec::of_scan(scan, placing, state.config())
    }
}

/// A table of the cluster within a part of a plan that a node runs.
#[derive(Debug)]
pub struct Fragments {
    id: TableId,
    schema: SchemaRef,
    /// The places of the rows that are read, unless all are.
    places: Option<Arc<RoaringTreemap>>,
}

impl Fragments {
    /// Makes what stands for a table's fragments.
    pub fn new(id: TableId, schema: SchemaRef) -> Self {
        Self { id, schema, places: None }
    }

    fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<FragmentScanExec> {
        let scan = FragmentScanExec::plan(state, self.id, &self.schema, projection, filters)?;
        Ok(FragmentScanExec { rows: self.places.clone(), ..scan })
    }
}

#[async_trait]
impl TableProvider for Fragments {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.plan(state, projection, filters)?))
    }
}

/// Stands for the rows of a table's fragments. A node puts scans of its own tables in its place.
#[derive(Clone, Debug)]
pub struct FragmentScanExec {
    /// The table.
    pub table: TableId,
    /// The places of its columns in the table.
    pub projection: Vec<usize>,
    /// Rows that do not pass may be left out.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The places of the rows that are read, unless all are.
    pub rows: Option<Arc<RoaringTreemap>>,
    /// All columns of the table.
    pub table_schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl FragmentScanExec {
    /// Makes a scan.
    ///
    /// # Errors
    /// For a projection that the table does not have.
    pub fn try_new(
        table: TableId,
        table_schema: SchemaRef,
        projection: Vec<usize>,
        predicate: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let schema = project_schema(&table_schema, Some(&projection))?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        Ok(Self { table, projection, predicate, rows: None, table_schema, properties })
    }

    /// Says whether the scan gives the places of rows, too ([`crate::change`]), as the last column.
    pub(crate) fn has_places(&self) -> bool {
        self.table_schema.fields().last().is_some_and(|last| last.name() == POSITION)
    }

    /// Returns the scan of the rows at some places.
    pub(crate) fn of_rows(self, places: RoaringTreemap) -> Self {
        Self { rows: Some(Arc::new(places)), ..self }
    }

    /// Returns the scan without its predicate.
    pub(crate) fn of_all_rows(self) -> Self {
        Self { predicate: None, ..self }
    }

    fn plan(
        state: &dyn Session,
        table: TableId,
        schema: &SchemaRef,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<Self> {
        // Nodes scan by positions of their own: the places of rows are compared above the scan.
        let is_of_places = |filter: &&Expr| filter.column_refs().iter().any(|column| column.name == POSITION);
        let filters = filters.iter().filter(|filter| !is_of_places(filter)).cloned();
        let predicate = match conjunction(filters.collect::<Vec<_>>()) {
            Some(filter) => {
                let schema = DFSchema::try_from(schema.as_ref().clone())?;
                Some(state.create_physical_expr(filter, &schema)?)
            }
            None => None,
        };
        let projection = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        Self::try_new(table, schema.clone(), projection, predicate)
    }
}

impl DisplayAs for FragmentScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.properties.eq_properties.schema().fields();
        let columns: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        write!(f, "FragmentScanExec: table={}, columns=[{}]", self.table, columns.join(", "))?;
        if let Some(rows) = &self.rows {
            write!(f, ", rows={}", rows.len())?;
        }
        match &self.predicate {
            Some(predicate) => write!(f, ", predicate={predicate}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for FragmentScanExec {
    fn name(&self) -> &'static str {
        "FragmentScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_inputs!();

    // The predicate is a hint, and nothing else is computed.
    no_expressions!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("a scan of fragments runs on the nodes that have them".into()))
    }
}
