//! Runs a part of a query on a node: decodes its plan, puts the node's own rows in the place of scans
//! of fragments, and optimizes it as any plan of this node.

use crate::codec;
use crate::message::{Piece, Task};
use crate::node::Node;
use crate::peers::not_here;
use crate::table::FragmentScanExec;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::DefaultPhysicalPlanner;
use hypostyle_error::external;
use hypostyle_exec::scan::StoredTable;
use hypostyle_placement::FragmentId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_storage::{Snapshot, TableData};
use hypostyle_types::Error;
use std::collections::HashMap;
use std::sync::Arc;

/// The settings of a session that decide about rows, or about how they are computed.
const SETTINGS: [&str; 2] = ["datafusion.execution.time_zone", "hypostyle.position_pipelines"];

/// Returns the settings that a part of a query needs.
pub fn settings(options: &ConfigOptions) -> Vec<(String, String)> {
    let wanted = options.entries().into_iter().filter(|entry| SETTINGS.contains(&entry.key.as_str()));
    wanted.filter_map(|entry| Some((entry.key, entry.value?))).collect()
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
    let mut plans = Vec::with_capacity(task.parts.len());
    for part in &task.parts {
        plans.push(plan_of(node, task, part, &state, &context)?);
    }
    let plan: Arc<dyn ExecutionPlan> = match plans.len() {
        1 => plans.pop().ok_or_else(|| DataFusionError::Internal("a task without parts".into()))?,
        _ => UnionExec::try_new(plans)?,
    };
    execute_stream(plan, context)
}

/// Returns the plan of one part of a task.
fn plan_of(
    node: &Arc<Node>,
    task: &Task,
    part: &[Piece],
    state: &SessionState,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let catalog = node.known_catalog().map_err(external)?;
    let options = state.config_options();
    let plan = codec::decode(&task.plan, context, &|scan| {
        let mut pieces = part.iter().chain(&task.replicated);
        let piece = pieces.find(|piece| piece.fragment.table == scan.table);
        let piece = piece.ok_or_else(|| external(unknown(scan)))?;
        scan_piece(node, &catalog, scan, *piece, options)
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
    catalog: &Catalog,
    scan: &FragmentScanExec,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let fragment = FragmentId { table: scan.table, number: 0 };
    let replica = catalog.replica(fragment, node.id()).filter(|replica| replica.in_sync);
    let replica = replica.ok_or_else(|| external(unknown(scan)))?;
    let piece = Piece { fragment, positions: replica.positions, rows: replica.rows };
    scan_piece(node, catalog, scan, piece, options)
}

fn scan_piece(
    node: &Arc<Node>,
    catalog: &Catalog,
    scan: &FragmentScanExec,
    piece: Piece,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (snapshot, data) = rows_of(node, catalog, piece).map_err(external)?;
    let table = StoredTable::new(data, snapshot, HashMap::new());
    let partitions = options.execution.target_partitions;
    Ok(table.scan_where(scan.projection.clone(), scan.predicate.as_ref(), partitions))
}

/// Returns the rows of a fragment on this node.
///
/// # Errors
/// `Conflict` (55000) if the node does not know the table, or has other rows than were published.
pub fn rows_of(
    node: &Arc<Node>,
    catalog: &Catalog,
    piece: Piece,
) -> hypostyle_types::Result<(Arc<Snapshot>, Arc<TableData>)> {
    let unknown =
        || not_here(format!("node \"{}\" does not know table {}", node.name(), piece.fragment.table));
    let table = catalog.table(piece.fragment.table).ok_or_else(unknown)?;
    let snapshot = node.database().snapshot()?;
    let shell = snapshot.table(&table.schema, &table.name).ok_or_else(unknown)?;
    node.fragment(piece, shell)
}
