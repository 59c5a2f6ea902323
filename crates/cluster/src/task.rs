//! Runs a part of a query on a node: decodes its plan, puts the node's own rows in the place of scans
//! of fragments, and optimizes it as any plan of this node.

use crate::change;
use crate::codec;
use crate::message::{Piece, Task};
use crate::node::Node;
use crate::peers::not_here;
use crate::table::FragmentScanExec;
use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use hypostyle_error::column_name::POSITION;
use hypostyle_error::external;
use hypostyle_exec::position::Mode;
use hypostyle_exec::scan::StoredTable;
use hypostyle_expr::setting::{Choice, Setting};
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_types::Error;
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the settings of a session that decide about rows, or about how they are computed.
pub fn settings(options: &ConfigOptions) -> Vec<(String, String)> {
    let time_zone = options.execution.time_zone.clone();
    let time_zone = time_zone.map(|zone| ("datafusion.execution.time_zone".into(), zone));
    let pipelines = Setting::<Mode>::of(options);
    let pipelines = pipelines.map(|mode| (format!("{}.{}", Mode::PREFIX, Mode::NAME), mode.to_string()));
    time_zone.into_iter().chain(pipelines).collect()
}

/// Plans a task on this node and begins to run it. `state` is of a session of this node, for this
/// task alone.
///
/// # Errors
/// `Conflict` if the node does not know the tables; those of the plan.
pub fn run(node: &Arc<Node>, task: &Task, mut state: SessionState) -> Result<SendableRecordBatchStream> {
    for (name, value) in &task.settings {
        state.config_mut().options_mut().set(name, value)?;
    }
    let context = state.task_ctx();
    let own = node.known_catalog().and_then(|catalog| Own::of(node, catalog)).map_err(external)?;
    let mut plans = Vec::with_capacity(task.parts.len());
    for part in &task.parts {
        plans.push(plan_of(&own, task, part, &state, &context)?);
    }
    let plan: Arc<dyn ExecutionPlan> = match plans.len() {
        1 => plans.pop().ok_or_else(|| DataFusionError::Internal("a task without parts".into()))?,
        _ => UnionExec::try_new(plans)?,
    };
    execute_stream(plan, context)
}

/// What a task reads on this node: all of it in one snapshot, whose tables have indexes together.
struct Own<'a> {
    node: &'a Arc<Node>,
    catalog: Arc<Catalog>,
    snapshot: Arc<Snapshot>,
}

impl<'a> Own<'a> {
    fn of(node: &'a Arc<Node>, catalog: Arc<Catalog>) -> hypostyle_types::Result<Self> {
        Ok(Self { node, catalog, snapshot: node.database().snapshot()? })
    }

    fn scan(
        &self,
        scan: &FragmentScanExec,
        piece: Piece,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = rows_of(self.node, &self.catalog, &self.snapshot, piece);
        let (snapshot, data) = found.map_err(external)?;
        let partitions = options.execution.target_partitions;
        let (projection, predicate) = (scan.projection.clone(), scan.predicate.as_ref());
        if !scan.has_places() {
            let table = StoredTable::new(data, snapshot, HashMap::new());
            return Ok(table.scan_where(projection, predicate, partitions));
        }
        let table = StoredTable::with_positions(data.clone(), snapshot, 0);
        with_places(
            table.scan_where(projection, predicate, partitions),
            piece.fragment.number,
            &data,
            options,
        )
    }
}

/// Returns a scan with the places of rows instead of their positions.
fn with_places(
    scan: Arc<dyn ExecutionPlan>,
    fragment: u32,
    table: &Arc<TableData>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let function = Arc::new(change::places(fragment, table));
    let schema = scan.schema();
    let item = |(place, field): (usize, &FieldRef)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
        let expr: Arc<dyn PhysicalExpr> = match field.name() == POSITION {
            true => Arc::new(ScalarFunctionExpr::new(
                function.name(),
                function.clone(),
                vec![column],
                field.clone(),
                Arc::new(options.clone()),
            )),
            false => column,
        };
        (expr, field.name().clone())
    };
    let items = schema.fields().iter().enumerate().map(item);
    Ok(Arc::new(ProjectionExec::try_new(items.collect::<Vec<_>>(), scan)?))
}

/// Returns the plan of one part of a task.
fn plan_of(
    own: &Own<'_>,
    task: &Task,
    part: &[Piece],
    state: &SessionState,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = state.config_options();
    let plan = codec::decode(&task.plan, context, &|scan| {
        let mut pieces = part.iter().chain(&task.replicated);
        let piece = pieces.find(|piece| piece.fragment.table == scan.table);
        let piece = piece.ok_or_else(|| external(unknown(scan)))?;
        own.scan(scan, *piece, options)
    })?;
    DefaultPhysicalPlanner::default().optimize_physical_plan(plan, state, |_, _| {})
}

fn unknown(scan: &FragmentScanExec) -> Error {
    not_here(format!("this node has no rows of table {} that are up to date", scan.table))
}

/// Returns the scan of a replicated table's rows on this node.
///
/// # Errors
/// `Conflict` if the node has none.
pub(crate) fn local_scan(
    node: &Arc<Node>,
    catalog: &Arc<Catalog>,
    scan: &FragmentScanExec,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let own = Own::of(node, catalog.clone()).map_err(external)?;
    let fragment = FragmentId { table: scan.table, number: 0 };
    let replica = own.catalog.replica(fragment, node.id()).filter(|replica| replica.in_sync);
    let replica = replica.ok_or_else(|| external(unknown(scan)))?;
    let piece = Piece { fragment, positions: replica.positions, rows: replica.rows };
    own.scan(scan, piece, options)
}

/// Returns the rows of a fragment on this node.
///
/// # Errors
/// `Conflict` (55000) if the node does not know the table, or has other rows than were published.
pub fn rows_of(
    node: &Arc<Node>,
    catalog: &Catalog,
    snapshot: &Arc<Snapshot>,
    piece: Piece,
) -> hypostyle_types::Result<(Arc<Snapshot>, Arc<TableData>)> {
    let unknown =
        || not_here(format!("node \"{}\" does not know table {}", node.name(), piece.fragment.table));
    let table = catalog.table(piece.fragment.table).ok_or_else(unknown)?;
    let shell = snapshot.table(&table.schema, &table.name).ok_or_else(unknown)?;
    node.fragment(snapshot, piece, shell)
}
