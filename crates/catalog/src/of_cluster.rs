//! Tables of a cluster as a session sees them: the rows that are published, without those that its open
//! transaction has deleted, and those that this has appended.
//!
//! Rows have places, so that statements can change them: published ones those of
//! [`hypostyle_cluster::change`], the transaction's own their positions, told apart by a bit ([`OWN`]).

use crate::scope::{Name, Scope};
use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, SchemaRef, UInt64Type};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarUDF, TableProviderFilterPushDown, TableType, Volatility, create_udf,
};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use hypostyle_cluster::change::OWN;
use hypostyle_cluster::message::Piece;
use hypostyle_cluster::node::Node;
use hypostyle_cluster::peers::is_elsewhere;
use hypostyle_cluster::table::PartitionedTable;
use hypostyle_error::column_name::POSITION;
use hypostyle_exec::scan::StoredTable;
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::partition::Partitioning;
use hypostyle_types::TableId;
use roaring::RoaringTreemap;
use std::sync::Arc;

/// A table of a cluster, as one catalog has it.
type OfCluster = (Arc<Node>, Arc<Catalog>, TableId);

/// Returns a table of a cluster; `shell` is the one in the node's own database, which has no rows but
/// those that the open transaction has appended.
pub(crate) fn of_cluster(
    scope: &Scope,
    cluster: OfCluster,
    shell: StoredTable,
) -> hypostyle_types::Result<Arc<dyn TableProvider>> {
    let gone = scope.deleted_of(cluster.2);
    let published = match &gone {
        None if shell.data().positions() == 0 => return published(cluster, shell),
        None => published(cluster, shell.clone())?,
        Some(_) => {
            cluster.0.check_columns(shell.snapshot(), &cluster.1, cluster.2)?;
            placed(cluster, StoredTable::with_positions(shell.data().clone(), shell.snapshot().clone(), 0))
        }
    };
    Ok(Arc::new(Changed { published, gone, staged: shell, has_places: false }))
}

/// Returns a table of a cluster with the places of its rows; `shell` has the positions of those that the open
/// transaction has appended.
pub(crate) fn of_cluster_with_places(
    scope: &Scope,
    cluster: OfCluster,
    shell: StoredTable,
) -> Arc<dyn TableProvider> {
    let gone = scope.deleted_of(cluster.2);
    let published = placed(cluster, shell.clone());
    match gone.is_none() && shell.data().positions() == 0 {
        true => published,
        false => Arc::new(Changed { published, gone, staged: shell, has_places: true }),
    }
}

/// Returns the rows of a table of the cluster that are published, with their places: also those that the open
/// transaction has deleted. Places are the same on all nodes, so that any of them may tell them. There may be
/// some that are wanted.
pub(crate) fn with_places(
    scope: &Scope,
    name: &Name,
    places: Option<Arc<RoaringTreemap>>,
) -> Option<Arc<dyn TableProvider>> {
    let (node, catalog, id) = scope.cluster_table(name)?;
    let snapshot = scope.snapshot_of(&name.database)?;
    let data = snapshot.table(&name.schema, &name.name)?.with_views();
    let shell = StoredTable::with_positions(data, snapshot, 0);
    let table = PartitionedTable::new(node, catalog, id, shell);
    Some(Arc::new(match places {
        Some(places) => table.at(places),
        None => table,
    }))
}

/// Returns the rows that the open transaction has appended to a table of the cluster, from a position on,
/// with their positions.
pub(crate) fn staged(scope: &Scope, name: &Name, first: u64) -> Option<Arc<dyn TableProvider>> {
    let snapshot = scope.snapshot_of(&name.database)?;
    let data = snapshot.table(&name.schema, &name.name)?.with_views();
    Some(Arc::new(StoredTable::with_positions(data, snapshot, first)))
}

fn placed((node, catalog, id): OfCluster, shell: StoredTable) -> Arc<dyn TableProvider> {
    Arc::new(PartitionedTable::new(node, catalog, id, shell))
}

/// Returns the rows of a table of a cluster that are published. A replica of this node is a table like
/// others.
fn published(
    (node, catalog, id): OfCluster,
    shell: StoredTable,
) -> hypostyle_types::Result<Arc<dyn TableProvider>> {
    let fragment = FragmentId { table: id, number: 0 };
    node.check_columns(shell.snapshot(), &catalog, id)?;
    let replicated = catalog.table(id).filter(|table| table.partitioning == Partitioning::Replicated);
    let own = catalog.replica(fragment, node.id()).filter(|own| own.in_sync);
    let Some((table, own)) = replicated.zip(own) else {
        return Ok(Arc::new(PartitionedTable::new(node, catalog, id, shell)));
    };
    match node.fragment(shell.snapshot(), Piece::of(table, fragment, own)) {
        Ok((snapshot, data)) => Ok(Arc::new(shell.with_rows(data, snapshot).replicated_as(id))),
        // Other nodes have the rows.
        Err(error) if is_elsewhere(&error) => Ok(Arc::new(PartitionedTable::new(node, catalog, id, shell))),
        Err(error) => Err(error),
    }
}

/// A table of a cluster that the open transaction has changed.
#[derive(Debug)]
struct Changed {
    /// The rows that others see; with their places as the last column, if these are wanted or some rows are
    /// gone.
    published: Arc<dyn TableProvider>,
    /// The places of those that the transaction has deleted.
    gone: Option<Arc<RoaringTreemap>>,
    /// The rows that it has appended; with their positions, if places are wanted.
    staged: StoredTable,
    has_places: bool,
}

impl Changed {
    /// Returns a scan of the published rows that are not gone.
    async fn without(
        &self,
        state: &dyn Session,
        gone: &Arc<RoaringTreemap>,
        wanted: &[usize],
        filters: &[Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let last = self.published.schema().fields().len().saturating_sub(1);
        let mut read = wanted.to_vec();
        if !read.contains(&last) {
            read.push(last);
        }
        let place = read.iter().position(|column| *column == last).unwrap_or_default();
        let rows = self.published.scan(state, Some(&read), filters, None).await?;
        let function = Arc::new(is_there(gone));
        let predicate = ScalarFunctionExpr::new(
            function.name(),
            function.clone(),
            vec![Arc::new(Column::new(POSITION, place))],
            Arc::new(Field::new(function.name(), DataType::Boolean, false)),
            state.config().options().clone(),
        );
        let rows: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(Arc::new(predicate), rows)?);
        if read.len() == wanted.len() {
            return Ok(rows);
        }
        let schema = rows.schema();
        let fields = schema.fields().iter().enumerate().take(wanted.len());
        let items = fields.map(|(place, field)| (column(field, place), field.name().clone()));
        Ok(Arc::new(ProjectionExec::try_new(items.collect::<Vec<_>>(), rows)?))
    }
}

#[async_trait]
impl TableProvider for Changed {
    fn schema(&self) -> SchemaRef {
        self.staged.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.staged.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.staged.schema().fields().len()).collect();
        let wanted: Vec<usize> = projection.cloned().unwrap_or_else(all);
        // Scans know positions, and not the places that are compared with them.
        let is_of_place = |filter: &&Expr| filter.column_refs().iter().any(|column| column.name == POSITION);
        let limit = limit.filter(|_| !filters.iter().any(|filter| is_of_place(&filter)));
        let filters: Vec<Expr> = filters.iter().filter(|filter| !is_of_place(filter)).cloned().collect();
        let published = match &self.gone {
            Some(gone) => self.without(state, gone, &wanted, &filters).await?,
            None => self.published.scan(state, Some(&wanted), &filters, limit).await?,
        };
        let staged = self.staged.scan(state, Some(&wanted), &filters, limit).await?;
        let staged = if self.has_places { with_own_places(staged)? } else { staged };
        UnionExec::try_new(vec![published, staged])
    }
}

/// Returns a function that says which places are not among those of rows that are gone.
fn is_there(gone: &Arc<RoaringTreemap>) -> ScalarUDF {
    let gone = gone.clone();
    let of = move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let [ColumnarValue::Array(places)] = arguments else {
            return Err(DataFusionError::Internal("rows are told apart by their places".into()));
        };
        let places = places.as_primitive::<UInt64Type>().values().iter();
        let there: Vec<bool> = places.map(|place| !gone.contains(*place)).collect();
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(there))))
    };
    create_udf("is_there", vec![DataType::UInt64], DataType::Boolean, Volatility::Immutable, Arc::new(of))
}

/// Returns rows of the transaction with their places instead of their positions.
fn with_own_places(rows: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let item = |(place, field): (usize, &Arc<Field>)| {
        let column = column(field, place);
        let expr: Arc<dyn PhysicalExpr> = match field.name() == POSITION {
            true => {
                let own: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::UInt64(Some(OWN))));
                Arc::new(BinaryExpr::new(column, Operator::BitwiseOr, own))
            }
            false => column,
        };
        (expr, field.name().clone())
    };
    let items = schema.fields().iter().enumerate().map(item);
    Ok(Arc::new(ProjectionExec::try_new(items.collect::<Vec<_>>(), rows)?))
}

fn column(field: &Field, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(field.name(), place))
}
